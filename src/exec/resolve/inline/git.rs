//! Commands within arguments of git: settings that name programs, and options that take one.

use super::super::arguments::Argument;
use super::super::error::ResolveError;
use super::refuse;

/// Settings whose value is a command, or leads to one.
const SETTINGS: [&str; 20] = [
    "core.alternaterefscommand",
    "core.askpass",
    "core.editor",
    "core.fsmonitor",
    "core.gitproxy",
    "core.hookspath",
    "core.pager",
    "core.sshcommand",
    "credential.helper",
    "diff.external",
    "gpg.program",
    "include.path",
    "init.templatedir",
    "interactive.difffilter",
    "protocol.allow",
    "protocol.ext.allow",
    "sequence.editor",
    "uploadpack.packobjectshook",
    "web.browser",
    "sendemail.sendmailcmd",
];
/// The sections of such settings.
const SECTIONS: [&str; 4] = ["alias.", "pager.", "includeif.", "sendemail."];
/// The last parts of such settings, if there is a middle part.
const ENDS: [&str; 13] = [
    ".clean",
    ".cmd",
    ".command",
    ".driver",
    ".helper",
    ".path",
    ".process",
    ".program",
    ".receivepack",
    ".smudge",
    ".textconv",
    ".uploadpack",
    ".vcs",
];
const LONG: [&str; 9] = [
    "--exec",
    "--extcmd",
    "--upload-pack",
    "--receive-pack",
    "--tree-filter",
    "--index-filter",
    "--msg-filter",
    "--env-filter",
    "--commit-filter",
];

/// Refuses a caller's text where git expects a command. `first` is the first argument of git.
pub(super) fn check<'a>(
    first: &'a Argument,
    rest: &mut impl Iterator<Item = &'a Argument>,
) -> Result<(), ResolveError> {
    let mut words = std::iter::once(first).chain(rest);
    let mut operands: Vec<&str> = Vec::new();
    while let Some(argument) = words.next() {
        let word = argument.text.value.as_str();
        let is_rebase = operands
            .first()
            .is_some_and(|command| matches!(*command, "rebase" | "difftool"));
        let (long, value) = word
            .split_once('=')
            .map_or((word, None), |(option, value)| (option, Some(value)));
        if operands.is_empty() && matches!(word, "-c" | "--config") {
            if let Some(setting) = words.next().filter(|setting| runs(&setting.text.value)) {
                refuse("git", setting)?;
            }
        } else if operands.is_empty() && matches!(word, "-C" | "--git-dir" | "--work-tree") {
            let _ = words.next();
        } else if LONG.contains(&long) || (is_rebase && word == "-x") {
            match value {
                Some(_) => refuse("git", argument)?,
                None => words.next().map_or(Ok(()), |code| refuse("git", code))?,
            }
        } else if word.starts_with('-') {
            // `git clone -c SETTING` and `--config SETTING`.
            if matches!(word, "-c" | "--config")
                && operands.first() == Some(&"clone")
                && let Some(setting) = words.next().filter(|setting| runs(&setting.text.value))
            {
                refuse("git", setting)?;
            }
            if long == "--config" && value.is_some_and(runs) {
                refuse("git", argument)?;
            }
        } else if matches!(
            operands.get(..2),
            Some(["submodule", "foreach"] | ["bisect", "run"])
        ) {
            refuse("git", argument)?;
        } else {
            operands.push(word);
        }
    }
    Ok(())
}

/// Whether a setting `KEY=VALUE` may run its value.
fn runs(setting: &str) -> bool {
    let key = setting
        .split_once('=')
        .map_or(setting, |(key, _)| key)
        .trim()
        .to_lowercase();
    SETTINGS.contains(&key.as_str())
        || SECTIONS.iter().any(|section| key.starts_with(section))
        || (key.matches('.').count() > 1 && ENDS.iter().any(|end| key.ends_with(end)))
}
