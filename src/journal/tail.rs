//! A journal from its end: what was written last, without a look at all of it.
//!
//! For those who only ask what happens just now; the chain is not checked.

use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::error::JournalError;
use super::record::{self, Record};

/// How much is read at once.
const PIECE: usize = 64 * 1024;

/// Shows the lines of a journal, the last one first, until enough was seen. What has no end, or cannot be read, is
/// passed over: it never counted, or is for others to complain about.
pub fn read_back(path: &Path, see: &mut dyn FnMut(Record) -> ControlFlow<()>) -> Result<(), JournalError> {
    let failed = || JournalError::io("read", path);
    let file = record::open(path).map_err(failed())?;
    let mut start = file.metadata().map_err(failed())?.len();
    // The beginning of a line whose end was shown, or is none.
    let mut rest: Vec<u8> = Vec::new();
    let mut has_end = false;
    while start > 0 {
        let length = PIECE.min(usize::try_from(start).unwrap_or(PIECE));
        start -= length as u64;
        let mut piece = vec![0; length];
        match file.read_exact_at(&mut piece, start) {
            // Somebody has cut it off meanwhile.
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
        // Whatever comes of the first line, it is the last to be shown.
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
