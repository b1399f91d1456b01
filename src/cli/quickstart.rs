//! `piton quickstart`: an example project in a fresh temporary folder.
//!
//! Works from any folder and needs neither git identity nor network. The folder is kept, so that it
//! can be looked at afterwards.

use serde_json::json;

use super::init::write_example;
use super::{Format, Ui, directive, tool, validate};
use crate::checkpoint::repository::create_repository;
use crate::context::{Context, Environment};
use crate::error::{Error, ExitStatus};
use crate::item::store::ItemStore;
use crate::run::error::RunError;
use crate::validation;

/// Makes an example project in a temporary folder and shows what is in it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton quickstart            Make the example and look at it")]
pub(super) struct QuickstartArguments {}

const FILES: [(&str, &str); 3] = [
    (".ai/directives/examples/hello.md", "a directive: a workflow, step by step"),
    (".ai/tools/examples/greet/", "the tool it calls: a manifest and a script"),
    (".ai/knowledge/examples/how_items_work.md", "knowledge: what is worth remembering"),
];

pub(super) fn run(ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let options = validate::options(ctx);
    let store = ItemStore::open(ctx.roots(), options.strength);
    let report = validation::validate_items(&store, &options);
    if ui.format() == Format::Json {
        ui.json(&json!({"project": ctx.root.to_string_lossy(), "validation": report}))?;
        return Ok(ExitStatus::Success);
    }
    ui.talk_on_stdout();
    ui.line(&format!("A project with one item of each kind, in `{}`\n", ctx.root.display()))?;
    for (file, meaning) in FILES {
        ui.line(&format!("  {file:<42}{meaning}"))?;
    }
    show_checkpoints(ctx, ui)?;
    ui.line("\nThe files of the project are checked, too: every mistake is found at once; here is none, they are just not signed yet:\n")?;
    ui.line("$ piton validate")?;
    validate::human(&report, ctx, ui)?;
    ui.line("\nA directive says what it needs, what it may do and in which steps:\n")?;
    ui.line("$ piton directive show hello")?;
    directive::show("hello", ctx, ui)?;
    ui.line("\nA tool may be written in five ways; piton understands it as one, and says where each field stands:\n")?;
    ui.line("$ piton tool show greet")?;
    tool::show("greet", ctx, ui)?;
    ui.line(&format!("\nLook around with `cd {}`, or make your own project with `piton init`", ctx.root.display()))?;
    ui.line("Directives are not run yet: that comes next")?;
    Ok(ExitStatus::Success)
}

/// The main job: changes kept, put back, undone, with the user's own work untouched.
fn show_checkpoints(ctx: &Context, ui: &mut Ui) -> Result<(), Error> {
    ui.line("\nThe example is a git repository. Everything in it becomes the first checkpoint:\n")?;
    tour(ctx, ui, &["checkpoint", "--all", "--message", "chore: begin"])?;
    let notes = ctx.root.join("notes.txt");
    let written = std::fs::write(&notes, "my own notes, not committed\n");
    written.map_err(|source| Error::Write { file: notes, source })?;
    ui.line("\nYou write `notes.txt`. A command runs as a step: what it changes, and only that, is committed:\n")?;
    tour(ctx, ui, &["exec", "--", "sh", "-c", "echo hello > greeting.txt"])?;
    ui.line("\nA command that fails is put back, here with the harm it did to your notes:\n")?;
    tour(ctx, ui, &["exec", "--", "sh", "-c", "rm notes.txt; echo oops > greeting.txt; exit 3"])?;
    ui.line("\nA tool of the project is a step as well; it may write what it says, and no other file:\n")?;
    tour(ctx, ui, &["tool", "run", "greet", "--param", "who=Ada", "--checkpoint", "auto"])?;
    ui.line("\nAny step can be undone later, and an undo as well; branches never move backwards:\n")?;
    tour(ctx, ui, &["undo"])?;
    ui.line("\nEvery step is written down, in a chain that shows tampering:\n")?;
    tour(ctx, ui, &["log"])?;
    tour(ctx, ui, &["verify"])
}

/// Shows a command line and runs it in this process.
fn tour(ctx: &Context, ui: &mut Ui, words: &[&str]) -> Result<(), Error> {
    let quoted: Vec<String> =
        words.iter().map(|word| if word.contains(' ') { format!("'{word}'") } else { (*word).to_owned() }).collect();
    ui.line(&format!("$ piton {}", quoted.join(" ")))?;
    super::run_words(words, ctx, ui)?;
    Ok(())
}

/// Makes the project and opens it.
pub(super) fn make_project(environment: Environment) -> Result<Context, Error> {
    let parent = environment.temporary_folder();
    let folder = tempfile::Builder::new()
        .prefix("piton-quickstart-")
        .tempdir_in(&parent)
        .map_err(|source| Error::Write { file: parent, source })?;
    write_example(folder.path())?;
    create_repository(folder.path()).map_err(RunError::from)?;
    // A folder that could not be filled goes away by itself.
    Ok(Context::at(environment, &folder.keep())?)
}
