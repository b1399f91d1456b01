//! The table of settings.
//!
//! One row per [`Key`]. Add a key only when code reads it: a variant, its row, and an accessor on
//! [`Config`](super::Config).

use std::fmt;
use std::path::{Path, PathBuf};

use crate::item::wording::nearest;
use serde::{Serialize, Serializer};

use super::{AgentCommand, ColorSetting, HookPolicy, SecretPolicy, SignatureRequirement};
use crate::disk::Fsync;
use crate::item::directive::CheckpointMode;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    ValidateStrict,
    /// What an item needs before it may be used.
    SignatureRequire,
    SignatureAllowedSigners,
    CheckpointMode,
    CheckpointMaxFileSize,
    /// The limit for the new content of one snapshot.
    CheckpointMaxTotalSize,
    CheckpointHooks,
    CheckpointSecrets,
    /// Paths and fingerprints that are known not to be secrets.
    CheckpointSecretsAllowed,
    CheckpointFsync,
    /// Whether git stops when a hook cannot find piton.
    HooksFailClosed,
    GitRequired,
    /// The command that executes manual steps.
    AgentCommand,
    /// The same for models of one tier.
    AgentCommands(Tier),
    UiColor,
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

impl Tier {
    pub const ALL: [Self; 6] =
        [Self::Fast, Self::Balanced, Self::General, Self::Reasoning, Self::Expert, Self::Orchestrator];

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.as_str() == text)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Balanced => "balanced",
            Self::General => "general",
            Self::Reasoning => "reasoning",
            Self::Expert => "expert",
            Self::Orchestrator => "orchestrator",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Bool(bool),
    /// In bytes.
    Size(u64),
    Mode(CheckpointMode),
    Hooks(HookPolicy),
    Secrets(SecretPolicy),
    Fsync(Fsync),
    List(Vec<String>),
    Signature(SignatureRequirement),
    /// `None` when no layer sets it.
    File(Option<PathBuf>),
    /// `None` when no layer sets it.
    Command(Option<AgentCommand>),
    Color(ColorSetting),
}

/// Which layers may change a setting, and in which direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protection {
    /// Every layer may set it.
    Open,
    /// A project may tighten it, never loosen it.
    OnlyTighten,
    /// A project may not set it, because every value could loosen something.
    NotByProject,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    Words(&'static [&'static str]),
    /// A description for messages.
    Described(&'static str),
}

const COMMAND: &str = "a command line such as `my-agent --print`";

struct Row {
    name: &'static str,
    variable: &'static str,
    summary: &'static str,
    values: Values,
    default: Value,
    protection: Protection,
}

impl Key {
    /// Every key, in the order of the documentation.
    pub const ALL: [Self; 20] = [
        Self::ValidateStrict,
        Self::SignatureRequire,
        Self::SignatureAllowedSigners,
        Self::CheckpointMode,
        Self::CheckpointMaxFileSize,
        Self::CheckpointMaxTotalSize,
        Self::CheckpointHooks,
        Self::CheckpointSecrets,
        Self::CheckpointSecretsAllowed,
        Self::CheckpointFsync,
        Self::HooksFailClosed,
        Self::GitRequired,
        Self::AgentCommand,
        Self::AgentCommands(Tier::Fast),
        Self::AgentCommands(Tier::Balanced),
        Self::AgentCommands(Tier::General),
        Self::AgentCommands(Tier::Reasoning),
        Self::AgentCommands(Tier::Expert),
        Self::AgentCommands(Tier::Orchestrator),
        Self::UiColor,
    ];

