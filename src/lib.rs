//! piton runs directives and tools in a git repository with a safety rope.
//!
//! The modules, front door first; each may use those below it and never one above
//! (`docs/ARCHITECTURE.md`):
//!
//! - [`cli`]: the terminal; the only printer.
//! - [`error`]: what the front doors report, with codes, hints and exit codes.
//! - [`validation`]: every finding about a project in one pass; joins item, chains and syntax.
//! - [`exec`]: executor chains and the only place that starts processes.
//! - [`context`]: project, home, environment and settings; the only reader of the process.
//! - [`config`]: settings in layers, each value with its source.
//! - [`item`]: what is on disk under `.ai/`; parsing and validation, never execution.

pub mod cli;
pub mod config;
pub mod context;
pub mod error;
pub mod exec;
pub mod item;
pub mod validation;
