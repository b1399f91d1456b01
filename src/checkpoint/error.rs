//! Errors of checkpoints.

mod fault;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::coverage::Uncovered;
use super::object::ObjectId;
use super::path::{RepoPath, listed};
use super::restore::Unwritten;
use super::reversal::LeftRepository;
use super::secret::SecretHit;
use super::trail::run_of_trail;
use crate::item::wording::shown;
use crate::problem::{Code, Explain, Hint, HintCall, hint};

#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// There is no repository around the project.
    #[error("`{}` is not inside a git repository", .0.display())]
    NoRepository(PathBuf),
    /// The repository has no work tree.
    #[error("`{}` is a bare repository: it has no work tree", .0.display())]
    Bare(PathBuf),
    /// The work tree is the file system's root or the user's home.
    #[error("the work tree is `{}`, which is too large to observe", .0.display())]
    TooBroad(PathBuf),
    /// The repository belongs to another user.
    #[error("the repository `{}` belongs to another user", .0.display())]
    ForeignOwner(PathBuf),
    /// A git operation is in progress.
    #[error("{} is in progress", .0.name())]
    InProgress(GitOperation),
    /// The index holds conflicts.
    #[error("the index holds conflicts: {}", listed(.0))]
    Unmerged(Vec<RepoPath>),
    /// A file that no snapshot covers would be replaced or moved.
    #[error("{}: no checkpoint could restore it", .why.about(.path))]
    Uncovered { path: PathBuf, why: Uncovered },
    /// The repository uses an unsupported feature.
    #[error("the repository uses {feature}, which piton does not support yet")]
    Unsupported {
        /// The feature, e.g. `a sparse checkout`.
        feature: &'static str,
        /// Where it was found, e.g. the setting or file.
        found: String,
    },
    /// Git has no identity for commits.
    #[error("git does not know who you are")]
    NoIdentity,
    /// A date in the environment is invalid.
    #[error("`{text}` is not a date")]
    InvalidDate { text: String },
    /// Git's lock on the index exists.
    #[error("`{}` exists for {} s: another git process may be running", .path.display(), .age.as_secs())]
    IndexLocked { path: PathBuf, age: Duration },
    /// Git's lock on a ref exists.
    #[error("`{}` exists: another git process may be running", .0.display())]
    RefLocked(PathBuf),
    /// A file of the work tree cannot be read.
    #[error("cannot read `{path}`")]
    Unreadable {
        path: RepoPath,
        #[source]
        source: io::Error,
    },
    /// A file kept changing while it was read.
    #[error("`{0}` keeps changing while it is read")]
    Changing(RepoPath),
    /// The new content exceeds the budget.
    #[error(
        "{files} changed or untracked files hold {size} bytes, more than checkpoints may store"
    )]
    OverBudget { files: u64, size: u64 },
    #[error("the disk has {available} bytes left, too little to store {needed} bytes safely")]
    DiskFull {
        /// The free space.
        available: u64,
        /// The required space.
        needed: u64,
    },
    /// The step changed lines that the user had changed too, or files that belong to the user
    /// alone.
    #[error("the step overlaps your uncommitted changes: {}", listed(.0))]
    DirtyOverlap(Vec<RepoPath>),
    /// Lines that a step changed were edited after the step.
    #[error("edited since a step changed them, in the same lines: {}", listed(.0))]
    EditedSince(Vec<RepoPath>),
    /// The delta contains a possible secret.
    #[error("{} in the changes", secrets(.0))]
    SecretFound(Vec<SecretHit>),
    /// A commit that the step made itself contains a possible secret.
    #[error("{} in commit {} that the step made", secrets(hits), commit.short())]
    SecretCommitted {
        commit: ObjectId,
        hits: Vec<SecretHit>,
    },
    /// HEAD is not at the expected commit.
    #[error("HEAD moved while the step ran, from {} to {}", commit_name(*.expected), commit_name(*.found))]
    HeadMoved {
        expected: Option<ObjectId>,
        found: Option<ObjectId>,
    },
    /// HEAD is on another branch than before.
    #[error("the branch changed while the step ran, from `{expected}` to `{found}`")]
    BranchSwitched { expected: String, found: String },
    /// A hook of the user refused the commit.
    #[error("the hook `{hook}` rejected the commit: {reason}")]
    HookFailed {
        hook: &'static str,
        /// The end of its output, or its exit status.
        reason: String,
    },
    /// The commit could not be signed as the settings require.
    #[error("the commit could not be signed: {reason}")]
    SigningFailed {
        /// The message of the program.
        reason: String,
    },
    /// A filter or an encoding of git's attributes could not convert a file.
    #[error("`{filter}` failed on `{path}`: {reason}")]
    FilterFailed {
        path: RepoPath,
        /// The attribute, e.g. `filter=lfs`.
        filter: String,
        /// The message of git and the filter.
        reason: String,
        /// The program of the filter, if it is not installed.
        missing: Option<String>,
    },
    /// Piton was interrupted while a filter was running.
    #[error("interrupted while a filter converted files")]
    FilterInterrupted,
    /// A tool changed the filter programs in git's settings.
    #[error("the step changed a filter of git: {}", .0.join(", "))]
    FilterChanged(Vec<String>),
    /// A tool changed how git signs commits.
    #[error("the step changed how git signs commits: {}", .0.join(", "))]
    SigningChanged(Vec<String>),
    /// Files are not as the step left them.
    #[error("changed since: {}", listed(.0))]
    ChangedSince(Vec<RepoPath>),
    /// The system does not allow piton to write or remove files.
    #[error("cannot write {}", unwritten(.0))]
    Unwritable(Vec<Unwritten>),
    /// Nested repositories are at other commits than before; piton does not move them.
    #[error("{}", .0.iter().map(LeftRepository::place).collect::<Vec<_>>().join("; "))]
    RepositoriesLeft(Vec<LeftRepository>),
    /// A text would make a commit message invalid.
    #[error("{what} `{text}` cannot be part of a commit message")]
    InvalidMessage {
        what: &'static str,
        /// The text, shortened and escaped.
        text: String,
    },
    /// Git's index cannot be read.
    #[error("the index `{}` cannot be read: {reason}", .path.display())]
    InvalidIndex { path: PathBuf, reason: String },
    /// An entry of the allow-list of secrets is not a pattern.
    #[error(
        "`{entry}` in `checkpoint.secrets_allowed` is neither a fingerprint nor a pattern: {reason}"
    )]
    InvalidAllowance { entry: String, reason: String },
    /// The `git` program is required, and failed or is missing.
    #[error("cannot run `git {doing}`: {reason}")]
    GitProgram {
        /// The action.
        doing: &'static str,
        reason: String,
    },
    /// There is no such remote.
    #[error("there is no remote `{}`", shown(.name))]
    UnknownRemote { name: String, known: Vec<String> },
    /// A remote cannot be reached or refuses.
    #[error("cannot {doing} at `{}`: {reason}", shown(.remote))]
    Remote {
        /// The action.
        doing: &'static str,
        remote: String,
        reason: String,
    },
    /// The remote has other logs of the same runs.
    #[error("{}", refusals(.remote, .refused))]
    RemoteRefused {
        remote: String,
        /// The rejected refs, each with the reason unless they differ.
        refused: Vec<(String, Option<String>)>,
    },
    /// A recorded object no longer exists.
    #[error("{what} {}", if promisor.is_some() { "is not here: this is a partial clone" } else { "is gone" })]
    Missing {
        /// The object, with its id.
        what: String,
        /// The remote of a partial clone, which has the missing objects.
        promisor: Option<String>,
    },
    #[error("cannot {doing}")]
    Git {
        doing: &'static str,
        #[source]
        source: git2::Error,
    },
    #[error("cannot {doing} `{}`", .path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// A git operation in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitOperation {
    /// `git merge`.
    Merge,
    /// `git revert`.
    Revert,
    /// `git cherry-pick`.
    CherryPick,
    /// `git bisect`.
    Bisect,
    /// `git rebase`.
    Rebase,
    /// `git am`.
    ApplyMailbox,
}

