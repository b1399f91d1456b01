use serde_json::json;

use super::*;
use crate::item::directive::{self, Directive};
use crate::item::finding::{Findings, Strength};
use crate::item::source::SourceFile;
use crate::problem::Explain as _;

mod expression;
mod given;
mod property;
mod template;

/// The data of a scope.
struct World {
    inputs: Map<String, Value>,
    results: Map<String, Value>,
    variables: Option<Map<String, Value>>,
    element: Option<(String, Value)>,
}

impl World {
    fn new(inputs: Value, results: Value) -> Self {
        Self {
            inputs: object(inputs),
            results: object(results),
            variables: None,
            element: None,
        }
    }

    fn with<T>(&self, work: impl FnOnce(&ValueScope<'_>) -> T) -> T {
        let environment = |name: &str| match name {
            "HOME" => Ok("/home/someone".to_owned()),
            "SECRET" => Err(EnvironmentProblem::NotGranted),
            _ => Err(EnvironmentProblem::NotSet),
        };
        work(&ValueScope {
            inputs: &self.inputs,
            element: self.element.as_ref().map(|(name, value)| (&**name, value)),
            results: &self.results,
            run: "01arz3ndek0000000000000001".parse().unwrap(),
            environment: &environment,
            variables: self.variables.as_ref(),
        })
    }

    fn fill(&self, text: &str) -> Result<Value, ValueError> {
        self.with(|scope| fill(text, scope))
    }

    fn holds(&self, text: &str) -> Result<bool, ValueError> {
        self.with(|scope| holds(text, scope))
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no object"),
    }
}

/// The offset, code, message and hint of an error.
fn error_of<T: std::fmt::Debug>(result: Result<T, ValueError>) -> (usize, String) {
    let error = result.unwrap_err();
    let hint = error
        .hint()
        .map(|hint| format!(" ({hint})"))
        .unwrap_or_default();
    (error.offset, format!("{}: {error}{hint}", error.code()))
}

fn read(content: &str) -> Directive {
    let text = format!(
        "```xml\n<directive name=\"d\" version=\"1.0.0\">\n{content}\n<process><step name=\"a\"><action>x</action></step></process>\n</directive>\n```\n"
    );
    let mut findings = Findings::new(std::path::Path::new("d.md"), Strength::Lenient);
    let source = SourceFile {
        path: "d.md".into(),
        text,
        marked: false,
    };
    directive::parse(&source, &mut findings).unwrap()
}
