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
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    InputRequest, InputRequiredResult, InputResponses, RequestStateError, SealOptions,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::answer::ToolAnswer;
use super::call::{Caller, Era};
use super::failure::ToolFailure;
use super::projects::Projects;
use crate::checkpoint::object::ObjectId;
use crate::encoding::hex;
use crate::journal::RunId;
use crate::problem::Code;
use crate::run::directive::RunInput;
use crate::run::error_titles::ErrorTitle;

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
    pub(crate) waiting: ToolAnswer,
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
    Input(RunInput),
    /// The client must ask the person and call again.
    Asked(Box<InputRequiredResult>),
    /// The person has not decided; says why.
    Open(&'static str),
}

/// The subject of a question, as it travels through a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DecisionSubject {
    pub(crate) root: PathBuf,
    pub(crate) run: RunId,
    step: u32,
    /// The hash of the question's text.
    shown: String,
}

impl DecisionSubject {
    /// Whether this is the question that was asked, word for word.
    pub(crate) fn is_about(&self, question: &Question) -> bool {
        (self.run, self.step) == (question.run, question.step)
            && self.shown == digest(&question.text)
    }
}

/// Asks a question in the way of the client's era.
pub(crate) async fn ask(
    projects: &Projects,
    caller: &Caller,
    question: &Question,
) -> Result<Decided, ToolFailure> {
    let subject = DecisionSubject {
        root: question.root.clone(),
        run: question.run,
        step: question.step,
        shown: digest(&question.text),
    };
    let schema = question.choice.schema()?;
    Ok(
        match elicit(projects, caller, &question.text, schema, &subject).await? {
            Elicited::Unable => Decided::Open(
                "a person has to decide, and this client cannot ask one: they answer in a terminal, with the commands in \
             `terminal`; `continue` goes on afterwards",
            ),
            Elicited::Cancelled => Decided::Open("the call was cancelled; nothing was decided"),
            Elicited::Failed => {
                Decided::Open("the client did not ask the person; nothing was decided")
            }
            Elicited::Answer(answer) => question.read(&answer),
            Elicited::Reply(asked) => Decided::Asked(asked),
        },
    )
}

/// Whether a person allows something, or the reply that makes the client ask.
pub(crate) enum Asked {
    Reply(Box<InputRequiredResult>),
    Answer(bool),
}

/// Asks whether a person allows something; `titles` are those of yes and no. Without an answer, they do not.
pub(crate) async fn ask_consent(
    projects: &Projects,
    caller: &Caller,
    (text, titles): (&str, [&str; 2]),
    subject: &impl Serialize,
) -> Result<Asked, ToolFailure> {
    let [yes, no] = titles;
    let schema = schema_of(&[("allow", yes), ("refuse", no)], None)?;
    Ok(
        match elicit(projects, caller, text, schema, subject).await? {
            Elicited::Reply(asked) => Asked::Reply(asked),
            Elicited::Answer(answer) => Asked::Answer(is_allowed(&answer)),
            Elicited::Unable | Elicited::Cancelled | Elicited::Failed => Asked::Answer(false),
        },
    )
}

/// Whether a person allowed it, as the client reports it in the stateless era.
pub(crate) fn consent_of(answers: Option<&InputResponses>) -> bool {
    let answer = answers.and_then(|answers| answers.get(NAME)).cloned();
    answer
        .and_then(|answer| serde_json::from_value::<ElicitResult>(answer).ok())
        .is_some_and(|answer| is_allowed(&answer))
}

fn is_allowed(answer: &ElicitResult) -> bool {
    let decision = answer.content.as_ref().and_then(|it| it.get("decision"));
    matches!(answer.action, ElicitationAction::Accept)
        && decision.and_then(Value::as_str) == Some("allow")
}

/// What came of a question to the client.
enum Elicited {
    /// The client cannot ask.
    Unable,
    Cancelled,
    /// The client refused to ask.
    Failed,
    Answer(ElicitResult),
    /// The client must ask the person and call again.
    Reply(Box<InputRequiredResult>),
}

