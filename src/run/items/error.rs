//! Why an item step could not be carried out.

use std::io;
use std::path::PathBuf;

use crate::item::migration::MigrationError;
use crate::item::store::{Layer, LookupError};
use crate::item::wording::{did_you_mean, shown};

/// Everything that can stop an item step; nothing was written then, unless writing itself failed.
#[derive(Debug, thiserror::Error)]
pub enum ItemStepError {
    /// There is no such step.
    #[error("`{}` is not something that is done with items", shown(.0))]
    UnknownVerb(String),
    /// A parameter that is needed was not given.
    #[error("`<{verb}>` needs `{name}`")]
    Missing {
        /// The step.
        verb: String,
        /// The parameter.
        name: &'static str,
    },
    /// A parameter that the step does not have.
    #[error("`<{verb}>` has no parameter `{}`", shown(.name))]
    Unknown {
        /// The step.
        verb: String,
        /// The parameter.
        name: String,
        /// What was probably meant.
        similar: Option<String>,
    },
    /// A parameter has a value that it cannot have.
    #[error("`{name}` of `<{verb}>` {reason}")]
    Wrong {
        /// The step.
        verb: String,
        /// The parameter.
        name: String,
        /// What it must be.
        reason: String,
    },
    /// The item does not exist or cannot be used.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// A pattern means no item of the project.
    #[error("no item of the project matches `{}`", shown(.0))]
    NothingMatches(String),
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
        hint: Option<String>,
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
    /// There is no home to copy to.
    #[error("there is no home folder to copy to")]
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

impl ItemStepError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownVerb(_) => "UNKNOWN_VERB",
            Self::Missing { .. } => "MISSING_PARAMETER",
            Self::Unknown { .. } => "UNKNOWN_PARAMETER",
            Self::Wrong { .. } => "INVALID_PARAMETER",
            Self::Lookup(err) => err.code(),
            Self::NothingMatches(_) => "NOT_FOUND",
            Self::NotOfTheProject { .. } => "NOT_OF_THE_PROJECT",
            Self::NotSignable { .. } => "NOT_STAMPABLE",
            Self::Migration(err) => err.code(),
            Self::Tampered(_) => "HASH_MISMATCH",
            Self::Primitive(_) => "PRIMITIVE_SHADOWED",
            Self::Exists { .. } => "ITEM_EXISTS",
            Self::NoHome => "NO_HOME",
            Self::Unreadable { .. } => "UNREADABLE_FILE",
            Self::Unwritable { .. } => "UNWRITABLE_FILE",
            Self::Outside(_) => "PATH_ESCAPE",
        }
    }

    /// The way out.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::UnknownVerb(_) => "items are searched, loaded, signed and migrated".to_owned(),
            Self::Missing { verb, name } => format!("write <{verb} {name}=\"…\"/>"),
            Self::Unknown { similar, .. } => did_you_mean(similar.as_deref(), "remove it"),
            Self::Wrong { .. } => return None,
            Self::Lookup(err) => return err.hint(),
            Self::NothingMatches(_) => "write an id, `category/*` or `*`; `piton validate` lists the items".to_owned(),
            Self::NotOfTheProject { .. } => {
                "copy it into the project first, with `<load … destination=\"project\"/>`".to_owned()
            }
            Self::NotSignable { hint, .. } => return hint.clone(),
            Self::Migration(err) => return err.hint(),
            Self::Tampered(_) => "look at what changed since it was signed, then sign it again".to_owned(),
            Self::Primitive(_) => "primitives are part of piton; a tool names them as its executor".to_owned(),
            Self::Exists { replaceable: true, .. } => "add overwrite=\"true\" to replace it".to_owned(),
            Self::Exists { replaceable: false, path } => format!("rename or remove `{}` first", path.display()),
            Self::NoHome => "set HOME, or copy to `project`".to_owned(),
            Self::Unreadable { .. } => "check that it is there and its permissions".to_owned(),
            Self::Unwritable { .. } => "check the permissions of its folder, and that no link leads there".to_owned(),
            Self::Outside(_) => "items are written below `.ai/` only".to_owned(),
        };
        Some(hint)
    }
}
