//! What a call will do and whether it may, before anything runs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::checkpoint::path::RepoPath;
use crate::checkpoint::secret::redacted;
use crate::config::SignatureRequirement;
use crate::context::Context;
use crate::exec::call::Asked;
use crate::exec::invocation::{Action, Invocation, Link, Process};
use crate::exec::subprocess::SubprocessError;
use crate::exec::{Call, ResolveError, Surroundings, parameters, resolve_call, subprocess};
use crate::item::directive::Directive;
use crate::item::finding::{Finding, Severity};
use crate::item::id::ItemId;
use crate::item::signature::Integrity;
use crate::item::store::{Item, ItemKind, ItemStore, Layer};
use crate::item::tool::Isolation;
use crate::journal::RunId;
use crate::journal::event::ToolCall;
use crate::policy::{self, Authority, Caller, Denial, Permission, WriteRules};
use crate::problem::{Code, Problem};
use crate::run::author::{self, AuthorError, SignedBy};
use crate::run::directive::pin;
use crate::run::error::RunError;
use crate::run::settle::Declared;

/// The longest text of a parameter that a journal holds.
const MOST_TEXT: usize = 1024;

/// A tool to call.
#[derive(Clone, Debug, Default)]
pub struct ToolRequest {
    /// The tool: `id` or `category/id`.
    pub id: String,
    /// The command of a tool that has several.
    pub command: Option<String>,
    /// Its parameters.
    pub parameters: Map<String, Value>,
    /// Parameters as they were typed, `name=value`.
    pub words: Vec<String>,
    /// Whether a change that the tool did not announce is a failure.
    pub strict: bool,
    /// Whether a lower isolation than the one asked for will do.
    pub allow_degraded: bool,
}

/// What a call will do, and what is said about it.
#[derive(Debug, Serialize)]
pub struct ToolPlan {
    /// What will be done.
    pub invocation: Invocation,
    /// What it needs and is allowed.
    pub permissions: Vec<Permission>,
    /// What it needs and is not allowed.
    pub denials: Vec<Denial>,
    /// How far it really is kept from the machine.
    pub isolation: Isolation,
    /// Why that is less than the level in the invocation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// Where items that are not signed come from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsigned: Vec<PathBuf>,
    /// Who signed the others, where `signature.require` asks for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub authors: Vec<SignedBy>,
    /// Whether it may reach addresses of this machine and its network.
    #[serde(skip)]
    writes: WriteRules,
    #[serde(skip)]
    strict: bool,
    #[serde(skip)]
    allow_degraded: bool,
    /// The tool as it was asked for.
    #[serde(skip)]
    pub(super) named: String,
    /// Its items, and those of the tools that it may call, that have no valid stamp.
    #[serde(skip)]
    unstamped: Vec<(ItemId, Layer)>,
}

/// What the calls that a meta tool makes are planned with: the same items, on the same authority.
#[derive(Clone, Copy, Debug)]
pub struct Planner<'p> {
    /// Every item that can be named.
    pub store: &'p ItemStore,
    /// On whose authority the meta tool is called.
    pub authority: &'p Authority<'p>,
}

impl Planner<'_> {
    /// Resolves and judges a call that another one asks for.
    pub(super) fn plan(&self, ctx: &Context, above: &ToolPlan, id: &str, asked: Asked) -> Result<ToolPlan, RunError> {
        let request = ToolRequest {
            id: id.to_owned(),
            command: asked.command,
            parameters: asked.arguments,
            words: Vec::new(),
            strict: above.strict,
            allow_degraded: above.allow_degraded,
        };
        plan(ctx, self.store, &request, self.authority)
    }
}

/// Resolves a call and judges it.
pub fn plan(
    ctx: &Context,
    store: &ItemStore,
    request: &ToolRequest,
    authority: &Authority<'_>,
) -> Result<ToolPlan, RunError> {
    let item = store.find(ItemKind::Tool, &request.id)?;
    let mut call = Call { command: request.command.clone(), parameters: request.parameters.clone() };
    if let Some(tool) = item.as_tool() {
        let wrong = |problems| ResolveError::Parameters { id: item.id.clone(), problems };
        call.parameters.extend(parameters::from_words(&tool.manifest, &request.words).map_err(wrong)?);
    }
    let around = Surroundings {
        root: ctx.root.clone(),
        home: ctx.home.clone(),
        environment: ctx.environment.variables().clone(),
    };
    let mut invocation = resolve_call(store, item, &call, &around)?;
    let items = pin::links(store, &request.id);
    let (unstamped, authors) = judge_signatures(ctx, &items, &invocation)?;
    let verdict = policy::judge(authority, &invocation);
    policy::bound(authority, &mut invocation);
    let writes = WriteRules::of(authority, &invocation);
    if verdict.denials.is_empty() {
        require(ctx, &invocation)?;
    }
    let (isolation, degraded) = isolation(&invocation, request.allow_degraded)?;
    Ok(ToolPlan {
        permissions: verdict.permissions,
        denials: verdict.denials,
        isolation,
        degraded,
        unsigned: unstamped.iter().map(|item| ctx.shown_path(&store.roots().display(&item.file))).collect(),
        authors,
        invocation,
        writes,
        strict: request.strict,
        allow_degraded: request.allow_degraded,
        named: request.id.clone(),
        unstamped: unstamped.iter().map(|item| (item.id.clone(), item.layer)).collect(),
    })
}

