//! What is told about runs as JSON, by `piton log`, `piton show` and the resources of the server.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value};

use super::past::Past;
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
    /// The numbers of its steps that left changes on disk which were committed or discarded since.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    settled: Vec<u32>,
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
    /// The numbers of its steps that left changes on disk which were committed or discarded since.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    settled: Vec<u32>,
}

impl<'a> LoggedRun<'a> {
    /// Of a run, given what became of its steps since.
    pub fn new(run: &'a RunRecord, past: &Past) -> Self {
        Self { run, undone: among(run, &past.undone), settled: among(run, &past.settled) }
    }
}

impl<'a> ShownRun<'a> {
    /// Of a run, given what became of its steps since.
    pub fn new(run: &'a RunRecord, past: &Past) -> Self {
        let (undone, settled) = (among(run, &past.undone), among(run, &past.settled));
        Self { run, inputs: told_inputs(run), undone, settled }
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
