//! Validates a text before it becomes an item: reports everything that `piton validate` would,
//! except about stamps.

use super::{CreateItem, ItemName, ItemStepError, Verb, create, load};
use crate::context::Context;
use crate::item::finding::{Finding, Findings, Severity, Strength};
use crate::item::position::Position;
use crate::item::search::SearchScope;
use crate::item::store::{Item, ItemStore, Layer, LookupError};
use crate::item::validate::Unsigned;
use crate::problem::Code;
use crate::validation::{self, ValidationOptions, ValidationReport};

/// All problems of the items of the project.
pub fn review_all(ctx: &Context) -> ValidationReport {
    let options = ValidationOptions::of(ctx);
    let store = ItemStore::open(ctx.roots(), options.strength);
    validation::validate_items(&store, &options)
}

/// All problems of an item, or those that it would have with the text in the request.
pub fn review(ctx: &Context, request: &CreateItem) -> Result<ValidationReport, ItemStepError> {
    match &request.content {
        Some(text) => review_text(ctx, request, text),
        None => review_file(ctx, &request.name),
    }
}

fn review_file(ctx: &Context, name: &ItemName) -> Result<ValidationReport, ItemStepError> {
    let options = ValidationOptions::of(ctx);
    let store = ItemStore::open(ctx.roots(), options.strength);
    let path = match known(&store, name) {
        Ok(item) if item.layer != Layer::Project => {
            // Problems of user and built-in items count only here, where the user asks about one
            // item.
            let text = load::content(item)?;
            let (read, findings) = store.reread(item, &text, options.strength);
            return Ok(validation::validate_text(
                read.as_ref().unwrap_or(item),
                &text,
                findings,
                &store,
                &options,
            ));
        }
        Ok(item) => item
            .as_tool()
            .and_then(|tool| tool.folder.clone())
            .unwrap_or_else(|| item.file.clone()),
        Err(ItemStepError::Lookup(LookupError::Broken { finding, .. })) => {
            ctx.root.join(&finding.file)
        }
        Err(err) => return Err(err),
    };
    Ok(validation::validate_items(
        &store,
        &ValidationOptions {
            paths: vec![path],
            settings: Vec::new(),
            ..options
        },
    ))
}

/// The item may exist or be a new one.
fn review_text(
    ctx: &Context,
    request: &CreateItem,
    text: &str,
) -> Result<ValidationReport, ItemStepError> {
    let options = ValidationOptions {
        unsigned: Unsigned::Warned,
        settings: Vec::new(),
        ..ValidationOptions::of(ctx)
    };
    let store = ItemStore::open(ctx.roots(), options.strength);
    let (file, (read, mut findings)) = if let Ok(item) = known(&store, &request.name) {
        (
            item.file.clone(),
            store.reread(item, text, options.strength),
        )
    } else {
        let (kind, fields) = create::wanted(ctx, &store, request)?;
        let made = create::written(kind, &fields, text);
        let file = ctx.root.join(&made.edit);
        let read = store.preview(made.kind, &file, text, options.strength);
        (file, read)
    };
    let mut own = Findings::new(&store.roots().display(&file), options.strength);
    let wanted = request.name.full_id();
    match &read {
        Some(item) if wanted.rsplit('/').next() != Some(item.id.name()) => {
            own.add(
                Code::NameMismatch,
                Position::START,
                "",
                format!("its id is `{}`, not `{wanted}`", item.id),
            )
            .with_severity(Severity::Error)
            .suggest("use the same name in both places");
        }
        // As a file, a text that is no item would be ignored without a finding.
        None if findings.is_empty() => {
            own.add(
                Code::MissingMetadata,
                Position::START,
                "",
                "this text does not describe an item",
            )
            .with_severity(Severity::Error)
            .suggest("`load` an item of the same kind to see how one is written");
        }
        _ => {}
    }
    findings.extend(own.into_vec());
    Ok(match read {
        Some(item) => validation::validate_text(&item, text, findings, &store, &options),
        None => ValidationReport::of(findings),
    })
}

fn known<'s>(store: &'s ItemStore, name: &ItemName) -> Result<&'s Item, ItemStepError> {
    let scope = SearchScope::Only(name.location.layer());
    load::find(store, name.item_type, &name.full_id(), scope, Verb::Load)
}

/// Refuses a text that would make an item invalid.
pub(super) fn require_valid(
    ctx: &Context,
    store: &ItemStore,
    item: &Item,
    text: &str,
) -> Result<(), ItemStepError> {
    let options = ValidationOptions {
        strength: Strength::Lenient,
        settings: Vec::new(),
        ..ValidationOptions::of(ctx)
    };
    let (read, findings) = store.reread(item, text, options.strength);
    let Some(read) = read else {
        let first = findings
            .into_iter()
            .find(|finding| finding.severity == Severity::Error);
        return Err(first.map_or_else(|| no_longer(item), refused));
    };
    if read.id != item.id {
        return Err(ItemStepError::NotValid {
            code: Code::NameMismatch,
            reason: format!("its id is `{}`, not `{}`", read.id, item.id),
            hint: Some(
                format!(
                    "write `{}` in it; a new name is a new item: create it, then delete this one",
                    item.id
                )
                .into(),
            ),
        });
    }
    let report = validation::validate_text(&read, text, findings, store, &options);
    match report
        .findings
        .into_iter()
        .find(|finding| finding.severity == Severity::Error)
    {
        Some(first) => Err(refused(first)),
        None => Ok(()),
    }
}

fn refused(finding: Finding) -> ItemStepError {
    let Finding {
        code,
        message: reason,
        suggestion: hint,
        ..
    } = finding;
    ItemStepError::NotValid { code, reason, hint }
}

fn no_longer(item: &Item) -> ItemStepError {
    ItemStepError::NotValid {
        code: Code::MissingMetadata,
        reason: format!("it is no longer a {}", item.kind()),
        hint: Some("`load` shows how it is written".into()),
    }
}
