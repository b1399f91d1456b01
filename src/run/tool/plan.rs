//! Plans a call and checks its permissions, before anything runs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::checkpoint::path::RepoPath;
use crate::checkpoint::secret::redacted;
use crate::config::SignatureRequirement;
use crate::context::Context;
use crate::exec::call::RequestedCall;
use crate::exec::chain;
use crate::exec::invocation::{Action, ChainLink, Invocation, McpTransport, Process};
use crate::exec::isolation::Confinement;
use crate::exec::subprocess::SubprocessError;
use crate::exec::{
    CallEnvironment, CallRequest, ResolveError, parameters, resolve_call, subprocess,
};
use crate::item::directive::Directive;
use crate::item::finding::Strength;
use crate::item::id::ItemId;
use crate::item::params::ParameterText;
use crate::item::signature::Integrity;
use crate::item::store::{Item, ItemKind, ItemStore, Layer};
use crate::item::tool::Isolation;
use crate::item::validate;
use crate::journal::RunId;
use crate::journal::event::ToolCall;
use crate::policy::{self, Authority, Denial, Permission, PolicyCaller, WriteRules};
use crate::problem::{Code, Problem};
use crate::run::caches;
use crate::run::confinement::{self, GivenIsolation, IsolatedProcess, IsolationRequest};
use crate::run::error::RunError;
use crate::run::secrecy::Secrets;
use crate::run::settle::DeclaredChanges;
use crate::trust::author::{self, AuthorError, SignedBy};

/// The longest parameter text in a journal.
const MOST_TEXT: usize = 1024;

/// A tool to call.
#[derive(Clone, Debug, Default)]
pub struct ToolRequest {
    /// The tool: `id` or `category/id`.
    pub id: String,
    /// The command of a tool that has several.
    pub command: Option<String>,
    pub parameters: Map<String, Value>,
    /// Parameters whose texts get the declared type.
    pub texts: Vec<ParameterText>,
    /// Whether undeclared changes of the tool are a failure.
    pub strict: bool,
    /// Whether a lower isolation level than the requested one is acceptable.
    pub allow_degraded: bool,
}

/// The plan of a call.
#[derive(Debug, Serialize)]
pub struct ToolPlan {
    pub invocation: Invocation,
    /// The granted permissions that it needs.
    pub permissions: Vec<Permission>,
    /// The missing permissions that it needs.
    pub denials: Vec<Denial>,
    /// The actual isolation level.
    pub isolation: Isolation,
    /// Why that is lower than the requested level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// Why that is higher than the requested level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raised: Option<String>,
    /// What the kernel lets its processes do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confinement: Option<Confinement>,
    /// The files of unsigned items.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsigned: Vec<PathBuf>,
    /// The signers of the other items, if `signature.require` asks for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub authors: Vec<SignedBy>,
    #[serde(skip)]
    writes: WriteRules,
    /// The project, without symlinks.
    #[serde(skip)]
    root: PathBuf,
    /// The variables that the directive has named in its templates so far.
    #[serde(skip)]
    pub(in crate::run) revealed: Secrets,
    #[serde(skip)]
    strict: bool,
    #[serde(skip)]
    allow_degraded: bool,
    /// The id as requested.
    #[serde(skip)]
    pub(super) named: String,
    /// The files of its items as they were judged, if `signature.require` asks for stamps.
    #[serde(skip)]
    judged: Vec<(PathBuf, Integrity)>,
    /// Its items without a valid stamp, including those of the tools that it may call.
    #[serde(skip)]
    unstamped: Vec<(ItemId, Layer)>,
}

/// Plans the calls of a meta tool: with the same items and the same authority.
#[derive(Clone, Copy, Debug)]
pub struct ToolPlanner<'p> {
    pub store: &'p ItemStore,
    /// The authority of the meta tool.
    pub authority: &'p Authority<'p>,
}

