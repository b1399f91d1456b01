//! Runs tools: executor chains, and the only module that starts processes.
//!
//! [`chain`], [`description`] and [`resolve_call`] are pure and produce an [`invocation`]. [`syntax`]
//! asks interpreters to parse a script without running it. [`subprocess`] runs a command line and
//! kills everything that it leaves behind; [`worker`] is piton's own code in a process of its own;
//! [`ssh`] calls `ssh-keygen`; [`process`] identifies processes across reused ids.

pub mod call;
pub mod chain;
mod container;
mod contract;
pub mod description;
mod http;
pub mod interrupt;
pub mod invocation;
pub mod isolation;
mod javascript;
pub mod mcp;
mod node;
pub mod packages;
pub mod pager;
pub mod parameters;
mod parser;
pub mod private_folder;
pub mod process;
mod python;
mod resolve;
pub mod ssh;
pub mod subprocess;
pub mod supervisor;
pub mod syntax;
mod terminal;
pub mod toolchain;
mod web;
pub mod worker;

pub use resolve::{CallEnvironment, CallRequest, Outline, ResolveError, outline, resolve_call};
pub use web::NetworkReach;

pub(crate) use resolve::{check_stamp, is_always_given, is_public};
