//! The address of a request.
//!
//! A parameter is percent-encoded and stays where the manifest put it: inside one path segment, one
//! query value or one host label. Anything that would lead elsewhere (`..`, an empty segment, a
//! whole host) is refused. A variable may begin an address, because the user who runs the tool has
//! set it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;
use url::Url;

use super::RequestBuilder;
use crate::exec::invocation::{MaskedText, REDACTED};
use crate::exec::resolve::as_text;
use crate::exec::resolve::error::ResolveError;
use crate::exec::resolve::placeholder::PlaceholderValue;
use crate::exec::resolve::settings::{SettingData, ToolSetting};
use crate::item::endpoint::Base;
use crate::item::params::ParamProblem;

#[derive(Debug)]
pub(super) struct Address {
    pub(super) text: MaskedText,
    pub(super) base: Base,
    /// As a permission names it.
    pub(super) endpoint: String,
}

/// Which part of an address comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddressPart {
    Start,
    Scheme,
    Host,
    Port,
    Path,
    Query,
}

impl Address {
    pub(super) fn add(&mut self, name: &str, value: &MaskedText) {
        let joint = match self.text.value.split_once('?') {
            None => "?",
            Some((_, "")) => "",
            Some((_, query)) if query.ends_with('&') => "",
            Some(_) => "&",
        };
        self.text
            .push(&MaskedText::plain(format!("{joint}{}=", encoded(name))));
        self.text.push(value);
    }

    /// Adds a parameter to the query; a list is repeated per element.
    pub(super) fn add_parameter(&mut self, name: &str, value: &Value) {
        let single = std::slice::from_ref(value);
        let values = value.as_array().map_or(single, Vec::as_slice);
        for value in values.iter().filter(|value| !value.is_null()) {
            self.add(name, &MaskedText::plain(encoded(&as_text(value))));
        }
    }
}

impl RequestBuilder<'_, '_> {
    pub(super) fn address(
        &mut self,
        origins: &mut BTreeMap<String, String>,
    ) -> Result<Address, ResolveError> {
        let setting = self.url()?;
        let example = "write it as a whole, e.g. `https://api.example.com/v1/items/{item}`";
        let Some(template) = setting.as_text().map(str::trim) else {
            let reason = format!("is {}; it must be a text", setting.type_name());
            return Err(setting.error("config.url", reason, example));
        };
        let mut base = Base::Named;
        let mut has_secret_path = false;
        let mut encoded_secrets = Vec::new();
        let filled = self.words.fill_with(
            template,
            "config.url",
            &setting.source,
            &mut |before, given| {
                let part = part_after(before);
                if let PlaceholderValue::Variable(value) = given
                    && !matches!(part, AddressPart::Start | AddressPart::Host)
                {
                    has_secret_path |= part == AddressPart::Path;
                    encoded_secrets.push(encoded(value));
                }
                placed(part, given, &mut base)
            },
        )?;
        let Some(filled) = filled else {
            return Err(setting.error(
                "config.url",
                "is a parameter, which cannot be a whole address",
                example,
            ));
        };
        self.encoded_secrets.extend(encoded_secrets);
        self.used.add(&filled);
        let url = checked(setting, &filled.text)?;
        if base == Base::Foreign && !has_fixed_domain(template) {
            let reason = "lets a parameter choose the host";
            let hint = "write the domain out, e.g. `https://{region}.api.example.com/`, or take it from a variable";
            return Err(setting.error("config.url", reason, hint));
        }
        // Fill in harmless values as well: any difference in shape is then caused by a real value.
        let plain = self.words.fill_with(
            template,
            "config.url",
            &setting.source,
            &mut |before, given| match (part_after(before), given) {
                (
                    part @ (AddressPart::Start | AddressPart::Host | AddressPart::Port),
                    PlaceholderValue::Variable(_),
                ) => placed(part, given, &mut Base::default()),
                _ => Ok("1".to_owned()),
            },
        )?;
        let plain = plain.and_then(|plain| Url::parse(&plain.text.value).ok());
        if plain.is_none_or(|plain| !has_shape_of(&url, &plain)) {
            return Err(self.leads_elsewhere(&filled.parameters));
        }
        origins.insert("action.url".to_owned(), filled.origin(&setting.source));
        let mut written = String::new();
        if matches!(base, Base::Variable { .. }) {
            let beginning = beginning_of(template);
            let value = self
                .words
                .fill(&beginning, "config.url", &setting.source)?
                .unwrap_or_default()
                .text
                .value;
            written = without_defaults(&beginning);
            base = Base::Variable {
                written: written.clone(),
                value,
            };
        }
        let endpoint = endpoint(&base, &url, &filled.text, &written, has_secret_path);
        Ok(Address {
            text: filled.text,
            base,
            endpoint,
        })
    }