    fn row(self) -> Row {
        match self {
            Self::ValidateStrict => Row {
                name: "validate.strict",
                variable: "PITON_VALIDATE_STRICT",
                summary: "whether validation is strict",
                values: Values::Words(&["true", "false"]),
                default: Value::Bool(false),
                protection: Protection::Open,
            },
            Self::SignatureRequire => Row {
                name: "signature.require",
                variable: "PITON_SIGNATURE_REQUIRE",
                summary: "what an item needs before it may be used",
                values: Values::Words(&["none", "integrity", "author"]),
                default: Value::Signature(SignatureRequirement::None),
                protection: Protection::OnlyTighten,
            },
            Self::SignatureAllowedSigners => Row {
                name: "signature.allowed_signers",
                variable: "PITON_SIGNATURE_ALLOWED_SIGNERS",
                summary: "the `allowed_signers` file with the trusted keys; by default piton has its own",
                values: Values::Described("an absolute path, or one that begins with `~/`"),
                default: Value::File(None),
                protection: Protection::NotByProject,
            },
            Self::CheckpointMode => Row {
                name: "checkpoint.mode",
                variable: "PITON_CHECKPOINT_MODE",
                summary: "when changes are checkpointed; the default for `piton exec` is `auto`",
                values: Values::Words(&["auto", "explicit", "disabled"]),
                default: Value::Mode(CheckpointMode::Explicit),
                protection: Protection::Open,
            },
            Self::CheckpointMaxFileSize => Row {
                name: "checkpoint.max_file_size",
                variable: "PITON_CHECKPOINT_MAX_FILE_SIZE",
                summary: "the largest file in a checkpoint; larger ones are left uncommitted",
                values: Values::Described("a size such as `10MiB`"),
                default: Value::Size(10 << 20),
                protection: Protection::Open,
            },
            Self::CheckpointMaxTotalSize => Row {
                name: "checkpoint.max_total_size",
                variable: "PITON_CHECKPOINT_MAX_TOTAL_SIZE",
                summary: "how much new content one snapshot may store",
                values: Values::Described("a size such as `10MiB`"),
                default: Value::Size(1 << 30),
                protection: Protection::Open,
            },
            Self::CheckpointHooks => Row {
                name: "checkpoint.hooks",
                variable: "PITON_CHECKPOINT_HOOKS",
                summary: "whether your git hooks run on the commits of checkpoints",
                values: Values::Words(&["auto", "run", "skip"]),
                default: Value::Hooks(HookPolicy::Auto),
                protection: Protection::OnlyTighten,
            },
            Self::CheckpointSecrets => Row {
                name: "checkpoint.secrets",
                variable: "PITON_CHECKPOINT_SECRETS",
                summary: "what happens when a checkpoint contains a secret",
                values: Values::Words(&["block", "warn"]),
                default: Value::Secrets(SecretPolicy::Block),
                protection: Protection::OnlyTighten,
            },
            Self::CheckpointSecretsAllowed => Row {
                name: "checkpoint.secrets_allowed",
                variable: "PITON_CHECKPOINT_SECRETS_ALLOWED",
                summary: "path globs and fingerprints that are not secrets",
                values: Values::Described("a list of path globs and fingerprints"),
                default: Value::List(Vec::new()),
                protection: Protection::NotByProject,
            },
            Self::CheckpointFsync => Row {
                name: "checkpoint.fsync",
                variable: "PITON_CHECKPOINT_FSYNC",
                summary: "how much is synced to disk to survive a power loss",
                values: Values::Words(&["auto", "always", "never"]),
                default: Value::Fsync(Fsync::Auto),
                protection: Protection::OnlyTighten,
            },
            Self::HooksFailClosed => Row {
                name: "hooks.fail_closed",
                variable: "PITON_HOOKS_FAIL_CLOSED",
                summary: "whether git stops when a hook cannot find piton or piton crashes; applied by `hooks install`",
                values: Values::Words(&["true", "false"]),
                default: Value::Bool(false),
                protection: Protection::OnlyTighten,
            },
            Self::GitRequired => Row {
                name: "git.required",
                variable: "PITON_GIT_REQUIRED",
                summary: "whether checkpoints need a git repository",
                values: Values::Words(&["true", "false"]),
                default: Value::Bool(true),
                protection: Protection::OnlyTighten,
            },
            Self::AgentCommand => Row {
                name: "agent.command",
                variable: "PITON_AGENT_COMMAND",
                summary: "the command that executes manual steps; it reads the task from its standard input",
                values: Values::Described(COMMAND),
                default: Value::Command(None),
                protection: Protection::NotByProject,
            },
            Self::AgentCommands(tier) => {
                let (name, variable) = match tier {
                    Tier::Fast => ("agent.commands.fast", "PITON_AGENT_COMMANDS_FAST"),
                    Tier::Balanced => ("agent.commands.balanced", "PITON_AGENT_COMMANDS_BALANCED"),
                    Tier::General => ("agent.commands.general", "PITON_AGENT_COMMANDS_GENERAL"),
                    Tier::Reasoning => ("agent.commands.reasoning", "PITON_AGENT_COMMANDS_REASONING"),
                    Tier::Expert => ("agent.commands.expert", "PITON_AGENT_COMMANDS_EXPERT"),
                    Tier::Orchestrator => ("agent.commands.orchestrator", "PITON_AGENT_COMMANDS_ORCHESTRATOR"),
                };
                Row {
                    name,
                    variable,
                    summary: "the same for directives that ask for a model of this tier",
                    values: Values::Described(COMMAND),
                    default: Value::Command(None),
                    protection: Protection::NotByProject,
                }
            }
            Self::UiColor => Row {
                name: "ui.color",
                variable: "PITON_UI_COLOR",
                summary: "whether output is coloured",
                values: Values::Words(&["auto", "always", "never"]),
                default: Value::Color(ColorSetting::Auto),
                protection: Protection::Open,
            },
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

    /// The allowed words; empty when any text is possible.
    pub fn words(self) -> &'static [&'static str] {
        match self.row().values {
            Values::Words(words) => words,
            Values::Described(_) => &[],
        }
    }

    pub fn default(self) -> Value {
        self.row().default
    }

    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    /// The key that a mistyped name most likely means.
    pub fn find_similar(name: &str) -> Option<Self> {
        nearest(name, Self::ALL.into_iter().map(Self::name)).and_then(Self::find)
    }

    pub fn parse(self, text: &str) -> Option<Value> {
        match self {
            Self::ValidateStrict | Self::HooksFailClosed | Self::GitRequired => match text {
                "true" => Some(Value::Bool(true)),
                "false" => Some(Value::Bool(false)),
                _ => None,
            },
            Self::SignatureRequire => SignatureRequirement::parse(text).map(Value::Signature),
            Self::SignatureAllowedSigners if text.is_empty() => Some(Value::File(None)),
            Self::SignatureAllowedSigners => {
                let is_fixed = text.starts_with("~/") || text.starts_with('/');
                is_fixed.then(|| Value::File(Some(PathBuf::from(text))))
            }
            Self::CheckpointMode => CheckpointMode::parse(text).map(Value::Mode),
            Self::CheckpointMaxFileSize | Self::CheckpointMaxTotalSize => parse_size(text).map(Value::Size),
            Self::CheckpointHooks => HookPolicy::parse(text).map(Value::Hooks),
            Self::CheckpointSecrets => SecretPolicy::parse(text).map(Value::Secrets),
            Self::CheckpointFsync => Fsync::parse(text).map(Value::Fsync),
            Self::CheckpointSecretsAllowed => {
                let texts = text.split(',').map(str::trim).filter(|text| !text.is_empty());
                Some(Value::List(texts.map(str::to_owned).collect()))
            }
            Self::AgentCommand | Self::AgentCommands(_) if text.is_empty() => Some(Value::Command(None)),
            Self::AgentCommand | Self::AgentCommands(_) => {
                AgentCommand::parse(text).map(|command| Value::Command(Some(command)))
            }
            Self::UiColor => ColorSetting::parse(text).map(Value::Color),
        }
    }

    /// Whether the project may replace one value by another.
    fn project_may_set(self, from: &Value, to: &Value) -> bool {
        match (self.row().protection, from, to) {
            (Protection::NotByProject, ..) => false,
            (Protection::OnlyTighten, Value::Signature(from), Value::Signature(to)) => to >= from,
            (Protection::OnlyTighten, Value::Secrets(from), Value::Secrets(to)) => to >= from,
            (Protection::OnlyTighten, Value::Hooks(from), Value::Hooks(to)) => to >= from,
            (Protection::OnlyTighten, Value::Fsync(from), Value::Fsync(to)) => to >= from,
            (Protection::OnlyTighten, Value::Bool(from), Value::Bool(to)) => to >= from,
            _ => true,
        }
    }

    /// Whether a variable has no more power than a project. These settings decide whose items run,
    /// and a project can set variables through `direnv`, an `.env` file or a build server.
    pub(super) fn is_guarded_from_variables(self) -> bool {
        matches!(self, Self::SignatureRequire | Self::SignatureAllowedSigners)
    }

    /// Why `setter`, a layer other than the user's, may not replace one value by another.
    pub(super) fn objection(self, setter: &str, from: &Value, to: &Value) -> Option<String> {
        let name = self.name();
        match self.row().protection {
            _ if self.project_may_set(from, to) => None,
            Protection::NotByProject => Some(format!("{setter} may not set `{name}`")),
            _ => Some(format!("{setter} may tighten `{name}`, not loosen it from `{from}` to `{to}`")),
        }
    }

    /// The variable that sets it; `None` when variables are ignored for this key.
    pub fn effective_variable(self) -> Option<&'static str> {
        let is_deaf = self.is_guarded_from_variables() && self.row().protection == Protection::NotByProject;
        (!is_deaf).then(|| self.variable())
    }

