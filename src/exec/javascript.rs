//! Runs one JavaScript function in a worker.
//!
//! The engine has no files, network or modules, and has limits for time, memory and stack. Its own
//! timer cannot stop every native loop, so the caller kills the worker after [`PATIENCE`]. Both
//! conventions work: `module.exports = { fn }`, and a script whose last value is the result.

mod engine;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::worker::{FailureKind, WorkFailure, WorkerEnd};

/// The time limit for each entry of a helper.
pub(super) const HELPER: Duration = Duration::from_secs(1);

/// The extra time for starting a worker and reading its input before it is killed.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// In bytes.
const MEMORY: usize = 8 * 1024 * 1024;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct JavaScriptJob {
    /// The id of the function; of several exports, the one of this name is called.
    pub(super) id: String,
    pub(super) source: String,
    /// Its arguments in order; each is also a global variable.
    pub(super) given: Vec<(String, Value)>,
    pub(super) limit_ms: u64,
    /// The file and first line of the text, where known.
    pub(super) place: Option<(String, u32)>,
}

impl JavaScriptJob {
    pub(super) fn carry_out(self) -> WorkerEnd {
        self.run().into()
    }

    fn run(&self) -> Result<Value, WorkFailure> {
        let text = engine::run(self).map_err(|stop| self.failure(stop))?;
        let unreadable = |err: serde_json::Error| {
            self.failure(engine::ScriptStop::Returned(format!(
                "what cannot be read back: {err}"
            )))
        };
        serde_json::from_str(&text).map_err(unreadable)
    }

    fn failure(&self, stop: engine::ScriptStop) -> WorkFailure {
        let id = &self.id;
        match stop {
            engine::ScriptStop::Late => late(id, Duration::from_millis(self.limit_ms)),
            engine::ScriptStop::Memory => {
                let message = format!(
                    "the function `{id}` needs more than {} MiB of memory",
                    MEMORY / 1024 / 1024
                );
                let hint = "pass it less data at a time; its inputs count as well";
                WorkFailure::new(FailureKind::ScriptMemory, message).suggest(hint)
            }
            engine::ScriptStop::Threw { what, line } => {
                let at = match (line, &self.place) {
                    (Some(line), Some((file, first))) => {
                        format!(" at {file}:{}", first.saturating_add(line - 1))
                    }
                    (Some(line), None) => format!(" in line {line}"),
                    (None, _) => String::new(),
                };
                WorkFailure::new(
                    FailureKind::ScriptThrew,
                    format!("the function `{id}` threw{at}: {what}"),
                )
            }
            engine::ScriptStop::Returned(what) => {
                let message = format!("the function `{id}` returned {what}");
                let hint = "let it return plain values: texts, numbers, booleans, lists and objects of these";
                WorkFailure::new(FailureKind::ScriptReturn, message).suggest(hint)
            }
            engine::ScriptStop::Exports(what) => {
                let message = format!("the function `{id}` cannot be called: {what}");
                let hint = format!(
                    "export one function, or one that is called `{}`",
                    camel_case(id)
                );
                WorkFailure::new(FailureKind::ScriptReturn, message).suggest(hint)
            }
            engine::ScriptStop::TooLarge(bytes) => {
                let message =
                    format!("the function `{id}` returned {bytes} bytes, which is too much");
                WorkFailure::new(FailureKind::ScriptTooLarge, message).suggest("let it return less")
            }
        }
    }
}

/// The failure for a function that exceeded its time limit.
pub(super) fn late(id: &str, limit: Duration) -> WorkFailure {
    let message = format!(
        "the function `{id}` took longer than {} ms and was stopped",
        limit.as_millis()
    );
    let hint = "the limit applies to each call: move slow work into tools";
    WorkFailure::new(FailureKind::ScriptTimeout, message).suggest(hint)
}

/// For example `combine-all` becomes `combineAll`.
fn camel_case(id: &str) -> String {
    let mut name = String::with_capacity(id.len());
    let mut is_first = true;
    for word in id
        .split(|character: char| !character.is_alphanumeric())
        .filter(|word| !word.is_empty())
    {
        let mut letters = word.chars();
        match letters.next() {
            Some(letter) if !is_first => name.extend(letter.to_uppercase()),
            Some(letter) => name.push(letter),
            None => {}
        }
        name.extend(letters);
        is_first = false;
    }
    name
}

#[cfg(test)]
mod tests;
