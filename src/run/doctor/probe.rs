//! The list of what is tried, and what a probe answers.

use super::{Group, Need, Status, Surroundings};
use super::{folders, programs, project, rope, supervision};

/// Something to try.
pub(super) struct Probe {
    pub(super) name: &'static str,
    pub(super) group: Group,
    pub(super) need: Need,
    /// What it does, for whoever wonders how the answer was found.
    pub(super) tried: &'static str,
    pub(super) run: fn(&Surroundings) -> Outcome,
}

/// What came of trying.
pub(super) struct Outcome {
    pub(super) status: Status,
    pub(super) detail: String,
    pub(super) hint: Option<String>,
}

impl Outcome {
    pub(super) fn ok(detail: impl Into<String>) -> Self {
        Self { status: Status::Ok, detail: detail.into(), hint: None }
    }

    pub(super) fn warning(detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::told(Status::Warning, detail.into(), hint.into())
    }

    pub(super) fn missing(detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::told(Status::Missing, detail.into(), hint.into())
    }

    /// An empty hint is none: there is nothing to do about it.
    fn told(status: Status, detail: String, hint: String) -> Self {
        Self { status, detail, hint: Some(hint).filter(|hint| !hint.is_empty()) }
    }
}

const fn probe(
    name: &'static str,
    group: Group,
    need: Need,
    tried: &'static str,
    run: fn(&Surroundings) -> Outcome,
) -> Probe {
    Probe { name, group, need, tried, run }
}

use Group::{Machine, Programs, Project, Rope};
use Need::{Optional, Required};

/// The temporary folder; without it nothing else can be tried.
pub(super) const TEMPORARY: Probe =
    probe("temporary folder", Machine, Required, "make a folder and a file in it", folders::temporary);

/// What is tried in the repository of the project, where it can be opened; `repository` says why it cannot.
pub(super) const IN_REPOSITORY: [&str; 4] = ["identity", "operation", "locks", "file system"];

/// Everything that is tried, in the order in which it is shown.
pub(super) const PROBES: [Probe; 25] = [
    probe("checkpoint", Rope, Required, "commit a step and roll one back in a throw-away repository", rope::rope),
    probe("supervision", Rope, Required, "let a tool leave a process behind, and look for it", supervision::reaper),
    probe("attribution", Rope, Optional, "see which file a tool wrote", supervision::witness),
    probe("isolation", Rope, Optional, "ask the kernel what it offers", supervision::isolation),
    probe("git", Programs, Optional, "git --version", programs::git),
    probe("python", Programs, Optional, "call a tool with `main` through the Python runtime", programs::python),
    probe("virtual environments", Programs, Optional, "uv --version, or make one with python3 -m venv", programs::venv),
    probe("bash", Programs, Optional, "call a tool through the bash runtime", programs::bash),
    probe("node", Programs, Optional, "call a tool through the Node.js runtime", programs::node),
    probe("ssh-keygen", Programs, Optional, "make a key, sign with it and verify", programs::ssh_keygen),
    probe("containers", Programs, Optional, "ping the sockets of Docker and Podman", programs::containers),
    probe(
        "project",
        Project,
        Optional,
        "look for `.ai/` and for the top of a work tree, and whether items can be written",
        project::found,
    ),
    probe("settings", Project, Required, "read every layer of settings", project::settings),
    probe("repository", Project, Required, "open it", project::repository),
    probe("identity", Project, Required, "ask whom git would name in a commit", project::identity),
    probe("operation", Project, Required, "look for a merge or the like, and for conflicts", project::operation),
    probe("locks", Project, Required, "look for locks of git and of runs", project::locks),
    probe(
        "file system",
        Project,
        Required,
        "write, link, rename and chmod files beside git's data",
        project::file_system,
    ),
    probe("home", Machine, Optional, "make a file in it", folders::home),
    probe("cache", Machine, Optional, "make a file in the folder, or where it would be made", folders::cache),
    probe("state", Machine, Optional, "make a file in the folder, or where it would be made", folders::state),
    TEMPORARY,
    probe("disk", Machine, Optional, "ask for the free space", folders::disk),
    probe("clock", Machine, Optional, "compare the clock with the time of a new file", folders::clock),
    probe("terminal", Machine, Optional, "look at the output, the locale and the colours", folders::terminal),
];
