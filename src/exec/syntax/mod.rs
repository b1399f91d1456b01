//! Can a script be parsed by its own interpreter?
//!
//! Python and bash are asked when they are there, JavaScript is compiled in the process. No script
//! is run: Python makes a table of names, bash gets `-n`. Interpreters see an empty environment but
//! for the search path, and are ended when they take too long. Read [`check`] first.

mod bash;
mod python;
#[cfg(test)]
mod tests;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rayon::prelude::*;

use crate::item::javascript::{self, Dialect};

/// How long all files of one language may take.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// A language whose syntax can be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Language {
    /// Python 3.
    Python,
    /// Bash, and plain shell.
    Bash,
    /// JavaScript.
    JavaScript,
}

/// A script to check.
#[derive(Clone, Debug)]
pub struct Script {
    /// The file it was read from; for JavaScript its extension tells a module from a plain script.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
    /// What it is written in.
    pub language: Language,
}

/// Why a script cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub path: PathBuf,
    /// The line, starting at 1.
    pub line: u32,
    /// The column in characters, starting at 1.
    pub column: u32,
    /// What the interpreter says.
    pub message: String,
}

/// What came of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// The scripts that cannot be parsed, in the order given.
    pub problems: Vec<Problem>,
    /// Languages of which scripts were given but not, or not all, checked, and why.
    pub unchecked: Vec<(Language, String)>,
}

/// The interpreters of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreters {
    /// Python 3.
    pub python: Option<PathBuf>,
    /// Bash.
    pub bash: Option<PathBuf>,
    /// The search path that they are given.
    pub search_path: OsString,
}

impl Interpreters {
    /// Looks for interpreters on a search path; relative folders on it are left out.
    pub fn find(search_path: &OsStr) -> Self {
        let folders: Vec<PathBuf> = env::split_paths(search_path).filter(|folder| folder.is_absolute()).collect();
        let find = |name: &str| folders.iter().map(|folder| folder.join(name)).find(|file| is_executable(file));
        let search_path = env::join_paths(&folders).unwrap_or_default();
        Self { python: find("python3"), bash: find("bash"), search_path }
    }
}

/// Checks scripts of any number and language; each file has at most one problem.
pub fn check(scripts: &[Script], interpreters: &Interpreters) -> Checked {
    let of = |language: Language| -> Vec<(usize, &Script)> {
        scripts.iter().enumerate().filter(|(_, script)| script.language == language).collect()
    };
    let with = |language: Language, interpreter: Option<&Path>, ask: Ask| {
        let scripts = of(language);
        match interpreter {
            _ if scripts.is_empty() => Answer::default(),
            None => {
                let gave_up = Some(format!("{} is not on the search path", name_of(language)));
                Answer { gave_up, ..Answer::default() }
            }
            Some(program) => ask(&scripts, program, &interpreters.search_path),
        }
    };
    let (python, bash) = rayon::join(
        || with(Language::Python, interpreters.python.as_deref(), python::ask),
        || with(Language::Bash, interpreters.bash.as_deref(), bash::ask),
    );
    let mut found: Vec<(usize, Problem)> = Vec::new();
    let mut unchecked = Vec::new();
    for (language, answer) in [(Language::Python, python), (Language::Bash, bash)] {
        found.extend(answer.found);
        unchecked.extend(answer.gave_up.map(|reason| (language, reason)));
    }
    found.par_extend(of(Language::JavaScript).into_par_iter().filter_map(|(at, script)| {
        let problem = javascript::check_syntax(&script.text, dialect(&script.path))?;
        Some((at, problem_in(script, problem.line, problem.column, problem.message)))
    }));
    found.sort_by_key(|(at, _)| *at);
    Checked { problems: found.into_iter().map(|(_, problem)| problem).collect(), unchecked }
}

type Ask = fn(&[(usize, &Script)], &Path, &OsStr) -> Answer;

/// What an interpreter said about its scripts.
#[derive(Debug, Default)]
struct Answer {
    found: Vec<(usize, Problem)>,
    /// Why it did not answer for all.
    gave_up: Option<String>,
}

fn problem_in(script: &Script, line: u32, column: u32, message: impl Into<String>) -> Problem {
    Problem { path: script.path.clone(), line: line.max(1), column: column.max(1), message: message.into() }
}

impl Language {
    /// The language that a built-in runtime runs.
    pub fn of_runtime(id: &str) -> Option<Self> {
        match id {
            "python_runtime" => Some(Self::Python),
            "bash_runtime" => Some(Self::Bash),
            "node_runtime" => Some(Self::JavaScript),
            _ => None,
        }
    }

    /// The language that a file is written in, by its ending.
    pub fn of_file(path: &Path) -> Option<Self> {
        match path.extension().and_then(OsStr::to_str)? {
            "py" => Some(Self::Python),
            "sh" | "bash" => Some(Self::Bash),
            "js" | "mjs" | "cjs" => Some(Self::JavaScript),
            _ => None,
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Python => "Python",
            Self::Bash => "bash",
            Self::JavaScript => "JavaScript",
        })
    }
}

fn name_of(language: Language) -> &'static str {
    match language {
        Language::Python => "`python3`",
        Language::Bash => "`bash`",
        Language::JavaScript => "`node`",
    }
}

fn dialect(path: &Path) -> Dialect {
    match path.extension().and_then(OsStr::to_str) {
        Some("mjs") => Dialect::Module,
        Some("cjs") => Dialect::CommonJs,
        _ => Dialect::Either,
    }
}

/// A command that inherits nothing but the search path.
#[expect(clippy::disallowed_methods, reason = "exec is the home of processes")]
fn interpreter(program: &Path, search_path: &OsStr) -> Command {
    let mut command = Command::new(program);
    // The root is no project, so that nothing in the current folder can be picked up.
    command.env_clear().env("PATH", search_path).env("LC_ALL", "C").current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[cfg(unix)]
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(file: &Path) -> bool {
    file.is_file()
}
