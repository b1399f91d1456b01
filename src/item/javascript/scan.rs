//! A linear scanner of JavaScript tokens.
//!
//! It only separates code from strings, comments, template text and regular expressions. The
//! previous token decides whether a slash divides or begins a regular expression, which is right
//! for all but contrived code; the compiler decides about syntax.

use crate::item::position::{LineIndex, Position};

use super::{MAX_DEPTH, MAX_LOOKAHEAD};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Word,
    /// One punctuation character; `=>` and `?.` are one token named by their first character.
    Mark(u8),
    Arrow,
    OptionalDot,
    Number,
    Text,
    Regex,
}

/// At most 4 GiB of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScriptToken {
    pub(super) kind: TokenKind,
    pub(super) start: u32,
    pub(super) end: u32,
}

impl ScriptToken {
    pub(super) fn text<'t>(&self, text: &'t str) -> &'t str {
        text.get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }
}

/// What is known about a text without compiling it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) too_deep: Option<Position>,
    /// The estimated cost of compiling the regular expressions.
    pub(super) regex_cost: usize,
    /// Whether the engine would read too much text repeatedly.
    pub(super) too_much_lookahead: bool,
    pub(super) balanced: bool,
    /// Whether `import` or `export` begins a statement.
    pub(super) module_syntax: bool,
}

pub(super) fn shape(text: &str) -> Shape {
    let mut shape = Shape {
        too_deep: None,
        regex_cost: 0,
        too_much_lookahead: false,
        balanced: true,
        module_syntax: false,
    };
    let mut ahead = 0_usize;
    // The position of each open bracket, if the engine reads ahead from it.
    let mut open: Vec<Option<u32>> = Vec::new();
    let index = LineIndex::new(text);
    let mut before = None;
    for token in JavaScriptScanner::new(text) {
        match token.kind {
            TokenKind::Mark(b'(' | b'[' | b'{') => {
                open.push(is_looked_over(token.kind, before).then_some(token.start));
                if open.len() > MAX_DEPTH && shape.too_deep.is_none() {
                    shape.too_deep = Some(index.place(token.start as usize));
                }
            }
            TokenKind::Mark(b')' | b']' | b'}') => match open.pop() {
                Some(Some(start)) => ahead += (token.end - start) as usize,
                Some(None) => {}
                None => shape.balanced = false,
            },
            TokenKind::Regex => {
                shape.regex_cost += regex_cost(token.text(text));
            }
            TokenKind::Word
                if open.is_empty()
                    && !matches!(before, Some(TokenKind::Mark(b'.') | TokenKind::OptionalDot)) =>
            {
                shape.module_syntax |= matches!(token.text(text), "import" | "export");
            }
            _ => {}
        }
        before = Some(token.kind);
    }
    shape.balanced &= open.is_empty();
    let unclosed = open
        .into_iter()
        .flatten()
        .map(|start| text.len().saturating_sub(start as usize));
    shape.too_much_lookahead = ahead + unclosed.sum::<usize>() > MAX_LOOKAHEAD;
    shape
}

/// The cost of compiling a regular expression: its length, and much more for each character
/// property, which stands for thousands of characters, above all with ignored case or sets.
fn regex_cost(regex: &str) -> usize {
    let flags = regex.rsplit('/').next().unwrap_or_default();
    let properties = regex.matches("\\p").count() + regex.matches("\\P").count();
    regex.len()
        + properties
            * if flags.contains(['i', 'v']) {
                4096
            } else {
                1024
            }
}

/// Whether a bracket may be a parameter list or pattern, for which the engine reads ahead to its
/// end.
fn is_looked_over(bracket: TokenKind, before: Option<TokenKind>) -> bool {
    match bracket {
        TokenKind::Mark(b'{') => matches!(
            before,
            Some(TokenKind::Mark(b'=' | b'(' | b'[' | b',' | b':' | b'?'))
        ),
        _ => !matches!(
            before,
            Some(TokenKind::Word | TokenKind::Text | TokenKind::Mark(b')' | b']'))
        ),
    }
}

pub(super) struct JavaScriptScanner<'t> {
    text: &'t str,
    at: usize,
    /// The open brackets, and `` ` `` for a template with an open `${`.
    open: Vec<OpenBracket>,
    before: Before,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenBracket {
    /// `head` is set after `if`, `while`, `for` and `with`: an expression begins after it.
    Bracket { head: bool },
    /// `${` in a template.
    Template,
}

/// How the previous token determines the meaning of a slash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// A value ended: a slash divides.
    Value,
    /// An expression is expected: a slash begins a regular expression.
    Operator,
    /// As `Operator`, and a parenthesis holds the head of a statement.
    Head,
    /// A dot: the next word is a property name.
    Dot,
}

