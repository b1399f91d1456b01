//! Runs piton as an unprivileged user, because root is exempt from permission checks.

use std::path::Path;
use std::process::Command;

use crate::harness::{Ran, TestProject};

/// A user id that owns nothing.
const NOBODY: u32 = 65534;

/// A user who is not root.
pub(super) enum Unprivileged {
    /// The user who runs the tests.
    Self_,
    /// The user `nobody`, if the tests run as root.
    Nobody,
}

impl Unprivileged {
    pub(super) fn someone() -> Self {
        if rustix::process::geteuid().is_root() { Self::Nobody } else { Self::Self_ }
    }

    /// Runs piton in a project that is given to the user.
    pub(super) fn piton(&self, project: &TestProject, arguments: &[&str]) -> Ran {
        project.ran(self.command(project, arguments).output().expect("piton starts"))
    }

    pub(super) fn command(&self, project: &TestProject, arguments: &[&str]) -> Command {
        match self {
            Self::Self_ => project.command(arguments),
            Self::Nobody => {
                let sandbox = project.root();
                let sandbox = sandbox.parent().expect("a sandbox");
                // The program may be in a folder that only its owner can read.
                let program = sandbox.join("piton");
                if !program.exists() {
                    std::fs::copy(env!("CARGO_BIN_EXE_piton"), &program).expect("a copy");
                }
                project.bash(&format!("chown -R {NOBODY}:{NOBODY} .."));
                let mut command = as_nobody(project, &program);
                command.args(arguments);
                command
            }
        }
    }
}

fn as_nobody(project: &TestProject, program: &Path) -> Command {
    let mut command = project.hermetic("setpriv", &project.root());
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.arg(format!("--reuid={NOBODY}")).arg(format!("--regid={NOBODY}")).args(["--clear-groups", "--"]);
    command.arg(program);
    command
}
