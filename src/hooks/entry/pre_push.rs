//! `pre-push`: verifies the runs whose commits are pushed, and refuses to push snapshots.

use std::collections::BTreeSet;

use super::{HookAnswer, HookCall, HookRefusal};
use crate::audit::trail;
use crate::audit::verification::{self, VerificationScope};
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::repository::Repository;
use crate::error::Error;
use crate::journal::{self, KeyFile, RunId};
use crate::problem::Code;
use crate::run::error::RunError;

/// Snapshots, which must not leave this repository.
pub(super) const LOCAL: &str = "refs/piton/local/";

struct PushedRef {
    /// The new commit; `None` when the ref is deleted.
    new: Option<ObjectId>,
    /// The commit on the remote, as far as it is known.
    old: Option<ObjectId>,
    /// The name of the ref on the remote.
    name: String,
}

pub(super) fn run(call: &HookCall<'_>) -> Result<HookAnswer, Error> {
    let mut updates = parse_updates(call.input);
    if updates.is_empty() {
        updates = updates_from_manager(call);
    }
    updates.retain(|update| update.new.is_some());
    if let Some(update) = updates.iter().find(|update| update.name.starts_with(LOCAL)) {
        let message = format!(
            "`{}` is private to this repository: it may contain uncommitted data",
            update.name
        );
        return Ok(HookAnswer::refused(
            Code::LocalRef,
            message,
            "name what to push; `piton push` sends the logs of runs",
        ));
    }
    // Logs are the evidence for verification, not its subject.
    updates.retain(|update| {
        !update.name.starts_with("refs/piton/") && !update.name.starts_with("refs/attestations/")
    });
    if updates.is_empty() {
        return Ok(HookAnswer::default());
    }
    let place = call.place()?;
    let repository = call.open(&place)?;
    let runs = pushed_runs(call, &repository, &updates).map_err(RunError::from)?;
    let known = known(&repository, runs)?;
    if known.is_empty() {
        return Ok(HookAnswer::default());
    }
    let settings = call.environment.settings_folder();
    let key = KeyFile::of(settings.as_deref())
        .read()
        .map_err(RunError::from)?;
    let scope = VerificationScope::Runs(known);
    let found = verification::verify(&repository, &scope, key.as_ref()).map_err(RunError::from)?;
    let Some(first) = found.breaks.into_iter().next() else {
        return Ok(HookAnswer::default());
    };
    let place = match (first.step, first.run) {
        (Some(step), _) => format!("`{step}`"),
        (None, Some(run)) => format!("run `{run}`"),
        (None, None) => "history".to_owned(),
    };
    let more = first.run.map_or_else(
        || "piton verify --all".to_owned(),
        |run| format!("piton verify {run}"),
    );
    let accept = first
        .suggestion
        .map(|way| format!("; {way}"))
        .unwrap_or_default();
    let hint = Some(format!(
        "`{more}` has details{accept}; `git push --no-verify` skips this check"
    ));
    let message = format!("{place} does not verify: {}", first.message);
    Ok(HookAnswer {
        refusals: vec![HookRefusal {
            code: first.code,
            message,
            hint,
        }],
        ..HookAnswer::default()
    })
}

/// The runs named in commits that the remote does not have.
fn pushed_runs(
    call: &HookCall<'_>,
    repository: &Repository,
    updates: &[PushedRef],
) -> Result<BTreeSet<RunId>, crate::checkpoint::error::CheckpointError> {
    let tips: Vec<ObjectId> = updates.iter().filter_map(|update| update.new).collect();
    let mut there: Vec<ObjectId> = updates.iter().filter_map(|update| update.old).collect();
    let remote = call.arguments.first().and_then(|name| name.to_str());
    let remote = remote.or_else(|| call.environment.find("PRE_COMMIT_REMOTE_NAME")?.to_str());
    if let Some(remote) = remote.filter(|name| !name.is_empty()) {
        let tracking = format!("refs/remotes/{remote}/");
        there.extend(repository.targets(|name| name.starts_with(&tracking))?);
    }
    let commits = repository
        .commits_leading_to(&tips, &there)?
        .into_iter()
        .collect();
    let claims = repository.claims(&commits)?;
    Ok(claims
        .iter()
        .filter_map(|claim| claim.trailers.run.parse().ok())
        .collect())
}

/// Keeps the runs that have a journal or a log here. Others cannot be checked.
fn known(repository: &Repository, mut runs: BTreeSet<RunId>) -> Result<BTreeSet<RunId>, Error> {
    if runs.is_empty() {
        return Ok(runs);
    }
    let mut here: BTreeSet<RunId> = journal::list(&repository.runs_folder())
        .map_err(RunError::from)?
        .into_iter()
        .collect();
    here.extend(
        trail::list(repository)
            .map_err(RunError::from)?
            .into_iter()
            .map(|(run, _)| run),
    );
    runs.retain(|run| here.contains(run));
    Ok(runs)
}

/// Parses git's input: local ref and object, remote ref and object.
fn parse_updates(input: &[u8]) -> Vec<PushedRef> {
    let text = String::from_utf8_lossy(input);
    let update = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let new = words.next()?.parse().ok()?;
        let name = words.next()?.to_owned();
        let old = words.next()?.parse().ok()?;
        let some = |id: ObjectId| (!id.is_zero()).then_some(id);
        Some(PushedRef {
            new: some(new),
            old: some(old),
            name,
        })
    };
    text.lines().filter_map(update).collect()
}

/// Reads the update from variables: some hook managers consume git's input themselves.
fn updates_from_manager(call: &HookCall<'_>) -> Vec<PushedRef> {
    let object = |names: [&str; 2]| {
        let found = names.into_iter().find_map(|name| {
            call.environment
                .find(name)?
                .to_str()?
                .parse::<ObjectId>()
                .ok()
        });
        found.filter(|id| !id.is_zero())
    };
    let Some(new) = object(["PRE_COMMIT_TO_REF", "PRE_COMMIT_ORIGIN"]) else {
        return Vec::new();
    };
    let name = call
        .environment
        .find("PRE_COMMIT_REMOTE_BRANCH")
        .map(|name| name.to_string_lossy().into_owned());
    let old = object(["PRE_COMMIT_FROM_REF", "PRE_COMMIT_SOURCE"]);
    vec![PushedRef {
        new: Some(new),
        old,
        name: name.unwrap_or_default(),
    }]
}
