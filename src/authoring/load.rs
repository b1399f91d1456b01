//! `load`: reads an item, or copies it between project and user.
//!
//! Only a load with a destination writes. The original is verified, and the copy is stamped anew,
//! has the same path below `.ai/`, and replaces nothing unless requested.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};
use walkdir::WalkDir;

use super::{
    FileAccess, Home, ItemAnswer, ItemEffect, ItemStepError, LoadItem, Verb, Write, layers, shown,
};
use crate::context::{Context, ITEMS};
use crate::exec::chain;
use crate::item::search::SearchScope;
use crate::item::signature::author::MAX_SIGNATURE;
use crate::item::signature::stamp::{self, Tidied};
use crate::item::signature::{Integrity, UNSTAMPED_FOLDERS, author_file, detached_file};
use crate::item::source::{MAX_TEXT, read_bytes};
use crate::item::store::{
    Item, ItemContent, ItemKind, ItemStore, Layer, LookupError, PRIMITIVES, builtin_text,
};
use crate::item::validate;

/// The maximum size of a copied file.
const MAX_COPIED: u64 = 16 * 1024 * 1024;

/// Files by destination: content and permission bits.
type Files = BTreeMap<PathBuf, (Vec<u8>, FileAccess)>;

/// A loaded item.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loaded {
    /// Its id, without category.
    pub name: String,
    pub item_type: ItemKind,
    /// Its file or that of the copy; relative to the project if it is inside.
    pub path: String,
    pub content: String,
    pub source: Layer,
    /// Its parsed metadata.
    pub metadata: Value,
    /// The inputs of a tool or directive, as a JSON schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// The output of a tool, as a JSON schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<Layer>,
    /// A description of the copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The files of the copy; relative to the project if they are inside.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// What the copy lacks or has replaced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The state of its stamp; part of the metadata.
    #[serde(skip)]
    pub integrity: Integrity,
}

pub(super) fn load(
    ctx: &Context,
    store: &ItemStore,
    request: &LoadItem,
) -> Result<ItemEffect, ItemStepError> {
    let (loaded, writes) = read(ctx, store, request)?;
    Ok(ItemEffect {
        answer: ItemAnswer::Load(Box::new(loaded)),
        writes,
    })
}

/// The item, and what to write to copy it.
pub(super) fn read(
    ctx: &Context,
    store: &ItemStore,
    request: &LoadItem,
) -> Result<(Loaded, Vec<Write>), ItemStepError> {
    let item = wanted(store, request)?;
    let content = content(item)?;
    // A copy onto itself only reads the item.
    let home = request
        .destination
        .filter(|home| home.layer() != item.layer);
    let (mut writes, mut notes) = match home {
        Some(home) => (
            copy(ctx, store, item, &content, home, request.overwrite)?,
            left_behind(store, item, home),
        ),
        None => (Vec::new(), Vec::new()),
    };
    let top = match home {
        Some(Home::User) => ctx.home.as_deref().ok_or(ItemStepError::NoHome)?,
        Some(Home::Project) | None => &ctx.root,
    };
    let place = |write: &Write| shown(&store.roots().display(&top.join(&write.path)));
    // The defining file of a copy comes last.
    let copied = writes.last().and_then(|write| {
        let text = String::from_utf8(write.content.clone()?).ok()?;
        Some((place(write), text))
    });
    let (path, content) =
        copied.unwrap_or_else(|| (shown(&store.roots().display(&item.file)), content));
    let message =
        home.map(|home| format!("copied from {} to {} as `{path}`", item.layer, home.layer()));
    let files = writes
        .iter()
        .filter(|write| write.content.is_some())
        .map(place)
        .collect();
    if home == Some(Home::User) {
        let kept = replaced(ctx, &writes)?;
        notes.extend(where_kept(&kept));
        writes.splice(0..0, kept);
    }
    let (input_schema, output_schema) = schemas(item);
    let loaded = Loaded {
        name: item.id.to_string(),
        item_type: item.kind(),
        path,
        content,
        source: item.layer,
        metadata: metadata(item),
        input_schema,
        output_schema,
        destination: home.map(Home::layer),
        message,
        files,
        notes,
        integrity: item.integrity.clone(),
    };
    Ok((loaded, writes))
}

