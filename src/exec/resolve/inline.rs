//! Code on the command line of an interpreter, as in `bash -c`.
//!
//! There a parameter would become part of a program, with or without quotes. The check knows common
//! interpreters and their options. It helps authors and is not a sandbox.

use super::arguments::Argument;
use super::error::ResolveError;

/// An interpreter: its names, the option letters before code, and those before another value.
type Interpreter = (&'static [&'static str], &'static str, &'static str);

const INTERPRETERS: [Interpreter; 6] = [
    (&["sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "fish", "busybox"], "c", "oO"),
    (&["python", "pypy"], "c", "WX"),
    (&["node", "nodejs", "deno", "bun"], "ep", "r"),
    (&["perl", "ruby", "lua", "Rscript"], "eE", "IM"),
    (&["php"], "r", "d"),
    (&["su"], "c", ""),
];

const LONG: [&str; 4] = ["--command", "--eval", "--execute", "--print"];

/// Refuses a caller's text where an interpreter expects code.
pub(super) fn check(program: &str, arguments: &[Argument]) -> Result<(), ResolveError> {
    let mut running = interpreter(program);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let word = argument.text.value.as_str();
        let Some((name, (_, code, valued))) = running else {
            running = interpreter(word);
            continue;
        };
        let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-')).unwrap_or_default();
        let long = word.split_once('=').map_or(word, |(option, _)| option);
        if letters.contains(|c| code.contains(c)) || LONG.contains(&long) {
            // Some options take the code in the same argument.
            for holder in [Some(argument), rest.next()].into_iter().flatten() {
                refuse(name, holder)?;
            }
            // The rest are arguments of the code.
            return Ok(());
        }
        match letters.chars().next_back() {
            Some(last) if valued.contains(last) => drop(rest.next()),
            // The interpreter's script, or another program as in `busybox sh`.
            None if !word.starts_with('-') => running = interpreter(word),
            _ => {}
        }
    }
    Ok(())
}

fn refuse(program: &str, argument: &Argument) -> Result<(), ResolveError> {
    let Some(placed) = &argument.placed else { return Ok(()) };
    let parameter = &placed.parameter;
    Err(ResolveError::Placeholder {
        placeholder: format!("{{{parameter}}}"),
        field: placed.field.clone(),
        reason: format!("would become a part of the code that `{program}` runs"),
        hint: format!("give it to the code as an argument, e.g. `[-c, 'echo \"$1\"', sh, \"{{{parameter}}}\"]`"),
        at: Box::new(placed.at.clone()),
    })
}

/// The interpreter that an argument names, if any.
fn interpreter(word: &str) -> Option<(&'static str, Interpreter)> {
    let name = word.rsplit('/').next().unwrap_or(word);
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.into_iter().find_map(|known| Some((known.0.iter().find(|known| **known == name).copied()?, known)))
}
