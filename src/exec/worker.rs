//! What piton does itself for a tool, in a process of its own.
//!
//! An HTTP request, a conversation with an MCP server, a container, a function in JavaScript: piton
//! starts itself again as `piton __work`, reads a [`Job`] from its standard input and hands the answer over
//! the private channel. A supervisor owns that process as it owns any tool, so that it can be killed
//! at any instant, has its time, and leaves nothing behind; and what comes from outside is read there first.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::supervisor::{Channel, Ended, ResultFault, Work};
use super::{container, http, javascript, mcp};
use crate::problem::{Code, Hint};

/// The word that makes piton a worker.
const MODE: &str = "__work";

/// The largest job that is read.
const MAX_JOB: u64 = 64 * 1024 * 1024;

/// What a worker is to do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "job", rename_all = "snake_case")]
pub(super) enum Job {
    /// Make an HTTP request.
    Http(Box<http::Job>),
    /// Call a tool of an MCP server.
    Mcp(mcp::Job),
    /// Have an MCP server for the calls of a run.
    McpHost(Box<mcp::HostJob>),
    /// Run a container.
    Container(container::Job),
    /// Call a function in JavaScript.
    JavaScript(javascript::Job),
}

/// What came of it, as it is handed over.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// What was asked for.
    Ok(Value),
    /// Why there is nothing.
    Failed(Failure),
}

/// Why a worker could not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of failure it is.
    pub kind: FailureKind,
    /// What happened, in lower case.
    pub message: String,
    /// The way out.
    pub suggestion: Option<Hint>,
}

/// The kinds of failure, each with a stable code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The job is not one that this program knows.
    Job,
    /// The other side could not be reached, or broke off.
    Network,
    /// A call that must not be made twice was sent, and its answer did not come: it may have been done.
    NoAnswer,
    /// The address is none that may be reached.
    Address,
    /// A redirect leads where the call may not go, or nowhere.
    Redirect,
    /// The other side answered that it did not do it.
    Status,
    /// The answer cannot be read, or is too large.
    Response,
    /// What was to be picked out of the answer is not in it.
    Transform,
    /// No container engine answers.
    ContainerEngine,
    /// An image is not there and cannot be had.
    ContainerImage,
    /// An image cannot be built.
    ContainerBuild,
    /// A container cannot be made or started.
    Container,
    /// A container needed more memory than it may have.
    ContainerMemory,
    /// A function took too long.
    ScriptTimeout,
    /// A function needs too much memory.
    ScriptMemory,
    /// A function threw something.
    ScriptThrew,
    /// A function returned what it may not.
    ScriptReturn,
    /// A function returned too much.
    ScriptTooLarge,
    /// An MCP server could not be started, or ended.
    McpServer,
    /// An MCP server said what makes no sense.
    McpProtocol,
    /// An MCP server has no such tool.
    McpNoTool,
    /// A tool of an MCP server is not what it was.
    McpChanged,
    /// A tool of an MCP server says that it failed.
    McpTool,
    /// What a tool of an MCP server is called with is not what it takes.
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
    /// Whether the machine lacks something, and no call of this kind can be made.
    pub fn is_of_machine(self) -> bool {
        self == Self::ContainerEngine
    }
}

impl Failure {
    /// A failure without a way out.
    pub(super) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), suggestion: None }
    }

    /// The same, of a call that was sent and may have been done.
    pub(super) fn unanswered(self) -> Self {
        let way_out = "it may have been done: find out before you make the call again";
        let suggestion = self.suggestion.or_else(|| Some(way_out.into()));
        Self { kind: FailureKind::NoAnswer, suggestion, ..self }
    }

    /// The same with a way out.
    pub(super) fn suggest(mut self, suggestion: impl Into<Hint>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }
}

/// Whether piton was started to be a worker.
pub fn is_meant(arguments: &[OsString]) -> bool {
    arguments.get(1).is_some_and(|word| word == MODE)
}

/// Is a worker, from the first to the last.
pub fn serve() -> ExitCode {
    let mut text = Vec::new();
    let read = std::io::stdin().take(MAX_JOB).read_to_end(&mut text);
    let job = read
        .map_err(|err| err.to_string())
        .and_then(|_| serde_json::from_slice::<Job>(&text).map_err(|err| err.to_string()));
    let end = match job {
        Ok(job) => job.carry_out(),
        Err(reason) => End::from(Failure::new(FailureKind::Job, format!("cannot read the job: {reason}"))),
    };
    match end {
        End::Answer(answer) if hand_over(&answer).is_ok() => ExitCode::SUCCESS,
        End::Answer(_) => ExitCode::FAILURE,
        End::Exit(status) => ExitCode::from(status),
    }
}

/// How a worker ends.
#[derive(Debug)]
pub(super) enum End {
    /// With an answer.
    Answer(Answer),
    /// As what it ran has ended, whose output was its own.
    Exit(u8),
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        Self::Answer(Answer::Failed(failure))
    }
}

impl From<Result<Value, Failure>> for End {
    fn from(result: Result<Value, Failure>) -> Self {
        match result {
            Ok(value) => Self::Answer(Answer::Ok(value)),
            Err(failure) => failure.into(),
        }
    }
}

impl Job {
    /// What a supervisor has to run to get it done.
    pub(super) fn work(&self, program: &std::path::Path) -> Work {
        Work {
            program: program.to_path_buf(),
            argv: vec!["piton".into(), MODE.into()],
            // Values, texts and maps with text keys always have a form in JSON.
            input: serde_json::to_vec(self).unwrap_or_default(),
            channel: Channel::Private,
            ..Work::default()
        }
    }

    fn carry_out(self) -> End {
        match self {
            Self::Http(job) => job.carry_out(),
            Self::Mcp(job) => job.carry_out(),
            Self::McpHost(job) => job.carry_out(),
            Self::Container(job) => job.carry_out(),
            Self::JavaScript(job) => job.carry_out(),
        }
    }
}

/// The answer of a worker that has ended; none when it ended without one.
pub(super) fn answer(ended: &Ended) -> Result<Option<Answer>, u64> {
    match ended.result_fault {
        Some(ResultFault::TooLarge(bytes)) => Err(bytes),
        _ => Ok(ended.result.as_deref().and_then(|bytes| serde_json::from_slice(bytes).ok())),
    }
}

/// Writes the answer to descriptor 3: its length in four bytes, and as many bytes.
#[expect(unsafe_code, reason = "the channel is inherited under a number, which has no owner yet")]
fn hand_over(answer: &Answer) -> std::io::Result<()> {
    let bytes = serde_json::to_vec(answer)?;
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    // SAFETY: the supervisor put the channel there for this, and nothing else in this process uses it.
    let mut channel = unsafe { std::fs::File::from_raw_fd(3) };
    channel.write_all(&length.to_be_bytes())?;
    channel.write_all(&bytes)?;
    channel.flush()
}
