//! What a run runs, as it was when the run began.
//!
//! The directives that it can reach are kept as text beside the journal and are what is run, also after a wait of
//! days. Tools run from where they are; one whose files have changed since the run began is refused.
//! A run that has ended and begins again takes its items as they are then: [`renewal`].

mod renewal;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use crate::context::Context;
use crate::exec::{chain, check_stamp};
use crate::item::directive::{self, Directive, StepAction};
use crate::item::finding::{Finding, Findings, Severity, Strength};
use crate::item::signature::{self, hex};
use crate::item::source::{MAX_TEXT, SourceFile, files_below, read_bytes};
use crate::item::store::{Item, ItemKind, ItemStore, Layer};
use crate::item::tool::Origin;
use crate::item::validate;
use crate::journal::RunId;
use crate::run::author;
use crate::run::error::RunError;

const MANIFEST: &str = "pinned.json";
/// What turned up during the run.
const LATER: &str = "pinned-later.json";
const FOLDER: &str = "pinned";
/// The directive that piton does itself.
pub(in crate::run) const GIT_CHECKPOINT: &str = "git_checkpoint";
/// More than any file of an item holds.
const MAX_FILE: u64 = 256 * 1024 * 1024;

/// What a run was started with.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Pinned {
    /// What the directive was given.
    pub inputs: Map<String, Value>,
    /// How it is run.
    pub options: RunOptions,
    /// The id of the directive of the run; empty where an older piton has pinned it.
    #[serde(default)]
    root: String,
    /// The directives that can be reached, by the id they are asked for with.
    directives: BTreeMap<String, PinnedDirective>,
    /// The hash of the files of each tool, by the id it is asked for with.
    tools: BTreeMap<String, String>,
    /// The hash of the manifest, where the run has begun again with other items than before.
    #[serde(skip)]
    renewed: Option<String>,
    /// What of it has turned up during the run.
    #[serde(skip)]
    later: Later,
    #[serde(skip)]
    texts: BTreeMap<String, String>,
    #[serde(skip)]
    parsed: BTreeMap<String, Arc<Directive>>,
}

/// Items whose names were not known when the run began, as they were when they turned up.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Later {
    #[serde(default)]
    directives: BTreeMap<String, PinnedDirective>,
    #[serde(default)]
    tools: BTreeMap<String, String>,
    #[serde(skip)]
    is_unsaved: bool,
}

/// How a directive is run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line, by itself")]
pub struct RunOptions {
    /// Whether a change that a tool did not announce is a failure.
    #[serde(default)]
    pub strict: bool,
    /// Whether a lower isolation than the one asked for will do.
    #[serde(default)]
    pub allow_degraded: bool,
    /// Whether a person decides about the changes of each step.
    #[serde(default)]
    pub ask: bool,
    /// The message of its commits, instead of generated ones.
    #[serde(default)]
    pub message: Option<String>,
    /// The program that does its prose steps.
    #[serde(default)]
    pub agent_command: Option<String>,
    /// Whether everything is put back if the run does not succeed.
    #[serde(default)]
    pub atomic: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PinnedDirective {
    /// `id@version`.
    label: String,
    /// The sha256 of its text.
    content: String,
    /// The file it came from, as people know it.
    file: PathBuf,
    /// The signature beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
}

/// A directive that is pinned.
#[derive(Clone, Debug)]
pub(in crate::run) struct Found {
    pub(in crate::run) directive: Arc<Directive>,
    pub(in crate::run) label: String,
    pub(in crate::run) content: String,
    pub(in crate::run) file: PathBuf,
}

impl Pinned {
    /// Pins a directive and everything that it names.
    pub(in crate::run) fn of(ctx: &Context, store: &ItemStore, id: &str) -> Result<Self, RunError> {
        let mut pinned = Self { root: id.to_owned(), ..Self::default() };
        let mut open = VecDeque::from([(id.to_owned(), None)]);
        while let Some((id, named_by)) = open.pop_front() {
            if pinned.directives.contains_key(&id) {
                continue;
            }
            let found = pinned.pin_directive(ctx, store, &id).map_err(|err| placed(err, named_by))?;
            for required in &found.directive.relationships.requires {
                store.find(ItemKind::Directive, required).map_err(|err| RunError::Required {
                    directive: found.label.clone(),
                    required: required.clone(),
                    source: err,
                })?;
            }
            for step in &found.directive.steps {
                let origin = Origin::new(found.file.clone(), step.place);
                match &step.action {
                    StepAction::Tool { item_id, .. } if !item_id.contains('{') => {
                        pinned
                            .pin_tool(store, item_id)
                            .map_err(|err| placed(err, Some((step.name.clone(), origin))))?;
                    }
                    StepAction::Directive { item_id, .. } if !item_id.contains('{') && item_id != GIT_CHECKPOINT => {
                        open.push_back((item_id.clone(), Some((step.name.clone(), origin))));
                    }
                    _ => {}
                }
            }
            for hook in &found.directive.hooks {
                let origin = Origin::new(found.file.clone(), hook.place);
                open.push_back((hook.directive.clone(), Some((format!("hook {}", hook.directive), origin))));
            }
        }
        // A run that would be refused in its last step does not begin.
        let files: BTreeSet<&Path> =
            pinned.tools.keys().flat_map(|id| links(store, id)).map(|item| item.file.as_path()).collect();
        let is_pinned = |item: &&Item| item.kind() == ItemKind::Tool && files.contains(item.file.as_path());
        author::demand(ctx, store.items().iter().filter(is_pinned))?;
        Ok(pinned)
    }

