//! Fills in defaults.

use serde_json::Value;

use super::MAX_DEPTH;

/// The value with the defaults of its schema filled in.
pub(super) fn fill(schema: &Value, value: &Value) -> Value {
    let mut value = value.clone();
    fill_in(schema, schema, &mut value, MAX_DEPTH);
    value
}

/// `left` bounds the followed references; a survey has ruled out loops.
fn fill_in(root: &Value, schema: &Value, value: &mut Value, left: usize) {
    let (Some(schema), Some(left)) = (schema.as_object(), left.checked_sub(1)) else {
        return;
    };
    if let Some(target) = schema
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|target| target.strip_prefix('#'))
        && let Some(target) = root.pointer(target)
    {
        fill_in(root, target, value, left);
    }
    for part in schema
        .get("allOf")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        fill_in(root, part, value, left);
    }
    match value {
        Value::Object(map) => {
            for (name, property) in schema
                .get("properties")
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
            {
                if let Some(given) = map.get_mut(name) {
                    fill_in(root, property, given, left);
                } else if let Some(default) = property.get("default") {
                    map.insert(name.clone(), default.clone());
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = schema.get("items") {
                for item in list {
                    fill_in(root, items, item, left);
                }
            }
        }
        _ => {}
    }
}
