//! One call: who calls, how they hear of progress, and how the call ends early.
//!
//! What runs tools or git is synchronous and gets a thread of its own. A cancelled call asks for the end of what
//! it has begun, as Ctrl-C would, and waits until that is put in order.

use rmcp::RoleServer;
use rmcp::model::{InputRequiredResult, ProgressNotificationParam, ProtocolVersion};
use rmcp::service::RequestContext;
use tokio::sync::mpsc;

use super::answer::Answer;
use super::failure::Failure;
use super::scribe;
use crate::context::Context;
use crate::context::scribe::Scribe;
use crate::context::stop::Stop;

/// Who calls, and how they are spoken to.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The request.
    pub(crate) request: RequestContext<RoleServer>,
    /// What the client was asked before and answered, in the modern era.
    pub(crate) answered: Option<rmcp::model::InputResponses>,
    /// What was sealed when it was asked.
    pub(crate) state: Option<String>,
    /// The hash of what is asked for: the same call has the same, however its arguments are ordered.
    pub(crate) asked: String,
}

/// How a server may put a question to the person behind a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// By a request of its own.
    Sessions,
    /// By an answer that asks.
    Stateless,
}

/// What the thread of a call has at hand.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    /// Ends it early.
    pub(crate) stop: Stop,
    /// Writes messages of commits, where the client has a model at hand.
    pub(crate) scribe: Scribe,
    progress: mpsc::UnboundedSender<String>,
}

impl Work {
    /// The place where it is done, for this caller.
    pub(crate) fn equip(&self, ctx: Context) -> Context {
        ctx.ended_by(&self.stop).written_by(&self.scribe)
    }

    /// Says how far it is.
    pub(crate) fn tell(&self, message: impl Into<String>) {
        // Nobody may be listening.
        let _ = self.progress.send(message.into());
    }
}

impl Caller {
    /// The era that the client lives in.
    pub(crate) fn era(&self) -> Era {
        let modern = |version: ProtocolVersion| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str();
        if self.request.protocol_version().is_some_and(modern) { Era::Stateless } else { Era::Sessions }
    }

    /// Does something on a thread of its own, with progress for the client, until it is done or cancelled.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        job: impl FnOnce(Work) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let stop = Stop::default();
        let (sender, mut steps) = mpsc::unbounded_channel();
        let (orders, mut drafts) = mpsc::unbounded_channel();
        let is_written = scribe::is_offered(self, Era::Sessions);
        let scribe = if is_written { scribe::scribe(orders) } else { Scribe::default() };
        let work = Work { stop: stop.clone(), scribe, progress: sender };
        let mut thread = tokio::task::spawn_blocking(move || job(work));
        let token = self.request.meta.get_progress_token();
        let mut done = 0.0;
        let mut cancelled = false;
        loop {
            tokio::select! {
                // In this order: what was told before the end is heard before the end.
                biased;
                () = self.request.ct.cancelled(), if !cancelled => {
                    cancelled = true;
                    stop.ask();
                }
                Some(message) = steps.recv() => {
                    if let Some(token) = &token {
                        done += 1.0;
                        let said = ProgressNotificationParam::new(token.clone(), done).with_message(message);
                        // A client that is gone hears nothing.
                        let _ = self.request.peer.notify_progress(said).await;
                    }
                }
                Some((shown, reply)) = drafts.recv() => {
                    // Whoever asked may be gone.
                    let _ = reply.send(scribe::ask(self, shown).await);
                }
                ended = &mut thread => return match ended {
                    Ok(result) => result,
                    Err(panicked) => Err(Failure::internal(&panicked)),
                },
            }
        }
    }
}

/// What goes back to the client.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// What came of the call.
    Done(Answer),
    /// A question to the person behind the client, in the stateless era.
    Asked(Box<InputRequiredResult>),
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        Self::Done(answer)
    }
}

/// What a call came to that asks nobody.
pub(crate) type Answered = Result<Answer, Failure>;
