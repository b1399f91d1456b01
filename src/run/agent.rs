//! The agent command that does a manual step: which one, its input and its result.
//!
//! [`AgentCommands`] chooses the command by the model tier of the directive. [`instruction`] builds
//! the text for its stdin. [`result`] reads its stdout. This module starts no process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::config::{AgentCommand, Config, SettingKey, SettingSource, Tier};
use crate::context::Environment;
use crate::exec::subprocess::{CommandLine, SubprocessError};
use crate::exec::supervisor::{Captured, MARK};
use crate::item::directive::Model;
use crate::item::tool::Isolation;
use crate::journal::RunId;
use crate::policy::WriteRules;

use super::error::RunError;

/// The environment variable for the name of the step.
const STEP: &str = "PITON_STEP";
/// The environment variable for the project folder.
const PROJECT: &str = "PITON_PROJECT";

/// The agent commands for manual steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentCommands {
    /// For models without a tier and for tiers without a command.
    general: Option<AgentCommand>,
    tiers: BTreeMap<Tier, AgentCommand>,
    /// The isolation level of all of them.
    isolation: Isolation,
}

impl AgentCommands {
    /// The commands from the settings. A command from a flag is used for every tier.
    ///
    /// The program must be absolute or on the search path. The settings apply to every project, so
    /// a program relative to a folder would let each project choose what runs.
    pub fn of(config: &Config) -> Result<Self, RunError> {
        let general = config.agent_command();
        let isolation = config.agent_isolation().max(config.isolation_minimum());
        if matches!(
            config.get(SettingKey::AgentCommand).source,
            SettingSource::Flag { .. }
        ) {
            return Ok(Self {
                general,
                tiers: BTreeMap::new(),
                isolation,
            });
        }
        let tiers = Tier::ALL
            .into_iter()
            .filter_map(|tier| Some((tier, config.agent_command_for(tier)?)));
        let tiers: BTreeMap<_, _> = tiers.collect();
        let keys = tiers
            .iter()
            .map(|(tier, command)| (SettingKey::of_tier(*tier), command));
        let mut keys = general
            .iter()
            .map(|command| (SettingKey::AgentCommand, command))
            .chain(keys);
        if let Some((key, command)) = keys.find(|(_, command)| command.is_relative()) {
            return Err(RunError::RelativeAgent {
                key: key.name(),
                command: command.text().to_owned(),
            });
        }
        Ok(Self {
            general,
            tiers,
            isolation,
        })
    }

    /// As [`Self::of`]; `given`, the command for this run, is used for every tier, and `level`
    /// replaces the one of the settings.
    pub fn with(
        config: &Config,
        given: Option<&str>,
        level: Option<Isolation>,
    ) -> Result<Self, RunError> {
        let level = level.unwrap_or(config.agent_isolation());
        let isolation = level.max(config.isolation_minimum());
        let Some(text) = given else {
            let commands = Self::of(config)?;
            return Ok(Self {
                isolation,
                ..commands
            });
        };
        let command =
            AgentCommand::parse(text).ok_or_else(|| RunError::AgentCommand(text.to_owned()))?;
        Ok(Self {
            general: Some(command),
            tiers: BTreeMap::new(),
            isolation,
        })
    }

    /// The isolation level of all commands.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Whether no command is configured.
    pub fn is_empty(&self) -> bool {
        self.general.is_none() && self.tiers.is_empty()
    }

    /// The commands to try in order: the command of the tier, then the command of the fallback tier
    /// if it differs.
    pub fn for_model(&self, model: Option<&Model>) -> Vec<AgentCommand> {
        let first = self.command(model.and_then(|model| model.tier.as_deref()));
        let fallback = model.and_then(|model| model.fallback.as_deref());
        let second = fallback
            .and_then(|tier| self.command(Some(tier)))
            .filter(|second| Some(*second) != first);
        first.into_iter().chain(second).cloned().collect()
    }

