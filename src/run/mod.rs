//! Running steps: the one place that joins processes, checkpoints and the journal.
//!
//! [`session::Session`] is a run; [`step`] runs a command line, [`tool`] calls a tool, [`settle`] decides about its changes,
//! [`undo`] leads back, [`atomic`] takes a whole run back that failed, [`checkpoint`] commits by itself, [`baseline`] tells an agent's own edits,
//! [`worktree`] gives a run files of its own and [`finish`] brings them home, [`past`] looks back, [`situation`] tells runs that are alive from dead
//! ones, [`author`] and [`trust`] know who signed what and whom the user trusts, and [`recovery`] comes first, always.

pub mod acceptance;
pub mod account;
pub mod agent;
mod atomic;
pub mod author;
pub mod baseline;
pub mod checkpoint;
pub mod directive;
pub mod doctor;
pub mod draft;
pub mod error;
pub mod finish;
pub mod gc;
pub mod hand;
pub mod hard;
pub mod headline;
pub mod items;
pub mod marker;
pub mod outputs;
pub mod past;
pub mod presence;
pub mod recovery;
pub mod remainder;
mod reversal;
pub mod review;
pub mod rewrite;
pub mod selftest;
pub mod session;
mod settle;
pub mod situation;
mod standing;
pub mod step;
mod takeover;
pub mod tool;
mod touched;
pub mod trust;
pub mod undo;
mod unsettled;
pub mod values;
pub mod worktree;
