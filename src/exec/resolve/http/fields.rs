//! The headers of a request, and its credentials.
//!
//! A value stays on its line, and tools cannot set headers that define where a request ends or
//! goes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::address::{Address, encoded};
use super::{Maker, wrong};
use crate::exec::invocation::Text;
use crate::exec::resolve::error::ResolveError;
use crate::exec::resolve::placeholder::Given;
use crate::exec::resolve::settings::{Held, Setting};
use crate::exec::resolve::{as_text, is_public};
use crate::item::signature::author;
use crate::item::wording::{did_you_mean, nearest, shown};

/// Headers derived from the request itself. Another value could smuggle a second request or
/// redirect this one.
const OURS: [&str; 11] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
    "te",
    "trailer",
    "expect",
    "accept-encoding",
    "proxy-authorization",
];

const AUTH: [&str; 10] =
    ["type", "env_var", "header", "header_name", "name", "prefix", "scheme", "in", "username", "username_env"];

#[derive(Debug, Default)]
pub(super) struct Headers {
    pub(super) fields: Vec<(String, Text)>,
}

impl Headers {
    fn set(&mut self, name: &str, value: Text) {
        self.fields.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.fields.push((name.to_owned(), value));
    }

    /// Sets a header unless the tool has set it.
    pub(super) fn set_default(&mut self, name: &str, value: &str) {
        if !self.has(name) {
            self.fields.push((name.to_owned(), Text::plain(value)));
        }
    }

    fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    pub(super) fn content_type(&self) -> Option<&str> {
        let found = self.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        found.map(|(_, value)| value.value.as_str())
    }
}

impl Maker<'_, '_> {
    /// Adds the entries of `headers`.
    pub(super) fn headers(
        &mut self,
        headers: &mut Headers,
        origins: &mut BTreeMap<String, String>,
    ) -> Result<(), ResolveError> {
        let Some(setting) = self.find("headers") else { return Ok(()) };
        let Held::Map(entries) = &setting.data else {
            let reason = format!("is {}; it must be a mapping of names to values", setting.type_name());
            return Err(wrong(setting, "config.headers", reason, "e.g. `headers: {Accept: application/json}`"));
        };
        for (name, value) in entries {
            let field = format!("config.headers.{name}");
            check_name(name, &field, value)?;
            let (text, origin) = match &value.data {
                Held::Scalar(Value::String(template)) => {
                    let put = &mut |_: &str, given: Given<'_>| on_one_line(given.text());
                    // A header whose parameter was not given is left out.
                    let Some(filled) = self.words.fill_with(template, &field, &value.source, put)? else { continue };
                    self.used.add(&filled);
                    (filled.text.clone(), filled.origin(&value.source))
                }
                Held::Scalar(scalar) if !scalar.is_null() => (Text::plain(as_text(scalar)), value.source.describe()),
                _ => return Err(wrong(value, &field, "must be a text", "write one value, in quotes")),
            };
            if let Err(reason) = on_one_line(text.value.clone()) {
                return Err(wrong(value, &field, reason, "write it on one line"));
            }
            origins.insert(format!("action.headers.{name}"), origin);
            headers.set(name, text);
        }
        Ok(())
    }

