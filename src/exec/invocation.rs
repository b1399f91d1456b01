//! What a tool call will do, fully resolved.
//!
//! Data only: [`super::resolve_call`] creates an [`Invocation`], the policy checks it, `--dry-run`
//! prints it, tests compare it, and [`super::call`] carries it out. Every value from the caller's
//! environment is a secret: a [`MaskedText`] is printed without it.

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

pub use container::{Built, Container, ContainerImage, ContainerNetwork, User, Volume};
pub use http::{EndpointRule, EndpointRules, Endpoints, Http};
pub use mcp::{ArgumentTypes, Mcp, McpTransport, RemoteKind};
pub use meta::Meta;

use super::toolchain::CallCache;
use crate::item::finding::serialize_path;
use crate::item::id::ItemId;
use crate::item::signature::Integrity;
use crate::item::store::Layer;
use crate::item::tool::{Isolation, Requires, ToolKind, ToolOutputs};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Invocation {
    /// All items of the chain: the tool first, its primitive last.
    pub chain: Vec<ChainLink>,
    /// For a tool with several commands, e.g. `create_task`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Checked, with defaults filled in.
    pub parameters: Map<String, Value>,
    pub action: Action,
    #[serde(serialize_with = "seconds")]
    pub timeout: Duration,
    pub isolation: Isolation,
    /// Whether the manifest requires this level, so that a lower one must be refused.
    pub isolation_asked: bool,
    /// Requirements of the tool and of everything that runs it.
    pub requires: Requires,
    /// Variables taken from the caller's environment: required ones and `${VAR}`.
    pub variables: Vec<String>,
    pub mutates_state: Option<bool>,
    /// Globs of the files that the tool declares to write.
    pub writes: Option<Vec<String>>,
    /// Caches outside of the project that its processes may write.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<CallCache>,
    pub outputs: ToolOutputs,
    pub output_schema: Option<Value>,
    /// Where each value came from, by its name in this invocation, e.g. `action.arguments[1]`.
    pub origins: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChainLink {
    /// Without category.
    pub id: ItemId,
    /// The stated category and the folder, where they are not empty: `category/id` names the item too.
    #[serde(skip)]
    pub categories: Vec<String>,
    pub version: String,
    /// As written.
    pub tool_type: String,
    pub kind: ToolKind,
    pub layer: Layer,
    /// The manifest file, as shown to users.
    #[serde(serialize_with = "serialize_path")]
    pub file: PathBuf,
    pub signature: Integrity,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "the one that nearly every call is; there is one of them at a time"
)]
pub enum Action {
    Process(Process),
    Http(Box<Http>),
    Mcp(Box<Mcp>),
    Container(Box<Container>),
    Meta(Box<Meta>),
}

impl Action {
    /// The variables passed to the action.
    pub fn environment(&self) -> &BTreeMap<String, MaskedText> {
        match self {
            Self::Process(process) => &process.environment,
            Self::Http(http) => &http.environment,
            Self::Mcp(mcp) => mcp.environment(),
            Self::Container(container) => &container.environment,
            Self::Meta(meta) => &meta.environment,
        }
    }

    /// The local program that is started, if any.
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

    /// The action as a command line for display.
    pub fn argv(&self) -> Vec<String> {
        match self {
            Self::Process(process) => std::iter::once(process.program.shown())
                .chain(process.arguments.iter().map(MaskedText::shown))
                .map(str::to_owned)
                .collect(),
            Self::Http(http) => http.argv(),
            Self::Mcp(mcp) => mcp.argv(),
            Self::Container(container) => container.argv(),
            Self::Meta(meta) => meta.argv(),
        }
    }

    /// Whether the action may change files of the project; an HTTP request cannot.
    pub fn may_change_files(&self) -> bool {
        !matches!(self, Self::Http(_))
    }

    /// Whether the supervisor of the call does not see the processes that change files: those of a
    /// container engine, or of a server that outlives the call.
    pub fn acts_elsewhere(&self) -> bool {
        matches!(self, Self::Container(_) | Self::Mcp(_))
    }

