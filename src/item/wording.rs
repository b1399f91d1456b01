//! Text in messages: suggestions, and text from files made safe to show.

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
        .map(|candidate| (strsim::damerau_levenshtein(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= tolerance(&word).min(tolerance(candidate)))
        // Words without a common letter are not similar, however short.
        .filter(|(distance, candidate)| *distance < word.chars().count().max(candidate.chars().count()))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

pub fn did_you_mean(meant: Option<&str>, otherwise: &str) -> String {
    meant.map_or_else(|| otherwise.to_owned(), |meant| format!("did you mean `{meant}`?"))
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
    }
}