/// The item to load; for a copy, prefer an item from another layer.
fn wanted<'s>(store: &'s ItemStore, request: &LoadItem) -> Result<&'s Item, ItemStepError> {
    let find = |scope| {
        find(
            store,
            request.item_type,
            &request.item_id,
            scope,
            Verb::Load,
        )
    };
    if let (None, Some(home)) = (request.source, request.destination) {
        let elsewhere = layers(SearchScope::All)
            .into_iter()
            .filter(|layer| *layer != home.layer());
        let mut found = elsewhere.filter_map(|layer| find(SearchScope::Only(layer)).ok());
        if let Some(item) = found.next() {
            return Ok(item);
        }
    }
    find(request.source.unwrap_or(SearchScope::All))
}

/// Finds the only item with an id.
pub(super) fn find<'s>(
    store: &'s ItemStore,
    kind: Option<ItemKind>,
    id: &str,
    scope: SearchScope,
    verb: Verb,
) -> Result<&'s Item, ItemStepError> {
    let layers = layers(scope);
    let kinds = kind.map_or_else(
        || vec![ItemKind::Tool, ItemKind::Directive, ItemKind::Knowledge],
        |kind| vec![kind],
    );
    let mut found = Vec::new();
    let (mut failure, mut elsewhere) = (None, None);
    for kind in kinds {
        match store.find_in(kind, id, &layers) {
            Ok(item) => found.push(item),
            Err(err @ LookupError::NotFound { .. }) => {
                let is_better = matches!(
                    err,
                    LookupError::NotFound {
                        similar: Some(_),
                        ..
                    }
                );
                failure = failure.filter(|_| !is_better).or(Some(err));
                elsewhere = elsewhere.or_else(|| store.find(kind, id).ok());
            }
            // A broken item is a better explanation than a missing one.
            Err(err) => return Err(err.into()),
        }
    }
    match (found.as_slice(), elsewhere, failure) {
        ([item], ..) => Ok(item),
        ([], Some(item), _) => {
            let reason = format!(
                "leaves `{}` out, which comes from the {} layer",
                item.id, item.layer
            );
            Err(verb.wrong("source", reason))
        }
        ([], None, Some(LookupError::NotFound { id, similar, .. })) if kind.is_none() => {
            Err(ItemStepError::NoItem { id, similar })
        }
        ([], None, Some(err)) => Err(err.into()),
        _ => Err(verb.wrong(
            "item_type",
            format!("is needed: several kinds of items are called `{id}`"),
        )),
    }
}

/// The text of an item's file.
pub(super) fn content(item: &Item) -> Result<String, ItemStepError> {
    if let Some(text) = builtin_text(&item.file) {
        return Ok(text.to_owned());
    }
    let unreadable = |reason: String| ItemStepError::Unreadable {
        path: item.file.clone(),
        reason,
    };
    let bytes = read_bytes(&item.file, MAX_TEXT).map_err(|err| unreadable(err.to_string()))?;
    String::from_utf8(bytes).map_err(|_| unreadable("not valid UTF-8".to_owned()))
}

/// The parsed metadata of an item.
fn metadata(item: &Item) -> Value {
    let mut metadata = match &item.content {
        ItemContent::Tool(tool) => json!(tool.manifest),
        ItemContent::Directive(directive) => json!(directive),
        ItemContent::Knowledge(entry) => entry.front_matter.clone(),
    };
    if let Value::Object(fields) = &mut metadata {
        fields.insert("category".to_owned(), json!(item.category));
        fields.insert("integrity".to_owned(), json!(item.integrity));
    }
    metadata
}

