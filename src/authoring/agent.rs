//! What an agent may write: items of the project, without hooks and grants.
//!
//! A person decides what agents may do, so an agent can change neither the permissions and hooks of
//! a directive nor the user's own items. A copy of a directive keeps the permissions that its author
//! gave it.

use std::path::Path;

use serde_json::{Value, json};

use super::{Home, ItemEffect, ItemStepError, Write};
use crate::context::Context;
use crate::context::principal::Principal;
use crate::item::directive::{self, Access, Directive};
use crate::item::finding::{Findings, Strength};
use crate::item::source::SourceFile;
use crate::item::store::{ItemKind, ItemStore};

/// Refuses planned files that an agent may not write.
pub(crate) fn require_allowed(
    ctx: &Context,
    store: &ItemStore,
    effect: &ItemEffect,
) -> Result<(), ItemStepError> {
    if ctx.principal != Principal::Agent {
        return Ok(());
    }
    effect
        .writes
        .iter()
        .try_for_each(|write| require_same_powers(ctx, store, write))
}

/// Refuses to write the user's own items while agents are served.
pub(crate) fn require_project(ctx: &Context, writes: &[Write]) -> Result<(), ItemStepError> {
    let is_users = |write: &&Write| write.home == Home::User;
    match writes.iter().find(is_users) {
        Some(write) if ctx.unreviewed.is_served() => {
            Err(ItemStepError::UserLayer(write.path.clone()))
        }
        _ => Ok(()),
    }
}

fn require_same_powers(
    ctx: &Context,
    store: &ItemStore,
    write: &Write,
) -> Result<(), ItemStepError> {
    let Some(content) = &write.content else {
        return Ok(());
    };
    let Some(written) = parse(&ctx.root.join(&write.path), content) else {
        return Ok(());
    };
    let before = store
        .find(ItemKind::Directive, written.name.as_str())
        .ok()
        .and_then(|item| item.as_directive());
    let (grants_before, hooks_before) = before.map(powers).unwrap_or_default();
    let (grants, hooks) = powers(&written);
    if grants != grants_before || hooks != hooks_before {
        return Err(ItemStepError::Powers(written.name.to_string()));
    }
    Ok(())
}

fn parse(file: &Path, content: &[u8]) -> Option<Directive> {
    let is_directive = file.components().any(|it| it.as_os_str() == "directives");
    if !is_directive {
        return None;
    }
    let mut findings = Findings::new(file, Strength::Lenient);
    let source = SourceFile::decode(file, content.to_vec(), &mut findings)?;
    directive::parse(&source, &mut findings)
}

/// The grants and hooks of a directive, without their places in its text.
fn powers(directive: &Directive) -> (Vec<(&Access, bool)>, Vec<Value>) {
    let grants = directive.permissions.iter();
    let grants = grants.map(|grant| (&grant.access, grant.deny)).collect();
    let hooks = directive.hooks.iter().map(|hook| {
        let inputs: Vec<_> = hook
            .inputs
            .iter()
            .map(|it| json!([it.name, it.value]))
            .collect();
        json!([hook.when, hook.directive, inputs])
    });
    (grants, hooks.collect())
}
