//! The MCP server, for both protocol eras.
//!
//! [`server`] is what clients see: four tools, each glue over the functions that the terminal calls.
//! [`projects`] knows the projects that are served, [`call`] is one call and gives it a thread of its own: only
//! this module is asynchronous; what runs tools or git is not. [`decision`] asks a person, [`progress`] tells how far a run
//! is; [`answer`] and [`failure`] are what goes back,
//! [`hints`] its words. [`stack`] guards the server, [`stdio`] and [`http`] are the ways in;
//! [`install`] tells clients of it.

pub(crate) mod answer;
pub(crate) mod arguments;
pub mod authoring;
pub(crate) mod call;
mod completions;
mod consent;
pub(crate) mod decision;
pub mod dispatch;
pub(crate) mod execute;
pub(crate) mod failure;
pub(crate) mod help;
mod hints;
pub mod http;
pub mod install;
pub(crate) mod load;
mod pagination;
mod progress;
pub mod projects;
mod prompts;
mod resources;
mod roots;
mod sampling;
pub(crate) mod search;
pub mod server;
mod shutdown;
mod size;
pub mod stack;
pub mod stdio;
mod toolbox;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use http::{HttpError, HttpOptions};
use server::Server;
use stack::Stack;
use tokio::runtime::Runtime;

/// Serves on standard input and output until the client is gone.
pub fn serve_stdio(server: Server) -> io::Result<()> {
    let runtime = runtime()?;
    let ended = runtime.block_on(stdio::serve(Arc::new(Stack::new(server))));
    // Do not wait: a thread that reads a terminal cannot be stopped, and running calls had their
    // grace period.
    runtime.shutdown_background();
    ended
}

/// Serves over HTTP until a signal asks to stop. Calls `ready` with the address when it listens.
pub fn serve_http(
    server: Server,
    options: &HttpOptions,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), HttpError> {
    let runtime = runtime().map_err(HttpError::Signals)?;
    let ended = runtime.block_on(http::serve(Arc::new(Stack::new(server)), options, ready));
    runtime.shutdown_background();
    ended
}

fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}
