//! Work that piton does itself for a tool, in a separate process.
//!
//! An HTTP request, an MCP call, a container, a JavaScript function: piton starts itself as `piton
//! __work`, reads a [`WorkerJob`] from stdin and returns the answer over the private channel. A
//! supervisor owns that process like any tool: it can be killed at any time, has a timeout, and
//! leaves nothing behind. Untrusted data from outside is parsed there first.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::supervisor::{Channel, Ended, ResultFault, Work};
use super::{container, http, javascript, mcp};
use crate::problem::{Code, Hint};

/// The argument that makes piton a worker.
const MODE: &str = "__work";

/// The largest job that is read.
const MAX_JOB: u64 = 64 * 1024 * 1024;

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "job", rename_all = "snake_case")]
pub(super) enum WorkerJob {
    Http(Box<http::HttpJob>),
    Mcp(mcp::McpCallJob),
    /// Own an MCP server for the calls of a run.
    McpHost(Box<mcp::McpHostJob>),
    Container(container::ContainerJob),
    JavaScript(javascript::JavaScriptJob),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WorkerAnswer {
    Ok(Value),
    Failed(WorkFailure),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkFailure {
    pub kind: FailureKind,
    pub message: String,
    /// The way out.
    pub suggestion: Option<Hint>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    Job,
    /// The server could not be reached, or closed the connection.
    Network,
    /// A call that must not be repeated was sent and got no answer: it may have taken effect.
    NoAnswer,
    /// The address is not allowed.
    Address,
    /// The redirect is invalid, or its target is not allowed.
    Redirect,
    /// The server answered with an error status.
    Status,
    /// The response cannot be read, or is too large.
    Response,
    /// The `JSONPath` matches nothing in the response.
    Transform,
    ContainerEngine,
    ContainerImage,
    ContainerBuild,
    Container,
    ContainerMemory,
    ScriptTimeout,
    ScriptMemory,
    ScriptThrew,
    /// A function returned something that is not data.
    ScriptReturn,
    ScriptTooLarge,
    /// An MCP server could not be started, or exited.
    McpServer,
    /// An MCP server violated the protocol.
    McpProtocol,
    McpNoTool,
    /// The definition of a server's tool has changed.
    McpChanged,
    /// A server's tool reported an error.
    McpTool,
    /// The arguments do not match the schema of a server's tool.
    Arguments,
}

impl FailureKind {
    /// The stable code.
    pub fn code(self) -> Code {
        match self {
            Self::Job => Code::WorkerFailed,
            Self::Network => Code::NetworkFailed,
            Self::NoAnswer => Code::NoAnswer,
            Self::Address => Code::AddressRefused,
            Self::Redirect => Code::RedirectRefused,
            Self::Status => Code::HttpStatus,
            Self::Response => Code::BadResponse,
            Self::Transform => Code::TransformFailed,
            Self::ContainerEngine => Code::ContainerEngine,
            Self::ContainerImage => Code::ImageUnavailable,
            Self::ContainerBuild => Code::BuildFailed,
            Self::Container => Code::ContainerFailed,
            Self::ContainerMemory => Code::OutOfMemory,
            Self::ScriptTimeout => Code::ScriptTimeout,
            Self::ScriptMemory => Code::ScriptMemory,
            Self::ScriptThrew => Code::ScriptThrew,
            Self::ScriptReturn => Code::ScriptReturn,
            Self::ScriptTooLarge => Code::ResultTooLarge,
            Self::McpServer => Code::McpServerFailed,
            Self::McpProtocol => Code::McpProtocol,
            Self::McpNoTool => Code::McpNoTool,
            Self::McpChanged => Code::McpChanged,
            Self::McpTool => Code::McpToolError,
            Self::Arguments => Code::InvalidParameter,
        }
    }
}

impl FailureKind {
    /// Whether the machine lacks something, so that no call of this kind can work.
    pub fn is_of_machine(self) -> bool {
        self == Self::ContainerEngine
    }
}

impl WorkFailure {
    pub(super) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            suggestion: None,
        }
    }

