//! Notes about running containers, so that none outlives piton for good.
//!
//! A container belongs to the engine: killing every piton process does not end it. Before a worker
//! creates one, it writes a note with the engine and the run into the user's cache folder, and
//! keeps it locked while it lives. An unlocked note means an abandoned container: [`sweep`] ends
//! it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bollard::query_parameters::{ListContainersOptions, RemoveContainerOptions};
use serde::{Deserialize, Serialize};

use super::engine::{About, ContainerEngine};
use super::is_missing;
use crate::disk::create_private_folder;

/// The label with the run of a container.
pub(super) const RUN: &str = "piton.run";
/// The label with the tool of a container.
pub(super) const TOOL: &str = "piton.tool";

/// The time limit for ending one container.
const SWEEPING_TIME: Duration = Duration::from_secs(10);

/// How long to retry for a run that is known to be over.
const INSISTING_TIME: Duration = Duration::from_secs(8);
const PAUSE: Duration = Duration::from_millis(100);

/// How often to ask the engine to remove a container, which may be ending by itself.
const TRIES: u32 = 3;

/// The file extension of notes.
const WHOLE: &str = "json";

const MAX_NOTE: u64 = 64 * 1024;

#[derive(Debug, Serialize, Deserialize)]
struct NoteText {
    engine: About,
    container: String,
}

/// The note of a container. It stays locked until [`Self::take_back`].
#[derive(Debug)]
pub(super) struct ContainerNote {
    path: PathBuf,
    _lock: File,
}

impl ContainerNote {
    pub(super) fn leave(folder: &Path, engine: &About, container: &str) -> io::Result<Self> {
        create_private_folder(folder)?;
        let path = folder.join(format!("{container}.{WHOLE}"));
        // Use another name until the note is locked and complete, so that no other process takes it
        // for abandoned.
        let unfinished = folder.join(format!("{container}.new"));
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&unfinished)?;
        file.lock()?;
        let text = NoteText {
            engine: engine.clone(),
            container: container.to_owned(),
        };
        file.write_all(&serde_json::to_vec(&text)?)?;
        file.sync_all()?;
        fs::rename(&unfinished, &path)?;
        Ok(Self { path, _lock: file })
    }

    /// Removes the note once the container is gone.
    pub(super) fn take_back(self) {
        // A note that cannot be removed is cleaned up by the next sweep.
        let _ = fs::remove_file(&self.path);
    }
}

pub(super) fn any(folder: &Path) -> bool {
    notes(folder).next().is_some()
}

/// Ends abandoned containers. Those that cannot be ended now keep their notes.
///
/// Containers of the run `over` are retried for a while: its worker may just be dying and still
/// hold its lock.
pub(super) async fn sweep(folder: &Path, over: Option<&str>) {
    let prefix = over.map(prefix_of);
    for path in notes(folder) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let insists = prefix
            .as_ref()
            .is_some_and(|prefix| name.starts_with(prefix));
        let deadline = Instant::now()
            + if insists {
                INSISTING_TIME
            } else {
                Duration::ZERO
            };
        while !settle(&path).await && Instant::now() < deadline {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// The name prefix of a run's containers.
pub(super) fn prefix_of(run: &str) -> String {
    format!("piton-{run}-")
}

/// Handles one note; returns false when the note has to stay.
async fn settle(path: &Path) -> bool {
    let (lock, text) = match abandoned(path) {
        Ok(found) => found,
        // Another process has handled it.
        Err(err) => return err.kind() == io::ErrorKind::NotFound,
    };
    let done = match text {
        Some(text) => tokio::time::timeout(SWEEPING_TIME, end(text))
            .await
            .unwrap_or(false),
        None => true,
    };
    if done {
        let _ = fs::remove_file(path);
    }
    drop(lock);
    done
}

fn notes(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|ending| ending == WHOLE))
}

/// Opens and locks a note whose worker is gone, and reads it.
fn abandoned(path: &Path) -> io::Result<(File, Option<NoteText>)> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    file.try_lock()?;
    let mut bytes = Vec::new();
    (&file).take(MAX_NOTE).read_to_end(&mut bytes)?;
    Ok((file, serde_json::from_slice(&bytes).ok()))
}

/// Ends the container of a note; returns false when it may still exist.
async fn end(text: NoteText) -> bool {
    let Ok(engine) = ContainerEngine::again(text.engine) else {
        return false;
    };
    engine.remove(&text.container).await
}

impl ContainerEngine {
    /// Kills and removes a container if it is ours; returns false when it may still exist.
    pub(super) async fn remove(&self, name: &str) -> bool {
        let filters = [
            ("name".to_owned(), vec![format!("^{name}$")]),
            ("label".to_owned(), vec![RUN.to_owned()]),
        ];
        let options = ListContainersOptions {
            all: true,
            filters: Some(filters.into()),
            ..Default::default()
        };
        let Ok(found) = self.docker.list_containers(Some(options)).await else {
            return false;
        };
        let mut gone = true;
        for id in found.into_iter().filter_map(|container| container.id) {
            gone &= self.remove_by_id(&id).await;
        }
        gone
    }

    async fn remove_by_id(&self, id: &str) -> bool {
        for _ in 0..TRIES {
            // Kill first: Podman's remove would wait for the container to end by itself.
            let _ = self.docker.kill_container(id, None).await;
            let options = RemoveContainerOptions {
                force: true,
                v: true,
                ..Default::default()
            };
            match self.docker.remove_container(id, Some(options)).await {
                Ok(()) => return true,
                Err(err) if is_missing(&err) => return true,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
        false
    }
}
