//! Turns settings into an HTTP request.
//!
//! Values from the caller can fill a request but never change its shape: [`address`] keeps
//! parameters inside their path segment, host label or query value, [`fields`] keeps them on their
//! line, and [`body`] inside their value. Parameters that no setting names become the body, or the
//! query for a request without a body.

mod address;
mod body;
mod fields;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::environment::CallVariables;
use super::error::ResolveError;
use super::placeholder::{Used, Vocabulary};
use super::settings::{SettingData, ToolSetting};
use super::{ResolveContext, ResolvedAction, bounds, origin, script};
use crate::exec::invocation::{Action, Endpoints, Http, MaskedText};
use crate::exec::web::NetworkReach;
use crate::item::json_path::JsonPath;
use crate::item::tool::{LoadedTool, ToolKind};
use crate::item::wording::{did_you_mean, nearest, shown};
use body::ResolvedBody;
use fields::Headers;

/// The allowed methods.
const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
/// The default number of retries.
const RETRIES: u32 = 2;
const MOST_RETRIES: u64 = 10;
/// The limit for a response, in bytes; also the default. A larger result would not fit through the
/// channel.
const MAX_SIZE: u64 = 10 * 1024 * 1024;

/// State shared by the parts of a request while it is resolved.
struct RequestBuilder<'m, 'c> {
    context: &'m ResolveContext<'c>,
    words: Vocabulary<'m>,
    used: Used,
    /// Secrets in the form in which they are sent.
    encoded_secrets: Vec<String>,
}

/// For remote MCP servers: the headers including `auth`, and whether private addresses are allowed.
pub(super) fn manners(
    context: &ResolveContext<'_>,
    owner: &LoadedTool,
    used: &mut Used,
    origins: &mut BTreeMap<String, String>,
) -> Result<(Vec<(String, MaskedText)>, bool), ResolveError> {
    let words = context.vocabulary(owner, None)?;
    let mut maker = RequestBuilder {
        context,
        words,
        used: Used::default(),
        encoded_secrets: Vec::new(),
    };
    let mut headers = Headers::default();
    maker.headers(&mut headers, origins)?;
    maker.auth(&mut headers, None, origins)?;
    let allow_private = maker.allow_private(origins)?;
    used.parameters.extend(maker.used.parameters);
    used.variables.extend(maker.used.variables);
    Ok((headers.fields, allow_private))
}

pub(super) fn resolve(
    context: &ResolveContext<'_>,
    wanted_timeout: Option<f64>,
    origins: &mut BTreeMap<String, String>,
) -> Result<ResolvedAction, ResolveError> {
    let words = context.vocabulary(context.tool, None)?;
    let mut maker = RequestBuilder {
        context,
        words,
        used: Used::default(),
        encoded_secrets: Vec::new(),
    };

    let method = maker.method(origins)?;
    let mut address = maker.address(origins)?;
    maker.query(&mut address)?;
    let mut headers = Headers::default();
    maker.headers(&mut headers, origins)?;
    maker.auth(&mut headers, Some(&mut address), origins)?;
    let said = maker.body(&method, &headers, origins)?;
    let timeout = maker.timeout(wanted_timeout, origins)?;
    let sent = match said {
        Some(said) => Some(said),
        None if maker.runs_elsewhere() => Some(maker.script(&headers, origins)?),
        None => maker.rest(&method, &headers, &mut address, origins),
    };
    if let Some(sent) = &sent {
        headers.set_default("content-type", sent.kind);
    }
    headers.set_default("accept", "application/json, */*;q=0.5");
    let transform = maker.transform(origins)?;
    let retries = maker.retries(origins)?;
    let max_size = maker.max_size(origins)?;
    let allow_private = maker.allow_private(origins)?;

    let mut environment = CallVariables::scrubbed(context.around);
    environment.declare(&context.requires.environment, context.around)?;
    let http = Http {
        method,
        endpoint: address.endpoint,
        url: address.text,
        base: address.base,
        headers: headers.fields,
        body: sent.map(|sent| sent.text),
        transform,
        retries,
        max_size,
        allow_private,
        reach: NetworkReach::Public,
        endpoints: Endpoints::default(),
        encoded_secrets: maker.encoded_secrets,
        environment: environment.values,
    };
    Ok(ResolvedAction {
        action: Action::Http(Box::new(http)),
        timeout,
        variables: maker.used.variables,
    })
}

