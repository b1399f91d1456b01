//! Distinguishes secrets from lookalikes: placeholders, hashes, names, local passwords.

use std::collections::BTreeSet;

use regex::bytes::Captures;

use super::rules::{SecretKind, SecretRule, host_in, secret_in};
use crate::checkpoint::content::is_binary;
use crate::checkpoint::path::RepoPath;
use crate::encoding::from_base64;

/// Parts that no random token contains.
const EXAMPLES: [&str; 9] = [
    "example",
    "placeholder",
    "redacted",
    "changeme",
    "abcdefgh",
    "12345678",
    "01234567",
    // The token in all JWT documentation.
    "sflkxwrjsmekkf2qt4fwpmejf36pok6yjv_adqssw5c",
    "deadbeef",
];
/// Common placeholders for secrets.
const STAND_INS: [&str; 17] = [
    "your",
    "dummy",
    "sample",
    "insert",
    "replace",
    "todo",
    "fake",
    "change-me",
    "change_me",
    "notreal",
    "not-a-",
    "not_a_",
    "secret",
    "password",
    "token",
    "process.env",
    "testing",
];
/// Passwords of local databases and tutorials.
const KNOWN_PASSWORDS: [&str; 14] = [
    "password",
    "passwd",
    "pass",
    "pwd",
    "postgres",
    "mysql",
    "root",
    "admin",
    "guest",
    "secret",
    "test",
    "user",
    "redis",
    "mypassword",
];
const LOCK_FILES: [&str; 12] = [
    "package-lock.json",
    "npm-shrinkwrap.json",
    "pnpm-lock.yaml",
    "bun.lockb",
    "go.sum",
    "go.mod",
    "go.work.sum",
    "gradle.lockfile",
    "packages.lock.json",
    "verification-metadata.xml",
    "deps.edn",
    ".yarn-integrity",
];
const PRIVATE_KEY_NAMES: [&str; 5] = ["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk"];
/// The object identifier of PKCS#7 data, near the start of every `.p12` file.
const PKCS7_DATA: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01";

/// Whether a file is full of hashes or generated, so that guesses are useless.
pub(super) fn holds_hashes(path: &RepoPath) -> bool {
    let name = String::from_utf8_lossy(path.file_name()).to_lowercase();
    LOCK_FILES.contains(&name.as_str())
        || [
            ".lock", ".sum", ".min.js", ".min.css", ".map", ".svg", ".snap",
        ]
        .iter()
        .any(|end| name.ends_with(end))
}

/// Whether a match is a usable secret.
pub(super) fn is_secret(rule: &SecretRule, captures: &Captures<'_>) -> bool {
    let Some(secret) = secret_in(captures).map(|secret| secret.as_bytes()) else {
        return false;
    };
    match rule.kind {
        SecretKind::Key => true,
        SecretKind::Token => entropy(secret) >= rule.entropy && !is_example(secret),
        SecretKind::Url => {
            entropy(secret) >= rule.entropy
                && !host_in(captures).is_some_and(is_local)
                && !is_known_password(secret)
        }
        SecretKind::Basic => holds_a_password(secret, rule.entropy),
        SecretKind::Guess => {
            let before = captures
                .get(0)
                .zip(captures.get(1))
                .and_then(|(whole, value)| {
                    let at = (value.start() - whole.start()).checked_sub(1)?;
                    whole.as_bytes().get(at).copied()
                });
            let quoted = before.is_some_and(|byte| matches!(byte, b'"' | b'\'' | b'`'));
            entropy(secret) >= rule.entropy
                && is_random(
                    secret,
                    if quoted {
                        ValueForm::Quoted
                    } else {
                        ValueForm::Bare
                    },
                )
        }
    }
}

/// How a guessed value is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueForm {
    Quoted,
    Bare,
}

/// Whether a value looks random rather than written by a person or a program.
fn is_random(value: &[u8], form: ValueForm) -> bool {
    let count = |is: fn(&u8) -> bool| value.iter().filter(|byte| is(byte)).count();
    let (digits, upper, lower) = (
        count(u8::is_ascii_digit),
        count(u8::is_ascii_uppercase),
        count(u8::is_ascii_lowercase),
    );
    let hexadecimal = value.len() >= 32 && value.iter().all(u8::is_ascii_hexdigit);
    // A type name has its digits in one place: `X509Certificate`.
    let digit_runs = value.chunk_by(|one, other| one.is_ascii_digit() == other.is_ascii_digit());
    let digit_runs = digit_runs
        .filter(|run| run.first().is_some_and(u8::is_ascii_digit))
        .count();
    let mixed = upper > 0 && lower > 0 && digit_runs > 1;
    // Without quotes it may be code: accept only values that do not look like a name.
    let plain = value
        .iter()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_-+/=".contains(byte));
    let shaped = match form {
        ValueForm::Quoted => true,
        ValueForm::Bare => plain && (hexadecimal || mixed),
    };
    shaped
        && digits >= 2
        && upper + lower >= 2
        && !is_example(value)
        && !is_stand_in(value)
        && !is_uuid(value)
        && !is_name(value)
}

/// Shannon entropy in bits per byte.
fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in bytes {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            *count += 1;
        }
    }
    let length = f64::from(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| f64::from(*count) / length)
        .map(|p| -p * p.log2())
        .sum()
}

