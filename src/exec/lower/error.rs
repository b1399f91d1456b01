//! Why a call cannot be resolved.

use std::path::PathBuf;

use crate::exec::chain::ChainError;
use crate::item::finding::Finding;
use crate::item::id::ItemId;
use crate::item::params::ParamProblem;
use crate::item::source::Unread;
use crate::item::tool::{Origin, ToolKind};
use crate::item::wording::{did_you_mean, shown};
use crate::problem::{Call, Code, Explain, Hint, hint};

/// Why a call cannot be resolved.
#[derive(Debug, thiserror::Error)]
pub enum LowerError {
    /// The item is no tool.
    #[error("`{0}` is not a tool")]
    NotATool(ItemId),
    /// The chain leads nowhere, or through the wrong kinds.
    #[error("{reason}")]
    Chain {
        /// What is wrong with it.
        reason: ChainError,
        /// Where the tool names its executor.
        at: Box<Origin>,
    },
    /// An item of the chain is not what was stamped.
    #[error("Content hash mismatch: `{id}` is not what was stamped: {reason}")]
    Tampered {
        /// The item.
        id: ItemId,
        /// Its file.
        file: PathBuf,
        /// The line of a stamp that is none.
        line: u32,
        /// What differs.
        reason: String,
    },
    /// What it is, is not run as a tool.
    #[error("`{id}` is {}, which is not run as a tool", words(*.kind))]
    Unsupported {
        /// The tool.
        id: ItemId,
        /// Its kind.
        kind: ToolKind,
    },
    /// Runtimes and primitives run others.
    #[error("`{id}` is {}: it runs tools and is none itself", words(*.kind))]
    RunsOthers {
        /// The item.
        id: ItemId,
        /// Its kind.
        kind: ToolKind,
    },
    /// The tool describes something without saying how to run it.
    #[error("`{id}` does not say what to run: it has no `{missing}`")]
    NothingToRun {
        /// The tool.
        id: ItemId,
        /// What is missing.
        missing: &'static str,
        /// How it would be written.
        example: &'static str,
        /// The tool's file.
        at: Box<Origin>,
    },
    /// The parameters are not what the tool takes.
    #[error("{}", told(.id, .problems))]
    Parameters {
        /// The tool.
        id: ItemId,
        /// Everything that is wrong with them.
        problems: Vec<ParamProblem>,
    },
    /// The command is none of the tool's.
    #[error("tool `{id}` has no command `{}`", shown(.command))]
    UnknownCommand {
        /// The tool.
        id: ItemId,
        /// What was asked for.
        command: String,
        /// What there is.
        known: Vec<String>,
    },
    /// A setting is unusable.
    #[error("`{field}` {reason}")]
    Setting {
        /// Which one, e.g. `config.cwd`.
        field: String,
        /// What is wrong with it.
        reason: String,
        /// The way out.
        hint: String,
        /// Where it stands.
        at: Option<Box<Origin>>,
    },
    /// A placeholder stands for nothing.
    #[error("`{placeholder}` in `{field}` {reason}")]
    Placeholder {
        /// As it is written.
        placeholder: String,
        /// The setting it stands in.
        field: String,
        /// What is wrong with it.
        reason: String,
        /// The way out.
        hint: String,
        /// Where the setting stands.
        at: Box<Origin>,
    },
    /// A parameter would be taken for an option.
    #[error("parameter `{parameter}` begins with `-` and would be taken for an option in `{field}`")]
    Dash {
        /// The parameter.
        parameter: String,
        /// The setting it is used in.
        field: String,
        /// Where that stands.
        at: Option<Box<Origin>>,
    },
    /// A value holds what no argument and no variable can hold.
    #[error("{what} holds a NUL character, which cannot be passed to a process")]
    Nul {
        /// Which value.
        what: String,
    },
    /// A value is longer than the system takes.
    #[error("{what} is longer than {limit} bytes, the most that can be passed to a process")]
    TooLong {
        /// Which value.
        what: String,
        /// The most it may have.
        limit: usize,
    },
    /// Two parameters have one variable.
    #[error("parameters `{first}` and `{second}` are both passed as `{variable}`")]
    Clash {
        /// One of them.
        first: String,
        /// The other.
        second: String,
        /// The variable.
        variable: String,
    },
    /// The name of a parameter is no name of an option.
    #[error("parameter `{}` cannot be passed as an option", shown(.0))]
    OptionName(String),
    /// The file to run is not there, or may not be run.
    #[error("{}", .0.message)]
    Entrypoint(Box<Finding>),
    /// The file to run cannot be read.
    #[error("cannot read `{}`", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Unread,
    },
    /// A path is not Unicode.
    #[error("the path `{}` is not valid Unicode", .0.display())]
    NotUnicode(PathBuf),
}

