//! The front door of agents: an MCP server in both protocol eras.
//!
//! [`server`] is what clients see: four tools, each glue over the functions that the terminal calls.
//! [`desk`] knows the projects that are served, [`call`] is one call and gives it a thread of its own: only
//! this module is asynchronous; what runs tools or git is not. [`answer`] and [`failure`] are what goes back.
//! [`stack`] guards the server, [`stdio`] and [`http`] are the ways in; [`install`] tells clients of it.

pub(crate) mod answer;
pub(crate) mod arguments;
pub(crate) mod call;
pub mod desk;
pub(crate) mod execute;
pub(crate) mod failure;
pub(crate) mod help;
pub mod http;
pub mod install;
pub(crate) mod load;
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
use std::time::Duration;

use http::{HttpError, HttpOptions};
use server::Server;
use stack::Stack;
use tokio::runtime::Runtime;

/// How long threads that were told to end may take before the process ends without them. What they leave
/// behind is put in order by the next start.
const LAST_MOMENT: Duration = Duration::from_secs(2);

/// Serves on standard input and output until the client is gone.
pub fn serve_stdio(server: Server) -> io::Result<()> {
    let runtime = runtime()?;
    let served = runtime.block_on(stdio::serve(Arc::new(Stack::new(server))));
    runtime.shutdown_timeout(LAST_MOMENT);
    served
}

/// Serves over HTTP until a signal asks to stop; says where it listens.
pub fn serve_http(server: Server, options: &HttpOptions, ready: impl FnOnce(SocketAddr)) -> Result<(), HttpError> {
    let runtime = runtime().map_err(HttpError::Signals)?;
    let served = runtime.block_on(http::serve(Arc::new(Stack::new(server)), options, ready));
    runtime.shutdown_timeout(LAST_MOMENT);
    served
}

fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}
