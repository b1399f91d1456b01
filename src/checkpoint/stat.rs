//! The stat fields of a file that git's index keeps.

/// The stat fields of an index entry, truncated to 32 bits as git stores them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) changed_seconds: u32,
    pub(crate) changed_nanos: u32,
    pub(crate) modified_seconds: u32,
    pub(crate) modified_nanos: u32,
    pub(crate) device: u32,
    pub(crate) inode: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) size: u32,
}