async fn elicit(
    projects: &Projects,
    caller: &Caller,
    text: &str,
    requested_schema: ElicitationSchema,
    subject: &impl Serialize,
) -> Result<Elicited, ToolFailure> {
    let elicitation = caller
        .request
        .client_capabilities()
        .and_then(|able| able.elicitation);
    if elicitation.is_none_or(|able| able.form.is_none() && able.url.is_some()) {
        return Ok(Elicited::Unable);
    }
    let params = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: text.to_owned(),
        requested_schema,
    };
    match caller.era() {
        Era::Sessions => {
            let asking = caller.request.peer.create_elicitation(params);
            let answer = tokio::select! {
                answer = asking => answer,
                () = caller.request.ct.cancelled() => return Ok(Elicited::Cancelled),
            };
            Ok(answer.map_or(Elicited::Failed, Elicited::Answer))
        }
        Era::Stateless => {
            let sealed = seal(projects, caller, subject)?;
            let request = InputRequest::Elicitation(ElicitRequest::new(params));
            let requests = BTreeMap::from([(NAME.to_owned(), request)]);
            Ok(Elicited::Reply(Box::new(InputRequiredResult::new(
                Some(requests),
                Some(sealed),
            ))))
        }
    }
}

/// The choice of the person, as the client reports it in the stateless era.
pub(crate) fn answer_of(caller: &Caller, question: &Question) -> Decided {
    let answer = caller
        .answered
        .as_ref()
        .and_then(|answers| answers.get(NAME))
        .cloned();
    match answer.map(serde_json::from_value::<ElicitResult>) {
        Some(Ok(answer)) => question.read(&answer),
        _ => Decided::Open(
            "the answer of the person is missing; nothing was decided, and `continue` asks again",
        ),
    }
}

/// Opens the sealed subject of a question.
pub(crate) fn open(
    projects: &Projects,
    caller: &Caller,
    sealed: &str,
) -> Result<DecisionSubject, ToolFailure> {
    unseal(projects, caller, sealed).map_err(|err| match err {
        RequestStateError::Expired => refused("it is too old"),
        _ => refused(
            "it was sealed for another call, or by another server than this one, which may have been started anew",
        ),
    })
}

/// The project of any sealed question.
pub(crate) fn root_of(projects: &Projects, caller: &Caller, sealed: &str) -> Option<PathBuf> {
    #[derive(Deserialize)]
    struct SealedRoot {
        root: PathBuf,
    }
    unseal::<SealedRoot>(projects, caller, sealed)
        .ok()
        .map(|place| place.root)
}

/// Seals data that travels through a client. It is valid for this call only and for a limited time.
/// Each server has one key and one principal: the client that holds its pipes or its token.
pub(crate) fn seal(
    projects: &Projects,
    caller: &Caller,
    asked: &impl Serialize,
) -> Result<String, ToolFailure> {
    let bound = bound(caller);
    let options = SealOptions::new().associated_data(&bound).ttl(VALID);
    projects
        .seal
        .seal_json_with(asked, &options)
        .map_err(|err| ToolFailure::internal(&err))
}

/// Opens data that was sealed for this call.
pub(crate) fn unseal<T: DeserializeOwned>(
    projects: &Projects,
    caller: &Caller,
    sealed: &str,
) -> Result<T, RequestStateError> {
    projects.seal.open_json_with(sealed, &bound(caller))
}

fn bound(caller: &Caller) -> Vec<u8> {
    [PURPOSE, caller.asked.as_bytes()].concat()
}

/// The error for an answer that is not accepted.
pub(crate) fn refused(why: &str) -> ToolFailure {
    ToolFailure::new(
        ErrorTitle::AnswerRefused,
        Code::AnswerRefused,
        format!("the answer of the person was not accepted: {why}"),
    )
    .with_suggestion(
        "nothing was changed; call `execute` with `action: \"continue\"`, which asks again",
    )
}

