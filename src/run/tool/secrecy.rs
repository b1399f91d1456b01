//! Values of the caller's environment that a tool was given, kept out of everything that is written.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use serde_json::{Map, Value};

use crate::exec::invocation::{Action, Invocation, REDACTED};
use crate::exec::is_public;

/// Shorter values are too common in other text to be taken out of it.
const SHORTEST: usize = 6;

/// The values that a call must not show.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    /// Longest first, so that one that holds another goes as a whole.
    values: Vec<String>,
}

impl Secrets {
    /// The values of the variables that a call was given.
    pub(super) fn of(invocation: &Invocation, environment: &BTreeMap<OsString, OsString>) -> Self {
        let value = |name: &String| environment.get(OsStr::new(name))?.to_str().map(str::to_owned);
        let secret = invocation.variables.iter().filter(|name| !is_public(name));
        let mut secrets = Self::default();
        secrets.add(secret.filter_map(value).filter(|value| value.len() >= SHORTEST));
        if let Action::Http(http) = &invocation.action {
            secrets.add(http.encoded_secrets.iter().filter(|value| value.len() >= SHORTEST).cloned());
        }
        // Inside of JSON that is a text itself they stand with escapes.
        let escaped: Vec<String> = secrets.values.iter().map(|value| in_json(value)).collect();
        secrets.add(escaped);
        secrets
    }

    /// These, and those of another call.
    pub(super) fn and(mut self, other: &Self) -> Self {
        self.add(other.values.iter().cloned());
        self
    }

    fn add(&mut self, values: impl IntoIterator<Item = String>) {
        self.values.extend(values);
        self.values.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        self.values.dedup();
    }

    /// A text without them.
    pub(super) fn removed(&self, text: &str) -> String {
        self.values.iter().fold(text.to_owned(), |text, value| {
            if text.contains(value) { text.replace(value, REDACTED) } else { text }
        })
    }

    /// A value without them, keys included.
    pub(super) fn removed_from(&self, value: Value) -> Value {
        match value {
            _ if self.values.is_empty() => value,
            Value::String(text) => Value::String(self.removed(&text)),
            Value::Array(list) => list.into_iter().map(|value| self.removed_from(value)).collect(),
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

/// A text as it stands between quotes in JSON.
fn in_json(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_loses_its_secrets_and_nothing_else() {
        let secrets = Secrets { values: vec!["longer-secret".to_owned(), "secret".to_owned()] };
        let value = json!({"a secret": [1, "longer-secret!"], "a longer-secret": {"b": null}, "c": "plain"});
        let kept = json!({"a ***": [1, "***!"], "a ******": {"b": null}, "c": "plain"});
        assert_eq!(secrets.removed_from(value), kept);
        assert_eq!(secrets.removed("secret and longer-secret"), "*** and ***");
    }
}
