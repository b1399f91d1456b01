//! The only printer.
//!
//! stdout has data, stderr has messages. Colours are used only on a terminal unless requested.
//! Control characters are removed from text that comes from files, so that a file cannot control
//! the terminal. A write to a closed pipe is a separate error kind and ends the program
//! successfully.

mod live;
mod pager;
pub(super) mod paint;
mod patch;
mod questions;

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
use crate::doctor::{TerminalInfo, TerminalKind};
use crate::error::Error;
use crate::exec::pager::Pager;
use crate::item::finding::{Finding, Severity};
use crate::item::tool::Origin;
pub use crate::item::wording::clean;
use crate::problem::{Code, Explain, Problem};
use live::{Cursor, LiveLine};

pub(super) use live::elapsed;
pub use pager::Paging;
pub(super) use questions::YesOrNo;

const GREEN: Style = AnsiColor::Green.on_default().bold();
const YELLOW: Style = AnsiColor::Yellow.on_default().bold();
const RED: Style = AnsiColor::Red.on_default().bold();
const CYAN: Style = AnsiColor::Cyan.on_default().bold();

/// The output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Human,
    /// One JSON value per line.
    Json,
    /// SARIF 2.1.0, for `validate`.
    Sarif,
    /// Documentation, for `tool show`.
    Markdown,
    /// A plain `tool.yaml`, for `tool show`.
    Yaml,
}

/// How many messages are printed beside the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Errors only.
    Quiet,
    /// Useful messages for a person.
    #[default]
    Normal,
    /// Also explanations.
    Verbose,
}

/// The stream for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputStream {
    Stdout,
    Stderr,
}

pub struct Ui {
    format: Format,
    verbosity: Verbosity,
    talk_to: OutputStream,
    out: BufWriter<AutoStream<io::Stdout>>,
    talk: AutoStream<io::Stderr>,
    /// The first error while printing immediately.
    failed: Option<io::Error>,
    /// Whether a tool left an unfinished line, which a message must not continue.
    line_is_open: bool,
    /// The running step, if a person watches.
    live: Option<LiveLine>,
    paging: Paging,
    pager: Option<Pager>,
}

impl Format {
    /// The name of the format.
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
    pub fn new(
        format: Format,
        verbosity: Verbosity,
        color: ColorSetting,
        environment: &Environment,
    ) -> Self {
        let (out, talk) = (io::stdout(), io::stderr());
        let out_choice = choose(color, environment, out.is_terminal());
        let talk_choice = choose(color, environment, talk.is_terminal());
        let can_move = environment
            .find("TERM")
            .is_some_and(|term| term != "dumb" && !term.is_empty());
        let is_watched = talk.is_terminal()
            && can_move
            && format == Format::Human
            && verbosity > Verbosity::Quiet;
        let style = if talk_choice == anstream::ColorChoice::Never {
            Style::new()
        } else {
            CYAN
        };
        Self {
            format,
            verbosity,
            talk_to: OutputStream::Stderr,
            out: BufWriter::new(AutoStream::new(out, out_choice)),
            talk: AutoStream::new(talk, talk_choice),
            failed: None,
            line_is_open: false,
            live: is_watched.then(|| LiveLine::new(style)),
            paging: Paging::default(),
            pager: None,
        }
    }

    /// Sets the colour mode, once the settings are known.
    pub fn set_color(&mut self, color: ColorSetting, environment: &Environment) {
        let paging = self.paging;
        *self = Self::new(self.format, self.verbosity, color, environment);
        self.paging = paging;
    }

    /// Sets whether long output may use a pager.
    pub fn set_paging(&mut self, paging: Paging) {
        self.paging = paging;
    }

    /// Prints messages to stdout: a tour must stay in one piece when it is piped.
    pub(super) fn talk_on_stdout(&mut self) {
        self.talk_to = OutputStream::Stdout;
        self.live = None;
    }

    /// Shows that something is running, if a person watches.
    pub(super) fn begin_live(&mut self, what: &str) {
        if let Some(live) = &mut self.live {
            live.begin(clean(what).replace(['\n', '\t'], " "));
        }
    }

