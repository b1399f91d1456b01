//! The `TREE` extension: the trees that git has already written for folders of the index.
//!
//! It is only a cache. Unreadable data is dropped, and an edit invalidates the folders on its path,
//! as in git. Nothing recurses, because the file controls the depth.

use std::cmp::Ordering;
use std::ops::Range;

use git2::ObjectType;

use super::super::object::{ObjectFormat, ObjectId};
use super::Index;

/// The minimum size of a folder: `\0-1 0\n`.
const SMALLEST: usize = 6;
/// Deeper folders stay without a tree.
const DEEPEST: usize = 500;
/// The position of the top.
const TOP: Range<usize> = 0..1;

/// The folders of an index; the first is the top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TreeCache {
    nodes: Vec<CachedFolder>,
    names: Vec<u8>,
}

/// The tree of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CachedTree {
    /// How many index entries are in it.
    pub(super) entries: u32,
    pub(super) id: ObjectId,
}

/// One folder. Its subfolders are adjacent, sorted as in git: short names first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct CachedFolder {
    name: Range<usize>,
    /// `None` if files in it changed since the tree was written.
    tree: Option<CachedTree>,
    children: Range<usize>,
}

impl Index {
    /// Names the trees of the folders that an edit has invalidated, as `git commit` does, so that
    /// neither git nor the next snapshot has to make them again. A folder whose tree does not exist
    /// stays invalid, and so do the folders around it.
    pub(crate) fn fill_trees(&mut self, exists: &dyn Fn(ObjectId) -> bool) {
        let mut trees = self.trees.take().unwrap_or_else(TreeCache::empty);
        if let Some(top) = trees.nodes.first().cloned() {
            let filling = TreeFilling {
                index: self,
                exists,
            };
            let top = filling.folder(&mut trees, top, 0..self.len(), 0, DEEPEST);
            if let Some(place) = trees.nodes.first_mut() {
                *place = top;
            }
        }
        self.trees = Some(trees);
    }
}

/// Fills in the trees of an index.
struct TreeFilling<'a> {
    index: &'a Index,
    /// Whether git can read a tree.
    exists: &'a dyn Fn(ObjectId) -> bool,
}

impl TreeFilling<'_> {
    /// A folder with its tree. Its entries have the range, and its path is the first `depth` bytes
    /// of theirs.
    fn folder(
        &self,
        trees: &mut TreeCache,
        node: CachedFolder,
        range: Range<usize>,
        depth: usize,
        levels: usize,
    ) -> CachedFolder {
        if node.tree.is_some() || levels == 0 {
            return node;
        }
        let mut data = Vec::new();
        let mut children = Vec::new();
        // A tree has neither sides of a conflict nor announced files; git does not cache it either.
        let mut is_whole = true;
        let mut at = range.start;
        while at < range.end {
            let path = self.index.path(at);
            let rest = path.get(depth..).unwrap_or_default();
            let Some(slash) = rest.iter().position(|byte| *byte == b'/') else {
                match self.index.get(at) {
                    Some(entry) if entry.stage == 0 && !entry.intent_to_add => {
                        add_name(&mut data, entry.mode.bits(), rest, entry.id);
                    }
                    _ => is_whole = false,
                }
                at += 1;
                continue;
            };
            let (name, inner) = (rest.get(..slash).unwrap_or_default(), depth + slash);
            let folder = path.get(..inner).unwrap_or_default();
            let below = self.index.below(at..range.end, folder);
            at = below.end.max(at + 1);
            let known = trees.child_of(&node, name);
            let child = known.unwrap_or_else(|| trees.new_folder(name));
            let child = self.folder(trees, child, below.clone(), inner + 1, levels - 1);
            match child.tree {
                Some(tree) if tree.entries as usize == below.len() => {
                    add_name(&mut data, 0o040_000, name, tree.id);
                }
                _ => is_whole = false,
            }
            children.push(child);
        }
        children.sort_by(|one, two| order(trees.name(one), trees.name(two)));
        let start = trees.nodes.len();
        trees.nodes.extend(children);
        let named = is_whole.then(|| self.index.format.name(ObjectType::Tree, &data).ok());
        let id = named.flatten().filter(|id| (self.exists)(*id));
        let entries = u32::try_from(range.len()).ok();
        CachedFolder {
            tree: entries
                .zip(id)
                .map(|(entries, id)| CachedTree { entries, id }),
            children: start..trees.nodes.len(),
            ..node
        }
    }
}

