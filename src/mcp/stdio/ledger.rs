//! Which requests are open: read, and not yet answered.

use std::collections::{HashMap, HashSet, VecDeque};

use rmcp::model::{ClientNotification, RequestId};

/// How many requests may be open. The stack refuses long before; this bounds refusals that nobody reads.
pub(super) const MAX_OPEN: usize = 2048;

/// How many bytes of requests may be open.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// How many cancelled ids are remembered.
const MAX_CANCELLED: usize = 4096;

/// Why a request is not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Its id belongs to a request that is still open.
    InUse,
    /// Its id belongs to a cancelled request, whose handler may still be at work. A late answer would be
    /// taken for the answer to this one.
    Cancelled,
    /// Too much is open.
    Full,
}

/// The requests that are open.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    open: HashMap<RequestId, usize>,
    bytes: usize,
    cancelled: HashSet<RequestId>,
    order: VecDeque<RequestId>,
}

impl Ledger {
    /// Notes a request of so many bytes.
    pub(super) fn open(&mut self, id: &RequestId, bytes: usize) -> Result<(), Refusal> {
        if self.open.contains_key(id) {
            return Err(Refusal::InUse);
        }
        if !self.cancelled.is_empty() && self.cancelled.contains(id) {
            return Err(Refusal::Cancelled);
        }
        if !self.open.is_empty() && self.bytes + bytes > MAX_BYTES {
            return Err(Refusal::Full);
        }
        self.open.insert(id.clone(), bytes);
        self.bytes += bytes;
        Ok(())
    }

    /// Notes an answer.
    pub(super) fn close(&mut self, id: &RequestId) {
        if let Some(bytes) = self.open.remove(id) {
            self.bytes -= bytes;
        }
    }

    /// Notes what a notification says about requests: a cancelled one is not answered.
    pub(super) fn note(&mut self, notification: &ClientNotification) {
        let ClientNotification::CancelledNotification(cancelled) = notification else { return };
        let Some(id) = cancelled.params.request_id.as_ref().filter(|id| self.open.contains_key(id)) else { return };
        self.close(id);
        if self.order.len() == MAX_CANCELLED
            && let Some(oldest) = self.order.pop_front()
        {
            self.cancelled.remove(&oldest);
        }
        self.cancelled.insert(id.clone());
        self.order.push_back(id.clone());
    }

    /// How many requests are open.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }
}
