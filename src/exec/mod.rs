//! What runs a tool: executor chains, and the only place that starts processes.
//!
//! [`chain`] and [`description`] are pure; [`syntax`] asks interpreters whether they can parse a
//! script, without running it. [`subprocess`] runs a command line and leaves nothing of it behind;
//! [`process`] tells processes of today from those of yesterday.

pub mod chain;
pub mod description;
pub mod interrupt;
pub mod process;
pub mod subprocess;
pub mod syntax;
mod terminal;
