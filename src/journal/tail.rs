//! Reads a journal backwards from its end.
//!
//! For callers that only need the current state of a run. The chain is not checked.

use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::error::JournalError;
use super::record::{self, Record};

const PIECE: usize = 64 * 1024;

/// Passes the lines of a journal to `see`, the last one first, until `see` breaks. Incomplete and
/// unreadable lines are skipped: `read` reports damage.
pub fn read_back(
    path: &Path,
    see: &mut dyn FnMut(Record) -> ControlFlow<()>,
) -> Result<(), JournalError> {
    let failed = || JournalError::io("read", path);
    let file = record::open(path).map_err(failed())?;
    let mut start = file.metadata().map_err(failed())?.len();
    // The beginning of a line whose end was already read.
    let mut rest: Vec<u8> = Vec::new();
    let mut has_end = false;
    while start > 0 {
        let length = PIECE.min(usize::try_from(start).unwrap_or(PIECE));
        start -= length as u64;
        let mut piece = vec![0; length];
        match file.read_exact_at(&mut piece, start) {
            // Another process has shortened the file.
            Err(err) if err.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read.map_err(failed())?,
        }
        piece.append(&mut rest);
        rest = piece;
        while let Some(at) = rest.iter().rposition(|byte| *byte == b'\n') {
            let line = rest.split_off(at + 1);
            rest.truncate(at);
            if std::mem::replace(&mut has_end, true) && shown(&line, see).is_break() {
                return Ok(());
            }
        }
    }
    if has_end {
        // The result is not needed: this is the first line of the file.
        let _ = shown(&rest, see);
    }
    Ok(())
}

fn shown(line: &[u8], see: &mut dyn FnMut(Record) -> ControlFlow<()>) -> ControlFlow<()> {
    match record::parse(line) {
        Ok(record) => see(record),
        Err(_) => ControlFlow::Continue(()),
    }
}