impl GitOperation {
    /// Its name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Merge => "a merge",
            Self::Revert => "a revert",
            Self::CherryPick => "a cherry-pick",
            Self::Bisect => "a bisect",
            Self::Rebase => "a rebase",
            Self::ApplyMailbox => "`git am`",
        }
    }

    fn way_out(self) -> &'static str {
        match self {
            Self::Merge => {
                "finish it with `git merge --continue` or leave it with `git merge --abort`"
            }
            Self::Revert => {
                "finish it with `git revert --continue` or leave it with `git revert --abort`"
            }
            Self::CherryPick => {
                "finish it with `git cherry-pick --continue` or leave it with `git cherry-pick --abort`"
            }
            Self::Bisect => "leave it with `git bisect reset`",
            Self::Rebase => {
                "finish it with `git rebase --continue` or leave it with `git rebase --abort`"
            }
            Self::ApplyMailbox => {
                "finish it with `git am --continue` or leave it with `git am --abort`"
            }
        }
    }
}

impl Explain for CheckpointError {
    fn code(&self) -> Code {
        match self {
            Self::NoRepository(_) => Code::NoRepository,
            Self::Bare(_) => Code::BareRepository,
            Self::TooBroad(_) => Code::WorkTreeTooBroad,
            Self::ForeignOwner(_) => Code::ForeignOwner,
            Self::InProgress(_) => Code::OperationInProgress,
            Self::Unmerged(_) => Code::UnmergedIndex,
            Self::Uncovered { why, .. } => why.code(),
            Self::Unsupported { .. } => Code::UnsupportedRepository,
            Self::NoIdentity => Code::NoIdentity,
            Self::InvalidDate { .. } => Code::InvalidDate,
            Self::IndexLocked { .. } => Code::IndexLocked,
            Self::RefLocked(_) => Code::RefLocked,
            Self::Unreadable { .. } => Code::UnreadableFile,
            Self::Changing(_) => Code::FileChanging,
            Self::OverBudget { .. } => Code::OverBudget,
            Self::DiskFull { .. } => Code::DiskFull,
            Self::DirtyOverlap(_) => Code::DirtyOverlap,
            Self::EditedSince(_) => Code::EditedSince,
            Self::SecretFound(_) | Self::SecretCommitted { .. } => Code::SecretFound,
            Self::HeadMoved { .. } => Code::HeadMoved,
            Self::BranchSwitched { .. } => Code::BranchSwitched,
            Self::HookFailed { .. } => Code::HookFailed,
            Self::SigningFailed { .. } => Code::SigningFailed,
            Self::FilterFailed { .. } => Code::FilterFailed,
            Self::FilterInterrupted => Code::Interrupted,
            Self::FilterChanged(_) => Code::FilterChanged,
            Self::SigningChanged(_) => Code::SigningChanged,
            Self::ChangedSince(_) => Code::ChangedSince,
            Self::Unwritable(_) => Code::UnwritableFile,
            Self::RepositoriesLeft(_) => Code::RepositoryLeft,
            Self::InvalidMessage { .. } => Code::InvalidMessage,
            Self::InvalidIndex { .. } => Code::InvalidIndex,
            Self::InvalidAllowance { .. } => Code::InvalidSettings,
            Self::GitProgram { .. } => Code::GitProgramFailed,
            Self::UnknownRemote { .. } => Code::UnknownRemote,
            Self::Remote { .. } => Code::RemoteFailed,
            Self::RemoteRefused { .. } => Code::LogRefused,
            Self::Missing { .. } => Code::Missing,
            Self::Git { .. } => Code::GitFailed,
            Self::Io { .. } => Code::IoFailed,
        }
    }

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::NoRepository(_) => {
                "create one with `git init`, or turn checkpoints off: `--checkpoint disabled`".into()
            }
            Self::Bare(_) => "work in a clone or in a linked worktree (`git worktree add`)".into(),
            Self::TooBroad(_) => "create the repository in the folder of your project instead".into(),
            Self::ForeignOwner(path) => format!(
                "if you trust it: `git config --global --add safe.directory '{}'`",
                path.display()
            ).into(),
            Self::InProgress(operation) => operation.way_out().into(),
            Self::Uncovered { why, .. } => why.hint().into(),
            Self::Unmerged(_) => "resolve them and `git add` the files; `git status` lists them".into(),
            Self::Unsupported { found, .. } => {
                format!("it was found in {found}; `--checkpoint disabled` runs without checkpoints").into()
            }
            Self::NoIdentity => {
                "set it: `git config user.name \"Your Name\"` and `git config user.email you@example.org`".into()
            }
            Self::InvalidDate { .. } => {
                "`GIT_AUTHOR_DATE` and `GIT_COMMITTER_DATE` take `@SECONDS +ZONE`, RFC 2822 or ISO 8601".into()
            }
            Self::IndexLocked { path, .. } | Self::RefLocked(path) => format!(
                "wait for it, or, when no git process is running any more, remove `{}`",
                path.display()
            ).into(),
            Self::Unreadable { .. } => {
                "make it readable, or add it to `.gitignore`: checkpoints contain every file that git sees".into()
            }
            Self::Changing(_) => "stop the program that writes to it, or add it to `.gitignore`".into(),
            Self::OverBudget { .. } => {
                "add generated files to `.gitignore`, or raise `checkpoint.max_total_size`".into()
            }
            Self::DiskFull { .. } => "free some space; `piton gc` deletes old snapshots".into(),
            Self::DirtyOverlap(_) => {
                hint![
                    HintCall::Undo(None),
                    " undoes the step: commit or stash your own part and run it again; or commit both together \
                     with `piton checkpoint PATH`"
                ]
            }
            Self::EditedSince(_) => {
                "`piton checkpoint --include-edits` commits these files as they are on disk; `piton diff` shows them".into()
            }
            Self::SecretFound(_) => {
                "the changes are on disk and not committed: remove the secret, or allow it by its fingerprint with `checkpoint.secrets_allowed`".into()
            }
            Self::SecretCommitted { .. } => {
                "the commit is on the branch: take it out of the history before you push, or allow the secret by its fingerprint with `checkpoint.secrets_allowed`".into()
            }
            Self::HeadMoved { .. } | Self::BranchSwitched { .. } => {
                "the branch was not moved back; piton keeps the old tip, and `git reflog` shows it".into()
            }
            Self::HookFailed { .. } => {
                "fix what it reports, or skip hooks with `checkpoint.hooks: skip`".into()
            }
            Self::SigningFailed { .. } => {
                "fix the signing settings of git (`user.signingkey`, `gpg.format`), or turn `commit.gpgsign` off".into()
            }
            Self::FilterFailed { missing: Some(program), .. } => {
                hint![
                    format!("`{program}` is not on the search path: install it, then "),
                    HintCall::Checkpoint,
                    " commits the changes"
                ]
            }
            Self::FilterFailed { path, .. } => {
                format!("`git add {path}` fails in the same way; `git config --get-regexp '^filter'` lists the filters").into()
            }
            Self::FilterInterrupted => hint!["the changes are on disk: ", HintCall::Checkpoint, " commits them"],
            Self::SigningChanged(_) => {
                hint![
                    "piton neither runs the program nor commits: look at `git config --get-regexp 'gpg|signingkey'`, \
                     then commit the changes with ",
                    HintCall::Checkpoint,
                    ", or ",
                    HintCall::Undo(None),
                    " reverts them"
                ]
            }
            Self::FilterChanged(_) => {
                hint![
                    "piton does not run it: look at `git config --get-regexp '^filter'` and commit the changes \
                     yourself, or ",
                    HintCall::Undo(None),
                    " reverts them"
                ]
            }
            Self::ChangedSince(_) => "the current files were kept; see them with `piton diff`".into(),
            Self::Unwritable(_) => {
                "check the permissions (`ls -ld`, `lsattr`), correct them, and try again".into()
            }
            Self::RepositoriesLeft(left) => {
                let ways: Vec<String> = left.iter().filter_map(LeftRepository::way_back).collect();
                return (!ways.is_empty()).then(|| ways.join("; ").into());
            }
            Self::InvalidMessage { .. } => "use one line without control characters".into(),
            Self::InvalidIndex { .. } => "check with `git status`".into(),
            Self::InvalidAllowance { .. } => "see it with `piton config checkpoint.secrets_allowed`".into(),
            Self::GitProgram { .. } => "check that `git` is installed and works here".into(),
            Self::UnknownRemote { known, .. } if known.is_empty() => {
                "there is none yet: add one with `git remote add origin URL`".into()
            }
            Self::UnknownRemote { known, .. } => {
                let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
                format!("there is {}; you can also use a URL", known.join(", ")).into()
            }
            Self::Remote { remote, .. } => {
                format!("nothing was changed here; `git ls-remote {remote}` shows whether git can reach it").into()
            }
            Self::RemoteRefused { refused, .. } if refused.iter().all(|(_, why)| why.is_some()) => {
                "ask the owner of the other repository; everything else was pushed".into()
            }
            Self::RemoteRefused { .. } => {
                "logs are append-only, so one of the two was changed later: run `piton verify --all` here and in the other repository".into()
            }
            Self::Git { .. } => "check with `git fsck`".into(),
            Self::Missing { promisor: Some(remote), .. } => {
                format!("piton does not fetch objects by itself: `git cat-file -t OBJECT` fetches one object, `git fetch --refetch --no-filter {remote}` everything").into()
            }
            Self::Missing { .. } => {
                "`piton gc` deletes the contents of old runs, and git prunes commits without a branch; `piton verify` has details".into()
            }
            Self::Io { .. } => return None,
        })
    }
}

