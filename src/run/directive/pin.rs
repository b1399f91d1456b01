//! The items of a run, pinned when the run began.
//!
//! The text of every reachable directive is saved beside the journal, and the run uses this text
//! even after a wait of days. Tools run from their place; a tool whose files have changed since the
//! run began is refused. A restarted run uses the current items: [`renewal`].

mod renewal;
mod storage;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::context::Context;
use crate::encoding::hex;
use crate::exec::{chain, check_stamp};
use crate::item::directive::{self, Directive, StepAction};
use crate::item::finding::{Findings, Strength};
use crate::item::params::ParameterText;
use crate::item::signature;
use crate::item::source::{MAX_TEXT, SourceFile, read_bytes};
use crate::item::store::{Item, ItemKind, ItemStore, Layer, Roots};
use crate::item::tool::{Isolation, Origin};
use crate::run::error::RunError;
use crate::trust::author::{self, AuthorError};
use crate::trust::unreviewed::UnreviewedItem;
use crate::values;
use storage::{MAX_FILE, hash_of, parse};

/// The directive that piton implements itself.
pub(in crate::run) const GIT_CHECKPOINT: &str = "git_checkpoint";

/// Whether an id, with or without category, is that of the directive that piton implements itself. A project's copy of
/// it never runs.
pub fn is_git_checkpoint(id: &str) -> bool {
    id.rsplit('/').next() == Some(GIT_CHECKPOINT)
}

/// The inputs of the directive that piton implements itself, checked.
pub fn git_checkpoint_inputs(
    given: Map<String, Value>,
    texts: &[ParameterText],
) -> Result<Map<String, Value>, RunError> {
    let store = ItemStore::open(Roots::default(), Strength::Lenient);
    let item = store.find_in(ItemKind::Directive, GIT_CHECKPOINT, &[Layer::Builtin]);
    let Some(directive) = item.map_err(RunError::NoDirective)?.as_directive() else {
        return Ok(given);
    };
    values::inputs(directive, given, texts).map_err(|problems| RunError::Inputs {
        directive: format!("{}@{}", directive.name, directive.version),
        problems,
    })
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Pinned {
    pub inputs: Map<String, Value>,
    pub options: RunOptions,
    /// The id of the root directive; empty in manifests of older versions.
    #[serde(default)]
    root: String,
    /// The reachable directives, by the id in the reference.
    directives: BTreeMap<String, PinnedDirective>,
    /// The hash of the files of each tool, by the id in the reference.
    tools: BTreeMap<String, String>,
    /// The hash of the manifest, if the run was restarted with other items.
    #[serde(skip)]
    renewed: Option<String>,
    /// Items that were pinned during the run.
    #[serde(skip)]
    later: Later,
    #[serde(skip)]
    texts: BTreeMap<String, String>,
    #[serde(skip)]
    parsed: BTreeMap<String, Arc<Directive>>,
}

/// Items whose names were not known when the run began, pinned at their first use.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Later {
    #[serde(default)]
    directives: BTreeMap<String, PinnedDirective>,
    #[serde(default)]
    tools: BTreeMap<String, String>,
    #[serde(skip)]
    is_unsaved: bool,
}

