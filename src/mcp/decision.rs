//! Questions to the person behind a client, and what comes back.
//!
//! In the era of sessions a question is a request to the client; in the stateless era it is the answer of the call, and
//! what it was about travels with it, sealed. An agent cannot answer for the person: only what a client
//! says that its user chose reaches a run. Without a word of theirs the run goes on waiting.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, InputRequest,
    InputRequiredResult, RequestStateError, SealOptions,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::answer::Answer;
use super::call::{Caller, Era};
use super::desk::Desk;
use super::failure::Failure;
use crate::checkpoint::object::ObjectId;
use crate::item::signature::hex;
use crate::journal::RunId;
use crate::problem::Code;
use crate::run::directive::Input;

/// The name of the one question that is put at a time.
const NAME: &str = "decision";
/// For how long an answer is taken.
const VALID: Duration = Duration::from_hours(1);
/// What else the key might once be used for.
const PURPOSE: &[u8] = b"piton: a question to a person";

/// A question of a run.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// The project.
    pub(crate) root: PathBuf,
    /// The run.
    pub(crate) run: RunId,
    /// The step that waits.
    pub(crate) step: u32,
    /// What the person reads.
    pub(crate) text: String,
    /// What they may choose from.
    pub(crate) choice: Choice,
    /// The tree that an approval is for.
    pub(crate) tree: Option<ObjectId>,
    /// What the agent is told when nobody decides.
    pub(crate) waiting: Answer,
}

/// What a person may choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Yes or no.
    Gate,
    /// Yes or no about a manual step, which may be done again.
    Manual,
    /// The changes of a step stay or go.
    Changes,
    /// A call whose end nobody knows.
    Unknown,
}

/// What came of a question.
#[derive(Debug)]
pub(crate) enum Decided {
    /// The person has decided.
    Input(Input),
    /// The client has to ask them and call again.
    Asked(Box<InputRequiredResult>),
    /// Nobody has decided, and why.
    Open(&'static str),
}

/// What a question was about, as it travels through a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Asked {
    /// The project.
    pub(crate) root: PathBuf,
    /// The run.
    pub(crate) run: RunId,
    step: u32,
    /// The hash of what was shown.
    shown: String,
}

impl Asked {
    /// Whether this is the question that was put, word for word.
    pub(crate) fn is_about(&self, question: &Question) -> bool {
        (self.run, self.step) == (question.run, question.step) && self.shown == digest(&question.text)
    }
}

/// Puts a question, in the way of the client's era.
pub(crate) async fn ask(desk: &Desk, caller: &Caller, question: &Question) -> Result<Decided, Failure> {
    let elicitation = caller.request.client_capabilities().and_then(|able| able.elicitation);
    if elicitation.is_none_or(|able| able.form.is_none() && able.url.is_some()) {
        return Ok(Decided::Open(
            "a person has to decide, and this client cannot ask one: they answer in a terminal, with the commands in \
             `terminal`; `continue` goes on afterwards",
        ));
    }
    let params = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: question.text.clone(),
        requested_schema: question.choice.schema()?,
    };
    match caller.era() {
        Era::Sessions => {
            let asking = caller.request.peer.create_elicitation(params);
            let answer = tokio::select! {
                answer = asking => answer,
                () = caller.request.ct.cancelled() => return Ok(Decided::Open("the call was cancelled; nothing was decided")),
            };
            Ok(match answer {
                Ok(answer) => question.read(&answer),
                Err(_) => Decided::Open("the client did not ask the person; nothing was decided"),
            })
        }
        Era::Stateless => {
            let asked = Asked {
                root: question.root.clone(),
                run: question.run,
                step: question.step,
                shown: digest(&question.text),
            };
            let sealed = seal(desk, caller, &asked)?;
            let request = InputRequest::Elicitation(ElicitRequest::new(params));
            let requests = BTreeMap::from([(NAME.to_owned(), request)]);
            Ok(Decided::Asked(Box::new(InputRequiredResult::new(Some(requests), Some(sealed)))))
        }
    }
}

/// What a client says was chosen, in the stateless era.
pub(crate) fn answer_of(caller: &Caller, question: &Question) -> Decided {
    let answer = caller.answered.as_ref().and_then(|answers| answers.get(NAME)).cloned();
    match answer.map(serde_json::from_value::<ElicitResult>) {
        Some(Ok(answer)) => question.read(&answer),
        _ => Decided::Open("the answer of the person is missing; nothing was decided, and `continue` asks again"),
    }
}

/// What a question was about.
pub(crate) fn open(desk: &Desk, caller: &Caller, sealed: &str) -> Result<Asked, Failure> {
    unseal(desk, caller, sealed).map_err(|err| match err {
        RequestStateError::Expired => refused("it is too old"),
        _ => refused(
            "it was sealed for another call, or by another server than this one, which may have been started anew",
        ),
    })
}

