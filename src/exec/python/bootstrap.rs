//! The program that a Python interpreter is given in place of the script.
//!
//! It runs exactly the bytes that were judged, under the name of their file. What they print stays
//! on stdout; what `main` or `parse` returns comes over descriptor 3 as an [`Answer`].

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::exec::call::Files;
use crate::exec::invocation::Beside;

const PROGRAM: &str = include_str!("bootstrap.py");

/// A Python file to run.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec) struct Run<'r> {
    /// The file.
    pub(in crate::exec) script: &'r Path,
    /// Its bytes.
    pub(in crate::exec) source: &'r [u8],
    /// What is called in it.
    pub(in crate::exec) entry: Entry<'r>,
    /// The words after its name.
    pub(in crate::exec) arguments: &'r [&'r str],
    /// The modules of the project's library that it may import.
    pub(in crate::exec) lib_imports: &'r BTreeMap<String, PathBuf>,
    /// The folder of that library.
    pub(in crate::exec) library: &'r Path,
    /// Which files may run in its name.
    pub(in crate::exec) files: Files,
    /// What lies beside it.
    pub(in crate::exec) beside: Beside,
}

/// What is called in a Python file.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec) enum Entry<'r> {
    /// `main` with these parameters.
    Main(&'r Value),
    /// Nothing: it is run as a script.
    Script,
    /// `parse` with this text.
    Parse(&'r str),
}

/// What comes back over the private channel.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::exec) enum Answer {
    /// What was returned.
    Ok(Value),
    /// The exception that ended it.
    Error(Raised),
    /// It ended by `sys.exit`, so nothing was returned.
    Exit(bool),
}

/// An exception that nothing in the script caught.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Raised {
    /// Its class, e.g. `ValueError`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it says.
    pub message: String,
    /// Where it was raised, as Python shows it.
    pub traceback: String,
}

#[derive(Serialize)]
struct Head<'r> {
    call: &'static str,
    arguments: &'r [&'r str],
    parameters: Value,
    lib_imports: BTreeMap<&'r str, String>,
    files: Files,
    alone: bool,
}

impl Run<'_> {
    /// The words that follow the interpreter and its options.
    pub(in crate::exec) fn words(&self) -> Vec<OsString> {
        // Without bytecode: a run must not leave files beside the script.
        vec!["-B".into(), "-c".into(), PROGRAM.into(), self.script.into(), self.library.into()]
    }

    /// What the program reads: a line of JSON, and the bytes of the file.
    pub(in crate::exec) fn input(&self) -> Vec<u8> {
        let (call, parameters) = match self.entry {
            Entry::Main(parameters) => ("main", parameters.clone()),
            Entry::Script => ("script", Value::Null),
            Entry::Parse(content) => ("parse", serde_json::json!({ "content": content })),
        };
        let inside = |file: &Path| file.strip_prefix(self.library).unwrap_or(file).to_string_lossy().into_owned();
        let lib_imports = self.lib_imports.iter().map(|(name, file)| (name.as_str(), inside(file))).collect();
        // Python would take any file beside it for a module, also in the place of one of its own.
        let alone = self.files == Files::Covered && self.beside == Beside::Others;
        let head = Head { call, arguments: self.arguments, parameters, lib_imports, files: self.files, alone };
        // Values, texts and maps with text keys always have a form in JSON.
        let mut input = serde_json::to_vec(&head).unwrap_or_default();
        input.push(b'\n');
        input.extend_from_slice(self.source);
        input
    }
}

impl Answer {
    /// Reads what came over the channel.
    pub(in crate::exec) fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}
