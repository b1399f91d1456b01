//! What went wrong, in the few words that agents know.
//!
//! The first five are those of the tool servers that came before piton; clients compare them. The code beside them is
//! exact, the message says the rest.

use crate::item::code::Code;
use crate::item::store::ItemKind;

/// The words for a code, about a kind of items where that is known.
pub fn headline(code: &str, kind: Option<ItemKind>) -> &'static str {
    match code {
        "NOT_FOUND" => match kind {
            Some(ItemKind::Tool) => "Tool not found",
            Some(ItemKind::Directive) => "Directive not found",
            Some(ItemKind::Knowledge) => "Knowledge not found",
            None => "Not found",
        },
        "DIRECTIVE_NOT_FOUND" => "Directive not found",
        "SIGNATURE_MISMATCH" | "HASH_MISMATCH" => "Content hash mismatch",
        "INVALID_ITEM" | "NOT_STAMPABLE" => "Invalid metadata",
        "RUN_NOT_FOUND" => "Run not found",
        "PERMISSION_DENIED" | "WRITE_DENIED" | "SIGNATURE_REQUIRED" => "Permission denied",
        "INVALID_ID" => "Invalid item id",
        "DUPLICATE_ID" => "Ambiguous item id",
        "ITEM_EXISTS" | "PRIMITIVE_SHADOWED" => "Item exists",
        "NOT_OF_THE_PROJECT" => "Not an item of the project",
        "NOT_CONFIRMED" => "Not confirmed",
        "NO_REGISTRY" => "Registry not supported",
        "LOCKED" => "Project busy",
        "INVALID_SETTINGS" => "Invalid settings",
        "NOT_A_PROJECT" | "NOT_A_FOLDER" => "Project not found",
        "RUN_WAITS" => "Run waits",
        "INTERRUPTED" | "CANCELLED" => "Cancelled",
        // A file that is wrong and a call that is wrong have it in common; here it is the call.
        "INVALID_PARAMETER" => "Execution failed",
        // What is wrong with the text of an item has a code of its own.
        code if Code::ALL.iter().any(|known| known.as_str() == code) => "Invalid metadata",
        _ => "Execution failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_that_clients_compare_are_exactly_those() {
        let tool = Some(ItemKind::Tool);
        assert_eq!(headline("NOT_FOUND", tool), "Tool not found");
        assert_eq!(headline("SIGNATURE_MISMATCH", tool), "Content hash mismatch");
        assert_eq!(headline("HASH_MISMATCH", tool), "Content hash mismatch");
        assert_eq!(headline("INVALID_ITEM", tool), "Invalid metadata");
        assert_eq!(headline("MISSING_REQUIRED_FIELD", tool), "Invalid metadata");
        assert_eq!(headline("TOOL_RAISED", tool), "Execution failed");
        assert_eq!(headline("INVALID_PARAMETER", tool), "Execution failed");
    }

    #[test]
    fn every_kind_of_item_has_its_own_words() {
        assert_eq!(headline("NOT_FOUND", Some(ItemKind::Directive)), "Directive not found");
        assert_eq!(headline("NOT_FOUND", Some(ItemKind::Knowledge)), "Knowledge not found");
        assert_eq!(headline("NOT_FOUND", None), "Not found");
    }
}
