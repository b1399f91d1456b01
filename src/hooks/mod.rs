//! Git hooks: putting them into a repository, and what each does.
//!
//! [`install()`], [`uninstall()`] and [`status()`] are about the files in the folder where git looks for hooks: a
//! [`stub`] for each, beside whatever was there before. Each looks first ([`slot`], [`manager`]) and only then writes
//! ([`change`]); what cannot be put there safely is refused, or told as a [`Snippet`]. [`entry::run`] is what happens when git runs
//! one of them.

mod change;
pub mod entry;
mod error;
mod install;
mod manager;
mod record;
mod slot;
mod snippet;
mod status;
mod stub;
mod uninstall;

use std::path::PathBuf;

use serde::Serialize;

pub use crate::checkpoint::hook::Hook;
use crate::checkpoint::hook_site::HookSite;
use crate::context::Context;
use crate::exec::subprocess::find_on_path;
pub use error::HooksError;
pub use install::install;
pub use snippet::Snippet;
pub use status::{Summary, status, summary};
pub use uninstall::uninstall;

/// What was done or found, hook by hook.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The folder where git looks for hooks.
    pub folder: String,
    /// Each hook.
    pub hooks: Vec<HookReport>,
    /// What to write by hand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub snippets: Vec<Snippet>,
}

/// What was done about one hook, or how it is.
#[derive(Clone, Debug, Serialize)]
pub struct HookReport {
    /// The hook.
    pub hook: Hook,
    /// In one word.
    pub state: State,
    /// What there is to know about it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// The way out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// How a hook is, or what was done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The stub is in its place.
    Installed,
    /// The stub was there and is now as it has to be.
    Updated,
    /// The stub was there already, as it has to be.
    Unchanged,
    /// Another manager calls piton.
    Delegated,
    /// Nothing was done, for a reason.
    Refused,
    /// The stub is gone; nothing was there before it.
    Removed,
    /// What was there before is there again.
    Restored,
    /// There is no stub.
    NotInstalled,
    /// Somebody else has put something in its place since.
    Replaced,
    /// Another version of piton made the stub.
    Outdated,
    /// Somebody edited the stub.
    Edited,
    /// The program that the stub names is not there.
    ProgramMissing,
    /// The hook that was there before is gone.
    BeforeMissing,
    /// The hook that was there before is another now.
    BeforeEdited,
    /// The stub does something else than `hooks.fail_closed` says.
    SettingDiffers,
    /// The other manager would call piton, but git does not call the manager.
    NotReached,
}

impl State {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Installed => "installed",
            Self::Updated => "updated",
            Self::Unchanged => "installed already",
            Self::Delegated => "delegated",
            Self::Refused => "refused",
            Self::Removed => "removed",
            Self::Restored => "restored",
            Self::NotInstalled => "not installed",
            Self::Replaced => "replaced",
            Self::Outdated => "outdated",
            Self::Edited => "edited",
            Self::ProgramMissing => "program missing",
            Self::BeforeMissing => "former hook missing",
            Self::BeforeEdited => "former hook changed",
            Self::SettingDiffers => "setting differs",
            Self::NotReached => "not reached",
        }
    }

    /// Whether piton's part of the hook is as it was asked for.
    pub fn is_well(self) -> bool {
        matches!(
            self,
            Self::Installed | Self::Updated | Self::Unchanged | Self::Delegated | Self::Removed | Self::Restored
        )
    }
}

impl HookReport {
    fn new(hook: Hook, state: State, detail: impl Into<String>) -> Self {
        Self { hook, state, detail: detail.into(), hint: None }
    }

    fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// The repository around the working folder.
fn site(ctx: &Context) -> Result<HookSite, HooksError> {
    Ok(HookSite::find(&ctx.cwd, ctx.environment.variables())?)
}

/// The hooks that are meant: those asked for, else those that make sense in such a repository.
fn chosen(site: &HookSite, asked: &[Hook]) -> Vec<Hook> {
    let meant = |hook: &Hook| match asked {
        [] => (*hook == Hook::PreReceive) == site.top.is_none(),
        asked => asked.contains(hook),
    };
    Hook::ALL.into_iter().filter(meant).collect()
}

/// The program for stubs: under the name that the search path knows it by, which survives its next version.
fn program(ctx: &Context) -> Option<PathBuf> {
    find_on_path(&ctx.program, "piton", ctx.search_path()).or_else(|| ctx.program.canonicalize().ok())
}
