//! Parameters of a call: converted from texts, and checked against the tool's declaration.

use serde_json::{Map, Value};

use crate::item::params::{self, DeclaredParameters, ParamProblem, ParameterText};
use crate::item::tool::ToolManifest;

/// Converts each text to the type that the tool declares.
pub fn convert(
    manifest: &ToolManifest,
    texts: &[ParameterText],
) -> Result<Map<String, Value>, Vec<ParamProblem>> {
    DeclaredParameters::of_tool(manifest).convert(texts)
}

pub fn validate(
    manifest: &ToolManifest,
    parameters: Map<String, Value>,
) -> Result<Map<String, Value>, Vec<ParamProblem>> {
    // If the schema mentions additional properties, its own check reports them.
    let silent = manifest.input_schema.get("additionalProperties").is_none();
    let declared = DeclaredParameters::of_tool(manifest);
    let mut problems: Vec<ParamProblem> = parameters
        .keys()
        .filter(|_| silent)
        .filter_map(|name| declared.unknown(name))
        .collect();
    match params::validate(&manifest.input_schema, &Value::Object(parameters)) {
        Ok(Value::Object(completed)) if problems.is_empty() => Ok(completed),
        Ok(_) => Err(problems),
        Err(more) => {
            problems.extend(more);
            Err(problems)
        }
    }
}
