//! The forms of secrets.
//!
//! The patterns follow the forms that the issuers document. The rules have the names of gitleaks if
//! it has the same rule, because users know them. A pattern's group `secret`, or else its first group
//! that matches, is the secret. Patterns are ASCII and case-sensitive unless they say otherwise.

use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::bytes::{Captures, Match, Regex, RegexBuilder};

use super::services::SERVICES;

/// One form of secret.
pub(super) struct SecretRule {
    pub(super) id: &'static str,
    source: &'static str,
    pattern: OnceLock<Option<Regex>>,
    pub(super) kind: SecretKind,
    /// The minimum entropy in bits per byte.
    pub(super) entropy: f64,
}

/// How certain a match is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SecretKind {
    /// The block of a private key: never a placeholder.
    Key,
    /// A token with a fixed form.
    Token,
    /// A password for a host, as in a URL; the group `host`, or else the second group, is the host.
    Url,
    /// The base64 of `user:password`.
    Basic,
    /// A name that suggests a secret, and a value that could be one.
    Guess,
}

/// The rules that may match in a text, the most certain first.
pub(super) fn for_text(content: &[u8]) -> Vec<&'static SecretRule> {
    let Some(words) = WORDS.as_ref() else {
        return RULES.iter().collect();
    };
    let mut is_possible = vec![false; RULES.len()];
    for found in words.find_overlapping_iter(content) {
        if let Some(possible) = OWNERS
            .get(found.pattern().as_usize())
            .and_then(|rule| is_possible.get_mut(*rule))
        {
            *possible = true;
        }
    }
    RULES
        .iter()
        .zip(is_possible)
        .filter(|(_, possible)| *possible)
        .map(|(rule, _)| rule)
        .collect()
}

/// The name of a rule, its certainty, the minimum entropy, keywords of which a text with a match
/// contains one, and the pattern.
pub(super) type SecretForm = (
    &'static str,
    SecretKind,
    f64,
    &'static [&'static str],
    &'static str,
);

