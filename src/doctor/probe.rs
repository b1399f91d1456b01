//! The list of probes, and the outcome of a probe.

use super::{CheckStatus, Group, Necessity, ProbeContext};
use super::{checkpoint, folders, programs, project, supervision};

pub(super) struct Probe {
    pub(super) name: &'static str,
    pub(super) group: Group,
    pub(super) need: Necessity,
    /// What it does, for readers of the report.
    pub(super) tried: &'static str,
    pub(super) run: fn(&ProbeContext) -> ProbeOutcome,
}

/// The outcome of a probe.
pub(super) struct ProbeOutcome {
    pub(super) status: CheckStatus,
    pub(super) detail: String,
    pub(super) hint: Option<String>,
}

impl ProbeOutcome {
    pub(super) fn ok(detail: impl Into<String>) -> Self {
        Self {
            status: CheckStatus::Ok,
            detail: detail.into(),
            hint: None,
        }
    }

    pub(super) fn warning(detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::with_hint(CheckStatus::Warning, detail.into(), hint.into())
    }

    pub(super) fn missing(detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::with_hint(CheckStatus::Missing, detail.into(), hint.into())
    }

    /// An empty hint counts as no hint.
    fn with_hint(status: CheckStatus, detail: String, hint: String) -> Self {
        Self {
            status,
            detail,
            hint: Some(hint).filter(|hint| !hint.is_empty()),
        }
    }
}

const fn probe(
    name: &'static str,
    group: Group,
    need: Necessity,
    tried: &'static str,
    run: fn(&ProbeContext) -> ProbeOutcome,
) -> Probe {
    Probe {
        name,
        group,
        need,
        tried,
        run,
    }
}

use Group::{Machine, Programs, Project, Rope};
use Necessity::{Optional, Required};

/// The temporary folder, which all other probes need.
pub(super) const TEMPORARY: Probe = probe(
    "temporary folder",
    Machine,
    Required,
    "make a folder and a file in it",
    folders::temporary,
);

/// The probes in the repository of the project; they run only if it can be opened, and `repository`
/// reports why it cannot.
pub(super) const IN_REPOSITORY: [&str; 4] = ["identity", "operation", "locks", "file system"];

/// All probes, in the order of the report.
pub(super) const PROBES: [Probe; 25] = [
    probe(
        "checkpoint",
        Rope,
        Required,
        "commit one step and roll back another in a temporary repository",
        checkpoint::checkpoint,
    ),
    probe(
        "supervision",
        Rope,
        Required,
        "start a tool that leaves a process behind, and look for the process",
        supervision::reaper,
    ),
    probe(
        "attribution",
        Rope,
        Optional,
        "see which file a tool wrote",
        supervision::witness,
    ),
    probe(
        "isolation",
        Rope,
        Optional,
        "try forbidden acts in a confined process",
        supervision::isolation,
    ),
    probe("git", Programs, Optional, "git --version", programs::git),
    probe(
        "python",
        Programs,
        Optional,
        "call a tool with `main` through the Python runtime",
        programs::python,
    ),
    probe(
        "virtual environments",
        Programs,
        Optional,
        "uv --version, or create one with python3 -m venv",
        programs::venv,
    ),
    probe(
        "bash",
        Programs,
        Optional,
        "call a tool through the bash runtime",
        programs::bash,
    ),
    probe(
        "node",
        Programs,
        Optional,
        "call a tool through the Node.js runtime",
        programs::node,
    ),
    probe(
        "ssh-keygen",
        Programs,
        Optional,
        "create a key, sign with it and verify",
        programs::ssh_keygen,
    ),
    probe(
        "containers",
        Programs,
        Optional,
        "ping the sockets of Docker and Podman",
        programs::containers,
    ),
    probe(
        "project",
        Project,
        Optional,
        "look for `.ai/` and for the top of a work tree, and whether items can be written",
        project::found,
    ),
    probe(
        "settings",
        Project,
        Required,
        "read all settings files and variables",
        project::settings,
    ),
    probe(
        "repository",
        Project,
        Required,
        "open it",
        project::repository,
    ),
    probe(
        "identity",
        Project,
        Required,
        "ask git for the author of a commit",
        project::identity,
    ),
    probe(
        "operation",
        Project,
        Required,
        "look for a merge or rebase in progress, and for conflicts",
        project::operation,
    ),
    probe(
        "locks",
        Project,
        Required,
        "look for locks of git and of runs",
        project::locks,
    ),
    probe(
        "file system",
        Project,
        Required,
        "write, link, rename and chmod files in git's folder",
        project::file_system,
    ),
    probe(
        "home",
        Machine,
        Optional,
        "make a file in it",
        folders::home,
    ),
    probe(
        "cache",
        Machine,
        Optional,
        "make a file in the folder, or where it would be made",
        folders::cache,
    ),
    probe(
        "state",
        Machine,
        Optional,
        "make a file in the folder, or where it would be made",
        folders::state,
    ),
    TEMPORARY,
    probe(
        "disk",
        Machine,
        Optional,
        "ask for the free space",
        folders::disk,
    ),
    probe(
        "clock",
        Machine,
        Optional,
        "compare the clock with the time of a new file",
        folders::clock,
    ),
    probe(
        "terminal",
        Machine,
        Optional,
        "look at the output, the locale and the colours",
        folders::terminal,
    ),
];
