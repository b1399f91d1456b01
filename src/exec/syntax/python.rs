//! Syntax checks with Python: one process for all files, because starting it takes longer than
//! parsing.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use super::{CheckedScript, SyntaxAnswer, TIME_LIMIT, interpreter, problem_in};

/// How often a crashed process is restarted after the file that crashed it.
const MAX_CRASHES: usize = 8;

/// The largest source in bytes: the parser needs six hundred times as much memory.
const MAX_SOURCE: usize = 96 * 1024;

/// Reads length-prefixed sources and answers each with a line: `[]` or `[line, column, message]`.
///
/// Only the symbol table is built, which needs less than a tree and far less than code; nothing is
/// run. Answers are flushed one by one, so that after a crash the last file is known.
const BOOT: &str = r#"
import json, os, symtable, sys
read = sys.stdin.buffer.read
while True:
    head = read(4)
    if len(head) < 4:
        break
    source = read(int.from_bytes(head, "big"))
    try:
        symtable.symtable(source, "script", "exec")
        answer = []
    except SyntaxError as err:
        answer = [err.lineno or 1, err.offset or 1, str(err.msg)]
    except (RecursionError, MemoryError):
        answer = [1, 1, "too deeply nested"]
    except (ValueError, LookupError, OverflowError) as err:
        answer = [1, 1, str(err)]
    os.write(1, (json.dumps(answer) + "\n").encode("ascii"))
"#;

pub(super) fn ask(
    scripts: &[(usize, &CheckedScript)],
    program: &Path,
    search_path: &OsStr,
) -> SyntaxAnswer {
    let deadline = Instant::now() + TIME_LIMIT;
    let mut answer = SyntaxAnswer::default();
    let (scripts, large): (Vec<_>, Vec<_>) = scripts
        .iter()
        .partition(|(_, script)| script.text.len() <= MAX_SOURCE);
    if !large.is_empty() {
        answer.gave_up = Some(format!(
            "scripts larger than {} KiB are not parsed",
            MAX_SOURCE / 1024
        ));
    }
    let mut rest = scripts.as_slice();
    for _ in 0..=MAX_CRASHES {
        if rest.is_empty() {
            return answer;
        }
        let (answered, end) = ask_once(rest, program, search_path, deadline, &mut answer);
        let Some(behind) = rest.get(answered..).filter(|behind| !behind.is_empty()) else {
            return answer;
        };
        match end {
            PythonCheckEnd::Failed(reason) => {
                answer.gave_up = Some(reason);
                return answer;
            }
            PythonCheckEnd::Closed
                if answered == 0
                    && rest.len() == scripts.len()
                    && !is_alive(program, search_path) =>
            {
                answer.gave_up = Some("`python3` does not start".to_owned());
                return answer;
            }
            // It crashed on the file without an answer.
            PythonCheckEnd::Closed => {
                answer.found.extend(behind.first().map(|(at, script)| {
                    (
                        *at,
                        problem_in(script, 1, 1, "the interpreter crashed on it"),
                    )
                }));
                rest = behind.get(1..).unwrap_or_default();
            }
        }
    }
    if !rest.is_empty() {
        answer.gave_up = Some("`python3` crashed too often".to_owned());
    }
    answer
}

enum PythonCheckEnd {
    Closed,
    Failed(String),
}

/// Returns how many files were answered.
fn ask_once(
    scripts: &[(usize, &CheckedScript)],
    program: &Path,
    search_path: &OsStr,
    deadline: Instant,
    answer: &mut SyntaxAnswer,
) -> (usize, PythonCheckEnd) {
    let spawned = interpreter(program, search_path)
        .args(["-I", "-S", "-B", "-W", "ignore", "-c", BOOT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(err) => {
            return (
                0,
                PythonCheckEnd::Failed(format!("cannot start `{}`: {err}", program.display())),
            );
        }
    };
    let outcome = thread::scope(|scope| {
        let (stdin, lines) = (child.stdin.take(), lines_of(&mut child));
        // On a separate thread: the pipe is smaller than the sources, and answers arrive meanwhile.
        scope.spawn(move || {
            stdin.map(|mut stdin| {
                scripts
                    .iter()
                    .try_for_each(|(_, script)| send(&mut stdin, script))
            })
        });
        let outcome = collect(scripts, &lines, deadline, answer);
        // This also unblocks the writer.
        let _ = child.kill();
        outcome
    });
    let _ = child.wait();
    outcome
}

fn send(stdin: &mut impl Write, script: &CheckedScript) -> std::io::Result<()> {
    let length = u32::try_from(script.text.len()).map_err(std::io::Error::other)?;
    stdin.write_all(&length.to_be_bytes())?;
    stdin.write_all(script.text.as_bytes())
}

fn lines_of(child: &mut Child) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        thread::spawn(move || {
            BufReader::new(stdout)
                .lines()
                .map_while(Result::ok)
                .try_for_each(|l| sender.send(l))
        });
    }
    receiver
}

fn collect(
    scripts: &[(usize, &CheckedScript)],
    lines: &Receiver<String>,
    deadline: Instant,
    answer: &mut SyntaxAnswer,
) -> (usize, PythonCheckEnd) {
    for (count, (at, script)) in scripts.iter().enumerate() {
        let line = match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => line,
            Err(mpsc::RecvTimeoutError::Disconnected) => return (count, PythonCheckEnd::Closed),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let reason = format!("`python3` took more than {} s", TIME_LIMIT.as_secs());
                return (count, PythonCheckEnd::Failed(reason));
            }
        };
        let values: Vec<Value> = serde_json::from_str(&line).unwrap_or_default();
        let number = |at: usize| {
            values
                .get(at)
                .and_then(Value::as_u64)
                .and_then(|n| u32::try_from(n).ok())
        };
        if let Some(message) = values.get(2).and_then(Value::as_str) {
            answer.found.push((
                *at,
                problem_in(
                    script,
                    number(0).unwrap_or(1),
                    number(1).unwrap_or(1),
                    message,
                ),
            ));
        }
    }
    (scripts.len(), PythonCheckEnd::Closed)
}

fn is_alive(program: &Path, search_path: &OsStr) -> bool {
    interpreter(program, search_path)
        .args(["-I", "-S", "-c", "import json, symtable"])
        .status()
        .is_ok_and(|s| s.success())
}
