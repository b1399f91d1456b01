//! The supervisor of tools, with real processes that misbehave.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use piton::checkpoint::attribution::Doubt;
use piton::exec::interrupt::Interrupts;
use piton::exec::invocation::ResourceLimits;
use piton::exec::process;
use piton::exec::supervisor::{
    Channel, Ended, ResultFault, Stream, Supervisor, SupervisorError, Touched, TouchedLog, Watch,
    Work,
};
use tempfile::TempDir;

/// Long enough for any machine; anything slower is a hang.
const HANGING: Duration = Duration::from_mins(1);

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn shell(folder: &TempDir, script: &str) -> Work {
    program(folder, "bash", &["-c", script])
}

fn python(folder: &TempDir, script: &str) -> Work {
    program(folder, "python3", &["-c", script])
}

fn program(folder: &TempDir, name: &str, words: &[&str]) -> Work {
    #[expect(
        clippy::disallowed_methods,
        reason = "where the interpreters of this machine are"
    )]
    let path = std::env::var_os("PATH").expect("a search path");
    let program = std::env::split_paths(&path)
        .map(|part| part.join(name))
        .find(|file| file.is_file())
        .expect("the program");
    let argv = [name].iter().chain(words).map(OsString::from).collect();
    let environment = BTreeMap::from([("PATH".into(), path)]);
    Work {
        program,
        argv,
        folder: folder.path().to_path_buf(),
        environment,
        ..Work::default()
    }
}

fn start() -> Supervisor {
    Supervisor::start(Path::new(env!("CARGO_BIN_EXE_piton"))).expect("a supervisor")
}

fn go(work: &Work) -> Ended {
    let began = Instant::now();
    let ended = start()
        .run(
            work,
            &mut Interrupts::listen().expect("ears"),
            &mut |_, _| {},
        )
        .expect("an end");
    assert!(began.elapsed() < HANGING);
    ended
}

fn text(folder: &TempDir, file: &str) -> String {
    fs::read_to_string(folder.path().join(file)).expect("a file")
}

fn await_file(folder: &TempDir, file: &str) -> String {
    let began = Instant::now();
    while began.elapsed() < HANGING {
        match fs::read_to_string(folder.path().join(file)) {
            Ok(text) if text.ends_with('\n') => return text,
            _ => thread::sleep(Duration::from_millis(2)),
        }
    }
    panic!("`{file}` was never written");
}

fn pid(folder: &TempDir, file: &str) -> u32 {
    text(folder, file).trim().parse().expect("an id")
}

