//! Where a redirect leads.
//!
//! The next request is what a browser would send, with less: no secret goes to another server, and
//! nothing goes from HTTPS to HTTP. The caller checks whether the next address is allowed.

use reqwest::Response;
use reqwest::header::LOCATION;
use url::Url;

use super::{HeaderField, host_of};
use crate::exec::worker::{FailureKind, WorkFailure};

#[derive(Clone, Debug)]
pub(super) struct NextRequest {
    pub(super) method: String,
    pub(super) url: Url,
    pub(super) headers: Vec<HeaderField>,
    pub(super) body: Option<String>,
}

/// Headers that always count as credentials.
const CREDENTIALS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// The request for a redirect; `None` when the response is not one.
pub(super) fn follow(
    now: &NextRequest,
    response: &Response,
    is_body_secret: bool,
) -> Result<Option<NextRequest>, WorkFailure> {
    let status = response.status().as_u16();
    match response.headers().get(LOCATION) {
        Some(location) if matches!(status, 301 | 302 | 303 | 307 | 308) => {
            step(now, status, location.as_bytes(), is_body_secret).map(Some)
        }
        _ => Ok(None),
    }
}

fn step(
    now: &NextRequest,
    status: u16,
    location: &[u8],
    is_body_secret: bool,
) -> Result<NextRequest, WorkFailure> {
    let refused = |message: String| WorkFailure::new(FailureKind::Redirect, message);
    let host = host_of(&now.url);
    let text = String::from_utf8_lossy(location);
    let url = now
        .url
        .join(&text)
        .map_err(|err| refused(format!("`{host}` redirects to an invalid address: {err}")))?;
    if now.url.scheme() == "https" && url.scheme() == "http" {
        let message = format!("`{host}` redirects from HTTPS to unencrypted HTTP");
        return Err(
            refused(message).suggest("use the target address directly, if this is intended")
        );
    }
    let mut next = NextRequest { url, ..now.clone() };
    next.url.set_fragment(None);
    let becomes_get = match status {
        303 => now.method != "HEAD",
        301 | 302 => now.method == "POST",
        _ => false,
    };
    if becomes_get {
        "GET".clone_into(&mut next.method);
        next.body = None;
        next.headers
            .retain(|field| !field.name.to_ascii_lowercase().starts_with("content-"));
    }
    if next.url.origin() != now.url.origin() {
        let is_kept = |field: &HeaderField| {
            !field.is_secret
                && !CREDENTIALS
                    .iter()
                    .any(|name| field.name.eq_ignore_ascii_case(name))
        };
        next.headers.retain(is_kept);
        if is_body_secret && next.body.is_some() {
            let message = format!(
                "`{host}` leads to `{}`, and the body holds a secret",
                host_of(&next.url)
            );
            return Err(
                refused(message).suggest("use the target address directly, if this is intended")
            );
        }
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(method: &str, url: &str) -> NextRequest {
        let field = |name: &str, is_secret| HeaderField {
            name: name.to_owned(),
            value: "x".to_owned(),
            is_secret,
        };
        NextRequest {
            method: method.to_owned(),
            url: Url::parse(url).unwrap(),
            headers: vec![
                field("accept", false),
                field("Content-Type", false),
                field("Authorization", false),
                field("X-Token", true),
            ],
            body: Some("body".to_owned()),
        }
    }

    fn request_parts(next: &NextRequest) -> (String, &str, Vec<&str>, bool) {
        let names = next
            .headers
            .iter()
            .map(|field| field.name.as_str())
            .collect();
        (
            next.method.clone(),
            next.url.as_str(),
            names,
            next.body.is_some(),
        )
    }

    #[test]
    fn methods_change_as_in_browsers() {
        let from = |method: &str, status| {
            step(&now(method, "https://a.example/x"), status, b"/y", false).unwrap()
        };
        for (method, status, becomes, has_body) in [
            ("POST", 301, "GET", false),
            ("POST", 302, "GET", false),
            ("POST", 303, "GET", false),
            ("PUT", 303, "GET", false),
            ("HEAD", 303, "HEAD", true),
            ("PUT", 302, "PUT", true),
            ("POST", 307, "POST", true),
            ("POST", 308, "POST", true),
        ] {
            let next = from(method, status);
            assert_eq!(
                (next.method.as_str(), next.body.is_some()),
                (becomes, has_body),
                "{method} {status}"
            );
        }
        assert_eq!(
            request_parts(&from("POST", 303)),
            (
                "GET".to_owned(),
                "https://a.example/y",
                vec!["accept", "Authorization", "X-Token"],
                false
            )
        );
    }

    #[test]
    fn another_server_gets_no_secrets() {
        let to = |location: &str| {
            step(
                &now("PUT", "https://a.example/x"),
                307,
                location.as_bytes(),
                false,
            )
            .unwrap()
        };
        for location in [
            "https://b.example/y",
            "https://a.example:8443/y",
            "//evil.example/y",
        ] {
            let next = to(location);
            assert_eq!(
                request_parts(&next).2,
                ["accept", "Content-Type"],
                "{location}"
            );
        }
        assert_eq!(
            request_parts(&to("https://a.example/y#part")).1,
            "https://a.example/y"
        );
        assert_eq!(request_parts(&to("?q=1")).1, "https://a.example/x?q=1");
        let refused = step(
            &now("PUT", "https://a.example/x"),
            307,
            b"https://b.example/",
            true,
        )
        .unwrap_err();
        assert_eq!(
            refused.message,
            "`a.example` leads to `b.example`, and the body holds a secret"
        );
    }

    #[test]
    fn nothing_leaves_a_protected_connection() {
        let refused = step(
            &now("GET", "https://a.example/x"),
            302,
            b"http://a.example/x",
            false,
        )
        .unwrap_err();
        assert_eq!(
            refused.message,
            "`a.example` redirects from HTTPS to unencrypted HTTP"
        );
        assert!(
            step(
                &now("GET", "http://a.example/x"),
                302,
                b"https://a.example/x",
                false
            )
            .is_ok()
        );
        let refused =
            step(&now("GET", "https://a.example/x"), 302, b"https://[", false).unwrap_err();
        assert_eq!(refused.kind, FailureKind::Redirect);
    }
}
