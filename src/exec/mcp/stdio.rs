//! A server as a child process: one message per line on its standard streams.

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};

use super::LARGEST;
use super::wire::{Ends, JsonRpcWire, WireFault};
use crate::exec::worker::{FailureKind, WorkFailure};

/// Carries messages over two pipes.
pub(super) fn connect(
    to: impl AsyncWrite + Send + Unpin + 'static,
    from: impl AsyncRead + Send + Unpin + 'static,
    fault: &WireFault,
) -> JsonRpcWire {
    let (
        wire,
        Ends {
            mut outgoing,
            incoming,
        },
    ) = JsonRpcWire::new(fault.clone());
    tokio::spawn(async move {
        let mut to = to;
        while let Some(mut text) = outgoing.recv().await {
            text.push('\n');
            if to.write_all(text.as_bytes()).await.is_err() || to.flush().await.is_err() {
                return;
            }
        }
    });
    let fault = fault.clone();
    tokio::spawn(async move {
        let mut from = BufReader::new(from);
        loop {
            match line(&mut from).await {
                ServerLine::Text(text) if text.trim().is_empty() => {}
                ServerLine::Text(text) => {
                    if incoming.send(text).await.is_err() {
                        return;
                    }
                }
                ServerLine::TooLong => return fault.record(too_large()),
                ServerLine::End => return,
            }
        }
    });
    wire
}

/// The failure for a message over the size limit.
pub(super) fn too_large() -> WorkFailure {
    let message = format!(
        "the server sent a message of more than {} MiB",
        LARGEST / (1024 * 1024)
    );
    WorkFailure::new(FailureKind::McpProtocol, message)
        .suggest("have the tool return less, or write to a file")
}

enum ServerLine {
    Text(String),
    TooLong,
    End,
}

/// Reads one line, up to the size limit.
async fn line(from: &mut (impl AsyncBufReadExt + Unpin)) -> ServerLine {
    let mut bytes = Vec::new();
    let limit = LARGEST as u64 + 1;
    match (&mut *from).take(limit).read_until(b'\n', &mut bytes).await {
        Ok(0) | Err(_) => ServerLine::End,
        Ok(_) if bytes.last() != Some(&b'\n') && bytes.len() > LARGEST => ServerLine::TooLong,
        Ok(_) => ServerLine::Text(String::from_utf8_lossy(&bytes).into_owned()),
    }
}
