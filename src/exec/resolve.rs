//! Resolves an executor chain and parameters into an [`Invocation`].
//!
//! Pure: reads item files and runs nothing; the same items, call and surroundings give the same
//! invocation. Settings are merged along the chain ([`settings`]), placeholders are filled in once
//! ([`placeholder`]), and arguments and variables follow from the resolved runtime ([`command`]).
//! The policy later decides on the result.

mod arguments;
mod bounds;
mod command;
mod container;
mod environment;
mod error;
mod http;
mod inline;
mod mcp;
mod meta;
mod outline;
mod placeholder;
mod script;
mod settings;
mod surroundings;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

use super::chain::{self, ExecutorChain};
use super::description::default_isolation;
use super::invocation::{Action, ChainLink, Invocation};
use super::parameters;
use super::toolchain::{self, CallCache};
use crate::context::Context;
use crate::item::finding::Finding;
use crate::item::signature::{self, Integrity};
use crate::item::store::{Item, ItemStore, Roots};
use crate::item::tool::{
    DeclaredCache, Isolation, LoadedTool, Origin, Requires, Spelling, ToolKind, ToolManifest,
};
use crate::item::validate::{self, place_of};

pub(crate) use environment::{is_always_given, is_public};
pub use error::ResolveError;
pub use outline::{Outline, outline};
use placeholder::Vocabulary;
use settings::{SettingsLink, ToolSettings};
use surroundings::Surroundings;

/// The longest argument, or variable with its name, that Linux passes to a process.
const MAX_WORD: usize = 128 * 1024;

#[derive(Clone, Debug, Default)]
pub struct CallRequest {
    /// For a tool with several commands.
    pub command: Option<String>,
    /// JSON values, not yet checked.
    pub parameters: Map<String, Value>,
}

impl CallRequest {
    /// Takes the command of a tool that has several from the parameter `command`, where callers can give only parameters. A
    /// tool's own parameter of that name stays one.
    pub fn take_command(&mut self, manifest: &ToolManifest) {
        let has_commands = matches!(
            manifest.kind,
            ToolKind::McpServer | ToolKind::Cli | ToolKind::Local | ToolKind::Meta
        ) || !manifest.commands.is_empty();
        let Some(Value::String(command)) = self.parameters.get("command") else {
            return;
        };
        let command = command.clone();
        let is_declared = manifest.parameters.iter().any(|it| it.name == "command");
        let is_known = manifest.commands.contains(&command);
        if self.command.is_some() || !has_commands || (is_declared && !is_known) {
            return;
        }
        if !is_declared {
            self.parameters.remove("command");
        }
        self.command = Some(command);
    }
}

/// What a call may use from the caller.
#[derive(Clone, Debug)]
pub struct CallEnvironment {
    /// The project, where tools run.
    pub root: PathBuf,
    /// For items of the user.
    pub home: Option<PathBuf>,
    /// The caller's environment; only granted variables are taken.
    pub environment: BTreeMap<OsString, OsString>,
}

impl CallEnvironment {
    /// What a call may use from the process that asks for it.
    pub fn of(ctx: &Context) -> Self {
        Self {
            root: ctx.root.clone(),
            home: ctx.home.clone(),
            environment: ctx.environment.variables().clone(),
        }
    }
}

/// Everything that an action is resolved from.
#[derive(Debug)]
struct ResolveContext<'c> {
    store: &'c ItemStore,
    tool: &'c LoadedTool,
    /// The tool and everything that runs it.
    tools: &'c [&'c LoadedTool],
    chain: &'c ExecutorChain<'c>,
    settings: &'c ToolSettings<'c>,
    requires: &'c Requires,
    caches: &'c [CallCache],
    roots: &'c Roots,
    around: &'c CallEnvironment,
    command: Option<&'c str>,
    parameters: &'c Map<String, Value>,
}

impl<'c> ResolveContext<'c> {
    /// The values of placeholders; `{tool_dir}` is the folder of `owner`.
    fn vocabulary(
        &self,
        owner: &LoadedTool,
        script: Option<String>,
    ) -> Result<Vocabulary<'c>, ResolveError> {
        let folder = owner
            .folder
            .as_deref()
            .or_else(|| owner.file.parent())
            .unwrap_or(Path::new(""));
        Ok(Vocabulary {
            surroundings: Surroundings::of(self.tools, folder, self.around),
            manifest: &self.tool.manifest,
            parameters: self.parameters,
            around: self.around,
            script,
            tool_dir: folder
                .to_str()
                .ok_or_else(|| ResolveError::NotUnicode(folder.to_path_buf()))?
                .to_owned(),
        })
    }
}