    /// Ends the live line.
    pub(super) fn end_live(&self) {
        if let Some(live) = &self.live {
            live.end();
        }
    }

    /// A description of the terminal, for `doctor`.
    pub(super) fn described(&self, environment: &Environment) -> TerminalInfo {
        let kind = if io::stdout().is_terminal() {
            TerminalKind::Terminal
        } else {
            TerminalKind::Pipe
        };
        let is_colored = self.out.get_ref().current_choice() != anstream::ColorChoice::Never;
        let colours = match (is_colored, environment.find("NO_COLOR")) {
            (true, _) => "colours are on",
            (false, Some(_)) => "colours are off by `NO_COLOR`",
            (false, None) => "colours are off",
        };
        TerminalInfo {
            kind,
            colours: colours.to_owned(),
        }
    }

    pub fn format(&self) -> Format {
        self.format
    }

    /// The width of the terminal on stdout; `None` if stdout is not a terminal.
    pub(super) fn width() -> Option<usize> {
        let stdout = io::stdout();
        let size = stdout
            .is_terminal()
            .then(|| rustix::termios::tcgetwinsize(&stdout).ok())??;
        Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
    }

    /// Prints a value as one line of JSON.
    pub fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(value).map_err(io::Error::from)?;
        line.push(b'\n');
        // The style stripper would also remove control characters from the values.
        self.out.flush()?;
        io::stdout().write_all(&line)
    }

    /// Prints a value as one line of JSON immediately, for programs that read along.
    ///
    /// An error is reported at the end of the command.
    pub(super) fn json_now(&mut self, value: &impl Serialize) {
        let printed = self.json(value).and_then(|()| self.out.flush());
        if let Err(err) = printed {
            self.failed.get_or_insert(err);
        }
    }

    /// Prints a cleaned line of data.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{}", clean(text))
    }

    /// Prints lines of data only with `-v`.
    pub(super) fn detail_lines(&mut self, lines: &[String]) -> io::Result<()> {
        let is_wanted = self.verbosity == Verbosity::Verbose;
        lines
            .iter()
            .filter(|_| is_wanted)
            .try_for_each(|line| self.line(line))
    }

    /// Prints data with its own styles; text from files must be cleaned before.
    pub fn rendered(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())
    }

    /// Prints the bytes of files: raw for a program, cleaned for a person.
    pub(super) fn contents(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_read_by_person() {
            return self
                .out
                .write_all(clean(&String::from_utf8_lossy(bytes)).as_bytes());
        }
        // The style stripper would remove bytes that belong to the file.
        self.out.flush()?;
        io::stdout().write_all(bytes)
    }

    /// Prints a diff: raw for a program, with the changed words highlighted for a person.
    pub(super) fn patch(&mut self, bytes: &[u8]) -> io::Result<()> {
        let marks = patch::Marks::on(self.out.get_ref().current_choice());
        if self.is_read_by_person() || marks == patch::Marks::Colors {
            let text = String::from_utf8_lossy(bytes);
            return self.rendered(&patch::painted(&text, marks));
        }
        self.contents(bytes)
    }

    /// Shows a diff beside a question.
    fn say_patch(&mut self, bytes: &[u8]) {
        let choice = match self.talk_to {
            OutputStream::Stdout => self.out.get_ref().current_choice(),
            OutputStream::Stderr => self.talk.current_choice(),
        };
        self.say_raw(&patch::painted(
            &String::from_utf8_lossy(bytes),
            patch::Marks::on(choice),
        ));
    }

    /// Forwards the result of a tool as it comes.
    pub(super) fn relay_data(&mut self, bytes: &[u8]) {
        let printed = self.contents(bytes).and_then(|()| self.out.flush());
        if let Err(err) = printed {
            self.failed.get_or_insert(err);
        }
        let is_shared = self.talk_to == OutputStream::Stdout
            || (io::stdout().is_terminal() && io::stderr().is_terminal());
        self.line_is_open = is_shared && !bytes.ends_with(b"\n");
    }

    /// Forwards the messages of a tool as they come: raw for a program, cleaned for a person.
    pub(super) fn relay_talk(&mut self, bytes: &[u8]) {
        // No bytes leave the line unchanged.
        if bytes.is_empty() {
            return;
        }
        self.line_is_open = false;
        if self.talk_to == OutputStream::Stdout || io::stderr().is_terminal() {
            self.say_raw(&clean(&String::from_utf8_lossy(bytes)));
        } else {
            let _ = self.out.flush();
            let _ = self
                .talk
                .flush()
                .and_then(|()| io::stderr().write_all(bytes));
        }
        self.line_is_open = !bytes.ends_with(b"\n");
    }

    /// Whether a person watches.
    pub(super) fn is_live(&self) -> bool {
        self.talk_to == OutputStream::Stderr && io::stderr().is_terminal()
    }

    /// Prints a success message.
    pub fn success(&mut self, text: &str) {
        self.say(Verbosity::Normal, Some((GREEN, "✓ ")), text);
    }

    /// Prints that a check failed.
    pub fn failure(&mut self, text: &str) {
        self.say(Verbosity::Normal, Some((RED, "✗ ")), text);
    }

    /// Prints a warning.
    pub fn warning(&mut self, text: &str) {
        self.say(Verbosity::Normal, Some((YELLOW, "warning: ")), text);
    }

    /// Prints a warning even with `-q`: about something that cannot be undone later.
    pub fn loud_warning(&mut self, text: &str) {
        self.say(Verbosity::Quiet, Some((YELLOW, "warning: ")), text);
    }

    /// Prints a message.
    pub fn note(&mut self, text: &str) {
        self.say(Verbosity::Normal, None, text);
    }

    /// Prints a message only for a person at a terminal.
    pub(super) fn aside(&mut self, text: &str) {
        if io::stderr().is_terminal() {
            self.note(text);
        }
    }

    /// Prints a message only with `-v`.
    pub fn detail(&mut self, text: &str) {
        self.say(Verbosity::Verbose, None, text);
    }

    /// Prints an error, even with `-q`.
    pub fn complaint(&mut self, text: &str) {
        self.say(Verbosity::Quiet, Some((RED, "error: ")), text);
    }

    /// Prints what to do next.
    pub fn hint(&mut self, text: &str) {
        self.say(Verbosity::Normal, Some((CYAN, "hint: ")), text);
    }

    /// Prints a finding in short.
    pub fn finding(&mut self, finding: &Finding) {
        let (from, style, label) = match finding.severity {
            Severity::Error => (Verbosity::Quiet, RED, "error: "),
            Severity::Warning => (Verbosity::Normal, YELLOW, "warning: "),
        };
        let place = shown_place(&finding.file, finding.line, finding.column);
        self.say(
            from,
            Some((style, label)),
            &format!("{} [{}]", finding.message, finding.code),
        );
        self.say(from, None, &place);
        if let Some(suggestion) = &finding.suggestion {
            self.say(from, Some((CYAN, "hint: ")), &suggestion.to_string());
        }
    }

    /// Reports why a command failed: as a message, or as the result in JSON.
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
            // The message itself contains the position.
            let is_told = |at: &Origin| {
                (&at.file, at.line, at.column) == (&finding.file, finding.line, finding.column)
            };
            if !place.as_ref().is_some_and(is_told) {
                self.finding(finding);
            }
        }
        // The findings of a file are enough.
        if matches!(err, Error::InvalidFile { .. }) {
            return Ok(());
        }
        let problem = Problem::of(err);
        self.say(Verbosity::Quiet, Some((RED, "error: ")), problem.summary());
        for cause in problem.causes() {
            self.say(Verbosity::Quiet, None, &format!("  caused by: {cause}"));
        }
        if let Some(place) = problem.place {
            self.say(
                Verbosity::Quiet,
                None,
                &shown_place(&place.file, place.line, place.column),
            );
        }
        if let Some(hint) = problem.hint {
            self.say(Verbosity::Quiet, None, "");
            self.say(Verbosity::Quiet, Some((CYAN, "hint: ")), &hint.to_string());
        }
        Ok(())
    }

    /// Reports a usage error of the argument parser, or prints the requested help.
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
        // The message repeats the raw arguments; drop styles if they could hide something.
        if words
            .iter()
            .any(|word| matches!(clean(&word.to_string_lossy()), Cow::Owned(_)))
        {
            self.say_raw(&clean(&err.render().to_string()));
        } else {
            self.say_raw(&err.render().ansi().to_string());
        }
        Ok(())
    }

    /// Flushes the output.
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
            // Writing to a `String` cannot fail.
            let _ = write!(line, "{style}{label}{style:#}");
        }
        line.push_str(&clean(text));
        line.push('\n');
        self.say_raw(&line);
    }

    fn say_raw(&mut self, text: &str) {
        // On a terminal both streams end in the same place: keep them in order. An error while
        // printing a message cannot be reported.
        let text = &if std::mem::take(&mut self.line_is_open) {
            format!("\n{text}")
        } else {
            text.to_owned()
        };
        if self.talk_to == OutputStream::Stdout {
            let _ = self.out.write_all(text.as_bytes());
            return;
        }
        let mut quiet = self.live.as_ref().map(LiveLine::quiet);
        let _ = self.out.flush();
        let _ = self.talk.write_all(text.as_bytes());
        if let Some(line) = &mut quiet {
            line.leave(if text.ends_with('\n') {
                Cursor::AtStart
            } else {
                Cursor::InLine
            });
        }
    }
}

