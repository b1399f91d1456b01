//! What the official MCP conformance suite expects to find in a server, on piton's own stack.
//!
//! The suite calls tools, resources and prompts with fixed names. They are mounted here behind the same
//! [`Stack`] and the same HTTP server that `piton mcp --http` uses, so that those are what is measured.
//! Prints the address and serves until SIGTERM; `scripts/conformance` runs it.

#![expect(clippy::print_stdout, reason = "tells the script where it listens")]

mod fixtures;
mod questions;
mod shelf;

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use piton::mcp::http::{self, ClientAccess, HttpOptions, ListenReach};
use piton::mcp::stack::Stack;

use fixtures::Fixtures;

fn main() -> Result<(), Box<dyn Error>> {
    let options = HttpOptions {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        reach: ListenReach::Loopback,
        access: ClientAccess::Open,
        allowed_hosts: Vec::new(),
        allowed_origins: Vec::new(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let stack = Arc::new(Stack::new(Fixtures::new()));
    runtime.block_on(http::serve(stack, &options, |address| {
        println!("http://{address}/mcp");
    }))?;
    Ok(())
}
