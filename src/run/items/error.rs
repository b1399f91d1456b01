//! Why an item step could not be carried out.

use std::io;
use std::path::PathBuf;

use super::Verb;
use crate::context::ITEMS;
use crate::item::id::{InvalidItemId, ItemId};
use crate::item::migration::MigrationError;
use crate::item::skeleton::SkeletonError;
use crate::item::store::{ItemKind, Layer, LookupError, not_an_id};
use crate::item::wording::{did_you_mean, shown};
use crate::problem::{Call, Code, Explain, Hint, hint};

/// Everything that can stop an item step; nothing was written then, unless writing itself failed.
#[derive(Debug, thiserror::Error)]
pub enum ItemStepError {
    /// There is no such step.
    #[error("`{}` is not something that is done with items", shown(.0))]
    UnknownVerb(String),
    /// A parameter that is needed was not given.
    #[error("`{verb}` needs `{name}`")]
    Missing {
        /// The step.
        verb: Verb,
        /// The parameter.
        name: &'static str,
    },
    /// A parameter that the step does not have.
    #[error("`{verb}` has no parameter `{}`", shown(.name))]
    Unknown {
        /// The step.
        verb: Verb,
        /// The parameter.
        name: String,
        /// What was probably meant.
        similar: Option<String>,
    },
    /// A parameter has a value that it cannot have.
    #[error("`{name}` of `{verb}` {reason}")]
    Wrong {
        /// The step.
        verb: Verb,
        /// The parameter.
        name: String,
        /// What it must be.
        reason: String,
    },
    /// There is no registry.
    #[error("piton has no registry of items")]
    NoRegistry,
    /// The item does not exist or cannot be used.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// A pattern means no item.
    #[error("no item of the {layer} matches `{}`", shown(.pattern))]
    NothingMatches {
        /// The pattern.
        pattern: String,
        /// Whose items were looked at.
        layer: Layer,
    },
    /// The item belongs to somebody else.
    #[error("`{name}` is not the project's but comes from the {layer} layer")]
    NotOfTheProject {
        /// The item.
        name: String,
        /// Where it comes from.
        layer: Layer,
    },
    /// An item cannot be signed.
    #[error("`{name}` cannot be signed: {reason}")]
    NotSignable {
        /// The item.
        name: String,
        /// Why.
        reason: String,
        /// What to do about it.
        hint: Option<Hint>,
    },
    /// The script cannot become a tool folder.
    #[error(transparent)]
    Migration(#[from] MigrationError),
    /// An item is not what was stamped.
    #[error("`{0}` is not what was stamped")]
    Tampered(String),
    /// An item may not exist a second time.
    #[error("the primitive `{0}` cannot be copied")]
    Primitive(String),
    /// The place to copy to is taken.
    #[error("`{}` exists already", .path.display())]
    Exists {
        /// What is there.
        path: PathBuf,
        /// Whether it may be replaced when asked to.
        replaceable: bool,
    },
    /// The place to copy to is that of something else.
    #[error("`{}` holds another item, `{id}`", .path.display())]
    Another {
        /// What is there.
        path: PathBuf,
        /// What it is called.
        id: ItemId,
    },
    /// Nothing of any kind has this id.
    #[error("there is no item `{id}`")]
    NoItem {
        /// What was asked for.
        id: ItemId,
        /// The nearest id there is.
        similar: Option<ItemId>,
    },
    /// What is to be created has no id that can be one.
    #[error("{}", not_an_id(.name, .reason))]
    InvalidName {
        /// What was given.
        name: String,
        /// What is wrong with it.
        reason: InvalidItemId,
        /// What may have been meant.
        mended: Option<String>,
    },
    /// There is no skeleton for it.
    #[error(transparent)]
    Skeleton(SkeletonError),
    /// Nobody said which MCP server has the tool.
    #[error("a tool of type `mcp_tool` names the server that has it, and there are several: {}", servers(.0))]
    NoServer(Vec<String>),
    /// Something like it exists in the same layer.
    #[error("{kind} `{id}` exists already at `{}`", .path.display())]
    Taken {
        /// What it is.
        kind: ItemKind,
        /// Its id.
        id: ItemId,
        /// Where it lies.
        path: PathBuf,
    },
    /// The id belongs to an item of piton.
    #[error("{kind} `{id}` is part of piton")]
    Builtin {
        /// What it is.
        kind: ItemKind,
        /// Its id.
        id: ItemId,
        /// Whether it may be copied and changed.
        copyable: bool,
    },
    /// A file, a link or a tool is where a folder has to be.
    #[error("`{}` is in the way", .path.display())]
    InTheWay {
        /// What is there.
        path: PathBuf,
    },
    /// Items of such a name are not read.
    #[error("an item at `{}` would not be found: such names are passed over", .0.display())]
    Unseen(PathBuf),
    /// What is to be created is not valid.
    #[error("it is not valid: {reason}")]
    NotValid {
        /// The code of the finding.
        code: Code,
        /// What is wrong.
        reason: String,
        /// The way out.
        hint: Option<Hint>,
    },
    /// Nobody said that it is meant.
    #[error("`{0}` is deleted only when that is confirmed")]
    Unconfirmed(String),
    /// A field cannot be changed by itself.
    #[error("the fields of `{name}` cannot be changed one by one: {reason}")]
    NotByField {
        /// The item.
        name: String,
        /// Why.
        reason: String,
    },
    /// There is no home to copy to.
    #[error("there is no home folder: HOME is not set to an absolute path")]
    NoHome,
    /// A file cannot be read.
    #[error("cannot read `{}`: {reason}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A file cannot be written or removed.
    #[error("cannot write `{}`", .path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file would lie outside of the folder of items.
    #[error("`{}` does not lie below `.ai/`", .0.display())]
    Outside(PathBuf),
}

impl Explain for ItemStepError {
    fn code(&self) -> Code {
        match self {
            Self::UnknownVerb(_) => Code::UnknownVerb,
            Self::Missing { .. } | Self::NoServer(_) => Code::MissingParameter,
            Self::Unknown { .. } => Code::UnknownParameter,
            Self::Wrong { .. } | Self::NotByField { .. } => Code::InvalidParameter,
            Self::NoRegistry => Code::NoRegistry,
            Self::Lookup(err) => err.code(),
            Self::NothingMatches { .. } | Self::NoItem { .. } => Code::NotFound,
            Self::NotOfTheProject { .. } => Code::NotOfTheProject,
            Self::NotSignable { .. } => Code::NotStampable,
            Self::Migration(err) => err.code(),
            Self::Tampered(_) => Code::HashMismatch,
            Self::Primitive(_) | Self::Builtin { .. } => Code::PrimitiveShadowed,
            Self::Exists { .. } | Self::Another { .. } | Self::Taken { .. } => Code::ItemExists,
            Self::InvalidName { .. } => Code::InvalidId,
            Self::Skeleton(err) => err.code(),
            Self::InTheWay { .. } => Code::InTheWay,
            Self::Unseen(_) => Code::InvalidPath,
            Self::NotValid { code, .. } => *code,
            Self::Unconfirmed(_) => Code::NotConfirmed,
            Self::NoHome => Code::NoHome,
            Self::Unreadable { .. } => Code::UnreadableFile,
            Self::Unwritable { .. } => Code::UnwritableFile,
            Self::Outside(_) => Code::PathEscape,
        }
    }