/// The input and output schemas of an item.
fn schemas(item: &Item) -> (Option<Value>, Option<Value>) {
    match &item.content {
        ItemContent::Tool(tool) => (
            Some(tool.manifest.input_schema.clone()),
            tool.manifest.output_schema.clone(),
        ),
        ItemContent::Directive(directive) => (Some(directive.input_schema.clone()), None),
        ItemContent::Knowledge(_) => (None, None),
    }
}

/// Notes about executors that the tool needs and that are not visible from the destination.
fn left_behind(store: &ItemStore, item: &Item, home: Home) -> Vec<String> {
    let chain = item
        .as_tool()
        .and_then(|tool| chain::resolve(store, tool).ok());
    let executors = chain.map(|chain| chain.executors).unwrap_or_default();
    let stays = |link: &&Item| link.layer != Layer::Builtin && link.layer != home.layer();
    let words = |link: &Item| {
        format!(
            "it runs through `{}`, which stays an item of the {}",
            link.id, link.layer
        )
    };
    executors.into_iter().filter(stays).map(words).collect()
}

/// A note about the copies of replaced files.
pub(super) fn where_kept(copies: &[Write]) -> Option<String> {
    let folder: PathBuf = copies.first()?.path.components().take(3).collect();
    Some(format!(
        "the previous files are kept in `~/{}`",
        shown(&folder)
    ))
}

/// Copies of the user's files that are about to be replaced or removed, because no snapshot covers
/// them.
pub(super) fn replaced(ctx: &Context, writes: &[Write]) -> Result<Vec<Write>, ItemStepError> {
    let home = ctx.home.clone().ok_or(ItemStepError::NoHome)?;
    let time = ctx.now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let base = Path::new(ITEMS).join("replaced");
    // Several copies may be made within a second.
    let free = (1_u32..).map(|number| {
        if number == 1 {
            time.clone()
        } else {
            format!("{time}-{number}")
        }
    });
    let kept = free
        .map(|name| base.join(name))
        .find(|folder| home.join(folder).symlink_metadata().is_err());
    let kept = kept.unwrap_or(base);
    let mut copies = Vec::new();
    for write in writes {
        let file = home.join(&write.path);
        if file.symlink_metadata().is_err() {
            continue;
        }
        let content = read_bytes(&file, MAX_COPIED).map_err(|err| ItemStepError::Unreadable {
            path: file.clone(),
            reason: err.to_string(),
        })?;
        if write.content.as_ref() != Some(&content) {
            let path = kept.join(write.path.strip_prefix(ITEMS).unwrap_or(&write.path));
            copies.push(Write {
                home: Home::User,
                path,
                content: Some(content),
                access: FileAccess::of(&file),
            });
        }
    }
    Ok(copies)
}