    /// The directive that an id stands for; one that only turns up during a run is pinned then.
    pub(in crate::run) fn find(&mut self, ctx: &Context, store: &ItemStore, id: &str) -> Result<Found, RunError> {
        if let Some(found) = self.found(id) {
            return Ok(found);
        }
        let found = self.pin_directive(ctx, store, id)?;
        self.later.directives.extend(self.directives.get(id).map(|pinned| (id.to_owned(), pinned.clone())));
        self.later.is_unsaved = true;
        Ok(found)
    }

    fn found(&self, id: &str) -> Option<Found> {
        let PinnedDirective { label, content, file, .. } = self.directives.get(id)?.clone();
        Some(Found { directive: Arc::clone(self.parsed.get(&content)?), label, content, file })
    }

    /// The directive of the run, which the run calls by a label, e.g. `release@1.0.0`.
    pub(in crate::run) fn root(&self, label: &str) -> Option<Found> {
        self.found(self.root_id(label)?)
    }

    fn root_id(&self, label: &str) -> Option<&str> {
        if !self.root.is_empty() {
            return Some(&self.root);
        }
        self.directives.iter().find(|(_, pinned)| pinned.label == label).map(|(id, _)| id.as_str())
    }

    /// The directive of a label, as it was when the run began.
    pub(in crate::run) fn labelled(&self, label: &str) -> Option<Found> {
        let (id, _) = self.directives.iter().find(|(_, pinned)| pinned.label == label)?;
        self.found(id)
    }

    /// Every directive that is pinned, by the hash of its text.
    pub(in crate::run) fn directives(&self) -> impl Iterator<Item = (&String, &Arc<Directive>)> {
        self.parsed.iter()
    }

    /// The file of a directive and its text; none for what is built in.
    pub(super) fn text_of(&self, directive: &Arc<Directive>) -> Option<(&Path, &str)> {
        let (content, _) = self.parsed.iter().find(|(_, parsed)| Arc::ptr_eq(parsed, directive))?;
        let file = self.directives.values().find(|pinned| pinned.content == *content)?.file.as_path();
        let text = self.texts.get(content).filter(|text| text.contains('<'))?;
        Some((file, text))
    }

