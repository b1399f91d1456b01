//! The person at the terminal, where a front door has one to ask.
//!
//! A front door that can ask gives its [`Context`](super::Context) a [`Person`]. Without one every question is answered
//! with no, so what a question protects stays as it is.

use std::fmt;
use std::sync::Arc;

/// Answers questions with yes or no.
#[derive(Clone, Default)]
pub struct Person(Option<Arc<Ask>>);

/// A question goes in; true comes out when the person has said yes.
type Ask = dyn Fn(&str) -> bool + Send + Sync;

impl Person {
    /// A person who can be asked.
    pub fn new(ask: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(ask)))
    }

    /// Whether the person says yes to a question; no where there is no person.
    pub fn agrees(&self, question: impl FnOnce() -> String) -> bool {
        self.0.as_ref().is_some_and(|ask| ask(&question()))
    }
}

impl fmt::Debug for Person {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "Person(…)" } else { "Person(none)" })
    }
}