/// The options of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line, by itself"
)]
pub struct RunOptions {
    /// Whether undeclared changes of a tool are a failure.
    #[serde(default)]
    pub strict: bool,
    /// Whether a lower isolation level than the requested one is acceptable.
    #[serde(default)]
    pub allow_degraded: bool,
    /// Whether a person approves the changes of each step.
    #[serde(default)]
    pub ask: bool,
    /// The commit message, instead of generated ones.
    #[serde(default)]
    pub message: Option<String>,
    /// The agent command for manual steps.
    #[serde(default)]
    pub agent_command: Option<String>,
    /// Its isolation level, instead of that of the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_isolation: Option<Isolation>,
    /// Whether to roll back everything if the run does not succeed.
    #[serde(default)]
    pub atomic: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PinnedDirective {
    /// `id@version`.
    label: String,
    /// The sha256 of its text.
    content: String,
    /// Its file, as shown to people.
    file: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
}

/// A pinned directive.
#[derive(Clone, Debug)]
pub(in crate::run) struct LoadedPin {
    pub(in crate::run) directive: Arc<Directive>,
    pub(in crate::run) label: String,
    pub(in crate::run) content: String,
    pub(in crate::run) file: PathBuf,
}

impl Pinned {
    /// Pins a directive and everything that it references.
    pub(in crate::run) fn of(ctx: &Context, store: &ItemStore, id: &str) -> Result<Self, RunError> {
        let mut pinned = Self {
            root: id.to_owned(),
            ..Self::default()
        };
        let mut open = VecDeque::from([(id.to_owned(), None)]);
        while let Some((id, named_by)) = open.pop_front() {
            if pinned.directives.contains_key(&id) {
                continue;
            }
            let found = pinned
                .pin_directive(ctx, store, &id)
                .map_err(|err| placed(err, named_by))?;
            for required in &found.directive.relationships.requires {
                store
                    .find(ItemKind::Directive, required)
                    .map_err(|err| RunError::Required {
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
                    StepAction::Directive { item_id, .. }
                        if !item_id.contains('{') && !is_git_checkpoint(item_id) =>
                    {
                        open.push_back((item_id.clone(), Some((step.name.clone(), origin))));
                    }
                    _ => {}
                }
            }
            for hook in &found.directive.hooks {
                let origin = Origin::new(found.file.clone(), hook.place);
                open.push_back((
                    hook.directive.clone(),
                    Some((format!("hook {}", hook.directive), origin)),
                ));
            }
        }
        // A run must not begin if its last step would be refused.
        let files: BTreeSet<&Path> = pinned
            .tools
            .keys()
            .flat_map(|id| chain::links(store, id))
            .map(|item| item.file.as_path())
            .collect();
        let is_pinned =
            |item: &&Item| item.kind() == ItemKind::Tool && files.contains(item.file.as_path());
        author::demand(ctx, store.items().iter().filter(is_pinned))?;
        Ok(pinned)
    }

    /// The directive with an id; pins it if it is used for the first time.
    pub(in crate::run) fn find(
        &mut self,
        ctx: &Context,
        store: &ItemStore,
        id: &str,
    ) -> Result<LoadedPin, RunError> {
        if let Some(found) = self.found(id) {
            return Ok(found);
        }
        let found = self.pin_directive(ctx, store, id)?;
        self.later.directives.extend(
            self.directives
                .get(id)
                .map(|pinned| (id.to_owned(), pinned.clone())),
        );
        self.later.is_unsaved = true;
        Ok(found)
    }

    fn found(&self, id: &str) -> Option<LoadedPin> {
        let PinnedDirective {
            label,
            content,
            file,
            ..
        } = self.directives.get(id)?.clone();
        Some(LoadedPin {
            directive: Arc::clone(self.parsed.get(&content)?),
            label,
            content,
            file,
        })
    }

    /// The root directive of the run, by its label, e.g. `release@1.0.0`.
    pub(in crate::run) fn root(&self, label: &str) -> Option<LoadedPin> {
        self.found(self.root_id(label)?)
    }

    fn root_id(&self, label: &str) -> Option<&str> {
        if !self.root.is_empty() {
            return Some(&self.root);
        }
        self.directives
            .iter()
            .find(|(_, pinned)| pinned.label == label)
            .map(|(id, _)| id.as_str())
    }

    /// The directive with this label, as pinned.
    pub(in crate::run) fn labelled(&self, label: &str) -> Option<LoadedPin> {
        let (id, _) = self
            .directives
            .iter()
            .find(|(_, pinned)| pinned.label == label)?;
        self.found(id)
    }

    /// All pinned directives, by the hash of their text.
    pub(in crate::run) fn directives(&self) -> impl Iterator<Item = (&String, &Arc<Directive>)> {
        self.parsed.iter()
    }

    /// The file of a directive and its text; `None` for built-in directives.
    pub(super) fn text_of(&self, directive: &Arc<Directive>) -> Option<(&Path, &str)> {
        let (content, _) = self
            .parsed
            .iter()
            .find(|(_, parsed)| Arc::ptr_eq(parsed, directive))?;
        let file = self
            .directives
            .values()
            .find(|pinned| pinned.content == *content)?
            .file
            .as_path();
        let text = self.texts.get(content).filter(|text| text.contains('<'))?;
        Some((file, text))
    }

    fn pin_directive(
        &mut self,
        ctx: &Context,
        store: &ItemStore,
        id: &str,
    ) -> Result<LoadedPin, RunError> {
        let item = if is_git_checkpoint(id) {
            store.find_in(ItemKind::Directive, GIT_CHECKPOINT, &[Layer::Builtin])
        } else {
            store.find(ItemKind::Directive, id)
        };
        let item = item.map_err(RunError::NoDirective)?;
        judge_signature(ctx, item)?;
        let file = store.roots().display(&item.file);
        let parsed = item.as_directive().filter(|_| item.errors.is_empty());
        let parsed = parsed.ok_or_else(|| RunError::InvalidDirective {
            id: id.to_owned(),
            findings: item.errors.clone(),
        })?;
        if parsed.steps.is_empty() {
            return Err(RunError::NoSteps { id: id.to_owned() });
        }
        let (text, directive) = if item.layer == Layer::Builtin {
            (
                format!("{}@{}", parsed.name, parsed.version),
                parsed.clone(),
            )
        } else {
            // Use the text that was hashed, even if the file has changed since the store was read.
            let (text, directive) = read_directive(&item.file, &file, id)?;
            if signature::check_directive(
                &item.file,
                &text,
                directive.name.as_str(),
                &directive.version,
            ) != item.integrity
            {
                return Err(RunError::ItemChanged(id.to_owned()));
            }
            (text, directive)
        };
        let content = hash_of(text.as_bytes());
        let label = format!("{}@{}", directive.name, directive.version);
        let directive = Arc::new(directive);
        let signature = author::signature_beside(&item.file)
            .ok()
            .flatten()
            .filter(|_| item.layer != Layer::Builtin);
        self.directives.insert(
            id.to_owned(),
            PinnedDirective {
                label: label.clone(),
                content: content.clone(),
                file: file.clone(),
                signature,
            },
        );
        self.texts.insert(content.clone(), text);
        self.parsed.insert(content.clone(), Arc::clone(&directive));
        Ok(LoadedPin {
            directive,
            label,
            content,
            file,
        })
    }

    /// Refuses pinned directives that the policy no longer allows, for a resumed run.
    pub(in crate::run) fn judge_again(&self, ctx: &Context) -> Result<(), RunError> {
        for PinnedDirective {
            content,
            file,
            signature,
            ..
        } in self.directives.values()
        {
            let (Some(directive), Some(text)) = (self.parsed.get(content), self.texts.get(content))
            else {
                continue;
            };
            // Built-in directives are pinned by their label.
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

    /// Refuses a tool whose files have changed since the run began.
    pub(in crate::run) fn check_tool(
        &mut self,
        store: &ItemStore,
        id: &str,
    ) -> Result<(), RunError> {
        let now = fingerprint(store, id)?;
        match self.tools.get(id) {
            Some(pinned) if *pinned == now => Ok(()),
            Some(pinned) if *pinned == fingerprint_with(store, id, FileNames::Absolute)? => Ok(()),
            Some(_) => Err(RunError::ItemChanged(id.to_owned())),
            None => {
                self.tools.insert(id.to_owned(), now.clone());
                self.later.tools.insert(id.to_owned(), now);
                self.later.is_unsaved = true;
                Ok(())
            }
        }
    }

    /// The project files of the pinned items.
    pub(in crate::run) fn files(&self, store: &ItemStore) -> Vec<PathBuf> {
        let find = |kind, id: &String| {
            store
                .find(kind, id)
                .ok()
                .filter(|item| item.layer == Layer::Project)
        };
        let directives = self
            .directives
            .keys()
            .filter_map(|id| find(ItemKind::Directive, id));
        let tools = self.tools.keys().filter_map(|id| find(ItemKind::Tool, id));
        directives
            .chain(tools)
            .map(|item| item.file.clone())
            .collect()
    }

    /// The pinned items without a valid stamp: ids and layers.
    pub(in crate::run) fn unsigned<'s>(&self, store: &'s ItemStore) -> Vec<(&'s str, Layer)> {
        let directives = self
            .directives
            .keys()
            .filter_map(|id| store.find(ItemKind::Directive, id).ok());
        let all = directives.chain(self.tools.keys().flat_map(|id| chain::links(store, id)));
        let is_unsigned = |item: &&Item| {
            item.layer != Layer::Builtin
                && !matches!(item.integrity, signature::Integrity::Valid { .. })
        };
        all.filter(is_unsigned)
            .map(|item| (item.id.as_str(), item.layer))
            .collect()
    }
}

fn read_directive(file: &Path, shown: &Path, id: &str) -> Result<(String, Directive), RunError> {
    let mut findings = Findings::new(shown, Strength::Lenient);
    let source = SourceFile::load(file, MAX_TEXT, &mut findings);
    let parsed =
        source.and_then(|source| Some((directive::parse(&source, &mut findings)?, source)));
    let Some((directive, source)) = parsed else {
        return Err(RunError::InvalidDirective {
            id: id.to_owned(),
            findings: findings.into_vec(),
        });
    };
    Ok((source.raw().into_owned(), directive))
}

/// Refuses a directive whose text does not match its stamp, and, depending on the policy, one
/// without a stamp or a trusted author.
fn judge_signature(ctx: &Context, item: &Item) -> Result<(), RunError> {
    if item.layer != Layer::Builtin {
        check_stamp(item, &ctx.roots())?;
    }
    author::demand(ctx, [item])?;
    Ok(())
}

/// The items that an agent wrote among those that a directive names; empty if it cannot run for
/// another reason, which the run reports.
pub(in crate::run) fn reachable(ctx: &Context, store: &ItemStore, id: &str) -> Vec<UnreviewedItem> {
    let mut refused = Pinned::of(ctx, store, id).err();
    while let Some(RunError::InStep { source, .. }) = refused {
        refused = Some(*source);
    }
    match refused {
        Some(RunError::Author(AuthorError::Unreviewed(items))) => items,
        _ => Vec::new(),
    }
}

/// How a fingerprint names files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileNames {
    /// Relative to the project, which may be moved.
    Shown,
    /// As earlier versions did.
    Absolute,
}

/// One hash of all files of a tool, its runtime chain, and the tools that it may call.
pub(in crate::run) fn fingerprint(store: &ItemStore, id: &str) -> Result<String, RunError> {
    fingerprint_with(store, id, FileNames::Shown)
}

fn fingerprint_with(store: &ItemStore, id: &str, names: FileNames) -> Result<String, RunError> {
    store.find(ItemKind::Tool, id)?;
    let mut hash = Sha256::new();
    for link in chain::links(store, id)
        .into_iter()
        .filter(|link| link.layer != Layer::Builtin)
    {
        for file in link.files() {
            let name = match names {
                FileNames::Shown => store.roots().display(&file),
                FileNames::Absolute => file.clone(),
            };
            hash.update(name.to_string_lossy().as_bytes());
            hash.update([0]);
            // An unreadable file is reported when the tool is called.
            hash.update(read_bytes(&file, MAX_FILE).unwrap_or_default());
            hash.update([0]);
        }
    }
    Ok(hex(&hash.finalize()))
}

/// Adds the step that references a missing item.
fn placed(err: RunError, named_by: Option<(String, Origin)>) -> RunError {
    match named_by {
        None => err,
        Some((step, origin)) => RunError::InStep {
            step,
            origin,
            source: Box::new(err),
        },
    }
}