/// The project that a question was about, whatever was asked.
pub(crate) fn root_of(desk: &Desk, caller: &Caller, sealed: &str) -> Option<PathBuf> {
    #[derive(Deserialize)]
    struct Place {
        root: PathBuf,
    }
    unseal::<Place>(desk, caller, sealed).ok().map(|place| place.root)
}

/// Seals what travels through a client: for this very call, for a while. There is one key for each server, and one
/// principal: whoever holds its pipes, or its token.
pub(crate) fn seal(desk: &Desk, caller: &Caller, asked: &impl Serialize) -> Result<String, Failure> {
    let bound = bound(caller);
    let options = SealOptions::new().associated_data(&bound).ttl(VALID);
    desk.seal.seal_json_with(asked, &options).map_err(|err| Failure::internal(&err))
}

/// Opens what was sealed for this very call.
pub(crate) fn unseal<T: DeserializeOwned>(desk: &Desk, caller: &Caller, sealed: &str) -> Result<T, RequestStateError> {
    desk.seal.open_json_with(sealed, &bound(caller))
}

fn bound(caller: &Caller) -> Vec<u8> {
    [PURPOSE, caller.asked.as_bytes()].concat()
}

/// An answer that cannot be taken.
pub(crate) fn refused(why: &str) -> Failure {
    Failure::new("Answer refused", Code::AnswerRefused, format!("the answer of the person was not taken: {why}"))
        .with_suggestion("nothing was changed; call `execute` with `action: \"continue\"`, which asks again")
}

impl Question {
    /// What a person chose, for what was shown to them.
    fn read(&self, answer: &ElicitResult) -> Decided {
        match (self.choice.read(answer), self.tree) {
            (Decided::Input(Input::Approve { message, answer, .. }), Some(tree)) => {
                Decided::Input(Input::Approve { message, answer, tree: Some(tree.to_string()) })
            }
            (decided, _) => decided,
        }
    }
}

impl Choice {
    fn words(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Gate => &[("approve", "Yes, go on"), ("reject", "No")],
            Self::Manual => &[
                ("approve", "Yes, go on"),
                ("reject", "No, do the step before it again (say why in the comment)"),
                ("end", "No, and end the run"),
            ],
            Self::Changes => &[("keep", "Keep the changes"), ("undo", "Undo them")],
            Self::Unknown => &[("retry", "Run it again"), ("done", "It was done"), ("failed", "It failed")],
        }
    }

    fn schema(self) -> Result<ElicitationSchema, Failure> {
        let choices: Vec<Value> =
            self.words().iter().map(|(word, title)| json!({"const": word, "title": title})).collect();
        let mut properties = json!({
            "decision": {"type": "string", "title": "Decision", "oneOf": choices},
            "comment": {"type": "string", "title": "Comment", "description": "Why, or what the next steps should know."},
        });
        if let (Self::Changes, Value::Object(properties)) = (self, &mut properties) {
            let message = json!({"type": "string", "title": "Message", "description": "Of the commit, instead of a generated one."});
            properties.insert("message".to_owned(), message);
        }
        let schema = json!({"type": "object", "properties": properties, "required": ["decision"]});
        serde_json::from_value(schema).map_err(|err| Failure::internal(&err))
    }

    fn read(self, answer: &ElicitResult) -> Decided {
        match answer.action {
            ElicitationAction::Accept => {}
            ElicitationAction::Decline => {
                return Decided::Open("the person did not want to answer; the run goes on waiting");
            }
            _ => return Decided::Open("the person closed the question; the run goes on waiting"),
        }
        let text = |name: &str| {
            let text = answer.content.as_ref()?.get(name)?.as_str()?.trim();
            (!text.is_empty()).then(|| text.to_owned())
        };
        let (word, comment) = (text("decision"), text("comment"));
        Decided::Input(match (self, word.as_deref()) {
            (Self::Gate | Self::Manual, Some("approve")) => {
                Input::Approve { message: None, answer: comment, tree: None }
            }
            (Self::Changes, Some("keep")) => Input::Approve { message: text("message"), answer: comment, tree: None },
            (Self::Gate | Self::Manual, Some("reject")) | (Self::Changes, Some("undo")) => Input::Reject(comment),
            (Self::Manual, Some("end")) => Input::End(comment),
            (Self::Unknown, Some("retry")) => Input::Retry,
            (Self::Unknown, Some("done")) => Input::Done { result: Some(Value::Null), paths: Vec::new() },
            (Self::Unknown, Some("failed")) => {
                Input::Failed(comment.unwrap_or_else(|| "a person says that it failed".to_owned()))
            }
            _ => return Decided::Open("the answer was none of the choices; the run goes on waiting"),
        })
    }
}

pub(super) fn digest(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}
