//! Integration tests: the real binary, real git.

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

mod architecture;
mod codes;
mod config;
mod directive;
mod forest;
mod guide;
mod harness;
mod hazards;
mod init;
mod quickstart;
mod resolution;
mod tool;
mod usage;
mod validate;
