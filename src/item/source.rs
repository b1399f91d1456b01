//! Reads item files safely.
//!
//! [`SourceFile::load`] is the entry point: regular files only, size-limited, valid UTF-8, without
//! a byte order mark. Binary content goes through [`read_bytes`] or [`open_regular`]. No other code
//! opens project files, because a pipe or device in place of a file must not block.

use std::borrow::Cow;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use rustix::buffer::spare_capacity;
use rustix::io::retry_on_intr;

use super::file_stat::FileStat;
use super::finding::Findings;
use super::position::{LineIndex, Position};
use crate::problem::Code;

/// The limit of a manifest, front matter or settings file, in bytes.
pub const MAX_DOCUMENT: u64 = 256 * 1024;
/// The maximum depth of folders.
pub const MAX_DEPTH: usize = 32;
/// The limit of a script, directive or knowledge entry, in bytes.
pub const MAX_TEXT: u64 = 1024 * 1024;

const MARK: char = '\u{feff}';

#[derive(Clone, Debug)]
pub struct SourceFile {
    pub path: PathBuf,
    /// Without byte order mark.
    pub text: String,
    /// Whether the text had a byte order mark.
    pub marked: bool,
}

impl SourceFile {
    /// The content of the file byte for byte, which stamps cover.
    pub fn raw(&self) -> Cow<'_, str> {
        if self.marked {
            Cow::Owned(format!("{MARK}{}", self.text))
        } else {
            Cow::Borrowed(&self.text)
        }
    }

    /// Loads a file of at most `limit` bytes; problems go to `findings`.
    pub fn load(path: &Path, limit: u64, findings: &mut Findings) -> Option<Self> {
        let bytes = match read_bytes(path, limit) {
            Ok(bytes) => bytes,
            Err(unread) => {
                unread.report(findings);
                return None;
            }
        };
        Self::decode(path, bytes, findings)
    }

    /// Decodes bytes from elsewhere, e.g. from the git index.
    pub fn decode(path: &Path, bytes: Vec<u8>, findings: &mut Findings) -> Option<Self> {
        match String::from_utf8(bytes) {
            Ok(text) => {
                let (text, marked) = match text.strip_prefix(MARK) {
                    Some(rest) => (rest.to_owned(), true),
                    None => (text, false),
                };
                Some(Self {
                    path: path.to_path_buf(),
                    text,
                    marked,
                })
            }
            Err(err) => {
                let offset = err.utf8_error().valid_up_to();
                let valid = String::from_utf8_lossy(&err.as_bytes()[..offset]).into_owned();
                let place = LineIndex::new(&valid).place(offset);
                findings
                    .add(
                        Code::NotUtf8,
                        place,
                        "",
                        format!("not valid UTF-8 at byte {offset}"),
                    )
                    .suggest("save the file as UTF-8");
                None
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// A folder, pipe, socket or device.
    #[error("not a regular file")]
    NotRegular,
    #[error("larger than {} KiB", .limit / 1024)]
    TooLarge {
        /// In bytes.
        limit: u64,
    },
    #[error("cannot read the file: {0}")]
    Failed(#[from] io::Error),
}

impl Unread {
    /// Adds a finding at the beginning of the file.
    pub fn report(&self, findings: &mut Findings) {
        let (code, suggestion) = match self {
            Self::NotRegular => (Code::NotARegularFile, "replace it with a plain file"),
            Self::TooLarge { .. } => (
                Code::FileTooLarge,
                "split it, or keep data outside the item",
            ),
            Self::Failed(_) => (
                Code::UnreadableFile,
                "check that it exists, and its permissions",
            ),
        };
        findings
            .add(code, Position::START, "", self.to_string())
            .suggest(suggestion);
    }
}

/// Lists everything below a folder except folders, sorted; an entry that cannot be listed has the
/// reason.
///
/// Symlinks are listed, not followed. A missing folder is empty.
pub fn files_below(folder: &Path) -> Vec<(PathBuf, Result<(), Unread>)> {
    if folder.symlink_metadata().is_err() {
        return Vec::new();
    }
    let mut files = Vec::new();
    for entry in walkdir::WalkDir::new(folder)
        .max_depth(MAX_DEPTH)
        .sort_by_file_name()
    {
        match entry {
            Ok(entry) if entry.file_type().is_dir() => {}
            Ok(entry) => files.push((entry.into_path(), Ok(()))),
            Err(err) => {
                let path = err.path().unwrap_or(folder).to_path_buf();
                let reason = err
                    .into_io_error()
                    .unwrap_or_else(|| io::Error::other("a loop of links"));
                files.push((path, Err(Unread::Failed(reason))));
            }
        }
    }
    files
}

/// Reads a regular file of at most `limit` bytes.
pub fn read_bytes(path: &Path, limit: u64) -> Result<Vec<u8>, Unread> {
    let (file, length) = open_regular(path)?;
    read_open(&file, length, limit)
}

/// Reads what was just listed as a regular file. Also returns its metadata from before the first
/// read, if it could be opened.
pub(crate) fn read_seen(path: &Path, limit: u64) -> (FileStat, Result<Vec<u8>, Unread>) {
    let file = match open_without_waiting(path) {
        Ok(file) => file,
        Err(err) => return (FileStat::Unknown, Err(err.into())),
    };
    let stat = FileStat::of_open(&file);
    let bytes = match stat.footprint() {
        Some(footprint) if footprint.is_regular() => read_open(&file, footprint.size, limit),
        _ => Err(Unread::NotRegular),
    };
    (stat, bytes)
}

/// Reads an open file that was `length` bytes long a moment ago.
fn read_open(file: &File, length: u64, limit: u64) -> Result<Vec<u8>, Unread> {
    // One byte more than allowed, to detect a file that grows while it is read.
    let most = limit.saturating_add(1);
    let room = usize::try_from(length.saturating_add(1).min(most)).unwrap_or(0);
    let mut bytes = Vec::with_capacity(room);
    let read = retry_on_intr(|| rustix::io::read(file, spare_capacity(&mut bytes)))
        .map_err(io::Error::from)?;
    // The file was read completely with room to spare, so no further read is needed.
    if read as u64 != length {
        file.take(most.saturating_sub(bytes.len() as u64))
            .read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > limit {
        Err(Unread::TooLarge { limit })
    } else {
        Ok(bytes)
    }
}

/// Opens a regular file for reading; also returns its current length.
///
/// The type is checked before opening, because opening a device can have effects, and again
/// afterwards, because the path may have changed.
pub fn open_regular(path: &Path) -> Result<(File, u64), Unread> {
    if !fs::metadata(path)?.is_file() {
        return Err(Unread::NotRegular);
    }
    let file = open_without_waiting(path)?;
    let opened = file.metadata()?;
    if opened.is_file() {
        Ok((file, opened.len()))
    } else {
        Err(Unread::NotRegular)
    }
}

fn open_without_waiting(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    without_waiting(&mut options);
    options.open(path)
}

/// Whether a path leads out of a folder through symlinks; false for a missing path.
pub fn leaves(path: &Path, folder: &Path) -> bool {
    // One check per component below the folder; resolving every link from the root takes many.
    if let Ok(inside) = path.strip_prefix(folder) {
        let mut step = folder.to_path_buf();
        let is_plain = |part: Component<'_>| {
            step.push(part);
            matches!(part, Component::Normal(_)) && !step.is_symlink()
        };
        if inside.components().all(is_plain) {
            return false;
        }
    }
    matches!((path.canonicalize(), folder.canonicalize()), (Ok(target), Ok(folder)) if !target.starts_with(&folder))
}

/// Makes opening a pipe return at once instead of waiting for a writer.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn without_waiting(options: &mut OpenOptions) {
    const O_NONBLOCK: i32 = 0o4000;
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, O_NONBLOCK);
}

/// Makes opening a pipe return at once instead of waiting for a writer.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
fn without_waiting(options: &mut OpenOptions) {
    // The same value on all BSDs including macOS.
    const O_NONBLOCK: i32 = 0x4;
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, O_NONBLOCK);
}

