//! Judges the changes of a step against its rules.
//!
//! Every change counts, also one that no checkpoint can hold: a file that became too large, a nested
//! repository, a file that git ignores. [`StepJudgement`] says what breaks the rules.

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use super::{DeclaredChanges, Rules, UnheldFiles};
use crate::checkpoint::attribution::Attributed;
use crate::checkpoint::checkpointer::Checkpointer;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::held::FileTime;
use crate::checkpoint::path::{RepoPath, listed};
use crate::checkpoint::snapshot::{LeftOutReason, Snapshot};
use crate::exec::supervisor::Touched;
use crate::problem::{Code, Problem};

/// Where piton keeps the outputs of calls that a tool makes with piton.
const OUTPUTS: &str = ".ai/outputs";

/// What breaks the rules of a step.
pub(super) struct StepJudgement {
    /// The files that it may not change, in order.
    pub(super) denied: Vec<RepoPath>,
    /// The files that it changed although it declares no changes.
    pub(super) undeclared: Vec<RepoPath>,
    /// Whether undeclared changes fail the step.
    pub(super) is_refused: bool,
    /// The error of the step.
    pub(super) refusal: Option<Problem>,
}

/// Judges what a step changed. `began` is the time of the snapshot before; files in the temporary
/// folder do not count.
pub(super) fn judge(
    checkpointer: &Checkpointer,
    before: &Snapshot,
    found: &Attributed,
    began: FileTime,
    temporary: &Path,
    rules: &Rules<'_>,
) -> Result<StepJudgement, CheckpointError> {
    let delta = &found.delta;
    let changed = || delta.changes.iter().map(|change| &change.path);
    let modes = delta.permissions.iter().map(|change| &change.path);
    let held = changed().chain(modes);
    let mut denied: Vec<RepoPath> = held
        .filter(|path| !(rules.may_change)(path))
        .cloned()
        .collect();
    let unheld = unheld(checkpointer, before, found, began, temporary, rules)?;
    denied.extend(unheld.iter().cloned());
    denied.sort();
    denied.dedup();
    let is_announced = |path: &RepoPath| (rules.declared)(path) == DeclaredChanges::Anything;
    let undeclared: Vec<RepoPath> = changed()
        .filter(|path| !is_announced(path))
        .cloned()
        .collect();
    let is_refused = undeclared
        .iter()
        .any(|path| (rules.declared)(path) == DeclaredChanges::NothingStrictly);
    let refusal = if !denied.is_empty() {
        Some(denial(&denied, &unheld, rules))
    } else if is_refused {
        let message = format!(
            "the tool declares `mutates_state: false` but changed {}",
            listed(&undeclared)
        );
        let problem = Problem::new(Code::UndeclaredMutation, message);
        Some(problem.with_hint("if that is intended, set `mutates_state: true` in its manifest"))
    } else {
        None
    };
    Ok(StepJudgement {
        denied,
        undeclared,
        is_refused,
        refusal,
    })
}

fn denial(denied: &[RepoPath], unheld: &[RepoPath], rules: &Rules<'_>) -> Problem {
    let mut message = format!(
        "the step changed files that it may not change: {}",
        listed(denied)
    );
    if !unheld.is_empty() {
        let these = if unheld == denied {
            "these".to_owned()
        } else {
            listed(unheld)
        };
        message.push_str("; no checkpoint has ");
        message.push_str(&these);
        message.push_str(", so the change was not rolled back");
    }
    let is_elsewhere = |path: &&RepoPath| path.as_path().is_absolute();
    let here: Vec<RepoPath> = denied
        .iter()
        .filter(|path| !is_elsewhere(path))
        .map(safe_part)
        .collect();
    let hint = if here.is_empty() {
        "change the files of another work tree in a step that runs there".to_owned()
    } else {
        (rules.way_out)(&here)
    };
    Problem::new(Code::WriteDenied, message).with_hint(hint)
}