    fn command(&self, tier: Option<&str>) -> Option<&AgentCommand> {
        let tier = tier.and_then(|word| Tier::parse(word.trim()));
        tier.and_then(|tier| self.tiers.get(&tier))
            .or(self.general.as_ref())
    }
}

/// Where an agent command runs.
#[derive(Clone, Copy, Debug)]
pub struct Workplace<'w> {
    pub run: RunId,
    pub step: &'w str,
    /// The project folder, which is the working directory of the command.
    pub project: &'w Path,
}

/// Builds the command line of an agent command; fails if the program does not exist.
///
/// The command inherits the user's whole environment: the user configured it, and a project cannot
/// choose it.
pub fn command_line(
    command: &AgentCommand,
    workplace: &Workplace<'_>,
    environment: &Environment,
) -> Result<CommandLine, SubprocessError> {
    let mut variables = environment.without_git_variables();
    variables.insert(MARK.into(), workplace.run.to_string().into());
    variables.insert(STEP.into(), workplace.step.into());
    variables.insert(PROJECT.into(), workplace.project.into());
    let words: Vec<OsString> = command.argv().iter().map(OsString::from).collect();
    CommandLine::new(words, PathBuf::from(workplace.project), variables)
}

/// A manual step with its texts filled in.
#[derive(Clone, Copy, Debug)]
pub struct Task<'t> {
    pub step: &'t str,
    pub directive: &'t str,
    /// The purpose of the step; may be empty.
    pub description: &'t str,
    /// What to do.
    pub instruction: &'t str,
    /// What to check afterwards.
    pub verification: &'t [String],
    /// Why a person rejected the step.
    pub rejected: Option<&'t str>,
    /// Which files the agent may change.
    pub writes: &'t WriteRules,
}

/// The text that an agent reads from its stdin.
pub fn instruction(task: &Task<'_>) -> String {
    let mut text = format!(
        "# Step `{}` of the directive `{}`\n",
        task.step, task.directive
    );
    let mut section = |title: &str, body: &str| {
        if !body.trim().is_empty() {
            // Writing to a `String` cannot fail.
            let _ = write!(text, "\n{title}{}\n", body.trim_matches('\n').trim_end());
        }
    };
    section("", task.description);
    section("## Task\n\n", task.instruction);
    if let Some(reason) = task.rejected {
        let why = format!(
            "The earlier work for this step is still in place. A person rejected it:\n\n{reason}"
        );
        section("## Sent back\n\n", &why);
    }
    section("## Afterwards, check\n\n", &listed(task.verification));
    let globs = task.writes.globs();
    let files = if globs.is_empty() {
        "Any file of the project may be changed.".to_owned()
    } else {
        format!(
            "Only these files of the project may be changed (`!` excludes; all lines of a directive count, and every \
             directive has to allow a file). Changes to other files make the step fail.\n\n{}",
            listed(&globs)
        )
    };
    section("## Files\n\n", &files);
    section("## Result\n\n", RESULT);
    text
}

const RESULT: &str = "Change files in place and do not commit: piton does that.\n\
    Exit with status 0 when the task is done, and with another status and the reason on standard error when it is not.\n\
    What you write to standard output is the result of the step. If later steps need values, end it with one line \
    that is a JSON object, such as {\"summary\": \"…\"}.";

/// The result in the output of an agent: the whole output if it is JSON, else its last line if that
/// is a JSON object, else the text itself.
pub fn result(stdout: &Captured) -> Value {
    let whole = stdout
        .whole()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    whole
        .or_else(|| last_object(stdout))
        .unwrap_or_else(|| json!({"output": stdout.text().trim_end()}))
}

fn last_object(stdout: &Captured) -> Option<Value> {
    let end = stdout.whole().unwrap_or_else(|| stdout.tail.clone());
    let last = end
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .rfind(|line| !line.is_empty())?;
    serde_json::from_slice(last).ok().filter(Value::is_object)
}

fn listed(lines: &[String]) -> String {
    lines
        .iter()
        .map(|line| format!("- {}", line.trim().replace('\n', "\n  ")))
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests;
