//! `piton selftest`: checks that piton keeps its promises on this machine and file system.

use std::path::PathBuf;

use anstyle::AnsiColor;

use super::{Format, Ui};
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::selftest::{
    self, SelfTest, SelftestCheck, SelftestFolder, SelftestReport, SelftestStatus,
};

/// Test commits, rollbacks and crash recovery in a temporary repository
///
/// Creates a temporary repository on the file system of the current folder and runs piton and your git
/// in it. It does not read or change your files and removes the repository at the end. Exits with 0 if
/// every check passed, and with 1 otherwise. To check your project and its tools, use `piton doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton selftest                       Check everything, with 20 kills
  piton selftest --torture 500         Kill piton more often
  piton selftest --in /mnt/share       Check another file system
  piton selftest --seed 7 --keep       Repeat the same kills and keep the repository
  piton selftest --format json         Print JSON")]
pub(super) struct SelftestArguments {
    /// Number of steps to kill at a random moment.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    torture: u32,
    /// Seed for the random moments, to repeat a test.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Create the repository in this folder.
    #[arg(long = "in", value_name = "FOLDER", value_hint = clap::ValueHint::DirPath)]
    place: Option<PathBuf>,
    /// Keep the repository for inspection.
    #[arg(long)]
    keep: bool,
}

pub(super) fn run(
    arguments: &SelftestArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    let place = match &arguments.place {
        Some(folder) => ctx.environment.enter(Some(folder))?,
        None => selftest::place_near(ctx),
    };
    #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
    let seed = arguments
        .seed
        .unwrap_or_else(|| u64::from(ctx.random_bits() as u32));
    let folder = if arguments.keep {
        SelftestFolder::Keep
    } else {
        SelftestFolder::Remove
    };
    let asked = SelfTest {
        place,
        kills: arguments.torture,
        seed,
        folder,
    };
    ui.begin_live("selftest");
    let report = selftest::run(ctx, &asked, &mut |_| {});
    ui.end_live();
    let report = report?;
    if ui.format() == Format::Json {
        ui.json(&report)?;
    } else {
        human(&report, ui)?;
    }
    Ok(if report.passed {
        ExitStatus::Success
    } else {
        ExitStatus::Failure
    })
}

fn human(report: &SelftestReport, ui: &mut Ui) -> Result<(), Error> {
    let width = report
        .checks
        .iter()
        .map(|check| check.name.len())
        .max()
        .unwrap_or_default();
    for check in &report.checks {
        let (sign, color) = sign(check);
        let style = color.on_default().bold();
        let detail = super::clean(&check.detail).replace('\n', " ");
        ui.rendered(&format!(
            "{style}{sign}{style:#} {:<width$}  {detail}\n",
            check.name
        ))?;
        if let Some(hint) = &check.hint {
            ui.line(&format!("  {:<width$}  → {hint}", ""))?;
        }
    }
    if report.kept {
        ui.note(&format!(
            "the repository is in `{}`",
            report.folder.display()
        ));
    }
    let count = |status| {
        report
            .checks
            .iter()
            .filter(|check| check.status == status)
            .count()
    };
    let words = format!(
        "{} ok, {} limited, {} failed; {} kills, seed {}",
        count(SelftestStatus::Ok),
        count(SelftestStatus::Limited),
        count(SelftestStatus::Failed),
        report.kills,
        report.seed
    );
    if report.passed {
        ui.success(&words);
    } else {
        ui.failure(&words);
    }
    Ok(())
}

fn sign(check: &SelftestCheck) -> (&'static str, AnsiColor) {
    match check.status {
        SelftestStatus::Ok => ("✓", AnsiColor::Green),
        SelftestStatus::Limited => ("!", AnsiColor::Yellow),
        SelftestStatus::Failed => ("✗", AnsiColor::Red),
    }
}
