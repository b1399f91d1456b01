//! Parameters of a call: from words of a command line, and against what the tool declares.

use serde_json::{Map, Value};

use crate::item::params::{self, ParamProblem};
use crate::item::tool::ToolManifest;
use crate::item::wording::{did_you_mean, nearest, shown};

/// Reads `name=value` words; each value is converted to the type that the tool declares.
pub fn from_words<W: AsRef<str>>(
    manifest: &ToolManifest,
    words: &[W],
) -> Result<Map<String, Value>, Vec<ParamProblem>> {
    let mut parameters = Map::new();
    let mut problems = Vec::new();
    for word in words.iter().map(AsRef::as_ref) {
        let Some((name, text)) = word.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            problems.push(problem(word, format!("`{}` is not `name=value`", shown(word)), None));
            continue;
        };
        if parameters.contains_key(name) {
            problems.push(problem(name, format!("parameter `{}` is given twice", shown(name)), None));
            continue;
        }
        let declared = manifest.parameters.iter().find(|parameter| parameter.name == name);
        let kind = match declared {
            Some(parameter) => parameter.kind.as_str(),
            None if name == "timeout" => "number",
            None => {
                problems.extend(unknown(manifest, name));
                "string"
            }
        };
        match params::convert(text, kind) {
            Ok(value) => {
                parameters.insert(name.to_owned(), value);
            }
            Err(err) => {
                let message = format!("parameter `{}`: `{}` is not {}", shown(name), shown(&err.text), err.expected);
                problems.push(problem(name, message, None));
            }
        }
    }
    if problems.is_empty() { Ok(parameters) } else { Err(problems) }
}

/// Checks parameters and fills in defaults.
pub fn validate(
    manifest: &ToolManifest,
    parameters: Map<String, Value>,
) -> Result<Map<String, Value>, Vec<ParamProblem>> {
    // A schema that says no word about others has its own complaint about them.
    let silent = manifest.input_schema.get("additionalProperties").is_none();
    let mut problems: Vec<ParamProblem> =
        parameters.keys().filter(|_| silent).filter_map(|name| unknown(manifest, name)).collect();
    match params::validate(&manifest.input_schema, &Value::Object(parameters)) {
        Ok(Value::Object(completed)) if problems.is_empty() => Ok(completed),
        Ok(_) => Err(problems),
        Err(more) => {
            problems.extend(more);
            Err(problems)
        }
    }
}

/// What is wrong with a parameter that a tool does not declare; nothing when it takes any.
fn unknown(manifest: &ToolManifest, name: &str) -> Option<ParamProblem> {
    const OPEN: [&str; 8] = ["patternProperties", "allOf", "anyOf", "oneOf", "$ref", "if", "dependentSchemas", "not"];
    let declared = manifest.parameters.iter().any(|parameter| parameter.name == name);
    let schema = &manifest.input_schema;
    let takes_any = match schema.get("additionalProperties") {
        Some(Value::Bool(takes)) => *takes,
        Some(_) => true,
        // A tool that declares nothing at all has just not said what it takes.
        None => manifest.parameters.is_empty() || OPEN.iter().any(|key| schema.get(key).is_some()),
    };
    if declared || takes_any {
        return None;
    }
    let known = manifest.parameters.iter().map(|parameter| parameter.name.as_str());
    let names: Vec<String> = known.clone().map(|name| format!("`{}`", shown(name))).collect();
    let otherwise =
        if names.is_empty() { "it takes none".to_owned() } else { format!("it takes {}", names.join(", ")) };
    let suggestion = did_you_mean(nearest(name, known), &otherwise);
    Some(problem(name, format!("unknown parameter `{}`", shown(name)), Some(suggestion)))
}

fn problem(name: &str, message: String, suggestion: Option<String>) -> ParamProblem {
    ParamProblem { pointer: format!("/{}", name.replace('~', "~0").replace('/', "~1")), message, suggestion }
}
