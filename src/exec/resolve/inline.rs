//! Code on a command line, as in `bash -c`, `awk PROGRAM` or `ssh HOST COMMAND`.
//!
//! There a parameter would become part of a program, with or without quotes. The check knows common
//! interpreters and their options. It helps authors and is not a sandbox.

mod git;
mod interpreter;

use super::arguments::Argument;
use super::error::ResolveError;
use interpreter::{Interpreter, Operands};

/// Refuses a caller's text where an interpreter expects code.
pub(super) fn check(program: &str, arguments: &[Argument]) -> Result<(), ResolveError> {
    let mut running = Running::of(program);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let word = argument.text.value.as_str();
        let Some(known) = &mut running else {
            running = Running::of(word);
            continue;
        };
        if known.name == "git" {
            git::check(argument, &mut rest)?;
            return Ok(());
        }
        let place = known.code_in(word);
        match place {
            CodePlace::Here => refuse(known.name, argument)?,
            CodePlace::Next => {
                if let Some(code) = rest.next() {
                    refuse(known.name, code)?;
                }
            }
            CodePlace::Value => {
                known.has_code |= known.known.operands == Operands::Code && word.ends_with('f');
                if let Some(value) = rest.next()
                    && known.runs(&value.text.value)
                {
                    refuse(known.name, value)?;
                }
            }
            CodePlace::Option => {}
            CodePlace::Operand => match known.take_operand(word) {
                Operand::Code => refuse(known.name, argument)?,
                Operand::Other => {}
                Operand::Program => running = Running::of(word),
                Operand::Rest => skip_arguments(&mut rest, &mut running),
            },
        }
        let is_done = matches!(place, CodePlace::Here | CodePlace::Next)
            && running.as_mut().is_some_and(Running::has_code);
        if is_done {
            skip_arguments(&mut rest, &mut running);
        }
    }
    Ok(())
}

/// Skips the arguments of code. `find` may start another program after them.
fn skip_arguments<'a>(
    rest: &mut impl Iterator<Item = &'a Argument>,
    running: &mut Option<Running>,
) {
    let _ = rest.find(|argument| matches!(argument.text.value.as_str(), ";" | "+"));
    *running = None;
}

/// A program of the command line, while its arguments are read.
struct Running {
    name: &'static str,
    known: &'static Interpreter,
    operands: usize,
    has_code: bool,
}

/// Where an argument has code.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CodePlace {
    /// In this option.
    Here,
    /// In the argument after this option.
    Next,
    /// The argument after this option is its value.
    Value,
    /// Nowhere: an option.
    Option,
    /// This is not an option.
    Operand,
}

/// What an operand is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operand {
    Code,
    /// Another program, or a script.
    Program,
    Other,
    /// From here on, there are only arguments of the code.
    Rest,
}

impl Running {
    fn of(word: &str) -> Option<Self> {
        let (name, known) = interpreter::find(word)?;
        Some(Self {
            name,
            known,
            operands: 0,
            has_code: false,
        })
    }

    fn code_in(&self, word: &str) -> CodePlace {
        if let Some(long) = word.strip_prefix("--").filter(|long| !long.is_empty()) {
            let (option, value) = match long.split_once('=') {
                Some((option, value)) => (option, Some(value)),
                None => (long, None),
            };
            return match (self.known.long.contains(&option), value) {
                (true, Some(_)) => CodePlace::Here,
                (true, None) => CodePlace::Next,
                (false, _) => CodePlace::Option,
            };
        }
        let Some(letters) = word.strip_prefix('-') else {
            return CodePlace::Operand;
        };
        for (at, letter) in letters.char_indices() {
            let is_last = at + letter.len_utf8() == letters.len();
            if self.known.code.contains(letter) {
                // A shell takes the code from the next argument in any case.
                return if is_last || self.known.operands == Operands::Shell {
                    CodePlace::Next
                } else {
                    CodePlace::Here
                };
            }
            if self.known.valued.contains(letter) {
                return match (is_last, self.runs(letters)) {
                    (true, _) => CodePlace::Value,
                    (false, true) => CodePlace::Here,
                    (false, false) => CodePlace::Option,
                };
            }
        }
        CodePlace::Option
    }

    /// Whether the value of an option is a command, as in `ssh -o ProxyCommand=…`.
    fn runs(&self, value: &str) -> bool {
        let value = value.to_lowercase();
        matches!(self.name, "ssh" | "scp" | "sftp")
            && ["proxycommand", "localcommand", "knownhostscommand"]
                .iter()
                .any(|option| value.contains(option))
    }

    /// Notes that an option had the code; returns whether only its arguments can follow.
    fn has_code(&mut self) -> bool {
        self.has_code = true;
        matches!(
            self.known.operands,
            Operands::Shell | Operands::Script | Operands::Later
        )
    }

    fn take_operand(&mut self, word: &str) -> Operand {
        self.operands += 1;
        match self.known.operands {
            _ if self.name == "deno" && word == "eval" && self.operands == 1 => Operand::Other,
            Operands::Script if self.name == "deno" && self.operands > 1 => Operand::Code,
            _ if self.has_code => Operand::Rest,
            Operands::Later | Operands::Remote if self.operands == 1 => Operand::Other,
            Operands::Shell | Operands::Script | Operands::Repeated | Operands::Later => {
                Operand::Program
            }
            Operands::Code => Operand::take_code(self),
            Operands::Command if matches!(word, ":::" | "::::") => Operand::Rest,
            // The words become one command line.
            Operands::Remote | Operands::Command => Operand::Code,
            Operands::None => Operand::Other,
        }
    }
}

impl Operand {
    /// The first operand is the code; those after it are files.
    fn take_code(running: &mut Running) -> Self {
        running.has_code = true;
        Self::Code
    }
}

fn refuse(program: &str, argument: &Argument) -> Result<(), ResolveError> {
    let Some(placed) = &argument.placed else {
        return Ok(());
    };
    let parameter = &placed.parameter;
    Err(ResolveError::Placeholder {
        placeholder: format!("{{{parameter}}}"),
        field: placed.field.clone(),
        reason: format!("would become a part of the code that `{program}` runs"),
        hint: format!(
            "give it to the code as an argument, e.g. `[-c, 'echo \"$1\"', sh, \"{{{parameter}}}\"]`"
        ),
        at: Box::new(placed.at.clone()),
    })
}
