//! Settings in layers.
//!
//! Defaults, then `~/.ai/config.yaml`, then `.ai/config.yaml`, then `PITON_*` variables, then
//! flags. The later layer wins, and every [`Setting`] records its source. A project's file is
//! untrusted: it may tighten safety, never loosen it. For signatures the same holds for variables,
//! because a project can set them. [`Config`] reads files, never the process environment.

mod command;
mod key;
mod layer;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use command::AgentCommand;
pub use key::{Key, Tier, Value};

use crate::disk::Fsync;
use crate::item::directive::CheckpointMode;
use crate::item::finding::{Finding, Severity, serialize_path};

#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Values set by some layer; all other keys have their default.
    settings: BTreeMap<Key, Setting>,
    findings: Vec<Finding>,
    ignored: Vec<IgnoredVariable>,
}

/// A variable that was ignored because it would loosen safety.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredVariable {
    pub variable: &'static str,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    pub key: Key,
    pub value: Value,
    pub source: Source,
}

/// Where a value came from, lowest layer first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "layer", rename_all = "snake_case")]
pub enum Source {
    Default,
    User {
        #[serde(serialize_with = "serialize_path")]
        file: PathBuf,
        line: u32,
    },
    Project {
        /// Relative to the project.
        #[serde(serialize_with = "serialize_path")]
        file: PathBuf,
        line: u32,
    },
    Environment {
        variable: &'static str,
    },
    Flag {
        /// With its dashes, e.g. `--color`.
        flag: &'static str,
    },
}

/// What an item needs before it may be used; later is stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SignatureRequirement {
    None,
    /// A valid integrity stamp.
    Integrity,
    /// A signature by a trusted author.
    Author,
}

/// Whether the user's git hooks run on the commits of checkpoints; later is stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookPolicy {
    Skip,
    /// Run them, unless files outside of the step are dirty: many hooks stash or rewrite those.
    Auto,
    Run,
}

/// What happens when a checkpoint contains a secret; later is stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretPolicy {
    /// The checkpoint is committed with a warning.
    Warn,
    /// The checkpoint fails.
    Block,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorSetting {
    /// On a terminal.
    Auto,
    /// Even into a file or pipe.
    Always,
    /// Not even on a terminal.
    Never,
}

/// The settings files of one invocation; either may be missing.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    /// `~/.ai/config.yaml`.
    pub user: Option<&'a Path>,
    /// `.ai/config.yaml` of the project.
    pub project: Option<&'a Path>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the variable `{variable}` must be {expected}, not `{value}`")]
pub struct InvalidVariable {
    pub(crate) variable: &'static str,
    pub(crate) expected: String,
    pub(crate) value: String,
}

impl Config {
    /// Reads all layers below the flags. Mistakes in the files become [`Config::findings`].
    pub fn load(files: Files<'_>, variables: &BTreeMap<OsString, OsString>) -> Result<Self, InvalidVariable> {
        let mut config = Self::default();
        if let Some(file) = files.user {
            layer::read(&mut config, file, layer::Owner::User);
        }
        if let Some(file) = files.project {
            layer::read(&mut config, file, layer::Owner::Project);
        }
        config.read_variables(variables)?;
        Ok(config)
    }

    pub fn set_flag(&mut self, key: Key, value: Value, flag: &'static str) {
        self.set(key, value, Source::Flag { flag });
    }

    pub fn get(&self, key: Key) -> Setting {
        self.settings.get(&key).cloned().unwrap_or_else(|| Setting {
            key,
            value: key.default(),
            source: Source::Default,
        })
    }

