//! Creates items: from a skeleton of each kind, or with given content.
//!
//! No existing file is overwritten, and the new content is validated before it is written. A new
//! item is not stamped, because the first edit would break the stamp.

mod destination;

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{
    CreateItem, FileAccess, Home, ItemAnswer, ItemEffect, ItemStepError, Verb, Write, shown,
};
use crate::context::Context;
use crate::exec::chain::{self, ChainError, ExecutorChain};
use crate::exec::syntax::ScriptLanguage;
use crate::item::finding::{Finding, Findings, Severity, Strength};
use crate::item::id::{InvalidItemId, ItemId};
use crate::item::skeleton::{
    self, Skeleton, SkeletonError, SkeletonFields, SkeletonFile, SkeletonKind, SkeletonLayout,
    Usage,
};
use crate::item::source::SourceFile;
use crate::item::store::{Item, ItemKind, ItemStore, Layer, PRIMITIVES};
use crate::item::tool::{self, Root, ToolKind, ToolLocation, ToolReading};
use crate::item::wording::separated;
use crate::item::{directive, knowledge};
use crate::problem::{Code, Explain, HintCall, hint};
use crate::workspace::open_repository;

/// A created item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Created {
    pub name: ItemId,
    pub item_type: ItemKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_type: Option<String>,
    /// The file that defines the item.
    pub path: String,
    pub files: Vec<String>,
    pub source: Layer,
    /// The file to edit first.
    pub edit: String,
    pub next: Vec<NextStep>,
    pub notes: Vec<String>,
}

/// What to do after creating an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Edit a file.
    Edit(String),
    /// Run a command that tries the item.
    Try(String),
    /// Run a command that signs the item.
    Sign(String),
}

impl fmt::Display for NextStep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Edit(path) => write!(formatter, "edit {path}"),
            Self::Try(command) | Self::Sign(command) => formatter.write_str(command),
        }
    }
}

