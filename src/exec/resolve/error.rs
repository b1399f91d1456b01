//! Errors of resolving a call.

use std::path::PathBuf;

use crate::exec::chain::ChainError;
use crate::item::finding::Finding;
use crate::item::id::ItemId;
use crate::item::params::ParamProblem;
use crate::item::source::Unread;
use crate::item::tool::{Origin, ToolKind};
use crate::item::wording::{did_you_mean, shown};
use crate::problem::{Code, Explain, Hint, HintCall, hint};

#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    #[error("`{0}` is not a tool")]
    NotATool(ItemId),
    /// The chain is broken, or has a link of the wrong kind.
    #[error("{reason}")]
    Chain { reason: ChainError, at: Box<Origin> },
    /// An item of the chain does not match its stamp.
    #[error("Content hash mismatch: `{id}` does not match its stamp: {reason}")]
    Tampered {
        id: ItemId,
        file: PathBuf,
        /// The line of a malformed stamp.
        line: u32,
        reason: String,
    },
    /// An item of the chain is invalid, so what it may do is not known.
    #[error("Invalid metadata of `{id}`: {}", .findings.first().map_or("it has errors", |first| first.message.as_str()))]
    Invalid { id: ItemId, findings: Vec<Finding> },
    /// Items of this kind do not run as tools.
    #[error("`{id}` is {}, which is not run as a tool", kind_name(*.kind))]
    Unsupported { id: ItemId, kind: ToolKind },
    /// Runtimes and primitives only run other tools.
    #[error("`{id}` is {}: it runs tools and is none itself", kind_name(*.kind))]
    RunsOthers { id: ItemId, kind: ToolKind },
    #[error("`{id}` does not say what to run: it has no `{missing}`")]
    NothingToRun {
        id: ItemId,
        missing: &'static str,
        example: &'static str,
        at: Box<Origin>,
    },
    #[error("{}", parameter_problems(.id, .problems))]
    Parameters {
        id: ItemId,
        problems: Vec<ParamProblem>,
    },
    #[error("tool `{id}` has no command `{}`", shown(.command))]
    UnknownCommand {
        id: ItemId,
        command: String,
        known: Vec<String>,
    },
    #[error("`{field}` {reason}")]
    Setting {
        /// For example `config.cwd`.
        field: String,
        reason: String,
        hint: String,
        at: Option<Box<Origin>>,
    },
    /// A placeholder has no value.
    #[error("`{placeholder}` in `{field}` {reason}")]
    Placeholder {
        placeholder: String,
        /// The setting that contains it.
        field: String,
        reason: String,
        hint: String,
        at: Box<Origin>,
    },
    #[error(
        "parameter `{parameter}` begins with `-` and would be taken for an option in `{field}`"
    )]
    Dash {
        parameter: String,
        field: String,
        at: Option<Box<Origin>>,
    },
    #[error("{what} holds a NUL character, which cannot be passed to a process")]
    Nul { what: String },
    #[error("{what} is longer than {limit} bytes, the most that can be passed to a process")]
    TooLong { what: String, limit: usize },
    #[error("parameters `{first}` and `{second}` are both passed as `{variable}`")]
    Clash {
        first: String,
        second: String,
        variable: String,
    },
    #[error("parameter `{}` cannot be passed as an option", shown(.0))]
    OptionName(String),
    #[error("{}", .0.message)]
    Entrypoint(Box<Finding>),
    #[error("cannot read `{}`", .path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: Unread,
    },
    #[error("the path `{}` is not valid Unicode", .0.display())]
    NotUnicode(PathBuf),
}

