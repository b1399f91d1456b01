//! Pinned definitions of server tools, so that changes are noticed.
//!
//! A server could show one definition to a person and another one later. The first call saves the
//! definition outside of the work tree; every later call must find the same. A different one is
//! saved beside it for a person to accept: only the CLI calls [`Pins::accept`].

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::content::LONGEST_TEXT;
use crate::disk::create_private_folder;
use crate::encoding::hex;
use crate::exec::invocation::{Mcp, McpTransport};
use crate::exec::worker::{FailureKind, WorkFailure};
use crate::item::source::{Unread, read_bytes};
use crate::item::wording::{one_line, shown};

const MOST: u64 = 64 * 1024 * 1024;

/// The most changes in a message.
const MOST_CHANGES: usize = 12;

/// The longest value in a message.
const LONGEST: usize = 200;

/// The pinned fields: everything that a model reads before it calls.
const FIELDS: [&str; 6] = [
    "name",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
];

/// A tool, its server, and how the server is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PinKey {
    pub(super) server: String,
    pub(super) tool: String,
    /// Text without secrets: another program or address is another server.
    pub(super) reached: String,
}

impl PinKey {
    pub(super) fn of(mcp: &Mcp) -> Self {
        let reached = match &mcp.transport {
            McpTransport::Stdio(process) => {
                let words = std::iter::once(&process.program).chain(&process.arguments);
                let words: Vec<String> = words.map(|text| format!("{:?}", text.shown())).collect();
                format!("stdio {}", words.join(" "))
            }
            McpTransport::Remote { kind, url, .. } => {
                format!("{} {:?}", kind.as_str(), url.shown())
            }
        };
        Self {
            server: mcp.server.clone(),
            tool: mcp.tool.clone().unwrap_or_default(),
            reached,
        }
    }

    fn file(&self) -> String {
        let mut digest = Sha256::new();
        for part in [&self.server, &self.tool, &self.reached] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part.as_bytes());
        }
        format!("{}.json", hex(&digest.finalize()))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolPin {
    /// The version of the file format.
    v: u32,
    pub server: String,
    /// The tool's name on the server.
    pub tool: String,
    pub reached: String,
    /// The SHA-256 of the definition.
    pub sha256: String,
    /// The pinned definition.
    definition: Value,
    /// A changed definition that was not accepted yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Changed {
    pub server: String,
    /// The tool's name on the server.
    pub tool: String,
    pub reached: String,
    /// The SHA-256 of the new definition.
    pub sha256: String,
    pub changes: Vec<PinChange>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PinChange {
    /// For example `inputSchema.properties.path`.
    pub field: String,
    /// `None` when it was added.
    pub old: Option<Value>,
    /// `None` when it was removed.
    pub new: Option<Value>,
}

#[derive(Debug, thiserror::Error)]
pub enum PinError {
    #[error("cannot read `{}`", .file.display())]
    Unreadable {
        file: PathBuf,
        #[source]
        source: Unread,
    },
    #[error("`{}` holds no definition of a tool: {reason}", .file.display())]
    Invalid { file: PathBuf, reason: String },
    #[error("cannot write below `{}`: {source}", .folder.display())]
    Unwritable {
        folder: PathBuf,
        #[source]
        source: io::Error,
    },
}

#[derive(Debug)]
pub(super) enum PinVerdict {
    Same,
    /// First call; the result says whether the definition could be saved.
    First(Result<(), PinError>),
    Changed(WorkFailure),
}

/// The pinned definitions of a project.
#[derive(Clone, Debug)]
pub struct Pins {
    folder: PathBuf,
}

impl Pins {
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_path_buf(),
        }
    }

    /// Compares a tool with its pinned definition, or pins it.
    pub(super) fn judge(&self, key: &PinKey, tool: &Value) -> Result<PinVerdict, WorkFailure> {
        let definition = definition(tool);
        let file = self.folder.join(key.file());
        let unusable = |err: &PinError| {
            let source = std::error::Error::source(err)
                .map(|source| format!(": {source}"))
                .unwrap_or_default();
            // Without the file it is unknown whether the tool has changed, so refuse it.
            WorkFailure::new(FailureKind::McpChanged, format!("{err}{source}"))
                .suggest("remove the file, if you trust what the server says now")
        };
        let Some(mut pin) = load(&file).map_err(|err| unusable(&err))? else {
            let sha256 = sha256(&definition);
            let PinKey {
                server,
                tool,
                reached,
            } = key.clone();
            let pin = ToolPin {
                v: 1,
                server,
                tool,
                reached,
                sha256,
                definition,
                refused: None,
            };
            return Ok(PinVerdict::First(self.write(&file, &pin)));
        };
        if pin.definition == definition {
            if pin.refused.take().is_some() {
                // The tool is back to its pinned definition: nothing to accept. If this write
                // fails, a later change is refused again anyway.
                let _ = self.write(&file, &pin);
            }
            return Ok(PinVerdict::Same);
        }
        let changes = differences(&pin.definition, &definition);
        pin.refused = Some(definition);
        self.write(&file, &pin).map_err(|err| unusable(&err))?;
        let message = format!(
            "the MCP server `{}` has changed the definition of its tool `{}`{}",
            key.server,
            shown(&key.tool),
            lines(&changes)
        );
        let way_out = format!(
            "nothing was called; if you trust it as it is now: `piton tool accept {} {}`",
            key.server,
            shown(&key.tool)
        );
        Ok(PinVerdict::Changed(
            WorkFailure::new(FailureKind::McpChanged, message).suggest(way_out),
        ))
    }

    /// The refused tools of a server, or just one of them.
    pub fn refused(&self, server: &str, tool: Option<&str>) -> Result<Vec<Changed>, PinError> {
        Ok(self
            .find(server, tool)?
            .iter()
            .filter_map(|(_, pin)| changed(pin))
            .collect())
    }

    /// Accepts the refused definitions as they were saved.
    pub fn accept(&self, server: &str, tool: Option<&str>) -> Result<Vec<Changed>, PinError> {
        let mut accepted = Vec::new();
        for (file, mut pin) in self.find(server, tool)? {
            let (Some(changed), Some(definition)) = (changed(&pin), pin.refused.take()) else {
                continue;
            };
            pin.sha256.clone_from(&changed.sha256);
            pin.definition = definition;
            self.write(&file, &pin)?;
            accepted.push(changed);
        }
        Ok(accepted)
    }

    /// The pins of a server's tools, by name.
    fn find(&self, server: &str, tool: Option<&str>) -> Result<Vec<(PathBuf, ToolPin)>, PinError> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.folder)
            .into_iter()
            .flatten()
            .flatten()
        {
            let file = entry.path();
            if file.extension().is_none_or(|it| it != "json") {
                continue;
            }
            let Some(pin) = load(&file)? else { continue };
            if pin.server == server && tool.is_none_or(|tool| tool == pin.tool) {
                found.push((file, pin));
            }
        }
        found.sort_by(|a, b| (&a.1.tool, &a.1.reached).cmp(&(&b.1.tool, &b.1.reached)));
        Ok(found)
    }

    fn write(&self, file: &Path, pin: &ToolPin) -> Result<(), PinError> {
        let write = || {
            create_private_folder(&self.folder)?;
            let mut draft = tempfile::NamedTempFile::new_in(&self.folder)?;
            draft.write_all(&serde_json::to_vec_pretty(pin)?)?;
            draft.as_file().sync_all()?;
            draft.persist(file).map_err(|err| err.error)?;
            Ok(())
        };
        write().map_err(|source| PinError::Unwritable {
            folder: self.folder.clone(),
            source,
        })
    }
}

