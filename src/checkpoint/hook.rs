//! The git hooks that piton uses: those of a commit, a rewrite and a push.

use serde::{Serialize, Serializer};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hook {
    /// At the start of a commit; no arguments.
    PreCommit,
    /// Before the message is final; the file with the message, then its source.
    PrepareCommitMessage,
    /// After that; the file with the message.
    CommitMessage,
    /// After the commit; its exit status does not matter.
    PostCommit,
    /// After commits were replaced; `amend` or `rebase`, and pairs of commits on stdin.
    PostRewrite,
    /// Before a push; the remote, and refs on stdin.
    PrePush,
    /// Before a push is received; refs on stdin.
    PreReceive,
}

impl Hook {
    /// All hooks, in the order in which git runs them.
    pub const ALL: [Self; 7] = [
        Self::PreCommit,
        Self::PrepareCommitMessage,
        Self::CommitMessage,
        Self::PostCommit,
        Self::PostRewrite,
        Self::PrePush,
        Self::PreReceive,
    ];

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

    /// Whether git writes to its stdin.
    pub fn reads_input(self) -> bool {
        matches!(self, Self::PostRewrite | Self::PrePush | Self::PreReceive)
    }

    /// Whether git must stop if this hook could not check anything, regardless of the settings. A
    /// server must not accept what it could not check.
    pub fn is_guard(self) -> bool {
        self == Self::PreReceive
    }

    /// Whether it has nothing to do unless a run is active or waiting.
    pub fn is_about_runs(self) -> bool {
        matches!(self, Self::PrepareCommitMessage | Self::PostCommit)
    }
}

impl Serialize for Hook {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
