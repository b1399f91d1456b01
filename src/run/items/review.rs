//! Judging a text before it is an item: everything that `piton validate` would say about it, except about stamps.

use serde_json::{Map, Value};

use super::parameters::Given;
use super::{ItemStepError, Verb, create, load};
use crate::context::Context;
use crate::item::finding::{Finding, Findings, Severity, Strength};
use crate::item::place::Place;
use crate::item::search::Scope;
use crate::item::store::{Item, ItemStore, Layer, LookupError};
use crate::item::validate::Unsigned;
use crate::problem::Code;
use crate::run::error::RunError;
use crate::validation::{self, Options, Report};

/// Everything that is wrong with an item as it lies on disk.
pub fn review(ctx: &Context, parameters: &Map<String, Value>) -> Result<Report, RunError> {
    let options = Options::of(ctx);
    let store = ItemStore::open(ctx.roots(), options.strength);
    let given = Given::new(ctx, Verb::Delete, parameters)?;
    if given.text("item_id")?.is_none() {
        return Ok(validation::validate_items(&store, &options));
    }
    let layer = given.location()?.layer();
    let path = match load::find(&store, given.kind()?, &given.full_id()?, Scope::Only(layer), &given) {
        Ok(item) if item.layer != Layer::Project => {
            // Other people's mistakes are no findings of the project, unless somebody asks.
            let text = load::content(item)?;
            let (read, findings) = store.reread(item, &text, options.strength);
            return Ok(validation::validate_text(read.as_ref().unwrap_or(item), &text, findings, &store, &options));
        }
        Ok(item) => item.as_tool().and_then(|tool| tool.folder.clone()).unwrap_or_else(|| item.file.clone()),
        Err(ItemStepError::Lookup(LookupError::Broken { finding, .. })) => ctx.root.join(&finding.file),
        Err(err) => return Err(err.into()),
    };
    Ok(validation::validate_items(&store, &Options { paths: vec![path], settings: Vec::new(), ..options }))
}

/// Everything that would be wrong with an item if it had this text: one that exists, or a new one.
pub fn review_text(ctx: &Context, parameters: &Map<String, Value>) -> Result<Report, RunError> {
    let options = Options { unsigned: Unsigned::Warned, settings: Vec::new(), ..Options::of(ctx) };
    let store = ItemStore::open(ctx.roots(), options.strength);
    let given = Given::new(ctx, Verb::Create, parameters)?;
    let text = given.whole("content")?.ok_or(ItemStepError::Missing { verb: Verb::Create, name: "content" })?;
    let scope = Scope::Only(given.location()?.layer());
    let known = load::find(&store, given.kind()?, &given.full_id()?, scope, &given);
    let (file, (read, mut findings)) = if let Ok(item) = known {
        (item.file.clone(), store.reread(item, text, options.strength))
    } else {
        let (kind, fields) = create::wanted(ctx, &store, &given)?;
        let made = create::written(kind, &fields, text);
        let file = ctx.root.join(&made.edit);
        let read = store.preview(made.kind, &file, text, options.strength);
        (file, read)
    };
    let mut own = Findings::new(&store.roots().display(&file), options.strength);
    let wanted = given.full_id()?;
    match &read {
        Some(item) if wanted.rsplit('/').next() != Some(item.id.name()) => {
            own.add(Code::NameMismatch, Place::START, "", format!("it calls itself `{}`, not `{wanted}`", item.id))
                .with_severity(Severity::Error)
                .suggest("use the same name in both places");
        }
        // A text that is no item at all would be nothing to complain about among other files.
        None if findings.is_empty() => {
            own.add(Code::MissingMetadata, Place::START, "", "this text does not describe an item")
                .with_severity(Severity::Error)
                .suggest("`load` an item of the same kind to see how one is written");
        }
        _ => {}
    }
    findings.extend(own.into_vec());
    Ok(match read {
        Some(item) => validation::validate_text(&item, text, findings, &store, &options),
        None => Report::of(findings),
    })
}

/// Refuses a text that would make an item invalid.
pub(super) fn require_valid(ctx: &Context, store: &ItemStore, item: &Item, text: &str) -> Result<(), ItemStepError> {
    let options = Options { strength: Strength::Lenient, settings: Vec::new(), ..Options::of(ctx) };
    let (read, findings) = store.reread(item, text, options.strength);
    let Some(read) = read else {
        let first = findings.into_iter().find(|finding| finding.severity == Severity::Error);
        return Err(first.map_or_else(|| no_longer(item), refused));
    };
    if read.id != item.id {
        return Err(ItemStepError::NotValid {
            code: Code::NameMismatch,
            reason: format!("it calls itself `{}`, not `{}`", read.id, item.id),
            hint: Some(
                format!("write `{}` in it; a new name is a new item: create it, then delete this one", item.id).into(),
            ),
        });
    }
    let report = validation::validate_text(&read, text, findings, store, &options);
    match report.findings.into_iter().find(|finding| finding.severity == Severity::Error) {
        Some(first) => Err(refused(first)),
        None => Ok(()),
    }
}

fn refused(finding: Finding) -> ItemStepError {
    let Finding { code, message: reason, suggestion: hint, .. } = finding;
    ItemStepError::NotValid { code, reason, hint }
}

fn no_longer(item: &Item) -> ItemStepError {
    ItemStepError::NotValid {
        code: Code::MissingMetadata,
        reason: format!("it is no {} any more", item.kind()),
        hint: Some("`load` shows how it is written".into()),
    }
}