fn await_end(pid: u32) {
    let began = Instant::now();
    while process::start_time(pid).is_some() {
        assert!(began.elapsed() < HANGING, "{pid} lives on");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Forks twice, starts its own session, and ignores signals.
const DAEMON: &str = "(setsid bash -c 'trap \"\" TERM HUP INT; echo $BASHPID > daemon; while :; do sleep 0.01; done' &)
    while ! test -s daemon; do sleep 0.01; done
";

#[test]
fn a_tool_runs_in_its_folder_with_exactly_its_words_and_variables() {
    let folder = folder();
    let odd = OsString::from_vec(vec![b'a', 0xff, b'\n']);
    let mut work = program(
        &folder,
        "cat",
        &["/proc/self/environ", "/proc/self/cmdline"],
    );
    work.argv.push("--".into());
    work.argv.push("where".into());
    work.argv[0] = odd.clone();
    work.environment = BTreeMap::from([("ONE".into(), odd.clone())]);
    fs::write(folder.path().join("where"), "here").expect("a file");
    let ended = go(&work);
    assert_eq!(
        (ended.exit_code, ended.signal, ended.leftovers),
        (Some(0), None, 0)
    );
    let expected = [
        b"ONE=",
        odd.as_bytes(),
        b"\0",
        odd.as_bytes(),
        b"\0/proc/self/environ\0/proc/self/cmdline\0--\0where\0here",
    ];
    assert_eq!(
        OsStr::from_bytes(&ended.stdout.head),
        OsStr::from_bytes(&expected.concat())
    );
    assert!(!ended.timed_out && !ended.interrupted);
    assert!(ended.peak_memory > 0);
}

#[test]
fn nothing_of_piton_is_open_in_a_tool() {
    let folder = folder();
    let _open = fs::File::open("/dev/null").expect("a descriptor");
    let script = "import os; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd')))";
    assert_eq!(
        go(&python(&folder, script)).stdout.text(),
        "[0, 1, 2, 3]\n",
        "the last one reads the folder"
    );
    let mut work = python(&folder, script);
    work.channel = Channel::Private;
    work.input = b"x".to_vec();
    assert_eq!(go(&work).stdout.text(), "[0, 1, 2, 3, 4]\n");
}

#[test]
fn signals_are_as_they_are_for_a_fresh_process() {
    let folder = folder();
    let seen = go(&program(
        &folder,
        "grep",
        &["-E", "^Sig(Blk|Ign)", "/proc/self/status"],
    ))
    .stdout
    .text();
    // Two signals belong to the C library and cannot be set.
    let masks: Vec<u64> = seen
        .lines()
        .map(|line| u64::from_str_radix(&line[8..], 16).expect("a mask") & !(0b11 << 31))
        .collect();
    assert_eq!(masks, [0, 0]);
}

#[test]
fn status_and_signal_are_reported() {
    let folder = folder();
    let ended = go(&shell(&folder, "echo out; echo err >&2; exit 7"));
    assert_eq!((ended.exit_code, ended.signal), (Some(7), None));
    assert_eq!(
        (ended.stdout.text(), ended.stderr.text()),
        ("out\n".to_owned(), "err\n".to_owned())
    );
    let ended = go(&shell(&folder, "kill -SEGV $$"));
    assert_eq!((ended.exit_code, ended.signal), (None, Some(11)));
}

#[test]
fn a_daemon_that_ignores_signals_is_gone_after_the_end() {
    let folder = folder();
    let ended = go(&shell(&folder, DAEMON));
    assert_eq!((ended.exit_code, ended.timed_out), (Some(0), false));
    assert!(ended.leftovers >= 1);
    assert_eq!(process::start_time(pid(&folder, "daemon")), None);
}

#[test]
fn a_daemon_that_ignores_signals_is_gone_after_the_timeout() {
    let folder = folder();
    let mut work = shell(
        &folder,
        &format!("{DAEMON} trap '' TERM; while :; do sleep 0.01; done"),
    );
    work.timeout = Some(Duration::from_secs(1));
    let ended = go(&work);
    assert_eq!(
        (ended.exit_code, ended.signal, ended.timed_out),
        (None, Some(9), true)
    );
    assert_eq!(process::start_time(pid(&folder, "daemon")), None);
}

#[test]
fn a_tool_that_took_too_long_may_clean_up() {
    let folder = folder();
    let script =
        "trap 'echo cleaned; exit 5' TERM; echo ready > ready; while :; do sleep 0.01; done";
    let mut work = shell(&folder, script);
    work.timeout = Some(Duration::from_millis(500));
    let ended = go(&work);
    assert_eq!((ended.exit_code, ended.timed_out), (Some(5), true));
    assert_eq!(ended.stdout.text(), "cleaned\n");
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "this test starts itself again, to be killed"
)]
fn everything_is_gone_when_piton_is_killed() {
    const FOLDER: &str = "PITON_TEST_FOLDER";
    let folder = folder();
    if let Some(outer) = std::env::var_os(FOLDER) {
        let mut work = shell(
            &folder,
            &format!("{DAEMON} echo $$ > tool; trap '' TERM; while :; do sleep 0.01; done"),
        );
        work.folder = outer.into();
        go(&work);
        return;
    }
    let mut driver = std::process::Command::new(std::env::current_exe().expect("this program"));
    driver
        .args([
            "--exact",
            "supervisor::everything_is_gone_when_piton_is_killed",
        ])
        .env(FOLDER, folder.path());
    let mut driver = driver
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("a driver");
    await_file(&folder, "tool");
    driver.kill().expect("a killed driver");
    driver.wait().expect("a dead driver");
    await_end(pid(&folder, "tool"));
    await_end(pid(&folder, "daemon"));
}

#[test]
fn everything_is_gone_when_piton_panics() {
    let folder = folder();
    let work = shell(
        &folder,
        &format!("{DAEMON} echo $$ > tool; trap '' TERM; while :; do echo x; done"),
    );
    let mut interrupts = Interrupts::listen().expect("ears");
    let supervisor = start();
    let leader = supervisor.pid();
    // The supervisor notices the death of piton by the end of their connection, which also ends
    // when the caller panics.
    let given_up = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        supervisor.run(&work, &mut interrupts, &mut |_, _| {
            panic!("piton falls over")
        })
    }));
    assert!(given_up.is_err());
    assert_eq!(process::start_time(leader), None);
    assert_eq!(process::start_time(pid(&folder, "daemon")), None);
    assert_eq!(process::start_time(pid(&folder, "tool")), None);
}

