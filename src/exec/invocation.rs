//! What a tool call will do, fully resolved.
//!
//! Data only: [`super::lower()`] makes an [`Invocation`], the policy judges it, `--dry-run` prints it,
//! tests compare it, and [`super::call`] carries it out. Whatever came from the environment of the
//! caller is a secret: a [`Text`] shows itself without it.

mod container;
mod http;
mod mcp;
mod meta;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

pub use container::{Built, Container, Image, Network, User, Volume};
pub use http::{EndpointRule, EndpointRules, Endpoints, Http};
pub use mcp::{Mcp, McpTransport, RemoteKind, Types};
pub use meta::Meta;

use crate::item::finding::serialize_path;
use crate::item::id::ItemId;
use crate::item::signature::Integrity;
use crate::item::store::Layer;
use crate::item::tool::{Isolation, Outputs, Requires, ToolKind};

/// A tool call, resolved to what will be done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Invocation {
    /// The tool first, its primitive last; every item that takes part, with what is known about it.
    pub chain: Vec<Link>,
    /// The command of a tool that has several, e.g. `create_task`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The parameters, checked, with defaults filled in.
    pub parameters: Map<String, Value>,
    /// What is done.
    pub action: Action,
    /// How long it may take.
    #[serde(serialize_with = "seconds")]
    pub timeout: Duration,
    /// How far it is kept from the machine.
    pub isolation: Isolation,
    /// Whether that level was asked for, so that a lower one must be refused.
    pub isolation_asked: bool,
    /// What must be there: of the tool and of everything that runs it.
    pub requires: Requires,
    /// The variables that it takes from the caller's environment: required ones and `${VAR}`.
    pub variables: Vec<String>,
    /// What the manifest says about changing state.
    pub mutates_state: Option<bool>,
    /// The globs of files it says it writes.
    pub writes: Option<Vec<String>>,
    /// How its result is read.
    pub outputs: Outputs,
    /// The JSON Schema of its result.
    pub output_schema: Option<Value>,
    /// Where each value came from, by its name in this invocation, e.g. `action.arguments[1]`.
    pub origins: BTreeMap<String, String>,
}

/// One item of an executor chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Link {
    /// Its id.
    pub id: ItemId,
    /// Its version.
    pub version: String,
    /// Its type as written.
    pub tool_type: String,
    /// What it is.
    pub kind: ToolKind,
    /// Where it comes from.
    pub layer: Layer,
    /// The file that describes it, as people read it.
    #[serde(serialize_with = "serialize_path")]
    pub file: PathBuf,
    /// Whether its content is what was stamped.
    pub signature: Integrity,
}

/// What is done at the end of the chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "the one that nearly every call is; there is one of them at a time")]
pub enum Action {
    /// A process is run.
    Process(Process),
    /// An HTTP request is made.
    Http(Box<Http>),
    /// A tool of another MCP server is called.
    Mcp(Box<Mcp>),
    /// A container is run.
    Container(Box<Container>),
    /// Other tools are called.
    Meta(Box<Meta>),
}

impl Action {
    /// The variables that what is done gets.
    pub fn environment(&self) -> &BTreeMap<String, Text> {
        match self {
            Self::Process(process) => &process.environment,
            Self::Http(http) => &http.environment,
            Self::Mcp(mcp) => mcp.environment(),
            Self::Container(container) => &container.environment,
            Self::Meta(meta) => &meta.environment,
        }
    }

    /// The program of this machine that is started, if one is.
    pub fn program(&self) -> Option<&Process> {
        match self {
            Self::Process(process) => Some(process),
            Self::Mcp(mcp) => match &mcp.transport {
                McpTransport::Stdio(process) => Some(process),
                McpTransport::Remote { .. } => None,
            },
            Self::Http(_) | Self::Container(_) | Self::Meta(_) => None,
        }
    }

    /// What is done, in the words that a person would type.
    pub fn words(&self) -> Vec<String> {
        match self {
            Self::Process(process) => std::iter::once(process.program.shown())
                .chain(process.arguments.iter().map(Text::shown))
                .map(str::to_owned)
                .collect(),
            Self::Http(http) => http.words(),
            Self::Mcp(mcp) => mcp.words(),
            Self::Container(container) => container.words(),
            Self::Meta(meta) => meta.words(),
        }
    }

    /// Whether what is done may reach the files of the project; an HTTP request cannot.
    pub fn may_change_files(&self) -> bool {
        !matches!(self, Self::Http(_))
    }

    /// Whether files are changed by processes that the supervisor of the call does not see: those of an engine of
    /// containers, and of a server that outlives the call.
    pub fn acts_elsewhere(&self) -> bool {
        matches!(self, Self::Container(_) | Self::Mcp(_))
    }

    /// Whether it runs in a container.
    pub fn is_container(&self) -> bool {
        matches!(self, Self::Container(_))
    }

