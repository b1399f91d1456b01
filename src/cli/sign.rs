//! `piton sign`: makes and checks stamps and signatures.

use std::path::PathBuf;

use super::items::{self, ItemKindArgument, Writing};
use super::{Format, Ui};
use crate::authoring::{
    CheckedItem, Home, ItemAnswer, ItemCommand, SignItems, SignatureReport, Signed, SignedItem,
    check_signatures,
};
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::item::store::ItemKind;
use crate::trust::author::Authorship;

/// Stamp items, and sign them with your SSH key
///
/// A stamp shows that an item has not changed since it was stamped. It does not show who stamped it:
/// anyone can make a stamp. A signature with an SSH key (`--key`) shows who signed exactly this
/// content. piton does not sign items with errors and leaves signed, unchanged items as they are.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton sign greet                          Stamp one item
  piton sign 'ops/*' .ai/tools/deploy       A category and a path
  piton sign --all --checkpoint auto        Stamp and commit every item of the project
  piton sign --all --dry-run                Show what would be signed
  piton sign --check                        Check stamps and signatures
  piton sign --key ~/.ssh/id_ed25519 greet  Sign with your SSH key

Exit codes: 0 done, 1 something could not be signed or, with `--check`, is not as it must be")]
pub(super) struct SignArguments {
    /// Ids, patterns such as `category/*`, or files and folders of items.
    #[arg(value_name = "PATTERN")]
    patterns: Vec<String>,
    /// Sign every item of the project, or of the user.
    #[arg(long, conflicts_with = "patterns")]
    all: bool,
    /// Only items of this type.
    #[arg(long = "type", value_name = "TYPE", value_enum)]
    kind: Option<ItemKindArgument>,
    /// Sign items of the `project`, or of the `user` in `~/.ai`.
    #[arg(long, value_name = "SOURCE", value_parser = parse_source, default_value = "project")]
    source: Home,
    /// Check stamps and signatures, and write nothing.
    #[arg(long, conflicts_with_all = ["key", "dry_run", "checkpoint", "message", "lock_timeout"])]
    check: bool,
    /// Sign with this SSH key: a private key, or a `.pub` whose private key is in ssh-agent.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    #[command(flatten)]
    writing: Writing,
}

impl SignArguments {
    /// Whether the items are a project's.
    pub(super) fn needs_project(&self) -> bool {
        self.source == Home::Project
    }

    fn request(&self, patterns: Vec<String>) -> SignItems {
        SignItems {
            item_id: patterns,
            item_type: self.kind.map(ItemKind::from),
            source: self.source,
        }
    }
}

fn parse_source(text: &str) -> Result<Home, String> {
    match text {
        "project" => Ok(Home::Project),
        "user" => Ok(Home::User),
        _ => Err("choose `project` or `user`: nothing else can be signed".to_owned()),
    }
}

pub(super) fn run(
    arguments: &SignArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    if arguments.check {
        return check(arguments, ctx, ui);
    }
    let patterns = match (arguments.all, arguments.patterns.as_slice()) {
        (true, _) => vec!["*".to_owned()],
        (false, []) => return Err(Error::NothingToSign),
        (false, patterns) => patterns.to_vec(),
    };
    if arguments.source == Home::User {
        arguments.writing.refuse_checkpoint()?;
    }
    let command = ItemCommand::Sign(arguments.request(patterns));
    let key = arguments.key.as_deref();
    let outcome = items::perform(command, &arguments.writing, key, ctx, ui)?;
    if ui.format() == Format::Json {
        ui.json(&outcome)?;
    }
    let status = items::end(&outcome, ui);
    let Some(ItemAnswer::Sign(answer)) = outcome.answer else {
        return Ok(status);
    };
    if ui.format() == Format::Human {
        print_signed(&answer, arguments, ui)?;
    }
    Ok(match status {
        ExitStatus::Success if !answer.failed.is_empty() => ExitStatus::Failure,
        status => status,
    })
}

fn print_signed(answer: &Signed, arguments: &SignArguments, ui: &mut Ui) -> Result<(), Error> {
    let head = |item: &SignedItem| item.hash.chars().take(12).collect::<String>();
    let all = answer
        .signed
        .iter()
        .chain(&answer.unchanged)
        .map(|item| &item.name);
    let width = all
        .chain(answer.failed.iter().map(|item| &item.name))
        .map(|name| name.chars().count())
        .max();
    let width = width.unwrap_or_default();
    let done = if arguments.writing.dry_run {
        "would sign"
    } else {
        "signed"
    };
    for (word, items) in [(done, &answer.signed), ("unchanged", &answer.unchanged)] {
        for item in items {
            let author = item
                .author
                .as_ref()
                .map(|key| format!("  by {key}"))
                .unwrap_or_default();
            ui.line(&format!(
                "{word:<10} {:<9}  {:width$}  {}  {}{author}",
                item.item_type.to_string(),
                item.name,
                head(item),
                item.path
            ))?;
        }
    }
    for item in &answer.failed {
        ui.failure(&format!(
            "{} `{}` ({}): {}",
            item.item_type, item.name, item.path, item.error
        ));
        if let Some(suggestion) = &item.suggestion {
            ui.hint(&suggestion.to_string());
        }
    }
    let earlier: Vec<String> = answer
        .signed
        .iter()
        .filter_map(|item| Some(format!("`{}`", item.earlier_signature.as_ref()?)))
        .collect();
    if !earlier.is_empty() {
        ui.warning(&format!(
            "signatures that may be for other content: {}",
            earlier.join(", ")
        ));
        ui.hint("see with `piton sign --check`; sign as a person with `--key`");
    }
    let message = answer.message.replacen("signed", done, 1);
    if answer.failed.is_empty() {
        ui.success(&message);
    } else {
        ui.complaint(&message);
    }
    Ok(())
}

fn check(arguments: &SignArguments, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let request = arguments.request(arguments.patterns.clone());
    let checked = check_signatures(ctx, &request)?;
    if ui.format() == Format::Json {
        ui.json(&checked)?;
    } else {
        lines(&checked, ui)?;
    }
    Ok(if checked.valid {
        ExitStatus::Success
    } else {
        ExitStatus::Failure
    })
}

fn lines(checked: &SignatureReport, ui: &mut Ui) -> Result<(), Error> {
    let width = checked
        .items
        .iter()
        .map(|item| item.name.chars().count())
        .max()
        .unwrap_or_default();
    for item in &checked.items {
        let by = match &item.author {
            Some(Authorship::Valid { name, .. }) => format!("  by {name}"),
            _ => String::new(),
        };
        let problem = item
            .problem
            .as_ref()
            .map(|problem| format!("  {problem}"))
            .unwrap_or_default();
        let kind = item.item_type.to_string();
        ui.line(&format!(
            "{:<10} {kind:<9}  {:width$}  {}{by}{problem}",
            item.state(),
            item.name,
            item.path
        ))?;
    }
    if checked.valid {
        ui.success(&checked.message);
        return Ok(());
    }
    ui.complaint(&checked.message);
    let wrong = |item: &&CheckedItem| !item.valid;
    if let Some(suggestion) = checked
        .items
        .iter()
        .filter(wrong)
        .find_map(|item| item.suggestion.as_ref())
    {
        ui.hint(&suggestion.to_string());
    }
    Ok(())
}
