//! Exchanges runs with other repositories.
//!
//! [`push`] updates the logs of runs, searches what is new to the remote for secrets, and sends
//! exactly that; [`fetch`] gets what is new there. Neither touches journals, snapshots or branches.

use std::collections::BTreeMap;

use serde::Serialize;

use super::error::AuditError;
use super::trail::{self, Publication};
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::reading::Pin;
use crate::checkpoint::remote::Remote;
use crate::checkpoint::repository::Repository;
use crate::checkpoint::secret::{Scanner, SecretHit};
use crate::checkpoint::trail::{run_of_trail, trail_name};
use crate::journal::{self, RunId};

#[derive(Clone, Debug, Default, Serialize)]
pub struct Pushed {
    pub remote: String,
    pub pushed: Vec<RunId>,
    pub up_to_date: usize,
    /// Runs that were not sent, with the reason.
    pub withheld: BTreeMap<RunId, &'static str>,
    pub attestations: usize,
    /// Likely secrets that were sent anyway, because the settings only warn.
    #[serde(skip)]
    pub secrets: Vec<(RunId, SecretHit)>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Fetched {
    pub remote: String,
    pub fetched: Vec<RunId>,
    pub up_to_date: usize,
    pub attestations: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnSecret {
    /// Nothing is sent.
    Refuse,
    /// It is sent and reported.
    Tell,
}

/// Sends attestations and the logs of the named runs, or of all runs if none is named.
pub fn push(
    repository: &Repository,
    remote: &Remote<'_>,
    runs: &[RunId],
    scanner: &Scanner,
    on_secret: OnSecret,
) -> Result<Pushed, AuditError> {
    // Ask the remote first, so that nothing is prepared for an unreachable one.
    let there = remote.refs()?;
    let mut done = Pushed { remote: remote.shown(), ..Pushed::default() };
    let folder = repository.runs_folder();
    let own = journal::list(&folder)?;
    let wanted = |run: &RunId| runs.is_empty() || runs.contains(run);
    for run in own.iter().filter(|run| wanted(run)) {
        match trail::publish(repository, &folder, *run)? {
            Publication::Complete => {}
            Publication::Withheld(reason) if runs.is_empty() => drop(done.withheld.insert(*run, reason)),
            Publication::Withheld(reason) => return Err(AuditError::StaysHere { run: *run, reason }),
        }
    }
    let names: Vec<String> = runs.iter().map(|run| trail_name(&run.to_string())).collect();
    let mut new = Vec::new();
    for (name, commit) in remote.own_refs()? {
        if !names.is_empty() && !names.contains(&name) {
            continue;
        }
        if there.get(&name) == Some(&commit) {
            done.up_to_date += usize::from(run_of(&name).is_some());
        } else {
            new.push(Pin { name, commit });
        }
    }
    done.secrets = secrets(repository, &new, &there, scanner);
    if !done.secrets.is_empty() && on_secret == OnSecret::Refuse {
        return Err(AuditError::SecretFound(done.secrets));
    }
    remote.push(&new)?;
    done.pushed = new.iter().filter_map(|pin| run_of(&pin.name)).collect();
    done.attestations = new.len() - done.pushed.len();
    Ok(done)
}

/// Gets every log and attestation that is new on the remote.
pub fn fetch(repository: &Repository, remote: &Remote<'_>) -> Result<Fetched, AuditError> {
    let here = remote.own_refs()?;
    let mut done = Fetched { remote: remote.shown(), ..Fetched::default() };
    let mut new = Vec::new();
    for (name, commit) in remote.refs()? {
        // Not a run id, so another program made the ref.
        if run_of_trail(&name).is_some() && run_of(&name).is_none() {
            continue;
        }
        // Our copy of the log is already ahead.
        let is_known = |own: &ObjectId| {
            *own == commit || repository.has_object(commit).unwrap_or(false) && repository.leads_to(*own, commit)
        };
        if here.get(&name).is_some_and(is_known) {
            done.up_to_date += usize::from(run_of(&name).is_some());
        } else {
            new.push(name);
        }
    }
    remote.fetch(&new)?;
    done.fetched = new.iter().filter_map(|name| run_of(name)).collect();
    done.attestations = new.len() - done.fetched.len();
    Ok(done)
}

fn run_of(name: &str) -> Option<RunId> {
    run_of_trail(name)?.parse().ok()
}

/// Likely secrets in the lines that the remote does not have.
fn secrets(
    repository: &Repository,
    new: &[Pin],
    there: &BTreeMap<String, ObjectId>,
    scanner: &Scanner,
) -> Vec<(RunId, SecretHit)> {
    let mut found = Vec::new();
    for pin in new {
        let Some(run) = run_of(&pin.name) else { continue };
        let lines = repository.read_trail(pin.commit).lines;
        let known = there.get(&pin.name).map(|tip| repository.read_trail(*tip).lines);
        let path = RepoPath::from(pin.name.as_str());
        let hits = scanner.scan_change(&path, known.as_deref(), &lines);
        found.extend(hits.into_iter().map(|hit| (run, hit)));
    }
    found
}