    /// Says which layers may set it.
    pub fn setters(self) -> &'static str {
        match (self.row().protection, self.is_guarded_from_variables()) {
            (Protection::Open, _) => "by you and by the project",
            (Protection::OnlyTighten, false) => "by you; a project may tighten it, never loosen it",
            (Protection::OnlyTighten, true) => {
                "by you, in `~/.ai/config.yaml`; a project or the variable may tighten it, never loosen it"
            }
            (Protection::NotByProject, false) => "by you only; a project may not set it",
            (Protection::NotByProject, true) => {
                "by you only, in `~/.ai/config.yaml`; neither a project nor a variable may set it"
            }
        }
    }

    pub(super) fn is_list(self) -> bool {
        matches!(self.default(), Value::List(_))
    }

    /// The values as a phrase: "`auto`, `always` or `never`".
    pub fn expected(self) -> String {
        if let Values::Described(text) = self.row().values {
            return text.to_owned();
        }
        let quoted: Vec<String> = self.words().iter().map(|value| format!("`{value}`")).collect();
        match quoted.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => quoted.concat(),
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
            Self::List(texts) => formatter.write_str(&texts.join(",")),
            Self::Signature(requirement) => formatter.write_str(requirement.as_str()),
            Self::File(file) => write!(formatter, "{}", file.as_deref().unwrap_or(Path::new("")).display()),
            Self::Command(command) => formatter.write_str(command.as_ref().map_or("", AgentCommand::text)),
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

const UNITS: [(&str, u64); 6] =
    [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1000)];

