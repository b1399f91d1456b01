//! The open requests: received and not yet answered.

use std::collections::{HashMap, HashSet, VecDeque};

use rmcp::model::{ClientNotification, RequestId};

/// The limit of open requests. The stack refuses calls much earlier; this limits refusals that the
/// client does not read.
pub(super) const MAX_OPEN: usize = 2048;

/// The total size limit of open requests.
const MAX_BYTES: usize = 64 * 1024 * 1024;

const MAX_CANCELLED: usize = 4096;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestRefusal {
    /// A request with the same id is still open.
    InUse,
    /// A cancelled request had the same id, and its handler may still be running. The client would
    /// take a late answer for the answer to this request.
    Cancelled,
    /// The size limit is reached.
    Full,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    open: HashMap<RequestId, usize>,
    bytes: usize,
    cancelled: HashSet<RequestId>,
    order: VecDeque<RequestId>,
}

impl Ledger {
    /// Registers a request of the given size.
    pub(super) fn open(&mut self, id: &RequestId, bytes: usize) -> Result<(), RequestRefusal> {
        if self.open.contains_key(id) {
            return Err(RequestRefusal::InUse);
        }
        if !self.cancelled.is_empty() && self.cancelled.contains(id) {
            return Err(RequestRefusal::Cancelled);
        }
        if !self.open.is_empty() && self.bytes + bytes > MAX_BYTES {
            return Err(RequestRefusal::Full);
        }
        self.open.insert(id.clone(), bytes);
        self.bytes += bytes;
        Ok(())
    }

    /// Removes an answered request.
    pub(super) fn close(&mut self, id: &RequestId) {
        if let Some(bytes) = self.open.remove(id) {
            self.bytes -= bytes;
        }
    }

    /// Handles a notification: a cancelled request gets no answer.
    pub(super) fn note(&mut self, notification: &ClientNotification) {
        let ClientNotification::CancelledNotification(cancelled) = notification else {
            return;
        };
        let Some(id) = cancelled
            .params
            .request_id
            .as_ref()
            .filter(|id| self.open.contains_key(id))
        else {
            return;
        };
        self.close(id);
        if self.order.len() == MAX_CANCELLED
            && let Some(oldest) = self.order.pop_front()
        {
            self.cancelled.remove(&oldest);
        }
        self.cancelled.insert(id.clone());
        self.order.push_back(id.clone());
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }
}