impl CheckpointError {
    /// Whether the repository or the machine is the cause, so that nothing was tried.
    pub fn is_unsafe(&self) -> bool {
        matches!(
            self,
            Self::NoRepository(_)
                | Self::Bare(_)
                | Self::TooBroad(_)
                | Self::ForeignOwner(_)
                | Self::InProgress(_)
                | Self::Unmerged(_)
                | Self::Uncovered { .. }
                | Self::Unsupported { .. }
                | Self::NoIdentity
                | Self::InvalidDate { .. }
                | Self::IndexLocked { .. }
                | Self::RefLocked(_)
                | Self::Unreadable { .. }
                | Self::Changing(_)
                | Self::OverBudget { .. }
                | Self::DiskFull { .. }
                | Self::InvalidIndex { .. }
                | Self::GitProgram { .. }
                | Self::Git { .. }
                | Self::Io { .. }
        )
    }

    /// Whether the user asked piton to stop.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Self::FilterInterrupted)
    }

    /// Wraps an error of libgit2: `cannot {doing}`.
    pub(crate) fn git(doing: &'static str) -> impl FnOnce(git2::Error) -> Self {
        move |source| Self::Git { doing, source }
    }

    /// Wraps an error of the system: ``cannot {doing} `{path}` ``.
    pub(crate) fn io(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            doing,
            path: path.into(),
            source,
        }
    }
}

