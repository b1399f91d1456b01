//! Tests with real processes.

use crate::problem::{Code, Explain as _};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;

use signal_hook::consts::{SIGINT, SIGKILL, SIGTERM};
use tempfile::TempDir;

use super::*;
use crate::exec::process;

fn variables(pairs: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
    let mut variables: BTreeMap<OsString, OsString> = pairs
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    variables
        .entry("PATH".into())
        .or_insert_with(|| "/usr/bin:/bin".into());
    variables
}

fn argv(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

fn shell(folder: &TempDir, script: &str) -> CommandLine {
    CommandLine::new(
        argv(&["sh", "-c", script]),
        folder.path().to_path_buf(),
        variables(&[]),
    )
    .unwrap()
}

fn go(command: &CommandLine) -> CommandOutcome {
    run(command, &mut Interrupts::listen().unwrap(), |_| {
        Ok::<_, SubprocessError>(())
    })
    .unwrap()
}

fn text(folder: &TempDir, file: &str) -> String {
    fs::read_to_string(folder.path().join(file)).unwrap()
}

/// Waits for a file that the command writes when it is ready.
fn await_file(file: &Path) -> String {
    loop {
        match fs::read_to_string(file) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => thread::sleep(Duration::from_millis(2)),
        }
    }
}

fn program(folder: &TempDir, name: &str, text: &str, mode: u32) -> PathBuf {
    let file = folder.path().join(name);
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    file
}

#[test]
fn a_command_runs_in_its_folder_with_exactly_its_variables() {
    let folder = tempfile::tempdir().unwrap();
    let environment = variables(&[("PITON_RUN_ID", "x y")]);
    let argv = argv(&[
        "sh",
        "-c",
        "pwd -P > where; env > variables; echo \"$0|$1\" > words; exit 3",
        "zero",
        "a b",
    ]);
    let command = CommandLine::new(argv, folder.path().to_path_buf(), environment).unwrap();
    let outcome = go(&command);
    assert_eq!((outcome.exit_code, outcome.signal), (Some(3), None));
    assert!(!outcome.timed_out && !outcome.interrupted);
    assert_eq!(
        text(&folder, "where").trim(),
        fs::canonicalize(folder.path()).unwrap().to_str().unwrap()
    );
    assert_eq!(text(&folder, "words"), "zero|a b\n");
    let seen = text(&folder, "variables");
    let mut seen: Vec<&str> = seen
        .lines()
        .filter(|line| !line.starts_with("_=") && !line.starts_with("PWD="))
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, ["PATH=/usr/bin:/bin", "PITON_RUN_ID=x y"]);
}

#[test]
fn the_start_is_told_while_the_command_runs_and_leads_its_group() {
    let folder = tempfile::tempdir().unwrap();
    let command = shell(
        &folder,
        "while ! test -e go; do sleep 0.01; done; echo $$ > pid",
    );
    let mut told = None;
    let outcome = run(&command, &mut Interrupts::listen().unwrap(), |pid| {
        told = Some((pid, process::start_time(pid)));
        fs::write(folder.path().join("go"), "").unwrap();
        Ok::<_, SubprocessError>(())
    });
    assert_eq!(outcome.unwrap().exit_code, Some(0));
    let (pid, started) = told.unwrap();
    assert_eq!(text(&folder, "pid").trim(), pid.to_string());
    assert!(started.is_some() || !cfg!(target_os = "linux"));
}

#[test]
fn a_start_that_cannot_be_recorded_ends_the_command() {
    #[derive(Debug)]
    struct Refused;
    impl From<SubprocessError> for Refused {
        fn from(_: SubprocessError) -> Self {
            Self
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let mut told = 0;
    run(
        &shell(&folder, "sleep 600"),
        &mut Interrupts::listen().unwrap(),
        |pid| {
            told = pid;
            Err(Refused)
        },
    )
    .unwrap_err();
    assert!(!process::is_same(told, None));
}

#[test]
fn what_a_command_leaves_in_the_background_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        "(trap '' TERM HUP INT; echo ready > ready; sleep 600; echo late > late) & echo $! > pid
        while ! test -e ready; do sleep 0.01; done";
    assert_eq!(go(&shell(&folder, script)).exit_code, Some(0));
    let pid = text(&folder, "pid").trim().parse().unwrap();
    assert_eq!(process::start_time(pid), None);
    assert!(!folder.path().join("late").exists());
}

#[test]
fn a_daemon_of_a_command_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        "(setsid sh -c 'trap \"\" TERM HUP INT; echo $$ > pid; while :; do sleep 0.01; done' &)
        while ! test -s pid; do sleep 0.01; done";
    assert_eq!(go(&shell(&folder, script)).exit_code, Some(0));
    let pid = text(&folder, "pid").trim().parse().unwrap();
    assert_eq!(process::start_time(pid), None);
}

#[test]
fn a_signal_that_ends_a_command_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = go(&shell(&folder, "kill -9 $$"));
    assert_eq!(
        (outcome.exit_code, outcome.signal, outcome.interrupted),
        (None, Some(SIGKILL), false)
    );
}

