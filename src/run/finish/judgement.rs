//! Plans a finish from the journals and the history; writes nothing.

use std::collections::BTreeSet;

use super::{Clash, FinishError, FinishRequest};
use crate::audit::history::{History, RunRecord, StepRecord};
use crate::audit::reference::ReferenceError;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::integration::Merge;
use crate::checkpoint::message::Trailers;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::repository::Repository;
use crate::checkpoint::snapshot::Head;
use crate::item::wording::shown;
use crate::journal::RunId;
use crate::journal::event::{Decision, FinishHow};
use crate::journal::summary::RunStatus;
use crate::run::error::RunError;
use crate::run::linked_worktree::{BRANCHES, branch_of, find};

/// The plan of a finish.
#[derive(Clone, Debug)]
pub(super) struct Judgement {
    pub(super) run: RunId,
    /// Its shortest unique id.
    pub(super) short: String,
    pub(super) name: String,
    /// The directive of the run, as `id@version` or `id`.
    pub(super) directive: Option<String>,
    /// HEAD when this was planned; the plan is valid only for this HEAD.
    pub(super) head: Head,
    pub(super) way: BranchOutcome,
    /// The newest commit to merge.
    pub(super) tip: Option<ObjectId>,
    /// The commits to merge or replace, oldest first.
    pub(super) commits: Vec<ObjectId>,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
}

/// The effect on the current branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BranchOutcome {
    /// None.
    Close,
    /// None; creates another branch.
    MakeBranch { name: String, at: ObjectId },
    /// It fast-forwards to the commits of the run.
    FastForward { tree: ObjectId },
    /// It gets a new commit.
    Commit {
        tree: ObjectId,
        parents: Vec<ObjectId>,
    },
    /// Its newest commits are replaced by one with the same files.
    Replace {
        tree: ObjectId,
        parents: Vec<ObjectId>,
    },
}

/// Plans a finish, or returns why the run cannot be finished.
pub(super) fn judge(
    repository: &Repository,
    history: &History,
    request: &FinishRequest,
) -> Result<Judgement, RunError> {
    let id = request.run;
    let run = history
        .run(id)
        .ok_or_else(|| ReferenceError::Unknown(id.to_string()))?;
    require_ended(history, run)?;
    let head = repository.head()?;
    let mut judgement = Judgement {
        run: id,
        short: run.short_id(history),
        name: run.name.clone(),
        directive: run.directive.clone(),
        head: head.clone(),
        way: BranchOutcome::Close,
        tip: None,
        commits: Vec::new(),
        notes: Vec::new(),
    };
    if !matches!(run.status(), Some(RunStatus::Succeeded)) {
        judgement
            .notes
            .push("the run did not succeed: only its commits so far are included".to_owned());
    }
    match branch_of_run(repository, run)? {
        Some(branch) if branch.starts_with(BRANCHES) => {
            judgement.away(repository, history, run, request.how, &head, &branch)?;
        }
        branch => judgement.at_home(repository, run, request.how, &head, branch.as_deref())?,
    }
    if request.message.is_some()
        && !matches!(
            judgement.way,
            BranchOutcome::Commit { .. } | BranchOutcome::Replace { .. }
        )
    {
        judgement
            .notes
            .push("the message is not used: no commit has to be made".to_owned());
    }
    Ok(judgement)
}

fn require_ended(history: &History, run: &RunRecord) -> Result<(), FinishError> {
    let is_waiting = match run.status() {
        None => false,
        Some(RunStatus::Waiting) => true,
        Some(_) => {
            return match history.finish_of(run.id) {
                Some(step) => Err(FinishError::Closed {
                    run: run.id,
                    by: step.id,
                }),
                None => Ok(()),
            };
        }
    };
    Err(FinishError::NotEnded {
        run: run.id,
        is_waiting,
        root: run.root.clone(),
    })
}

/// The branch of a run; `None` if HEAD was detached or the branch is gone without a commit.
pub(super) fn branch_of_run(
    repository: &Repository,
    run: &RunRecord,
) -> Result<Option<String>, CheckpointError> {
    let decided = |step: &StepRecord| match &step.decision {
        Some(Decision::Commit { target, .. }) if step.commit().is_some() => Some(target.clone()),
        _ => None,
    };
    let begun = |step: &StepRecord| {
        step.before
            .as_ref()
            .and_then(|before| before.head.branch.clone())
    };
    let steps = || run.steps.iter().rev();
    if let Some(branch) = steps()
        .find_map(decided)
        .or_else(|| steps().find_map(begun))
    {
        return Ok(Some(branch).filter(|branch| branch != "HEAD"));
    }
    let own = branch_of(run.id);
    Ok(repository.find_branch(&own)?.map(|_| own))
}