    /// Whether it has effects elsewhere, which nobody here can see or take back. Of a meta tool only the calls
    /// that it makes can have any, and each of them says so itself.
    pub fn is_external(&self) -> bool {
        match self {
            Self::Http(_) | Self::Mcp(_) => true,
            Self::Process(_) | Self::Container(_) | Self::Meta(_) => false,
        }
    }

    /// Whether it can be done twice without harm, as an HTTP request that only reads or sets.
    pub fn is_repeatable(&self) -> bool {
        matches!(self, Self::Http(http) if crate::exec::http::is_repeatable(&http.method))
    }

    fn add_to(&self, rows: &mut Rows<'_>) {
        match self {
            Self::Process(process) => process.add_to(rows),
            Self::Http(http) => http.add_to(rows),
            Self::Mcp(mcp) => mcp.add_to(rows),
            Self::Container(container) => container.add_to(rows),
            Self::Meta(meta) => meta.add_to(rows),
        }
    }
}

/// A process to run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Process {
    /// The program, as a name on the search path or as a path.
    pub program: Text,
    /// Its arguments.
    pub arguments: Vec<Text>,
    /// The folder it runs in.
    #[serde(serialize_with = "serialize_path")]
    pub folder: PathBuf,
    /// Exactly the variables it gets, but for those that name the run and its private home.
    pub environment: BTreeMap<String, Text>,
    /// What it reads from its standard input; then that is closed.
    #[serde(serialize_with = "length")]
    pub input: Vec<u8>,
    /// The script that it runs, if it runs one.
    pub script: Option<Script>,
    /// What more a Python script needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<Python>,
    /// What it may use up.
    pub limits: Limits,
    /// A command that succeeds when the program is installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_check: Option<String>,
    /// What a person is told when the program is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_guide: Option<String>,
}

/// The file that an interpreter is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Script {
    /// The file.
    #[serde(serialize_with = "serialize_path")]
    pub path: PathBuf,
    /// The sha256 of its bytes as they were judged; others are not run.
    pub sha256: String,
}

/// What a Python script needs besides its interpreter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Python {
    /// Whether `main(**parameters)` is called; otherwise it is a script with arguments.
    pub calls_main: bool,
    /// Whether it runs in a virtual environment.
    pub venv: bool,
    /// The packages of that environment.
    pub dependencies: Vec<String>,
    /// The modules of `.ai/tools/lib/` that it may import, with their files.
    pub lib_imports: BTreeMap<String, PathBuf>,
    /// What lies beside it.
    #[serde(skip)]
    pub beside: Beside,
}

/// What lies beside a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Beside {
    /// Files of the same tool, which has the folder for itself.
    Own,
    /// Anything: the tool is a single file in a folder of many.
    #[default]
    Others,
}

/// What a process may use up; none is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of address space.
    pub memory: Option<u64>,
    /// Bytes of any one file.
    pub file_size: Option<u64>,
    /// Seconds of processor time.
    pub cpu_seconds: Option<u64>,
    /// Open files.
    pub open_files: Option<u64>,
    /// Processes at one time.
    pub processes: Option<u64>,
}

/// A text that may hold secrets.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text {
    /// The text.
    pub value: String,
    /// The text without its secrets; none when it has none.
    shown: Option<String>,
}

/// What stands in the place of a secret.
pub const REDACTED: &str = "***";

impl Text {
    /// A text without secrets.
    pub fn plain(value: impl Into<String>) -> Self {
        Self { value: value.into(), shown: None }
    }

    /// A text that is a secret as a whole.
    pub fn secret(value: impl Into<String>) -> Self {
        Self { value: value.into(), shown: Some(REDACTED.to_owned()) }
    }

    /// A text of which parts are secret, and the same without them.
    pub fn partly_secret(value: impl Into<String>, shown: impl Into<String>) -> Self {
        Self { value: value.into(), shown: Some(shown.into()) }
    }

    /// Appends another text.
    pub fn push(&mut self, other: &Self) {
        if self.shown.is_some() || other.shown.is_some() {
            let mut shown = self.shown.take().unwrap_or_else(|| self.value.clone());
            shown.push_str(other.shown());
            self.shown = Some(shown);
        }
        self.value.push_str(&other.value);
    }

    /// The text without its secrets.
    pub fn shown(&self) -> &str {
        self.shown.as_deref().unwrap_or(&self.value)
    }

    /// Whether it holds a secret.
    pub fn has_secret(&self) -> bool {
        self.shown.is_some()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.shown())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is printed to find a mistake must not tell secrets either.
        fmt::Debug::fmt(self.shown(), f)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.shown())
    }
}

impl Invocation {
    /// The id of the tool.
    pub fn id(&self) -> &str {
        self.chain.first().map(|link| link.id.as_str()).unwrap_or_default()
    }

    /// Whether what is printed while it runs is its result.
    pub fn prints_result(&self) -> bool {
        match &self.action {
            Action::Process(process) => process.python.as_ref().is_none_or(|python| !python.calls_main),
            Action::Container(_) => true,
            Action::Http(_) | Action::Mcp(_) | Action::Meta(_) => false,
        }
    }

