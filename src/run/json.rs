//! Runs as JSON, for `piton log`, `piton show` and the MCP resources.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use super::project_history::ProjectHistory;
use super::situation::Situation;
use super::tool::journal_parameters;
use crate::audit::fate::{CommitFate, Fates};
use crate::audit::history::{RecordSource, RunRecord, StepRecord};
use crate::journal::{RunId, StepId};

/// A run in a list: its record and the current state of its steps.
#[derive(Clone, Debug, Serialize)]
pub struct LoggedRun<'a> {
    #[serde(flatten)]
    run: &'a RunRecord,
    #[serde(flatten)]
    situation: Situation,
    /// The numbers of the undone steps.
    undone: Vec<u32>,
    /// The numbers of the steps whose commits are in no branch, with the fate of each commit.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    fates: BTreeMap<u32, CommitFate>,
    /// The numbers of the steps whose uncommitted changes were committed or discarded later.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    settled: Vec<u32>,
}

/// A single run: as [`LoggedRun`], plus the inputs of its directive.
#[derive(Clone, Debug, Serialize)]
pub struct ShownRun<'a> {
    #[serde(flatten)]
    run: &'a RunRecord,
    #[serde(flatten)]
    situation: Situation,
    /// Without secrets.
    inputs: Map<String, Value>,
    undone: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    settled: Vec<u32>,
}

impl<'a> LoggedRun<'a> {
    pub fn new(run: &'a RunRecord, past: &ProjectHistory) -> Self {
        let (undone, settled) = (among(run, &past.undone), among(run, &past.settled));
        Self {
            run,
            situation: past.situation(run),
            undone,
            fates: BTreeMap::new(),
            settled,
        }
    }

    /// Adds the fates of the commits of its steps.
    #[must_use]
    pub fn with_fates(mut self, fates: &Fates<'_>) -> Self {
        let fate = |step: &StepRecord| fates.of(step).filter(|fate| *fate != CommitFate::InPlace);
        self.fates = self
            .run
            .steps
            .iter()
            .filter_map(|step| Some((step.id.step, fate(step)?)))
            .collect();
        self
    }
}

impl<'a> ShownRun<'a> {
    pub fn new(run: &'a RunRecord, past: &ProjectHistory) -> Self {
        let (undone, settled) = (among(run, &past.undone), among(run, &past.settled));
        Self {
            run,
            situation: past.situation(run),
            inputs: journal_inputs(run),
            undone,
            settled,
        }
    }
}

/// A short description of a run that has not ended.
#[derive(Clone, Debug, Serialize)]
pub struct RunLine<'a> {
    run_id: RunId,
    name: &'a str,
    /// The directive, as `id@version`.
    directive: Option<&'a str>,
    started: Timestamp,
    #[serde(flatten)]
    situation: &'a Situation,
}

impl<'a> RunLine<'a> {
    pub fn new(run: &'a RunRecord, situation: &'a Situation) -> Self {
        let directive = run.directive.as_deref();
        Self {
            run_id: run.id,
            name: &run.name,
            directive,
            started: run.started,
            situation,
        }
    }
}

/// The inputs of a run, without secrets. A run that was fetched from a remote has only these.
pub fn journal_inputs(run: &RunRecord) -> Map<String, Value> {
    match run.source {
        RecordSource::Journal => journal_parameters(&run.inputs),
        RecordSource::Log => run.inputs.clone(),
    }
}

/// The numbers of the steps of `run` that are in `steps`.
fn among(run: &RunRecord, steps: &BTreeSet<StepId>) -> Vec<u32> {
    run.steps
        .iter()
        .filter(|step| steps.contains(&step.id))
        .map(|step| step.id.step)
        .collect()
}
