//! One call: its caller, its progress notifications and its cancellation.
//!
//! Running tools and git is synchronous, so each call gets its own thread. Cancelling a call works
//! like Ctrl-C: it stops what the call has started and waits for the clean-up.

use rmcp::RoleServer;
use rmcp::model::{InputRequiredResult, ProgressNotificationParam, ProtocolVersion};
use rmcp::service::RequestContext;
use tokio::sync::mpsc;

use super::answer::ToolAnswer;
use super::failure::ToolFailure;
use super::sampling;
use crate::context::Context;
use crate::context::message_writer::MessageWriter;
use crate::context::stop::Stop;

/// The caller of a tool, with the request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) request: RequestContext<RoleServer>,
    /// The client's answers to earlier questions; only in the stateless era.
    pub(crate) answered: Option<rmcp::model::InputResponses>,
    /// The sealed state that was sent with those questions.
    pub(crate) state: Option<String>,
    /// The hash of the call, independent of the order of its arguments.
    pub(crate) asked: String,
}

/// How the server can ask the person behind a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// The server sends a request to the client.
    Sessions,
    /// The server answers the call with a question, and the client calls again.
    Stateless,
}

/// What the thread of a call can use.
#[derive(Clone, Debug)]
pub(crate) struct CallWork {
    /// Stops the work.
    pub(crate) stop: Stop,
    /// Asks the client's model for commit messages, if it has one.
    pub(crate) message_writer: MessageWriter,
    progress: mpsc::UnboundedSender<String>,
}

impl CallWork {
    /// Adds the stop signal and the message writer to a context.
    pub(crate) fn equip(&self, ctx: Context) -> Context {
        ctx.ended_by(&self.stop).written_by(&self.message_writer)
    }

    /// Sends a progress message.
    pub(crate) fn report(&self, message: impl Into<String>) {
        // The receiver may be gone.
        let _ = self.progress.send(message.into());
    }
}

impl Caller {
    /// The protocol era of the client.
    pub(crate) fn era(&self) -> Era {
        let modern =
            |version: ProtocolVersion| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str();
        if self.request.protocol_version().is_some_and(modern) {
            Era::Stateless
        } else {
            Era::Sessions
        }
    }

    /// Runs a job on its own thread and reports progress to the client until the job ends. A
    /// cancellation is passed on to the job.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        job: impl FnOnce(CallWork) -> Result<T, ToolFailure> + Send + 'static,
    ) -> Result<T, ToolFailure> {
        let stop = Stop::default();
        let (sender, mut steps) = mpsc::unbounded_channel();
        let (orders, mut drafts) = mpsc::unbounded_channel();
        let is_written = sampling::is_offered(self, Era::Sessions);
        let message_writer = if is_written {
            sampling::message_writer(orders)
        } else {
            MessageWriter::default()
        };
        let work = CallWork {
            stop: stop.clone(),
            message_writer,
            progress: sender,
        };
        let mut thread = tokio::task::spawn_blocking(move || job(work));
        let token = self.request.meta.get_progress_token();
        let mut done = 0.0;
        let mut cancelled = false;
        loop {
            tokio::select! {
                // Ordering: pending progress is sent before the end of the call.
                biased;
                () = self.request.ct.cancelled(), if !cancelled => {
                    cancelled = true;
                    stop.ask();
                }
                Some(message) = steps.recv() => {
                    if let Some(token) = &token {
                        done += 1.0;
                        let said = ProgressNotificationParam::new(token.clone(), done).with_message(message);
                        // The client may be gone; then its progress is dropped.
                        let _ = self.request.peer.notify_progress(said).await;
                    }
                }
                Some((shown, reply)) = drafts.recv() => {
                    // The receiver may be gone.
                    let _ = reply.send(sampling::ask(self, shown).await);
                }
                ended = &mut thread => return match ended {
                    Ok(result) => result,
                    Err(panicked) => Err(ToolFailure::internal(&panicked)),
                },
            }
        }
    }
}

/// What is sent back to the client.
#[derive(Clone, Debug)]
pub(crate) enum CallReply {
    /// The result of the call.
    Done(ToolAnswer),
    /// A question to the person behind the client, in the stateless era.
    Asked(Box<InputRequiredResult>),
}

impl From<ToolAnswer> for CallReply {
    fn from(answer: ToolAnswer) -> Self {
        Self::Done(answer)
    }
}

/// The result of a call that asks no question.
pub(crate) type Answered = Result<ToolAnswer, ToolFailure>;
