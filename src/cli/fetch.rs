//! `piton fetch`: fetches the logs of runs in other clones.

use super::history;
use super::ui::{Format, Ui};
use crate::audit::sync;
use crate::checkpoint::remote::Remote;
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::run::error::RunError;
use crate::workspace::open_repository;

/// Fetch run logs from another repository
///
/// `piton log` lists fetched runs, `piton show` shows their steps, and `piton verify --all` checks them
/// against the local commits. You cannot undo them: their snapshots stay in the original repository.
/// Use `git fetch` to fetch branches. piton refuses a log that does not continue the local one.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton fetch origin
  piton verify --all
  piton log --format json")]
pub(super) struct FetchArguments {
    /// Git remote or URL.
    #[arg(value_name = "REMOTE")]
    remote: String,
}

pub(super) fn run(
    arguments: &FetchArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    let repository = open_repository(ctx).map_err(RunError::from)?;
    let address = history::remote_address(ctx, &arguments.remote);
    let remote =
        Remote::open(&repository, ctx.environment.variables(), &address).map_err(RunError::from)?;
    let done = sync::fetch(&repository, &remote).map_err(RunError::from)?;
    if ui.format() == Format::Json {
        ui.json(&done)?;
    } else if done.fetched.is_empty() && done.attestations == 0 {
        ui.success(&format!(
            "already up to date with `{}`: {}",
            done.remote,
            history::runs(done.up_to_date)
        ));
    } else {
        let what = history::travellers(done.fetched.len(), done.attestations);
        ui.success(&format!("fetched {what} from `{}`", done.remote));
        ui.hint("`piton verify --all` checks them");
    }
    Ok(ExitStatus::Success)
}
