//! Checkpoints: what a step did to the work tree, kept or put back. All of libgit2 lives here.
//!
//! Nothing of the user's is written except through two doors: a commit that was decided moves the
//! branch and the entries of its own files in the index; a roll back writes the paths of its delta.
//! [`snapshot::Snapshot`] and [`delta::Delta`] are the data that everything else is about,
//! [`checkpointer::Checkpointer`] is who does it.

mod attributes;
pub mod attribution;
mod base;
pub mod blame;
mod capture;
pub mod checkpointer;
pub mod commit;
mod condition;
pub mod content;
pub mod coverage;
pub mod delta;
pub mod diff;
pub mod error;
mod extension;
mod files;
mod filter;
mod git_cli;
pub mod hook;
pub mod hook_site;
mod ident;
mod identity;
mod ignore;
mod index;
pub mod integration;
mod large;
pub mod linked;
mod lock_guard;
mod merge;
pub mod message;
pub mod object;
mod objects;
mod pack;
pub mod path;
pub mod place;
mod provenance;
pub mod reading;
pub mod redo;
mod reference;
pub mod remainder;
pub mod remote;
pub mod repository;
pub mod reset;
pub mod restore;
pub mod reversal;
pub mod rewriting;
mod scan;
mod scratch;
pub mod secret;
mod shared;
pub mod snapshot;
mod sparse;
pub mod staged;
mod staging;
mod stat;
pub mod store;
pub mod substitution;
pub mod trail;
mod tree;
pub mod user_hooks;
pub mod watch;
mod worktree;
