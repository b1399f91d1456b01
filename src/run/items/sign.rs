//! `<sign>`: integrity stamps for the items of the project or the user.
//!
//! What is stamped and unchanged is left as it is, so that signing twice writes nothing. An item with
//! mistakes, which are those that `validate` finds, is not signed: a stamp says that somebody found it good.
//! [`selection`] knows what a pattern means, [`authored`] adds the signature of a person, [`check`] only looks.

pub(super) mod authored;
pub(super) mod check;
pub(super) mod selection;

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::parameters::Given;
use super::{Access, Home, ItemAnswer, ItemEffect, ItemStepError, Write, shown};
use crate::context::{Context, ITEMS};
use crate::item::finding::{Findings, Strength};
use crate::item::search::Scope;
use crate::item::signature::stamp::{self, Stamped, Tidied};
use crate::item::signature::{Integrity, author_file};
use crate::item::source::{MAX_TEXT, SourceFile};
use crate::item::store::{Item, ItemKind, ItemStore, Layer};
use crate::item::validate::Unsigned;
use crate::problem::{Call, Explain, Hint, hint};
use crate::validation::{self, Options};

/// What was signed, and what was not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Signed {
    /// The same about the one tool that was named, as callers of a tool expect it.
    #[serde(flatten)]
    pub tool: Option<SignedTool>,
    /// Items that got a new stamp or signature.
    pub signed: Vec<SignedItem>,
    /// Items that are signed and unchanged.
    pub unchanged: Vec<SignedItem>,
    /// Items that cannot be signed.
    pub failed: Vec<Unsignable>,
    /// How many of each, in words.
    pub message: String,
}

/// The one tool that was signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SignedTool {
    /// Its id.
    pub tool_id: String,
    /// Always `sign`.
    pub action: &'static str,
    /// Always `signed`.
    pub status: &'static str,
    /// The stamp.
    pub signature: String,
    /// The sha256 in the stamp.
    pub hash: String,
}

/// An item with a stamp.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SignedItem {
    /// Its id, without category.
    pub name: String,
    /// What it is.
    pub item_type: ItemKind,
    /// Its file.
    pub path: String,
    /// The sha256 in the stamp.
    pub hash: String,
    /// When it was stamped.
    pub time: String,
    /// The fingerprint of the key that signed it now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// The file of a person's signature that was there before and may be of other content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earlier_signature: Option<String>,
    /// Its file, relative to whose it is.
    #[serde(skip)]
    place: PathBuf,
    #[serde(skip)]
    home: Home,
}

/// An item that cannot be signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unsignable {
    /// Its id, or the name of its file.
    pub name: String,
    /// What it is.
    pub item_type: ItemKind,
    /// Its file.
    pub path: String,
    /// Why.
    pub error: String,
    /// What to do about it.
    pub suggestion: Option<Hint>,
}

/// Why an item is not signed, and the way out.
struct Refusal {
    reason: String,
    hint: Option<Hint>,
}

/// Signs what ids, paths or patterns name.
pub(super) fn sign(ctx: &Context, store: &ItemStore, given: &Given<'_>) -> Result<ItemEffect, ItemStepError> {
    let home = match given.scope()? {
        None | Some(Scope::Local | Scope::All | Scope::Only(Layer::Project)) => Home::Project,
        Some(Scope::Only(Layer::User)) => Home::User,
        Some(_) => return Err(given.wrong("source", "must be `project` or `user`: only their items are signed")),
    };
    let wanted = given.texts("item_id")?;
    let selection = selection::select(ctx, store, given, home.layer(), &wanted)?;
    let is_one = selection.broken.is_empty() && selection.items.len() == 1;
    let time = ctx.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let (mut signed, mut unchanged, mut writes) = (Vec::new(), Vec::new(), Vec::new());
    let mut failed = selection.broken;
    let (stamped_before, others): (Vec<&Item>, Vec<&Item>) =
        selection.items.into_iter().partition(|item| matches!(item.integrity, Integrity::Valid { .. }));
    let options = Options { strength: Strength::Lenient, unsigned: Unsigned::Warned, ..Options::of(ctx) };
    let mistakes = validation::first_errors(&others, store, &options);
    let others = others.into_iter().zip(mistakes);
    for (item, mistake) in stamped_before.into_iter().map(|item| (item, None)).chain(others) {
        let (name, item_type, path) = (item.id.to_string(), item.kind(), shown(&store.roots().display(&item.file)));
        let top = top(ctx, home)?;
        let place = item.file.strip_prefix(top).unwrap_or(&item.file).to_path_buf();
        let entry = |hash: &str, time: &str| SignedItem {
            name: name.clone(),
            item_type,
            path: path.clone(),
            hash: hash.to_owned(),
            time: time.to_owned(),
            author: None,
            earlier_signature: None,
            place: place.clone(),
            home,
        };
        if let Integrity::Valid { hash, time } = &item.integrity {
            unchanged.push(entry(hash, time));
            continue;
        }
        let stamped = match mistake {
            Some(error) => {
                Err(Refusal { reason: format!("{}: {}", error.code, error.message), hint: error.suggestion })
            }
            None => stamped(ctx, store, item, home, &time),
        };
        match stamped {
            Ok(stamped) => {
                let beside = author_file(&item.file);
                let earlier_signature = beside.is_file().then(|| shown(&store.roots().display(&beside)));
                signed.push(SignedItem { earlier_signature, ..entry(&stamped.hash, &time) });
                add_writes(&mut writes, stamped, top, home);
            }
            Err(Refusal { reason, hint }) if is_one => {
                return Err(ItemStepError::NotSignable { name, reason, hint });
            }
            Err(Refusal { reason: error, hint: suggestion }) => {
                failed.push(Unsignable { name, item_type, path, error, suggestion });
            }
        }
    }
    let mut answer = Signed { tool: None, signed, unchanged, failed, message: String::new() };
    answer.tell();
    if let (true, true, Some(first)) = (answer.signed.is_empty(), answer.unchanged.is_empty(), answer.failed.first()) {
        return Err(ItemStepError::NotSignable {
            name: wanted.join(" "),
            reason: format!("{}; the first: `{}`: {}", answer.message, first.name, first.error),
            hint: Some(match home {
                Home::User => "`piton validate ~/.ai` says what is wrong with them".into(),
                Home::Project => hint![Call::Validate, " says what is wrong with them"],
            }),
        });
    }
    Ok(ItemEffect { answer: ItemAnswer::Sign(answer), writes })
}

