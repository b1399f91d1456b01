//! Python scripts: how they are called, and their virtual environments.
//!
//! [`bootstrap`] is the small program that calls `main(**parameters)` of the checked bytes and
//! returns the result over a private channel. [`venv`] creates virtual environments, one per
//! interpreter and list of packages.

pub(super) mod bootstrap;
pub(super) mod venv;
