//! The front door of agents: an MCP server in both protocol eras.
//!
//! [`server`] is what clients see: four tools, each glue over the functions that the terminal calls.
//! [`desk`] knows the projects that are served, [`call`] is one call and gives it a thread of its own: only
//! this module is asynchronous; what runs tools or git is not. [`decision`] asks a person, [`tale`] tells how far a run is; [`answer`] and [`failure`] are what goes back.

pub(crate) mod answer;
pub(crate) mod arguments;
pub(crate) mod call;
pub(crate) mod decision;
pub mod desk;
pub(crate) mod execute;
pub(crate) mod failure;
pub(crate) mod help;
pub(crate) mod load;
pub(crate) mod search;
pub mod server;
mod tale;
mod toolbox;

use rmcp::ServiceExt as _;

use server::Server;

/// Serves on standard input and output until the client is gone.
pub fn serve_stdio(server: Server) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let running = server.serve(rmcp::transport::stdio_pipes()).await.map_err(std::io::Error::other)?;
        running.waiting().await.map_err(std::io::Error::other)?;
        Ok(())
    })
}