/// Appends an entry of a tree.
fn add_name(data: &mut Vec<u8>, bits: u32, name: &[u8], id: ObjectId) {
    data.extend_from_slice(format!("{bits:o} ").as_bytes());
    data.extend_from_slice(name);
    data.push(0);
    data.extend_from_slice(id.as_bytes());
}

impl TreeCache {
    /// The top alone, without a tree.
    fn empty() -> Self {
        Self {
            nodes: vec![CachedFolder::default()],
            names: Vec::new(),
        }
    }

    /// Parses the extension; `None` if it is invalid.
    pub(super) fn parse(data: &[u8], format: ObjectFormat) -> Option<Self> {
        let mut cache = Self {
            names: Vec::with_capacity(data.len() / 4),
            ..Self::empty()
        };
        let mut rest = data;
        // The folders that are still to be read, innermost last.
        let mut open = vec![TOP];
        while let Some(range) = open.last_mut() {
            let Some(at) = range.next() else {
                open.pop();
                continue;
            };
            let (name, tree, subtrees) = take_node(&mut rest, format)?;
            if (at == 0) != name.is_empty() || name.contains(&b'/') {
                return None;
            }
            let start = cache.nodes.len();
            // A number that exceeds the data must not reserve memory.
            let end = start
                .checked_add(subtrees)
                .filter(|end| *end <= data.len() / SMALLEST + 1)?;
            cache.nodes.resize(end, CachedFolder::default());
            let begin = cache.names.len();
            cache.names.extend_from_slice(name);
            *cache.nodes.get_mut(at)? = CachedFolder {
                name: begin..cache.names.len(),
                tree,
                children: start..end,
            };
            open.push(start..end);
        }
        (rest.is_empty() && cache.sort_children()).then_some(cache)
    }

