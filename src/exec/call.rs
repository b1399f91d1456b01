//! Carries out an [`Invocation`]: prepares its process, and reads its result.
//!
//! [`prepare`] sets up what the process needs and returns [`Work`] for a supervisor;
//! [`read_result`] turns the output into a value and checks it against the manifest. The caller
//! runs `Supervisor::run` in between.

mod error;
mod helper;
mod judged;
mod result;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

pub use super::container::end_abandoned as end_abandoned_containers;
pub use super::python::bootstrap::Raised;
pub use error::CallError;
pub use helper::{HelperReply, RequestedCall, enter, reply};
use judged::{JudgedScript, judged_bytes};
pub use result::{ReadResult, raised, read_result, read_value};
pub(super) use result::{exact, returned};

use super::interrupt::Interrupts;
use super::invocation::{Action, Invocation, Process, Python, PythonEntry, ScriptFile};
use super::isolation::Confinement;
use super::node::{self, NodePackages, NodeRequest};
use super::private_folder::{PrivateFolder, PrivateUse};
use super::python::bootstrap::{ScriptEntry, ScriptRun};
use super::python::venv::{self, VenvRequest};
use super::subprocess::{SubprocessError, resolve};
use super::supervisor::{Channel, Ended, MARK, Stream, Supervisor, SupervisorError, Work};
use super::worker::WorkerJob;
use super::{container, http, toolchain, web};
use crate::item::source::files_below;

const MAX_SCRIPT: u64 = 64 * 1024 * 1024;

/// Where Python looks for bytecode that must not be used: nothing can exist below it.
const NO_BYTECODE: &str = "/dev/null";

#[derive(Clone, Debug)]
pub struct Machine {
    pub root: PathBuf,
    /// The folder where piton was started; parsers are also searched below it.
    pub cwd: PathBuf,
    pub home: Option<PathBuf>,
    /// Where environments are kept for later calls.
    pub cache: PathBuf,
    /// Where private homes are created.
    pub temporary: PathBuf,
    /// The piton binary, used for worker processes.
    pub program: PathBuf,
    /// The variables for installers, which need the user's proxies and indexes.
    pub environment: BTreeMap<OsString, OsString>,
    /// The run id, passed to the tool.
    pub run: String,
    /// Timeouts for processes other than the tool.
    pub patience: CallTimeouts,
    pub files: AllowedFiles,
    /// What the kernel lets parsers and installers do, besides writing to what they make.
    pub confinement: Option<Confinement>,
}

impl Machine {
    /// The project, the folder where piton was started, and the user's home.
    fn folders(&self) -> [Option<&Path>; 3] {
        [Some(&self.root), Some(&self.cwd), self.home.as_deref()]
    }
}

/// Which files may run on behalf of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AllowedFiles {
    /// Any file it finds.
    #[default]
    Any,
    /// Only files covered by a stamp, as far as piton controls that.
    Covered,
}

/// Timeouts for processes other than the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallTimeouts {
    /// For each step of creating an environment.
    pub installer: Duration,
    /// For a parser of the project or user.
    pub parser: Duration,
    /// For the check whether a program is installed.
    pub check: Duration,
}

