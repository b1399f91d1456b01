//! What works on this machine, proved by trying.
//!
//! [`examine`] goes through [`PROBES`]: each does something real in a temporary folder, has a limit of time, leaves nothing
//! behind and changes nothing in the project. A probe that hangs is reported and not waited for.
//! The answer is a [`Report`] of [`Check`]s; what is needed and does not work makes it unusable.

mod folders;
mod probe;
mod programs;
mod project;
mod rope;
mod supervision;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::error::RunError;
use crate::context::{Context, ContextError, Environment};
use crate::exec::call::CallError;
use crate::exec::interrupt::Interrupts;
use probe::{Outcome, PROBES, Probe};

/// How much longer than a program a whole probe may take.
const PATIENCE: u32 = 6;
/// How long a probe has to tidy up when somebody asks to stop.
const TIDYING: Duration = Duration::from_secs(3);
/// How often a request to stop is looked for.
const PAUSE: Duration = Duration::from_millis(50);

/// How well something works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It was tried and works.
    Ok,
    /// It works, but there is something to know.
    Warning,
    /// It is not there, or does not work.
    Missing,
}

/// What a check is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// What every run needs.
    Rope,
    /// Programs that tools and commands use.
    Programs,
    /// The project around the working folder.
    Project,
    /// Folders, disk, clock and terminal.
    Machine,
}

/// Whether piton can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It cannot.
    Required,
    /// Only some things do not work without.
    Optional,
}

/// Something that was tried.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// What was tried out.
    pub name: &'static str,
    /// What it is about.
    pub group: Group,
    /// How well it works.
    pub status: Status,
    /// Whether piton needs it.
    pub needed: bool,
    /// What was done to find out.
    pub tried: &'static str,
    /// What came of it.
    pub detail: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Everything that was tried.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Each check.
    pub checks: Vec<Check>,
    /// In numbers.
    pub summary: Summary,
}

/// The checks in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// What works.
    pub ok: usize,
    /// What works with limits.
    pub warnings: usize,
    /// What does not work and is not needed.
    pub missing: usize,
    /// What does not work and is needed.
    pub broken: usize,
    /// Whether everything works that piton needs.
    pub usable: bool,
}

/// The terminal, as whoever prints sees it.
#[derive(Clone, Debug)]
pub struct Terminal {
    /// Whether somebody watches.
    pub kind: TerminalKind,
    /// Whether colours are used, and why, in words.
    pub colours: String,
}

/// Where output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalKind {
    /// To a person.
    Terminal,
    /// To a file or program.
    Pipe,
}

/// What is examined.
#[derive(Debug)]
pub struct Patient {
    /// The process.
    pub environment: Environment,
    /// The project, or why there is none.
    pub found: Result<Context, ContextError>,
    /// The terminal.
    pub terminal: Terminal,
    /// How long each program may take.
    pub limit: Duration,
}

/// What a probe may use.
#[derive(Debug)]
struct Surroundings {
    patient: Patient,
    /// A project in a temporary folder, with the user's own home.
    own: Context,
    /// That folder; it goes away at the end.
    workshop: PathBuf,
}

impl Report {
    /// Adds what was found out elsewhere, at the end of its group, if that was looked at at all.
    pub fn add(&mut self, check: Check) {
        if let Some(last) = self.checks.iter().rposition(|other| other.group == check.group) {
            self.checks.insert(last + 1, check);
        }
        self.summary = summary(&self.checks);
    }
}

