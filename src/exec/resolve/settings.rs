//! The settings of a tool, merged along its executor chain.
//!
//! The primitive comes first, the tool last, and later values win: maps are merged, anything else
//! is replaced, and an explicit null removes a setting. Every value records its link and position;
//! read [`Settings::merge`].

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::exec::chain::ExecutorChain;
use crate::item::id::ItemId;
use crate::item::node::{Data, Node};
use crate::item::place::Place;
use crate::item::store::{Item, Layer, Roots};
use crate::item::tool::{LoadedTool, Origin};

/// One link of a chain that provides settings.
#[derive(Clone, Debug)]
pub(super) struct Giver {
    id: ItemId,
    pub(super) layer: Layer,
    /// As shown to users.
    file: PathBuf,
    pub(super) is_tool: bool,
}

/// The link that gave a value, and its position.
#[derive(Clone, Debug)]
pub(super) struct Source<'g> {
    pub(super) giver: &'g Giver,
    file: Option<PathBuf>,
    place: Place,
}

#[derive(Clone, Debug)]
pub(super) struct Setting<'g> {
    pub(super) data: Held<'g>,
    pub(super) source: Source<'g>,
}

#[derive(Clone, Debug)]
pub(super) enum Held<'g> {
    Map(Vec<(String, Setting<'g>)>),
    List(Vec<Setting<'g>>),
    Scalar(Value),
}

#[derive(Debug)]
pub(super) struct Settings<'g> {
    fields: Vec<(String, Setting<'g>)>,
}

impl Source<'_> {
    /// For example `greet, .ai/tools/greet.yaml:4`, or `built in`.
    pub(super) fn describe(&self) -> String {
        match self.giver.layer {
            Layer::Builtin => "built in".to_owned(),
            _ => format!("{}, {}:{}", self.giver.id, self.file().display(), self.place.line),
        }
    }

    pub(super) fn origin(&self) -> Origin {
        Origin::new(self.file().to_path_buf(), self.place)
    }

    fn file(&self) -> &Path {
        self.file.as_deref().unwrap_or(&self.giver.file)
    }
}

impl Giver {
    /// The links of a chain, the tool first.
    pub(super) fn all(tool: &Item, chain: &ExecutorChain<'_>, roots: &Roots) -> Vec<Self> {
        let links = std::iter::once(tool).chain(chain.executors.iter().copied());
        links
            .enumerate()
            .map(|(at, item)| Self {
                id: item.id.clone(),
                layer: item.layer,
                file: roots.display(&item.file),
                is_tool: at == 0,
            })
            .collect()
    }
}

impl<'g> Settings<'g> {
    /// Merges the settings of all links; `givers` and `tools` begin with the tool.
    pub(super) fn merge(givers: &'g [Giver], tools: &[&LoadedTool], roots: &Roots) -> Self {
        let mut fields = Vec::new();
        for (giver, tool) in givers.iter().zip(tools).rev() {
            let Some(config) = tool.node.find("config") else { continue };
            for entry in config.entries().unwrap_or_default() {
                let keys = [format!("config.{}", entry.key), "config".to_owned()];
                let elsewhere = keys.iter().find_map(|key| tool.elsewhere.get(key));
                let place = elsewhere.map(|origin| Place { line: origin.line, column: origin.column });
                let file = elsewhere.map(|origin| roots.display(&origin.file));
                let from = From { giver, file, place };
                put(&mut fields, &entry.key, from.read(&entry.value));
            }
        }
        Self { fields }
    }

    pub(super) fn find(&self, key: &str) -> Option<&Setting<'g>> {
        self.fields.iter().find(|(name, _)| name == key).map(|(_, setting)| setting)
    }
}

impl Setting<'_> {
    /// The type for error messages.
    pub(super) fn type_name(&self) -> &'static str {
        match &self.data {
            Held::Map(_) => "a mapping",
            Held::List(_) => "a list",
            Held::Scalar(Value::String(_)) => "a string",
            Held::Scalar(Value::Bool(_)) => "a boolean",
            Held::Scalar(Value::Number(_)) => "a number",
            Held::Scalar(_) => "nothing",
        }
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match &self.data {
            Held::Scalar(Value::String(text)) => Some(text),
            _ => None,
        }
    }
}

/// The link and the node that an entry comes from.
struct From<'g> {
    giver: &'g Giver,
    file: Option<PathBuf>,
    place: Option<Place>,
}

impl<'g> From<'g> {
    fn read(&self, node: &Node) -> Setting<'g> {
        let data = match &node.data {
            Data::Map(entries) => {
                Held::Map(entries.iter().map(|entry| (entry.key.clone(), self.read(&entry.value))).collect())
            }
            Data::List(elements) => Held::List(elements.iter().map(|element| self.read(element)).collect()),
            _ => Held::Scalar(node.to_json()),
        };
        let place = self.place.unwrap_or(node.place);
        Setting { data, source: Source { giver: self.giver, file: self.file.clone(), place } }
    }
}

/// Sets a value, merging maps; null removes it.
fn put<'g>(fields: &mut Vec<(String, Setting<'g>)>, key: &str, setting: Setting<'g>) {
    let at = fields.iter().position(|(name, _)| name == key);
    if matches!(setting.data, Held::Scalar(Value::Null)) {
        if let Some(at) = at {
            fields.remove(at);
        }
        return;
    }
    let Some((_, present)) = at.and_then(|at| fields.get_mut(at)) else {
        let mut fresh = Vec::new();
        let setting = match setting.data {
            // A nested null has nothing to remove and is not a value.
            Held::Map(entries) => {
                for (key, value) in entries {
                    put(&mut fresh, &key, value);
                }
                Setting { data: Held::Map(fresh), source: setting.source }
            }
            _ => setting,
        };
        fields.push((key.to_owned(), setting));
        return;
    };
    match (&mut present.data, setting.data) {
        (Held::Map(present), Held::Map(entries)) => {
            for (key, value) in entries {
                put(present, &key, value);
            }
        }
        (_, data) => {
            let mut alone = Vec::new();
            put(&mut alone, key, Setting { data, source: setting.source });
            if let Some((_, only)) = alone.pop() {
                *present = only;
            }
        }
    }
}
