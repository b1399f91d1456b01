//! Notes about containers that run, so that none outlives piton for good.
//!
//! A container belongs to the engine: killing every process of piton does not end it. Before one is made,
//! its worker leaves a note with the engine and the run in the user's cache folder and keeps it locked as long as
//! it lives. A note that nobody has locked is about a container that nobody looks after: [`sweep`] ends it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bollard::query_parameters::{ListContainersOptions, RemoveContainerOptions};
use serde::{Deserialize, Serialize};

use super::engine::{About, Engine};
use super::is_missing;

/// The label that names the run of a container.
pub(super) const RUN: &str = "piton.run";
/// The label that names the tool of a container.
pub(super) const TOOL: &str = "piton.tool";

/// How long ending one container may take.
const SWEEPING_TIME: Duration = Duration::from_secs(10);

/// How long it is tried where it has to succeed, and how long is waited in between.
const INSISTING_TIME: Duration = Duration::from_secs(8);
const PAUSE: Duration = Duration::from_millis(100);

/// How often an engine is asked to remove a container, which may be about to end by itself.
const TRIES: u32 = 3;

/// How the name of a note ends.
const WHOLE: &str = "json";

/// The largest note that is read.
const MAX_NOTE: u64 = 64 * 1024;

/// What a note says.
#[derive(Debug, Serialize, Deserialize)]
struct Text {
    engine: About,
    /// The name of the container.
    container: String,
}

/// The note of a container that is about to run. It stays, and stays locked, until it is taken back.
#[derive(Debug)]
pub(super) struct Note {
    path: PathBuf,
    _lock: File,
}

impl Note {
    /// Leaves a note.
    pub(super) fn leave(folder: &Path, engine: &About, container: &str) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let path = folder.join(format!("{container}.{WHOLE}"));
        // Under another name until it is locked and complete: nobody else may take it for abandoned.
        let unfinished = folder.join(format!("{container}.new"));
        let mut file = OpenOptions::new().write(true).create_new(true).open(&unfinished)?;
        file.lock()?;
        let text = Text { engine: engine.clone(), container: container.to_owned() };
        file.write_all(&serde_json::to_vec(&text)?)?;
        file.sync_all()?;
        fs::rename(&unfinished, &path)?;
        Ok(Self { path, _lock: file })
    }

    /// Takes it back: the container is gone.
    pub(super) fn take_back(self) {
        // One that stays is about nothing, which the next sweep finds out.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether there is any note, of whomever.
pub(super) fn any(folder: &Path) -> bool {
    notes(folder).next().is_some()
}

/// Ends the containers that nobody looks after; what cannot be ended now keeps its note.
///
/// Those of a run that is known to be over are insisted on: its worker may be dying just now, and have its lock still.
pub(super) async fn sweep(folder: &Path, over: Option<&str>) {
    let prefix = over.map(prefix_of);
    for path in notes(folder) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let insists = prefix.as_ref().is_some_and(|prefix| name.starts_with(prefix));
        let deadline = Instant::now() + if insists { INSISTING_TIME } else { Duration::ZERO };
        while !settle(&path).await && Instant::now() < deadline {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// The name that the containers of a run begin with.
pub(super) fn prefix_of(run: &str) -> String {
    format!("piton-{run}-")
}

/// Sees to one note; no when it is to stay.
async fn settle(path: &Path) -> bool {
    let (lock, text) = match abandoned(path) {
        Ok(found) => found,
        // Somebody else has seen to it.
        Err(err) => return err.kind() == io::ErrorKind::NotFound,
    };
    let done = match text {
        Some(text) => tokio::time::timeout(SWEEPING_TIME, end(text)).await.unwrap_or(false),
        // None of ours.
        None => true,
    };
    if done {
        let _ = fs::remove_file(path);
    }
    drop(lock);
    done
}

fn notes(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|ending| ending == WHOLE))
}

/// A note that nobody has locked, with what it says.
fn abandoned(path: &Path) -> io::Result<(File, Option<Text>)> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    file.try_lock()?;
    let mut bytes = Vec::new();
    (&file).take(MAX_NOTE).read_to_end(&mut bytes)?;
    Ok((file, serde_json::from_slice(&bytes).ok()))
}

/// Ends the container of a note; no when it may still be there.
async fn end(text: Text) -> bool {
    let Ok(engine) = Engine::again(text.engine) else { return false };
    engine.remove(&text.container).await
}

impl Engine {
    /// Kills and removes a container, if it is one of ours; no when it may still be there.
    pub(super) async fn remove(&self, name: &str) -> bool {
        let filters = [("name".to_owned(), vec![format!("^{name}$")]), ("label".to_owned(), vec![RUN.to_owned()])];
        let options = ListContainersOptions { all: true, filters: Some(filters.into()), ..Default::default() };
        let Ok(found) = self.docker.list_containers(Some(options)).await else { return false };
        let mut gone = true;
        for id in found.into_iter().filter_map(|container| container.id) {
            gone &= self.remove_by_id(&id).await;
        }
        gone
    }

    async fn remove_by_id(&self, id: &str) -> bool {
        for _ in 0..TRIES {
            // Removing alone would let Podman wait for it to end by itself.
            let _ = self.docker.kill_container(id, None).await;
            let options = RemoveContainerOptions { force: true, v: true, ..Default::default() };
            match self.docker.remove_container(id, Some(options)).await {
                Ok(()) => return true,
                Err(err) if is_missing(&err) => return true,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
        false
    }
}
