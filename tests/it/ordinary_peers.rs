//! Programs of others that are installed from packages run at `standard`, too.
//!
//! `scripts/lib/python-packages` downloads them below cargo's target folder; without them these tests
//! fail.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::TestProject;
use crate::ordinary_work::{OrdinaryWork, runs};

/// The folder with the wheels of pytest and black.
fn wheels() -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_piton"))
        .ancestors()
        .nth(2)
        .expect("a target folder");
    let folder = target.join("peers/python-packages");
    assert!(
        folder.join("complete").exists(),
        "the Python packages are missing: run scripts/lib/python-packages, as ./scripts/test does"
    );
    folder.join("wheels")
}

/// A project beside which the wheels are, where every user can read them.
fn project() -> TestProject {
    let project = TestProject::new()
        .file("sums.py", "def add(a, b):\n    return a + b\n")
        .file(
            "test_sums.py",
            "from sums import add\n\n\ndef test_add(tmp_path):\n    (tmp_path / 'x').write_text('x')\n    assert add(1, 2) == 3\n",
        )
        .file(".gitignore", "env\n__pycache__\n.pytest_cache\n");
    let beside = project.root().with_file_name("wheels");
    fs::create_dir(&beside).expect("a folder");
    for wheel in fs::read_dir(wheels()).expect("wheels") {
        let wheel = wheel.expect("a wheel");
        fs::copy(wheel.path(), beside.join(wheel.file_name())).expect("a copy");
    }
    project
}

/// Installs a package into an environment, unless an earlier call of this user has done so: the Python of
/// one user may be closed to the other.
fn installed(package: &str) -> String {
    format!(
        "env/bin/{package} --version || {{ rm -rf env; python3 -m venv env; env/bin/pip install --quiet \
         --disable-pip-version-check --no-index --find-links ../wheels {package}; }}\n"
    )
}

#[test]
fn pytest_runs_in_a_virtual_environment_that_the_tool_makes() {
    let script = installed("pytest") + "env/bin/pytest -q | tee log.txt\ngrep '1 passed' log.txt";
    let work = OrdinaryWork {
        name: "check",
        manifest: "",
        script: script.leak(),
    };
    runs(project(), &[work]);
}

#[test]
fn black_formats() {
    let script = installed("black")
        + "printf 'x = { 1:2 }' > odd.py\nenv/bin/black -q odd.py\ngrep -x 'x = {1: 2}' odd.py";
    let work = OrdinaryWork {
        name: "format",
        manifest: "",
        script: script.leak(),
    };
    runs(project(), &[work]);
}