    /// Adds the entries of `query` or `params`.
    pub(super) fn query(&mut self, address: &mut Address) -> Result<(), ResolveError> {
        for key in ["query", "params"] {
            let Some(setting) = self.find(key) else {
                continue;
            };
            let field = format!("config.{key}");
            let SettingData::Map(entries) = &setting.data else {
                let reason = format!(
                    "is {}; it must be a mapping of names to values",
                    setting.type_name()
                );
                return Err(setting.error(&field, reason, "e.g. `query: {page: \"{page}\"}`"));
            };
            for (name, value) in entries {
                let field = format!("{field}.{name}");
                match &value.data {
                    SettingData::List(elements) => {
                        for (at, element) in elements.iter().enumerate() {
                            self.query_value(address, name, element, &format!("{field}[{at}]"))?;
                        }
                    }
                    _ => self.query_value(address, name, value, &field)?,
                }
            }
        }
        Ok(())
    }

    fn query_value(
        &mut self,
        address: &mut Address,
        name: &str,
        value: &ToolSetting<'_>,
        field: &str,
    ) -> Result<(), ResolveError> {
        let template = match &value.data {
            SettingData::Scalar(Value::String(template)) => template,
            SettingData::Scalar(Value::Null) => return Ok(()),
            SettingData::Scalar(scalar) => {
                address.add_parameter(name, scalar);
                return Ok(());
            }
            _ => {
                let reason = format!(
                    "is {}; it must be a text, a number or a list of them",
                    value.type_name()
                );
                return Err(value.error(
                    field,
                    reason,
                    "write JSON as a text, if that is what the other side takes",
                ));
            }
        };
        // A list parameter becomes one entry per element.
        let whole = template
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'));
        if let Some((parameter, list @ Value::Array(_))) =
            whole.and_then(|it| self.words.parameters.get_key_value(it))
        {
            self.used.parameters.insert(parameter.clone());
            address.add_parameter(name, list);
            return Ok(());
        }
        let encoded_secrets = &mut self.encoded_secrets;
        let filled = self
            .words
            .fill_with(template, field, &value.source, &mut |_, given| {
                let text = encoded(&given.text());
                if matches!(given, PlaceholderValue::Variable(..)) {
                    encoded_secrets.push(text.clone());
                }
                Ok(text)
            })?;
        // Text between placeholders is written unencoded by the author.
        if let Some(filled) = filled {
            self.used.add(&filled);
            address.add(name, &literal_encoded(&filled.text));
        }
        Ok(())
    }

    fn leads_elsewhere(&self, names: &[String]) -> ResolveError {
        let is_suspect = |name: &&String| {
            self.words
                .parameters
                .get(name.as_str())
                .is_none_or(|value| as_text(value).chars().all(|c| c == '.'))
        };
        let name = names
            .iter()
            .find(is_suspect)
            .or(names.first())
            .cloned()
            .unwrap_or_default();
        ResolveError::Parameters {
            id: self.context.tool.manifest.tool_id.clone(),
            problems: vec![ParamProblem {
                pointer: format!("/{name}"),
                message: format!(
                    "parameter `{name}` would lead to another address than `config.url` says"
                ),
                suggestion: Some("it may be neither empty nor `.` or `..` there".to_owned()),
            }],
        }
    }
}

