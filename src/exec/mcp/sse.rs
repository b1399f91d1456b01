//! The older HTTP transport: a stream of events from the server, and one request per message to it.
//!
//! The first event contains the address for requests. It must be on the same server, because an
//! attacker who can write that event could otherwise redirect the secrets in piton's headers.

use http::{HeaderMap, StatusCode};
use tokio::sync::mpsc;
use url::Url;

use super::LARGEST;
use super::stdio::too_large;
use super::wire::{Ends, JsonRpcWire, WireFault};
use crate::exec::web::{NetworkReach, check_url, client, kind_of, with_sources};
use crate::exec::worker::{FailureKind, WorkFailure};
use crate::item::wording::shown;

/// Transports messages over two kinds of requests.
pub(super) async fn connect(
    url: &Url,
    headers: &HeaderMap,
    reach: NetworkReach,
    fault: &WireFault,
) -> Result<JsonRpcWire, WorkFailure> {
    check_url(url, reach)?;
    let client = client(reach)?;
    let sent = client
        .get(url.clone())
        .headers(headers.clone())
        .header("Accept", "text/event-stream")
        .send()
        .await;
    let mut response = sent.map_err(|err| unreachable(&err))?;
    if let Some(failure) = refusal(response.status()) {
        return Err(failure);
    }
    let mut events = Events::default();
    let endpoint = loop {
        match next(&mut response, &mut events).await? {
            None => {
                let message =
                    "the server ended its stream of events before it named an address for requests";
                return Err(WorkFailure::new(FailureKind::McpProtocol, message));
            }
            Some(event) if event.name == "endpoint" => break event.data,
            Some(_) => {}
        }
    };
    let endpoint = same_origin(url, &endpoint)?;
    let (wire, Ends { outgoing, incoming }) = JsonRpcWire::new(fault.clone());
    let failed = fault.clone();
    tokio::spawn(async move {
        loop {
            match next(&mut response, &mut events).await {
                Ok(Some(event)) if event.name == "message" => {
                    if incoming.send(event.data).await.is_err() {
                        return;
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(failure) => return failed.record(failure),
            }
        }
    });
    let (headers, fault) = (headers.clone(), fault.clone());
    tokio::spawn(post_all(client, endpoint, headers, outgoing, fault));
    Ok(wire)
}

/// Sends each message in a separate request, one after the other.
async fn post_all(
    client: reqwest::Client,
    endpoint: Url,
    headers: HeaderMap,
    mut outgoing: mpsc::Receiver<String>,
    fault: WireFault,
) {
    while let Some(text) = outgoing.recv().await {
        let request = client
            .post(endpoint.clone())
            .headers(headers.clone())
            .header("Content-Type", "application/json");
        let failure = match request.body(text).send().await {
            Ok(response) => refusal(response.status()),
            Err(err) => Some(unreachable(&err)),
        };
        if let Some(failure) = failure {
            return fault.record(failure);
        }
    }
}

/// The address for requests, if it is on the same server.
fn same_origin(url: &Url, endpoint: &str) -> Result<Url, WorkFailure> {
    let wrong = |what: &str| {
        let message = format!(
            "the server wants requests at `{}`, which {what}",
            shown(endpoint)
        );
        WorkFailure::new(FailureKind::McpProtocol, message)
    };
    let endpoint = url
        .join(endpoint.trim())
        .map_err(|_| wrong("is no address"))?;
    if endpoint.origin() != url.origin() {
        return Err(wrong("is another server"));
    }
    Ok(endpoint)
}

/// The failure for an HTTP status that is not a success.
pub(super) fn refusal(status: StatusCode) -> Option<WorkFailure> {
    if status.is_success() {
        return None;
    }
    let message = format!("the server answered with status {status}");
    let failure = WorkFailure::new(FailureKind::Network, message);
    Some(match status.as_u16() {
        401 | 403 => failure.suggest("see `config.auth`, and the variable that it names"),
        404 | 405 => failure
            .suggest("see `config.url`, and whether `config.transport` is what the server speaks"),
        300..=399 => failure
            .suggest("redirects are not followed; write the address where the server really is"),
        _ => failure,
    })
}

/// The failure for a request that could not be made.
pub(super) fn unreachable(err: &reqwest::Error) -> WorkFailure {
    let told = with_sources(&err);
    WorkFailure::new(
        kind_of(err),
        format!("the server cannot be reached: {told}"),
    )
}

#[derive(Debug, Default, PartialEq, Eq)]
struct SseEvent {
    name: String,
    data: String,
}

/// A buffer of incoming events.
#[derive(Debug, Default)]
struct Events {
    bytes: Vec<u8>,
    event: SseEvent,
    has_data: bool,
}

/// The next event; `None` at the end of the stream.
async fn next(
    response: &mut reqwest::Response,
    events: &mut Events,
) -> Result<Option<SseEvent>, WorkFailure> {
    loop {
        if let Some(event) = events.take() {
            return Ok(Some(event));
        }
        match response.chunk().await.map_err(|err| unreachable(&err))? {
            Some(chunk) => events.bytes.extend_from_slice(&chunk),
            None => return Ok(None),
        }
        if events.bytes.len() + events.event.data.len() > LARGEST {
            return Err(too_large());
        }
    }
}

impl Events {
    /// Takes the next complete event out of the buffer.
    fn take(&mut self) -> Option<SseEvent> {
        let mut from = 0;
        let mut done = None;
        while done.is_none() {
            let rest = self.bytes.get(from..).unwrap_or_default();
            let Some(at) = rest.iter().position(|byte| *byte == b'\n') else {
                break;
            };
            let line = String::from_utf8_lossy(rest.get(..at).unwrap_or_default()).into_owned();
            from += at + 1;
            done = self.line(line.strip_suffix('\r').unwrap_or(&line));
        }
        self.bytes.drain(..from);
        done
    }

    /// Takes in a line; the empty one ends an event.
    fn line(&mut self, line: &str) -> Option<SseEvent> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            let name = if event.name.is_empty() {
                "message".to_owned()
            } else {
                event.name
            };
            return std::mem::take(&mut self.has_data).then_some(SseEvent {
                name,
                data: event.data,
            });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
                self.has_data = true;
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(chunks: &[&str]) -> Vec<(String, String)> {
        let mut events = Events::default();
        let mut all = Vec::new();
        for chunk in chunks {
            events.bytes.extend_from_slice(chunk.as_bytes());
            while let Some(event) = events.take() {
                all.push((event.name, event.data));
            }
        }
        all
    }

    fn event(name: &str, data: &str) -> (String, String) {
        (name.to_owned(), data.to_owned())
    }

    #[test]
    fn events_are_read_as_they_come_in_pieces() {
        let found = events(&[
            "event: endp",
            "oint\r\ndata: /messages?id=1\r\n",
            "\r\n: a comment\n\ndata: {\ndata:}\n\nid: 3",
        ]);
        assert_eq!(
            found,
            [
                event("endpoint", "/messages?id=1"),
                event("message", "{\n}")
            ]
        );
    }

    #[test]
    fn requests_go_to_the_server_that_was_asked_only() {
        let url = Url::parse("http://example.com:8080/sse").expect("an address");
        let ok = |text: &str| {
            same_origin(&url, text)
                .map(|url| url.to_string())
                .map_err(|it| it.message)
        };
        assert_eq!(
            ok("/messages?x=1"),
            Ok("http://example.com:8080/messages?x=1".to_owned())
        );
        assert_eq!(
            ok("http://example.com:8080/m"),
            Ok("http://example.com:8080/m".to_owned())
        );
        for other in [
            "http://example.com/m",
            "https://example.com:8080/m",
            "//evil.example/m",
            "http://evil.example",
        ] {
            let refused =
                format!("the server wants requests at `{other}`, which is another server");
            assert_eq!(ok(other), Err(refused));
        }
    }
}
