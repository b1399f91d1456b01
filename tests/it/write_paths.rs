//! Whose change it is does not depend on the path that a tool writes through.

use crate::harness::TestProject;

/// Ways to write to `src/victim`, which the tool does not declare.
const WAYS: [(&str, &str); 14] = [
    ("plain", "echo x > src/victim"),
    ("own", "exec 3< src/victim; echo x > /proc/self/fd/3"),
    (
        "dots",
        "exec 3< src/victim; echo x > /dev/../proc/self/fd/3",
    ),
    (
        "relative",
        "exec 3< src/victim; cd /; echo x > proc/self/fd/3",
    ),
    (
        "link",
        "exec 3< src/victim; ln -s /proc/self/fd/3 docs/l; echo x > docs/l",
    ),
    (
        "link_to_folder",
        "exec 3< src/victim; ln -s /dev/fd docs/l; echo x > docs/l/3",
    ),
    (
        "thread",
        "exec 3< src/victim; echo x > /proc/thread-self/fd/3",
    ),
    ("number", "exec 3< src/victim; echo x > /proc/$$/fd/3"),
    ("folder", "cd docs; echo x > /proc/self/cwd/../src/victim"),
    (
        "folder_descriptor",
        "exec 3< src; echo x > /dev/../proc/self/fd/3/victim",
    ),
    (
        "root",
        "at=$PWD; cd /dev; echo x > ../proc/self/root/$at/src/victim",
    ),
    (
        "removed_name",
        "ln src/victim docs/t; exec 3< docs/t; rm docs/t; echo x > /proc/self/fd/3",
    ),
    (
        "many_links",
        "ln -s ../src/victim docs/0; for n in {1..30}; do ln -s $((n - 1)) docs/$n; done; echo x > docs/30",
    ),
    (
        "other_root",
        "python3 -c \"import ctypes, os, struct; how = struct.pack('QQQ', os.O_WRONLY | os.O_TRUNC, 0, 0x10); \
         fd = ctypes.CDLL(None).syscall(437, os.open('src', os.O_PATH), b'/victim', how, 24); os.write(fd, b'x')\"",
    ),
];

#[test]
fn a_write_through_any_path_is_the_tools_own() {
    let mut project = TestProject::new()
        .file("src/victim", "whole\n")
        .file("docs/page", "page\n")
        .tool(
            "declared",
            "isolation: trusted\nwrites: ['docs/**']",
            "exec 3< docs/page; echo x > /dev/../proc/self/fd/3",
        );
    // At `standard`, the kernel refuses all of these.
    for (name, act) in WAYS {
        project = project.tool(
            name,
            "isolation: trusted\nwrites: ['docs/**']",
            &format!("set -e\n{act}\n"),
        );
    }
    let project = project.committed();
    for (name, act) in WAYS {
        let ran = project.piton(["tool", "run", name, "--checkpoint", "auto"]);
        assert_eq!(ran.code(), Some(3), "{act}\n{ran}");
        if name == "other_root" {
            // It is unknown which file the call means, so nothing is rolled back without a person.
            assert!(ran.stderr().contains("NOT_ATTRIBUTED"), "{act}\n{ran}");
            project.git(["checkout", "-q", "--", "src"]);
        }
        assert_eq!(project.read("src/victim"), "whole\n", "{act}\n{ran}");
        project.bash("git clean -qfd docs");
        project.assert_clean();
    }
    let ran = project.piton(["tool", "run", "declared", "--checkpoint", "auto"]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    assert_eq!(project.read("docs/page"), "x\n");
}
