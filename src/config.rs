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
pub use key::{SettingKey, Tier, Value};

use crate::disk::Fsync;
use crate::item::directive::CheckpointMode;
use crate::item::finding::{Finding, Severity, serialize_path};
use crate::item::tool::Isolation;
use crate::words::words;

#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Values set by some layer; all other keys have their default.
    settings: BTreeMap<SettingKey, Setting>,
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
    pub key: SettingKey,
    pub value: Value,
    pub source: SettingSource,
}

/// Where a value came from, lowest layer first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "layer", rename_all = "snake_case")]
pub enum SettingSource {
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
pub struct SettingsFiles<'a> {
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
    pub fn load(
        files: SettingsFiles<'_>,
        variables: &BTreeMap<OsString, OsString>,
    ) -> Result<Self, InvalidVariable> {
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

    pub fn set_flag(&mut self, key: SettingKey, value: Value, flag: &'static str) {
        self.set(key, value, SettingSource::Flag { flag });
    }

    pub fn get(&self, key: SettingKey) -> Setting {
        self.settings.get(&key).cloned().unwrap_or_else(|| Setting {
            key,
            value: key.default(),
            source: SettingSource::Default,
        })
    }

    /// Every setting, in the order of the documentation.
    pub fn all(&self) -> Vec<Setting> {
        SettingKey::ALL
            .into_iter()
            .map(|key| self.get(key))
            .collect()
    }

    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    pub fn ignored_variables(&self) -> &[IgnoredVariable] {
        &self.ignored
    }

    pub fn has_errors(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.severity == Severity::Error)
    }

    pub fn strict(&self) -> bool {
        self.value(SettingKey::ValidateStrict)
    }

    pub fn signature_requirement(&self) -> SignatureRequirement {
        self.value(SettingKey::SignatureRequire)
    }

    /// The path may begin with `~/`.
    pub fn allowed_signers(&self) -> Option<PathBuf> {
        self.value(SettingKey::SignatureAllowedSigners)
    }

    /// `None` when no layer sets it: the directive decides then.
    pub fn checkpoint_mode(&self) -> Option<CheckpointMode> {
        self.settings
            .contains_key(&SettingKey::CheckpointMode)
            .then(|| self.value(SettingKey::CheckpointMode))
    }

    /// In bytes.
    pub fn max_file_size(&self) -> u64 {
        self.value(SettingKey::CheckpointMaxFileSize)
    }

    /// In bytes.
    pub fn max_total_size(&self) -> u64 {
        self.value(SettingKey::CheckpointMaxTotalSize)
    }

    pub fn hooks(&self) -> HookPolicy {
        self.value(SettingKey::CheckpointHooks)
    }

    pub fn secrets(&self) -> SecretPolicy {
        self.value(SettingKey::CheckpointSecrets)
    }

    pub fn secrets_allowed(&self) -> Vec<String> {
        self.value(SettingKey::CheckpointSecretsAllowed)
    }

    /// Folders that tools may declare as caches, besides those of known toolchains.
    pub fn cache_folders(&self) -> Vec<String> {
        self.value(SettingKey::IsolationCacheFolders)
    }

    pub fn fsync(&self) -> Fsync {
        self.value(SettingKey::CheckpointFsync)
    }

    pub fn hooks_fail_closed(&self) -> bool {
        self.value(SettingKey::HooksFailClosed)
    }

    pub fn git_required(&self) -> bool {
        self.value(SettingKey::GitRequired)
    }

    pub fn isolation_minimum(&self) -> Isolation {
        self.value(SettingKey::IsolationMinimum)
    }

    pub fn agent_isolation(&self) -> Isolation {
        self.value(SettingKey::AgentIsolation)
    }

    pub fn agent_command(&self) -> Option<AgentCommand> {
        self.value(SettingKey::AgentCommand)
    }

    pub fn agent_command_for(&self, tier: Tier) -> Option<AgentCommand> {
        self.value(SettingKey::of_tier(tier))
    }

    pub fn color(&self) -> ColorSetting {
        self.value(SettingKey::UiColor)
    }

    #[expect(
        clippy::expect_used,
        reason = "all values of a key are of one kind, and each accessor names the kind of its key"
    )]
    fn value<T: TryFrom<Value, Error = Value>>(&self, key: SettingKey) -> T {
        let value = self.get(key).value;
        value.try_into().expect("a value of the kind of its key")
    }

    fn set(&mut self, key: SettingKey, value: Value, source: SettingSource) {
        self.settings.insert(key, Setting { key, value, source });
    }

    fn read_variables(
        &mut self,
        variables: &BTreeMap<OsString, OsString>,
    ) -> Result<(), InvalidVariable> {
        for key in SettingKey::ALL {
            let variable = key.variable();
            // As in a shell, an empty variable counts as unset.
            let Some(text) = variables
                .get(&OsString::from(variable))
                .filter(|text| !text.is_empty())
            else {
                continue;
            };
            let text = text.to_string_lossy();
            let value = key.parse(&text).ok_or_else(|| InvalidVariable {
                variable,
                expected: key.expected(),
                value: text.clone().into_owned(),
            })?;
            let objection = key.objection("a variable", &self.get(key), &value);
            match objection.filter(|_| key.is_guarded_from_variables()) {
                Some(reason) => self.ignored.push(IgnoredVariable { variable, reason }),
                None => self.set(key, value, SettingSource::Environment { variable }),
            }
        }
        Ok(())
    }
}

words!(SignatureRequirement: None "none", Integrity "integrity", Author "author");
words!(HookPolicy: Auto "auto", Run "run", Skip "skip");
words!(SecretPolicy: Block "block", Warn "warn");
words!(ColorSetting: Auto "auto", Always "always", Never "never");

#[cfg(test)]
mod tests;