impl Serialize for NextStep {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

pub(super) fn create(
    ctx: &Context,
    store: &ItemStore,
    request: &CreateItem,
) -> Result<ItemEffect, ItemStepError> {
    let home = request.name.location;
    let (kind, fields) = wanted(ctx, store, request)?;
    let made = match &request.content {
        None => skeleton::skeleton(kind, &fields)?,
        Some(content) => written(kind, &fields, content),
    };
    let mut notes = destination::check(ctx, store, home, &fields.id, &made)?;
    let tool_type = judge(store, &fields.id, &made)?;
    if made.kind != ItemKind::Knowledge && separated(fields.id.as_str(), '_') != fields.id.as_str()
    {
        let better = separated(fields.id.as_str(), '_');
        notes.push(format!(
            "ids are usually in snake_case: `{better}`; `piton validate` will warn"
        ));
    }
    let path = made
        .files
        .last()
        .map(|file| shown(&file.path))
        .unwrap_or_default();
    let created = Created {
        item_type: made.kind,
        tool_type,
        files: made.files.iter().map(|file| shown(&file.path)).collect(),
        source: home.layer(),
        edit: shown(&made.edit),
        next: next(store, &fields.id, home, &made),
        name: fields.id,
        path,
        notes,
    };
    let writes = made.files.into_iter().map(|file| {
        let access = if file.executable {
            FileAccess::Executable
        } else {
            FileAccess::Plain
        };
        Write {
            access,
            ..Write::text(home, file.path, file.content)
        }
    });
    Ok(ItemEffect {
        writes: writes.collect(),
        answer: ItemAnswer::Create(Box::new(created)),
    })
}

/// The item to create.
pub(super) fn wanted(
    ctx: &Context,
    store: &ItemStore,
    request: &CreateItem,
) -> Result<(SkeletonKind, SkeletonFields), ItemStepError> {
    let name = &request.name.item_id;
    let id: ItemId = name.parse().map_err(|reason| invalid(name, reason))?;
    let in_name = id.category().unwrap_or_default();
    let category = match &request.name.category {
        None => in_name.to_owned(),
        Some(category) if in_name.is_empty() || in_name == category => category
            .parse::<ItemId>()
            .map_err(|reason| invalid(category, reason))?
            .to_string(),
        Some(_) => {
            let reason = format!("differs from that of `{id}`");
            return Err(Verb::Create.wrong("category", reason));
        }
    };
    let executor = match &request.executor {
        Some(executor) => Some(store.find(ItemKind::Tool, executor)?.id.clone()),
        None => None,
    };
    let kind = match (request.name.item_type, &request.tool_type) {
        (Some(ItemKind::Directive), _) => SkeletonKind::Directive,
        (Some(ItemKind::Knowledge), _) => SkeletonKind::Knowledge,
        (_, written) => SkeletonKind::of(
            written.as_deref().unwrap_or("script"),
            executor.as_ref().map(ItemId::as_str),
        )?,
    };
    let executor = match executor {
        None if kind == SkeletonKind::McpTool && request.content.is_none() => only_server(store)?,
        executor => executor,
    };
    let needs_folder =
        id.name() == "tool" && !matches!(kind, SkeletonKind::Directive | SkeletonKind::Knowledge);
    let layout = match request.layout {
        // A file `tool.yaml` would turn its folder into a tool.
        Some(SkeletonLayout::File) if needs_folder => {
            return Err(Verb::Create.wrong("layout", "must be `folder` for this id"));
        }
        None if needs_folder => Some(SkeletonLayout::Folder),
        layout => layout,
    };
    let fields = SkeletonFields {
        id: id.name().parse().map_err(|reason| invalid(name, reason))?,
        category,
        description: request.description.clone(),
        executor,
        layout,
        author: author(ctx).unwrap_or_else(|| "unknown".to_owned()),
    };
    Ok((kind, fields))
}

/// The author: the git identity, else the user name.
fn author(ctx: &Context) -> Option<String> {
    let variable = |name: &str| {
        ctx.environment
            .find(name)?
            .to_str()
            .map(str::trim)
            .map(str::to_owned)
    };
    let of_git = || {
        let repository = open_repository(ctx).ok()?;
        let committer = repository
            .committer(ctx.environment.variables(), ctx.now())
            .ok()?;
        committer
            .split_once(" <")
            .map(|(name, _)| name.trim().to_owned())
    };
    let names = [
        variable("GIT_AUTHOR_NAME"),
        of_git(),
        variable("USER"),
        variable("LOGNAME"),
    ];
    names.into_iter().flatten().find(|name| !name.is_empty())
}

/// The server of a new MCP tool: the only one if there is exactly one; without any, the tool
/// declares its own.
fn only_server(store: &ItemStore) -> Result<Option<ItemId>, ItemStepError> {
    let is_server = |tool: &tool::LoadedTool| tool.manifest.kind == ToolKind::McpServer;
    let mut servers: Vec<&ItemId> = store
        .items()
        .iter()
        .filter(|item| item.as_tool().is_some_and(is_server))
        .map(|item| &item.id)
        .collect();
    servers.sort();
    servers.dedup();
    match servers.as_slice() {
        [] => Ok(None),
        [server] => Ok(Some((*server).clone())),
        known => Err(ItemStepError::NoServer(
            known.iter().map(ToString::to_string).collect(),
        )),
    }
}

fn invalid(name: &str, reason: InvalidItemId) -> ItemStepError {
    ItemStepError::InvalidName {
        name: name.to_owned(),
        reason,
        mended: mended(name),
    }
}

/// A valid id that resembles an invalid one.
fn mended(name: &str) -> Option<String> {
    let part = |part: &str| {
        let part: String = separated(part.trim(), '_')
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        part.split('_')
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join("_")
    };
    let parts: Vec<String> = name
        .split('/')
        .map(part)
        .filter(|part| !part.is_empty())
        .collect();
    parts
        .join("/")
        .parse::<ItemId>()
        .ok()
        .map(|id| id.to_string())
}

/// Given content, as one file.
pub(super) fn written(kind: SkeletonKind, fields: &SkeletonFields, content: &str) -> Skeleton {
    let is_manifest = content.lines().any(|line| {
        ["tool_id:", "tool:"]
            .iter()
            .any(|key| line.starts_with(key))
    });
    let (of, ending) = match kind {
        SkeletonKind::Directive => (ItemKind::Directive, "md"),
        SkeletonKind::Knowledge => (ItemKind::Knowledge, "md"),
        _ if content.trim_start().starts_with('{') => (ItemKind::Tool, "json"),
        SkeletonKind::Script { language, .. } if !is_manifest => {
            (ItemKind::Tool, language.ending())
        }
        _ => (ItemKind::Tool, "yaml"),
    };
    let folder = std::path::Path::new(crate::context::ITEMS)
        .join(of.folder())
        .join(&fields.category);
    let path = match (fields.layout, ending) {
        (Some(SkeletonLayout::Folder), "yaml" | "json") => folder
            .join(fields.id.as_str())
            .join(format!("tool.{ending}")),
        _ => folder.join(format!("{}.{ending}", fields.id)),
    };
    let usage = match of {
        ItemKind::Tool => Usage::Call(""),
        ItemKind::Directive => Usage::Run(""),
        ItemKind::Knowledge => Usage::Read,
    };
    let executable = content.starts_with("#!");
    let files = vec![SkeletonFile {
        path: path.clone(),
        content: content.to_owned(),
        executable,
    }];
    Skeleton {
        kind: of,
        tool_type: None,
        files,
        edit: path,
        usage,
    }
}

/// Validates the new content; returns the type of a tool.
fn judge(store: &ItemStore, id: &ItemId, made: &Skeleton) -> Result<Option<String>, ItemStepError> {
    let Some(file) = made.files.last() else {
        return Ok(None);
    };
    let source = SourceFile {
        path: file.path.clone(),
        text: file.content.clone(),
        marked: false,
    };
    let mut findings = Findings::new(&file.path, Strength::Lenient);
    let (named, tool_type) = match made.kind {
        ItemKind::Directive => (
            directive::parse(&source, &mut findings).map(|it| it.name),
            None,
        ),
        ItemKind::Knowledge => (
            knowledge::parse(&source, &mut findings).map(|it| it.id),
            None,
        ),
        ItemKind::Tool => {
            let is_folder = file.path.file_stem().is_some_and(|name| name == "tool");
            let folder = file.path.parent().filter(|_| is_folder);
            let around = ToolLocation {
                folder,
                root: Root::Tools,
                in_lib: false,
                extractors: &[],
            };
            match tool::read(&source, &around, &mut findings) {
                ToolReading::Tool(tool) => {
                    let chain = chain::resolve(store, &tool)?;
                    chain.check_kinds()?;
                    one_language(&chain, made)?;
                    missing_script(&tool, made)?;
                    (
                        Some(tool.manifest.tool_id.clone()),
                        Some(tool.manifest.tool_type),
                    )
                }
                ToolReading::Unnamed(_) | ToolReading::NotATool | ToolReading::Broken => {
                    (None, None)
                }
            }
        }
    };
    let first = findings
        .into_vec()
        .into_iter()
        .find(|finding| finding.severity == Severity::Error);
    match (first, named) {
        (
            Some(Finding {
                code,
                message: reason,
                suggestion: hint,
                ..
            }),
            _,
        ) => Err(ItemStepError::NotValid { code, reason, hint }),
        (None, Some(named)) if named == *id => Ok(tool_type),
        (None, Some(named)) => Err(ItemStepError::NotValid {
            code: Code::NameMismatch,
            reason: format!("its id is `{named}`, not `{id}`"),
            hint: Some(format!("create it as `{named}`, or write `{id}` in it").into()),
        }),
        (None, None) => Err(ItemStepError::NotValid {
            code: Code::MissingMetadata,
            reason: format!("it is not a {}", made.kind),
            hint: Some(hint![
                HintCall::New,
                " without content shows how one is written"
            ]),
        }),
    }
}

/// A runtime runs one language, and the script must be in that language.
fn one_language(chain: &ExecutorChain<'_>, made: &Skeleton) -> Result<(), ItemStepError> {
    let Some(runtime) = chain.runtime().map(|item| item.id.as_str()) else {
        return Ok(());
    };
    match (
        ScriptLanguage::of_runtime(runtime),
        ScriptLanguage::of_file(&made.edit),
    ) {
        (Some(runs), Some(written)) if runs != written => Err(ItemStepError::NotValid {
            code: Code::UnexpectedExecutor,
            reason: format!("`{runtime}` runs {runs}, and the script is {written}"),
            hint: Some("give the type without an executor, or the executor without a type".into()),
        }),
        _ => Ok(()),
    }
}

/// A manifest that starts a file must come with that file.
fn missing_script(tool: &tool::LoadedTool, made: &Skeleton) -> Result<(), ItemStepError> {
    let starts = tool
        .manifest
        .config
        .get("entrypoint")
        .and_then(Value::as_str);
    let Some(entrypoint) =
        starts.filter(|_| matches!(tool.manifest.kind, ToolKind::Script | ToolKind::Local))
    else {
        return Ok(());
    };
    let is_there =
        |file: &SkeletonFile| file.path.file_name().is_some_and(|name| name == entrypoint);
    if made.files.iter().any(is_there) {
        return Ok(());
    }
    Err(ItemStepError::NotValid {
        code: Code::MissingEntrypoint,
        reason: format!(
            "Entrypoint '{}' not found",
            crate::item::wording::shown(entrypoint)
        ),
        hint: Some("create the script itself, with its metadata in comments at the top".into()),
    })
}

fn next(store: &ItemStore, id: &ItemId, home: Home, made: &Skeleton) -> Vec<NextStep> {
    let path = shown(&made.edit);
    let edited = match home {
        Home::Project => path,
        Home::User => format!("~/{path}"),
    };
    let mut next = vec![NextStep::Edit(edited)];
    if home == Home::Project {
        next.push(NextStep::Try("piton validate".to_owned()));
    }
    let with = |flag: &str, example: &str| match example {
        "" => String::new(),
        example => format!(" {flag} {example}"),
    };
    let usage = match made.usage {
        Usage::Call(example) => Some(format!("piton tool run {id}{}", with("--param", example))),
        Usage::Run(example) => Some(format!("piton run {id}{}", with("--input", example))),
        Usage::Executor => Some(format!("piton new tool NAME --type bash --executor {id}")),
        Usage::Read => None,
    };
    next.extend(usage.map(NextStep::Try));
    if home == Home::Project {
        let is_namesake = |item: &Item| {
            item.layer == Layer::Project && item.kind() != made.kind && item.id == *id
        };
        let shared = store.items().iter().any(is_namesake);
        let kind = if shared {
            format!(" --type {}", made.kind)
        } else {
            String::new()
        };
        next.push(NextStep::Sign(format!("piton sign {id}{kind}")));
    }
    next
}

fn is_builtin(store: &ItemStore, kind: ItemKind, id: &ItemId) -> bool {
    PRIMITIVES.contains(&id.as_str()) && kind == ItemKind::Tool
        || store.items().iter().any(|item| {
            item.layer == Layer::Builtin
                && item.kind() == kind
                && item.id.as_str().eq_ignore_ascii_case(id.as_str())
        })
}

impl From<ChainError> for ItemStepError {
    fn from(err: ChainError) -> Self {
        Self::NotValid {
            code: err.code(),
            reason: err.to_string(),
            hint: err.hint(),
        }
    }
}

impl From<SkeletonError> for ItemStepError {
    fn from(err: SkeletonError) -> Self {
        Self::Skeleton(err)
    }
}
