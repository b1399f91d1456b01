//! Reads and sets one member of a hand-written JSON file.
//!
//! Comments and trailing commas are allowed, as in editor settings, and everything except the
//! member stays as it is written. A section is the object that contains such members, e.g.
//! `mcpServers`.

#[cfg(test)]
mod tests;

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::{Map, Value};

/// What settings files of editors may contain beyond JSON.
const WITH_COMMENTS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    ..super::STRICT
};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    #[error("{0}")]
    Syntax(String),
    #[error("{0} is not an object")]
    NotAnObject(String),
    /// A duplicate key: it is unclear which one counts.
    #[error("the key `{0}` is there twice")]
    Twice(String),
}

/// Finds a member of a section; `None` in an empty file.
pub fn find(text: &str, section: &str, name: &str) -> Result<Option<Value>, MemberError> {
    let Some(object) = open(text)?.1 else {
        return Ok(None);
    };
    let Some(members) = section_of(&object, section)? else {
        return Ok(None);
    };
    require_once(&members, name)?;
    Ok(members
        .get(name)
        .and_then(|member| member.value())
        .and_then(|value| value.to_serde_value()))
}

/// Sets keys of a member and keeps its others. A member that is not an object is replaced.
pub fn set(
    text: &str,
    section: &str,
    name: &str,
    fields: &Map<String, Value>,
    how: MemberReplacement,
) -> Result<String, MemberError> {
    let (root, object) = open(text)?;
    let object = object.unwrap_or_else(|| root.object_value_or_set());
    let members = match section_of(&object, section)? {
        Some(members) => members,
        None => object.object_value_or_set(section),
    };
    require_once(&members, name)?;
    match members.get(name) {
        None => {
            members.append(name, object_of(fields));
        }
        Some(member) => match member
            .object_value()
            .filter(|_| how == MemberReplacement::Fields)
        {
            None => member.set_value(object_of(fields)),
            Some(old) => {
                for (key, value) in fields {
                    require_once(&old, key)?;
                    match old.get(key) {
                        Some(field) => field.set_value(written(value)),
                        None => {
                            old.append(key, written(value));
                        }
                    }
                }
            }
        },
    }
    let mut text = root.to_string();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberReplacement {
    Fields,
    Whole,
}

/// The document and its root object; `None` for an empty one.
fn open(text: &str) -> Result<(CstRootNode, Option<CstObject>), MemberError> {
    let root = CstRootNode::parse(text, &WITH_COMMENTS)
        .map_err(|err| MemberError::Syntax(lower_first(&err.to_string())))?;
    let object = match root.value() {
        None => None,
        Some(value) => Some(
            value
                .as_object()
                .ok_or_else(|| MemberError::NotAnObject("what the file holds".to_owned()))?,
        ),
    };
    Ok((root, object))
}

fn section_of(object: &CstObject, section: &str) -> Result<Option<CstObject>, MemberError> {
    require_once(object, section)?;
    let Some(found) = object.get(section) else {
        return Ok(None);
    };
    found
        .object_value()
        .map(Some)
        .ok_or_else(|| MemberError::NotAnObject(format!("`{section}`")))
}

fn require_once(object: &CstObject, key: &str) -> Result<(), MemberError> {
    let same = object
        .properties()
        .iter()
        .filter(|it| it.decoded_name().as_deref() == Some(key))
        .count();
    if same > 1 {
        Err(MemberError::Twice(key.to_owned()))
    } else {
        Ok(())
    }
}

fn object_of(fields: &Map<String, Value>) -> CstInputValue {
    CstInputValue::Object(
        fields
            .iter()
            .map(|(key, value)| (key.clone(), written(value)))
            .collect(),
    )
}

fn written(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(it) => CstInputValue::Bool(*it),
        Value::Number(it) => CstInputValue::Number(it.to_string()),
        Value::String(it) => CstInputValue::String(it.clone()),
        Value::Array(it) => CstInputValue::Array(it.iter().map(written).collect()),
        Value::Object(it) => object_of(it),
    }
}

/// Our messages begin in lower case.
fn lower_first(text: &str) -> String {
    let mut rest = text.chars();
    rest.next()
        .map(|first| first.to_lowercase().chain(rest).collect())
        .unwrap_or_default()
}
