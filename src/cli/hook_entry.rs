//! `piton hooks run`, which git's hooks call.
//!
//! Arguments are parsed by hand, before anything else is set up: every commit waits for it several
//! times.

use std::ffi::OsString;
use std::io::{IsTerminal, Read};

use super::ui::{Format, Ui, Verbosity};
use super::validate;
use crate::config::ColorSetting;
use crate::context::{Context, Environment};
use crate::error::{Error, ExitStatus};
use crate::hooks::Hook;
use crate::hooks::entry::{self, Answer, HookCall};
use crate::item::finding::Severity;
use crate::problem::{Code, Explain, with_causes};

/// More than git ever tells a hook.
const MOST_INPUT: u64 = 256 * 1024 * 1024;

/// The hook that the words of the program mean, and what git gave to it.
pub(super) fn meant(words: &[OsString]) -> Option<(Hook, &[OsString])> {
    let [_, first, second, name, rest @ ..] = words else { return None };
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

/// Does what a hook is for and says what there is to say.
pub(super) fn run(hook: Hook, arguments: &[OsString], environment: &Environment) -> ExitStatus {
    let input = if hook.reads_input() { read_input() } else { Vec::new() };
    let answered = entry::run(&HookCall { hook, arguments, input: &input, environment });
    // Almost every commit gets an empty answer.
    if matches!(&answered, Ok(answer) if answer.is_silent()) {
        return ExitStatus::Success;
    }
    let mut ui = Ui::new(Format::Human, Verbosity::Normal, ColorSetting::Auto, environment);
    let status = tell(hook, answered, environment, &mut ui);
    // A failure to print does not change the answer.
    let _ = ui.finish();
    status
}

fn tell(hook: Hook, answered: Result<Answer, Error>, environment: &Environment, ui: &mut Ui) -> ExitStatus {
    let answer = match answered {
        Ok(answer) => answer,
        // A server must not accept what it could not check.
        Err(err) if hook == Hook::PreReceive => {
            let _ = ui.error(&err);
            return ExitStatus::Failure;
        }
        Err(err) => {
            let text = format!("piton's `{}` could not look at this: {}", hook.name(), with_causes(&err));
            return could_not_look(&text, &err, environment, ui);
        }
    };
    for note in &answer.notes {
        ui.note(&format!("piton: {note}"));
    }
    if let Some(items) = &answer.items {
        let printed = if items.report.valid {
            validate::findings(&items.report, items.root(), ui)
        } else {
            validate::human(&items.report, items.root(), ui)
        };
        let _ = printed;
        if !items.report.valid {
            ui.complaint("piton: staged items are not valid, nothing was committed");
            ui.hint("mend and stage them; `git commit --no-verify` leaves this check out");
        }
    }
    for refusal in &answer.refusals {
        ui.complaint(&format!("piton: {} [{}]", refusal.message, refusal.code));
        if let Some(hint) = &refusal.hint {
            ui.hint(hint);
        }
    }
    if answer.is_refused() { ExitStatus::Failure } else { ExitStatus::Success }
}

/// What piton cannot look at stops git only where the user wants to be sure.
fn could_not_look(text: &str, err: &Error, environment: &Environment, ui: &mut Ui) -> ExitStatus {
    let is_closed = Context::anywhere(environment.clone(), None).is_ok_and(|ctx| ctx.config.hooks_fail_closed());
    if !is_closed {
        ui.warning(text);
        return ExitStatus::Success;
    }
    ui.complaint(&format!("{text} [{}]", err.code()));
    ui.hint("`hooks.fail_closed` stops git here; `git -c core.hooksPath=/dev/null ...` leaves hooks out this time");
    ExitStatus::Failure
}

impl Answer {
    /// Whether there is nothing to say. That items are not signed is said by `validate`, not with each commit.
    fn is_silent(&self) -> bool {
        let is_minor = |items: &entry::StagedItems| {
            let mut findings = items.report.findings.iter();
            findings.all(|finding| finding.code == Code::Unsigned && finding.severity == Severity::Warning)
        };
        self.refusals.is_empty() && self.notes.is_empty() && self.items.as_ref().is_none_or(is_minor)
    }
}

/// What git has written; nothing where a person calls the hook by hand.
fn read_input() -> Vec<u8> {
    let stdin = std::io::stdin();
    let mut input = Vec::new();
    if !stdin.is_terminal() {
        // Input that cannot be read counts as empty.
        let _ = stdin.lock().take(MOST_INPUT).read_to_end(&mut input);
    }
    input
}