    /// Applies `auth`.
    pub(super) fn auth(
        &mut self,
        headers: &mut Headers,
        address: Option<&mut Address>,
        origins: &mut BTreeMap<String, String>,
    ) -> Result<(), ResolveError> {
        let Some(setting) = self.find("auth") else { return Ok(()) };
        let example = "e.g. `auth: {type: bearer, env_var: API_TOKEN}`";
        let Held::Map(entries) = &setting.data else {
            let reason = format!("is {}; it must be a mapping", setting.type_name());
            return Err(wrong(setting, "config.auth", reason, example));
        };
        if entries.is_empty() {
            return Ok(());
        }
        let mut given: BTreeMap<&str, (&str, &Setting<'_>)> = BTreeMap::new();
        for (key, value) in entries {
            let field = format!("config.auth.{key}");
            if matches!(key.as_str(), "token" | "key" | "password" | "value") {
                let reason = "would be a secret in a file";
                return Err(wrong(value, &field, reason, "name the variable that holds it: `env_var: API_TOKEN`"));
            }
            if !AUTH.contains(&key.as_str()) {
                let hint = did_you_mean(nearest(key, AUTH), &format!("known are {}", AUTH.join(", ")));
                return Err(wrong(value, &field, "is not a setting", hint));
            }
            let Some(text) = value.as_text() else {
                return Err(wrong(value, &field, format!("is {}; it must be a text", value.type_name()), example));
            };
            given.insert(key.as_str(), (text, value));
        }
        let text = |keys: &[&str]| keys.iter().find_map(|key| given.get(key)).map(|(text, _)| *text);
        let Some((variable, at)) = given.get("env_var").copied() else {
            let hint = "name the environment variable that holds the secret: `env_var: API_TOKEN`";
            return Err(wrong(setting, "config.auth.env_var", "is missing", hint));
        };
        let secret = self.secret(variable, "config.auth.env_var", at)?;
        let (name, value) = match text(&["type"]).unwrap_or("bearer") {
            "bearer" => ("Authorization", format!("Bearer {secret}")),
            "basic" => {
                let user = match (text(&["username"]), given.get("username_env").copied()) {
                    (Some(user), _) => Some(user.to_owned()),
                    (None, Some((name, at))) => Some(self.secret(name, "config.auth.username_env", at)?),
                    (None, None) => None,
                };
                let pair = match user {
                    Some(user) => format!("{user}:{secret}"),
                    // The variable may contain user and password.
                    None if secret.contains(':') => secret.clone(),
                    None => format!("{secret}:"),
                };
                let word = author::encode(pair.as_bytes());
                self.encoded_secrets.push(word.clone());
                ("Authorization", format!("Basic {word}"))
            }
            kind @ ("header" | "api_key") => {
                let usual = if kind == "header" { "Authorization" } else { "X-API-Key" };
                let place = text(&["in"]).unwrap_or("header");
                if let ("query", Some(address)) = (place, address) {
                    let name = text(&["name"]).unwrap_or("api_key");
                    self.encoded_secrets.push(encoded(&secret));
                    address.add(name, &Text::secret(encoded(&secret)));
                    return Ok(());
                }
                if place != "header" {
                    let at = given.get("in").map_or(setting, |(_, at)| at);
                    let (reason, hint) = match place {
                        "query" => (
                            "is `query`, which is of no use for a server that is no single endpoint",
                            "write `in: header`",
                        ),
                        _ => ("is neither `header` nor `query`", "write one of them"),
                    };
                    return Err(wrong(at, "config.auth.in", reason, hint));
                }
                let name = text(&["header", "header_name", "name"]).unwrap_or(usual);
                check_name(name, "config.auth.header", setting)?;
                match text(&["prefix", "scheme"]) {
                    Some(prefix) => (name, format!("{} {secret}", prefix.trim())),
                    None => (name, secret.clone()),
                }
            }
            other => {
                let kinds = ["bearer", "basic", "header", "api_key"];
                let hint = did_you_mean(nearest(other, kinds), "use one of bearer, basic, header, api_key");
                let reason = format!("is `{}`, which is no way to authenticate", shown(other));
                let at = given.get("type").map_or(setting, |(_, at)| at);
                return Err(wrong(at, "config.auth.type", reason, hint));
            }
        };
        let value = on_one_line(value).map_err(|reason| {
            let reason = format!("names `{}`, which {reason}", shown(variable));
            wrong(at, "config.auth.env_var", reason, format!("set `{}` to another value", shown(variable)))
        })?;
        origins.insert(format!("action.headers.{name}"), format!("environment variable {variable}"));
        headers.set(name, Text::secret(value));
        Ok(())
    }

    /// The value of a variable that a setting names.
    fn secret(&mut self, name: &str, field: &str, at: &Setting<'_>) -> Result<String, ResolveError> {
        let told = shown(name);
        let hint = || format!("set `{told}`");
        self.used.variables.insert(name.to_owned());
        match self.context.around.environment.get(std::ffi::OsStr::new(name)) {
            _ if is_public(name) => {
                Err(wrong(at, field, format!("names `{told}`, which is no secret"), "name a variable of your own"))
            }
            None => Err(wrong(at, field, format!("names `{told}`, a variable that is not set"), hint())),
            Some(value) if value.is_empty() => {
                Err(wrong(at, field, format!("names `{told}`, a variable that is empty"), hint()))
            }
            Some(value) => value
                .to_str()
                .map(str::to_owned)
                .ok_or_else(|| wrong(at, field, format!("names `{told}`, whose value is not valid Unicode"), hint())),
        }
    }
}

/// Refuses invalid header names and those that tools cannot set.
fn check_name(name: &str, field: &str, at: &Setting<'_>) -> Result<(), ResolveError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(fits) {
        let hint = "use letters, digits and `-`";
        return Err(wrong(at, field, format!("has a name that no header has: `{}`", shown(name)), hint));
    }
    if OURS.iter().any(|ours| ours.eq_ignore_ascii_case(name)) {
        return Err(wrong(at, field, "follows from the request and cannot be set", "remove it"));
    }
    Ok(())
}

/// The value, if a header can contain it.
fn on_one_line(text: String) -> Result<String, String> {
    if text.chars().any(|c| c.is_control() && c != '\t') {
        return Err("holds a line break or another control character, which no header can hold".to_owned());
    }
    Ok(text)
}