#[derive(Debug)]
struct ResolvedAction {
    action: Action,
    timeout: Duration,
    /// The caller's variables that placeholders use.
    variables: BTreeSet<String>,
}

/// What the end of a chain does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChainTarget {
    Process,
    Http,
    Mcp,
    Container,
    Meta,
}

pub fn resolve_call(
    store: &ItemStore,
    item: &Item,
    call: &CallRequest,
    around: &CallEnvironment,
) -> Result<Invocation, ResolveError> {
    let tool = item
        .as_tool()
        .ok_or_else(|| ResolveError::NotATool(item.id.clone()))?;
    let roots = store.roots();
    let broken = |reason| ResolveError::Chain {
        reason,
        at: Box::new(origin(tool, "executor", roots)),
    };
    let chain = chain::resolve(store, tool).map_err(broken)?;
    chain.check_all_kinds().map_err(broken)?;
    let items: Vec<&Item> = std::iter::once(item)
        .chain(chain.executors.iter().copied())
        .collect();
    let links = items
        .iter()
        .filter_map(|item| link(item, roots))
        .collect::<Vec<_>>();
    for item in &items {
        check_stamp(item, roots)?;
    }
    for item in &items {
        refuse_invalid(item, &item.errors)?;
    }
    let target = target(tool, &chain, roots)?;
    check_command(tool, call)?;

    let mut origins = BTreeMap::new();
    let (given, wanted_timeout) = take_timeout(tool, call)?;
    let parameters = complete(tool, call, given, &mut origins)?;

    let settings_links = SettingsLink::all(item, &chain, roots);
    let tools: Vec<&LoadedTool> = items.iter().filter_map(|item| item.as_tool()).collect();
    let settings = ToolSettings::merge(&settings_links, &tools, roots);
    let requires = requires(&tools);
    let caches = caches(&tools, around, roots)?;
    let context = ResolveContext {
        store,
        tool,
        tools: &tools,
        chain: &chain,
        settings: &settings,
        requires: &requires,
        caches: &caches,
        roots,
        around,
        command: call.command.as_deref(),
        parameters: &parameters,
    };
    let resolve = match target {
        ChainTarget::Process => command::resolve,
        ChainTarget::Http => http::resolve,
        ChainTarget::Mcp => mcp::resolve,
        ChainTarget::Container => container::resolve,
        ChainTarget::Meta => meta::resolve,
    };
    let resolved = resolve(&context, wanted_timeout, &mut origins)?;
    check_script(item, tool, &resolved.action, roots)?;
    // The errors of resolving a setting are more exact than the rules about it.
    for item in &items {
        refuse_invalid(item, &validate::errors_of_tool(item, store))?;
    }

    let manifest = &tool.manifest;
    let (mut isolation, isolation_asked) = isolation(tool, roots, &mut origins);
    if let Action::Container(container) = &resolved.action
        && !isolation_asked
    {
        isolation = container.isolation();
    }
    Ok(Invocation {
        chain: links,
        command: call.command.clone(),
        parameters,
        action: resolved.action,
        timeout: resolved.timeout,
        isolation,
        isolation_asked,
        variables: environment::taken(&requires.environment, resolved.variables),
        requires,
        mutates_state: manifest.mutates_state,
        writes: manifest.writes.clone(),
        caches,
        outputs: manifest.outputs.clone(),
        output_schema: manifest.output_schema.clone(),
        origins,
    })
}

/// The value as text; lists and objects as JSON.
fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn link(item: &Item, roots: &Roots) -> Option<ChainLink> {
    let manifest = &item.as_tool()?.manifest;
    Some(ChainLink {
        id: item.id.clone(),
        categories: item.categories().map(str::to_owned).collect(),
        version: manifest.version.clone(),
        tool_type: manifest.tool_type.clone(),
        kind: manifest.kind,
        layer: item.layer,
        file: roots.display(&item.file),
        signature: item.integrity.clone(),
    })
}

/// The position of a field in a tool's file.
fn origin(tool: &LoadedTool, path: &str, roots: &Roots) -> Origin {
    Origin::new(roots.display(&tool.file), place_of(&tool.node, path))
}

fn describe(tool: &LoadedTool, path: &str, roots: &Roots) -> String {
    let origin = origin(tool, path, roots);
    format!(
        "{}, {}:{}",
        tool.manifest.tool_id,
        origin.file.display(),
        origin.line
    )
}

