//! Syntax checks with bash.
//!
//! One process parses many files and reports which it cannot parse; only those are checked one by
//! one with `bash -n` for a message and a position. Starting bash for each of hundreds of valid
//! files would dominate the run time.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rayon::prelude::*;

use super::{CheckedScript, SyntaxAnswer, SyntaxProblem, TIME_LIMIT, interpreter, problem_in};

/// The time limit for one file; nested substitutions can take bash forever.
const FILE_TIME_LIMIT: Duration = Duration::from_secs(2);
/// The time limit of one process for its share of the files.
const SIEVE_TIME_LIMIT: Duration = Duration::from_secs(5);
/// The most that is read of its error output.
const MAX_COMPLAINT: u64 = 16 * 1024;

/// Parses each NUL-terminated text on stdin in its own fork; `set -n` keeps the text from running.
/// A fork outlives a killed parent: the limit ends it.
const SIEVE: &str = r#"
ulimit -t 5 2>/dev/null
index=0
while IFS= read -r -d '' text; do
  (eval "set -n
$text") 2>/dev/null || echo "$index"
  index=$((index + 1))
done
echo done"#;
/// Fewer files are checked one by one.
const SIEVE_FROM: usize = 4;

pub(super) fn ask(
    scripts: &[(usize, &CheckedScript)],
    program: &Path,
    search_path: &OsStr,
) -> SyntaxAnswer {
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let doubtful: Vec<(usize, &CheckedScript)> = if scripts.len() < SIEVE_FROM {
        scripts.to_vec()
    } else {
        let shares = scripts.par_chunks(scripts.len().div_ceil(workers));
        shares
            .flat_map_iter(|share| sift(share, program, search_path))
            .collect()
    };
    ask_each(&doubtful, program, search_path)
}

/// Returns the scripts that one process cannot parse; all of them if it did not finish.
fn sift<'s>(
    scripts: &[(usize, &'s CheckedScript)],
    program: &Path,
    search_path: &OsStr,
) -> Vec<(usize, &'s CheckedScript)> {
    // Bash cannot hold a NUL; a text with one would count as two.
    let whole = scripts
        .iter()
        .all(|(_, script)| !script.text.contains('\0'));
    let said = if whole {
        run_sieve(scripts, program, search_path).unwrap_or_default()
    } else {
        String::new()
    };
    match said.strip_suffix("done\n") {
        Some(numbers) => numbers
            .lines()
            .filter_map(|number| scripts.get(number.parse::<usize>().ok()?).copied())
            .collect(),
        None => scripts.to_vec(),
    }
}

fn run_sieve(
    scripts: &[(usize, &CheckedScript)],
    program: &Path,
    search_path: &OsStr,
) -> std::io::Result<String> {
    // A file, because bash reads a pipe byte by byte.
    let mut texts = tempfile::tempfile()?;
    for (_, script) in scripts {
        texts.write_all(script.text.as_bytes())?;
        texts.write_all(b"\0")?;
    }
    texts.rewind()?;
    // A file, because a pipe stays open as long as any fork holds it.
    let mut output = tempfile::tempfile()?;
    let mut child = interpreter(program, search_path)
        .args(["--noprofile", "--norc", "-c", SIEVE])
        .stdin(Stdio::from(texts))
        .stdout(Stdio::from(output.try_clone()?))
        .spawn()?;
    // Even if it was killed, its output shows whether it finished.
    wait(&mut child, Instant::now() + SIEVE_TIME_LIMIT)?;
    let mut said = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut said)?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

fn ask_each(
    scripts: &[(usize, &CheckedScript)],
    program: &Path,
    search_path: &OsStr,
) -> SyntaxAnswer {
    let deadline = Instant::now() + TIME_LIMIT;
    let next = AtomicUsize::new(0);
    let answer = Mutex::new(SyntaxAnswer::default());
    let workers = thread::available_parallelism()
        .map_or(1, usize::from)
        .min(scripts.len());
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((at, script)) = scripts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if Instant::now() > deadline {
                        let reason = format!("`bash` took more than {} s", TIME_LIMIT.as_secs());
                        lock(&answer).gave_up = Some(reason);
                        return;
                    }
                    match parse(script, program, search_path) {
                        Ok(None) => {}
                        Ok(Some(problem)) => lock(&answer).found.push((*at, problem)),
                        Err(err) => {
                            lock(&answer).gave_up = Some(format!("cannot ask `bash`: {err}"));
                        }
                    }
                }
            });
        }
    });
    answer.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn parse(
    script: &CheckedScript,
    program: &Path,
    search_path: &OsStr,
) -> std::io::Result<Option<SyntaxProblem>> {
    // A file, because bash reads a pipe byte by byte.
    let mut file = tempfile::tempfile()?;
    file.write_all(script.text.as_bytes())?;
    let problem = parse_with(script, &file, &[], program, search_path)?;
    // A script that enables `extglob` is parsed with it at run time, but `-n` enables nothing.
    if problem.is_some() && script.text.contains("extglob") {
        return parse_with(script, &file, &["-O", "extglob"], program, search_path);
    }
    Ok(problem)
}

fn parse_with(
    script: &CheckedScript,
    mut file: &File,
    options: &[&str],
    program: &Path,
    search_path: &OsStr,
) -> std::io::Result<Option<SyntaxProblem>> {
    file.rewind()?;
    let mut child = interpreter(program, search_path)
        .args(["--noprofile", "--norc"])
        .args(options)
        .arg("-n")
        .stdin(Stdio::from(file.try_clone()?))
        .stderr(Stdio::piped())
        .spawn()?;
    let stderr = child.stderr.take();
    let (complaint, status) = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut complaint = Vec::new();
            // Dropping the pipe after the limit ends a bash that keeps writing errors.
            let read = stderr.map(|stderr| stderr.take(MAX_COMPLAINT).read_to_end(&mut complaint));
            read.transpose()
                .map(|_| String::from_utf8_lossy(&complaint).into_owned())
                .unwrap_or_default()
        });
        let status = wait(&mut child, Instant::now() + FILE_TIME_LIMIT);
        (reader.join().unwrap_or_default(), status)
    });
    Ok(match status? {
        None => Some(problem_in(script, 1, 1, "takes too long to parse")),
        Some(status) if status.success() => None,
        Some(_) => Some(understand(script, &complaint)),
    })
}

/// Waits for a process and kills it at the deadline.
fn wait(child: &mut Child, deadline: Instant) -> std::io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            // It may have ended just now.
            let _ = child.kill();
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

/// Parses `bash: line 3: syntax error near …`.
fn understand(script: &CheckedScript, complaint: &str) -> SyntaxProblem {
    let read = |line: &str| {
        let (number, message) = line.split_once(": line ")?.1.split_once(": ")?;
        Some((number.parse().ok()?, message.to_owned()))
    };
    let (line, message) = complaint
        .lines()
        .find_map(read)
        .unwrap_or_else(|| (1, "the interpreter crashed on it".to_owned()));
    let last = u32::try_from(script.text.lines().count()).unwrap_or(u32::MAX);
    problem_in(script, line.min(last.max(1)), 1, message)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