fn copy(
    ctx: &Context,
    store: &ItemStore,
    item: &Item,
    content: &str,
    home: Home,
    overwrite: bool,
) -> Result<Vec<Write>, ItemStepError> {
    require_copyable(item)?;
    let top = match home {
        Home::Project => ctx.root.clone(),
        Home::User => ctx.home.clone().ok_or(ItemStepError::NoHome)?,
    };
    let target = place(store, item.layer, &item.file)?.unwrap_or_else(|| {
        let name = item.file.file_name().unwrap_or_default();
        Path::new(ITEMS)
            .join(item.kind().folder())
            .join(&item.category)
            .join(name)
    });
    refuse_second(store, item, home, &top.join(&target))?;
    let folder = item.as_tool().and_then(|tool| tool.folder.as_deref());
    let taken = if folder.is_some() {
        target.parent().unwrap_or(&target)
    } else {
        &target
    };
    if !overwrite && top.join(taken).symlink_metadata().is_ok() {
        return Err(ItemStepError::Exists {
            path: taken.to_path_buf(),
            replaceable: true,
        });
    }
    let (new, stale) = match folder {
        Some(folder) => {
            let new = files_of(folder, taken)?;
            let stale = stale(&top, taken, &new)?;
            (new, stale)
        }
        None => (companion(store, item, &top, overwrite)?, Vec::new()),
    };
    let time = ctx.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let stamped = match folder {
        Some(folder) => stamp::stamp_folder(folder, &item.file, content, &time),
        None => stamp::stamp_file(&item.file, content, &time),
    };
    let unreadable = |reason: String| ItemStepError::Unreadable {
        path: item.file.clone(),
        reason,
    };
    let stamped = stamped.map_err(|err| unreadable(err.to_string()))?;
    let (detached, author) = (detached_file(&target), author_file(&target));
    let is_beside = stamped.file != item.file;
    let is_companion = |path: &PathBuf| *path == author || *path == detached && is_beside;
    let mut writes: Vec<Write> = new
        .into_iter()
        .filter(|(path, _)| *path != target && !is_companion(path))
        .map(|(path, (bytes, access))| Write {
            home,
            path,
            content: Some(bytes),
            access,
        })
        .collect();
    let gone = |path: PathBuf| Write::removal(home, path);
    writes.extend(
        stale
            .into_iter()
            .filter(|path| !is_companion(path))
            .map(gone),
    );
    writes.extend(author_write(item, &stamped.hash, home, &top, author));
    let own = |text: String| Write {
        access: FileAccess::of(&item.file),
        ..Write::text(home, target.clone(), text)
    };
    // The defining file comes last.
    if is_beside {
        let text = match stamped.tidied {
            Tidied::Rewritten(_, text) => text,
            Tidied::Nothing | Tidied::Removed(_) => content.to_owned(),
        };
        writes.push(Write::text(home, detached, stamped.content));
        writes.push(own(text));
    } else {
        if folder.is_none() && stamp::holds_stamp(&top.join(&detached)) {
            writes.push(gone(detached));
        }
        writes.push(own(stamped.content));
    }
    Ok(writes)
}

/// Primitives and items with a broken stamp are not copied.
fn require_copyable(item: &Item) -> Result<(), ItemStepError> {
    if PRIMITIVES.contains(&item.id.as_str()) && item.layer == Layer::Builtin {
        return Err(ItemStepError::Primitive(item.id.to_string()));
    }
    if matches!(
        item.integrity,
        Integrity::Mismatch { .. } | Integrity::Invalid { .. }
    ) {
        return Err(ItemStepError::Tampered(item.id.to_string()));
    }
    Ok(())
}

/// What happens to the author's signature at `path`: it is copied, or an old one is removed.
fn author_write(
    item: &Item,
    new_hash: &str,
    home: Home,
    top: &Path,
    path: PathBuf,
) -> Option<Write> {
    // The author signed the hash, and a new stamp of the same content has the same hash.
    let is_same = matches!(&item.integrity, Integrity::Valid { hash, .. } if *hash == new_hash);
    match read_bytes(&author_file(&item.file), MAX_SIGNATURE) {
        Ok(signature) if is_same => Some(Write {
            home,
            path,
            content: Some(signature),
            access: FileAccess::Plain,
        }),
        _ => (top.join(&path).symlink_metadata().is_ok()).then(|| Write::removal(home, path)),
    }
}

/// The path of a file of a layer, relative to the folder with `.ai/`; built-in items have none.
pub(super) fn place(
    store: &ItemStore,
    layer: Layer,
    file: &Path,
) -> Result<Option<PathBuf>, ItemStepError> {
    let root = match layer {
        Layer::Project => store.roots().project.as_deref(),
        Layer::User => store.roots().user.as_deref(),
        Layer::Builtin => return Ok(None),
    };
    let is_plain = |path: &&Path| {
        path.components()
            .all(|part| matches!(part, Component::Normal(_)))
    };
    let inside = root
        .and_then(|root| file.strip_prefix(root).ok())
        .filter(|path| path.starts_with(ITEMS));
    match inside.filter(is_plain) {
        Some(inside) => Ok(Some(inside.to_path_buf())),
        None => Err(ItemStepError::Outside(file.to_path_buf())),
    }
}