impl<'t> JavaScriptScanner<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let at = if text.starts_with("#!") {
            text.find('\n').unwrap_or(text.len())
        } else {
            0
        };
        Self {
            text,
            at,
            open: Vec::new(),
            before: Before::Operator,
        }
    }

    fn byte(&self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or(0)
    }

    fn skip_blank_and_comments(&mut self) {
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let blank = rest.len()
                - rest
                    .trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}')
                    .len();
            self.at += blank;
            let rest = self.text.get(self.at..).unwrap_or_default();
            if rest.starts_with("//") {
                self.at += rest
                    .find(['\n', '\u{2028}', '\u{2029}'])
                    .unwrap_or(rest.len());
            } else if let Some(comment) = rest.strip_prefix("/*") {
                self.at += 2 + comment.find("*/").map_or(comment.len(), |end| end + 2);
            } else {
                return;
            }
        }
    }

    /// The end of a quoted string, at most the end of its line.
    fn quoted(&self, quote: u8) -> usize {
        let mut at = self.at + 1;
        loop {
            match self.byte(at) {
                b'\\' => at += 2,
                b'\n' => return at,
                byte if byte == quote => return at + 1,
                _ if at >= self.text.len() => return self.text.len(),
                _ => at += 1,
            }
        }
    }

    /// The end of template text: after its closing quote or its next `${`.
    fn template(&mut self, mut at: usize) -> usize {
        loop {
            match self.byte(at) {
                b'\\' => at += 2,
                b'`' => {
                    self.before = Before::Value;
                    return at + 1;
                }
                b'$' if self.byte(at + 1) == b'{' => {
                    self.open.push(OpenBracket::Template);
                    self.before = Before::Operator;
                    return at + 2;
                }
                _ if at >= self.text.len() => return self.text.len(),
                _ => at += 1,
            }
        }
    }

    /// The end of a regular expression with its flags; `None` when none ends on this line.
    fn regex(&self) -> Option<usize> {
        let (mut at, mut class) = (self.at + 1, false);
        loop {
            match self.byte(at) {
                b'\\' => at += 1,
                b'[' => class = true,
                b']' => class = false,
                b'/' if !class => break,
                b'\n' => return None,
                _ if at >= self.text.len() => return None,
                _ => {}
            }
            at += 1;
        }
        at += 1;
        while self.byte(at).is_ascii_alphanumeric() {
            at += 1;
        }
        Some(at)
    }

    fn word(&self) -> usize {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let length =
            rest.find(|c: char| !(c.is_alphanumeric() || "_$\\\u{200c}\u{200d}".contains(c)));
        self.at + length.unwrap_or(rest.len())
    }

    fn mark(&mut self, byte: u8) -> (TokenKind, usize) {
        let next = self.byte(self.at + 1);
        match byte {
            b'(' | b'[' | b'{' => {
                self.open.push(OpenBracket::Bracket {
                    head: byte == b'(' && self.before == Before::Head,
                });
                self.before = Before::Operator;
            }
            b')' | b']' | b'}' => {
                let opened = self.open.pop();
                if byte == b'}' && opened == Some(OpenBracket::Template) {
                    let end = self.template(self.at + 1);
                    return (TokenKind::Text, end);
                }
                let head = matches!(opened, Some(OpenBracket::Bracket { head: true }));
                self.before = if byte == b'}' || head {
                    Before::Operator
                } else {
                    Before::Value
                };
            }
            b'=' if next == b'>' => {
                self.before = Before::Operator;
                return (TokenKind::Arrow, self.at + 2);
            }
            b'?' if next == b'.' && !self.byte(self.at + 2).is_ascii_digit() => {
                self.before = Before::Dot;
                return (TokenKind::OptionalDot, self.at + 2);
            }
            b'.' if next == b'.' && self.byte(self.at + 2) == b'.' => {
                self.before = Before::Operator;
                return (TokenKind::Mark(b','), self.at + 3);
            }
            b'.' => self.before = Before::Dot,
            // `i++ / 2` divides, `a + +/x/` does not.
            b'+' | b'-' if next == byte && self.before == Before::Value => {
                return (TokenKind::Mark(byte), self.at + 2);
            }
            _ => self.before = Before::Operator,
        }
        (TokenKind::Mark(byte), self.at + 1)
    }
}

impl Iterator for JavaScriptScanner<'_> {
    type Item = ScriptToken;

    fn next(&mut self) -> Option<ScriptToken> {
        self.skip_blank_and_comments();
        let start = self.at;
        let first = self.text.get(start..)?.chars().next()?;
        let (kind, end) = match first {
            '"' | '\'' => {
                self.before = Before::Value;
                (TokenKind::Text, self.quoted(self.byte(start)))
            }
            '`' => (TokenKind::Text, self.template(start + 1)),
            '/' if self.before != Before::Value => match self.regex() {
                Some(end) => {
                    self.before = Before::Value;
                    (TokenKind::Regex, end)
                }
                None => self.mark(b'/'),
            },
            c if c.is_ascii_digit() => {
                self.before = Before::Value;
                (TokenKind::Number, self.word())
            }
            c if c.is_alphabetic() || "_$\\".contains(c) => {
                let end = self.word();
                self.before =
                    after_word(self.text.get(start..end).unwrap_or_default(), self.before);
                (TokenKind::Word, end)
            }
            c if c.is_ascii() => self.mark(self.byte(start)),
            c => (TokenKind::Mark(b'?'), start + c.len_utf8()),
        };
        // A backslash may have skipped the end, or ended inside a character.
        self.at = end.max(start + 1).min(self.text.len());
        while !self.text.is_char_boundary(self.at) {
            self.at += 1;
        }
        Some(ScriptToken {
            kind,
            start: u32::try_from(start).ok()?,
            end: u32::try_from(self.at).ok()?,
        })
    }
}

fn after_word(word: &str, before: Before) -> Before {
    const OPERATORS: [&str; 16] = [
        "await",
        "case",
        "delete",
        "do",
        "else",
        "in",
        "instanceof",
        "new",
        "of",
        "return",
        "throw",
        "typeof",
        "void",
        "yield",
        "default",
        "export",
    ];
    if before == Before::Dot {
        Before::Value
    } else if matches!(word, "if" | "while" | "for" | "with") {
        Before::Head
    } else if OPERATORS.contains(&word) {
        Before::Operator
    } else {
        Before::Value
    }
}