fn with_mark(work: &Work) -> Work {
    let mut work = work.clone();
    let mark = work.folder.file_name().expect("a name").to_os_string();
    work.environment.insert("PITON_RUN_ID".into(), mark);
    work
}

#[test]
fn a_tool_that_kills_its_supervisor_kills_itself() {
    let folder = folder();
    let work = with_mark(&shell(
        &folder,
        &format!("{DAEMON} echo $$ > tool; kill -KILL $PPID; sleep 600"),
    ));
    let lost = start().run(
        &work,
        &mut Interrupts::listen().expect("ears"),
        &mut |_, _| {},
    );
    assert!(matches!(lost, Err(SupervisorError::Lost)));
    assert_eq!(process::start_time(pid(&folder, "daemon")), None);
    await_end(pid(&folder, "tool"));
}

#[test]
fn an_unused_supervisor_ends() {
    let supervisor = start();
    let pid = supervisor.pid();
    assert!(process::start_time(pid).is_some());
    drop(supervisor);
    assert_eq!(process::start_time(pid), None);
}

#[test]
fn a_tool_is_cancelled_from_another_thread() {
    let folder = folder();
    let mut interrupts = Interrupts::listen().expect("ears");
    let other = Interrupts::listen().expect("ears");
    let ear = interrupts.ear();
    thread::scope(|scope| {
        scope.spawn(|| {
            await_file(&folder, "daemon");
            ear.ring();
        });
        let work = shell(&folder, &format!("{DAEMON} while :; do sleep 0.01; done"));
        let ended = start()
            .run(&work, &mut interrupts, &mut |_, _| {})
            .expect("an end");
        assert_eq!(
            (ended.exit_code, ended.signal, ended.interrupted),
            (None, Some(15), true)
        );
    });
    assert_eq!(process::start_time(pid(&folder, "daemon")), None);
    assert_eq!(other.received(), None, "others are not meant");
}

#[test]
fn work_that_was_cancelled_before_is_not_started() {
    let folder = folder();
    let mut interrupts = Interrupts::listen().expect("ears");
    interrupts.ear().ring();
    let ended = start()
        .run(
            &shell(&folder, "touch begun"),
            &mut interrupts,
            &mut |_, _| {},
        )
        .expect("an end");
    assert_eq!((ended.exit_code, ended.interrupted), (None, true));
    assert!(!folder.path().join("begun").exists());
}

