//! Splits a command line into words, without a shell.

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum WordError {
    #[error("a quote is never closed")]
    Unclosed,
    #[error("the text ends with a backslash")]
    TrailingBackslash,
}

/// Splits at white space; quotes and backslashes work as in a shell, and nothing is expanded.
pub(super) fn split_words(line: &str) -> Result<Vec<String>, WordError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next().ok_or(WordError::Unclosed)? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next().ok_or(WordError::Unclosed)? {
                        '"' => break,
                        '\\' => match characters.next().ok_or(WordError::Unclosed)? {
                            c @ ('"' | '\\' | '$' | '`') => word.push(c),
                            c => word.extend(['\\', c]),
                        },
                        c => word.push(c),
                    }
                }
            }
            '\\' => {
                let protected = characters.next().ok_or(WordError::TrailingBackslash)?;
                word.get_or_insert_default().push(protected);
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_protect_and_nothing_is_expanded() {
        let words = |line: &str| split_words(line);
        assert_eq!(
            words("npx -y @package/server"),
            Ok(vec!["npx".into(), "-y".into(), "@package/server".into()])
        );
        assert_eq!(
            words(r#"a 'b c' "d \"e\" \f" g\ h"#),
            Ok(vec![
                "a".into(),
                "b c".into(),
                r#"d "e" \f"#.into(),
                "g h".into()
            ])
        );
        assert_eq!(
            words("$(rm) ; `x` ''"),
            Ok(vec![
                "$(rm)".into(),
                ";".into(),
                "`x`".into(),
                String::new()
            ])
        );
        assert_eq!(words("  \n "), Ok(vec![]));
    }

    #[test]
    fn an_unfinished_line_is_refused() {
        assert_eq!(split_words("a 'b"), Err(WordError::Unclosed));
        assert_eq!(split_words("a \"b\\"), Err(WordError::Unclosed));
        assert_eq!(split_words("a\\"), Err(WordError::TrailingBackslash));
    }
}