/// The tree with the changes of both sides.
fn merged(
    repository: &Repository,
    history: &History,
    run: &RunRecord,
    branch: &str,
    [base, here, tip]: [ObjectId; 3],
) -> Result<ObjectId, RunError> {
    match repository.merge(here, tip)? {
        Merge::Clean(tree) => Ok(tree),
        Merge::Conflicts(paths) => {
            let clashes = clashes(repository, history, paths, base, here, tip)?;
            let worktree = find(repository, run)?.filter(|found| found.exists);
            let worktree = worktree.map(|found| found.path.to_string_lossy().into_owned());
            let (run, branch) = (run.id, branch.to_owned());
            Err(FinishError::MergeConflict {
                run,
                branch,
                worktree,
                clashes,
            }
            .into())
        }
    }
}

impl Judgement {
    /// Plans for a run on its own branch.
    fn away(
        &mut self,
        repository: &Repository,
        history: &History,
        run: &RunRecord,
        how: FinishHow,
        head: &Head,
        branch: &str,
    ) -> Result<(), RunError> {
        if head.branch.as_deref() == Some(branch) {
            return Err(FinishError::OwnBranch(run.id).into());
        }
        let found = repository.find_branch(branch)?;
        let Some(tip) = found.or_else(|| last_commit(run)) else {
            return Ok(());
        };
        self.tip = Some(tip);
        if how == FinishHow::Branch {
            if found.is_none() {
                self.way = BranchOutcome::MakeBranch {
                    name: branch.to_owned(),
                    at: tip,
                };
            }
            return Ok(());
        }
        if head.branch.is_none() {
            return Err(FinishError::Detached(run.id).into());
        }
        let Some(here) = head.commit else {
            return Err(FinishError::Unborn(run.id).into());
        };
        if repository.leads_to(here, tip) {
            self.notes
                .push("the current branch already has its commits".to_owned());
            return Ok(());
        }
        let base = repository
            .merge_base(here, tip)?
            .ok_or(FinishError::Unrelated(run.id))?;
        self.commits = repository.commits_between(Some(here), Some(tip))?;
        self.name_others(repository, history, run)?;
        let theirs = tree_of(repository, tip)?;
        if base == here && how == FinishHow::Keep {
            self.way = BranchOutcome::FastForward { tree: theirs };
            return Ok(());
        }
        let tree = if base == here {
            theirs
        } else {
            merged(repository, history, run, branch, [base, here, tip])?
        };
        self.way = match how {
            FinishHow::Squash if tree == tree_of(repository, here)? => {
                self.notes
                    .push("the current branch already has all of its changes".to_owned());
                BranchOutcome::Close
            }
            FinishHow::Squash => BranchOutcome::Commit {
                tree,
                parents: vec![here],
            },
            _ => BranchOutcome::Commit {
                tree,
                parents: vec![here, tip],
            },
        };
        Ok(())
    }

    /// Plans for a run on the user's branch or on a detached HEAD.
    fn at_home(
        &mut self,
        repository: &Repository,
        run: &RunRecord,
        how: FinishHow,
        head: &Head,
        branch: Option<&str>,
    ) -> Result<(), RunError> {
        let Some(last) = last_commit(run) else {
            self.notes.push("the run made no commits".to_owned());
            return Ok(());
        };
        self.commits = commits_of(repository, run)?;
        match how {
            FinishHow::Keep => {}
            FinishHow::Branch => {
                self.way = BranchOutcome::MakeBranch {
                    name: branch_of(run.id),
                    at: last,
                }
            }
            FinishHow::Squash => {
                if self.commits.len() < 2 {
                    self.notes
                        .push("the run made one commit: there is nothing to squash".to_owned());
                    return Ok(());
                }
                if branch.is_none() || head.branch.as_deref() != branch {
                    let branch = branch.map_or("a detached HEAD".to_owned(), |name| {
                        format!("`{}`", short(name))
                    });
                    return Err(FinishError::Elsewhere {
                        run: run.id,
                        branch,
                    }
                    .into());
                }
                self.replace(repository, run, head)?;
            }
        }
        self.tip = Some(last);
        Ok(())
    }

    fn replace(
        &mut self,
        repository: &Repository,
        run: &RunRecord,
        head: &Head,
    ) -> Result<(), RunError> {
        let first = run.steps.iter().find(|step| step.commit().is_some());
        let base = first
            .and_then(|step| step.before.as_ref())
            .and_then(|before| before.head.commit);
        let own: BTreeSet<ObjectId> = self.commits.iter().copied().collect();
        let newest = repository.commits_between(base, head.commit)?;
        let not_newest = |other| FinishError::NotNewest { run: run.id, other };
        if let Some(other) = newest.iter().find(|commit| !own.contains(commit)) {
            return Err(not_newest(*other).into());
        }
        // A commit that the branch no longer contains cannot be squashed on it.
        if let Some(missing) = self.commits.iter().find(|commit| !newest.contains(commit)) {
            return Err(not_newest(*missing).into());
        }
        for commit in &self.commits {
            if let Some(by) = repository.published_by(*commit)? {
                return Err(FinishError::Published { run: run.id, by }.into());
            }
        }
        let Some(here) = head.commit else {
            return Err(FinishError::Unborn(run.id).into());
        };
        self.way = BranchOutcome::Replace {
            tree: tree_of(repository, here)?,
            parents: base.into_iter().collect(),
        };
        Ok(())
    }

