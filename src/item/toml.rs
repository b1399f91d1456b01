//! Reads and sets one member of a hand-written TOML file.
//!
//! The counterpart of [`super::json::member`]: comments, order and everything except the member
//! stay as they are written.

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike};

use super::json::member::{MemberError, MemberReplacement};

/// Finds a member of a section; `None` in an empty file.
pub fn find(text: &str, section: &str, name: &str) -> Result<Option<Value>, MemberError> {
    let document = parse(text)?;
    let Some(found) = document.get(section) else {
        return Ok(None);
    };
    let members = table(found, section)?;
    Ok(members.get(name).map(value_of))
}

/// Sets keys of a member and keeps its others. A member that is not a table is replaced.
pub fn set(
    text: &str,
    section: &str,
    name: &str,
    fields: &Map<String, Value>,
    how: MemberReplacement,
) -> Result<String, MemberError> {
    let mut document = parse(text)?;
    if document.get(section).is_none() {
        let mut members = Table::new();
        // Without its own header, as people write it.
        members.set_implicit(true);
        document.insert(section, Item::Table(members));
    }
    let found = document
        .get_mut(section)
        .ok_or_else(|| MemberError::NotAnObject(format!("`{section}`")))?;
    let is_inline = found.is_inline_table();
    let members = found
        .as_table_like_mut()
        .ok_or_else(|| MemberError::NotAnObject(format!("`{section}`")))?;
    let kept = members
        .get_mut(name)
        .and_then(Item::as_table_like_mut)
        .filter(|_| how == MemberReplacement::Fields);
    if let Some(kept) = kept {
        put(kept, fields);
    } else if is_inline {
        let mut member = InlineTable::new();
        put(&mut member, fields);
        members.insert(name, Item::Value(member.into()));
    } else {
        let mut member = Table::new();
        put(&mut member, fields);
        members.insert(name, Item::Table(member));
    }
    Ok(document.to_string())
}

/// The member as a separate file.
pub fn snippet(section: &str, name: &str, fields: &Map<String, Value>) -> String {
    set("", section, name, fields, MemberReplacement::Whole).unwrap_or_default()
}

fn parse(text: &str) -> Result<DocumentMut, MemberError> {
    text.parse().map_err(|err: toml_edit::TomlError| {
        let line = err
            .span()
            .map(|span| 1 + text.get(..span.start).unwrap_or(text).matches('\n').count());
        let place = line
            .map(|line| format!(" on line {line}"))
            .unwrap_or_default();
        MemberError::Syntax(format!(
            "{}{place}",
            err.message().lines().next().unwrap_or("it cannot be read")
        ))
    })
}

fn table<'t>(item: &'t Item, name: &str) -> Result<&'t dyn TableLike, MemberError> {
    item.as_table_like()
        .ok_or_else(|| MemberError::NotAnObject(format!("`{name}`")))
}

fn put(table: &mut dyn TableLike, fields: &Map<String, Value>) {
    for (key, value) in fields {
        match table.get_mut(key) {
            // The key keeps its position and its comments.
            Some(old) => *old = Item::Value(written(value)),
            None => {
                table.insert(key, Item::Value(written(value)));
            }
        }
    }
}

fn written(value: &Value) -> toml_edit::Value {
    match value {
        Value::Bool(it) => (*it).into(),
        Value::Number(it) => it
            .as_i64()
            .map_or_else(|| it.as_f64().unwrap_or_default().into(), Into::into),
        Value::String(it) => it.as_str().into(),
        Value::Array(it) => it.iter().map(written).collect::<Array>().into(),
        Value::Object(it) => it
            .iter()
            .map(|(key, value)| (key.as_str(), written(value)))
            .collect::<InlineTable>()
            .into(),
        // TOML has no null; piton never writes one.
        Value::Null => "".into(),
    }
}

fn value_of(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => plain(value),
        Item::Table(table) => table
            .iter()
            .map(|(key, item)| (key.to_owned(), value_of(item)))
            .collect(),
        Item::ArrayOfTables(tables) => tables
            .iter()
            .map(|table| {
                table
                    .iter()
                    .map(|(key, item)| (key.to_owned(), value_of(item)))
                    .collect::<Value>()
            })
            .collect(),
    }
}

fn plain(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(it) => Value::from(it.value().as_str()),
        toml_edit::Value::Integer(it) => Value::from(*it.value()),
        toml_edit::Value::Float(it) => Value::from(*it.value()),
        toml_edit::Value::Boolean(it) => Value::from(*it.value()),
        toml_edit::Value::Datetime(it) => Value::from(it.value().to_string()),
        toml_edit::Value::Array(it) => it.iter().map(plain).collect(),
        toml_edit::Value::InlineTable(it) => it
            .iter()
            .map(|(key, value)| (key.to_owned(), plain(value)))
            .collect(),
    }
}
