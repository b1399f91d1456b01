//! The `TREE` extension: the trees that git has already written for folders of the index.
//!
//! It is only ever a shortcut. What cannot be read is dropped, and what an edit touches is marked
//! invalid on the way from the top, as git does it. Nothing recurses: the depth is the file's choice.

use std::cmp::Ordering;
use std::ops::Range;

use super::super::object::{ObjectFormat, ObjectId};

/// The least bytes that one folder takes: `\0-1 0\n`.
const SMALLEST: usize = 6;
/// Where the top is among the folders.
const TOP: Range<usize> = 0..1;

/// The folders of an index; the first is the top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TreeCache {
    nodes: Vec<Node>,
    names: Vec<u8>,
}

/// The tree of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CachedTree {
    /// How many entries of the index lie in it.
    pub(super) entries: u32,
    /// Its name.
    pub(super) id: ObjectId,
}

/// One folder. Its subfolders stand next to each other, sorted as git does: short names first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    name: Range<usize>,
    /// None when files in it changed since the tree was written.
    tree: Option<CachedTree>,
    children: Range<usize>,
}

impl TreeCache {
    /// Reads the extension; none when it makes no sense.
    pub(super) fn parse(data: &[u8], format: ObjectFormat) -> Option<Self> {
        let mut cache = Self { nodes: vec![Node::default()], names: Vec::with_capacity(data.len() / 4) };
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
            // A number that the data cannot hold must not reserve memory.
            let end = start.checked_add(subtrees).filter(|end| *end <= data.len() / SMALLEST + 1)?;
            cache.nodes.resize(end, Node::default());
            let begin = cache.names.len();
            cache.names.extend_from_slice(name);
            *cache.nodes.get_mut(at)? = Node { name: begin..cache.names.len(), tree, children: start..end };
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
            let Some(node) = self.nodes.get(at) else { continue };
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
        for name in folder.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            at = self.child(at, name)?;
        }
        self.nodes.get(at)?.tree
    }

    /// Sets anew how many entries of the index lie in each folder.
    pub(super) fn recount(&mut self, count: impl Fn(&[u8]) -> usize) {
        let mut open: Vec<(usize, Vec<u8>)> = vec![(0, Vec::new())];
        while let Some((at, path)) = open.pop() {
            let Some(node) = self.nodes.get(at) else { continue };
            let children = node.children.clone();
            for child in children {
                let Some(name) = self.nodes.get(child).map(|node| self.name(node)) else { continue };
                let below = if path.is_empty() { name.to_vec() } else { [&path, &b"/"[..], name].concat() };
                open.push((child, below));
            }
            if let Some(tree) = self.nodes.get_mut(at).and_then(|node| node.tree.as_mut()) {
                tree.entries = u32::try_from(count(&path)).unwrap_or(u32::MAX);
            }
        }
    }

    /// Marks the folders around a path as changed; a folder in its place is no more.
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
            let Some(child) = self.child(at, name) else { return };
            at = child;
            rest = below.get(1..).unwrap_or_default();
        }
    }

    fn forget(&mut self, parent: usize, name: &[u8]) {
        let Some(child) = self.child(parent, name) else { return };
        let Some(end) = self.nodes.get(parent).map(|node| node.children.end) else { return };
        if let Some(rest) = self.nodes.get_mut(child..end) {
            rest.rotate_left(1);
        }
        if let Some(node) = self.nodes.get_mut(parent) {
            node.children.end -= 1;
        }
    }

    fn child(&self, parent: usize, name: &[u8]) -> Option<usize> {
        let children = self.nodes.get(parent)?.children.clone();
        let nodes = self.nodes.get(children.clone())?;
        Some(children.start + nodes.binary_search_by(|node| order(self.name(node), name)).ok()?)
    }

    /// Whether the names of all subfolders are distinct; sorts them where another program did not.
    fn sort_children(&mut self) -> bool {
        let Self { nodes, names } = self;
        for at in 0..nodes.len() {
            let Some(children) = nodes.get(at).map(|node| node.children.clone()) else { continue };
            let Some(children) = nodes.get_mut(children) else { return false };
            let compared = |one: &Node, two: &Node| {
                let [one, two] = [one, two].map(|node| names.get(node.name.clone()).unwrap_or_default());
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

    fn name(&self, node: &Node) -> &[u8] {
        self.names.get(node.name.clone()).unwrap_or_default()
    }
}

/// Git's order of subfolders.
fn order(one: &[u8], two: &[u8]) -> Ordering {
    one.len().cmp(&two.len()).then_with(|| one.cmp(two))
}

/// Takes one folder off the data: its name, its tree and the number of its subfolders.
fn take_node<'a>(rest: &mut &'a [u8], format: ObjectFormat) -> Option<(&'a [u8], Option<CachedTree>, usize)> {
    let name = take_until(rest, 0)?;
    let entries: i64 = std::str::from_utf8(take_until(rest, b' ')?).ok()?.parse().ok()?;
    let subtrees: usize = std::str::from_utf8(take_until(rest, b'\n')?).ok()?.parse().ok()?;
    if entries < 0 {
        return Some((name, None, subtrees));
    }
    let tree = CachedTree { entries: u32::try_from(entries).ok()?, id: format.take(rest)? };
    Some((name, Some(tree), subtrees))
}

fn take_until<'a>(rest: &mut &'a [u8], end: u8) -> Option<&'a [u8]> {
    let at = rest.iter().position(|byte| *byte == end)?;
    let (taken, after) = rest.split_at(at);
    *rest = after.get(1..)?;
    Some(taken)
}
