//! Runs piton as an unprivileged user, because root is exempt from permission checks.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Ran, TestProject};

/// A user id that owns nothing.
const NOBODY_UID: u32 = 65534;

/// A user who is not root.
pub(crate) enum Unprivileged {
    /// The user who runs the tests.
    Self_,
    /// The user `nobody`, if the tests run as root.
    Nobody,
}

impl Unprivileged {
    pub(crate) fn someone() -> Self {
        if rustix::process::geteuid().is_root() {
            Self::Nobody
        } else {
            Self::Self_
        }
    }

    /// Runs piton in a project that is given to the user.
    pub(crate) fn piton(&self, project: &TestProject, arguments: &[&str]) -> Ran {
        project.ran(
            self.command(project, arguments)
                .output()
                .expect("piton starts"),
        )
    }

    pub(crate) fn command(&self, project: &TestProject, arguments: &[&str]) -> Command {
        match self {
            Self::Self_ => project.command(arguments),
            Self::Nobody => {
                self.own(project);
                let mut command = as_nobody(project, &program(project));
                command.args(arguments);
                command
            }
        }
    }

    /// Gives the project to the user.
    pub(crate) fn own(&self, project: &TestProject) {
        let Self::Nobody = self else {
            return;
        };
        // The program may be in a folder that only its owner can read.
        let program = program(project);
        if !program.exists() {
            std::fs::copy(env!("CARGO_BIN_EXE_piton"), &program).expect("a copy");
        }
        project.bash(&format!("chown -R {NOBODY_UID}:{NOBODY_UID} .."));
    }

    /// Another program of the user.
    pub(crate) fn program(&self, project: &TestProject, program: &str) -> Command {
        match self {
            Self::Self_ => project.hermetic(program, &project.root()),
            Self::Nobody => as_nobody(project, Path::new(program)),
        }
    }
}

/// A copy of piton that the user can run.
fn program(project: &TestProject) -> PathBuf {
    project.root().with_file_name("piton")
}

fn as_nobody(project: &TestProject, program: &Path) -> Command {
    let mut command = project.hermetic("setpriv", &project.root());
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command
        .arg(format!("--reuid={NOBODY_UID}"))
        .arg(format!("--regid={NOBODY_UID}"))
        .args(["--clear-groups", "--"]);
    command.arg(program);
    command
}
