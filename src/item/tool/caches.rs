//! The caches that a tool declares: `caches: [cargo, "~/.cache/thing"]`.

use std::fmt;

use serde::{Serialize, Serializer};

use super::LoadedTool;
use super::draft::ToolDraft;
use super::fields::texts;
use crate::item::finding::Findings;
use crate::item::position::Position;
use crate::item::wording::{did_you_mean, nearest, shown};
use crate::problem::Code;

/// A cache outside of the project that a tool may write to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeclaredCache {
    Known(KnownCache),
    /// An absolute folder, or one that begins with `~/`. The user has to allow it.
    Folder(String),
}

/// A toolchain whose cache piton knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KnownCache {
    Cargo,
    Go,
    Npm,
    Pip,
    Uv,
}

impl KnownCache {
    pub const ALL: [Self; 5] = [Self::Cargo, Self::Go, Self::Npm, Self::Pip, Self::Uv];

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cache| cache.as_str() == text)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cargo => "cargo",
            Self::Go => "go",
            Self::Npm => "npm",
            Self::Pip => "pip",
            Self::Uv => "uv",
        }
    }
}

impl fmt::Display for DeclaredCache {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Known(cache) => cache.as_str(),
            Self::Folder(folder) => folder,
        })
    }
}

impl Serialize for DeclaredCache {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl LoadedTool {
    /// Where the manifest names a cache.
    pub fn place_of_cache(&self, cache: &DeclaredCache) -> Option<Position> {
        let elements = self.node.find("caches")?.elements()?;
        let named = cache.to_string();
        let mut elements = elements.iter();
        let is_it = |text: &str| text.trim_end_matches('/') == named;
        let element = elements.find(|element| element.as_text().is_some_and(is_it));
        element.map(|element| element.place)
    }
}

/// Reads `caches`; reports names that are not known and paths that no user could allow.
pub(super) fn caches(draft: &ToolDraft, findings: &mut Findings) -> Vec<DeclaredCache> {
    let path = draft.path("caches");
    if texts(&draft.node, "caches", &path, findings).is_none() {
        return Vec::new();
    }
    let elements = draft.node.find("caches").and_then(|list| list.elements());
    let mut caches = Vec::new();
    for (at, element) in elements.unwrap_or_default().iter().enumerate() {
        let Some(text) = element.as_text() else {
            continue;
        };
        let path = format!("{path}[{at}]");
        if let Some(known) = KnownCache::parse(text) {
            caches.push(DeclaredCache::Known(known));
        } else if is_folder(text) {
            caches.push(DeclaredCache::Folder(text.trim_end_matches('/').to_owned()));
        } else if text.starts_with(['/', '~']) {
            let message = format!("`{}` is not a folder that can be a cache", shown(text));
            findings
                .add(Code::InvalidPath, element.place, path, message)
                .suggest("write an absolute folder, or one below your home such as `~/.cache/thing`, without `..`");
        } else {
            let names = KnownCache::ALL.map(KnownCache::as_str);
            let message = format!(
                "unknown cache: {} (known: {})",
                shown(text),
                names.join(", ")
            );
            let otherwise = "use a known name, or a folder such as `~/.cache/thing`";
            findings
                .add(Code::InvalidEnumValue, element.place, path, message)
                .suggest(did_you_mean(nearest(text, names), otherwise));
        }
    }
    caches
}

/// Whether a text names a folder below the home or the root without detours.
fn is_folder(text: &str) -> bool {
    let below = text.strip_prefix("~/").or_else(|| text.strip_prefix('/'));
    below.is_some_and(|below| {
        let below = below.trim_end_matches('/');
        let is_name = |part: &str| !part.is_empty() && part != "." && part != "..";
        below.split('/').all(is_name) && !below.contains(char::is_control)
    })
}