fn is_example(secret: &[u8]) -> bool {
    let text = String::from_utf8_lossy(secret).to_lowercase();
    EXAMPLES.iter().any(|word| text.contains(word)) || repeats(secret)
}

/// Whether a character is repeated five times: that happens in one random token in a million.
fn repeats(secret: &[u8]) -> bool {
    secret
        .windows(5)
        .any(|window| window.iter().collect::<BTreeSet<_>>().len() == 1)
}

fn is_stand_in(value: &[u8]) -> bool {
    let text = String::from_utf8_lossy(value).to_lowercase();
    let variable = ["${", "{{", "$(", "%(", "$", "<", "@", "&", "*", "#{"]
        .iter()
        .any(|start| text.starts_with(start));
    let hash = [
        "sha1-", "sha256-", "sha384-", "sha512-", "sha256:", "http:", "https:", "data:", "file:",
        "h1:",
    ];
    variable
        || STAND_INS.iter().any(|word| text.contains(word))
        || hash.iter().any(|prefix| text.starts_with(prefix))
}

fn is_uuid(value: &[u8]) -> bool {
    value.len() == 36
        && value.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Whether every part between separators is a word or a short number: names, paths, versions.
fn is_name(value: &[u8]) -> bool {
    let parts: Vec<&[u8]> = value
        .split(|byte| b"_-./:@#+=!~&$%^*".contains(byte))
        .filter(|part| !part.is_empty())
        .collect();
    parts.len() > 1
        && parts.iter().all(|part| {
            let letters = part
                .iter()
                .take_while(|byte| byte.is_ascii_alphabetic())
                .count();
            let digits = part
                .iter()
                .skip(letters)
                .filter(|byte| byte.is_ascii_digit())
                .count();
            letters + digits == part.len() && digits <= 4
        })
}

/// Whether a host is reachable only from this machine, or not at all.
fn is_local(host: &[u8]) -> bool {
    let host = String::from_utf8_lossy(host).to_lowercase();
    // The name of a service in a compose file or a cluster has no dot.
    !host.contains('.')
        || host.starts_with("127.")
        || host == "0.0.0.0"
        || host.contains("example")
        || ["$", "{", "%", "<"].iter().any(|mark| host.contains(mark))
        || [".local", ".localhost", ".internal", ".test", ".invalid"]
            .iter()
            .any(|end| host.ends_with(end))
}

/// Whether a text is the base64 of `user:password` with a password that may be a real one.
fn holds_a_password(secret: &[u8], least: f64) -> bool {
    let decoded = std::str::from_utf8(secret)
        .ok()
        .and_then(from_base64)
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .filter(|text| !text.contains(char::is_control));
    decoded
        .as_deref()
        .and_then(|text| text.split_once(':'))
        .is_some_and(|(user, password)| {
            !user.is_empty()
                && entropy(password.as_bytes()) >= least
                && !is_known_password(password.as_bytes())
        })
}

fn is_known_password(secret: &[u8]) -> bool {
    let text = String::from_utf8_lossy(secret).to_lowercase();
    let variable = ["$", "{", "%s", "%(", "<", "*", "["]
        .iter()
        .any(|mark| text.starts_with(mark));
    variable
        || KNOWN_PASSWORDS.contains(&text.as_str())
        || ["your", "changeme", "example", "placeholder", "xxx"]
            .iter()
            .any(|word| text.contains(word))
        || repeats(secret)
}

/// The rule by which a whole file is a secret, from its name and content.
pub(super) fn file_rule(path: &RepoPath, content: &[u8]) -> Option<&'static str> {
    let name = String::from_utf8_lossy(path.file_name()).to_lowercase();
    if is_environment_file(&name) && !is_binary(content) {
        return String::from_utf8_lossy(content)
            .lines()
            .any(sets_a_value)
            .then_some("environment-file");
    }
    if PRIVATE_KEY_NAMES.contains(&name.as_str()) {
        let blank = content.iter().all(u8::is_ascii_whitespace);
        let public = content.starts_with(b"ssh-")
            || content.starts_with(b"ecdsa-")
            || content.starts_with(b"sk-");
        let placeholder = content.len() < 64;
        return (!blank && !public && !placeholder).then_some("private-key-file");
    }
    let stored = [".p12", ".pfx"].iter().any(|end| name.ends_with(end));
    let head = content.get(..content.len().min(64)).unwrap_or_default();
    (stored
        && head
            .windows(PKCS7_DATA.len())
            .any(|window| window == PKCS7_DATA))
    .then_some("pkcs12-file")
}

/// `.env` and its local variants; `.env.production` and similar often contain public settings.
fn is_environment_file(name: &str) -> bool {
    name == ".env"
        || name == ".envrc.local"
        || (name.starts_with(".env.") && name.ends_with("local"))
}

/// Whether a line of an environment file sets a value that is not a placeholder.
fn sets_a_value(line: &str) -> bool {
    let line = line.trim();
    let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) else {
        return false;
    };
    let value = value.trim().trim_matches(['"', '\'']);
    !name.trim().is_empty()
        && !value.is_empty()
        && !is_example(value.as_bytes())
        && !is_stand_in(value.as_bytes())
}
