//! Asking bash: `bash -n` for each file, a few at a time.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{Answer, Problem, Script, TIME_LIMIT, interpreter, problem_in};

/// How long one file may take; nested substitutions can take bash forever.
const FILE_TIME_LIMIT: Duration = Duration::from_secs(2);
/// The most that is read of its complaints.
const MAX_COMPLAINT: u64 = 16 * 1024;

pub(super) fn ask(scripts: &[(usize, &Script)], program: &Path, search_path: &OsStr) -> Answer {
    let deadline = Instant::now() + TIME_LIMIT;
    let next = AtomicUsize::new(0);
    let answer = Mutex::new(Answer::default());
    let workers = thread::available_parallelism().map_or(1, usize::from).min(scripts.len());
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
                        Err(err) => lock(&answer).gave_up = Some(format!("cannot ask `bash`: {err}")),
                    }
                }
            });
        }
    });
    answer.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn parse(script: &Script, program: &Path, search_path: &OsStr) -> std::io::Result<Option<Problem>> {
    // From a file: bash reads a pipe byte by byte.
    let mut file = tempfile::tempfile()?;
    file.write_all(script.text.as_bytes())?;
    let problem = parse_with(script, &file, &[], program, search_path)?;
    // A script that turns `extglob` on is parsed with it when it runs, but `-n` turns nothing on.
    if problem.is_some() && script.text.contains("extglob") {
        return parse_with(script, &file, &["-O", "extglob"], program, search_path);
    }
    Ok(problem)
}

fn parse_with(
    script: &Script,
    mut file: &File,
    options: &[&str],
    program: &Path,
    search_path: &OsStr,
) -> std::io::Result<Option<Problem>> {
    file.rewind()?;
    let mut child = interpreter(program, search_path)
        .args(["--noprofile", "--norc"])
        .args(options)
        .arg("-n")
        .stdin(Stdio::from(file.try_clone()?))
        .stderr(Stdio::piped())
        .spawn()?;
    let stderr = child.stderr.take();
    let child = Mutex::new(child);
    let (complaint, status) = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut complaint = Vec::new();
            // Dropping the pipe behind the limit ends a bash that goes on complaining.
            let read = stderr.map(|stderr| stderr.take(MAX_COMPLAINT).read_to_end(&mut complaint));
            read.transpose().map(|_| String::from_utf8_lossy(&complaint).into_owned()).unwrap_or_default()
        });
        let status = wait(&child, Instant::now() + FILE_TIME_LIMIT);
        (reader.join().unwrap_or_default(), status)
    });
    Ok(match status? {
        None => Some(problem_in(script, 1, 1, "takes too long to parse")),
        Some(status) if status.success() => None,
        Some(_) => Some(understand(script, &complaint)),
    })
}

/// Waits for a process and ends it at the deadline.
fn wait(child: &Mutex<Child>, deadline: Instant) -> std::io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = lock(child).try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            let mut child = lock(child);
            let _ = child.kill();
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

/// Reads `bash: line 3: syntax error near …`.
fn understand(script: &Script, complaint: &str) -> Problem {
    let read = |line: &str| {
        let (number, message) = line.split_once(": line ")?.1.split_once(": ")?;
        Some((number.parse().ok()?, message.to_owned()))
    };
    let (line, message) =
        complaint.lines().find_map(read).unwrap_or_else(|| (1, "the interpreter crashed on it".to_owned()));
    let last = u32::try_from(script.text.lines().count()).unwrap_or(u32::MAX);
    problem_in(script, line.min(last.max(1)), 1, message)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
