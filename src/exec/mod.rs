//! What runs a tool: executor chains, and the only place that starts processes.
//!
//! [`chain`] and [`description`] are pure; [`syntax`] asks interpreters whether they can parse a
//! script, without running it.

pub mod chain;
pub mod description;
pub mod syntax;
