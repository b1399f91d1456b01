//! Calls that are interrupted, too slow or too large.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use piton::exec::call::{self, CallError};
use piton::exec::invocation::{MaskedText, Python, PythonEntry};
use piton::problem::{Code, Explain as _};
use serde_json::json;

use super::Bench;
use crate::crash::leftover::is_alive;

/// Waits until `is_so` is true; a generous limit detects a hang.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !is_so() {
        assert!(Instant::now() < deadline, "waited too long until {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A tool with a virtual environment, whose interpreter hangs while creating one as long as `slow`
/// exists.
fn slow() -> Bench {
    let mut bench =
        Bench::python("import sys\ndef main():\n    return sys.prefix != sys.base_prefix\n");
    let top = bench.top.path();
    let wrapper = top.join("bin/python3");
    fs::create_dir(top.join("bin")).expect("a folder");
    let script = format!(
        "#!/bin/bash\nreal=$(PATH=${{PATH#*:}} command -v python3)\n\
         if [ \"$3\" = venv ] && [ -e '{0}/slow' ]; then\n\
         mkdir -p \"${{@: -1}}/bin\"; cp \"$real\" \"${{@: -1}}/bin/python\"; echo $$ > '{0}/id'; mv '{0}/id' '{0}/begun'; sleep 1000\nfi\n\
         exec \"$real\" \"$@\"\n",
        top.display()
    );
    fs::write(&wrapper, script).expect("a script");
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).expect("permissions");
    fs::write(top.join("slow"), "").expect("a file");
    let path = format!("{}:{}", top.join("bin").display(), super::search_path());
    bench.environment.insert("PATH".into(), path.clone().into());
    bench
        .process()
        .environment
        .insert("PATH".to_owned(), MaskedText::plain(path));
    bench.process().python = Some(Python {
        entry: PythonEntry::Main,
        venv: true,
        ..Python::default()
    });
    bench
}

fn environments(bench: &Bench) -> Vec<PathBuf> {
    let entries = fs::read_dir(bench.top.path().join("the cache/venvs")).expect("a folder");
    entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_dir())
        .collect()
}

/// Prepares a call and interrupts it as soon as `is_so` is true.
fn cancelled_when(bench: &Bench, what: &str, is_so: impl Fn() -> bool) -> CallError {
    let (machine, mut interrupts) = (bench.machine(), super::ears());
    let ear = interrupts.ear();
    thread::scope(|scope| {
        let prepare = || {
            call::prepare(
                &bench.invocation,
                None,
                &machine,
                &super::supervisor,
                &mut interrupts,
                &mut |_| {},
            )
            .map(drop)
        };
        let prepared = scope.spawn(prepare);
        until(what, is_so);
        ear.ring();
        prepared
            .join()
            .expect("joined")
            .expect_err("it was interrupted")
    })
}

#[test]
fn an_installation_that_is_interrupted_leaves_nothing_that_is_used() {
    let mut bench = slow();
    let begun = bench.top.path().join("begun");
    let err = cancelled_when(&bench, "the installation has begun", || begun.exists());
    assert_eq!(err.code(), Code::Interrupted);
    assert_eq!(environments(&bench), Vec::<PathBuf>::new());
    let id = fs::read_to_string(&begun).expect("an id");
    assert!(!is_alive(id.trim()), "{id}");
    fs::remove_file(bench.top.path().join("slow")).expect("removed");
    assert_eq!(bench.value(), json!(true));
}

#[test]
fn an_installation_that_takes_too_long_is_stopped_and_not_used() {
    let mut bench = slow();
    bench.patience.installer = Duration::from_secs(5);
    let err = bench.prepare().expect_err("it takes for ever");
    assert_eq!(
        err.to_string(),
        "cannot make a virtual environment in 5 s for `greet_people`"
    );
    assert_eq!(
        (err.code(), environments(&bench)),
        (Code::DependenciesFailed, Vec::new())
    );
    fs::remove_file(bench.top.path().join("slow")).expect("removed");
    bench.patience = call::CallTimeouts::default();
    assert_eq!(bench.value(), json!(true));
}

