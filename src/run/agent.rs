//! The command that does the work of a prose step: which one, what it is told, what it answers.
//!
//! [`AgentCommands`] chooses by the tier of the model that a directive asks for; [`instruction`] is what the
//! command reads from its input; [`result`] is what its output comes to. Nothing here runs anything.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::config::{AgentCommand, Config, Key, Source, Tier};
use crate::context::Environment;
use crate::exec::subprocess::{CommandLine, SubprocessError};
use crate::exec::supervisor::{Captured, MARK};
use crate::item::directive::Model;
use crate::journal::RunId;
use crate::policy::WriteRules;

use super::error::RunError;

/// The variable with the name of the step.
const STEP: &str = "PITON_STEP";
/// The variable with the folder of the project.
const PROJECT: &str = "PITON_PROJECT";

/// The commands that may do the work of prose steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentCommands {
    /// For models without a tier, and for tiers without a command.
    general: Option<AgentCommand>,
    tiers: BTreeMap<Tier, AgentCommand>,
}

impl AgentCommands {
    /// The commands of the settings; one that was given as a flag is that of every tier.
    ///
    /// Settings are there for every project: a program that is named relative to a folder would be whatever the
    /// project has put there.
    pub fn of(config: &Config) -> Result<Self, RunError> {
        let general = config.agent_command();
        if matches!(config.get(Key::AgentCommand).source, Source::Flag { .. }) {
            return Ok(Self { general, tiers: BTreeMap::new() });
        }
        let tiers = Tier::ALL.into_iter().filter_map(|tier| Some((tier, config.agent_command_for(tier)?)));
        let tiers: BTreeMap<_, _> = tiers.collect();
        let keys = tiers.iter().map(|(tier, command)| (Key::AgentCommands(*tier), command));
        let mut keys = general.iter().map(|command| (Key::AgentCommand, command)).chain(keys);
        if let Some((key, command)) = keys.find(|(_, command)| command.is_relative()) {
            return Err(RunError::RelativeAgent { key: key.name(), command: command.text().to_owned() });
        }
        Ok(Self { general, tiers })
    }

    /// The same; a command that was given for this run alone is that of every tier.
    pub fn with(config: &Config, given: Option<&str>) -> Result<Self, RunError> {
        let Some(text) = given else { return Self::of(config) };
        let command = AgentCommand::parse(text).ok_or_else(|| RunError::AgentCommand(text.to_owned()))?;
        Ok(Self { general: Some(command), tiers: BTreeMap::new() })
    }

    /// Whether there is none at all.
    pub fn is_empty(&self) -> bool {
        self.general.is_none() && self.tiers.is_empty()
    }

    /// The commands to try in turn: that of the tier, then that of the fallback if it is another one.
    pub fn for_model(&self, model: Option<&Model>) -> Vec<AgentCommand> {
        let first = self.command(model.and_then(|model| model.tier.as_deref()));
        let fallback = model.and_then(|model| model.fallback.as_deref());
        let second = fallback.and_then(|tier| self.command(Some(tier))).filter(|second| Some(*second) != first);
        first.into_iter().chain(second).cloned().collect()
    }

    fn command(&self, tier: Option<&str>) -> Option<&AgentCommand> {
        let tier = tier.and_then(|word| Tier::parse(word.trim()));
        tier.and_then(|tier| self.tiers.get(&tier)).or(self.general.as_ref())
    }
}

/// Where the work of a step is done.
#[derive(Clone, Copy, Debug)]
pub struct Workplace<'w> {
    /// The run.
    pub run: RunId,
    /// The name of the step.
    pub step: &'w str,
    /// The folder of the project, in which the command runs.
    pub project: &'w Path,
}

/// Makes the command line of a command; fails when its program does not exist.
///
/// The command has the user's whole environment, as if they had started it: it is theirs, and a project
/// cannot choose it.
pub fn command_line(
    command: &AgentCommand,
    workplace: &Workplace<'_>,
    environment: &Environment,
) -> Result<CommandLine, SubprocessError> {
    let mut variables = environment.without_git_variables();
    variables.insert(MARK.into(), workplace.run.to_string().into());
    variables.insert(STEP.into(), workplace.step.into());
    variables.insert(PROJECT.into(), workplace.project.into());
    let words: Vec<OsString> = command.words().iter().map(OsString::from).collect();
    CommandLine::new(words, PathBuf::from(workplace.project), variables)
}

/// A prose step with its texts filled in.
#[derive(Clone, Copy, Debug)]
pub struct Task<'t> {
    /// The name of the step.
    pub step: &'t str,
    /// The id of its directive.
    pub directive: &'t str,
    /// What the step is for; may be empty.
    pub description: &'t str,
    /// What is to be done.
    pub instruction: &'t str,
    /// What to look at afterwards.
    pub verification: &'t [String],
    /// Why a person sent the step back.
    pub rejected: Option<&'t str>,
    /// Which files may be changed.
    pub writes: &'t WriteRules,
}

/// What an agent reads from its input.
pub fn instruction(task: &Task<'_>) -> String {
    let mut text = format!("# Step `{}` of the directive `{}`\n", task.step, task.directive);
    let mut section = |title: &str, body: &str| {
        if !body.trim().is_empty() {
            // Writing to a text cannot fail.
            let _ = write!(text, "\n{title}{}\n", body.trim_matches('\n').trim_end());
        }
    };
    section("", task.description);
    section("## Task\n\n", task.instruction);
    if let Some(reason) = task.rejected {
        let why =
            format!("The work that was done for this step before is still there. A person rejected it:\n\n{reason}");
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
    What you write to standard output is the result of the step. Where later steps need values, end it with one line \
    that is a JSON object, such as {\"summary\": \"…\"}.";

/// What the output of an agent comes to.
///
/// All of it where it is JSON, else its last line where that is a JSON object, else the text itself.
pub fn result(stdout: &Captured) -> Value {
    let whole = stdout.whole().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    whole.or_else(|| last_object(stdout)).unwrap_or_else(|| json!({"output": stdout.text().trim_end()}))
}

fn last_object(stdout: &Captured) -> Option<Value> {
    let end = stdout.whole().unwrap_or_else(|| stdout.tail.clone());
    let last = end.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).rfind(|line| !line.is_empty())?;
    serde_json::from_slice(last).ok().filter(Value::is_object)
}

fn listed(lines: &[String]) -> String {
    lines.iter().map(|line| format!("- {}", line.trim().replace('\n', "\n  "))).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
