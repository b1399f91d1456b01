//! Finding secrets in what a step wrote, without ever showing them.
//!
//! Rules for tokens with a form of their own come first and are nearly always right; the rules for
//! `password = "…"` judge by entropy and stay silent in doubt: a scanner that cries wolf is switched
//! off. All patterns run in linear time. [`Scanner`] knows what the project allows.

mod judge;
mod rules;

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::path::RepoPath;

/// More hits than this in one file say nothing new.
const HITS: usize = 100;

/// A place that looks like a secret. It never holds the secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretHit {
    /// The rule that found it, e.g. `aws-access-token`.
    pub rule: String,
    /// The file.
    pub path: RepoPath,
    /// The line, from 1.
    pub line: u64,
    /// Names this secret in an allow-list: the first 16 hexadecimal digits of
    /// `sha256(rule + "\0" + secret)`. Where the file as a whole is the secret, its path stands for it.
    pub fingerprint: String,
}

/// Looks for secrets, except for those that the project allows.
#[derive(Clone, Debug, Default)]
pub struct Scanner {
    paths: GlobSet,
    fingerprints: BTreeSet<String>,
}

/// An entry of the allow-list that is neither a fingerprint nor a glob.
#[derive(Debug, thiserror::Error)]
#[error("`{entry}` is neither a fingerprint nor a glob: {reason}")]
pub struct InvalidAllowance {
    /// The entry.
    pub entry: String,
    /// What is wrong with it as a glob.
    pub reason: String,
}

impl Scanner {
    /// Allows secrets by fingerprint (16 hexadecimal digits) and files by glob; a glob without `/`
    /// stands for files of that name in any folder.
    pub fn allowing<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidAllowance> {
        let mut paths = GlobSetBuilder::new();
        let mut fingerprints = BTreeSet::new();
        for entry in entries {
            if is_fingerprint(entry) {
                fingerprints.insert(entry.to_ascii_lowercase());
                continue;
            }
            let invalid =
                |error: globset::Error| InvalidAllowance { entry: entry.to_owned(), reason: error.kind().to_string() };
            let glob =
                if entry.contains('/') { entry.trim_start_matches('/').to_owned() } else { format!("**/{entry}") };
            paths.add(GlobBuilder::new(&glob).literal_separator(true).build().map_err(invalid)?);
        }
        let paths = paths
            .build()
            .map_err(|error| InvalidAllowance { entry: String::new(), reason: error.kind().to_string() })?;
        Ok(Self { paths, fingerprints })
    }

    /// The secrets of a file.
    pub fn scan(&self, path: &RepoPath, content: &[u8]) -> Vec<SecretHit> {
        if self.paths.is_match(path.as_path()) {
            return Vec::new();
        }
        let mut hits = scan(path, content);
        hits.retain(|hit| !self.fingerprints.contains(&hit.fingerprint));
        hits
    }

    /// The secrets of a file that were not in it before.
    pub fn scan_change(&self, path: &RepoPath, before: Option<&[u8]>, after: &[u8]) -> Vec<SecretHit> {
        let mut hits = self.scan(path, after);
        if let Some(before) = before.filter(|_| !hits.is_empty()) {
            let known: HashSet<String> = scan(path, before).into_iter().map(|hit| hit.fingerprint).collect();
            hits.retain(|hit| !known.contains(&hit.fingerprint));
        }
        hits
    }
}

/// Where a rule found something, before it becomes a hit.
struct Found<'a> {
    rule: &'static str,
    range: Range<usize>,
    secret: &'a [u8],
}

/// A text with every secret in it named instead of shown, as `[redacted:RULE#FINGERPRINT]`.
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

/// What the rules that are wanted find in a text, in order and without overlaps.
fn find(content: &[u8], wanted: impl Fn(&rules::Rule) -> bool) -> Vec<Found<'_>> {
    let mut found: Vec<Found<'_>> = Vec::new();
    for rule in rules::for_text(content).into_iter().filter(|rule| wanted(rule)) {
        let Some(pattern) = rule.pattern() else { continue };
        for captures in pattern.captures_iter(content) {
            let Some(secret) = captures.get(1) else { continue };
            // Rules that know the form of a token come first; a guess about the same bytes is no news.
            let known = || found.iter().any(|other| overlap(&other.range, &secret.range()));
            if judge::is_secret(rule, &captures) && !known() {
                found.push(Found { rule: rule.id, range: secret.range(), secret: secret.as_bytes() });
            }
            if found.len() >= HITS {
                break;
            }
        }
    }
    found.sort_by_key(|found| found.range.start);
    found
}

/// The secrets of a file, in the order of their lines.
fn scan(path: &RepoPath, content: &[u8]) -> Vec<SecretHit> {
    let mut found = if judge::is_binary(content) {
        Vec::new()
    } else {
        find(content, |rule| rule.kind != rules::Kind::Guess || !judge::holds_hashes(path))
    };
    if found.is_empty()
        && let Some(rule) = judge::file_rule(path, content)
    {
        found.push(Found { rule, range: 0..0, secret: path.as_bytes() });
    }
    let (mut line, mut counted) = (1, 0);
    let mut hits = Vec::with_capacity(found.len());
    for found in found {
        let between = content.get(counted..found.range.start).unwrap_or_default();
        line += between.iter().map(|byte| u64::from(*byte == b'\n')).sum::<u64>();
        counted = found.range.start;
        let fingerprint = fingerprint(found.rule, found.secret);
        hits.push(SecretHit { rule: found.rule.to_owned(), path: path.clone(), line, fingerprint });
    }
    hits
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

fn fingerprint(rule: &str, secret: &[u8]) -> String {
    let digest = Sha256::new().chain_update(rule).chain_update([0]).chain_update(secret).finalize();
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(digest).for_each(|(byte, of_digest)| *byte = of_digest);
    format!("{:016x}", u64::from_be_bytes(bytes))
}

fn is_fingerprint(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
