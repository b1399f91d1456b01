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
use crate::problem::{Code, Explain, Hint, HintCall, hint};
use crate::trust::author::AuthorError;

/// Errors of an item step; nothing was written, unless writing itself failed.
#[derive(Debug, thiserror::Error)]
pub enum ItemStepError {
    #[error("`{}` is not an action on items", shown(.0))]
    UnknownVerb(String),
    /// A required parameter is missing.
    #[error("`{verb}` needs `{name}`")]
    Missing { verb: Verb, name: &'static str },
    /// A parameter that the step does not have.
    #[error("`{verb}` has no parameter `{}`", shown(.name))]
    Unknown {
        verb: Verb,
        name: String,
        /// The probable meaning.
        similar: Option<String>,
    },
    /// A parameter has an invalid value.
    #[error("`{name}` of `{verb}` {reason}")]
    Wrong {
        verb: Verb,
        name: String,
        reason: String,
    },
    /// There is no registry.
    #[error("piton has no registry of items")]
    NoRegistry,
    /// The item does not exist or cannot be used.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// A pattern matches no item.
    #[error("no item of the {layer} matches `{}`", shown(.pattern))]
    NothingMatches {
        pattern: String,
        /// The searched layer.
        layer: Layer,
    },
    /// The item is in another layer.
    #[error("`{name}` belongs to the {layer} layer, not to the project")]
    NotOfTheProject { name: String, layer: Layer },
    /// An item cannot be signed.
    #[error("`{name}` cannot be signed: {reason}")]
    NotSignable {
        name: String,
        reason: String,
        /// How to fix it.
        hint: Option<Hint>,
    },
    /// The script cannot become a tool folder.
    #[error(transparent)]
    Migration(#[from] MigrationError),
    /// An item does not match its stamp.
    #[error("`{0}` does not match its stamp")]
    Tampered(String),
    /// A primitive must not be copied.
    #[error("the primitive `{0}` cannot be copied")]
    Primitive(String),
    /// The destination exists.
    #[error("`{}` exists already", .path.display())]
    Exists {
        path: PathBuf,
        /// Whether `replace` would allow it.
        replaceable: bool,
    },
    /// The destination belongs to another item.
    #[error("`{}` holds another item, `{id}`", .path.display())]
    Another { path: PathBuf, id: ItemId },
    /// No item of any kind has this id.
    #[error("there is no item `{id}`")]
    NoItem {
        id: ItemId,
        /// The nearest id.
        similar: Option<ItemId>,
    },
    /// The id of a new item is invalid.
    #[error("{}", not_an_id(.name, .reason))]
    InvalidName {
        name: String,
        reason: InvalidItemId,
        /// A similar valid id.
        mended: Option<String>,
    },
    /// There is no skeleton for it.
    #[error(transparent)]
    Skeleton(SkeletonError),
    /// The MCP server of the tool was not given.
    #[error("a tool of type `mcp_tool` names the server that has it, and there are several: {}", servers(.0))]
    NoServer(Vec<String>),
    /// The same layer already has such an item.
    #[error("{kind} `{id}` exists already at `{}`", .path.display())]
    Taken {
        kind: ItemKind,
        id: ItemId,
        path: PathBuf,
    },
    /// The id belongs to a built-in item.
    #[error("{kind} `{id}` is part of piton")]
    Builtin {
        kind: ItemKind,
        id: ItemId,
        /// Whether it can be copied and changed.
        copyable: bool,
    },
    /// A file, a link or a tool is in the place of a folder.
    #[error("`{}` is in the way", .path.display())]
    InTheWay { path: PathBuf },
    /// Piton does not read items with such a name.
    #[error("an item at `{}` would be ignored because of its name", .0.display())]
    Unseen(PathBuf),
    /// The new item is invalid.
    #[error("it is not valid: {reason}")]
    NotValid {
        /// The code of the finding.
        code: Code,
        reason: String,
        /// How to fix it.
        hint: Option<Hint>,
    },
    /// The request was not confirmed.
    #[error("`{0}` can only be deleted with a confirmation")]
    Unconfirmed(String),
    /// A field cannot be changed separately.
    #[error("the fields of `{name}` cannot be changed one by one: {reason}")]
    NotByField { name: String, reason: String },
    /// There is no home to copy to.
    #[error("there is no home folder: HOME is not set to an absolute path")]
    NoHome,
    /// A file cannot be read.
    #[error("cannot read `{}`: {reason}", .path.display())]
    Unreadable { path: PathBuf, reason: String },
    /// A file cannot be written or removed.
    #[error("cannot write `{}`", .path.display())]
    Unwritable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// An agent wants to change the user's own items.
    #[error("`~/{}` is one of the user's own items, which agents cannot change", .0.display())]
    UserLayer(PathBuf),
    /// An agent wants to change what a directive permits.
    #[error("agents cannot change the permissions and hooks of directive `{0}`")]
    Powers(String),
    /// A signature cannot be made or judged.
    #[error(transparent)]
    Author(#[from] AuthorError),
    /// A file would be outside of the folder of items.
    #[error("`{}` is not below `.ai/`", .0.display())]
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
            Self::Author(err) => err.code(),
            Self::Outside(_) => Code::PathEscape,
            Self::UserLayer(_) | Self::Powers(_) => Code::AuthoringRefused,
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
                    HintCall::Search,
                    " lists the items"
                ]
            }
            Self::NotOfTheProject { .. } => hint!["copy it into the project first, with ", HintCall::LoadToProject(None)],
            Self::NotSignable { hint, .. } | Self::NotValid { hint, .. } => return hint.clone(),
            Self::Migration(err) => return err.hint(),
            Self::Tampered(_) => "look at what changed since it was signed, then sign it again".into(),
            Self::Primitive(_) => "primitives are part of piton; tools use them as their executor".into(),
            Self::Exists { replaceable: true, .. } => {
                hint!["replace it with ", HintCall::Overwrite, ", in a directive with `overwrite=\"true\"`"]
            }
            Self::Exists { replaceable: false, path } => format!("rename or remove `{}` first", path.display()).into(),
            Self::Another { .. } => "move that one first; a copy has the same path as the original".into(),
            Self::NoItem { similar, .. } => match similar {
                Some(id) => format!("did you mean `{id}`?").into(),
                None => hint![HintCall::Search, " lists the items"],
            },
            Self::InvalidName { mended: Some(id), .. } => format!("did you mean `{id}`?").into(),
            Self::InvalidName { mended: None, .. } => {
                "use lower case letters, digits and `_`; `/` after a category".into()
            }
            Self::Skeleton(err) => return err.hint(),
            Self::NoServer(_) => "say which with `--executor SERVER`".into(),
            Self::Taken { .. } => "choose another id, or edit that one".into(),
            Self::Builtin { id, copyable: true, .. } => {
                hint!["choose another id, or change a copy of it: ", HintCall::LoadToProject(Some(id.to_string()))]
            }
            Self::Builtin { .. } => "choose another id; tools use a primitive as their executor".into(),
            Self::InTheWay { path } if path.as_os_str() == ITEMS => {
                "items must be in a real folder `.ai` of the project: rename what is there".into()
            }
            Self::InTheWay { .. } => "rename it, or choose another category".into(),
            Self::Unseen(_) => "choose another name".into(),
            Self::Unconfirmed(_) => "add `confirm: true`; a dry run shows what would be deleted".into(),
            Self::NotByField { .. } => "give its whole text as `content`".into(),
            Self::NoHome => "set HOME, or use the project".into(),
            Self::Unreadable { .. } => "check that it exists, and its permissions".into(),
            Self::Unwritable { .. } => "check the permissions of its folder, and that it is not behind a link".into(),
            Self::UserLayer(_) => "write it into the project; in a terminal, the user can run `piton load ID --to user`".into(),
            Self::Powers(_) => "leave <permissions> and <hooks> as they are; a person can change them in an editor".into(),
            Self::Author(err) => return err.hint(),
            Self::Outside(_) => "items are written below `.ai/` only".into(),
        };
        Some(hint)
    }
}

fn servers(known: &[String]) -> String {
    known
        .iter()
        .map(|id| format!("`{id}`"))
        .collect::<Vec<_>>()
        .join(", ")
}
