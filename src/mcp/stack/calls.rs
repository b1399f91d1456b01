//! The running calls. Guards remove them when they end, also after a panic.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The running calls, each with its cancellation token.
#[derive(Debug, Default)]
pub(super) struct RunningCalls {
    tokens: Mutex<Tokens>,
    /// Notified when the last call has ended.
    ended: Notify,
}

#[derive(Debug, Default)]
struct Tokens {
    last: u64,
    by_number: HashMap<u64, CancellationToken>,
}

/// Guard of a running call.
#[derive(Debug)]
pub(super) struct RunningCall<'a> {
    calls: &'a RunningCalls,
    number: u64,
}

impl RunningCalls {
    pub(super) fn begin(&self, token: &CancellationToken) -> RunningCall<'_> {
        let mut tokens = self.tokens();
        tokens.last += 1;
        let number = tokens.last;
        tokens.by_number.insert(number, token.clone());
        RunningCall {
            calls: self,
            number,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.tokens().by_number.len()
    }

    /// Cancels every call.
    pub(super) fn cancel(&self) {
        let tokens: Vec<CancellationToken> = self.tokens().by_number.values().cloned().collect();
        for token in tokens {
            token.cancel();
        }
    }

    /// Waits until no call is running.
    pub(super) async fn end(&self) {
        loop {
            // Ordering: listen before checking, so that a call that ends in between is not missed.
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if self.len() == 0 {
                return;
            }
            ended.await;
        }
    }

    fn tokens(&self) -> MutexGuard<'_, Tokens> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        let mut tokens = self.calls.tokens();
        tokens.by_number.remove(&self.number);
        if tokens.by_number.is_empty() {
            self.calls.ended.notify_waiters();
        }
    }
}

/// Increments a counter for as long as it lives.
#[derive(Debug)]
pub(super) struct Counted<'a> {
    count: &'a AtomicUsize,
}

impl<'a> Counted<'a> {
    pub(super) fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self { count }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
    }
}
