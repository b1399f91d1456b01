//! The inputs of a directive.

use serde_json::{Map, Value};

use crate::item::directive::Directive;
use crate::item::params::{self, DeclaredParameters, ParamProblem};

/// Merges given inputs with `name=value` words, checks them and fills in defaults.
///
/// Words take precedence: a person typed them, while the others may come from a file.
pub fn inputs(
    directive: &Directive,
    mut given: Map<String, Value>,
    words: &[String],
) -> Result<Map<String, Value>, Vec<ParamProblem>> {
    let declared = DeclaredParameters::of_directive(directive);
    let mut problems: Vec<ParamProblem> = given
        .keys()
        .filter_map(|name| declared.unknown(name))
        .collect();
    match declared.from_words(words) {
        Ok(typed) => given.extend(typed),
        Err(more) => problems.extend(more),
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    match params::validate_inputs(&directive.input_schema, &Value::Object(given))? {
        Value::Object(completed) => Ok(completed),
        _ => Ok(Map::new()),
    }
}
