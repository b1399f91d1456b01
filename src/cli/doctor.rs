//! `piton doctor`: checks what works on this machine, by trying it.

use std::time::Duration;

use anstyle::{AnsiColor, Style};

use super::{Format, Ui};
use crate::context::{Context, ContextError, Environment};
use crate::doctor::{self, CheckStatus, DoctorCheck, DoctorReport, Group, Patient};
use crate::error::{Error, ExitStatus};
use crate::hooks::{self, HookState, HooksSummary};

/// Check this machine and explain how to fix what is missing
///
/// piton tests each feature for real in a temporary folder: a checkpoint and a rollback, a tool in each
/// language, a signature, stopping a process. It removes the folder afterwards and changes nothing in
/// the project. Exits with 5 if something that piton needs does not work.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton doctor                Check everything
  piton doctor -v             Also show what was tested
  piton doctor --format json  Print JSON")]
pub(super) struct DoctorArguments {
    /// Time limit for each program, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
}

pub(super) fn run(
    arguments: &DoctorArguments,
    environment: &Environment,
    found: Result<Context, ContextError>,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    let terminal = ui.described(environment);
    let limit = Duration::from_secs(arguments.timeout);
    let hooks = found.as_ref().ok().and_then(hooks);
    let patient = Patient {
        environment: environment.clone(),
        found,
        terminal,
        limit,
    };
    ui.begin_live("doctor");
    let report = doctor::examine(patient, &mut |_| {});
    ui.end_live();
    let mut report = report?;
    if let Some(check) = hooks {
        report.add(check);
    }
    if ui.format() == Format::Json {
        ui.json(&report)?;
    } else {
        human(&report, ui)?;
    }
    Ok(if report.summary.usable {
        ExitStatus::Success
    } else {
        ExitStatus::Unsafe
    })
}

/// The check of the git hooks of a repository, if there is one.
fn hooks(ctx: &Context) -> Option<DoctorCheck> {
    let report = hooks::status(ctx, &[]).ok()?;
    let count = |state| {
        report
            .hooks
            .iter()
            .filter(|hook| hook.state == state)
            .count()
    };
    let (status, detail, hint) = match hooks::summary(&report, &[]) {
        HooksSummary::Nothing => (
            CheckStatus::Ok,
            "not installed; `piton hooks install` installs them".to_owned(),
            None,
        ),
        HooksSummary::Well => {
            let detail = format!(
                "{} installed, {} delegated",
                count(HookState::Installed),
                count(HookState::Delegated)
            );
            (CheckStatus::Ok, detail, None)
        }
        HooksSummary::Attention => {
            let odd = report
                .hooks
                .iter()
                .filter(|hook| !hook.state.is_well() && hook.state != HookState::NotInstalled);
            let odd: Vec<String> = odd
                .map(|hook| format!("`{}` {}", hook.hook.name(), hook.state.label()))
                .collect();
            (
                CheckStatus::Warning,
                odd.join(", "),
                Some("`piton hooks status` has details".to_owned()),
            )
        }
    };
    let (name, tried) = ("git hooks", "look at the files where git looks for hooks");
    Some(DoctorCheck {
        name,
        group: Group::Project,
        status,
        needed: false,
        tried,
        detail,
        hint,
    })
}

fn human(report: &DoctorReport, ui: &mut Ui) -> Result<(), Error> {
    let width = report
        .checks
        .iter()
        .map(|check| check.name.len())
        .max()
        .unwrap_or_default();
    let mut group = None;
    for check in &report.checks {
        if group != Some(check.group) {
            let gap = if group.is_some() { "\n" } else { "" };
            let bold = Style::new().bold();
            ui.rendered(&format!("{gap}{bold}{}{bold:#}\n", title(check.group)))?;
            group = Some(check.group);
        }
        let (sign, color) = sign(check);
        let style = color.on_default().bold();
        let detail = super::clean(&check.detail).replace('\n', " ");
        ui.rendered(&format!(
            "  {style}{sign}{style:#} {:<width$}  {detail}\n",
            check.name
        ))?;
        ui.detail_lines(&[format!("    {:<width$}  tried: {}", "", check.tried)])?;
        if let Some(hint) = &check.hint {
            ui.line(&format!("    {:<width$}  → {hint}", ""))?;
        }
    }
    let summary = report.summary;
    let counts = format!(
        "{} work, {} limited or optional, {} broken",
        summary.ok,
        summary.warnings + summary.missing,
        summary.broken
    );
    match summary.broken {
        0 => ui.success(&format!("piton works here: {counts}")),
        1 => ui.failure(&format!(
            "piton does not work here because of one problem: {counts}"
        )),
        broken => ui.failure(&format!(
            "piton does not work here because of {broken} problems: {counts}"
        )),
    }
    Ok(())
}

fn title(group: Group) -> &'static str {
    match group {
        Group::Rope => "The rope",
        Group::Programs => "Programs",
        Group::Project => "This project",
        Group::Machine => "This machine",
    }
}

fn sign(check: &DoctorCheck) -> (&'static str, AnsiColor) {
    match (check.status, check.needed) {
        (CheckStatus::Ok, _) => ("✓", AnsiColor::Green),
        (CheckStatus::Missing, true) => ("✗", AnsiColor::Red),
        (CheckStatus::Warning, _) | (CheckStatus::Missing, false) => ("!", AnsiColor::Yellow),
    }
}