#[test]
fn large_output_is_kept_in_part_and_hashed_as_a_whole() {
    let folder = folder();
    let size = 1_000_000_000_u64;
    let work = shell(
        &folder,
        &format!("head -c {size} /dev/zero; echo end; echo fine >&2"),
    );
    let mut seen = 0;
    let mut supervisor_output = |stream, bytes: &[u8]| {
        if stream == Stream::Stdout {
            seen += bytes.len() as u64;
        }
    };
    let ended = start()
        .run(
            &work,
            &mut Interrupts::listen().expect("ears"),
            &mut supervisor_output,
        )
        .expect("an end");
    assert_eq!(
        (ended.exit_code, ended.stdout.total, seen),
        (Some(0), size + 4, size + 4)
    );
    assert_eq!(
        (ended.stdout.head.len(), ended.stdout.tail.len()),
        (512 * 1024, 512 * 1024)
    );
    assert!(ended.stdout.tail.ends_with(b"\0end\n"));
    assert!(
        ended
            .stdout
            .text()
            .contains("\n… 998951428 bytes left out …\n")
    );
    assert_eq!(ended.stderr.text(), "fine\n");
    let sum = go(&shell(
        &folder,
        &format!("(head -c {size} /dev/zero; echo end) | sha256sum"),
    ));
    assert_eq!(sum.stdout.text(), format!("{}  -\n", ended.stdout.sha256));
}

#[test]
fn bytes_that_are_no_text_survive() {
    let folder = folder();
    let ended = go(&shell(&folder, "printf 'a\\xff\\xfe\\0b'"));
    assert_eq!(ended.stdout.whole().expect("all of it"), b"a\xff\xfe\0b");
    assert_eq!(ended.stdout.text(), "a\u{fffd}\u{fffd}\0b");
}

#[test]
fn a_grandchild_that_holds_the_streams_does_not_block() {
    let folder = folder();
    let ended = go(&shell(&folder, "echo before; (setsid sleep 600 &)"));
    assert_eq!(
        (ended.exit_code, ended.stdout.text()),
        (Some(0), "before\n".to_owned())
    );
}

#[test]
fn input_arrives_byte_for_byte_and_ends() {
    let folder = folder();
    let mut work = program(&folder, "cat", &[]);
    work.input = (0..=255).cycle().take(10_000_000).collect();
    work.kept = 32 << 20;
    assert!(go(&work).stdout.whole() == Some(work.input.clone()));
    work.input = Vec::new();
    assert_eq!(go(&work).stdout.total, 0);
}

#[test]
fn unread_input_does_not_block() {
    let folder = folder();
    let mut work = shell(&folder, "echo done");
    work.input = vec![b'x'; 10_000_000];
    assert_eq!(go(&work).stdout.text(), "done\n");
    let mut work = shell(&folder, "exec <&-; sleep 0.2; echo done");
    work.input = vec![b'x'; 10_000_000];
    assert_eq!(go(&work).stdout.text(), "done\n");
}

#[test]
fn streams_may_be_closed_early() {
    let folder = folder();
    let ended = go(&shell(&folder, "exec >&- 2>&-; sleep 0.2; exit 3"));
    assert_eq!((ended.exit_code, ended.stdout.total), (Some(3), 0));
}

#[test]
fn endlessly_forking_processes_are_ended() {
    let folder = folder();
    let script = "
import os, time
lives = []
def burst(depth):
    for _ in range(3):
        if os.fork() == 0:
            if depth: burst(depth - 1)
            os.setsid()
            while True:
                pid = os.fork()
                if pid != 0: time.sleep(0.02); os._exit(0)
burst(3)
time.sleep(0.3)
";
    let ended = go(&python(&folder, script));
    assert_eq!(ended.exit_code, Some(0));
    assert!(ended.leftovers >= 3, "{}", ended.leftovers);
}

fn with_channel(folder: &TempDir, script: &str) -> Ended {
    let mut work = python(folder, script);
    work.channel = Channel::Private;
    go(&work)
}

