//! The sessions of 2025-11-25 clients: their limit, and which one is closed to make room.
//!
//! rmcp can close sessions that are silent for some time, but a long call without progress is
//! silent too. So a session ends only when its client ends it, or when it is the least recently
//! used one and room is needed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::streamable_http_server::session::{SessionId, SessionManager};

pub(super) const MAX_SESSIONS: usize = 256;

/// A session that was used within this time is not closed to make room.
const RECENT: Duration = Duration::from_mins(5);

/// The sessions and the times of their last use.
#[derive(Debug)]
pub(super) struct Sessions {
    manager: Arc<LocalSessionManager>,
    used: Mutex<HashMap<SessionId, Instant>>,
}

impl Sessions {
    pub(super) fn new() -> Self {
        let mut config = SessionConfig::default();
        config.keep_alive = None;
        let mut manager = LocalSessionManager::default();
        manager.session_config = config;
        Self {
            manager: Arc::new(manager),
            used: Mutex::default(),
        }
    }

    pub(super) fn manager(&self) -> Arc<LocalSessionManager> {
        Arc::clone(&self.manager)
    }

    /// Records the use of a session.
    pub(super) fn note(&self, id: &str) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        // Only known ids: a client may send any id.
        if let Some(last) = used.get_mut(id) {
            *last = Instant::now();
        }
    }

    /// Records a new session.
    pub(super) fn add(&self, id: &str) {
        self.used
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id.into(), Instant::now());
    }

    /// Returns true if there is room for one more session, closing the least recently used one if
    /// necessary.
    pub(super) async fn make_room(&self) -> bool {
        if self.manager.sessions.read().await.len() < MAX_SESSIONS {
            return true;
        }
        let existing: Vec<SessionId> = self.manager.sessions.read().await.keys().cloned().collect();
        let oldest = {
            let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            used.retain(|id, _| existing.contains(id));
            let idle = used.iter().filter(|(_, last)| last.elapsed() > RECENT);
            idle.min_by_key(|(_, last)| **last)
                .map(|(id, _)| id.clone())
        };
        match oldest {
            Some(id) => self.manager.close_session(&id).await.is_ok(),
            None => false,
        }
    }
}
