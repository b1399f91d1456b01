//! A server's response, and the result made from it.
//!
//! The body is read up to a limit, unpacked, and becomes JSON, text or base64. A status of 400 or
//! more is a failure that quotes the start of the body.

use encoding_rs::Encoding;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Response, StatusCode};
use serde_json::{Map, Value, json};
use url::Url;

use super::{RequestFault, host_of};
use crate::encoding::base64;
use crate::exec::call::exact;
use crate::exec::worker::{FailureKind, WorkFailure};
use crate::item::json_path::JsonPath;
use crate::item::wording::one_line;
use crate::problem::{HintCall, hint};

/// How much of a body a failure quotes.
const LONGEST_TEXT: usize = 300;
/// How much of a failure's body is read.
const MOST_OF_FAILURE: u64 = 64 * 1024;

#[derive(Debug)]
pub(super) struct HttpResponse {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    host: String,
    body: Vec<u8>,
}

impl HttpResponse {
    #[cfg(test)]
    pub(super) fn of(status: u16, headers: HeaderMap) -> Self {
        Self {
            status,
            headers,
            host: "a.example".to_owned(),
            body: Vec::new(),
        }
    }

    pub(super) async fn read(
        mut response: Response,
        url: &Url,
        max_size: u64,
    ) -> Result<Self, RequestFault> {
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let is_failure = status >= 400;
        let most = if is_failure {
            MOST_OF_FAILURE.min(max_size)
        } else {
            max_size
        };
        let too_large = || {
            let message = format!(
                "the answer of `{}` has more than {max_size} bytes",
                host_of(url)
            );
            let suggestion =
                "ask for less, e.g. page by page; `config.max_size` only lowers the limit";
            RequestFault::from(WorkFailure::new(FailureKind::Response, message).suggest(suggestion))
        };
        if !is_failure
            && response
                .content_length()
                .is_some_and(|length| length > most)
        {
            return Err(too_large());
        }
        let mut body = Vec::new();
        loop {
            let chunk = match response.chunk().await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                // It is a failure already; a truncated body is good enough.
                Err(_) if is_failure => break,
                Err(err) => return Err(RequestFault::of(err, url, "the answer of")),
            };
            body.extend_from_slice(&chunk);
            if body.len() as u64 > most {
                if !is_failure {
                    return Err(too_large());
                }
                break;
            }
        }
        Ok(Self {
            status,
            headers,
            host: host_of(url).to_owned(),
            body,
        })
    }

    pub(super) fn into_result(
        self,
        transform: Option<(&str, &JsonPath)>,
        attempts: u32,
    ) -> Result<Value, WorkFailure> {
        if self.status >= 400 {
            return Err(self.failure(attempts));
        }
        let body = self.body_value()?;
        let Some((text, path)) = transform else {
            return Ok(
                json!({"status": self.status, "headers": joined_headers(&self.headers), "body": body}),
            );
        };
        let is_json = matches!(body, Value::Object(_) | Value::Array(_)) || self.is_json();
        let failed = |message: String| {
            WorkFailure::new(FailureKind::Transform, message)
                .suggest("see the whole answer without `response_transform`, and correct the path")
        };
        if !is_json {
            return Err(failed(format!(
                "`{text}` finds nothing: the answer of `{}` is not JSON",
                self.host
            )));
        }
        match path.find(&body).as_slice() {
            [] => Err(failed(format!(
                "`{text}` finds nothing in the answer of `{}`",
                self.host
            ))),
            [one] => Ok((*one).clone()),
            several => Ok(several.iter().map(|value| (*value).clone()).collect()),
        }
    }

    fn failure(&self, attempts: u32) -> WorkFailure {
        let reason = StatusCode::from_u16(self.status)
            .ok()
            .and_then(|status| status.canonical_reason());
        let reason = reason
            .map(|reason| format!(" {reason}"))
            .unwrap_or_default();
        let mut message = format!("`{}` answered {}{reason}", self.host, self.status);
        if attempts > 1 {
            message = format!("{message}, {attempts} times");
        }
        let text = one_line(&self.text().unwrap_or_default(), LONGEST_TEXT);
        if !text.is_empty() {
            message = format!("{message}: {text}");
        }
        let failure = WorkFailure::new(FailureKind::Status, message);
        match self.status {
            401 | 403 => {
                failure.suggest("see `config.auth` and the variable that holds the secret")
            }
            404 | 410 => failure.suggest(hint![
                "see the address and the parameters with ",
                HintCall::DryRun
            ]),
            429 => failure.suggest("wait, or send fewer requests"),
            400..=499 => failure.suggest(hint!["see what is sent with ", HintCall::DryRun]),
            _ => failure.suggest("the other side has a problem; try again later"),
        }
    }

    fn body_value(&self) -> Result<Value, WorkFailure> {
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        let text = self.text();
        if self.is_json() {
            let wrong = |reason: String| {
                let message = format!(
                    "the answer of `{}` says that it is JSON and cannot be read: {reason}",
                    self.host
                );
                WorkFailure::new(FailureKind::Response, message)
            };
            let text = text.ok_or_else(|| wrong("it is not a text".to_owned()))?;
            // Some servers respond with only a line break.
            return if text.trim().is_empty() {
                Ok(Value::Null)
            } else {
                exact(&text).map_err(wrong)
            };
        }
        let Some(text) = text else {
            let kind = self.content_type().unwrap_or("application/octet-stream");
            return Ok(
                json!({"base64": base64(&self.body), "content_type": kind, "bytes": self.body.len()}),
            );
        };
        // A plain number or word may be anything; text that starts like this is meant as JSON.
        let looks_like = text.trim_start().starts_with(['{', '[']);
        let value = if looks_like { exact(&text).ok() } else { None };
        Ok(value.unwrap_or(Value::String(text)))
    }

    /// The body as text, if it is text.
    fn text(&self) -> Option<String> {
        let charset = self.content_type().and_then(|kind| {
            let parameters = kind.split(';').skip(1).filter_map(|it| it.split_once('='));
            let found =
                parameters.map(|(name, value)| (name.trim(), value.trim().trim_matches('"')));
            found
                .filter(|(name, _)| name.eq_ignore_ascii_case("charset"))
                .map(|(_, value)| value)
                .next()
        });
        let encoding = match charset {
            Some(label) => Encoding::for_label(label.as_bytes())?,
            None => encoding_rs::UTF_8,
        };
        // A byte order mark overrides the header.
        let (encoding, skipped) = Encoding::for_bom(&self.body).unwrap_or((encoding, 0));
        let text = encoding
            .decode_without_bom_handling_and_without_replacement(self.body.get(skipped..)?)?;
        let is_binary = self
            .content_type()
            .is_none_or(|kind| !kind.starts_with("text/"))
            && text.contains('\0');
        (!is_binary).then(|| text.into_owned())
    }

    fn content_type(&self) -> Option<&str> {
        self.headers.get(CONTENT_TYPE)?.to_str().ok()
    }

    fn is_json(&self) -> bool {
        let kind = self
            .content_type()
            .unwrap_or_default()
            .split(';')
            .next()
            .unwrap_or_default();
        let kind = kind.trim().to_ascii_lowercase();
        kind.ends_with("/json") || kind.ends_with("+json")
    }
}

/// The headers by name; repeated ones are joined as HTTP allows.
fn joined_headers(headers: &HeaderMap) -> Map<String, Value> {
    let mut told = Map::new();
    for name in headers.keys() {
        let values: Vec<String> = headers
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect();
        // Cookies contain commas, so they are joined by line breaks.
        let joint = if name == reqwest::header::SET_COOKIE {
            "\n"
        } else {
            ", "
        };
        told.insert(name.as_str().to_owned(), Value::String(values.join(joint)));
    }
    told
}
