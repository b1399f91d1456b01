//! The table of settings.
//!
//! One row per [`Key`]; a key enters when something reads it. To add one: a variant, its row, and
//! an accessor on [`Config`](super::Config).

use crate::item::wording::nearest;
use serde::{Serialize, Serializer};

use super::{ColorSetting, SignatureRequirement};

/// The name of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// Whether validation follows the letter of the specification.
    ValidateStrict,
    /// What an item needs before it may be used.
    SignatureRequire,
    /// Whether output is coloured.
    UiColor,
}

/// The value of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// Of `signature.require`.
    Signature(SignatureRequirement),
    /// Of `ui.color`.
    Color(ColorSetting),
}

/// Which layers may change a setting in which direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protection {
    /// Every layer may set it.
    Open,
    /// A project may tighten it, never loosen it.
    OnlyTighten,
}

struct Row {
    name: &'static str,
    variable: &'static str,
    summary: &'static str,
    values: &'static [&'static str],
    default: Value,
    protection: Protection,
}

impl Key {
    /// Every key, in the order of the documentation.
    pub const ALL: [Self; 3] = [Self::ValidateStrict, Self::SignatureRequire, Self::UiColor];

    const fn row(self) -> Row {
        match self {
            Self::ValidateStrict => Row {
                name: "validate.strict",
                variable: "PITON_VALIDATE_STRICT",
                summary: "whether validation follows the letter of the specification",
                values: &["true", "false"],
                default: Value::Bool(false),
                protection: Protection::Open,
            },
            Self::SignatureRequire => Row {
                name: "signature.require",
                variable: "PITON_SIGNATURE_REQUIRE",
                summary: "what an item needs before it may be used",
                values: &["none", "integrity", "author"],
                default: Value::Signature(SignatureRequirement::None),
                protection: Protection::OnlyTighten,
            },
            Self::UiColor => Row {
                name: "ui.color",
                variable: "PITON_UI_COLOR",
                summary: "whether output is coloured",
                values: &["auto", "always", "never"],
                default: Value::Color(ColorSetting::Auto),
                protection: Protection::Open,
            },
        }
    }

    /// The key as it is written, e.g. `validate.strict`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The environment variable that sets it.
    pub fn variable(self) -> &'static str {
        self.row().variable
    }

    /// What it decides, in one line.
    pub fn summary(self) -> &'static str {
        self.row().summary
    }

    /// The values it may have, as they are written.
    pub fn values(self) -> &'static [&'static str] {
        self.row().values
    }

    /// The value when nobody sets it.
    pub fn default(self) -> Value {
        self.row().default
    }

    /// Finds the key of a name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    /// Finds the key that a mistyped name most likely means.
    pub fn find_similar(name: &str) -> Option<Self> {
        nearest(name, Self::ALL.into_iter().map(Self::name)).and_then(Self::find)
    }

    /// Reads a value of this key.
    pub fn parse(self, text: &str) -> Option<Value> {
        match self {
            Self::ValidateStrict => match text {
                "true" => Some(Value::Bool(true)),
                "false" => Some(Value::Bool(false)),
                _ => None,
            },
            Self::SignatureRequire => SignatureRequirement::parse(text).map(Value::Signature),
            Self::UiColor => ColorSetting::parse(text).map(Value::Color),
        }
    }

    /// Whether the project may replace one value by another.
    pub(super) fn project_may_set(self, from: Value, to: Value) -> bool {
        match (self.row().protection, from, to) {
            (Protection::OnlyTighten, Value::Signature(from), Value::Signature(to)) => to >= from,
            _ => true,
        }
    }

    /// The values in the words of a message: "`auto`, `always` or `never`".
    pub(super) fn expected(self) -> String {
        let quoted: Vec<String> = self.values().iter().map(|value| format!("`{value}`")).collect();
        match quoted.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => quoted.concat(),
        }
    }
}

impl Value {
    /// The value as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bool(true) => "true",
            Self::Bool(false) => "false",
            Self::Signature(requirement) => requirement.as_str(),
            Self::Color(color) => color.as_str(),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Bool(value) => serializer.serialize_bool(*value),
            other => serializer.serialize_str(other.as_str()),
        }
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_written_value_can_be_read_back() {
        for key in Key::ALL {
            for text in key.values() {
                assert_eq!(key.parse(text).map(Value::as_str), Some(*text), "{}", key.name());
            }
            assert!(key.values().contains(&key.default().as_str()));
            assert_eq!(Key::find(key.name()), Some(key));
        }
    }

    #[test]
    fn variables_are_the_names_in_capitals() {
        for key in Key::ALL {
            assert_eq!(key.variable(), format!("PITON_{}", key.name().replace('.', "_").to_uppercase()));
        }
    }

    #[test]
    fn a_typo_is_recognised_and_nonsense_is_not() {
        assert_eq!(Key::find_similar("validate.strickt"), Some(Key::ValidateStrict));
        assert_eq!(Key::find_similar("signature.required"), Some(Key::SignatureRequire));
        assert_eq!(Key::find_similar("zzz"), None);
    }
}