fn choose(
    color: ColorSetting,
    environment: &Environment,
    is_terminal: bool,
) -> anstream::ColorChoice {
    let colored = match color {
        ColorSetting::Always => true,
        ColorSetting::Never => false,
        ColorSetting::Auto if environment.find("NO_COLOR").is_some() => false,
        ColorSetting::Auto
            if environment
                .find("CLICOLOR_FORCE")
                .is_some_and(|value| value != "0") =>
        {
            true
        }
        ColorSetting::Auto => {
            is_terminal && environment.find("TERM").is_some_and(|term| term != "dumb")
        }
    };
    if colored {
        anstream::ColorChoice::AlwaysAnsi
    } else {
        anstream::ColorChoice::Never
    }
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
        assert_eq!(
            clean("a\u{202e}b\rc\u{9b}2J\u{200b}"),
            "a\\u{202e}b\\u{d}c\\u{9b}2J\\u{200b}"
        );
    }

    #[test]
    fn colours_follow_flag_then_convention_then_terminal() {
        let colored = |setting, variables: &[(&str, &str)], is_terminal| {
            let variables: BTreeMap<OsString, OsString> = variables
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect();
            let environment = Environment::new(variables, PathBuf::from("/"));
            choose(setting, &environment, is_terminal) == anstream::ColorChoice::AlwaysAnsi
        };
        let (auto, always, never) = (
            ColorSetting::Auto,
            ColorSetting::Always,
            ColorSetting::Never,
        );
        assert!(colored(auto, &[("TERM", "xterm")], true));
        assert!(!colored(auto, &[("TERM", "xterm")], false));
        assert!(!colored(auto, &[("TERM", "dumb")], true));
        assert!(!colored(auto, &[], true));
        assert!(!colored(
            auto,
            &[("TERM", "xterm"), ("NO_COLOR", "1")],
            true
        ));
        assert!(colored(auto, &[("TERM", "xterm"), ("NO_COLOR", "")], true));
        assert!(colored(auto, &[("CLICOLOR_FORCE", "1")], false));
        assert!(!colored(auto, &[("CLICOLOR_FORCE", "0")], false));
        assert!(!colored(
            auto,
            &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")],
            false
        ));
        assert!(colored(always, &[("NO_COLOR", "1")], false));
        assert!(!colored(
            never,
            &[("CLICOLOR_FORCE", "1"), ("TERM", "xterm")],
            true
        ));
    }
}
