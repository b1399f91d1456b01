//! Running steps: the one place that joins processes, checkpoints and the journal.
//!
//! [`session::Session`] is a run; [`step`] runs a command line, [`tool`] calls a tool, [`settle`] decides about its changes,
//! [`undo`] leads back, [`checkpoint`] commits by itself, and [`recovery`] comes first, always.

pub mod checkpoint;
pub mod error;
pub mod gc;
pub mod hard;
mod outputs;
pub mod recovery;
pub mod session;
mod settle;
pub mod step;
pub mod tool;
pub mod undo;
