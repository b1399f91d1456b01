//! Git hooks: installs them, and implements what each does.
//!
//! [`install()`], [`uninstall()`] and [`status()`] handle the files in git's hooks folder: one
//! [`stub`] per hook, beside the hook that was there before. Each first reads ([`slot`],
//! [`manager`]) and only then writes ([`change`]). What cannot be written safely is refused, or
//! returned as a [`Snippet`]. Git calls [`entry::run`] through the stub.

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
pub use status::{HooksSummary, status, summary};
pub use uninstall::uninstall;

#[derive(Clone, Debug, Serialize)]
pub struct HooksReport {
    /// The folder where git looks for hooks.
    pub folder: String,
    pub hooks: Vec<HookReport>,
    /// Lines for the user to add by hand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub snippets: Vec<Snippet>,
}

#[derive(Clone, Debug, Serialize)]
pub struct HookReport {
    pub hook: Hook,
    pub state: HookState,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The state of a hook, or what was done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HookState {
    Installed,
    /// A stub was there, and was rewritten.
    Updated,
    /// A stub was there, and is up to date.
    Unchanged,
    /// Another manager calls piton.
    Delegated,
    /// Nothing was written; the detail says why.
    Refused,
    /// The stub was removed; there was no earlier hook.
    Removed,
    /// The stub was removed, and the earlier hook is back.
    Restored,
    NotInstalled,
    /// Another program has replaced the stub.
    Replaced,
    /// Another version of piton wrote the stub.
    Outdated,
    Edited,
    /// The program named in the stub does not exist.
    ProgramMissing,
    /// The hook that was there before the stub is gone.
    BeforeMissing,
    /// The hook that was there before the stub has changed.
    BeforeEdited,
    /// The stub and `hooks.fail_closed` disagree.
    SettingDiffers,
    /// The other manager would call piton, but git does not call the manager.
    NotReached,
}

impl HookState {
    pub fn label(self) -> &'static str {
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

    /// Whether piton's part of the hook is as the user requested it.
    pub fn is_well(self) -> bool {
        matches!(
            self,
            Self::Installed
                | Self::Updated
                | Self::Unchanged
                | Self::Delegated
                | Self::Removed
                | Self::Restored
        )
    }
}

impl HookReport {
    fn new(hook: Hook, state: HookState, detail: impl Into<String>) -> Self {
        Self {
            hook,
            state,
            detail: detail.into(),
            hint: None,
        }
    }

    fn with_hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }
}

fn site(ctx: &Context) -> Result<HookSite, HooksError> {
    Ok(HookSite::find(&ctx.cwd, ctx.environment.variables())?)
}

/// The hooks in `asked`, or the defaults for this kind of repository if it is empty.
fn chosen(site: &HookSite, asked: &[Hook]) -> Vec<Hook> {
    let meant = |hook: &Hook| match asked {
        [] => (*hook == Hook::PreReceive) == site.top.is_none(),
        asked => asked.contains(hook),
    };
    Hook::ALL.into_iter().filter(meant).collect()
}

/// The program for stubs. The name on `PATH` is preferred, because it survives an upgrade.
fn program(ctx: &Context) -> Option<PathBuf> {
    find_on_path(&ctx.program, "piton", ctx.search_path())
        .or_else(|| ctx.program.canonicalize().ok())
}