/// The script beside a manifest, which the tool needs.
fn companion(
    store: &ItemStore,
    item: &Item,
    top: &Path,
    overwrite: bool,
) -> Result<Files, ItemStepError> {
    let mut files = Files::new();
    let script = item
        .as_tool()
        .and_then(validate::entrypoint)
        .filter(|script| *script != item.file);
    let Some(script) = script else {
        return Ok(files);
    };
    let Some(path) = place(store, item.layer, &script)? else {
        return Ok(files);
    };
    if !overwrite && top.join(&path).symlink_metadata().is_ok() {
        return Err(ItemStepError::Exists {
            path,
            replaceable: true,
        });
    }
    let bytes = read_bytes(&script, MAX_COPIED).map_err(|err| ItemStepError::Unreadable {
        path: script.clone(),
        reason: err.to_string(),
    })?;
    files.insert(path, (bytes, FileAccess::of(&script)));
    Ok(files)
}

/// Refuses a second file with the same id at the destination, because it would make both unusable.
fn refuse_second(
    store: &ItemStore,
    item: &Item,
    home: Home,
    target: &Path,
) -> Result<(), ItemStepError> {
    let second = |other: &&Item| {
        other.layer == home.layer()
            && other.kind() == item.kind()
            && other.id == item.id
            && other.file != target
    };
    if let Some(other) = store.items().iter().find(second) {
        return Err(ItemStepError::Exists {
            path: store.roots().display(&other.file),
            replaceable: false,
        });
    }
    let another =
        |other: &&Item| other.layer == home.layer() && other.id != item.id && other.file == target;
    match store.items().iter().find(another) {
        Some(other) => Err(ItemStepError::Another {
            path: store.roots().display(&other.file),
            id: other.id.clone(),
        }),
        None => Ok(()),
    }
}

/// The files of a tool folder, by destination.
fn files_of(folder: &Path, target: &Path) -> Result<Files, ItemStepError> {
    let mut files = Files::new();
    for (file, inside) in listed(folder)? {
        let unreadable = |reason: String| ItemStepError::Unreadable {
            path: file.clone(),
            reason,
        };
        let bytes = read_bytes(&file, MAX_COPIED).map_err(|err| unreadable(err.to_string()))?;
        files.insert(target.join(inside), (bytes, FileAccess::of(&file)));
    }
    Ok(files)
}

/// Files in the destination folder that are not part of the copy, because they would break its
/// stamp.
fn stale(top: &Path, target: &Path, new: &Files) -> Result<Vec<PathBuf>, ItemStepError> {
    let present = listed(&top.join(target))?
        .into_iter()
        .map(|(_, inside)| target.join(inside));
    Ok(present.filter(|path| !new.contains_key(path)).collect())
}

/// The files below a folder that stamps cover, with their relative paths.
pub(super) fn listed(folder: &Path) -> Result<Vec<(PathBuf, PathBuf)>, ItemStepError> {
    let mut files = Vec::new();
    if folder.symlink_metadata().is_err() {
        return Ok(files);
    }
    let walk = WalkDir::new(folder)
        .sort_by_file_name()
        .into_iter()
        .filter_entry(|entry| {
            let is_unstamped = UNSTAMPED_FOLDERS
                .iter()
                .any(|name| entry.file_name() == *name);
            entry.depth() == 0 || entry.file_type().is_file() || !is_unstamped
        });
    for entry in walk {
        let entry = entry.map_err(|err| ItemStepError::Unreadable {
            path: err.path().unwrap_or(folder).to_path_buf(),
            reason: err.to_string(),
        })?;
        if !entry.file_type().is_dir() {
            let inside = entry
                .path()
                .strip_prefix(folder)
                .unwrap_or(entry.path())
                .to_path_buf();
            files.push((entry.into_path(), inside));
        }
    }
    Ok(files)
}
