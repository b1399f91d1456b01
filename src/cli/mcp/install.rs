//! `piton mcp install`: telling a client of the server.

use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use serde_json::json;

use super::super::{Format, Ui};
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::mcp::install::{Client, Done, Existing, Found, InstallError, Installation, Scope};
use crate::problem::Explain;

/// Add piton to an agent's MCP settings
///
/// piton prints what to add to the client's settings, and where. With `--write`, piton edits the file;
/// other servers, unknown keys and comments stay as they are.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton mcp install --client claude            Show what to add to `.mcp.json`
  piton mcp install --client claude --write    Edit `.mcp.json`
  piton mcp install --client codex --write     For all projects, in Codex's own settings
  piton mcp install --client cursor --scope user --root ~/work --write")]
pub(in super::super) struct InstallArguments {
    /// MCP client.
    #[arg(long, value_name = "CLIENT")]
    client: Client,
    /// Write to the client's settings file.
    #[arg(long)]
    write: bool,
    /// Settings of this project, or your settings for all projects; `project` by default, `user` for codex.
    #[arg(long, value_name = "SCOPE")]
    scope: Option<Scope>,
    /// Replace a different existing `piton` entry.
    #[arg(long, requires = "write")]
    force: bool,
    /// Also serve the projects below this folder; can be repeated.
    #[arg(long = "root", value_name = "DIR")]
    roots: Vec<PathBuf>,
    /// Limit tools that agents call directly to what this directive permits.
    #[arg(long = "as", value_name = "DIRECTIVE")]
    directive: Option<String>,
}

impl InstallArguments {
    /// Whether it is about a project.
    pub(in super::super) fn needs_project(&self) -> bool {
        self.scope() == Scope::Project
    }

    fn scope(&self) -> Scope {
        self.scope.unwrap_or_else(|| self.client.usual_scope())
    }
}

impl ValueEnum for Client {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()).help(self.title()))
    }
}

impl ValueEnum for Scope {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Project, Self::User]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            Self::Project => "this project, for everybody who works on it",
            Self::User => "all your projects",
        };
        Some(PossibleValue::new(self.name()).help(help))
    }
}

pub(super) fn run(arguments: &InstallArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let mut roots = Vec::new();
    for root in &arguments.roots {
        roots.push(ctx.environment.enter(Some(&ctx.cwd.join(root)))?);
    }
    let directive = arguments.directive.as_deref();
    let installation = Installation::new(ctx, arguments.client, arguments.scope(), &roots, directive).map_err(told)?;
    let (status, message) = if arguments.write {
        let existing = if arguments.force { Existing::Replace } else { Existing::Keep };
        written(&installation, installation.write(existing).map_err(told)?)
    } else {
        printed(&installation, ui)
    };
    if ui.format() == Format::Json {
        ui.json(&json!({
            "client": installation.client.name(),
            "scope": installation.scope.name(),
            "file": installation.file.to_string_lossy(),
            "file_format": if installation.client.is_toml() { "toml" } else { "json" },
            "entry": installation.entry(),
            "snippet": installation.snippet(),
            "status": status,
            "message": message,
        }))?;
        return Ok(ExitStatus::Success);
    }
    if arguments.write {
        ui.success(&message);
    } else {
        ui.note(&message);
        ui.rendered(&installation.snippet())?;
    }
    advise(&installation, arguments, status, ui);
    Ok(ExitStatus::Success)
}

/// What was written, as a word and as a sentence.
fn written(installation: &Installation, done: Done) -> (&'static str, String) {
    let (title, file) = (installation.client.title(), installation.file.display());
    match done {
        Done::Added => ("added", format!("{title} is told of piton in `{file}`")),
        Done::Replaced => ("replaced", format!("the entry `piton` in `{file}` is replaced")),
        Done::Unchanged => ("present", format!("`{file}` names piton already")),
    }
}

/// Where to write what is printed, as a word and as a sentence.
fn printed(installation: &Installation, ui: &mut Ui) -> (&'static str, String) {
    let (title, file) = (installation.client.title(), installation.file.display());
    match installation.look() {
        Ok(Found::Nothing) => ("absent", format!("{title} reads this in `{file}`:")),
        Ok(Found::Same) => ("present", format!("`{file}` names piton already:")),
        Ok(Found::Other(_)) => ("different", format!("`{file}` has another entry `piton`; this one would be:")),
        // To be read by hand, so what is wrong with the file stops nobody.
        Err(err) => {
            ui.warning(&err.to_string());
            ("unreadable", format!("{title} reads this in `{file}`:"))
        }
    }
}

fn advise(installation: &Installation, arguments: &InstallArguments, status: &str, ui: &mut Ui) {
    if status == "different" {
        ui.hint("`--write --force` replaces it; keys that piton does not set stay");
    } else if status == "absent" {
        ui.hint("`--write` writes it there; other servers, keys and comments stay");
    }
    if installation.scope != Scope::Project || !arguments.write {
        return;
    }
    // A team has neither the folders of this machine nor its programs.
    if installation.command() == "piton" && arguments.roots.is_empty() {
        ui.note("it is an edit of yours, not a checkpoint; commit it, and everybody who has piton can use it");
    } else {
        ui.note("it is an edit of yours, not a checkpoint; it names folders of this machine, so others cannot use it");
    }
}

fn told(err: InstallError) -> Error {
    match err {
        InstallError::Unwritable { file, source } => Error::Write { file, source },
        err => Error::ClientSettings { code: err.code(), message: err.to_string(), hint: err.hint() },
    }
}
