//! The older transport over HTTP: a stream of events from the server, and a request for each message to it.
//!
//! The first event names the address for requests. It has to be of the same server: whoever can write that
//! event could else have the secrets in our header fields sent elsewhere.

use http::{HeaderMap, StatusCode};
use tokio::sync::mpsc;
use url::Url;

use super::LARGEST;
use super::stdio::too_large;
use super::wire::{Ends, Fault, Wire};
use crate::exec::web::{Reach, check_url, client, kind_of, with_sources};
use crate::exec::worker::{Failure, FailureKind};
use crate::item::wording::shown;

/// Carries messages over two kinds of requests.
pub(super) async fn connect(url: &Url, headers: &HeaderMap, reach: Reach, fault: &Fault) -> Result<Wire, Failure> {
    check_url(url, reach)?;
    let client = client(reach)?;
    let sent = client.get(url.clone()).headers(headers.clone()).header("Accept", "text/event-stream").send().await;
    let mut response = sent.map_err(|err| unreachable(&err))?;
    if let Some(failure) = refusal(response.status()) {
        return Err(failure);
    }
    let mut events = Events::default();
    let endpoint = loop {
        match next(&mut response, &mut events).await? {
            None => {
                let message = "the server ended its stream of events before it named an address for requests";
                return Err(Failure::new(FailureKind::McpProtocol, message));
            }
            Some(event) if event.name == "endpoint" => break event.data,
            Some(_) => {}
        }
    };
    let endpoint = same_origin(url, &endpoint)?;
    let (wire, Ends { outgoing, incoming }) = Wire::new(fault.clone());
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
                Err(failure) => return failed.say(failure),
            }
        }
    });
    let (headers, fault) = (headers.clone(), fault.clone());
    tokio::spawn(post_all(client, endpoint, headers, outgoing, fault));
    Ok(wire)
}

/// Sends each message in a request of its own, one after the other.
async fn post_all(
    client: reqwest::Client,
    endpoint: Url,
    headers: HeaderMap,
    mut outgoing: mpsc::Receiver<String>,
    fault: Fault,
) {
    while let Some(text) = outgoing.recv().await {
        let request = client.post(endpoint.clone()).headers(headers.clone()).header("Content-Type", "application/json");
        let failure = match request.body(text).send().await {
            Ok(response) => refusal(response.status()),
            Err(err) => Some(unreachable(&err)),
        };
        if let Some(failure) = failure {
            return fault.say(failure);
        }
    }
}

/// The address for requests, if it is of the same server.
fn same_origin(url: &Url, endpoint: &str) -> Result<Url, Failure> {
    let wrong = |what: &str| {
        let message = format!("the server wants requests at `{}`, which {what}", shown(endpoint));
        Failure::new(FailureKind::McpProtocol, message)
    };
    let endpoint = url.join(endpoint.trim()).map_err(|_| wrong("is no address"))?;
    if endpoint.origin() != url.origin() {
        return Err(wrong("is another server"));
    }
    Ok(endpoint)
}

/// What a status that is none of success means.
pub(super) fn refusal(status: StatusCode) -> Option<Failure> {
    if status.is_success() {
        return None;
    }
    let message = format!("the server answered with status {status}");
    let failure = Failure::new(FailureKind::Network, message);
    Some(match status.as_u16() {
        401 | 403 => failure.suggest("see `config.auth`, and the variable that it names"),
        404 | 405 => failure.suggest("see `config.url`, and whether `config.transport` is what the server speaks"),
        300..=399 => failure.suggest("redirects are not followed; write the address where the server really is"),
        _ => failure,
    })
}

/// Why another machine could not be asked.
pub(super) fn unreachable(err: &reqwest::Error) -> Failure {
    let told = with_sources(&err);
    Failure::new(kind_of(err), format!("the server cannot be reached: {told}"))
}

/// One event.
#[derive(Debug, Default, PartialEq, Eq)]
struct Event {
    name: String,
    data: String,
}

/// Events in the making.
#[derive(Debug, Default)]
struct Events {
    bytes: Vec<u8>,
    event: Event,
    has_data: bool,
}

/// The next event; none at the end of the stream.
async fn next(response: &mut reqwest::Response, events: &mut Events) -> Result<Option<Event>, Failure> {
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
    /// Takes the next whole event out of what arrived.
    fn take(&mut self) -> Option<Event> {
        let mut from = 0;
        let mut done = None;
        while done.is_none() {
            let rest = self.bytes.get(from..).unwrap_or_default();
            let Some(at) = rest.iter().position(|byte| *byte == b'\n') else { break };
            let line = String::from_utf8_lossy(rest.get(..at).unwrap_or_default()).into_owned();
            from += at + 1;
            done = self.line(line.strip_suffix('\r').unwrap_or(&line));
        }
        self.bytes.drain(..from);
        done
    }

    /// Takes in a line; the empty one ends an event.
    fn line(&mut self, line: &str) -> Option<Event> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            let name = if event.name.is_empty() { "message".to_owned() } else { event.name };
            return std::mem::take(&mut self.has_data).then_some(Event { name, data: event.data });
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
        let found =
            events(&["event: endp", "oint\r\ndata: /messages?id=1\r\n", "\r\n: a comment\n\ndata: {\ndata:}\n\nid: 3"]);
        assert_eq!(found, [event("endpoint", "/messages?id=1"), event("message", "{\n}")]);
    }

    #[test]
    fn requests_go_to_the_server_that_was_asked_only() {
        let url = Url::parse("http://example.com:8080/sse").expect("an address");
        let ok = |text: &str| same_origin(&url, text).map(|url| url.to_string()).map_err(|it| it.message);
        assert_eq!(ok("/messages?x=1"), Ok("http://example.com:8080/messages?x=1".to_owned()));
        assert_eq!(ok("http://example.com:8080/m"), Ok("http://example.com:8080/m".to_owned()));
        for other in ["http://example.com/m", "https://example.com:8080/m", "//evil.example/m", "http://evil.example"] {
            let refused = format!("the server wants requests at `{other}`, which is another server");
            assert_eq!(ok(other), Err(refused));
        }
    }
}
