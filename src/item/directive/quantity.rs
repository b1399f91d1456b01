//! Values in attributes: booleans, numbers, durations, choices.

use super::reading::DirectiveReading;
use super::xml::XmlText;
use super::{CheckpointMode, OnFailure};
use crate::item::wording::{did_you_mean, nearest, shown};
use crate::problem::Code;

/// A year; longer times are mistakes.
const MAX_SECONDS: f64 = 31_536_000.0;

pub(super) fn boolean(
    reading: &mut DirectiveReading<'_>,
    text: &XmlText,
    path: &str,
) -> Option<bool> {
    match text.value.trim() {
        "true" => Some(true),
        "false" => Some(false),
        other => {
            let message = format!("`{}` is neither true nor false", shown(other));
            reading
                .report(Code::InvalidType, text.offset_at(0), path, message)
                .suggest("write `true` or `false`");
            None
        }
    }
}

/// A finite, non-negative number.
pub(super) fn amount(
    reading: &mut DirectiveReading<'_>,
    text: &XmlText,
    path: &str,
) -> Option<f64> {
    let written = text.value.trim();
    match written.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Some(value),
        _ => {
            let message = format!("`{}` is not a number of zero or more", shown(written));
            reading
                .report(Code::InvalidType, text.offset_at(0), path, message)
                .suggest("write digits only, e.g. `50000`");
            None
        }
    }
}

/// Seconds, or a number with `ms`, `s`, `m` or `h`.
pub(super) fn seconds(
    reading: &mut DirectiveReading<'_>,
    text: &XmlText,
    path: &str,
) -> Option<f64> {
    let written = text.value.trim();
    let value = parse_seconds(written);
    if value.is_none() {
        let message = format!("`{}` is not a time", shown(written));
        reading
            .report(Code::InvalidType, text.offset_at(0), path, message)
            .suggest("write seconds, or a number with `ms`, `s`, `m` or `h`, at most a year");
    }
    value
}

pub(super) fn parse_seconds(written: &str) -> Option<f64> {
    let split = written
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(written.len());
    let number: f64 = written.get(..split)?.parse().ok()?;
    let unit = match written.get(split..)?.trim() {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Some(number * unit)
        .filter(|seconds| seconds.is_finite() && *seconds > 0.0 && *seconds <= MAX_SECONDS)
}

pub(super) fn choice<T: Copy>(
    reading: &mut DirectiveReading<'_>,
    text: &XmlText,
    path: &str,
    choices: &[(&'static str, T)],
) -> Option<T> {
    let written = text.value.trim();
    if let Some((_, value)) = choices.iter().find(|(name, _)| *name == written) {
        return Some(*value);
    }
    let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
    let suggestion = did_you_mean(
        nearest(written, names.iter().copied()),
        &format!("allowed are: {}", names.join(", ")),
    );
    let message = format!("`{}` is not one of: {}", shown(written), names.join(", "));
    reading
        .report(Code::InvalidEnumValue, text.offset_at(0), path, message)
        .suggest(suggestion);
    None
}

pub(super) const ON_FAILURE: [(&str, OnFailure); 4] = [
    ("rollback", OnFailure::Rollback),
    ("keep", OnFailure::Keep),
    ("continue", OnFailure::Continue),
    ("abort", OnFailure::Abort),
];

/// The values that a directive may set for all of its steps.
pub(super) const ON_FAILURE_OF_ANY: [(&str, OnFailure); 5] = [
    ("rollback", OnFailure::Rollback),
    ("keep", OnFailure::Keep),
    ("continue", OnFailure::Continue),
    ("abort", OnFailure::Abort),
    ("rollback_run", OnFailure::RollbackRun),
];

pub(super) const CHECKPOINT_MODE: [(&str, CheckpointMode); 3] = [
    (CheckpointMode::Auto.as_str(), CheckpointMode::Auto),
    (CheckpointMode::Explicit.as_str(), CheckpointMode::Explicit),
    (CheckpointMode::Disabled.as_str(), CheckpointMode::Disabled),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_or_have_a_unit() {
        for (written, seconds) in [
            ("90", Some(90.0)),
            ("1.5", Some(1.5)),
            ("5m", Some(300.0)),
            ("2 h", Some(7200.0)),
            ("250ms", Some(0.25)),
            ("0", None),
            ("-1", None),
            ("", None),
            ("soon", None),
            ("1e9", None),
            ("99999h", None),
            ("1.2.3", None),
        ] {
            assert_eq!(parse_seconds(written), seconds, "{written}");
        }
    }
}