    /// The tool, as trailers name it: `id@version`.
    pub fn tool(&self) -> String {
        self.chain.first().map(|link| format!("{}@{}", link.id, link.version)).unwrap_or_default()
    }
}

/// One line of an invocation, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The name of the value, e.g. `action.arguments[1]`.
    pub name: String,
    /// The value without secrets, safe to show.
    pub value: String,
    /// Where it came from, where that is known.
    pub origin: Option<String>,
}

impl Invocation {
    /// Everything that will be done, one value a row, in the order in which people ask for it.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Rows { origins: &self.origins, rows: Vec::new() };
        let chain: Vec<String> = self.chain.iter().map(|link| format!("{}@{}", link.id, link.version)).collect();
        rows.add("chain", &chain.join(" → "));
        for link in &self.chain {
            let signature = match link.signature {
                Integrity::Unsigned => "unsigned",
                Integrity::Valid { .. } => "stamp is valid",
                Integrity::Mismatch { .. } | Integrity::Invalid { .. } => "stamp is wrong",
                Integrity::Foreign { .. } => "stamp of another kind",
            };
            let from = if link.layer == Layer::Builtin {
                "built in".to_owned()
            } else {
                format!("{}, {}, {signature}", link.layer, link.file.display())
            };
            rows.add(&format!("chain.{}", link.id), &from);
        }
        if let Some(command) = &self.command {
            rows.add("command", command);
        }
        for (name, value) in &self.parameters {
            rows.add(&format!("parameters.{name}"), &value.to_string());
        }
        self.action.add_to(&mut rows);
        rows.add("timeout", &format!("{} s", self.timeout.as_secs_f64()));
        let asked = if self.isolation_asked { ", asked for" } else { "" };
        rows.add("isolation", &format!("{}{asked}", level(self.isolation)));
        for (name, list) in [
            ("requires.commands", &self.requires.commands),
            ("requires.environment", &self.requires.environment),
            ("requires.mcp", &self.requires.mcp),
            ("variables", &self.variables),
        ] {
            rows.add_list(name, list);
        }
        if let Some(mutates) = self.mutates_state {
            rows.add("mutates_state", &mutates.to_string());
        }
        if let Some(writes) = &self.writes {
            rows.add("writes", &writes.join(", "));
        }
        rows.rows
    }
}

impl Process {
    fn add_to(&self, rows: &mut Rows<'_>) {
        rows.add("action.program", self.program.shown());
        for (at, argument) in self.arguments.iter().enumerate() {
            rows.add(&format!("action.arguments[{at}]"), argument.shown());
        }
        rows.add("action.folder", &self.folder.to_string_lossy());
        for (name, value) in &self.environment {
            rows.add(&format!("action.environment.{name}"), value.shown());
        }
        rows.add("action.input", &format!("{} bytes", self.input.len()));
        if let Some(script) = &self.script {
            rows.add("action.script", &format!("{} (sha256 {})", script.path.display(), script.sha256));
        }
        if let Some(python) = &self.python {
            rows.add("action.python.calls_main", &python.calls_main.to_string());
            rows.add("action.python.venv", &python.venv.to_string());
            rows.add_list("action.python.dependencies", &python.dependencies);
            for (name, file) in &python.lib_imports {
                rows.add(&format!("action.python.lib_imports.{name}"), &file.to_string_lossy());
            }
        }
        rows.add_limits(self.limits);
    }
}

/// Rows in the making.
struct Rows<'i> {
    origins: &'i BTreeMap<String, String>,
    rows: Vec<Row>,
}

impl Rows<'_> {
    fn add(&mut self, name: &str, value: &str) {
        let origin = self.origins.get(name).map(|origin| visible(origin));
        self.rows.push(Row { name: visible(name), value: visible(value), origin });
    }

    fn add_limits(&mut self, limits: Limits) {
        for (name, limit) in [
            ("memory", limits.memory),
            ("file_size", limits.file_size),
            ("cpu_seconds", limits.cpu_seconds),
            ("open_files", limits.open_files),
            ("processes", limits.processes),
        ] {
            if let Some(limit) = limit {
                self.add(&format!("action.limits.{name}"), &limit.to_string());
            }
        }
    }

    fn add_list(&mut self, name: &str, list: &[String]) {
        if !list.is_empty() {
            self.add(name, &list.join(", "));
        }
    }
}

/// A text in which nothing can steer a terminal or hide: what is invisible is written as an escape.
fn visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for character in text.chars() {
        let plain = character.is_ascii_graphic() || character == ' ' || character.is_alphanumeric() || character == '→';
        if plain {
            visible.push(character);
        } else {
            visible.extend(character.escape_debug());
        }
    }
    visible
}

fn level(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::Trusted => "trusted",
        Isolation::Standard => "standard",
        Isolation::Sandboxed => "sandboxed",
        Isolation::Restricted => "restricted",
    }
}

fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

fn length<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{} bytes", bytes.len()))
}
