//! `piton mcp`: runs the MCP server, for agents.

mod install;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use super::ui::Ui;
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::item::source::read_bytes;
use crate::mcp::authoring::Authoring;
use crate::mcp::http::{AccessToken, HttpError, HttpOptions, ListenReach};
use crate::mcp::projects::Projects;
use crate::mcp::server::Server;
use crate::problem::Explain;

/// The variable with the token for HTTP clients.
const TOKEN: &str = "PITON_MCP_TOKEN";
/// The maximum size of a token file.
const MOST: u64 = 4096;

/// Serve agents over MCP, on stdio or HTTP
///
/// Agents can search and read items, run tools and directives, and work through the manual steps of a
/// directive; piton checkpoints what they change. The server serves this project and the projects below
/// `--root`. Over HTTP, clients must send a token: from `--token-file`, from the variable
/// `PITON_MCP_TOKEN`, or a new one that piton prints.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  piton mcp                           On stdio, as clients start it
  piton mcp --root ~/work             Also serve all projects below a folder
  piton mcp --as review               Limit agents to what directive `review` permits
  piton mcp --allow-authoring         Let agents write items of the project
  piton mcp --http 127.0.0.1:7421     Over HTTP, at http://127.0.0.1:7421/mcp
  piton mcp install --client claude   Add piton to a client")]
pub(super) struct McpArguments {
    #[command(subcommand)]
    command: Option<McpCommand>,
    #[command(flatten)]
    served: ServedArguments,
    /// Serve over HTTP at this address, or at this local port; 0 picks a free port.
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    http: Option<SocketAddr>,
    /// Read the token that clients must send from a file.
    #[arg(long, value_name = "FILE", requires = "http")]
    token_file: Option<PathBuf>,
    /// Let other machines connect; the connection is not encrypted.
    #[arg(long, requires = "http")]
    allow_remote: bool,
    /// Accept requests for this host name; can be repeated.
    #[arg(long = "allow-host", value_name = "NAME", requires = "http")]
    hosts: Vec<String>,
    /// Accept requests from web pages of this origin; can be repeated.
    #[arg(long = "allow-origin", value_name = "ORIGIN", requires = "http")]
    origins: Vec<String>,
}

/// The projects that a server serves, and the limits of its agents.
#[derive(Debug, clap::Args)]
struct ServedArguments {
    /// Also serve the projects below this folder; can be repeated.
    #[arg(long = "root", value_name = "DIR")]
    roots: Vec<PathBuf>,
    /// Limit agents to this directive, as it is now: it, and the tools that it permits.
    #[arg(long = "as", value_name = "DIRECTIVE")]
    directive: Option<String>,
    /// Let agents create, update, delete, copy and stamp items of the project.
    #[arg(long, conflicts_with = "directive")]
    allow_authoring: bool,
}

#[derive(Debug, clap::Subcommand)]
enum McpCommand {
    Install(install::McpInstallArguments),
}

impl McpArguments {
    /// Whether it needs the current project: user settings and other projects do not.
    pub(super) fn needs_project(&self) -> bool {
        match &self.command {
            Some(McpCommand::Install(install)) => install.needs_project(),
            None => self.served.roots.is_empty(),
        }
    }
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let local = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let text = text.strip_prefix("localhost:").unwrap_or(text);
    text.parse()
        .map(local)
        .or_else(|_| text.parse())
        .map_err(|_| "write e.g. 127.0.0.1:7421, or only a port".to_owned())
}

pub(super) fn run(
    arguments: &McpArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    if let Some(McpCommand::Install(install)) = &arguments.command {
        return install::run(install, ctx, ui);
    }
    let served = &arguments.served;
    let authoring = if served.allow_authoring {
        Authoring::Allowed
    } else {
        Authoring::Refused
    };
    let directive = served.directive.as_deref();
    let projects = Projects::new(ctx, &served.roots, directive, authoring)?;
    let Some(address) = arguments.http else {
        crate::mcp::serve_stdio(Server::new(projects))?;
        return Ok(ExitStatus::Success);
    };
    let (secret, is_new) = secret(arguments, ctx)?;
    let mut options = HttpOptions::new(
        address,
        AccessToken::parse(&secret).map_err(|err| to_error(&err))?,
    );
    options.reach = if arguments.allow_remote {
        ListenReach::Anywhere
    } else {
        ListenReach::Loopback
    };
    options.allowed_hosts.clone_from(&arguments.hosts);
    options.allowed_origins.clone_from(&arguments.origins);
    let ready = |address: SocketAddr| {
        ui.note(&format!("listens at http://{address}/mcp; Ctrl-C ends it"));
        if is_new {
            ui.note(&format!(
                "clients send the header `Authorization: Bearer {secret}`"
            ));
        }
    };
    crate::mcp::serve_http(Server::new(projects), &options, ready).map_err(|err| to_error(&err))?;
    Ok(ExitStatus::Success)
}

/// The token for clients, and whether it is new.
fn secret(arguments: &McpArguments, ctx: &Context) -> Result<(String, bool), Error> {
    if let Some(file) = &arguments.token_file {
        return Ok((read_token(&ctx.cwd.join(file), file)?, false));
    }
    match ctx.environment.find(TOKEN) {
        Some(token) => Ok((token.to_string_lossy().trim().to_owned(), false)),
        None => Ok((
            format!("{:032x}{:032x}", ctx.random_bits(), ctx.random_bits()),
            true,
        )),
    }
}

fn read_token(path: &Path, file: &Path) -> Result<String, Error> {
    let failed = |source| Error::Read {
        file: file.to_path_buf(),
        source,
    };
    let bytes = read_bytes(path, MOST).map_err(|err| failed(std::io::Error::other(err)))?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

fn to_error(err: &HttpError) -> Error {
    let hint = match err {
        HttpError::NotLoopback { .. } => {
            Some("listen on `127.0.0.1`, or let others in with `--allow-remote`".into())
        }
        _ => err.hint(),
    };
    Error::Server {
        code: err.code(),
        message: err.to_string(),
        hint,
    }
}
