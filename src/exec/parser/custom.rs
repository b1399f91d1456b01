//! Parsers of a project or user: Python files with `parse(content)`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::ParserEnvironment;
use crate::exec::call::{self, CallError, Starter};
use crate::exec::invocation::Beside;
use crate::exec::is_always_given;
use crate::exec::python::bootstrap::{ScriptEntry, ScriptRun};
use crate::exec::supervisor::{Channel, MARK, Work};
use crate::item::id::ItemId;
use crate::item::signature::{self, Integrity};
use crate::item::source::{MAX_TEXT, leaves, read_bytes};

/// Finds the file of a parser in these folders, in order.
pub(super) fn find_in(name: &str, folders: [Option<&Path>; 3]) -> Result<Option<PathBuf>, String> {
    // A name with `/` or `..` is invalid.
    if name.parse::<ItemId>().is_err() {
        return Ok(None);
    }
    for folder in folders.into_iter().flatten() {
        let file = folder
            .join(".ai")
            .join("parsers")
            .join(format!("{name}.py"));
        if file.symlink_metadata().is_err() {
            continue;
        }
        if leaves(&file, folder) {
            return Err(format!("`{}` leads out of its folder", file.display()));
        }
        return Ok(Some(file));
    }
    Ok(None)
}

pub(super) fn run(
    name: &str,
    file: &Path,
    content: &str,
    source: ParserEnvironment<'_>,
    starter: &mut Starter<'_>,
) -> Result<Value, CallError> {
    let failed = |reason: String| CallError::Parser {
        parser: name.to_owned(),
        reason,
    };
    let bytes = read_bytes(file, MAX_TEXT).map_err(|err| failed(err.to_string()))?;
    if let Ok(text) = std::str::from_utf8(&bytes)
        && let Some(what) = match signature::check(file, text) {
            Integrity::Mismatch { .. } => Some("content hash mismatch"),
            Integrity::Invalid { reason, .. } => Some(reason),
            _ => None,
        }
    {
        return Err(failed(format!("{what} in `{}`", file.display())));
    }
    let machine = source.machine;
    let mut environment: BTreeMap<OsString, OsString> = source
        .environment
        .iter()
        .filter(|(name, _)| is_always_given(name))
        .map(|(name, text)| (name.into(), text.value.clone().into()))
        .collect();
    environment.insert(MARK.into(), machine.run.clone().into());
    let _home = call::enter_private_home(&mut environment, machine)?;
    let program = call::find(OsStr::new("python3"), &environment, &machine.root)?;
    let library = machine.root.join(".ai").join("tools").join("lib");
    let run = ScriptRun {
        script: file,
        source: &bytes,
        entry: ScriptEntry::Parse(content),
        arguments: &[],
        lib_imports: &BTreeMap::new(),
        library: &library,
        files: machine.files,
        beside: Beside::Others,
    };
    let mut argv = vec![program.clone().into()];
    argv.extend(run.argv());
    let work = Work {
        program,
        argv,
        folder: machine.root.clone(),
        environment,
        input: run.input(),
        channel: Channel::Private,
        timeout: Some(machine.patience.parser),
        confinement: machine.confinement.clone(),
        ..Work::default()
    };
    let ended = starter.run(&work)?;
    if ended.interrupted {
        return Err(CallError::Interrupted);
    }
    if ended.timed_out {
        return Err(failed(format!(
            "it took more than {} s",
            machine.patience.parser.as_secs()
        )));
    }
    match call::returned(&ended, "parse") {
        Ok(value) if ended.exit_code == Some(0) => Ok(value),
        Ok(_) => Err(failed(
            "it ended with an error after it had returned".to_owned(),
        )),
        Err(err) => Err(failed(err.to_string())),
    }
}
