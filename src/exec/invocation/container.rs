//! A container that a call runs in.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{InvocationRows, MaskedText, ResourceLimits, length};
use crate::item::tool::Isolation;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Container {
    /// Sockets of engines, e.g. `unix:///var/run/docker.sock`; the first that answers is used.
    pub engines: Vec<String>,
    pub image: ContainerImage,
    /// Replaces the command of the image; empty keeps it.
    pub command: Vec<MaskedText>,
    /// Replaces the entrypoint of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<MaskedText>>,
    /// The working folder inside the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The folders and files of the project that are mounted.
    pub volumes: Vec<Volume>,
    pub network: ContainerNetwork,
    /// The user inside the container.
    pub user: User,
    /// All variables except the one for the run.
    pub environment: BTreeMap<String, MaskedText>,
    /// Written to its standard input, which is then closed.
    #[serde(serialize_with = "length")]
    pub input: Vec<u8>,
    pub limits: ResourceLimits,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContainerImage {
    /// By name or digest.
    Named(String),
    Built(Built),
}

/// A build context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Built {
    pub context: PathBuf,
    /// Relative to the context.
    pub dockerfile: String,
    /// Build arguments.
    pub args: BTreeMap<String, String>,
    /// The hash of all of it, used to find the image again.
    pub sha256: String,
    /// Whether the folder is part of the tool, and so covered by its stamp.
    #[serde(skip)]
    pub is_of_tool: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// The path outside, without symlinks.
    pub source: PathBuf,
    /// The path inside.
    pub target: String,
    pub read_only: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContainerNetwork {
    None,
    /// The engine's own network, with access to other machines.
    Bridge,
    /// The network of this machine.
    Host,
}

/// The user inside a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum User {
    /// The calling user, so that files in volumes stay theirs.
    Caller,
    /// The user that the image sets.
    OfImage,
    /// A name or number, with or without a group.
    Named(String),
}

impl Container {
    /// The isolation that the container provides.
    pub fn isolation(&self) -> Isolation {
        match self.network {
            ContainerNetwork::None => Isolation::Restricted,
            ContainerNetwork::Bridge => Isolation::Sandboxed,
            // Every service on this machine can be reached like from any of its processes.
            ContainerNetwork::Host => Isolation::Standard,
        }
    }

    pub(super) fn add_to(&self, rows: &mut InvocationRows<'_>) {
        for (at, engine) in self.engines.iter().enumerate() {
            rows.add(&format!("action.engines[{at}]"), engine);
        }
        rows.add("action.image", &self.image.shown());
        for (at, word) in self.entrypoint.iter().flatten().enumerate() {
            rows.add(&format!("action.entrypoint[{at}]"), word.shown());
        }
        for (at, word) in self.command.iter().enumerate() {
            rows.add(&format!("action.command[{at}]"), word.shown());
        }
        if let Some(folder) = &self.folder {
            rows.add("action.folder", folder);
        }
        for (at, volume) in self.volumes.iter().enumerate() {
            let mode = if volume.read_only {
                "read only"
            } else {
                "writable"
            };
            let told = format!("{} at {} ({mode})", volume.source.display(), volume.target);
            rows.add(&format!("action.volumes[{at}]"), &told);
        }
        rows.add("action.network", self.network.as_str());
        rows.add("action.user", self.user.shown());
        for (name, value) in &self.environment {
            rows.add(&format!("action.environment.{name}"), value.shown());
        }
        rows.add("action.input", &format!("{} bytes", self.input.len()));
        rows.add_limits(self.limits);
    }

    pub(super) fn argv(&self) -> Vec<String> {
        let words = self
            .entrypoint
            .iter()
            .flatten()
            .chain(&self.command)
            .map(|text| text.shown().to_owned());
        ["container".to_owned(), self.image.shown()]
            .into_iter()
            .chain(words)
            .collect()
    }
}

impl ContainerImage {
    pub fn shown(&self) -> String {
        match self {
            Self::Named(name) => name.clone(),
            Self::Built(Built {
                context, sha256, ..
            }) => {
                format!(
                    "built from {} (sha256 {})",
                    context.display(),
                    sha256.get(..12).unwrap_or(sha256)
                )
            }
        }
    }
}

impl ContainerNetwork {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Bridge => "bridge",
            Self::Host => "host",
        }
    }
}

impl User {
    fn shown(&self) -> &str {
        match self {
            Self::Caller => "the caller",
            Self::OfImage => "as the image says",
            Self::Named(name) => name,
        }
    }
}
