//! The person at the terminal, if a front door has one to ask.
//!
//! A front door that can ask gives its [`Context`](super::Context) a [`Person`]. Without one every
//! question is answered with no, which is always the safe answer.

use std::fmt;
use std::sync::Arc;

/// Answers questions with yes or no.
#[derive(Clone, Default)]
pub struct Person(Option<Arc<Ask>>);

/// Takes a question; returns true if the person says yes.
type Ask = dyn Fn(&str) -> bool + Send + Sync;

impl Person {
    pub fn new(ask: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(ask)))
    }

    /// Whether the person says yes to a question; false without a person.
    pub fn agrees(&self, question: impl FnOnce() -> String) -> bool {
        self.0.as_ref().is_some_and(|ask| ask(&question()))
    }
}

impl fmt::Debug for Person {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() {
            "Person(…)"
        } else {
            "Person(none)"
        })
    }
}
