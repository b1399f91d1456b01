//! Narrows what a tool may write in the project to the folders of its grants.
//!
//! A glob such as `docs/**` has a folder that covers it exactly: the kernel enforces it. For any other
//! glob the nearest existing folder above its files is writable, and the changes are compared with the
//! grants afterwards. Nothing is created here, and no symlink is followed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::context::Context;
use crate::exec::isolation::{Confinement, MountView};
use crate::policy::{GlobReach, GlobRoot, RuleRoots, WriteRules};

/// What a call may do, and which of its grants the kernel enforces with that.
#[derive(Clone, Debug)]
pub(in crate::run) struct NarrowedConfinement {
    pub(in crate::run) confinement: Confinement,
    /// The globs of these grants.
    pub(in crate::run) enforced: BTreeSet<String>,
}

/// The folder of a glob on this disk.
struct GlobPlace<'r> {
    glob: &'r str,
    folder: PathBuf,
    /// Whether the glob covers the folder, and no file elsewhere.
    is_exact: bool,
}

/// The folders of one owner of rules.
struct RulePlaces<'r> {
    granted: Vec<GlobPlace<'r>>,
    denied: Vec<GlobPlace<'r>>,
}

/// Narrows the writable folders of a call, and its read-only items, to what its rules name.
pub(super) fn narrow(
    ctx: &Context,
    mut confinement: Confinement,
    writes: &WriteRules,
) -> NarrowedConfinement {
    let rules = writes.roots();
    let items = ctx.project_items();
    let items = items.canonicalize().unwrap_or(items);
    let Ok(root) = ctx.root.canonicalize() else {
        return open(confinement);
    };
    if rules.is_empty() {
        return open(confinement);
    }
    let places: Vec<RulePlaces<'_>> = rules
        .iter()
        .map(|rules| RulePlaces::of(&root, rules))
        .collect();
    let mut folders = places.iter().fold(vec![root.clone()], |found, places| {
        meet(&found, &places.granted)
    });
    let is_closed = |folder: &PathBuf| {
        let mut closed = confinement.read_only.iter();
        // A worktree of a run lies in piton's own folder, which is read-only.
        let is_inside = closed.any(|closed| {
            *closed != items && !root.starts_with(closed) && folder.starts_with(closed)
        });
        let mut denied = places.iter().flat_map(|places| &places.denied);
        is_inside || denied.any(|it| it.is_exact && folder.starts_with(&it.folder))
    };
    folders.retain(|folder| {
        !is_closed(folder) && (writes.names_items() || !folder.starts_with(&items))
    });
    if folders.contains(&items) {
        confinement.read_only.retain(|path| *path != items);
    }
    let view = confinement.view;
    if view == MountView::Own {
        let denied = places.iter().flat_map(|places| &places.denied);
        let denied = denied.filter(|it| it.is_exact).map(|it| it.folder.clone());
        confinement.read_only.extend(denied);
    }
    confinement.writable.retain(|folder| *folder != root);
    let mut others = confinement.writable.iter();
    // Landlock alone cannot close a folder inside of a writable one, such as the temporary folder.
    let is_open = view == MountView::Shared && others.any(|folder| root.starts_with(folder));
    if view == MountView::Own && !folders.contains(&root) {
        confinement.read_only.push(root.clone());
    }
    confinement.writable.extend(folders);
    let are_items_closed = view == MountView::Own && confinement.read_only.contains(&items);
    let by_owner: Vec<BTreeSet<&str>> = places.iter().map(|it| it.enforced(view)).collect();
    let is_enforced = |place: &&GlobPlace<'_>| {
        let mut owners = places.iter().zip(&by_owner);
        let by_all = owners
            .all(|(owner, enforced)| !owner.grants(place.glob) || enforced.contains(place.glob));
        by_all && !is_open && (place.folder != root || are_items_closed)
    };
    let granted = places.iter().flat_map(|places| &places.granted);
    let enforced = granted.filter(is_enforced).map(|it| it.glob.to_owned());
    NarrowedConfinement {
        enforced: enforced.collect(),
        confinement,
    }
}

/// Everything in the project may be written.
fn open(confinement: Confinement) -> NarrowedConfinement {
    NarrowedConfinement {
        confinement,
        enforced: BTreeSet::new(),
    }
}

/// The folders that lie in one of both lists and below one of the other.
fn meet(found: &[PathBuf], places: &[GlobPlace<'_>]) -> Vec<PathBuf> {
    let pairs = found
        .iter()
        .flat_map(|one| places.iter().map(move |place| (one, &place.folder)));
    let inner = pairs.filter_map(|(one, other)| {
        if one.starts_with(other) {
            Some(one.clone())
        } else {
            other.starts_with(one).then(|| other.clone())
        }
    });
    let inner: BTreeSet<PathBuf> = inner.collect();
    inner.into_iter().collect()
}

impl<'r> RulePlaces<'r> {
    fn of(root: &Path, rules: &'r RuleRoots) -> Self {
        let places =
            |globs: &'r [GlobRoot]| globs.iter().map(|glob| GlobPlace::of(root, glob)).collect();
        Self {
            granted: places(&rules.granted),
            denied: places(&rules.denied),
        }
    }

    fn grants(&self, glob: &str) -> bool {
        self.granted.iter().any(|place| place.glob == glob)
    }

    /// The grants that the kernel enforces: no other grant opens more around their folder, and every
    /// denial inside of it is enforced as well.
    fn enforced(&self, view: MountView) -> BTreeSet<&'r str> {
        let is_wider = |place: &GlobPlace<'_>, other: &GlobPlace<'_>| {
            !other.is_exact && place.folder.starts_with(&other.folder)
        };
        let is_unchecked = |place: &GlobPlace<'_>, denied: &GlobPlace<'_>| {
            let overlaps = denied.folder.starts_with(&place.folder)
                || place.folder.starts_with(&denied.folder);
            overlaps && !(denied.is_exact && view == MountView::Own)
        };
        let enforced = self.granted.iter().filter(|place| {
            place.is_exact
                && !self.granted.iter().any(|other| is_wider(place, other))
                && !self.denied.iter().any(|denied| is_unchecked(place, denied))
        });
        enforced.map(|place| place.glob).collect()
    }
}

impl<'r> GlobPlace<'r> {
    fn of(root: &Path, glob: &'r GlobRoot) -> Self {
        let mut folder = root.to_path_buf();
        let mut is_there = true;
        for name in glob.folder.components() {
            let inner = folder.join(name);
            is_there = inner.symlink_metadata().is_ok_and(|file| file.is_dir());
            if !is_there {
                break;
            }
            folder = inner;
        }
        Self {
            glob: &glob.glob,
            folder,
            is_exact: is_there && glob.reach != GlobReach::Part,
        }
    }
}