/// Whether parameters go into the query for this method.
fn has_no_body(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "DELETE" | "OPTIONS")
}

impl<'c> RequestBuilder<'_, 'c> {
    fn find(&self, key: &str) -> Option<&'c ToolSetting<'c>> {
        self.context.settings.find(key)
    }

    /// Whether a runtime at a URL runs the script of the tool.
    fn runs_elsewhere(&self) -> bool {
        self.context.tool.manifest.kind != ToolKind::Api
    }

    /// What such a runtime gets unless its `body` says another way: the script and its parameters.
    fn script(
        &self,
        headers: &Headers,
        origins: &mut BTreeMap<String, String>,
    ) -> Result<ResolvedBody, ResolveError> {
        let tool = self.context.tool;
        let script = script::read(tool, self.context.roots)?.map(|script| script.text());
        origins.insert("action.body".to_owned(), "default".to_owned());
        let sent = json!({
            "tool_id": tool.manifest.tool_id,
            "script": script,
            "parameters": self.context.parameters,
        });
        Ok(body::of_value(&sent, &sent, headers.content_type()))
    }

    fn method(&self, origins: &mut BTreeMap<String, String>) -> Result<String, ResolveError> {
        let Some(setting) = self.find("method") else {
            origins.insert("action.method".to_owned(), "default".to_owned());
            let usual = if self.runs_elsewhere() { "POST" } else { "GET" };
            return Ok(usual.to_owned());
        };
        let known = || format!("use one of {}", METHODS.join(", "));
        let Some(text) = setting.as_text() else {
            let reason = format!("is {}; it must be a text", setting.type_name());
            return Err(setting.error("config.method", reason, known()));
        };
        let method = text.trim().to_ascii_uppercase();
        if !METHODS.contains(&method.as_str()) {
            let reason = format!("is `{}`, which is not a method", shown(text));
            return Err(setting.error(
                "config.method",
                reason,
                did_you_mean(nearest(&method, METHODS), &known()),
            ));
        }
        origins.insert("action.method".to_owned(), setting.source.describe());
        Ok(method)
    }

    /// The timeout. A declared parameter `timeout` sets it.
    fn timeout(
        &mut self,
        wanted: Option<f64>,
        origins: &mut BTreeMap<String, String>,
    ) -> Result<std::time::Duration, ResolveError> {
        let mut wanted = wanted;
        if let Some(seconds) = self
            .words
            .parameters
            .get("timeout")
            .filter(|_| !self.used.parameters.contains("timeout"))
            && let Some(seconds) = seconds.as_f64().filter(|seconds| *seconds > 0.0)
        {
            self.used.parameters.insert("timeout".to_owned());
            wanted = Some(seconds);
        }
        bounds::timeout(
            self.context.settings,
            bounds::HTTP,
            wanted,
            &self.words,
            &mut self.used,
            origins,
        )
    }

    fn transform(
        &mut self,
        origins: &mut BTreeMap<String, String>,
    ) -> Result<Option<String>, ResolveError> {
        let Some(setting) = self.find("response_transform") else {
            return Ok(None);
        };
        let field = "config.response_transform";
        let hint = "write a JSONPath, e.g. `$.items[0].name`";
        let Some(text) = setting.as_text() else {
            return Err(setting.error(
                field,
                format!("is {}; it must be a text", setting.type_name()),
                hint,
            ));
        };
        JsonPath::parse(text).map_err(|reason| {
            setting.error(
                field,
                format!("is `{}`, which is not a JSONPath: {reason}", shown(text)),
                hint,
            )
        })?;
        origins.insert("action.transform".to_owned(), setting.source.describe());
        Ok(Some(text.trim().to_owned()))
    }

    /// `retries: 3`, `retry: 3` or `retry: {max_attempts: 4}`, which includes the first attempt.
    fn retries(&self, origins: &mut BTreeMap<String, String>) -> Result<u32, ResolveError> {
        let found = ["retries", "retry"]
            .iter()
            .find_map(|key| Some((format!("config.{key}"), self.find(key)?)));
        let Some((field, setting)) = found else {
            origins.insert("action.retries".to_owned(), "default".to_owned());
            return Ok(RETRIES);
        };
        let hint = format!("write a whole number from 0 to {MOST_RETRIES}");
        let number = |setting: &ToolSetting<'_>| match &setting.data {
            SettingData::Scalar(Value::Number(number)) => number.as_u64(),
            SettingData::Scalar(Value::Bool(false)) => Some(0),
            _ => None,
        };
        let count = match &setting.data {
            SettingData::Map(entries) => {
                let mut count = Some(u64::from(RETRIES));
                for (name, value) in entries {
                    count = match name.as_str() {
                        "max_attempts" | "attempts" => {
                            number(value).and_then(|attempts| attempts.checked_sub(1))
                        }
                        "max_retries" | "retries" | "max" => number(value),
                        // The backoff is fixed: double each time, or as long as the server asks
                        // for.
                        "backoff" | "delay" => continue,
                        other => {
                            let meant = nearest(other, ["max_attempts", "retries", "backoff"]);
                            let hint = did_you_mean(meant, "known are max_attempts and retries");
                            return Err(value.error(
                                format!("{field}.{other}"),
                                "is not a setting",
                                hint,
                            ));
                        }
                    };
                }
                count
            }
            _ => number(setting),
        };
        let count = count
            .filter(|count| *count <= MOST_RETRIES)
            .and_then(|count| u32::try_from(count).ok());
        let Some(count) = count else {
            return Err(setting.error(&field, "is not how often to try again", hint));
        };
        origins.insert("action.retries".to_owned(), setting.source.describe());
        Ok(count)
    }

    fn max_size(&self, origins: &mut BTreeMap<String, String>) -> Result<u64, ResolveError> {
        let Some(setting) = self.find("max_size") else {
            origins.insert("action.max_size".to_owned(), "default".to_owned());
            return Ok(MAX_SIZE);
        };
        let bytes = match &setting.data {
            SettingData::Scalar(Value::Number(number)) => number.as_u64(),
            _ => None,
        };
        let Some(bytes) = bytes.filter(|bytes| (1..=MAX_SIZE).contains(bytes)) else {
            let hint = format!("write how many bytes of an answer are taken, at most {MAX_SIZE}");
            return Err(setting.error(
                "config.max_size",
                "is not a number of bytes that can be taken",
                hint,
            ));
        };
        origins.insert("action.max_size".to_owned(), setting.source.describe());
        Ok(bytes)
    }

    fn allow_private(&self, origins: &mut BTreeMap<String, String>) -> Result<bool, ResolveError> {
        let Some(setting) = self.find("allow_private") else {
            origins.insert("action.allow_private".to_owned(), "default".to_owned());
            return Ok(false);
        };
        let SettingData::Scalar(Value::Bool(allowed)) = setting.data else {
            let reason = format!("is {}; it must be a boolean", setting.type_name());
            return Err(setting.error("config.allow_private", reason, "write `true` or `false`"));
        };
        origins.insert("action.allow_private".to_owned(), setting.source.describe());
        Ok(allowed)
    }

    /// The remaining parameters: the body, or the query for a request without a body.
    fn rest(
        &self,
        method: &str,
        headers: &Headers,
        address: &mut address::Address,
        origins: &mut BTreeMap<String, String>,
    ) -> Option<body::ResolvedBody> {
        let is_left =
            |name: &str, value: &Value| !value.is_null() && !self.used.parameters.contains(name);
        let left = self
            .context
            .parameters
            .iter()
            .filter(|(name, value)| is_left(name, value));
        let left: Vec<(&String, &Value)> = left.collect();
        if has_no_body(method) {
            for (name, value) in left {
                address.add_parameter(name, value);
            }
            return None;
        }
        let (value, origin) = match left.iter().find(|(name, _)| *name == "payload") {
            Some((_, payload)) => ((*payload).clone(), "parameter payload"),
            None if left.is_empty() => return None,
            None => {
                let all = left
                    .into_iter()
                    .map(|(name, value)| (name.clone(), value.clone()));
                (Value::Object(all.collect()), "parameters")
            }
        };
        origins.insert("action.body".to_owned(), origin.to_owned());
        Some(body::of_value(&value, &value, headers.content_type()))
    }

    /// The `url` setting, which every tool of this kind needs.
    fn url(&self) -> Result<&'c ToolSetting<'c>, ResolveError> {
        self.find("url").ok_or_else(|| ResolveError::NothingToRun {
            id: self.context.tool.manifest.tool_id.clone(),
            missing: "config.url",
            example: "`config: {method: GET, url: \"https://…\"}`",
            at: Box::new(origin(self.context.tool, "config", self.context.roots)),
        })
    }
}
