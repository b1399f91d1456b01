//! Edits and compares trees.
//!
//! Works on the raw objects, one folder at a time, and reads only the folders on the path to a
//! change. libgit2's `TreeUpdateBuilder` cannot replace a file by a folder; here that is no special
//! case.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use git2::ObjectType;

use super::error::CheckpointError;
use super::index::Index;
use super::object::{Entry, FileMode, ObjectFormat, ObjectId};
use super::objects::Objects;
use super::path::RepoPath;

/// A differing file: the entries in both trees.
pub(crate) type Difference = (RepoPath, Option<Entry>, Option<Entry>);

/// One of two trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TreeSide {
    One,
    Other,
}

/// A direct child of a tree.
pub(crate) enum Child {
    Folder(ObjectId),
    File(ObjectId),
}

/// Entries to set, or to remove with `None`.
pub(crate) type Edits = BTreeMap<RepoPath, Option<Entry>>;

const FOLDER: u32 = 0o040_000;

/// One name in a folder. The mode bits are preserved: old repositories contain `100664`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct TreeNode {
    bits: u32,
    id: ObjectId,
}

type Folder = BTreeMap<Vec<u8>, TreeNode>;

/// Recently read trees. Looking up one path after the other reads the same folders repeatedly.
#[derive(Default)]
pub(crate) struct ReadTrees {
    folders: RefCell<HashMap<ObjectId, Rc<Folder>>>,
    /// The number of names in them.
    names: Cell<usize>,
}

/// The maximum number of cached names.
const REMEMBERED: usize = 50_000;

/// The edit of a name itself.
#[derive(Clone, Copy, Default)]
enum OwnEdit {
    #[default]
    None,
    Remove,
    Put(Entry),
}

/// The edits at and below one name of a folder.
#[derive(Default)]
struct NameEdits<'a> {
    own: OwnEdit,
    below: Vec<(&'a [u8], Option<Entry>)>,
}

/// The tree with some files replaced, added or removed. Empty folders disappear.
pub(crate) fn edit(
    objects: &Objects<'_>,
    base: ObjectId,
    edits: &Edits,
) -> Result<ObjectId, CheckpointError> {
    if edits.is_empty() {
        return Ok(base);
    }
    let edits = edits
        .iter()
        .map(|(path, entry)| (path.as_bytes(), *entry))
        .collect();
    match edit_folder(objects, Some(base), edits)? {
        Some(tree) => Ok(tree),
        None => write(objects, &Folder::new()),
    }
}

/// The tree of the index, using its valid cached trees.
pub(crate) fn of_index(objects: &Objects<'_>, index: &Index) -> Result<ObjectId, CheckpointError> {
    match index.cached_tree().filter(|tree| objects.exists(*tree)) {
        Some(tree) => Ok(tree),
        None => index_folder(objects, index, 0..index.len(), 0),
    }
}

/// The files in which two trees differ, sorted by path.
pub(crate) fn differences(
    objects: &Objects<'_>,
    one: ObjectId,
    other: ObjectId,
) -> Result<Vec<Difference>, CheckpointError> {
    let mut found = Vec::new();
    compare(
        objects,
        &RepoPath::default(),
        Some(one),
        Some(other),
        &mut found,
    )?;
    found.sort_by(|(one, ..), (other, ..)| one.cmp(other));
    Ok(found)
}

/// Calls `visit` for every tree and file in which two trees differ, with its side and id.
pub(crate) fn visit_differences(
    objects: &Objects<'_>,
    one: ObjectId,
    other: ObjectId,
    visit: &mut dyn FnMut(TreeSide, ObjectId) -> Result<(), CheckpointError>,
) -> Result<(), CheckpointError> {
    visit_folders(objects, Some(one), Some(other), visit)
}

/// The entry at a path of a tree.
pub(crate) fn find(
    objects: &Objects<'_>,
    tree: ObjectId,
    path: &RepoPath,
) -> Result<Option<Entry>, CheckpointError> {
    Ok(find_node(objects, tree, path)?.and_then(TreeNode::entry))
}

