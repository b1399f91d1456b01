//! The front door of agents: an MCP server in both protocol eras.
//!
//! [`server`] is what clients see: four tools, each glue over the functions that the terminal calls.
//! [`desk`] knows the projects that are served, [`call`] is one call and gives it a thread of its own: only
//! this module is asynchronous; what runs tools or git is not. [`answer`] and [`failure`] are what goes back.
//! [`stack`] guards the server, [`stdio`] and [`http`] are the ways in.

pub(crate) mod answer;
pub(crate) mod arguments;
pub(crate) mod call;
pub mod desk;
pub(crate) mod execute;
pub(crate) mod failure;
pub(crate) mod help;
pub mod http;
pub(crate) mod load;
pub(crate) mod search;
pub mod server;
mod shutdown;
mod size;
pub mod stack;
pub mod stdio;
mod toolbox;

use std::sync::Arc;

use server::Server;
use stack::Stack;

/// Serves on standard input and output until the client is gone.
pub fn serve_stdio(server: Server) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(stdio::serve(Arc::new(Stack::new(server))));
    // Without waiting: a thread that reads a terminal cannot be told to stop, and calls had their time.
    runtime.shutdown_background();
    outcome
}