/// The forbidden changes that cannot be rolled back.
fn unheld(
    checkpointer: &Checkpointer,
    before: &Snapshot,
    found: &Attributed,
    began: FileTime,
    temporary: &Path,
    rules: &Rules<'_>,
) -> Result<Vec<RepoPath>, CheckpointError> {
    let (delta, after) = (&found.delta, &found.after);
    let is_repository = |path: &RepoPath| {
        let left_out = before.left_out.iter().chain(&after.left_out);
        left_out
            .filter(|left| left.reason == LeftOutReason::NestedRepository)
            .any(|left| left.path == *path)
    };
    let mut unheld = Vec::new();
    for path in &delta.not_captured {
        let is_repository = is_repository(path);
        // A tool makes a repository by writing into it. It may do so where it may write any file.
        let is_own = (rules.own.has)(path) || is_repository && (rules.own.has)(&path.join(b".git"));
        let may_change = (rules.may_change)(path)
            || is_repository && (rules.may_change)(&path.join(b"any file"));
        let is_held = delta.changes.iter().any(|change| change.path == *path);
        if is_own && !may_change && !is_held {
            unheld.push(path.clone());
        }
    }
    if rules.unheld == UnheldFiles::Free {
        return Ok(unheld);
    }
    let top = checkpointer.repository().top();
    let top = fs::canonicalize(top).unwrap_or_else(|_| top.to_path_buf());
    let is_ours = |path: &Path| {
        let mut above = path.ancestors().skip(1);
        above.any(|folder| folder.ends_with(OUTPUTS) || top.join(folder) == temporary)
    };
    let forbidden = |path: &Path| {
        RepoPath::find_below(&top, &top.join(path))
            .filter(|path| !path.is_top() && !is_ours(path.as_path()) && !is_index(path))
            .filter(|path| !(rules.may_change)(&permitted_by(path)))
            .filter(|path| !unheld.iter().any(|one| path == one || path.is_inside(one)))
            .filter(|path| found.outside.binary_search(path).is_err())
    };
    let all = match rules.touched {
        Touched::Unknown(_) => checkpointer.changed_since(began),
        Touched::Everything | Touched::Paths(_) => Vec::new(),
    };
    let touched = rules.touched.below(&top).into_iter();
    let touched = touched.chain(all.iter().map(RepoPath::as_path));
    let mut touched: Vec<RepoPath> = touched.filter_map(forbidden).collect();
    let removed = rules.touched.removed_below(&top).into_iter();
    let removed = removed.filter_map(|(path, born)| Some((forbidden(path)?, born)));
    let mut removed: Vec<(RepoPath, FileTime)> = removed.collect();
    // No rule names files of another work tree of this repository; they have their whole paths here.
    let common_dir = checkpointer.repository().common_dir();
    let common_dir = fs::canonicalize(common_dir).unwrap_or_else(|_| common_dir.to_path_buf());
    for other in checkpointer.repository().other_worktrees() {
        let whole = |path: &Path| {
            let path = other.join(path);
            let is_elsewhere = !path.starts_with(&top) && !path.starts_with(&common_dir);
            (is_elsewhere && !is_ours(&path))
                .then(|| RepoPath::from_bytes(path.into_os_string().into_vec()))
        };
        touched.extend(rules.touched.below(&other).into_iter().filter_map(whole));
        let gone = rules.touched.removed_below(&other).into_iter();
        removed.extend(gone.filter_map(|(path, born)| Some((whole(path)?, born))));
    }
    let removed = checkpointer.removed_unheld(removed, before, began)?;
    let changed = checkpointer.changed_unheld(touched, [before, after], began)?;
    unheld.extend(changed);
    unheld.extend(removed);
    unheld.sort();
    unheld.dedup();
    Ok(unheld)
}

/// The path that decides whether a file may change. The files of a nested repository's `.git` may
/// change where any file of it may.
fn permitted_by(path: &RepoPath) -> RepoPath {
    let safe = safe_part(path);
    if safe == *path {
        safe
    } else {
        safe.join(b"any file")
    }
}

/// A path up to the first name that only git may use.
fn safe_part(path: &RepoPath) -> RepoPath {
    let mut above = path.clone();
    while !above.is_top() && !above.is_safe() {
        above = above.parent();
    }
    above
}

/// Whether a file is the index of a nested repository, which git writes when it only reads.
fn is_index(path: &RepoPath) -> bool {
    let is_of_git = path.parent().file_name() == b".git";
    is_of_git && matches!(path.file_name(), b"index" | b"index.lock")
}
