//! The `QuickJS` engine, used for one function call.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rquickjs::context::EvalOptions;
use rquickjs::function::Args;
use rquickjs::{Context, Ctx, Error, Function, Object, Runtime, Type, Value};

use super::{JavaScriptJob, MEMORY, camel_case};
use crate::item::wording::first_line;

const STACK: usize = 256 * 1024;
/// The largest result, in bytes of JSON.
const LARGEST: usize = 2 * 1024 * 1024;
/// The file name in the engine's messages.
const FILE_NAME: &str = "function.js";
/// The most characters of a thrown message.
const MOST_TEXT: usize = 300;

/// Why there is no result.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ScriptStop {
    Late,
    Memory,
    Threw {
        what: String,
        line: Option<u32>,
    },
    /// It returned something that is not data.
    Returned(String),
    /// It is unclear which function to call.
    Exports(String),
    TooLarge(usize),
}

/// Why the engine stopped, before the cause is known.
enum EngineHalt {
    /// With an exception; `None` if the engine has lost it.
    Exception(Option<Thrown>),
    Stop(ScriptStop),
}

struct Thrown {
    what: String,
    line: Option<u32>,
    is_out_of_memory: bool,
}

/// Runs a function and returns its result as JSON.
pub(super) fn run(job: &JavaScriptJob) -> Result<String, ScriptStop> {
    // Never freed: the process ends after this, and an engine without memory may fail to free.
    let runtime = ManuallyDrop::new(Runtime::new().map_err(|_| ScriptStop::Memory)?);
    runtime.set_memory_limit(MEMORY);
    runtime.set_max_stack_size(STACK);
    let is_late = Rc::new(Cell::new(false));
    let deadline = Instant::now() + Duration::from_millis(job.limit_ms);
    let note = Rc::clone(&is_late);
    runtime.set_interrupt_handler(Some(Box::new(move || {
        let is_over = Instant::now() >= deadline;
        note.set(note.get() || is_over);
        is_over
    })));
    let context = ManuallyDrop::new(Context::full(&runtime).map_err(|_| ScriptStop::Memory)?);
    let outcome = context.with(|ctx| call(&ctx, job));
    // Check the clock first: a script can forge an exception, but not the time.
    if outcome.is_err() && is_late.get() {
        return Err(ScriptStop::Late);
    }
    outcome.map_err(|halt| match halt {
        EngineHalt::Stop(stop) => stop,
        EngineHalt::Exception(Some(thrown)) if thrown.is_out_of_memory => ScriptStop::Memory,
        EngineHalt::Exception(Some(Thrown { what, line, .. })) => ScriptStop::Threw { what, line },
        // Without memory there may be no exception object. A script can also throw `null`, so check
        // the memory in use.
        EngineHalt::Exception(None) if in_use(&runtime) > MEMORY / 2 => ScriptStop::Memory,
        EngineHalt::Exception(None) => ScriptStop::Threw {
            what: "null".to_owned(),
            line: None,
        },
    })
}

fn in_use(runtime: &Runtime) -> usize {
    usize::try_from(runtime.memory_usage().malloc_size).unwrap_or_default()
}

fn call(ctx: &Ctx<'_>, job: &JavaScriptJob) -> Result<String, EngineHalt> {
    let halt = |err: Error| halted(ctx, &err);
    let globals = ctx.globals();
    let mut given = Args::new(ctx.clone(), job.given.len());
    for (name, value) in &job.given {
        let value = ctx.json_parse(value.to_string()).map_err(halt)?;
        globals.set(name.as_str(), value.clone()).map_err(halt)?;
        given.push_arg(value).map_err(halt)?;
    }
    let module = Object::new(ctx.clone()).map_err(halt)?;
    let exports = Object::new(ctx.clone()).map_err(halt)?;
    module.set("exports", exports.clone()).map_err(halt)?;
    globals.set("module", module.clone()).map_err(halt)?;
    globals.set("exports", exports).map_err(halt)?;
    let mut options = EvalOptions::default();
    // Existing tools expect non-strict mode.
    options.strict = false;
    options.filename = Some(FILE_NAME.to_owned());
    let completion: Value<'_> = ctx
        .eval_with_options(job.source.as_str(), options)
        .map_err(halt)?;
    let exported: Value<'_> = module.get("exports").map_err(halt)?;
    let returned: Value<'_> = match exported_function(ctx, &exported, &job.id)? {
        Some(function) => function.call_arg(given).map_err(halt)?,
        None => completion,
    };
    as_json(ctx, returned)
}

