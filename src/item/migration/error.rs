//! Why something of `.ai/scripts/` cannot be moved.

use std::path::PathBuf;

use crate::item::finding::Finding;
use crate::item::id::ItemId;
use crate::item::store::{Layer, LookupError};
use crate::item::wording::shown;
use crate::problem::{Call, Code, Explain, Hint, hint};

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
        code: Code,
        /// Why, in words.
        reason: String,
        /// The way out.
        hint: Option<Hint>,
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
                Some(hint!["copy it into the project first, with ", Call::LoadToProject(Some("ID".to_owned()))])
            }
            Self::NotAScript(_) => Some("move it below `.ai/tools/` as it is".into()),
            Self::Shared(_) => Some("it goes along with the scripts that import it: migrate those".into()),
            Self::Link(_) => Some("replace the link by what it leads to".into()),
            Self::Tampered(_) => Some("look at what changed since it was signed, then sign it again".into()),
            Self::Clash { file, .. } => Some(format!("remove the script if `{}` replaces it", file.display()).into()),
            Self::Claimed { by, .. } => Some(hint![
                format!("migrate `{}`, and it goes along; ", by.display()),
                Call::Validate,
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