impl ToolPlanner<'_> {
    /// Resolves a call of a meta tool and checks its permissions.
    pub(super) fn plan(
        &self,
        ctx: &Context,
        above: &ToolPlan,
        id: &str,
        asked: RequestedCall,
    ) -> Result<ToolPlan, RunError> {
        let request = ToolRequest {
            id: id.to_owned(),
            command: asked.command,
            parameters: asked.arguments,
            texts: Vec::new(),
            strict: above.strict,
            allow_degraded: above.allow_degraded,
        };
        plan(ctx, self.store, &request, self.authority)
    }
}

/// Resolves a call and checks its permissions.
pub fn plan(
    ctx: &Context,
    store: &ItemStore,
    request: &ToolRequest,
    authority: &Authority<'_>,
) -> Result<ToolPlan, RunError> {
    let item = store.find(ItemKind::Tool, &request.id)?;
    let mut call = CallRequest {
        command: request.command.clone(),
        parameters: request.parameters.clone(),
    };
    if let Some(tool) = item.as_tool() {
        let wrong = |problems| ResolveError::Parameters {
            id: item.id.clone(),
            problems,
        };
        call.parameters
            .extend(parameters::convert(&tool.manifest, &request.texts).map_err(wrong)?);
        call.take_command(&tool.manifest);
    }
    let around = CallEnvironment::of(ctx);
    let mut invocation = resolve_call(store, item, &call, &around)?;
    let items = chain::links(store, &request.id);
    let (unstamped, authors) = judge_signatures(ctx, &items, &invocation)?;
    let verdict = policy::judge(authority, &invocation);
    policy::bound(authority, &mut invocation);
    let writes = WriteRules::of(authority, &invocation);
    let program = if verdict.denials.is_empty() {
        require(ctx, store, &invocation)?
    } else {
        None
    };
    let process = isolated_process(&invocation);
    let wanted = invocation.isolation.max(confinement::minimum(ctx, process));
    let raised = confinement::raised_note(ctx, invocation.isolation, wanted);
    let request_of = IsolationRequest {
        level: wanted,
        is_asked: invocation.isolation_asked
            || wanted != Isolation::Trusted && wanted == confinement::minimum(ctx, process),
        allow_degraded: request.allow_degraded,
        process,
        subject: &format!("tool `{}`", invocation.id()),
    };
    let (isolation, degraded) = isolation(ctx, &invocation, request_of)?;
    let degraded = degraded.or_else(|| confinement::degraded_helpers(ctx, &invocation));
    let tcp = policy::tcp_rule(authority);
    let confinement = confinement::of_call(ctx, &invocation, &writes, isolation, tcp);
    let mut permissions = verdict.permissions;
    let confinement = confinement.map(|it| {
        policy::enforce_by_kernel(&mut permissions, it.enforced.iter().map(String::as_str));
        it.confinement
    });
    if let Some(program) = program {
        confinement::require_visible(confinement.as_ref(), program)?;
    }
    if confinement.is_some() && verdict.denials.is_empty() {
        caches::check(ctx, &invocation)?;
    }
    Ok(ToolPlan {
        permissions,
        denials: verdict.denials,
        isolation,
        degraded,
        raised,
        confinement,
        unsigned: unstamped
            .iter()
            .map(|item| ctx.shown_path(&store.roots().display(&item.file)))
            .collect(),
        authors,
        invocation,
        writes,
        root: ctx.root.canonicalize().unwrap_or_else(|_| ctx.root.clone()),
        revealed: Secrets::default(),
        strict: request.strict,
        allow_degraded: request.allow_degraded,
        named: request.id.clone(),
        judged: judged(ctx, &items),
        unstamped: unstamped
            .iter()
            .map(|item| (item.id.clone(), item.layer))
            .collect(),
    })
}

