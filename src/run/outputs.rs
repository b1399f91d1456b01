//! Saved outputs: what each call of a tool came to, as a file below `.ai/outputs/`.
//!
//! They are kept out of git by a `.gitignore` of their own, which is there before the first of them.
//! Folders are entered without following links, a file appears whole or not at all, and none is
//! ever overwritten: calls at the same second get a number.

use std::fs::File;
use std::io::{self, Write};
use std::iter;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, mkdirat, open, openat, statat, unlinkat};
use rustix::io::{Errno, retry_on_intr};
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::failpoint::failpoint;
use crate::item::source::read_bytes;
use crate::journal::RunId;

/// The most calls of one tool in one second.
const MAX_NUMBER: u32 = 10_000;
/// Who may do what with a new file, before the user's mask.
const NEW_FILE: Mode = Mode::from_raw_mode(0o666);
/// The largest saved output that is read again.
const MOST_BYTES: u64 = 64 << 20;
/// Keeps outputs out of git.
const IGNORE: &str = ".gitignore";

/// Why an output was not saved.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// A folder of outputs cannot be used.
    #[error("cannot use the folder `{}`", .folder.display())]
    Folder {
        /// The folder, in the project.
        folder: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write `{}`", .file.display())]
    File {
        /// The file, in the project.
        file: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Saves what a call came to; returns the file, relative to the project.
pub(super) fn save(root: &Path, tool: &str, now: Timestamp, output: &impl Serialize) -> Result<String, OutputError> {
    save_below(root, "tools", tool, now, output)
}

/// Saves an answer that was too large to be given; returns the file, relative to the project.
pub fn spill(ctx: &Context, name: &str, answer: &impl Serialize) -> Result<String, OutputError> {
    save_below(&ctx.root, "answers", name, ctx.now(), answer)
}

/// What a tool wrote, as it was saved.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SavedOutput {
    /// Its standard output.
    #[serde(default)]
    pub stdout: String,
    /// Its standard error.
    #[serde(default)]
    pub stderr: String,
    #[serde(skip_serializing)]
    run_id: Option<RunId>,
}

/// Finds what a tool wrote in a run: of its call after `earlier` others in the same run.
///
/// Outputs may have been deleted; then there is none, or that of a later call.
pub fn find(root: &Path, tool: &str, run: RunId, earlier: usize) -> Option<SavedOutput> {
    let folder = root.join(".ai/outputs/tools").join(tool);
    let mut names: Vec<(String, u32)> = Vec::new();
    for entry in folder.read_dir().ok()?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(stem) = name.strip_prefix("output_").and_then(|name| name.strip_suffix(".json")) else { continue };
        // `20260102_030405`, or `20260102_030405_2` for the second call in that second.
        let number = stem.get(16..).and_then(|number| number.parse().ok()).unwrap_or(1);
        names.push((stem.get(..15).unwrap_or(stem).to_owned(), number));
    }
    names.sort();
    let files = names.into_iter().map(|(time, number)| match number {
        1 => folder.join(format!("output_{time}.json")),
        number => folder.join(format!("output_{time}_{number}.json")),
    });
    let saved = files.filter_map(|file| serde_json::from_slice(&read_bytes(&file, MOST_BYTES).ok()?).ok());
    saved.filter(|output: &SavedOutput| output.run_id == Some(run)).nth(earlier)
}

fn save_below(
    root: &Path,
    kind: &str,
    name: &str,
    now: Timestamp,
    output: &impl Serialize,
) -> Result<String, OutputError> {
    let outputs = Folder::enter(root, ".ai")?.child("outputs")?;
    // Before anything that it hides.
    if statat(&outputs.open, IGNORE, AtFlags::SYMLINK_NOFOLLOW).is_err() {
        match outputs.add(b"*\n", [IGNORE.to_owned()]) {
            Ok(_) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(OutputError::File { file: outputs.path.join(IGNORE), source: errno.into() }),
        }
    }
    let mut folder = outputs.child(kind)?;
    for part in name.split('/') {
        folder = folder.child(part)?;
    }
    let time = now.strftime("%Y%m%d_%H%M%S");
    let first = format!("output_{time}.json");
    let failed = |source: io::Error| OutputError::File { file: folder.path.join(&first), source };
    let mut text = serde_json::to_vec_pretty(output).map_err(|err| failed(err.into()))?;
    text.push(b'\n');
    let others = (2..=MAX_NUMBER).map(|number| format!("output_{time}_{number}.json"));
    let name = folder.add(&text, iter::once(first.clone()).chain(others)).map_err(|errno| failed(errno.into()))?;
    Ok(folder.path.join(name).to_string_lossy().into_owned())
}

/// A file that is being written.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux has files without a name"))]
enum Unfinished {
    /// One that vanishes unless it is given a name.
    Nameless(File),
    /// One beside its place.
    Named(String),
}

