//! Exchanges runs with other repositories.
//!
//! [`push`] updates the logs of runs, searches what is new to the remote for secrets, and sends
//! exactly that; [`fetch`] gets what is new there. Neither touches journals, snapshots or branches.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::Serialize;

use super::error::AuditError;
use super::trail::{self, Publication};
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::path::RepoPath;
use crate::checkpoint::reading::PinRef;
use crate::checkpoint::remote::Remote;
use crate::checkpoint::repository::Repository;
use crate::checkpoint::secret::{SecretHit, SecretPlace, SecretScanner};
use crate::checkpoint::trail::limit::{TrailBudget, TrailFault};
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

/// Why the log of another clone is not sent.
const UNREADABLE: &str = "its log cannot be read";

/// Sends attestations and the logs of the named runs, or of all runs if none is named.
pub fn push(
    repository: &Repository,
    remote: &Remote<'_>,
    runs: &[RunId],
    scanner: &SecretScanner,
    on_secret: OnSecret,
) -> Result<Pushed, AuditError> {
    // Ask the remote first, so that nothing is prepared for an unreachable one.
    let there = remote.refs()?;
    let mut done = Pushed {
        remote: remote.shown(),
        ..Pushed::default()
    };
    let folder = repository.runs_folder();
    let own = journal::list(&folder)?;
    let wanted = |run: &RunId| runs.is_empty() || runs.contains(run);
    for run in own.iter().filter(|run| wanted(run)) {
        match trail::publish(repository, &folder, *run)? {
            Publication::Complete => {}
            Publication::Withheld(reason) if runs.is_empty() => {
                done.withheld.insert(*run, reason);
            }
            Publication::Withheld(reason) => {
                return Err(AuditError::StaysHere { run: *run, reason });
            }
        }
    }
    let names: Vec<String> = runs
        .iter()
        .map(|run| trail_name(&run.to_string()))
        .collect();
    let mut new = Vec::new();
    for (name, commit) in remote.own_refs()? {
        if !names.is_empty() && !names.contains(&name) {
            continue;
        }
        if there.get(&name) == Some(&commit) {
            done.up_to_date += usize::from(run_of(&name).is_some());
        } else {
            new.push(PinRef { name, commit });
        }
    }
    let mut readable = Vec::new();
    for pin in new {
        let Some(run) = run_of(&pin.name) else {
            readable.push(pin);
            continue;
        };
        match secrets(repository, &pin, there.get(&pin.name).copied(), scanner) {
            Ok(hits) => {
                done.secrets.extend(hits.into_iter().map(|hit| (run, hit)));
                readable.push(pin);
            }
            // What cannot be searched for secrets is not sent.
            Err(_) if runs.is_empty() => drop(done.withheld.insert(run, UNREADABLE)),
            Err(_) => {
                let reason = UNREADABLE;
                return Err(AuditError::StaysHere { run, reason });
            }
        }
    }
    let new = readable;
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
    let mut done = Fetched {
        remote: remote.shown(),
        ..Fetched::default()
    };
    let mut new = Vec::new();
    for (name, commit) in remote.refs()? {
        // Not a run id, so another program made the ref.
        if run_of_trail(&name).is_some() && run_of(&name).is_none() {
            continue;
        }
        // Our copy of the log is already ahead.
        let is_known = |own: &ObjectId| {
            *own == commit
                || repository.has_object(commit).unwrap_or(false)
                    && repository.leads_to(*own, commit)
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

/// Likely secrets in the lines of a log that the remote does not have. Fails if the log cannot be
/// read.
fn secrets(
    repository: &Repository,
    pin: &PinRef,
    there: Option<ObjectId>,
    scanner: &SecretScanner,
) -> Result<Vec<SecretHit>, TrailFault> {
    let path = RepoPath::from(pin.name.as_str());
    let scan = |tip, from| {
        let mut scan = LogScan::new(scanner, &path, from);
        repository
            .read_trail(tip, &TrailBudget::default(), &mut |line| scan.take(line))
            .map(|()| scan.finish())
    };
    let known = there.and_then(|tip| scan(tip, 0).ok());
    // The remote's lines are the first ones, because logs are only continued.
    let (mut found, _) = scan(pin.commit, known.as_ref().map_or(0, |(_, lines)| *lines))?;
    if let Some((known, _)) = known {
        found.retain(|hit| known.iter().all(|it| it.fingerprint != hit.fingerprint));
    }
    Ok(found)
}

/// Scans the lines of a log in pieces, so that the log need not be in memory.
struct LogScan<'s> {
    scanner: &'s SecretScanner,
    path: &'s RepoPath,
    /// The number of lines before the first one that is scanned.
    from: u64,
    lines: u64,
    piece: Vec<u8>,
    /// The number of lines before the piece.
    before: u64,
    found: Vec<SecretHit>,
}

impl<'s> LogScan<'s> {
    const PIECE: usize = 1024 * 1024;
    /// The maximum number of hits per log.
    const MOST: usize = 100;

    fn new(scanner: &'s SecretScanner, path: &'s RepoPath, from: u64) -> Self {
        Self {
            scanner,
            path,
            from,
            lines: 0,
            piece: Vec::new(),
            before: from,
            found: Vec::new(),
        }
    }

    fn take(&mut self, line: &[u8]) -> ControlFlow<()> {
        self.lines += 1;
        if self.lines > self.from {
            self.piece.extend_from_slice(line);
            if self.piece.len() >= Self::PIECE {
                self.scan();
            }
        }
        ControlFlow::Continue(())
    }

    fn scan(&mut self) {
        let hits = self.scanner.scan(self.path, &self.piece);
        let before = self.before;
        let found = hits.into_iter().map(|hit| SecretHit {
            place: match hit.place {
                SecretPlace::Line(line) => SecretPlace::Line(line + before),
                place => place,
            },
            ..hit
        });
        let room = Self::MOST.saturating_sub(self.found.len());
        self.found.extend(found.take(room));
        self.before = self.lines;
        self.piece.clear();
    }

    /// The hits and the number of lines.
    fn finish(mut self) -> (Vec<SecretHit>, u64) {
        self.scan();
        (self.found, self.lines)
    }
}
