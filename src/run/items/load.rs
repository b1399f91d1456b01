//! `<load>`: the content of an item, and copies of it between project and user.
//!
//! Only a load with a destination writes anything. A copy is verified before and stamped anew, lies at
//! the same place below `.ai/`, and replaces nothing unless it is told to.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value, json};
use walkdir::WalkDir;

use super::parameters::Given;
use super::{Home, ItemEffect, ItemStepError, Write, layers, shown};
use crate::context::{Context, ITEMS};
use crate::item::search::Scope;
use crate::item::signature::stamp::{self, StampError};
use crate::item::signature::{Integrity, UNSTAMPED_FOLDERS, detached_file};
use crate::item::source::{MAX_TEXT, read_bytes};
use crate::item::store::{Content, Item, ItemKind, ItemStore, Layer, LookupError, PRIMITIVES, builtin_text};
use crate::item::validate;

/// The most that a file of a tool folder may hold to be copied.
const MAX_COPIED: u64 = 16 * 1024 * 1024;

/// Files by where they are copied to: what they hold, and whether they may be started by name.
type Files = BTreeMap<PathBuf, (Vec<u8>, bool)>;

/// Loads an item.
pub(super) fn load(ctx: &Context, store: &ItemStore, given: &Given<'_>) -> Result<ItemEffect, ItemStepError> {
    let id = given.required("item_id")?;
    let scope = given.scope()?.unwrap_or(Scope::All);
    let item = find(store, given.kind()?, &id, scope, given)?;
    let overwrite = given.flag("overwrite")?;
    let destination = match given.text("destination")?.as_deref() {
        None => None,
        Some("project") => Some(Home::Project),
        Some("user") => Some(Home::User),
        Some(_) => return Err(given.wrong("destination", "must be `project` or `user`")),
    };
    let content = content(item)?;
    let mut result = Map::new();
    for (key, value) in [
        ("name", json!(item.id)),
        ("item_type", json!(item.kind())),
        ("path", json!(shown(&store.roots().display(&item.file)))),
        ("content", json!(content)),
        ("source", json!(item.layer)),
        ("metadata", metadata(item)),
    ] {
        result.insert(key.to_owned(), value);
    }
    // A copy of something onto itself is a look at it.
    let mut writes = Vec::new();
    if let Some(home) = destination.filter(|home| home.layer() != item.layer) {
        writes = copy(ctx, store, item, &content, home, overwrite)?;
        let place = writes.last().map(|write| shown(&write.path)).unwrap_or_default();
        let message = format!("copied from {} to {} as `{place}`", item.layer, home.layer());
        result.insert("destination".to_owned(), json!(home.layer()));
        result.insert("message".to_owned(), json!(message));
    }
    Ok(ItemEffect { result: Value::Object(result), writes })
}

/// Finds the one item that an id means.
pub(super) fn find<'s>(
    store: &'s ItemStore,
    kind: Option<ItemKind>,
    id: &str,
    scope: Scope,
    given: &Given<'_>,
) -> Result<&'s Item, ItemStepError> {
    let layers = layers(scope);
    let kinds = kind.map_or_else(|| vec![ItemKind::Tool, ItemKind::Directive, ItemKind::Knowledge], |kind| vec![kind]);
    let mut found = Vec::new();
    let (mut failure, mut elsewhere) = (None, None);
    for kind in kinds {
        match store.find_in(kind, id, &layers) {
            Ok(item) => found.push(item),
            Err(err @ LookupError::NotFound { .. }) => {
                failure = failure.or(Some(err));
                elsewhere = elsewhere.or_else(|| store.find(kind, id).ok());
            }
            // What is there and cannot be used says more than what is not there.
            Err(err) => return Err(err.into()),
        }
    }
    match (found.as_slice(), elsewhere, failure) {
        ([item], ..) => Ok(item),
        ([], Some(item), _) => {
            let reason = format!("leaves `{}` out, which comes from the {} layer", item.id, item.layer);
            Err(given.wrong("source", reason))
        }
        ([], None, Some(err)) => Err(err.into()),
        _ => Err(given.wrong("item_type", format!("is needed: several kinds of items are called `{id}`"))),
    }
}