#[test]
fn a_command_that_takes_too_long_is_asked_and_then_killed() {
    let folder = tempfile::tempdir().unwrap();
    let polite = CommandLine {
        timeout: Some(Duration::from_millis(50)),
        ..shell(&folder, "exec sleep 600")
    };
    let outcome = go(&polite);
    assert_eq!(
        (outcome.signal, outcome.timed_out, outcome.interrupted),
        (Some(SIGTERM), true, false)
    );
    let deaf = "trap '' TERM; echo > deaf; while :; do sleep 0.05; done";
    let deaf = CommandLine {
        timeout: Some(Duration::from_millis(300)),
        ..shell(&folder, deaf)
    };
    let outcome = go(&deaf);
    assert_eq!((outcome.signal, outcome.timed_out), (Some(SIGKILL), true));
    assert!(folder.path().join("deaf").exists());
}

#[test]
fn a_stopped_command_is_ended_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let command = CommandLine {
        timeout: Some(Duration::from_millis(100)),
        ..shell(&folder, "kill -STOP $$; sleep 600")
    };
    assert_eq!(go(&command).signal, Some(SIGTERM));
}

#[test]
fn a_request_to_stop_is_passed_on_and_remembered() {
    const VARIABLE: &str = "PITON_INTERRUPT_CHILD";
    let test = "exec::subprocess::tests::a_request_to_stop_is_passed_on_and_remembered";
    #[expect(
        clippy::disallowed_methods,
        reason = "the test starts itself again: signals are for whole processes"
    )]
    if let Some(folder) = std::env::var_os(VARIABLE) {
        let mut interrupts = Interrupts::listen().unwrap();
        let script =
            "trap 'echo asked > asked; exit 7' INT; echo $$ > ready; while :; do sleep 0.01; done";
        let command = CommandLine::new(
            argv(&["sh", "-c", script]),
            folder.clone().into(),
            variables(&[]),
        )
        .unwrap();
        let outcome = run(&command, &mut interrupts, |_| Ok::<_, SubprocessError>(())).unwrap();
        assert_eq!(
            (outcome.exit_code, outcome.interrupted, outcome.timed_out),
            (Some(7), true, false)
        );
        assert_eq!(interrupts.received(), Some(SIGINT));
        fs::write(Path::new(&folder).join("done"), "").unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    #[expect(
        clippy::disallowed_methods,
        reason = "the test starts itself again: signals are for whole processes"
    )]
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(VARIABLE, folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    await_file(&folder.path().join("ready"));
    let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, Signal::INT).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(text(&folder, "asked"), "asked\n");
    assert!(folder.path().join("done").exists());
}

#[test]
fn a_program_is_found_as_a_shell_would_find_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("bin/tool")).unwrap();
    fs::create_dir(folder.path().join("more")).unwrap();
    let tool = program(&folder, "more/tool", "#!/bin/sh\n", 0o755);
    program(&folder, "more/plain", "#!/bin/sh\n", 0o644);
    let find = |name: &str| {
        resolve(
            OsStr::new(name),
            OsStr::new("bin:more:/nowhere"),
            folder.path(),
        )
    };
    assert_eq!(find("tool").unwrap(), tool);
    assert_eq!(
        find("./more/tool").unwrap(),
        folder.path().join("./more/tool")
    );
    assert_eq!(find(tool.to_str().unwrap()).unwrap(), tool);
    for (name, code, status) in [
        ("missing", Code::ProgramNotFound, 127),
        ("./missing", Code::ProgramNotFound, 127),
        ("tool/x", Code::ProgramNotFound, 127),
        ("plain", Code::ProgramNotExecutable, 126),
        ("./more/plain", Code::ProgramNotExecutable, 126),
        ("./more", Code::ProgramNotExecutable, 126),
    ] {
        let err = find(name).unwrap_err();
        assert_eq!(
            (err.code(), err.shell_status(), err.hint().is_some()),
            (code, Some(status), true),
            "{name}"
        );
    }
}

#[test]
fn no_words_are_no_command() {
    for argv in [vec![], argv(&[""])] {
        let err = CommandLine::new(argv, "/".into(), variables(&[])).unwrap_err();
        assert!(matches!(err, SubprocessError::NoCommand));
    }
    let err = CommandLine::new(argv(&["sh"]), "/".into(), BTreeMap::new()).unwrap_err();
    assert_eq!(err.to_string(), "there is no program `sh`");
}

#[test]
fn a_script_without_an_interpreter_is_for_the_shell() {
    let folder = tempfile::tempdir().unwrap();
    program(&folder, "script", "echo \"$1\" > said\n", 0o755);
    let command = CommandLine::new(
        argv(&["./script", "a b"]),
        folder.path().to_path_buf(),
        variables(&[]),
    )
    .unwrap();
    assert_eq!(go(&command).exit_code, Some(0));
    assert_eq!(text(&folder, "said"), "a b\n");
}

#[test]
fn a_program_that_cannot_be_started_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    program(&folder, "script", "#!/no/such/interpreter\n", 0o755);
    let command = CommandLine::new(
        argv(&["./script"]),
        folder.path().to_path_buf(),
        variables(&[]),
    )
    .unwrap();
    let err = run(&command, &mut Interrupts::listen().unwrap(), |_| {
        Ok::<_, SubprocessError>(())
    })
    .unwrap_err();
    assert_eq!(err.code(), Code::ProgramFailed);
}
