//! The only printer.
//!
//! stdout is data, stderr is talk. Colours only on a terminal unless asked for; text that comes from
//! files is cleaned of control characters, so that a file cannot drive the terminal. Writing to a
//! closed pipe is reported as an error of its own kind and ends the program as a success.

mod live;
mod pager;
pub(super) mod paint;

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde_json::json;

use crate::config::ColorSetting;
use crate::context::Environment;
use crate::context::person::Person;
use crate::error::Error;
use crate::exec::pager::Pager;
use crate::item::finding::{Finding, Severity};
use crate::item::tool::Origin;
use crate::problem::{Code, Explain, Problem};
use crate::run::directive::Input;
use crate::run::doctor::{Terminal, TerminalKind};
use live::{Cursor, LiveHandle, LiveLine};

pub(super) use live::elapsed;
pub use pager::Paging;

const GREEN: Style = AnsiColor::Green.on_default().bold();
const YELLOW: Style = AnsiColor::Yellow.on_default().bold();
const RED: Style = AnsiColor::Red.on_default().bold();
const CYAN: Style = AnsiColor::Cyan.on_default().bold();

/// How results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Human,
    /// One JSON value per line.
    Json,
    /// SARIF 2.1.0, of `validate`.
    Sarif,
    /// Documentation, of `tool show`.
    Markdown,
    /// A plain `tool.yaml`, of `tool show`.
    Yaml,
}

/// How much is said beside the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Errors only.
    Quiet,
    /// What a person wants to know.
    #[default]
    Normal,
    /// Also why.
    Verbose,
}

/// What a person answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Yes,
    No,
}

/// Where talk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Stdout,
    Stderr,
}

/// The terminal.
pub struct Ui {
    format: Format,
    verbosity: Verbosity,
    talk_to: Stream,
    out: BufWriter<AutoStream<io::Stdout>>,
    talk: AutoStream<io::Stderr>,
    /// The first line that could not be printed at once.
    failed: Option<io::Error>,
    /// Whether a tool left a line without an end, which talk must not go on with.
    line_is_open: bool,
    /// What runs now, where a person watches.
    live: Option<LiveLine>,
    paging: Paging,
    pager: Option<Pager>,
}

impl Format {
    /// The format as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Human => "human",
            Self::Json => "json",
            Self::Sarif => "sarif",
            Self::Markdown => "markdown",
            Self::Yaml => "yaml",
        }
    }
}

impl Ui {
    /// Opens the terminal.
    pub fn new(format: Format, verbosity: Verbosity, color: ColorSetting, environment: &Environment) -> Self {
        let (out, talk) = (io::stdout(), io::stderr());
        let out_choice = choose(color, environment, out.is_terminal());
        let talk_choice = choose(color, environment, talk.is_terminal());
        let can_move = environment.find("TERM").is_some_and(|term| term != "dumb" && !term.is_empty());
        let is_watched = talk.is_terminal() && can_move && format == Format::Human && verbosity > Verbosity::Quiet;
        let style = if talk_choice == anstream::ColorChoice::Never { Style::new() } else { CYAN };
        Self {
            format,
            verbosity,
            talk_to: Stream::Stderr,
            out: BufWriter::new(AutoStream::new(out, out_choice)),
            talk: AutoStream::new(talk, talk_choice),
            failed: None,
            line_is_open: false,
            live: is_watched.then(|| LiveLine::new(style)),
            paging: Paging::default(),
            pager: None,
        }
    }

    /// Changes when to colour, once the settings are known.
    pub fn set_color(&mut self, color: ColorSetting, environment: &Environment) {
        let paging = self.paging;
        *self = Self::new(self.format, self.verbosity, color, environment);
        self.paging = paging;
    }

    /// Says whether long output may go through a pager.
    pub fn set_paging(&mut self, paging: Paging) {
        self.paging = paging;
    }

    /// Makes talk a part of the result: a tour must stay in one piece when it is piped.
    pub(super) fn talk_on_stdout(&mut self) {
        self.talk_to = Stream::Stdout;
        self.live = None;
    }

