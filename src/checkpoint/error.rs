//! Why a checkpoint could not be made, undone or read.

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
use crate::problem::{Call, Code, Explain, Hint, hint};

/// Everything that can stop a checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// There is no repository around the project.
    #[error("`{}` is not inside a git repository", .0.display())]
    NoRepository(PathBuf),
    /// The repository has no work tree.
    #[error("`{}` is a bare repository: it has no work tree", .0.display())]
    Bare(PathBuf),
    /// The work tree is the file system's root or the user's home.
    #[error("the work tree is `{}`, which is too much to keep watch over", .0.display())]
    TooBroad(PathBuf),
    /// The repository belongs to somebody else.
    #[error("the repository `{}` belongs to another user", .0.display())]
    ForeignOwner(PathBuf),
    /// Git is in the middle of something.
    #[error("{} is in progress", .0.name())]
    InProgress(Operation),
    /// The index holds conflicts.
    #[error("the index holds conflicts: {}", listed(.0))]
    Unmerged(Vec<RepoPath>),
    /// A file would be replaced or moved that no snapshot holds.
    #[error("{}: no checkpoint could bring it back", .why.about(.path))]
    Uncovered {
        /// The file.
        path: PathBuf,
        /// Why none does.
        why: Uncovered,
    },
    /// The repository uses something that is not served yet.
    #[error("the repository uses {feature}, which piton cannot serve yet")]
    Unsupported {
        /// The name of what it uses, e.g. `a sparse checkout`.
        feature: &'static str,
        /// Where it was found, e.g. the setting or file.
        found: String,
    },
    /// There is nobody to attribute commits to.
    #[error("git does not know who you are")]
    NoIdentity,
    /// A date in the environment cannot be read.
    #[error("`{text}` is not a date")]
    InvalidDate {
        /// The text.
        text: String,
    },
    /// Git's lock on the index is held.
    #[error("`{}` exists for {} s: another git process may be at work", .path.display(), .age.as_secs())]
    IndexLocked {
        /// The lock.
        path: PathBuf,
        /// For how long it has been there.
        age: Duration,
    },
    /// Git's lock on a ref is held.
    #[error("`{}` exists: another git process may be at work", .0.display())]
    RefLocked(PathBuf),
    /// A file of the work tree cannot be read.
    #[error("cannot read `{path}`")]
    Unreadable {
        /// The file.
        path: RepoPath,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file did not hold still.
    #[error("`{0}` keeps changing while it is read")]
    Changing(RepoPath),
    /// There is more to store than the budget allows.
    #[error("{files} changed or untracked files hold {size} bytes, more than checkpoints may store")]
    OverBudget {
        /// How many files.
        files: u64,
        /// Their size.
        size: u64,
    },
    /// The disk has too little room.
    #[error("the disk has {available} bytes left, too little to store {needed} bytes safely")]
    DiskFull {
        /// The room there is.
        available: u64,
        /// What is to be stored.
        needed: u64,
    },
    /// The step changed lines that the user had changed as well, or files that are the user's alone.
    #[error("the step changed what you had not committed yourself: {}", listed(.0))]
    DirtyOverlap(Vec<RepoPath>),
    /// Files were edited after a step, in the lines that the step changed.
    #[error("edited since a step changed them, in the same lines: {}", listed(.0))]
    EditedSince(Vec<RepoPath>),
    /// The delta holds what looks like a secret.
    #[error("{} in the changes", secrets(.0))]
    SecretFound(Vec<SecretHit>),
    /// HEAD is not where it has to be.
    #[error("HEAD moved while the step ran, from {} to {}", commit_name(*.expected), commit_name(*.found))]
    HeadMoved {
        /// Where it was.
        expected: Option<ObjectId>,
        /// Where it is.
        found: Option<ObjectId>,
    },
    /// HEAD names another branch than before.
    #[error("the branch changed while the step ran, from `{expected}` to `{found}`")]
    BranchSwitched {
        /// The branch before.
        expected: String,
        /// The branch now.
        found: String,
    },
    /// A hook of the user refused the commit.
    #[error("the hook `{hook}` refused the commit: {reason}")]
    HookFailed {
        /// Its name.
        hook: &'static str,
        /// Its last words, or how it ended.
        reason: String,
    },
    /// The commit could not be signed as the user's settings want.
    #[error("the commit could not be signed: {reason}")]
    SigningFailed {
        /// What the program said.
        reason: String,
    },
    /// A filter or an encoding of git's attributes could not convert a file.
    #[error("`{filter}` failed on `{path}`: {reason}")]
    FilterFailed {
        /// The file.
        path: RepoPath,
        /// The attribute, e.g. `filter=lfs`.
        filter: String,
        /// What git and the filter said.
        reason: String,
        /// The program of the filter, where it is not installed.
        missing: Option<String>,
    },
    /// A filter was at work when piton was asked to stop.
    #[error("interrupted while a filter converted files")]
    FilterInterrupted,
    /// A tool changed which programs git runs as filters.
    #[error("the step changed a filter of git: {}", .0.join(", "))]
    FilterChanged(Vec<String>),
    /// Files are not as the step left them.
    #[error("changed since: {}", listed(.0))]
    ChangedSince(Vec<RepoPath>),
    /// The system does not let piton write or remove files.
    #[error("cannot write {}", unwritten(.0))]
    Unwritable(Vec<Unwritten>),
    /// Repositories inside the work tree are at another commit than they were, and only their owner moves them.
    #[error("{}", .0.iter().map(LeftRepository::place).collect::<Vec<_>>().join("; "))]
    RepositoriesLeft(Vec<LeftRepository>),
    /// A text that goes into a commit message would break it.
    #[error("{what} `{text}` cannot be part of a commit message")]
    InvalidMessage {
        /// Which text.
        what: &'static str,
        /// The text, shortened and escaped.
        text: String,
    },
    /// Git's index cannot be read.
    #[error("the index `{}` cannot be read: {reason}", .path.display())]
    InvalidIndex {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The allow-list of secrets holds something that is no pattern.
    #[error("`{entry}` in `checkpoint.secrets_allowed` is neither a fingerprint nor a pattern: {reason}")]
    InvalidAllowance {
        /// The entry.
        entry: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The `git` program is needed and failed or is missing.
    #[error("cannot run `git {doing}`: {reason}")]
    GitProgram {
        /// What it was to do.
        doing: &'static str,
        /// What it said.
        reason: String,
    },
    /// There is no such remote.
    #[error("there is no remote `{}`", shown(.name))]
    UnknownRemote {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// Another repository cannot be reached, or does not do what it is asked for.
    #[error("cannot {doing} at `{}`: {reason}", shown(.remote))]
    Remote {
        /// What was to be done.
        doing: &'static str,
        /// The repository.
        remote: String,
        /// What git said.
        reason: String,
    },
    /// Another repository has other logs of the same runs.
    #[error("{}", refusals(.remote, .refused))]
    RemoteRefused {
        /// The repository.
        remote: String,
        /// The refs that stayed as they are, each with the reason, where it is not that they differ.
        refused: Vec<(String, Option<String>)>,
    },
    /// Something recorded is not there any more.
    #[error("{what} {}", if promisor.is_some() { "is not here: this is a partial clone" } else { "is gone" })]
    Missing {
        /// The thing, with its name.
        what: String,
        /// The remote of a partial clone, which has what was not fetched.
        promisor: Option<String>,
    },
    /// Libgit2 failed.
    #[error("cannot {doing}")]
    Git {
        /// What it was to do.
        doing: &'static str,
        /// What it said.
        #[source]
        source: git2::Error,
    },
    /// The file system failed.
    #[error("cannot {doing} `{}`", .path.display())]
    Io {
        /// What was to be done.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// What git is in the middle of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
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

impl Operation {
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
            Self::Merge => "finish it with `git merge --continue` or leave it with `git merge --abort`",
            Self::Revert => "finish it with `git revert --continue` or leave it with `git revert --abort`",
            Self::CherryPick => {
                "finish it with `git cherry-pick --continue` or leave it with `git cherry-pick --abort`"
            }
            Self::Bisect => "leave it with `git bisect reset`",
            Self::Rebase => "finish it with `git rebase --continue` or leave it with `git rebase --abort`",
            Self::ApplyMailbox => "finish it with `git am --continue` or leave it with `git am --abort`",
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
            Self::SecretFound(_) => Code::SecretFound,
            Self::HeadMoved { .. } => Code::HeadMoved,
            Self::BranchSwitched { .. } => Code::BranchSwitched,
            Self::HookFailed { .. } => Code::HookFailed,
            Self::SigningFailed { .. } => Code::SigningFailed,
            Self::FilterFailed { .. } => Code::FilterFailed,
            Self::FilterInterrupted => Code::Interrupted,
            Self::FilterChanged(_) => Code::FilterChanged,
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
                "make one with `git init`, or go without checkpoints: `--checkpoint disabled`".into()
            }
            Self::Bare(_) => "work in a clone or in a linked worktree (`git worktree add`)".into(),
            Self::TooBroad(_) => "make a repository of the folder with your project instead".into(),
            Self::ForeignOwner(path) => format!(
                "if you trust it: `git config --global --add safe.directory '{}'`",
                path.display()
            ).into(),
            Self::InProgress(operation) => operation.way_out().into(),
            Self::Uncovered { why, .. } => why.hint().into(),
            Self::Unmerged(_) => "resolve them and `git add` the files; `git status` lists them".into(),
            Self::Unsupported { found, .. } => {
                format!("it was found in {found}; `--checkpoint disabled` goes on without checkpoints").into()
            }
            Self::NoIdentity => {
                "tell it: `git config user.name \"Your Name\"` and `git config user.email you@example.org`".into()
            }
            Self::InvalidDate { .. } => {
                "`GIT_AUTHOR_DATE` and `GIT_COMMITTER_DATE` take `@SECONDS +ZONE`, RFC 2822 or ISO 8601".into()
            }
            Self::IndexLocked { path, .. } | Self::RefLocked(path) => format!(
                "wait for it, or, when no git process is running any more, remove `{}`",
                path.display()
            ).into(),
            Self::Unreadable { .. } => {
                "make it readable, or let git ignore it: checkpoints hold every file that git would see".into()
            }
            Self::Changing(_) => "stop what writes to it, or let git ignore it".into(),
            Self::OverBudget { .. } => {
                "let git ignore what is generated, or raise `checkpoint.max_total_size`".into()
            }
            Self::DiskFull { .. } => "make room; `piton gc` drops old snapshots".into(),
            Self::DirtyOverlap(_) => {
                hint![
                    Call::Undo(None),
                    " takes the step back: commit or stash your own part and run it again; or commit both together \
                     with `piton checkpoint PATH`"
                ]
            }
            Self::EditedSince(_) => {
                "`piton checkpoint --include-edits` commits these files as they are on disk; `piton diff` shows them".into()
            }
            Self::SecretFound(_) => {
                "the changes are on disk and not committed: remove the secret, or allow it by its fingerprint with `checkpoint.secrets_allowed`".into()
            }
            Self::HeadMoved { .. } | Self::BranchSwitched { .. } => {
                "nothing was moved back; piton keeps the old tip, and `git reflog` names it".into()
            }
            Self::HookFailed { .. } => {
                "mend what it complains about, or leave hooks out with `checkpoint.hooks: skip`".into()
            }
            Self::SigningFailed { .. } => {
                "mend the signing settings of git (`user.signingkey`, `gpg.format`), or turn `commit.gpgsign` off".into()
            }
            Self::FilterFailed { missing: Some(program), .. } => {
                hint![
                    format!("`{program}` is not on the search path: install it, then "),
                    Call::Checkpoint,
                    " commits the changes"
                ]
            }
            Self::FilterFailed { path, .. } => {
                format!("`git add {path}` fails in the same way; `git config --get-regexp '^filter'` lists the filters").into()
            }
            Self::FilterInterrupted => hint!["the changes are on disk: ", Call::Checkpoint, " commits them"],
            Self::FilterChanged(_) => {
                hint![
                    "piton does not run it: look at `git config --get-regexp '^filter'` and commit the changes \
                     yourself, or ",
                    Call::Undo(None),
                    " takes them back"
                ]
            }
            Self::ChangedSince(_) => "what is there now is kept; see it with `piton diff`".into(),
            Self::Unwritable(_) => {
                "see who may write there (`ls -ld`, `lsattr`), allow it, and try again".into()
            }
            Self::RepositoriesLeft(left) => {
                let ways: Vec<String> = left.iter().filter_map(LeftRepository::way_back).collect();
                return (!ways.is_empty()).then(|| ways.join("; ").into());
            }
            Self::InvalidMessage { .. } => "use one line without control characters".into(),
            Self::InvalidIndex { .. } => "see what git says with `git status`".into(),
            Self::InvalidAllowance { .. } => "see it with `piton config checkpoint.secrets_allowed`".into(),
            Self::GitProgram { .. } => "see that `git` is installed and works here".into(),
            Self::UnknownRemote { known, .. } if known.is_empty() => {
                "there is none yet: `git remote add origin URL` makes one".into()
            }
            Self::UnknownRemote { known, .. } => {
                let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
                format!("there is {}; a URL will do as well", known.join(", ")).into()
            }
            Self::Remote { remote, .. } => {
                format!("nothing was changed here; `git ls-remote {remote}` shows whether git can reach it").into()
            }
            Self::RemoteRefused { refused, .. } if refused.iter().all(|(_, why)| why.is_some()) => {
                "whoever looks after the other repository can say why; everything else went through".into()
            }
            Self::RemoteRefused { .. } => {
                "logs are only ever continued, so one of the two was changed after it was written: see what `piton verify --all` says here and in the other repository".into()
            }
            Self::Git { .. } => "see what git says with `git fsck`".into(),
            Self::Missing { promisor: Some(remote), .. } => {
                format!("piton fetches nothing by itself: `git cat-file -t OBJECT` fetches one object, `git fetch --refetch --no-filter {remote}` everything").into()
            }
            Self::Missing { .. } => {
                "`piton gc` drops the contents of old runs, and git prunes commits that no branch has; `piton verify` tells more".into()
            }
            Self::Io { .. } => return None,
        })
    }
}

impl CheckpointError {
    /// Whether the repository or the machine is the reason, so that nothing was even tried.
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

    /// Gives what libgit2 said a place in a sentence: `cannot {doing}`.
    pub(crate) fn git(doing: &'static str) -> impl FnOnce(git2::Error) -> Self {
        move |source| Self::Git { doing, source }
    }

    /// Gives what the system said a place in a sentence: ``cannot {doing} `{path}` ``.
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.into(), source }
    }
}

fn secrets(hits: &[SecretHit]) -> String {
    let listed: Vec<String> = hits
        .iter()
        .take(5)
        .map(|hit| format!("{} in `{}` line {} ({})", hit.rule, hit.path, hit.line, hit.fingerprint))
        .collect();
    match hits.len() {
        0..=5 => listed.join(", "),
        more => format!("{} and {} more", listed.join(", "), more - 5),
    }
}

fn unwritten(files: &[Unwritten]) -> String {
    let listed: Vec<String> = files.iter().take(5).map(|file| format!("`{}`: {}", file.path, file.reason)).collect();
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
    let more = if refused.len() > 5 { format!("; and {} more", refused.len() - 5) } else { String::new() };
    listed.join("; ") + &more
}

fn commit_name(id: Option<ObjectId>) -> String {
    id.map_or_else(|| "no commit".to_owned(), |id| id.short())
}