    fn pin_directive(&mut self, ctx: &Context, store: &ItemStore, id: &str) -> Result<Found, RunError> {
        let item = store.find(ItemKind::Directive, id).map_err(RunError::NoDirective)?;
        judge_signature(ctx, item)?;
        let file = store.roots().display(&item.file);
        let wrong = store.findings().filter(|found| found.file == file && found.severity == Severity::Error);
        let findings: Vec<Finding> = wrong.filter(|_| item.layer == Layer::Project).cloned().collect();
        let parsed = item.as_directive().filter(|_| findings.is_empty());
        let parsed = parsed.ok_or_else(|| RunError::InvalidDirective { id: id.to_owned(), findings })?;
        let (text, directive) = if item.layer == Layer::Builtin {
            (format!("{}@{}", parsed.name, parsed.version), parsed.clone())
        } else {
            // What is pinned is what is run, should the file have changed since the store was read.
            let (text, directive) = read_directive(&item.file, &file, id)?;
            if signature::check_directive(&item.file, &text, directive.name.as_str(), &directive.version)
                != item.integrity
            {
                return Err(RunError::ItemChanged(id.to_owned()));
            }
            (text, directive)
        };
        let content = hash_of(text.as_bytes());
        let label = format!("{}@{}", directive.name, directive.version);
        let directive = Arc::new(directive);
        let signature = author::signature_beside(&item.file).ok().flatten().filter(|_| item.layer != Layer::Builtin);
        self.directives.insert(
            id.to_owned(),
            PinnedDirective { label: label.clone(), content: content.clone(), file: file.clone(), signature },
        );
        self.texts.insert(content.clone(), text);
        self.parsed.insert(content.clone(), Arc::clone(&directive));
        Ok(Found { directive, label, content, file })
    }

    /// Refuses directives that may not run any more, for a run that is taken up.
    pub(in crate::run) fn judge_again(&self, ctx: &Context) -> Result<(), RunError> {
        for PinnedDirective { content, file, signature, .. } in self.directives.values() {
            let (Some(directive), Some(text)) = (self.parsed.get(content), self.texts.get(content)) else { continue };
            // What is built in is pinned by its label.
            if parse(file, text).is_some() {
                author::demand_pinned(ctx, file, directive, text, signature.as_deref())?;
            }
        }
        Ok(())
    }

    fn pin_tool(&mut self, store: &ItemStore, id: &str) -> Result<(), RunError> {
        if !self.tools.contains_key(id) {
            let fingerprint = fingerprint(store, id)?;
            self.tools.insert(id.to_owned(), fingerprint);
        }
        Ok(())
    }

    /// Refuses a tool whose files are not those of the beginning.
    pub(in crate::run) fn check_tool(&mut self, store: &ItemStore, id: &str) -> Result<(), RunError> {
        let now = fingerprint(store, id)?;
        match self.tools.get(id) {
            Some(pinned) if *pinned != now => Err(RunError::ItemChanged(id.to_owned())),
            Some(_) => Ok(()),
            None => {
                self.tools.insert(id.to_owned(), now.clone());
                self.later.tools.insert(id.to_owned(), now);
                self.later.is_unsaved = true;
                Ok(())
            }
        }
    }

    /// The files of the project that describe what is pinned.
    pub(in crate::run) fn files(&self, store: &ItemStore) -> Vec<PathBuf> {
        let find = |kind, id: &String| store.find(kind, id).ok().filter(|item| item.layer == Layer::Project);
        let directives = self.directives.keys().filter_map(|id| find(ItemKind::Directive, id));
        let tools = self.tools.keys().filter_map(|id| find(ItemKind::Tool, id));
        directives.chain(tools).map(|item| item.file.clone()).collect()
    }

    /// What is pinned and has no valid stamp: ids, and whose they are.
    pub(in crate::run) fn unsigned<'s>(&self, store: &'s ItemStore) -> Vec<(&'s str, Layer)> {
        let directives = self.directives.keys().filter_map(|id| store.find(ItemKind::Directive, id).ok());
        let all = directives.chain(self.tools.keys().flat_map(|id| links(store, id)));
        let is_unsigned = |item: &&Item| {
            item.layer != Layer::Builtin && !matches!(item.integrity, signature::Integrity::Valid { .. })
        };
        all.filter(is_unsigned).map(|item| (item.id.as_str(), item.layer)).collect()
    }

