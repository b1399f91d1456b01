//! Ordinary work of developers runs at `standard`: each program is the real one, run by a tool, by the
//! user of the tests and by a user who is not root, alone and for a directive.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Ran, TestProject};
use crate::hazards::unprivileged::Unprivileged;

mod caches;

/// The name of the environment variable with the toolchains of rustup.
const RUSTUP_HOME: &str = "RUSTUP_HOME";

/// Where the programs of Rust are for a user who cannot read the home of root.
const RUST: &str = "rust";

/// Work by name, with lines for its manifest.
pub(crate) struct OrdinaryWork {
    pub(crate) name: &'static str,
    pub(crate) manifest: &'static str,
    pub(crate) script: &'static str,
}

const fn work(name: &'static str, script: &'static str) -> OrdinaryWork {
    OrdinaryWork {
        name,
        manifest: "",
        script,
    }
}

/// Runs each work as a tool and for a directive, by both users.
pub(crate) fn runs(project: TestProject, all: &[OrdinaryWork]) {
    let mut project = project;
    for work in all {
        let script = format!("set -euo pipefail\n{}", work.script);
        project = project
            .tool(work.name, work.manifest, &script)
            .directive(&format!("{}_granted", work.name), [work.name]);
    }
    let project = project.committed();
    for work in all {
        let granted = format!("{}_granted", work.name);
        let calls: [&[&str]; 2] = [
            &["tool", "run", work.name, "--checkpoint", "auto"],
            &["run", &granted, "--checkpoint", "auto"],
        ];
        for words in calls {
            let ran = as_both(&project, words);
            for (who, ran) in ran {
                assert_eq!(
                    ran.code(),
                    Some(0),
                    "{} by {who}: {words:?}\n{ran}",
                    work.name
                );
                assert!(!ran.stderr().contains("warning: isolation"), "{ran}");
            }
        }
    }
}

/// Runs piton as the user of the tests, and as a user who is not root if that is another one.
fn as_both(project: &TestProject, words: &[&str]) -> Vec<(&'static str, Ran)> {
    let own = project.ran(project.command(words).output().expect("piton starts"));
    let mut all = vec![("the user of the tests", own)];
    if matches!(Unprivileged::someone(), Unprivileged::Nobody) {
        let output = with_rust(project, words).output().expect("piton starts");
        all.push(("an ordinary user", project.ran(output)));
        // Git of the other user refuses a repository that is not its own.
        project.bash("chown -R \"$(id -u):$(id -g)\" ..");
    }
    all
}

/// A command of an ordinary user, who finds the programs of Rust below the folder of the project: those of root are in
/// a folder that only root can enter.
fn with_rust(project: &TestProject, words: &[&str]) -> Command {
    let user = Unprivileged::someone();
    let rust = project.root().with_file_name(RUST);
    std::fs::create_dir_all(&rust).expect("a folder");
    let inner = user.command(project, words);
    let mut command = project.hermetic("unshare", &project.root());
    let path = format!("{}/bin:/usr/local/bin:/usr/bin:/bin", rust.display());
    command
        .args(["--mount", "bash", "-euc"])
        .arg("mount --bind \"$1\" \"$2\"; PATH=$3; shift 3; exec \"$@\"")
        .arg("bash")
        .args([&sysroot(), &rust])
        .arg(path)
        .arg(inner.get_program())
        .args(inner.get_args());
    command
}

/// The folder with the programs of Rust that the tests are built with.
#[expect(
    clippy::disallowed_methods,
    reason = "asks the compiler of the machine"
)]
fn sysroot() -> PathBuf {
    let output = Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()
        .expect("rustc starts");
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
}

