//! Validates a project, or some of its files, in one pass.
//!
//! Combines the layers below: the findings of reading ([`ItemStore`]), the rules of each kind
//! ([`validate`]), executor chains ([`chain`]), what runs will be denied ([`forecast`]) and syntax
//! checks of scripts by their interpreters ([`syntax`]). The CLI, the MCP server and the hooks all
//! call [`validate_items`] and render the same [`ValidationReport`].

pub mod forecast;

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::Serialize;

use crate::config::SignatureRequirement;
use crate::context::Context;
use crate::exec::chain::{self, ChainError, ExecutorChain};
use crate::exec::syntax::{self, CheckedScript, Interpreters, ScriptLanguage};
use crate::exec::toolchain::AllowedCaches;
use crate::item::finding::{Finding, Findings, Severity, Strength};
use crate::item::position::Position;
use crate::item::source::{MAX_TEXT, SourceFile};
use crate::item::store::{Item, ItemKind, ItemStore, Layer, PRIMITIVES};
use crate::item::tool::LoadedTool;
use crate::item::validate::{self, Unsigned, place_of};
use crate::problem::{Code, Explain};

#[derive(Clone, Debug)]
pub struct ValidationOptions {
    pub strength: Strength,
    pub unsigned: Unsigned,
    /// Findings of the settings files, reported with those of items.
    pub settings: Vec<Finding>,
    /// The interpreters available on this machine.
    pub interpreters: Interpreters,
    /// The folders that the user allows as caches of tools.
    pub caches: AllowedCaches,
    /// Only items below these paths; empty means the whole project.
    pub paths: Vec<PathBuf>,
}

