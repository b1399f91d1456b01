//! The table of settings.
//!
//! One row per [`SettingKey`]. Add a key only when code reads it: a row, and an accessor on
//! [`Config`](super::Config).

use std::fmt;
use std::path::{Path, PathBuf};

use crate::item::wording::nearest;
use serde::{Serialize, Serializer};

use super::{
    AgentCommand, ColorSetting, HookPolicy, SecretPolicy, Setting, SettingSource,
    SignatureRequirement,
};
use crate::disk::Fsync;
use crate::item::directive::CheckpointMode;
use crate::item::tool::Isolation;
use crate::words::words;

macro_rules! settings {
    ($($key:ident, $name:literal, $variable:literal, $default:expr, $protection:ident, $summary:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum SettingKey {
            $(#[doc = $summary] $key,)*
        }

        impl SettingKey {
            /// Every key, in the order of the documentation.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$key),*];

            fn row(self) -> &'static KeyRow {
                match self {
                    $(Self::$key => const {
                        &KeyRow {
                            name: $name,
                            variable: $variable,
                            default: $default,
                            protection: Protection::$protection,
                            summary: $summary,
                        }
                    })*
                }
            }
        }
    };
}

struct KeyRow {
    name: &'static str,
    variable: &'static str,
    /// Its kind is the kind of all values.
    default: Value,
    protection: Protection,
    summary: &'static str,
}

/// Which layers may change a setting, and in which direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protection {
    /// Every layer may set it.
    Open,
    /// A project may raise it: higher values are safer.
    OnlyRaise,
    /// A project may lower it: lower values are safer.
    OnlyLower,
    /// A project may not set it, because every value could loosen something.
    NotByProject,
}

settings! {
    ValidateStrict, "validate.strict", "PITON_VALIDATE_STRICT", Value::Bool(false), OnlyRaise,
        "whether validation is strict";
    SignatureRequire, "signature.require", "PITON_SIGNATURE_REQUIRE", Value::Signature(SignatureRequirement::None), OnlyRaise,
        "what an item needs before it may be used";
    SignatureAllowedSigners, "signature.allowed_signers", "PITON_SIGNATURE_ALLOWED_SIGNERS", Value::File(None), NotByProject,
        "the `allowed_signers` file with the trusted keys; by default piton has its own";
    CheckpointMode, "checkpoint.mode", "PITON_CHECKPOINT_MODE", Value::Mode(CheckpointMode::Explicit), OnlyRaise,
        "when changes are checkpointed; the default for `piton exec` is `auto`";
    CheckpointMaxFileSize, "checkpoint.max_file_size", "PITON_CHECKPOINT_MAX_FILE_SIZE", Value::Size(10 << 20), OnlyRaise,
        "the largest file in a checkpoint; larger ones are left uncommitted";
    CheckpointMaxTotalSize, "checkpoint.max_total_size", "PITON_CHECKPOINT_MAX_TOTAL_SIZE", Value::Size(1 << 30), OnlyLower,
        "how much new content one snapshot may store";
    CheckpointHooks, "checkpoint.hooks", "PITON_CHECKPOINT_HOOKS", Value::Hooks(HookPolicy::Auto), OnlyRaise,
        "whether your git hooks run on the commits of checkpoints";
    CheckpointSecrets, "checkpoint.secrets", "PITON_CHECKPOINT_SECRETS", Value::Secrets(SecretPolicy::Block), OnlyRaise,
        "what happens when a checkpoint contains a secret";
    CheckpointSecretsAllowed, "checkpoint.secrets_allowed", "PITON_CHECKPOINT_SECRETS_ALLOWED", Value::List(Vec::new()), NotByProject,
        "path globs and fingerprints that are not secrets";
    CheckpointFsync, "checkpoint.fsync", "PITON_CHECKPOINT_FSYNC", Value::Fsync(Fsync::Auto), OnlyRaise,
        "how much is synced to disk to survive a power loss";
    HooksFailClosed, "hooks.fail_closed", "PITON_HOOKS_FAIL_CLOSED", Value::Bool(false), OnlyRaise,
        "whether git stops when a hook cannot find piton or piton crashes; applied by `hooks install`";
    GitRequired, "git.required", "PITON_GIT_REQUIRED", Value::Bool(true), OnlyRaise,
        "whether checkpoints need a git repository";
    IsolationCacheFolders, "isolation.cache_folders", "PITON_ISOLATION_CACHE_FOLDERS", Value::List(Vec::new()), NotByProject,
        "folders that tools may declare as caches, besides those of known toolchains";
    IsolationMinimum, "isolation.minimum", "PITON_ISOLATION_MINIMUM", Value::Isolation(Isolation::Trusted), OnlyRaise,
        "the weakest isolation level of tools, `piton exec` and agent commands; those that ask for less get this level";
    AgentCommand, "agent.command", "PITON_AGENT_COMMAND", Value::Command(None), NotByProject,
        "the command that executes manual steps; it reads the task from its standard input";
    AgentFast, "agent.commands.fast", "PITON_AGENT_COMMANDS_FAST", Value::Command(None), NotByProject,
        "the same for directives that ask for a model of this tier";
    AgentBalanced, "agent.commands.balanced", "PITON_AGENT_COMMANDS_BALANCED", Value::Command(None), NotByProject,
        "the same for directives that ask for a model of this tier";
    AgentGeneral, "agent.commands.general", "PITON_AGENT_COMMANDS_GENERAL", Value::Command(None), NotByProject,
        "the same for directives that ask for a model of this tier";
    AgentReasoning, "agent.commands.reasoning", "PITON_AGENT_COMMANDS_REASONING", Value::Command(None), NotByProject,
        "the same for directives that ask for a model of this tier";
    AgentExpert, "agent.commands.expert", "PITON_AGENT_COMMANDS_EXPERT", Value::Command(None), NotByProject,
        "the same for directives that ask for a model of this tier";
    AgentOrchestrator, "agent.commands.orchestrator", "PITON_AGENT_COMMANDS_ORCHESTRATOR", Value::Command(None), NotByProject,
        "the same for directives that ask for a model of this tier";
    AgentIsolation, "agent.isolation", "PITON_AGENT_ISOLATION", Value::Isolation(Isolation::Trusted), OnlyRaise,
        "the isolation level of agent commands; most agents write to your home, which needs `trusted`";
    UiColor, "ui.color", "PITON_UI_COLOR", Value::Color(ColorSetting::Auto), Open,
        "whether output is coloured";
}

