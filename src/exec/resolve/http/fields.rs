//! The headers of a request, and its credentials.
//!
//! A value stays on its line, and tools cannot set headers that define where a request ends or
//! goes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::RequestBuilder;
use super::address::{Address, encoded};
use crate::encoding::base64;
use crate::exec::invocation::MaskedText;
use crate::exec::resolve::error::ResolveError;
use crate::exec::resolve::placeholder::PlaceholderValue;
use crate::exec::resolve::settings::{SettingData, ToolSetting};
use crate::exec::resolve::{as_text, is_public};
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

const AUTH: [&str; 10] = [
    "type",
    "env_var",
    "header",
    "header_name",
    "name",
    "prefix",
    "scheme",
    "in",
    "username",
    "username_env",
];

#[derive(Debug, Default)]
pub(super) struct Headers {
    pub(super) fields: Vec<(String, MaskedText)>,
}

impl Headers {
    fn set(&mut self, name: &str, value: MaskedText) {
        self.fields
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.fields.push((name.to_owned(), value));
    }

    /// Sets a header unless the tool has set it.
    pub(super) fn set_default(&mut self, name: &str, value: &str) {
        if !self.has(name) {
            self.fields
                .push((name.to_owned(), MaskedText::plain(value)));
        }
    }

    fn has(&self, name: &str) -> bool {
        self.fields
            .iter()
            .any(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    pub(super) fn content_type(&self) -> Option<&str> {
        let found = self
            .fields
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        found.map(|(_, value)| value.value.as_str())
    }
}

impl RequestBuilder<'_, '_> {
    /// Adds the entries of `headers`.
    pub(super) fn headers(
        &mut self,
        headers: &mut Headers,
        origins: &mut BTreeMap<String, String>,
    ) -> Result<(), ResolveError> {
        let Some(setting) = self.find("headers") else {
            return Ok(());
        };
        let SettingData::Map(entries) = &setting.data else {
            let reason = format!(
                "is {}; it must be a mapping of names to values",
                setting.type_name()
            );
            return Err(setting.error(
                "config.headers",
                reason,
                "e.g. `headers: {Accept: application/json}`",
            ));
        };
        for (name, value) in entries {
            let field = format!("config.headers.{name}");
            check_name(name, &field, value)?;
            let (text, origin) = match &value.data {
                SettingData::Scalar(Value::String(template)) => {
                    let put = &mut |_: &str, given: PlaceholderValue<'_>| on_one_line(given.text());
                    // A header whose parameter was not given is left out.
                    let Some(filled) =
                        self.words.fill_with(template, &field, &value.source, put)?
                    else {
                        continue;
                    };
                    self.used.add(&filled);
                    (filled.text.clone(), filled.origin(&value.source))
                }
                SettingData::Scalar(scalar) if !scalar.is_null() => {
                    (MaskedText::plain(as_text(scalar)), value.source.describe())
                }
                _ => {
                    return Err(value.error(
                        &field,
                        "must be a text",
                        "write one value, in quotes",
                    ));
                }
            };
            if let Err(reason) = on_one_line(text.value.clone()) {
                return Err(value.error(&field, reason, "write it on one line"));
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
        let Some(setting) = self.find("auth") else {
            return Ok(());
        };
        let example = "e.g. `auth: {type: bearer, env_var: API_TOKEN}`";
        let SettingData::Map(entries) = &setting.data else {
            let reason = format!("is {}; it must be a mapping", setting.type_name());
            return Err(setting.error("config.auth", reason, example));
        };
        if entries.is_empty() {
            return Ok(());
        }
        let given = AuthFields::read(setting, entries, example)?;
        let Some((variable, at)) = given.fields.get("env_var").copied() else {
            let hint = "name the environment variable that holds the secret: `env_var: API_TOKEN`";
            return Err(setting.error("config.auth.env_var", "is missing", hint));
        };
        let secret = self.secret(variable, "config.auth.env_var", at)?;
        let (name, value) = match given.text(&["type"]).unwrap_or("bearer") {
            "bearer" => ("Authorization", format!("Bearer {secret}")),
            "basic" => ("Authorization", self.basic(&given, &secret)?),
            kind @ ("header" | "api_key") => {
                let usual = if kind == "header" {
                    "Authorization"
                } else {
                    "X-API-Key"
                };
                let place = given.text(&["in"]).unwrap_or("header");
                if let ("query", Some(address)) = (place, address) {
                    let name = given.text(&["name"]).unwrap_or("api_key");
                    self.encoded_secrets.push(encoded(&secret));
                    address.add(name, &MaskedText::secret(encoded(&secret)));
                    return Ok(());
                }
                given.header(&secret, usual, place)?
            }
            other => {
                let kinds = ["bearer", "basic", "header", "api_key"];
                let hint = did_you_mean(
                    nearest(other, kinds),
                    "use one of bearer, basic, header, api_key",
                );
                let reason = format!("is `{}`, which is not a way to authenticate", shown(other));
                return Err(given.at("type").error("config.auth.type", reason, hint));
            }
        };
        let value = on_one_line(value).map_err(|reason| {
            let reason = format!("names `{}`, which {reason}", shown(variable));
            at.error(
                "config.auth.env_var",
                reason,
                format!("set `{}` to another value", shown(variable)),
            )
        })?;
        origins.insert(
            format!("action.headers.{name}"),
            format!("environment variable {variable}"),
        );
        headers.set(name, MaskedText::secret(value));
        Ok(())
    }

    /// The value of a header for user and password.
    fn basic(&mut self, given: &AuthFields<'_>, secret: &str) -> Result<String, ResolveError> {
        let named = given.fields.get("username_env").copied();
        let user = match (given.text(&["username"]), named) {
            (Some(user), _) => Some(user.to_owned()),
            (None, Some((name, at))) => Some(self.secret(name, "config.auth.username_env", at)?),
            (None, None) => None,
        };
        let pair = match user {
            Some(user) => format!("{user}:{secret}"),
            // The variable may contain user and password.
            None if secret.contains(':') => secret.to_owned(),
            None => format!("{secret}:"),
        };
        let word = base64(pair.as_bytes());
        self.encoded_secrets.push(word.clone());
        Ok(format!("Basic {word}"))
    }

    /// The value of a variable that a setting names.
    fn secret(
        &mut self,
        name: &str,
        field: &str,
        at: &ToolSetting<'_>,
    ) -> Result<String, ResolveError> {
        let told = shown(name);
        let hint = || format!("set `{told}`");
        self.used.variables.insert(name.to_owned());
        match self
            .context
            .around
            .environment
            .get(std::ffi::OsStr::new(name))
        {
            _ if is_public(name) => Err(at.error(
                field,
                format!("names `{told}`, which is not a secret"),
                "name a variable of your own",
            )),
            None => Err(at.error(
                field,
                format!("names `{told}`, a variable that is not set"),
                hint(),
            )),
            Some(value) if value.is_empty() => Err(at.error(
                field,
                format!("names `{told}`, a variable that is empty"),
                hint(),
            )),
            Some(value) => value.to_str().map(str::to_owned).ok_or_else(|| {
                at.error(
                    field,
                    format!("names `{told}`, whose value is not valid Unicode"),
                    hint(),
                )
            }),
        }
    }
}

/// Refuses invalid header names and those that tools cannot set.
/// The entries of `auth`.
struct AuthFields<'s> {
    setting: &'s ToolSetting<'s>,
    fields: BTreeMap<&'s str, (&'s str, &'s ToolSetting<'s>)>,
}

impl<'s> AuthFields<'s> {
    fn read(
        setting: &'s ToolSetting<'s>,
        entries: &'s [(String, ToolSetting<'s>)],
        example: &str,
    ) -> Result<Self, ResolveError> {
        let mut fields = BTreeMap::new();
        for (key, value) in entries {
            let field = format!("config.auth.{key}");
            if matches!(key.as_str(), "token" | "key" | "password" | "value") {
                let reason = "would be a secret in a file";
                let hint = "name the variable that holds it: `env_var: API_TOKEN`";
                return Err(value.error(&field, reason, hint));
            }
            if !AUTH.contains(&key.as_str()) {
                let known = format!("known are {}", AUTH.join(", "));
                let hint = did_you_mean(nearest(key, AUTH), &known);
                return Err(value.error(&field, "is not a setting", hint));
            }
            let Some(text) = value.as_text() else {
                let reason = format!("is {}; it must be a text", value.type_name());
                return Err(value.error(&field, reason, example));
            };
            fields.insert(key.as_str(), (text, value));
        }
        Ok(Self { setting, fields })
    }

