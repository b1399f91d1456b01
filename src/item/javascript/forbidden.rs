//! Uses of APIs that a sandboxed function does not have.
//!
//! Functions are self-contained: no modules, files, network or process. The engine that runs them
//! has none of these; this check reports it before the first run.

use std::collections::BTreeSet;

use crate::item::position::LineIndex;

use super::scan::{JavaScriptScanner, ScriptToken, TokenKind};

/// Objects whose members are all forbidden.
const OBJECTS: [&str; 5] = ["process", "fs", "child_process", "Deno", "Bun"];
const FUNCTIONS: [&str; 2] = ["require", "fetch"];
/// Names of the global object.
const GLOBALS: [&str; 4] = ["globalThis", "window", "self", "global"];

/// More would not help the user.
const MAX_USES: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForbiddenUse {
    pub line: u32,
    /// In characters, starting at 1.
    pub column: u32,
    /// For example `require`.
    pub name: &'static str,
}

/// Finds uses of modules, files, network and process outside of strings and comments.
///
/// A member of another object (`api.fetch()`) or a name declared in the text is not a use.
pub fn forbidden(text: &str) -> Vec<ForbiddenUse> {
    let tokens: Vec<ScriptToken> = JavaScriptScanner::new(text).collect();
    let mut uses: Vec<(usize, &'static str)> = (0..tokens.len())
        .filter_map(|at| Some((at, named(text, &tokens, at)?)))
        .collect();
    if uses.is_empty() {
        return Vec::new();
    }
    let closing = closings(&tokens);
    let own = declared(text, &tokens, &closing);
    uses.retain(|(at, name)| !own.contains(name) && !is_method(&tokens, &closing, *at));
    uses.truncate(MAX_USES);
    let index = LineIndex::new(text);
    let place = |at: usize| index.place(tokens.get(at).map_or(0, |token| token.start as usize));
    uses.into_iter()
        .map(|(at, name)| ForbiddenUse {
            line: place(at).line,
            column: place(at).column,
            name,
        })
        .collect()
}

fn named(text: &str, tokens: &[ScriptToken], at: usize) -> Option<&'static str> {
    let token = tokens
        .get(at)
        .filter(|token| token.kind == TokenKind::Word)?;
    let word = token.text(text);
    let next = tokens.get(at + 1).map(|token| token.kind);
    let known = |names: &[&'static str]| names.iter().copied().find(|name| *name == word);
    let name = if let Some(name) = known(&OBJECTS) {
        matches!(
            next,
            Some(TokenKind::Mark(b'.' | b'[') | TokenKind::OptionalDot)
        )
        .then_some(name)?
    } else if let Some(name) = known(&FUNCTIONS) {
        matches!(next, Some(TokenKind::Mark(b'(') | TokenKind::OptionalDot)).then_some(name)?
    } else if word == "XMLHttpRequest" {
        (next != Some(TokenKind::Mark(b':'))).then_some("XMLHttpRequest")?
    } else if word == "import" {
        matches!(
            next,
            Some(TokenKind::Mark(b'(' | b'{' | b'*') | TokenKind::Text | TokenKind::Word)
        )
        .then_some("import")?
    } else {
        return None;
    };
    is_global(text, tokens, at).then_some(name)
}

/// Whether a name is global or a member of the global object.
fn is_global(text: &str, tokens: &[ScriptToken], at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).and_then(|at| tokens.get(at));
    match before(1).map(|token| token.kind) {
        Some(TokenKind::Mark(b'.') | TokenKind::OptionalDot) => {
            before(2).is_some_and(|token| GLOBALS.contains(&token.text(text)))
                && !before(3).is_some_and(|token| {
                    matches!(token.kind, TokenKind::Mark(b'.') | TokenKind::OptionalDot)
                })
        }
        _ => true,
    }
}

/// Whether `name(…)` is followed by a body: a method definition, not a call.
fn is_method(tokens: &[ScriptToken], closing: &[u32], at: usize) -> bool {
    tokens
        .get(at + 1)
        .is_some_and(|token| token.kind == TokenKind::Mark(b'('))
        && body_follows(tokens, closing, at + 1) == Some(TokenKind::Mark(b'{'))
}

/// The kind of the token after the bracket that closes the one at `open`.
fn body_follows(tokens: &[ScriptToken], closing: &[u32], open: usize) -> Option<TokenKind> {
    let close = closing.get(open).copied().filter(|close| *close > 0)?;
    tokens.get(close as usize + 1).map(|token| token.kind)
}

/// For each opening bracket, the index of the one that closes it; otherwise 0.
fn closings(tokens: &[ScriptToken]) -> Vec<u32> {
    let mut closing = vec![0; tokens.len()];
    let mut open = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            TokenKind::Mark(b'(' | b'[' | b'{') => open.push(at),
            TokenKind::Mark(b')' | b']' | b'}') => {
                if let Some(slot) = open.pop().and_then(|at| closing.get_mut(at)) {
                    *slot = u32::try_from(at).unwrap_or(0);
                }
            }
            _ => {}
        }
    }
    closing
}

/// The names that the text declares: variables, functions, parameters.
fn declared<'t>(text: &'t str, tokens: &[ScriptToken], closing: &[u32]) -> BTreeSet<&'t str> {
    let mut names = BTreeSet::new();
    for (at, token) in tokens.iter().enumerate() {
        let word = token.text(text);
        let next = tokens.get(at + 1);
        match token.kind {
            TokenKind::Word if matches!(word, "const" | "let" | "var" | "function" | "class") => {
                names.extend(
                    next.filter(|next| next.kind == TokenKind::Word)
                        .map(|next| next.text(text)),
                );
            }
            TokenKind::Word if next.is_some_and(|next| next.kind == TokenKind::Arrow) => {
                names.insert(word);
            }
            TokenKind::Mark(b'(') if has_parameters(text, tokens, closing, at) => {
                names.extend(parameters(text, tokens, closing, at));
            }
            _ => {}
        }
    }
    names
}

fn has_parameters(text: &str, tokens: &[ScriptToken], closing: &[u32], open: usize) -> bool {
    let before = open
        .checked_sub(1)
        .and_then(|at| tokens.get(at))
        .map_or("", |token| token.text(text));
    match body_follows(tokens, closing, open) {
        Some(TokenKind::Arrow) => true,
        Some(TokenKind::Mark(b'{')) => {
            !matches!(before, "if" | "while" | "for" | "with" | "switch")
        }
        _ => false,
    }
}

/// The plain names of a parameter list. Nested brackets are skipped, so that all lists together
/// take linear time.
fn parameters<'t>(
    text: &'t str,
    tokens: &[ScriptToken],
    closing: &[u32],
    open: usize,
) -> Vec<&'t str> {
    let close = closing.get(open).map_or(0, |close| *close as usize);
    let mut names = Vec::new();
    let (mut at, mut begins) = (open + 1, true);
    while at < close {
        let Some(token) = tokens.get(at) else { break };
        if begins && token.kind == TokenKind::Word {
            names.push(token.text(text));
        }
        begins = token.kind == TokenKind::Mark(b',');
        at = closing.get(at).map_or(0, |inner| *inner as usize).max(at) + 1;
    }
    names
}