    /// Adds a note about commits on the branch of the run that are not its own.
    fn name_others(
        &mut self,
        repository: &Repository,
        history: &History,
        run: &RunRecord,
    ) -> Result<(), RunError> {
        let own = commits_of(repository, run)?;
        let mut others = BTreeSet::new();
        for commit in self.commits.iter().filter(|commit| !own.contains(commit)) {
            others.insert(author_of(repository, history, *commit)?.to_string());
        }
        let named: Vec<String> = others.into_iter().take(5).collect();
        if !named.is_empty() {
            self.notes.push(format!(
                "its branch also has commits of others, which are included: {}",
                named.join(", ")
            ));
        }
        Ok(())
    }
}

/// The newest commit of a run.
fn last_commit(run: &RunRecord) -> Option<ObjectId> {
    run.steps.iter().rev().find_map(StepRecord::commit)
}

/// The commits of a run, including those that its tools made themselves.
fn commits_of(repository: &Repository, run: &RunRecord) -> Result<Vec<ObjectId>, CheckpointError> {
    let mut commits = Vec::new();
    for step in &run.steps {
        let base = step.before.as_ref().and_then(|before| before.head.commit);
        if let Some(commit) = step.commit() {
            commits.extend(repository.commits_between(base, Some(commit))?);
        }
    }
    Ok(commits)
}

fn tree_of(repository: &Repository, commit: ObjectId) -> Result<ObjectId, CheckpointError> {
    let missing = || CheckpointError::Missing {
        what: format!("the commit {}", commit.short()),
        promisor: None,
    };
    Ok(repository.find_commit(commit)?.ok_or_else(missing)?.tree)
}

fn short(branch: &str) -> &str {
    branch.strip_prefix("refs/heads/").unwrap_or(branch)
}

/// The author of a commit.
enum CommitAuthor {
    /// A step of a run.
    Step { run: String, step: String },
    /// A person or another program.
    Commit { id: ObjectId, subject: String },
}

impl std::fmt::Display for CommitAuthor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Step { run, step } => match step.split_once(' ') {
                Some((number, name)) => write!(formatter, "step `{run}/{number}` ({name})"),
                None => write!(formatter, "step `{run}/{step}`"),
            },
            Self::Commit { id, subject } => write!(formatter, "commit {} ({subject})", id.short()),
        }
    }
}

fn author_of(
    repository: &Repository,
    history: &History,
    id: ObjectId,
) -> Result<CommitAuthor, CheckpointError> {
    let message = repository
        .find_commit(id)?
        .map(|facts| facts.message)
        .unwrap_or_default();
    Ok(match Trailers::find(&message) {
        Some(trailers) => {
            let run = trailers.run.parse().ok().and_then(|run| history.run(run));
            let run = run.map_or_else(|| shown(&trailers.run), |run| run.short_id(history));
            CommitAuthor::Step {
                run,
                step: shown(&trailers.step),
            }
        }
        None => CommitAuthor::Commit {
            id,
            subject: shown(message.lines().next().unwrap_or_default()),
        },
    })
}

/// The last author of each file, on both sides of the merge base.
fn clashes(
    repository: &Repository,
    history: &History,
    paths: Vec<RepoPath>,
    base: ObjectId,
    ours: ObjectId,
    theirs: ObjectId,
) -> Result<Vec<Clash>, CheckpointError> {
    let mut clashes: Vec<Clash> = paths
        .into_iter()
        .map(|path| Clash {
            path,
            theirs: None,
            ours: None,
        })
        .collect();
    for (tip, side) in [(theirs, MergeSide::Theirs), (ours, MergeSide::Ours)] {
        for commit in repository
            .commits_between(Some(base), Some(tip))?
            .into_iter()
            .rev()
        {
            let Some(facts) = repository.find_commit(commit)? else {
                continue;
            };
            // A merge only combines changes of other commits.
            let [parent] = facts.parents.as_slice() else {
                continue;
            };
            let changed = repository.differences(tree_of(repository, *parent)?, facts.tree)?;
            for clash in &mut clashes {
                let named = match side {
                    MergeSide::Theirs => &mut clash.theirs,
                    MergeSide::Ours => &mut clash.ours,
                };
                if named.is_none() && changed.iter().any(|(path, ..)| *path == clash.path) {
                    *named = Some(author_of(repository, history, commit)?.to_string());
                }
            }
        }
    }
    Ok(clashes)
}

#[derive(Clone, Copy)]
enum MergeSide {
    Theirs,
    Ours,
}
