//! Tool calls: Python's `main`, results, parsers and declared schemas, with real interpreters and
//! the real supervisor.

mod contract;
mod ending;
mod library;
mod python;
mod venv;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use piton::exec::call::{
    self, AllowedFiles, CallError, CallProgress, CallTimeouts, Machine, PreparedCall, ReadResult,
};
use piton::exec::interrupt::Interrupts;
use piton::exec::invocation::{
    Action, ChainLink, Invocation, MaskedText, Process, Python, PythonEntry, ResourceLimits,
    ScriptFile,
};
use piton::exec::supervisor::{Ended, Supervisor, SupervisorError};
use piton::item::signature::Integrity;
use piton::item::store::Layer;
use piton::item::tool::{Isolation, Requires, ToolKind, ToolOutputs};
use piton::problem::Explain as _;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// A project with one tool.
struct Bench {
    top: TempDir,
    invocation: Invocation,
    /// The progress messages.
    told: Vec<String>,
    /// The environment variables for installers.
    environment: BTreeMap<OsString, OsString>,
    patience: CallTimeouts,
}

impl Bench {
    /// A Python tool with `main`.
    fn python(source: &str) -> Self {
        let mut bench = Self::new("python3", source);
        bench.process().python = Some(Python {
            entry: PythonEntry::Main,
            ..Python::default()
        });
        bench
    }

    /// A Python tool without `main`.
    fn python_script(source: &str, arguments: &[&str]) -> Self {
        let mut bench = Self::python(source);
        bench
            .process()
            .arguments
            .extend(arguments.iter().map(|word| MaskedText::plain(*word)));
        bench.process().python = Some(Python::default());
        bench
    }

    fn bash(source: &str) -> Self {
        Self::new("bash", source)
    }

    fn new(program: &str, source: &str) -> Self {
        let top = tempfile::Builder::new()
            .prefix("a project ü ")
            .tempdir()
            .expect("a folder");
        let script = top.path().join("project/.ai/tools/greet_people.py");
        for folder in ["project/.ai/tools", "home", "tmp", "cwd"] {
            fs::create_dir_all(top.path().join(folder)).expect("a folder");
        }
        fs::write(&script, source).expect("a script");
        let digits = Sha256::digest(source)
            .into_iter()
            .flat_map(|byte| [byte >> 4, byte & 15]);
        let sha256 = digits
            .filter_map(|digit| char::from_digit(digit.into(), 16))
            .collect();
        let link = ChainLink {
            categories: Vec::new(),
            id: "greet_people".parse().expect("an id"),
            version: "1.0.0".to_owned(),
            tool_type: "python".to_owned(),
            kind: ToolKind::Script,
            layer: Layer::Project,
            file: script.clone(),
            signature: Integrity::Unsigned,
        };
        let process = Process {
            program_place: None,
            program: MaskedText::plain(program),
            arguments: vec![MaskedText::plain(script.to_str().expect("Unicode"))],
            folder: top.path().join("project"),
            environment: BTreeMap::from([("PATH".to_owned(), MaskedText::plain(search_path()))]),
            input: Vec::new(),
            script: Some(ScriptFile {
                path: script,
                sha256,
            }),
            python: None,
            node_packages: Vec::new(),
            limits: ResourceLimits::default(),
            install_check: None,
            install_guide: None,
        };
        let invocation = Invocation {
            chain: vec![link],
            command: None,
            parameters: Map::new(),
            action: Action::Process(process),
            timeout: Duration::from_mins(2),
            isolation: Isolation::Trusted,
            isolation_asked: false,
            requires: Requires::default(),
            variables: Vec::new(),
            mutates_state: None,
            writes: None,
            caches: Vec::new(),
            outputs: ToolOutputs::default(),
            output_schema: None,
            origins: BTreeMap::new(),
        };
        let environment = BTreeMap::from([("PATH".into(), search_path().into())]);
        Self {
            top,
            invocation,
            told: Vec::new(),
            environment,
            patience: CallTimeouts::default(),
        }
    }

    fn process(&mut self) -> &mut Process {
        let Action::Process(process) = &mut self.invocation.action else {
            panic!("a process")
        };
        process
    }

    fn with(mut self, parameters: &Value) -> Self {
        self.invocation
            .parameters
            .clone_from(parameters.as_object().expect("parameters"));
        self
    }

    fn outputs(mut self, format: Option<&str>, parser: Option<&str>, schema: Option<&str>) -> Self {
        let own = |text: Option<&str>| text.map(str::to_owned);
        self.invocation.outputs = ToolOutputs {
            format: own(format),
            parser: own(parser),
            schema: own(schema),
            ignore_success: false,
        };
        self
    }

    /// Writes a file; the path is relative to the folder that holds project, home and cwd.
    fn file(self, path: &str, text: &str) -> Self {
        let path = self.top.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
        self
    }

    fn root(&self) -> PathBuf {
        self.top.path().join("project")
    }

    fn machine(&self) -> Machine {
        let below = |name: &str| self.top.path().join(name);
        Machine {
            root: self.root(),
            cwd: below("cwd"),
            home: Some(below("home")),
            cache: below("the cache"),
            temporary: below("tmp"),
            program: env!("CARGO_BIN_EXE_piton").into(),
            environment: self.environment.clone(),
            run: "a-run".to_owned(),
            patience: self.patience,
            files: AllowedFiles::Any,
            confinement: None,
        }
    }

    fn prepare(&mut self) -> Result<PreparedCall, CallError> {
        let (machine, told) = (self.machine(), &mut self.told);
        let mut tell = |progress: CallProgress<'_>| {
            if let CallProgress::Preparing(what) = progress {
                told.push(what.to_owned());
            }
        };
        call::prepare(
            &self.invocation,
            None,
            &machine,
            &supervisor,
            &mut ears(),
            &mut tell,
        )
    }

    fn run(&mut self) -> Ended {
        let prepared = self.prepare().expect("prepared");
        let ended =
            supervisor()
                .expect("a supervisor")
                .run(&prepared.work, &mut ears(), &mut |_, _| {});
        ended.expect("an end")
    }

    /// Makes the call and reads its result.
    fn call(&mut self) -> Result<ReadResult, CallError> {
        let ended = self.run();
        let is_told = ended.exit_code == Some(0) || call::raised(&ended).is_some();
        assert!(
            is_told,
            "it failed: {}\n{}",
            ended.stdout.text(),
            ended.stderr.text()
        );
        call::read_result(
            &self.invocation,
            &ended,
            &self.machine(),
            &supervisor,
            &mut ears(),
        )
    }

    /// The result of a successful call without warnings.
    fn value(&mut self) -> Value {
        let read = self.call().unwrap_or_else(|err| panic!("{err}"));
        assert_eq!(read.warnings, Vec::<String>::new());
        read.value
    }

    /// The code and message of a call whose result cannot be read.
    fn complaint(&mut self) -> String {
        let err = self.call().expect_err("a complaint");
        format!("{}: {err}", err.code())
    }
}

fn supervisor() -> Result<Supervisor, SupervisorError> {
    Supervisor::start(Path::new(env!("CARGO_BIN_EXE_piton")))
}

fn ears() -> Interrupts {
    Interrupts::listen().expect("ears")
}

#[expect(
    clippy::disallowed_methods,
    reason = "where the interpreters of this machine are"
)]
fn search_path() -> String {
    std::env::var("PATH").expect("a search path")
}
