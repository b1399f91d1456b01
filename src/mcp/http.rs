//! Serving clients over HTTP: streamable HTTP below `/mcp`, with sessions (2025-11-25) or without (2026-07-28).
//!
//! rmcp speaks the protocol; what stands around it is here: only this machine unless the caller says so, a
//! bearer token, Host and Origin that must be known, bounds for connections, headers, bodies and sessions.
//! Start with [`serve`] and [`HttpOptions`].

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

pub use access::{Access, HttpError, HttpOptions, Reach, Token};

use super::shutdown;
use super::stack::{Drained, Stack};
use door::Door;

/// The longest body of a request.
pub const MAX_BODY: usize = 4 * 1024 * 1024;

/// How many connections are open at the same time. Others wait to be accepted.
const MAX_CONNECTIONS: usize = 256;

/// How long a client may take for its headers, and for its body.
const SLOWEST: Duration = Duration::from_secs(30);

/// How much room there is for the headers of a request.
const MAX_HEADERS: usize = 64 * 1024;

/// How long calls may go on when the server is asked to stop.
const GRACE: Duration = Duration::from_secs(10);

/// How long answers may take to be sent then.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Serves until a signal asks to stop. Says where it listens as soon as it does.
pub async fn serve<H: ServerHandler>(
    stack: Arc<Stack<H>>,
    options: &HttpOptions,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), HttpError> {
    let stop = shutdown::signalled().map_err(HttpError::Signals)?;
    serve_until(stack, options, ready, stop, GRACE).await
}

/// The same until `stop` is cancelled.
async fn serve_until<H: ServerHandler>(
    stack: Arc<Stack<H>>,
    options: &HttpOptions,
    ready: impl FnOnce(SocketAddr),
    stop: CancellationToken,
    grace: Duration,
) -> Result<(), HttpError> {
    options.check()?;
    let refused = |source| HttpError::Bind { address: options.address, source };
    let listener = TcpListener::bind(options.address).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    // Cancelled when every call has ended: streams that are still open end then.
    let over = CancellationToken::new();
    let door = Arc::new(Door::new(Arc::clone(&stack), options, address, over.clone()));
    ready(address);

    let mut connections = JoinSet::new();
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    // Cancelled when connections take no more requests.
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
    let everybody = async { while connections.join_next().await.is_some() {} };
    tokio::pin!(everybody);
    // Answers are sent first; streams without an end would wait for ever.
    if tokio::time::timeout(LAST_WORDS, everybody.as_mut()).await.is_err() {
        over.cancel();
        let _ = tokio::time::timeout(LAST_WORDS, everybody).await;
    }
    Ok(())
}

/// The next client, once there is room for one.
async fn accepted(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> (TcpStream, Option<tokio::sync::OwnedSemaphorePermit>) {
    // The semaphore is never closed.
    let permit = Arc::clone(room).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let _ = stream.set_nodelay(true);
                return (stream, permit);
            }
            // Out of descriptors, or a client that is gone already: both pass.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Serves one connection.
async fn converse<H: ServerHandler>(stream: TcpStream, door: Arc<Door<H>>, leave: CancellationToken) {
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
    // How a connection ended is of no interest: whoever was served has its answer.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = leave.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

#[cfg(test)]
mod tests;
