//! Parameters of a call: from words of a command line, and against what the tool declares.

use serde_json::{Map, Value};

use crate::item::params::{self, Declared, ParamProblem};
use crate::item::tool::ToolManifest;

/// Reads `name=value` words; each value is converted to the type that the tool declares.
pub fn from_words<W: AsRef<str>>(
    manifest: &ToolManifest,
    words: &[W],
) -> Result<Map<String, Value>, Vec<ParamProblem>> {
    Declared::of_tool(manifest).from_words(words)
}

/// Checks parameters and fills in defaults.
pub fn validate(
    manifest: &ToolManifest,
    parameters: Map<String, Value>,
) -> Result<Map<String, Value>, Vec<ParamProblem>> {
    // A schema that says no word about others has its own complaint about them.
    let silent = manifest.input_schema.get("additionalProperties").is_none();
    let declared = Declared::of_tool(manifest);
    let mut problems: Vec<ParamProblem> =
        parameters.keys().filter(|_| silent).filter_map(|name| declared.unknown(name)).collect();
    match params::validate(&manifest.input_schema, &Value::Object(parameters)) {
        Ok(Value::Object(completed)) if problems.is_empty() => Ok(completed),
        Ok(_) => Err(problems),
        Err(more) => {
            problems.extend(more);
            Err(problems)
        }
    }
}
