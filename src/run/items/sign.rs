//! `<sign>`: integrity stamps for the project's items.
//!
//! What is stamped and unchanged is left as it is, so that signing twice writes nothing. An item with
//! mistakes is not signed: a stamp says that somebody found it good.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use serde_json::{Value, json};

use super::parameters::Given;
use super::{Home, ItemEffect, ItemStepError, Write, shown};
use crate::context::{Context, ITEMS};
use crate::item::code::Code;
use crate::item::finding::{Finding, Findings, Severity, Strength};
use crate::item::search::Scope;
use crate::item::signature::Integrity;
use crate::item::signature::stamp::{self, Stamped};
use crate::item::source::{MAX_TEXT, SourceFile};
use crate::item::store::{Item, ItemKind, ItemStore, Layer, LookupError};
use crate::item::validate::{self, Unsigned};

/// What is no reason not to sign.
const STAMPS: [Code; 4] = [Code::Unsigned, Code::HashMismatch, Code::ForeignStamp, Code::InvalidStamp];

/// Why an item is not signed, and the way out.
struct Refusal {
    reason: String,
    hint: Option<String>,
}

/// Signs what an id or a pattern names.
pub(super) fn sign(ctx: &Context, store: &ItemStore, given: &Given<'_>) -> Result<ItemEffect, ItemStepError> {
    if !matches!(given.scope()?, None | Some(Scope::Local | Scope::All | Scope::Only(Layer::Project))) {
        return Err(given.wrong("source", "must be `project`: only its items are signed"));
    }
    let wanted = given.required("item_id")?;
    let kind = given.kind()?;
    let (items, broken) = if wanted.contains(['*', '?', '[', '{']) {
        matching(store, kind, &wanted, given)?
    } else {
        (vec![named(store, kind, &wanted, given)?], Vec::new())
    };
    let is_one = broken.is_empty() && items.len() == 1;
    let time = ctx.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let (mut signed, mut unchanged, mut writes) = (Vec::new(), Vec::new(), Vec::new());
    let mut failed = broken;
    for item in items {
        let path = store.roots().display(&item.file);
        let entry = |rest: Value| with(json!({"name": item.id, "item_type": item.kind(), "path": shown(&path)}), rest);
        if let Integrity::Valid { hash, .. } = &item.integrity {
            unchanged.push(entry(json!({"hash": hash})));
            continue;
        }
        match stamped(ctx, store, item, &time) {
            Ok(stamped) => {
                signed.push(entry(json!({"hash": stamped.hash})));
                let path = stamped.file.strip_prefix(&ctx.root).unwrap_or(&stamped.file).to_path_buf();
                writes.push(Write::text(Home::Project, path, stamped.content));
            }
            Err(Refusal { reason, hint }) if is_one => {
                return Err(ItemStepError::NotSignable { name: item.id.to_string(), reason, hint });
            }
            Err(Refusal { reason, hint }) => failed.push(entry(json!({"error": reason, "suggestion": hint}))),
        }
    }
    let message = message(signed.len(), unchanged.len(), failed.len());
    if let (true, true, Some(first)) = (signed.is_empty(), unchanged.is_empty(), failed.first()) {
        return Err(ItemStepError::NotSignable {
            name: wanted,
            reason: format!("{message}; the first: {}", first["error"].as_str().unwrap_or_default()),
            hint: Some("`piton validate` says what is wrong with them".to_owned()),
        });
    }
    let result = json!({"signed": signed, "unchanged": unchanged, "failed": failed, "message": message});
    Ok(ItemEffect { result, writes })
}

fn message(signed: usize, unchanged: usize, failed: usize) -> String {
    let mut message = format!("signed {signed} of {} items", signed + unchanged + failed);
    for (count, words) in [(unchanged, "unchanged"), (failed, "cannot be signed")] {
        if count > 0 {
            message = format!("{message}, {count} {words}");
        }
    }
    message
}

/// The one item of the project with this id.
fn named<'s>(
    store: &'s ItemStore,
    kind: Option<ItemKind>,
    wanted: &str,
    given: &Given<'_>,
) -> Result<&'s Item, ItemStepError> {
    super::load::find(store, kind, wanted, Scope::Only(Layer::Project), given).map_err(|err| match err {
        ItemStepError::Wrong { .. } | ItemStepError::Lookup(LookupError::NotFound { .. }) => {
            let elsewhere = super::load::find(store, kind, wanted, Scope::All, given);
            match elsewhere {
                Ok(item) => ItemStepError::NotOfTheProject { name: item.id.to_string(), layer: item.layer },
                Err(other) => other,
            }
        }
        other => other,
    })
}