impl Explain for ResolveError {
    fn code(&self) -> Code {
        match self {
            Self::NotATool(_) => Code::NotFound,
            Self::Chain { reason, .. } => reason.code(),
            Self::Tampered { .. } => Code::SignatureMismatch,
            Self::Invalid { .. } => Code::InvalidItem,
            Self::Unsupported { .. } => Code::UnsupportedTool,
            Self::RunsOthers { .. } => Code::NotRunnable,
            Self::NothingToRun { .. } => Code::MissingRequiredField,
            Self::Parameters { .. }
            | Self::Dash { .. }
            | Self::Nul { .. }
            | Self::TooLong { .. }
            | Self::Clash { .. }
            | Self::OptionName(_) => Code::InvalidParameter,
            Self::UnknownCommand { .. } => Code::UnknownCommand,
            Self::Setting { .. } => Code::InvalidConfig,
            Self::Placeholder { .. } => Code::InvalidTemplate,
            Self::Entrypoint(finding) => finding.code,
            Self::Unreadable { .. } => Code::UnreadableFile,
            Self::NotUnicode(_) => Code::InvalidPath,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::NotATool(_) => None,
            Self::Chain { reason, .. } => reason.hint(),
            Self::Tampered { .. } => Some(hint![
                "see what changed since it was stamped; if you meant it, stamp it again with ",
                HintCall::Sign(None)
            ]),
            Self::Invalid { findings, .. } => Some(
                match findings.first().and_then(|first| first.suggestion.clone()) {
                    Some(suggestion) => suggestion,
                    None => hint!["see everything that is wrong with ", HintCall::Validate],
                },
            ),
            Self::Unsupported {
                kind: ToolKind::Directive,
                ..
            } => Some(
                "write it as a directive below `.ai/directives/`, which `piton run` runs".into(),
            ),
            Self::Unsupported { .. } => {
                Some("write it as an entry below `.ai/knowledge/`, which `piton load` shows".into())
            }
            Self::RunsOthers { id, .. } => {
                Some(format!("run a tool that names it: `executor: {id}`").into())
            }
            Self::NothingToRun { example, .. } => Some(format!("add {example}").into()),
            Self::Parameters { id, problems } => {
                let suggested = problems
                    .iter()
                    .find_map(|problem| problem.suggestion.clone());
                Some(suggested.map_or_else(
                    || hint![HintCall::ShowTool(id.to_string()), " lists what it takes"],
                    Hint::from,
                ))
            }
            Self::UnknownCommand { command, known, .. } => {
                let otherwise = if known.is_empty() {
                    "leave the command out".to_owned()
                } else {
                    format!(
                        "it has {}",
                        known
                            .iter()
                            .map(|name| format!("`{name}`"))
                            .collect::<Vec<_>>()
                            .join(", ")
                    )
                };
                let meant =
                    crate::item::wording::nearest(command, known.iter().map(String::as_str));
                Some(did_you_mean(meant, &otherwise).into())
            }
            Self::Setting { hint, .. } | Self::Placeholder { hint, .. } => {
                Some(hint.as_str().into())
            }
            Self::Dash { parameter, .. } => Some(
                format!(
                    "in the tool, write `--` before it, or `--name={{{parameter}}}` as one argument"
                )
                .into(),
            ),
            Self::Nul { .. } | Self::OptionName(_) => Some("give another value".into()),
            Self::TooLong { .. } => Some("pass the name of a file instead".into()),
            Self::Clash { .. } => Some("rename one of them".into()),
            Self::Entrypoint(finding) => finding.suggestion.clone(),
            Self::Unreadable { .. } => Some("check that it exists, and its permissions".into()),
            Self::NotUnicode(_) => Some("rename the folder or file".into()),
        }
    }

    fn place(&self) -> Option<Origin> {
        match self {
            Self::Chain { at, .. }
            | Self::NothingToRun { at, .. }
            | Self::Placeholder { at, .. } => Some((**at).clone()),
            Self::Setting { at, .. } | Self::Dash { at, .. } => at.as_deref().cloned(),
            Self::Tampered { file, line, .. } => Some(Origin {
                file: file.clone(),
                line: *line,
                column: 1,
            }),
            Self::Entrypoint(finding) => Some(Origin::of(finding)),
            Self::Invalid { findings, .. } => findings.first().map(Origin::of),
            _ => None,
        }
    }
}

impl ResolveError {
    /// The problems in the files of an invalid item.
    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Invalid { findings, .. } => findings,
            _ => &[],
        }
    }

    /// Whether it is refused because it may have been tampered with.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Tampered { .. })
    }
}

fn parameter_problems(id: &ItemId, problems: &[ParamProblem]) -> String {
    let all: Vec<&str> = problems
        .iter()
        .map(|problem| problem.message.as_str())
        .collect();
    format!("tool `{id}` cannot be called like this: {}", all.join("; "))
}

fn kind_name(kind: ToolKind) -> &'static str {
    match kind {
        ToolKind::Primitive => "a primitive",
        ToolKind::Runtime => "a runtime",
        ToolKind::Script => "a script",
        ToolKind::Api => "an HTTP call",
        ToolKind::McpServer => "an MCP server",
        ToolKind::McpTool => "a tool of an MCP server",
        ToolKind::Docker => "a container",
        ToolKind::Cli => "a command",
        ToolKind::Local => "a local program",
        ToolKind::Meta => "a meta tool",
        ToolKind::Directive => "a directive",
        ToolKind::Knowledge => "a knowledge entry",
    }
}