/// The authority of a single call: a directive, or the caller.
pub fn authority_of<'s>(
    store: &'s ItemStore,
    directive: Option<&str>,
    otherwise: Authority<'s>,
) -> Result<Authority<'s>, RunError> {
    let Some(id) = directive else {
        return Ok(otherwise);
    };
    let found = find_directive(store, id)?;
    Ok(Authority::Directives(vec![PolicyCaller {
        name: found.name.as_str(),
        grants: &found.permissions,
    }]))
}

/// Parameters as stored in a journal.
pub fn journal_parameters(parameters: &Map<String, Value>) -> Map<String, Value> {
    parameters
        .iter()
        .map(|(name, value)| (name.clone(), journal_value(name, value)))
        .collect()
}

/// A directive that restricts a call. An invalid directive is refused: it might have meant to deny
/// more.
fn find_directive<'s>(store: &'s ItemStore, id: &str) -> Result<&'s Directive, RunError> {
    let item = store
        .find(ItemKind::Directive, id)
        .map_err(RunError::NoDirective)?;
    let parsed = item.as_directive().filter(|_| item.errors.is_empty());
    parsed.ok_or_else(|| RunError::InvalidDirective {
        id: id.to_owned(),
        findings: item.errors.clone(),
    })
}

/// The items with the verdicts on their stamps; none where any item may run.
fn judged(ctx: &Context, items: &[&Item]) -> Vec<(PathBuf, Integrity)> {
    if ctx.config.signature_requirement() == SignatureRequirement::None {
        return Vec::new();
    }
    let own = items.iter().filter(|item| item.layer != Layer::Builtin);
    own.map(|item| (item.file.clone(), item.integrity.clone()))
        .collect()
}

impl ToolPlan {
    /// An error if the files of its items are no longer those that were judged. A script may have
    /// sourced one that another process had changed.
    pub(super) fn changed_since_judged(&self, ctx: &Context) -> Option<Problem> {
        if self.judged.is_empty() {
            return None;
        }
        let store = ItemStore::open(ctx.roots(), Strength::Lenient);
        if judged(ctx, &chain::links(&store, &self.named)) == self.judged {
            return None;
        }
        let message = format!(
            "the files of the tool `{}` changed after they were checked",
            self.named
        );
        let hint =
            "it may have run other code than what was signed: check its files and what it did";
        Some(Problem::new(Code::ItemChanged, message).with_hint(hint))
    }

    /// A note about unsigned items.
    pub fn unsigned_note(&self) -> Option<String> {
        author::unsigned_note(
            self.unstamped
                .iter()
                .map(|(id, layer)| (id.as_str(), *layer)),
        )
    }

    /// The call as stored in a journal.
    pub(super) fn written_down(&self) -> ToolCall {
        let chain = self
            .invocation
            .chain
            .iter()
            .map(|link| format!("{}@{}", link.id, link.version));
        ToolCall {
            chain: chain.collect(),
            command: self.invocation.command.clone(),
            parameters: journal_parameters(
                &self.revealed.removed_from_map(&self.invocation.parameters),
            ),
            permissions: self.permissions.clone(),
            isolation: self.isolation.as_str().to_owned(),
            degraded: self.degraded.clone(),
            raised: self.raised.clone(),
            authors: self.authors.clone(),
            external: self.invocation.action.is_external(),
            repeatable: self.invocation.action.is_repeatable(),
        }
    }

    /// What the tool declares about changing files.
    pub(super) fn declared(&self) -> DeclaredChanges {
        match self.invocation.mutates_state {
            Some(false) if self.strict => DeclaredChanges::NothingStrictly,
            Some(false) => DeclaredChanges::Nothing,
            _ => DeclaredChanges::Anything,
        }
    }

    /// Whether the tool may change a file of the work tree.
    pub(super) fn may_change(&self, prefix: &Path, path: &RepoPath) -> bool {
        match path.as_path().strip_prefix(prefix) {
            Ok(path) => self.writes.allows(path),
            // Files outside of the project cannot be granted, only be unrestricted.
            Err(_) => self.writes.globs().is_empty(),
        }
    }

