//! The versions of items: `MAJOR.MINOR.PATCH`, as text.
//!
//! Tools and knowledge write them in YAML, where a version without quotes may be a number: `1.10`
//! would be `1.1`. [`check`] checks a field, [`completed`] suggests the version that was probably
//! meant.

use semver::Version;

use super::finding::{Finding, Findings};
use super::node::{Data, Node};
use super::wording::shown;
use crate::problem::Code;

/// Reads a version and reports problems; returns the text and the finding.
pub fn check<'f>(
    value: &Node,
    path: &str,
    findings: &'f mut Findings,
) -> (String, Option<&'f mut Finding>) {
    let (written, message) = match &value.data {
        Data::Text(text) => match Version::parse(text) {
            Ok(_) => return (text.clone(), None),
            Err(err) => (
                text.clone(),
                format!("version `{}` is not MAJOR.MINOR.PATCH: {err}", shown(text)),
            ),
        },
        Data::Int(_) | Data::Float(..) => {
            let written = value.scalar().unwrap_or_default();
            let message = format!(
                "version `{}` is a number; a version is a string",
                shown(&written)
            );
            (written, message)
        }
        _ => {
            let message = format!("version must be a string, found {}", value.type_name());
            let finding = findings
                .add(Code::InvalidType, value.place, path, message)
                .suggest("write \"1.0.0\"");
            return (String::new(), Some(finding));
        }
    };
    let suggestion = format!("write \"{}\"", completed(&written));
    (
        written,
        Some(
            findings
                .add(Code::InvalidSemver, value.place, path, message)
                .suggest(suggestion),
        ),
    )
}

/// The full form of an abbreviated or prefixed version: `v1.10` is `1.10.0`.
pub fn completed(written: &str) -> String {
    let bare = written.trim().trim_start_matches(['v', 'V']);
    let missing = 2_usize.saturating_sub(bare.matches('.').count());
    if let Ok(version) = Version::parse(&format!("{bare}{}", ".0".repeat(missing))) {
        return version.to_string();
    }
    let mut numbers = bare
        .split('.')
        .map(|number| number.trim().parse::<u64>().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    match (next(), next(), next()) {
        (0, 0, 0) => "1.0.0".to_owned(),
        (major, minor, patch) => format!("{major}.{minor}.{patch}"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::item::finding::{Severity, Strength};
    use crate::item::position::Position;
    use crate::item::yaml;

    fn complaint(yaml: &str) -> Option<(Code, Severity, String, Option<String>)> {
        let mut findings = Findings::new(Path::new("x.yaml"), Strength::Lenient);
        let node = yaml::parse(yaml, Position::START, &mut findings).unwrap();
        let (_, finding) = check(&node, "version", &mut findings);
        finding.map(|it| {
            (
                it.code,
                it.severity,
                it.message.clone(),
                it.suggestion.clone().map(String::from),
            )
        })
    }

    #[test]
    fn a_version_written_as_a_number_is_an_error_with_the_text_that_was_meant() {
        for (written, meant) in [("1.10", "1.10.0"), ("2", "2.0.0"), ("0.1", "0.1.0")] {
            let message = format!("version `{written}` is a number; a version is a string");
            let suggestion = Some(format!("write \"{meant}\""));
            assert_eq!(
                complaint(written),
                Some((Code::InvalidSemver, Severity::Error, message, suggestion))
            );
        }
    }

    #[test]
    fn whole_versions_are_fine() {
        for good in ["1.0.0", "'1.0.0-beta.1+build'", "0.0.1"] {
            assert_eq!(complaint(good), None, "{good}");
        }
    }

    #[test]
    fn what_was_meant_is_completed() {
        for (written, meant) in [
            ("v1", "1.0.0"),
            ("1.2", "1.2.0"),
            ("01.2.3", "1.2.3"),
            ("1.0-beta", "1.0.0"),
            ("latest", "1.0.0"),
            ("0", "0.0.0"),
            ("1.2.3.4", "1.2.3"),
            ("", "1.0.0"),
        ] {
            assert_eq!(completed(written), meant, "{written}");
        }
    }
}