impl Explain for LowerError {
    fn code(&self) -> Code {
        match self {
            Self::NotATool(_) => Code::NotFound,
            Self::Chain { reason, .. } => reason.code(),
            Self::Tampered { .. } => Code::SignatureMismatch,
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
                Call::Sign(None)
            ]),
            Self::Unsupported { kind: ToolKind::Directive, .. } => {
                Some("write it as a directive below `.ai/directives/`, which `piton run` runs".into())
            }
            Self::Unsupported { .. } => {
                Some("write it as an entry below `.ai/knowledge/`, which `piton load` shows".into())
            }
            Self::RunsOthers { id, .. } => Some(format!("run a tool that names it: `executor: {id}`").into()),
            Self::NothingToRun { example, .. } => Some(format!("add {example}").into()),
            Self::Parameters { id, problems } => {
                let suggested = problems.iter().find_map(|problem| problem.suggestion.clone());
                Some(
                    suggested.map_or_else(|| hint![Call::ShowTool(id.to_string()), " lists what it takes"], Hint::from),
                )
            }
            Self::UnknownCommand { command, known, .. } => {
                let otherwise = if known.is_empty() {
                    "leave the command out".to_owned()
                } else {
                    format!("it has {}", known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
                };
                let meant = crate::item::wording::nearest(command, known.iter().map(String::as_str));
                Some(did_you_mean(meant, &otherwise).into())
            }
            Self::Setting { hint, .. } | Self::Placeholder { hint, .. } => Some(hint.as_str().into()),
            Self::Dash { parameter, .. } => {
                Some(format!("in the tool, write `--` before it, or `--name={{{parameter}}}` as one argument").into())
            }
            Self::Nul { .. } | Self::OptionName(_) => Some("give another value".into()),
            Self::TooLong { .. } => Some("pass the name of a file instead".into()),
            Self::Clash { .. } => Some("rename one of them".into()),
            Self::Entrypoint(finding) => finding.suggestion.clone(),
            Self::Unreadable { .. } => Some("check that it is there and its permissions".into()),
            Self::NotUnicode(_) => Some("rename the folder or file".into()),
        }
    }

    fn place(&self) -> Option<Origin> {
        match self {
            Self::Chain { at, .. } | Self::NothingToRun { at, .. } | Self::Placeholder { at, .. } => {
                Some((**at).clone())
            }
            Self::Setting { at, .. } | Self::Dash { at, .. } => at.as_deref().cloned(),
            Self::Tampered { file, line, .. } => Some(Origin { file: file.clone(), line: *line, column: 1 }),
            Self::Entrypoint(finding) => Some(Origin::of(finding)),
            _ => None,
        }
    }
}

impl LowerError {
    /// Whether it is refused because it may have been tampered with.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Tampered { .. })
    }
}

fn told(id: &ItemId, problems: &[ParamProblem]) -> String {
    let all: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
    format!("tool `{id}` cannot be called like this: {}", all.join("; "))
}

fn words(kind: ToolKind) -> &'static str {
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