/// Refuses an invalid item: a field that it means to bound itself by may be the wrong one.
fn refuse_invalid(item: &Item, errors: &[Finding]) -> Result<(), ResolveError> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(ResolveError::Invalid {
        id: item.id.clone(),
        findings: errors.to_vec(),
    })
}

/// Refuses a script that was swapped after the stamp of its tool was checked.
fn check_script(
    item: &Item,
    tool: &LoadedTool,
    action: &Action,
    roots: &Roots,
) -> Result<(), ResolveError> {
    let script = match action {
        Action::Process(process) => process.script.as_ref(),
        _ => None,
    };
    let (Some(script), Integrity::Valid { hash, .. }) = (script, &item.integrity) else {
        return Ok(());
    };
    let read = (script.path.as_path(), script.sha256.as_str());
    if signature::covers(tool.folder.as_deref(), &tool.file, hash, read) {
        return Ok(());
    }
    Err(ResolveError::Tampered {
        id: item.id.clone(),
        file: roots.display(&item.file),
        line: 1,
        reason: "its script changed while the stamp was checked".to_owned(),
    })
}

/// Refuses an item that was changed after it was stamped.
pub(crate) fn check_stamp(item: &Item, roots: &Roots) -> Result<(), ResolveError> {
    let head = |hash: &str| hash.chars().take(12).collect::<String>();
    let (reason, line) = match &item.integrity {
        Integrity::Mismatch { stamped, actual } => (
            format!("stamped {}…, found {}…", head(stamped), head(actual)),
            1,
        ),
        Integrity::Invalid { reason, line } => ((*reason).to_owned(), *line),
        Integrity::Unsigned | Integrity::Valid { .. } | Integrity::Foreign { .. } => return Ok(()),
    };
    Err(ResolveError::Tampered {
        id: item.id.clone(),
        file: roots.display(&item.file),
        line,
        reason,
    })
}

/// What a tool does; an error if it does not say, or only runs others.
fn target(
    tool: &LoadedTool,
    chain: &ExecutorChain<'_>,
    roots: &Roots,
) -> Result<ChainTarget, ResolveError> {
    let manifest = &tool.manifest;
    let id = manifest.tool_id.clone();
    let nothing = |missing, example| {
        Err(ResolveError::NothingToRun {
            id: id.clone(),
            missing,
            example,
            at: Box::new(origin(tool, "config", roots)),
        })
    };
    match manifest.kind {
        ToolKind::Primitive | ToolKind::Runtime => {
            return Err(ResolveError::RunsOthers {
                id,
                kind: manifest.kind,
            });
        }
        ToolKind::Script | ToolKind::Cli | ToolKind::Local => {}
        ToolKind::Api => return Ok(ChainTarget::Http),
        ToolKind::McpServer | ToolKind::McpTool => return Ok(ChainTarget::Mcp),
        ToolKind::Docker => return Ok(ChainTarget::Container),
        ToolKind::Meta => return Ok(ChainTarget::Meta),
        kind @ (ToolKind::Directive | ToolKind::Knowledge) => {
            return Err(ResolveError::Unsupported { id, kind });
        }
    }
    match chain.executors.last() {
        Some(primitive) if primitive.id.as_str() == "subprocess" => Ok(ChainTarget::Process),
        // The remaining primitive is `http_client`: for containers, or for a runtime at a URL.
        Some(_)
            if chain
                .runtime()
                .is_some_and(|it| it.id.as_str() == "docker_runtime") =>
        {
            Ok(ChainTarget::Container)
        }
        Some(_) => Ok(ChainTarget::Http),
        None if tool.spelling == Spelling::ToolRoot && manifest.kind == ToolKind::Cli => {
            nothing("cli_specific", "`cli_specific: {executable: NAME}`")
        }
        None if tool.spelling == Spelling::ToolRoot
            && manifest.config.contains_key("entrypoint") =>
        {
            nothing(
                "local_specific.runtime",
                "`runtime: python`, `bash` or `node`",
            )
        }
        None if tool.spelling == Spelling::ToolRoot => nothing(
            "local_specific",
            "`local_specific: {entry_point: FILE, runtime: python}`",
        ),
        None => nothing("executor", "`executor:` with a runtime or `subprocess`"),
    }
}

/// Checks that the tool has the command.
fn check_command(tool: &LoadedTool, call: &CallRequest) -> Result<(), ResolveError> {
    let Some(command) = &call.command else {
        return Ok(());
    };
    let manifest = &tool.manifest;
    let fits = if manifest.commands.is_empty() {
        // It must not be taken for an option.
        manifest.kind != ToolKind::Script && !command.is_empty() && !command.starts_with('-')
    } else {
        manifest.commands.contains(command)
    };
    if fits && !command.contains('\0') {
        return Ok(());
    }
    Err(ResolveError::UnknownCommand {
        id: manifest.tool_id.clone(),
        command: command.clone(),
        known: manifest.commands.clone(),
    })
}