#[test]
fn a_result_comes_over_the_private_channel() {
    let folder = folder();
    let ended = with_channel(
        &folder,
        "import os; print('noise'); os.write(3, b'\\0\\0\\0\\x02{}and trailing bytes'); print('more')",
    );
    assert_eq!(
        (ended.result.as_deref(), ended.result_fault),
        (Some(&b"{}"[..]), None)
    );
    assert_eq!(ended.stdout.text(), "noise\nmore\n");
    let ended = with_channel(
        &folder,
        "import os; f = os.fdopen(3, 'wb'); f.write((9000000).to_bytes(4, 'big') + b'x' * 9000000); f.close()",
    );
    assert_eq!(ended.result.map(|result| result.len()), Some(9_000_000));
    assert_eq!(with_channel(&folder, "pass").result, None);
}

#[test]
fn a_result_that_is_too_large_or_cut_off_is_reported() {
    let folder = folder();
    let ended = with_channel(
        &folder,
        "import os; f = os.fdopen(3, 'wb'); f.write(b'\\x7f\\0\\0\\0' + b'x' * 1000000); f.close(); print('on')",
    );
    assert_eq!(
        (ended.result, ended.result_fault),
        (None, Some(ResultFault::TooLarge(0x7f00_0000)))
    );
    assert_eq!(ended.stdout.text(), "on\n");
    for bytes in ["\\0\\0", "\\0\\0\\0\\x05{}"] {
        let ended = with_channel(&folder, &format!("import os; os.write(3, b'{bytes}')"));
        assert_eq!(
            (ended.result, ended.result_fault),
            (None, Some(ResultFault::CutOff))
        );
    }
}

#[test]
fn what_cannot_be_started_is_reported() {
    let folder = folder();
    let mut work = shell(&folder, "true");
    work.program = folder.path().join("nothing");
    let failed = start().run(
        &work,
        &mut Interrupts::listen().expect("ears"),
        &mut |_, _| {},
    );
    let Err(SupervisorError::Program { source, program }) = failed else {
        panic!("{failed:?}")
    };
    assert_eq!(
        (source.raw_os_error(), program),
        (Some(2), work.program.clone())
    );
    let failed = Supervisor::start(&folder.path().join("nothing"));
    assert!(matches!(failed, Err(SupervisorError::NotStarted(_))));
    let other = Supervisor::start(Path::new("/bin/true")).expect("something starts");
    let failed = other.run(
        &shell(&folder, "true"),
        &mut Interrupts::listen().expect("ears"),
        &mut |_, _| {},
    );
    assert!(matches!(failed, Err(SupervisorError::NotStarted(_))));
}

#[test]
fn a_script_without_an_interpreter_line_runs_as_a_shell_would_run_it() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let script = folder.path().join("script");
    fs::write(&script, "echo \"$1\"; cat").expect("a file");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("a program");
    let mut work = shell(&folder, "");
    work.program = script;
    work.argv = vec!["script".into(), "a b".into()];
    work.input = b"input".to_vec();
    assert_eq!(go(&work).stdout.text(), "a b\ninput");
}

