//! `piton selftest`: whether piton keeps its promises on this machine and file system.

use std::path::PathBuf;

use anstyle::AnsiColor;

use super::{Format, Ui};
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::run::selftest::{self, Check, Folder, Report, SelfTest, Status};

/// Test piton on this machine: commit, roll back, undo, kill and recover in a throw-away repository
///
/// Makes a temporary repository on the file system of the current folder and runs the real piton and your git in it. Nothing of
/// yours is read or changed, and the repository is removed at the end. Exits with 0 if every check passed, and with 1 otherwise.
/// `piton doctor` checks your project and its tools instead.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton selftest                       Check everything, with 20 kills
  piton selftest --torture 500         Kill piton more often
  piton selftest --in /mnt/share       Check another file system
  piton selftest --seed 7 --keep       Repeat the same kills, and keep the repository
  piton selftest --format json         For programs")]
pub(super) struct SelftestArguments {
    /// How many steps are killed at a random moment
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    torture: u32,
    /// The seed of the random moments, to repeat a run
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Make the repository in this folder instead
    #[arg(long = "in", value_name = "FOLDER", value_hint = clap::ValueHint::DirPath)]
    place: Option<PathBuf>,
    /// Keep the repository, to look at it
    #[arg(long)]
    keep: bool,
}

pub(super) fn run(arguments: &SelftestArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let place = match &arguments.place {
        Some(folder) => ctx.environment.enter(Some(folder))?,
        None => selftest::place_near(ctx),
    };
    #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
    let seed = arguments.seed.unwrap_or_else(|| u64::from(ctx.random_bits() as u32));
    let folder = if arguments.keep { Folder::Keep } else { Folder::Remove };
    let asked = SelfTest { place, kills: arguments.torture, seed, folder };
    ui.begin_live("selftest");
    let report = selftest::run(ctx, &asked, &mut |_| {});
    ui.end_live();
    let report = report?;
    if ui.format() == Format::Json {
        ui.json(&report)?;
    } else {
        human(&report, ui)?;
    }
    Ok(if report.passed { ExitStatus::Success } else { ExitStatus::Failure })
}

fn human(report: &Report, ui: &mut Ui) -> Result<(), Error> {
    let width = report.checks.iter().map(|check| check.name.len()).max().unwrap_or_default();
    for check in &report.checks {
        let (sign, color) = sign(check);
        let style = color.on_default().bold();
        let detail = super::clean(&check.detail).replace('\n', " ");
        ui.rendered(&format!("{style}{sign}{style:#} {:<width$}  {detail}\n", check.name))?;
        if let Some(hint) = &check.hint {
            ui.line(&format!("  {:<width$}  → {hint}", ""))?;
        }
    }
    if report.kept {
        ui.note(&format!("the repository is in `{}`", report.folder.display()));
    }
    let count = |status| report.checks.iter().filter(|check| check.status == status).count();
    let words = format!(
        "{} ok, {} limited, {} failed; {} kills, seed {}",
        count(Status::Ok),
        count(Status::Limited),
        count(Status::Failed),
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

fn sign(check: &Check) -> (&'static str, AnsiColor) {
    match check.status {
        Status::Ok => ("✓", AnsiColor::Green),
        Status::Limited => ("!", AnsiColor::Yellow),
        Status::Failed => ("✗", AnsiColor::Red),
    }
}
