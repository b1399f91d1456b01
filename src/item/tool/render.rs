//! Writes any manifest as a plain `tool.yaml`.
//!
//! Reading the output gives an equal manifest again; a property test checks that.

use serde_json::{Map, Value, json};

use super::ToolManifest;
use crate::item::yaml;

impl ToolManifest {
    /// The manifest as YAML in its canonical spelling; empty fields are left out.
    pub fn to_yaml(&self) -> String {
        let mut fields = Map::new();
        let tool_type = if self.tool_type.is_empty() {
            json!(self.kind)
        } else {
            json!(self.tool_type)
        };
        let (parameters, key) = match self.parameter_list() {
            Some(list) => (Value::Array(list), "parameters"),
            None => (self.input_schema.clone(), "inputs"),
        };
        let outputs = self
            .output_schema
            .clone()
            .unwrap_or_else(|| json!(self.outputs));
        let requires = json!(self.requires)
            .as_object()
            .cloned()
            .unwrap_or_default();
        let requires: Map<String, Value> = requires
            .into_iter()
            .filter(|(_, value)| !is_empty(value))
            .collect();
        for (key, value) in [
            ("tool_id", json!(self.tool_id)),
            ("tool_type", tool_type),
            ("version", json!(self.version)),
            ("name", json!(self.name)),
            ("description", json!(self.description)),
            ("category", json!(self.category)),
            ("author", json!(self.author)),
            ("tags", json!(self.tags)),
            ("executor", json!(self.executor)),
            ("config", Value::Object(self.config.clone())),
            ("dependencies", json!(self.dependencies)),
            ("requires", Value::Object(requires)),
            ("mutates_state", json!(self.mutates_state)),
            ("isolation", json!(self.isolation)),
            (key, parameters),
            ("outputs", outputs),
            ("caches", json!(self.caches)),
            ("commands", json!(self.commands)),
        ] {
            if !is_empty(&value) {
                fields.insert(key.to_owned(), value);
            }
        }
        // An empty list means that nothing may be written, unlike a missing one.
        if let Some(writes) = &self.writes {
            fields.insert("writes".to_owned(), json!(writes));
        }
        fields.extend(self.knowledge.clone());
        yaml::to_yaml(&Value::Object(fields))
    }

    /// The parameters as a list, if a list can express everything in the schema.
    fn parameter_list(&self) -> Option<Vec<Value>> {
        let schema = self.input_schema.as_object()?;
        let plain = schema
            .keys()
            .all(|key| ["type", "properties", "required"].contains(&key.as_str()));
        let properties = schema.get("properties")?.as_object()?;
        if !plain || properties.len() != self.parameters.len() {
            return None;
        }
        self.parameters
            .iter()
            .map(|parameter| {
                let mut entry = Map::from_iter([("name".to_owned(), json!(parameter.name))]);
                let property = properties.get(&parameter.name)?.as_object()?;
                property.get("type")?.as_str()?;
                entry.extend(property.clone());
                entry.insert("required".to_owned(), json!(parameter.required));
                Some(Value::Object(entry))
            })
            .collect()
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}