impl Signed {
    /// Says anew how many of each there are.
    fn tell(&mut self) {
        let (signed, unchanged, failed) = (self.signed.len(), self.unchanged.len(), self.failed.len());
        let all = signed + unchanged + failed;
        let items = if all == 1 { "item" } else { "items" };
        self.message = format!("signed {signed} of {all} {items}");
        for (count, words) in [(unchanged, "unchanged"), (failed, "cannot be signed")] {
            if count > 0 {
                self.message = format!("{}, {count} {words}", self.message);
            }
        }
        let mut all = self.signed.iter().chain(&self.unchanged);
        self.tool = match (all.next(), all.next(), self.failed.is_empty()) {
            (Some(item), None, true) if item.item_type == ItemKind::Tool => Some(SignedTool {
                tool_id: item.name.clone(),
                action: "sign",
                status: "signed",
                signature: format!("kiwi-mcp:validated:{}:{}", item.time, item.hash),
                hash: item.hash.clone(),
            }),
            _ => None,
        };
    }
}

fn add_writes(writes: &mut Vec<Write>, stamped: Stamped, top: &Path, home: Home) {
    let place = |file: PathBuf| file.strip_prefix(top).map(Path::to_path_buf).unwrap_or(file);
    match stamped.tidied {
        // Others use that name for signatures of their own.
        Tidied::Removed(file) if stamp::holds_stamp(&file) => {
            writes.push(Write { home, path: place(file), content: None, access: Access::Plain });
        }
        Tidied::Rewritten(file, content) => writes.push(Write::text(home, place(file), content)),
        Tidied::Removed(_) | Tidied::Nothing => {}
    }
    writes.push(Write::text(home, place(stamped.file), stamped.content));
}

/// The folder with the `.ai/` of somebody, without links.
pub(super) fn top(ctx: &Context, home: Home) -> Result<&Path, ItemStepError> {
    match home {
        Home::Project => Ok(&ctx.root),
        Home::User => ctx.home.as_deref().ok_or(ItemStepError::NoHome),
    }
}

/// Stamps an item.
fn stamped(ctx: &Context, store: &ItemStore, item: &Item, home: Home, time: &str) -> Result<Stamped, Refusal> {
    let file = real_file(ctx, item, home)?;
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

/// The file of an item without links on the way; what a link leads out of `.ai/` to is not written.
fn real_file(ctx: &Context, item: &Item, home: Home) -> Result<PathBuf, Refusal> {
    let refusal = |reason: String| Refusal { reason, hint: Some("replace the link by what it leads to".into()) };
    let real = |path: &Path| fs::canonicalize(path).map_err(|err| refusal(format!("its file cannot be found: {err}")));
    let file = real(&item.file)?;
    let items = top(ctx, home).map_err(|err| refusal(err.to_string()))?.join(ITEMS);
    // People keep their own items elsewhere and link to them as a whole; a project is what was cloned.
    if home == Home::User {
        return match item.file.strip_prefix(&items) {
            Ok(inside) if real(&items)?.join(inside) == file => Ok(item.file.clone()),
            _ => Err(refusal("a link lies on the way to it".to_owned())),
        };
    }
    if !file.starts_with(items) {
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
