//! `piton quickstart`: a tour of an example project, in a temporary folder.
//!
//! It works from any folder and needs neither a git identity nor the network. The folder is kept
//! for inspection.

use serde_json::json;

use super::init::write_example;
use super::{Format, Ui, directive, validate};
use crate::checkpoint::repository::create_repository;
use crate::context::{Context, Environment};
use crate::error::{Error, ExitStatus};
use crate::item::store::ItemStore;
use crate::run::error::RunError;
use crate::validation::{self, ValidationOptions};

/// Try piton in a temporary example repository.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton quickstart            Create the example and run it")]
pub(super) struct QuickstartArguments {}

const FILES: [(&str, &str); 5] = [
    (
        ".ai/directives/examples/hello.md",
        "a directive: a workflow, step by step",
    ),
    (
        ".ai/tools/examples/greet/",
        "the tool it calls: a manifest and a script",
    ),
    (
        ".ai/directives/examples/tidy.md",
        "a directive with a step that goes wrong",
    ),
    (
        ".ai/tools/examples/tidy_up.sh",
        "the tool that does: metadata and script in one file",
    ),
    (
        ".ai/knowledge/examples/how_items_work.md",
        "knowledge: a document worth keeping",
    ),
];

/// The failing example of the tour: `piton init` does not write it.
const MISHAP: [(&str, &str); 2] = [
    (
        ".ai/directives/examples/tidy.md",
        include_str!("example/tidy.md"),
    ),
    (
        ".ai/tools/examples/tidy_up.sh",
        include_str!("example/tidy_up.sh"),
    ),
];

pub(super) fn run(ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let options = ValidationOptions::of(ctx);
    let check =
        || validation::validate_items(&ItemStore::open(ctx.roots(), options.strength), &options);
    if ui.format() == Format::Json {
        ui.json(&json!({"project": ctx.root.to_string_lossy(), "validation": check()}))?;
        return Ok(ExitStatus::Success);
    }
    ui.talk_on_stdout();
    ui.line(&format!(
        "An example repository, in `{}`\n",
        ctx.root.display()
    ))?;
    for (file, meaning) in FILES {
        ui.line(&format!("  {file:<42}{meaning}"))?;
    }
    show_runs(ctx, ui)?;
    ui.line("\nThe files of the project are checked, too: every mistake is found at once; here is none:\n")?;
    ui.line("$ piton validate")?;
    validate::human(&check(), &ctx.root, validate::Repeated::Shown, ui)?;
    ui.line("\nA directive says what it needs, what it may do and in which steps:\n")?;
    ui.line("$ piton directive show hello")?;
    directive::show("hello", ctx, ui)?;
    ui.line(&format!(
        "\nLook around with `cd {}`, or make your own project with `piton init`",
        ctx.root.display()
    ))?;
    Ok(ExitStatus::Success)
}

/// The core of the tour: directives with checkpoints, and a rolled-back step, with the user's own
/// work untouched.
fn show_runs(ctx: &Context, ui: &mut Ui) -> Result<(), Error> {
    ui.line("\nSign the items, so that piton notices unintended changes of them:\n")?;
    tour(ctx, ui, &["sign", "--all"])?;
    ui.line("\nCommit everything as the first checkpoint:\n")?;
    tour(
        ctx,
        ui,
        &["checkpoint", "--all", "--message", "chore: begin"],
    )?;
    let notes = ctx.root.join("notes.txt");
    let written = std::fs::write(&notes, "my own notes, not committed\n");
    written.map_err(|source| Error::Write {
        file: notes,
        source,
    })?;
    ui.line("\nYou write `notes.txt`. Then a directive runs; piton commits only the changes of each step:\n")?;
    tour(ctx, ui, &["run", "hello", "--input", "who=Ada"])?;
    ui.line("\nThe second step of this one fails. piton rolls it back and restores your notes; the first step stays:\n")?;
    tour(ctx, ui, &["run", "tidy"])?;
    ui.line("\nAny command can be a step:\n")?;
    tour(
        ctx,
        ui,
        &["exec", "--", "sh", "-c", "echo hello > greeting.txt"],
    )?;
    ui.line(
        "\nAny step can be undone later, and an undo as well; branches never move backwards:\n",
    )?;
    tour(ctx, ui, &["undo"])?;
    ui.line("\nEvery step is written down, in a chain that shows tampering:\n")?;
    tour(ctx, ui, &["log"])?;
    tour(ctx, ui, &["verify"])
}

/// Shows a command line and runs it in this process.
fn tour(ctx: &Context, ui: &mut Ui, words: &[&str]) -> Result<(), Error> {
    let quoted: Vec<String> = words
        .iter()
        .map(|word| {
            if word.contains(' ') {
                format!("'{word}'")
            } else {
                (*word).to_owned()
            }
        })
        .collect();
    ui.line(&format!("$ piton {}", quoted.join(" ")))?;
    super::run_words(words, ctx, ui)?;
    Ok(())
}

/// Creates the project and opens it.
pub(super) fn make_project(environment: Environment) -> Result<Context, Error> {
    let parent = environment.temporary_folder();
    let folder = tempfile::Builder::new()
        .prefix("piton-quickstart-")
        .tempdir_in(&parent)
        .map_err(|source| Error::Write {
            file: parent,
            source,
        })?;
    write_example(folder.path())?;
    for (file, text) in MISHAP {
        let file = folder.path().join(file);
        std::fs::write(&file, text).map_err(|source| Error::Write { file, source })?;
    }
    create_repository(folder.path()).map_err(RunError::from)?;
    // A folder that could not be filled is removed automatically.
    Ok(Context::at(environment, &folder.keep())?)
}
