//! A server behind a WebSocket: one message per text frame.

use futures_util::{SinkExt, Stream, StreamExt};
use http::HeaderMap;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::client_async_tls_with_config;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::CapacityError;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use url::Url;

use super::LARGEST;
use super::sse::refusal;
use super::stdio::too_large;
use super::wire::{Ends, JsonRpcWire, WireFault};
use crate::exec::web::{NetworkReach, check_url, lookup, use_ring, with_sources};
use crate::exec::worker::{FailureKind, WorkFailure};

/// Carries messages over one connection.
pub(super) async fn connect(
    url: &Url,
    headers: &HeaderMap,
    reach: NetworkReach,
    fault: &WireFault,
) -> Result<JsonRpcWire, WorkFailure> {
    check_url(url, reach)?;
    use_ring();
    let failed = |what: String| {
        WorkFailure::new(
            FailureKind::Network,
            format!("the server cannot be reached: {what}"),
        )
    };
    let mut request = url
        .as_str()
        .into_client_request()
        .map_err(|err| failed(with_sources(&err)))?;
    request.headers_mut().extend(headers.clone());
    request.headers_mut().insert(
        "Sec-WebSocket-Protocol",
        http::HeaderValue::from_static("mcp"),
    );
    let host = url
        .host_str()
        .unwrap_or_default()
        .trim_start_matches('[')
        .trim_end_matches(']');
    let port = url.port_or_known_default().unwrap_or(443);
    let addresses = lookup(host, port, reach).await?;
    let stream = TcpStream::connect(addresses.as_slice())
        .await
        .map_err(|err| failed(err.to_string()))?;
    let config = WebSocketConfig::default()
        .max_message_size(Some(LARGEST))
        .max_frame_size(Some(LARGEST));
    let connected = client_async_tls_with_config(request, stream, Some(config), None).await;
    let (socket, _) = connected.map_err(|err| match &err {
        Error::Http(response) => {
            refusal(response.status()).unwrap_or_else(|| failed(with_sources(&err)))
        }
        _ => failed(with_sources(&err)),
    })?;
    let (mut to, from) = socket.split();
    let (
        wire,
        Ends {
            mut outgoing,
            incoming,
        },
    ) = JsonRpcWire::new(fault.clone());
    tokio::spawn(async move {
        while let Some(text) = outgoing.recv().await {
            if to.send(Message::text(text)).await.is_err() {
                return;
            }
        }
        // Closing is a courtesy to the server; ignore failures.
        let _ = to.close().await;
    });
    tokio::spawn(receive_all(from, incoming, fault.clone()));
    Ok(wire)
}

/// Passes on the server's messages until the connection ends.
async fn receive_all(
    mut from: impl Stream<Item = Result<Message, Error>> + Unpin,
    incoming: mpsc::Sender<String>,
    fault: WireFault,
) {
    while let Some(message) = from.next().await {
        let text = match message {
            Ok(Message::Text(text)) => text.to_string(),
            Ok(Message::Binary(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
            Ok(Message::Close(_)) => return,
            Ok(_) => continue,
            Err(Error::Capacity(CapacityError::MessageTooLong { .. })) => {
                return fault.record(too_large());
            }
            Err(err) => {
                let message = format!("the connection to the server broke: {}", with_sources(&err));
                return fault.record(WorkFailure::new(FailureKind::Network, message));
            }
        };
        if incoming.send(text).await.is_err() {
            return;
        }
    }
}