impl Default for CallTimeouts {
    fn default() -> Self {
        Self {
            installer: Duration::from_mins(10),
            parser: Duration::from_secs(30),
            check: Duration::from_secs(30),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub enum CallProgress<'p> {
    /// A slow preparation has begun, e.g. installing packages.
    Preparing(&'p str),
    Output(Stream, &'p [u8]),
}

#[derive(Debug)]
pub struct PreparedCall {
    pub work: Work,
    /// The private home; dropping it deletes the folder.
    pub home: Option<PrivateFolder>,
    /// The copy of its script, if it runs from one.
    _script: Option<PrivateFolder>,
}

impl PreparedCall {
    /// A call that needs no private folders.
    pub(super) fn plain(work: Work) -> Self {
        Self {
            work,
            home: None,
            _script: None,
        }
    }
}

/// Starts a supervisor. Each supervisor runs one work.
pub type NewSupervisor<'s> = dyn Fn() -> Result<Supervisor, SupervisorError> + 's;

/// Runs installers and parsers.
pub(super) struct Starter<'s> {
    pub(super) supervisor: &'s NewSupervisor<'s>,
    pub(super) interrupts: &'s mut Interrupts,
}

impl Starter<'_> {
    pub(super) fn run(&mut self, work: &Work) -> Result<Ended, CallError> {
        self.run_aloud(work, &mut |_, _| {})
    }

    /// Like [`Self::run`], passing the output to `hear`.
    pub(super) fn run_aloud(
        &mut self,
        work: &Work,
        hear: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Ended, CallError> {
        Ok((self.supervisor)()?.run(work, self.interrupts, hear)?)
    }
}

/// Whether a parser of the project or user reads the result. It is one more program that runs for
/// the tool.
pub fn runs_parser(invocation: &Invocation, machine: &Machine) -> bool {
    invocation.outputs.parser.as_deref().is_some_and(|name| {
        super::parser::is_custom(name, parser_folders(invocation, machine.folders()))
    })
}

/// Where the parsers of a call are searched: the project, the working folder of the tool, and the user's home.
fn parser_folders<'f>(
    invocation: &'f Invocation,
    [root, cwd, home]: [Option<&'f Path>; 3],
) -> [Option<&'f Path>; 3] {
    let own = invocation.action.program();
    let own = own
        .map(|process| process.folder.as_path())
        .filter(|folder| Some(*folder) != root);
    [root, own.or(cwd), home]
}

/// Whether a call starts processes besides the tool: a parser in one of these folders, or an installer
/// of packages.
pub fn has_helpers(invocation: &Invocation, folders: [Option<&Path>; 3]) -> bool {
    let process = invocation.action.program();
    let has_installer = process
        .and_then(|process| process.python.as_ref())
        .is_some_and(|python| python.venv || !python.dependencies.is_empty());
    let parser = invocation.outputs.parser.as_deref();
    let folders = parser_folders(invocation, folders);
    let has_packages = process.is_some_and(|process| !process.node_packages.is_empty());
    has_installer
        || has_packages
        || parser.is_some_and(|name| super::parser::file_of(name, folders).is_some())
}

/// Files that run for a tool but are not part of it: library modules, and a parser in one of these
/// folders.
pub fn borrowed_files(invocation: &Invocation, folders: [Option<&Path>; 3]) -> Vec<PathBuf> {
    let python = invocation
        .action
        .program()
        .and_then(|process| process.python.as_ref());
    let modules = python
        .into_iter()
        .flat_map(|python| python.lib_imports.values())
        .flat_map(|file| module_files(file));
    let parser = invocation
        .outputs
        .parser
        .as_deref()
        .and_then(|name| super::parser::file_of(name, parser_folders(invocation, folders)));
    modules
        .chain(parser)
        .chain(container::borrowed_files(invocation))
        .collect()
}

/// The files of a module. A package has all files of its folder except bytecode, which is not read.
fn module_files(module: &Path) -> Vec<PathBuf> {
    let folder = match module.parent() {
        Some(folder) if module.ends_with("__init__.py") => folder,
        _ if module.is_dir() => module,
        _ => return vec![module.to_path_buf()],
    };
    let is_read = |path: &Path| !path.iter().any(|part| part == "__pycache__");
    files_below(folder)
        .into_iter()
        .map(|(path, _)| path)
        .filter(|path| is_read(path))
        .collect()
}

/// Prepares the program, the environment and the packages of a call.
pub fn prepare(
    invocation: &Invocation,
    confinement: Option<&Confinement>,
    machine: &Machine,
    supervisor: &NewSupervisor<'_>,
    interrupts: &mut Interrupts,
    tell: &mut dyn FnMut(CallProgress<'_>),
) -> Result<PreparedCall, CallError> {
    let process = match &invocation.action {
        Action::Process(process) => process,
        Action::Container(container) => {
            return container::prepare(
                container,
                invocation,
                machine,
                &mut Starter {
                    supervisor,
                    interrupts,
                },
                tell,
            );
        }
        Action::Http(_) | Action::Mcp(_) | Action::Meta(_) => {
            return prepare_worker(invocation, confinement, machine);
        }
    };
    let mut confinement = toolchain::open_caches(&invocation.caches, confinement.cloned())?;
    let source = process.script.as_ref().map(judged_bytes).transpose()?;
    let mut environment = process_environment(process, machine);
    let home = enter_private_home(&mut environment, machine)?;
    let mut program = find(
        process.program.value.as_ref(),
        &environment,
        &process.folder,
    )?;
    let starter = &mut Starter {
        supervisor,
        interrupts,
    };
    check_installed(
        invocation,
        process,
        machine,
        starter,
        &environment,
        confinement.as_ref(),
    )?;
    if let Some(python) = process
        .python
        .as_ref()
        .filter(|it| it.venv || !it.dependencies.is_empty())
    {
        let wanted = VenvRequest {
            tool: invocation.id(),
            python: &program,
            dependencies: &python.dependencies,
        };
        let venv = venv::ensure(wanted, machine, starter, tell)?;
        venv.enter(&mut environment);
        program = venv.python();
        confinement = confinement.map(|it| it.and_visible(&venv.folder));
    }
    let packages = install_packages(invocation, process, machine, starter, tell)?;
    if let Some(packages) = &packages {
        packages.enter(&mut environment);
        confinement = confinement.map(|it| it.and_visible(&packages.folder));
    }
    if confinement.as_ref().is_some_and(|it| it.hides(&program)) {
        return Err(SubprocessError::Hidden(program).into());
    }
    let mut work = Work {
        argv: vec![process.program.value.clone().into()],
        program,
        folder: process.folder.clone(),
        environment,
        input: process.input.clone(),
        timeout: Some(invocation.timeout),
        limits: process.limits,
        confinement,
        ..Work::default()
    };
    let copy = add_arguments(
        &mut work,
        invocation,
        process,
        (source.as_deref(), packages.as_ref()),
        machine,
    )?;
    Ok(PreparedCall {
        work,
        home,
        _script: copy,
    })
}

/// Adds the arguments of a call, which run its script as it was judged.
fn add_arguments(
    work: &mut Work,
    invocation: &Invocation,
    process: &Process,
    (source, packages): (Option<&[u8]>, Option<&NodePackages>),
    machine: &Machine,
) -> Result<Option<PrivateFolder>, CallError> {
    let script = process.script.as_ref().zip(source);
    match (&process.python, script) {
        (Some(python), Some((script, source))) => {
            let script = (&*script.path, source);
            call_python(work, process, python, script, invocation, machine);
            Ok(None)
        }
        (_, script) => {
            let words = words(process, script, packages);
            let judged = match script {
                Some(script) => judged::bind(&work.program, words, script, machine)?,
                None => JudgedScript {
                    arguments: words,
                    copy: None,
                },
            };
            work.argv.extend(judged.arguments);
            if let Some(copy) = &judged.copy {
                let confinement = work.confinement.take();
                work.confinement = confinement.map(|it| it.and_visible(copy.path()));
            }
            Ok(judged.copy)
        }
    }
}

/// The arguments of a process, with the options with which a module of Node.js finds its packages.
fn words(
    process: &Process,
    script: Option<(&ScriptFile, &[u8])>,
    packages: Option<&NodePackages>,
) -> Vec<OsString> {
    let mut words: Vec<OsString> = process
        .arguments
        .iter()
        .map(|text| text.value.clone().into())
        .collect();
    if let (Some(packages), Some((script, source))) = (packages, script)
        && let Some(at) = words.iter().position(|word| *word == script.path)
        && !judged::is_common_js(&script.path, source, words.get(..at).unwrap_or_default())
    {
        words.splice(at..at, packages.options());
    }
    words
}

/// Installs the packages of a script of Node.js.
fn install_packages(
    invocation: &Invocation,
    process: &Process,
    machine: &Machine,
    starter: &mut Starter<'_>,
    tell: &mut dyn FnMut(CallProgress<'_>),
) -> Result<Option<NodePackages>, CallError> {
    let Some(script) = process
        .script
        .as_ref()
        .filter(|_| !process.node_packages.is_empty())
    else {
        return Ok(None);
    };
    let wanted = NodeRequest {
        tool: invocation.id(),
        beside: script.path.parent().unwrap_or(&process.folder),
        dependencies: &process.node_packages,
    };
    node::ensure(wanted, machine, starter, tell).map(Some)
}

/// Refuses a tool whose `install_check` fails.
fn check_installed(
    invocation: &Invocation,
    process: &Process,
    machine: &Machine,
    starter: &mut Starter<'_>,
    environment: &BTreeMap<OsString, OsString>,
    confinement: Option<&Confinement>,
) -> Result<(), CallError> {
    let Some(check) = &process.install_check else {
        return Ok(());
    };
    let ended = starter.run(&Work {
        program: find("sh".as_ref(), environment, &process.folder)?,
        argv: ["sh", "-c", check].map(OsString::from).to_vec(),
        folder: process.folder.clone(),
        environment: environment.clone(),
        timeout: Some(machine.patience.check),
        confinement: confinement.cloned(),
        ..Work::default()
    })?;
    if ended.interrupted {
        return Err(CallError::Interrupted);
    }
    if ended.exit_code == Some(0) {
        return Ok(());
    }
    Err(CallError::NotInstalled {
        tool: invocation.id().to_owned(),
        check: check.clone(),
        guide: process.install_guide.clone(),
    })
}

fn process_environment(process: &Process, machine: &Machine) -> BTreeMap<OsString, OsString> {
    let mut environment: BTreeMap<OsString, OsString> = process
        .environment
        .iter()
        .map(|(name, text)| (name.into(), text.value.clone().into()))
        .collect();
    environment.insert(MARK.into(), machine.run.clone().into());
    if machine.files == AllowedFiles::Covered && process.python.is_none() {
        environment
            .entry("PYTHONPYCACHEPREFIX".into())
            .or_insert_with(|| NO_BYTECODE.into());
    }
    environment
}

/// Prepares a worker process, in which piton itself makes the call.
fn prepare_worker(
    invocation: &Invocation,
    confinement: Option<&Confinement>,
    machine: &Machine,
) -> Result<PreparedCall, CallError> {
    let job = match &invocation.action {
        Action::Http(call) => {
            WorkerJob::Http(Box::new(http::HttpJob::new(call, invocation, machine)))
        }
        // `Servers::attend` completes this once a server is running.
        Action::Mcp(_) => {
            let mut work = Work {
                timeout: Some(invocation.timeout),
                confinement: toolchain::open_caches(&invocation.caches, confinement.cloned())?,
                ..Work::default()
            };
            work.environment
                .insert(MARK.into(), machine.run.clone().into());
            return Ok(PreparedCall::plain(work));
        }
        Action::Meta(meta) => {
            return Ok(PreparedCall::plain(enter(meta, invocation, &[], machine)));
        }
        Action::Process(_) | Action::Container(_) => {
            return Err(CallError::NoResult { function: "work" });
        }
    };
    let mut work = Work {
        timeout: Some(invocation.timeout),
        ..job.work(&machine.program)
    };
    work.environment
        .insert(MARK.into(), machine.run.clone().into());
    if matches!(invocation.action, Action::Http(_)) {
        work.environment
            .extend(web::variables(&machine.environment));
    }
    Ok(PreparedCall::plain(work))
}

/// Runs the interpreter with exactly the bytes that were checked.
fn call_python(
    work: &mut Work,
    process: &Process,
    python: &Python,
    (script, source): (&Path, &[u8]),
    invocation: &Invocation,
    machine: &Machine,
) {
    let words: Vec<&str> = process
        .arguments
        .iter()
        .map(|text| text.value.as_str())
        .collect();
    // Words before the script are options of the interpreter.
    let at = words.iter().position(|word| Path::new(word) == script);
    let (options, arguments) = match at {
        Some(at) => (
            words.get(..at).unwrap_or_default(),
            words.get(at + 1..).unwrap_or_default(),
        ),
        None => (&[][..], words.as_slice()),
    };
    let parameters = if python.reads_options {
        Value::Object(serde_json::Map::new())
    } else {
        Value::Object(invocation.parameters.clone())
    };
    let entry = match python.entry {
        PythonEntry::Main => ScriptEntry::Main(&parameters),
        PythonEntry::Execute => ScriptEntry::Execute(&parameters, &machine.root),
        PythonEntry::Script => ScriptEntry::Script,
    };
    let library = machine.root.join(".ai").join("tools").join("lib");
    let run = ScriptRun {
        script,
        source,
        entry,
        arguments,
        lib_imports: &python.lib_imports,
        library: &library,
        files: machine.files,
        beside: python.beside,
    };
    // Python finds its virtual environment by the path that it was started with.
    work.argv = vec![work.program.clone().into()];
    work.argv.extend(options.iter().map(OsString::from));
    work.argv.extend(run.argv());
    work.input = run.input();
    work.channel = if python.entry.function().is_some() {
        Channel::Private
    } else {
        Channel::None
    };
}

/// Gives a process a private home, unless `HOME` is set.
pub(super) fn enter_private_home(
    environment: &mut BTreeMap<OsString, OsString>,
    machine: &Machine,
) -> Result<Option<PrivateFolder>, CallError> {
    if environment.contains_key(OsStr::new("HOME")) {
        return Ok(None);
    }
    let home = private_folder(machine)?;
    environment.insert("HOME".into(), home.path().into());
    Ok(Some(home))
}

/// Creates a folder, readable only by this user, for one call or for the servers of a run.
pub(super) fn private_folder(machine: &Machine) -> Result<PrivateFolder, CallError> {
    let purpose = PrivateUse::Home(&machine.run);
    PrivateFolder::create(&machine.temporary, purpose).map_err(|source| CallError::Home {
        folder: machine.temporary.clone(),
        source,
    })
}

/// Removes private homes that a killed run has left.
pub fn remove_homes(temporary: &Path, run: &str) {
    let prefix = PrivateUse::Home(run).prefix();
    for entry in fs::read_dir(temporary).into_iter().flatten().flatten() {
        // Only folders are ours; a symlink or file of such a name is not.
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && entry.file_name().to_string_lossy().starts_with(&prefix) {
            // Ignore failures: the system cleans its temporary folder.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Finds a program on the `PATH` of an environment.
pub(super) fn find(
    program: &OsStr,
    environment: &BTreeMap<OsString, OsString>,
    folder: &Path,
) -> Result<PathBuf, CallError> {
    let search_path = environment
        .get(OsStr::new("PATH"))
        .map(OsString::as_os_str)
        .unwrap_or_default();
    Ok(resolve(program, search_path, folder)?)
}
