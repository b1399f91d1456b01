//! Why a run cannot be closed, or not in this way.

use std::fmt::Write as _;

use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::{RepoPath, listed};
use crate::journal::{RunId, StepId};
use crate::problem::{Call, Code, Explain, Hint, hint};

/// A file that a run and the current branch both changed, and who did it on either side.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Clash {
    /// The file.
    pub path: RepoPath,
    /// Who changed it last in the run.
    pub theirs: Option<String>,
    /// Who changed it last in the current branch.
    pub ours: Option<String>,
}

/// Why a run cannot be closed.
#[derive(Debug, thiserror::Error)]
pub enum FinishError {
    /// It waits, or runs, or was cut off.
    #[error("run `{run}` has not ended: it {}", if *.is_waiting { "waits" } else { "is running or was cut off" })]
    NotEnded {
        /// The run.
        run: RunId,
        /// Whether it waits for somebody.
        is_waiting: bool,
        /// Where it works.
        root: String,
    },
    /// It is closed already.
    #[error("run `{run}` is finished already, by `{by}`")]
    Closed {
        /// The run.
        run: RunId,
        /// The step that closed it.
        by: StepId,
    },
    /// The current branch is that of the run itself.
    #[error("this is the branch of run `{0}` itself, which cannot be brought into itself")]
    OwnBranch(RunId),
    /// There is no branch to bring anything into.
    #[error("HEAD is detached: there is no branch that could get the commits of run `{0}`")]
    Detached(RunId),
    /// The current branch has no commit yet.
    #[error("the current branch has no commit yet, and run `{0}` began at one")]
    Unborn(RunId),
    /// The histories have nothing in common.
    #[error("the branch of run `{0}` and the current one have no commit in common")]
    Unrelated(RunId),
    /// The run and the current branch changed the same.
    #[error("run `{run}` and the current branch changed the same: {}", named(.clashes))]
    MergeConflict {
        /// The run.
        run: RunId,
        /// Its branch.
        branch: String,
        /// Where its files are, if they still are.
        worktree: Option<String>,
        /// The files.
        clashes: Vec<Clash>,
    },
    /// The user has work of their own in the same lines.
    #[error("the run changed what you have not committed yourself: {}", listed(.0))]
    Overlap(Vec<RepoPath>),
    /// Others would be squashed with them, or be left without a base.
    #[error("the commits of run `{run}` are not exactly the newest ones of the branch: {} is not of it", .other.short())]
    NotNewest {
        /// The run.
        run: RunId,
        /// A commit that is not of the run.
        other: ObjectId,
    },
    /// Somebody else may have them.
    #[error("the commits of run `{run}` are published: `{by}` has them")]
    Published {
        /// The run.
        run: RunId,
        /// The branch of a remote.
        by: String,
    },
    /// They are on another branch.
    #[error("the commits of run `{run}` are not on the current branch, but on {branch}")]
    Elsewhere {
        /// The run.
        run: RunId,
        /// The branch, in words.
        branch: String,
    },
}

impl Explain for FinishError {
    fn code(&self) -> Code {
        match self {
            Self::NotEnded { .. } => Code::RunNotEnded,
            Self::Closed { .. } => Code::AlreadyFinished,
            Self::OwnBranch(_) => Code::OwnBranch,
            Self::Detached(_) => Code::DetachedHead,
            Self::Unborn(_) => Code::UnbornBranch,
            Self::Unrelated(_) => Code::UnrelatedHistory,
            Self::MergeConflict { .. } => Code::MergeConflict,
            Self::Overlap(_) => Code::DirtyOverlap,
            Self::NotNewest { .. } => Code::NotNewest,
            Self::Published { .. } => Code::Published,
            Self::Elsewhere { .. } => Code::OtherBranch,
        }
    }

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::NotEnded { run, is_waiting: true, .. } => {
                hint![
                    "go on with it: ",
                    Call::Resume(Some(run.to_string())),
                    ", or end it: ",
                    Call::Cancel(Some(run.to_string()))
                ]
            }
            Self::NotEnded { root, .. } => {
                format!("wait for it; if it was cut off, `piton -C '{root}' recover` brings it to an end").into()
            }
            Self::Closed { by, .. } => hint!["see what became of it with ", Call::ShowRun(by.to_string())],
            Self::OwnBranch(_) => {
                "go to the worktree whose branch is to get the commits; `git worktree list` shows them".into()
            }
            Self::Detached(_) | Self::Unborn(_) => {
                "switch to the branch that is to get the commits, or leave them on theirs: `--branch`".into()
            }
            Self::Unrelated(run) => format!("leave them on their branch: `piton finish {run} --branch`").into(),
            Self::MergeConflict { run, branch, worktree, .. } => {
                let short = branch.strip_prefix("refs/heads/").unwrap_or(branch);
                let there = match worktree {
                    Some(path) => format!("merge the current branch in `{path}`, commit, and finish again; or "),
                    None => String::new(),
                };
                format!(
                    "nothing was changed: {there}close it with `piton finish {run} --branch` and `git merge {short}`"
                )
                .into()
            }
            Self::Overlap(_) => {
                "nothing was changed: commit or stash your own part of these files, then finish again".into()
            }
            Self::NotNewest { run, .. } | Self::Published { run, .. } => {
                format!("`piton finish {run} --keep` closes it and leaves the commits as they are").into()
            }
            Self::Elsewhere { .. } => {
                "switch to that branch to squash them; `--keep` closes the run and leaves them there".into()
            }
        })
    }
}

impl FinishError {
    /// Whether the state of the repository is the reason, so that nothing was even tried.
    pub fn is_unsafe(&self) -> bool {
        matches!(self, Self::NotEnded { .. } | Self::Detached(_) | Self::Unborn(_) | Self::OwnBranch(_))
    }

    /// Whether it makes no sense to ask for it.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Closed { .. })
    }
}

/// The first few, each with those who changed it.
fn named(clashes: &[Clash]) -> String {
    const NAMED: usize = 5;
    let mut text = String::new();
    for (at, clash) in clashes.iter().take(NAMED).enumerate() {
        let unknown = "an earlier commit".to_owned();
        let (theirs, ours) = (clash.theirs.as_ref().unwrap_or(&unknown), clash.ours.as_ref().unwrap_or(&unknown));
        let separator = if at == 0 { "" } else { "; " };
        let _ = write!(text, "{separator}`{}` by {theirs} there and by {ours} here", clash.path);
    }
    if clashes.len() > NAMED {
        let _ = write!(text, "; and {} more", clashes.len() - NAMED);
    }
    text
}
