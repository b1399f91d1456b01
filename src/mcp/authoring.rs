//! Whether agents may write items through the server.
//!
//! Writing items is a capability of its own: the person who starts the server gives it with
//! `--allow-authoring`. Under `--as` there is none.

use super::failure::ToolFailure;
use crate::authoring::Verb;
use crate::checkpoint::path::RepoPath;
use crate::context::ITEMS;
use crate::problem::Code;
use crate::run::error_titles::ErrorTitle;
use crate::run::undo::{FileEffect, UndoPreview};

/// Whether agents may write items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authoring {
    #[default]
    Refused,
    Allowed,
    /// The server is limited to a directive.
    Confined,
}

impl Authoring {
    /// Refuses an action on an item, with the command for the person.
    pub(crate) fn require(self, verb: Verb, id: &str) -> Result<(), ToolFailure> {
        let terminal = match verb {
            Verb::Create => format!("piton new tool {id}"),
            Verb::Load => format!("piton load {id} --to project"),
            Verb::Sign => format!("piton sign {id}"),
            _ => format!("piton show {id}"),
        };
        self.require_for(&format!("`{verb}`"), &terminal)
    }

    /// Refuses to undo, redo or restore something that changes items.
    pub(crate) fn require_items_kept(
        self,
        action: &str,
        preview: &UndoPreview,
    ) -> Result<(), ToolFailure> {
        let is_item = |path: &RepoPath| {
            let mut parts = path.as_path().components();
            parts.any(|part| part.as_os_str() == ITEMS)
        };
        let changes = |effect: FileEffect| {
            matches!(
                effect,
                FileEffect::Restored | FileEffect::Written | FileEffect::Removed
            )
        };
        let mut files = preview.files.iter();
        match files.find(|file| changes(file.effect) && is_item(&file.path)) {
            Some(file) => {
                let what = format!("`{action}`, which changes `{}`,", file.path);
                self.require_for(&what, &format!("piton {action}"))
            }
            None => Ok(()),
        }
    }

    fn require_for(self, what: &str, terminal: &str) -> Result<(), ToolFailure> {
        let (message, suggestion) = match self {
            Self::Allowed => return Ok(()),
            Self::Refused => (
                format!("{what} is refused: this server does not let agents change items"),
                "tell the person what to change; they can do it in a terminal, or start the server with `piton mcp --allow-authoring`",
            ),
            Self::Confined => (
                format!(
                    "{what} is refused: this server is limited to a directive, and agents cannot change items"
                ),
                "tell the person what to change; they can do it in a terminal",
            ),
        };
        Err(ToolFailure::new(
            ErrorTitle::PermissionDenied,
            Code::AuthoringRefused,
            message,
        )
        .with_suggestion(suggestion)
        .with("terminal", terminal))
    }
}