/// Whether a tree has a folder at a path.
pub(crate) fn has_folder(
    objects: &Objects<'_>,
    tree: ObjectId,
    path: &RepoPath,
) -> Result<bool, CheckpointError> {
    Ok(path.is_top() || find_node(objects, tree, path)?.is_some_and(|node| node.bits == FOLDER))
}

/// The tree of a folder; `None` if there is no such folder.
pub(crate) fn find_folder(
    objects: &Objects<'_>,
    tree: ObjectId,
    path: &RepoPath,
) -> Result<Option<ObjectId>, CheckpointError> {
    Ok(find_node(objects, tree, path)?
        .filter(|node| node.bits == FOLDER)
        .map(|node| node.id))
}

/// The trees on the path to a file, the top first.
pub(crate) fn folders_to(
    objects: &Objects<'_>,
    tree: ObjectId,
    path: &RepoPath,
) -> Result<Vec<ObjectId>, CheckpointError> {
    let mut folders = vec![tree];
    let mut parent = path.parent();
    while !parent.is_top() {
        folders.extend(
            find_node(objects, tree, &parent)?
                .filter(|node| node.bits == FOLDER)
                .map(|node| node.id),
        );
        parent = parent.parent();
    }
    Ok(folders)
}

/// The direct children of a tree, except gitlinks.
pub(crate) fn children(data: &[u8], format: ObjectFormat) -> Vec<Child> {
    let nodes = parse(data, format).unwrap_or_default().into_values();
    let child = |node: TreeNode| match node.entry() {
        None => Some(Child::Folder(node.id)),
        Some(entry) => (entry.mode != FileMode::Gitlink).then_some(Child::File(entry.id)),
    };
    nodes.filter_map(child).collect()
}

/// All files and folders of a tree.
pub(crate) fn everything(
    objects: &Objects<'_>,
    tree: ObjectId,
) -> Result<Vec<RepoPath>, CheckpointError> {
    let mut found = Vec::new();
    let mut folders = vec![(RepoPath::default(), tree)];
    while let Some((path, id)) = folders.pop() {
        for (child, node) in read(objects, id)?.iter() {
            let path = path.join(child);
            if node.bits == FOLDER {
                folders.push((path.clone(), node.id));
            }
            found.push(path);
        }
    }
    Ok(found)
}

/// All files of a tree with the name `name`, except below pruned folders.
pub(crate) fn files_named(
    objects: &Objects<'_>,
    tree: ObjectId,
    name: &[u8],
) -> Result<Vec<(RepoPath, Entry)>, CheckpointError> {
    let mut found = Vec::new();
    let mut folders = vec![(RepoPath::default(), tree)];
    while let Some((path, id)) = folders.pop() {
        let folder = match read(objects, id) {
            Err(CheckpointError::Missing { .. }) => continue,
            read => read?,
        };
        for (child, node) in folder.iter() {
            match node.entry() {
                None => folders.push((path.join(child), node.id)),
                Some(entry) if child == name => found.push((path.join(child), entry)),
                Some(_) => {}
            }
        }
    }
    Ok(found)
}

impl TreeNode {
    fn entry(self) -> Option<Entry> {
        let mode = match self.bits {
            FOLDER => return None,
            bits => FileMode::from_bits(bits).unwrap_or(FileMode::Regular),
        };
        Some(Entry { mode, id: self.id })
    }

    fn folder(id: ObjectId) -> Self {
        Self { bits: FOLDER, id }
    }
}

impl From<Entry> for TreeNode {
    fn from(entry: Entry) -> Self {
        Self {
            bits: entry.mode.bits(),
            id: entry.id,
        }
    }
}

