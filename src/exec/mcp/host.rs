//! The process that owns one server during a run.
//!
//! It listens on a socket in its folder, which tools can reach too: it serves only callers that know its
//! token, one at a time, and keeps the server in between. A server that no longer answers is restarted before the next call, with a warning. If a
//! caller disconnects, its call is cancelled. The host ends on request or with its supervisor, and
//! ends its server too.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

use super::connection::{BrokenConnection, Connection};
use super::talk::ServerStderr;
use super::{Ask, HostToken, McpServer, SOCKET, Tell};
use crate::exec::worker::{FailureKind, WorkFailure, WorkerEnd};

/// How long stderr of a server may arrive after its answer.
const AFTERWORDS: Duration = Duration::from_millis(3);

/// How long a caller may take to send the token.
const ADMISSION: Duration = Duration::from_secs(5);

#[derive(Debug, Serialize, Deserialize)]
pub(in crate::exec) struct McpHostJob {
    server: McpServer,
    token: HostToken,
}

impl McpHostJob {
    pub(super) fn new(server: McpServer, token: HostToken) -> Self {
        Self { server, token }
    }

    pub(in crate::exec) fn carry_out(self) -> WorkerEnd {
        let runtime = match tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
        {
            Ok(runtime) => runtime,
            Err(err) => {
                return WorkFailure::new(FailureKind::Job, format!("cannot serve: {err}")).into();
            }
        };
        let mut host = ServerHost {
            server: self.server,
            connection: None,
            talk: ServerStderr::default(),
        };
        let served = runtime.block_on(host.serve(&self.token));
        // Do not wait for a thread that still resolves a name.
        runtime.shutdown_background();
        WorkerEnd::Exit(u8::from(served.is_err()))
    }
}

struct ServerHost {
    server: McpServer,
    connection: Option<Connection>,
    talk: ServerStderr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostTurn {
    Caller,
    End,
}

/// The lines of a caller and the way back to it.
type CallerStreams = (BufReader<OwnedReadHalf>, OwnedWriteHalf);

struct HostCaller {
    lines: BufReader<OwnedReadHalf>,
    tell: mpsc::Sender<Tell>,
}

impl ServerHost {
    async fn serve(&mut self, token: &HostToken) -> std::io::Result<()> {
        // Bind under another name and rename: once the socket is visible, callers can connect.
        let listener = UnixListener::bind("binding")?;
        std::fs::rename("binding", Path::new(SOCKET))?;
        let (admit, mut admitted) = mpsc::channel(1);
        loop {
            let caller = tokio::select! {
                accepted = listener.accept() => {
                    // A process that proves nothing must not keep the callers waiting.
                    let admission = admission(accepted?.0, token.line(), admit.clone());
                    tokio::spawn(admission);
                    continue;
                }
                Some(caller) = admitted.recv() => caller,
            };
            if self.attend(caller).await == HostTurn::End {
                break;
            }
        }
        if let Some(connection) = self.connection.take() {
            connection.close().await;
        }
        Ok(())
    }

    /// Serves one caller.
    async fn attend(&mut self, (lines, mut to): CallerStreams) -> HostTurn {
        let (tell, mut told) = mpsc::channel::<Tell>(64);
        let writer = tokio::spawn(async move {
            while let Some(message) = told.recv().await {
                let Ok(mut line) = serde_json::to_vec(&message) else {
                    continue;
                };
                line.push(b'\n');
                if to.write_all(&line).await.is_err() {
                    return;
                }
            }
        });
        let mut caller = HostCaller { lines, tell };
        let next = self.answer_all(&mut caller).await;
        self.talk.detach();
        drop(caller);
        // Flush queued messages, unless the caller does not read.
        let _ = tokio::time::timeout(Duration::from_secs(5), writer).await;
        next
    }