    /// Writes everything beside the journal; returns the hash of the manifest.
    pub(in crate::run) fn save(&self, runs: &Path, run: RunId) -> io::Result<String> {
        let home = runs.join(run.to_string());
        self.save_texts(&home)?;
        let manifest = serde_json::to_vec_pretty(self).map_err(io::Error::other)?;
        write(&home, &home.join(MANIFEST), &manifest)?;
        Ok(hash_of(&manifest))
    }

    /// Writes down what has turned up since, before it is used: whoever takes the run up uses the same.
    pub(in crate::run) fn save_later(&mut self, runs: &Path, run: RunId) -> io::Result<()> {
        if self.later.is_unsaved {
            let home = runs.join(run.to_string());
            self.save_texts(&home)?;
            let later = serde_json::to_vec_pretty(&self.later).map_err(io::Error::other)?;
            write(&home, &home.join(self.later_file()), &later)?;
            self.later.is_unsaved = false;
        }
        Ok(())
    }

    fn save_texts(&self, home: &Path) -> io::Result<()> {
        let folder = home.join(FOLDER);
        fs::create_dir_all(&folder)?;
        for (content, text) in &self.texts {
            let path = folder.join(content);
            if !path.exists() {
                write(home, &path, text.as_bytes())?;
            }
        }
        Ok(())
    }

    /// Reads what was pinned; `hash` is what the journal says about it.
    pub(in crate::run) fn load(store: &ItemStore, runs: &Path, run: RunId, hash: &str) -> Result<Self, RunError> {
        let home = runs.join(run.to_string());
        let path = home.join(MANIFEST);
        let damaged = |path: &Path| RunError::PinDamaged { run, path: path.to_path_buf() };
        let matches = |path: &Path| read_bytes(path, MAX_FILE).ok().filter(|bytes| hash_of(bytes) == hash);
        let (bytes, renewed) = match matches(&path) {
            Some(bytes) => (bytes, None),
            None => {
                (matches(&home.join(renewal::manifest(hash))).ok_or_else(|| damaged(&path))?, Some(hash.to_owned()))
            }
        };
        let mut pinned: Self = serde_json::from_slice(&bytes).map_err(|_| damaged(&path))?;
        pinned.renewed = renewed;
        let path = home.join(pinned.later_file());
        if path.exists() {
            let bytes = read_bytes(&path, MAX_FILE).map_err(|_| damaged(&path))?;
            let later: Later = serde_json::from_slice(&bytes).map_err(|_| damaged(&path))?;
            // What was known from the beginning stays what it was.
            for (id, directive) in &later.directives {
                pinned.directives.entry(id.clone()).or_insert_with(|| directive.clone());
            }
            for (id, tool) in &later.tools {
                pinned.tools.entry(id.clone()).or_insert_with(|| tool.clone());
            }
            pinned.later = later;
        }
        let folder = home.join(FOLDER);
        for (file, result) in files_below(&folder) {
            result.map_err(|_| damaged(&file))?;
            let content = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let bytes = read_bytes(&file, MAX_TEXT).map_err(|_| damaged(&file))?;
            if hash_of(&bytes) != content {
                return Err(damaged(&file));
            }
            let text = String::from_utf8(bytes).map_err(|_| damaged(&file))?;
            let directive = match parse(&file, &text) {
                Some(directive) => directive,
                None => find_builtin(store, &text).ok_or_else(|| RunError::ItemChanged(text.clone()))?,
            };
            pinned.parsed.insert(content.clone(), Arc::new(directive));
            pinned.texts.insert(content, text);
        }
        Ok(pinned)
    }
}

/// The built-in directive of a label.
fn find_builtin(store: &ItemStore, label: &str) -> Option<Directive> {
    let mut builtin = store.items().iter().filter(|item| item.layer == Layer::Builtin).filter_map(Item::as_directive);
    builtin.find(|it| format!("{}@{}", it.name, it.version) == label).cloned()
}