/// How capable a model has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    Fast,
    Balanced,
    General,
    Reasoning,
    Expert,
    Orchestrator,
}

words!(Tier:
    Fast "fast",
    Balanced "balanced",
    General "general",
    Reasoning "reasoning",
    Expert "expert",
    Orchestrator "orchestrator"
);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Bool(bool),
    /// In bytes.
    Size(u64),
    Mode(CheckpointMode),
    Hooks(HookPolicy),
    Secrets(SecretPolicy),
    Fsync(Fsync),
    Isolation(Isolation),
    List(Vec<String>),
    Signature(SignatureRequirement),
    /// `None` when no layer sets it.
    File(Option<PathBuf>),
    /// `None` when no layer sets it.
    Command(Option<AgentCommand>),
    Color(ColorSetting),
}

macro_rules! kinds {
    ($($kind:ident($type:ty)),*) => {
        $(impl TryFrom<Value> for $type {
            type Error = Value;

            /// Fails for a value of another kind.
            fn try_from(value: Value) -> Result<Self, Value> {
                match value {
                    Value::$kind(value) => Ok(value),
                    other => Err(other),
                }
            }
        })*
    };
}

kinds!(
    Bool(bool),
    Size(u64),
    Mode(CheckpointMode),
    Hooks(HookPolicy),
    Secrets(SecretPolicy),
    Fsync(Fsync),
    Isolation(Isolation),
    List(Vec<String>),
    Signature(SignatureRequirement),
    File(Option<PathBuf>),
    Command(Option<AgentCommand>),
    Color(ColorSetting)
);

impl SettingKey {
    /// The command for models of a tier.
    pub const fn of_tier(tier: Tier) -> Self {
        match tier {
            Tier::Fast => Self::AgentFast,
            Tier::Balanced => Self::AgentBalanced,
            Tier::General => Self::AgentGeneral,
            Tier::Reasoning => Self::AgentReasoning,
            Tier::Expert => Self::AgentExpert,
            Tier::Orchestrator => Self::AgentOrchestrator,
        }
    }

