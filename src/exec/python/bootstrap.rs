//! The program that the Python interpreter gets instead of the script.
//!
//! It runs exactly the bytes that were checked, under the name of their file. Their output stays on
//! stdout; the return value of `main` or `parse` comes over descriptor 3 as an [`ScriptAnswer`].

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::exec::call::AllowedFiles;
use crate::exec::invocation::Beside;

const PROGRAM: &str = include_str!("bootstrap.py");

#[derive(Clone, Copy, Debug)]
pub(in crate::exec) struct ScriptRun<'r> {
    pub(in crate::exec) script: &'r Path,
    pub(in crate::exec) source: &'r [u8],
    pub(in crate::exec) entry: ScriptEntry<'r>,
    pub(in crate::exec) arguments: &'r [&'r str],
    /// The library modules that it may import.
    pub(in crate::exec) lib_imports: &'r BTreeMap<String, PathBuf>,
    /// The folder of the library.
    pub(in crate::exec) library: &'r Path,
    pub(in crate::exec) files: AllowedFiles,
    pub(in crate::exec) beside: Beside,
}

#[derive(Clone, Copy, Debug)]
pub(in crate::exec) enum ScriptEntry<'r> {
    /// `main` with these parameters.
    Main(&'r Value),
    /// `execute` with these parameters and the project.
    Execute(&'r Value, &'r Path),
    /// Run as a script.
    Script,
    /// `parse` with this text.
    Parse(&'r str),
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::exec) enum ScriptAnswer {
    Ok(Value),
    Error(Raised),
    /// `sys.exit` was called, so nothing was returned.
    Exit(bool),
}

/// An uncaught exception.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Raised {
    /// Its class, e.g. `ValueError`.
    #[serde(rename = "type")]
    pub kind: String,
    pub message: String,
    pub traceback: String,
}

#[derive(Serialize)]
struct BootstrapHead<'r> {
    call: &'static str,
    arguments: &'r [&'r str],
    parameters: Value,
    lib_imports: BTreeMap<&'r str, String>,
    files: AllowedFiles,
    alone: bool,
}

impl ScriptRun<'_> {
    /// The arguments after the interpreter's options.
    pub(in crate::exec) fn argv(&self) -> Vec<OsString> {
        // `-B`: a run must not leave bytecode beside the script.
        vec![
            "-B".into(),
            "-c".into(),
            PROGRAM.into(),
            self.script.into(),
            self.library.into(),
        ]
    }

    /// The program's input: a line of JSON, then the bytes of the file.
    pub(in crate::exec) fn input(&self) -> Vec<u8> {
        let (call, parameters) = match self.entry {
            ScriptEntry::Main(parameters) => ("main", parameters.clone()),
            ScriptEntry::Execute(parameters, project) => (
                "execute",
                serde_json::json!({
                    "parameters": parameters,
                    "project": project.to_string_lossy(),
                }),
            ),
            ScriptEntry::Script => ("script", Value::Null),
            ScriptEntry::Parse(content) => ("parse", serde_json::json!({ "content": content })),
        };
        let inside = |file: &Path| {
            file.strip_prefix(self.library)
                .unwrap_or(file)
                .to_string_lossy()
                .into_owned()
        };
        let lib_imports = self
            .lib_imports
            .iter()
            .map(|(name, file)| (name.as_str(), inside(file)))
            .collect();
        // Python would import any file beside the script, even instead of its own modules.
        let alone = self.files == AllowedFiles::Covered && self.beside == Beside::Others;
        let head = BootstrapHead {
            call,
            arguments: self.arguments,
            parameters,
            lib_imports,
            files: self.files,
            alone,
        };
        // Values, strings and maps with string keys always serialize.
        let mut input = serde_json::to_vec(&head).unwrap_or_default();
        input.push(b'\n');
        input.extend_from_slice(self.source);
        input
    }
}

impl ScriptAnswer {
    pub(in crate::exec) fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}
