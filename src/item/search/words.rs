//! Splits texts into words.
//!
//! `deploy_app`, `deployApp` and `Deploy App!` are the same two words; `Übersicht` and `ubersicht`
//! are the same word. Items and queries use the same [`words`], so they agree.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Longer words are cut: they are not typed in queries, and comparing them costs time.
const MAX_LENGTH: usize = 64;

/// The words of a text, without case and accents.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    each_word(text, |word| words.push(word.to_owned()));
    words
}

/// The same with a callback.
pub(super) fn each_word(text: &str, found: impl FnMut(&str)) {
    let mut splitter = Splitter {
        word: String::new(),
        length: 0,
        found,
    };
    if text.is_ascii() {
        split(text.bytes().map(char::from), &mut splitter);
    } else {
        split(
            text.nfkd().filter(|character| !is_accent(*character)),
            &mut splitter,
        );
    }
    splitter.end();
}

struct Splitter<F> {
    word: String,
    length: usize,
    found: F,
}

impl<F: FnMut(&str)> Splitter<F> {
    fn end(&mut self) {
        if !self.word.is_empty() {
            (self.found)(&self.word);
            self.word.clear();
            self.length = 0;
        }
    }

    fn push(&mut self, character: char) {
        if self.length >= MAX_LENGTH {
            return;
        }
        self.length += 1;
        if character.is_ascii() {
            self.word.push(character.to_ascii_lowercase());
        } else {
            // Via uppercase `ß` and `SS`, `ς` and `Σ` become the same.
            self.word
                .extend(character.to_uppercase().flat_map(char::to_lowercase));
        }
    }
}

fn split<F: FnMut(&str)>(characters: impl Iterator<Item = char>, splitter: &mut Splitter<F>) {
    let mut characters = characters.peekable();
    let mut before = ' ';
    while let Some(character) = characters.next() {
        let is_part =
            character.is_alphanumeric() || !character.is_ascii() && is_combining_mark(character);
        // `HTTPClient` is `http client`: the last of several capitals begins a word.
        let begins = character.is_uppercase()
            && (before.is_lowercase()
                || before.is_numeric()
                || before.is_uppercase()
                    && characters.peek().is_some_and(|next| next.is_lowercase()));
        if begins || !is_part {
            splitter.end();
        }
        if is_part {
            splitter.push(character);
        }
        before = character;
    }
}

/// Whether a mark only decorates the letter before it. In other scripts marks are vowels, which
/// distinguish words.
fn is_accent(character: char) -> bool {
    matches!(character, '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}')
}

/// The length of a word for weighting: a character of a script without letters counts as two.
pub(super) fn span(word: &str) -> usize {
    if word.is_ascii() {
        return word.len();
    }
    let ideograph = |character: char| matches!(character, '\u{2e80}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}');
    word.chars()
        .map(|character| if ideograph(character) { 2 } else { 1 })
        .sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spellings_of_one_name_are_the_same_words() {
        for spelling in [
            "deploy_app",
            "deployApp",
            "Deploy-App",
            "DEPLOY APP",
            "deploy.app",
            "DeployApp!",
            "deploy/app",
        ] {
            assert_eq!(words(spelling), ["deploy", "app"], "{spelling}");
        }
        assert_eq!(words("HTTPClient2Go"), ["http", "client2", "go"]);
        assert_eq!(
            words("S3Bucket v2.1 k8s"),
            ["s3", "bucket", "v2", "1", "k8s"]
        );
        assert_eq!(words(" -- "), Vec::<String>::new());
    }

    #[test]
    fn accents_and_case_do_not_matter() {
        for spelling in ["Größe", "GRÖSSE", "grösse", "Gro\u{308}ße"] {
            assert_eq!(words(spelling), ["grosse"], "{spelling}");
        }
        assert_eq!(
            words("Café ΟΔΟΣ ﬁn Ａ１"),
            ["cafe", "οδος".replace('ς', "σ").as_str(), "fin", "a1"]
        );
        assert_eq!(words("развёртывание"), words("РАЗВЕРТЫВАНИЕ"));
        assert_eq!(words("データ移行"), words("ﾃﾞｰﾀ移行"));
        assert_eq!((span("db"), span("移行"), span("año")), (2, 4, 3));
    }

    proptest! {
        #[test]
        fn words_are_folded_once_and_for_all(text in any::<String>()) {
            let once = words(&text);
            prop_assert!(once.iter().all(|word| !word.is_empty()));
            prop_assert_eq!(words(&once.join(" ")).concat(), once.concat());
        }
    }
}
