//! The settings of a tool, merged along its executor chain.
//!
//! The primitive comes first, the tool last, and later values win: maps are merged, anything else
//! is replaced, and an explicit null removes a setting. Every value records its link and position;
//! read [`ToolSettings::merge`].

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::ResolveError;
use crate::exec::chain::ExecutorChain;
use crate::item::id::ItemId;
use crate::item::node::{Data, Node};
use crate::item::position::Position;
use crate::item::store::{Item, Layer, Roots};
use crate::item::tool::{LoadedTool, Origin};

/// One link of a chain that provides settings.
#[derive(Clone, Debug)]
pub(super) struct SettingsLink {
    id: ItemId,
    pub(super) layer: Layer,
    /// As shown to users.
    file: PathBuf,
    pub(super) is_tool: bool,
}

/// The link that gave a value, and its position.
#[derive(Clone, Debug)]
pub(super) struct SettingOrigin<'g> {
    pub(super) link: &'g SettingsLink,
    file: Option<PathBuf>,
    place: Position,
}

#[derive(Clone, Debug)]
pub(super) struct ToolSetting<'g> {
    pub(super) data: SettingData<'g>,
    pub(super) source: SettingOrigin<'g>,
}

#[derive(Clone, Debug)]
pub(super) enum SettingData<'g> {
    Map(Vec<(String, ToolSetting<'g>)>),
    List(Vec<ToolSetting<'g>>),
    Scalar(Value),
}

#[derive(Debug)]
pub(super) struct ToolSettings<'g> {
    fields: Vec<(String, ToolSetting<'g>)>,
}

impl SettingOrigin<'_> {
    /// For example `greet, .ai/tools/greet.yaml:4`, or `built in`.
    pub(super) fn describe(&self) -> String {
        match self.link.layer {
            Layer::Builtin => "built in".to_owned(),
            _ => format!(
                "{}, {}:{}",
                self.link.id,
                self.file().display(),
                self.place.line
            ),
        }
    }

    pub(super) fn origin(&self) -> Origin {
        Origin::new(self.file().to_path_buf(), self.place)
    }

    fn file(&self) -> &Path {
        self.file.as_deref().unwrap_or(&self.link.file)
    }
}

impl SettingsLink {
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

impl<'g> ToolSettings<'g> {
    /// Merges the settings of all links; `links` and `tools` begin with the tool.
    pub(super) fn merge(links: &'g [SettingsLink], tools: &[&LoadedTool], roots: &Roots) -> Self {
        let mut fields = Vec::new();
        for (link, tool) in links.iter().zip(tools).rev() {
            let Some(config) = tool.node.find("config") else {
                continue;
            };
            for entry in config.entries().unwrap_or_default() {
                let keys = [format!("config.{}", entry.key), "config".to_owned()];
                let elsewhere = keys.iter().find_map(|key| tool.elsewhere.get(key));
                let place = elsewhere.map(|origin| Position {
                    line: origin.line,
                    column: origin.column,
                });
                let file = elsewhere.map(|origin| roots.display(&origin.file));
                let reader = SettingReader { link, file, place };
                put(&mut fields, &entry.key, reader.read(&entry.value));
            }
        }
        Self { fields }
    }

    /// The link and place of any setting, for texts that are no settings themselves.
    pub(super) fn any_source(&self) -> Option<&SettingOrigin<'g>> {
        self.fields.first().map(|(_, setting)| &setting.source)
    }

    pub(super) fn find(&self, key: &str) -> Option<&ToolSetting<'g>> {
        self.fields
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, setting)| setting)
    }
}

impl ToolSetting<'_> {
    /// The error for a wrong value of this setting.
    pub(super) fn error(
        &self,
        field: impl Into<String>,
        reason: impl Into<String>,
        hint: impl Into<String>,
    ) -> ResolveError {
        ResolveError::Setting {
            field: field.into(),
            reason: reason.into(),
            hint: hint.into(),
            at: Some(Box::new(self.source.origin())),
        }
    }

    /// The type for error messages.
    pub(super) fn type_name(&self) -> &'static str {
        match &self.data {
            SettingData::Map(_) => "a mapping",
            SettingData::List(_) => "a list",
            SettingData::Scalar(Value::String(_)) => "a string",
            SettingData::Scalar(Value::Bool(_)) => "a boolean",
            SettingData::Scalar(Value::Number(_)) => "a number",
            SettingData::Scalar(_) => "nothing",
        }
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match &self.data {
            SettingData::Scalar(Value::String(text)) => Some(text),
            _ => None,
        }
    }
}

/// The link and the node that an entry comes from.
struct SettingReader<'g> {
    link: &'g SettingsLink,
    file: Option<PathBuf>,
    place: Option<Position>,
}

impl<'g> SettingReader<'g> {
    fn read(&self, node: &Node) -> ToolSetting<'g> {
        let data = match &node.data {
            Data::Map(entries) => SettingData::Map(
                entries
                    .iter()
                    .map(|entry| (entry.key.clone(), self.read(&entry.value)))
                    .collect(),
            ),
            Data::List(elements) => {
                SettingData::List(elements.iter().map(|element| self.read(element)).collect())
            }
            _ => SettingData::Scalar(node.to_json()),
        };
        let place = self.place.unwrap_or(node.place);
        ToolSetting {
            data,
            source: SettingOrigin {
                link: self.link,
                file: self.file.clone(),
                place,
            },
        }
    }
}

/// Sets a value, merging maps; null removes it.
fn put<'g>(fields: &mut Vec<(String, ToolSetting<'g>)>, key: &str, setting: ToolSetting<'g>) {
    let at = fields.iter().position(|(name, _)| name == key);
    if matches!(setting.data, SettingData::Scalar(Value::Null)) {
        if let Some(at) = at {
            fields.remove(at);
        }
        return;
    }
    let Some((_, present)) = at.and_then(|at| fields.get_mut(at)) else {
        let mut fresh = Vec::new();
        let setting = match setting.data {
            // A nested null has nothing to remove and is not a value.
            SettingData::Map(entries) => {
                for (key, value) in entries {
                    put(&mut fresh, &key, value);
                }
                ToolSetting {
                    data: SettingData::Map(fresh),
                    source: setting.source,
                }
            }
            _ => setting,
        };
        fields.push((key.to_owned(), setting));
        return;
    };
    match (&mut present.data, setting.data) {
        (SettingData::Map(present), SettingData::Map(entries)) => {
            for (key, value) in entries {
                put(present, &key, value);
            }
        }
        (_, data) => {
            let mut alone = Vec::new();
            put(
                &mut alone,
                key,
                ToolSetting {
                    data,
                    source: setting.source,
                },
            );
            if let Some((_, only)) = alone.pop() {
                *present = only;
            }
        }
    }
}