    pub fn is_container(&self) -> bool {
        matches!(self, Self::Container(_))
    }

    /// Whether it has external effects, which cannot be seen or undone here. The calls of a meta
    /// tool report this themselves.
    pub fn is_external(&self) -> bool {
        match self {
            Self::Http(_) | Self::Mcp(_) => true,
            Self::Process(_) | Self::Container(_) | Self::Meta(_) => false,
        }
    }

    /// Whether it can be repeated without harm, like an HTTP request that only reads or sets.
    pub fn is_repeatable(&self) -> bool {
        matches!(self, Self::Http(http) if crate::exec::http::is_repeatable(&http.method))
    }

    fn add_to(&self, rows: &mut InvocationRows<'_>) {
        match self {
            Self::Process(process) => process.add_to(rows),
            Self::Http(http) => http.add_to(rows),
            Self::Mcp(mcp) => mcp.add_to(rows),
            Self::Container(container) => container.add_to(rows),
            Self::Meta(meta) => meta.add_to(rows),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Process {
    /// A name on `PATH`, or a path.
    pub program: MaskedText,
    /// The place that names the program; `None` for a built-in tool.
    #[serde(skip)]
    pub program_place: Option<String>,
    pub arguments: Vec<MaskedText>,
    #[serde(serialize_with = "serialize_path")]
    pub folder: PathBuf,
    /// All variables of the process, except those for the run and its private home.
    pub environment: BTreeMap<String, MaskedText>,
    /// Written to its standard input, which is then closed.
    #[serde(serialize_with = "length")]
    pub input: Vec<u8>,
    pub script: Option<ScriptFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<Python>,
    /// The packages that a script of Node.js needs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub node_packages: Vec<String>,
    pub limits: ResourceLimits,
    /// A command that succeeds if the program is installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_check: Option<String>,
    /// Shown to the user when the program is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_guide: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScriptFile {
    #[serde(serialize_with = "serialize_path")]
    pub path: PathBuf,
    /// The SHA-256 of the bytes that were checked; other bytes are not run.
    pub sha256: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Python {
    pub entry: PythonEntry,
    /// Whether `main` has no parameters and reads options from its command line.
    pub reads_options: bool,
    pub venv: bool,
    pub dependencies: Vec<String>,
    /// The modules of `.ai/tools/lib/` that it may import, with their files.
    pub lib_imports: BTreeMap<String, PathBuf>,
    #[serde(skip)]
    pub beside: Beside,
}

/// What is called in a Python file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PythonEntry {
    /// `main(**parameters)`.
    Main,
    /// `execute(parameters, project_path)`, as RYE calls it.
    Execute,
    /// The file itself, with arguments.
    #[default]
    Script,
}

impl PythonEntry {
    /// The name of the function that returns the result.
    pub fn function(self) -> Option<&'static str> {
        match self {
            Self::Main => Some("main"),
            Self::Execute => Some("execute"),
            Self::Script => None,
        }
    }
}

/// What else is in the folder of a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Beside {
    /// Only files of the same tool.
    Own,
    /// Anything: the tool is a single file in a shared folder.
    #[default]
    Others,
}

/// Resource limits of a process; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// Bytes of address space.
    pub memory: Option<u64>,
    /// Bytes of any one file.
    pub file_size: Option<u64>,
    pub cpu_seconds: Option<u64>,
    pub open_files: Option<u64>,
    /// Concurrent processes.
    pub processes: Option<u64>,
}

/// A text that may contain secrets.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MaskedText {
    pub value: String,
    /// The text without its secrets; `None` when it has none.
    shown: Option<String>,
}

/// Replaces a secret in output.
pub const REDACTED: &str = "***";

impl MaskedText {
    pub fn plain(value: impl Into<String>) -> Self {
        Self {
            value: value.into(),
            shown: None,
        }
    }

    /// A text that is secret as a whole.
    pub fn secret(value: impl Into<String>) -> Self {
        Self {
            value: value.into(),
            shown: Some(REDACTED.to_owned()),
        }
    }