/// A folder of the project that is open, so that nothing can be put in its place.
struct Folder {
    open: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Opens a folder at the top of the project.
    fn enter(root: &Path, name: &str) -> Result<Self, OutputError> {
        let failed = |source: Errno| OutputError::Folder { folder: root.to_path_buf(), source: source.into() };
        let top = open(root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
        Self { open: top, path: PathBuf::new() }.child(name)
    }

    /// Opens a folder in this one and makes it if need be; a link is not followed.
    fn child(&self, name: &str) -> Result<Self, OutputError> {
        let path = self.path.join(name);
        let enter = || {
            match mkdirat(&self.open, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            openat(&self.open, name, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
        };
        match enter() {
            Ok(open) => Ok(Self { open, path }),
            Err(errno) => Err(OutputError::Folder { folder: path, source: errno.into() }),
        }
    }

    /// Adds a file that appears whole, under the first name that is free; returns that.
    fn add(&self, content: &[u8], names: impl IntoIterator<Item = String>) -> Result<String, Errno> {
        let unfinished = self.unfinished(content)?;
        failpoint("output-written");
        let mut placed = Err(Errno::EXIST);
        for name in names {
            let linked = match &unfinished {
                Unfinished::Nameless(file) => {
                    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
                    linkat(CWD, own.as_str(), &self.open, name.as_str(), AtFlags::SYMLINK_FOLLOW)
                }
                Unfinished::Named(own) => linkat(&self.open, own.as_str(), &self.open, name.as_str(), AtFlags::empty()),
            };
            placed = match linked {
                // Some file systems have no links; there it may be seen before it is whole.
                Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOENT) => self.write(&name, content),
                linked => linked,
            }
            .map(|()| name);
            if !matches!(placed, Err(Errno::EXIST)) {
                break;
            }
        }
        if let Unfinished::Named(own) = unfinished {
            let _ = unlinkat(&self.open, own.as_str(), AtFlags::empty());
        }
        failpoint("output-saved");
        placed
    }

    /// Writes a file that nobody sees yet; a death leaves nothing of it where the system can do that.
    fn unfinished(&self, content: &[u8]) -> Result<Unfinished, Errno> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        #[cfg(target_os = "linux")]
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        if let Ok(open) = retry_on_intr(|| openat(&self.open, ".", flags, NEW_FILE)) {
            let mut file = File::from(open);
            file.write_all(content).map_err(|err| Errno::from_io_error(&err).unwrap_or(Errno::IO))?;
            return Ok(Unfinished::Nameless(file));
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!(".unfinished.{}-{number}.tmp", std::process::id());
        // One of that name is from a process of the same number that was killed.
        let _ = unlinkat(&self.open, name.as_str(), AtFlags::empty());
        self.write(&name, content)?;
        Ok(Unfinished::Named(name))
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<(), Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(retry_on_intr(|| openat(&self.open, name, flags, NEW_FILE))?);
        file.write_all(content).map_err(|err| {
            let _ = unlinkat(&self.open, name, AtFlags::empty());
            Errno::from_io_error(&err).unwrap_or(Errno::IO)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::thread;

    use serde_json::json;

    use super::*;

    fn save_at(root: &Path, time: &str) -> Result<String, OutputError> {
        save(root, "greet", time.parse().unwrap(), &json!({"status": "success"}))
    }

    #[test]
    fn an_output_is_named_after_the_tool_and_the_time_and_never_overwritten() {
        let root = tempfile::tempdir().unwrap();
        let first = save_at(root.path(), "2026-01-02T03:04:05Z").unwrap();
        let second = save_at(root.path(), "2026-01-02T03:04:05.9Z").unwrap();
        assert_eq!(first, ".ai/outputs/tools/greet/output_20260102_030405.json");
        assert_eq!(second, ".ai/outputs/tools/greet/output_20260102_030405_2.json");
        let saved = fs::read_to_string(root.path().join(first)).unwrap();
        assert_eq!(saved, "{\n  \"status\": \"success\"\n}\n");
        assert_eq!(fs::read_to_string(root.path().join(".ai/outputs/.gitignore")).unwrap(), "*\n");
        let files = fs::read_dir(root.path().join(".ai/outputs/tools/greet")).unwrap();
        assert_eq!(files.count(), 2, "nothing unfinished is left");
    }

    #[test]
    fn a_link_in_the_place_of_a_folder_is_not_followed() {
        for linked in [".ai", ".ai/outputs", ".ai/outputs/tools", ".ai/outputs/tools/greet"] {
            let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let link = root.path().join(linked);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(outside.path(), &link).unwrap();
            let refused = save_at(root.path(), "2026-01-02T03:04:05Z");
            assert!(matches!(refused, Err(OutputError::Folder { .. })), "{linked}: {refused:?}");
            assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0, "{linked}");
        }
    }

    #[test]
    fn a_link_in_the_place_of_a_file_is_not_written_through() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folder = root.path().join(".ai/outputs/tools/greet");
        fs::create_dir_all(&folder).unwrap();
        symlink(outside.path().join("target"), folder.join("output_20260102_030405.json")).unwrap();
        let saved = save_at(root.path(), "2026-01-02T03:04:05Z").unwrap();
        assert!(saved.ends_with("output_20260102_030405_2.json"), "{saved}");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn many_at_the_same_second_are_all_kept() {
        let root = tempfile::tempdir().unwrap();
        let mut saved: Vec<String> = thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| save_at(root.path(), "2026-01-02T03:04:05Z").unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        saved.sort();
        saved.dedup();
        assert_eq!(saved.len(), 8);
    }
}
