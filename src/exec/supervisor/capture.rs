//! Captures the output of a tool in bounded memory.
//!
//! The start and the end are kept; everything is counted and hashed.

use std::collections::VecDeque;

use crate::encoding::hex;
use sha2::{Digest, Sha256};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    pub head: Vec<u8>,
    /// The last bytes, if the head does not contain everything.
    pub tail: Vec<u8>,
    pub total: u64,
    /// The SHA-256 of all bytes, in hex.
    pub sha256: String,
}

pub(in crate::exec) struct Capture {
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
    hash: Sha256,
}

impl Capture {
    /// Keeps `kept` bytes: one half from the start, one half from the end.
    pub(in crate::exec) fn new(kept: usize) -> Self {
        Self {
            half: kept / 2,
            head: Vec::new(),
            tail: VecDeque::new(),
            total: 0,
            hash: Sha256::new(),
        }
    }

    pub(in crate::exec) fn add(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.hash.update(bytes);
        let room = self.half - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        let rest = rest
            .get(rest.len().saturating_sub(self.half)..)
            .unwrap_or_default();
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..excess.min(self.tail.len()));
        self.tail.extend(rest);
    }

    pub(in crate::exec) fn finish(self) -> Captured {
        let sha256 = hex(&self.hash.finalize());
        Captured {
            head: self.head,
            tail: self.tail.into(),
            total: self.total,
            sha256,
        }
    }
}

impl Captured {
    /// The captured text, with a line that says how much was left out.
    pub fn text(&self) -> String {
        if let Some(whole) = self.whole() {
            return String::from_utf8_lossy(&whole).into_owned();
        }
        let left_out = self.total - (self.head.len() + self.tail.len()) as u64;
        let head = String::from_utf8_lossy(without_cut_end(&self.head));
        let tail = String::from_utf8_lossy(without_cut_start(&self.tail));
        format!("{head}\n… {left_out} bytes left out …\n{tail}")
    }

    /// Whether the captured bytes are valid UTF-8.
    pub fn is_text(&self) -> bool {
        let is_text = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok();
        match self.whole() {
            Some(whole) => is_text(&whole),
            None => is_text(without_cut_end(&self.head)) && is_text(without_cut_start(&self.tail)),
        }
    }

    /// Everything, if nothing was left out.
    pub fn whole(&self) -> Option<Vec<u8>> {
        (!self.is_truncated()).then(|| [self.head.as_slice(), &self.tail].concat())
    }

    pub fn is_truncated(&self) -> bool {
        self.total > (self.head.len() + self.tail.len()) as u64
    }
}

/// Drops a partial character at the end.
fn without_cut_end(bytes: &[u8]) -> &[u8] {
    let last = bytes
        .utf8_chunks()
        .last()
        .map(|chunk| chunk.invalid().len())
        .unwrap_or_default();
    let cut = if last < 4 { last } else { 0 };
    bytes.get(..bytes.len() - cut).unwrap_or(bytes)
}

/// Drops a partial character at the start.
fn without_cut_start(bytes: &[u8]) -> &[u8] {
    let cut = bytes
        .iter()
        .take(3)
        .take_while(|byte| **byte & 0xc0 == 0x80)
        .count();
    bytes.get(cut..).unwrap_or(bytes)
}

#[cfg(test)]
mod tests;
