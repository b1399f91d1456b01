//! JavaScript: syntax checks, and uses of forbidden APIs.
//!
//! [`check_syntax`] compiles with `QuickJS` and never runs the result; [`forbidden()`] reads tokens
//! only. Both accept any text: nesting, memory and size are bounded.

mod engine;
mod forbidden;
mod scan;

pub use forbidden::{ForbiddenUse, forbidden};

use engine::{Goal, compile};
use scan::{Shape, shape};

use super::position::Position;

/// Regular expressions are compiled with the code, some of them slowly. A tool may have hundreds of
/// functions, so a function gets less than a file.
const MAX_REGEX_COST: (usize, usize) = (16 * 1024, 128 * 1024);
/// Code written by people is not nested this deeply.
const MAX_DEPTH: usize = 200;
/// The engine reads ahead from some brackets, so its time grows with depth times length.
const MAX_LOOKAHEAD: usize = 8 * 1024 * 1024;
/// The `CommonJS` wrapper of a file; on its first line, so that line numbers stay the same.
const WRAPPER: (&str, &str) = (
    "(function (exports, require, module, __filename, __dirname) {",
    "\n})",
);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// A snippet of a schema 2.0 tool: a plain script.
    Function,
    /// `.cjs`: the body of a function, where `return` is legal.
    CommonJs,
    /// `.mjs`: strict, with `import` and `export`.
    Module,
    /// `.js`: `CommonJS` or a module.
    Either,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JavaScriptProblem {
    pub line: u32,
    /// In characters, starting at 1.
    pub column: u32,
    pub message: String,
}

/// Compiles a text without running it and returns the first error.
pub fn check_syntax(text: &str, dialect: Dialect) -> Option<JavaScriptProblem> {
    let shape = shape(text);
    if let Some(problem) = too_large(&shape, dialect) {
        return Some(problem);
    }
    match dialect {
        Dialect::Function => compile(text, Goal::Script).err(),
        Dialect::Module => compile(text, Goal::Module).err(),
        Dialect::CommonJs => common_js(text, &shape),
        Dialect::Either => {
            let problem = common_js(text, &shape)?;
            let as_module = compile(text, Goal::Module).err()?;
            Some(if shape.module_syntax {
                as_module
            } else {
                problem
            })
        }
    }
}

fn too_large(shape: &Shape, dialect: Dialect) -> Option<JavaScriptProblem> {
    let regex_limit = if dialect == Dialect::Function {
        MAX_REGEX_COST.0
    } else {
        MAX_REGEX_COST.1
    };
    let (place, message) = if let Some(place) = shape.too_deep {
        (place, format!("nested more than {MAX_DEPTH} levels deep"))
    } else if shape.too_much_lookahead {
        (
            Position::START,
            "too deeply nested for its length".to_owned(),
        )
    } else if shape.regex_cost > regex_limit {
        (
            Position::START,
            "too many or too large regular expressions".to_owned(),
        )
    } else {
        return None;
    };
    Some(JavaScriptProblem {
        line: place.line,
        column: place.column,
        message,
    })
}

/// Compiles the body of a function.
///
/// The text is first tried as it is: that gives exact positions, and a body that closes the
/// wrapper's brackets and opens its own must not pass.
fn common_js(text: &str, shape: &Shape) -> Option<JavaScriptProblem> {
    let plain = compile(text, Goal::Script).err()?;
    let (head, tail) = WRAPPER;
    let body = text
        .strip_prefix("#!")
        .map_or_else(|| text.to_owned(), |rest| format!("//{rest}"));
    match compile(&format!("{head}{body}{tail}"), Goal::Script) {
        Ok(()) if shape.balanced => None,
        Ok(()) => Some(plain),
        Err(_) if !plain.message.contains("return") => Some(plain),
        Err(wrapped) => Some(unwrap_place(wrapped, text)),
    }
}

fn unwrap_place(mut problem: JavaScriptProblem, text: &str) -> JavaScriptProblem {
    let end = super::position::LineIndex::new(text).place(text.len());
    if problem.line == 1 {
        let head = u32::try_from(WRAPPER.0.len()).unwrap_or(u32::MAX);
        problem.column = problem.column.saturating_sub(head).max(1);
    }
    if (Position {
        line: problem.line,
        column: problem.column,
    }) > end
    {
        (problem.line, problem.column) = (end.line, end.column);
    }
    problem
}

#[cfg(test)]
mod tests;