    /// Marks a call that was sent and may have taken effect.
    pub(super) fn unanswered(self) -> Self {
        let way_out = "it may have taken effect: check before you repeat the call";
        let suggestion = self.suggestion.or_else(|| Some(way_out.into()));
        Self {
            kind: FailureKind::NoAnswer,
            suggestion,
            ..self
        }
    }

    /// The same with a way out.
    pub(super) fn suggest(mut self, suggestion: impl Into<Hint>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }
}

/// Whether these arguments start a worker.
pub fn is_meant(arguments: &[OsString]) -> bool {
    arguments.get(1).is_some_and(|word| word == MODE)
}

pub fn serve() -> ExitCode {
    let mut text = Vec::new();
    let read = std::io::stdin().take(MAX_JOB).read_to_end(&mut text);
    let job = read
        .map_err(|err| err.to_string())
        .and_then(|_| serde_json::from_slice::<WorkerJob>(&text).map_err(|err| err.to_string()));
    let end = match job {
        Ok(job) => job.carry_out(),
        Err(reason) => WorkerEnd::from(WorkFailure::new(
            FailureKind::Job,
            format!("cannot read the job: {reason}"),
        )),
    };
    match end {
        WorkerEnd::Answer(answer) if hand_over(&answer).is_ok() => ExitCode::SUCCESS,
        WorkerEnd::Answer(_) => ExitCode::FAILURE,
        WorkerEnd::Exit(status) => ExitCode::from(status),
    }
}

#[derive(Debug)]
pub(super) enum WorkerEnd {
    Answer(WorkerAnswer),
    /// With the status of the process it ran, which wrote its own output.
    Exit(u8),
}

impl From<WorkFailure> for WorkerEnd {
    fn from(failure: WorkFailure) -> Self {
        Self::Answer(WorkerAnswer::Failed(failure))
    }
}

impl From<Result<Value, WorkFailure>> for WorkerEnd {
    fn from(result: Result<Value, WorkFailure>) -> Self {
        match result {
            Ok(value) => Self::Answer(WorkerAnswer::Ok(value)),
            Err(failure) => failure.into(),
        }
    }
}

impl WorkerJob {
    /// The work for a supervisor.
    pub(super) fn work(&self, program: &std::path::Path) -> Work {
        Work {
            program: program.to_path_buf(),
            argv: vec!["piton".into(), MODE.into()],
            // Values, strings and maps with string keys always serialize.
            input: serde_json::to_vec(self).unwrap_or_default(),
            channel: Channel::Private,
            ..Work::default()
        }
    }

    fn carry_out(self) -> WorkerEnd {
        match self {
            Self::Http(job) => job.carry_out(),
            Self::Mcp(job) => job.carry_out(),
            Self::McpHost(job) => job.carry_out(),
            Self::Container(job) => job.carry_out(),
            Self::JavaScript(job) => job.carry_out(),
        }
    }
}

/// The answer of a worker; `None` when it exited without one.
pub(super) fn answer(ended: &Ended) -> Result<Option<WorkerAnswer>, u64> {
    match ended.result_fault {
        Some(ResultFault::TooLarge(bytes)) => Err(bytes),
        _ => Ok(ended
            .result
            .as_deref()
            .and_then(|bytes| serde_json::from_slice(bytes).ok())),
    }
}

/// Writes the answer to descriptor 3: its length in four bytes, then the bytes.
#[expect(
    unsafe_code,
    reason = "the channel is inherited under a number, which has no owner yet"
)]
fn hand_over(answer: &WorkerAnswer) -> std::io::Result<()> {
    let bytes = serde_json::to_vec(answer)?;
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    // SAFETY: the supervisor put the channel there for this, and nothing else in this process uses it.
    let mut channel = unsafe { std::fs::File::from_raw_fd(3) };
    channel.write_all(&length.to_be_bytes())?;
    channel.write_all(&bytes)?;
    channel.flush()
}
