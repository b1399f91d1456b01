//! Compresses loose objects.

use std::cell::RefCell;
use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::ZlibEncoder;

thread_local! {
    /// The encoder of earlier objects: a new one is a quarter of a megabyte, which the system has to
    /// find and clear.
    static ENCODER: RefCell<ZlibEncoder<Vec<u8>>> =
        RefCell::new(ZlibEncoder::new(Vec::new(), Compression::fast()));
}

/// The parts one after the other, compressed.
pub(super) fn compressed(parts: &[&[u8]]) -> io::Result<Vec<u8>> {
    ENCODER.with_borrow_mut(|encoder| {
        let written = parts.iter().try_for_each(|part| encoder.write_all(part));
        let bytes = encoder.reset(Vec::new());
        written.and(bytes)
    })
}
