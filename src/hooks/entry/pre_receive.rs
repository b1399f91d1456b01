//! `pre-receive`, on the server: a commit that claims to be a checkpoint lands only if the log of
//! its run confirms it.
//!
//! Logs may only be continued, and snapshots must not be pushed. Nothing is written: git keeps the
//! pushed objects in quarantine until this hook accepts them.

use std::collections::{BTreeMap, BTreeSet};

use super::pre_push::LOCAL;
use super::{HookAnswer, HookCall, HookRefusal};
use crate::audit::verification;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::repository::Repository;
use crate::checkpoint::trail::limit::TrailBudget;
use crate::checkpoint::trail::run_of_trail;
use crate::error::Error;
use crate::item::wording::shown;
use crate::journal::RunId;
use crate::problem::Code;
use crate::run::error::RunError;

/// Longer lists of refused commits are cut.
const MOST: usize = 10;

struct ReceivedRef {
    old: Option<ObjectId>,
    new: Option<ObjectId>,
    name: String,
}

pub(super) fn run(call: &HookCall<'_>) -> Result<HookAnswer, Error> {
    let Some(updates) = parse_updates(call.input) else {
        let message = "the input from git cannot be parsed".to_owned();
        return Ok(HookAnswer::refused(
            Code::NotUnderstood,
            message,
            "git runs this hook with a line for each ref: old object, new object, name",
        ));
    };
    if updates.is_empty() {
        let message = "git named no ref that changes".to_owned();
        let hint = "git runs this hook with a line for each ref: it cannot be run without them";
        return Ok(HookAnswer::refused(Code::NotUnderstood, message, hint));
    }
    let place = call.place()?;
    let repository = call.open(&place)?;
    let mut refusals = Vec::new();
    let mut logs = BTreeMap::new();
    let budget = TrailBudget::default();
    for update in &updates {
        if let Some(name) = run_of_trail(&update.name) {
            match judge_log(&repository, update, name, &budget) {
                Ok((run, tip)) => drop(logs.insert(run, tip)),
                Err(refusal) => refusals.push(refusal),
            }
        } else if update.name.starts_with(LOCAL) && update.new.is_some() {
            refusals.push(HookRefusal {
                code: Code::LocalRef,
                message: format!(
                    "`{}` contains snapshots, which must stay in their repository",
                    shown(&update.name)
                ),
                hint: Some(
                    "name what to push; `piton push REMOTE` sends the logs of runs".to_owned(),
                ),
            });
        }
    }
    refusals.extend(judge_commits(&repository, &updates, &logs)?);
    let more = refusals.len().saturating_sub(MOST);
    refusals.truncate(MOST);
    let notes = if more > 0 {
        vec![format!("{more} more reasons")]
    } else {
        Vec::new()
    };
    Ok(HookAnswer {
        refusals,
        notes,
        ..HookAnswer::default()
    })
}

/// Returns the run and the new tip of a log, or why the ref may not change like this.
fn judge_log(
    repository: &Repository,
    update: &ReceivedRef,
    name: &str,
    budget: &TrailBudget,
) -> Result<(RunId, ObjectId), HookRefusal> {
    let refused = |code, message: String, hint: &str| HookRefusal {
        code,
        message,
        hint: Some(hint.to_owned()),
    };
    let Ok(run) = name.parse::<RunId>() else {
        let message = format!("`{}` is not the log of a run", shown(&update.name));
        return Err(refused(
            Code::LogBroken,
            message,
            "logs are pushed with `piton push REMOTE`",
        ));
    };
    let is_continued = match (update.old, update.new) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(old), Some(new)) => repository.leads_to(new, old),
    };
    let Some(tip) = update.new.filter(|_| is_continued) else {
        let message =
            format!("the log of run `{run}` can only be continued, neither removed nor replaced");
        return Err(refused(
            Code::LogRefused,
            message,
            "`piton fetch REMOTE` shows what is there",
        ));
    };
    match verification::judge_log(repository, run, tip, budget) {
        None => Ok((run, tip)),
        Some(found) => {
            let message = format!("run `{run}`: {}", found.message);
            Err(refused(
                found.code,
                message,
                "`piton verify` where the run was made says more",
            ))
        }
    }
}

fn judge_commits(
    repository: &Repository,
    updates: &[ReceivedRef],
    logs: &BTreeMap<RunId, ObjectId>,
) -> Result<Vec<HookRefusal>, Error> {
    // Refs of piton were never checked, so a commit reachable only from them still counts as new.
    let counts =
        |name: &str| !name.starts_with("refs/piton/") && !name.starts_with("refs/attestations/");
    let tips: Vec<ObjectId> = updates
        .iter()
        .filter(|update| counts(&update.name))
        .filter_map(|update| update.new)
        .collect();
    if tips.is_empty() {
        return Ok(Vec::new());
    }
    let here = repository.targets(counts).map_err(RunError::from)?;
    let mut commits = repository
        .commits_leading_to(&tips, &here)
        .map_err(RunError::from)?;
    // Oldest first, so that the first refusal names the first bad commit.
    commits.reverse();
    let found = verification::judge_landing(repository, logs, &commits).map_err(RunError::from)?;
    let mut told = BTreeSet::new();
    let refusal = |(commit, found): (ObjectId, verification::VerificationFinding)| {
        let hint = match found.code {
            Code::LogMissing => {
                "`piton push REMOTE` sends the logs of runs: do that first, then push again"
            }
            Code::NotRecorded => {
                "`piton push REMOTE` first, if it was rewritten and that is recorded; otherwise remove its `Piton-` lines"
            }
            Code::Rewritten => {
                "accept it where it was made (`piton verify --accept STEP --reason TEXT`), then `piton push REMOTE`; or \
                 remove its `Piton-` lines"
            }
            Code::TrailerMismatch => {
                "restore the message that piton wrote, or take out all of its last paragraphs"
            }
            _ => "`piton verify` where it was made says more",
        };
        // Show each hint once.
        let hint = told.insert(hint).then(|| hint.to_owned());
        HookRefusal {
            code: found.code,
            message: format!("commit {} cannot land: {}", commit.short(), found.message),
            hint,
        }
    };
    Ok(found.into_iter().map(refusal).collect())
}

/// Parses git's input: old object, new object, ref name. `None` if any line is malformed, because
/// then the push cannot be checked.
fn parse_updates(input: &[u8]) -> Option<Vec<ReceivedRef>> {
    let text = String::from_utf8_lossy(input);
    let some = |id: ObjectId| (!id.is_zero()).then_some(id);
    let update = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let (old, new) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(ReceivedRef {
            old: some(old),
            new: some(new),
            name: words.next()?.to_owned(),
        })
    };
    text.lines().map(update).collect()
}
