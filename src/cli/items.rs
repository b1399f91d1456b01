//! What the commands that write items have in common: `load --to`, `sign`, `new` and `migrate`.

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value};

use super::exec::parse_mode;
use super::render;
use super::ui::{Format, Ui};
use crate::checkpoint::secret::redacted;
use crate::context::{self, Context};
use crate::error::{Error, ExitStatus};
use crate::item::directive::CheckpointMode;
use crate::item::search::Scope;
use crate::item::store::{ItemKind, Layer};
use crate::journal::event::Event;
use crate::run::items::{self, Effort, ItemOutcome, ItemRequest, Verb};

/// How items are written.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Writing {
    /// Shows what would be done, and writes nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// When changes are checkpointed: `auto` at once, `explicit` with `piton checkpoint`, `disabled` never.
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    pub(super) checkpoint: Option<CheckpointMode>,
    /// The message of the commit, instead of a generated one.
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// How many seconds to wait for another run in this worktree.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    lock_timeout: u64,
}

impl Writing {
    /// Refuses what is of no use where nothing is written into the project.
    pub(super) fn refuse_checkpoint(&self) -> Result<(), Error> {
        let given = [(self.checkpoint.is_some(), "--checkpoint"), (self.message.is_some(), "--message")];
        match given.into_iter().find(|(is_given, _)| *is_given) {
            Some((_, flag)) => Err(Error::NothingToCheckpoint(flag)),
            None => Ok(()),
        }
    }
}

/// The kinds of items, as arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Kind {
    /// Something that can be run.
    #[value(alias = "tools", alias = "script")]
    Tool,
    /// A workflow.
    #[value(alias = "directives")]
    Directive,
    /// Something worth knowing.
    Knowledge,
}

/// Where to look for items, as an argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Source {
    /// The project and the user's own items.
    #[default]
    Local,
    /// The built-in items as well.
    All,
    /// `.ai/` of the project.
    Project,
    /// `~/.ai/`.
    User,
    /// What comes with piton.
    Builtin,
    #[value(hide = true)]
    Registry,
}

impl Source {
    /// Whether a project belongs to where it looks.
    pub(super) fn needs_project(self) -> bool {
        !matches!(self, Self::User | Self::Builtin)
    }

    /// The layers to look in.
    pub(super) fn scope(self) -> Result<Scope, Error> {
        Ok(match self {
            Self::Local => Scope::Local,
            Self::All => Scope::All,
            Self::Project => Scope::Only(Layer::Project),
            Self::User => Scope::Only(Layer::User),
            Self::Builtin => Scope::Only(Layer::Builtin),
            Self::Registry => return Err(Error::NoRegistry),
        })
    }
}

impl From<Kind> for ItemKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Tool => Self::Tool,
            Kind::Directive => Self::Directive,
            Kind::Knowledge => Self::Knowledge,
        }
    }
}

/// Does something with items; says what happens on the way.
pub(super) fn perform(
    verb: Verb,
    parameters: Map<String, Value>,
    writing: &Writing,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ItemOutcome, Error> {
    carry(verb, parameters, writing, None, ctx, ui)
}

/// Signs items as the person who has a key and is at the terminal.
pub(super) fn sign_as(
    key: &Path,
    parameters: Map<String, Value>,
    writing: &Writing,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ItemOutcome, Error> {
    carry(Verb::Sign, parameters, writing, Some(key), ctx, ui)
}

fn carry(
    verb: Verb,
    parameters: Map<String, Value>,
    writing: &Writing,
    key: Option<&Path>,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ItemOutcome, Error> {
    let typed = context::arguments().into_iter().skip(1).map(|word| redacted(&word.to_string_lossy()));
    let command = std::iter::once("piton".to_owned()).chain(typed).collect();
    let request = ItemRequest {
        mode: writing.checkpoint,
        message: writing.message.as_deref().map(redacted),
        effort: if writing.dry_run { Effort::Plan } else { Effort::Do },
        lock_timeout: Duration::from_secs(writing.lock_timeout),
        ..ItemRequest::new(verb, parameters, command)
    };
    let shared = RefCell::new(&mut *ui);
    let mut show = |event: &Event| {
        let mut ui = shared.borrow_mut();
        // The result says it all; its shape is the same whether there was a run or not.
        match (ui.format(), event) {
            // Of a new file nobody wants to hear that it is not committed yet.
            (Format::Human, Event::CheckpointSkipped { reason, .. }) if verb == Verb::Create => {
                ui.detail(&format!("no checkpoint: {reason}"));
            }
            // What no checkpoint holds was written all the same; that is said at the end.
            (Format::Human, Event::NoChanges { .. }) => {}
            (Format::Human, event) => render::event(&mut ui, event),
            _ => {}
        }
    };
    let Some(key) = key else { return Ok(items::perform(ctx, &request, &mut show)?) };
    // What it asks for at the terminal it asks there by itself; this is about keys that want to be touched.
    let mut talk = |text: &str| {
        if text.contains("Confirm user presence") {
            shared.borrow_mut().note(text.trim());
        }
    };
    Ok(items::sign_as(ctx, &request, key, &mut talk, &mut show)?)
}

/// The exit code of an outcome; says why the run failed, if it did.
pub(super) fn end(outcome: &ItemOutcome, ui: &mut Ui) -> ExitStatus {
    let status = match &outcome.run {
        Some(run) => render::end(ui, run),
        None => ExitStatus::Success,
    };
    if let (ExitStatus::Success, Some(first)) = (status, outcome.uncovered.first()) {
        let more = match outcome.uncovered.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let about = first.why.about(&first.path);
        ui.warning(&format!("{about}: `piton undo` cannot take this{more} back"));
    }
    status
}

/// Parameters without those that were not given.
pub(super) fn given<const N: usize>(parameters: [(&str, Value); N]) -> Map<String, Value> {
    let is_given = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
    parameters.into_iter().filter(|(_, value)| is_given(value)).map(|(name, value)| (name.to_owned(), value)).collect()
}