    /// Whether the tool or a caller names files that may or may not be changed.
    pub(super) fn names_files(&self) -> bool {
        self.writes.names_files()
    }

    /// A hint for files that it may not change.
    pub(super) fn way_out(
        &self,
        prefix: &Path,
        paths: &[RepoPath],
        run: RunId,
        step: u32,
    ) -> String {
        let inside = |path: &RepoPath| self.writes.hint(path.as_path().strip_prefix(prefix).ok()?);
        let recover = format!("`piton restore {run}/{step}` restores the changes");
        // A hint for one file shows how to allow the others.
        match paths.iter().find_map(inside) {
            Some(hint) => format!("{hint}; {recover}"),
            None => recover,
        }
    }

    /// A file of the project that a rule does not let it write, relative to the project, and what would
    /// allow it.
    pub(super) fn grant_for<'f>(&self, file: &'f Path) -> Option<(&'f Path, String)> {
        let path = file.strip_prefix(&self.root).ok()?;
        Some((path, self.writes.hint(path)?))
    }

    /// The error of a denied call.
    pub(super) fn denial(&self) -> Problem {
        Problem::new(Code::PermissionDenied, policy::message(&self.denials))
            .with_hint(policy::way_out(&self.denials))
    }
}

/// A parameter as stored in a journal: redacted and shortened.
fn journal_value(name: &str, value: &Value) -> Value {
    let text = match value {
        Value::String(text) => redacted_as(name, text),
        Value::Array(_) | Value::Object(_) => redacted(&value.to_string()),
        other => return other.clone(),
    };
    match text.char_indices().nth(MOST_TEXT) {
        Some((end, _)) => Value::String(format!(
            "{}… ({} bytes)",
            text.get(..end).unwrap_or_default(),
            text.len()
        )),
        None if value.is_string() => Value::String(text),
        None => serde_json::from_str(&text).unwrap_or(Value::String(text)),
    }
}

/// A text without secrets, including values that look secret because of the parameter's name.
fn redacted_as(name: &str, text: &str) -> String {
    let beginning = format!("{name} = \"");
    let shown = redacted(&format!("{beginning}{}\"", redacted(text)));
    let inner = shown
        .strip_prefix(&beginning)
        .and_then(|rest| rest.strip_suffix('"'));
    inner.map_or_else(|| redacted(text), str::to_owned)
}

/// Refuses items that the signature policy does not allow; returns the items without a stamp, and
/// the signers of the others.
fn judge_signatures<'s>(
    ctx: &Context,
    items: &[&'s Item],
    invocation: &Invocation,
) -> Result<(Vec<&'s Item>, Vec<SignedBy>), RunError> {
    let own = items
        .iter()
        .copied()
        .filter(|item| item.layer != Layer::Builtin);
    let is_known = |link: &&ChainLink| {
        own.clone()
            .any(|item| item.id == link.id && item.layer == link.layer)
    };
    let links = invocation
        .chain
        .iter()
        .filter(|link| link.layer != Layer::Builtin);
    // Every link should have an item; one without an item was not checked.
    let unknown: Vec<PathBuf> = links
        .filter(|link| !is_known(link))
        .map(|link| ctx.shown_path(&link.file))
        .collect();
    if !unknown.is_empty() && ctx.config.signature_requirement() != SignatureRequirement::None {
        return Err(AuthorError::Unsigned(unknown).into());
    }
    let signed = author::demand(ctx, own.clone())?;
    author::demand_borrowed(ctx, invocation)?;
    Ok((
        own.filter(|item| !matches!(item.integrity, Integrity::Valid { .. }))
            .collect(),
        signed,
    ))
}

