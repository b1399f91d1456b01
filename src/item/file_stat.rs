//! File metadata for change detection, without opening the file.
//!
//! A [`Footprint`] tells whether a file can have changed since it was read. It is limited by the
//! clock of the file system: one about as old as the read itself proves nothing, see
//! [`Footprint::is_older_than`]. A file that cannot be examined is [`FileStat::Unknown`], which equals
//! nothing, not even itself.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, RawMode, Stat, fstat, statat};
use rustix::io::Errno;

/// Some file systems have a time resolution of two seconds.
const SLACK: i64 = 2_000_000_000;

/// The metadata that every change of a file affects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Footprint {
    pub(crate) size: u64,
    /// In nanoseconds.
    pub(crate) modified: i64,
    /// The ctime in nanoseconds; programs cannot set it.
    pub(crate) changed: i64,
    pub(crate) inode: u64,
    pub(crate) device: u64,
    /// File type and permissions.
    pub(crate) mode: u32,
}

/// The result of examining a path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FileStat {
    Absent,
    Present(Footprint),
    /// It cannot be examined.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    /// Examine the target.
    Followed,
    /// Examine the link itself.
    Seen,
}

impl FileStat {
    pub(crate) fn of(path: &Path, links: Links) -> Self {
        Self::below(CWD, path, links)
    }

    /// Examines a path below an open folder.
    pub(crate) fn below(folder: impl AsFd, path: &Path, links: Links) -> Self {
        let flags = match links {
            Links::Followed => AtFlags::empty(),
            Links::Seen => AtFlags::SYMLINK_NOFOLLOW,
        };
        match statat(folder, path, flags) {
            Ok(stat) => Self::Present(Footprint::from_stat(&stat)),
            Err(Errno::NOENT | Errno::NOTDIR) => Self::Absent,
            Err(_) => Self::Unknown,
        }
    }

    pub(crate) fn of_open(file: impl AsFd) -> Self {
        fstat(file).map_or(Self::Unknown, |stat| {
            Self::Present(Footprint::from_stat(&stat))
        })
    }

    /// Whether the file is unchanged since `since`, which was taken after `moment`.
    pub(crate) fn proves_unchanged(&self, since: &Self, moment: i64) -> bool {
        match (self, since) {
            (Self::Absent, Self::Absent) => true,
            (Self::Present(now), Self::Present(then)) => now == then && then.is_older_than(moment),
            _ => false,
        }
    }

    pub(crate) fn footprint(&self) -> Option<&Footprint> {
        match self {
            Self::Present(footprint) => Some(footprint),
            Self::Absent | Self::Unknown => None,
        }
    }
}

impl Footprint {
    #[expect(
        clippy::unnecessary_cast,
        clippy::cast_sign_loss,
        clippy::cast_possible_wrap,
        reason = "the types of these fields differ between systems, and they are only compared"
    )]
    fn from_stat(stat: &Stat) -> Self {
        let nanos =
            |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
        Self {
            size: stat.st_size as u64,
            modified: nanos(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: nanos(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
            inode: stat.st_ino as u64,
            device: stat.st_dev as u64,
            mode: stat.st_mode as u32,
        }
    }

    pub(crate) fn is_regular(&self) -> bool {
        FileType::from_raw_mode(self.mode as RawMode).is_file()
    }

    /// Whether a change after `moment` would be visible: two changes within the clock resolution
    /// look the same.
    pub(crate) fn is_older_than(&self, moment: i64) -> bool {
        self.modified.max(self.changed) < moment.saturating_sub(SLACK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_old_footprint_proves_anything() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        assert!(FileStat::of(&file, Links::Seen).proves_unchanged(&FileStat::Absent, 0));
        std::fs::write(&file, "one").unwrap();
        let first = FileStat::of(&file, Links::Seen);
        assert!(first.proves_unchanged(&first, i64::MAX));
        let own = first.footprint().unwrap().changed;
        assert!(
            !first.proves_unchanged(&first, own),
            "written in the same moment"
        );
        assert!(!first.proves_unchanged(&first, own + SLACK));
        assert!(first.proves_unchanged(&first, own + SLACK + 1));
        std::fs::write(&file, "three").unwrap();
        assert!(!FileStat::of(&file, Links::Seen).proves_unchanged(&first, i64::MAX));
        assert!(!FileStat::Unknown.proves_unchanged(&FileStat::Unknown, i64::MAX));
        assert!(!FileStat::Absent.proves_unchanged(&first, i64::MAX));
    }

    #[test]
    fn a_link_is_seen_or_followed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "one").unwrap();
        std::os::unix::fs::symlink("file", folder.path().join("link")).unwrap();
        let inode = |name: &str, links| {
            FileStat::of(&folder.path().join(name), links)
                .footprint()
                .unwrap()
                .inode
        };
        assert_eq!(inode("link", Links::Followed), inode("file", Links::Seen));
        assert_ne!(inode("link", Links::Seen), inode("file", Links::Seen));
    }
}
