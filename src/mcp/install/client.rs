//! The supported clients and their settings files.

use std::path::PathBuf;

use crate::context::Context;

/// An MCP client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    Claude,
    Codex,
    Cursor,
    Vscode,
    Gemini,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstallScope {
    /// The settings of a project, for everyone who works on it.
    Project,
    /// The settings of a user, for all projects.
    User,
}

impl Client {
    pub const ALL: [Self; 5] = [
        Self::Claude,
        Self::Codex,
        Self::Cursor,
        Self::Vscode,
        Self::Gemini,
    ];

    /// The name in commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
            Self::Gemini => "gemini",
        }
    }

    /// The name of the product.
    pub fn title(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::Cursor => "Cursor",
            Self::Vscode => "Visual Studio Code",
            Self::Gemini => "Gemini CLI",
        }
    }

    /// The default scope: the settings that a team shares, where that is usual.
    pub fn usual_scope(self) -> InstallScope {
        // Codex reads project settings only after the user has trusted the project.
        if self == Self::Codex {
            InstallScope::User
        } else {
            InstallScope::Project
        }
    }

    /// The key that holds the servers.
    pub(super) fn section(self) -> &'static str {
        match self {
            Self::Codex => "mcp_servers",
            Self::Vscode => "servers",
            Self::Claude | Self::Cursor | Self::Gemini => "mcpServers",
        }
    }

    /// Whether the settings are TOML; the others are JSON.
    pub fn is_toml(self) -> bool {
        self == Self::Codex
    }

    /// Whether an entry has a `type`.
    pub(super) fn writes_type(self) -> bool {
        matches!(self, Self::Claude | Self::Cursor | Self::Vscode)
    }

    /// Arguments before `mcp`: editors do not always start servers in the open folder, but can pass
    /// it.
    pub(super) fn start(self) -> &'static [&'static str] {
        match self {
            Self::Cursor | Self::Vscode => &["-C", "${workspaceFolder}"],
            Self::Claude | Self::Codex | Self::Gemini => &[],
        }
    }

    /// The settings file; none without a home folder.
    pub(super) fn settings(self, scope: InstallScope, ctx: &Context) -> Option<PathBuf> {
        let below = |variable: &str| {
            ctx.environment
                .find(variable)
                .filter(|it| !it.is_empty())
                .map(PathBuf::from)
        };
        let home = || ctx.home.clone();
        match (scope, self) {
            (InstallScope::Project, Self::Claude) => Some(ctx.root.join(".mcp.json")),
            (InstallScope::Project, Self::Codex) => Some(ctx.root.join(".codex/config.toml")),
            (InstallScope::Project, Self::Cursor) => Some(ctx.root.join(".cursor/mcp.json")),
            (InstallScope::Project, Self::Vscode) => Some(ctx.root.join(".vscode/mcp.json")),
            (InstallScope::Project, Self::Gemini) => Some(ctx.root.join(".gemini/settings.json")),
            (InstallScope::User, Self::Claude) => below("CLAUDE_CONFIG_DIR")
                .or_else(home)
                .map(|folder| folder.join(".claude.json")),
            (InstallScope::User, Self::Codex) => {
                let folder = below("CODEX_HOME").or_else(|| home().map(|home| home.join(".codex")));
                folder.map(|folder| folder.join("config.toml"))
            }
            (InstallScope::User, Self::Cursor) => home().map(|home| home.join(".cursor/mcp.json")),
            (InstallScope::User, Self::Gemini) => {
                home().map(|home| home.join(".gemini/settings.json"))
            }
            (InstallScope::User, Self::Vscode) if cfg!(target_os = "macos") => {
                home().map(|home| home.join("Library/Application Support/Code/User/mcp.json"))
            }
            (InstallScope::User, Self::Vscode) => {
                let folder =
                    below("XDG_CONFIG_HOME").or_else(|| home().map(|home| home.join(".config")));
                folder.map(|folder| folder.join("Code/User/mcp.json"))
            }
        }
    }
}

impl InstallScope {
    /// The name in commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::User => "user",
        }
    }
}
