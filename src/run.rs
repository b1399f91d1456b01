//! Running steps: the one place that joins processes, checkpoints and the journal.
//!
//! [`session::Session`] is a run. It has three parts: a `Recorder`, a `WorktreeLock` and a
//! `Checkpointer`. The other modules are functions over these parts: [`step`] runs a command line,
//! [`tool`] calls a tool, [`settle`] commits or rolls back its changes, [`directive`] runs a
//! directive, [`undo`] and [`atomic`] revert steps and runs, [`checkpoint`] commits by itself,
//! [`finish`] merges the run of a [`linked_worktree`], and [`recovery`] comes before all of them.

pub mod acceptance;
pub mod active_run;
pub mod agent;
mod atomic;
pub mod baseline;
mod belonging;
mod caches;
pub mod checkpoint;
pub mod confinement;
pub mod consent;
pub mod directive;
pub mod error;
pub mod error_titles;
pub mod finish;
pub mod gc;
pub mod hard_rollback;
pub mod items;
pub mod journal_trust;
pub mod json;
pub mod linked_worktree;
pub mod manual_commits;
pub mod message_request;
pub mod narration;
pub mod outputs;
pub mod pinned_authority;
pub mod project_history;
mod recorder;
pub mod recovery;
pub mod remainder;
mod resume_point;
mod reversal;
pub mod review;
pub mod rewrite;
mod secrecy;
pub mod session;
mod settle;
pub mod situation;
pub mod step;
mod takeover;
pub mod tool;
mod touched;
pub mod undo;
pub mod unfinished_note;
mod unsettled;
mod worktree_lock;
