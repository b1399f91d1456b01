//! Validating a project, or some of its files, in one pass.
//!
//! Joins what the layers below know: the findings of reading ([`ItemStore`]), the rules of each kind
//! ([`validate`]), executor chains ([`chain`]), what runs will be denied ([`forecast`]) and the interpreters' own
//! opinion of scripts ([`syntax`]). Every front door calls [`validate_items`] and renders the same [`Report`].

pub mod forecast;

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::Serialize;

use crate::config::SignatureRequirement;
use crate::context::Context;
use crate::exec::chain::{self, ChainError, ExecutorChain};
use crate::exec::syntax::{self, Interpreters, Language, Script};
use crate::item::finding::{Finding, Findings, Severity, Strength};
use crate::item::place::Place;
use crate::item::source::{MAX_TEXT, SourceFile};
use crate::item::store::{Item, ItemKind, ItemStore, Layer};
use crate::item::tool::LoadedTool;
use crate::item::validate::{self, Unsigned, place_of};
use crate::problem::{Code, Explain};

/// How to validate.
#[derive(Clone, Debug)]
pub struct Options {
    /// Lenient or strict.
    pub strength: Strength,
    /// What an unsigned item is.
    pub unsigned: Unsigned,
    /// What is wrong with the settings; they are items of a kind.
    pub settings: Vec<Finding>,
    /// The interpreters that are there.
    pub interpreters: Interpreters,
    /// Only files below these; everything in the project when empty.
    pub paths: Vec<PathBuf>,
}

impl Options {
    /// How a project wants to be validated.
    pub fn of(ctx: &Context) -> Self {
        Self {
            strength: if ctx.config.strict() { Strength::Strict } else { Strength::Lenient },
            unsigned: match ctx.config.signature_requirement() {
                SignatureRequirement::None => Unsigned::Warned,
                SignatureRequirement::Integrity | SignatureRequirement::Author => Unsigned::Refused,
            },
            interpreters: Interpreters::find(ctx.search_path()),
            settings: ctx.config.findings().to_vec(),
            paths: Vec::new(),
        }
    }
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Whether there is no error among the findings.
    pub valid: bool,
    /// All findings, sorted by file and line.
    pub findings: Vec<Finding>,
    /// How many items were looked at.
    #[serde(skip)]
    pub items: Counts,
    /// Languages whose scripts were not, or not all, checked, and why.
    #[serde(skip)]
    pub unchecked: Vec<(Language, String)>,
}

impl Report {
    /// Of findings alone.
    pub fn of(findings: Vec<Finding>) -> Self {
        let (valid, findings) = sorted(findings);
        Self { valid, findings, items: Counts::default(), unchecked: Vec::new() }
    }
}

/// How many items of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tools.
    pub tools: usize,
    /// Directives.
    pub directives: usize,
    /// Knowledge entries.
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

/// Validates the project's items.
pub fn validate_items(store: &ItemStore, options: &Options) -> Report {
    let wanted = |file: &Path| options.paths.is_empty() || options.paths.iter().any(|path| file.starts_with(path));
    let unusable = store.broken().filter(|(_, file)| wanted(file)).map(|(kind, file)| (kind, file.to_path_buf()));
    let items: Vec<&Item> =
        store.items().iter().filter(|item| item.layer == Layer::Project && wanted(home(item))).collect();

    let root = store.roots().project.clone().unwrap_or_default();
    let mut findings: Vec<Finding> = store
        .findings()
        .chain(&options.settings)
        .cloned()
        .chain(validate::schema::check_files(store.roots(), options.strength))
        .filter(|finding| wanted(&root.join(&finding.file)))
        .collect();
    let (by_rule, scripts): (Vec<_>, Vec<_>) = items.par_iter().map(|item| judge(item, None, store, options)).unzip();
    findings.extend(by_rule.into_iter().flatten());

    let scripts: Vec<Script> = scripts.into_iter().flatten().collect();
    let unchecked = parse_scripts(&scripts, store, options, &mut findings);
    let (valid, findings) = sorted(findings);
    Report { valid, findings, items: count(&items, unusable), unchecked }
}

/// The first mistake of each of some items, which is not about its stamp.
pub fn first_errors(items: &[&Item], store: &ItemStore, options: &Options) -> Vec<Option<Finding>> {
    let judged: Vec<_> = items.par_iter().map(|item| judge(item, None, store, options)).collect();
    let scripts: Vec<Script> = judged.iter().filter_map(|(_, script)| script.clone()).collect();
    let mut of_scripts = Vec::new();
    parse_scripts(&scripts, store, options, &mut of_scripts);
    let shown = |path: &Path| store.roots().display(path);
    let first = |(item, (by_rule, script)): (&&Item, (Vec<Finding>, Option<Script>))| {
        let (home, script) = (shown(home(item)), script.map(|script| shown(&script.path)));
        let of_reading = store.findings().filter(|finding| finding.file.starts_with(&home));
        let of_script = of_scripts.iter().filter(|finding| Some(&finding.file) == script.as_ref());
        let mut all = of_reading.chain(&by_rule).chain(of_script);
        let is_mistake = |finding: &&Finding| finding.severity == Severity::Error;
        all.find(|finding| is_mistake(finding) && !validate::STAMPS.contains(&finding.code)).cloned()
    };
    items.iter().zip(judged).map(first).collect()
}

