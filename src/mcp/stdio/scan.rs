//! Finds the id of a request in a line that cannot be parsed because it is too long or nested too
//! deeply.
//!
//! Reads the bytes once and keeps only a possible id, so that the sender gets an answer to its
//! request.

use rmcp::model::RequestId;

const MAX_ID: usize = 256;

/// Searches for the value of `id` in an object, piece by piece.
#[derive(Debug, Default)]
pub(super) struct IdScan {
    depth: usize,
    string: StringState,
    /// The current string (with quotes) or number at the first level.
    token: Vec<u8>,
    /// Whether the token is the value of `id`.
    is_id: bool,
    id: Option<Vec<u8>>,
}

/// The position relative to a string.
#[derive(Clone, Copy, Debug, Default)]
enum StringState {
    #[default]
    Outside,
    Inside,
    AfterBackslash,
}

impl IdScan {
    /// Reads more bytes.
    pub(super) fn read(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.step(*byte);
        }
    }

    pub(super) fn id(mut self) -> Option<RequestId> {
        self.end_token();
        serde_json::from_slice(&self.id?).ok()
    }

    fn step(&mut self, byte: u8) {
        self.string = match (self.string, byte) {
            (StringState::Outside, b'"') | (StringState::AfterBackslash, _) => StringState::Inside,
            (StringState::Outside, _) => return self.step_outside(byte),
            (StringState::Inside, b'"') => StringState::Outside,
            (StringState::Inside, b'\\') => StringState::AfterBackslash,
            (StringState::Inside, _) => StringState::Inside,
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