/// On whose authority a call by itself is made: that of a directive, or of whoever makes it.
pub fn authority_of<'s>(
    store: &'s ItemStore,
    directive: Option<&str>,
    otherwise: Authority<'s>,
) -> Result<Authority<'s>, RunError> {
    let Some(id) = directive else { return Ok(otherwise) };
    let found = find_directive(store, id)?;
    Ok(Authority::Directives(vec![Caller { name: found.name.as_str(), grants: &found.permissions }]))
}

/// Parameters as a journal holds them.
pub fn told_parameters(parameters: &Map<String, Value>) -> Map<String, Value> {
    parameters.iter().map(|(name, value)| (name.clone(), told(name, value))).collect()
}

/// A directive that limits a call. One with mistakes might have meant to deny more than it says.
fn find_directive<'s>(store: &'s ItemStore, id: &str) -> Result<&'s Directive, RunError> {
    let item = store.find(ItemKind::Directive, id).map_err(RunError::NoDirective)?;
    let file = store.roots().display(&item.file);
    let wrong = store.findings().filter(|found| found.file == file && found.severity == Severity::Error);
    let findings: Vec<Finding> = wrong.cloned().collect();
    let parsed = item.as_directive().filter(|_| findings.is_empty());
    parsed.ok_or_else(|| RunError::InvalidDirective { id: id.to_owned(), findings })
}

impl ToolPlan {
    /// What of it is not signed, in words.
    pub fn unsigned_note(&self) -> Option<String> {
        author::unsigned_note(self.unstamped.iter().map(|(id, layer)| (id.as_str(), *layer)))
    }

    /// The call, as it is written down.
    pub(super) fn written_down(&self) -> ToolCall {
        let chain = self.invocation.chain.iter().map(|link| format!("{}@{}", link.id, link.version));
        ToolCall {
            chain: chain.collect(),
            command: self.invocation.command.clone(),
            parameters: told_parameters(&self.invocation.parameters),
            permissions: self.permissions.clone(),
            isolation: self.isolation.as_str().to_owned(),
            degraded: self.degraded.clone(),
            authors: self.authors.clone(),
            external: self.invocation.action.is_external(),
            repeatable: self.invocation.action.is_repeatable(),
        }
    }

    /// What the tool says about changing files.
    pub(super) fn declared(&self) -> Declared {
        match self.invocation.mutates_state {
            Some(false) if self.strict => Declared::NothingStrictly,
            Some(false) => Declared::Nothing,
            _ => Declared::Anything,
        }
    }

    /// Whether the tool may change a file of the work tree.
    pub(super) fn may_change(&self, prefix: &Path, path: &RepoPath) -> bool {
        match path.as_path().strip_prefix(prefix) {
            Ok(path) => self.writes.allows(path),
            // Outside of the project nothing can be granted, only left unrestricted.
            Err(_) => self.writes.globs().is_empty(),
        }
    }

    /// What to do about files that it may not change.
    pub(super) fn way_out(&self, prefix: &Path, paths: &[RepoPath], run: RunId, step: u32) -> String {
        let inside = |path: &RepoPath| self.writes.hint(path.as_path().strip_prefix(prefix).ok()?);
        let recover = format!("`piton restore {run}/{step}` brings the changes back");
        // What allows one of them shows how to allow the others.
        match paths.iter().find_map(inside) {
            Some(hint) => format!("{hint}; {recover}"),
            None => recover,
        }
    }

    /// Why the call is not allowed.
    pub(super) fn denial(&self) -> Problem {
        Problem::new(Code::PermissionDenied, policy::message(&self.denials)).with_hint(policy::way_out(&self.denials))
    }
}

/// A parameter as a journal holds it: without secrets, and not longer than a person reads.
fn told(name: &str, value: &Value) -> Value {
    let text = match value {
        Value::String(text) => redacted_as(name, text),
        Value::Array(_) | Value::Object(_) => redacted(&value.to_string()),
        other => return other.clone(),
    };
    match text.char_indices().nth(MOST_TEXT) {
        Some((end, _)) => Value::String(format!("{}… ({} bytes)", text.get(..end).unwrap_or_default(), text.len())),
        None if value.is_string() => Value::String(text),
        None => serde_json::from_str(&text).unwrap_or(Value::String(text)),
    }
}

