//! What is told about runs as JSON, by `piton log`, `piton show` and the resources of the server.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use super::past::Past;
use super::situation::Situation;
use super::tool::told_parameters;
use crate::audit::fate::{CommitFate, Fates};
use crate::audit::history::{RunRecord, Source, StepRecord};
use crate::journal::{RunId, StepId};

/// A run among others: as it was recorded, and what became of it since.
#[derive(Clone, Debug, Serialize)]
pub struct LoggedRun<'a> {
    #[serde(flatten)]
    run: &'a RunRecord,
    #[serde(flatten)]
    situation: Situation,
    /// The numbers of its steps that were undone.
    undone: Vec<u32>,
    /// The numbers of its steps whose commits are in no branch, and what became of those.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    fates: BTreeMap<u32, CommitFate>,
    /// The numbers of its steps that left changes on disk which were committed or discarded since.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    settled: Vec<u32>,
}

/// A run by itself: the same, and what its directive was given.
#[derive(Clone, Debug, Serialize)]
pub struct ShownRun<'a> {
    #[serde(flatten)]
    run: &'a RunRecord,
    #[serde(flatten)]
    situation: Situation,
    /// Without secrets.
    inputs: Map<String, Value>,
    /// The numbers of its steps that were undone.
    undone: Vec<u32>,
    /// The numbers of its steps that left changes on disk which were committed or discarded since.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    settled: Vec<u32>,
}

impl<'a> LoggedRun<'a> {
    /// Of a run, given what became of its steps since.
    pub fn new(run: &'a RunRecord, past: &Past) -> Self {
        let (undone, settled) = (among(run, &past.undone), among(run, &past.settled));
        Self { run, situation: past.situation(run), undone, fates: BTreeMap::new(), settled }
    }

    /// With what became of the commits of its steps.
    #[must_use]
    pub fn with_fates(mut self, fates: &Fates<'_>) -> Self {
        let fate = |step: &StepRecord| fates.of(step).filter(|fate| *fate != CommitFate::InPlace);
        self.fates = self.run.steps.iter().filter_map(|step| Some((step.id.step, fate(step)?))).collect();
        self
    }
}

impl<'a> ShownRun<'a> {
    /// Of a run, given what became of its steps since.
    pub fn new(run: &'a RunRecord, past: &Past) -> Self {
        let (undone, settled) = (among(run, &past.undone), among(run, &past.settled));
        Self { run, situation: past.situation(run), inputs: told_inputs(run), undone, settled }
    }
}

/// A run that is not over, in few words.
#[derive(Clone, Debug, Serialize)]
pub struct RunLine<'a> {
    /// The run.
    run_id: RunId,
    /// What it was called.
    name: &'a str,
    /// The directive, as `id@version`.
    directive: Option<&'a str>,
    /// When it began.
    started: Timestamp,
    #[serde(flatten)]
    situation: &'a Situation,
}

impl<'a> RunLine<'a> {
    /// Of a run and how it stands.
    pub fn new(run: &'a RunRecord, situation: &'a Situation) -> Self {
        let directive = run.directive.as_deref();
        Self { run_id: run.id, name: &run.name, directive, started: run.started, situation }
    }
}

/// What a run was given, without secrets; of one from elsewhere nothing else is known.
pub fn told_inputs(run: &RunRecord) -> Map<String, Value> {
    match run.source {
        Source::Journal => told_parameters(&run.inputs),
        Source::Log => run.inputs.clone(),
    }
}

/// The numbers of the steps of a run that are among others.
fn among(run: &RunRecord, steps: &BTreeSet<StepId>) -> Vec<u32> {
    run.steps.iter().filter(|step| steps.contains(&step.id)).map(|step| step.id.step).collect()
}
