//! piton runs directives and tools in a git repository with a safety rope.
//!
//! The modules, front door first; each may use those below it and never one above
//! (`docs/ARCHITECTURE.md`):
//!
//! - [`cli`]: the terminal; the only printer.
//! - [`mcp`]: the server of agents; glue, and the only place that is asynchronous.
//! - [`hooks`]: git hooks: putting them into a repository, and what each does.
//! - [`error`]: what the front doors report, with codes, hints and exit codes.
//! - [`run`]: running steps; the one place that joins processes, checkpoints and the journal.
//! - [`audit`]: reading back what happened, from the journals.
//! - [`journal`]: what a run did, event by event, in a chain that shows tampering; the lock of a worktree.
//! - [`validation`]: every finding about a project in one pass; joins item, chains and syntax.
//! - [`policy`]: may a call do what it is about to do; pure.
//! - [`exec`]: executor chains and the only place that starts processes.
//! - [`checkpoint`]: what a step did to the work tree, kept or put back; all of libgit2.
//! - [`context`]: project, home, environment, settings and clock; the only reader of the process.
//! - [`config`]: settings in layers, each value with its source.
//! - [`item`]: what is on disk under `.ai/`; parsing and validation, never execution.
//! - [`problem`]: what a user can be told: codes, hints and problems.
//! - [`disk`]: when the files that piton writes reach the disk.
//! - [`failpoint`]: where tests let piton die; nothing in release builds.

pub mod audit;
pub mod checkpoint;
pub mod cli;
pub mod config;
pub mod context;
pub mod disk;
pub mod error;
pub mod exec;
pub mod failpoint;
pub mod hooks;
pub mod item;
pub mod journal;
pub mod mcp;
pub mod policy;
pub mod problem;
pub mod run;
pub mod validation;
