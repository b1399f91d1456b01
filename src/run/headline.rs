//! What went wrong, in the few words that agents know.
//!
//! The first five are those of the tool servers that came before piton; clients compare them. The code beside them is
//! exact, the message says the rest.

use crate::item::store::ItemKind;
use crate::problem::{Code, Level};

/// The words for a code, about a kind of items where that is known.
pub fn headline(code: Code, kind: Option<ItemKind>) -> &'static str {
    match code {
        Code::NotFound => match kind {
            Some(ItemKind::Tool) => "Tool not found",
            Some(ItemKind::Directive) => "Directive not found",
            Some(ItemKind::Knowledge) => "Knowledge not found",
            None => "Not found",
        },
        Code::DirectiveNotFound => "Directive not found",
        Code::SignatureMismatch | Code::HashMismatch => "Content hash mismatch",
        Code::InvalidItem | Code::NotStampable => "Invalid metadata",
        Code::RunNotFound => "Run not found",
        Code::PermissionDenied | Code::WriteDenied | Code::SignatureRequired => "Permission denied",
        Code::InvalidId => "Invalid item id",
        Code::DuplicateId => "Ambiguous item id",
        Code::ItemExists | Code::PrimitiveShadowed => "Item exists",
        Code::NotOfTheProject => "Not an item of the project",
        Code::NotConfirmed => "Not confirmed",
        Code::NoRegistry => "Registry not supported",
        Code::Locked => "Project busy",
        Code::InvalidSettings => "Invalid settings",
        Code::NotAProject | Code::NotAFolder => "Project not found",
        Code::RunWaits => "Run waits",
        Code::Interrupted | Code::Cancelled => "Cancelled",
        // A file that is wrong and a call that is wrong have it in common; here it is the call.
        Code::InvalidParameter => "Execution failed",
        // What is wrong with the text of an item has a code of its own.
        code if code.level() != Level::RunTime => "Invalid metadata",
        _ => "Execution failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_that_clients_compare_are_exactly_those() {
        let tool = Some(ItemKind::Tool);
        assert_eq!(headline(Code::NotFound, tool), "Tool not found");
        assert_eq!(headline(Code::SignatureMismatch, tool), "Content hash mismatch");
        assert_eq!(headline(Code::HashMismatch, tool), "Content hash mismatch");
        assert_eq!(headline(Code::InvalidItem, tool), "Invalid metadata");
        assert_eq!(headline(Code::MissingRequiredField, tool), "Invalid metadata");
        assert_eq!(headline(Code::ToolRaised, tool), "Execution failed");
        assert_eq!(headline(Code::InvalidParameter, tool), "Execution failed");
    }

    #[test]
    fn every_kind_of_item_has_its_own_words() {
        assert_eq!(headline(Code::NotFound, Some(ItemKind::Directive)), "Directive not found");
        assert_eq!(headline(Code::NotFound, Some(ItemKind::Knowledge)), "Knowledge not found");
        assert_eq!(headline(Code::NotFound, None), "Not found");
    }
}
