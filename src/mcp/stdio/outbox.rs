//! Writes whole lines in order, several at once when they queue up.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Mutex as Turn;

/// The queue of lines and the writer.
#[derive(Debug)]
pub(super) struct Outbox<W> {
    queue: Mutex<Vec<u8>>,
    /// The number of bytes that are queued or being written.
    pending: AtomicUsize,
    broken: AtomicBool,
    writer: Turn<W>,
}

impl<W: AsyncWrite + Unpin> Outbox<W> {
    pub(super) fn new(writer: W) -> Self {
        let queue = Mutex::new(Vec::new());
        Self {
            queue,
            pending: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            writer: Turn::new(writer),
        }
    }

    /// Appends a line to the queue.
    pub(super) fn put(&self, line: &[u8]) {
        self.pending.fetch_add(line.len() + 1, Ordering::SeqCst);
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.reserve(line.len() + 1);
        queue.extend_from_slice(line);
        queue.push(b'\n');
    }

    /// Writes the queue, unless another task has done so meanwhile. Must not be cancelled: part of
    /// a line would be lost.
    pub(super) async fn flush(&self) -> io::Result<()> {
        let mut writer = self.writer.lock().await;
        let bytes = std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner));
        if bytes.is_empty() {
            return Ok(());
        }
        let outcome = match writer.write_all(&bytes).await {
            Ok(()) => writer.flush().await,
            Err(err) => Err(err),
        };
        if outcome.is_err() {
            self.broken.store(true, Ordering::SeqCst);
        }
        self.pending.fetch_sub(bytes.len(), Ordering::SeqCst);
        outcome
    }

    /// The number of bytes that are not yet written.
    pub(super) fn pending(&self) -> usize {
        self.pending.load(Ordering::SeqCst)
    }

    /// Whether writing failed because the client is gone.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::SeqCst)
    }
}
