//! What stands between the wire and a handler: order, limits and an answer whatever happens.
//!
//! A [`Stack`] wraps a handler of rmcp and is one itself; both transports serve it. It bounds how many
//! calls are at work and how many wait, answers for a handler that panics, counts what is under way so
//! that the end can wait for it, and refuses new calls once the end has begun. It knows nothing of tools
//! or projects. A call that was begun is never dropped: it is told through its token, and may clean up.

mod calls;
mod handler;
mod panic;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::ErrorCode;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use calls::{Call, Calls, Counted};

/// How much is done at the same time.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Calls at work.
    pub at_work: usize,
    /// Calls that wait for one of those to end. Any beyond are refused.
    pub waiting: usize,
}

impl Default for Load {
    fn default() -> Self {
        Self { at_work: 64, waiting: 1024 }
    }
}

/// Whether everything under way came to its end in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Nothing is under way.
    Everything,
    /// So many calls are still at work.
    Left(usize),
}

/// A handler with the guards around it.
#[derive(Debug)]
pub struct Stack<H> {
    handler: H,
    load: Load,
    room: Semaphore,
    waiting: AtomicUsize,
    calls: Calls,
    closing: AtomicBool,
    /// Cancelled when the end has begun: subscriptions end then.
    end: CancellationToken,
}

impl<H> Stack<H> {
    /// Guards a handler, with the usual limits.
    pub fn new(handler: H) -> Self {
        Self::with_load(handler, Load::default())
    }

    /// Guards a handler, with limits of its own.
    pub fn with_load(handler: H, load: Load) -> Self {
        Self {
            handler,
            load,
            room: Semaphore::new(load.at_work),
            waiting: AtomicUsize::new(0),
            calls: Calls::default(),
            closing: AtomicBool::new(false),
            end: CancellationToken::new(),
        }
    }

    /// The handler inside.
    pub fn handler(&self) -> &H {
        &self.handler
    }

    /// Begins the end: calls under way go on, new ones are refused, subscriptions end.
    pub fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.end_subscriptions();
    }

    /// Ends subscriptions, which have no end of their own.
    pub fn end_subscriptions(&self) {
        self.end.cancel();
    }

    /// Tells every call under way to end, as if its client had cancelled it.
    pub fn cancel(&self) {
        self.calls.cancel();
    }

    /// How many calls are under way, those that wait included.
    pub fn under_way(&self) -> usize {
        self.calls.len()
    }

    /// Waits until nothing is under way, at most for a time.
    pub async fn drain(&self, limit: Duration) -> Drained {
        match tokio::time::timeout(limit, self.calls.end()).await {
            Ok(()) => Drained::Everything,
            Err(_) => Drained::Left(self.under_way()),
        }
    }

    /// Notes a call that begins, or refuses it.
    fn begin(&self, ct: &CancellationToken) -> Result<Call<'_>, ErrorData> {
        let call = self.calls.begin(ct);
        // Noted before asked: whoever closes and then drains sees either the refusal or the call.
        if self.closing.load(Ordering::SeqCst) {
            return Err(refusal("the server is shutting down and takes no new calls"));
        }
        Ok(call)
    }

    /// Waits for a place among the calls at work.
    async fn place(&self, ct: &CancellationToken) -> Result<SemaphorePermit<'_>, ErrorData> {
        if let Ok(permit) = self.room.try_acquire() {
            return Ok(permit);
        }
        let waiting = Counted::new(&self.waiting);
        if self.waiting.load(Ordering::SeqCst) > self.load.waiting {
            return Err(refusal(format!(
                "the server is busy: {} calls are at work and {} wait; try again when some have ended",
                self.load.at_work, self.load.waiting
            )));
        }
        let place = tokio::select! {
            permit = self.room.acquire() => permit,
            () = ct.cancelled() => return Err(refusal("the call was cancelled while it waited")),
        };
        drop(waiting);
        // The semaphore is never closed.
        place.map_err(|_| refusal("the server is shutting down and takes no new calls"))
    }
}

/// An error of the server that says nothing about the request: it may be sent again.
fn refusal(message: impl Into<std::borrow::Cow<'static, str>>) -> ErrorData {
    ErrorData::new(ErrorCode(-32000), message, None)
}

#[cfg(test)]
mod tests;
