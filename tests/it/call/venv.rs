//! Virtual environments: created once, reused, never used half-created.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use piton::exec::invocation::{Python, PythonEntry};
use piton::exec::packages;
use piton::problem::{Code, Explain as _};
use serde_json::json;

use super::Bench;

const SOURCE: &str = "import sys\ndef main():\n    import six\n    return [six.__name__, sys.prefix != sys.base_prefix]\n";

/// The variables that installers need to reach a package index.
fn network() -> BTreeMap<OsString, OsString> {
    let names = [
        "PATH",
        "HOME",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "ALL_PROXY",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
    ];
    let is_meant = |name: &OsString| {
        let name = name.to_string_lossy().to_uppercase();
        names.contains(&name.as_str()) || name.starts_with("PIP_") || name.starts_with("UV_")
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "only the outer environment knows the way to an index"
    )]
    std::env::vars_os()
        .filter(|(name, _)| is_meant(name))
        .collect()
}

fn with_packages(packages: &[&str]) -> Bench {
    let mut bench = Bench::python(SOURCE);
    bench.environment = network();
    let dependencies = packages.iter().map(|name| (*name).to_owned()).collect();
    bench.process().python = Some(Python {
        entry: PythonEntry::Main,
        venv: true,
        dependencies,
        ..Python::default()
    });
    bench
}

fn environments(bench: &Bench) -> Vec<PathBuf> {
    let venvs = bench.top.path().join("the cache/venvs");
    let entries = fs::read_dir(venvs)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path());
    entries.filter(|path| path.is_dir()).collect()
}

#[test]
fn packages_are_installed_once_and_a_half_made_environment_is_rebuilt() {
    let mut bench = with_packages(&["six>=1.10"]);
    assert_eq!(bench.value(), json!(["six", true]));
    assert_eq!(bench.told, ["installing six>=1.10 for `greet_people` …"]);
    let made = environments(&bench);
    let marker = made[0].join("piton-complete");
    let time = fs::metadata(&marker)
        .expect("a marker")
        .modified()
        .expect("a time");
    assert_eq!(bench.value(), json!(["six", true]));
    assert_eq!(bench.told.len(), 1, "the second call installs nothing");
    assert_eq!(
        fs::metadata(&marker)
            .expect("a marker")
            .modified()
            .expect("a time"),
        time
    );

    fs::remove_file(&marker).expect("removed");
    fs::remove_dir_all(made[0].join("lib")).expect("removed");
    assert_eq!(bench.value(), json!(["six", true]));
    assert_eq!((bench.told.len(), environments(&bench)), (2, made));
}

#[test]
fn uv_is_used_where_it_is_installed() {
    let mut bench = with_packages(&["six"]);
    let tools = bench.top.path().join("tools");
    let mut install = piton_free("python3", &["-m", "venv", tools.to_str().expect("Unicode")]);
    assert!(install.status().expect("python3 starts").success());
    let pip = tools.join("bin/python");
    let mut install = piton_free(
        pip.to_str().expect("Unicode"),
        &["-m", "pip", "install", "--quiet", "uv"],
    );
    assert!(install.status().expect("pip starts").success());
    // Only `uv`: the interpreter of its environment must not be used for the tool.
    let bin = bench.top.path().join("bin");
    fs::create_dir(&bin).expect("a folder");
    std::os::unix::fs::symlink(tools.join("bin/uv"), bin.join("uv")).expect("a link");
    let path = format!("{}:{}", bin.display(), super::search_path());
    bench.environment.insert("PATH".into(), path.into());

    assert_eq!(bench.value(), json!(["six", true]));
    let made = environments(&bench);
    let settings = fs::read_to_string(made[0].join("pyvenv.cfg")).expect("settings");
    assert!(
        settings.lines().any(|line| line.starts_with("uv = ")),
        "{settings}"
    );
    assert_eq!(bench.value(), json!(["six", true]));
    assert_eq!(
        (bench.told.len(), environments(&bench)),
        (1, made),
        "the second call finds it"
    );
}

/// A program with the environment that installers get.
#[expect(clippy::disallowed_methods, reason = "the test installs an installer")]
fn piton_free(program: &str, words: &[&str]) -> std::process::Command {
    let mut command = std::process::Command::new(program);
    command
        .args(words)
        .env_clear()
        .envs(network())
        .stdout(std::process::Stdio::null());
    command
}

#[test]
fn unused_environments_are_removed_and_created_again() {
    let mut bench = with_packages(&[]);
    bench.process().environment.insert(
        "PATH".to_owned(),
        piton::exec::invocation::MaskedText::plain(super::search_path()),
    );
    let cache = bench.top.path().join("the cache");
    bench.prepare().expect("prepared");
    let made = environments(&bench);
    let used = fs::metadata(made[0].join("piton-used"))
        .expect("a stamp")
        .modified()
        .expect("a time");
    assert_eq!(packages::unused(&cache, used), Vec::<PathBuf>::new());
    let later = used + Duration::from_secs(1);
    let lock = fs::File::open(made[0].with_extension("lock")).expect("a lock");
    lock.lock_shared().expect("locked");
    assert_eq!(
        packages::remove_unused(&cache, later),
        Vec::<PathBuf>::new(),
        "a call is about to use it"
    );
    drop(lock);
    assert_eq!(packages::unused(&cache, later), made);
    assert_eq!(packages::remove_unused(&cache, later), made);
    assert_eq!(environments(&bench), Vec::<PathBuf>::new());
    bench.prepare().expect("prepared");
    assert_eq!((bench.told.len(), environments(&bench)), (2, made));
}

#[test]
fn two_calls_at_once_install_once() {
    let bench = with_packages(&["six"]);
    let told: Vec<String> = thread::scope(|scope| {
        let call = || {
            let mut other = with_packages(&["six"]);
            let machine = bench.machine();
            let mut told = Vec::new();
            let prepared = piton::exec::call::prepare(
                &other.invocation,
                None,
                &machine,
                &super::supervisor,
                &mut super::ears(),
                &mut |progress| told.push(format!("{progress:?}")),
            );
            prepared.expect("prepared");
            other.told.clear();
            told
        };
        let threads = [scope.spawn(call), scope.spawn(call)];
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("joined"))
            .collect()
    });
    assert_eq!((told.len(), environments(&bench).len()), (1, 1), "{told:?}");
}

#[test]
fn a_package_that_does_not_exist_leaves_nothing_behind() {
    let mut bench = with_packages(&["piton-no-such-package-anywhere==9"]);
    let err = bench.prepare().expect_err("no such package");
    assert_eq!(err.code(), Code::DependenciesFailed);
    assert!(
        err.to_string().contains("piton-no-such-package-anywhere"),
        "{err}"
    );
    assert_eq!(environments(&bench), Vec::<PathBuf>::new());
}

#[test]
fn an_option_is_no_package() {
    let mut bench = with_packages(&["--index-url=https://example.com"]);
    assert_eq!(
        bench.prepare().expect_err("an option").code(),
        Code::InvalidDependency
    );
}

#[test]
fn an_environment_without_packages_needs_no_network() {
    let mut bench = with_packages(&[]);
    bench.environment = BTreeMap::from([("PATH".into(), super::search_path().into())]);
    let ended = bench.run();
    assert!(
        ended.stderr.text().contains("No module named 'six'"),
        "{}",
        ended.stderr.text()
    );
    assert_eq!(
        bench.told,
        ["making a virtual environment for `greet_people` …"]
    );
}
