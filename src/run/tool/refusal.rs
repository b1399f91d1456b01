//! How to allow a write that the kernel refused to a tool.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::plan::ToolPlan;
use crate::context::Context;
use crate::exec::CallEnvironment;
use crate::exec::isolation::git_folders;
use crate::exec::toolchain::cache_of;
use crate::item::tool::{DeclaredCache, Isolation};
use crate::problem::Hint;

/// The hint for a failed call with these refused paths; `None` if none of them explains anything.
pub(super) fn hint(ctx: &Context, plan: &ToolPlan, refused: &[PathBuf]) -> Option<Hint> {
    // What the user may not write either is no matter of isolation.
    let mut refused = refused.iter().filter(|path| may_write(path));
    let around = CallEnvironment::of(ctx);
    let first = refused.next()?;
    let cached = std::iter::once(first)
        .chain(refused)
        .find_map(|path| Some((path, cache_of(path, &around)?)))
        .filter(|(_, cache)| !declares(plan, &DeclaredCache::Known(*cache)));
    if let Some((path, cache)) = cached {
        return Some(with_lines(
            plan.isolation,
            path,
            Some(&caches_line(plan, &DeclaredCache::Known(cache))),
            "",
        ));
    }
    let is_gits = git_folders(&ctx.root)
        .iter()
        .any(|folder| first.starts_with(folder));
    if let Some((inside, hint)) = plan.grant_for(first).filter(|_| !is_gits) {
        let inside = inside.display();
        return Some(format!("the kernel did not let it write `{inside}`: {hint}").into());
    }
    let level = plan.isolation;
    Some(match thing_in_cache(first, &around) {
        Some(folder) => with_lines(
            level,
            first,
            Some(&caches_line(plan, &DeclaredCache::Folder(folder))),
            " (the first one also needs the folder in `isolation.cache_folders` of `~/.ai/config.yaml`)",
        ),
        None => with_lines(level, first, None, ""),
    })
}

/// Two lines for the manifest, or one.
fn with_lines(level: Isolation, path: &Path, caches: Option<&str>, more: &str) -> Hint {
    let (level, path) = (level.as_str(), path.display());
    let text = match caches {
        Some(caches) => format!(
            "it tried to write `{path}`, which `isolation: {level}` does not allow; add one of these lines to its \
             manifest{more}\n  {caches}\n  isolation: trusted"
        ),
        None => format!(
            "it tried to write `{path}`, which `isolation: {level}` does not allow; if it has to, add this line to \
             its manifest\n  isolation: trusted"
        ),
    };
    text.into()
}

/// The line with all caches of a tool and one more.
fn caches_line(plan: &ToolPlan, more: &DeclaredCache) -> String {
    let mut names: Vec<String> = Vec::new();
    let declared = plan.invocation.caches.iter().map(|cache| &cache.name);
    for cache in declared.chain([more]) {
        let text = match cache {
            DeclaredCache::Known(known) => known.as_str().to_owned(),
            DeclaredCache::Folder(folder) => format!("\"{folder}\""),
        };
        if !names.contains(&text) {
            names.push(text);
        }
    }
    format!("caches: [{}]", names.join(", "))
}

fn declares(plan: &ToolPlan, cache: &DeclaredCache) -> bool {
    plan.invocation.caches.iter().any(|it| it.name == *cache)
}

/// The folder below `~/.cache` to which a path belongs, as a manifest names it.
fn thing_in_cache(path: &Path, around: &CallEnvironment) -> Option<String> {
    let caches = around.home.as_ref()?.join(".cache");
    let caches = caches.canonicalize().unwrap_or(caches);
    let below = path.strip_prefix(caches).ok()?;
    let name = below.components().next()?.as_os_str().to_str()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (below.components().count() > 1 && name.chars().all(is_plain))
        .then(|| format!("~/.cache/{name}"))
}

/// Whether the user could write a path, or make it.
fn may_write(path: &Path) -> bool {
    let there = std::iter::once(path).chain(path.parent());
    let mut there = there.filter(|path| path.symlink_metadata().is_ok());
    there
        .next()
        .is_some_and(|path| access(path, Access::WRITE_OK).is_ok())
}
