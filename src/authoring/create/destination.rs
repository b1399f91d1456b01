//! Checks the place of a new item: nothing is overwritten, and nothing is written through a link.

use std::path::{Path, PathBuf};

use super::is_builtin;
use crate::authoring::{Home, ItemStepError};
use crate::context::Context;
use crate::item::id::ItemId;
use crate::item::signature::UNSTAMPED_FOLDERS;
use crate::item::skeleton::Skeleton;
use crate::item::store::{Item, ItemKind, ItemStore, Layer, PRIMITIVES};

/// Checks the id and the place of a new item; returns notes.
pub(super) fn check(
    ctx: &Context,
    store: &ItemStore,
    home: Home,
    id: &ItemId,
    made: &Skeleton,
) -> Result<Vec<String>, ItemStepError> {
    let top = match home {
        Home::Project => ctx.root.clone(),
        Home::User => ctx.home.clone().ok_or(ItemStepError::NoHome)?,
    };
    if is_builtin(store, made.kind, id) {
        let copyable = !PRIMITIVES.contains(&id.as_str());
        return Err(ItemStepError::Builtin {
            kind: made.kind,
            id: id.clone(),
            copyable,
        });
    }
    let same = |item: &&Item| {
        item.kind() == made.kind && item.id.as_str().eq_ignore_ascii_case(id.as_str())
    };
    let (mine, others): (Vec<&Item>, Vec<&Item>) = store
        .items()
        .iter()
        .filter(same)
        .partition(|item| item.layer == home.layer());
    if let Some(item) = mine.first() {
        return Err(ItemStepError::Taken {
            kind: made.kind,
            id: id.clone(),
            path: store.roots().display(&item.file),
        });
    }
    for file in &made.files {
        free(&top, home, made, &file.path)?;
        if let Some(folder) = store.tool_folder(&top.join(&file.path)) {
            return Err(ItemStepError::InTheWay {
                path: store.roots().display(folder),
            });
        }
        unseen(made.kind, &file.path)?;
    }
    // Within its layer an id must differ by more than case, because file systems may ignore case.
    let others = others.iter().filter(|item| item.id == *id);
    Ok(others
        .map(|item| {
            let path = store.roots().display(&item.file);
            let kind = made.kind;
            match item.layer {
                Layer::Project => {
                    format!("{kind} `{id}` exists in the project as well, at `{}`: here that one takes precedence", path.display())
                }
                layer => {
                    let path = path.display();
                    format!("{kind} `{id}` exists in the {layer} layer as well, at `{path}`: here the new one takes precedence")
                }
            }
        })
        .collect())
}

/// Requires that the path is free and that its parents are folders.
fn free(top: &Path, home: Home, made: &Skeleton, file: &Path) -> Result<(), ItemStepError> {
    let is_folder_tool =
        made.files.len() > 1 || file.file_name().is_some_and(|name| name == "tool.yaml");
    let own_folder = file
        .parent()
        .filter(|_| is_folder_tool && made.kind == ItemKind::Tool);
    let mut way: Vec<&Path> = file
        .ancestors()
        .skip(1)
        .filter(|folder| !folder.as_os_str().is_empty())
        .collect();
    way.reverse();
    for (depth, folder) in way.into_iter().enumerate() {
        let path = top.join(folder);
        // The user's `~/.ai` may be a link, because users keep their items elsewhere.
        let found = if depth == 0 && home == Home::User {
            path.metadata()
        } else {
            path.symlink_metadata()
        };
        match found {
            Ok(found) if found.is_dir() && own_folder == Some(folder) => {
                return Err(ItemStepError::Exists {
                    path: folder.to_path_buf(),
                    replaceable: false,
                });
            }
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                return Err(ItemStepError::InTheWay {
                    path: folder.to_path_buf(),
                });
            }
            Err(_) => return Ok(()),
        }
    }
    match top.join(file).symlink_metadata() {
        Ok(_) => Err(ItemStepError::Exists {
            path: file.to_path_buf(),
            replaceable: false,
        }),
        Err(_) => Ok(()),
    }
}

/// Refuses names that piton ignores when it reads items.
fn unseen(kind: ItemKind, path: &Path) -> Result<(), ItemStepError> {
    let is_unseen = |part: &std::ffi::OsStr| UNSTAMPED_FOLDERS.iter().any(|name| part == *name);
    let is_readme = kind != ItemKind::Tool
        && path
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.eq_ignore_ascii_case("readme.md"));
    if is_readme || path.components().any(|part| is_unseen(part.as_os_str())) {
        return Err(ItemStepError::Unseen(PathBuf::from(path)));
    }
    Ok(())
}
