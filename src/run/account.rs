//! What is told about runs as JSON, by `piton log`, `piton show` and the resources of the server.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use super::past::Past;
use super::situation::Situation;
use super::tool::told_parameters;
use crate::audit::history::{RunRecord, Source};
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
}

impl<'a> LoggedRun<'a> {
    /// Of a run of what was recorded.
    pub fn new(run: &'a RunRecord, past: &Past) -> Self {
        Self { run, situation: past.situation(run), undone: undone_steps(run, &past.undone) }
    }
}

impl<'a> ShownRun<'a> {
    /// Of a run of what was recorded.
    pub fn new(run: &'a RunRecord, past: &Past) -> Self {
        let situation = past.situation(run);
        Self { run, situation, inputs: told_inputs(run), undone: undone_steps(run, &past.undone) }
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

fn undone_steps(run: &RunRecord, undone: &BTreeSet<StepId>) -> Vec<u32> {
    run.steps.iter().filter(|step| undone.contains(&step.id)).map(|step| step.id.step).collect()
}
