//! Which files a step may change.
//!
//! A file must match the tool's declared writes, if there are any, and a grant of every caller; a
//! `<deny>` of any caller wins. A person is limited by the tool's declaration only.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::glob::{GlobRoot, PathGlobs};
use super::{Authority, NOBODY, PolicyCaller, line, matching};
use crate::checkpoint::path::RepoPath;
use crate::exec::invocation::Invocation;
use crate::item::directive::Access;

#[derive(Clone, Debug)]
pub struct WriteRules {
    tool: String,
    /// The declared writes; `None` means any file.
    declared: Option<PathGlobs>,
    callers: Vec<CallerRules>,
}

/// The folders in which one owner of rules lets files change, and in which not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleRoots {
    pub granted: Vec<GlobRoot>,
    pub denied: Vec<GlobRoot>,
}

#[derive(Clone, Debug)]
struct CallerRules {
    name: String,
    granted: PathGlobs,
    denied: Denied,
}

#[derive(Clone, Debug)]
enum Denied {
    Everything,
    Globs(PathGlobs),
}

impl WriteRules {
    /// The rules for a call: the declared writes of its tool, and the grants of each caller.
    ///
    /// A text that is not a glob grants nothing and denies everything. Parsed items contain none.
    pub fn of(authority: &Authority<'_>, invocation: &Invocation) -> Self {
        let declared = invocation.writes.as_ref();
        let declared = declared.map(|globs| PathGlobs::of_valid(globs.iter().map(String::as_str)));
        Self {
            tool: invocation.tool(),
            declared,
            callers: callers_of(authority),
        }
    }

    /// The rules for manual work, e.g. of an agent: only the grants of each caller.
    pub fn for_directives(authority: &Authority<'_>) -> Self {
        Self {
            tool: String::new(),
            declared: None,
            callers: callers_of(authority),
        }
    }

    /// Whether a file may be changed; `path` is relative to the project.
    pub fn allows(&self, path: &Path) -> bool {
        is_safe(path)
            && self
                .declared
                .as_ref()
                .is_none_or(|globs| globs.covers(path))
            && self
                .callers
                .iter()
                .all(|caller| caller.grants(path) && !caller.denies(path))
    }

    /// Whether the tool or a caller names files that may or may not be changed.
    pub fn names_files(&self) -> bool {
        self.declared.is_some()
            || self.callers.iter().any(|caller| {
                let denied = match &caller.denied {
                    Denied::Everything => return true,
                    Denied::Globs(globs) => globs,
                };
                !caller.granted.written().is_empty() || !denied.written().is_empty()
            })
    }

    /// The folders of the tool's own rules and of those of each caller: a file may change where all of
    /// them let it. Empty if none of them names files.
    pub fn roots(&self) -> Vec<RuleRoots> {
        if !self.names_files() {
            return Vec::new();
        }
        let declared = self.declared.iter().map(|globs| RuleRoots {
            granted: globs.roots(),
            denied: Vec::new(),
        });
        let callers = self.callers.iter().map(|caller| match &caller.denied {
            Denied::Everything => RuleRoots::default(),
            Denied::Globs(denied) => RuleRoots {
                granted: caller.granted.roots(),
                denied: denied.roots(),
            },
        });
        declared.chain(callers).collect()
    }

    /// Whether the tool and every caller name files below `.ai/`, so that the tool may write there.
    pub fn names_items(&self) -> bool {
        let named = self.callers.iter().map(|caller| &caller.granted);
        let mut named = named.chain(&self.declared).peekable();
        named.peek().is_some() && named.all(PathGlobs::names_items)
    }

    /// The line that would allow the file if added to each directive that does not grant it; `None`
    /// when no line can.
    pub fn allow_with(&self, path: &Path) -> Option<String> {
        let is_forbidden = !is_safe(path)
            || self
                .declared
                .as_ref()
                .is_some_and(|globs| !globs.covers(path))
            || self.callers.iter().any(|caller| caller.denies(path));
        let is_wanting = self.callers.iter().any(|caller| !caller.grants(path));
        (!is_forbidden && is_wanting)
            .then(|| line::write(&line::exactly(path.as_os_str().as_bytes())))
    }