/// The function to call; `None` if nothing is exported, so that the last value is the result.
fn exported_function<'js>(
    ctx: &Ctx<'js>,
    exported: &Value<'js>,
    id: &str,
) -> Result<Option<Function<'js>>, EngineHalt> {
    if let Some(function) = exported.as_function() {
        return Ok(Some(function.clone()));
    }
    let wrong = |what: String| Err(EngineHalt::Stop(ScriptStop::Exports(what)));
    let Some(object) = exported.as_object() else {
        return wrong(format!("`module.exports` is {}", kind_of(exported)));
    };
    let mut functions = Vec::new();
    let mut is_empty = true;
    for property in object.props::<String, Value<'_>>() {
        let (name, value) = property.map_err(|err| halted(ctx, &err))?;
        is_empty = false;
        functions.extend(value.as_function().map(|function| (name, function.clone())));
    }
    if let [(_, only)] = functions.as_slice() {
        return Ok(Some(only.clone()));
    }
    let wanted = camel_case(id);
    let is_meant = |name: &str| name == wanted || name == id;
    match functions.iter().find(|(name, _)| is_meant(name)) {
        Some((_, function)) => Ok(Some(function.clone())),
        None if is_empty => Ok(None),
        None if functions.is_empty() => wrong("it exports no function".to_owned()),
        None => wrong(format!(
            "it exports {} functions, and none of them is called `{wanted}`",
            functions.len()
        )),
    }
}

/// The value as JSON, if it is data.
fn as_json<'js>(ctx: &Ctx<'js>, value: Value<'js>) -> Result<String, EngineHalt> {
    let returned = |what: &str| EngineHalt::Stop(ScriptStop::Returned(what.to_owned()));
    if value.is_undefined() {
        return Err(returned("nothing"));
    }
    if value.is_promise() {
        return Err(returned("a promise; async functions are not supported"));
    }
    if value.is_function() {
        return Err(returned("a function"));
    }
    let kind = kind_of(&value);
    let text = match ctx.json_stringify(value) {
        Ok(Some(text)) => text.to_string().map_err(|err| halted(ctx, &err))?,
        Ok(None) => return Err(returned(kind)),
        Err(err) => {
            return Err(match halted(ctx, &err) {
                EngineHalt::Exception(Some(thrown)) if !thrown.is_out_of_memory => {
                    returned(&format!("what cannot be written as JSON: {}", thrown.what))
                }
                halt => halt,
            });
        }
    };
    if text.len() > LARGEST {
        return Err(EngineHalt::Stop(ScriptStop::TooLarge(text.len())));
    }
    Ok(text)
}

fn halted(ctx: &Ctx<'_>, err: &Error) -> EngineHalt {
    match err {
        Error::Exception => EngineHalt::Exception(thrown(&ctx.catch())),
        Error::Allocation => EngineHalt::Stop(ScriptStop::Memory),
        other => EngineHalt::Stop(ScriptStop::Threw {
            what: first_line(&other.to_string(), MOST_TEXT),
            line: None,
        }),
    }
}

/// The thrown value; `None` if the engine has lost it.
fn thrown(value: &Value<'_>) -> Option<Thrown> {
    let plain = |what: String| {
        Some(Thrown {
            what,
            line: None,
            is_out_of_memory: false,
        })
    };
    let Some(exception) = value.as_exception() else {
        return match value.as_string().and_then(|text| text.to_string().ok()) {
            Some(text) => plain(first_line(&text, MOST_TEXT)),
            None if matches!(value.type_of(), Type::Null | Type::Uninitialized) => None,
            None => plain(kind_of(value).to_owned()),
        };
    };
    let name: String = exception.as_object().get("name").unwrap_or_default();
    let message = exception.message().unwrap_or_default();
    let what = match (name.as_str(), message.as_str()) {
        ("", message) => message.to_owned(),
        (name, "") => name.to_owned(),
        (name, message) => format!("{name}: {message}"),
    };
    let line = exception.stack().as_deref().and_then(line_of);
    let is_out_of_memory = name == "InternalError" && message == "out of memory";
    Some(Thrown {
        what: first_line(&what, MOST_TEXT),
        line,
        is_out_of_memory,
    })
}

/// The first line number in a stack trace.
fn line_of(stack: &str) -> Option<u32> {
    let (_, rest) = stack.split_once(FILE_NAME)?;
    let digits: String = rest
        .strip_prefix(':')?
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().ok().filter(|line| *line > 0)
}

/// The type of a value for messages.
fn kind_of(value: &Value<'_>) -> &'static str {
    match () {
        () if value.is_undefined() => "nothing",
        () if value.is_null() => "null",
        () if value.is_bool() => "a boolean",
        () if value.is_number() => "a number",
        () if value.is_string() => "a text",
        () if value.is_symbol() => "a symbol",
        () if value.is_array() => "a list",
        () if value.is_function() => "a function",
        () if value.is_object() => "an object",
        () => "a value that is no data",
    }
}