#[test]
fn limits_are_enforced() {
    let folder = folder();
    let limited = |script: &str, limits: ResourceLimits| {
        let mut work = python(&folder, script);
        work.limits = limits;
        go(&work)
    };
    let ended = limited(
        "open('large', 'wb').write(b'x' * 100000)",
        ResourceLimits {
            file_size: Some(5000),
            ..ResourceLimits::default()
        },
    );
    assert_ne!(ended.exit_code, Some(0));
    assert!(
        folder
            .path()
            .join("large")
            .metadata()
            .expect("a file")
            .len()
            <= 5000
    );
    let ended = limited(
        "while True: pass",
        ResourceLimits {
            cpu_seconds: Some(1),
            ..ResourceLimits::default()
        },
    );
    assert_eq!(ended.signal, Some(24));
    // The kernel's limit and its accounting use different clocks, so most of the time is enough.
    assert!(ended.cpu >= Duration::from_millis(500), "{:?}", ended.cpu);
    let ended = limited(
        "x = bytearray(1 << 30)",
        ResourceLimits {
            memory: Some(512 << 20),
            ..ResourceLimits::default()
        },
    );
    assert!(ended.stderr.text().contains("MemoryError"));
    let ended = limited(
        "f = [open('/dev/null') for _ in range(100)]",
        ResourceLimits {
            open_files: Some(32),
            ..ResourceLimits::default()
        },
    );
    assert!(ended.stderr.text().contains("Too many open files"));
    let ended = limited(
        "import resource as r; print(r.getrlimit(r.RLIMIT_CORE), r.getrlimit(r.RLIMIT_NPROC)[0])",
        ResourceLimits {
            processes: Some(77),
            ..ResourceLimits::default()
        },
    );
    assert_eq!(ended.stdout.text(), "(0, 0) 77\n");
}

#[test]
fn many_supervisors_run_in_parallel() {
    let folder = folder();
    thread::scope(|scope| {
        let folder = &folder;
        let workers: Vec<_> = (0..64)
            .map(|number| {
                scope.spawn(move || {
                    go(&shell(
                        folder,
                        &format!("echo {number}; sleep 0.1; exit {number}"),
                    ))
                })
            })
            .collect();
        for (number, worker) in (0..).zip(workers) {
            let ended = worker.join().expect("no panic");
            assert_eq!(
                (ended.exit_code, ended.stdout.text()),
                (Some(number), format!("{number}\n"))
            );
        }
    });
}

/// What a tool touched in its folder.
fn touched(folder: &TempDir, script: &str) -> Touched {
    let mut work = shell(folder, script);
    work.watch = Watch::Yes;
    work.environment.insert("HOME".into(), folder.path().into());
    let ended = go(&work);
    assert_eq!(
        (ended.exit_code, ended.stderr.text()),
        (Some(0), String::new())
    );
    ended.touched
}

fn assert_touched(folder: &TempDir, touched: &Touched, names: &[&str], others: &[&str]) {
    assert!(matches!(touched, Touched::Paths(_)), "{touched:?}");
    for name in names {
        assert!(
            touched.has(&folder.path().join(name)),
            "`{name}` is not in {touched:?}"
        );
    }
    for name in others {
        assert!(
            !touched.has(&folder.path().join(name)),
            "`{name}` is in {touched:?}"
        );
    }
}

fn files(folder: &TempDir, names: &[&str]) {
    for name in names {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, "old\n").expect("a file");
    }
}

#[test]
fn what_a_tool_changes_is_recorded_and_what_it_reads_is_not() {
    let folder = folder();
    files(
        &folder,
        &[
            "edited", "appended", "deleted", "over", "read", "mode", "sed", "short", "src/kept",
        ],
    );
    let script = "
        echo x > created; echo x > edited; echo x >> appended; rm deleted; echo x > new && mv new over
        cat read > /dev/null; ls src > /dev/null; chmod +x mode; sed -i s/old/new/ sed; truncate -s 1 short
        mkdir -p src/deep/er; ln -s read link; cd src; (cd deep && bash -c 'echo x > below')
    ";
    let names = [
        "created",
        "edited",
        "appended",
        "deleted",
        "new",
        "over",
        "mode",
        "sed",
        "short",
        "src/deep",
        "src/deep/er",
        "link",
        "src/deep/below",
    ];
    assert_touched(
        &folder,
        &touched(&folder, script),
        &names,
        &["read", "src/kept", "elsewhere"],
    );
}