    pub fn hint(&self, path: &Path) -> Option<String> {
        let named = name_of(path);
        if self.allows(path) {
            return None;
        }
        if !is_safe(path) {
            return Some(format!(
                "no permission can allow `{named}`: it is git's own, or outside of the project"
            ));
        }
        if let Some(globs) = self.declared.as_ref().filter(|globs| !globs.covers(path)) {
            let declared = globs.written().join(", ");
            return Some(format!(
                "the tool `{}` says that it writes `{declared}`; add `{named}` to `writes`",
                self.tool
            ));
        }
        if let Some(caller) = self.callers.iter().find(|caller| caller.denies(path)) {
            return Some(format!(
                "a <deny> of directive `{}` forbids to write `{named}`",
                caller.name
            ));
        }
        let wanting = self
            .callers
            .iter()
            .filter(|caller| !caller.grants(path))
            .map(|it| format!("`{}`", it.name));
        let wanting = wanting.collect::<Vec<_>>().join(" and ");
        Some(format!(
            "add {} to the <permissions> of {wanting}",
            self.allow_with(path)?
        ))
    }

    /// The rules as text: each glob with its owner, denials with a leading `!`. Empty when any file
    /// may be changed.
    pub fn globs(&self) -> Vec<String> {
        let declared = self
            .declared
            .iter()
            .flat_map(|globs| listed(globs.written(), "", &self.tool, "nothing"));
        let callers = self.callers.iter().flat_map(|caller| {
            let denied = match &caller.denied {
                Denied::Everything => vec![format!("!** ({})", caller.name)],
                Denied::Globs(globs) => listed(globs.written(), "!", &caller.name, ""),
            };
            listed(caller.granted.written(), "", &caller.name, "nothing")
                .into_iter()
                .chain(denied)
        });
        declared.chain(callers).collect()
    }
}

impl CallerRules {
    fn of(caller: &PolicyCaller<'_>) -> Self {
        let (mut granted, mut denied, mut nothing_left) = (Vec::new(), Vec::new(), false);
        for grant in caller.grants {
            match (&grant.access, grant.deny) {
                (Access::Write { path }, false) => granted.push(&**path),
                (Access::Write { path }, true) => denied.push(&**path),
                (access, true) => nothing_left |= matching::is_everything(access),
                _ => {}
            }
        }
        let granted = PathGlobs::of_valid(granted);
        let denied = match PathGlobs::new(denied) {
            Ok(globs) if !nothing_left => Denied::Globs(globs),
            _ => Denied::Everything,
        };
        Self {
            name: caller.name.to_owned(),
            granted,
            denied,
        }
    }

    fn grants(&self, path: &Path) -> bool {
        self.granted.covers(path)
    }

    fn denies(&self, path: &Path) -> bool {
        match &self.denied {
            Denied::Everything => true,
            Denied::Globs(globs) => globs.touches(path),
        }
    }
}

fn callers_of(authority: &Authority<'_>) -> Vec<CallerRules> {
    match authority {
        Authority::Person | Authority::Agent => Vec::new(),
        // No directive means no grants, so every write is denied.
        Authority::Directives(callers) if callers.is_empty() => {
            vec![CallerRules::of(&PolicyCaller {
                name: NOBODY,
                grants: &[],
            })]
        }
        Authority::Directives(callers) => callers.iter().map(CallerRules::of).collect(),
    }
}

fn name_of(path: &Path) -> RepoPath {
    RepoPath::from_bytes(path.as_os_str().as_bytes())
}

fn is_safe(path: &Path) -> bool {
    name_of(path).is_safe()
}

fn listed(globs: &[String], sign: &str, whose: &str, none: &str) -> Vec<String> {
    match globs {
        [] if none.is_empty() => Vec::new(),
        [] => vec![format!("{none} ({whose})")],
        globs => globs
            .iter()
            .map(|glob| format!("{sign}{glob} ({whose})"))
            .collect(),
    }
}