/// Reports all missing requirements at once. Returns the program that it found.
fn require(
    ctx: &Context,
    store: &ItemStore,
    invocation: &Invocation,
) -> Result<Option<PathBuf>, RunError> {
    let environment = invocation.action.environment();
    // A remote or container process has no local search path, but its tool may need a local
    // command.
    let search_path = match environment.get("PATH") {
        Some(text) if !invocation.action.is_container() => OsStr::new(text.value.as_str()),
        _ => ctx.search_path(),
    };
    let is_there = |name: &&String| {
        subprocess::resolve(OsStr::new(name.as_str()), search_path, Path::new("/")).is_ok()
    };
    let mut commands: Vec<String> = invocation
        .requires
        .commands
        .iter()
        .filter(|name| !is_there(name))
        .cloned()
        .collect();
    let (mut how, mut found) = (None, None);
    if let Some(process) = invocation.action.program() {
        let program = OsStr::new(process.program.value.as_str());
        match subprocess::resolve(program, search_path, &process.folder) {
            Err(SubprocessError::NotFound(_)) => {
                let name = process.program.shown().to_owned();
                commands.retain(|command| *command != name);
                commands.insert(0, name);
                how = guide(process);
            }
            Err(err) => return Err(err.into()),
            Ok(program) => found = Some(program),
        }
    }
    let is_set = |name: &&String| {
        environment
            .get(name.as_str())
            .is_some_and(|text| !text.value.is_empty())
    };
    let variables: Vec<String> = invocation
        .requires
        .environment
        .iter()
        .filter(|name| !is_set(name))
        .cloned()
        .collect();
    let servers: Vec<String> = invocation
        .requires
        .mcp
        .iter()
        .filter(|id| !validate::is_server(store, id))
        .cloned()
        .collect();
    if commands.is_empty() && variables.is_empty() && servers.is_empty() {
        return Ok(found);
    }
    Err(RunError::Requirements {
        tool: invocation.id().to_string(),
        commands,
        variables,
        servers: servers.into_boxed_slice(),
        guide: how.map(String::into_boxed_str),
    })
}

/// How to install the program of a tool, from its manifest.
fn guide(process: &Process) -> Option<String> {
    let program = process.program.shown();
    let how = match (&process.install_guide, &process.install_check) {
        (Some(guide), _) => format!("install `{program}`: {}", guide.trim()),
        (None, Some(_)) => format!("install `{program}`"),
        (None, None) => {
            let place = process.program_place.as_deref()?;
            return Some(format!(
                "install `{program}`, put it on the search path, or name another one: {place}"
            ));
        }
    };
    match &process.install_check {
        Some(check) => Some(format!("{how}; then `{}` works", check.trim())),
        None => Some(how),
    }
}

fn isolated_process(invocation: &Invocation) -> IsolatedProcess {
    match &invocation.action {
        Action::Mcp(mcp) if !matches!(mcp.transport, McpTransport::Stdio(_)) => {
            IsolatedProcess::Worker
        }
        Action::Http(_) => IsolatedProcess::Worker,
        Action::Meta(_) => IsolatedProcess::Helper,
        Action::Process(_) | Action::Mcp(_) | Action::Container(_) => IsolatedProcess::Program,
    }
}

/// The available isolation: of a container, or of the kernel.
fn isolation(
    ctx: &Context,
    invocation: &Invocation,
    request: IsolationRequest<'_>,
) -> Result<GivenIsolation, RunError> {
    let Action::Container(container) = &invocation.action else {
        return request.given(ctx);
    };
    let (wanted, given) = (request.level, container.isolation());
    if wanted <= given {
        return Ok((given, None));
    }
    let network = container.network.as_str();
    if !request.allow_degraded {
        return Err(RunError::Sandbox {
            subject: request.subject.to_owned(),
            level: wanted,
            missing: Vec::new(),
            network: Some(network),
        });
    }
    let reason = format!(
        "`{}` is not given with the network `{network}`; accepted by `--allow-degraded`",
        wanted.as_str()
    );
    Ok((given, Some(reason)))
}