fn edit_folder(
    objects: &Objects<'_>,
    base: Option<ObjectId>,
    edits: Vec<(&[u8], Option<Entry>)>,
) -> Result<Option<ObjectId>, CheckpointError> {
    let before = base.map_or_else(|| Ok(Rc::default()), |id| read(objects, id))?;
    let mut folder = Folder::clone(&before);
    let mut names: BTreeMap<&[u8], NameEdits<'_>> = BTreeMap::new();
    for (path, entry) in edits {
        match path.iter().position(|byte| *byte == b'/') {
            Some(at) => names
                .entry(&path[..at])
                .or_default()
                .below
                .push((&path[at + 1..], entry)),
            None => {
                names.entry(path).or_default().own = entry.map_or(OwnEdit::Remove, OwnEdit::Put);
            }
        }
    }
    for (name, edits) in names {
        let old = folder.get(name).copied();
        let old_folder = old.filter(|node| node.bits == FOLDER).map(|node| node.id);
        let below = if edits.below.is_empty() {
            old_folder
        } else {
            edit_folder(objects, old_folder, edits.below)?
        };
        let new = match (edits.own, below) {
            (OwnEdit::Put(entry), _) => Some(TreeNode::from(entry)),
            (_, Some(id)) => Some(TreeNode::folder(id)),
            (OwnEdit::None, None) => old.filter(|node| node.bits != FOLDER),
            (OwnEdit::Remove, None) => None,
        };
        match new {
            Some(node) => folder.insert(name.to_vec(), node),
            None => folder.remove(name),
        };
    }
    if folder.is_empty() {
        return Ok(None);
    }
    match base {
        Some(id) if folder == *before => Ok(Some(id)),
        _ => write(objects, &folder).map(Some),
    }
}

/// The tree of a range of index entries that share the folder of their first `depth` bytes.
fn index_folder(
    objects: &Objects<'_>,
    index: &Index,
    range: std::ops::Range<usize>,
    depth: usize,
) -> Result<ObjectId, CheckpointError> {
    let mut folder = Folder::new();
    let mut at = range.start;
    while at < range.end {
        let path = index.path(at);
        let rest = &path[depth..];
        let Some(slash) = rest.iter().position(|byte| *byte == b'/') else {
            // A `git add -N` entry has no staged content.
            if let Some(entry) = index
                .get(at)
                .filter(|entry| !entry.intent_to_add && entry.stage == 0)
            {
                folder.insert(
                    rest.to_vec(),
                    TreeNode {
                        bits: entry.mode.bits(),
                        id: entry.id,
                    },
                );
            }
            at += 1;
            continue;
        };
        let inner = depth + slash + 1;
        let end = index.below(at..range.end, &path[..inner - 1]).end;
        let tree = match index
            .cached_tree_of(&path[..inner - 1])
            .filter(|tree| objects.exists(*tree))
        {
            Some(tree) => tree,
            None => index_folder(objects, index, at..end, inner)?,
        };
        if !tree.is_empty_tree() {
            folder.insert(rest[..slash].to_vec(), TreeNode::folder(tree));
        }
        at = end;
    }
    write(objects, &folder)
}

fn compare(
    objects: &Objects<'_>,
    path: &RepoPath,
    one: Option<ObjectId>,
    other: Option<ObjectId>,
    found: &mut Vec<Difference>,
) -> Result<(), CheckpointError> {
    if one == other {
        return Ok(());
    }
    let one = one.map_or_else(|| Ok(Rc::default()), |id| read(objects, id))?;
    let other = other.map_or_else(|| Ok(Rc::default()), |id| read(objects, id))?;
    let names: BTreeSet<&Vec<u8>> = one.keys().chain(other.keys()).collect();
    for name in names {
        let (before, after) = (one.get(name).copied(), other.get(name).copied());
        if before == after {
            continue;
        }
        let path = path.join(name);
        let files = (
            before.and_then(TreeNode::entry),
            after.and_then(TreeNode::entry),
        );
        if files != (None, None) {
            found.push((path.clone(), files.0, files.1));
        }
        let folder =
            |node: Option<TreeNode>| node.filter(|node| node.bits == FOLDER).map(|node| node.id);
        compare(objects, &path, folder(before), folder(after), found)?;
    }
    Ok(())
}

