//! What is told about runs as JSON, by `piton log`, `piton show` and the resources of the server.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value};

use super::tool::told_parameters;
use crate::audit::history::{RunRecord, Source};
use crate::journal::StepId;

/// A run among others: as it was recorded, and what became of it since.
#[derive(Clone, Debug, Serialize)]
pub struct LoggedRun<'a> {
    #[serde(flatten)]
    run: &'a RunRecord,
    /// The numbers of its steps that were undone.
    undone: Vec<u32>,
}

/// A run by itself: the same, and what its directive was given.
#[derive(Clone, Debug, Serialize)]
pub struct ShownRun<'a> {
    #[serde(flatten)]
    run: &'a RunRecord,
    /// Without secrets.
    inputs: Map<String, Value>,
    /// The numbers of its steps that were undone.
    undone: Vec<u32>,
}

impl<'a> LoggedRun<'a> {
    /// Of a run, given every step that was undone.
    pub fn new(run: &'a RunRecord, undone: &BTreeSet<StepId>) -> Self {
        Self { run, undone: undone_steps(run, undone) }
    }
}

impl<'a> ShownRun<'a> {
    /// Of a run, given every step that was undone.
    pub fn new(run: &'a RunRecord, undone: &BTreeSet<StepId>) -> Self {
        Self { run, inputs: told_inputs(run), undone: undone_steps(run, undone) }
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
