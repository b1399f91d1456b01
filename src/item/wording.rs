//! Text in messages: suggestions, and text from elsewhere made safe to show.

use std::borrow::Cow;

/// Longer words are not typos, and comparing them costs time.
const MAX_WORD: usize = 64;
/// The most characters of a quoted text.
const MAX_SHOWN: usize = 60;

/// The known word nearest to `word`, if it is near enough.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if word.len() > MAX_WORD {
        return None;
    }
    let word = word.to_lowercase();
    known
        .into_iter()
        .filter(|candidate| candidate.len() <= MAX_WORD)
        .map(|candidate| {
            (
                strsim::damerau_levenshtein(&word, &candidate.to_lowercase()),
                candidate,
            )
        })
        .filter(|(distance, candidate)| *distance <= tolerance(&word).min(tolerance(candidate)))
        // Words without a common letter are not similar, however short.
        .filter(|(distance, candidate)| {
            *distance < word.chars().count().max(candidate.chars().count())
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

pub fn did_you_mean(meant: Option<&str>, otherwise: &str) -> String {
    meant.map_or_else(
        || otherwise.to_owned(),
        |meant| format!("did you mean `{meant}`?"),
    )
}

/// The name in lower case with its words separated: `GitLog` and `git.log` become `git_log`.
pub fn separated(name: &str, separator: char) -> String {
    let mut written = String::with_capacity(name.len());
    let mut before = '/';
    for character in name.chars() {
        if character.is_uppercase() && (before.is_lowercase() || before.is_ascii_digit()) {
            written.push(separator);
        }
        written.extend(match character {
            '_' | '-' | '.' | ' ' => separator.to_lowercase(),
            other => other.to_lowercase(),
        });
        before = character;
    }
    written
}

/// How many typos a word of this length may have.
fn tolerance(word: &str) -> usize {
    (word.chars().count() / 3).clamp(1, 4)
}

/// Text from a file for a message: shortened, with invisible characters escaped.
pub fn shown(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars().take(MAX_SHOWN) {
        if character.is_ascii_graphic() || character == ' ' || character.is_alphanumeric() {
            shown.push(character);
        } else {
            shown.extend(character.escape_debug());
        }
    }
    if text.chars().nth(MAX_SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

/// Text of several lines for a person: control, direction and invisible characters are escaped.
pub fn clean(text: &str) -> Cow<'_, str> {
    let harmful = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    if !text.contains(harmful) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if harmful(character) {
            cleaned.extend(character.escape_unicode());
        } else {
            cleaned.push(character);
        }
    }
    Cow::Owned(cleaned)
}

/// The first line of a text, shortened; control characters become spaces.
pub fn first_line(text: &str, longest: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    let mut shown: String = line
        .chars()
        .take(longest)
        .map(|character| {
            if character.is_control() {
                ' '
            } else {
                character
            }
        })
        .collect();
    if line.len() < text.trim_end().len() || line.chars().nth(longest).is_some() {
        shown.push('…');
    }
    shown
}

/// All lines of a text in one line, shortened and without control characters.
pub fn one_line(text: &str, longest: usize) -> String {
    let mut line = String::new();
    let parts = text.split(char::is_control).map(str::trim);
    for part in parts.filter(|part| !part.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(part);
        if let Some((end, _)) = line.char_indices().nth(longest) {
            line.truncate(end);
            line.push('…');
            break;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelling_is_recognised_and_a_different_word_is_not() {
        let known = ["mutates_state", "executor", "tags"];
        assert_eq!(nearest("mutate_state", known), Some("mutates_state"));
        assert_eq!(nearest("EXECUTOR", known), Some("executor"));
        assert_eq!(nearest("exectuor", known), Some("executor"));
        assert_eq!(nearest("tasg", known), Some("tags"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("installation", ["isolation"]), None);
        assert_eq!(nearest(&"x".repeat(100_000), known), None);
    }

    #[test]
    fn names_are_brought_into_a_convention() {
        assert_eq!(separated("GitLog", '_'), "git_log");
        assert_eq!(separated("HTTPClient2Go", '_'), "httpclient2_go");
        assert_eq!(separated("net/My-Tool.v2", '_'), "net/my_tool_v2");
        assert_eq!(separated("my_tool", '-'), "my-tool");
    }

    #[test]
    fn invisible_characters_are_shown() {
        assert_eq!(shown("größe ✓"), "größe ✓");
        assert_eq!(shown("a\u{202e}b\n\0"), "a\\u{202e}b\\n\\0");
        assert_eq!(shown(&"x".repeat(61)), format!("{}…", "x".repeat(60)));
        assert_eq!(clean("a\n\u{202e}b\u{7}"), "a\n\\u{202e}b\\u{7}");
    }

    #[test]
    fn a_text_is_shortened_to_a_line() {
        assert_eq!(first_line("a\tb  c\nd", 9), "a b  c…");
        assert_eq!(first_line("abc\n", 3), "abc");
        assert_eq!(first_line("abcd", 3), "abc…");
        assert_eq!(one_line(" a\tb  c\nd\u{7} e", 10), "a b  c d e");
        assert_eq!(one_line("größer als", 4), "größ…");
        assert_eq!(one_line("\n", 4), "");
    }
}
