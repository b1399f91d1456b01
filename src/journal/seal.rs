//! Separates the private part of an event from the public part.
//!
//! The chain covers the public part of a line, which may be shared. The private part follows after
//! a tab and never leaves the repository: command lines, parameter values, texts that values were
//! filled into, what people wrote, and names of files that no step touched. The public part holds a
//! salted hash in the place of each hidden value, so that the owner can prove the value later. It
//! also holds the hash of the whole private part, so that a change of it is detected. [`seal`]
//! takes the private values out of an event, [`unseal`] puts them back.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::event::{Decision, Event};

/// Random digits, one set per run. Without the salt, a reader of the public part could guess values
/// and compare hashes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Salt(String);

/// The part of a line after the tab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Private {
    pub(super) salt: Salt,
    /// The values, by their JSON pointer in the event.
    pub(super) private: Map<String, Value>,
}

/// A JSON pointer into an event, and what the public part shows there.
#[derive(Clone, Copy)]
enum SealedPart {
    /// The field is left out.
    Absent(&'static str),
    /// The hash of the value.
    Hashed(&'static str),
    /// The names or the number of elements, with the hash of each value.
    Each(&'static str),
    /// A fixed text, if a person wrote the message ([`Code::is_said`]).
    Said(&'static str),
}

use crate::problem::Code;
use SealedPart::{Absent, Each, Hashed, Said};

/// What stands for such a message.
const SAID_BY_A_PERSON: &str = "said by a person";

/// The type of the one event that holds a list of any length, and the pointer to the list.
pub(super) const LOOP: &str = "loop_started";
pub(super) const ELEMENTS: &str = "/elements";

const NOTHING: &[SealedPart] = &[];
const RUN_STARTED: &[SealedPart] = &[Absent("/command"), Absent("/root"), Absent("/repository")];
const TOOL_STARTED: &[SealedPart] = &[Absent("/pid"), Absent("/started"), Absent("/boot")];
const CALL_STARTED: &[SealedPart] = &[Each("/call/parameters")];
const STEP_STARTED: &[SealedPart] = &[
    Each("/kind/parameters"),
    Absent("/kind/argv"),
    Absent("/kind/instruction"),
    Absent("/before/left_out"),
    Absent("/before/empty_folders"),
    Absent("/before/announced"),
    Absent("/before/permissions/exceptions"),
];
const BASE_MOVED: &[SealedPart] = &[
    Absent("/before/left_out"),
    Absent("/before/empty_folders"),
    Absent("/before/announced"),
    Absent("/before/permissions/exceptions"),
    Absent("/delta/not_captured"),
    Absent("/delta/too_large"),
    Absent("/after/left_out"),
    Absent("/after/empty_folders"),
    Absent("/after/announced"),
    Absent("/after/permissions/exceptions"),
];
const CHANGES_FOUND: &[SealedPart] = &[
    Absent("/outside"),
    Absent("/delta/not_captured"),
    Absent("/delta/too_large"),
    Absent("/after/left_out"),
    Absent("/after/empty_folders"),
    Absent("/after/announced"),
    Absent("/after/permissions/exceptions"),
];
const NO_CHANGES: &[SealedPart] = &[Absent("/not_captured"), Absent("/too_large")];
const WAITING: &[SealedPart] = &[
    Absent("/wait/instruction"),
    Absent("/wait/checks"),
    Absent("/wait/question"),
    Absent("/wait/outside"),
    Absent("/wait/rejected"),
];
const SENT_BACK: &[SealedPart] = &[Absent("/reason")];
const RUN_RESUMED: &[SealedPart] = &[Hashed("/restart/result")];
const DIRECTIVE_STARTED: &[SealedPart] = &[Each("/inputs")];
const DIRECTIVE_FINISHED: &[SealedPart] = &[Each("/outputs"), Said("/error/message")];
const LOOP_STARTED: &[SealedPart] = &[Each(ELEMENTS)];
const ANSWERED: &[SealedPart] = &[Hashed("/result"), Absent("/paths"), Said("/error/message")];
const FAILED: &[SealedPart] = &[Said("/error/message")];
const DECIDED: &[SealedPart] = &[Said("/decision/error/message")];

/// The private places of an event that is about to be written.
fn parts(event: &Event) -> &'static [SealedPart] {
    match event {
        Event::RunStarted { .. } => RUN_STARTED,
        Event::DirectiveStarted { .. } => DIRECTIVE_STARTED,
        // A shortcut, because the summary lists the steps of the run and is long.
        Event::RunFinished(summary)
            if summary.outputs.is_empty()
                && summary
                    .error
                    .as_ref()
                    .is_none_or(|error| !error.code.is_said()) =>
        {
            NOTHING
        }
        Event::DirectiveFinished { .. } | Event::RunFinished(_) => DIRECTIVE_FINISHED,
        Event::LoopStarted { .. } => LOOP_STARTED,
        Event::Answered { .. } => ANSWERED,
        Event::Waiting { .. } => WAITING,
        Event::SentBack { .. } => SENT_BACK,
        Event::RunResumed {
            restart: Some(_), ..
        } => RUN_RESUMED,
        Event::BaseMoved { .. } => BASE_MOVED,
        Event::StepStarted { .. } => STEP_STARTED,
        Event::ToolStarted { .. } => TOOL_STARTED,
        Event::CallStarted { .. } => CALL_STARTED,
        // A shortcut, because this event may be long and seldom has private values.
        Event::ChangesFound {
            after,
            delta,
            outside,
            ..
        } if outside.is_empty()
            && delta.not_captured.is_empty()
            && after.left_out.is_empty()
            && after.empty_folders.is_empty()
            && after.announced.is_empty()
            && after.permissions.exceptions.is_empty() =>
        {
            NOTHING
        }
        Event::ChangesFound { .. } => CHANGES_FOUND,
        Event::NoChanges { .. } => NO_CHANGES,
        Event::Resolved { error: Some(_), .. }
        | Event::CallFinished { error: Some(_), .. }
        | Event::StepFinished { error: Some(_), .. } => FAILED,
        Event::Decided {
            decision: Decision::RollBack { error: Some(_), .. },
            ..
        } => DECIDED,
        Event::StepSkipped { .. }
        | Event::Resolved { .. }
        | Event::RunResumed { .. }
        | Event::Repinned { .. }
        | Event::ToolFinished { .. }
        | Event::ToolDenied { .. }
        | Event::CallFinished { .. }
        | Event::Decided { .. }
        | Event::Committed { .. }
        | Event::RolledBack { .. }
        | Event::CheckpointFailed { .. }
        | Event::CheckpointSkipped { .. }
        | Event::Recovered { .. }
        | Event::SnapshotsDropped { .. }
        | Event::SnapshotsMoved { .. }
        | Event::HandCommitted { .. }
        | Event::RemainderFound { .. }
        | Event::Approved { .. }
        | Event::HooksStarted { .. }
        | Event::Rewritten { .. }
        | Event::Accepted(_)
        | Event::Consented(_)
        | Event::StepFinished { .. }
        | Event::Unknown => NOTHING,
    }
}

/// The private places of an event that was read, by its type.
fn parts_of(kind: &str) -> &'static [SealedPart] {
    match kind {
        "run_started" => RUN_STARTED,
        "directive_started" => DIRECTIVE_STARTED,
        "directive_finished" | "run_finished" => DIRECTIVE_FINISHED,
        LOOP => LOOP_STARTED,
        "answered" => ANSWERED,
        "waiting" => WAITING,
        "sent_back" => SENT_BACK,
        "run_resumed" => RUN_RESUMED,
        "base_moved" => BASE_MOVED,
        "step_started" => STEP_STARTED,
        "tool_started" => TOOL_STARTED,
        "call_started" => CALL_STARTED,
        "changes_found" => CHANGES_FOUND,
        "no_changes" => NO_CHANGES,
        "resolved" | "call_finished" | "step_finished" => FAILED,
        "decided" => DECIDED,
        _ => NOTHING,
    }
}

impl SealedPart {
    fn pointer(self) -> &'static str {
        match self {
            Absent(pointer) | Hashed(pointer) | Each(pointer) | Said(pointer) => pointer,
        }
    }

    /// Whether the value is private in this event.
    fn applies(self, event: &Value) -> bool {
        let Said(pointer) = self else { return true };
        let error = event.pointer(pointer.trim_end_matches("/message"));
        let code = error
            .and_then(|error| error.get("code"))
            .and_then(Value::as_str)
            .and_then(Code::find);
        code.is_some_and(Code::is_said)
    }
}

impl Salt {
    /// Builds a salt from random bits.
    pub fn new(bits: u128) -> Self {
        Self(format!("{bits:032x}"))
    }