    /// A text with secret parts, and the same without them.
    pub fn partly_secret(value: impl Into<String>, shown: impl Into<String>) -> Self {
        Self {
            value: value.into(),
            shown: Some(shown.into()),
        }
    }

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

    pub fn has_secret(&self) -> bool {
        self.shown.is_some()
    }
}

impl fmt::Display for MaskedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.shown())
    }
}

impl fmt::Debug for MaskedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Debug output must not reveal secrets either.
        fmt::Debug::fmt(self.shown(), f)
    }
}

impl Serialize for MaskedText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.shown())
    }
}

impl Invocation {
    pub fn id(&self) -> &str {
        self.chain
            .first()
            .map(|link| link.id.as_str())
            .unwrap_or_default()
    }

    /// Whether its stdout is its result.
    pub fn prints_result(&self) -> bool {
        match &self.action {
            Action::Process(process) => process
                .python
                .as_ref()
                .is_none_or(|python| python.entry == PythonEntry::Script),
            Action::Container(_) => true,
            Action::Http(_) | Action::Mcp(_) | Action::Meta(_) => false,
        }
    }

    /// The tool as trailers name it: `id@version`.
    pub fn tool(&self) -> String {
        self.chain
            .first()
            .map(|link| format!("{}@{}", link.id, link.version))
            .unwrap_or_default()
    }
}

/// One line of an invocation for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvocationRow {
    /// For example `action.arguments[1]`.
    pub name: String,
    /// Without secrets, safe to print.
    pub value: String,
    pub origin: Option<String>,
}

impl Invocation {
    /// Everything that will be done, one value per row.
    pub fn rows(&self) -> Vec<InvocationRow> {
        let mut rows = InvocationRows {
            origins: &self.origins,
            rows: Vec::new(),
        };
        let chain: Vec<String> = self
            .chain
            .iter()
            .map(|link| format!("{}@{}", link.id, link.version))
            .collect();
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
        let asked = if self.isolation_asked {
            ", asked for"
        } else {
            ""
        };
        rows.add("isolation", &format!("{}{asked}", self.isolation.as_str()));
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
        for cache in &self.caches {
            let writable = cache.writable.iter().map(|path| path.to_string_lossy());
            let writable: Vec<_> = writable.collect();
            rows.add(&format!("caches.{}", cache.name), &writable.join(", "));
        }
        rows.rows
    }
}

impl Process {
    fn add_to(&self, rows: &mut InvocationRows<'_>) {
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
            rows.add(
                "action.script",
                &format!("{} (sha256 {})", script.path.display(), script.sha256),
            );
        }
        rows.add_list("action.node_packages", &self.node_packages);
        if let Some(python) = &self.python {
            rows.add(
                "action.python.entry",
                python.entry.function().unwrap_or("script"),
            );
            rows.add("action.python.venv", &python.venv.to_string());
            rows.add_list("action.python.dependencies", &python.dependencies);
            for (name, file) in &python.lib_imports {
                rows.add(
                    &format!("action.python.lib_imports.{name}"),
                    &file.to_string_lossy(),
                );
            }
        }
        rows.add_limits(self.limits);
    }
}

struct InvocationRows<'i> {
    origins: &'i BTreeMap<String, String>,
    rows: Vec<InvocationRow>,
}

impl InvocationRows<'_> {
    fn add(&mut self, name: &str, value: &str) {
        let origin = self.origins.get(name).map(|origin| visible(origin));
        self.rows.push(InvocationRow {
            name: visible(name),
            value: visible(value),
            origin,
        });
    }

    fn add_limits(&mut self, limits: ResourceLimits) {
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

/// Escapes control and invisible characters, which could manipulate a terminal or hide text.
fn visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for character in text.chars() {
        let plain = character.is_ascii_graphic()
            || character == ' '
            || character.is_alphanumeric()
            || character == '→';
        if plain {
            visible.push(character);
        } else {
            visible.extend(character.escape_debug());
        }
    }
    visible
}

fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

fn length<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{} bytes", bytes.len()))
}