    async fn answer_all(&mut self, caller: &mut HostCaller) -> HostTurn {
        let mut is_first = true;
        loop {
            let mut line = String::new();
            match caller.lines.read_line(&mut line).await {
                Ok(1..) => {}
                Ok(_) | Err(_) => return HostTurn::Caller,
            }
            let Ok(ask) = serde_json::from_str::<Ask>(&line) else {
                return HostTurn::Caller;
            };
            if matches!(ask, Ask::End) {
                return HostTurn::End;
            }
            if is_first {
                self.talk.attach(&caller.tell).await;
            }
            let Some(tell) = self.answer(ask, caller, is_first).await else {
                return HostTurn::Caller;
            };
            is_first = false;
            tokio::time::sleep(AFTERWORDS).await;
            if caller.tell.send(tell).await.is_err() {
                return HostTurn::Caller;
            }
        }
    }

    /// Answers one request; `None` when the caller has disconnected.
    async fn answer(&mut self, ask: Ask, caller: &mut HostCaller, is_first: bool) -> Option<Tell> {
        if is_first {
            tokio::select! {
                ready = ready(&self.server, &self.talk, &mut self.connection, &caller.tell) => {
                    if let Err(failure) = ready {
                        return Some(Tell::Failed(failure));
                    }
                }
                () = gone(&mut caller.lines) => return None,
            }
        }
        let Some(connection) = &mut self.connection else {
            return Some(Tell::Failed(WorkFailure::new(
                FailureKind::McpServer,
                "the MCP server is not there",
            )));
        };
        let answered = match ask {
            Ask::List => tokio::select! {
                listed = connection.list() => listed.map(Tell::Tools),
                () = gone(&mut caller.lines) => return None,
            },
            Ask::Call { tool, arguments } => match connection.call(tool, arguments).await {
                Err(broken) => Err(broken),
                Ok(mut pending) => tokio::select! {
                    result = pending.answer() => result.map(Tell::Result),
                    () = gone(&mut caller.lines) => {
                        pending.cancel().await;
                        return None;
                    }
                },
            },
            Ask::End => return None,
        };
        let broken = match answered {
            Ok(tell) => return Some(tell),
            Err(broken) => broken,
        };
        let is_off = matches!(broken, BrokenConnection::Off(_));
        let failure = connection.explain(broken, &self.server.id).await;
        if is_off && let Some(connection) = self.connection.take() {
            connection.close().await;
        }
        Some(Tell::Failed(failure))
    }
}

/// Admits a connection whose first line is the token; closes any other.
async fn admission(stream: UnixStream, token: Vec<u8>, admit: mpsc::Sender<CallerStreams>) {
    let (from, to) = stream.into_split();
    let mut lines = BufReader::new(from);
    let mut line = Vec::new();
    let mut first = (&mut lines).take(token.len() as u64);
    let read = tokio::time::timeout(ADMISSION, first.read_until(b'\n', &mut line)).await;
    if matches!(read, Ok(Ok(_))) && line == token {
        // The host ends otherwise.
        let _ = admit.send((lines, to)).await;
    }
}

/// Makes sure that the server runs; a broken one is restarted once.
async fn ready(
    server: &McpServer,
    talk: &ServerStderr,
    connection: &mut Option<Connection>,
    tell: &mpsc::Sender<Tell>,
) -> Result<(), WorkFailure> {
    if let Some(found) = connection.take() {
        if found.is_well().await {
            *connection = Some(found);
            return Ok(());
        }
        found.close().await;
        let warning = format!(
            "the MCP server `{}` stopped responding and was restarted",
            server.id
        );
        // If the caller is gone, the next read shows it.
        let _ = tell.send(Tell::Warning(warning)).await;
    }
    *connection = Some(Connection::open(server, talk).await?);
    Ok(())
}

/// Waits until a caller disconnects; it sends nothing while it waits for an answer.
async fn gone(lines: &mut BufReader<OwnedReadHalf>) {
    loop {
        match lines.fill_buf().await {
            Ok(bytes) if !bytes.is_empty() => std::future::pending::<()>().await,
            Ok(_) | Err(_) => return,
        }
    }
}
