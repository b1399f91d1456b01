//! Compares the codec with the real git: reads what git wrote, and writes it as git would.

mod damage;
mod editing;
mod locking;
mod reading;
mod repository;

use std::collections::BTreeMap;

use sha1::{Digest, Sha1};

use super::super::error::CheckpointError;
use super::super::object::{Entry, FileMode, ObjectFormat, ObjectId};
use super::super::path::RepoPath;
use super::super::stat::Stat;
use super::parse::BrokenIndex;
use super::{Index, IndexEntry};

type Edits = BTreeMap<RepoPath, Option<IndexEntry>>;

/// An entry whose content is identified by one byte.
fn entry(content: u8) -> IndexEntry {
    IndexEntry::new(
        Entry {
            mode: FileMode::Regular,
            id: ObjectId::from_bytes(&[content; 20]).unwrap(),
        },
        Stat {
            modified_seconds: u32::from(content),
            size: 7,
            ..Stat::default()
        },
    )
}

/// All data of an index.
fn content(index: &Index) -> impl PartialEq + std::fmt::Debug + '_ {
    let entries: Vec<(&[u8], &IndexEntry)> = index.entries(0..index.len()).collect();
    (index.layout, entries, tree_bytes(index), &index.resolved)
}

/// The cached trees as bytes, because in memory the folders are in the order of reading.
fn tree_bytes(index: &Index) -> Option<Vec<u8>> {
    index.trees.as_ref().map(|trees| {
        let mut bytes = Vec::new();
        trees.write(&mut bytes);
        bytes
    })
}

/// For indexes without folder entries.
fn no_files(_: ObjectId) -> Result<Vec<(RepoPath, Entry)>, CheckpointError> {
    panic!("no folder is to be expanded")
}

fn paths(index: &Index) -> Vec<String> {
    index
        .entries(0..index.len())
        .map(|(path, _)| String::from_utf8_lossy(path).into_owned())
        .collect()
}

/// An index with these paths in this order, valid or not.
fn index_of(paths: &[(&str, IndexEntry)]) -> Index {
    let mut index = Index::empty(ObjectFormat::Sha1);
    for (path, entry) in paths {
        index.paths.extend_from_slice(path.as_bytes());
        index.ends.push(u32::try_from(index.paths.len()).unwrap());
        index.entries.push(*entry);
    }
    index
}

/// The bytes with a correct checksum.
fn sealed(content: &[u8]) -> Vec<u8> {
    let mut bytes = content.to_vec();
    bytes.extend_from_slice(&Sha1::digest(content));
    bytes
}

fn unsealed(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len() - 20]
}

/// Why these bytes are refused.
fn refusal(bytes: &[u8]) -> String {
    match Index::parse(bytes, ObjectFormat::Sha1) {
        Ok(index) => panic!("read as {:?}", paths(&index)),
        Err(BrokenIndex::Invalid(reason)) => reason,
        Err(BrokenIndex::Unsupported { feature, extension }) => format!("{feature} ({extension})"),
    }
}
