//! Git hooks: putting them into a repository, and what each does.
//!
//! [`entry::run`] is what happens when git runs one of them.

pub mod entry;

pub use crate::checkpoint::hook::Hook;
