//! The front door of agents: an MCP server in both protocol eras.
//!
//! Glue over the same functions that the terminal calls. Only this module is asynchronous; what
//! runs tools or git is synchronous and has a thread of its own.

pub mod http;
mod shutdown;
pub mod stack;
pub mod stdio;
