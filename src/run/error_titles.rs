//! The short, stable titles of errors in answers to agents.
//!
//! Clients of earlier tool servers compare the titles "… not found", "Content hash mismatch",
//! "Invalid metadata", "Permission denied" and "Execution failed". The code beside a title is exact,
//! and the message has the details.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::item::store::ItemKind;
use crate::problem::{Code, CodeLevel};

/// The title of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorTitle {
    AmbiguousId,
    AnswerRefused,
    /// The name of the missing argument.
    ArgumentRequired(String),
    Cancelled,
    ExecutionFailed,
    HashMismatch,
    Internal,
    InvalidArgument,
    InvalidId,
    InvalidMetadata,
    InvalidSettings,
    ItemExists,
    NoRegistry,
    NotConfirmed,
    /// An item, with its kind once that is known.
    NotFound(Option<ItemKind>),
    NotOfTheProject,
    PermissionDenied,
    PersonNeeded,
    ProjectBusy,
    ProjectNotFound,
    ProjectNotServed,
    ResourceTooLarge,
    RunNotFound,
    RunWaits,
    StepNotFound,
    TopicNotFound,
}

impl ErrorTitle {
    /// The title for a code, and for a kind of item if it is known.
    pub fn of(code: Code, kind: Option<ItemKind>) -> Self {
        match code {
            Code::NotFound => Self::NotFound(kind),
            Code::DirectiveNotFound => Self::NotFound(Some(ItemKind::Directive)),
            Code::SignatureMismatch | Code::HashMismatch => Self::HashMismatch,
            Code::InvalidItem | Code::NotStampable => Self::InvalidMetadata,
            Code::RunNotFound => Self::RunNotFound,
            Code::PermissionDenied
            | Code::WriteDenied
            | Code::SignatureRequired
            | Code::AuthoringRefused => Self::PermissionDenied,
            Code::ConsentNeeded | Code::PersonNeeded => Self::PersonNeeded,
            Code::InvalidId => Self::InvalidId,
            Code::DuplicateId => Self::AmbiguousId,
            Code::ItemExists | Code::PrimitiveShadowed => Self::ItemExists,
            Code::NotOfTheProject => Self::NotOfTheProject,
            Code::NotConfirmed => Self::NotConfirmed,
            Code::NoRegistry => Self::NoRegistry,
            Code::Locked => Self::ProjectBusy,
            Code::InvalidSettings => Self::InvalidSettings,
            Code::NotAProject | Code::NotAFolder => Self::ProjectNotFound,
            Code::RunWaits => Self::RunWaits,
            Code::Interrupted | Code::Cancelled => Self::Cancelled,
            // Used for invalid files and for invalid calls; here it is a call.
            Code::InvalidParameter => Self::ExecutionFailed,
            // Codes of findings are about the text of an item.
            code if code.level() != CodeLevel::RunTime => Self::InvalidMetadata,
            _ => Self::ExecutionFailed,
        }
    }
}

impl fmt::Display for ErrorTitle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::ArgumentRequired(name) => return write!(formatter, "{name} is required"),
            Self::AmbiguousId => "Ambiguous item id",
            Self::AnswerRefused => "Answer refused",
            Self::Cancelled => "Cancelled",
            Self::ExecutionFailed => "Execution failed",
            Self::HashMismatch => "Content hash mismatch",
            Self::Internal => "Internal error",
            Self::InvalidArgument => "Invalid argument",
            Self::InvalidId => "Invalid item id",
            Self::InvalidMetadata => "Invalid metadata",
            Self::InvalidSettings => "Invalid settings",
            Self::ItemExists => "Item exists",
            Self::NoRegistry => "Registry not supported",
            Self::NotConfirmed => "Not confirmed",
            Self::NotFound(None) => "Not found",
            Self::NotFound(Some(ItemKind::Tool)) => "Tool not found",
            Self::NotFound(Some(ItemKind::Directive)) => "Directive not found",
            Self::NotFound(Some(ItemKind::Knowledge)) => "Knowledge not found",
            Self::NotOfTheProject => "Not an item of the project",
            Self::PermissionDenied => "Permission denied",
            Self::PersonNeeded => "Person needed",
            Self::ProjectBusy => "Project busy",
            Self::ProjectNotFound => "Project not found",
            Self::ProjectNotServed => "Project not served",
            Self::ResourceTooLarge => "Resource too large",
            Self::RunNotFound => "Run not found",
            Self::RunWaits => "Run waits",
            Self::StepNotFound => "Step not found",
            Self::TopicNotFound => "Topic not found",
        })
    }
}

impl Serialize for ErrorTitle {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title(code: Code, kind: Option<ItemKind>) -> String {
        ErrorTitle::of(code, kind).to_string()
    }

    #[test]
    fn the_titles_that_clients_compare_are_exact() {
        let tool = Some(ItemKind::Tool);
        for (code, expected) in [
            (Code::NotFound, "Tool not found"),
            (Code::SignatureMismatch, "Content hash mismatch"),
            (Code::HashMismatch, "Content hash mismatch"),
            (Code::InvalidItem, "Invalid metadata"),
            (Code::MissingRequiredField, "Invalid metadata"),
            (Code::PermissionDenied, "Permission denied"),
            (Code::ToolRaised, "Execution failed"),
            (Code::InvalidParameter, "Execution failed"),
        ] {
            assert_eq!(title(code, tool), expected, "{code}");
        }
    }

    #[test]
    fn every_kind_of_item_has_its_own_title() {
        for (kind, expected) in [
            (Some(ItemKind::Directive), "Directive not found"),
            (Some(ItemKind::Knowledge), "Knowledge not found"),
            (None, "Not found"),
        ] {
            assert_eq!(title(Code::NotFound, kind), expected);
        }
    }
}
