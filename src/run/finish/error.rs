//! Why a run cannot be finished, or not in this way.

use std::fmt::Write as _;

use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::{RepoPath, listed};
use crate::journal::{RunId, StepId};
use crate::problem::{Code, Explain, Hint, HintCall, hint};

/// A file that both the run and the current branch changed, with the last author on each side.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Clash {
    pub path: RepoPath,
    /// The last author in the run.
    pub theirs: Option<String>,
    /// The last author in the current branch.
    pub ours: Option<String>,
}

/// Why a run cannot be finished.
#[derive(Debug, thiserror::Error)]
pub enum FinishError {
    /// The run is waiting, running or interrupted.
    #[error("run `{run}` has not ended: it {}", if *.is_waiting { "waits" } else { "is running or interrupted" })]
    NotEnded {
        run: RunId,
        /// Whether it waits for an answer.
        is_waiting: bool,
        /// Its work tree.
        root: String,
    },
    /// It is already finished.
    #[error("run `{run}` is already finished, by `{by}`")]
    Closed {
        run: RunId,
        /// The step that finished it.
        by: StepId,
    },
    /// The current branch is the branch of the run.
    #[error("the current branch is the branch of run `{0}` itself")]
    OwnBranch(RunId),
    /// HEAD is detached, so there is no branch to merge into.
    #[error("HEAD is detached: there is no branch to merge into, for run `{0}`")]
    Detached(RunId),
    /// The current branch has no commit yet.
    #[error("the current branch has no commit yet, but run `{0}` began at one")]
    Unborn(RunId),
    /// The histories are unrelated.
    #[error("the branch of run `{0}` and the current one have no commit in common")]
    Unrelated(RunId),
    /// The run and the current branch changed the same lines.
    #[error("run `{run}` and the current branch changed the same lines: {}", named(.clashes))]
    MergeConflict {
        run: RunId,
        branch: String,
        /// Its worktree, if it still exists.
        worktree: Option<String>,
        clashes: Vec<Clash>,
    },
    /// The user has uncommitted changes in the same lines.
    #[error("the run overlaps your uncommitted changes: {}", listed(.0))]
    Overlap(Vec<RepoPath>),
    /// Commits of others would be squashed too, or lose their base.
    #[error("the commits of run `{run}` are not exactly the newest ones of the branch: {} does not belong to it", .other.short())]
    NotNewest {
        run: RunId,
        /// A commit that does not belong to the run.
        other: ObjectId,
    },
    /// The commits were pushed, so other people may have them.
    #[error("the commits of run `{run}` are pushed: `{by}` has them")]
    Published {
        run: RunId,
        /// The remote branch.
        by: String,
    },
    /// The commits are on another branch.
    #[error("the commits of run `{run}` are not on the current branch, but on {branch}")]
    Elsewhere {
        run: RunId,
        /// A description of the branch.
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
                    "continue it: ",
                    HintCall::Resume(Some(run.to_string())),
                    ", or end it: ",
                    HintCall::Cancel(Some(run.to_string()))
                ]
            }
            Self::NotEnded { root, .. } => {
                format!("wait for it; if it was interrupted, `piton -C '{root}' recover` recovers it").into()
            }
            Self::Closed { by, .. } => hint!["see the result with ", HintCall::ShowRun(by.to_string())],
            Self::OwnBranch(_) => {
                "go to the worktree of the target branch; `git worktree list` lists worktrees".into()
            }
            Self::Detached(_) | Self::Unborn(_) => {
                "switch to the target branch, or leave the commits on their branch: `--branch`".into()
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
    /// Whether the state of the repository is the cause, so that nothing was tried.
    pub fn is_unsafe(&self) -> bool {
        matches!(
            self,
            Self::NotEnded { .. } | Self::Detached(_) | Self::Unborn(_) | Self::OwnBranch(_)
        )
    }

    /// Whether the request is invalid.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Closed { .. })
    }
}

/// The first few files, each with the last authors.
fn named(clashes: &[Clash]) -> String {
    const NAMED: usize = 5;
    let mut text = String::new();
    for (at, clash) in clashes.iter().take(NAMED).enumerate() {
        let unknown = "an earlier commit".to_owned();
        let (theirs, ours) = (
            clash.theirs.as_ref().unwrap_or(&unknown),
            clash.ours.as_ref().unwrap_or(&unknown),
        );
        let separator = if at == 0 { "" } else { "; " };
        let _ = write!(
            text,
            "{separator}`{}` by {theirs} there and by {ours} here",
            clash.path
        );
    }
    if clashes.len() > NAMED {
        let _ = write!(text, "; and {} more", clashes.len() - NAMED);
    }
    text
}
