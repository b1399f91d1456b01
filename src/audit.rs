//! Reads back what happened: runs and steps from journals, and from logs stored in git.
//!
//! [`history::History`] is the type to read first. Nothing here changes a work tree, a branch or a
//! journal. [`trail`] writes logs, which are our own refs.

pub mod blame;
pub mod error;
pub mod fate;
pub mod history;
pub mod reference;
pub mod retention;
pub mod sync;
pub mod trail;
pub mod verification;