/// Removes the parameter `timeout`, unless the tool declares it.
fn take_timeout(
    tool: &LoadedTool,
    call: &CallRequest,
) -> Result<(Map<String, Value>, Option<f64>), ResolveError> {
    let mut parameters = call.parameters.clone();
    if tool
        .manifest
        .parameters
        .iter()
        .any(|parameter| parameter.name == "timeout")
    {
        return Ok((parameters, None));
    }
    let Some(value) = parameters
        .remove("timeout")
        .filter(|value| !value.is_null())
    else {
        return Ok((parameters, None));
    };
    match value.as_f64().filter(|seconds| *seconds > 0.0) {
        Some(seconds) => Ok((parameters, Some(seconds))),
        None => Err(ResolveError::Parameters {
            id: tool.manifest.tool_id.clone(),
            problems: vec![crate::item::params::ParamProblem {
                pointer: "/timeout".to_owned(),
                message: "parameter `timeout` is not a positive number of seconds".to_owned(),
                suggestion: Some("e.g. `timeout=60`".to_owned()),
            }],
        }),
    }
}

/// Checks the parameters and fills in defaults.
fn complete(
    tool: &LoadedTool,
    call: &CallRequest,
    mut given: Map<String, Value>,
    origins: &mut BTreeMap<String, String>,
) -> Result<Map<String, Value>, ResolveError> {
    let manifest = &tool.manifest;
    // A tool may declare the command as a parameter.
    if let Some(command) = &call.command
        && manifest
            .parameters
            .iter()
            .any(|parameter| parameter.name == "command")
    {
        given
            .entry("command")
            .or_insert_with(|| Value::from(command.as_str()));
    }
    let names: BTreeSet<String> = given.keys().cloned().collect();
    let parameters =
        parameters::validate(manifest, given).map_err(|problems| ResolveError::Parameters {
            id: manifest.tool_id.clone(),
            problems,
        })?;
    for name in parameters.keys() {
        let origin = if names.contains(name) {
            format!("parameter {name}")
        } else {
            "default".to_owned()
        };
        origins.insert(format!("parameters.{name}"), origin);
    }
    Ok(parameters)
}

/// The isolation level of the tool, or the default of its kind; and whether the tool asked for it.
fn isolation(
    tool: &LoadedTool,
    roots: &Roots,
    origins: &mut BTreeMap<String, String>,
) -> (Isolation, bool) {
    let manifest = &tool.manifest;
    let origin = manifest.isolation.map_or_else(
        || "default".to_owned(),
        |_| describe(tool, "isolation", roots),
    );
    origins.insert("isolation".to_owned(), origin);
    let usual = || default_isolation(manifest.kind);
    (
        manifest
            .isolation
            .or_else(usual)
            .unwrap_or(Isolation::Trusted),
        manifest.isolation.is_some(),
    )
}

/// The requirements of the tool and everything that runs it.
fn requires(tools: &[&LoadedTool]) -> Requires {
    let mut all = Requires::default();
    for tool in tools {
        let own = &tool.manifest.requires;
        for (list, more) in [
            (&mut all.commands, &own.commands),
            (&mut all.environment, &own.environment),
            (&mut all.mcp, &own.mcp),
        ] {
            for name in more {
                if !list.contains(name) {
                    list.push(name.clone());
                }
            }
        }
    }
    all
}

/// The caches of the tool and of everything that runs it, on this machine.
fn caches(
    tools: &[&LoadedTool],
    around: &CallEnvironment,
    roots: &Roots,
) -> Result<Vec<CallCache>, ResolveError> {
    let mut seen: Vec<&DeclaredCache> = Vec::new();
    let mut caches = Vec::new();
    for tool in tools {
        for declared in &tool.manifest.caches {
            if seen.contains(&declared) {
                continue;
            }
            seen.push(declared);
            let found = toolchain::find_cache(declared, around);
            if found.is_empty() {
                return Err(ResolveError::Setting {
                    field: "caches".to_owned(),
                    reason: format!("names `{declared}`, but there is no home folder"),
                    hint: "set `HOME`".to_owned(),
                    at: Some(Box::new(origin(tool, "caches", roots))),
                });
            }
            caches.extend(found);
        }
    }
    Ok(caches)
}

#[cfg(test)]
mod tests;
