//! Converts content with git and the user's filters: from disk to the stored form, and back.
//!
//! Git works on a private index and writes objects to a private folder, so that neither the user's
//! index nor the user's object database changes. Filters run in the real work tree, as with `git
//! add` and `git checkout`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::process::{self, GitProcessEnd};
use super::{GitProgram, NO_GIT, last_words};
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;

/// The time limit of a filter, which may download or encrypt large files.
const LIMIT: Duration = Duration::from_mins(30);

/// Settings that make a private index an ordinary one, and keep git from running programs other
/// than filters.
const SETTINGS: [&str; 10] = [
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.splitIndex=false",
    "-c",
    "index.sparse=false",
    "-c",
    "core.untrackedCache=false",
    "-c",
    "core.sparseCheckout=false",
];

/// Where git reads and writes during a conversion. All paths are absolute.
pub(crate) struct FilterPlace<'p> {
    pub(crate) index: PathBuf,
    /// The folder for new objects.
    pub(crate) objects: PathBuf,
    /// Further folders with objects.
    pub(crate) other_objects: Vec<PathBuf>,
    /// The tree with the attributes to use, instead of those in the work tree.
    pub(crate) attributes: Option<&'p str>,
    /// Further settings: `-c`, and a name with its value.
    pub(crate) settings: Vec<OsString>,
    /// Whether the user interrupted piton.
    pub(crate) is_stopped: Box<dyn Fn() -> bool>,
}

/// The result of a conversion.
#[derive(Debug)]
pub(crate) enum Converted {
    Done {
        stdout: Vec<u8>,
        /// The last messages of git or a filter, usually none.
        said: String,
    },
    /// Git or a required filter failed, for this reason.
    Failed(String),
}

impl GitProgram {
    /// Stages files from disk in the private index.
    pub(crate) fn stage_files(
        &self,
        place: &FilterPlace<'_>,
        paths: &[&RepoPath],
    ) -> Result<Converted, CheckpointError> {
        let arguments = ["update-index", "--add", "--replace", "-z", "--stdin"];
        self.convert(
            "update-index",
            place,
            &arguments.map(OsStr::new),
            &separated(paths),
        )
    }

    /// Stores content as that of a path; the output is its id.
    pub(crate) fn store_content(
        &self,
        place: &FilterPlace<'_>,
        path: &RepoPath,
        content: &[u8],
    ) -> Result<Converted, CheckpointError> {
        let path = OsString::from_vec([b"--path=", path.as_bytes()].concat());
        let arguments: [&OsStr; 4] = [
            "hash-object".as_ref(),
            "-w".as_ref(),
            "--stdin".as_ref(),
            &path,
        ];
        self.convert("hash-object", place, &arguments, content)
    }

    /// Writes files of the private index to a folder, in their form on disk.
    pub(crate) fn write_files(
        &self,
        place: &FilterPlace<'_>,
        paths: &[&RepoPath],
        folder: &Path,
    ) -> Result<Converted, CheckpointError> {
        let prefix =
            OsString::from_vec([b"--prefix=", folder.as_os_str().as_bytes(), b"/"].concat());
        let arguments: [&OsStr; 6] = [
            "checkout-index".as_ref(),
            "-f".as_ref(),
            "-q".as_ref(),
            &prefix,
            "-z".as_ref(),
            "--stdin".as_ref(),
        ];
        self.convert("checkout-index", place, &arguments, &separated(paths))
    }

    fn convert(
        &self,
        doing: &'static str,
        place: &FilterPlace<'_>,
        arguments: &[&OsStr],
        input: &[u8],
    ) -> Result<Converted, CheckpointError> {
        let failed = |reason: String| CheckpointError::GitProgram { doing, reason };
        let settings = SETTINGS.iter().map(OsStr::new);
        let settings = settings.chain(place.settings.iter().map(OsString::as_os_str));
        let all: Vec<&OsStr> = settings.chain(arguments.iter().copied()).collect();
        let mut command = self
            .git_command(&all)
            .ok_or_else(|| failed(NO_GIT.to_owned()))?;
        command
            .env("GIT_INDEX_FILE", &place.index)
            .env("GIT_OBJECT_DIRECTORY", &place.objects)
            .env(
                "GIT_ALTERNATE_OBJECT_DIRECTORIES",
                listed_for_git(&place.other_objects),
            )
            .env("GIT_NO_LAZY_FETCH", "1");
        if let Some(tree) = place.attributes {
            command.env("GIT_ATTR_SOURCE", tree);
        }
        let finished = process::run_until_stopped(command, input, LIMIT, &place.is_stopped)
            .map_err(|error| failed(error.to_string()))?;
        match &finished.ended {
            GitProcessEnd::Interrupted => Err(CheckpointError::FilterInterrupted),
            GitProcessEnd::Exited(status) if status.success() => Ok(Converted::Done {
                said: last_words(&finished.stderr),
                stdout: finished.stdout,
            }),
            GitProcessEnd::Exited(_) | GitProcessEnd::TimedOut => {
                Ok(Converted::Failed(finished.reason()))
            }
        }
    }
}

/// The object id in git's output.
pub(crate) fn printed_id(stdout: &[u8]) -> Option<ObjectId> {
    String::from_utf8_lossy(stdout).trim().parse().ok()
}

fn separated(paths: &[&RepoPath]) -> Vec<u8> {
    paths
        .iter()
        .flat_map(|path| path.as_bytes().iter().copied().chain([0]))
        .collect()
}

/// Folders in the form of git's variables: separated by colons, quoted if a name contains one.
fn listed_for_git(folders: &[PathBuf]) -> OsString {
    let mut list = Vec::new();
    for folder in folders {
        if !list.is_empty() {
            list.push(b':');
        }
        let bytes = folder.as_os_str().as_bytes();
        if bytes.contains(&b':') || bytes.starts_with(b"\"") {
            list.push(b'"');
            for byte in bytes {
                if matches!(byte, b'"' | b'\\') {
                    list.push(b'\\');
                }
                list.push(*byte);
            }
            list.push(b'"');
        } else {
            list.extend_from_slice(bytes);
        }
    }
    OsString::from_vec(list)
}