    /// Shows that something runs from now on, where a person watches.
    pub(super) fn begin_live(&mut self, what: &str) {
        if let Some(live) = &mut self.live {
            live.begin(clean(what).replace(['\n', '\t'], " "));
        }
    }

    /// Nothing runs any more.
    pub(super) fn end_live(&self) {
        if let Some(live) = &self.live {
            live.end();
        }
    }

    /// The terminal in words, for whoever asks what works.
    pub(super) fn described(&self, environment: &Environment) -> Terminal {
        let kind = if io::stdout().is_terminal() { TerminalKind::Terminal } else { TerminalKind::Pipe };
        let is_colored = self.out.get_ref().current_choice() != anstream::ColorChoice::Never;
        let colours = match (is_colored, environment.find("NO_COLOR")) {
            (true, _) => "colours are on",
            (false, Some(_)) => "colours are off by `NO_COLOR`",
            (false, None) => "colours are off",
        };
        Terminal { kind, colours: colours.to_owned() }
    }

    /// The format that was asked for.
    pub fn format(&self) -> Format {
        self.format
    }

    /// How many columns the terminal has that data goes to; none where it goes elsewhere.
    pub(super) fn width() -> Option<usize> {
        let stdout = io::stdout();
        let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout).ok())??;
        Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
    }

    /// Prints a value as one line of JSON.
    pub fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(value).map_err(io::Error::from)?;
        line.push(b'\n');
        // What strips styles takes control characters out of the values as well.
        self.out.flush()?;
        io::stdout().write_all(&line)
    }

    /// Prints a value as one line of JSON at once: whoever reads along should not have to wait.
    ///
    /// What cannot be printed is reported when the command ends.
    pub(super) fn json_now(&mut self, value: &impl Serialize) {
        let printed = self.json(value).and_then(|()| self.out.flush());
        if let Err(err) = printed {
            self.failed.get_or_insert(err);
        }
    }

    /// Prints a line of data, cleaned.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{}", clean(text))
    }

    /// Prints lines of data that only `-v` wants to see.
    pub(super) fn detail_lines(&mut self, lines: &[String]) -> io::Result<()> {
        let is_wanted = self.verbosity == Verbosity::Verbose;
        lines.iter().filter(|_| is_wanted).try_for_each(|line| self.line(line))
    }

    /// Prints data that carries its own styles; what comes from files must have been cleaned.
    pub fn rendered(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())
    }

    /// Prints the bytes of files: as they are for a program, cleaned for a person.
    pub(super) fn contents(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_read_by_person() {
            return self.out.write_all(clean(&String::from_utf8_lossy(bytes)).as_bytes());
        }
        // What strips styles would take away bytes that belong to the file.
        self.out.flush()?;
        io::stdout().write_all(bytes)
    }

    /// Prints a diff: as it is for a program, in colours for a person.
    pub(super) fn patch(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_read_by_person() || self.out.get_ref().current_choice() != anstream::ColorChoice::Never {
            return self.rendered(&paint::patch(&String::from_utf8_lossy(bytes)));
        }
        self.contents(bytes)
    }

    /// Passes on what a tool writes as its result, as it comes.
    pub(super) fn relay_data(&mut self, bytes: &[u8]) {
        let printed = self.contents(bytes).and_then(|()| self.out.flush());
        if let Err(err) = printed {
            self.failed.get_or_insert(err);
        }
        let is_shared = self.talk_to == Stream::Stdout || (io::stdout().is_terminal() && io::stderr().is_terminal());
        self.line_is_open = is_shared && !bytes.ends_with(b"\n");
    }

    /// Passes on what a tool says, as it comes: as it is for a program, cleaned for a person.
    pub(super) fn relay_talk(&mut self, bytes: &[u8]) {
        // Nothing leaves a line as it is.
        if bytes.is_empty() {
            return;
        }
        self.line_is_open = false;
        if self.talk_to == Stream::Stdout || io::stderr().is_terminal() {
            self.say_raw(&clean(&String::from_utf8_lossy(bytes)));
        } else {
            let _ = self.out.flush();
            let _ = self.talk.flush().and_then(|()| io::stderr().write_all(bytes));
        }
        self.line_is_open = !bytes.ends_with(b"\n");
    }

    /// Asks a question that a person has to answer with yes; none when there is nobody to ask.
    pub(super) fn confirm(&mut self, question: &str) -> io::Result<Option<Answer>> {
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Ok(None);
        }
        self.end_live();
        self.say_raw(&format!("{} [y/N] ", clean(question)));
        let mut line = String::new();
        io::stdin().read_line(&mut line)?;
        Ok(Some(if is_yes(&line) { Answer::Yes } else { Answer::No }))
    }

    /// The person at this terminal, for questions that come up in the middle of something.
    pub(super) fn person(&self) -> Person {
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

    /// Whether a person watches.
    pub(super) fn is_live(&self) -> bool {
        self.talk_to == Stream::Stderr && io::stderr().is_terminal()
    }

    /// Whether there is a person to ask.
    pub(super) fn can_ask() -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Shows what would be committed and asks whether that is approved.
    pub(super) fn approve(&mut self, step: &str, diff: &[u8]) -> Result<bool, Error> {
        self.end_live();
        self.say_raw(&clean(&String::from_utf8_lossy(diff)));
        self.say_raw(&format!("step `{}`: [a]pprove this, or [w]ait? ", clean(step)));
        let mut line = String::new();
        io::stdin().read_line(&mut line)?;
        Ok(matches!(line.trim().to_lowercase().as_str(), "a" | "approve" | "y" | "yes"))
    }

    /// Shows the changes of a step and asks what becomes of them; none when there is no person to ask.
    pub(super) fn decide(&mut self, step: &str, diff: &[u8], tree: &str) -> Result<Option<Input>, Error> {
        if !Self::can_ask() {
            return Ok(None);
        }
        let approve = |message| Input::Approve { message, answer: None, tree: Some(tree.to_owned()) };
        self.end_live();
        self.say_raw(&clean(&String::from_utf8_lossy(diff)));
        loop {
            self.say_raw(&format!("step `{}`: [k]eep, [u]ndo, [e]dit the message, or [w]ait? ", clean(step)));
            let mut line = String::new();
            if io::stdin().read_line(&mut line)? == 0 {
                return Ok(None);
            }
            match line.trim().to_lowercase().as_str() {
                "k" | "keep" => return Ok(Some(approve(None))),
                "u" | "undo" => return Ok(Some(Input::Reject(None))),
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

    /// Says that something was done.
    pub fn success(&mut self, text: &str) {
        self.say(Verbosity::Normal, Some((GREEN, "✓ ")), text);
    }

    /// Says that something was checked and is not as it should be.
    pub fn failure(&mut self, text: &str) {
        self.say(Verbosity::Normal, Some((RED, "✗ ")), text);
    }

    /// Says that something deserves attention.
    pub fn warning(&mut self, text: &str) {
        self.say(Verbosity::Normal, Some((YELLOW, "warning: ")), text);
    }

    /// Warns even with `-q`: about what cannot be undone later.
    pub fn loud_warning(&mut self, text: &str) {
        self.say(Verbosity::Quiet, Some((YELLOW, "warning: ")), text);
    }

    /// Says something beside the result.
    pub fn note(&mut self, text: &str) {
        self.say(Verbosity::Normal, None, text);
    }

    /// Says something that only a person at a terminal wants to know.
    pub(super) fn aside(&mut self, text: &str) {
        if io::stderr().is_terminal() {
            self.note(text);
        }
    }

    /// Says something that only `-v` wants to know.
    pub fn detail(&mut self, text: &str) {
        self.say(Verbosity::Verbose, None, text);
    }

    /// Says that something failed; not even `-q` hides it.
    pub fn complaint(&mut self, text: &str) {
        self.say(Verbosity::Quiet, Some((RED, "error: ")), text);
    }

    /// Says what to do next.
    pub fn hint(&mut self, text: &str) {
        self.say(Verbosity::Normal, Some((CYAN, "hint: ")), text);
    }

    /// Says what a finding says, in short.
    pub fn finding(&mut self, finding: &Finding) {
        let (from, style, label) = match finding.severity {
            Severity::Error => (Verbosity::Quiet, RED, "error: "),
            Severity::Warning => (Verbosity::Normal, YELLOW, "warning: "),
        };
        let place = shown_place(&finding.file, finding.line, finding.column);
        self.say(from, Some((style, label)), &format!("{} [{}]", finding.message, finding.code));
        self.say(from, None, &place);
        if let Some(suggestion) = &finding.suggestion {
            self.say(from, Some((CYAN, "hint: ")), &suggestion.to_string());
        }
    }

    /// Reports why a command was not done: as talk, or as the result when that is JSON.
    pub fn error(&mut self, err: &Error) -> io::Result<()> {
        if self.format == Format::Json {
            let mut report = json!(Problem::of(err));
            if !err.findings().is_empty() {
                report["findings"] = json!(err.findings());
            }
            return self.json(&json!({"error": report}));
        }
        let place = err.place();
        for finding in err.findings() {
            // The message itself is about the place.
            let is_told = |at: &Origin| (&at.file, at.line, at.column) == (&finding.file, finding.line, finding.column);
            if !place.as_ref().is_some_and(is_told) {
                self.finding(finding);
            }
        }
        // What is wrong in a file says enough by itself.
        if matches!(err, Error::InvalidFile { .. }) {
            return Ok(());
        }
        let problem = Problem::of(err);
        self.say(Verbosity::Quiet, Some((RED, "error: ")), problem.summary());
        for cause in problem.causes() {
            self.say(Verbosity::Quiet, None, &format!("  caused by: {cause}"));
        }
        if let Some(place) = problem.place {
            self.say(Verbosity::Quiet, None, &shown_place(&place.file, place.line, place.column));
        }
        if let Some(hint) = problem.hint {
            self.say(Verbosity::Quiet, None, "");
            self.say(Verbosity::Quiet, Some((CYAN, "hint: ")), &hint.to_string());
        }
        Ok(())
    }

    /// Reports wrong usage in the words of the argument parser, or prints the help it asked for.
    pub(super) fn usage(&mut self, err: &clap::Error, words: &[OsString]) -> io::Result<()> {
        if !err.use_stderr() {
            return self.rendered(&err.render().ansi().to_string());
        }
        if self.format == Format::Json {
            let text = err.render().to_string();
            let first = text.split("\n\n").next().unwrap_or_default();
            let message = first.strip_prefix("error: ").unwrap_or(first).trim();
            let report = json!({"code": Code::Usage, "message": message, "suggestion": "see `piton --help`"});
            return self.json(&json!({"error": report}));
        }
        // The message repeats the arguments as they are; styles go where they could hide something.
        if words.iter().any(|word| matches!(clean(&word.to_string_lossy()), Cow::Owned(_))) {
            self.say_raw(&clean(&err.render().to_string()));
        } else {
            self.say_raw(&err.render().ansi().to_string());
        }
        Ok(())
    }

    /// Writes what is still held back.
    pub fn finish(&mut self) -> io::Result<()> {
        let written = match self.failed.take() {
            Some(err) => Err(err),
            None => self.out.flush(),
        };
        let left = self.leave_pager();
        written.and(left)
    }

    fn say(&mut self, from: Verbosity, label: Option<(Style, &str)>, text: &str) {
        if self.verbosity < from {
            return;
        }
        let mut line = String::new();
        if let Some((style, label)) = label {
            // Writing to a string cannot fail.
            let _ = write!(line, "{style}{label}{style:#}");
        }
        line.push_str(&clean(text));
        line.push('\n');
        self.say_raw(&line);
    }

    fn say_raw(&mut self, text: &str) {
        // On a terminal both streams end in the same place: keep them in order. Talk that cannot be
        // written has nobody to be told to.
        let text = &if std::mem::take(&mut self.line_is_open) { format!("\n{text}") } else { text.to_owned() };
        if self.talk_to == Stream::Stdout {
            let _ = self.out.write_all(text.as_bytes());
            return;
        }
        let mut quiet = self.live.as_ref().map(LiveLine::quiet);
        let _ = self.out.flush();
        let _ = self.talk.write_all(text.as_bytes());
        if let Some(line) = &mut quiet {
            line.leave(if text.ends_with('\n') { Cursor::AtStart } else { Cursor::InLine });
        }
    }
}

fn is_yes(line: &str) -> bool {
    matches!(line.trim().to_lowercase().as_str(), "y" | "yes")
}

/// Makes text harmless for a terminal: control, direction and invisible characters become visible.
pub fn clean(text: &str) -> Cow<'_, str> {
    let harmful = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    if !text.contains(harmful) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if harmful(character) {
            cleaned.extend(character.escape_unicode());
        } else {
            cleaned.push(character);
        }
    }
    Cow::Owned(cleaned)
}

fn choose(color: ColorSetting, environment: &Environment, is_terminal: bool) -> anstream::ColorChoice {
    let colored = match color {
        ColorSetting::Always => true,
        ColorSetting::Never => false,
        ColorSetting::Auto if environment.find("NO_COLOR").is_some() => false,
        ColorSetting::Auto if environment.find("CLICOLOR_FORCE").is_some_and(|value| value != "0") => true,
        ColorSetting::Auto => is_terminal && environment.find("TERM").is_some_and(|term| term != "dumb"),
    };
    if colored { anstream::ColorChoice::AlwaysAnsi } else { anstream::ColorChoice::Never }
}

fn shown_place(file: &Path, line: u32, column: u32) -> String {
    format!(" --> {}:{line}:{column}", file.display())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn clean_text_has_nothing_to_clean(text in any::<String>()) {
            let once = clean(&text).into_owned();
            prop_assert!(!once.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
            prop_assert_eq!(clean(&once), once.as_str());
        }
    }

    #[test]
    fn text_cannot_drive_the_terminal() {
        assert_eq!(clean("plain\ttext\nä ✓"), "plain\ttext\nä ✓");
        assert_eq!(clean("\u{1b}]52;c;x\u{7}"), "\\u{1b}]52;c;x\\u{7}");
        assert_eq!(clean("a\u{202e}b\rc\u{9b}2J\u{200b}"), "a\\u{202e}b\\u{d}c\\u{9b}2J\\u{200b}");
    }

    #[test]
    fn colours_follow_flag_then_convention_then_terminal() {
        let colored = |setting, variables: &[(&str, &str)], is_terminal| {
            let variables: BTreeMap<OsString, OsString> =
                variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
            let environment = Environment::new(variables, PathBuf::from("/"));
            choose(setting, &environment, is_terminal) == anstream::ColorChoice::AlwaysAnsi
        };
        let (auto, always, never) = (ColorSetting::Auto, ColorSetting::Always, ColorSetting::Never);
        assert!(colored(auto, &[("TERM", "xterm")], true));
        assert!(!colored(auto, &[("TERM", "xterm")], false));
        assert!(!colored(auto, &[("TERM", "dumb")], true));
        assert!(!colored(auto, &[], true));
        assert!(!colored(auto, &[("TERM", "xterm"), ("NO_COLOR", "1")], true));
        assert!(colored(auto, &[("TERM", "xterm"), ("NO_COLOR", "")], true));
        assert!(colored(auto, &[("CLICOLOR_FORCE", "1")], false));
        assert!(!colored(auto, &[("CLICOLOR_FORCE", "0")], false));
        assert!(!colored(auto, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false));
        assert!(colored(always, &[("NO_COLOR", "1")], false));
        assert!(!colored(never, &[("CLICOLOR_FORCE", "1"), ("TERM", "xterm")], true));
    }
}
