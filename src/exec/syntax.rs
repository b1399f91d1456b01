//! Checks whether a script's own interpreter can parse it.
//!
//! Python and bash are asked if they are installed; JavaScript is compiled in this process. No
//! script is run: Python only builds a symbol table, bash gets `-n`. Interpreters get no
//! environment except `PATH`, and are killed when they take too long. Read [`check`] first.

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

/// The time limit for all files of one language.
const TIME_LIMIT: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScriptLanguage {
    Python,
    /// Bash and POSIX shell.
    Bash,
    JavaScript,
}

#[derive(Clone, Debug)]
pub struct CheckedScript {
    /// For JavaScript the extension tells a module from a script.
    pub path: PathBuf,
    pub text: String,
    pub language: ScriptLanguage,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxProblem {
    pub path: PathBuf,
    pub line: u32,
    /// In characters, starting at 1.
    pub column: u32,
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyntaxReport {
    /// The scripts that cannot be parsed, in the order given.
    pub problems: Vec<SyntaxProblem>,
    /// Languages whose scripts were not all checked, and why.
    pub unchecked: Vec<(ScriptLanguage, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreters {
    pub python: Option<PathBuf>,
    pub bash: Option<PathBuf>,
    pub search_path: OsString,
}

impl Interpreters {
    /// Searches interpreters on `PATH`; relative folders are skipped.
    pub fn find(search_path: &OsStr) -> Self {
        let folders: Vec<PathBuf> = env::split_paths(search_path)
            .filter(|folder| folder.is_absolute())
            .collect();
        let find = |name: &str| {
            folders
                .iter()
                .map(|folder| folder.join(name))
                .find(|file| is_executable(file))
        };
        let search_path = env::join_paths(&folders).unwrap_or_default();
        Self {
            python: find("python3"),
            bash: find("bash"),
            search_path,
        }
    }
}

/// Checks all scripts; each file has at most one problem.
pub fn check(scripts: &[CheckedScript], interpreters: &Interpreters) -> SyntaxReport {
    let of = |language: ScriptLanguage| -> Vec<(usize, &CheckedScript)> {
        scripts
            .iter()
            .enumerate()
            .filter(|(_, script)| script.language == language)
            .collect()
    };
    let with = |language: ScriptLanguage, interpreter: Option<&Path>, ask: Ask| {
        let scripts = of(language);
        match interpreter {
            _ if scripts.is_empty() => SyntaxAnswer::default(),
            None => {
                let gave_up = Some(format!("{} is not on the search path", name_of(language)));
                SyntaxAnswer {
                    gave_up,
                    ..SyntaxAnswer::default()
                }
            }
            Some(program) => ask(&scripts, program, &interpreters.search_path),
        }
    };
    let (python, bash) = rayon::join(
        || {
            with(
                ScriptLanguage::Python,
                interpreters.python.as_deref(),
                python::ask,
            )
        },
        || {
            with(
                ScriptLanguage::Bash,
                interpreters.bash.as_deref(),
                bash::ask,
            )
        },
    );
    let mut found: Vec<(usize, SyntaxProblem)> = Vec::new();
    let mut unchecked = Vec::new();
    for (language, answer) in [
        (ScriptLanguage::Python, python),
        (ScriptLanguage::Bash, bash),
    ] {
        found.extend(answer.found);
        unchecked.extend(answer.gave_up.map(|reason| (language, reason)));
    }
    found.par_extend(
        of(ScriptLanguage::JavaScript)
            .into_par_iter()
            .filter_map(|(at, script)| {
                let problem = javascript::check_syntax(&script.text, dialect(&script.path))?;
                Some((
                    at,
                    problem_in(script, problem.line, problem.column, problem.message),
                ))
            }),
    );
    found.sort_by_key(|(at, _)| *at);
    SyntaxReport {
        problems: found.into_iter().map(|(_, problem)| problem).collect(),
        unchecked,
    }
}

type Ask = fn(&[(usize, &CheckedScript)], &Path, &OsStr) -> SyntaxAnswer;

#[derive(Debug, Default)]
struct SyntaxAnswer {
    found: Vec<(usize, SyntaxProblem)>,
    /// Why some scripts were not checked.
    gave_up: Option<String>,
}

fn problem_in(
    script: &CheckedScript,
    line: u32,
    column: u32,
    message: impl Into<String>,
) -> SyntaxProblem {
    SyntaxProblem {
        path: script.path.clone(),
        line: line.max(1),
        column: column.max(1),
        message: message.into(),
    }
}

impl ScriptLanguage {
    /// The language of a built-in runtime.
    pub fn of_runtime(id: &str) -> Option<Self> {
        match id {
            "python_runtime" => Some(Self::Python),
            "bash_runtime" => Some(Self::Bash),
            "node_runtime" => Some(Self::JavaScript),
            _ => None,
        }
    }

    /// The language that an interpreter runs.
    pub fn of_program(program: &Path) -> Option<Self> {
        let name = program.file_name().and_then(OsStr::to_str)?;
        let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        match bare {
            "python" | "pypy" => Some(Self::Python),
            "bash" | "sh" | "dash" | "ksh" | "mksh" | "zsh" => Some(Self::Bash),
            "node" | "nodejs" => Some(Self::JavaScript),
            _ => None,
        }
    }

    /// The language of a file, by its extension.
    pub fn of_file(path: &Path) -> Option<Self> {
        match path.extension().and_then(OsStr::to_str)? {
            "py" => Some(Self::Python),
            "sh" | "bash" => Some(Self::Bash),
            "js" | "mjs" | "cjs" => Some(Self::JavaScript),
            _ => None,
        }
    }
}

impl fmt::Display for ScriptLanguage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Python => "Python",
            Self::Bash => "bash",
            Self::JavaScript => "JavaScript",
        })
    }
}

fn name_of(language: ScriptLanguage) -> &'static str {
    match language {
        ScriptLanguage::Python => "`python3`",
        ScriptLanguage::Bash => "`bash`",
        ScriptLanguage::JavaScript => "`node`",
    }
}

fn dialect(path: &Path) -> Dialect {
    match path.extension().and_then(OsStr::to_str) {
        Some("mjs") => Dialect::Module,
        Some("cjs") => Dialect::CommonJs,
        _ => Dialect::Either,
    }
}

/// A command that inherits only `PATH`.
#[expect(clippy::disallowed_methods, reason = "exec is the home of processes")]
fn interpreter(program: &Path, search_path: &OsStr) -> Command {
    let mut command = Command::new(program);
    // `/` is not a project, so nothing in the working folder can be picked up.
    command
        .env_clear()
        .env("PATH", search_path)
        .env("LC_ALL", "C")
        .current_dir("/");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

#[cfg(unix)]
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(file: &Path) -> bool {
    file.is_file()
}
