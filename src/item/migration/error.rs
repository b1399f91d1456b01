//! Errors of migrating an item.

use std::path::PathBuf;

use crate::item::finding::Finding;
use crate::item::id::ItemId;
use crate::item::store::{Layer, LookupError};
use crate::item::wording::shown;
use crate::problem::{Code, Explain, Hint, HintCall, hint};

#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// No item, or more than one, has this id.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    #[error("`{}` is not a pattern: {reason}", shown(.pattern))]
    Pattern { pattern: String, reason: String },
    #[error("no script of the project matches `{}`", shown(.0))]
    NothingMatches(String),
    #[error("tool `{id}` is no legacy script: it lies at `{}`", .file.display())]
    NotLegacy { id: ItemId, file: PathBuf },
    #[error("script `{id}` belongs to the {layer} layer, not to the project")]
    NotOfTheProject { id: ItemId, layer: Layer },
    #[error("`{}` is not a script", .0.display())]
    NotAScript(PathBuf),
    #[error("`{}` is a module that scripts share", .0.display())]
    Shared(PathBuf),
    #[error("`{}` is a link, or lies behind one", .0.display())]
    Link(PathBuf),
    #[error("`{}` does not match its stamp", .0.display())]
    Tampered(PathBuf),
    #[error("tool `{id}` exists already at `{}`", .file.display())]
    Clash { id: ItemId, file: PathBuf },
    /// It is the entrypoint of a manifest.
    #[error("`{}` is what `{}` starts with", .file.display(), .by.display())]
    Claimed { file: PathBuf, by: PathBuf },
    #[error("`{}` exists already", .0.display())]
    Occupied(PathBuf),
    /// A library module with the same name but other content exists.
    #[error("`{}` exists already, and is not the same as `{}`", .there.display(), .file.display())]
    Differs { file: PathBuf, there: PathBuf },
    /// The folders of two migrated tools would be nested.
    #[error("`{}` and what `{}` becomes would lie one in the other", .to.display(), .other.display())]
    Apart { to: PathBuf, other: PathBuf },
    /// Another file names its path and would no longer find it.
    #[error("`{}` is named by `{}`", .file.display(), .by.display())]
    NamedBy { file: PathBuf, by: PathBuf },
    /// A symlink points to it and would dangle.
    #[error("`{}` is what the link `{}` leads to", .file.display(), .by.display())]
    LinkedBy { file: PathBuf, by: PathBuf },
    /// The file could not be restored after the move.
    #[error("{reason}")]
    Outside {
        /// The stable code.
        code: Code,
        /// Why, in words.
        reason: String,
        /// The way out.
        hint: Option<Hint>,
    },
    /// It needs, or is needed by, a module beside it, which a folder of its own would part it from.
    #[error("`{}` imports `{}`, which {reason}", .file.display(), shown(.module))]
    Imports {
        file: PathBuf,
        module: String,
        reason: &'static str,
    },
    /// Its behaviour depends on its location.
    #[error("`{}` {reason}", .file.display())]
    Place { file: PathBuf, reason: String },
    /// Packages are installed in its folder.
    #[error("`{}` holds installed packages in `{name}`, which would stay behind", .folder.display())]
    Packages { folder: PathBuf, name: &'static str },
    #[error("{}: {}", .0.file.display(), .0.message)]
    Unreadable(Box<Finding>),
    /// A `tool.yaml` cannot express everything that the script declares.
    #[error("a `tool.yaml` cannot say the {field} of `{}` in the same way", .file.display())]
    Different { field: &'static str, file: PathBuf },
}

impl Explain for MigrationError {
    fn code(&self) -> Code {
        match self {
            Self::Lookup(err) => err.code(),
            Self::Pattern { .. } => Code::InvalidParameter,
            Self::NothingMatches(_) => Code::NotFound,
            Self::NotLegacy { .. }
            | Self::NotOfTheProject { .. }
            | Self::NotAScript(_)
            | Self::Shared(_)
            | Self::Claimed { .. } => Code::NotALegacyScript,
            Self::Tampered(_) => Code::HashMismatch,
            Self::Clash { .. } | Self::Occupied(_) | Self::Differs { .. } => Code::ItemExists,
            Self::Outside { code, .. } => *code,
            Self::Imports { .. }
            | Self::Place { .. }
            | Self::Packages { .. }
            | Self::Different { .. }
            | Self::Apart { .. }
            | Self::NamedBy { .. }
            | Self::LinkedBy { .. }
            | Self::Link(_) => Code::NotMigratable,
            Self::Unreadable(_) => Code::UnreadableFile,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Lookup(err) => err.hint(),
            Self::Pattern { .. } => Some("e.g. `ops/*`, or `--all`".into()),
            Self::NothingMatches(_) => {
                Some("name a script, `category/*`, a folder such as `.ai/scripts/ops`, or `--all`".into())
            }
            Self::NotLegacy { .. } => Some("only what lies below `.ai/scripts/` is migrated".into()),
            Self::NotOfTheProject { .. } => {
                Some(hint!["copy it into the project first, with ", HintCall::LoadToProject(Some("ID".to_owned()))])
            }
            Self::NotAScript(_) => Some("move it below `.ai/tools/` as it is".into()),
            Self::Shared(_) => Some("it goes along with the scripts that import it: migrate those".into()),
            Self::Link(_) => Some("replace the link by what it leads to".into()),
            Self::Tampered(_) => Some("look at what changed since it was signed, then sign it again".into()),
            Self::Clash { file, .. } => Some(format!("remove the script if `{}` replaces it", file.display()).into()),
            Self::Claimed { by, .. } => Some(hint![
                format!("migrate `{}`, and it goes along; ", by.display()),
                HintCall::Validate,
                " says whether it can"
            ]),
            Self::Occupied(path) => Some(format!("move `{}` away, or remove it", path.display()).into()),
            Self::Differs { there, .. } => Some(
                format!("make both the same, or rename one of them; tools may import `{}`", there.display()).into(),
            ),
            Self::Apart { .. } => Some("rename one of the two, or move one of them to another folder first".into()),
            Self::NamedBy { by, .. } => Some(
                format!(
                    "let `{}` call it as a tool, or migrate it by its id and change what `{}` names",
                    by.display(),
                    by.display()
                )
                .into(),
            ),
            Self::LinkedBy { .. } => Some("remove the link, or replace it by what it leads to".into()),
            Self::Outside { hint, .. } => hint.clone(),
            Self::Imports { module, .. } => Some(
                format!(
                    "move `{}` to `.ai/tools/lib/` and name it in `lib_imports`, or write the tool folder by hand",
                    shown(module)
                )
                .into(),
            ),
            Self::Place { .. } => {
                Some("look whether it works from another folder, then migrate it alone, by its id".into())
            }
            Self::Packages { .. } => Some("move the folder below `.ai/tools/` as it is, with its packages".into()),
            Self::Unreadable(finding) => finding.suggestion.clone(),
            Self::Different { .. } => Some("write the tool folder by hand; `piton tool show` says what it has".into()),
        }
    }
}