    /// The text of the first key that is there.
    fn text(&self, keys: &[&str]) -> Option<&'s str> {
        let found = keys.iter().find_map(|key| self.fields.get(key));
        found.map(|(text, _)| *text)
    }

    /// The setting of a key, or of all.
    fn at(&self, key: &str) -> &'s ToolSetting<'s> {
        self.fields.get(key).map_or(self.setting, |(_, at)| at)
    }

    /// The name and value of a header with the secret.
    fn header(
        &self,
        secret: &str,
        usual: &'s str,
        place: &str,
    ) -> Result<(&'s str, String), ResolveError> {
        if place != "header" {
            let (reason, hint) = match place {
                "query" => (
                    "is `query`, which is of no use for a server that is no single endpoint",
                    "write `in: header`",
                ),
                _ => ("is neither `header` nor `query`", "write one of them"),
            };
            return Err(self.at("in").error("config.auth.in", reason, hint));
        }
        let names = ["header", "header_name", "name"];
        let name = self.text(&names).unwrap_or(usual);
        check_name(name, "config.auth.header", self.setting)?;
        Ok(match self.text(&["prefix", "scheme"]) {
            Some(prefix) => (name, format!("{} {secret}", prefix.trim())),
            None => (name, secret.to_owned()),
        })
    }
}

fn check_name(name: &str, field: &str, at: &ToolSetting<'_>) -> Result<(), ResolveError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(fits) {
        let hint = "use letters, digits and `-`";
        return Err(at.error(
            field,
            format!("has a name that no header has: `{}`", shown(name)),
            hint,
        ));
    }
    if OURS.iter().any(|ours| ours.eq_ignore_ascii_case(name)) {
        return Err(at.error(
            field,
            "follows from the request and cannot be set",
            "remove it",
        ));
    }
    Ok(())
}

/// The value, if a header can contain it.
fn on_one_line(text: String) -> Result<String, String> {
    if text.chars().any(|c| c.is_control() && c != '\t') {
        return Err(
            "holds a line break or another control character, which no header can hold".to_owned(),
        );
    }
    Ok(text)
}