/// A text without secrets, also without those that only the name of the parameter gives away.
fn redacted_as(name: &str, text: &str) -> String {
    let beginning = format!("{name} = \"");
    let shown = redacted(&format!("{beginning}{}\"", redacted(text)));
    let inner = shown.strip_prefix(&beginning).and_then(|rest| rest.strip_suffix('"'));
    inner.map_or_else(|| redacted(text), str::to_owned)
}

/// Refuses what the signature policy does not let run; returns the items that have no stamp, and who signed the others.
fn judge_signatures<'s>(
    ctx: &Context,
    items: &[&'s Item],
    invocation: &Invocation,
) -> Result<(Vec<&'s Item>, Vec<SignedBy>), RunError> {
    let own = items.iter().copied().filter(|item| item.layer != Layer::Builtin);
    let is_known = |link: &&Link| own.clone().any(|item| item.id == link.id && item.layer == link.layer);
    let links = invocation.chain.iter().filter(|link| link.layer != Layer::Builtin);
    // Every link has an item; should one have none, nobody can have judged it.
    let unknown: Vec<PathBuf> = links.filter(|link| !is_known(link)).map(|link| ctx.shown_path(&link.file)).collect();
    if !unknown.is_empty() && ctx.config.signature_requirement() != SignatureRequirement::None {
        return Err(AuthorError::Unsigned(unknown).into());
    }
    let signed = author::demand(ctx, own.clone())?;
    author::demand_borrowed(ctx, invocation)?;
    Ok((own.filter(|item| !matches!(item.integrity, Integrity::Valid { .. })).collect(), signed))
}

/// Everything that is missing, at once.
fn require(ctx: &Context, invocation: &Invocation) -> Result<(), RunError> {
    let environment = invocation.action.environment();
    // What runs elsewhere has no search path of this machine, but may need a command of it.
    let search_path = match environment.get("PATH") {
        Some(text) if !invocation.action.is_container() => OsStr::new(text.value.as_str()),
        _ => ctx.search_path(),
    };
    let is_there = |name: &&String| subprocess::resolve(OsStr::new(name.as_str()), search_path, Path::new("/")).is_ok();
    let mut commands: Vec<String> =
        invocation.requires.commands.iter().filter(|name| !is_there(name)).cloned().collect();
    let mut how = None;
    if let Some(process) = invocation.action.program() {
        let program = OsStr::new(process.program.value.as_str());
        match subprocess::resolve(program, search_path, &process.folder) {
            Err(SubprocessError::NotFound(_)) => {
                let name = process.program.shown().to_owned();
                commands.retain(|command| *command != name);
                commands.insert(0, name);
                how = guide(invocation, process);
            }
            Err(err) => return Err(err.into()),
            Ok(_) => {}
        }
    }
    let is_set = |name: &&String| environment.get(name.as_str()).is_some_and(|text| !text.value.is_empty());
    let variables: Vec<String> = invocation.requires.environment.iter().filter(|name| !is_set(name)).cloned().collect();
    if commands.is_empty() && variables.is_empty() {
        return Ok(());
    }
    Err(RunError::Requirements { tool: invocation.id().to_string(), commands, variables, guide: how })
}

/// How to get the program of a tool: what its manifest says, or where it is named.
fn guide(invocation: &Invocation, process: &Process) -> Option<String> {
    let program = process.program.shown();
    let how = match (&process.install_guide, &process.install_check) {
        (Some(guide), _) => format!("install `{program}`: {}", guide.trim()),
        (None, Some(_)) => format!("install `{program}`"),
        (None, None) => {
            let origin = invocation.origins.get("action.program").filter(|origin| *origin != "built in")?;
            return Some(format!("install `{program}`, put it on the search path, or name another one: {origin}"));
        }
    };
    match &process.install_check {
        Some(check) => Some(format!("{how}; then `{}` works", check.trim())),
        None => Some(how),
    }
}

/// The isolation that can be given: that of a container, or a supervisor. More is not there yet.
fn isolation(invocation: &Invocation, allow_degraded: bool) -> Result<(Isolation, Option<String>), RunError> {
    if let Action::Container(container) = &invocation.action {
        let (wanted, given) = (invocation.isolation, container.isolation());
        if wanted <= given {
            return Ok((given, None));
        }
        let (tool, level, network) = (invocation.id().to_owned(), wanted.as_str(), container.network.as_str());
        if !allow_degraded {
            return Err(RunError::Sandbox { tool, level, network: Some(network) });
        }
        let reason = format!("`{level}` is not given with the network `{network}`; allowed by `--allow-degraded`");
        return Ok((given, Some(reason)));
    }
    if invocation.isolation == Isolation::Trusted {
        return Ok((Isolation::Trusted, None));
    }
    let level = invocation.isolation.as_str();
    if invocation.isolation_asked && !allow_degraded {
        return Err(RunError::Sandbox { tool: invocation.id().to_string(), level, network: None });
    }
    let reason = if invocation.isolation_asked { "allowed by `--allow-degraded`" } else { "nobody asked for it" };
    Ok((Isolation::Trusted, Some(format!("`{level}` is not available yet; {reason}"))))
}
