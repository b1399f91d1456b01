//! A call of a tool, as it is written down before it is made.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::item::directive::CheckpointMode;
use crate::item::finding::serialize_path;
use crate::policy::Permission;

/// A call of a tool, as it is written down before it is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Everything that takes part, as `id@version`, the tool first.
    pub chain: Vec<String>,
    /// The command of a tool that has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its parameters, without secrets; long ones are shortened.
    #[serde(default)]
    pub parameters: Map<String, Value>,
    /// What it needs, who allows it, and by what that is enforced.
    #[serde(default)]
    pub permissions: Vec<Permission>,
    /// How far it is kept from the machine.
    pub isolation: String,
    /// Why that is less than was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// Who signed what takes part, where that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authors: Vec<SignedBy>,
    /// Whether it has effects elsewhere, which nobody here can see or take back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
    /// Whether such effects are the same if it is made twice, as those of an HTTP request with GET or PUT.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeatable: bool,
}

/// Who signed an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedBy {
    /// The file of the item.
    #[serde(serialize_with = "serialize_path")]
    pub file: PathBuf,
    /// Who.
    pub name: String,
    /// The fingerprint of the key.
    pub fingerprint: String,
}

impl ToolCall {
    /// The tool, as `id@version`.
    pub fn tool(&self) -> &str {
        self.chain.first().map(String::as_str).unwrap_or_default()
    }

    /// A call about which nothing is known but what was asked for.
    pub fn unresolved(id: &str, command: Option<&str>) -> Self {
        Self {
            chain: vec![id.to_owned()],
            command: command.map(str::to_owned),
            parameters: Map::new(),
            permissions: Vec::new(),
            isolation: String::new(),
            degraded: None,
            authors: Vec::new(),
            external: false,
            repeatable: false,
        }
    }
}

/// What a process wrote: how much, and a hash of all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// How many bytes.
    pub bytes: u64,
    /// Their sha256.
    pub sha256: String,
}

/// What becomes of the changes of a command that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterFailure {
    /// They are put back.
    Rollback,
    /// They stay on disk.
    Keep,
}

impl AfterFailure {
    /// What a mode wants where the user does not say.
    pub fn of_mode(mode: CheckpointMode) -> Self {
        if mode == CheckpointMode::Auto { Self::Rollback } else { Self::Keep }
    }

    /// The one of this name.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "rollback" => Some(Self::Rollback),
            "keep" => Some(Self::Keep),
            _ => None,
        }
    }
}
