//! piton runs directives and tools in a git repository and makes a checkpoint after every step.
//!
//! The modules, front door first; each may use those below it and never one above
//! (`docs/ARCHITECTURE.md`):
//!
//! - [`cli`]: the terminal; the only printer.
//! - [`mcp`]: the server for agents; asynchronous.
//! - [`hooks`]: git hooks: putting them into a repository, and what each does.
//! - [`error`]: the errors that the front doors report, with codes, hints and exit codes.
//! - [`selftest`]: tests piton on this machine, in a throw-away repository.
//! - [`doctor`]: checks what works on this machine by trying it.
//! - [`run`]: running steps; the one place that joins processes, checkpoints and the journal.
//! - [`authoring`]: the verbs of items: search, load, sign, migrate, create, update and delete.
//! - [`trust`]: the user's trusted keys, signatures of authors, and what a person has seen.
//! - [`values`]: fills in the templates of directives and evaluates their expressions.
//! - [`workspace`]: the repository of a project, its checkpointer, and the folders of its journals.
//! - [`audit`]: reads past runs from the journals.
//! - [`journal`]: what a run did, event by event, in a chain that shows tampering; the lock of a worktree.
//! - [`validation`]: every finding about a project in one pass; joins item, chains and syntax.
//! - [`policy`]: decides whether a call may do what it is about to do; pure.
//! - [`exec`]: executor chains and the only place that starts processes.
//! - [`checkpoint`]: commits or rolls back what a step did to the work tree; the only user of libgit2.
//! - [`context`]: project, home, environment, settings and clock; the only reader of the process.
//! - [`config`]: settings in layers, each value with its source.
//! - [`item`]: parses and validates the files below `.ai/`; never runs them.
//! - [`problem`]: the problems that piton reports: codes, messages and hints.
//! - [`disk`]: makes sure that the files that piton writes reach the disk.
//! - `encoding`: hexadecimal and base64.
//! - `words`: enums whose values are written as one word each.
//! - [`failpoint`]: points at which tests make piton die; empty in release builds.

pub mod audit;
pub mod authoring;
pub mod checkpoint;
pub mod cli;
pub mod config;
pub mod context;
pub mod disk;
pub mod doctor;
pub(crate) mod encoding;
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
pub mod selftest;
pub(crate) mod system_call;
pub mod trust;
pub mod validation;
pub mod values;
pub(crate) mod words;
pub mod workspace;
