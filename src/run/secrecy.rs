//! Redacts values from the caller's environment: variables that a tool received, and those that a
//! directive names as `{env:NAME}`, also where they are encoded.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use serde_json::{Map, Value};
use url::form_urlencoded;

use crate::encoding::{base64, hex};
use crate::exec::invocation::{Action, Invocation, REDACTED};
use crate::exec::is_public;

/// Shorter values are too common in other text to redact them.
const SHORTEST: usize = 6;

/// The values to redact.
#[derive(Clone, Debug, Default)]
pub(in crate::run) struct Secrets {
    /// Longest first, so that a value that contains another is removed as a whole.
    values: Vec<String>,
}

impl Secrets {
    /// The values of the variables that a call received.
    pub(in crate::run) fn of(
        invocation: &Invocation,
        environment: &BTreeMap<OsString, OsString>,
    ) -> Self {
        let value = |name: &String| {
            environment
                .get(OsStr::new(name))?
                .to_str()
                .map(str::to_owned)
        };
        let mut secrets = Self::default();
        for name in &invocation.variables {
            if let Some(value) = value(name) {
                secrets.hide(name, &value);
            }
        }
        if let Action::Http(http) = &invocation.action {
            secrets.add(
                http.encoded_secrets
                    .iter()
                    .filter(|value| value.len() >= SHORTEST)
                    .cloned(),
            );
        }
        // In JSON inside a string, values appear with escapes.
        let escaped: Vec<String> = secrets.values.iter().map(|value| in_json(value)).collect();
        secrets.add(escaped);
        secrets
    }

    /// Adds the value of a variable, and its usual encodings.
    pub(in crate::run) fn hide(&mut self, name: &str, value: &str) {
        if value.len() < SHORTEST || is_public(name) {
            return;
        }
        let base64 = base64(value.as_bytes());
        let hex = hex(value.as_bytes());
        let form: String = form_urlencoded::byte_serialize(value.as_bytes()).collect();
        let unpadded = base64.trim_end_matches('=').to_owned();
        let of_urls = unpadded.replace('+', "-").replace('/', "_");
        let spaced = form.replace('+', "%20").replace("%7E", "~");
        let plus = form.replace("%7E", "~");
        self.add([
            value.to_owned(),
            in_json(value),
            with_small_escapes(&form),
            with_small_escapes(&spaced),
            with_small_escapes(&plus),
            plus,
            spaced,
            form,
            base64,
            unpadded,
            of_urls,
            hex.to_uppercase(),
            hex,
        ]);
        self.add(within_base64(value.as_bytes()));
    }

    /// Adds the secrets of another call.
    pub(in crate::run) fn and(mut self, other: &Self) -> Self {
        self.add(other.values.iter().cloned());
        self
    }

    fn add(&mut self, values: impl IntoIterator<Item = String>) {
        self.values.extend(values);
        self.values
            .sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        self.values.dedup();
    }

    /// Redacts a text.
    pub(in crate::run) fn removed(&self, text: &str) -> String {
        self.values.iter().fold(text.to_owned(), |text, value| {
            if text.contains(value) {
                text.replace(value, REDACTED)
            } else {
                text
            }
        })
    }

    /// Redacts the values of parameters.
    pub(in crate::run) fn removed_from_map(&self, map: &Map<String, Value>) -> Map<String, Value> {
        map.iter()
            .map(|(name, value)| (name.clone(), self.removed_from(value.clone())))
            .collect()
    }

    /// Redacts a value, including keys.
    pub(in crate::run) fn removed_from(&self, value: Value) -> Value {
        match value {
            _ if self.values.is_empty() => value,
            Value::String(text) => Value::String(self.removed(&text)),
            Value::Array(list) => list
                .into_iter()
                .map(|value| self.removed_from(value))
                .collect(),
            Value::Object(map) => {
                let mut kept = Map::with_capacity(map.len());
                for (key, value) in map {
                    let mut name = self.removed(&key);
                    // Two keys may differ only in their secrets.
                    while kept.contains_key(&name) {
                        name.push_str(REDACTED);
                    }
                    kept.insert(name, self.removed_from(value));
                }
                Value::Object(kept)
            }
            other => other,
        }
    }
}

