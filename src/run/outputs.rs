//! Saves the output of each tool call as a file below `.ai/outputs/`.
//!
//! A `.gitignore` in that folder, written before the first output, keeps outputs out of git.
//! Folders are opened without following links. A file appears complete or not at all, and no file
//! is overwritten: calls in the same second get a number.

use std::fs::File;
use std::io::{self, Write};
use std::iter;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, mkdirat, statat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::failpoint::failpoint;
use crate::item::source::read_bytes;
use crate::journal::RunId;
use crate::system_call::{open, openat};

/// The maximum number of calls of one tool in one second.
const MAX_NUMBER: u32 = 10_000;
/// The permission bits of a new file: results may hold what only this user may read.
const NEW_FILE: Mode = Mode::from_raw_mode(0o600);
/// The largest saved output that piton reads.
const MOST_BYTES: u64 = 64 << 20;
/// The file that keeps outputs out of git.
const IGNORE: &str = ".gitignore";

#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// A folder for outputs cannot be used.
    #[error("cannot use the folder `{}`", .folder.display())]
    Folder {
        /// The folder, relative to the project.
        folder: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write `{}`", .file.display())]
    File {
        /// The file, relative to the project.
        file: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Saves the output of a call; returns the path relative to the project.
pub(super) fn save(
    root: &Path,
    tool: &str,
    now: Timestamp,
    output: &impl Serialize,
) -> Result<String, OutputError> {
    save_below(root, "tools", tool, now, output)
}

/// Saves an answer that is too large to return; returns the path relative to the project.
pub fn spill(ctx: &Context, name: &str, answer: &impl Serialize) -> Result<String, OutputError> {
    save_below(&ctx.root, "answers", name, ctx.now(), answer)
}

/// The saved output of a tool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SavedOutput {
    #[serde(default)]
    pub stdout: String,
    #[serde(default)]
    pub stderr: String,
    #[serde(skip_serializing)]
    run_id: Option<RunId>,
}

/// Finds the output of a tool call in a run; `earlier` is the number of earlier calls of the tool
/// in the run.
///
/// If outputs were deleted, returns none or the output of a later call.
pub fn find(root: &Path, tool: &str, run: RunId, earlier: usize) -> Option<SavedOutput> {
    let folder = root.join(".ai/outputs/tools").join(tool);
    let mut names: Vec<(String, u32)> = Vec::new();
    for entry in folder.read_dir().ok()?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(stem) = name
            .strip_prefix("output_")
            .and_then(|name| name.strip_suffix(".json"))
        else {
            continue;
        };
        // `20260102_030405`, or `20260102_030405_2` for the second call in that second.
        let number = stem
            .get(16..)
            .and_then(|number| number.parse().ok())
            .unwrap_or(1);
        names.push((stem.get(..15).unwrap_or(stem).to_owned(), number));
    }
    names.sort();
    let files = names.into_iter().map(|(time, number)| match number {
        1 => folder.join(format!("output_{time}.json")),
        number => folder.join(format!("output_{time}_{number}.json")),
    });
    let saved =
        files.filter_map(|file| serde_json::from_slice(&read_bytes(&file, MOST_BYTES).ok()?).ok());
    saved
        .filter(|output: &SavedOutput| output.run_id == Some(run))
        .nth(earlier)
}

fn save_below(
    root: &Path,
    kind: &str,
    name: &str,
    now: Timestamp,
    output: &impl Serialize,
) -> Result<String, OutputError> {
    let outputs = OpenFolder::enter(root, ".ai")?.child("outputs")?;
    // Write the `.gitignore` before any file that it hides.
    if statat(&outputs.open, IGNORE, AtFlags::SYMLINK_NOFOLLOW).is_err() {
        match outputs.add(b"*\n", [IGNORE.to_owned()]) {
            Ok(_) | Err(Errno::EXIST) => {}
            Err(errno) => {
                return Err(OutputError::File {
                    file: outputs.path.join(IGNORE),
                    source: errno.into(),
                });
            }
        }
    }
    let mut folder = outputs.child(kind)?;
    for part in name.split('/') {
        folder = folder.child(part)?;
    }
    let time = now.strftime("%Y%m%d_%H%M%S");
    let first = format!("output_{time}.json");
    let failed = |source: io::Error| OutputError::File {
        file: folder.path.join(&first),
        source,
    };
    let mut text = serde_json::to_vec_pretty(output).map_err(|err| failed(err.into()))?;
    text.push(b'\n');
    let others = (2..=MAX_NUMBER).map(|number| format!("output_{time}_{number}.json"));
    let name = folder
        .add(&text, iter::once(first.clone()).chain(others))
        .map_err(|errno| failed(errno.into()))?;
    Ok(folder.path.join(name).to_string_lossy().into_owned())
}

/// A file that is being written.
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "only Linux has files without a name")
)]
enum UnfinishedFile {
    /// A file without a name, which the system removes unless it gets one.
    Nameless(File),
    /// A temporary file beside its final path.
    Named(String),
}

/// An open folder of the project. The handle stays valid if another process replaces the folder.
struct OpenFolder {
    open: OwnedFd,
    path: PathBuf,
}

