//! `piton validate`: reports all findings in one pass.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::diagnostic::Diagnostics;
use super::{Format, Ui, clean, sarif};
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::item::finding::{Finding, Severity, Strength};
use crate::item::store::ItemStore;
use crate::problem::Code;
use crate::validation::{self, Counts, ValidationOptions, ValidationReport};

/// Check directives, tools, knowledge and settings
///
/// piton reports all findings at once and executes nothing from the project. Installed interpreters
/// parse Python and bash scripts without running them; piton itself parses JavaScript.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton validate                        Check every item of the project
  piton validate .ai/tools/deploy       Check one tool
  piton validate --strict               Apply the specification strictly
  piton validate --all                  Show each finding, also repeated ones
  piton validate --format json          Print {\"valid\": …, \"findings\": […]}
  piton validate --format sarif         Print a log that code hosts can show

Exit codes: 0 no error (there may be warnings), 2 at least one error")]
pub(super) struct ValidateArguments {
    /// Files or folders to check; the whole project by default.
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Apply the specification strictly.
    #[arg(long)]
    pub(super) strict: bool,
    /// Show each finding; by default repeated ones of a kind are one, with a count.
    #[arg(long)]
    all: bool,
}

pub(super) fn run(
    arguments: &ValidateArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    let strength = if ctx.config.strict() {
        Strength::Strict
    } else {
        Strength::Lenient
    };
    let mut store = ItemStore::open(ctx.roots(), strength);
    let paths = selected(arguments, ctx, &mut store, strength)?;
    let report = validation::validate_items(
        &store,
        &ValidationOptions {
            paths,
            ..ValidationOptions::of(ctx)
        },
    );
    match ui.format() {
        Format::Json => ui.json(&report)?,
        Format::Sarif => ui.json(&sarif::log(&report))?,
        Format::Human | Format::Markdown | Format::Yaml => {
            let repeated = if arguments.all {
                Repeated::Shown
            } else {
                Repeated::Counted
            };
            human(&report, &ctx.root, repeated, ui)?;
        }
    }
    Ok(if report.valid {
        ExitStatus::Success
    } else {
        ExitStatus::Invalid
    })
}

/// The absolute paths to validate; adds files outside the folders of items.
fn selected(
    arguments: &ValidateArguments,
    ctx: &Context,
    store: &mut ItemStore,
    strength: Strength,
) -> Result<Vec<PathBuf>, Error> {
    let mut paths = Vec::new();
    for path in &arguments.paths {
        let absolute = resolve(path, ctx).map_err(|source| Error::Read {
            file: path.clone(),
            source,
        })?;
        let is_item_folder =
            absolute.starts_with(ctx.project_items()) || ctx.root.starts_with(&absolute);
        // A file of a folder tool selects the tool.
        let absolute = store
            .tool_folder(&absolute)
            .map(Path::to_path_buf)
            .unwrap_or(absolute);
        let is_known = is_item_folder
            && (absolute.is_dir() || store.knows(&absolute) || is_beside_items(&absolute, ctx));
        if !is_known && (is_item_folder || !store.adopt(&absolute, strength)) {
            return Err(Error::NotAnItem(path.clone()));
        }
        paths.push(absolute);
    }
    Ok(paths)
}

/// A path as the store has it: without links, except those that lead from `.ai/` to somewhere else.
fn resolve(path: &Path, ctx: &Context) -> io::Result<PathBuf> {
    let items = ctx.project_items();
    let target = ctx.cwd.join(path).canonicalize()?;
    let mut plain = PathBuf::new();
    for part in ctx.cwd.join(path).components() {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    // Behind a link, `..` is not the folder before it.
    let is_same = plain.canonicalize().is_ok_and(|plain| plain == target);
    Ok(
        if !target.starts_with(&items) && plain.starts_with(&items) && is_same {
            plain
        } else {
            target
        },
    )
}

/// Files in `.ai/` that are no items but are validated, or belong to items.
fn is_beside_items(path: &Path, ctx: &Context) -> bool {
    let folders = [
        "config.yaml",
        "extractors",
        "parsers",
        "schemas",
        "tools/lib",
    ];
    folders
        .iter()
        .any(|name| path.starts_with(ctx.project_items().join(name)))
}

/// Prints a report for people: findings as data, the summary as a message. The files are relative
/// to `root`.
pub(super) fn human(
    report: &ValidationReport,
    root: &Path,
    repeated: Repeated,
    ui: &mut Ui,
) -> Result<(), Error> {
    findings(report, root, repeated, ui)?;
    for (language, reason) in &report.unchecked {
        ui.warning(&format!("{language} scripts were not all parsed: {reason}"));
    }
    summary(report, ui);
    Ok(())
}

/// What happens with many findings of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeated {
    /// Each is printed.
    Shown,
    /// The first is printed, and how many there are.
    Counted,
}

/// From how many findings of one kind on they are counted.
const MANY: usize = 5;
/// How many places of counted findings are listed.
const PLACES: usize = 3;

/// What makes findings the same kind: their message without the names in it. A missing item is the same only if
/// it has the same name.
fn kind_of(finding: &Finding) -> (Code, Severity, String) {
    let message = if finding.code == Code::UnknownItem {
        finding.message.clone()
    } else {
        let plain = finding.message.split(['`', '\'']).step_by(2);
        plain.collect::<Vec<_>>().join("`")
    };
    (finding.code, finding.severity, message)
}

/// The place of a finding as one word.
fn place_of(finding: &Finding) -> String {
    let file = finding.file.to_string_lossy();
    format!("{}:{}", clean(&file), finding.line)
}

/// Prints the findings alone.
pub(super) fn findings(
    report: &ValidationReport,
    root: &Path,
    repeated: Repeated,
    ui: &mut Ui,
) -> Result<(), Error> {
    let mut diagnostics = Diagnostics::new(root);
    let (unsigned, others): (Vec<&Finding>, Vec<&Finding>) =
        report.findings.iter().partition(|finding| {
            finding.code == Code::Unsigned && finding.severity == Severity::Warning
        });
    let mut kinds: BTreeMap<_, Vec<&Finding>> = BTreeMap::new();
    for finding in &others {
        kinds.entry(kind_of(finding)).or_default().push(finding);
    }
    let mut counted = 0;
    for finding in others {
        let same = kinds.get(&kind_of(finding)).map_or(&[][..], Vec::as_slice);
        let many = if finding.code == Code::UnknownItem {
            2
        } else {
            MANY
        };
        if repeated == Repeated::Shown || same.len() < many {
            ui.rendered(&diagnostics.render(finding))?;
            continue;
        }
        if !same
            .first()
            .is_some_and(|first| std::ptr::eq(*first, finding))
        {
            continue;
        }
        let more = same.len() - 1;
        let listed = same.iter().skip(1).take(PLACES);
        let mut places: Vec<String> = listed.map(|other| place_of(other)).collect();
        if more > PLACES {
            places.push("…".to_owned());
        }
        counted += more;
        let first = diagnostics.render(finding);
        ui.rendered(&format!(
            "{}\n  and {more} more like it: {}\n\n",
            first.trim_end(),
            places.join(", ")
        ))?;
    }
    if counted > 0 {
        ui.hint("`piton validate --all` shows each finding");
    }
    match unsigned.as_slice() {
        [] => {}
        [finding] => ui.rendered(&diagnostics.render(finding))?,
        several => ui.warning(&format!(
            "{} items are not signed; `--format json` lists them",
            several.len()
        )),
    }
    Ok(())
}

fn summary(report: &ValidationReport, ui: &mut Ui) {
    let of = |severity| {
        report
            .findings
            .iter()
            .filter(|finding| finding.severity == severity)
            .count()
    };
    let (errors, warnings) = (of(Severity::Error), of(Severity::Warning));
    let counts = report.items;
    let looked_at = format!(
        "{}, {}, {}",
        plural(counts.tools, "tool", "tools"),
        plural(counts.directives, "directive", "directives"),
        plural(counts.knowledge, "knowledge entry", "knowledge entries"),
    );
    let found = format!(
        "{}, {}",
        plural(errors, "error", "errors"),
        plural(warnings, "warning", "warnings")
    );
    if report.valid {
        ui.success(&format!("{looked_at}: {found}"));
        if counts == Counts::default() {
            ui.hint("there are no items here; `piton init` creates an example");
        }
    } else {
        ui.failure(&format!("{looked_at}: {found}"));
        let first = report
            .findings
            .iter()
            .find(|finding| finding.severity == Severity::Error);
        if let Some(finding) = first {
            ui.hint(&format!(
                "`piton help {}` explains it with a corrected example; `piton help codes` lists all",
                finding.code
            ));
        }
    }
}

/// `1 tool`, `2 tools`.
pub(super) fn plural(count: usize, one: &str, many: &str) -> String {
    if count == 1 {
        format!("1 {one}")
    } else {
        format!("{count} {many}")
    }
}