/// A project of a user whose Rust is where rustup installs it. Nothing says so but the home.
#[expect(
    clippy::disallowed_methods,
    reason = "finds the toolchains of the machine"
)]
pub(crate) fn rust_project() -> TestProject {
    let project = TestProject::new();
    let home = std::env::var_os("HOME").unwrap_or_default();
    let rustup = std::env::var_os(RUSTUP_HOME)
        .map_or_else(|| Path::new(&home).join(".rustup"), PathBuf::from);
    if rustup.is_dir() {
        symlink(rustup, project.home().join(".rustup")).expect("a link");
    }
    std::fs::create_dir(project.home().join(".cargo")).expect("a folder");
    project
        .file(
            "Cargo.toml",
            "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
        )
        .file(
            "src/main.rs",
            "fn main() {}\n\n#[test]\nfn it_works() {\n    assert_eq!(1 + 1, 2);\n}\n",
        )
        .file(
            ".gitignore",
            "target\nnode_modules\n__pycache__\nenv\n*.o\nmain\n",
        )
}

#[test]
fn git_reads() {
    let project = TestProject::new().file("kept.txt", "kept\n");
    runs(
        project,
        &[work(
            "git_read",
            "echo more >> kept.txt\ngit status --short\ngit log --oneline --stat\ngit diff HEAD\ngit diff --cached\n\
             git show HEAD:kept.txt\ngit blame kept.txt\ngit grep kept\ngit ls-files\ngit rev-parse HEAD\n\
             git branch --list\ngit tag\ngit stash list\ngit describe --always\ngit config --list\ngit archive HEAD | tar -t",
        )],
    );
}

#[test]
fn cargo_builds_tests_and_formats_without_any_declaration() {
    runs(
        rust_project(),
        &[
            work(
                "build",
                "cargo build --offline\ntest -x target/debug/tiny\nrm -r target",
            ),
            work(
                "check",
                "cargo test --offline 2>&1 | tee log.txt\ngrep 'test result: ok. 1 passed' log.txt",
            ),
            work(
                "format",
                "printf 'fn  main( ) { }\\n' > src/other.rs\nrustfmt src/other.rs\ngrep -x 'fn main() {}' src/other.rs",
            ),
        ],
    );
}

#[test]
fn make_compiles() {
    let project = TestProject::new()
        .file("Makefile", "all: main\n\tif ./main; then echo made; fi\nmain: main.o\n\t$(CC) -o $@ $^\n%.o: %.c\n\t$(CC) -c -o $@ $<\n")
        .file("main.c", "#include <stdio.h>\nint main(void) { return puts(\"hello\") < 0; }\n")
        .file(".gitignore", "*.o\nmain\n");
    runs(
        project,
        &[work(
            "build",
            "make -B -j2 | tee log.txt\ngrep made log.txt",
        )],
    );
}

#[test]
fn npm_installs_folders_and_archives_and_runs_scripts() {
    let package = "{\"name\": \"app\", \"version\": \"1.0.0\", \"private\": true, \"scripts\": \
        {\"build\": \"node build.js\", \"test\": \"node test.js\"}}\n";
    let project = TestProject::new()
        .file("package.json", package)
        .file(
            "lib/package.json",
            "{\"name\": \"lib\", \"version\": \"1.0.0\", \"main\": \"index.js\"}\n",
        )
        .file("lib/index.js", "module.exports = 42;\n")
        .file(
            "build.js",
            "require('fs').writeFileSync('built.txt', String(require('lib')));\n",
        )
        .file(
            "test.js",
            "if (require('lib') !== 42) { process.exit(1); }\n",
        )
        .file(".gitignore", "node_modules\n*.tgz\n");
    let install = "npm install --offline --no-audit --no-fund";
    let folder =
        format!("{install} ./lib\nnpm run build\ntest \"$(cat built.txt)\" = 42\nnpm test");
    let archive = format!(
        "rm -rf node_modules\nnpm pack ./lib\n{install} ./lib-1.0.0.tgz\nnpm test\ntest -f node_modules/lib/index.js"
    );
    let names = ["folder", "archive"];
    let scripts: [&'static str; 2] = [folder.leak(), archive.leak()];
    let all: Vec<OrdinaryWork> = names
        .into_iter()
        .zip(scripts)
        .map(|(name, script)| work(name, script))
        .collect();
    runs(project, &all);
}