impl OpenFolder {
    /// Opens a folder at the top of the project.
    fn enter(root: &Path, name: &str) -> Result<Self, OutputError> {
        let failed = |source: Errno| OutputError::Folder {
            folder: root.to_path_buf(),
            source: source.into(),
        };
        let top = open(root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
        Self {
            open: top,
            path: PathBuf::new(),
        }
        .ensure(name, Mode::from_raw_mode(0o777))
    }

    /// Opens a subfolder and creates it if needed, for this user only.
    fn child(&self, name: &str) -> Result<Self, OutputError> {
        self.ensure(name, Mode::from_raw_mode(0o700))
    }

    /// Opens a subfolder and creates it if needed; does not follow a link.
    fn ensure(&self, name: &str, mode: Mode) -> Result<Self, OutputError> {
        let path = self.path.join(name);
        let enter = || {
            match mkdirat(&self.open, name, mode) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            openat(
                &self.open,
                name,
                OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::empty(),
            )
        };
        match enter() {
            Ok(open) => Ok(Self { open, path }),
            Err(errno) => Err(OutputError::Folder {
                folder: path,
                source: errno.into(),
            }),
        }
    }

    /// Adds a complete file under the first free name; returns the name.
    fn add(
        &self,
        content: &[u8],
        names: impl IntoIterator<Item = String>,
    ) -> Result<String, Errno> {
        let unfinished = self.unfinished(content)?;
        failpoint("output-written");
        let mut placed = Err(Errno::EXIST);
        for name in names {
            let linked = match &unfinished {
                UnfinishedFile::Nameless(file) => {
                    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
                    linkat(
                        CWD,
                        own.as_str(),
                        &self.open,
                        name.as_str(),
                        AtFlags::SYMLINK_FOLLOW,
                    )
                }
                UnfinishedFile::Named(own) => linkat(
                    &self.open,
                    own.as_str(),
                    &self.open,
                    name.as_str(),
                    AtFlags::empty(),
                ),
            };
            placed = match linked {
                // Some file systems have no hard links; there a reader may see an incomplete file.
                Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOENT) => {
                    self.write(&name, content)
                }
                linked => linked,
            }
            .map(|()| name);
            if !matches!(placed, Err(Errno::EXIST)) {
                break;
            }
        }
        if let UnfinishedFile::Named(own) = unfinished {
            let _ = unlinkat(&self.open, own.as_str(), AtFlags::empty());
        }
        failpoint("output-saved");
        placed
    }

    /// Writes a file that is not visible yet. If the system supports nameless files, a crash leaves
    /// nothing behind.
    fn unfinished(&self, content: &[u8]) -> Result<UnfinishedFile, Errno> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        #[cfg(target_os = "linux")]
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        if let Ok(open) = openat(&self.open, ".", flags, NEW_FILE) {
            let mut file = File::from(open);
            file.write_all(content)
                .map_err(|err| Errno::from_io_error(&err).unwrap_or(Errno::IO))?;
            return Ok(UnfinishedFile::Nameless(file));
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!(".unfinished.{}-{number}.tmp", std::process::id());
        // A file with this name belongs to a killed process with the same process id.
        let _ = unlinkat(&self.open, name.as_str(), AtFlags::empty());
        self.write(&name, content)?;
        Ok(UnfinishedFile::Named(name))
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<(), Errno> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.open, name, flags, NEW_FILE)?);
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
        save(
            root,
            "greet",
            time.parse().unwrap(),
            &json!({"status": "success"}),
        )
    }

    #[test]
    fn an_output_is_named_after_the_tool_and_the_time_and_never_overwritten() {
        let root = tempfile::tempdir().unwrap();
        let first = save_at(root.path(), "2026-01-02T03:04:05Z").unwrap();
        let second = save_at(root.path(), "2026-01-02T03:04:05.9Z").unwrap();
        assert_eq!(first, ".ai/outputs/tools/greet/output_20260102_030405.json");
        assert_eq!(
            second,
            ".ai/outputs/tools/greet/output_20260102_030405_2.json"
        );
        let saved = fs::read_to_string(root.path().join(first)).unwrap();
        assert_eq!(saved, "{\n  \"status\": \"success\"\n}\n");
        assert_eq!(
            fs::read_to_string(root.path().join(".ai/outputs/.gitignore")).unwrap(),
            "*\n"
        );
        let files = fs::read_dir(root.path().join(".ai/outputs/tools/greet")).unwrap();
        assert_eq!(files.count(), 2, "nothing unfinished is left");
    }

    #[test]
    fn a_link_in_the_place_of_a_folder_is_not_followed() {
        for linked in [
            ".ai",
            ".ai/outputs",
            ".ai/outputs/tools",
            ".ai/outputs/tools/greet",
        ] {
            let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let link = root.path().join(linked);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(outside.path(), &link).unwrap();
            let refused = save_at(root.path(), "2026-01-02T03:04:05Z");
            assert!(
                matches!(refused, Err(OutputError::Folder { .. })),
                "{linked}: {refused:?}"
            );
            assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0, "{linked}");
        }
    }

    #[test]
    fn a_link_in_the_place_of_a_file_is_not_written_through() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folder = root.path().join(".ai/outputs/tools/greet");
        fs::create_dir_all(&folder).unwrap();
        symlink(
            outside.path().join("target"),
            folder.join("output_20260102_030405.json"),
        )
        .unwrap();
        let saved = save_at(root.path(), "2026-01-02T03:04:05Z").unwrap();
        assert!(saved.ends_with("output_20260102_030405_2.json"), "{saved}");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn many_at_the_same_second_are_all_kept() {
        let root = tempfile::tempdir().unwrap();
        let mut saved: Vec<String> = thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| save_at(root.path(), "2026-01-02T03:04:05Z").unwrap()))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        saved.sort();
        saved.dedup();
        assert_eq!(saved.len(), 8);
    }
}
