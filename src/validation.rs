//! Validating a project, or some of its files, in one pass.
//!
//! Joins what the layers below know: the findings of reading ([`ItemStore`]), the rules of each kind
//! ([`validate`]), executor chains ([`chain`]) and the interpreters' own opinion of scripts
//! ([`syntax`]). Every front door calls [`validate_items`] and renders the same [`Report`].

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::Serialize;

use crate::exec::chain::{self, ChainError, ExecutorChain};
use crate::exec::syntax::{self, Interpreters, Language, Script};
use crate::item::code::Code;
use crate::item::finding::{Finding, Findings, Severity, Strength};
use crate::item::place::Place;
use crate::item::source::{MAX_TEXT, SourceFile};
use crate::item::store::{Item, ItemKind, ItemStore, Layer};
use crate::item::tool::LoadedTool;
use crate::item::validate::{self, Unsigned, place_of};

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
    let (by_rule, scripts): (Vec<_>, Vec<_>) = items.par_iter().map(|item| judge(item, store, options)).unzip();
    findings.extend(by_rule.into_iter().flatten());

    let scripts: Vec<Script> = scripts.into_iter().flatten().collect();
    let opinion = syntax::check(&scripts, &options.interpreters);
    for problem in opinion.problems {
        let mut found = Findings::new(&store.roots().display(&problem.path), options.strength);
        found
            .add(Code::SyntaxError, Place { line: problem.line, column: problem.column }, "", problem.message)
            .suggest("mend the script here, or just above");
        findings.extend(found.into_vec());
    }

    findings.sort_by(|a, b| {
        (&a.file, a.line, a.column, a.code, &a.message).cmp(&(&b.file, b.line, b.column, b.code, &b.message))
    });
    findings.dedup();
    let valid = findings.iter().all(|finding| finding.severity == Severity::Warning);
    Report { valid, findings, items: count(&items, unusable), unchecked: opinion.unchecked }
}

/// What a path given by a person must be below to mean this item: its folder for a folder tool.
fn home(item: &Item) -> &Path {
    item.as_tool().and_then(|tool| tool.folder.as_deref()).unwrap_or(&item.file)
}

fn judge(item: &Item, store: &ItemStore, options: &Options) -> (Vec<Finding>, Vec<Script>) {
    let mut findings = Findings::new(&store.roots().display(&item.file), options.strength);
    validate::check(item, store, options.unsigned, &mut findings);
    let mut scripts = Vec::new();
    if let Some(tool) = item.as_tool() {
        match chain::resolve(store, tool) {
            Ok(chain) => {
                if let Err(err) = chain.check_kinds() {
                    broken_chain(tool, &err, &mut findings);
                }
                scripts.extend(script(tool, &chain));
            }
            Err(err) => broken_chain(tool, &err, &mut findings),
        }
    }
    (findings.into_vec(), scripts)
}

fn broken_chain(tool: &LoadedTool, err: &ChainError, findings: &mut Findings) {
    let finding = findings.add(err.code(), place_of(&tool.node, "executor"), "executor", err.to_string());
    if let Some(hint) = err.hint() {
        finding.suggest(hint);
    }
}

/// The script of a tool, for its interpreter to look at.
fn script(tool: &LoadedTool, chain: &ExecutorChain<'_>) -> Option<Script> {
    let path = validate::entrypoint(tool)?;
    let language = match chain.runtime().map(|item| item.id.as_str()) {
        Some("python_runtime") => Language::Python,
        Some("bash_runtime") => Language::Bash,
        Some("node_runtime") => Language::JavaScript,
        _ => match path.extension().and_then(OsStr::to_str)? {
            "py" => Language::Python,
            "sh" | "bash" => Language::Bash,
            "js" | "mjs" | "cjs" => Language::JavaScript,
            _ => return None,
        },
    };
    let mut unread = Findings::new(&path, Strength::Lenient);
    let source = SourceFile::load(&path, MAX_TEXT, &mut unread)?;
    Some(Script { path, text: source.text, language })
}

/// Counts what was looked at, files that hold no usable item included.
fn count(items: &[&Item], unusable: impl Iterator<Item = (ItemKind, PathBuf)>) -> Counts {
    let usable = items.iter().map(|item| (item.kind(), home(item).to_path_buf()));
    let seen: HashSet<(ItemKind, PathBuf)> = usable.chain(unusable).collect();
    let of = |wanted: ItemKind| seen.iter().filter(|(kind, _)| *kind == wanted).count();
    Counts { tools: of(ItemKind::Tool), directives: of(ItemKind::Directive), knowledge: of(ItemKind::Knowledge) }
}
