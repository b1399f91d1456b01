//! The expressions of `when`: a small boolean language over placeholders.
//!
//! `==` `!=` `<` `>` `<=` `>=` `in` `not in` compare; `and`, `or`, `not` and parentheses combine.
//! Values are placeholders, quoted strings (which may contain placeholders), numbers, `true`,
//! `false`, `null` and lists. [`parse`] parses a step's expression; [`parse_hook`] that of a hook,
//! which may also use bare names for the run. Neither evaluates anything.

use super::template::{Placeholder, Template, placeholder_at};

const MAX_DEPTH: usize = 64;
/// A tree needs far more memory than its text.
const MAX_VALUES: usize = 1000;

#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    Null,
    Bool(bool),
    Number(f64),
    /// May contain placeholders.
    Text(Template),
    /// A placeholder on its own: keeps its JSON type.
    Placeholder(Placeholder),
    /// A bare name, e.g. `error.code`: only in the `when` of hooks.
    Name(Name),
    List(Vec<Expr>),
    Not(Box<Expr>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Compare {
        left: Box<Expr>,
        operator: Operator,
        right: Box<Expr>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// In bytes.
    pub offset: usize,
    /// Its parts: `error.code` has two.
    pub path: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// An element of a list, a key of an object or a part of a text.
    In,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidExpression {
    pub offset: usize,
    pub message: String,
    pub suggestion: Option<String>,
}

/// Parses the expression of a step: a bare name is an error.
pub fn parse(text: &str) -> Result<Expr, InvalidExpression> {
    parse_with(text, NameHandling::Refused)
}

/// Parses the expression of a hook, which may use bare names for the run: `error.code == 'X'`.
pub fn parse_hook(text: &str) -> Result<Expr, InvalidExpression> {
    parse_with(text, NameHandling::Read)
}

fn parse_with(text: &str, names: NameHandling) -> Result<Expr, InvalidExpression> {
    let mut parser = Parser {
        text,
        at: 0,
        depth: 0,
        values: 0,
        names,
    };
    let expression = parser.either()?;
    match parser.peek() {
        None => Ok(expression),
        Some(_) => Err(parser.unexpected("the end, `and` or `or`")),
    }
}

/// The placeholders of an expression; those in quoted strings are offset by the start of the
/// string.
pub fn placeholders(expression: &Expr) -> Vec<&Placeholder> {
    let mut found = Vec::new();
    for value in values(expression) {
        match value {
            Expr::Placeholder(placeholder) => found.push(placeholder),
            Expr::Text(template) => found.extend(template.placeholders()),
            _ => {}
        }
    }
    found.sort_by_key(|placeholder| placeholder.range.start);
    found
}

/// The bare names of an expression, in order.
pub fn names(expression: &Expr) -> Vec<&Name> {
    let mut found: Vec<&Name> = values(expression)
        .into_iter()
        .filter_map(|value| {
            if let Expr::Name(name) = value {
                Some(name)
            } else {
                None
            }
        })
        .collect();
    found.sort_by_key(|name| name.offset);
    found
}

/// The values in an expression, in no particular order.
fn values(expression: &Expr) -> Vec<&Expr> {
    let mut found = Vec::new();
    let mut open = vec![expression];
    while let Some(next) = open.pop() {
        match next {
            Expr::List(list) | Expr::And(list) | Expr::Or(list) => open.extend(list),
            Expr::Not(inner) => open.push(inner),
            Expr::Compare { left, right, .. } => open.extend([&**left, &**right]),
            value => found.push(value),
        }
    }
    found
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NameHandling {
    Refused,
    Read,
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    values: usize,
    names: NameHandling,
}

impl<'t> Parser<'t> {
    fn either(&mut self) -> Result<Expr, InvalidExpression> {
        let mut list = vec![self.all()?];
        while self.take_word("or") {
            list.push(self.all()?);
        }
        Ok(single_or(list, Expr::Or))
    }

    fn all(&mut self) -> Result<Expr, InvalidExpression> {
        let mut list = vec![self.negation()?];
        while self.take_word("and") {
            list.push(self.negation()?);
        }
        Ok(single_or(list, Expr::And))
    }

    fn negation(&mut self) -> Result<Expr, InvalidExpression> {
        if self.take_word("not") {
            self.enter()?;
            let inner = self.negation()?;
            self.depth -= 1;
            return Ok(Expr::Not(Box::new(inner)));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<Expr, InvalidExpression> {
        let left = self.value()?;
        let negated = self.take_word("not");
        let Some(operator) = self.operator(negated)? else {
            return Ok(left);
        };
        let right = self.value()?;
        self.skip_blank();
        let before = self.at;
        if self.operator(false)?.is_some() {
            self.at = before;
            return Err(self.error(
                "comparisons cannot be chained",
                Some("join two comparisons with `and`"),
            ));
        }
        let compared = Expr::Compare {
            left: Box::new(left),
            operator,
            right: Box::new(right),
        };
        Ok(if negated {
            Expr::Not(Box::new(compared))
        } else {
            compared
        })
    }

    fn operator(&mut self, after_not: bool) -> Result<Option<Operator>, InvalidExpression> {
        self.skip_blank();
        if self.take_word("in") {
            return Ok(Some(Operator::In));
        }
        if after_not {
            return Err(self.unexpected("`in` after `not`"));
        }
        let table = [
            ("==", Operator::Equal),
            ("!=", Operator::Unequal),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        for (written, operator) in table {
            if self.take(written) {
                return Ok(Some(operator));
            }
        }
        for (written, instead) in [("&&", "and"), ("||", "or"), ("=", "==")] {
            if self.rest().starts_with(written) {
                let message = format!("`{written}` is not an operator");
                return Err(self.error(&message, Some(&format!("write `{instead}`"))));
            }
        }
        Ok(None)
    }

    fn value(&mut self) -> Result<Expr, InvalidExpression> {
        let Some(first) = self.peek() else {
            return Err(self.unexpected("a value"));
        };
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(self.error(
                &format!("the expression has more than {MAX_VALUES} values"),
                None,
            ));
        }
        match first {
            '(' => {
                self.enter()?;
                self.at += 1;
                let inner = self.either()?;
                self.expect(')')?;
                self.depth -= 1;
                Ok(inner)
            }
            '[' => self.list(),
            '{' => self.placeholder(),
            '"' | '\'' => self.string(first),
            '0'..='9' | '-' | '.' => self.number(),
            '!' => Err(self.error("`!` is not an operator", Some("write `not`"))),
            _ => self.word(),
        }
    }

    fn list(&mut self) -> Result<Expr, InvalidExpression> {
        self.enter()?;
        self.at += 1;
        let mut list = Vec::new();
        while self.peek() != Some(']') {
            list.push(self.value()?);
            self.skip_blank();
            if !self.take(",") {
                break;
            }
        }
        self.expect(']')?;
        self.depth -= 1;
        Ok(Expr::List(list))
    }

    fn placeholder(&mut self) -> Result<Expr, InvalidExpression> {
        match placeholder_at(self.text, self.at) {
            Some(Ok(placeholder)) => {
                self.at = placeholder.range.end;
                Ok(Expr::Placeholder(placeholder))
            }
            Some(Err(message)) => Err(self.error(&message, None)),
            None => Err(self.error(
                "`{` does not begin a placeholder",
                Some("write `{input:name}`, `{step:name.path}`, `{run:id}` or `{env:VAR}`"),
            )),
        }
    }

    fn string(&mut self, quote: char) -> Result<Expr, InvalidExpression> {
        let begin = self.at + 1;
        let Some(length) = self.text.get(begin..).and_then(|rest| rest.find(quote)) else {
            return Err(self.error("the string is never closed", None));
        };
        let inside = self.text.get(begin..begin + length).unwrap_or_default();
        let mut template = Template::parse(inside).map_err(|errors| {
            let first = errors.into_iter().next();
            let (offset, message) =
                first.map_or((0, String::new()), |error| (error.offset, error.message));
            InvalidExpression {
                offset: begin + offset,
                message,
                suggestion: None,
            }
        })?;
        for part in &mut template.parts {
            if let super::template::TemplatePart::Placeholder(placeholder) = part {
                placeholder.range = placeholder.range.start + begin..placeholder.range.end + begin;
            }
        }
        self.at = begin + length + 1;
        Ok(Expr::Text(template))
    }

    fn number(&mut self) -> Result<Expr, InvalidExpression> {
        let rest = self.rest();
        let length = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+')))
            .unwrap_or(rest.len());
        let written = rest.get(..length).unwrap_or_default();
        match written.parse::<f64>() {
            Ok(number) if number.is_finite() => {
                self.at += length;
                Ok(Expr::Number(number))
            }
            _ => Err(self.error(&format!("`{}` is not a number", short(written)), None)),
        }
    }

    fn word(&mut self) -> Result<Expr, InvalidExpression> {
        for (word, value) in [
            ("true", Expr::Bool(true)),
            ("false", Expr::Bool(false)),
            ("null", Expr::Null),
        ] {
            if self.take_word(word) {
                return Ok(value);
            }
        }
        let rest = self.rest();
        let length = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
        let whole = rest.get(..length).unwrap_or_default();
        let written = short(whole);
        if written.is_empty() || matches!(&*written, "and" | "or" | "in") {
            return Err(self.unexpected("a value"));
        }
        let path: Vec<String> = whole.split('.').map(str::to_owned).collect();
        if self.names == NameHandling::Read && path.iter().all(|word| !word.is_empty()) {
            let offset = self.at;
            self.at += length;
            return Ok(Expr::Name(Name { offset, path }));
        }
        let suggestion = format!("quote text: '{written}'; for an input write {{input:{written}}}");
        Err(self.error(&format!("`{written}` is not a value"), Some(&suggestion)))
    }

    fn enter(&mut self) -> Result<(), InvalidExpression> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error(
                &format!("the expression is nested more than {MAX_DEPTH} deep"),
                None,
            ));
        }
        Ok(())
    }

    fn expect(&mut self, closing: char) -> Result<(), InvalidExpression> {
        if self.peek() == Some(closing) {
            self.at += 1;
            return Ok(());
        }
        Err(self.unexpected(&format!("`{closing}`")))
    }

    fn take(&mut self, symbol: &str) -> bool {
        let found = self.rest().starts_with(symbol);
        if found {
            self.at += symbol.len();
        }
        found
    }

    fn take_word(&mut self, word: &str) -> bool {
        self.skip_blank();
        let found = self
            .rest()
            .strip_prefix(word)
            .is_some_and(|rest| !rest.starts_with(is_word));
        if found {
            self.at += word.len();
        }
        found
    }

    fn peek(&mut self) -> Option<char> {
        self.skip_blank();
        self.rest().chars().next()
    }

    fn skip_blank(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn unexpected(&mut self, expected: &str) -> InvalidExpression {
        let message = match self.peek() {
            Some(found) => format!("expected {expected}, found `{}`", found.escape_debug()),
            None => format!("expected {expected}, found the end"),
        };
        self.error(&message, None)
    }

    fn error(&self, message: &str, suggestion: Option<&str>) -> InvalidExpression {
        InvalidExpression {
            offset: self.at,
            message: message.to_owned(),
            suggestion: suggestion.map(str::to_owned),
        }
    }
}

fn single_or(mut operands: Vec<Expr>, combine: fn(Vec<Expr>) -> Expr) -> Expr {
    match operands.pop() {
        Some(only) if operands.is_empty() => only,
        popped => {
            operands.extend(popped);
            combine(operands)
        }
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '-' | '.')
}

fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests;