    fn hint(&self) -> Option<Hint> {
        let hint = match self {
            Self::UnknownVerb(_) => "items are searched, loaded, signed, migrated, created, updated and deleted".into(),
            Self::Missing { verb, name } => format!("in a directive, write <{verb} {name}=\"…\"/>").into(),
            Self::Unknown { similar, .. } => did_you_mean(similar.as_deref(), "remove it").into(),
            Self::Wrong { name, .. } if name == "item_type" => "in the terminal, `--type` says it".into(),
            Self::Wrong { name, .. } if name == "category" => "give it once: before the id, or apart from it".into(),
            Self::Wrong { .. } => return None,
            Self::NoRegistry => {
                "`source` is `project`, `user`, `builtin`, or `local` for the first two and `all` for everything".into()
            }
            Self::Lookup(err) => return err.hint(),
            Self::NothingMatches { .. } => {
                hint![
                    "write an id, `category/*`, `*`, or a file or folder of items; ",
                    Call::Search,
                    " lists the items"
                ]
            }
            Self::NotOfTheProject { .. } => hint!["copy it into the project first, with ", Call::LoadToProject(None)],
            Self::NotSignable { hint, .. } | Self::NotValid { hint, .. } => return hint.clone(),
            Self::Migration(err) => return err.hint(),
            Self::Tampered(_) => "look at what changed since it was signed, then sign it again".into(),
            Self::Primitive(_) => "primitives are part of piton; a tool names them as its executor".into(),
            Self::Exists { replaceable: true, .. } => {
                hint!["replace it with ", Call::Overwrite, ", in a directive with `overwrite=\"true\"`"]
            }
            Self::Exists { replaceable: false, path } => format!("rename or remove `{}` first", path.display()).into(),
            Self::Another { .. } => "move that one first; a copy lies at the place of its original".into(),
            Self::NoItem { similar, .. } => match similar {
                Some(id) => format!("did you mean `{id}`?").into(),
                None => hint![Call::Search, " lists the items"],
            },
            Self::InvalidName { mended: Some(id), .. } => format!("did you mean `{id}`?").into(),
            Self::InvalidName { mended: None, .. } => {
                "use lower case letters, digits and `_`; `/` after a category".into()
            }
            Self::Skeleton(err) => return err.hint(),
            Self::NoServer(_) => "say which with `--executor SERVER`".into(),
            Self::Taken { .. } => "choose another id, or edit that one".into(),
            Self::Builtin { id, copyable: true, .. } => {
                hint!["choose another id, or change a copy of it: ", Call::LoadToProject(Some(id.to_string()))]
            }
            Self::Builtin { .. } => "choose another id; a tool names a primitive as its executor".into(),
            Self::InTheWay { path } if path.as_os_str() == ITEMS => {
                "items lie in a folder `.ai` of the project itself: rename what is there".into()
            }
            Self::InTheWay { .. } => "rename it, or choose another category".into(),
            Self::Unseen(_) => "choose another name".into(),
            Self::Unconfirmed(_) => "`confirm: true` says that it is meant; a dry run shows what would go".into(),
            Self::NotByField { .. } => "give its whole text as `content`".into(),
            Self::NoHome => "set HOME, or use the project".into(),
            Self::Unreadable { .. } => "check that it is there and its permissions".into(),
            Self::Unwritable { .. } => "check the permissions of its folder, and that no link leads there".into(),
            Self::Outside(_) => "items are written below `.ai/` only".into(),
        };
        Some(hint)
    }
}

fn servers(known: &[String]) -> String {
    known.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ")
}