/// A number of bytes, with or without a unit.
fn parse_size(text: &str) -> Option<u64> {
    let unit = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (number, factor) = unit.unwrap_or((text.strip_suffix('B').unwrap_or(text), 1));
    number.trim().parse::<u64>().ok()?.checked_mul(factor)
}

fn shown_size(bytes: u64) -> String {
    let unit = UNITS.iter().find(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor));
    unit.map_or_else(|| bytes.to_string(), |(unit, factor)| format!("{}{unit}", bytes / factor))
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_written_value_can_be_read_back() {
        for key in Key::ALL {
            for text in key.words() {
                assert_eq!(key.parse(text).map(|value| value.to_string()).as_deref(), Some(*text), "{}", key.name());
            }
            assert_eq!(key.parse(&key.default().to_string()), Some(key.default()), "{}", key.name());
            assert_eq!(Key::find(key.name()), Some(key));
        }
    }

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [("10MiB", 10 << 20), ("1500", 1500), ("2 GB", 2_000_000_000), ("7B", 7), ("0", 0)] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in ["", "MiB", "-1", "1.5MiB", "99999999999GiB", "10 miles"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn variables_are_the_names_in_capitals() {
        for key in Key::ALL {
            assert_eq!(key.variable(), format!("PITON_{}", key.name().replace('.', "_").to_uppercase()));
        }
    }

    #[test]
    fn a_typo_is_recognised_and_nonsense_is_not() {
        assert_eq!(Key::find_similar("validate.strickt"), Some(Key::ValidateStrict));
        assert_eq!(Key::find_similar("signature.required"), Some(Key::SignatureRequire));
        assert_eq!(Key::find_similar("zzz"), None);
    }
}
