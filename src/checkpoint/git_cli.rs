//! Runs the `git` program and the user's hooks: what libgit2 does not do.
//!
//! Every process gets a known environment (without variables that point git to another repository),
//! only the stdin that it needs, its own process group, limited output, and a time limit after
//! which the whole group is killed. [`GitProgram`] is the type to read first; [`signing`] makes
//! signed commits, [`hook`] runs hooks, [`filter`] converts content.

pub(crate) mod filter;
pub(crate) mod hook;
mod process;
pub(crate) mod signing;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::fs::{Access, access};

use super::error::CheckpointError;
use crate::context::is_repository_local;
use process::{FinishedProcess, GitProcessEnd};

/// Variables that change git's output, besides those that name a repository
/// ([`is_repository_local`]).
const PRINTING: [&str; 7] = [
    "GIT_ATTR_SOURCE",
    "GIT_EXTERNAL_DIFF",
    "GIT_GLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
    "GIT_LITERAL_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_TRACE",
];

/// The error without git.
const NO_GIT: &str = "there is no `git` on the search path";

/// How the `git` program and hooks are run in one repository.
#[derive(Clone, Debug)]
pub(crate) struct GitProgram {
    search_path: OsString,
    environment: BTreeMap<OsString, OsString>,
    work_tree: PathBuf,
    git_dir: PathBuf,
    network: NetworkAccess,
}

/// Whether git may fetch missing objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NetworkAccess {
    Off,
    On,
}

/// The output and the exit status of the program.
#[derive(Debug)]
pub(crate) struct GitOutput {
    pub(crate) succeeded: bool,
    /// The last 64 KiB of its output.
    pub(crate) stdout: Vec<u8>,
    /// The end of its output, or its exit status.
    pub(crate) reason: String,
}

impl GitOutput {
    /// Fails with the reason if the program was stopped.
    fn of(finished: FinishedProcess) -> Result<Self, String> {
        let reason = finished.reason();
        match finished.ended {
            GitProcessEnd::TimedOut | GitProcessEnd::Interrupted => Err(reason),
            GitProcessEnd::Exited(status) => Ok(Self {
                succeeded: status.success(),
                stdout: finished.stdout,
                reason,
            }),
        }
    }
}

impl GitProgram {
    /// Uses piton's own environment, without variables that point git elsewhere. Both folders are
    /// absolute.
    pub(crate) fn new(
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        git_dir: &Path,
        work_tree: &Path,
    ) -> Self {
        let mut program = Self::for_remotes(environment, git_dir, work_tree);
        for (name, value) in [
            ("GIT_TERMINAL_PROMPT", "0"),
            ("SSH_ASKPASS_REQUIRE", "never"),
        ] {
            program.environment.insert(name.into(), value.into());
        }
        program.environment.remove(OsStr::new("GPG_TTY"));
        program.network = NetworkAccess::Off;
        program
    }

    /// As [`Self::new`], for commands that may ask the user for a password, if the user's settings
    /// allow that.
    pub(crate) fn for_remotes(
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        git_dir: &Path,
        work_tree: &Path,
    ) -> Self {
        let environment: BTreeMap<OsString, OsString> = environment
            .into_iter()
            .filter(|(name, _)| !leads_astray(name))
            .collect();
        let search_path = environment
            .get(OsStr::new("PATH"))
            .cloned()
            .unwrap_or_default();
        let (work_tree, git_dir) = (work_tree.to_owned(), git_dir.to_owned());
        Self {
            search_path,
            environment,
            work_tree,
            git_dir,
            network: NetworkAccess::On,
        }
    }

    /// Runs `git` as the user would: with the terminal, without a time limit; Ctrl-C ends it
    /// together with piton.
    pub(crate) fn run_in_front(
        &self,
        doing: &'static str,
        arguments: &[&OsStr],
    ) -> Result<GitOutput, CheckpointError> {
        let failed = |reason: String| CheckpointError::GitProgram { doing, reason };
        let command = self
            .git_command(arguments)
            .ok_or_else(|| failed(NO_GIT.to_owned()))?;
        let finished = process::run_in_front(command).map_err(|error| failed(error.to_string()))?;
        let reason = finished.reason();
        let succeeded = matches!(finished.ended, GitProcessEnd::Exited(status) if status.success());
        Ok(GitOutput {
            succeeded,
            stdout: finished.stdout,
            reason,
        })
    }

    /// Runs `git` in the repository. An error means that it did not start or exceeded its time
    /// limit.
    pub(crate) fn run(
        &self,
        doing: &'static str,
        arguments: &[&OsStr],
        variables: &[(&str, OsString)],
        input: Option<&[u8]>,
        limit: Duration,
    ) -> Result<GitOutput, CheckpointError> {
        let failed = |reason: String| CheckpointError::GitProgram { doing, reason };
        let mut command = self
            .git_command(arguments)
            .ok_or_else(|| failed(NO_GIT.to_owned()))?;
        command.envs(variables.iter().map(|(name, value)| (*name, value)));
        let finished =
            process::run(command, input, limit).map_err(|error| failed(error.to_string()))?;
        GitOutput::of(finished).map_err(failed)
    }