const TABLE: [SecretForm; 30] = [
    (
        "private-key",
        SecretKind::Key,
        0.0,
        &["PRIVATE KEY"],
        r#"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:\s*(?:Proc-Type|DEK-Info|Version|Comment):[^\n]*\n)*((?:[\s"',+]|\\[nr])*[A-Za-z0-9+/]{40}(?:[A-Za-z0-9+/=\s"',]|\\[nr])*)"#,
    ),
    (
        "putty-private-key",
        SecretKind::Key,
        0.0,
        &["PuTTY-User-Key-File-"],
        r"PuTTY-User-Key-File-\d:[^\x00]{0,4000}?Private-Lines: \d+\s+([A-Za-z0-9+/=\s]{40,})",
    ),
    (
        "age-secret-key",
        SecretKind::Token,
        3.0,
        &["AGE-SECRET-KEY-1"],
        r"\b(AGE-SECRET-KEY-1[0-9A-Z]{58})\b",
    ),
    (
        "aws-access-token",
        SecretKind::Token,
        3.0,
        &["AKIA", "ASIA", "ABIA", "ACCA"],
        r"\b((?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})\b",
    ),
    (
        "aws-secret-access-key",
        SecretKind::Token,
        4.0,
        &["secret"],
        r#"(?i:aws[\w.-]{0,20}secret|secret[_.-]?access[_.-]?key)[\w.-]{0,20}["']?\s{0,4}(?:=>|:=|=|:|,)\s{0,4}["']?([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|$)"#,
    ),
    (
        "github-fine-grained-pat",
        SecretKind::Token,
        3.0,
        &["github_pat_"],
        r"\b(github_pat_[A-Za-z0-9_]{60,100})\b",
    ),
    (
        "github-token",
        SecretKind::Token,
        3.0,
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"],
        r"\b(gh[pousr]_[A-Za-z0-9]{36,251})\b",
    ),
    (
        "gitlab-token",
        SecretKind::Token,
        3.0,
        &[
            "glpat-",
            "gldt-",
            "glrt-",
            "glrtr-",
            "glcbt-",
            "glptt-",
            "glft-",
            "glffct-",
            "glimt-",
            "glagent-",
            "glsoat-",
            "gloas-",
            "GR1348941",
        ],
        r"\b((?:glpat|gldt|glrtr?|glcbt|glptt|glft|glffct|glimt|glagent|glsoat)-[A-Za-z0-9_-]{20,80}|gloas-[a-f0-9]{64}|GR1348941[A-Za-z0-9_-]{20})",
    ),
    (
        "slack-token",
        SecretKind::Token,
        2.5,
        &["xox"],
        r"\b(xox[abeoprs](?:\.xox[bp])?-\d+(?:-[0-9A-Za-z]+)*-[0-9A-Za-z]{10,})",
    ),
    (
        "slack-app-token",
        SecretKind::Token,
        2.5,
        &["xapp-"],
        r"\b(xapp-\d-[A-Z0-9]{5,}-\d{5,}-[a-f0-9]{20,})",
    ),
    (
        "slack-webhook-url",
        SecretKind::Token,
        3.0,
        &["hooks.slack.com/"],
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9]{5,}/[A-Za-z0-9/]{20,80})",
    ),
    (
        "discord-webhook-url",
        SecretKind::Token,
        3.0,
        &["/api/webhooks/"],
        r"discord(?:app)?\.com/api/webhooks/\d{15,21}/([A-Za-z0-9_-]{50,90})",
    ),
    (
        "stripe-access-token",
        SecretKind::Token,
        3.0,
        &["_live_", "_prod_"],
        r"\b((?:sk|rk)_(?:live|prod)_[A-Za-z0-9]{16,247})\b",
    ),
    (
        "stripe-webhook-secret",
        SecretKind::Token,
        3.0,
        &["whsec_"],
        r"\b(whsec_[A-Za-z0-9+/]{32,64})",
    ),
    (
        "gcp-api-key",
        SecretKind::Token,
        3.0,
        &["AIza"],
        r"\b(AIza[A-Za-z0-9_-]{35})(?:[^A-Za-z0-9_-]|$)",
    ),
    (
        "google-client-secret",
        SecretKind::Token,
        3.0,
        &["GOCSPX-"],
        r"\b(GOCSPX-[A-Za-z0-9_-]{28})",
    ),
    (
        "anthropic-api-key",
        SecretKind::Token,
        3.0,
        &["sk-ant-"],
        r"\b(sk-ant-[a-z]{3,8}\d{2}-[A-Za-z0-9_-]{40,120})",
    ),
    (
        "openai-api-key",
        SecretKind::Token,
        3.0,
        &["sk-"],
        r"\b(sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{40,200}|sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20})",
    ),
    (
        "huggingface-access-token",
        SecretKind::Token,
        3.0,
        &["hf_"],
        r"\b(hf_[A-Za-z]{34})\b",
    ),
    (
        "npm-access-token",
        SecretKind::Token,
        3.0,
        &["npm_"],
        r"\b(npm_[A-Za-z0-9]{36})\b",
    ),
    (
        "pypi-upload-token",
        SecretKind::Token,
        3.0,
        &["pypi-AgEI"],
        r"\b(pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,250})",
    ),
    (
        "crates-io-token",
        SecretKind::Token,
        3.0,
        &["cio"],
        r"\b(cio[A-Za-z0-9]{32})\b",
    ),
    (
        "sendgrid-api-token",
        SecretKind::Token,
        3.0,
        &["SG."],
        r"\b(SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43})",
    ),
    (
        "digitalocean-token",
        SecretKind::Token,
        3.0,
        &["doo_v1_", "dop_v1_", "dor_v1_"],
        r"\b(do[opr]_v1_[a-f0-9]{64})\b",
    ),
    (
        "telegram-bot-token",
        SecretKind::Token,
        3.0,
        &[":AA"],
        r"(?i:bot|telegram)(?:[^\n]{0,20}?[^0-9\n])?(\d{8,10}:AA[A-Za-z0-9_-]{33})(?:[^A-Za-z0-9_-]|$)",
    ),
    (
        "azure-storage-key",
        SecretKind::Token,
        3.0,
        &["AccountKey="],
        r"AccountKey=([A-Za-z0-9+/]{86}==)",
    ),
    (
        "jwt",
        SecretKind::Token,
        3.0,
        &["eyJ"],
        r"\b(eyJ[A-Za-z0-9_-]{12,}\.eyJ[A-Za-z0-9_-]{12,}\.[A-Za-z0-9_-]{20,})",
    ),
    (
        "database-url",
        SecretKind::Url,
        2.0,
        &["://"],
        r#"\b(?:postgres(?:ql)?|mysql|mariadb|mongodb(?:\+srv)?|rediss?|amqps?|mssql|sqlserver|oracle|couchbases?|neo4j|bolt|cockroachdb|clickhouse)(?:\+[a-z0-9]+)?://[^\s:/@"'<>`]{0,64}:([^\s/@"'<>`]{3,128})@([^\s/:@"'<>`?]{1,253})"#,
    ),
    (
        "url-password",
        SecretKind::Url,
        3.0,
        &["://"],
        r#"\b(?:https?|ftps?|sftp|ssh|smtps?|imaps?|ldaps?|nats|mqtts?|socks5h?|svn)://[^\s:/@"'<>`]{1,64}:([^\s/@"'<>`]{8,128})@([^\s/:@"'<>`?]{1,253})"#,
    ),
    (
        "generic-api-key",
        SecretKind::Guess,
        3.5,
        &["key", "secret", "token", "passw", "credential", "bearer"],
        r#"(?i:api[_.-]?key|access[_.-]?key|secret|token|passwd|password|credential|auth[_.-]?key|private[_.-]?key|encryption[_.-]?key|signing[_.-]?key|bearer)[\w.-]{0,20}(?:["']?\]?\s{0,3}(?:=>|:=|=|:)\s{0,3}|[ \t])["'`]?([A-Za-z0-9_=./+~!@#$%^&*-]{16,150})(?:["'`\s;,)}\]\\<]|$)"#,
    ),
];

