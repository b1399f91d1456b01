//! The live line of a terminal: the running step, its duration, and a spinner.
//!
//! A thread draws it ten times a second below all other output. Printing code holds the guard of
//! [`LiveLine::quiet`]: the line is erased before the first character and drawn again after the
//! last.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anstyle::Style;

/// How often it is drawn. Anything shorter never shows.
const PACE: Duration = Duration::from_millis(100);
const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/// Moves to the start of the line and clears it.
const ERASE: &str = "\r\x1b[2K";
/// The width of a terminal that does not report one.
const USUAL_WIDTH: usize = 80;

pub(super) struct LiveLine {
    shared: Arc<Shared>,
    drawer: Option<JoinHandle<()>>,
}

/// A handle for another part of the program.
pub(super) struct LiveHandle(Arc<Shared>);

struct Shared {
    line: Mutex<StatusLine>,
    changed: Condvar,
    style: Style,
}

/// The position of the cursor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Cursor {
    /// At the start of a line.
    #[default]
    AtStart,
    /// After unfinished output, which drawing would erase.
    InLine,
}

/// The drawn content.
#[derive(Default)]
pub(super) struct StatusLine {
    what: Option<(String, Instant)>,
    cursor: Cursor,
    frame: usize,
    is_drawn: bool,
    is_over: bool,
}

impl LiveLine {
    /// An empty line.
    pub(super) fn new(style: Style) -> Self {
        let shared = Shared {
            line: Mutex::default(),
            changed: Condvar::new(),
            style,
        };
        Self {
            shared: Arc::new(shared),
            drawer: None,
        }
    }

    /// Shows that something is running.
    pub(super) fn begin(&mut self, what: String) {
        self.quiet().what = Some((what, Instant::now()));
        self.shared.changed.notify_one();
        if self.drawer.is_none() {
            let shared = Arc::clone(&self.shared);
            // Without a thread there is no live line; everything else works.
            self.drawer = std::thread::Builder::new()
                .name("live line".to_owned())
                .spawn(move || shared.draw())
                .ok();
        }
    }

    /// Clears the line.
    pub(super) fn end(&self) {
        self.quiet().what = None;
    }

    /// Another handle, for code that prints without the `Ui`.
    pub(super) fn handle(&self) -> LiveHandle {
        LiveHandle(Arc::clone(&self.shared))
    }

    /// Hides the line while the guard lives.
    pub(super) fn quiet(&self) -> MutexGuard<'_, StatusLine> {
        let mut line = self.shared.lock();
        line.erase();
        line
    }
}

impl LiveHandle {
    /// Hides the line while the guard lives.
    pub(super) fn quiet(&self) -> MutexGuard<'_, StatusLine> {
        let mut line = self.0.lock();
        line.erase();
        line
    }
}

impl Drop for LiveLine {
    fn drop(&mut self) {
        self.quiet().is_over = true;
        self.shared.changed.notify_one();
        if let Some(drawer) = self.drawer.take() {
            let _ = drawer.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, StatusLine> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draw(&self) {
        let mut line = self.lock();
        while !line.is_over {
            let waited = if line.what.is_none() {
                self.changed
                    .wait(line)
                    .unwrap_or_else(PoisonError::into_inner)
            } else {
                self.changed
                    .wait_timeout(line, PACE)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
            };
            line = waited;
            line.draw(self.style);
        }
    }
}

impl StatusLine {
    /// Sets the position of the cursor after printing.
    pub(super) fn leave(&mut self, cursor: Cursor) {
        self.cursor = cursor;
    }

    fn draw(&mut self, style: Style) {
        let Some((what, since)) = self
            .what
            .as_ref()
            .filter(|_| self.cursor == Cursor::AtStart && !self.is_over)
        else {
            return;
        };
        let passed = since.elapsed();
        // The step has just begun: wait for the next turn.
        if passed < PACE {
            return;
        }
        let frame = FRAMES
            .get(self.frame % FRAMES.len())
            .copied()
            .unwrap_or(' ');
        let time = elapsed(passed);
        let room = width().saturating_sub(time.len() + 5);
        let text = format!(
            "{ERASE}{style}{frame}{style:#} {}  {time}",
            fitted(what, room)
        );
        self.frame += 1;
        self.is_drawn = true;
        // The terminal may be gone.
        let _ = io::stderr().write_all(text.as_bytes());
    }

    fn erase(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            let _ = io::stderr().write_all(ERASE.as_bytes());
        }
    }
}

/// A readable duration: `3.4 s`, `2 min 05 s`.
pub(in crate::cli) fn elapsed(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{:.1} s", (span.as_secs_f64() * 10.0).floor() / 10.0),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stderr()).ok();
    size.map(|size| usize::from(size.ws_col))
        .filter(|columns| *columns > 0)
        .unwrap_or(USUAL_WIDTH)
}

/// The beginning of a text that certainly fits: a wrapped line could not be erased.
fn fitted(text: &str, room: usize) -> String {
    let mut fits = String::new();
    let mut used = 0;
    for character in text.chars() {
        // No character is wider than two columns.
        used += if character.is_ascii() { 1 } else { 2 };
        if used > room {
            let _ = write!(fits, "…");
            break;
        }
        fits.push(character);
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_spans_are_short() {
        let told = |seconds: f64| elapsed(Duration::from_secs_f64(seconds));
        assert_eq!(told(0.05), "0.0 s");
        assert_eq!(told(3.47), "3.4 s");
        assert_eq!(told(59.99), "59.9 s");
        assert_eq!(told(125.0), "2 min 05 s");
        assert_eq!(told(7_384.0), "2 h 03 min");
    }

    #[test]
    fn what_does_not_fit_is_cut() {
        assert_eq!(fitted("build", 5), "build");
        assert_eq!(fitted("build", 4), "buil…");
        assert_eq!(fitted("äöü", 4), "äö…");
        assert_eq!(fitted("x", 0), "…");
    }
}