    /// Replaces a hidden value: `{"sha256": "…"}`. The hash covers the salt and the value as JSON
    /// without spaces and with sorted names.
    pub fn hash(&self, value: &Value) -> Value {
        json!({ "sha256": self.digits(value) })
    }

    fn digits(&self, value: &Value) -> String {
        let mut text = self.0.clone();
        canonical(value, &mut text);
        let mut digits = String::with_capacity(64);
        for byte in Sha256::digest(text.as_bytes()) {
            let _ = write!(digits, "{byte:02x}");
        }
        digits
    }
}

/// The public part of a loop, in the same form as [`seal`] produces.
#[derive(Serialize)]
pub(super) struct LoopShown<'e> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'e str,
    elements: Hashes<'e>,
}

/// The private part of a loop.
#[derive(Serialize)]
pub(super) struct LoopKept<'e> {
    salt: &'e Salt,
    private: LoopElements<'e>,
}

#[derive(Serialize)]
struct LoopElements<'e> {
    #[serde(rename = "/elements")]
    elements: &'e [Value],
}

/// Serializes values as their hashes.
struct Hashes<'e>(&'e [Value], &'e Salt);

#[derive(Serialize)]
struct Hash {
    sha256: String,
}

impl Serialize for Hashes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(values, salt) = self;
        serializer.collect_seq(values.iter().map(|value| Hash {
            sha256: salt.digits(value),
        }))
    }
}

