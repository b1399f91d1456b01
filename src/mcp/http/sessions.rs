//! Sessions of clients of 2025-11-25: how many there are, and which one goes when there are too many.
//!
//! rmcp can end sessions after a silence, but a call that says nothing for longer is silent too. So
//! sessions end when their client says so, or when there is no more room and they were used the longest ago.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::streamable_http_server::session::{SessionId, SessionManager};

/// How many sessions there may be.
pub(super) const MAX_SESSIONS: usize = 256;

/// A session that was used more recently is not given up for another.
const RECENT: Duration = Duration::from_mins(5);

/// The sessions, and when they were used last.
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
        Self { manager: Arc::new(manager), used: Mutex::default() }
    }

    pub(super) fn manager(&self) -> Arc<LocalSessionManager> {
        Arc::clone(&self.manager)
    }

    /// Notes that a session is used.
    pub(super) fn note(&self, id: &str) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        // Only what was made here: a client may send any id.
        if let Some(last) = used.get_mut(id) {
            *last = Instant::now();
        }
    }

    /// Notes a session that was made.
    pub(super) fn add(&self, id: &str) {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).insert(id.into(), Instant::now());
    }

    /// Whether there is room for one more, after the oldest was given up if need be.
    pub(super) async fn make_room(&self) -> bool {
        if self.manager.sessions.read().await.len() < MAX_SESSIONS {
            return true;
        }
        let existing: Vec<SessionId> = self.manager.sessions.read().await.keys().cloned().collect();
        let oldest = {
            let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            used.retain(|id, _| existing.contains(id));
            let idle = used.iter().filter(|(_, last)| last.elapsed() > RECENT);
            idle.min_by_key(|(_, last)| **last).map(|(id, _)| id.clone())
        };
        match oldest {
            Some(id) => self.manager.close_session(&id).await.is_ok(),
            None => false,
        }
    }
}
