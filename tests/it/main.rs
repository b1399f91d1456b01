//! Integration tests: the real binary, real git.

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

mod architecture;
mod audit;
mod checkpoint;
mod codes;
mod config;
mod crash;
mod directive;
mod exec;
mod faults;
mod forest;
mod git_checkpoint;
mod guard;
mod guards;
mod guide;
mod harness;
mod hazards;
mod init;
mod property;
mod quickstart;
mod resolution;
mod rollback;
mod tampering;
mod tool;
mod usage;
mod validate;