/// Percent-encodes everything except letters, digits and `-._~`.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Encodes query separators that are not yet encoded.
fn literal_encoded(text: &MaskedText) -> MaskedText {
    let plain = |text: &str| {
        let mut plain = String::with_capacity(text.len());
        for character in text.chars() {
            match character {
                '&' | '#' | '+' | ' ' | '=' => {
                    plain.push_str(&encoded(character.encode_utf8(&mut [0; 4])));
                }
                other => plain.push(other),
            }
        }
        plain
    };
    if text.has_secret() {
        MaskedText::partly_secret(plain(&text.value), plain(text.shown()))
    } else {
        MaskedText::plain(plain(&text.value))
    }
}

/// The part that follows a prefix of an address.
fn part_after(before: &str) -> AddressPart {
    if before.is_empty() {
        return AddressPart::Start;
    }
    let Some((_, after)) = before.split_once("://") else {
        return AddressPart::Scheme;
    };
    match after {
        _ if after.contains(['?', '#']) => AddressPart::Query,
        _ if after.contains(['/', '\\']) => AddressPart::Path,
        // The colons of an IPv6 address are in brackets.
        _ if after
            .rsplit(']')
            .next()
            .is_some_and(|rest| rest.contains(':')) =>
        {
            AddressPart::Port
        }
        _ => AddressPart::Host,
    }
}

/// The value as it is inserted into a part of an address.
fn placed(
    part: AddressPart,
    given: PlaceholderValue<'_>,
    base: &mut Base,
) -> Result<String, String> {
    let text = given.text();
    match (part, given) {
        (AddressPart::Path | AddressPart::Query, _) => Ok(encoded(&text)),
        (AddressPart::Start, PlaceholderValue::Variable(..)) => {
            from_variable(base);
            // Variables with a trailing slash are common; the rest of the address starts with one.
            Ok(text.trim().trim_end_matches('/').to_owned())
        }
        (AddressPart::Host, PlaceholderValue::Variable(..)) => {
            if text.is_empty()
                || text.contains(['/', '?', '#', '@', '\\'])
                || text.chars().any(char::is_whitespace)
            {
                return Err("is not the name of a host".to_owned());
            }
            from_variable(base);
            Ok(text)
        }
        (AddressPart::Host, PlaceholderValue::Parameter(..)) => {
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '-';
            if text.is_empty()
                || text.len() > 63
                || !text.chars().all(fits)
                || text.starts_with('-')
            {
                return Err(
                    "is not one part of the name of a host: letters, digits and `-`".to_owned(),
                );
            }
            *base = Base::Foreign;
            Ok(text)
        }
        (AddressPart::Port, PlaceholderValue::Variable(..)) if text.parse::<u16>().is_ok() => {
            from_variable(base);
            Ok(text)
        }
        (AddressPart::Port, PlaceholderValue::Variable(..)) => {
            Err("is not the number of a port".to_owned())
        }
        (AddressPart::Start | AddressPart::Scheme | AddressPart::Port, _) => {
            Err("cannot choose the beginning of an address: scheme, host or port".to_owned())
        }
    }
}

/// Records that a variable begins the address. A parameter that does so takes precedence.
fn from_variable(base: &mut Base) {
    if *base != Base::Foreign {
        *base = Base::Variable {
            written: String::new(),
            value: String::new(),
        };
    }
}

/// Whether the host ends with a fixed domain of at least two labels.
fn has_fixed_domain(template: &str) -> bool {
    let after = template
        .split_once("://")
        .map_or(template, |(_, after)| after);
    let mut depth = 0_u32;
    let end = after.find(|c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && matches!(c, '/' | '?' | '#' | ':')
    });
    let host = after.get(..end.unwrap_or(after.len())).unwrap_or(after);
    let fixed = host.rsplit('}').next().unwrap_or_default();
    fixed
        .strip_prefix('.')
        .is_some_and(|domain| domain.contains('.') && !domain.starts_with('.'))
}