    /// The key as it is written, e.g. `validate.strict`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    pub fn variable(self) -> &'static str {
        self.row().variable
    }

    pub fn summary(self) -> &'static str {
        self.row().summary
    }

    pub fn default(self) -> Value {
        self.row().default.clone()
    }

    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    /// The key that a mistyped name most likely means.
    pub fn find_similar(name: &str) -> Option<Self> {
        nearest(name, Self::ALL.into_iter().map(Self::name)).and_then(Self::find)
    }

    /// The allowed words; empty when any text is possible.
    pub fn allowed_values(self) -> &'static [&'static str] {
        match self.row().default {
            Value::Bool(_) => &["true", "false"],
            Value::Mode(_) => &CheckpointMode::WORDS,
            Value::Hooks(_) => &HookPolicy::WORDS,
            Value::Secrets(_) => &SecretPolicy::WORDS,
            Value::Fsync(_) => &Fsync::WORDS,
            Value::Isolation(_) => &Isolation::WORDS,
            Value::Signature(_) => &SignatureRequirement::WORDS,
            Value::Color(_) => &ColorSetting::WORDS,
            Value::Size(_) | Value::List(_) | Value::File(_) | Value::Command(_) => &[],
        }
    }

    /// The values as a phrase: "`auto`, `always` or `never`".
    pub fn expected(self) -> String {
        match self.row().default {
            Value::Size(_) => "a size such as `10MiB`".to_owned(),
            Value::List(_) if self == Self::IsolationCacheFolders => {
                "a list of absolute folders, or ones that begin with `~/`".to_owned()
            }
            Value::List(_) => "a list of path globs and fingerprints".to_owned(),
            Value::File(_) => "an absolute path, or one that begins with `~/`".to_owned(),
            Value::Command(_) => "a command line such as `my-agent --print`".to_owned(),
            _ => any_of(self.allowed_values()),
        }
    }

    pub fn parse(self, text: &str) -> Option<Value> {
        match self.row().default {
            Value::Bool(_) => text.parse().ok().map(Value::Bool),
            Value::Size(_) => parse_size(text).map(Value::Size),
            Value::Mode(_) => CheckpointMode::parse(text).map(Value::Mode),
            Value::Hooks(_) => HookPolicy::parse(text).map(Value::Hooks),
            Value::Secrets(_) => SecretPolicy::parse(text).map(Value::Secrets),
            Value::Fsync(_) => Fsync::parse(text).map(Value::Fsync),
            Value::Isolation(_) => Isolation::parse(text).map(Value::Isolation),
            Value::Signature(_) => SignatureRequirement::parse(text).map(Value::Signature),
            Value::Color(_) => ColorSetting::parse(text).map(Value::Color),
            Value::List(_) => {
                let texts = text
                    .split(',')
                    .map(str::trim)
                    .filter(|text| !text.is_empty());
                let folders = self == Self::IsolationCacheFolders;
                let is_fixed = |text: &str| text.starts_with("~/") || text.starts_with('/');
                let texts = texts.map(|text| {
                    let folder = text.trim_end_matches('/');
                    let text = if folders { folder } else { text };
                    (!folders || is_fixed(text)).then(|| text.to_owned())
                });
                texts.collect::<Option<_>>().map(Value::List)
            }
            Value::File(_) if text.is_empty() => Some(Value::File(None)),
            Value::File(_) => {
                let is_fixed = text.starts_with("~/") || text.starts_with('/');
                is_fixed.then(|| Value::File(Some(PathBuf::from(text))))
            }
            Value::Command(_) if text.is_empty() => Some(Value::Command(None)),
            Value::Command(_) => {
                AgentCommand::parse(text).map(|command| Value::Command(Some(command)))
            }
        }
    }

    /// Whether the project may replace one value by another.
    fn project_may_set(self, from: &Value, to: &Value) -> bool {
        match self.row().protection {
            Protection::Open => true,
            Protection::OnlyRaise => to.level() >= from.level(),
            Protection::OnlyLower => to.level() <= from.level(),
            Protection::NotByProject => false,
        }
    }

    /// Whether a variable has no more power than a project. These settings decide whose items run
    /// and what these may write, and a project can set variables through `direnv`, an `.env` file or a build server.
    pub(super) fn is_guarded_from_variables(self) -> bool {
        matches!(
            self,
            Self::SignatureRequire
                | Self::SignatureAllowedSigners
                | Self::IsolationCacheFolders
                | Self::IsolationMinimum
                | Self::AgentIsolation
        )
    }

    /// Why `setter`, a layer other than the user's, may not replace one value by another.
    pub(super) fn objection(self, setter: &str, from: &Setting, to: &Value) -> Option<String> {
        let name = self.name();
        let origin = match &from.source {
            SettingSource::User { file, line } => format!(" ({}:{line})", file.display()),
            _ => String::new(),
        };
        let from = &from.value;
        match self.row().protection {
            _ if self.project_may_set(from, to) => None,
            Protection::NotByProject => Some(format!("{setter} may not set `{name}`")),
            _ => Some(format!(
                "{setter} may tighten `{name}`, not loosen it from `{from}`{origin} to `{to}`"
            )),
        }
    }

    /// The variable that sets it; `None` when variables are ignored for this key.
    pub fn effective_variable(self) -> Option<&'static str> {
        let is_deaf =
            self.is_guarded_from_variables() && self.row().protection == Protection::NotByProject;
        (!is_deaf).then(|| self.variable())
    }

    /// Says which layers may set it.
    pub fn setters(self) -> &'static str {
        match (self.row().protection, self.is_guarded_from_variables()) {
            (Protection::Open, _) => "by you and by the project",
            (Protection::OnlyRaise | Protection::OnlyLower, false) => {
                "by you; a project may tighten it, never loosen it"
            }
            (Protection::OnlyRaise | Protection::OnlyLower, true) => {
                "by you, in `~/.ai/config.yaml`; a project or the variable may tighten it, never loosen it"
            }
            (Protection::NotByProject, false) => "by you only; a project may not set it",
            (Protection::NotByProject, true) => {
                "by you only, in `~/.ai/config.yaml`; neither a project nor a variable may set it"
            }
        }
    }

    pub(super) fn is_list(self) -> bool {
        matches!(self.row().default, Value::List(_))
    }
}

