//! Whoever writes the messages of commits for a caller, where somebody does.
//!
//! A front door whose caller has a model at hand gives its [`Context`](super::Context) a [`Scribe`]. It may take its
//! time, and may have nothing to say: then a message is made from the changes, as it is without one.

use std::fmt;
use std::sync::Arc;

/// Writes messages of commits.
#[derive(Clone, Default)]
pub struct Scribe(Option<Arc<Writer>>);

/// What is shown of a commit goes in, a message comes out.
type Writer = dyn Fn(&str) -> Option<String> + Send + Sync;

impl Scribe {
    /// One who writes.
    pub fn new(write: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(write)))
    }

    /// The message of a commit, after what is shown of it; nothing without anybody who writes.
    pub fn write(&self, shown: impl FnOnce() -> String) -> Option<String> {
        self.0.as_ref().and_then(|write| write(&shown()))
    }
}

impl fmt::Debug for Scribe {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "Scribe(…)" } else { "Scribe(nobody)" })
    }
}