/// Validates one item as it would be with another text; `findings` are those of reading that. Nothing is said about
/// its stamp.
pub fn validate_text(
    item: &Item,
    text: &str,
    mut findings: Vec<Finding>,
    store: &ItemStore,
    options: &Options,
) -> Report {
    let (by_rule, script) = judge(item, Some(text), store, options);
    findings.extend(by_rule);
    let scripts: Vec<Script> = script.into_iter().collect();
    let unchecked = parse_scripts(&scripts, store, options, &mut findings);
    let is_own = item.as_tool().is_some_and(starts_itself);
    findings.retain(|finding| {
        let is_missing = finding.code == Code::MissingEntrypoint && is_own;
        !is_missing && !validate::STAMPS.contains(&finding.code)
    });
    let (valid, findings) = sorted(findings);
    Report { valid, findings, items: count(&[item], std::iter::empty()), unchecked }
}

/// Findings by file and line, and whether no error is among them.
fn sorted(mut findings: Vec<Finding>) -> (bool, Vec<Finding>) {
    findings.sort_by(|a, b| {
        (&a.file, a.line, a.column, a.code, &a.message).cmp(&(&b.file, b.line, b.column, b.code, &b.message))
    });
    findings.dedup();
    (findings.iter().all(|finding| finding.severity == Severity::Warning), findings)
}

/// Lets interpreters look at scripts; says what they could not look at.
fn parse_scripts(
    scripts: &[Script],
    store: &ItemStore,
    options: &Options,
    findings: &mut Vec<Finding>,
) -> Vec<(Language, String)> {
    let opinion = syntax::check(scripts, &options.interpreters);
    for problem in opinion.problems {
        let mut found = Findings::new(&store.roots().display(&problem.path), options.strength);
        found
            .add(Code::SyntaxError, Place { line: problem.line, column: problem.column }, "", problem.message)
            .suggest("mend the script here, or just above");
        findings.extend(found.into_vec());
    }
    opinion.unchecked
}

/// What a path given by a person must be below to mean this item: its folder for a folder tool.
fn home(item: &Item) -> &Path {
    item.as_tool().and_then(|tool| tool.folder.as_deref()).unwrap_or(&item.file)
}

/// The findings about an item, and its script; `text` is what its own file would hold.
fn judge(item: &Item, text: Option<&str>, store: &ItemStore, options: &Options) -> (Vec<Finding>, Option<Script>) {
    let mut findings = Findings::new(&store.roots().display(&item.file), options.strength);
    validate::check(item, store, options.unsigned, &mut findings);
    let mut found = None;
    if let Some(tool) = item.as_tool() {
        match chain::resolve(store, tool) {
            Ok(chain) => {
                if let Err(err) = chain.check_kinds() {
                    broken_chain(tool, &err, &mut findings);
                }
                found = script(tool, text, &chain);
            }
            Err(err) => broken_chain(tool, &err, &mut findings),
        }
    }
    findings.extend(forecast::of_directive(store, item, options.strength, &BTreeSet::new()));
    (findings.into_vec(), found)
}

fn broken_chain(tool: &LoadedTool, err: &ChainError, findings: &mut Findings) {
    let finding = findings.add(err.code(), place_of(&tool.node, "executor"), "executor", err.to_string());
    if let Some(hint) = err.hint() {
        finding.suggest(hint);
    }
}

/// The script of a tool, for its interpreter to look at.
fn script(tool: &LoadedTool, text: Option<&str>, chain: &ExecutorChain<'_>) -> Option<Script> {
    let path = match text {
        // It may not be there yet.
        Some(_) if starts_itself(tool) => tool.file.clone(),
        _ => validate::entrypoint(tool)?,
    };
    let of_runtime = chain.runtime().and_then(|item| Language::of_runtime(item.id.as_str()));
    let language = of_runtime.or_else(|| Language::of_file(&path))?;
    if let Some(text) = text.filter(|_| path == tool.file) {
        return Some(Script { path, text: text.to_owned(), language });
    }
    let mut unread = Findings::new(&path, Strength::Lenient);
    let source = SourceFile::load(&path, MAX_TEXT, &mut unread)?;
    Some(Script { path, text: source.text, language })
}

/// Whether the file that describes a tool is also the one that it starts with.
fn starts_itself(tool: &LoadedTool) -> bool {
    let entrypoint = tool.manifest.config.get("entrypoint").and_then(serde_json::Value::as_str);
    let folder = tool.folder.as_deref().or_else(|| tool.file.parent());
    entrypoint.zip(folder).is_some_and(|(entrypoint, folder)| folder.join(entrypoint) == tool.file)
}

/// Counts what was looked at, files that hold no usable item included.
fn count(items: &[&Item], unusable: impl Iterator<Item = (ItemKind, PathBuf)>) -> Counts {
    let usable = items.iter().map(|item| (item.kind(), home(item).to_path_buf()));
    let seen: HashSet<(ItemKind, PathBuf)> = usable.chain(unusable).collect();
    let of = |wanted: ItemKind| seen.iter().filter(|(kind, _)| *kind == wanted).count();
    Counts { tools: of(ItemKind::Tool), directives: of(ItemKind::Directive), knowledge: of(ItemKind::Knowledge) }
}
