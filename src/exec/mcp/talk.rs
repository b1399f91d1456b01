//! The stderr of a server: passed to the current caller, or kept for the next one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

use super::Tell;

/// How much is kept between calls: the last part.
const KEPT: usize = 64 * 1024;

#[derive(Clone, Debug, Default)]
pub(super) struct ServerStderr(Arc<Mutex<StderrState>>);

#[derive(Debug, Default)]
struct StderrState {
    kept: VecDeque<u8>,
    listener: Option<mpsc::Sender<Tell>>,
}

impl ServerStderr {
    /// Sends the kept text to a caller, and everything that follows.
    pub(super) async fn attach(&self, listener: &mpsc::Sender<Tell>) {
        let kept: Vec<u8> = {
            let mut state = self.lock();
            state.listener = Some(listener.clone());
            state.kept.drain(..).collect()
        };
        if !kept.is_empty() {
            // The caller may be gone already.
            let _ = listener.send(text(&kept)).await;
        }
    }

    /// Keeps the text from now on.
    pub(super) fn detach(&self) {
        self.lock().listener = None;
    }

    /// Reads a stream to its end. A slow caller delays only the server.
    pub(super) async fn follow(self, mut from: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            let bytes = buffer.get(..length).unwrap_or_default();
            let listener = self.lock().listener.clone();
            let is_told = match listener {
                Some(listener) => listener.send(text(bytes)).await.is_ok(),
                None => false,
            };
            if !is_told {
                self.keep(bytes);
            }
        }
    }

    fn keep(&self, bytes: &[u8]) {
        let mut state = self.lock();
        state.kept.extend(bytes);
        let excess = state.kept.len().saturating_sub(KEPT);
        state.kept.drain(..excess);
    }

    fn lock(&self) -> MutexGuard<'_, StderrState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn text(bytes: &[u8]) -> Tell {
    Tell::Talk(String::from_utf8_lossy(bytes).into_owned())
}
