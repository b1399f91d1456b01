//! How to fix a problem, as parts that each front door renders.
//!
//! A hint is text with [`HintCall`]s in between: actions of piton that help. The terminal renders a
//! call as a command line (`Display`), the MCP server as arguments of a tool. On disk and in JSON a
//! hint is the text for the terminal; reading it finds the calls again by their command lines.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How to fix a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Text that is the same everywhere.
    Text(String),
    /// Text about a command line, only for a person at a terminal; agents do not get it.
    Command(String),
    /// An action of piton, at the terminal and for agents.
    Call(HintCall),
    /// Several hints in sequence.
    Parts(Vec<Hint>),
}

/// An action of piton, with its run, step or item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HintCall {
    /// Show the state of a run.
    Status(Option<String>),
    /// Resume a run.
    Resume(Option<String>),
    /// Cancel a run.
    Cancel(Option<String>),
    /// Undo a step.
    Undo(Option<String>),
    /// Stamp an item.
    Sign(Option<String>),
    /// Validate the items.
    Validate,
    /// Create an item.
    New,
    /// Show a tool.
    ShowTool(String),
    /// Show a directive.
    ShowDirective(String),
    /// Copy an item into the project.
    LoadToProject(Option<String>),
    /// Search items.
    Search,
    /// List runs and steps.
    Log,
    /// Show a run.
    ShowRun(String),
    /// Commit uncommitted changes of steps.
    Checkpoint,
    /// Pass inputs to a directive.
    Inputs,
    /// Replace an existing item.
    Overwrite,
    /// Show what would be done.
    DryRun,
}

/// Makes a [`Hint`] of text and [`HintCall`]s: `hint!["its changes stay; ", HintCall::Undo(None), " takes
/// them back"]`.
macro_rules! hint {
    ($($part:expr),+ $(,)?) => {
        $crate::problem::Hint::Parts(vec![$($crate::problem::Hint::from($part)),+])
    };
}
pub(crate) use hint;

impl Hint {
    /// Parses the terminal text of a hint.
    pub fn read(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut words = String::new();
        // Every second piece is between backticks.
        let pieces: Vec<&str> = text.split('`').collect();
        let is_closed = pieces.len() % 2 == 1;
        for (at, piece) in pieces.iter().enumerate() {
            match HintCall::read(piece).filter(|_| at % 2 == 1 && is_closed) {
                Some(call) => {
                    if !words.is_empty() {
                        parts.push(Self::from(std::mem::take(&mut words)));
                    }
                    parts.push(Self::Call(call));
                }
                None if at % 2 == 1 && is_closed => words.extend(["`", piece, "`"]),
                None if at > 0 && !is_closed => words.extend(["`", piece]),
                None => words.push_str(piece),
            }
        }
        if !words.is_empty() || parts.is_empty() {
            parts.push(Self::from(words));
        }
        if parts.len() == 1 {
            parts.remove(0)
        } else {
            Self::Parts(parts)
        }
    }

    /// The hint with the calls rendered by a front door; `None` drops what only a person at a
    /// terminal can do.
    pub fn render(
        &self,
        call: &impl Fn(&HintCall) -> String,
        command: &impl Fn(&str) -> Option<String>,
    ) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Command(text) => command(text).unwrap_or_default(),
            Self::Call(it) => call(it),
            Self::Parts(parts) => parts
                .iter()
                .map(|part| part.render(call, command))
                .collect(),
        }
    }

    pub fn offers(&self, wanted: &HintCall) -> bool {
        match self {
            Self::Call(call) => call == wanted,
            Self::Parts(parts) => parts.iter().any(|part| part.offers(wanted)),
            Self::Text(_) | Self::Command(_) => false,
        }
    }

    pub(super) fn map_texts(self, change: &impl Fn(&str) -> String) -> Self {
        match self {
            Self::Text(text) => Self::Text(change(&text)),
            Self::Command(text) => Self::Command(change(&text)),
            Self::Call(call) => Self::Call(call),
            Self::Parts(parts) => Self::Parts(
                parts
                    .into_iter()
                    .map(|part| part.map_texts(change))
                    .collect(),
            ),
        }
    }
}

