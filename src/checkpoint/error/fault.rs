//! Which errors may pass: a full or broken disk, a lock that another program holds.
//!
//! What fails because of the system is not recorded as the end of a step. The step stays open, and the next recovery
//! tries again.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

use super::CheckpointError;

/// No room: the user can make some.
const ROOM: [Errno; 2] = [Errno::NOSPC, Errno::DQUOT];
/// The system could not do what it was asked for, and may do it the next time.
const SYSTEM: [Errno; 7] =
    [Errno::IO, Errno::INTR, Errno::AGAIN, Errno::NOMEM, Errno::NFILE, Errno::MFILE, Errno::STALE];

impl CheckpointError {
    /// Whether there was no room on the disk.
    pub(crate) fn is_about_room(&self) -> bool {
        match self {
            Self::DiskFull { .. } => true,
            Self::Unwritable(files) => files.iter().any(|file| file.errno.is_some_and(|errno| ROOM.contains(&errno))),
            _ => self.errno().is_some_and(|errno| ROOM.contains(&errno)),
        }
    }

    /// Whether the disk or the system failed, rather than refused.
    pub(crate) fn is_fault_of_system(&self) -> bool {
        match self {
            Self::DiskFull { .. } => true,
            Self::Unwritable(files) => files.iter().any(|file| file.errno.is_some_and(is_fault)),
            _ => self.errno().is_some_and(is_fault),
        }
    }

    /// Whether trying again later may help: no room, a lock that another program holds, or a system that fails for now.
    pub fn may_pass(&self) -> bool {
        let locked = |err: &git2::Error| err.code() == git2::ErrorCode::Locked;
        self.is_fault_of_system()
            || matches!(self, Self::IndexLocked { .. } | Self::RefLocked(_))
            || matches!(self, Self::Git { source, .. } if locked(source))
    }

    /// That libgit2 could not convert a file, for which it writes in a folder. It reports some failed writes without a
    /// word, but the system still knows why.
    pub(crate) fn converting(folder: impl Into<PathBuf>) -> impl FnOnce(git2::Error) -> Self {
        move |source| {
            // Asked at once: the next call of the system may change it.
            let last = last_fault().filter(|_| source.class() == git2::ErrorClass::None);
            match errno_of(&source).or(last) {
                Some(errno) => Self::Io { doing: "convert a file in", path: folder.into(), source: errno.into() },
                None => Self::Git { doing: "convert a file as git would", source },
            }
        }
    }

    /// As [`Self::converting`] for an error of libgit2 that comes as one of input and output.
    pub(crate) fn converting_stream(folder: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        move |source| {
            let last = last_fault().filter(|_| source.raw_os_error().is_none());
            let source = last.map_or(source, io::Error::from);
            Self::Io { doing: "convert a file in", path: folder.into(), source }
        }
    }

    /// The error of the system behind it.
    pub(crate) fn errno(&self) -> Option<Errno> {
        match self {
            Self::Io { source, .. } | Self::Unreadable { source, .. } => Errno::from_io_error(source),
            Self::Git { source, .. } => errno_of(source),
            _ => None,
        }
    }
}

fn is_fault(errno: Errno) -> bool {
    ROOM.contains(&errno) || SYSTEM.contains(&errno)
}

/// The last error of the system in this thread, if it is a fault.
fn last_fault() -> Option<Errno> {
    Errno::from_io_error(&io::Error::last_os_error()).filter(|errno| is_fault(*errno))
}

/// The error of the system that libgit2 met. It keeps no number, only the words of `strerror` in its message.
fn errno_of(err: &git2::Error) -> Option<Errno> {
    if !matches!(err.class(), git2::ErrorClass::Os | git2::ErrorClass::Filesystem | git2::ErrorClass::Odb) {
        return None;
    }
    let words = |errno: &Errno| {
        let text = io::Error::from(*errno).to_string();
        text.split(" (os error").next().unwrap_or_default().to_owned()
    };
    ROOM.into_iter().chain(SYSTEM).find(|errno| err.message().contains(&words(errno)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_libgit2(class: git2::ErrorClass, message: &str) -> CheckpointError {
        CheckpointError::git("write")(git2::Error::new(git2::ErrorCode::GenericError, class, message))
    }

    #[test]
    fn an_error_of_libgit2_is_known_by_what_the_system_said() {
        let full = of_libgit2(git2::ErrorClass::Os, "failed to write to file: No space left on device");
        assert_eq!(full.errno(), Some(Errno::NOSPC));
        assert!(full.is_about_room() && full.may_pass());
        let broken = of_libgit2(git2::ErrorClass::Os, "could not fsync: Input/output error");
        assert_eq!(broken.errno(), Some(Errno::IO));
        assert!(!broken.is_about_room() && broken.may_pass());
        let refused = of_libgit2(git2::ErrorClass::Os, "could not open: Permission denied");
        assert_eq!(refused.errno(), None);
        assert!(!refused.may_pass());
        assert!(!of_libgit2(git2::ErrorClass::Reference, "No space left on device").may_pass());
    }
}
