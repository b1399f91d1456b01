//! A person allows agents to run items.
//!
//! [`record`] writes the consent into a journal of its own; it covers the content that was shown.
//! An agent can never consent: a [`Context`] on behalf of an agent has no [`Approver`].

use super::directive::pin;
use super::error::RunError;
use super::rewrite;
use super::session::{RunRequest, Session};
use super::worktree_lock::refuse_inside;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::repository::Repository;
use crate::context::Context;
use crate::exec::chain;
use crate::item::directive::CheckpointMode;
use crate::item::finding::Strength;
use crate::item::signature::Integrity;
use crate::item::store::{Item, ItemKind, ItemStore};
use crate::journal::RunId;
use crate::journal::event::{Approver, Consent, ConsentTo, Event};
use crate::journal::summary::RunStatus;
use crate::trust::unreviewed::{UnreviewedItem, unreviewed};
use crate::workspace::{RunFolders, open_repository};

/// The tools that run when a tool is called, or the directive, as far as an agent wrote them.
pub fn needed_for(ctx: &Context, kind: ItemKind, id: &str) -> Vec<UnreviewedItem> {
    if !ctx.unreviewed.is_served() {
        return Vec::new();
    }
    let store = ItemStore::open(ctx.roots(), Strength::Lenient);
    match kind {
        ItemKind::Tool => {
            let links = chain::links(&store, id);
            // The run refuses a wrong stamp in any case, so the person is not asked.
            let is_refused = |item: &&Item| {
                matches!(
                    item.integrity,
                    Integrity::Mismatch { .. } | Integrity::Invalid { .. }
                )
            };
            if links.iter().any(is_refused) {
                return Vec::new();
            }
            unreviewed(ctx, links)
        }
        ItemKind::Directive => pin::reachable(ctx, &store, id),
        ItemKind::Knowledge => Vec::new(),
    }
}

/// Records that the person allows agents to run items with the content that was shown.
pub fn record(ctx: &Context, items: &[UnreviewedItem]) -> Result<RunId, RunError> {
    let repository = match open_repository(ctx) {
        Ok(repository) => Some(repository),
        Err(CheckpointError::NoRepository(_)) => None,
        Err(err) => return Err(err.into()),
    };
    // A tool that runs inside a run must not consent in the user's name.
    refuse_inside(ctx, &RunFolders::of_project(ctx).own)?;
    let approver = approver(ctx, repository.as_ref()).ok_or(RunError::PersonNeeded)?;
    let consent = Consent {
        to: ConsentTo::Run,
        items: items.iter().map(UnreviewedItem::consented).collect(),
        approver,
    };
    let mut command = vec!["piton".to_owned(), "approve".to_owned()];
    command.extend(
        items
            .iter()
            .flat_map(|item| ["--item".to_owned(), item.id.to_string()]),
    );
    let event = Event::Consented(consent);
    let run = if let Some(repository) = &repository {
        rewrite::write(ctx, repository, "approve", command, vec![event])?
    } else {
        let request = RunRequest {
            name: "approve".to_owned(),
            command,
            mode: CheckpointMode::Disabled,
            lock_timeout: std::time::Duration::ZERO,
            directive: None,
        };
        let mut observer = |_: &Event| {};
        let mut session = Session::begin(ctx, &request, &mut observer)?;
        session.recorder.record(&event)?;
        session.finish(RunStatus::Succeeded, None)?.run_id
    };
    for item in items {
        ctx.unreviewed.allow(&item.content);
    }
    Ok(run)
}

/// The person on whose behalf piton works; none for an agent.
pub(super) fn approver(ctx: &Context, repository: Option<&Repository>) -> Option<Approver> {
    let channel = ctx.principal.channel()?;
    let by = repository
        .and_then(|repository| {
            repository
                .person(ctx.environment.variables(), ctx.now())
                .ok()
        })
        .unwrap_or_else(|| "unknown".to_owned());
    Some(Approver {
        by,
        channel,
        at: ctx.now(),
    })
}
