//! HTTP calls: method, URL and authentication.

use serde_json::Value;

use crate::item::finding::{Findings, Severity, Strength};
use crate::item::json_path::JsonPath;
use crate::item::node::Node;
use crate::item::tool::LoadedTool;
use crate::item::validate::{place_of, required};
use crate::item::wording::shown;
use crate::problem::Code;

const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

pub(super) fn check(tool: &LoadedTool, findings: &mut Findings) {
    let config = &tool.manifest.config;
    match config.get("method").and_then(Value::as_str) {
        None => required(
            tool,
            "config.method",
            "API tools must specify config.method",
            findings,
        ),
        Some(method) if METHODS.contains(&method) => {}
        Some(method) => {
            let place = place_of(&tool.node, "config.method");
            findings
                .add(
                    Code::InvalidEnumValue,
                    place,
                    "config.method",
                    format!("Invalid HTTP method: {method}"),
                )
                .suggest(format!("use one of {}", METHODS.join(", ")));
        }
    }
    match config.get("url").and_then(Value::as_str) {
        None => required(
            tool,
            "config.url",
            "API tools must specify config.url_template or config.url",
            findings,
        ),
        Some(url) => url_template(tool, url, findings),
    }
    auth(tool, findings);
    transform(tool, findings);
}

/// Checks the `JSONPath` that selects the result.
fn transform(tool: &LoadedTool, findings: &mut Findings) {
    let Some(value) = tool
        .node
        .find("config")
        .and_then(|config| config.find("response_transform"))
    else {
        return;
    };
    let path = "config.response_transform";
    let example = "write a JSONPath, e.g. `$.items[0].name`";
    match value.as_text().map(|text| (text, JsonPath::parse(text))) {
        Some((_, Ok(_))) => {}
        None if value.is_null() => {}
        None => {
            findings
                .add(
                    Code::InvalidType,
                    value.place,
                    path,
                    format!("{path} must be a string"),
                )
                .suggest(example);
        }
        Some((text, Err(reason))) => {
            let message = format!("'{}' is not a JSONPath: {reason}", shown(text));
            findings
                .add(Code::InvalidExpression, value.place, path, message)
                .suggest(example);
        }
    }
}

fn auth(tool: &LoadedTool, findings: &mut Findings) {
    let Some(auth) = tool
        .node
        .find("config")
        .and_then(|config| config.find("auth"))
    else {
        return;
    };
    match auth.find("type").and_then(Node::as_text) {
        Some("bearer" | "basic" | "header" | "api_key") => {}
        Some(other) => {
            findings
                .add(
                    Code::InvalidEnumValue,
                    auth.place,
                    "config.auth.type",
                    format!("unknown authentication '{other}'"),
                )
                .suggest("use one of bearer, basic, header, api_key");
        }
        None => {
            findings
                .add(
                    Code::MissingRequiredField,
                    auth.place,
                    "config.auth.type",
                    "config.auth.type is required",
                )
                .suggest("add `type:` with one of bearer, basic, header, api_key");
        }
    }
    if auth.find("env_var").is_none() {
        findings
            .add(
                Code::MissingRequiredField,
                auth.place,
                "config.auth.env_var",
                "config.auth.env_var is required",
            )
            .suggest("name the environment variable that holds the secret");
    }
}

/// Checks that the URL is valid once its placeholders are filled, and that each placeholder is a
/// parameter.
fn url_template(tool: &LoadedTool, url: &str, findings: &mut Findings) {
    let place = place_of(&tool.node, "config.url");
    let mut filled = String::with_capacity(url.len());
    let mut rest = url;
    while let Some(open) = rest.find('{') {
        let (before, from_brace) = rest.split_at(open);
        let Some(close) = from_brace.find('}') else {
            break;
        };
        let name = &from_brace[1..close];
        let from_environment = before.ends_with('$');
        filled.push_str(if from_environment {
            &before[..before.len() - 1]
        } else {
            before
        });
        filled.push('1');
        if !from_environment
            && !tool
                .manifest
                .parameters
                .iter()
                .any(|parameter| parameter.name == name)
        {
            findings
                .add(
                    Code::UnknownTemplateVariable,
                    place,
                    "config.url",
                    format!(
                        "template variable '{}' is not a parameter",
                        name.escape_debug()
                    ),
                )
                .suggest(format!(
                    "add it to `parameters`, or use `${{{}}}` for an environment variable",
                    name.escape_debug()
                ));
        }
        rest = &from_brace[close + 1..];
    }
    filled.push_str(rest);
    // A host that comes from the environment cannot be checked here.
    if url.starts_with("${") {
        return;
    }
    // A policy can only judge a host that the tool names.
    if filled == "1" {
        let is_lenient = findings.strength() == Strength::Lenient;
        let finding = findings.add(
            Code::InvalidUrl,
            place,
            "config.url",
            "a parameter cannot choose the host of a request, so the tool cannot be called",
        );
        finding.suggest("write the host, e.g. `https://api.example.com/{path}`, or `${VARIABLE}`");
        if is_lenient {
            finding.with_severity(Severity::Warning);
        }
        return;
    }
    let example = "write it as a whole, e.g. `https://api.example.com/v1/items`";
    let (problem, suggestion) = match url::Url::parse(&filled) {
        Err(err) => (err.to_string(), example),
        Ok(parsed) if !matches!(parsed.scheme(), "http" | "https") => (
            format!("scheme '{}' is not http or https", parsed.scheme()),
            example,
        ),
        Ok(parsed) if !parsed.username().is_empty() || parsed.password().is_some() => (
            "credentials do not belong in a URL".to_owned(),
            "remove them; `config.auth` names the environment variable that holds the secret",
        ),
        Ok(_) => return,
    };
    findings
        .add(
            Code::InvalidUrl,
            place,
            "config.url",
            format!("invalid URL: {problem}"),
        )
        .suggest(suggestion);
}
