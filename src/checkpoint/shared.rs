//! Repositories that several users write to (`core.sharedRepository`).
//!
//! Git gives new files in such a repository the permission bits from the setting. Neither libgit2
//! nor piton does so on creation; [`Repository::share`] corrects them at the end of a run.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use super::error::CheckpointError;
use super::repository::Repository;

/// The permission bits of `core.sharedRepository`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    /// These bits in addition to those of the file.
    AtLeast(u32),
    /// Exactly these bits.
    Exactly(u32),
}

const SET_GROUP: u32 = 0o2000;

impl Sharing {
    /// Returns `None` if the repository is not shared.
    fn parse(text: &str) -> Option<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "" | "umask" | "false" | "no" | "off" | "0" => None,
            "group" | "true" | "yes" | "on" | "1" => Some(Self::AtLeast(0o660)),
            "all" | "world" | "everybody" | "2" => Some(Self::AtLeast(0o664)),
            octal => u32::from_str_radix(octal, 8)
                .ok()
                .filter(|bits| bits & 0o600 == 0o600)
                .map(Self::Exactly),
        }
    }

    /// The bits for a file or folder with `mode`, as git computes them.
    fn apply(self, mode: u32, is_folder: bool) -> u32 {
        let (Self::AtLeast(bits) | Self::Exactly(bits)) = self;
        let mut tweak = bits & 0o777;
        // Objects stay read-only.
        if mode & 0o200 == 0 {
            tweak &= !0o222;
        }
        if mode & 0o100 != 0 {
            tweak |= (tweak & 0o444) >> 2;
        }
        let shared = match self {
            Self::AtLeast(_) => mode | tweak,
            Self::Exactly(_) => (mode & !0o777) | tweak,
        };
        let is_groups = is_folder && shared & 0o060 != 0;
        if is_groups {
            shared | ((shared & 0o444) >> 2) | SET_GROUP
        } else {
            shared
        }
    }

    /// Sets the bits of a file or folder. Ignores files of other owners and missing files.
    fn adjust(self, path: &Path) -> io::Result<()> {
        let found = match fs::symlink_metadata(path) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => found?,
        };
        let is_ours = found.uid() == rustix::process::geteuid().as_raw();
        if !is_ours || found.is_symlink() {
            return Ok(());
        }
        let mode = found.mode() & 0o7777;
        let wanted = self.apply(mode, found.is_dir());
        if wanted == mode {
            Ok(())
        } else {
            fs::set_permissions(path, Permissions::from_mode(wanted))
        }
    }
}

impl Repository {
    /// Gives other users of a shared repository access to the files that this process created in
    /// its git folder.
    pub fn share(&self) -> Result<(), CheckpointError> {
        let Some(sharing) = self
            .text("core.sharedRepository")
            .and_then(|text| Sharing::parse(&text))
        else {
            return Ok(());
        };
        let common = self.git.commondir();
        let adjust = |path: &Path| {
            sharing
                .adjust(path)
                .map_err(CheckpointError::io("share", path))
        };
        // Only folders of objects: libgit2 and git make the objects themselves readable.
        for entry in fs::read_dir(common.join("objects"))
            .into_iter()
            .flatten()
            .flatten()
        {
            adjust(&entry.path())?;
        }
        for folder in [
            common.join("piton"),
            self.own_folder(),
            common.join("refs"),
            common.join("logs"),
        ] {
            for entry in walkdir::WalkDir::new(folder).into_iter().flatten() {
                adjust(entry.path())?;
            }
        }
        [
            self.git.path().join("HEAD"),
            self.git.path().join("logs").join("HEAD"),
            self.index_file(),
        ]
        .iter()
        .try_for_each(|path| adjust(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_git() {
        let group = Sharing::parse("group").unwrap();
        assert_eq!(group.apply(0o644, false), 0o664);
        assert_eq!(group.apply(0o444, false), 0o444);
        assert_eq!(group.apply(0o755, true), 0o2775);
        assert_eq!(group.apply(0o700, true), 0o2770);
        assert_eq!(Sharing::parse("all").unwrap().apply(0o600, false), 0o664);
        assert_eq!(Sharing::parse("0640").unwrap().apply(0o666, false), 0o640);
        assert_eq!(Sharing::parse("0640").unwrap().apply(0o777, true), 0o2750);
        assert_eq!(
            (
                Sharing::parse("umask"),
                Sharing::parse("false"),
                Sharing::parse("07")
            ),
            (None, None, None)
        );
    }
}