    /// Runs a `git` command that prints a list.
    pub(crate) fn read(
        &self,
        doing: &'static str,
        arguments: &[&OsStr],
        limit: Duration,
    ) -> Result<GitOutput, CheckpointError> {
        let failed = |reason: String| CheckpointError::GitProgram { doing, reason };
        let command = self
            .git_command(arguments)
            .ok_or_else(|| failed(NO_GIT.to_owned()))?;
        let finished =
            process::run_listing(command, limit).map_err(|error| failed(error.to_string()))?;
        GitOutput::of(finished).map_err(failed)
    }

    /// `git` in the repository; `None` if it is not installed.
    fn git_command(&self, arguments: &[&OsStr]) -> Option<Command> {
        let mut command = self.command(&self.find_program("git")?);
        command
            .env("GIT_DIR", &self.git_dir)
            .env("GIT_WORK_TREE", &self.work_tree)
            .env("LC_ALL", "C");
        // In a partial clone git would fetch a missing object from the network in the middle of a
        // local command. Pushing and fetching, which the user requests, are not restricted.
        if self.network == NetworkAccess::Off {
            command.env("GIT_NO_LAZY_FETCH", "1");
        }
        // A file system monitor is a program that the repository chooses, and not needed here.
        command.args(["-c", "core.fsmonitor=false"]).args(arguments);
        Some(command)
    }

    /// A command at the top of the work tree with only the known environment.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that prepares git and hooks; `process` runs them"
    )]
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(&self.environment)
            .current_dir(&self.work_tree);
        command
    }

    /// Whether git and filters would find a program.
    pub(crate) fn has_program(&self, name: &str) -> bool {
        self.find_program(name).is_some()
    }

    fn find_program(&self, name: &str) -> Option<PathBuf> {
        // An empty or relative entry would be looked up in the work tree, where a tool could place
        // its own `git`.
        let folders = self
            .search_path
            .as_bytes()
            .split(|byte| *byte == b':')
            .map(OsStr::from_bytes)
            .map(Path::new);
        folders
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(name))
            .find(|program| is_executable(program))
    }
}

fn leads_astray(name: &OsStr) -> bool {
    is_repository_local(name)
        || PRINTING
            .iter()
            .any(|known| name.as_encoded_bytes().starts_with(known.as_bytes()))
}

pub(crate) fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file())
        && access(path, Access::EXEC_OK).is_ok()
}

/// A person and a date as git's environment variables.
fn identity(role: &str, person: &git2::Signature<'_>) -> Vec<(String, OsString)> {
    let minutes = person.when().offset_minutes();
    let sign = if minutes < 0 { '-' } else { '+' };
    let date = format!(
        "@{} {sign}{:02}{:02}",
        person.when().seconds(),
        minutes.abs() / 60,
        minutes.abs() % 60
    );
    vec![
        (
            format!("GIT_{role}_NAME"),
            OsStr::from_bytes(person.name_bytes()).to_owned(),
        ),
        (
            format!("GIT_{role}_EMAIL"),
            OsStr::from_bytes(person.email_bytes()).to_owned(),
        ),
        (format!("GIT_{role}_DATE"), date.into()),
    ]
}

impl FinishedProcess {
    /// The end of its output, or its exit status.
    fn reason(&self) -> String {
        let ended = match &self.ended {
            GitProcessEnd::TimedOut => "it did not end in time and was killed".to_owned(),
            GitProcessEnd::Interrupted => "it was interrupted".to_owned(),
            GitProcessEnd::Exited(status) => status.to_string(),
        };
        let words = last_words(&self.stderr);
        match (&self.ended, words.is_empty()) {
            (_, true) => ended,
            (GitProcessEnd::TimedOut | GitProcessEnd::Interrupted, false) => {
                format!("{ended}; its last words: {words}")
            }
            (GitProcessEnd::Exited(_), false) => words,
        }
    }
}

/// The last lines of an output on one line, without colours and control characters.
fn last_words(output: &[u8]) -> String {
    const LINES: usize = 5;
    const LENGTH: usize = 500;
    let text = String::from_utf8_lossy(output);
    let lines: Vec<String> = text
        .lines()
        .map(|line| plain(line).trim().to_owned())
        .filter(|line| !line.is_empty())
        .collect();
    let last = lines
        .get(lines.len().saturating_sub(LINES)..)
        .unwrap_or_default()
        .join("; ");
    let long = last.chars().count();
    if long <= LENGTH {
        last
    } else {
        format!("…{}", last.chars().skip(long - LENGTH).collect::<String>())
    }
}

/// A line without escape sequences, control characters and bidirectional marks.
fn plain(line: &str) -> String {
    let mut kept = String::new();
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' && rest.next_if_eq(&'[').is_some() {
            for c in rest.by_ref() {
                if ('@'..='~').contains(&c) {
                    break;
                }
            }
        } else if c == '\t' {
            kept.push(' ');
        } else if !c.is_control()
            && !matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        {
            kept.push(c);
        }
    }
    kept
}
