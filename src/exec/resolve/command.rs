//! The process of a call: program, arguments, variables, input.
//!
//! The resolved runtime decides how parameters are passed: Python's `main` takes them by name, a
//! Python script without `main` as options, every other script as variables and as JSON on stdin,
//! and a command as options.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::arguments::{self, Argument};
use super::environment::CallVariables;
use super::error::ResolveError;
use super::placeholder::{FilledText, Used, Vocabulary};
use super::script::{self, Entrypoint};
use super::settings::{SettingData, ToolSetting};
use super::{ResolveContext, ResolvedAction, bounds, inline, origin};
use crate::exec::invocation::{Action, MaskedText, Process, Python};
use crate::exec::syntax::ScriptLanguage;
use crate::item::store::{Item, Layer};
use crate::item::tool::{LoadedTool, ToolKind};
use crate::item::wording::shown;

/// Keeps Python from writing bytecode next to its scripts.
const NO_BYTECODE: &str = "PYTHONDONTWRITEBYTECODE";

/// How parameters are passed to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// Python files.
    Python,
    /// Shell scripts.
    Shell,
    /// Node, and runtimes that say themselves how they call a script.
    Script,
    /// A program that takes options.
    Command,
}

pub(super) fn resolve(
    context: &ResolveContext<'_>,
    wanted_timeout: Option<f64>,
    origins: &mut BTreeMap<String, String>,
) -> Result<ResolvedAction, ResolveError> {
    let style = style(context);
    let entrypoint = if style == Style::Command {
        None
    } else {
        Some(entrypoint(context)?)
    };
    let words = context.vocabulary(
        context.tool,
        entrypoint
            .as_ref()
            .map(|entrypoint| entrypoint.path.clone()),
    )?;
    let mut used = Used::default();
    let folder = bounds::folder(context.settings, &words, &mut used, origins)?;
    let (program, program_place) = program(context, style, &words, &mut used, &folder, origins)?;
    let configured = arguments::configured(context.settings, &words, &mut used)?;
    let python = match (&entrypoint, style) {
        (Some(entrypoint), Style::Python) => {
            Some(entrypoint.python(context.settings, context.tools, context.roots)?)
        }
        _ => None,
    };
    let calls_function = calls_function(python.as_ref());
    let reads_options = python.as_ref().is_some_and(|python| python.reads_options);

    let mut arguments = place_script(context, entrypoint.as_ref(), configured, &used);
    if let Some(command) = context.command {
        arguments.push(Argument::plain(command, "command"));
    }
    if style == Style::Command || style == Style::Python && (!calls_function || reads_options) {
        arguments.extend(arguments::options(context.parameters, &used.parameters)?);
    }
    let arguments = checked(&program, arguments, origins)?;
    let environment = environment(context, style, python.as_ref(), &words, &mut used)?;
    let environment = environment.into_values(origins);
    let input = match style {
        Style::Command => Vec::new(),
        _ => Value::Object(context.parameters.clone())
            .to_string()
            .into_bytes(),
    };
    let timeout = bounds::timeout(
        context.settings,
        bounds::PROCESS,
        wanted_timeout,
        &words,
        &mut used,
        origins,
    )?;
    let process = Process {
        program,
        program_place,
        arguments,
        folder,
        environment,
        input,
        script: entrypoint.map(|entrypoint| entrypoint.script),
        python,
        node_packages: node_packages(context),
        limits: bounds::limits(context.settings, origins)?,
        install_check: text(context, "install_check"),
        install_guide: text(context, "install_guide"),
    };
    Ok(ResolvedAction {
        action: Action::Process(process),
        timeout,
        variables: used.variables,
    })
}

/// The process of an MCP server: a command that depends only on its settings.
///
/// It outlives one call, so it gets nothing of a call except parameters that its settings name.
pub(super) fn server(
    context: &ResolveContext<'_>,
    words: &Vocabulary<'_>,
    used: &mut Used,
    origins: &mut BTreeMap<String, String>,
) -> Result<Process, ResolveError> {
    let folder = bounds::folder(context.settings, words, used, origins)?;
    let (program, program_place) = program(context, Style::Command, words, used, &folder, origins)?;
    let arguments = arguments::configured(context.settings, words, used)?;
    let arguments = checked(&program, arguments, origins)?;
    let called = ResolveContext {
        command: None,
        ..*context
    };
    let mut environment = environment(&called, Style::Command, None, words, used)?;
    // A Python server would write bytecode next to its files in the project.
    if !environment.values.contains_key(NO_BYTECODE) {
        environment.set(NO_BYTECODE, MaskedText::plain("1"), "default".to_owned());
    }
    Ok(Process {
        program,
        program_place,
        arguments,
        folder,
        environment: environment.into_values(origins),
        input: Vec::new(),
        script: None,
        python: None,
        node_packages: Vec::new(),
        limits: bounds::limits(context.settings, origins)?,
        install_check: text(context, "install_check"),
        install_guide: text(context, "install_guide"),
    })
}