#[test]
fn waiting_for_another_installation_can_be_interrupted() {
    let mut bench = slow();
    fs::remove_file(bench.top.path().join("slow")).expect("removed");
    assert_eq!(bench.value(), json!(true));
    let made = environments(&bench).remove(0);
    fs::remove_file(made.join("piton-complete")).expect("removed");
    let file = made.with_extension("lock");
    let lock = fs::File::open(&file).expect("a lock");
    lock.lock().expect("locked");
    let opened = || {
        fs::read_dir("/proc/self/fd")
            .expect("descriptors")
            .flatten()
    };
    let is_waiting = || {
        opened()
            .filter(|fd| fs::read_link(fd.path()).is_ok_and(|path| path == file))
            .count()
            > 1
    };
    let err = cancelled_when(&bench, "it waits", is_waiting);
    assert_eq!(err.code(), Code::Interrupted);
    drop(lock);
    assert_eq!(bench.value(), json!(true));
}

#[test]
fn a_parser_that_takes_too_long_is_stopped() {
    let mut bench = Bench::bash("echo text").outputs(None, Some("slow"), None);
    bench = bench.file(
        "project/.ai/parsers/slow.py",
        "import time\ndef parse(content):\n    time.sleep(1000)\n",
    );
    bench.patience.parser = Duration::from_secs(1);
    assert_eq!(
        bench.complaint(),
        "PARSER_FAILED: the parser `slow` cannot read the output: it took more than 1 s"
    );
}

#[test]
fn a_result_that_is_too_large_is_not_cut() {
    let mut bench = Bench::python("def main():\n    return 'x' * (17 << 20)\n");
    assert_eq!(
        bench.complaint(),
        "RESULT_TOO_LARGE: the result is too large: 17825802 bytes"
    );
}

#[test]
fn an_interrupted_python_tool_reports_the_interrupt() {
    let sources = [
        "def main():\n    raise KeyboardInterrupt\n",
        "import os, signal, time\ndef main():\n    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(1000)\n",
    ];
    for source in sources {
        let ended = Bench::python(source).run();
        assert_eq!(
            (ended.exit_code, ended.interrupted),
            (Some(130), false),
            "{source}"
        );
        assert_eq!(
            call::raised(&ended).expect("an exception").kind,
            "KeyboardInterrupt",
            "{source}"
        );
    }
}

#[test]
fn integers_that_would_be_rounded_are_refused_and_all_others_exact() {
    let mut exact = Bench::python(
        "def main():\n    return [-2**63, 2**64 - 1, '9' * 30, {'9' * 30: 1e30}, {2**70: 'a key is text'}]\n",
    );
    assert_eq!(
        exact.value(),
        json!([i64::MIN, u64::MAX, "9".repeat(30), {"9".repeat(30): 1e30}, {"1180591620717411303424": "a key is text"}])
    );
    for (number, shown) in [
        ("2**64", "18446744073709551616"),
        ("-2**63 - 1", "-9223372036854775809"),
        ("10**70", &format!("1{}…", "0".repeat(59))),
        ("10**5000", "with 16610 bits"),
    ] {
        let source = format!("import sys\ndef main():\n    return {{'a': [1, {number}]}}\n");
        let ended = Bench::python(&source).run();
        let said = call::raised(&ended).expect("an exception").message;
        let expected = format!("an integer of more than 64 bits, {shown} at `result['a'][1]`");
        assert!(said.ends_with(&expected), "{said}");
    }
}

#[test]
fn integers_on_stdout_are_exact_or_stay_text() {
    const LONG: &str = r#"{"n": 123456789012345678901234567890, "t": "\\\"99999999999999999999"}"#;
    let mut plain = Bench::bash(&format!("cat <<'END'\n{LONG}\nEND"));
    assert_eq!(plain.value(), json!({"stdout": format!("{LONG}\n")}));
    for (format, parser) in [(Some("json"), None), (None, Some("json"))] {
        let mut strict =
            Bench::bash(&format!("cat <<'END'\n{LONG}\nEND")).outputs(format, parser, None);
        let said = strict.complaint();
        assert!(
            said.contains("the integer 123456789012345678901234567890 has more than 64 bits"),
            "{said}"
        );
    }
    let mut fits = Bench::bash(
        r#"echo '{"t": "\"99999999999999999999", "n": [-9223372036854775808, 1e400e]}' | sed 's/1e400e/1.5/'"#,
    );
    assert_eq!(
        fits.value(),
        json!({"t": "\"99999999999999999999", "n": [i64::MIN, 1.5]})
    );
}