impl HintCall {
    /// The call for a command line or flag.
    fn read(command: &str) -> Option<Self> {
        let Some(command) = command.strip_prefix("piton ") else {
            return [Self::Inputs, Self::Overwrite, Self::DryRun]
                .into_iter()
                .find(|call| call.command() == command);
        };
        let words: Vec<&str> = command.split_whitespace().collect();
        let (name, rest) = words.split_first()?;
        if rest
            .iter()
            .any(|word| word.starts_with('-') && *word != "--to")
        {
            return None;
        }
        let about = || rest.first().map(|word| (*word).to_owned());
        Some(match (*name, rest) {
            ("status", [] | [_]) => Self::Status(about()),
            ("resume", [] | [_]) => Self::Resume(about()),
            ("cancel", [] | [_]) => Self::Cancel(about()),
            ("undo", [] | [_]) => Self::Undo(about()),
            ("sign", [] | [_]) => Self::Sign(about()),
            ("validate", []) => Self::Validate,
            ("new", []) => Self::New,
            ("tool", ["show", id]) => Self::ShowTool((*id).to_owned()),
            ("directive", ["show", id]) => Self::ShowDirective((*id).to_owned()),
            ("load", ["--to", "project"]) => Self::LoadToProject(None),
            ("load", [id, "--to", "project"]) => Self::LoadToProject(Some((*id).to_owned())),
            ("search", []) => Self::Search,
            ("log", []) => Self::Log,
            ("show", [run]) if !run.contains('/') => Self::ShowRun((*run).to_owned()),
            ("checkpoint", []) => Self::Checkpoint,
            _ => return None,
        })
    }

    /// The command line or flag of the terminal.
    pub fn command(&self) -> String {
        let about = |name: &str, about: Option<&String>| match about {
            Some(about) => format!("piton {name} {about}"),
            None => format!("piton {name}"),
        };
        match self {
            Self::Status(run) => about("status", run.as_ref()),
            Self::Resume(run) => about("resume", run.as_ref()),
            Self::Cancel(run) => about("cancel", run.as_ref()),
            Self::Undo(step) => about("undo", step.as_ref()),
            Self::Sign(id) => about("sign", id.as_ref()),
            Self::Validate => "piton validate".to_owned(),
            Self::New => "piton new".to_owned(),
            Self::ShowTool(id) => format!("piton tool show {id}"),
            Self::ShowDirective(id) => format!("piton directive show {id}"),
            Self::LoadToProject(id) => format!("{} --to project", about("load", id.as_ref())),
            Self::Search => "piton search".to_owned(),
            Self::Log => "piton log".to_owned(),
            Self::ShowRun(run) => format!("piton show {run}"),
            Self::Checkpoint => "piton checkpoint".to_owned(),
            Self::Inputs => "--input NAME=VALUE".to_owned(),
            Self::Overwrite => "--overwrite".to_owned(),
            Self::DryRun => "--dry-run".to_owned(),
        }
    }
}

/// The text for the terminal.
impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            &self.render(&|call| format!("`{}`", call.command()), &|text| {
                Some(text.to_owned())
            }),
        )
    }
}

impl From<&str> for Hint {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Hint {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Hint> for String {
    fn from(hint: Hint) -> Self {
        hint.to_string()
    }
}

impl From<HintCall> for Hint {
    fn from(call: HintCall) -> Self {
        Self::Call(call)
    }
}

impl Serialize for Hint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::read(&String::deserialize(deserializer)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_read_back_from_its_command_line() {
        let named = || Some("01k9".to_owned());
        for call in [
            HintCall::Status(named()),
            HintCall::Status(None),
            HintCall::Resume(named()),
            HintCall::Cancel(named()),
            HintCall::Undo(named()),
            HintCall::Undo(None),
            HintCall::Sign(named()),
            HintCall::Validate,
            HintCall::New,
            HintCall::ShowTool("greet".to_owned()),
            HintCall::ShowDirective("greet".to_owned()),
            HintCall::LoadToProject(None),
            HintCall::LoadToProject(Some("ID".to_owned())),
            HintCall::Search,
            HintCall::Log,
            HintCall::ShowRun("01k9".to_owned()),
            HintCall::Checkpoint,
            HintCall::Inputs,
            HintCall::Overwrite,
            HintCall::DryRun,
        ] {
            let hint = hint!["see ", call, ", or ask"];
            assert_eq!(Hint::read(&hint.to_string()), hint);
        }
    }

    #[test]
    fn command_lines_that_have_no_call_stay_words() {
        for text in [
            "`piton approve 01k9` or `piton reject 01k9`",
            "`piton resume 01k9 --retry` runs it again, `--result JSON` says that it is done",
            "sign it with `piton sign --key KEY ITEM`",
            "commit both together with `piton checkpoint PATH`",
            "see `piton config checkpoint.secrets_allowed`",
            "a hint without any, or with one ` alone",
            "",
        ] {
            assert_eq!(Hint::read(text), Hint::from(text.to_owned()));
        }
    }
}
