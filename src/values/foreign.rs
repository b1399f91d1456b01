//! How other programs write inputs in the text of a manual step: `{name}`, `{inputs.name}`, `${inputs.name}`.
//!
//! [`as_placeholders`] writes them as placeholders of piton, where there is an input with that name and a value.
//! Any other brace stays text. Only manual steps are read so: elsewhere a text may be a program's own.

/// Writes the inputs in a text as `{input:name}`.
pub fn as_placeholders(text: &str, is_given: impl Fn(&str) -> bool) -> String {
    let mut written = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let (before, from) = rest.split_at(open);
        let name = name_in(from);
        let Some((name, length)) = name.filter(|(name, _)| is_given(name)) else {
            written.push_str(before);
            written.push('{');
            rest = from.get(1..).unwrap_or_default();
            continue;
        };
        let inside = from.get(1..length - 1).unwrap_or_default();
        // `$` belongs to `${inputs.name}` only: in `${name}` it is one of a shell.
        let is_long = inside != name;
        let is_doubled = (before.ends_with('{') || before.is_empty() && written.ends_with('{'))
            && from.get(length..).is_some_and(|rest| rest.starts_with('}'));
        // Doubled braces are those of a template in another language.
        if before.ends_with('$') && !is_long || is_doubled {
            written.push_str(before);
            written.push_str(from.get(..length).unwrap_or_default());
        } else {
            written.push_str(if is_long {
                before.strip_suffix('$').unwrap_or(before)
            } else {
                before
            });
            written.push_str("{input:");
            written.push_str(name);
            written.push('}');
        }
        rest = from.get(length..).unwrap_or_default();
    }
    written.push_str(rest);
    written
}

/// The name in `{name}` or `{inputs.name}` at the start of a text, and the length of the whole.
fn name_in(text: &str) -> Option<(&str, usize)> {
    let (inside, _) = text.strip_prefix('{')?.split_once('}')?;
    let name = ["inputs.", "input.", "user_input."]
        .iter()
        .find_map(|prefix| inside.strip_prefix(prefix))
        .unwrap_or(inside);
    let is_name = !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    is_name.then_some((name, inside.len() + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_written_as_placeholders_and_other_braces_stay() {
        let is_given = |name: &str| matches!(name, "file" | "max-size");
        for (text, expected) in [
            ("read {file}.", "read {input:file}."),
            ("read {inputs.file}", "read {input:file}"),
            ("read ${inputs.file}", "read {input:file}"),
            (
                "up to {max-size}{file}",
                "up to {input:max-size}{input:file}",
            ),
            ("{input:file} {file}", "{input:file} {input:file}"),
            (
                "{other} {inputs.other} ${inputs.other}",
                "{other} {inputs.other} ${inputs.other}",
            ),
            (
                "${file} {{file}} {file {file:x}",
                "${file} {{file}} {file {file:x}",
            ),
            ("{\"file\": 1} {} {", "{\"file\": 1} {} {"),
        ] {
            assert_eq!(as_placeholders(text, is_given), expected, "{text}");
        }
    }
}
