//! Reading back what happened: runs and steps from their journals.
//!
//! [`history::History`] is the type to read first. Nothing here changes a work tree, a branch or a
//! journal.

pub mod history;
pub mod reference;
pub mod retention;
pub mod verification;
