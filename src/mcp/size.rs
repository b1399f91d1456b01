//! Shortens answers that are too large for a model, and writes the full answer to a file.
//!
//! Clients may silently drop very long lines, and models pay for every token. The answer names what
//! was cut.

use serde_json::{Map, Value};

use super::answer::ToolAnswer;
use super::projects::Projects;
use crate::run::outputs;

/// The size limit of an answer, in bytes.
const MOST: usize = 256 * 1024;
/// The size limit of each field of an answer that is cut, in bytes.
const SHARE: usize = 32 * 1024;

/// Returns the answer, shortened if necessary.
pub(super) fn fit(
    answer: ToolAnswer,
    projects: &Projects,
    tool: &str,
    project: Option<&str>,
) -> ToolAnswer {
    let size = length(&answer.value);
    if size <= MOST {
        return answer;
    }
    let saved = projects
        .project(project)
        .map_err(|failure| failure.problem.message())
        .and_then(|(_, ctx)| {
            outputs::spill(&ctx, tool, &answer.value)
                .map_err(|err| crate::problem::with_causes(&err))
        });
    let Value::Object(fields) = answer.value else {
        return answer;
    };
    let (mut fields, cut) = cut(fields);
    fields.insert("truncated".to_owned(), true.into());
    fields.insert("left_out".to_owned(), cut.into());
    fields.insert("full_size".to_owned(), size.into());
    match saved {
        Ok(path) => fields.insert("full_output_path".to_owned(), path.into()),
        Err(why) => fields.insert("full_output_lost".to_owned(), why.into()),
    };
    ToolAnswer {
        value: Value::Object(fields),
        kind: answer.kind,
    }
}

/// Shortens long fields; also returns their names.
fn cut(fields: Map<String, Value>) -> (Map<String, Value>, Vec<String>) {
    let mut kept = Map::new();
    let mut cut = Vec::new();
    for (name, value) in fields {
        if length(&value) <= SHARE {
            kept.insert(name, value);
            continue;
        }
        match value {
            Value::String(text) => {
                kept.insert(
                    name.clone(),
                    text.get(..text.floor_char_boundary(SHARE))
                        .unwrap_or_default()
                        .into(),
                );
            }
            Value::Array(elements) => {
                let mut left = SHARE;
                let fits = |element: &Value| {
                    left = left.saturating_sub(length(element));
                    left > 0
                };
                kept.insert(
                    name.clone(),
                    elements.into_iter().take_while(fits).collect(),
                );
            }
            // Drop it: part of an object would look complete.
            _ => {}
        }
        cut.push(name);
    }
    (kept, cut)
}

/// The size of a value as JSON, computed without building the text.
fn length(value: &Value) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // Counting cannot fail.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_texts_and_lists_keep_their_beginning_and_objects_go() {
        let long = "ä".repeat(SHARE);
        let list: Vec<u32> = (0..100_000).collect();
        let object: Map<String, Value> = (0..10_000).map(|n| (n.to_string(), n.into())).collect();
        let Value::Object(fields) = json!({"a": 1, "text": long, "list": list, "object": object})
        else {
            unreachable!()
        };
        let (kept, cut) = cut(fields);
        assert_eq!(cut, ["text", "list", "object"]);
        assert_eq!(kept["a"], 1);
        assert!(
            kept["text"]
                .as_str()
                .is_some_and(|text| text.len() <= SHARE && text.len() > SHARE - 4)
        );
        assert!(
            kept["list"]
                .as_array()
                .is_some_and(|list| list.len() > 1000 && list[0] == 0)
        );
        assert!(!kept.contains_key("object"));
    }
}
