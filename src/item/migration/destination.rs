//! Whether a tool's new location is free, and whether a script depends on its location.

use std::path::{Path, PathBuf};

use super::script::root;
use super::{Caution, MigrationError, SCRIPTS};
use crate::item::source::{MAX_TEXT, read_bytes};
use crate::item::store::{Item, ItemKind, ItemStore, Layer};
use crate::item::validate;

/// How JavaScript files name files beside them.
const RELATIVE: [&str; 4] = ["\"./", "'./", "\"../", "'../"];

/// Checks that the path is free and has only folders above it.
pub(super) fn free(store: &ItemStore, to: &Path) -> Result<(), MigrationError> {
    let root = root(store);
    if root.join(to).symlink_metadata().is_ok() {
        return Err(MigrationError::Occupied(to.to_path_buf()));
    }
    for folder in to
        .ancestors()
        .skip(1)
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        if root
            .join(folder)
            .symlink_metadata()
            .is_ok_and(|found| !found.is_dir())
        {
            return Err(MigrationError::Occupied(folder.to_path_buf()));
        }
    }
    match store.tool_folder(&root.join(to)) {
        Some(folder) => Err(MigrationError::Occupied(store.roots().display(folder))),
        None => Ok(()),
    }
}

/// Checks that an existing file has the same content.
pub(super) fn unlike(store: &ItemStore, file: &Path, to: &Path) -> Result<(), MigrationError> {
    let target = root(store).join(to);
    match target.symlink_metadata() {
        Err(_) => match to.parent() {
            Some(folder)
                if root(store)
                    .join(folder)
                    .symlink_metadata()
                    .is_ok_and(|found| !found.is_dir()) =>
            {
                Err(MigrationError::Occupied(folder.to_path_buf()))
            }
            _ => Ok(()),
        },
        Ok(found)
            if found.is_file()
                && read_bytes(&target, MAX_TEXT).ok() == read_bytes(file, MAX_TEXT).ok() =>
        {
            Ok(())
        }
        Ok(_) => Err(MigrationError::Differs {
            file: store.roots().display(file),
            there: to.to_path_buf(),
        }),
    }
}

/// The manifest whose entrypoint is this script. An unreadable manifest counts if it names a script
/// beside it.
pub(super) fn claimant(store: &ItemStore, item: &Item) -> Option<PathBuf> {
    let starts_with_it = |other: &&Item| {
        other.layer == Layer::Project
            && other.file != item.file
            && other.as_tool().and_then(validate::entrypoint).as_ref() == Some(&item.file)
    };
    if let Some(other) = store.items().iter().find(starts_with_it) {
        return Some(store.roots().display(&other.file));
    }
    let name = item.file.file_name()?.to_str()?;
    let is_document = |file: &Path| {
        let ending = file
            .extension()
            .and_then(|ending| ending.to_str())
            .unwrap_or_default();
        matches!(ending, "yaml" | "yml" | "json") && file.parent() == item.file.parent()
    };
    let names_it = |file: &Path| {
        read_bytes(file, MAX_TEXT).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(name))
    };
    let mut broken = store
        .broken()
        .map(|(_, file)| file)
        .filter(|file| is_document(file));
    broken
        .find(|file| names_it(file))
        .map(|file| store.roots().display(file))
}

/// Refuses a script that is the entrypoint of a manifest.
pub(super) fn refuse_claimed(store: &ItemStore, item: &Item) -> Result<(), MigrationError> {
    match claimant(store, item) {
        Some(by) => Err(MigrationError::Claimed {
            file: store.roots().display(&item.file),
            by,
        }),
        None => Ok(()),
    }
}

/// Refuses an id that another project tool has: both would be unusable.
pub(super) fn refuse_clash(store: &ItemStore, item: &Item) -> Result<(), MigrationError> {
    let own = item.as_tool().and_then(validate::entrypoint);
    let same = |other: &&Item| {
        other.layer == Layer::Project
            && other.kind() == ItemKind::Tool
            && other.file != item.file
            && other.id.as_str().eq_ignore_ascii_case(item.id.as_str())
            && own.as_ref() != Some(&other.file)
    };
    match store.items().iter().find(same) {
        Some(other) => Err(MigrationError::Clash {
            id: item.id.clone(),
            file: store.roots().display(&other.file),
        }),
        None => Ok(()),
    }
}

/// Refuses files behind symlinks.
pub(super) fn refuse_link(store: &ItemStore, file: &Path) -> Result<(), MigrationError> {
    let root = root(store);
    let is_link = |path: &Path| path.starts_with(&root) && path != root && path.is_symlink();
    if file.ancestors().any(is_link) {
        return Err(MigrationError::Link(store.roots().display(file)));
    }
    Ok(())
}

/// What the user should check because a script depends on its location. For a bulk migration it is
/// an error, because each script is not reviewed by hand.
pub(super) fn cares(
    store: &ItemStore,
    file: &Path,
    text: &str,
    caution: Caution,
) -> Result<Vec<String>, MigrationError> {
    let shown = store.roots().display(file);
    let obstacle = |reason: String| MigrationError::Place {
        file: shown.clone(),
        reason,
    };
    let mut notes = Vec::new();
    if let Some(mark) = mark(file, text) {
        match caution {
            // The other file would certainly not be found.
            _ if RELATIVE.contains(&mark) => {
                return Err(obstacle("names files relative to itself".to_owned()));
            }
            Caution::Named => {
                notes.push(format!(
                    "the script uses `{mark}`: it may depend on where it lies, which is another place now"
                ));
            }
            Caution::Swept => {
                return Err(obstacle(format!(
                    "may depend on where it lies: it uses `{mark}`"
                )));
            }
        }
    }
    for named in named_paths(text)
        .into_iter()
        .filter(|named| Path::new(named) != shown)
    {
        if !root(store).join(&named).exists() {
            continue;
        }
        match caution {
            Caution::Named => notes.push(format!("the script names `{named}`")),
            Caution::Swept => return Err(obstacle(format!("names `{named}`, which may move"))),
        }
    }
    Ok(notes)
}

/// The text that shows that a script finds others relative to its own location.
pub(super) fn mark(file: &Path, text: &str) -> Option<&'static str> {
    let ending = file
        .extension()
        .and_then(|ending| ending.to_str())
        .unwrap_or_default();
    let is_javascript = matches!(ending, "js" | "mjs" | "cjs" | "ts" | "mts" | "cts");
    let marks: &[&str] = match ending {
        "py" => &[
            "__file__",
            "sys.argv[0]",
            "sys.path",
            "import_module",
            "__import__",
            "runpy",
        ],
        "sh" | "bash" | "zsh" => &["BASH_SOURCE", "$0", "${0"],
        _ if is_javascript => &["__dirname", "__filename", "import.meta"],
        _ => &["__FILE__", "__DIR__", "__file__"],
    };
    let relative = RELATIVE.iter().filter(|_| is_javascript);
    relative
        .chain(marks)
        .copied()
        .find(|mark| text.contains(mark))
}

pub(super) fn named_paths(text: &str) -> Vec<String> {
    let fits = |c: char| c.is_alphanumeric() || "_-./".contains(c);
    let mut found = Vec::new();
    for (at, _) in text.match_indices(SCRIPTS) {
        let rest = text.get(at..).unwrap_or_default();
        let path = rest
            .split(|c: char| !fits(c))
            .next()
            .unwrap_or_default()
            .trim_end_matches(['.', '/']);
        if path.len() > SCRIPTS.len() && !found.iter().any(|known| known == path) {
            found.push(path.to_owned());
        }
    }
    found
}
