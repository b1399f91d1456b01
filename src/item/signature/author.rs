//! Author signatures: the signed text, and the key of a signature.
//!
//! An author signs [`statement`] with an SSH key, and the armored signature is in `<file>.sshsig`
//! beside the item. [`AuthorSignature::parse`] reads which key made it. `ssh-keygen` decides
//! whether it is valid, and a file outside of every repository whether that key is trusted. Pure.

use sha2::{Digest as _, Sha256};

use crate::encoding::{base64, from_base64};
use crate::item::store::ItemKind;

/// The namespace of our SSH signatures; those of another namespace do not count.
pub const NAMESPACE: &str = "piton-content";
/// A signature with a large RSA key is about 3 KiB.
pub const MAX_SIGNATURE: u64 = 64 * 1024;

const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
const END: &str = "-----END SSH SIGNATURE-----";

/// The text that an author signs: the item and the hash in its stamp.
///
/// Three lines, each with its line end, so that `ssh-keygen -Y verify` can check it by hand.
pub fn statement(kind: ItemKind, id: &str, hash: &str) -> String {
    format!("piton item v1\n{kind} {id}\nsha256:{hash}\n")
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorSignature {
    pub key: PublicKey,
    pub namespace: String,
}

/// In SSH's binary form.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey {
    blob: Vec<u8>,
}

impl AuthorSignature {
    /// Reads an armored SSH signature; `None` when it is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        let body = text.trim().strip_prefix(BEGIN)?.strip_suffix(END)?;
        let body: String = body.split_ascii_whitespace().collect();
        let bytes = from_base64(&body)?;
        let rest = bytes.strip_prefix(b"SSHSIG")?;
        let (version, rest) = rest.split_at_checked(4)?;
        if version != [0, 0, 0, 1] {
            return None;
        }
        let (key, rest) = string(rest)?;
        let (namespace, _) = string(rest)?;
        Some(Self {
            key: PublicKey::of(key)?,
            namespace: String::from_utf8(namespace.to_vec()).ok()?,
        })
    }
}

impl PublicKey {
    /// Reads the base64 part of a public key, which includes its type.
    pub fn decode(text: &str) -> Option<Self> {
        Self::of(&from_base64(text)?)
    }

    fn of(blob: &[u8]) -> Option<Self> {
        let key = Self {
            blob: blob.to_vec(),
        };
        let is_type = |c: char| c.is_ascii_alphanumeric() || "-@._".contains(c);
        let is_key = key
            .kind()
            .is_some_and(|kind| !kind.is_empty() && kind.chars().all(is_type));
        // A key has more than its type.
        is_key
            .then_some(key)
            .filter(|key| string(&key.blob).is_some_and(|(_, rest)| !rest.is_empty()))
    }

    /// For example `ssh-ed25519`.
    pub fn kind(&self) -> Option<&str> {
        std::str::from_utf8(string(&self.blob)?.0).ok()
    }

    /// The key as in files: its type and base64.
    pub fn text(&self) -> String {
        format!("{} {}", self.kind().unwrap_or_default(), base64(&self.blob))
    }

    /// For example `SHA256:AXvu4f…`, as `ssh-keygen -l` prints it.
    pub fn fingerprint(&self) -> String {
        format!(
            "SHA256:{}",
            base64(&Sha256::digest(&self.blob)).trim_end_matches('=')
        )
    }
}

/// One string of SSH's wire format, and the rest.
fn string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_at_checked(4)?;
    let length = u32::from_be_bytes(length.try_into().ok()?);
    rest.split_at_checked(usize::try_from(length).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIKLHrHi7zBh/L3JF0f45dmq4V5eVWEuAT4G4Xncbyfg";
    const SIGNATURE: &str = "-----BEGIN SSH SIGNATURE-----\n\
        U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAgoseseLvMGH8vckXR/jl2arhXl5\n\
        VYS4BPgbhedxvJ+BUAAAANcGl0b24tY29udGVudAAAAAAAAAAGc2hhNTEyAAAAUwAAAAtz\n\
        c2gtZWQyNTUxOQAAAEAxrpPRGT0dMWZB/sxH3+jm3jFsAij1x5OhEGcKmmvA+EGetIJFMw\n\
        6vkuFk+lEKbvAy5ujLnY1jDU0HIulvfB8C\n\
        -----END SSH SIGNATURE-----\n";

    #[test]
    fn a_signature_says_which_key_made_it_and_what_for() {
        let signature = AuthorSignature::parse(SIGNATURE).unwrap();
        assert_eq!(signature.namespace, NAMESPACE);
        assert_eq!(signature.key.kind(), Some("ssh-ed25519"));
        // The output of `ssh-keygen -l` for this key.
        assert_eq!(
            signature.key.fingerprint(),
            "SHA256:AXvu4fbN8knfKbLe1yJG/UfX8egoGasiXYMNMN/+eik"
        );
        assert!(
            signature
                .key
                .text()
                .starts_with("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKLHrHi7zBh/")
        );
        assert!(signature.key.text().contains(&KEY[..60]));
    }

    #[test]
    fn what_is_no_signature_or_key_is_none() {
        let cut = SIGNATURE.replace("6vkuFk", "6vku!k");
        for text in [
            "",
            "x",
            BEGIN,
            "-----BEGIN SSH SIGNATURE-----\n-----END SSH SIGNATURE-----",
            &cut,
        ] {
            assert_eq!(AuthorSignature::parse(text), None, "{text}");
        }
        for text in [
            "",
            "A",
            "AAAA",
            "AAAAC3NzaC1lZDI1NTE5",
            "////",
            "AAA=====",
            "AAAAC3NzaC1lZDI1NTE5AA AA",
        ] {
            assert_eq!(PublicKey::decode(text), None, "{text}");
        }
    }

    #[test]
    fn the_statement_names_kind_id_and_hash() {
        assert_eq!(
            statement(ItemKind::Tool, "greet", "ab"),
            "piton item v1\ntool greet\nsha256:ab\n"
        );
    }
}
