//! Serves clients over streamable HTTP at `/mcp`, with sessions (2025-11-25) or without
//! (2026-07-28).
//!
//! rmcp implements the protocol. This module adds the protection: it listens on this machine only
//! by default, requires a bearer token, checks Host and Origin, and limits connections, headers,
//! bodies and sessions. Start with [`serve`] and [`HttpOptions`].

mod access;
mod door;
mod sessions;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::ServerHandler;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use access::{AccessToken, ClientAccess, HttpError, HttpOptions, ListenReach};

use super::shutdown;
use super::stack::{Drained, Stack};
use door::HttpGate;

pub const MAX_BODY: usize = 4 * 1024 * 1024;

/// The number of open connections. Further clients wait to be accepted.
const MAX_CONNECTIONS: usize = 256;

/// How long a client may take to send its headers, and then its body.
const SLOWEST: Duration = Duration::from_secs(30);

const MAX_HEADERS: usize = 64 * 1024;

/// How long running calls may continue when the server is asked to stop.
const GRACE: Duration = Duration::from_secs(10);

/// How long sending the last answers may take.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Serves until a signal asks to stop. Calls `ready` with the address when it listens.
pub async fn serve<H: ServerHandler>(
    stack: Arc<Stack<H>>,
    options: &HttpOptions,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), HttpError> {
    let stop = shutdown::signalled().map_err(HttpError::Signals)?;
    serve_until(stack, options, ready, stop, GRACE).await
}

/// Like [`serve`], until `stop` is cancelled.
async fn serve_until<H: ServerHandler>(
    stack: Arc<Stack<H>>,
    options: &HttpOptions,
    ready: impl FnOnce(SocketAddr),
    stop: CancellationToken,
    grace: Duration,
) -> Result<(), HttpError> {
    options.check()?;
    let refused = |source| HttpError::Bind {
        address: options.address,
        source,
    };
    let listener = TcpListener::bind(options.address).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    // Cancelled when every call has ended; it ends the streams that are still open.
    let over = CancellationToken::new();
    let door = Arc::new(HttpGate::new(
        Arc::clone(&stack),
        options,
        address,
        over.clone(),
    ));
    ready(address);

    let mut connections = JoinSet::new();
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    // Cancelled when connections accept no more requests.
    let leave = CancellationToken::new();
    loop {
        let stream = tokio::select! {
            stream = accepted(&listener, &room) => stream,
            () = stop.cancelled() => break,
        };
        let (stream, permit) = stream;
        while connections.try_join_next().is_some() {}
        let (door, leave) = (Arc::clone(&door), leave.clone());
        connections.spawn(async move {
            converse(stream, door, leave).await;
            drop(permit);
        });
    }
    drop(listener);

    stack.close();
    if stack.drain(grace).await != Drained::Everything {
        stack.cancel();
        stack.drain(grace).await;
    }
    leave.cancel();
    let all_closed = async { while connections.join_next().await.is_some() {} };
    tokio::pin!(all_closed);
    // Send the answers first. Streams without an end would never finish, so they are cancelled
    // afterwards.
    if tokio::time::timeout(LAST_WORDS, all_closed.as_mut())
        .await
        .is_err()
    {
        over.cancel();
        let _ = tokio::time::timeout(LAST_WORDS, all_closed).await;
    }
    Ok(())
}

/// Accepts the next client when the number of connections allows it.
async fn accepted(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> (TcpStream, Option<tokio::sync::OwnedSemaphorePermit>) {
    // The semaphore is never closed, so this cannot fail.
    let permit = Arc::clone(room).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let _ = stream.set_nodelay(true);
                return (stream, permit);
            }
            // No free file descriptors, or the client is already gone: both are temporary.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn converse<H: ServerHandler>(
    stream: TcpStream,
    door: Arc<HttpGate<H>>,
    leave: CancellationToken,
) {
    let service = service_fn(move |request| {
        let door = Arc::clone(&door);
        async move { Ok::<_, io::Error>(door.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(SLOWEST)
        .max_buf_size(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    // An error of the connection needs no handling: every answered client has its answer.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = leave.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

#[cfg(test)]
mod tests;
