//! rmcp transport over lines, which answers the lines that it does not pass on.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{ClientJsonRpcMessage, ErrorCode, JsonRpcMessage, RequestId};
use rmcp::service::{RoleServer, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex as Turn, Notify};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::MAX_LINE;
use super::ledger::{Ledger, MAX_OPEN, RequestRefusal};
use super::lines::{LineReader, ReadLine};
use super::message::{self, TransportError, Wrong};
use super::outbox::Outbox;
use crate::item::wording;
use crate::mcp::stack::Stack;

/// The number of unread answer bytes above which the server stops reading requests.
const MAX_UNREAD: usize = 4 * 1024 * 1024;

/// The two streams of a client and its open requests.
#[derive(Debug)]
pub(super) struct StdioWire<R, W> {
    line: Arc<StdioConnection<R, W>>,
}

#[derive(Debug)]
struct StdioConnection<R, W> {
    lines: Turn<LineReader<R>>,
    outbox: Outbox<W>,
    ledger: Mutex<Ledger>,
    /// Notified when something was answered or written.
    moved: Notify,
    /// Cancelled from outside to stop the server.
    stop: CancellationToken,
    /// Cancelled here at the end of the grace period.
    over: CancellationToken,
    grace: Duration,
}

/// The transport that rmcp serves. Only one exists at a time; a failed handshake needs a new one.
#[derive(Debug)]
pub(super) struct Attached<R, W, H> {
    line: Arc<StdioConnection<R, W>>,
    stack: Arc<Stack<H>>,
    /// The end of the grace period; set when reading has ended.
    deadline: Option<Instant>,
}

impl<R, W> StdioWire<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin,
{
    pub(super) fn new(
        reader: R,
        writer: W,
        stop: CancellationToken,
        over: CancellationToken,
        grace: Duration,
    ) -> Self {
        let line = StdioConnection {
            lines: Turn::new(LineReader::new(reader, MAX_LINE)),
            outbox: Outbox::new(writer),
            ledger: Mutex::default(),
            moved: Notify::new(),
            stop,
            over,
            grace,
        };
        Self {
            line: Arc::new(line),
        }
    }

    pub(super) fn attach<H>(&self, stack: &Arc<Stack<H>>) -> Attached<R, W, H> {
        Attached {
            line: Arc::clone(&self.line),
            stack: Arc::clone(stack),
            deadline: None,
        }
    }

    pub(super) fn is_broken(&self) -> bool {
        self.line.outbox.is_broken()
    }
}

impl<R, W> StdioConnection<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a line directly. The write runs in a separate task, because a read may be cancelled
    /// but a write may not.
    fn complain(self: &Arc<Self>, complaint: &TransportError) {
        self.outbox.put(&complaint.to_line());
        let line = Arc::clone(self);
        tokio::spawn(async move {
            // The reader notices a broken outbox.
            let _ = line.outbox.flush().await;
            line.moved.notify_waiters();
        });
    }

    /// Waits until the condition is true. It is checked whenever something was answered or written.
    async fn until(&self, condition: impl Fn(&Self) -> bool) {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if condition(self) {
                return;
            }
            moved.await;
        }
    }

    fn has_room(&self) -> bool {
        self.outbox.is_broken()
            || (self.outbox.pending() < MAX_UNREAD && self.ledger().len() < MAX_OPEN)
    }

    fn is_settled(&self) -> bool {
        self.outbox.is_broken() || (self.outbox.pending() == 0 && self.ledger().len() == 0)
    }

    /// Reads the next line; `End` when the input ends, the client is gone or the server must stop.
    async fn next(&self, lines: &mut LineReader<R>) -> ReadLine {
        let read = async {
            if !self.has_room() {
                self.until(Self::has_room).await;
            }
            lines.next().await
        };
        tokio::select! {
            biased;
            read = read => read.unwrap_or(ReadLine::End),
            () = self.stop.cancelled() => ReadLine::End,
            () = self.until(|line| line.outbox.is_broken()) => ReadLine::End,
        }
    }

    /// Parses a line as a message to pass on. Invalid lines are answered here.
    fn admit(self: &Arc<Self>, text: &[u8]) -> Option<ClientJsonRpcMessage> {
        let message = match message::read(text) {
            Ok(message) => message,
            Err(Wrong::Ignored) => return None,
            Err(Wrong::Answered(complaint)) => {
                self.complain(&complaint);
                return None;
            }
        };
        let refused = match &message {
            JsonRpcMessage::Request(request) => {
                let outcome = self.ledger().open(&request.id, text.len());
                outcome.err().map(|refusal| refused(refusal, &request.id))
            }
            JsonRpcMessage::Notification(notification) => {
                self.ledger().note(&notification.notification);
                None
            }
            _ => None,
        };
        match refused {
            Some(complaint) => {
                self.complain(&complaint);
                None
            }
            None => Some(message),
        }
    }
}

impl<R, W, H> Transport<RoleServer> for Attached<R, W, H>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
    H: Send + Sync + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let line = Arc::clone(&self.line);
        let written = serde_json::to_vec(&item).map_err(io::Error::other);
        let answered = match &item {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        // Ordering: queue the answer before closing the request, or `is_settled` would be true too
        // early.
        if let Ok(bytes) = &written {
            line.outbox.put(bytes);
        }
        if let Some(id) = answered {
            line.ledger().close(id);
        }
        async move {
            written?;
            let outcome = line.outbox.flush().await;
            line.moved.notify_waiters();
            outcome
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let line = Arc::clone(&self.line);
        let mut lines = line.lines.lock().await;
        while self.deadline.is_none() {
            match line.next(&mut lines).await {
                ReadLine::Line => {
                    let message = line.admit(lines.text());
                    lines.clear();
                    if message.is_some() {
                        return message;
                    }
                }
                ReadLine::TooLong(id) => line.complain(&TransportError::new(
                    ErrorCode::INVALID_REQUEST,
                    format!("the line is longer than {} MiB", MAX_LINE / 1024 / 1024),
                    id.as_ref(),
                )),
                ReadLine::End => {
                    // Do not close the stack: a message that was read may not have started yet, and
                    // no new ones can arrive.
                    self.stack.end_subscriptions();
                    self.deadline = Some(Instant::now() + line.grace);
                }
            }
        }
        let deadline = self.deadline.unwrap_or_else(Instant::now);
        if tokio::time::timeout_at(deadline, line.until(StdioConnection::is_settled))
            .await
            .is_err()
        {
            // This also ends rmcp's loop, which sends answers for another two seconds.
            line.over.cancel();
            std::future::pending::<()>().await;
        }
        None
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

fn refused(refusal: RequestRefusal, id: &RequestId) -> TransportError {
    let shown = wording::shown(&id.to_string());
    match refusal {
        // Leave the id out: the client would take this for the answer to the first request.
        RequestRefusal::InUse => TransportError::new(
            ErrorCode::INVALID_REQUEST,
            format!("the request id `{shown}` belongs to a request that is not answered yet"),
            None,
        ),
        RequestRefusal::Cancelled => TransportError::new(
            ErrorCode::INVALID_REQUEST,
            format!(
                "the request id `{shown}` belongs to a request that was cancelled; use a new one"
            ),
            Some(id),
        ),
        RequestRefusal::Full => {
            let message = "the server is busy: too many bytes of requests are open; try again when some have ended";
            TransportError::new(ErrorCode(-32000), message, Some(id))
        }
    }
}
