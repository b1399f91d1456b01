//! `piton mcp install`: adds the server to a client's settings.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use serde_json::json;

use super::super::{Format, Ui};
use super::ServedArguments;
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::mcp::install::{
    Client, Done, Existing, ExistingEntry, InstallError, InstallScope, Installation,
};
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
pub(in super::super) struct McpInstallArguments {
    /// MCP client.
    #[arg(long, value_name = "CLIENT")]
    client: Client,
    /// Write to the client's settings file.
    #[arg(long)]
    write: bool,
    /// Settings of this project, or your settings for all projects; `project` by default, `user` for codex.
    #[arg(long, value_name = "SCOPE")]
    scope: Option<InstallScope>,
    /// Replace a different existing `piton` entry.
    #[arg(long, requires = "write")]
    force: bool,
    #[command(flatten)]
    served: ServedArguments,
}

impl McpInstallArguments {
    /// Whether it involves a project.
    pub(in super::super) fn needs_project(&self) -> bool {
        self.scope() == InstallScope::Project
    }

    fn scope(&self) -> InstallScope {
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

impl ValueEnum for InstallScope {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Project, Self::User]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            Self::Project => "this project, for everyone who works on it",
            Self::User => "all your projects",
        };
        Some(PossibleValue::new(self.name()).help(help))
    }
}

pub(super) fn run(
    arguments: &McpInstallArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    let mut roots = Vec::new();
    for root in &arguments.served.roots {
        roots.push(ctx.environment.enter(Some(&ctx.cwd.join(root)))?);
    }
    let limits = match &arguments.served.directive {
        Some(directive) => vec!["--as".to_owned(), directive.clone()],
        None if arguments.served.allow_authoring => vec!["--allow-authoring".to_owned()],
        None => Vec::new(),
    };
    let installation = Installation::new(ctx, arguments.client, arguments.scope(), &roots, limits)
        .map_err(to_error)?;
    let (status, message) = if arguments.write {
        let existing = if arguments.force {
            Existing::Replace
        } else {
            Existing::Keep
        };
        written(
            &installation,
            installation.write(existing).map_err(to_error)?,
        )
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
        Done::Added => ("added", format!("added piton to {title} in `{file}`")),
        Done::Replaced => (
            "replaced",
            format!("replaced the entry `piton` in `{file}`"),
        ),
        Done::Unchanged => ("present", format!("`{file}` already has piton")),
    }
}

/// Where to add the printed text, as a word and as a sentence.
fn printed(installation: &Installation, ui: &mut Ui) -> (&'static str, String) {
    let (title, file) = (installation.client.title(), installation.file.display());
    match installation.look() {
        Ok(ExistingEntry::Nothing) => ("absent", format!("{title} reads this in `{file}`:")),
        Ok(ExistingEntry::Same) => ("present", format!("`{file}` already has piton:")),
        Ok(ExistingEntry::Other(_)) => (
            "different",
            format!("`{file}` has another entry `piton`; this one would be:"),
        ),
        // The user adds the text by hand, so an invalid file is no obstacle.
        Err(err) => {
            ui.warning(&err.to_string());
            ("unreadable", format!("{title} reads this in `{file}`:"))
        }
    }
}

fn advise(installation: &Installation, arguments: &McpInstallArguments, status: &str, ui: &mut Ui) {
    if status == "different" {
        ui.hint("`--write --force` replaces it; keys that piton does not set stay");
    } else if status == "absent" {
        ui.hint("`--write` writes it there; other servers, keys and comments stay");
    }
    if installation.scope != InstallScope::Project || !arguments.write {
        return;
    }
    // Teammates have neither the folders of this machine nor its programs.
    if installation.command() == "piton" && arguments.served.roots.is_empty() {
        ui.note(
            "this is your own uncommitted edit; commit it so that everyone with piton can use it",
        );
    } else {
        ui.note(
            "this is your own uncommitted edit; it contains local paths, so others cannot use it",
        );
    }
}

fn to_error(err: InstallError) -> Error {
    match err {
        InstallError::Unwritable { file, source } => Error::Write { file, source },
        err => Error::ClientSettings {
            code: err.code(),
            message: err.to_string(),
            hint: err.hint(),
        },
    }
}
