//! Access control: addresses, tokens, allowed hosts and origins.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use crate::problem::{Code, Explain, Hint};
use sha2::{Digest, Sha256};

const MIN_TOKEN: usize = 16;

#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Port 0 selects any free port.
    pub address: SocketAddr,
    /// Which machines may connect.
    pub reach: ListenReach,
    pub access: ClientAccess,
    /// Host names that requests may use, besides `localhost` and its addresses.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may send requests, besides the server's own, e.g.
    /// `https://app.example:443`.
    pub allowed_origins: Vec<String>,
}

/// Which machines may connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenReach {
    Loopback,
    /// Any machine. The traffic is not encrypted.
    Anywhere,
}

/// What a client must present.
#[derive(Clone, Debug)]
pub enum ClientAccess {
    Token(AccessToken),
    /// Nothing. Only on this machine, for tests of the protocol.
    Open,
}

/// A secret token; only its hash is kept.
#[derive(Clone)]
pub struct AccessToken {
    digest: [u8; 32],
}

#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// Other machines could connect, and the user did not allow that.
    #[error("`{address}` can be reached by other machines")]
    NotLoopback { address: SocketAddr },
    #[error("`{address}` can be reached by other machines, and no token is required")]
    Open { address: SocketAddr },
    /// The token is too easy to guess or cannot be sent.
    #[error("the token is not usable: at least {MIN_TOKEN} visible ASCII characters are needed")]
    Token,
    #[error("cannot listen on `{address}`: {source}")]
    Bind {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("cannot listen for signals: {0}")]
    Signals(io::Error),
}

impl Explain for HttpError {
    fn code(&self) -> Code {
        match self {
            Self::NotLoopback { .. } => Code::McpNotLoopback,
            Self::Open { .. } => Code::McpOpen,
            Self::Token => Code::McpTokenUnusable,
            Self::Bind { .. } => Code::McpBind,
            Self::Signals(_) => Code::McpSignals,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::NotLoopback { .. } => {
                Some("listen on `127.0.0.1`, or say that other machines may connect".into())
            }
            Self::Open { .. } => Some("require a token, or listen on `127.0.0.1`".into()),
            Self::Token => Some("make one with `openssl rand -hex 32`".into()),
            Self::Bind { .. } => {
                Some("another program may listen there; port 0 takes any that is free".into())
            }
            Self::Signals(_) => None,
        }
    }
}

impl HttpOptions {
    /// Serves this machine only, with a token.
    pub fn new(address: SocketAddr, token: AccessToken) -> Self {
        Self {
            address,
            reach: ListenReach::Loopback,
            access: ClientAccess::Token(token),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
        }
    }

    /// Refuses settings that expose the server by accident.
    pub(super) fn check(&self) -> Result<(), HttpError> {
        let address = self.address;
        if address.ip().is_loopback() {
            return Ok(());
        }
        match (self.reach, &self.access) {
            (ListenReach::Loopback, _) => Err(HttpError::NotLoopback { address }),
            (ListenReach::Anywhere, ClientAccess::Open) => Err(HttpError::Open { address }),
            (ListenReach::Anywhere, ClientAccess::Token(_)) => Ok(()),
        }
    }

    /// The accepted values of the Host header.
    pub(super) fn hosts(&self, address: SocketAddr) -> Vec<String> {
        let mut hosts: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
        if !address.ip().is_unspecified() {
            hosts.push(address.ip().to_string());
        }
        hosts.extend(self.allowed_hosts.iter().cloned());
        hosts
    }

    /// The accepted origins: the server's own and the configured ones.
    pub(super) fn origins(&self, address: SocketAddr) -> Vec<String> {
        let port = address.port();
        let own = [
            format!("http://localhost:{port}"),
            format!("http://127.0.0.1:{port}"),
            format!("http://[::1]:{port}"),
        ];
        own.into_iter()
            .chain(self.allowed_origins.iter().cloned())
            .collect()
    }
}

impl ClientAccess {
    /// Whether an `Authorization` header grants access.
    pub(super) fn admits(&self, authorization: Option<&[u8]>) -> bool {
        match self {
            Self::Open => true,
            Self::Token(token) => authorization
                .and_then(bearer)
                .is_some_and(|shown| token.is(shown)),
        }
    }
}

impl AccessToken {
    /// Checks that a secret is usable as a token.
    pub fn parse(secret: &str) -> Result<Self, HttpError> {
        if secret.len() < MIN_TOKEN || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(HttpError::Token);
        }
        Ok(Self {
            digest: Sha256::digest(secret.as_bytes()).into(),
        })
    }

    /// Compares in constant time: only digests are compared, and always completely.
    fn is(&self, shown: &[u8]) -> bool {
        let shown: [u8; 32] = Sha256::digest(shown).into();
        self.digest
            .iter()
            .zip(shown)
            .fold(0, |differing, (own, other)| differing | (own ^ other))
            == 0
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken(…)")
    }
}

/// The token of a `Bearer` header.
fn bearer(header: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = header.split_at_checked("Bearer ".len())?;
    scheme
        .eq_ignore_ascii_case(b"Bearer ")
        .then(|| token.trim_ascii())
}
