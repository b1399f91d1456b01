//! A server that sends given bytes, valid or not, and records the requests.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A loopback server; its threads end with the test.
pub(crate) struct Server {
    pub(crate) port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// One recorded request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// The request line without the version.
    pub(crate) line: String,
    /// The header fields, with names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

/// An HTTP response with a body.
pub(crate) fn answer(status: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

/// A JSON response.
pub(crate) fn json(body: &str) -> String {
    answer("200 OK", "application/json", body)
}

/// A redirect response.
pub(crate) fn redirect(status: &str, location: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
}

impl Server {
    /// Answers each request with the next of these responses, and all further requests with the
    /// last one.
    pub(crate) fn answering<A: Into<Vec<u8>>>(answers: impl IntoIterator<Item = A>) -> Self {
        let answers: Vec<Vec<u8>> = answers.into_iter().map(Into::into).collect();
        Self::start(move |number, _, stream| {
            let answer = answers.get(number).or(answers.last()).expect("an answer");
            // The client may close the connection early.
            let _ = stream.write_all(answer);
        })
    }

    /// Calls `reply` for each connection with its number from 0, the request and the stream.
    pub(crate) fn start(
        reply: impl Fn(usize, &Asked, &mut TcpStream) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (known, reply) = (Arc::clone(&asked), Arc::new(reply));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                let (known, reply) = (Arc::clone(&known), Arc::clone(&reply));
                thread::spawn(move || {
                    let Some(request) = read(&mut stream) else {
                        return;
                    };
                    let number = {
                        let mut known = known.lock().expect("a list");
                        known.push(request.clone());
                        known.len() - 1
                    };
                    reply(number, &request, &mut stream);
                    let _ = stream.shutdown(Shutdown::Write);
                    // Wait until the client has read everything: a reset would discard it.
                    let _ = stream.read(&mut [0; 1024]);
                });
            }
        });
        Self { port, asked }
    }

    /// The URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The requests so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("a list").clone()
    }

    /// The request lines so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.line).collect()
    }
}

/// Reads one request with its body.
pub(crate) fn read(stream: &mut impl std::io::Read) -> Option<Asked> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|it| it == b"\r\n\r\n") {
            break at;
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(length) => bytes.extend_from_slice(&buffer[..length]),
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let line = lines
        .next()
        .unwrap_or_default()
        .trim_end_matches(" HTTP/1.1")
        .to_owned();
    let field = |line: &str| {
        let (name, value) = line.split_once(':').expect("a header field");
        (name.to_ascii_lowercase(), value.trim().to_owned())
    };
    let headers: Vec<(String, String)> = lines.map(field).collect();
    let length = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .map_or(0, |(_, value)| value.parse().expect("a length"));
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(length) => body.extend_from_slice(&buffer[..length]),
        }
    }
    Some(Asked {
        line,
        headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}