/// The items of the project that a pattern means, and those of its files that hold none.
fn matching<'s>(
    store: &'s ItemStore,
    kind: Option<ItemKind>,
    pattern: &str,
    given: &Given<'_>,
) -> Result<(Vec<&'s Item>, Vec<Value>), ItemStepError> {
    // `ops/*` means what is below `ops/`, in folders of it as well.
    let glob = GlobBuilder::new(pattern).literal_separator(false).build();
    let glob =
        glob.map_err(|err| given.wrong("item_id", format!("is not a pattern: {}", err.kind())))?.compile_matcher();
    let is_wanted = |of: ItemKind| kind.is_none_or(|kind| kind == of);
    let items: Vec<&Item> = store
        .items()
        .iter()
        .filter(|item| item.layer == Layer::Project && is_wanted(item.kind()))
        .filter(|item| matches(&glob, &item.category, item.id.as_str()))
        .collect();
    let known: BTreeSet<&Path> = items.iter().map(|item| item.file.as_path()).collect();
    let root = store.roots().project.clone().unwrap_or_default();
    let broken: Vec<Value> = store
        .broken()
        .filter(|(of, file)| is_wanted(*of) && !known.contains(file))
        .filter_map(|(of, file)| {
            let inside = file.strip_prefix(root.join(ITEMS)).ok()?.components().skip(1).collect::<PathBuf>();
            let name = inside.file_stem()?.to_str()?;
            let category = inside.parent().map(shown).unwrap_or_default();
            matches(&glob, &category, name).then(|| {
                json!({
                    "name": name,
                    "item_type": of,
                    "path": shown(&store.roots().display(file)),
                    "error": "it cannot be read as an item",
                    "suggestion": "`piton validate` says why",
                })
            })
        })
        .collect();
    if items.is_empty() && broken.is_empty() {
        return Err(ItemStepError::NothingMatches(pattern.to_owned()));
    }
    Ok((items, broken))
}

fn matches(glob: &GlobMatcher, category: &str, id: &str) -> bool {
    glob.is_match(id) || !category.is_empty() && glob.is_match(format!("{category}/{id}"))
}

/// Stamps an item that deserves it.
fn stamped(ctx: &Context, store: &ItemStore, item: &Item, time: &str) -> Result<Stamped, Refusal> {
    if let Some(error) = first_error(store, item) {
        return Err(Refusal { reason: format!("{}: {}", error.code, error.message), hint: error.suggestion });
    }
    let file = real_file(ctx, item)?;
    let mut findings = Findings::new(&store.roots().display(&file), Strength::Lenient);
    let Some(source) = SourceFile::load(&file, MAX_TEXT, &mut findings) else {
        let reason = findings.into_vec().pop().map_or_else(|| "it cannot be read".to_owned(), |found| found.message);
        return Err(Refusal { reason, hint: None });
    };
    let raw = source.raw();
    let folder = item.as_tool().and_then(|tool| tool.folder.as_ref()).and_then(|_| file.parent());
    let stamped = match folder {
        Some(folder) => stamp::stamp_folder(folder, &file, &raw, time),
        None => stamp::stamp_file(&file, &raw, time),
    };
    stamped.map_err(|err| Refusal { reason: err.to_string(), hint: err.hint() })
}

/// The first mistake of an item.
fn first_error(store: &ItemStore, item: &Item) -> Option<Finding> {
    let home = item.as_tool().and_then(|tool| tool.folder.as_deref()).unwrap_or(&item.file);
    let home = store.roots().display(home);
    let mut rules = Findings::new(&store.roots().display(&item.file), Strength::Lenient);
    validate::check(item, store, Unsigned::Warned, &mut rules);
    let mut all = store.findings().filter(|finding| finding.file.starts_with(&home)).cloned().chain(rules.into_vec());
    all.find(|finding| finding.severity == Severity::Error && !STAMPS.contains(&finding.code))
}

/// The file of an item without links on the way; what a link leads out of `.ai/` to is not written.
fn real_file(ctx: &Context, item: &Item) -> Result<PathBuf, Refusal> {
    let refusal = |reason: String| Refusal { reason, hint: Some("replace the link by what it leads to".to_owned()) };
    let real = |path: &Path| fs::canonicalize(path).map_err(|err| refusal(format!("its file cannot be found: {err}")));
    let file = real(&item.file)?;
    if !file.starts_with(ctx.root.join(ITEMS)) {
        return Err(refusal("a link leads out of `.ai/`".to_owned()));
    }
    // Writing the manifest would put a file in the place of the link.
    if let Some(folder) = item.as_tool().and_then(|tool| tool.folder.as_deref())
        && Some(real(folder)?.as_path()) != file.parent()
    {
        return Err(refusal("its manifest is a link".to_owned()));
    }
    Ok(file)
}

fn with(mut entry: Value, rest: Value) -> Value {
    if let (Value::Object(entry), Value::Object(rest)) = (&mut entry, rest) {
        entry.extend(rest);
    }
    entry
}
