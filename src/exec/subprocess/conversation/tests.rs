//! Tests with real processes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::thread;

use tempfile::TempDir;

use super::*;
use crate::exec::process;

fn command(folder: &TempDir, words: &[&str]) -> CommandLine {
    let variables: BTreeMap<OsString, OsString> = [("PATH".into(), "/usr/bin:/bin".into())].into();
    CommandLine::new(
        words.iter().map(OsString::from).collect(),
        folder.path().to_path_buf(),
        variables,
    )
    .unwrap()
}

/// Runs a command; returns the result, its stdout and its stderr.
fn talk(command: &CommandLine, input: &[u8]) -> (Conversation, Vec<u8>, Vec<u8>) {
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let came = converse(
        command,
        input,
        &mut Interrupts::listen().unwrap(),
        |_| Ok::<_, SubprocessError>(()),
        &mut |stream, bytes| match stream {
            Stream::Stdout => output.extend_from_slice(bytes),
            Stream::Stderr => errors.extend_from_slice(bytes),
        },
    );
    (came.unwrap(), output, errors)
}

/// Waits for a file that the command writes when it is ready.
fn await_file(folder: &TempDir, name: &str) -> String {
    loop {
        match fs::read_to_string(folder.path().join(name)) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => thread::sleep(Duration::from_millis(2)),
        }
    }
}

fn is_gone(pid: &str) -> bool {
    process::start_time(pid.parse().unwrap()).is_none()
}

#[test]
fn a_command_that_closes_or_never_reads_its_input_does_not_block() {
    let folder = tempfile::tempdir().unwrap();
    let large = vec![b'x'; 8 * 1024 * 1024];
    for script in [
        "exec 0<&-; sleep 0.05; echo done",
        "sleep 0.05; echo done",
        "head -c 1 > /dev/null; echo done",
    ] {
        let (came, output, _) = talk(&command(&folder, &["sh", "-c", script]), &large);
        assert_eq!(
            (came.outcome.exit_code, &*output),
            (Some(0), &b"done\n"[..]),
            "{script}"
        );
    }
}

#[test]
fn one_that_hangs_is_ended_in_time_with_what_it_wrote_so_far() {
    let folder = tempfile::tempdir().unwrap();
    let mut hanging = command(
        &folder,
        &[
            "sh",
            "-c",
            "trap '' TERM; echo begun; echo $$ > pid; while :; do sleep 1; done",
        ],
    );
    hanging.timeout = Some(Duration::from_millis(300));
    let (came, output, _) = talk(&hanging, b"input");
    assert!(came.outcome.timed_out && !came.outcome.interrupted);
    assert_eq!((came.outcome.exit_code, &*output), (None, &b"begun\n"[..]));
    assert_eq!(came.stdout.text(), "begun\n");
    assert!(is_gone(&await_file(&folder, "pid")));
}

#[test]
fn a_request_to_stop_is_passed_on() {
    let folder = tempfile::tempdir().unwrap();
    let waiting = command(
        &folder,
        &[
            "sh",
            "-c",
            "trap 'echo stopped; exit 3' TERM; echo x > ready; while :; do sleep 0.01; done",
        ],
    );
    let mut interrupts = Interrupts::listen().unwrap();
    let ear = interrupts.ear();
    let came = thread::scope(|scope| {
        scope.spawn(|| {
            await_file(&folder, "ready");
            ear.ring();
        });
        converse(
            &waiting,
            b"",
            &mut interrupts,
            |_| Ok::<_, SubprocessError>(()),
            &mut |_, _| {},
        )
    });
    let came = came.unwrap();
    assert!(came.outcome.interrupted && !came.outcome.timed_out);
    assert_eq!(
        (came.outcome.exit_code, came.stdout.text()),
        (Some(3), "stopped\n".to_owned())
    );
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
    let refuse = |pid| {
        told = pid;
        Err(Refused)
    };
    let mut interrupts = Interrupts::listen().unwrap();
    converse(
        &command(&folder, &["sleep", "600"]),
        b"x",
        &mut interrupts,
        refuse,
        &mut |_, _| {},
    )
    .unwrap_err();
    assert!(is_gone(&told.to_string()));
}

#[test]
fn a_daemon_with_the_streams_open_does_not_outlive_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let script = "(setsid sh -c 'echo $$ > pid; echo from below; sleep 600' &) ; while ! test -s pid; do sleep 0.01; done";
    let (came, ..) = talk(&command(&folder, &["sh", "-c", script]), b"");
    assert_eq!(came.outcome.exit_code, Some(0));
    assert!(is_gone(&await_file(&folder, "pid")) || !cfg!(target_os = "linux"));
}

#[test]
fn the_whole_input_arrives_and_the_output_is_kept_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let input: Vec<u8> = (0..700_000_u32)
        .map(|number| b'a' + u8::try_from(number % 26).unwrap())
        .collect();
    let (came, output, errors) = talk(
        &command(&folder, &["sh", "-c", "echo said >&2; cat"]),
        &input,
    );
    assert_eq!(
        (came.outcome.exit_code, came.outcome.signal),
        (Some(0), None)
    );
    assert!(output == input && came.stdout.whole() == Some(input));
    assert_eq!(errors, b"said\n");
}

#[test]
fn the_head_and_the_tail_of_large_output_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo first; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo last";
    let flood = command(&folder, &["sh", "-c", script]);
    let mut shown = 0;
    let came = converse(
        &flood,
        b"",
        &mut Interrupts::listen().unwrap(),
        |_| Ok::<_, SubprocessError>(()),
        &mut |_, bytes| {
            shown += bytes.len();
        },
    );
    let came = came.unwrap();
    assert_eq!((shown, came.stdout.total), (100_000_012, 100_000_012));
    assert!(came.stdout.is_truncated() && came.stdout.head.len() + came.stdout.tail.len() <= KEPT);
    let text = came.stdout.text();
    assert!(text.starts_with("first\nxxx") && text.ends_with("xxx\nlast\n"));
}

#[test]
fn a_signal_that_ends_it_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (came, ..) = talk(&command(&folder, &["sh", "-c", "kill -9 $$"]), b"");
    assert_eq!(
        (came.outcome.exit_code, came.outcome.signal),
        (None, Some(9))
    );
    assert!(!came.outcome.interrupted);
}