/// Checks the arguments of a program and notes where each comes from.
fn checked(
    program: &MaskedText,
    arguments: Vec<Argument>,
    origins: &mut BTreeMap<String, String>,
) -> Result<Vec<MaskedText>, ResolveError> {
    arguments::check(&arguments)?;
    inline::check(&program.value, &arguments)?;
    let take = |(at, argument): (usize, Argument)| {
        origins.insert(format!("action.arguments[{at}]"), argument.origin);
        argument.text
    };
    Ok(arguments.into_iter().enumerate().map(take).collect())
}

fn text(context: &ResolveContext<'_>, key: &str) -> Option<String> {
    let setting = context.settings.find(key)?;
    setting.as_text().map(str::to_owned)
}

fn style(context: &ResolveContext<'_>) -> Style {
    let is_runtime = |tool: &LoadedTool| tool.manifest.kind == ToolKind::Runtime;
    let runtime = context
        .chain
        .executors
        .iter()
        .find(|item| item.as_tool().is_some_and(is_runtime));
    let has_script = context.tool.manifest.config.contains_key("entrypoint");
    match runtime {
        None => Style::Command,
        Some(_) if context.tool.manifest.kind == ToolKind::Cli && !has_script => Style::Command,
        Some(item) => match language(context, item) {
            Some(ScriptLanguage::Python) => Style::Python,
            Some(ScriptLanguage::Bash) => Style::Shell,
            Some(ScriptLanguage::JavaScript) | None => Style::Script,
        },
    }
}

/// The language of a runtime whose scripts are called as those of the built-in runtime. A runtime of a project or user
/// may say another way: by `{script}` in its arguments, or by a program that is no interpreter that piton knows.
fn language(context: &ResolveContext<'_>, runtime: &Item) -> Option<ScriptLanguage> {
    if runtime.layer == Layer::Builtin {
        return ScriptLanguage::of_runtime(runtime.id.as_str());
    }
    if context.settings.find("args").is_some_and(places_script) {
        return None;
    }
    let program = ["interpreter", "command"]
        .iter()
        .find_map(|key| context.settings.find(key)?.as_text());
    match program {
        Some(program) => ScriptLanguage::of_program(Path::new(program)),
        None => ScriptLanguage::of_runtime(runtime.id.as_str()),
    }
}

/// The packages of a script of Node.js; a `requirements.txt` beside it is for Python.
fn node_packages(context: &ResolveContext<'_>) -> Vec<String> {
    let runtime = context.chain.runtime();
    let is_node =
        runtime.and_then(|item| language(context, item)) == Some(ScriptLanguage::JavaScript);
    let mut packages: Vec<String> = Vec::new();
    for tool in context.tools.iter().filter(|_| is_node) {
        for (at, package) in tool.manifest.dependencies.iter().enumerate() {
            let is_own = !tool.elsewhere.contains_key(&format!("dependencies[{at}]"));
            if is_own && !packages.contains(package) {
                packages.push(package.clone());
            }
        }
    }
    packages
}

fn places_script(arguments: &ToolSetting<'_>) -> bool {
    let SettingData::List(words) = &arguments.data else {
        return false;
    };
    words
        .iter()
        .any(|word| word.as_text().is_some_and(|text| text.contains("{script}")))
}

fn entrypoint(context: &ResolveContext<'_>) -> Result<Entrypoint, ResolveError> {
    script::read(context.tool, context.roots)?.ok_or_else(|| ResolveError::NothingToRun {
        id: context.tool.manifest.tool_id.clone(),
        missing: "config.entrypoint",
        example: "`config: {entrypoint: FILE}` with the file to run",
        at: Box::new(origin(context.tool, "config", context.roots)),
    })
}

