//! The hooks of git that piton has to do with: those of a commit, and those around what is rewritten and sent.

use serde::{Serialize, Serializer};

/// A hook of git.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hook {
    /// Before anything else of a commit; no arguments.
    PreCommit,
    /// Before the message is final; the file with the message, then where it comes from.
    PrepareCommitMessage,
    /// After that; the file with the message.
    CommitMessage,
    /// When the commit is there; how it ends does not matter.
    PostCommit,
    /// When commits were replaced; `amend` or `rebase`, and pairs of commits to read.
    PostRewrite,
    /// Before something is sent; the remote, and refs to read.
    PrePush,
    /// Before something is taken in; refs to read.
    PreReceive,
}

impl Hook {
    /// Every hook, in the order in which git comes to them.
    pub const ALL: [Self; 7] = [
        Self::PreCommit,
        Self::PrepareCommitMessage,
        Self::CommitMessage,
        Self::PostCommit,
        Self::PostRewrite,
        Self::PrePush,
        Self::PreReceive,
    ];

    /// The name of its file.
    pub fn name(self) -> &'static str {
        match self {
            Self::PreCommit => "pre-commit",
            Self::PrepareCommitMessage => "prepare-commit-msg",
            Self::CommitMessage => "commit-msg",
            Self::PostCommit => "post-commit",
            Self::PostRewrite => "post-rewrite",
            Self::PrePush => "pre-push",
            Self::PreReceive => "pre-receive",
        }
    }

    /// Whether git tells it something over its standard input.
    pub fn reads_input(self) -> bool {
        matches!(self, Self::PostRewrite | Self::PrePush | Self::PreReceive)
    }

    /// Whether it has nothing to do where no run is at work and none waits.
    pub fn is_about_runs(self) -> bool {
        matches!(self, Self::PrepareCommitMessage | Self::PostCommit)
    }
}

impl Serialize for Hook {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
