//! A container that a call runs in.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Limits, Rows, Text, length};
use crate::item::tool::Isolation;

/// A container to run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Container {
    /// Where an engine may listen, e.g. `unix:///var/run/docker.sock`; the first that answers is used.
    pub engines: Vec<String>,
    /// What it is made of.
    pub image: Image,
    /// The words that it runs, in place of those of the image; none leaves them to it.
    pub command: Vec<Text>,
    /// The program in place of that of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<Text>>,
    /// The folder inside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The folders and files of the project that it sees.
    pub volumes: Vec<Volume>,
    /// The network that it is in.
    pub network: Network,
    /// Who it runs as, inside.
    pub user: User,
    /// The variables that it gets, but for the one that names the run.
    pub environment: BTreeMap<String, Text>,
    /// What it reads from its standard input; then that is closed.
    #[serde(serialize_with = "length")]
    pub input: Vec<u8>,
    /// What it may use up.
    pub limits: Limits,
}

/// What a container is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Image {
    /// An image by its name or digest.
    Named(String),
    /// A folder that one is built from.
    Built(Built),
}

/// A folder that an image is built from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Built {
    /// The folder.
    pub context: PathBuf,
    /// The file in it that says how.
    pub dockerfile: String,
    /// The values that this file asks for.
    pub args: BTreeMap<String, String>,
    /// The hash of all of it, by which the image is found again.
    pub sha256: String,
    /// Whether the folder belongs to the tool as a whole, and with it to its stamp.
    #[serde(skip)]
    pub is_of_tool: bool,
}

/// A folder or file of the project inside a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// The path outside, free of links.
    pub source: PathBuf,
    /// The path inside.
    pub target: String,
    /// Whether nothing can be written there.
    pub read_only: bool,
}

/// The network that a container is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// None at all.
    None,
    /// One of the engine, from which other machines can be reached.
    Bridge,
    /// That of this machine.
    Host,
}

/// Who a container runs as, inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum User {
    /// Whoever calls, so that files in volumes stay theirs.
    Caller,
    /// Whoever the image says.
    OfImage,
    /// A name or a number, with or without a group.
    Named(String),
}

impl Container {
    /// How far the container keeps what runs in it from the machine.
    pub fn isolation(&self) -> Isolation {
        match self.network {
            Network::None => Isolation::Restricted,
            Network::Bridge => Isolation::Sandboxed,
            // Whatever listens on this machine can be reached as from any of its processes.
            Network::Host => Isolation::Standard,
        }
    }

    pub(super) fn add_to(&self, rows: &mut Rows<'_>) {
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
            let mode = if volume.read_only { "read only" } else { "writable" };
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

    pub(super) fn words(&self) -> Vec<String> {
        let words = self.entrypoint.iter().flatten().chain(&self.command).map(|text| text.shown().to_owned());
        ["container".to_owned(), self.image.shown()].into_iter().chain(words).collect()
    }
}

impl Image {
    /// What it is, for people.
    pub fn shown(&self) -> String {
        match self {
            Self::Named(name) => name.clone(),
            Self::Built(Built { context, sha256, .. }) => {
                format!("built from {} (sha256 {})", context.display(), sha256.get(..12).unwrap_or(sha256))
            }
        }
    }
}

impl Network {
    /// The word for it.
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
