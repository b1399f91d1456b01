//! The build context of an image.
//!
//! It is read completely and in a fixed order. [`ContextFiles::hash`] covers names, permissions, bytes and
//! link targets, and the archive for the engine is made from the same bytes, so the image is built
//! from what was checked.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};
use walkdir::WalkDir;

use crate::encoding::hex;
use crate::item::source::read_bytes;

const MAX_BYTES: u64 = 256 * 1024 * 1024;
const MAX_ENTRIES: usize = 20_000;

#[derive(Debug)]
pub(in crate::exec) struct ContextFiles {
    entries: Vec<ArchiveEntry>,
}

#[derive(Debug)]
struct ArchiveEntry {
    /// Relative to the folder.
    path: PathBuf,
    mode: u32,
    content: ArchiveContent,
}

#[derive(Debug)]
enum ArchiveContent {
    Folder,
    File(Vec<u8>),
    Link(PathBuf),
}

#[derive(Debug, thiserror::Error)]
pub(in crate::exec) enum BuildContextError {
    #[error("cannot be read: `{}`: {source}", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("holds `{}`, which is neither a file nor a folder nor a link", .0.display())]
    Special(PathBuf),
    #[error("holds more than {MAX_ENTRIES} files or {} MiB", MAX_BYTES / 1024 / 1024)]
    TooLarge,
}

impl BuildContextError {
    pub(in crate::exec) fn hint(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "check that it is readable",
            Self::Special(_) => "take it out of the folder",
            Self::TooLarge => "keep only what the image needs in that folder",
        }
    }
}

pub(in crate::exec) fn read(folder: &Path) -> Result<ContextFiles, BuildContextError> {
    let mut entries = Vec::new();
    let mut left = MAX_BYTES;
    for entry in WalkDir::new(folder)
        .min_depth(1)
        .follow_links(false)
        .sort_by_file_name()
    {
        let entry = entry.map_err(|err| BuildContextError::Unreadable {
            path: err.path().unwrap_or(folder).to_path_buf(),
            source: err.into(),
        })?;
        let path = entry
            .path()
            .strip_prefix(folder)
            .unwrap_or(entry.path())
            .to_path_buf();
        let unreadable = |source| BuildContextError::Unreadable {
            path: path.clone(),
            source,
        };
        let metadata = fs::symlink_metadata(entry.path()).map_err(unreadable)?;
        let kind = metadata.file_type();
        let content = match () {
            () if kind.is_dir() => ArchiveContent::Folder,
            () if kind.is_symlink() => {
                ArchiveContent::Link(fs::read_link(entry.path()).map_err(unreadable)?)
            }
            () if kind.is_file() => {
                if metadata.len() > left {
                    return Err(BuildContextError::TooLarge);
                }
                let read = read_bytes(entry.path(), left);
                let bytes = read.map_err(|err| unreadable(io::Error::other(err.to_string())))?;
                left = left.saturating_sub(bytes.len() as u64);
                ArchiveContent::File(bytes)
            }
            () => return Err(BuildContextError::Special(path)),
        };
        if entries.len() == MAX_ENTRIES {
            return Err(BuildContextError::TooLarge);
        }
        entries.push(ArchiveEntry {
            path,
            mode: metadata.permissions().mode() & 0o777,
            content,
        });
    }
    Ok(ContextFiles { entries })
}

impl ContextFiles {
    /// A hash of everything that the build depends on, except its base images.
    pub(in crate::exec) fn hash(
        &self,
        dockerfile: &str,
        args: &BTreeMap<String, String>,
    ) -> String {
        let mut hash = Sha256::new();
        // Prefix each part with its length, so that different folders cannot give the same bytes.
        let mut add = |part: &[u8]| {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        };
        add(b"piton build 1");
        add(dockerfile.as_bytes());
        add(&(args.len() as u64).to_le_bytes());
        for (name, value) in args {
            add(name.as_bytes());
            add(value.as_bytes());
        }
        for entry in &self.entries {
            add(entry.path.as_os_str().as_encoded_bytes());
            add(&entry.mode.to_le_bytes());
            match &entry.content {
                ArchiveContent::Folder => add(b"folder"),
                ArchiveContent::File(bytes) => {
                    add(b"file");
                    add(bytes);
                }
                ArchiveContent::Link(to) => {
                    add(b"link");
                    add(to.as_os_str().as_encoded_bytes());
                }
            }
        }
        hex(&hash.finalize())
    }

    /// A tar archive without times and owners, so that engines can reuse their layers.
    pub(super) fn archive(&self) -> io::Result<Vec<u8>> {
        let mut archive = Builder::new(Vec::new());
        for entry in &self.entries {
            let mut header = Header::new_gnu();
            header.set_mode(entry.mode);
            header.set_mtime(0);
            match &entry.content {
                ArchiveContent::Folder => {
                    header.set_entry_type(EntryType::Directory);
                    header.set_size(0);
                    archive.append_data(&mut header, &entry.path, io::empty())?;
                }
                ArchiveContent::File(bytes) => {
                    header.set_entry_type(EntryType::Regular);
                    header.set_size(bytes.len() as u64);
                    archive.append_data(&mut header, &entry.path, bytes.as_slice())?;
                }
                ArchiveContent::Link(to) => {
                    header.set_entry_type(EntryType::Symlink);
                    header.set_size(0);
                    archive.append_link(&mut header, &entry.path, to)?;
                }
            }
        }
        archive.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash_of(make: impl Fn(&Path)) -> String {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("Dockerfile"), "FROM scratch\n").unwrap();
        make(folder.path());
        read(folder.path())
            .unwrap()
            .hash("Dockerfile", &BTreeMap::new())
    }

    #[test]
    fn names_bytes_permissions_and_links_all_count() {
        let link = |to: &'static str| {
            move |folder: &Path| std::os::unix::fs::symlink(to, folder.join("a")).unwrap()
        };
        let mode = |mode: u32| {
            move |folder: &Path| {
                fs::write(folder.join("a"), "1").unwrap();
                fs::set_permissions(folder.join("a"), fs::Permissions::from_mode(mode)).unwrap();
            }
        };
        let all = [
            hash_of(|_| {}),
            hash_of(mode(0o644)),
            hash_of(mode(0o755)),
            hash_of(|folder| fs::write(folder.join("a"), "2").unwrap()),
            hash_of(|folder| fs::write(folder.join("b"), "1").unwrap()),
            hash_of(|folder| fs::create_dir(folder.join("a")).unwrap()),
            hash_of(link("1")),
            hash_of(link("2")),
        ];
        let different: std::collections::BTreeSet<&String> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert_eq!(hash_of(mode(0o644)), all[1]);
    }

    #[test]
    fn the_file_and_the_values_count_too() {
        let folder = tempfile::tempdir().unwrap();
        let files = read(folder.path()).unwrap();
        let args = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let all = [
            files.hash("Dockerfile", &BTreeMap::new()),
            files.hash("Other", &BTreeMap::new()),
            files.hash("Dockerfile", &args("A", "BC")),
            files.hash("Dockerfile", &args("AB", "C")),
        ];
        assert_eq!(
            all.iter().collect::<std::collections::BTreeSet<_>>().len(),
            all.len()
        );
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("s")).unwrap();
        assert!(
            matches!(read(folder.path()), Err(BuildContextError::Special(path)) if path == Path::new("s"))
        );
    }
}
