//! Who asks for the work of a context: a person, or an agent.
//!
//! The terminal speaks for a person. The client of the MCP server is an agent, except where it
//! passes on the answer of a person to a question of the server. [`UnreviewedFiles`] knows which item
//! files changed since a server first saw their project, by calls or by an editor of the agent; the
//! items run only after a person has allowed them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Who asks for the work of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Principal {
    Person(PersonChannel),
    Agent,
}

/// How a person talks to piton.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PersonChannel {
    /// A command line, where piton can ask.
    Terminal,
    /// A command line without a terminal: the person is not there, and an agent may be.
    Script,
    /// A question that an MCP client showed to its user.
    Elicitation,
}

/// The item files that may be an agent's work while a server runs. Without a server nothing is kept.
#[derive(Clone, Debug, Default)]
pub struct UnreviewedFiles(Option<Arc<Mutex<Reviews>>>);

#[derive(Debug)]
struct Reviews {
    /// When the server began.
    since: Timestamp,
    files: BTreeSet<PathBuf>,
    /// The sha256 of each item file of a project when the server first saw it.
    seen: BTreeMap<PathBuf, BTreeMap<PathBuf, String>>,
    consents: Consents,
    /// The digests of the items that a person has allowed.
    allowed: BTreeSet<String>,
}

/// Whether a person can allow an item while a server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consents {
    Counted,
    /// The server is limited to a directive: changed items do not run.
    Ignored,
}

impl Principal {
    /// The channel of the person; none for an agent.
    pub fn channel(self) -> Option<PersonChannel> {
        match self {
            Self::Person(channel) => Some(channel),
            Self::Agent => None,
        }
    }
}

impl PersonChannel {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::Script => "script",
            Self::Elicitation => "elicitation",
        }
    }
}

impl UnreviewedFiles {
    /// For a server, which lets agents work.
    pub fn of_server(since: Timestamp, consents: Consents) -> Self {
        Self(Some(Arc::new(Mutex::new(Reviews {
            since,
            files: BTreeSet::new(),
            seen: BTreeMap::new(),
            consents,
            allowed: BTreeSet::new(),
        }))))
    }

    /// Whether a server lets agents work.
    pub fn is_served(&self) -> bool {
        self.0.is_some()
    }

    /// When the server began.
    pub fn since(&self) -> Option<Timestamp> {
        self.with(|reviews| reviews.since)
    }

    /// Keeps the files that an agent has changed.
    pub fn add(&self, files: impl IntoIterator<Item = PathBuf>) {
        self.with(|reviews| reviews.files.extend(files));
    }

    /// Keeps the item files of a project and their content, the first time.
    pub fn see(&self, root: &Path, files: impl FnOnce() -> BTreeMap<PathBuf, String>) {
        self.with(|reviews| {
            let seen = reviews.seen.entry(root.to_path_buf());
            seen.or_insert_with(files);
        });
    }

    /// The files of an item that an agent may have changed. `files` are all that there are, with
    /// their content; a file that is gone counts if it was in the folder of the item.
    pub fn changed<'f>(
        &self,
        root: &Path,
        files: &'f BTreeMap<PathBuf, String>,
        folder: Option<&Path>,
    ) -> BTreeSet<&'f Path> {
        let changed = self.with(|reviews| {
            let seen = reviews.seen.get(root);
            let was = |file: &PathBuf| seen.and_then(|seen| seen.get(file));
            let is_in = |file: &Path| folder.is_some_and(|folder| file.starts_with(folder));
            let mut gone = seen
                .iter()
                .flat_map(|seen| seen.keys())
                .chain(&reviews.files);
            let is_lessened = gone.any(|file| is_in(file) && !files.contains_key(file));
            let is_changed = |(file, digest): &(&PathBuf, &String)| {
                reviews.files.contains(*file)
                    || was(file) != Some(*digest)
                    || (is_lessened && is_in(file))
            };
            let changed = files.iter().filter(is_changed);
            changed.map(|(file, _)| file.as_path()).collect()
        });
        changed.unwrap_or_default()
    }

    /// Keeps that a person has allowed an item with this content.
    pub fn allow(&self, digest: &str) {
        self.with(|reviews| reviews.allowed.insert(digest.to_owned()));
    }

    pub fn is_allowed(&self, digest: &str) -> bool {
        self.with(|reviews| reviews.allowed.contains(digest))
            .unwrap_or_default()
    }

    /// Whether changed items do not run at all.
    pub fn is_pinned(&self) -> bool {
        self.with(|reviews| reviews.consents == Consents::Ignored)
            .unwrap_or_default()
    }

    fn with<T>(&self, then: impl FnOnce(&mut Reviews) -> T) -> Option<T> {
        let reviews = self.0.as_ref()?;
        Some(then(
            &mut reviews.lock().unwrap_or_else(PoisonError::into_inner),
        ))
    }
}
