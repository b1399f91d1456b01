//! The globs of permissions.

use globset::GlobBuilder;

use super::reading::DirectiveReading;
use super::xml::XmlText;
use crate::item::endpoint::Endpoint;
use crate::item::wording::shown;
use crate::problem::Code;

/// Checks a path glob: inside the project, and a valid glob.
pub(super) fn check_path(text: &XmlText, path: &str, reading: &mut DirectiveReading<'_>) -> bool {
    let offset = text.offset_at(0);
    let written = &*text.value;
    if written.chars().any(char::is_control) {
        let message = format!(
            "`{}` contains characters that are not allowed in a path",
            shown(written)
        );
        reading
            .report(Code::InvalidPath, offset, path, message)
            .suggest("remove the control characters");
        return false;
    }
    let drive = written.as_bytes().get(1) == Some(&b':');
    if written.starts_with(['/', '~', '\\'])
        || drive
        || written.split(['/', '\\']).any(|part| part == "..")
    {
        let message = format!("`{}` leaves the project", shown(written));
        reading
            .report(Code::PathEscape, offset, path, message)
            .suggest("write a path relative to the project, e.g. `docs/**`");
        return false;
    }
    check_glob(text, path, reading)
}

/// Warns about a grant for git's own folder, which can never be granted.
pub(super) fn check_effect(text: &XmlText, path: &str, reading: &mut DirectiveReading<'_>) {
    let first = text
        .value
        .trim_start_matches("./")
        .split('/')
        .next()
        .unwrap_or_default();
    if first.eq_ignore_ascii_case(".git") {
        let message = format!(
            "`{}` has no effect: `.git` is never grantable",
            shown(&text.value)
        );
        reading
            .report(Code::GrantWithoutEffect, text.offset_at(0), path, message)
            .suggest("remove it; checkpoints need no permission");
    }
}

/// Checks an endpoint: an optional method, and a path or address.
pub(super) fn check_endpoint(
    text: &XmlText,
    path: &str,
    reading: &mut DirectiveReading<'_>,
) -> bool {
    let parsed = Endpoint::parse(&text.value);
    if let Err(reason) = &parsed {
        let message = format!("the endpoint `{}` {reason}", shown(&text.value));
        reading
            .report(Code::InvalidPattern, text.offset_at(0), path, message)
            .suggest(
                "write `GET /users/*`, or a whole address: `GET https://api.example.com/users/*`",
            );
    }
    parsed.is_ok()
}

pub(super) fn check_glob(text: &XmlText, path: &str, reading: &mut DirectiveReading<'_>) -> bool {
    let built = GlobBuilder::new(&text.value)
        .literal_separator(true)
        .build();
    if let Err(err) = &built {
        let message = format!("`{}` is not a pattern: {}", shown(&text.value), err.kind());
        reading
            .report(Code::InvalidPattern, text.offset_at(0), path, message)
            .suggest("use `*`, `**`, `?`, `[…]` and `{a,b}`; escape others with `\\`");
    }
    built.is_ok()
}