/// What base64 makes of a value that has other bytes before and after it, such as the line feed of
/// `echo` or a user name: the digits that depend on the value only, for each of the three alignments.
fn within_base64(value: &[u8]) -> Vec<String> {
    let digits = |shift: usize| {
        let text = base64(&[vec![0; shift].as_slice(), value].concat());
        let (start, end) = ((shift * 8).div_ceil(6), (shift + value.len()) * 8 / 6);
        let digits = text.get(start..end)?;
        (digits.len() >= SHORTEST).then(|| digits.to_owned())
    };
    let standard = (0..3).filter_map(digits);
    let both = standard.flat_map(|text| [text.replace('+', "-").replace('/', "_"), text]);
    both.collect()
}

/// A text with percent escapes in lower case, as some programs write them.
fn with_small_escapes(text: &str) -> String {
    let mut small = String::with_capacity(text.len());
    let mut digits = 0;
    for c in text.chars() {
        match (c, digits) {
            ('%', _) => digits = 3,
            (_, 0) => {
                small.push(c);
                continue;
            }
            _ => {}
        }
        digits -= 1;
        small.push(c.to_ascii_lowercase());
    }
    small
}

/// A text as it appears between quotes in JSON.
fn in_json(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted
        .get(1..quoted.len() - 1)
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn encoded_values_are_redacted_and_public_or_short_ones_are_not() {
        let mut secrets = Secrets::default();
        secrets.hide("TOKEN", "s3cret/v?lue\"");
        secrets.hide("LANG", "en_GB.UTF-8");
        secrets.hide("SHORT", "12345");
        for text in [
            "s3cret/v?lue\"",
            "s3cret/v?lue\\\"",
            "s3cret%2Fv%3Flue%22",
            "s3cret%2fv%3flue%22",
            "czNjcmV0L3Y/bHVlIg==",
            "czNjcmV0L3Y_bHVlIg",
            "7333637265742f763f6c756522",
            "7333637265742F763F6C756522",
        ] {
            assert_eq!(secrets.removed(&format!("<{text}>")), "<***>", "{text}");
        }
        assert_eq!(secrets.removed("en_GB.UTF-8 12345"), "en_GB.UTF-8 12345");
    }

    #[test]
    fn a_value_inside_of_base64_is_redacted_at_each_alignment() {
        for value in ["s3cret/v?lue\"", "token-5", "token-57", "~~~???>>>"] {
            let mut secrets = Secrets::default();
            secrets.hide("TOKEN", value);
            for before in ["", "a", "ab", "abc", "user:"] {
                for after in ["", "\n", "\r\n", " and more"] {
                    let text = base64(format!("{before}{value}{after}").as_bytes());
                    let of_urls = text.replace('+', "-").replace('/', "_");
                    for text in [text, of_urls] {
                        let kept = secrets.removed(&text);
                        assert!(kept.contains(REDACTED), "{before}{value}{after}: {kept}");
                        let most = before.len() + after.len() + 4;
                        assert!(
                            kept.len() <= most * 4 / 3 + 4 + REDACTED.len(),
                            "{text}: {kept}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_value_loses_its_secrets_and_nothing_else() {
        let secrets = Secrets {
            values: vec!["longer-secret".to_owned(), "secret".to_owned()],
        };
        let value = json!({"a secret": [1, "longer-secret!"], "a longer-secret": {"b": null}, "c": "plain"});
        let kept = json!({"a ***": [1, "***!"], "a ******": {"b": null}, "c": "plain"});
        assert_eq!(secrets.removed_from(value), kept);
        assert_eq!(secrets.removed("secret and longer-secret"), "*** and ***");
    }
}