/// The text of an item's file.
fn content(item: &Item) -> Result<String, ItemStepError> {
    if let Some(text) = builtin_text(&item.file) {
        return Ok(text.to_owned());
    }
    let unreadable = |reason: String| ItemStepError::Unreadable { path: item.file.clone(), reason };
    let bytes = read_bytes(&item.file, MAX_TEXT).map_err(|err| unreadable(err.to_string()))?;
    String::from_utf8(bytes).map_err(|_| unreadable("not valid UTF-8".to_owned()))
}

/// What an item says about itself, as it was understood.
fn metadata(item: &Item) -> Value {
    let mut metadata = match &item.content {
        Content::Tool(tool) => json!(tool.manifest),
        Content::Directive(directive) => json!(directive),
        Content::Knowledge(entry) => entry.front_matter.clone(),
    };
    if let Value::Object(fields) = &mut metadata {
        fields.insert("category".to_owned(), json!(item.category));
        fields.insert("integrity".to_owned(), json!(item.integrity));
    }
    metadata
}

fn copy(
    ctx: &Context,
    store: &ItemStore,
    item: &Item,
    content: &str,
    home: Home,
    overwrite: bool,
) -> Result<Vec<Write>, ItemStepError> {
    if PRIMITIVES.contains(&item.id.as_str()) && item.layer == Layer::Builtin {
        return Err(ItemStepError::Primitive(item.id.to_string()));
    }
    if matches!(item.integrity, Integrity::Mismatch { .. } | Integrity::Invalid { .. }) {
        return Err(ItemStepError::Tampered(item.id.to_string()));
    }
    let top = match home {
        Home::Project => ctx.root.clone(),
        Home::User => ctx.home.clone().ok_or(ItemStepError::NoHome)?,
    };
    let target = place(store, item.layer, &item.file)?.unwrap_or_else(|| {
        let name = item.file.file_name().unwrap_or_default();
        Path::new(ITEMS).join(item.kind().folder()).join(&item.category).join(name)
    });
    refuse_second(store, item, home, &top.join(&target))?;
    let folder = item.as_tool().and_then(|tool| tool.folder.as_deref());
    let taken = if folder.is_some() { target.parent().unwrap_or(&target) } else { &target };
    if !overwrite && top.join(taken).symlink_metadata().is_ok() {
        return Err(ItemStepError::Exists { path: taken.to_path_buf(), replaceable: true });
    }
    let (new, stale) = match folder {
        Some(folder) => {
            let new = files_of(folder, taken)?;
            let stale = stale(&top, taken, &new)?;
            (new, stale)
        }
        None => (companion(store, item, &top, overwrite)?, Vec::new()),
    };
    let detached = detached_file(&target);
    let mut writes: Vec<Write> = new
        .into_iter()
        .filter(|(path, _)| *path != target && Some(path) != detached.as_ref())
        .map(|(path, (bytes, executable))| Write { home, path, content: Some(bytes), executable })
        .collect();
    writes.extend(stale.into_iter().map(|path| Write { home, path, content: None, executable: false }));
    // The file that makes it an item comes last.
    let time = ctx.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let stamped = match folder {
        Some(folder) => stamp::stamp_folder(folder, &item.file, content, &time),
        None => stamp::stamp_file(&item.file, content, &time),
    };
    match stamped {
        Ok(stamped) if stamped.file == item.file => writes.push(Write::text(home, target, stamped.content)),
        Ok(stamped) => {
            let name = stamped.file.file_name().unwrap_or_default();
            writes.push(Write::text(home, target.with_file_name(name), stamped.content));
            writes.push(Write::text(home, target, content.to_owned()));
        }
        Err(StampError::NoComment { .. }) => writes.push(Write::text(home, target, content.to_owned())),
        Err(err) => return Err(ItemStepError::Unreadable { path: item.file.clone(), reason: err.to_string() }),
    }
    Ok(writes)
}

