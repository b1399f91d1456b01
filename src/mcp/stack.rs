//! Protects a handler: limits, panics and shutdown.
//!
//! A [`Stack`] wraps an rmcp handler and is one itself; both transports serve it. It limits how
//! many calls run and how many wait, answers for a handler that panics, counts running calls so
//! that a shutdown can wait for them, and refuses new calls during a shutdown. It knows nothing
//! about tools or projects. A running call is never dropped: it is cancelled through its token and
//! can clean up.

mod calls;
mod handler;
mod panic;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::ErrorCode;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use calls::{Counted, RunningCall, RunningCalls};

/// Limits for concurrent calls.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub at_work: usize,
    /// Calls that wait for a running one to end. Further calls are refused.
    pub waiting: usize,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            at_work: 64,
            waiting: 1024,
        }
    }
}

/// Whether all calls ended in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// No call is running.
    Everything,
    /// The number of calls that are still running.
    Left(usize),
}

/// A handler with its protection.
#[derive(Debug)]
pub struct Stack<H> {
    handler: H,
    load: Load,
    room: Semaphore,
    waiting: AtomicUsize,
    calls: RunningCalls,
    closing: AtomicBool,
    /// Cancelled at the start of a shutdown; it ends subscriptions.
    end: CancellationToken,
}

impl<H> Stack<H> {
    /// Wraps a handler with the default limits.
    pub fn new(handler: H) -> Self {
        Self::with_load(handler, Load::default())
    }

    /// Wraps a handler with other limits.
    pub fn with_load(handler: H, load: Load) -> Self {
        Self {
            handler,
            load,
            room: Semaphore::new(load.at_work),
            waiting: AtomicUsize::new(0),
            calls: RunningCalls::default(),
            closing: AtomicBool::new(false),
            end: CancellationToken::new(),
        }
    }

    pub fn handler(&self) -> &H {
        &self.handler
    }

    /// Starts the shutdown: running calls continue, new ones are refused, subscriptions end.
    pub fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.end_subscriptions();
    }

    /// Ends subscriptions, which would never end by themselves.
    pub fn end_subscriptions(&self) {
        self.end.cancel();
    }

    /// Cancels every running call, as if its client had cancelled it.
    pub fn cancel(&self) {
        self.calls.cancel();
    }

    /// The number of running and waiting calls.
    pub fn under_way(&self) -> usize {
        self.calls.len()
    }

    /// Waits until no call is running, at most for `limit`.
    pub async fn drain(&self, limit: Duration) -> Drained {
        match tokio::time::timeout(limit, self.calls.end()).await {
            Ok(()) => Drained::Everything,
            Err(_) => Drained::Left(self.under_way()),
        }
    }

    /// Registers a call, or refuses it.
    fn begin(&self, ct: &CancellationToken) -> Result<RunningCall<'_>, ErrorData> {
        let call = self.calls.begin(ct);
        // Ordering: register first, then check. A shutdown that closes and then drains either
        // refuses the call or waits for it.
        if self.closing.load(Ordering::SeqCst) {
            return Err(refusal(
                "the server is shutting down and takes no new calls",
            ));
        }
        Ok(call)
    }

    /// Waits until the call may run.
    async fn place(&self, ct: &CancellationToken) -> Result<SemaphorePermit<'_>, ErrorData> {
        if let Ok(permit) = self.room.try_acquire() {
            return Ok(permit);
        }
        let waiting = Counted::new(&self.waiting);
        if self.waiting.load(Ordering::SeqCst) > self.load.waiting {
            return Err(refusal(format!(
                "the server is busy: {} calls are running and {} wait; try again when some have ended",
                self.load.at_work, self.load.waiting
            )));
        }
        let place = tokio::select! {
            permit = self.room.acquire() => permit,
            () = ct.cancelled() => return Err(refusal("the call was cancelled while it waited")),
        };
        drop(waiting);
        // The semaphore is never closed, so this cannot fail.
        place.map_err(|_| refusal("the server is shutting down and takes no new calls"))
    }
}

/// A server error that is unrelated to the request, which may be sent again.
fn refusal(message: impl Into<std::borrow::Cow<'static, str>>) -> ErrorData {
    ErrorData::new(ErrorCode(-32000), message, None)
}

#[cfg(test)]
mod tests;