    /// Every setting, in the order of the documentation.
    pub fn all(&self) -> Vec<Setting> {
        Key::ALL.into_iter().map(|key| self.get(key)).collect()
    }

    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    pub fn ignored_variables(&self) -> &[IgnoredVariable] {
        &self.ignored
    }

    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }

    pub fn strict(&self) -> bool {
        self.get(Key::ValidateStrict).value == Value::Bool(true)
    }

    pub fn signature_requirement(&self) -> SignatureRequirement {
        match self.get(Key::SignatureRequire).value {
            Value::Signature(requirement) => requirement,
            _ => SignatureRequirement::None,
        }
    }

    /// The path may begin with `~/`.
    pub fn allowed_signers(&self) -> Option<PathBuf> {
        match self.get(Key::SignatureAllowedSigners).value {
            Value::File(file) => file,
            _ => None,
        }
    }

    /// `None` when no layer sets it: the directive decides then.
    pub fn checkpoint_mode(&self) -> Option<CheckpointMode> {
        match self.settings.get(&Key::CheckpointMode).map(|setting| &setting.value) {
            Some(Value::Mode(mode)) => Some(*mode),
            _ => None,
        }
    }

    /// In bytes.
    pub fn max_file_size(&self) -> u64 {
        self.size(Key::CheckpointMaxFileSize)
    }

    /// In bytes.
    pub fn max_total_size(&self) -> u64 {
        self.size(Key::CheckpointMaxTotalSize)
    }

    pub fn hooks(&self) -> HookPolicy {
        match self.get(Key::CheckpointHooks).value {
            Value::Hooks(policy) => policy,
            _ => HookPolicy::Auto,
        }
    }

    pub fn secrets(&self) -> SecretPolicy {
        match self.get(Key::CheckpointSecrets).value {
            Value::Secrets(policy) => policy,
            _ => SecretPolicy::Block,
        }
    }

    pub fn secrets_allowed(&self) -> Vec<String> {
        match self.get(Key::CheckpointSecretsAllowed).value {
            Value::List(texts) => texts,
            _ => Vec::new(),
        }
    }

    pub fn fsync(&self) -> Fsync {
        match self.get(Key::CheckpointFsync).value {
            Value::Fsync(fsync) => fsync,
            _ => Fsync::Auto,
        }
    }

    pub fn hooks_fail_closed(&self) -> bool {
        self.get(Key::HooksFailClosed).value == Value::Bool(true)
    }

    pub fn git_required(&self) -> bool {
        self.get(Key::GitRequired).value == Value::Bool(true)
    }

    pub fn agent_command(&self) -> Option<AgentCommand> {
        self.command(Key::AgentCommand)
    }

    pub fn agent_command_for(&self, tier: Tier) -> Option<AgentCommand> {
        self.command(Key::AgentCommands(tier))
    }

    pub fn color(&self) -> ColorSetting {
        match self.get(Key::UiColor).value {
            Value::Color(color) => color,
            _ => ColorSetting::Auto,
        }
    }

    fn command(&self, key: Key) -> Option<AgentCommand> {
        match self.get(key).value {
            Value::Command(command) => command,
            _ => None,
        }
    }

    fn size(&self, key: Key) -> u64 {
        match self.get(key).value {
            Value::Size(bytes) => bytes,
            _ => 0,
        }
    }

    fn set(&mut self, key: Key, value: Value, source: Source) {
        self.settings.insert(key, Setting { key, value, source });
    }

    fn read_variables(&mut self, variables: &BTreeMap<OsString, OsString>) -> Result<(), InvalidVariable> {
        for key in Key::ALL {
            let variable = key.variable();
            // As in a shell, an empty variable counts as unset.
            let Some(text) = variables.get(&OsString::from(variable)).filter(|text| !text.is_empty()) else { continue };
            let text = text.to_string_lossy();
            let value = key.parse(&text).ok_or_else(|| InvalidVariable {
                variable,
                expected: key.expected(),
                value: text.clone().into_owned(),
            })?;
            let objection = key.objection("a variable", &self.get(key).value, &value);
            match objection.filter(|_| key.is_guarded_from_variables()) {
                Some(reason) => self.ignored.push(IgnoredVariable { variable, reason }),
                None => self.set(key, value, Source::Environment { variable }),
            }
        }
        Ok(())
    }
}

impl SignatureRequirement {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Integrity => "integrity",
            Self::Author => "author",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::None, Self::Integrity, Self::Author].into_iter().find(|requirement| requirement.as_str() == text)
    }
}

impl HookPolicy {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Auto => "auto",
            Self::Run => "run",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Skip, Self::Auto, Self::Run].into_iter().find(|policy| policy.as_str() == text)
    }
}

impl SecretPolicy {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warn => "warn",
            Self::Block => "block",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Warn, Self::Block].into_iter().find(|policy| policy.as_str() == text)
    }
}

impl ColorSetting {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Auto, Self::Always, Self::Never].into_iter().find(|color| color.as_str() == text)
    }
}

#[cfg(test)]
mod tests;