/// The template up to the end of its host, or of its leading variable.
fn beginning_of(template: &str) -> String {
    if template.starts_with("${") && !template.starts_with("${{") {
        let end = template.find('}').map_or(template.len(), |at| at + 1);
        return template.get(..end).unwrap_or(template).to_owned();
    }
    let at = template.find("://").map_or(0, |at| at + 3);
    let mut depth = 0_u32;
    let end = template.get(at..).and_then(|after| {
        after.find(|c: char| {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && matches!(c, '/' | '?' | '#')
        })
    });
    template
        .get(..end.map_or(template.len(), |end| at + end))
        .unwrap_or(template)
        .to_owned()
}

/// `${NAME:-default}` as `${NAME}`: a permission need not repeat the default.
fn without_defaults(written: &str) -> String {
    let mut text = String::with_capacity(written.len());
    let mut rest = written;
    while let Some((before, after)) = rest
        .split_once(":-")
        .filter(|(before, _)| before.contains("${"))
    {
        text.push_str(before);
        rest = after
            .find('}')
            .and_then(|at| after.get(at..))
            .unwrap_or_default();
    }
    text + rest
}

/// The address as a permission names it.
fn endpoint(
    base: &Base,
    url: &Url,
    text: &MaskedText,
    written: &str,
    has_secret_path: bool,
) -> String {
    let shown = text.shown();
    let shown = shown.split(['?', '#']).next().unwrap_or(shown);
    let path_shown = || {
        let after = shown.split_once("://").map_or(shown, |(_, after)| after);
        after
            .find('/')
            .and_then(|at| after.get(at..))
            .unwrap_or("/")
            .to_owned()
    };
    match base {
        Base::Named if has_secret_path => path_shown(),
        Base::Named => url.path().to_owned(),
        Base::Variable { .. } if has_secret_path => {
            // The text after the leading variable.
            let rest = shown
                .strip_prefix(REDACTED)
                .map_or_else(path_shown, str::to_owned);
            format!("{written}{rest}")
        }
        Base::Variable { .. } => format!("{written}{}", base.rest(url).unwrap_or_default()),
        Base::Foreign if has_secret_path => shown.to_owned(),
        Base::Foreign => format!("{}{}", url.origin().ascii_serialization(), url.path()),
    }
}

/// The address, if a request can be sent to it.
fn checked(setting: &ToolSetting<'_>, text: &MaskedText) -> Result<Url, ResolveError> {
    let example = "write it as a whole, e.g. `https://api.example.com/v1/items`";
    let url = Url::parse(&text.value)
        .map_err(|err| setting.error("config.url", format!("is not an address: {err}"), example))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(setting.error("config.url", "is not a web address", example));
    }
    if !url.username().is_empty() || url.password().is_some() {
        let hint =
            "remove them; `config.auth` names the environment variable that holds the secret";
        return Err(setting.error(
            "config.url",
            "holds credentials, which do not belong in a URL",
            hint,
        ));
    }
    if url.fragment().is_some() {
        return Err(setting.error(
            "config.url",
            "holds a `#`, and what follows it is never sent",
            "remove it",
        ));
    }
    Ok(url)
}

/// Whether two addresses have the same shape: the same number of segments, none empty, and the same
/// number of query values.
fn has_shape_of(url: &Url, plain: &Url) -> bool {
    let segments = |url: &Url| url.path().split('/').map(str::is_empty).collect::<Vec<_>>();
    url.scheme() == plain.scheme()
        && url.port_or_known_default() == plain.port_or_known_default()
        && url.query_pairs().count() == plain.query_pairs().count()
        && segments(url) == segments(plain)
}
