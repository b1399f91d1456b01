//! A container that a call runs in.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use super::{Rows, Text, length};

/// A container to run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Container {
    /// Where the engine listens, e.g. `unix:///var/run/docker.sock`.
    pub engine: Text,
    /// What it is made of.
    pub image: Image,
    /// The words that it runs, in place of those of the image.
    pub command: Vec<Text>,
    /// The program in place of that of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<Text>>,
    /// The folder inside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The folders of the project that it sees.
    pub volumes: Vec<Volume>,
    /// The network that it is in: `none`, `bridge` or `host`.
    pub network: String,
    /// Who it runs as, inside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The variables that it gets.
    pub environment: BTreeMap<String, Text>,
    /// What it reads from its standard input; then that is closed.
    #[serde(serialize_with = "length")]
    pub input: Vec<u8>,
    /// The most memory it may use, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
}

/// What a container is made of.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Image {
    /// An image by its name or digest.
    Named(String),
    /// A folder with a `Dockerfile`, and the hash of everything in it.
    Built {
        /// The folder.
        context: PathBuf,
        /// The hash, which is also how the image is found again.
        sha256: String,
    },
}

/// A folder of the project inside a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Volume {
    /// The folder outside.
    pub source: PathBuf,
    /// The folder inside.
    pub target: String,
    /// Whether nothing can be written there.
    pub read_only: bool,
}

impl Container {
    pub(super) fn add_to(&self, rows: &mut Rows<'_>) {
        rows.add("action.engine", self.engine.shown());
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
        rows.add("action.network", &self.network);
        if let Some(user) = &self.user {
            rows.add("action.user", user);
        }
        for (name, value) in &self.environment {
            rows.add(&format!("action.environment.{name}"), value.shown());
        }
        rows.add("action.input", &format!("{} bytes", self.input.len()));
        if let Some(memory) = self.memory {
            rows.add("action.memory", &memory.to_string());
        }
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
            Self::Built { context, sha256 } => {
                format!("built from {} (sha256 {})", context.display(), sha256.get(..12).unwrap_or(sha256))
            }
        }
    }
}