impl Value {
    /// Orders the values of a setting that a project may change in one direction only. A larger
    /// file limit leaves fewer files out of checkpoints; a smaller total limit stores less on the
    /// user's disk.
    fn level(&self) -> u64 {
        match self {
            Self::Bool(value) => (*value).into(),
            Self::Size(bytes) => *bytes,
            Self::Mode(mode) => match mode {
                CheckpointMode::Disabled => 0,
                CheckpointMode::Explicit => 1,
                CheckpointMode::Auto => 2,
            },
            Self::Hooks(policy) => *policy as u64,
            Self::Secrets(policy) => *policy as u64,
            Self::Fsync(fsync) => *fsync as u64,
            Self::Isolation(level) => *level as u64,
            Self::Signature(requirement) => *requirement as u64,
            Self::List(_) | Self::File(_) | Self::Command(_) | Self::Color(_) => 0,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(formatter, "{value}"),
            Self::Size(bytes) => write!(formatter, "{}", shown_size(*bytes)),
            Self::Mode(mode) => formatter.write_str(mode.as_str()),
            Self::Hooks(policy) => formatter.write_str(policy.as_str()),
            Self::Secrets(policy) => formatter.write_str(policy.as_str()),
            Self::Fsync(fsync) => formatter.write_str(fsync.as_str()),
            Self::Isolation(level) => formatter.write_str(level.as_str()),
            Self::List(texts) => formatter.write_str(&texts.join(",")),
            Self::Signature(requirement) => formatter.write_str(requirement.as_str()),
            Self::File(file) => write!(
                formatter,
                "{}",
                file.as_deref().unwrap_or(Path::new("")).display()
            ),
            Self::Command(command) => {
                formatter.write_str(command.as_ref().map_or("", AgentCommand::text))
            }
            Self::Color(color) => formatter.write_str(color.as_str()),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Size(bytes) => serializer.serialize_u64(*bytes),
            Self::List(texts) => texts.serialize(serializer),
            Self::File(None) | Self::Command(None) => serializer.serialize_none(),
            other => serializer.collect_str(other),
        }
    }
}

/// "`auto`, `always` or `never`".
fn any_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

const UNITS: [(&str, u64); 6] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1000),
];

/// A number of bytes, with or without a unit.
fn parse_size(text: &str) -> Option<u64> {
    let unit = UNITS
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (number, factor) = unit.unwrap_or((text.strip_suffix('B').unwrap_or(text), 1));
    number.trim().parse::<u64>().ok()?.checked_mul(factor)
}

fn shown_size(bytes: u64) -> String {
    let unit = UNITS
        .iter()
        .find(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor));
    unit.map_or_else(
        || bytes.to_string(),
        |(unit, factor)| format!("{}{unit}", bytes / factor),
    )
}

impl Serialize for SettingKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_written_value_can_be_read_back() {
        for key in SettingKey::ALL {
            for text in key.allowed_values() {
                assert_eq!(
                    key.parse(text).map(|value| value.to_string()).as_deref(),
                    Some(*text),
                    "{}",
                    key.name()
                );
            }
            assert_eq!(
                key.parse(&key.default().to_string()),
                Some(key.default()),
                "{}",
                key.name()
            );
            assert_eq!(SettingKey::find(key.name()), Some(key));
        }
    }

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("10MiB", 10 << 20),
            ("1500", 1500),
            ("2 GB", 2_000_000_000),
            ("7B", 7),
            ("0", 0),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in ["", "MiB", "-1", "1.5MiB", "99999999999GiB", "10 miles"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn variables_are_the_names_in_capitals() {
        for key in SettingKey::ALL {
            assert_eq!(
                key.variable(),
                format!("PITON_{}", key.name().replace('.', "_").to_uppercase())
            );
        }
    }

    #[test]
    fn a_typo_is_recognised_and_nonsense_is_not() {
        assert_eq!(
            SettingKey::find_similar("validate.strickt"),
            Some(SettingKey::ValidateStrict)
        );
        assert_eq!(
            SettingKey::find_similar("signature.required"),
            Some(SettingKey::SignatureRequire)
        );
        assert_eq!(SettingKey::find_similar("zzz"), None);
    }
}
