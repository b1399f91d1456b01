//! Serves one client on standard input and output, with one JSON-RPC message per line.
//!
//! rmcp's own transport does not answer lines that it cannot parse, so a client would wait for
//! ever. [`StdioWire`] answers every line: garbage, batches, lines longer than [`MAX_LINE`], duplicate
//! ids. It reads only as fast as the client reads answers. At the end of input, or on a stop
//! request, running calls get a grace period. Then they are cancelled and get some time to clean
//! up.

mod ledger;
mod lines;
mod message;
mod outbox;
mod scan;
mod wire;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::ServerHandler;
use rmcp::service::{ServerInitializeError, serve_server_with_ct};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::shutdown;
use super::stack::Stack;
use wire::StdioWire;

/// The longest accepted line. A longer line is skipped and answered with an error.
pub const MAX_LINE: usize = 16 * 1024 * 1024;

/// How long running calls may continue when the client is gone or the server is asked to stop.
const GRACE: Duration = Duration::from_secs(10);

/// Serves until the client is gone or a signal asks to stop, then ends the running calls.
pub async fn serve<H: ServerHandler>(stack: Arc<Stack<H>>) -> io::Result<()> {
    let stop = shutdown::signalled()?;
    let (reader, writer) = rmcp::transport::stdio_pipes();
    serve_on(stack, reader, writer, stop, GRACE).await
}

/// Like [`serve`], on any pair of streams, until `stop` is cancelled.
async fn serve_on<H, R, W>(
    stack: Arc<Stack<H>>,
    reader: R,
    writer: W,
    stop: CancellationToken,
    grace: Duration,
) -> io::Result<()>
where
    H: ServerHandler,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    // Cancelled at the end of the grace period; it cancels every running call.
    let over = CancellationToken::new();
    let wire = StdioWire::new(reader, writer, stop, over.clone(), grace);
    let outcome = loop {
        match serve_server_with_ct(Arc::clone(&stack), wire.attach(&stack), over.clone()).await {
            Ok(running) => {
                break running
                    .waiting()
                    .await
                    .map(|_| ())
                    .map_err(io::Error::other);
            }
            // A message before the handshake was answered or needs no answer, and the client may
            // try again.
            Err(
                ServerInitializeError::ExpectedInitializeRequest(_)
                | ServerInitializeError::InitializeFailed(_),
            ) => {}
            Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
                break Ok(());
            }
            Err(err) if wire.is_broken() => {
                // The client is gone; that is not an error.
                drop(err);
                break Ok(());
            }
            Err(err) => break Err(io::Error::other(err)),
        }
    };
    stack.close();
    stack.cancel();
    stack.drain(grace).await;
    outcome
}

#[cfg(test)]
pub(in crate::mcp) mod tests;