fn read_directive(file: &Path, shown: &Path, id: &str) -> Result<(String, Directive), RunError> {
    let mut findings = Findings::new(shown, Strength::Lenient);
    let source = SourceFile::load(file, MAX_TEXT, &mut findings);
    let parsed = source.and_then(|source| Some((directive::parse(&source, &mut findings)?, source)));
    let Some((directive, source)) = parsed else {
        return Err(RunError::InvalidDirective { id: id.to_owned(), findings: findings.into_vec() });
    };
    Ok((source.raw().into_owned(), directive))
}

fn parse(file: &Path, text: &str) -> Option<Directive> {
    let mut findings = Findings::new(file, Strength::Lenient);
    let source = SourceFile::decode(file, text.as_bytes().to_vec(), &mut findings)?;
    directive::parse(&source, &mut findings)
}

/// A directive whose text is not what was stamped never runs; one without stamp or author only where that is allowed.
fn judge_signature(ctx: &Context, item: &Item) -> Result<(), RunError> {
    if item.layer != Layer::Builtin {
        check_stamp(item, &ctx.roots())?;
    }
    author::demand(ctx, [item])?;
    Ok(())
}

/// A tool, what runs it, and what it may call with all that belongs to that, where they can be found.
pub(in crate::run) fn links<'s>(store: &'s ItemStore, id: &str) -> Vec<&'s Item> {
    let mut found: Vec<&Item> = Vec::new();
    let mut open: VecDeque<&Item> = store.find(ItemKind::Tool, id).into_iter().collect();
    while let Some(item) = open.pop_front() {
        // Tools may call the same one, and those with mistakes each other.
        if found.iter().any(|known| std::ptr::eq(*known, item)) {
            continue;
        }
        found.push(item);
        let Some(tool) = item.as_tool() else { continue };
        open.extend(chain::resolve(store, tool).into_iter().flat_map(|chain| chain.executors));
        open.extend(tool.manifest.aggregates().into_iter().filter_map(|id| store.find(ItemKind::Tool, id).ok()));
    }
    found
}

/// One hash of all files that make a tool, what runs it, and what it may call.
pub(in crate::run) fn fingerprint(store: &ItemStore, id: &str) -> Result<String, RunError> {
    store.find(ItemKind::Tool, id)?;
    let mut hash = Sha256::new();
    for link in links(store, id).into_iter().filter(|link| link.layer != Layer::Builtin) {
        for file in files_of(link) {
            hash.update(file.to_string_lossy().as_bytes());
            hash.update([0]);
            // A file that cannot be read is found out when the tool is called.
            hash.update(read_bytes(&file, MAX_FILE).unwrap_or_default());
            hash.update([0]);
        }
    }
    Ok(hex(&hash.finalize()))
}

fn files_of(item: &Item) -> Vec<PathBuf> {
    let Some(tool) = item.as_tool() else { return vec![item.file.clone()] };
    match &tool.folder {
        None => std::iter::once(item.file.clone()).chain(validate::entrypoint(tool)).collect(),
        Some(folder) => {
            let is_overlooked = |path: &Path| {
                let inside = path.strip_prefix(folder).unwrap_or(path);
                inside
                    .components()
                    .any(|part| signature::UNSTAMPED_FOLDERS.iter().any(|name| part.as_os_str() == *name))
            };
            files_below(folder).into_iter().map(|(path, _)| path).filter(|path| !is_overlooked(path)).collect()
        }
    }
}

/// Says which step names what cannot be found.
fn placed(err: RunError, named_by: Option<(String, Origin)>) -> RunError {
    match named_by {
        None => err,
        Some((step, origin)) => RunError::InStep { step, origin, source: Box::new(err) },
    }
}

fn hash_of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Writes a file that only its owner reads, whole and on disk when this returns: half a directive would keep its run
/// from being taken up.
fn write(home: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = NamedTempFile::new_in(home)?;
    file.write_all(bytes)?;
    file.as_file().sync_data()?;
    file.persist(path)?;
    Ok(())
}
