//! Questions to a person at the terminal.

use std::io::{self, IsTerminal, Write};

use super::live::{LiveHandle, LiveLine};
use super::{Format, Ui, clean};
use crate::context::person::Person;
use crate::error::Error;
use crate::run::directive::RunInput;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum YesOrNo {
    Yes,
    No,
}

impl Ui {
    /// Asks a yes-or-no question; `None` without a person to ask.
    pub(in crate::cli) fn confirm(&mut self, question: &str) -> io::Result<Option<YesOrNo>> {
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Ok(None);
        }
        self.end_live();
        self.say_raw(&format!("{} [y/N] ", clean(question)));
        let mut line = String::new();
        io::stdin().read_line(&mut line)?;
        Ok(Some(if is_yes(&line) {
            YesOrNo::Yes
        } else {
            YesOrNo::No
        }))
    }

    /// The person at this terminal, for questions in the middle of an operation.
    pub(in crate::cli) fn person(&self) -> Person {
        if !Self::can_ask() || self.format != Format::Human {
            return Person::default();
        }
        let live = self.live.as_ref().map(LiveLine::handle);
        Person::new(move |question| {
            let _quiet = live.as_ref().map(LiveHandle::quiet);
            let _ = write!(io::stderr(), "{} [y/N] ", clean(question));
            let mut answer = String::new();
            io::stdin().read_line(&mut answer).is_ok() && is_yes(&answer)
        })
    }

    /// Whether there is a person to ask.
    pub(in crate::cli) fn can_ask() -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Shows what would be committed and asks for approval.
    pub(in crate::cli) fn approve(&mut self, step: &str, diff: &[u8]) -> Result<bool, Error> {
        self.end_live();
        self.say_patch(diff);
        self.say_raw(&format!(
            "step `{}`: [a]pprove this, or [w]ait? ",
            clean(step)
        ));
        let mut line = String::new();
        io::stdin().read_line(&mut line)?;
        Ok(matches!(
            line.trim().to_lowercase().as_str(),
            "a" | "approve" | "y" | "yes"
        ))
    }

    /// Shows the changes of a step and asks what to do with them; `None` without a person to ask.
    pub(in crate::cli) fn decide(
        &mut self,
        step: &str,
        diff: &[u8],
        tree: &str,
    ) -> Result<Option<RunInput>, Error> {
        if !Self::can_ask() {
            return Ok(None);
        }
        let approve = |message| RunInput::Approve {
            message,
            answer: None,
            tree: Some(tree.to_owned()),
        };
        self.end_live();
        self.say_patch(diff);
        loop {
            self.say_raw(&format!(
                "step `{}`: [k]eep, [u]ndo, [e]dit the message, or [w]ait? ",
                clean(step)
            ));
            let mut line = String::new();
            if io::stdin().read_line(&mut line)? == 0 {
                return Ok(None);
            }
            match line.trim().to_lowercase().as_str() {
                "k" | "keep" => return Ok(Some(approve(None))),
                "u" | "undo" => return Ok(Some(RunInput::Reject(None))),
                "w" | "wait" => return Ok(None),
                "e" | "edit" => {
                    self.say_raw("message: ");
                    let mut message = String::new();
                    io::stdin().read_line(&mut message)?;
                    let message = Some(message.trim().to_owned()).filter(|text| !text.is_empty());
                    return Ok(Some(approve(message)));
                }
                _ => {}
            }
        }
    }
}

fn is_yes(line: &str) -> bool {
    matches!(line.trim().to_lowercase().as_str(), "y" | "yes")
}