/// Reads a pin; `None` when there is none.
fn load(file: &Path) -> Result<Option<ToolPin>, PinError> {
    let bytes = match read_bytes(file, MOST) {
        Ok(bytes) => bytes,
        Err(_)
            if file
                .symlink_metadata()
                .is_err_and(|err| err.kind() == io::ErrorKind::NotFound) =>
        {
            return Ok(None);
        }
        Err(source) => {
            return Err(PinError::Unreadable {
                file: file.to_path_buf(),
                source,
            });
        }
    };
    let invalid = |reason: String| PinError::Invalid {
        file: file.to_path_buf(),
        reason,
    };
    let pin: ToolPin = serde_json::from_slice(&bytes).map_err(|err| invalid(err.to_string()))?;
    if pin.v != 1 {
        return Err(invalid(format!(
            "its format is {}, and this piton knows 1",
            pin.v
        )));
    }
    Ok(Some(pin))
}

fn changed(pin: &ToolPin) -> Option<Changed> {
    let refused = pin.refused.as_ref()?;
    Some(Changed {
        server: pin.server.clone(),
        tool: pin.tool.clone(),
        reached: pin.reached.clone(),
        sha256: sha256(refused),
        changes: differences(&pin.definition, refused),
    })
}

/// The compared fields of a tool.
fn definition(tool: &Value) -> Value {
    let field = |name: &&str| Some(((*name).to_owned(), tool.get(*name)?.clone()));
    Value::Object(FIELDS.iter().filter_map(field).collect::<Map<_, _>>())
}

/// The hash of a value, independent of key order.
fn sha256(value: &Value) -> String {
    hex(&Sha256::digest(sorted(value).to_string().as_bytes()))
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let by_name: BTreeMap<&String, Value> = map
                .iter()
                .map(|(name, value)| (name, sorted(value)))
                .collect();
            Value::Object(
                by_name
                    .into_iter()
                    .map(|(name, value)| (name.clone(), value))
                    .collect(),
            )
        }
        Value::Array(list) => list.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

/// All differences by path; objects are compared recursively.
fn differences(old: &Value, new: &Value) -> Vec<PinChange> {
    let mut changes = Vec::new();
    compare(String::new(), Some(old), Some(new), &mut changes);
    changes
}

fn compare(field: String, old: Option<&Value>, new: Option<&Value>, changes: &mut Vec<PinChange>) {
    match (old, new) {
        (old, new) if old == new => {}
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let names = before
                .keys()
                .chain(after.keys().filter(|name| !before.contains_key(*name)));
            for name in names {
                let inner = if field.is_empty() {
                    name.clone()
                } else {
                    format!("{field}.{name}")
                };
                compare(inner, before.get(name), after.get(name), changes);
            }
        }
        (old, new) => changes.push(PinChange {
            field,
            old: old.cloned(),
            new: new.cloned(),
        }),
    }
}

fn lines(changes: &[PinChange]) -> String {
    let more = changes.len().saturating_sub(MOST_CHANGES);
    let more = (more > 0).then(|| format!("\n  and {more} more"));
    changes
        .iter()
        .take(MOST_CHANGES)
        .map(|change| format!("\n  {change}"))
        .chain(more)
        .collect()
}

impl std::fmt::Display for PinChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = |value: &Value| one_line(&value.to_string(), LONGEST);
        write!(f, "`{}` ", one_line(&self.field, LONGEST_TEXT))?;
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => write!(f, "was {} and is {}", value(old), value(new)),
            (Some(old), None) => write!(f, "was {} and is gone", value(old)),
            (None, Some(new)) => write!(f, "is new: {}", value(new)),
            (None, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
