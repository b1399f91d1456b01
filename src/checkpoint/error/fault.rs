//! Temporary errors: a full or broken disk, a lock of another program.
//!
//! A failure of the system is not recorded as the end of a step. The step stays open, and the next
//! recovery tries again.

use std::io;

use rustix::io::Errno;

use super::CheckpointError;

/// No space: the user can free some.
const ROOM: [Errno; 2] = [Errno::NOSPC, Errno::DQUOT];
/// The system failed, and may succeed the next time.
const SYSTEM: [Errno; 7] = [
    Errno::IO,
    Errno::INTR,
    Errno::AGAIN,
    Errno::NOMEM,
    Errno::NFILE,
    Errno::MFILE,
    Errno::STALE,
];

impl CheckpointError {
    /// Whether the disk is full.
    pub(crate) fn is_about_room(&self) -> bool {
        match self {
            Self::DiskFull { .. } => true,
            Self::Unwritable(files) => files
                .iter()
                .any(|file| file.errno.is_some_and(|errno| ROOM.contains(&errno))),
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

    /// Whether a later attempt may succeed: a full disk, a lock of another program, or a temporary
    /// failure of the system.
    pub fn may_pass(&self) -> bool {
        let locked = |err: &git2::Error| err.code() == git2::ErrorCode::Locked;
        self.is_fault_of_system()
            || matches!(self, Self::IndexLocked { .. } | Self::RefLocked(_))
            || matches!(self, Self::Git { source, .. } if locked(source))
    }

    /// The error of the system behind it.
    pub(crate) fn errno(&self) -> Option<Errno> {
        match self {
            Self::Io { source, .. } | Self::Unreadable { source, .. } => {
                Errno::from_io_error(source)
            }
            Self::Git { source, .. } => errno_of(source),
            _ => None,
        }
    }
}

fn is_fault(errno: Errno) -> bool {
    ROOM.contains(&errno) || SYSTEM.contains(&errno)
}

/// The system error in an error of libgit2, which has no number, only the text of `strerror` in its
/// message.
fn errno_of(err: &git2::Error) -> Option<Errno> {
    if !matches!(
        err.class(),
        git2::ErrorClass::Os | git2::ErrorClass::Filesystem | git2::ErrorClass::Odb
    ) {
        return None;
    }
    let words = |errno: &Errno| {
        let text = io::Error::from(*errno).to_string();
        text.split(" (os error")
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    ROOM.into_iter()
        .chain(SYSTEM)
        .find(|errno| err.message().contains(&words(errno)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_libgit2(class: git2::ErrorClass, message: &str) -> CheckpointError {
        CheckpointError::git("write")(git2::Error::new(
            git2::ErrorCode::GenericError,
            class,
            message,
        ))
    }

    #[test]
    fn an_error_of_libgit2_is_known_by_what_the_system_said() {
        let full = of_libgit2(
            git2::ErrorClass::Os,
            "failed to write to file: No space left on device",
        );
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
