//! The writer of commit messages for a caller.
//!
//! The MCP server gives its [`Context`](super::Context) a [`MessageWriter`] if the client has a model. It
//! may be slow and may return nothing: then the message is made from the changes.

use std::fmt;
use std::sync::Arc;

#[derive(Clone, Default)]
pub struct MessageWriter(Option<Arc<Writer>>);

/// Gets a description of the commit and returns a message.
type Writer = dyn Fn(&str) -> Option<String> + Send + Sync;

impl MessageWriter {
    pub fn new(write: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(write)))
    }

    /// The message for a commit description; `None` without a writer.
    pub fn write(&self, shown: impl FnOnce() -> String) -> Option<String> {
        self.0.as_ref().and_then(|write| write(&shown()))
    }
}

impl fmt::Debug for MessageWriter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() {
            "MessageWriter(…)"
        } else {
            "MessageWriter(none)"
        })
    }
}
