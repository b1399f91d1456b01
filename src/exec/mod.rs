//! What runs a tool: executor chains, and the only place that starts processes.
//!
//! [`chain`], [`description`] and [`lower()`] are pure: they end in an [`invocation`]. [`syntax`] asks interpreters whether they can parse a
//! script, without running it. [`subprocess`] runs a command line and leaves nothing of it behind;
//! [`worker`] does what no program of the machine does; [`ssh`] asks `ssh-keygen`; [`process`] tells processes of today from those of yesterday.

pub mod call;
pub mod chain;
mod container;
mod contract;
pub mod description;
mod http;
pub mod interrupt;
pub mod invocation;
mod javascript;
mod lower;
pub mod mcp;
pub mod parameters;
mod parser;
pub mod process;
pub mod python;
pub mod ssh;
pub mod subprocess;
pub mod supervisor;
pub mod syntax;
mod terminal;
mod web;
pub mod worker;

pub use lower::{Call, LowerError, Outline, Surroundings, lower, outline};
pub use web::Reach;

pub(crate) use lower::{check_stamp, is_always_given, is_public};