#[test]
fn what_a_python_tool_and_its_children_change_is_recorded() {
    let folder = folder();
    files(&folder, &["a", "b", "tree/one", "tree/two", "read"]);
    let script = "
import os, subprocess, threading
def write(name):
    with open(name, 'w') as file: file.write('new')
threads = [threading.Thread(target=write, args=(f't{number}',)) for number in range(20)]
for thread in threads: thread.start()
for thread in threads: thread.join()
fd = os.open('.', os.O_RDONLY); os.unlink('a', dir_fd=fd); os.rename('tree', 'moved')
subprocess.run(['sh', '-c', 'setsid sh -c \"echo x > b\"'], check=True)
open('read').read()
";
    let mut work = python(&folder, script);
    work.watch = Watch::Yes;
    let ended = go(&work);
    assert_eq!(
        (ended.exit_code, ended.stderr.text()),
        (Some(0), String::new())
    );
    let names = ["a", "b", "tree/one", "tree", "moved/two", "t0", "t19"];
    assert_touched(
        &folder,
        &ended.touched,
        &names,
        &["read", "t20", "other/one"],
    );
}

#[test]
fn other_names_of_a_file_are_known() {
    let folder = folder();
    files(&folder, &["file", "real/file", "far", "apart"]);
    fs::hard_link(folder.path().join("file"), folder.path().join("twin")).expect("a link");
    std::os::unix::fs::symlink("real", folder.path().join("linked")).expect("a link");
    std::os::unix::fs::symlink("far", folder.path().join("near")).expect("a link");
    std::os::unix::fs::symlink("unborn", folder.path().join("dangling")).expect("a link");
    let seen = touched(
        &folder,
        "echo x > file; echo x > linked/file; echo x > near; echo x > dangling",
    );
    assert_touched(
        &folder,
        &seen,
        &["file", "twin", "real/file", "linked/file", "far", "unborn"],
        &["apart"],
    );
}

#[test]
fn what_git_changes_is_recorded() {
    let folder = folder();
    let script = "
        git init -q -b main . && git config user.name x && git config user.email x@y
        echo one > a; echo one > same; git add . && git commit -qm one
        git checkout -q -b other && echo two > a && echo new > b && git add . && git commit -qm two
    ";
    let mut work = shell(&folder, script);
    work.environment.insert("HOME".into(), folder.path().into());
    assert_eq!(go(&work).exit_code, Some(0));
    let seen = touched(&folder, "git checkout -q main");
    assert_touched(&folder, &seen, &["a", "b", ".git/HEAD"], &["same"]);
}

#[test]
fn a_concurrent_change_by_another_process_is_not_the_tools() {
    let folder = folder();
    files(&folder, &["mine", "theirs"]);
    thread::scope(|scope| {
        scope.spawn(|| {
            await_file(&folder, "ready");
            fs::write(folder.path().join("theirs"), "theirs").expect("a file");
            fs::write(folder.path().join("added"), "theirs").expect("a file");
            fs::write(folder.path().join("go"), "").expect("a file");
        });
        let script =
            "echo x > mine; echo x > ready; while ! test -e go; do sleep 0.01; done; cat theirs";
        assert_touched(
            &folder,
            &touched(&folder, script),
            &["mine", "ready"],
            &["theirs", "added", "go"],
        );
    });
}

#[test]
fn too_much_to_write_down_is_unknown() {
    let folder = folder();
    let script =
        "import os\nfor n in range(1100):\n  try: os.unlink(f'none{n}')\n  except OSError: pass";
    let mut work = python(&folder, script);
    work.watch = Watch::Yes;
    work.most_touched = 1000;
    let ended = go(&work);
    assert_eq!(
        (ended.exit_code, &ended.touched),
        (Some(0), &Touched::Unknown(Doubt::TooMany))
    );
    assert!(ended.touched.has(Path::new("/anything")));
    // Only files in the watched places count.
    work.within = vec![
        fs::canonicalize(folder.path())
            .expect("a folder")
            .join("none7"),
    ];
    assert_touched(&folder, &go(&work).touched, &["none7"], &["none8"]);
    work.watch = Watch::No;
    work.argv[2] = "open('x', 'w')".into();
    assert_eq!(go(&work).touched, Touched::Everything);
}

