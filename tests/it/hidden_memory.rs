//! What other processes of the same user cannot see of piton.

use crate::harness::TestProject;
use crate::hazards::unprivileged::Unprivileged;

/// Finds piton, the parent of the supervisor, and tries to read a file of a process.
const SPY: &str = "piton=$(awk '/^PPid:/{print $2}' /proc/$PPID/status)
can() { head -c 1 \"$1\" > /dev/null 2>&1 && echo \"$2: readable\" || echo \"$2: hidden\"; }
can /proc/$piton/environ environment
can /proc/$piton/maps maps
can /proc/$piton/mem memory
can /proc/$PPID/environ supervisor
sleep 5 & can /proc/$!/environ other; kill $!
";

const HIDDEN: &str =
    "environment: hidden\nmaps: hidden\nmemory: hidden\nsupervisor: hidden\nother: readable\n";

#[test]
fn a_trusted_tool_cannot_read_the_memory_of_piton() {
    let project = TestProject::new()
        .tool("spy", "isolation: trusted", SPY)
        .committed();
    let ran = Unprivileged::someone().piton(&project, &["tool", "run", "spy"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(ran.to_string().contains(HIDDEN), "{ran}");
}

#[test]
fn a_command_cannot_read_the_memory_of_piton() {
    let project = TestProject::new().file("a.txt", "a\n").committed();
    let ran = Unprivileged::someone().piton(&project, &["exec", "--", "bash", "-c", SPY]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert!(ran.stdout().contains(HIDDEN), "{ran}");
}

#[test]
fn an_ordinary_user_gets_confined_tools_while_the_memory_is_hidden() {
    let project = TestProject::new()
        .tool("inside", "", "echo x > own.txt")
        .tool("outside", "", "echo x > ../new")
        .tool("git", "", "echo x >> .git/config")
        .committed();
    let user = Unprivileged::someone();
    let status = |tool| {
        let ran = user.piton(&project, &["tool", "run", tool, "--checkpoint", "auto"]);
        assert!(!ran.stderr().contains("warning: isolation:"), "{ran}");
        ran.code()
    };
    assert_eq!(status("inside"), Some(0));
    assert_eq!(status("outside"), Some(1));
    assert_eq!(status("git"), Some(1));
}