fn secrets(hits: &[SecretHit]) -> String {
    let listed: Vec<String> = hits
        .iter()
        .take(5)
        .map(|hit| {
            format!(
                "{} in `{}` {} ({})",
                hit.rule, hit.path, hit.place, hit.fingerprint
            )
        })
        .collect();
    match hits.len() {
        0..=5 => listed.join(", "),
        more => format!("{} and {} more", listed.join(", "), more - 5),
    }
}

fn unwritten(files: &[Unwritten]) -> String {
    let listed: Vec<String> = files
        .iter()
        .take(5)
        .map(|file| format!("`{}`: {}", file.path, file.reason))
        .collect();
    match files.len() {
        0..=5 => listed.join(", "),
        more => format!("{} and {} more", listed.join(", "), more - 5),
    }
}

fn refusals(remote: &str, refused: &[(String, Option<String>)]) -> String {
    let told = |(name, why): &(String, Option<String>)| {
        let name = match run_of_trail(name) {
            Some(run) => format!("the log of run `{run}`"),
            None => format!("`{}`", shown(name)),
        };
        match why {
            None => format!("{name} is another one at `{}`", shown(remote)),
            Some(why) => format!("`{}` refused {name}: {}", shown(remote), shown(why)),
        }
    };
    let listed: Vec<String> = refused.iter().take(5).map(told).collect();
    let more = if refused.len() > 5 {
        format!("; and {} more", refused.len() - 5)
    } else {
        String::new()
    };
    listed.join("; ") + &more
}

fn commit_name(id: Option<ObjectId>) -> String {
    id.map_or_else(|| "no commit".to_owned(), |id| id.short())
}
