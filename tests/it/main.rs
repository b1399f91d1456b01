//! Integration tests: the real binary, real git.

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

mod architecture;
mod audit;
mod call;
mod checkpoint;
mod codes;
mod company;
mod config;
mod crash;
mod directive;
mod exec;
mod faults;
mod finish;
mod forest;
mod git_checkpoint;
mod guard;
mod guards;
mod guide;
mod harness;
mod hazards;
mod init;
mod item_steps;
mod own_items;
mod permission;
mod property;
mod quickstart;
mod resolution;
mod rollback;
mod run;
mod supervisor;
mod tampering;
mod tool;
mod tool_audit;
mod tool_run;
mod tool_usage;
mod trail;
mod usage;
mod validate;
mod worktree;
