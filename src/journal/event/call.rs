//! A tool call as it is recorded before it is made.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::item::directive::CheckpointMode;
use crate::item::finding::serialize_path;
use crate::policy::Permission;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The executor chain as `id@version`, the tool first.
    pub chain: Vec<String>,
    /// For a tool with several commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Without secrets; long values are shortened.
    #[serde(default)]
    pub parameters: Map<String, Value>,
    /// What the call needs, which directive grants it, and what enforces it.
    #[serde(default)]
    pub permissions: Vec<Permission>,
    /// The isolation level.
    pub isolation: String,
    /// Why the isolation is weaker than requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// Why the isolation is stronger than requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raised: Option<String>,
    /// The signers of the items in the chain, if signatures were checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authors: Vec<SignedBy>,
    /// Whether the call has effects outside the repository, which piton can neither see nor undo.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
    /// Whether repeating the call has no further effect, as with an HTTP GET or PUT.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeatable: bool,
}

/// The signer of an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedBy {
    /// The file of the item.
    #[serde(serialize_with = "serialize_path")]
    pub file: PathBuf,
    pub name: String,
    /// The fingerprint of the signing key.
    pub fingerprint: String,
}

impl ToolCall {
    /// As `id@version`.
    pub fn tool(&self) -> &str {
        self.chain.first().map(String::as_str).unwrap_or_default()
    }

    /// A call that could not be resolved: only the request is known.
    pub fn unresolved(id: &str, command: Option<&str>) -> Self {
        Self {
            chain: vec![id.to_owned()],
            command: command.map(str::to_owned),
            parameters: Map::new(),
            permissions: Vec::new(),
            isolation: String::new(),
            degraded: None,
            raised: None,
            authors: Vec::new(),
            external: false,
            repeatable: false,
        }
    }
}

/// The size and hash of what a process wrote to one stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamDigest {
    pub bytes: u64,
    pub sha256: String,
}

/// What happens to the changes of a command that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterFailure {
    /// They are rolled back.
    Rollback,
    Keep,
}

impl AfterFailure {
    /// The default for a checkpoint mode.
    pub fn of_mode(mode: CheckpointMode) -> Self {
        if mode == CheckpointMode::Auto {
            Self::Rollback
        } else {
            Self::Keep
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "rollback" => Some(Self::Rollback),
            "keep" => Some(Self::Keep),
            _ => None,
        }
    }
}
