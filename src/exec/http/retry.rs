//! Whether and when a request is retried.
//!
//! Repeatable methods (GET, HEAD, OPTIONS, PUT, DELETE) are retried after 429, any 5xx, or a failed
//! connection. POST and PATCH are retried only when the server cannot have done anything: 429 and
//! 503, which refuse the work, and connections that were never made. The wait doubles each time, or
//! is longer if the server asks for that.

use std::time::Duration;

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

use super::answer::HttpResponse;
use super::{FaultKind, RequestFault};

const FIRST: Duration = Duration::from_millis(500);
/// The longest wait unless the server asks for more.
const LONGEST: Duration = Duration::from_secs(16);

/// How long to wait after a response; `None` when it is final.
pub(super) fn after_answer(method: &str, answer: &HttpResponse, attempt: u32) -> Option<Duration> {
    let again = match answer.status {
        429 | 503 => true,
        status => status >= 500 && is_repeatable(method),
    };
    again.then(|| {
        asked_for(&answer.headers)
            .unwrap_or_default()
            .max(wait(attempt))
    })
}

/// How long to wait after a failed attempt; `None` when it is final.
pub(super) fn after_fault(method: &str, fault: &RequestFault, attempt: u32) -> Option<Duration> {
    let again = match fault.kind {
        FaultKind::Unsent => true,
        FaultKind::Broken => is_repeatable(method),
        FaultKind::Final => false,
    };
    again.then(|| wait(attempt))
}

/// Whether a request can be repeated without repeating an effect.
pub(in crate::exec) fn is_repeatable(method: &str) -> bool {
    !matches!(method, "POST" | "PATCH")
}

fn wait(attempt: u32) -> Duration {
    FIRST
        .saturating_mul(2_u32.saturating_pow(attempt))
        .min(LONGEST)
}

/// The wait that the server asks for: seconds, or until a time by its own clock.
fn asked_for(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let time = |text: &str| {
        jiff::fmt::rfc2822::parse(text)
            .ok()
            .map(|time| time.timestamp())
    };
    let now = time(headers.get(DATE)?.to_str().ok()?)?;
    Duration::try_from(time(text)?.duration_since(now)).ok()
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn answer(status: u16, fields: &[(reqwest::header::HeaderName, &'static str)]) -> HttpResponse {
        let headers = fields
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_static(value)))
            .collect();
        HttpResponse::of(status, headers)
    }

    #[test]
    fn idempotent_requests_are_retried() {
        for (method, status, again) in [
            ("GET", 200, false),
            ("GET", 404, false),
            ("GET", 429, true),
            ("GET", 500, true),
            ("DELETE", 502, true),
            ("PUT", 599, true),
            ("POST", 500, false),
            ("POST", 504, false),
            ("POST", 503, true),
            ("PATCH", 429, true),
        ] {
            assert_eq!(
                after_answer(method, &answer(status, &[]), 0).is_some(),
                again,
                "{method} {status}"
            );
        }
        let fault = |kind| RequestFault {
            kind,
            ..RequestFault::from(crate::exec::worker::WorkFailure::new(
                crate::exec::worker::FailureKind::Network,
                "x",
            ))
        };
        for (method, kind, again) in [
            ("POST", FaultKind::Unsent, true),
            ("POST", FaultKind::Broken, false),
            ("GET", FaultKind::Broken, true),
            ("GET", FaultKind::Final, false),
        ] {
            assert_eq!(
                after_fault(method, &fault(kind), 0).is_some(),
                again,
                "{method} {kind:?}"
            );
        }
    }

    #[test]
    fn the_wait_doubles_and_heeds_the_other_side() {
        let waits: Vec<u128> = (0..8).map(|attempt| wait(attempt).as_millis()).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16000, 16000, 16000]);
        let after = |fields: &[_]| after_answer("GET", &answer(503, fields), 0);
        assert_eq!(after(&[(RETRY_AFTER, "7")]), Some(Duration::from_secs(7)));
        assert_eq!(after(&[(RETRY_AFTER, "0")]), Some(FIRST));
        let until = "Fri, 02 Jan 2026 03:05:05 GMT";
        assert_eq!(
            after(&[(RETRY_AFTER, until)]),
            Some(FIRST),
            "a date needs the clock of the server"
        );
        assert_eq!(
            after(&[
                (RETRY_AFTER, until),
                (DATE, "Fri, 02 Jan 2026 03:04:05 GMT")
            ]),
            Some(Duration::from_mins(1))
        );
        assert_eq!(
            after(&[
                (RETRY_AFTER, until),
                (DATE, "Fri, 02 Jan 2026 03:06:05 GMT")
            ]),
            Some(FIRST)
        );
        assert_eq!(after(&[(RETRY_AFTER, "soon")]), Some(FIRST));
    }
}
