//! A directive whose permissions limit a server, as it was when the server began.
//!
//! Later edits of its file change nothing: tools are judged by the pinned permissions, and the
//! directive itself runs, and continues, only with the pinned text of itself and of what it names.
//! What an agent undoes, restores or commits must lie within the pinned permissions too.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directive::PreparedRun;
use super::directive::pin::{LoadedPin, Pinned};
use super::error::RunError;
use super::tool;
use crate::checkpoint::path::{RepoPath, listed};
use crate::checkpoint::repository::Repository;
use crate::context::Context;
use crate::item::directive::Directive;
use crate::item::finding::Strength;
use crate::item::store::ItemStore;
use crate::policy::{Authority, PolicyCaller, WriteRules};
use crate::problem::{Code, Explain, Hint};

#[derive(Clone, Debug)]
pub struct PinnedAuthority {
    id: String,
    /// As `id@version`.
    label: String,
    /// The sha256 of its text.
    content: String,
    directive: Arc<Directive>,
    /// The directive and what it names.
    named: Pinned,
    /// The project of the directive.
    root: PathBuf,
}

/// How a run relates to the pinned directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOf {
    /// It is this directive, word for word, and so is what it names.
    Same,
    /// It is this directive, but its text or something that it names differs.
    Changed,
    Other,
}

/// Why a server that is limited to a directive refuses something.
#[derive(Debug, thiserror::Error)]
pub enum ConfinementError {
    #[error("directive `{0}`, or what it names, has changed since the server was started with it")]
    Changed(String),
    #[error("this server is limited to directive `{0}`, which does not run this")]
    Other(String),
    #[error("this server is limited to directive `{directive}`, which does not permit changing {}", listed(.paths))]
    Writes {
        directive: String,
        paths: Vec<RepoPath>,
    },
}

impl PinnedAuthority {
    /// Reads a valid directive.
    pub fn of(ctx: &Context, id: &str) -> Result<Self, RunError> {
        let store = ItemStore::open(ctx.roots(), Strength::Lenient);
        tool::authority_of(&store, Some(id), Authority::Agent)?;
        // A directive that names a missing item still limits what agents can do.
        let mut named = Pinned::of(ctx, &store, id).unwrap_or_default();
        let found = named.find(ctx, &store, id)?;
        Ok(Self {
            id: found.directive.name.to_string(),
            label: found.label,
            content: found.content,
            directive: found.directive,
            named,
            root: ctx.root.clone(),
        })
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// As `id@version`.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The permissions of the directive.
    pub fn authority(&self) -> Authority<'_> {
        Authority::Directives(vec![PolicyCaller {
            name: self.directive.name.as_str(),
            grants: &self.directive.permissions,
        }])
    }

    pub fn compare(&self, ctx: &Context, prepared: &PreparedRun) -> RunOf {
        self.relation(ctx, &prepared.root, &prepared.pinned)
    }

    fn relation(&self, ctx: &Context, root: &LoadedPin, pinned: &Pinned) -> RunOf {
        if root.directive.name != self.directive.name {
            RunOf::Other
        } else if root.content != self.content || self.has_changed(ctx, pinned) {
            RunOf::Changed
        } else {
            RunOf::Same
        }
    }

    /// Whether something that the directive names differs. Another project has tools of its own.
    fn has_changed(&self, ctx: &Context, pinned: &Pinned) -> bool {
        let is_here = ctx.root == self.root;
        let mut changed = self.named.changes_to(pinned).into_iter();
        changed.any(|item| {
            item.before.is_some() && item.after.is_some() && (is_here || item.kind != "tool")
        })
    }

    /// Refuses to continue a run with other items than those that the server began with.
    pub(super) fn require_same(
        &self,
        ctx: &Context,
        pinned: &Pinned,
        label: &str,
    ) -> Result<(), ConfinementError> {
        let relation = pinned
            .root(label)
            .map_or(RunOf::Changed, |root| self.relation(ctx, &root, pinned));
        match relation {
            RunOf::Same => Ok(()),
            RunOf::Changed => Err(ConfinementError::Changed(self.id.clone())),
            RunOf::Other => Err(ConfinementError::Other(self.id.clone())),
        }
    }

    /// Refuses a change of files that the directive does not permit to write.
    pub(super) fn require_writes<'p>(
        &self,
        ctx: &Context,
        repository: &Repository,
        paths: impl IntoIterator<Item = &'p RepoPath>,
    ) -> Result<(), ConfinementError> {
        let rules = WriteRules::for_directives(&self.authority());
        let prefix = ctx.root.strip_prefix(repository.top());
        let prefix = prefix.unwrap_or(Path::new(""));
        let is_granted = |path: &RepoPath| {
            let inside = path.as_path().strip_prefix(prefix);
            inside.is_ok_and(|path| rules.allows(path))
        };
        let mut denied: Vec<RepoPath> = paths
            .into_iter()
            .filter(|path| !is_granted(path))
            .cloned()
            .collect();
        denied.sort();
        denied.dedup();
        if denied.is_empty() {
            return Ok(());
        }
        Err(ConfinementError::Writes {
            directive: self.id.clone(),
            paths: denied,
        })
    }
}

impl Explain for ConfinementError {
    fn code(&self) -> Code {
        match self {
            Self::Changed(_) => Code::ItemChanged,
            Self::Other(_) => Code::PermissionDenied,
            Self::Writes { .. } => Code::WriteDenied,
        }
    }

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::Changed(_) => {
                "ask the person to look at the change and to start the server anew".into()
            }
            Self::Other(id) => format!("run `{id}`, or call the tools that it permits").into(),
            Self::Writes { .. } => "ask the person; they can do it in a terminal".into(),
        })
    }
}