#[test]
fn the_log_says_the_same_as_the_supervisor_and_survives_it() {
    let folder = folder();
    files(&folder, &["kept", "edited", "deleted", "file", "tree/one"]);
    fs::hard_link(folder.path().join("file"), folder.path().join("twin")).expect("a link");
    let own = tempfile::tempdir().expect("a folder");
    let log = own.path().join("log");
    let names = [
        "edited",
        "deleted",
        "file",
        "twin",
        "tree/one",
        "moved/one",
        "pid",
    ];
    let script = "echo $$ > pid; echo x > edited; rm deleted; echo x > file; mv tree moved";
    for (end, lives) in [("", true), ("; kill -KILL $PPID; sleep 60", false)] {
        TouchedLog::create(&log).expect("a log");
        let mut work = shell(&folder, &format!("{script}{end}"));
        (work.watch, work.log) = (Watch::Yes, Some(log.clone()));
        work.within = vec![fs::canonicalize(folder.path()).expect("a folder")];
        let ended = start().run(
            &work,
            &mut Interrupts::listen().expect("signals"),
            &mut |_, _| {},
        );
        let read = TouchedLog::read(&log);
        assert_touched(&folder, &read, &names, &["kept", "other"]);
        let root = fs::canonicalize(folder.path()).expect("a folder");
        let ended = ended.map(|ended| ended.touched).ok();
        let ended = ended.as_ref();
        assert_eq!(
            ended.map(|touched| touched.below(&root)),
            lives.then(|| read.below(&root))
        );
        // The log leaves out what was about to be removed or moved away: no recovery judges it.
        assert_eq!(read.removed_below(&root), []);
        let removed = |touched: &Touched| {
            let removed = touched.removed_below(&root).into_iter();
            removed.map(|(path, _)| path.to_path_buf()).collect()
        };
        let names = ["deleted", "tree"].map(PathBuf::from).to_vec();
        assert_eq!(ended.map(removed), lives.then_some(names));
        files(&folder, &["edited", "deleted", "tree/one"]);
        fs::remove_dir_all(folder.path().join("moved")).expect("a folder");
    }
}

#[test]
fn a_log_that_is_missing_or_of_another_boot_says_nothing() {
    let folder = folder();
    let log = folder.path().join("log");
    assert_eq!(TouchedLog::read(&log), Touched::Unknown(Doubt::Lost));
    TouchedLog::create(&log).expect("a log");
    assert!(matches!(TouchedLog::read(&log), Touched::Paths(_)));
    let mut bytes = fs::read(&log).expect("a log");
    bytes[10] = if bytes[10] == b'0' { b'1' } else { b'0' };
    fs::write(&log, bytes).expect("a log");
    assert_eq!(TouchedLog::read(&log), Touched::Unknown(Doubt::Lost));
    fs::write(&log, "").expect("a log");
    assert_eq!(TouchedLog::read(&log), Touched::Unknown(Doubt::Lost));
    let mut given_up = TouchedLog::create(&log).expect("a log");
    given_up.give_up(&Touched::Everything);
    assert_eq!(TouchedLog::read(&log), Touched::Everything);
}

#[test]
fn a_watched_tool_that_takes_too_long_ends_like_any_other() {
    let folder = folder();
    let mut work = shell(
        &folder,
        &format!("{DAEMON} trap '' TERM; while :; do echo x > busy; done"),
    );
    work.watch = Watch::Yes;
    work.timeout = Some(Duration::from_secs(1));
    let ended = go(&work);
    assert_eq!((ended.signal, ended.timed_out), (Some(9), true));
    assert_eq!(process::start_time(pid(&folder, "daemon")), None);
    assert_touched(&folder, &ended.touched, &["busy", "daemon"], &["other"]);
}
