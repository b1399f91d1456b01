//! Why something of `.ai/scripts/` cannot be moved.

use std::path::PathBuf;

use crate::item::finding::Finding;
use crate::item::id::ItemId;
use crate::item::store::{Layer, LookupError};
use crate::item::wording::shown;

/// Why a script cannot become a tool folder.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// Nothing, or more than one thing, has this id.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// A pattern is none.
    #[error("`{}` is not a pattern: {reason}", shown(.pattern))]
    Pattern {
        /// What was given.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A pattern or a folder means no script.
    #[error("no script of the project matches `{}`", shown(.0))]
    NothingMatches(String),
    /// It is a tool already.
    #[error("tool `{id}` is no legacy script: it lies at `{}`", .file.display())]
    NotLegacy {
        /// The tool.
        id: ItemId,
        /// Its file.
        file: PathBuf,
    },
    /// It belongs to the user or is built in.
    #[error("script `{id}` is not the project's but comes from the {layer} layer")]
    NotOfTheProject {
        /// The script.
        id: ItemId,
        /// Where it comes from.
        layer: Layer,
    },
    /// It is something else than a script.
    #[error("`{}` is not a script", .0.display())]
    NotAScript(PathBuf),
    /// It is a module of the library.
    #[error("`{}` is a module that scripts share", .0.display())]
    Shared(PathBuf),
    /// A link leads to it.
    #[error("`{}` is a link, or lies behind one", .0.display())]
    Link(PathBuf),
    /// Its stamp does not hold.
    #[error("`{}` is not what was stamped", .0.display())]
    Tampered(PathBuf),
    /// Another tool has the same id.
    #[error("tool `{id}` exists already at `{}`", .file.display())]
    Clash {
        /// The id.
        id: ItemId,
        /// The file of the other tool.
        file: PathBuf,
    },
    /// A manifest starts with it.
    #[error("`{}` is what `{}` starts with", .file.display(), .by.display())]
    Claimed {
        /// The script.
        file: PathBuf,
        /// The manifest.
        by: PathBuf,
    },
    /// Something lies where a file or folder would be.
    #[error("`{}` exists already", .0.display())]
    Occupied(PathBuf),
    /// A module of the library is another one where it would be.
    #[error("`{}` exists already, and is not the same as `{}`", .there.display(), .file.display())]
    Differs {
        /// The module that would move.
        file: PathBuf,
        /// The one that is there.
        there: PathBuf,
    },
    /// Another script would become a folder around it or inside of it.
    #[error("`{}` and what `{}` becomes would lie one in the other", .to.display(), .other.display())]
    Apart {
        /// What it would become.
        to: PathBuf,
        /// The other script.
        other: PathBuf,
    },
    /// Something else names it, and would not find it any more.
    #[error("`{}` is named by `{}`", .file.display(), .by.display())]
    NamedBy {
        /// What would move.
        file: PathBuf,
        /// Who names it.
        by: PathBuf,
    },
    /// A link leads to it, which would lead nowhere.
    #[error("`{}` is what the link `{}` leads to", .file.display(), .by.display())]
    LinkedBy {
        /// What would move.
        file: PathBuf,
        /// The link.
        by: PathBuf,
    },
    /// Nothing would bring it back.
    #[error("{reason}")]
    Outside {
        /// The stable code.
        code: &'static str,
        /// Why, in words.
        reason: String,
        /// The way out.
        hint: Option<String>,
    },
    /// It needs, or is needed by, a module beside it, which a folder of its own would part it from.
    #[error("`{}` imports `{}`, which {reason}", .file.display(), shown(.module))]
    Imports {
        /// The file with the import.
        file: PathBuf,
        /// The module.
        module: String,
        /// Why it cannot go along.
        reason: &'static str,
    },
    /// What it does depends on where it lies.
    #[error("`{}` {reason}", .file.display())]
    Place {
        /// The script.
        file: PathBuf,
        /// What it does.
        reason: String,
    },
    /// Packages are installed in its folder.
    #[error("`{}` holds installed packages in `{name}`, which would stay behind", .folder.display())]
    Packages {
        /// The folder.
        folder: PathBuf,
        /// Where they are.
        name: &'static str,
    },
    /// The script cannot be read.
    #[error("{}: {}", .0.file.display(), .0.message)]
    Unreadable(Box<Finding>),
    /// A `tool.yaml` cannot say everything that the script says about itself.
    #[error("a `tool.yaml` cannot say the {field} of `{}` in the same way", .file.display())]
    Different {
        /// What would differ.
        field: &'static str,
        /// The script.
        file: PathBuf,
    },
}