/// All forms. Those of the table come last, because its last rule guesses.
fn forms() -> impl Iterator<Item = &'static SecretForm> {
    SERVICES.iter().chain(&TABLE)
}

static RULES: LazyLock<Vec<SecretRule>> = LazyLock::new(|| {
    let rule = |(id, kind, entropy, _, source): &SecretForm| SecretRule {
        id,
        source,
        pattern: OnceLock::new(),
        kind: *kind,
        entropy: *entropy,
    };
    forms().map(rule).collect()
});

/// The rule of each keyword.
static OWNERS: LazyLock<Vec<usize>> = LazyLock::new(|| {
    forms()
        .enumerate()
        .flat_map(|(rule, (.., words, _))| words.iter().map(move |_| rule))
        .collect()
});

/// Finds the keywords of all rules in one pass; compiling a hundred patterns takes longer than
/// reading a file.
static WORDS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let words = forms().flat_map(|(.., words, _)| *words);
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        // By itself it takes a slower automaton for more than a hundred words.
        .kind(Some(AhoCorasickKind::DFA))
        .build(words)
        .ok()
});

/// The secret in a match.
pub(super) fn secret_in<'c>(captures: &Captures<'c>) -> Option<Match<'c>> {
    captures
        .name("secret")
        .or_else(|| captures.iter().skip(1).flatten().next())
}

/// The host that a password in a match is for.
pub(super) fn host_in<'c>(captures: &Captures<'c>) -> Option<&'c [u8]> {
    let host = captures.name("host").or_else(|| captures.get(2))?;
    Some(host.as_bytes())
}

impl SecretRule {
    /// The compiled pattern; `None` only if it were invalid, which a test excludes.
    pub(super) fn pattern(&self) -> Option<&Regex> {
        let compile = || RegexBuilder::new(self.source).unicode(false).build().ok();
        self.pattern.get_or_init(compile).as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles_and_has_a_group_for_the_secret() {
        assert!(
            RULES
                .iter()
                .all(|rule| rule.pattern().expect(rule.id).captures_len() >= 2)
        );
        assert!(
            RULES.is_sorted_by_key(|rule| rule.kind == SecretKind::Guess),
            "guesses come last"
        );
        assert!(WORDS.is_some());
    }

    #[test]
    fn only_rules_whose_words_are_there_are_asked() {
        let asked = |text: &str| {
            for_text(text.as_bytes())
                .iter()
                .map(|rule| rule.id)
                .collect::<Vec<_>>()
        };
        assert_eq!(asked("nothing of interest"), Vec::<&str>::new());
        assert_eq!(
            asked("GHP_ and a Token"),
            ["github-token", "generic-api-key"]
        );
        // A keyword inside another: both count.
        assert_eq!(asked("sk-ant-"), ["anthropic-api-key", "openai-api-key"]);
    }

    #[test]
    fn no_two_rules_have_one_name() {
        let names: std::collections::BTreeSet<&str> = RULES.iter().map(|rule| rule.id).collect();
        assert_eq!(names.len(), RULES.len());
    }
}
