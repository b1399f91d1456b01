//! Every call is resolved from real files in its own project.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::*;
use crate::exec::invocation::{MaskedText, Process, PythonEntry, ResourceLimits};
use crate::item::finding::Strength;
use crate::item::store::ItemKind;
use crate::problem::Explain as _;

mod arguments;
mod chain;
mod container;
mod environment;
mod http;
mod mcp;
mod meta;
mod placeholder;
mod property;
mod runtime;

pub(super) struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    pub(super) fn new(files: &[(&str, &str)]) -> Self {
        let project = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        for (path, text) in files {
            let path = project.root().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        project
    }

    pub(super) fn root(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn try_lower(
        &self,
        id: &str,
        call: &CallRequest,
    ) -> Result<Invocation, ResolveError> {
        let store = ItemStore::open(
            Roots {
                project: Some(self.root().to_path_buf()),
                user: None,
            },
            Strength::Lenient,
        );
        let environment = [
            ("PATH", "relative:/usr/bin::/bin"),
            ("HOME", "/home/user"),
            ("LANG", "C.UTF-8"),
            ("LD_PRELOAD", "evil.so"),
            ("GIT_DIR", "elsewhere"),
            ("PYTHONPATH", "elsewhere"),
            ("BASH_ENV", "elsewhere"),
            ("TOKEN", "s3cret"),
            ("EMPTY", ""),
        ];
        let around = CallEnvironment {
            root: self.root().to_path_buf(),
            home: None,
            environment: environment
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        };
        resolve_call(
            &store,
            store.find(ItemKind::Tool, id).unwrap(),
            call,
            &around,
        )
    }

    pub(super) fn resolve(&self, id: &str, parameters: Value) -> Invocation {
        self.try_lower(id, &call(parameters)).unwrap()
    }

    /// The message, the hint and the position of the error.
    pub(super) fn refusal(&self, id: &str, parameters: Value) -> String {
        self.refused(id, &call(parameters))
    }

    pub(super) fn refused(&self, id: &str, call: &CallRequest) -> String {
        let err = self.try_lower(id, call).unwrap_err();
        let place = err
            .place()
            .map(|at| format!("\n--> {}:{}", at.file.display(), at.line))
            .unwrap_or_default();
        let text = format!(
            "{}: {err}{place}\nhint: {}",
            err.code(),
            err.hint().map(String::from).unwrap_or_default()
        );
        text.replace(self.root().to_str().unwrap(), "[ROOT]")
    }
}

pub(super) fn call(parameters: Value) -> CallRequest {
    let Value::Object(parameters) = parameters else {
        panic!("parameters are an object")
    };
    CallRequest {
        command: None,
        parameters,
    }
}

pub(super) fn process(invocation: &Invocation) -> &Process {
    invocation.action.program().unwrap()
}

pub(super) fn arguments(invocation: &Invocation) -> Vec<&str> {
    process(invocation)
        .arguments
        .iter()
        .map(|argument| argument.value.as_str())
        .collect()
}

/// A tool that runs a program, with these further lines of config.
pub(super) fn cli(config: &str) -> String {
    format!(
        "tool_id: run\ntool_type: cli\nversion: \"1.0.0\"\ndescription: Runs\nexecutor: subprocess\nconfig:\n  command: prog\n{config}"
    )
}

pub(super) fn cli_project(config: &str) -> Project {
    Project::new(&[(".ai/tools/run.yaml", &cli(config))])
}
