//! Finds secrets in changes of a step, without ever showing them.
//!
//! Rules for tokens with a fixed form come first and are nearly always right; the rules for
//! `password = "…"` judge by entropy and report nothing in doubt, because users turn off a scanner
//! with many false positives. All patterns run in linear time. [`SecretScanner`] has the exceptions of
//! the project.

mod judge;
mod rules;
mod services;

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::ops::Range;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::content::is_binary;
use super::path::RepoPath;

/// The maximum number of hits per file.
const HITS: usize = 100;

/// The place of a possible secret. It never contains the secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretHit {
    /// The rule that found it, e.g. `aws-access-token`.
    pub rule: String,
    /// The file; a secret in its name is redacted.
    pub path: RepoPath,
    #[serde(flatten)]
    pub place: SecretPlace,
    /// Identifies this secret in an allow-list: the first 16 hexadecimal digits of `sha256(rule +
    /// "\0" + secret)`. If the whole file is the secret, its path is used instead.
    pub fingerprint: String,
}

/// Where in a change a secret is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretPlace {
    /// A line of the content, from 1.
    Line(u64),
    /// The path itself.
    Name,
    /// What a symbolic link points to.
    LinkTarget,
}

impl fmt::Display for SecretPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Name => f.write_str("(its name)"),
            Self::LinkTarget => f.write_str("(its target)"),
        }
    }
}

/// Searches for secrets, except for those that the project allows.
#[derive(Clone, Debug, Default)]
pub struct SecretScanner {
    paths: GlobSet,
    fingerprints: BTreeSet<String>,
}

/// An entry of the allow-list that is neither a fingerprint nor a glob.
#[derive(Debug, thiserror::Error)]
#[error("`{entry}` is neither a fingerprint nor a glob: {reason}")]
pub struct InvalidAllowance {
    pub entry: String,
    /// Why it is no glob.
    pub reason: String,
}

impl SecretScanner {
    /// Allows secrets by fingerprint (16 hexadecimal digits) and files by glob; a glob without `/`
    /// matches files with that name in any folder.
    pub fn allowing<'a>(
        entries: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, InvalidAllowance> {
        let mut paths = GlobSetBuilder::new();
        let mut fingerprints = BTreeSet::new();
        for entry in entries {
            if is_fingerprint(entry) {
                fingerprints.insert(entry.to_ascii_lowercase());
                continue;
            }
            let invalid = |error: globset::Error| InvalidAllowance {
                entry: entry.to_owned(),
                reason: error.kind().to_string(),
            };
            let glob = if entry.contains('/') {
                entry.trim_start_matches('/').to_owned()
            } else {
                format!("**/{entry}")
            };
            paths.add(
                GlobBuilder::new(&glob)
                    .literal_separator(true)
                    .build()
                    .map_err(invalid)?,
            );
        }
        let paths = paths.build().map_err(|error| InvalidAllowance {
            entry: String::new(),
            reason: error.kind().to_string(),
        })?;
        Ok(Self {
            paths,
            fingerprints,
        })
    }

    /// The secrets of a file.
    pub fn scan(&self, path: &RepoPath, content: &[u8]) -> Vec<SecretHit> {
        self.allowed_out(path, || scan(path, content))
    }

    /// The secrets in the name of a new file, including its folders.
    pub fn scan_name(&self, path: &RepoPath) -> Vec<SecretHit> {
        self.allowed_out(path, || scan_word(path, path.as_bytes(), SecretPlace::Name))
    }

    /// The secrets in the target of a symbolic link.
    pub fn scan_target(&self, path: &RepoPath, target: &[u8]) -> Vec<SecretHit> {
        self.allowed_out(path, || scan_word(path, target, SecretPlace::LinkTarget))
    }

    /// The hits that the project does not allow.
    fn allowed_out(
        &self,
        path: &RepoPath,
        scan: impl FnOnce() -> Vec<SecretHit>,
    ) -> Vec<SecretHit> {
        if self.paths.is_match(path.as_path()) {
            return Vec::new();
        }
        let mut hits = scan();
        hits.retain(|hit| !self.fingerprints.contains(&hit.fingerprint));
        hits
    }

    /// The secrets of a file that were not in it before.
    pub fn scan_change(
        &self,
        path: &RepoPath,
        before: Option<&[u8]>,
        after: &[u8],
    ) -> Vec<SecretHit> {
        let mut hits = self.scan(path, after);
        if let Some(before) = before.filter(|_| !hits.is_empty()) {
            let known: HashSet<String> = scan(path, before)
                .into_iter()
                .map(|hit| hit.fingerprint)
                .collect();
            hits.retain(|hit| !known.contains(&hit.fingerprint));
        }
        hits
    }
}