/// Other systems have no named pipes among files.
#[cfg(not(unix))]
fn without_waiting(_: &mut OpenOptions) {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::file_stat::Links;

    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "four").unwrap();
        std::os::unix::fs::symlink(&file, folder.path().join("link")).unwrap();
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for bad in [
            folder.path(),
            &socket,
            Path::new("/dev/zero"),
            Path::new("/dev/tty"),
        ] {
            assert!(
                matches!(read_bytes(bad, 9), Err(Unread::NotRegular)),
                "{}",
                bad.display()
            );
        }
        assert!(matches!(
            read_bytes(&folder.path().join("none"), 9),
            Err(Unread::Failed(_))
        ));
        assert!(matches!(
            read_bytes(&file, 3),
            Err(Unread::TooLarge { limit: 3 })
        ));
        assert_eq!(read_bytes(&folder.path().join("link"), 4).unwrap(), b"four");
    }

    #[test]
    fn a_file_is_read_to_its_end_even_if_its_reported_size_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        for text in ["", "f", "four", &"long ".repeat(30_000)] {
            fs::write(&file, text).unwrap();
            let length = text.len() as u64;
            // The file may grow or shrink after it was examined.
            for said in [
                0,
                1,
                length.saturating_sub(1),
                length,
                length + 1,
                length * 2 + 3,
            ] {
                assert_eq!(
                    read_open(&File::open(&file).unwrap(), said, length + 9).unwrap(),
                    text.as_bytes(),
                    "{said}"
                );
                let read = read_open(&File::open(&file).unwrap(), said, length.saturating_sub(1));
                assert!(
                    text.is_empty() || matches!(read, Err(Unread::TooLarge { .. })),
                    "{said}"
                );
            }
        }
        // Files of `/proc` have no length.
        assert!(
            read_bytes(Path::new("/proc/self/status"), 99_999).is_ok_and(|bytes| bytes.len() > 99)
        );
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "only a program can make a pipe with a name"
    )]
    #[test]
    fn what_was_seen_as_a_file_and_is_none_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(
            std::process::Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        assert!(matches!(
            read_seen(&pipe, 9),
            (FileStat::Present(_), Err(Unread::NotRegular))
        ));
        assert!(matches!(
            read_seen(folder.path(), 9),
            (FileStat::Present(_), Err(Unread::NotRegular))
        ));
        assert!(matches!(
            read_seen(&folder.path().join("none"), 9),
            (FileStat::Unknown, Err(Unread::Failed(_)))
        ));
        let file = folder.path().join("file");
        fs::write(&file, "four").unwrap();
        assert!(matches!(
            read_seen(&file, 3),
            (FileStat::Present(_), Err(Unread::TooLarge { limit: 3 }))
        ));
        let (stat, bytes) = read_seen(&file, 4);
        assert_eq!(bytes.unwrap(), b"four");
        assert!(
            FileStat::of(&file, Links::Seen).proves_unchanged(&stat, i64::MAX),
            "both looks see the same"
        );
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "only a program can make a pipe with a name"
    )]
    #[test]
    fn a_pipe_in_the_place_of_a_file_is_opened_without_waiting() {
        // What `open_regular` does if the file became a pipe after the check.
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(
            std::process::Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        let mut options = OpenOptions::new();
        options.read(true);
        without_waiting(&mut options);
        assert!(!options.open(&pipe).unwrap().metadata().unwrap().is_file());
    }
}
