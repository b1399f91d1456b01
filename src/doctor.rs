//! Checks what works on this machine by trying it.
//!
//! [`examine`] runs [`PROBES`]: each does something real in a temporary folder, has a time limit,
//! leaves nothing behind and changes nothing in the project. A probe that hangs is reported and
//! abandoned. The result is a [`DoctorReport`] of [`DoctorCheck`]s; a missing requirement makes the machine
//! unusable.

mod checkpoint;
mod folders;
mod probe;
mod programs;
mod project;
mod supervision;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::context::{Context, ContextError, Environment};
use crate::exec::call::CallError;
use crate::exec::interrupt::Interrupts;
use crate::exec::private_folder::{PrivateFolder, PrivateUse};
use crate::run::error::RunError;
use probe::{PROBES, Probe, ProbeOutcome};

/// The time limit of a probe, as a multiple of the limit of a program.
const PATIENCE: u32 = 6;
/// How long a probe may clean up after an interrupt.
const TIDYING: Duration = Duration::from_secs(3);
/// How often to check for an interrupt.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckStatus {
    /// It was tried and works.
    Ok,
    /// It works, with a warning.
    Warning,
    /// It is missing or does not work.
    Missing,
}

/// The topic of a check.
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

/// Whether piton requires it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Necessity {
    /// Piton does not work without it.
    Required,
    /// Only some features need it.
    Optional,
}

/// The result of one check.
#[derive(Clone, Debug, Serialize)]
pub struct DoctorCheck {
    pub name: &'static str,
    pub group: Group,
    pub status: CheckStatus,
    /// Whether piton requires it.
    pub needed: bool,
    /// How it was tested.
    pub tried: &'static str,
    /// What was found.
    pub detail: String,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// All checks.
#[derive(Clone, Debug, Serialize)]
pub struct DoctorReport {
    pub checks: Vec<DoctorCheck>,
    pub summary: DoctorSummary,
}

/// The number of checks by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DoctorSummary {
    /// Checks that passed.
    pub ok: usize,
    /// Checks with a warning.
    pub warnings: usize,
    /// Failed checks of optional features.
    pub missing: usize,
    /// Failed checks of requirements.
    pub broken: usize,
    /// Whether all requirements work.
    pub usable: bool,
}