    /// Appends the extension's data.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut open = vec![TOP];
        while let Some(range) = open.last_mut() {
            let Some(at) = range.next() else {
                open.pop();
                continue;
            };
            let Some(node) = self.nodes.get(at) else {
                continue;
            };
            out.extend_from_slice(self.name(node));
            let count = node.tree.map_or(-1, |tree| i64::from(tree.entries));
            out.extend_from_slice(format!("\0{count} {}\n", node.children.len()).as_bytes());
            if let Some(tree) = node.tree {
                out.extend_from_slice(tree.id.as_bytes());
            }
            open.push(node.children.clone());
        }
    }

    /// The tree of a folder, unless files in it changed.
    pub(super) fn find(&self, folder: &[u8]) -> Option<CachedTree> {
        let mut at = 0;
        for name in folder
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty())
        {
            at = self.child(at, name)?;
        }
        self.nodes.get(at)?.tree
    }

    /// Updates how many index entries are in each folder.
    pub(super) fn recount(&mut self, count: impl Fn(&[u8]) -> usize) {
        let mut open: Vec<(usize, Vec<u8>)> = vec![(0, Vec::new())];
        while let Some((at, path)) = open.pop() {
            let Some(node) = self.nodes.get(at) else {
                continue;
            };
            let children = node.children.clone();
            for child in children {
                let Some(name) = self.nodes.get(child).map(|node| self.name(node)) else {
                    continue;
                };
                let below = if path.is_empty() {
                    name.to_vec()
                } else {
                    [&path, &b"/"[..], name].concat()
                };
                open.push((child, below));
            }
            if let Some(tree) = self.nodes.get_mut(at).and_then(|node| node.tree.as_mut()) {
                tree.entries = u32::try_from(count(&path)).unwrap_or(u32::MAX);
            }
        }
    }

    /// Invalidates the folders around a path; removes a folder at the path itself.
    pub(super) fn invalidate(&mut self, path: &[u8]) {
        let mut at = 0;
        let mut rest = path;
        while let Some(node) = self.nodes.get_mut(at) {
            node.tree = None;
            let Some(slash) = rest.iter().position(|byte| *byte == b'/') else {
                self.forget(at, rest);
                return;
            };
            let (name, below) = rest.split_at(slash);
            let Some(child) = self.child(at, name) else {
                return;
            };
            at = child;
            rest = below.get(1..).unwrap_or_default();
        }
    }

    fn forget(&mut self, parent: usize, name: &[u8]) {
        let Some(child) = self.child(parent, name) else {
            return;
        };
        let Some(end) = self.nodes.get(parent).map(|node| node.children.end) else {
            return;
        };
        if let Some(rest) = self.nodes.get_mut(child..end) {
            rest.rotate_left(1);
        }
        if let Some(node) = self.nodes.get_mut(parent) {
            node.children.end -= 1;
        }
    }

    /// A folder without a tree that is not in the list yet.
    fn new_folder(&mut self, name: &[u8]) -> CachedFolder {
        let begin = self.names.len();
        self.names.extend_from_slice(name);
        CachedFolder {
            name: begin..self.names.len(),
            ..CachedFolder::default()
        }
    }

    fn child(&self, parent: usize, name: &[u8]) -> Option<usize> {
        self.find_child(self.nodes.get(parent)?, name)
    }

    fn child_of(&self, parent: &CachedFolder, name: &[u8]) -> Option<CachedFolder> {
        self.nodes.get(self.find_child(parent, name)?).cloned()
    }

    fn find_child(&self, parent: &CachedFolder, name: &[u8]) -> Option<usize> {
        let children = parent.children.clone();
        let nodes = self.nodes.get(children.clone())?;
        Some(
            children.start
                + nodes
                    .binary_search_by(|node| order(self.name(node), name))
                    .ok()?,
        )
    }

    /// Whether the names of all subfolders are distinct; sorts them if another program did not.
    fn sort_children(&mut self) -> bool {
        let Self { nodes, names } = self;
        for at in 0..nodes.len() {
            let Some(children) = nodes.get(at).map(|node| node.children.clone()) else {
                continue;
            };
            let Some(children) = nodes.get_mut(children) else {
                return false;
            };
            let compared = |one: &CachedFolder, two: &CachedFolder| {
                let [one, two] =
                    [one, two].map(|node| names.get(node.name.clone()).unwrap_or_default());
                order(one, two)
            };
            if !children.is_sorted_by(|one, two| compared(one, two) == Ordering::Less) {
                children.sort_by(compared);
                if children.is_sorted_by(|one, two| compared(one, two) == Ordering::Less) {
                    continue;
                }
                return false;
            }
        }
        true
    }

    fn name(&self, node: &CachedFolder) -> &[u8] {
        self.names.get(node.name.clone()).unwrap_or_default()
    }
}

/// Git's order of subfolders.
fn order(one: &[u8], two: &[u8]) -> Ordering {
    one.len().cmp(&two.len()).then_with(|| one.cmp(two))
}

/// Reads one folder: its name, its tree and the number of its subfolders.
fn take_node<'a>(
    rest: &mut &'a [u8],
    format: ObjectFormat,
) -> Option<(&'a [u8], Option<CachedTree>, usize)> {
    let name = take_until(rest, 0)?;
    let entries: i64 = std::str::from_utf8(take_until(rest, b' ')?)
        .ok()?
        .parse()
        .ok()?;
    let subtrees: usize = std::str::from_utf8(take_until(rest, b'\n')?)
        .ok()?
        .parse()
        .ok()?;
    if entries < 0 {
        return Some((name, None, subtrees));
    }
    let tree = CachedTree {
        entries: u32::try_from(entries).ok()?,
        id: format.take(rest)?,
    };
    Some((name, Some(tree), subtrees))
}

fn take_until<'a>(rest: &mut &'a [u8], end: u8) -> Option<&'a [u8]> {
    let at = rest.iter().position(|byte| *byte == end)?;
    let (taken, after) = rest.split_at(at);
    *rest = after.get(1..)?;
    Some(taken)
}
