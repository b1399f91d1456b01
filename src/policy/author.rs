//! Whose signatures count: the file `allowed_signers`, and the revoked keys.
//!
//! [`Signers`] is OpenSSH's file, line by line: `principals [options] type base64 [comment]`. Parts
//! that piton does not understand (other options, certificates, comments) stay byte for byte, and
//! only `ssh-keygen` interprets them. [`Revoked`] is a plain list of public keys for `ssh-keygen -Y
//! verify -r`. Pure.

use crate::item::signature::author::{NAMESPACE, PublicKey};

/// The `allowed_signers` file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signers {
    text: String,
}

/// One line that contains a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// Names and patterns, separated by commas.
    pub principals: String,
    pub options: Vec<String>,
    pub key: PublicKey,
    /// The text after the key.
    pub comment: String,
    pub line: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revoked {
    text: String,
}

/// Why a text is not a public key that can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPublicKey {
    /// It is a private key.
    Private,
    /// It contains several keys.
    Several,
    Other,
}

impl Signers {
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// All signers in order; lines that cannot be parsed are skipped.
    pub fn all(&self) -> Vec<Signer> {
        (1..)
            .zip(self.text.lines())
            .filter_map(|(line, text)| signer(text, line))
            .collect()
    }

    /// Adds a signer for items only (by `namespaces`).
    pub fn add(&mut self, principal: &str, key: &PublicKey, comment: &str) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        let comment = if comment.is_empty() {
            String::new()
        } else {
            format!(" {comment}")
        };
        let line = format!(
            "{principal} namespaces=\"{NAMESPACE}\" {}{comment}\n",
            key.text()
        );
        self.text.push_str(&line);
    }

    /// Removes lines by number and keeps every other byte.
    pub fn remove(&mut self, lines: &[usize]) {
        let kept = (1..)
            .zip(self.text.split_inclusive('\n'))
            .filter(|(line, _)| !lines.contains(line));
        self.text = kept.map(|(_, text)| text).collect();
    }
}

impl Signer {
    /// The value of an option, e.g. `valid-before`.
    pub fn option(&self, name: &str) -> Option<&str> {
        let value = self.options.iter().find_map(|option| {
            let (known, value) = option.split_once('=')?;
            known.eq_ignore_ascii_case(name).then_some(value)
        })?;
        Some(value.trim_matches('"'))
    }

    /// Whether the key is a certificate authority.
    pub fn is_authority(&self) -> bool {
        self.options
            .iter()
            .any(|option| option.eq_ignore_ascii_case("cert-authority"))
    }

    /// Whether a name refers to this line: one of its principals, or the fingerprint of its key.
    pub fn answers_to(&self, name: &str) -> bool {
        let fingerprint = self.key.fingerprint();
        self.principals
            .split(',')
            .any(|principal| principal == name)
            || name == fingerprint
            || fingerprint.strip_prefix("SHA256:") == Some(name)
    }

    /// Whether the line allows signatures of items.
    pub fn is_for_items(&self) -> bool {
        let matches = |pattern: &str| {
            let glob = globset::GlobBuilder::new(pattern).build();
            glob.is_ok_and(|glob| glob.compile_matcher().is_match(NAMESPACE))
        };
        self.option("namespaces")
            .is_none_or(|namespaces| namespaces.split(',').any(|name| matches(name.trim())))
    }
}

impl Revoked {
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn has(&self, key: &PublicKey) -> bool {
        self.text
            .lines()
            .filter_map(|line| public_key(line).ok())
            .any(|(known, _)| known == *key)
    }

    pub fn add(&mut self, key: &PublicKey, comment: &str) {
        if self.has(key) {
            return;
        }
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        let line = format!("{} {comment}", key.text());
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }
}

/// Parses the content of a `.pub` file into the key and its comment.
pub fn public_key(text: &str) -> Result<(PublicKey, String), NoPublicKey> {
    if text.contains("PRIVATE KEY") {
        return Err(NoPublicKey::Private);
    }
    let is_said = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let mut lines = text.lines().map(str::trim).filter(is_said);
    let (Some(line), rest) = (lines.next(), lines.next()) else {
        return Err(NoPublicKey::Other);
    };
    if rest.is_some() {
        return Err(NoPublicKey::Several);
    }
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [kind, base64, comment @ ..] = words.as_slice() else {
        return Err(NoPublicKey::Other);
    };
    let key = PublicKey::decode(base64)
        .filter(|key| key.kind() == Some(*kind))
        .ok_or(NoPublicKey::Other)?;
    Ok((key, comment.join(" ")))
}

/// Whether the comment of a key can serve as a name: no spaces, patterns or quotes.
pub fn is_identity(text: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || "@._+-/:".contains(c);
    !text.is_empty() && text.len() <= 128 && text.chars().all(is_plain) && !text.starts_with('-')
}

