//! Reads lines of limited length.
//!
//! A read may be cancelled at any time and continued later: the bytes read so far are kept here.

use std::io;

use rmcp::model::RequestId;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::scan::IdScan;

/// The buffer capacity that is kept after a long line.
const KEPT: usize = 1024 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadLine {
    /// A line, available through [`LineReader::text`].
    Line,
    /// A line over the limit was skipped. Holds the id of its request, if one was found.
    TooLong(Option<RequestId>),
    End,
}

#[derive(Debug)]
pub(super) struct LineReader<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    limit: usize,
    /// Searches the rest of a line that is too long for an id.
    skipped: Option<IdScan>,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(reader: R, limit: usize) -> Self {
        Self {
            reader: BufReader::with_capacity(32 * 1024, reader),
            line: Vec::new(),
            limit,
            skipped: None,
        }
    }

    /// The last line, without its line break.
    pub(super) fn text(&self) -> &[u8] {
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    pub(super) fn clear(&mut self) {
        self.line.clear();
        self.line.shrink_to(KEPT);
    }

    /// Reads the next line. The previous line must have been cleared.
    pub(super) async fn next(&mut self) -> io::Result<ReadLine> {
        loop {
            let available = self.reader.fill_buf().await?;
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            let chunk = available.get(..taken).unwrap_or_default();
            let is_whole = end.is_some() || chunk.is_empty();
            if let Some(scan) = &mut self.skipped {
                scan.read(chunk);
            } else if self.line.len() + chunk.len() > self.limit {
                let mut scan = IdScan::default();
                scan.read(&self.line);
                scan.read(chunk);
                self.skipped = Some(scan);
                self.clear();
            } else {
                self.line.extend_from_slice(chunk);
            }
            self.reader.consume(taken);
            if !is_whole {
                continue;
            }
            return Ok(match self.skipped.take() {
                Some(scan) => ReadLine::TooLong(scan.id()),
                // The last line may lack its line break.
                None if taken == 0 && self.line.is_empty() => ReadLine::End,
                None => ReadLine::Line,
            });
        }
    }
}
