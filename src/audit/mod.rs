//! Reading back what happened: runs and steps from their journals, and from logs that travel in git.
//!
//! [`history::History`] is the type to read first. Nothing here changes a work tree, a branch or a
//! journal; [`trail`] writes logs, which are refs of our own.

pub mod blame;
pub mod error;
pub mod fate;
pub mod history;
pub mod reference;
pub mod retention;
pub mod trail;
pub mod travel;
pub mod verification;