impl Question {
    /// Turns an answer into a decision about the tree that was shown.
    fn read(&self, answer: &ElicitResult) -> Decided {
        match (self.choice.read(answer), self.tree) {
            (
                Decided::Input(RunInput::Approve {
                    message, answer, ..
                }),
                Some(tree),
            ) => Decided::Input(RunInput::Approve {
                message,
                answer,
                tree: Some(tree.to_string()),
            }),
            (decided, _) => decided,
        }
    }
}

impl Choice {
    fn options(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Gate => &[("approve", "Yes, go on"), ("reject", "No")],
            Self::Manual => &[
                ("approve", "Yes, go on"),
                (
                    "reject",
                    "No, do the step before it again (say why in the comment)",
                ),
                ("end", "No, and end the run"),
            ],
            Self::Changes => &[("keep", "Keep the changes"), ("undo", "Undo them")],
            Self::Unknown => &[
                ("retry", "Run it again"),
                ("done", "It was done"),
                ("failed", "It failed"),
            ],
        }
    }

    fn schema(self) -> Result<ElicitationSchema, ToolFailure> {
        let message = (self == Self::Changes).then(|| {
            json!({"type": "string", "title": "Message", "description": "Of the commit, instead of a generated one."})
        });
        schema_of(self.options(), message)
    }

    fn read(self, answer: &ElicitResult) -> Decided {
        match answer.action {
            ElicitationAction::Accept => {}
            ElicitationAction::Decline => {
                return Decided::Open(
                    "the person did not want to answer; the run continues waiting",
                );
            }
            _ => return Decided::Open("the person closed the question; the run continues waiting"),
        }
        let text = |name: &str| {
            let text = answer.content.as_ref()?.get(name)?.as_str()?.trim();
            (!text.is_empty()).then(|| text.to_owned())
        };
        let (word, comment) = (text("decision"), text("comment"));
        Decided::Input(match (self, word.as_deref()) {
            (Self::Gate | Self::Manual, Some("approve")) => RunInput::Approve {
                message: None,
                answer: comment,
                tree: None,
            },
            (Self::Changes, Some("keep")) => RunInput::Approve {
                message: text("message"),
                answer: comment,
                tree: None,
            },
            (Self::Gate | Self::Manual, Some("reject")) | (Self::Changes, Some("undo")) => {
                RunInput::Reject(comment)
            }
            (Self::Manual, Some("end")) => RunInput::End(comment),
            (Self::Unknown, Some("retry")) => RunInput::Retry,
            (Self::Unknown, Some("done")) => RunInput::Done {
                result: Some(Value::Null),
                paths: Vec::new(),
            },
            (Self::Unknown, Some("failed")) => RunInput::Failed(
                comment.unwrap_or_else(|| "a person reported that it failed".to_owned()),
            ),
            _ => {
                return Decided::Open(
                    "the answer was none of the choices; the run continues waiting",
                );
            }
        })
    }
}

/// A form with a choice, a comment and, if given, a field for a message.
fn schema_of(
    options: &[(&str, &str)],
    message: Option<Value>,
) -> Result<ElicitationSchema, ToolFailure> {
    let choices: Vec<Value> = options
        .iter()
        .map(|(word, title)| json!({"const": word, "title": title}))
        .collect();
    let mut properties = json!({
        "decision": {"type": "string", "title": "Decision", "oneOf": choices},
        "comment": {"type": "string", "title": "Comment", "description": "Why, or what the next steps should know."},
    });
    if let (Some(message), Value::Object(properties)) = (message, &mut properties) {
        properties.insert("message".to_owned(), message);
    }
    let schema = json!({"type": "object", "properties": properties, "required": ["decision"]});
    serde_json::from_value(schema).map_err(|err| ToolFailure::internal(&err))
}

pub(super) fn digest(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}
