//! One member of a JSON file that people write by hand, looked at and set.
//!
//! Comments and commas at the end are allowed here, as editors allow them in their settings, and everything but
//! the member stays as it is written. A section is the object that holds such members, e.g. `mcpServers`.

#[cfg(test)]
mod tests;

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::{Map, Value};

/// What settings files of editors may hold beside JSON.
const WITH_COMMENTS: ParseOptions = ParseOptions { allow_comments: true, allow_trailing_commas: true, ..super::STRICT };

/// Why a file cannot be looked into, or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// It is not JSON, or not TOML.
    #[error("{0}")]
    Syntax(String),
    /// Something is no object that has to be one.
    #[error("{0} is not an object")]
    NotAnObject(String),
    /// A key is there twice, so that nobody can tell which one counts.
    #[error("the key `{0}` is there twice")]
    Twice(String),
}

/// Finds a member of a section; a file without text has none.
pub fn find(text: &str, section: &str, name: &str) -> Result<Option<Value>, MemberError> {
    let Some(object) = open(text)?.1 else { return Ok(None) };
    let Some(members) = section_of(&object, section)? else { return Ok(None) };
    require_once(&members, name)?;
    Ok(members.get(name).and_then(|member| member.value()).and_then(|value| value.to_serde_value()))
}

/// Sets keys of a member and keeps its others; a member that is no object, and `Whole` ones, are replaced.
pub fn set(
    text: &str,
    section: &str,
    name: &str,
    fields: &Map<String, Value>,
    how: Replacement,
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
        Some(member) => match member.object_value().filter(|_| how == Replacement::Fields) {
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

/// How much of a member that is there already is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// The keys that are set.
    Fields,
    /// Everything.
    Whole,
}

/// The document and the object that it is; nothing where there is no value at all.
fn open(text: &str) -> Result<(CstRootNode, Option<CstObject>), MemberError> {
    let root =
        CstRootNode::parse(text, &WITH_COMMENTS).map_err(|err| MemberError::Syntax(lower_first(&err.to_string())))?;
    let object = match root.value() {
        None => None,
        Some(value) => {
            Some(value.as_object().ok_or_else(|| MemberError::NotAnObject("what the file holds".to_owned()))?)
        }
    };
    Ok((root, object))
}

fn section_of(object: &CstObject, section: &str) -> Result<Option<CstObject>, MemberError> {
    require_once(object, section)?;
    let Some(found) = object.get(section) else { return Ok(None) };
    found.object_value().map(Some).ok_or_else(|| MemberError::NotAnObject(format!("`{section}`")))
}

fn require_once(object: &CstObject, key: &str) -> Result<(), MemberError> {
    let same = object.properties().iter().filter(|it| it.decoded_name().as_deref() == Some(key)).count();
    if same > 1 { Err(MemberError::Twice(key.to_owned())) } else { Ok(()) }
}

fn object_of(fields: &Map<String, Value>) -> CstInputValue {
    CstInputValue::Object(fields.iter().map(|(key, value)| (key.clone(), written(value))).collect())
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

/// Messages begin in lower case here.
fn lower_first(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map(|first| first.to_lowercase().chain(rest).collect()).unwrap_or_default()
}