/// Like [`seal`], for the elements of a loop, without keeping all hashes in memory.
pub(super) fn seal_loop<'e>(
    event: &'e Event,
    salt: &'e Salt,
) -> Option<(LoopShown<'e>, LoopKept<'e>)> {
    let Event::LoopStarted { name, elements } = event else {
        return None;
    };
    let shown = LoopShown {
        kind: LOOP,
        name,
        elements: Hashes(elements, salt),
    };
    let kept = LoopKept {
        salt,
        private: LoopElements { elements },
    };
    (!elements.is_empty()).then_some((shown, kept))
}

/// Returns the public part of an event and the private values; none when the whole event is public.
pub(super) fn seal(event: &Event, salt: &Salt) -> serde_json::Result<Option<(Value, Private)>> {
    let parts = parts(event);
    if parts.is_empty() {
        return Ok(None);
    }
    let mut public = serde_json::to_value(event)?;
    let mut private = Map::new();
    for part in parts {
        if !part.applies(&public) {
            continue;
        }
        let pointer = part.pointer();
        let Some(place) = public
            .pointer_mut(pointer)
            .filter(|found| !says_nothing(found))
        else {
            continue;
        };
        let shown = match part {
            Absent(_) => Value::Null,
            Hashed(_) => salt.hash(place),
            Each(_) => each(place, salt),
            Said(_) => Value::from(SAID_BY_A_PERSON),
        };
        let value = std::mem::replace(place, shown);
        if let Absent(_) = part {
            remove(&mut public, pointer);
        }
        private.insert(pointer.to_owned(), value);
    }
    Ok((!private.is_empty()).then(|| {
        (
            public,
            Private {
                salt: salt.clone(),
                private,
            },
        )
    }))
}

/// Puts private values back. Only pointers that may be private are written, so the private part
/// cannot override public values.
pub(super) fn unseal(public: &mut Value, private: Map<String, Value>) -> Result<(), String> {
    let kind = public
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let known = parts_of(kind);
    for (pointer, value) in private {
        // A newer piton may hide more fields; this version does not use them.
        if !known
            .iter()
            .any(|part| part.pointer() == pointer && part.applies(public))
        {
            continue;
        }
        let (parent, name) = pointer.rsplit_once('/').unwrap_or_default();
        match public.pointer_mut(parent) {
            Some(Value::Object(parent)) => drop(parent.insert(name.to_owned(), value)),
            _ => return Err(format!("there is no place for the private `{pointer}`")),
        }
    }
    Ok(())
}

/// Whether the value is empty, so that there is nothing to hide.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(elements) => elements.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn each(value: &Value, salt: &Salt) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), salt.hash(value)))
            .collect(),
        Value::Array(elements) => elements.iter().map(|value| salt.hash(value)).collect(),
        value => salt.hash(value),
    }
}

fn remove(value: &mut Value, pointer: &str) {
    let (parent, name) = pointer.rsplit_once('/').unwrap_or_default();
    if let Some(parent) = value.pointer_mut(parent).and_then(Value::as_object_mut) {
        parent.shift_remove(name);
    }
}

/// Writes JSON without spaces and with sorted names.
pub(crate) fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Array(elements) => {
            text.push('[');
            for (at, element) in elements.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { "," });
                canonical(element, text);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            text.push('{');
            for (at, (name, value)) in fields.into_iter().enumerate() {
                text.push_str(if at == 0 { "" } else { "," });
                let _ = write!(text, "{}:", Value::String(name.clone()));
                canonical(value, text);
            }
            text.push('}');
        }
        plain => {
            let _ = write!(text, "{plain}");
        }
    }
}

#[cfg(test)]
mod tests;
