//! Questions to the person behind a client, and their answers.
//!
//! In the session era a question is a request to the client. In the stateless era it is the answer
//! of the call, and its subject travels through the client in sealed form. An agent cannot answer
//! for the person: only a choice that the client attributes to its user reaches a run. Without an
//! answer the run keeps waiting.

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

/// The name of the question; only one is asked at a time.
const NAME: &str = "decision";
/// How long an answer is accepted.
const VALID: Duration = Duration::from_hours(1);
/// Separates this use of the key from any later one.
const PURPOSE: &[u8] = b"piton: a question to a person";

/// A question that a run asks.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) root: PathBuf,
    pub(crate) run: RunId,
    /// The waiting step.
    pub(crate) step: u32,
    pub(crate) text: String,
    pub(crate) choice: Choice,
    /// The tree that an approval applies to.
    pub(crate) tree: Option<ObjectId>,
    /// The answer for the agent if the person does not decide.
    pub(crate) waiting: Answer,
}

/// The choices that a person has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Gate,
    /// Yes or no about a manual step, which may be done again.
    Manual,
    /// Keep or undo the changes of a step.
    Changes,
    /// A call whose outcome is unknown.
    Unknown,
}

/// The outcome of a question.
#[derive(Debug)]
pub(crate) enum Decided {
    Input(Input),
    /// The client must ask the person and call again.
    Asked(Box<InputRequiredResult>),
    /// The person has not decided; says why.
    Open(&'static str),
}

/// The subject of a question, as it travels through a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) root: PathBuf,
    pub(crate) run: RunId,
    step: u32,
    /// The hash of the question's text.
    shown: String,
}

impl Asked {
    /// Whether this is the question that was asked, word for word.
    pub(crate) fn is_about(&self, question: &Question) -> bool {
        (self.run, self.step) == (question.run, question.step) && self.shown == digest(&question.text)
    }
}

/// Asks a question in the way of the client's era.
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

/// The choice of the person, as the client reports it in the stateless era.
pub(crate) fn answer_of(caller: &Caller, question: &Question) -> Decided {
    let answer = caller.answered.as_ref().and_then(|answers| answers.get(NAME)).cloned();
    match answer.map(serde_json::from_value::<ElicitResult>) {
        Some(Ok(answer)) => question.read(&answer),
        _ => Decided::Open("the answer of the person is missing; nothing was decided, and `continue` asks again"),
    }
}

/// Opens the sealed subject of a question.
pub(crate) fn open(desk: &Desk, caller: &Caller, sealed: &str) -> Result<Asked, Failure> {
    unseal(desk, caller, sealed).map_err(|err| match err {
        RequestStateError::Expired => refused("it is too old"),
        _ => refused(
            "it was sealed for another call, or by another server than this one, which may have been started anew",
        ),
    })
}

/// The project of any sealed question.
pub(crate) fn root_of(desk: &Desk, caller: &Caller, sealed: &str) -> Option<PathBuf> {
    #[derive(Deserialize)]
    struct Place {
        root: PathBuf,
    }
    unseal::<Place>(desk, caller, sealed).ok().map(|place| place.root)
}

/// Seals data that travels through a client. It is valid for this call only and for a limited time.
/// Each server has one key and one principal: the client that holds its pipes or its token.
pub(crate) fn seal(desk: &Desk, caller: &Caller, asked: &impl Serialize) -> Result<String, Failure> {
    let bound = bound(caller);
    let options = SealOptions::new().associated_data(&bound).ttl(VALID);
    desk.seal.seal_json_with(asked, &options).map_err(|err| Failure::internal(&err))
}

/// Opens data that was sealed for this call.
pub(crate) fn unseal<T: DeserializeOwned>(desk: &Desk, caller: &Caller, sealed: &str) -> Result<T, RequestStateError> {
    desk.seal.open_json_with(sealed, &bound(caller))
}

fn bound(caller: &Caller) -> Vec<u8> {
    [PURPOSE, caller.asked.as_bytes()].concat()
}

/// The error for an answer that is not accepted.
pub(crate) fn refused(why: &str) -> Failure {
    Failure::new("Answer refused", Code::AnswerRefused, format!("the answer of the person was not taken: {why}"))
        .with_suggestion("nothing was changed; call `execute` with `action: \"continue\"`, which asks again")
}

impl Question {
    /// Turns an answer into a decision about the tree that was shown.
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