/// The properties of the terminal that the printer has detected.
#[derive(Clone, Debug)]
pub struct TerminalInfo {
    pub kind: TerminalKind,
    /// Whether colours are used, and why.
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

/// What to examine.
#[derive(Debug)]
pub struct Patient {
    pub environment: Environment,
    /// The project, or why there is none.
    pub found: Result<Context, ContextError>,
    pub terminal: TerminalInfo,
    /// The time limit of each program.
    pub limit: Duration,
}

/// What a probe may use.
#[derive(Debug)]
struct ProbeContext {
    patient: Patient,
    /// A project in a temporary folder, with the user's own home.
    own: Context,
    /// The temporary folder, which is removed at the end.
    workshop: PathBuf,
}

impl DoctorReport {
    /// Adds a check that was made elsewhere, at the end of its group, if the group was examined.
    pub fn add(&mut self, check: DoctorCheck) {
        if let Some(last) = self
            .checks
            .iter()
            .rposition(|other| other.group == check.group)
        {
            self.checks.insert(last + 1, check);
        }
        self.summary = summary(&self.checks);
    }
}

/// Runs all probes; `on_check` receives each check as soon as it is done.
pub fn examine(
    patient: Patient,
    on_check: &mut dyn FnMut(&DoctorCheck),
) -> Result<DoctorReport, RunError> {
    let interrupts = Interrupts::listen().map_err(RunError::Signals)?;
    let temporary = patient.environment.temporary_folder();
    // A wrong `TMPDIR` is one problem and must not hide the others.
    let make = |place: &Path| PrivateFolder::create(place, PrivateUse::Doctor);
    let folder = make(&temporary).or_else(|err| make(Path::new("/tmp")).map_err(|_| err));
    let own = folder
        .as_ref()
        .ok()
        .and_then(|folder| Context::at(plain(&patient.environment), folder.path()).ok());
    let mut checks = Vec::new();
    match (&folder, own) {
        (Ok(folder), Some(own)) => {
            let limit = patient.limit * PATIENCE;
            let workshop = own.root.clone();
            let around = Arc::new(ProbeContext {
                patient,
                own,
                workshop,
            });
            let has_repository = project::has_repository(&around);
            for probe in PROBES
                .iter()
                .filter(|probe| has_repository || !probe::IN_REPOSITORY.contains(&probe.name))
            {
                let outcome = attempt(probe, &around, limit, &interrupts)?;
                let check = check(probe, outcome);
                on_check(&check);
                checks.push(check);
            }
            debug_assert!(
                folder.path().exists(),
                "a probe removed the shared temporary folder"
            );
        }
        (failed, _) => {
            let reason = failed
                .as_ref()
                .err()
                .map_or_else(|| "it cannot be entered".to_owned(), ToString::to_string);
            let check = check(&probe::TEMPORARY, folders::unwritable(&temporary, &reason));
            on_check(&check);
            checks.push(check);
        }
    }
    let summary = summary(&checks);
    Ok(DoctorReport { checks, summary })
}

/// Runs a probe with its time limit.
fn attempt(
    probe: &Probe,
    around: &Arc<ProbeContext>,
    limit: Duration,
    interrupts: &Interrupts,
) -> Result<ProbeOutcome, RunError> {
    let (answer, answered) = mpsc::channel();
    let (run, theirs) = (probe.run, Arc::clone(around));
    // A probe that hangs, e.g. in an unresponsive file system, ends with the process.
    thread::spawn(move || answer.send(run(&theirs)));
    let deadline = Instant::now() + limit;
    loop {
        match answered.recv_timeout(PAUSE) {
            // The interrupt ended the probe, so its outcome says nothing, and no other probe starts.
            Ok(_) if interrupts.received().is_some() => {
                return Err(RunError::Call(CallError::Interrupted));
            }
            Ok(outcome) => return Ok(outcome),
            Err(RecvTimeoutError::Disconnected) => {
                return Ok(ProbeOutcome::missing(
                    "the probe crashed".to_owned(),
                    "this is a bug: please report it",
                ));
            }
            Err(RecvTimeoutError::Timeout) if interrupts.received().is_some() => {
                // The probe receives the same interrupt and stops the processes that it has
                // started.
                let _ = answered.recv_timeout(TIDYING);
                return Err(RunError::Call(CallError::Interrupted));
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => {
                let detail = format!("no answer within {} s", limit.as_secs());
                return Ok(ProbeOutcome::missing(
                    detail,
                    "a file system or a program hangs",
                ));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

fn check(probe: &Probe, outcome: ProbeOutcome) -> DoctorCheck {
    let ProbeOutcome {
        status,
        detail,
        hint,
    } = outcome;
    let needed = probe.need == Necessity::Required;
    DoctorCheck {
        name: probe.name,
        group: probe.group,
        status,
        needed,
        tried: probe.tried,
        detail,
        hint,
    }
}

fn summary(checks: &[DoctorCheck]) -> DoctorSummary {
    let count = |status, needed: Option<bool>| {
        checks
            .iter()
            .filter(|it| it.status == status && needed.is_none_or(|needed| it.needed == needed))
            .count()
    };
    let broken = count(CheckStatus::Missing, Some(true));
    DoctorSummary {
        ok: count(CheckStatus::Ok, None),
        warnings: count(CheckStatus::Warning, None),
        missing: count(CheckStatus::Missing, Some(false)),
        broken,
        usable: broken == 0,
    }
}

/// The environment without variables that would change the settings of a throw-away project or
/// point git to another repository.
pub(crate) fn plain(environment: &Environment) -> Environment {
    let kept = environment.without_git_variables();
    let is_setting = |name: &OsString| name.as_encoded_bytes().starts_with(b"PITON_");
    let kept: BTreeMap<OsString, OsString> = kept
        .into_iter()
        .filter(|(name, _)| !is_setting(name))
        .collect();
    Environment::new(kept, environment.temporary_folder())
}

impl ProbeContext {
    /// A project with a folder and a home of its own: the user's settings and items do not apply to
    /// it.
    fn project(&self, name: &str) -> Result<Context, RunError> {
        let folder = self.workshop.join(name);
        let (home, temporary) = (self.workshop.join("home"), self.workshop.join("tmp"));
        for made in [&folder, &home, &temporary] {
            std::fs::create_dir_all(made).map_err(RunError::Marker)?;
        }
        let mut variables = self.own.environment.variables().clone();
        variables.retain(|name, _| !name.as_encoded_bytes().starts_with(b"XDG_"));
        variables.insert("HOME".into(), home.into());
        // With this, the private homes of tools are always removed with the temporary folder.
        variables.insert("TMPDIR".into(), temporary.into());
        let environment = Environment::new(variables, folder.clone());
        Context::at(environment, &folder)
            .map_err(|err| RunError::Marker(std::io::Error::other(err)))
    }
}
