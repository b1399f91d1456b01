//! Hexadecimal and base64 text.
//!
//! Hexadecimal digits are in lower case. Base64 is the standard alphabet with padding, as in SSH
//! keys, HTTP and JSON.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// The bytes as base64.
pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The bytes of a base64 text; `None` if it is invalid or empty.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok().filter(|bytes| !bytes.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_has_two_digits_for_each_byte() {
        assert_eq!(hex(&[0x00, 0x0a, 0xff]), "000aff");
    }

    #[test]
    fn base64_is_the_standard_one() {
        for (bytes, text) in [
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("~~~???", "fn5+Pz8/"),
        ] {
            assert_eq!(
                (base64(bytes.as_bytes()).as_str(), from_base64(text)),
                (text, Some(bytes.as_bytes().to_vec()))
            );
        }
    }

    #[test]
    fn invalid_base64_is_refused() {
        for text in ["", "A", "Zg", "Zg=", "Zg===", "Z g=", "Zm9v=", "fn5-Pz8_"] {
            assert_eq!(from_base64(text), None, "{text}");
        }
    }
}
