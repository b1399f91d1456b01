//! Finding the id of a request in a line that cannot be parsed as a whole: too long, or nested too deeply.
//!
//! Goes over the bytes once and keeps only what may be the id, so that whoever sent the line gets an
//! answer that belongs to it.

use rmcp::model::RequestId;

/// The longest id that is kept.
const MAX_ID: usize = 256;

/// Looks for the value of `id` in an object, a piece of text at a time.
#[derive(Debug, Default)]
pub(super) struct Scan {
    depth: usize,
    string: Place,
    /// The string or number at the first level that is being read, with its quotes.
    token: Vec<u8>,
    /// Whether it is the value of `id`.
    is_id: bool,
    id: Option<Vec<u8>>,
}

/// Where in a string the text is.
#[derive(Clone, Copy, Debug, Default)]
enum Place {
    #[default]
    Outside,
    Inside,
    AfterBackslash,
}

impl Scan {
    /// Reads on.
    pub(super) fn read(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.step(*byte);
        }
    }

    /// The id that was found.
    pub(super) fn id(mut self) -> Option<RequestId> {
        self.end_token();
        serde_json::from_slice(&self.id?).ok()
    }

    fn step(&mut self, byte: u8) {
        self.string = match (self.string, byte) {
            (Place::Outside, b'"') | (Place::AfterBackslash, _) => Place::Inside,
            (Place::Outside, _) => return self.step_outside(byte),
            (Place::Inside, b'"') => Place::Outside,
            (Place::Inside, b'\\') => Place::AfterBackslash,
            (Place::Inside, _) => Place::Inside,
        };
        self.keep(byte);
    }

    fn step_outside(&mut self, byte: u8) {
        match byte {
            b'{' | b'[' => {
                self.keep(byte);
                self.depth += 1;
            }
            b'}' | b']' => {
                self.end_token();
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => {
                self.is_id = self.token == b"\"id\"";
                self.token.clear();
            }
            b',' if self.depth == 1 => self.end_token(),
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() < MAX_ID {
            self.token.push(byte);
        }
    }

    fn end_token(&mut self) {
        if self.depth == 1 && self.is_id {
            self.id = Some(std::mem::take(&mut self.token));
            self.is_id = false;
        }
        self.token.clear();
    }
}
