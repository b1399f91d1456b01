//! Python scripts: how they are called, and the environments that they run in.
//!
//! [`bootstrap`] is the small program that calls `main(**parameters)` of the judged bytes and hands
//! the result over a private channel. [`venv`] makes virtual environments, once for each
//! interpreter and list of packages.

pub(super) mod bootstrap;
pub(super) mod venv;

pub use venv::{remove_unused, unused};
