//! Asks the person behind a client whether an item that an agent wrote may run.
//!
//! Before a run, [`obtain`] finds the items among those it needs that no person has seen. The person
//! sees their text, in the way of the client's era. A consent is recorded in a journal and covers the
//! content that was shown; without one the call is refused, and the answer names the command for a
//! terminal.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::arguments::CallArguments;
use super::call::{CallReply, Caller};
use super::decision::{self, Asked, digest};
use super::failure::ToolFailure;
use super::projects::{Projects, lock};
use crate::context::principal::{PersonChannel, Principal};
use crate::item::store::ItemKind;
use crate::item::wording::clean;
use crate::problem::Explain as _;
use crate::run::consent;
use crate::run::error_titles::ErrorTitle;
use crate::trust::author::AuthorError;
use crate::trust::unreviewed::UnreviewedItem;

/// The longest question. A person sees everything that they allow, or is asked in the terminal.
const MOST_SHOWN: usize = 8 * 1024;
const ASK: &str =
    "ask the person; the command in `terminal` allows it, and the same call runs it afterwards";
const TOO_LONG: &str = "it is too long for a question of a client; ask the person: the command in `terminal` shows all of it \
and allows it, and the same call runs it afterwards";

/// Whether a call may go on.
pub(super) enum Obtained {
    /// Go on, with what is left of the answers of the client.
    Go(Box<Caller>),
    /// The client must ask the person and call again.
    Asked(CallReply),
}

/// The subject of a question, as it travels through a client.
#[derive(Serialize, Deserialize)]
struct ConsentSubject {
    root: PathBuf,
    /// The hash of the question's text.
    consent: String,
}

/// Asks for every item that the run of an item needs and that no person has seen.
pub(super) async fn obtain(
    projects: &Arc<Projects>,
    arguments: &CallArguments,
    kind: ItemKind,
    caller: &Caller,
) -> Result<Obtained, ToolFailure> {
    let mut caller = caller.clone();
    // Under a directive a changed item does not run, so the person is not asked.
    if projects.confinement().is_some() || arguments.flag("dry_run")? {
        return Ok(Obtained::Go(Box::new(caller)));
    }
    let id = arguments.text("item_id")?.unwrap_or_default();
    let id = match (kind, id.split_once(':')) {
        (ItemKind::Tool, Some((tool, _))) => tool.to_owned(),
        _ => id.to_owned(),
    };
    loop {
        let (here, named, about) = (
            Arc::clone(projects),
            arguments.text("project_path")?.map(str::to_owned),
            id.clone(),
        );
        let (ctx, items) = caller
            .work(move |_| {
                let (_, ctx) = here.project(named.as_deref())?;
                let items = consent::needed_for(&ctx, kind, &about);
                Ok((ctx, items))
            })
            .await?;
        if items.is_empty() {
            return Ok(Obtained::Go(Box::new(caller)));
        }
        let text = question(&items);
        if text.len() > MOST_SHOWN {
            return Err(refused(items, TOO_LONG));
        }
        let subject = ConsentSubject {
            root: ctx.root.clone(),
            consent: digest(&text),
        };
        let sealed = caller.state.take();
        let answered = sealed
            .and_then(|sealed| decision::unseal::<ConsentSubject>(projects, &caller, &sealed).ok())
            .filter(|asked| asked.consent == subject.consent && asked.root == subject.root);
        let is_allowed = if answered.is_some() {
            decision::consent_of(caller.answered.take().as_ref())
        } else {
            match decision::ask_consent(projects, &caller, &text, &subject).await? {
                Asked::Reply(question) => return Ok(Obtained::Asked(CallReply::Asked(question))),
                Asked::Answer(is_allowed) => is_allowed,
            }
        };
        if !is_allowed {
            return Err(refused(items, ASK));
        }
        let here = Arc::clone(projects);
        caller
            .work(move |_| {
                let (project, _) = here.project(ctx.root.to_str())?;
                let ctx = ctx.on_behalf_of(Principal::Person(PersonChannel::Elicitation));
                let _turn = lock(&project.turn);
                // What was shown must be what is there: the next look compares it.
                Ok(consent::record(&ctx, &items)?)
            })
            .await?;
    }
}

fn question(items: &[UnreviewedItem]) -> String {
    let each = items.iter().map(|item| {
        let hash = item.content.get(..12).unwrap_or_default();
        let text = clean(&item.text);
        format!("\n\n{} `{}` (sha256 {hash}), {text}", item.kind, item.id)
    });
    let question = "An agent may have written what it wants to run now. Allow it?".to_owned();
    question + &each.collect::<Vec<_>>().concat()
}

fn refused(items: Vec<UnreviewedItem>, suggestion: &'static str) -> ToolFailure {
    let names: Vec<String> = items
        .iter()
        .map(|item| format!(" --item {}", item.id))
        .collect();
    let err = AuthorError::Unreviewed(items);
    ToolFailure::new(ErrorTitle::PersonNeeded, err.code(), err.to_string())
        .with_suggestion(suggestion)
        .with("terminal", format!("piton approve{}", names.concat()))
}