/// Tries everything out; `on_check` sees each answer as it comes.
pub fn examine(patient: Patient, on_check: &mut dyn FnMut(&Check)) -> Result<Report, RunError> {
    let interrupts = Interrupts::listen().map_err(RunError::Signals)?;
    let temporary = patient.environment.temporary_folder();
    // A wrong `TMPDIR` is one fault, and not to hide the others.
    let make = |place: &Path| tempfile::Builder::new().prefix("piton-doctor-").tempdir_in(place);
    let folder = make(&temporary).or_else(|err| make(Path::new("/tmp")).map_err(|_| err));
    let own = folder.as_ref().ok().and_then(|folder| Context::at(plain(&patient.environment), folder.path()).ok());
    let mut checks = Vec::new();
    match (&folder, own) {
        (Ok(folder), Some(own)) => {
            let limit = patient.limit * PATIENCE;
            let workshop = own.root.clone();
            let around = Arc::new(Surroundings { patient, own, workshop });
            let has_repository = project::has_repository(&around);
            for probe in PROBES.iter().filter(|probe| has_repository || !probe::IN_REPOSITORY.contains(&probe.name)) {
                let outcome = attempt(probe, &around, limit, &interrupts)?;
                let check = check(probe, outcome);
                on_check(&check);
                checks.push(check);
            }
            debug_assert!(folder.path().exists(), "a probe took the folder of all of them away");
        }
        (failed, _) => {
            let reason = failed.as_ref().err().map_or_else(|| "it cannot be entered".to_owned(), ToString::to_string);
            let check = check(&probe::TEMPORARY, folders::unwritable(&temporary, &reason));
            on_check(&check);
            checks.push(check);
        }
    }
    let summary = summary(&checks);
    Ok(Report { checks, summary })
}

/// Lets a probe try, for as long as it may take.
fn attempt(
    probe: &Probe,
    around: &Arc<Surroundings>,
    limit: Duration,
    interrupts: &Interrupts,
) -> Result<Outcome, RunError> {
    let (answer, answered) = mpsc::channel();
    let (run, theirs) = (probe.run, Arc::clone(around));
    // One that hangs, e.g. in a file system that does not answer, ends with the process.
    thread::spawn(move || answer.send(run(&theirs)));
    let deadline = Instant::now() + limit;
    loop {
        match answered.recv_timeout(PAUSE) {
            Ok(outcome) => return Ok(outcome),
            Err(RecvTimeoutError::Disconnected) => {
                return Ok(Outcome::missing(
                    "the probe itself broke down".to_owned(),
                    "this is a bug: please report it",
                ));
            }
            Err(RecvTimeoutError::Timeout) if interrupts.received().is_some() => {
                // It hears the same and ends what it has started.
                let _ = answered.recv_timeout(TIDYING);
                return Err(RunError::Call(CallError::Interrupted));
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => {
                let detail = format!("no answer within {} s", limit.as_secs());
                return Ok(Outcome::missing(
                    detail,
                    "something hangs: a file system, or a program that cannot be ended",
                ));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

fn check(probe: &Probe, outcome: Outcome) -> Check {
    let Outcome { status, detail, hint } = outcome;
    let needed = probe.need == Need::Required;
    Check { name: probe.name, group: probe.group, status, needed, tried: probe.tried, detail, hint }
}

fn summary(checks: &[Check]) -> Summary {
    let count = |status, needed: Option<bool>| {
        checks.iter().filter(|it| it.status == status && needed.is_none_or(|needed| it.needed == needed)).count()
    };
    let broken = count(Status::Missing, Some(true));
    Summary {
        ok: count(Status::Ok, None),
        warnings: count(Status::Warning, None),
        missing: count(Status::Missing, Some(false)),
        broken,
        usable: broken == 0,
    }
}

/// The environment without what would change the settings of a throw-away project, or lead git to another one.
pub(super) fn plain(environment: &Environment) -> Environment {
    let kept = environment.without_git_variables();
    let is_setting = |name: &OsString| name.as_encoded_bytes().starts_with(b"PITON_");
    let kept: BTreeMap<OsString, OsString> = kept.into_iter().filter(|(name, _)| !is_setting(name)).collect();
    Environment::new(kept, environment.temporary_folder())
}

impl Surroundings {
    /// A project in a folder of its own, with a home of its own: neither settings nor items of the user count in it.
    fn project(&self, name: &str) -> Result<Context, RunError> {
        let folder = self.workshop.join(name);
        let (home, temporary) = (self.workshop.join("home"), self.workshop.join("tmp"));
        for made in [&folder, &home, &temporary] {
            std::fs::create_dir_all(made).map_err(RunError::Marker)?;
        }
        let mut variables = self.own.environment.variables().clone();
        variables.retain(|name, _| !name.as_encoded_bytes().starts_with(b"XDG_"));
        variables.insert("HOME".into(), home.into());
        // The private homes of tools go away with the rest, whatever happens.
        variables.insert("TMPDIR".into(), temporary.into());
        let environment = Environment::new(variables, folder.clone());
        Context::at(environment, &folder).map_err(|err| RunError::Marker(std::io::Error::other(err)))
    }
}