/// A match of a rule.
struct SecretMatch<'a> {
    rule: &'static str,
    range: Range<usize>,
    secret: &'a [u8],
}

/// A text with every secret replaced by `[redacted:RULE#FINGERPRINT]`.
pub fn redacted(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.as_bytes();
    let mut at = 0;
    for found in find(text.as_bytes(), |_| true) {
        let (before, after) = rest.split_at((found.range.start - at).min(rest.len()));
        let fingerprint = fingerprint(found.rule, found.secret);
        let short = fingerprint.get(..8).unwrap_or_default();
        shown += &String::from_utf8_lossy(before);
        shown.extend(["[redacted:", found.rule, "#", short, "]"]);
        rest = after.get(found.secret.len()..).unwrap_or_default();
        at = found.range.end;
    }
    shown.push_str(&String::from_utf8_lossy(rest));
    shown
}

/// The matches of the wanted rules in a text, in order and without overlaps.
fn find(content: &[u8], wanted: impl Fn(&rules::SecretRule) -> bool) -> Vec<SecretMatch<'_>> {
    let mut found: Vec<SecretMatch<'_>> = Vec::new();
    for rule in rules::for_text(content)
        .into_iter()
        .filter(|rule| wanted(rule))
    {
        let Some(pattern) = rule.pattern() else {
            continue;
        };
        for captures in pattern.captures_iter(content) {
            let Some(secret) = rules::secret_in(&captures) else {
                continue;
            };
            // Rules for exact forms come first; a guess about the same bytes is redundant.
            let known = || {
                found
                    .iter()
                    .any(|other| overlap(&other.range, &secret.range()))
            };
            if judge::is_secret(rule, &captures) && !known() {
                found.push(SecretMatch {
                    rule: rule.id,
                    range: secret.range(),
                    secret: secret.as_bytes(),
                });
            }
            if found.len() >= HITS {
                break;
            }
        }
    }
    found.sort_by_key(|found| found.range.start);
    found
}

/// The secrets of a file, sorted by line.
fn scan(path: &RepoPath, content: &[u8]) -> Vec<SecretHit> {
    let mut found = if is_binary(content) {
        Vec::new()
    } else {
        find(content, |rule| {
            rule.kind != rules::SecretKind::Guess || !judge::holds_hashes(path)
        })
    };
    if found.is_empty()
        && let Some(rule) = judge::file_rule(path, content)
    {
        found.push(SecretMatch {
            rule,
            range: 0..0,
            secret: path.as_bytes(),
        });
    }
    let (mut line, mut counted) = (1, 0);
    let mut hits = Vec::with_capacity(found.len());
    for found in found {
        let between = content.get(counted..found.range.start).unwrap_or_default();
        line += between
            .iter()
            .map(|byte| u64::from(*byte == b'\n'))
            .sum::<u64>();
        counted = found.range.start;
        let fingerprint = fingerprint(found.rule, found.secret);
        hits.push(SecretHit {
            rule: found.rule.to_owned(),
            path: without_secrets(path),
            place: SecretPlace::Line(line),
            fingerprint,
        });
    }
    hits
}

/// The secrets of certain forms in a word of a change. Guesses need more text around them.
fn scan_word(path: &RepoPath, word: &[u8], place: SecretPlace) -> Vec<SecretHit> {
    find(word, |rule| rule.kind != rules::SecretKind::Guess)
        .into_iter()
        .map(|found| SecretHit {
            rule: found.rule.to_owned(),
            path: without_secrets(path),
            place,
            fingerprint: fingerprint(found.rule, found.secret),
        })
        .collect()
}

/// A path as it may be shown.
fn without_secrets(path: &RepoPath) -> RepoPath {
    match std::str::from_utf8(path.as_bytes()) {
        Ok(text) => RepoPath::from(redacted(text).as_str()),
        Err(_) => path.clone(),
    }
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

fn fingerprint(rule: &str, secret: &[u8]) -> String {
    let digest = Sha256::new()
        .chain_update(rule)
        .chain_update([0])
        .chain_update(secret)
        .finalize();
    let mut bytes = [0; 8];
    bytes
        .iter_mut()
        .zip(digest)
        .for_each(|(byte, of_digest)| *byte = of_digest);
    format!("{:016x}", u64::from_be_bytes(bytes))
}

fn is_fingerprint(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
