//! Which files name another file by its path and would no longer find it after a move.
//!
//! Scripts and tools name others by a path below `.ai/scripts/`, by a symlink, or relative to their
//! own location, which cannot be determined from the text: then any word that equals the file name
//! counts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{MigrationError, SCRIPTS, TOOLS, destination, script};
use crate::item::signature::UNSTAMPED_FOLDERS;
use crate::item::source::{MAX_TEXT, files_below, read_bytes};
use crate::item::store::ItemStore;

/// The files and symlinks of `.ai/scripts/` and `.ai/tools/`, except prose.
pub(super) struct Namers(Vec<Namer>);

pub(super) struct Namer {
    /// Relative to the project.
    pub(super) file: PathBuf,
    /// The paths that it names, or its link target.
    paths: Vec<PathBuf>,
    content: ModuleContent,
}

enum ModuleContent {
    Link,
    Text(String),
    /// The text of a script that finds others relative to its own location.
    TextWithPlace(String),
}

impl Namers {
    pub(super) fn read(store: &ItemStore) -> Self {
        let found = [SCRIPTS, TOOLS]
            .into_iter()
            .flat_map(|folder| files_below(&script::root(store).join(folder)));
        let read = found
            .filter(|(_, listed)| listed.is_ok())
            .filter_map(|(path, _)| Namer::read(store, &path));
        Self(read.collect())
    }

    /// Files that name a path, and remaining neighbours that find it by location.
    pub(super) fn of<'n>(
        &'n self,
        path: &'n Path,
        gone: &'n BTreeSet<PathBuf>,
    ) -> impl Iterator<Item = &'n Namer> {
        let names = |namer: &&Namer| {
            namer.points_at(path) || !gone.contains(&namer.file) && namer.finds(path)
        };
        self.0
            .iter()
            .filter(move |namer| namer.file != path)
            .filter(names)
    }

    /// A remaining file whose text contains the name of a file.
    pub(super) fn mentioning<'n>(
        &'n self,
        path: &'n Path,
        gone: &'n BTreeSet<PathBuf>,
    ) -> Option<&'n Namer> {
        let mentions = |namer: &&Namer| !gone.contains(&namer.file) && namer.mentions(path);
        self.of(path, gone)
            .next()
            .or_else(|| self.0.iter().find(mentions))
    }
}

impl Namer {
    fn read(store: &ItemStore, path: &Path) -> Option<Self> {
        let file = store.roots().display(path);
        if is_foreign(&file) || is_prose(&file) {
            return None;
        }
        if path.is_symlink() {
            let target = store.roots().display(&path.canonicalize().ok()?);
            return Some(Self {
                file,
                paths: vec![target],
                content: ModuleContent::Link,
            });
        }
        let text = String::from_utf8_lossy(&read_bytes(path, MAX_TEXT).ok()?).into_owned();
        let named = destination::named_paths(&text)
            .into_iter()
            .map(PathBuf::from);
        let paths = named
            .filter(|named| script::root(store).join(named).exists())
            .collect();
        let is_near = file.starts_with(SCRIPTS) || has_word(&text, "scripts");
        let content = match destination::mark(&file, &text) {
            Some(_) if is_near => ModuleContent::TextWithPlace(text),
            _ => ModuleContent::Text(text),
        };
        Some(Self {
            file,
            paths,
            content,
        })
    }

    fn points_at(&self, path: &Path) -> bool {
        self.paths.iter().any(|named| path.starts_with(named))
    }

    fn finds(&self, path: &Path) -> bool {
        let stem = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or_default();
        matches!(&self.content, ModuleContent::TextWithPlace(text) if has_word(text, stem))
    }

    fn mentions(&self, path: &Path) -> bool {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        match &self.content {
            ModuleContent::Text(text) | ModuleContent::TextWithPlace(text) => has_word(text, name),
            ModuleContent::Link => false,
        }
    }

    /// The note for moving a file that it names.
    pub(super) fn note(&self, file: &Path) -> String {
        match self.content {
            ModuleContent::Link => format!(
                "the link `{}` leads to `{}`",
                self.file.display(),
                file.display()
            ),
            ModuleContent::Text(_) | ModuleContent::TextWithPlace(_) => {
                format!("`{}` names `{}`", self.file.display(), file.display())
            }
        }
    }

    /// The reason why a file that it names does not move.
    pub(super) fn obstacle(&self, file: PathBuf) -> MigrationError {
        let by = self.file.clone();
        match self.content {
            ModuleContent::Link => MigrationError::LinkedBy { file, by },
            ModuleContent::Text(_) | ModuleContent::TextWithPlace(_) => {
                MigrationError::NamedBy { file, by }
            }
        }
    }
}

pub(super) fn is_foreign(path: &Path) -> bool {
    path.iter()
        .any(|part| part == ".git" || UNSTAMPED_FOLDERS.iter().any(|name| part == *name))
}

/// Whether a file is documentation rather than code.
pub(super) fn is_prose(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("md"))
}

/// Whether a name is a separate word in a text and not a function.
fn has_word(text: &str, name: &str) -> bool {
    let goes_on = |c: char| c.is_alphanumeric() || c == '_';
    !name.is_empty()
        && text.match_indices(name).any(|(at, _)| {
            let before = text.get(..at).and_then(|text| text.chars().next_back());
            let after = text
                .get(at + name.len()..)
                .and_then(|text| text.chars().next());
            !before.is_some_and(goes_on) && !after.is_some_and(|c| goes_on(c) || c == '(')
        })
}

#[cfg(test)]
mod tests {
    use super::has_word;

    #[test]
    fn a_word_stands_alone_and_is_not_called() {
        let text = "import_module('hh'); run(step_two)\n. \"$(dirname \"$0\")/step.sh\"";
        let found: Vec<&str> = ["hh", "step", "step.sh", "step_two", "run", "two", ""]
            .into_iter()
            .filter(|it| has_word(text, it))
            .collect();
        assert_eq!(found, ["hh", "step", "step.sh", "step_two"]);
    }
}