/// Where a file of a layer lies below the folder with `.ai/`; built-in items lie nowhere.
fn place(store: &ItemStore, layer: Layer, file: &Path) -> Result<Option<PathBuf>, ItemStepError> {
    let root = match layer {
        Layer::Project => store.roots().project.as_deref(),
        Layer::User => store.roots().user.as_deref(),
        Layer::Builtin => return Ok(None),
    };
    let is_plain = |path: &&Path| path.components().all(|part| matches!(part, Component::Normal(_)));
    let inside = root.and_then(|root| file.strip_prefix(root).ok()).filter(|path| path.starts_with(ITEMS));
    match inside.filter(is_plain) {
        Some(inside) => Ok(Some(inside.to_path_buf())),
        None => Err(ItemStepError::Outside(file.to_path_buf())),
    }
}

/// The script beside a manifest, without which the tool would not be whole.
fn companion(store: &ItemStore, item: &Item, top: &Path, overwrite: bool) -> Result<Files, ItemStepError> {
    let mut files = Files::new();
    let script = item.as_tool().and_then(validate::entrypoint).filter(|script| *script != item.file);
    let Some(script) = script else { return Ok(files) };
    let Some(path) = place(store, item.layer, &script)? else { return Ok(files) };
    if !overwrite && top.join(&path).symlink_metadata().is_ok() {
        return Err(ItemStepError::Exists { path, replaceable: true });
    }
    let bytes = read_bytes(&script, MAX_COPIED)
        .map_err(|err| ItemStepError::Unreadable { path: script.clone(), reason: err.to_string() })?;
    files.insert(path, (bytes, is_executable(&script)));
    Ok(files)
}

/// Another file of the destination with the same id would make both unusable.
fn refuse_second(store: &ItemStore, item: &Item, home: Home, target: &Path) -> Result<(), ItemStepError> {
    let second = |other: &&Item| {
        other.layer == home.layer() && other.kind() == item.kind() && other.id == item.id && other.file != target
    };
    match store.items().iter().find(second) {
        Some(other) => Err(ItemStepError::Exists { path: store.roots().display(&other.file), replaceable: false }),
        None => Ok(()),
    }
}

/// The files of a tool folder, by where they are copied to.
fn files_of(folder: &Path, target: &Path) -> Result<Files, ItemStepError> {
    let mut files = Files::new();
    for (file, inside) in listed(folder)? {
        let unreadable = |reason: String| ItemStepError::Unreadable { path: file.clone(), reason };
        let bytes = read_bytes(&file, MAX_COPIED).map_err(|err| unreadable(err.to_string()))?;
        files.insert(target.join(inside), (bytes, is_executable(&file)));
    }
    Ok(files)
}

/// What lies in the folder to copy to and would not be part of the copy, which its stamp would not forgive.
fn stale(top: &Path, target: &Path, new: &Files) -> Result<Vec<PathBuf>, ItemStepError> {
    let present = listed(&top.join(target))?.into_iter().map(|(_, inside)| target.join(inside));
    Ok(present.filter(|path| !new.contains_key(path)).collect())
}

/// The files below a folder that stamps cover, with their paths in it.
fn listed(folder: &Path) -> Result<Vec<(PathBuf, PathBuf)>, ItemStepError> {
    let mut files = Vec::new();
    if folder.symlink_metadata().is_err() {
        return Ok(files);
    }
    let walk = WalkDir::new(folder).sort_by_file_name().into_iter().filter_entry(|entry| {
        let is_unstamped = UNSTAMPED_FOLDERS.iter().any(|name| entry.file_name() == *name);
        entry.depth() == 0 || entry.file_type().is_file() || !is_unstamped
    });
    for entry in walk {
        let entry = entry.map_err(|err| ItemStepError::Unreadable {
            path: err.path().unwrap_or(folder).to_path_buf(),
            reason: err.to_string(),
        })?;
        if !entry.file_type().is_dir() {
            let inside = entry.path().strip_prefix(folder).unwrap_or(entry.path()).to_path_buf();
            files.push((entry.into_path(), inside));
        }
    }
    Ok(files)
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(file).is_ok_and(|found| found.permissions().mode() & 0o100 != 0)
}
