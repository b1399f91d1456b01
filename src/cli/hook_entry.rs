//! `piton hooks run`, which git's hooks call.
//!
//! It parses its arguments by hand, before any other setup, because it runs several times for every
//! commit.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Read};

use super::ui::{Format, Ui, Verbosity};
use super::validate;
use crate::config::ColorSetting;
use crate::context::{Context, Environment};
use crate::error::{Error, ExitStatus};
use crate::hooks::Hook;
use crate::hooks::entry::{self, HookAnswer, HookCall};
use crate::item::finding::Severity;
use crate::problem::{Code, Explain, with_causes};

/// An upper limit for the stdin of a hook.
const MOST_INPUT: u64 = 64 * 1024 * 1024;

/// The hook in the program's arguments, and its own arguments.
pub(super) fn meant(words: &[OsString]) -> Option<(Hook, &[OsString])> {
    let [_, first, second, name, rest @ ..] = words else {
        return None;
    };
    if first != "hooks" || second != "run" {
        return None;
    }
    let hook = Hook::ALL.into_iter().find(|hook| name == hook.name())?;
    match rest {
        [] => Some((hook, rest)),
        [dashes, arguments @ ..] if dashes == "--" => Some((hook, arguments)),
        _ => None,
    }
}

/// Runs a hook and prints its messages.
pub(super) fn run(hook: Hook, arguments: &[OsString], environment: &Environment) -> ExitStatus {
    let input = if hook.reads_input() {
        read_input()
    } else {
        Ok(Vec::new())
    };
    let answer = |input: &[u8]| {
        entry::run(&HookCall {
            hook,
            arguments,
            input,
            environment,
        })
    };
    let answered = match input {
        Ok(input) => answer(&input),
        // A part of the refs would be accepted without a check.
        Err(source) if hook.is_guard() => Err(Error::Read {
            file: "standard input".into(),
            source,
        }),
        Err(_) => answer(&[]),
    };
    // Almost every commit has an empty answer.
    if matches!(&answered, Ok(answer) if answer.is_silent()) {
        return ExitStatus::Success;
    }
    let mut ui = Ui::new(
        Format::Human,
        Verbosity::Normal,
        ColorSetting::Auto,
        environment,
    );
    let status = print_answer(hook, answered, environment, &mut ui);
    // A failure to print does not change the answer.
    let _ = ui.finish();
    status
}

fn print_answer(
    hook: Hook,
    answered: Result<HookAnswer, Error>,
    environment: &Environment,
    ui: &mut Ui,
) -> ExitStatus {
    let answer = match answered {
        Ok(answer) => answer,
        // A server must not accept what it could not check.
        Err(err) if hook.is_guard() => {
            let _ = ui.error(&err);
            return ExitStatus::Failure;
        }
        Err(err) => {
            let text = format!(
                "piton's `{}` hook failed: {}",
                hook.name(),
                with_causes(&err)
            );
            return could_not_look(&text, &err, environment, ui);
        }
    };
    for note in &answer.notes {
        ui.note(&format!("piton: {note}"));
    }
    if let Some(items) = &answer.items {
        let printed = if items.report.valid {
            validate::findings(&items.report, items.root(), validate::Repeated::Counted, ui)
        } else {
            validate::human(&items.report, items.root(), validate::Repeated::Counted, ui)
        };
        let _ = printed;
        if !items.report.valid {
            ui.complaint("piton: staged items are not valid, nothing was committed");
            ui.hint("fix and stage them; `git commit --no-verify` skips this check");
        }
    }
    for refusal in &answer.refusals {
        ui.complaint(&format!("piton: {} [{}]", refusal.message, refusal.code));
        if let Some(hint) = &refusal.hint {
            ui.hint(hint);
        }
    }
    if answer.is_refused() {
        ExitStatus::Failure
    } else {
        ExitStatus::Success
    }
}

/// If piton cannot check something, it stops git only if the settings require it.
fn could_not_look(text: &str, err: &Error, environment: &Environment, ui: &mut Ui) -> ExitStatus {
    let is_closed = Context::anywhere(environment.clone(), None)
        .is_ok_and(|ctx| ctx.config.hooks_fail_closed());
    if !is_closed {
        ui.warning(text);
        return ExitStatus::Success;
    }
    ui.complaint(&format!("{text} [{}]", err.code()));
    ui.hint("`hooks.fail_closed` stops git here; `git -c core.hooksPath=/dev/null ...` skips hooks once");
    ExitStatus::Failure
}

impl HookAnswer {
    /// Whether there is nothing to print. `validate` reports unsigned items, not each commit.
    fn is_silent(&self) -> bool {
        let is_minor = |items: &entry::StagedItems| {
            let mut findings = items.report.findings.iter();
            findings.all(|finding| {
                finding.code == Code::Unsigned && finding.severity == Severity::Warning
            })
        };
        self.refusals.is_empty()
            && self.notes.is_empty()
            && self.items.as_ref().is_none_or(is_minor)
    }
}

/// The stdin of the hook; empty if a person calls it by hand.
fn read_input() -> io::Result<Vec<u8>> {
    let stdin = io::stdin();
    let mut input = Vec::new();
    if !stdin.is_terminal() {
        stdin.lock().take(MOST_INPUT + 1).read_to_end(&mut input)?;
    }
    if input.len() as u64 > MOST_INPUT {
        return Err(io::Error::other(format!(
            "it has more than {MOST_INPUT} bytes"
        )));
    }
    Ok(input)
}