fn visit_folders(
    objects: &Objects<'_>,
    one: Option<ObjectId>,
    other: Option<ObjectId>,
    visit: &mut dyn FnMut(TreeSide, ObjectId) -> Result<(), CheckpointError>,
) -> Result<(), CheckpointError> {
    if one == other {
        return Ok(());
    }
    let mut folder =
        |side: TreeSide, id: Option<ObjectId>| -> Result<Rc<Folder>, CheckpointError> {
            let Some(id) = id.filter(|id| !id.is_empty_tree()) else {
                return Ok(Rc::default());
            };
            visit(side, id)?;
            read(objects, id)
        };
    let (one, other) = (folder(TreeSide::One, one)?, folder(TreeSide::Other, other)?);
    let names: BTreeSet<&Vec<u8>> = one.keys().chain(other.keys()).collect();
    for name in names {
        let (before, after) = (one.get(name).copied(), other.get(name).copied());
        if before == after {
            continue;
        }
        for (side, node) in [(TreeSide::One, before), (TreeSide::Other, after)] {
            let entry = node
                .and_then(TreeNode::entry)
                .filter(|entry| entry.mode != FileMode::Gitlink);
            entry.map_or(Ok(()), |entry| visit(side, entry.id))?;
        }
        let folder =
            |node: Option<TreeNode>| node.filter(|node| node.bits == FOLDER).map(|node| node.id);
        visit_folders(objects, folder(before), folder(after), visit)?;
    }
    Ok(())
}

fn find_node(
    objects: &Objects<'_>,
    tree: ObjectId,
    path: &RepoPath,
) -> Result<Option<TreeNode>, CheckpointError> {
    let mut node = TreeNode::folder(tree);
    for name in path.components() {
        if node.bits != FOLDER {
            return Ok(None);
        }
        match read(objects, node.id)?.get(name) {
            Some(found) => node = *found,
            None => return Ok(None),
        }
    }
    Ok(Some(node))
}

fn read(objects: &Objects<'_>, id: ObjectId) -> Result<Rc<Folder>, CheckpointError> {
    if id.is_empty_tree() {
        return Ok(Rc::default());
    }
    if let Some(folder) = objects.trees.folders.borrow().get(&id) {
        return Ok(Rc::clone(folder));
    }
    let data = objects.read(id)?;
    let folder = parse(&data, id.format()).ok_or_else(|| CheckpointError::Missing {
        what: format!("the tree {id}"),
        promisor: None,
    })?;
    let folder = Rc::new(folder);
    let mut folders = objects.trees.folders.borrow_mut();
    if objects.trees.names.get() + folder.len() > REMEMBERED {
        folders.clear();
        objects.trees.names.set(0);
    }
    objects
        .trees
        .names
        .set(objects.trees.names.get() + folder.len());
    folders.insert(id, Rc::clone(&folder));
    Ok(folder)
}

fn parse(mut data: &[u8], format: ObjectFormat) -> Option<Folder> {
    let mut folder = Folder::new();
    while !data.is_empty() {
        let space = data.iter().position(|byte| *byte == b' ')?;
        let bits = u32::from_str_radix(std::str::from_utf8(&data[..space]).ok()?, 8).ok()?;
        let rest = &data[space + 1..];
        let end = rest.iter().position(|byte| *byte == 0)?;
        data = rest.get(end + 1..)?;
        folder.insert(
            rest[..end].to_vec(),
            TreeNode {
                bits,
                id: format.take(&mut data)?,
            },
        );
    }
    Some(folder)
}

fn write(objects: &Objects<'_>, folder: &Folder) -> Result<ObjectId, CheckpointError> {
    let mut nodes: Vec<(&Vec<u8>, &TreeNode)> = folder.iter().collect();
    nodes.sort_by(|one, other| git_order(*one, *other));
    let mut data = Vec::new();
    for (name, node) in nodes {
        data.extend_from_slice(format!("{:o} ", node.bits).as_bytes());
        data.extend_from_slice(name);
        data.push(0);
        data.extend_from_slice(node.id.as_bytes());
    }
    objects.write(ObjectType::Tree, &data)
}

/// Git sorts a folder as if its name ended with a slash.
fn git_order(
    (one, first): (&Vec<u8>, &TreeNode),
    (other, second): (&Vec<u8>, &TreeNode),
) -> Ordering {
    let end = |node: &TreeNode| (node.bits == FOLDER).then_some(b'/');
    one.iter()
        .copied()
        .chain(end(first))
        .cmp(other.iter().copied().chain(end(second)))
}
