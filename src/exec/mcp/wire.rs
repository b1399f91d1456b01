//! JSON-RPC messages over any transport.
//!
//! A transport puts complete texts into one channel and takes them from another. Here they become
//! messages, and answers without a request are detected. The reason why a connection ended is kept
//! in a [`WireFault`].

use std::collections::HashSet;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{JsonRpcMessage, RequestId};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::mpsc;

use crate::exec::worker::{FailureKind, WorkFailure};
use crate::item::wording::shown;

/// How many invalid texts a server may write.
const MOST_STRAY: usize = 100;

/// How much of such a text is shown.
const SHOWN: usize = 120;

/// Why a connection ended, and which invalid text arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct WireFault(Arc<Mutex<WireState>>);

#[derive(Debug, Default)]
struct WireState {
    failure: Option<WorkFailure>,
    stray: Option<String>,
    count: usize,
}

impl WireFault {
    /// Records why it ended; the first reason stays.
    pub(super) fn record(&self, failure: WorkFailure) {
        self.lock().failure.get_or_insert(failure);
    }

    pub(super) fn failure(&self) -> Option<WorkFailure> {
        self.lock().failure.clone()
    }

    /// Describes the first invalid text.
    pub(super) fn stray(&self) -> Option<String> {
        let text = self.lock().stray.clone()?;
        Some(format!(
            "it wrote `{}`, which is not an MCP message",
            shown(&text)
        ))
    }

    /// Records an invalid text; returns false when there were too many.
    fn bear(&self, text: &str) -> bool {
        let mut state = self.lock();
        state.count += 1;
        if state.stray.is_none() {
            state.stray = Some(text.trim().chars().take(SHOWN).collect());
        }
        state.count <= MOST_STRAY
    }

    fn lock(&self) -> MutexGuard<'_, WireState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(super) struct JsonRpcWire {
    outgoing: Option<mpsc::Sender<String>>,
    incoming: mpsc::Receiver<String>,
    asked: HashSet<RequestId>,
    fault: WireFault,
}

#[derive(Debug, thiserror::Error)]
#[error("the connection has ended")]
pub(super) struct Closed;

/// The transport's ends of a wire.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) outgoing: mpsc::Receiver<String>,
    pub(super) incoming: mpsc::Sender<String>,
}

impl JsonRpcWire {
    pub(super) fn new(fault: WireFault) -> (Self, Ends) {
        let (to, outgoing) = mpsc::channel(16);
        let (incoming, from) = mpsc::channel(16);
        let wire = Self {
            outgoing: Some(to),
            incoming: from,
            asked: HashSet::new(),
            fault,
        };
        (wire, Ends { outgoing, incoming })
    }

    /// Parses a message; `Err` when the connection has to end.
    fn read(&mut self, text: &str) -> Result<Option<RxJsonRpcMessage<RoleClient>>, Closed> {
        let Ok(message) = serde_json::from_str::<RxJsonRpcMessage<RoleClient>>(text) else {
            if self.fault.bear(text) {
                return Ok(None);
            }
            let what = self.fault.stray().unwrap_or_default();
            let message = format!("the server does not speak MCP: {what}, and other invalid lines");
            self.fault.record(
                WorkFailure::new(FailureKind::McpProtocol, message)
                    .suggest("a server must write nothing else to its standard output"),
            );
            return Err(Closed);
        };
        let answered = match &message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        if let Some(id) = answered
            && !self.asked.remove(id)
        {
            let message = format!(
                "the server answered request {id}, which was not made or was answered already"
            );
            self.fault
                .record(WorkFailure::new(FailureKind::McpProtocol, message));
            return Err(Closed);
        }
        Ok(Some(message))
    }
}

impl Transport<RoleClient> for JsonRpcWire {
    type Error = Closed;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &item {
            self.asked.insert(request.id.clone());
        }
        let outgoing = self.outgoing.clone();
        async move {
            let text = serde_json::to_string(&item).map_err(|_| Closed)?;
            outgoing.ok_or(Closed)?.send(text).await.map_err(|_| Closed)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let text = self.incoming.recv().await?;
            if let Some(message) = self.read(&text).ok()? {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // The transport ends when its channel closes.
        self.outgoing = None;
        self.incoming.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