impl MigrationError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Lookup(err) => err.code(),
            Self::Pattern { .. } => "INVALID_PARAMETER",
            Self::NothingMatches(_) => "NOT_FOUND",
            Self::NotLegacy { .. }
            | Self::NotOfTheProject { .. }
            | Self::NotAScript(_)
            | Self::Shared(_)
            | Self::Claimed { .. } => "NOT_A_LEGACY_SCRIPT",
            Self::Tampered(_) => "HASH_MISMATCH",
            Self::Clash { .. } | Self::Occupied(_) | Self::Differs { .. } => "ITEM_EXISTS",
            Self::Outside { code, .. } => code,
            Self::Imports { .. }
            | Self::Place { .. }
            | Self::Packages { .. }
            | Self::Different { .. }
            | Self::Apart { .. }
            | Self::NamedBy { .. }
            | Self::LinkedBy { .. }
            | Self::Link(_) => "NOT_MIGRATABLE",
            Self::Unreadable(_) => "UNREADABLE_FILE",
        }
    }

    /// The way out.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Lookup(err) => err.hint(),
            Self::Pattern { .. } => Some("e.g. `ops/*`, or `--all`".to_owned()),
            Self::NothingMatches(_) => {
                Some("name a script, `category/*`, a folder such as `.ai/scripts/ops`, or `--all`".to_owned())
            }
            Self::NotLegacy { .. } => Some("only what lies below `.ai/scripts/` is migrated".to_owned()),
            Self::NotOfTheProject { .. } => {
                Some("copy it into the project first, with `piton load ID --to project`".to_owned())
            }
            Self::NotAScript(_) => Some("move it below `.ai/tools/` as it is".to_owned()),
            Self::Shared(_) => Some("it goes along with the scripts that import it: migrate those".to_owned()),
            Self::Link(_) => Some("replace the link by what it leads to".to_owned()),
            Self::Tampered(_) => Some("look at what changed since it was signed, then sign it again".to_owned()),
            Self::Clash { file, .. } => Some(format!("remove the script if `{}` replaces it", file.display())),
            Self::Claimed { by, .. } => {
                Some(format!("migrate `{}`, and it goes along; `piton validate` says whether it can", by.display()))
            }
            Self::Occupied(path) => Some(format!("move `{}` away, or remove it", path.display())),
            Self::Differs { there, .. } => {
                Some(format!("make both the same, or rename one of them; tools may import `{}`", there.display()))
            }
            Self::Apart { .. } => Some("rename one of the two, or move one of them to another folder first".to_owned()),
            Self::NamedBy { by, .. } => Some(format!(
                "let `{}` call it as a tool, or migrate it by its id and change what `{}` names",
                by.display(),
                by.display()
            )),
            Self::LinkedBy { .. } => Some("remove the link, or replace it by what it leads to".to_owned()),
            Self::Outside { hint, .. } => hint.clone(),
            Self::Imports { module, .. } => Some(format!(
                "move `{}` to `.ai/tools/lib/` and name it in `lib_imports`, or write the tool folder by hand",
                shown(module)
            )),
            Self::Place { .. } => {
                Some("look whether it works from another folder, then migrate it alone, by its id".to_owned())
            }
            Self::Packages { .. } => Some("move the folder below `.ai/tools/` as it is, with its packages".to_owned()),
            Self::Unreadable(finding) => finding.suggestion.clone(),
            Self::Different { .. } => {
                Some("write the tool folder by hand; `piton tool show` says what it has".to_owned())
            }
        }
    }
}