impl ValidationOptions {
    /// The options from a project's settings.
    pub fn of(ctx: &Context) -> Self {
        Self {
            strength: if ctx.config.strict() {
                Strength::Strict
            } else {
                Strength::Lenient
            },
            unsigned: match ctx.config.signature_requirement() {
                SignatureRequirement::None => Unsigned::Warned,
                SignatureRequirement::Integrity | SignatureRequirement::Author => Unsigned::Refused,
            },
            interpreters: Interpreters::find(ctx.search_path()),
            settings: ctx.config.findings().to_vec(),
            caches: AllowedCaches::of(&ctx.config.cache_folders(), ctx.home.as_deref()),
            paths: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct ValidationReport {
    pub valid: bool,
    /// Sorted by file and line.
    pub findings: Vec<Finding>,
    /// How many items were checked.
    #[serde(skip)]
    pub items: Counts,
    /// Languages whose scripts were not all checked, and why.
    #[serde(skip)]
    pub unchecked: Vec<(ScriptLanguage, String)>,
}

impl ValidationReport {
    /// A report without item counts.
    pub fn of(findings: Vec<Finding>) -> Self {
        let (valid, findings) = sorted(findings);
        Self {
            valid,
            findings,
            items: Counts::default(),
            unchecked: Vec::new(),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub tools: usize,
    pub directives: usize,
    pub knowledge: usize,
}

impl std::ops::Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            tools: self.tools + other.tools,
            directives: self.directives + other.directives,
            knowledge: self.knowledge + other.knowledge,
        }
    }
}

pub fn validate_items(store: &ItemStore, options: &ValidationOptions) -> ValidationReport {
    let wanted = |file: &Path| {
        options.paths.is_empty() || options.paths.iter().any(|path| file.starts_with(path))
    };
    let unusable = store
        .broken()
        .filter(|(_, file)| wanted(file))
        .map(|(kind, file)| (kind, file.to_path_buf()));
    let items: Vec<&Item> = store
        .items()
        .iter()
        .filter(|item| item.layer == Layer::Project && wanted(home(item)))
        .collect();

    let root = store.roots().project.clone().unwrap_or_default();
    let mut findings: Vec<Finding> = store
        .findings()
        .chain(&options.settings)
        .cloned()
        .chain(validate::schema::check_files(
            store.roots(),
            options.strength,
        ))
        .filter(|finding| wanted(&root.join(&finding.file)))
        .collect();
    let (by_rule, scripts): (Vec<_>, Vec<_>) = items
        .par_iter()
        .map(|item| judge(item, None, store, options))
        .unzip();
    findings.extend(by_rule.into_iter().flatten());

    let scripts: Vec<CheckedScript> = scripts.into_iter().flatten().collect();
    let unchecked = parse_scripts(&scripts, store, options, &mut findings);
    let (valid, findings) = sorted(findings);
    ValidationReport {
        valid,
        findings,
        items: count(&items, unusable),
        unchecked,
    }
}

/// The first error of each item, not counting its stamp.
pub fn first_errors(
    items: &[&Item],
    store: &ItemStore,
    options: &ValidationOptions,
) -> Vec<Option<Finding>> {
    let judged: Vec<_> = items
        .par_iter()
        .map(|item| judge(item, None, store, options))
        .collect();
    let scripts: Vec<CheckedScript> = judged
        .iter()
        .filter_map(|(_, script)| script.clone())
        .collect();
    let mut of_scripts = Vec::new();
    parse_scripts(&scripts, store, options, &mut of_scripts);
    let shown = |path: &Path| store.roots().display(path);
    let first = |(item, (by_rule, script)): (&&Item, (Vec<Finding>, Option<CheckedScript>))| {
        let (home, script) = (shown(home(item)), script.map(|script| shown(&script.path)));
        let of_reading = store
            .findings()
            .filter(|finding| finding.file.starts_with(&home));
        let of_script = of_scripts
            .iter()
            .filter(|finding| Some(&finding.file) == script.as_ref());
        let mut all = of_reading.chain(&by_rule).chain(of_script);
        let is_mistake = |finding: &&Finding| finding.severity == Severity::Error;
        all.find(|finding| is_mistake(finding) && !validate::STAMPS.contains(&finding.code))
            .cloned()
    };
    items.iter().zip(judged).map(first).collect()
}

/// Validates an item as if its file contained `text`; `findings` are those of parsing that text.
/// The stamp is not checked.
pub fn validate_text(
    item: &Item,
    text: &str,
    mut findings: Vec<Finding>,
    store: &ItemStore,
    options: &ValidationOptions,
) -> ValidationReport {
    let (by_rule, script) = judge(item, Some(text), store, options);
    findings.extend(by_rule);
    let scripts: Vec<CheckedScript> = script.into_iter().collect();
    let unchecked = parse_scripts(&scripts, store, options, &mut findings);
    let is_own = item.as_tool().is_some_and(starts_itself);
    findings.retain(|finding| {
        let is_missing = finding.code == Code::MissingEntrypoint && is_own;
        !is_missing && !validate::STAMPS.contains(&finding.code)
    });
    let (valid, findings) = sorted(findings);
    ValidationReport {
        valid,
        findings,
        items: count(&[item], std::iter::empty()),
        unchecked,
    }
}

/// Findings by file and line, and whether none is an error.
fn sorted(mut findings: Vec<Finding>) -> (bool, Vec<Finding>) {
    findings.sort_by(|a, b| {
        (&a.file, a.line, a.column, a.code, &a.message)
            .cmp(&(&b.file, b.line, b.column, b.code, &b.message))
    });
    findings.dedup();
    (
        findings
            .iter()
            .all(|finding| finding.severity == Severity::Warning),
        findings,
    )
}

/// Runs the interpreters on scripts; returns which languages could not be checked, and why.
fn parse_scripts(
    scripts: &[CheckedScript],
    store: &ItemStore,
    options: &ValidationOptions,
    findings: &mut Vec<Finding>,
) -> Vec<(ScriptLanguage, String)> {
    let opinion = syntax::check(scripts, &options.interpreters);
    for problem in opinion.problems {
        let mut found = Findings::new(&store.roots().display(&problem.path), options.strength);
        found
            .add(
                Code::SyntaxError,
                Position {
                    line: problem.line,
                    column: problem.column,
                },
                "",
                problem.message,
            )
            .suggest("fix the script here, or just above");
        findings.extend(found.into_vec());
    }
    opinion.unchecked
}

/// The path that a user names to select this item: the folder of a folder tool, otherwise its file.
fn home(item: &Item) -> &Path {
    item.as_tool()
        .and_then(|tool| tool.folder.as_deref())
        .unwrap_or(&item.file)
}

/// The findings about an item, and its script. `text` replaces the content of its file.
fn judge(
    item: &Item,
    text: Option<&str>,
    store: &ItemStore,
    options: &ValidationOptions,
) -> (Vec<Finding>, Option<CheckedScript>) {
    let mut findings = Findings::new(&store.roots().display(&item.file), options.strength);
    validate::check(item, store, options.unsigned, &mut findings);
    let mut found = None;
    if let Some(tool) = item.as_tool() {
        match chain::resolve(store, tool) {
            Ok(chain) => {
                if let Err(err) = chain.check_kinds() {
                    broken_chain(tool, &err, &mut findings);
                }
                replaced_executor(tool, store, &mut findings);
                found = script(tool, text, &chain);
            }
            Err(err) => broken_chain(tool, &err, &mut findings),
        }
        caches(tool, store, options, &mut findings);
    }
    findings.extend(forecast::of_directive(
        store,
        item,
        options.strength,
        &BTreeSet::new(),
    ));
    (findings.into_vec(), found)
}

/// Warns about caches that the user has not allowed: the tool is refused on this machine.
fn caches(
    tool: &LoadedTool,
    store: &ItemStore,
    options: &ValidationOptions,
    findings: &mut Findings,
) {
    let home = store.roots().user.as_deref();
    for cache in &tool.manifest.caches {
        if !options.caches.allows(cache, home) {
            let place = tool.place_of_cache(cache);
            let message = format!("`{cache}` is a folder that you have not allowed as a cache");
            findings
                .add(
                    Code::CacheNotAllowed,
                    place.unwrap_or_else(|| place_of(&tool.node, "caches")),
                    "caches",
                    message,
                )
                .suggest("if the tool may write there, add the folder to `isolation.cache_folders` in `~/.ai/config.yaml`");
        }
    }
}

fn broken_chain(tool: &LoadedTool, err: &ChainError, findings: &mut Findings) {
    let finding = findings.add(
        err.code(),
        place_of(&tool.node, "executor"),
        "executor",
        err.to_string(),
    );
    if let Some(hint) = err.hint() {
        finding.suggest(hint);
    }
}

/// Reports that a built-in runtime takes the place of one that is not here. The primitives are the same
/// everywhere.
fn replaced_executor(tool: &LoadedTool, store: &ItemStore, findings: &mut Findings) {
    let Some(executor) = &tool.manifest.executor else {
        return;
    };
    let Ok((_, Some(chain::BuiltinExecutor(built_in)))) = chain::find_executor(store, executor)
    else {
        return;
    };
    if PRIMITIVES.contains(&built_in.as_str()) {
        return;
    }
    findings
        .add(
            Code::UnknownItem,
            place_of(&tool.node, "executor"),
            "executor",
            format!(
                "executor `{executor}` does not exist; the built-in `{built_in}` takes its place"
            ),
        )
        .suggest(format!("write `executor: {built_in}`"));
}

/// The script of a tool, for its interpreter to check.
fn script(
    tool: &LoadedTool,
    text: Option<&str>,
    chain: &ExecutorChain<'_>,
) -> Option<CheckedScript> {
    let path = match text {
        // The file may not exist yet.
        Some(_) if starts_itself(tool) => tool.file.clone(),
        _ => validate::entrypoint(tool)?,
    };
    let of_runtime = chain
        .runtime()
        .and_then(|item| ScriptLanguage::of_runtime(item.id.as_str()));
    let language = of_runtime.or_else(|| ScriptLanguage::of_file(&path))?;
    if let Some(text) = text.filter(|_| path == tool.file) {
        return Some(CheckedScript {
            path,
            text: text.to_owned(),
            language,
        });
    }
    let mut unread = Findings::new(&path, Strength::Lenient);
    let source = SourceFile::load(&path, MAX_TEXT, &mut unread)?;
    Some(CheckedScript {
        path,
        text: source.text,
        language,
    })
}

/// Whether a tool's manifest file is also its entrypoint.
fn starts_itself(tool: &LoadedTool) -> bool {
    let entrypoint = tool
        .manifest
        .config
        .get("entrypoint")
        .and_then(serde_json::Value::as_str);
    let folder = tool.folder.as_deref().or_else(|| tool.file.parent());
    entrypoint
        .zip(folder)
        .is_some_and(|(entrypoint, folder)| folder.join(entrypoint) == tool.file)
}

/// Counts the checked items, including files without a usable item.
fn count(items: &[&Item], unusable: impl Iterator<Item = (ItemKind, PathBuf)>) -> Counts {
    let usable = items
        .iter()
        .map(|item| (item.kind(), home(item).to_path_buf()));
    let seen: HashSet<(ItemKind, PathBuf)> = usable.chain(unusable).collect();
    let of = |wanted: ItemKind| seen.iter().filter(|(kind, _)| *kind == wanted).count();
    Counts {
        tools: of(ItemKind::Tool),
        directives: of(ItemKind::Directive),
        knowledge: of(ItemKind::Knowledge),
    }
}
