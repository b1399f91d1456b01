//! What can be created, and its type names.

use crate::item::wording::{did_you_mean, nearest, shown};
use crate::problem::{Code, Explain, Hint};

/// The types that a new tool can have.
pub const TYPES: [&str; 14] = [
    "script",
    "python",
    "bash",
    "node",
    "api",
    "mcp_server",
    "mcp_tool",
    "docker",
    "cli",
    "local",
    "meta",
    "runtime",
    "directive",
    "knowledge",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkeletonKind {
    Script {
        language: SkeletonLanguage,
        /// As written.
        written: &'static str,
    },
    Api,
    McpServer,
    McpTool,
    Docker,
    Cli,
    Meta,
    /// Runs scripts of one language.
    Runtime,
    Directive,
    Knowledge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkeletonLanguage {
    /// Python with a `main` function.
    Python,
    Bash,
    Node,
}

impl SkeletonLanguage {
    pub fn ending(self) -> &'static str {
        match self {
            Self::Python => "py",
            Self::Bash => "sh",
            Self::Node => "js",
        }
    }
}

impl SkeletonKind {
    /// The kind for a type name; the executor of a script decides its language.
    pub fn of(written: &str, executor: Option<&str>) -> Result<Self, SkeletonError> {
        let script = |language, written| Self::Script { language, written };
        Ok(match written {
            "script" => script(language_of(executor)?, "script"),
            "python" => script(SkeletonLanguage::Python, "python"),
            "bash" => script(SkeletonLanguage::Bash, "bash"),
            "node" => script(SkeletonLanguage::Node, "script"),
            "api" => Self::Api,
            "mcp_server" => Self::McpServer,
            "mcp_tool" => Self::McpTool,
            "docker" => Self::Docker,
            "cli" => Self::Cli,
            "local" => script(language_of(executor)?, "local"),
            "meta" => Self::Meta,
            "runtime" => Self::Runtime,
            "directive" => Self::Directive,
            "knowledge" => Self::Knowledge,
            "primitive" => return Err(SkeletonError::Primitive),
            other => return Err(SkeletonError::UnknownType(other.to_owned())),
        })
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Script { written, .. } => written,
            Self::Api => "api",
            Self::McpServer => "mcp_server",
            Self::McpTool => "mcp_tool",
            Self::Docker => "docker",
            Self::Cli => "cli",
            Self::Meta => "meta",
            Self::Runtime => "runtime",
            Self::Directive => "directive",
            Self::Knowledge => "knowledge",
        }
    }
}

fn language_of(executor: Option<&str>) -> Result<SkeletonLanguage, SkeletonError> {
    match executor {
        None | Some("python_runtime") => Ok(SkeletonLanguage::Python),
        Some("bash_runtime") => Ok(SkeletonLanguage::Bash),
        Some("node_runtime") => Ok(SkeletonLanguage::Node),
        Some(other) => Err(SkeletonError::UnknownLanguage(other.to_owned())),
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SkeletonError {
    #[error("`{}` is not a type of tool", shown(.0))]
    UnknownType(String),
    /// Primitives are part of piton.
    #[error(
        "a primitive cannot be created: `subprocess` and `http_client` are the only two, and part of piton"
    )]
    Primitive,
    /// A runtime of the project may use any language.
    #[error("the language of a script that `{}` runs is not known", shown(.0))]
    UnknownLanguage(String),
    #[error("the description `{}` is not one line of text", shown(.0))]
    Description(String),
    /// Items of this kind are not run by others.
    #[error("{0} has no executor")]
    NoExecutor(&'static str),
    /// Only tools can be folders.
    #[error("{0} is one file")]
    NoFolder(&'static str),
}

impl Explain for SkeletonError {
    fn code(&self) -> Code {
        match self {
            Self::UnknownType(_) => Code::UnknownType,
            Self::Primitive => Code::PrimitiveShadowed,
            Self::UnknownLanguage(_)
            | Self::Description(_)
            | Self::NoExecutor(_)
            | Self::NoFolder(_) => Code::InvalidParameter,
        }
    }

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::UnknownType(written) => {
                let meant = match written.as_str() {
                    "http" | "rest" => Some("api"),
                    "sh" | "shell" => Some("bash"),
                    "js" | "javascript" | "nodejs" => Some("node"),
                    "py" => Some("python"),
                    "mcp" => Some("mcp_server"),
                    "container" => Some("docker"),
                    "command" => Some("cli"),
                    other => nearest(other, TYPES),
                };
                did_you_mean(meant, &format!("there are {}", TYPES.join(", "))).into()
            }
            Self::Primitive => {
                "use `--type runtime` for another interpreter, `cli` for a program, `api` for an HTTP call".into()
            }
            Self::UnknownLanguage(_) => "say it: `--type python`, `bash` or `node`".into(),
            Self::Description(_) => "write one line; more belongs into the file".into(),
            Self::NoExecutor(_) => "leave `--executor` out".into(),
            Self::NoFolder(_) => "leave `--folder` out".into(),
        })
    }
}