/// Parses a line `principals [options] type base64 [comment]`.
fn signer(text: &str, line: usize) -> Option<Signer> {
    let words = split_words(text);
    let (principals, rest) = words.split_first()?;
    if principals.starts_with('#') {
        return None;
    }
    // Options may appear anywhere before the key, so the key is found by decoding it.
    let keys = rest.iter().zip(rest.iter().skip(1)).enumerate().take(3);
    let found = keys.filter_map(|(at, (kind, base64))| {
        let key = PublicKey::decode(base64).filter(|key| key.kind() == Some(kind.as_str()))?;
        Some((at, key))
    });
    let (at, key) = found.into_iter().next()?;
    let options = rest
        .get(..at)?
        .iter()
        .flat_map(|words| split_options(words))
        .collect();
    let comment = rest.get(at + 2..).unwrap_or_default().join(" ");
    Some(Signer {
        principals: principals.trim_matches('"').to_owned(),
        options,
        key,
        comment,
        line,
    })
}

/// Splits at blanks, except within double quotes.
fn split_words(text: &str) -> Vec<String> {
    split(text.trim(), char::is_whitespace)
}

fn split_options(text: &str) -> Vec<String> {
    split(text, |c| c == ',')
}

fn split(text: &str, separates: impl Fn(char) -> bool) -> Vec<String> {
    let (mut parts, mut part, mut quoted) = (Vec::new(), String::new(), false);
    for character in text.chars() {
        if separates(character) && !quoted {
            if !part.is_empty() {
                parts.push(std::mem::take(&mut part));
            }
            continue;
        }
        quoted ^= character == '"';
        part.push(character);
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> PublicKey {
        let blob = "AAAAC3NzaC1lZDI1NTE5AAAAIKLHrHi7zBh/L3JF0f45dmq4V5eVWEuAT4G4Xncbyfg0";
        public_key(&format!("ssh-ed25519 {blob}")).unwrap().0
    }

    #[test]
    fn everything_else_in_the_file_stays_byte_for_byte() {
        let others = "# friends\r\n*@example.com cert-authority,valid-before=\"20300101\" ssh-rsa AAAA broken\n\n  x";
        let mut signers = Signers::new(others);
        signers.add("ada@example.com", &key(), "laptop");
        assert_eq!(
            signers.text(),
            format!(
                "{others}\nada@example.com namespaces=\"piton-content\" {} laptop\n",
                key().text()
            )
        );
        let all = signers.all();
        assert_eq!(all.len(), 1);
        assert_eq!(
            (
                all[0].line,
                all[0].principals.as_str(),
                all[0].comment.as_str()
            ),
            (5, "ada@example.com", "laptop")
        );
        assert_eq!(all[0].option("namespaces"), Some("piton-content"));
        assert!(all[0].answers_to("ada@example.com") && all[0].answers_to(&key().fingerprint()));
        assert!(!all[0].answers_to("ada"));
        signers.remove(&[5]);
        assert_eq!(signers.text(), format!("{others}\n"));
    }

    #[test]
    fn options_are_found_wherever_they_stand() {
        let line = |options: &str| {
            Signers::new(format!("a,b {options} {} c d\n", key().text()))
                .all()
                .remove(0)
        };
        let all = line("cert-authority,namespaces=\"git,piton-*\",valid-before=\"20300101Z\"");
        assert!(all.is_authority() && all.is_for_items());
        assert_eq!(
            (all.option("valid-before"), all.comment.as_str()),
            (Some("20300101Z"), "c d")
        );
        assert!(!line("namespaces=\"git\"").is_for_items());
        assert!(line("").is_for_items() && line("").answers_to("b"));
    }

    #[test]
    fn only_one_public_key_is_taken() {
        for (text, expected) in [
            (
                "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n",
                NoPublicKey::Private,
            ),
            ("", NoPublicKey::Other),
            ("ssh-ed25519", NoPublicKey::Other),
            (
                "ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIKLHrHi7zBh/L3JF0f45dmq4V5eVWEuAT4G4Xncbyfg0",
                NoPublicKey::Other,
            ),
            (&format!("{0}\n{0}\n", key().text()), NoPublicKey::Several),
        ] {
            assert_eq!(public_key(text).unwrap_err(), expected, "{text}");
        }
        let (found, comment) =
            public_key(&format!("# mine\n{} ada@laptop the second\n", key().text())).unwrap();
        assert_eq!((found, comment.as_str()), (key(), "ada@laptop the second"));
    }

    #[test]
    fn revoked_keys_are_listed_once() {
        let mut revoked = Revoked::new("# gone");
        revoked.add(&key(), "ada@example.com");
        revoked.add(&key(), "again");
        assert_eq!(
            revoked.text(),
            format!("# gone\n{} ada@example.com\n", key().text())
        );
        assert!(revoked.has(&key()));
    }

    #[test]
    fn a_comment_is_a_name_when_it_looks_like_one() {
        assert!(is_identity("ada@laptop") && is_identity("ada"));
        for text in ["", "ada lovelace", "*@x", "a,b", "!a", "-a", "a\"b"] {
            assert!(!is_identity(text), "{text}");
        }
    }
}