/// The program and the place that names it: the first of the settings that name one.
fn program(
    context: &ResolveContext<'_>,
    style: Style,
    words: &Vocabulary<'_>,
    used: &mut Used,
    folder: &Path,
    origins: &mut BTreeMap<String, String>,
) -> Result<(MaskedText, Option<String>), ResolveError> {
    let keys: &[&str] = match style {
        Style::Command => &["executable", "command"],
        Style::Shell => &["shell", "interpreter", "command"],
        Style::Python | Style::Script => &["interpreter", "command"],
    };
    let Some((key, setting)) = keys
        .iter()
        .find_map(|key| Some((*key, context.settings.find(key)?)))
    else {
        if let Some(interpreter) = own_interpreter(context) {
            origins.insert("action.program".to_owned(), "default".to_owned());
            return Ok((MaskedText::plain(interpreter), None));
        }
        return Err(ResolveError::NothingToRun {
            id: context.tool.manifest.tool_id.clone(),
            missing: "config.command",
            example: "`config: {command: PROGRAM}`",
            at: Box::new(origin(context.tool, "config", context.roots)),
        });
    };
    let field = format!("config.{key}");
    let wrong = |reason: String| {
        let hint = "name one program there, and its arguments in `config.args`";
        setting.error(&field, reason, hint)
    };
    let Some(template) = setting.as_text() else {
        return Err(wrong(format!(
            "is {}; it must be a text",
            setting.type_name()
        )));
    };
    let filled: FilledText = words
        .fill(template, &field, &setting.source)?
        .unwrap_or_default();
    used.add(&filled);
    let value = filled.text.value.as_str();
    let is_path = value.contains('/');
    // Relative to the working folder, like in a shell.
    let path = folder.join(value);
    if value.is_empty() || value.contains('\0') {
        return Err(wrong("names no program".to_owned()));
    }
    if value.contains(char::is_whitespace) && !(is_path && path.is_file()) {
        return Err(wrong(format!(
            "is `{}`, which is not one program",
            shown(filled.text.shown())
        )));
    }
    let origin = filled.origin(&setting.source);
    origins.insert("action.program".to_owned(), origin.clone());
    let place = (!filled.is_built_in(&setting.source)).then_some(origin);
    let program = match path
        .to_str()
        .filter(|_| is_path && Path::new(value).is_relative() && !filled.text.has_secret())
    {
        Some(absolute) => MaskedText::plain(absolute),
        None => filled.text,
    };
    Ok((program, place))
}

/// The program of the built-in runtime that a runtime of the project or user stands in for.
fn own_interpreter(context: &ResolveContext<'_>) -> Option<&'static str> {
    let id = context.chain.runtime()?.id.as_str();
    Some(match ScriptLanguage::of_runtime(id)? {
        ScriptLanguage::Python => "python3",
        ScriptLanguage::Bash => "bash",
        ScriptLanguage::JavaScript => "node",
    })
}

/// Inserts the script after the arguments of its runtime and before those of the tool.
fn place_script(
    context: &ResolveContext<'_>,
    entrypoint: Option<&Entrypoint>,
    configured: Vec<Argument>,
    used: &Used,
) -> Vec<Argument> {
    let Some(entrypoint) = entrypoint.filter(|_| !used.script) else {
        return configured;
    };
    let of_tool = context
        .settings
        .find("args")
        .is_none_or(|setting| setting.source.link.is_tool);
    let at = origin(context.tool, "config.entrypoint", context.roots);
    let named = format!(
        "{}, {}:{}",
        context.tool.manifest.tool_id,
        at.file.display(),
        at.line
    );
    let script = Argument::plain(entrypoint.path.clone(), named);
    let mut arguments = configured;
    arguments.insert(if of_tool { 0 } else { arguments.len() }, script);
    arguments
}

/// Whether a function of the script gets the parameters.
fn calls_function(python: Option<&Python>) -> bool {
    python.is_some_and(|python| python.entry.function().is_some())
}

fn environment(
    context: &ResolveContext<'_>,
    style: Style,
    python: Option<&Python>,
    words: &Vocabulary<'_>,
    used: &mut Used,
) -> Result<CallVariables, ResolveError> {
    let mut environment = CallVariables::scrubbed(context.around);
    environment.toolchains(context.around, context.caches);
    // A script in another language may start Python.
    if style != Style::Command {
        environment.set(NO_BYTECODE, MaskedText::plain("1"), "default".to_owned());
    }
    environment.declare(&context.requires.environment, context.around)?;
    environment.surround(&words.surroundings, words, context.settings, used)?;
    if style == Style::Script {
        environment.search_beside(words);
    }
    environment.configure(context.settings, words, used)?;
    if style != Style::Command && !calls_function(python) {
        environment.parameters(context.parameters)?;
    }
    let root = &context.around.root;
    let project = root
        .to_str()
        .ok_or_else(|| ResolveError::NotUnicode(root.clone()))?;
    environment.add_own(Some(project), context.command);
    environment.check()?;
    Ok(environment)
}
