//! The `QuickJS` engine, used as a compiler.
//!
//! One runtime per thread is kept, because creating one costs more than compiling a function. It is
//! dropped after anything but a plain syntax error, so that no text can corrupt it for the next.

use std::cell::RefCell;

use rquickjs::{Context, Ctx, Runtime, qjs};

use super::JavaScriptProblem;
use crate::item::position::{LineIndex, Position};

const MEMORY_LIMIT: usize = 16 * 1024 * 1024;
const STACK_LIMIT: usize = 512 * 1024;
const FILE_NAME: &std::ffi::CStr = c"input";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    Script,
    Module,
}

struct ScriptEngine {
    runtime: Runtime,
    scripts: Context,
}

thread_local! {
    static ENGINE: RefCell<Option<ScriptEngine>> = const { RefCell::new(None) };
}

/// Compiles a text without running it.
pub(super) fn compile(text: &str, goal: Goal) -> Result<(), JavaScriptProblem> {
    ENGINE.with_borrow_mut(|kept| {
        let engine = match kept.take() {
            Some(engine) => engine,
            None => ScriptEngine::new()
                .ok_or_else(|| problem(1, 1, "the JavaScript engine could not be started"))?,
        };
        let outcome = engine.compile(text, goal);
        if !matches!(outcome, Err(CompileFailure::Exhausted)) {
            *kept = Some(engine);
        }
        match outcome {
            Ok(()) => Ok(()),
            Err(CompileFailure::Syntax(problem)) => Err(problem),
            Err(CompileFailure::Exhausted) => Err(problem(
                1,
                1,
                "too large or too deeply nested to be compiled",
            )),
        }
    })
}

enum CompileFailure {
    Syntax(JavaScriptProblem),
    /// Out of memory or stack; the runtime is dropped.
    Exhausted,
}

impl ScriptEngine {
    fn new() -> Option<Self> {
        let runtime = Runtime::new().ok()?;
        runtime.set_memory_limit(MEMORY_LIMIT);
        runtime.set_max_stack_size(STACK_LIMIT);
        let scripts = Context::full(&runtime).ok()?;
        Some(Self { runtime, scripts })
    }

    fn compile(&self, text: &str, goal: Goal) -> Result<(), CompileFailure> {
        match goal {
            Goal::Script => self.scripts.with(|ctx| compile_in(&ctx, text, goal)),
            // A context keeps every module it has compiled until it is dropped itself.
            Goal::Module => {
                let context =
                    Context::full(&self.runtime).map_err(|_| CompileFailure::Exhausted)?;
                context.with(|ctx| compile_in(&ctx, text, goal))
            }
        }
    }
}

fn compile_in(ctx: &Ctx<'_>, text: &str, goal: Goal) -> Result<(), CompileFailure> {
    if compile_only(ctx, text, goal) {
        return Ok(());
    }
    let thrown = ctx.catch();
    let Some(exception) = thrown.as_exception() else {
        return Err(CompileFailure::Exhausted);
    };
    let name: String = exception.as_object().get("name").unwrap_or_default();
    let message = exception.message().unwrap_or_default();
    match (name.as_str(), goal) {
        ("SyntaxError", _) => {
            let (line, column) = exception
                .stack()
                .as_deref()
                .and_then(position)
                .unwrap_or((1, 1));
            let place = in_characters(text, line, column);
            Err(CompileFailure::Syntax(problem(
                place.line,
                place.column,
                &message,
            )))
        }
        // Imports are resolved after the whole text was compiled. There is no loader, so this
        // fails, which says nothing about the syntax.
        ("ReferenceError", Goal::Module) if message.starts_with("could not load module") => Ok(()),
        _ => Err(CompileFailure::Exhausted),
    }
}

/// Returns whether the text compiles; otherwise the exception is pending.
#[expect(
    unsafe_code,
    reason = "the safe interface compiles scripts only by running them"
)]
fn compile_only(ctx: &Ctx<'_>, text: &str, goal: Goal) -> bool {
    let kind = match goal {
        Goal::Script => qjs::JS_EVAL_TYPE_GLOBAL,
        Goal::Module => qjs::JS_EVAL_TYPE_MODULE,
    };
    let flags = (kind | qjs::JS_EVAL_FLAG_COMPILE_ONLY).cast_signed();
    let mut source = Vec::with_capacity(text.len() + 1);
    source.extend_from_slice(text.as_bytes());
    source.push(0);
    let raw = ctx.as_raw().as_ptr();
    // SAFETY: `raw` is the live context behind `ctx`, whose runtime is locked by this thread.
    // `source` is `text.len()` bytes followed by the zero that the engine's scanner relies on and
    // outlives the call, which copies what it keeps. The value returned is owned here and freed
    // once. The stack top is set because the runtime may have been made at another stack depth.
    unsafe {
        qjs::JS_UpdateStackTop(qjs::JS_GetRuntime(raw));
        let value = qjs::JS_Eval(
            raw,
            source.as_ptr().cast(),
            text.len() as _,
            FILE_NAME.as_ptr(),
            flags,
        );
        let compiled = !qjs::JS_IsException(value);
        qjs::JS_FreeValue(raw, value);
        compiled
    }
}

/// Reads `at input:LINE:COLUMN` from the first line of a stack.
fn position(stack: &str) -> Option<(u32, u32)> {
    let mut parts = stack.lines().next()?.rsplit(':');
    let column = parts.next()?.trim().parse().ok()?;
    let line = parts.next()?.parse().ok()?;
    Some((line, column))
}

/// Converts the engine's position to lines by `\n` and columns in characters.
///
/// The engine counts bytes and other line ends as well; a position after the text means its end.
fn in_characters(text: &str, line: u32, column: u32) -> Position {
    let index = LineIndex::new(text);
    let start = usize::try_from(line.saturating_sub(1))
        .ok()
        .and_then(|line| index.start(line));
    let Some(start) = start else {
        return index.place(text.len());
    };
    let mut offset = start
        .saturating_add(usize::try_from(column.saturating_sub(1)).unwrap_or(0))
        .min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    index.place(offset)
}

fn problem(line: u32, column: u32, message: &str) -> JavaScriptProblem {
    JavaScriptProblem {
        line: line.max(1),
        column: column.max(1),
        message: message.to_owned(),
    }
}

/// Whether the global object of this thread's engine has a property.
#[cfg(test)]
pub(super) fn global_exists(name: &str) -> Option<bool> {
    ENGINE
        .with_borrow(|kept| {
            kept.as_ref().map(|engine| {
                engine
                    .scripts
                    .with(|ctx| ctx.globals().contains_key(name).ok())
            })
        })
        .flatten()
}
