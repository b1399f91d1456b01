//! Access to other machines: one HTTP client, and the addresses that it may reach.
//!
//! All HTTP for tools uses the [`client`] from here. [`GuardedLookup`] resolves names and returns
//! no forbidden address, so a name that changes its address between check and use gains nothing.
//! Literal addresses are checked by [`check_url`], also after every redirect.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::worker::{FailureKind, WorkFailure};

const CONNECT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkReach {
    /// Addresses of the internet only.
    Public,
    /// Also this machine and its network.
    Anywhere,
}

impl NetworkReach {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Anywhere => "anywhere",
        }
    }
}

/// Variables for proxies and trusted certificates.
const VARIABLES: [&str; 10] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// The user's variables that a worker needs for HTTP.
pub(super) fn variables(
    environment: &BTreeMap<OsString, OsString>,
) -> BTreeMap<OsString, OsString> {
    let pick = |name: &&str| environment.get_key_value(OsStr::new(name));
    let found = VARIABLES
        .iter()
        .filter_map(pick)
        .filter(|(_, value)| !value.is_empty());
    found
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// The hosts of the user's proxies. Their names may resolve to private addresses.
pub(super) fn proxy_hosts(environment: &BTreeMap<OsString, OsString>) -> Vec<String> {
    let is_proxy = |name: &OsString| {
        name.to_str().is_some_and(|name| {
            let name = name.to_ascii_lowercase();
            name.ends_with("_proxy") && name != "no_proxy"
        })
    };
    let values = variables(environment)
        .into_iter()
        .filter(|(name, _)| is_proxy(name))
        .map(|(_, value)| value);
    let host = |value: OsString| {
        let text = value.to_str()?.to_owned();
        // A proxy without a scheme is an HTTP proxy.
        let text = if text.contains("://") {
            text
        } else {
            format!("http://{text}")
        };
        Some(Url::parse(&text).ok()?.host_str()?.to_ascii_lowercase())
    };
    values.filter_map(host).collect()
}

/// A client that does not follow redirects.
pub(super) fn client(reach: NetworkReach) -> Result<reqwest::Client, WorkFailure> {
    client_behind(reach, &[])
}

/// A client that does not follow redirects, and may resolve these proxies to any address.
pub(super) fn client_behind(
    reach: NetworkReach,
    proxies: &[String],
) -> Result<reqwest::Client, WorkFailure> {
    use_ring();
    let builder = reqwest::Client::builder()
        .user_agent(concat!("piton/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .redirect(reqwest::redirect::Policy::none())
        .dns_resolver(Arc::new(GuardedLookup {
            reach,
            proxies: proxies.into(),
        }));
    builder.build().map_err(|err| {
        WorkFailure::new(
            FailureKind::Network,
            format!("cannot set up HTTP: {}", with_sources(&err)),
        )
        .suggest("check that the certificates of this machine are readable")
    })
}

/// Makes `ring` the TLS provider of this process.
pub(super) fn use_ring() {
    // It may be installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Refuses forbidden literal addresses, and schemes other than HTTP.
pub(super) fn check_url(url: &Url, reach: NetworkReach) -> Result<(), WorkFailure> {
    if !matches!(url.scheme(), "http" | "https" | "ws" | "wss") {
        let message = format!("`{}` is not a web address", url.scheme());
        return Err(WorkFailure::new(FailureKind::Address, message).suggest("write `https://…`"));
    }
    let address = match url.host() {
        Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
        Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
        Some(Host::Domain(name)) if is_local_name(name) => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        Some(Host::Domain(_)) => None,
        None => {
            return Err(
                WorkFailure::new(FailureKind::Address, "the address names no host")
                    .suggest("write `https://HOST/…`"),
            );
        }
    };
    match address {
        Some(address) if reach == NetworkReach::Public && is_private(address) => {
            Err(refused(url.host_str().unwrap_or_default()))
        }
        _ => Ok(()),
    }
}

/// The failure for a forbidden address.
pub(super) fn refused(host: &str) -> WorkFailure {
    let message = format!("`{host}` is a local or private address, which is not allowed");
    WorkFailure::new(FailureKind::Address, message).suggest(
        "if this is intended: `config.allow_private: true`, and a person runs it or the directive grants that endpoint",
    )
}

/// The kind of a failure to reach a server: an address that may not be reached is not a fault of the network.
pub(super) fn kind_of(err: &(dyn std::error::Error + 'static)) -> FailureKind {
    let is_refused =
        |err: &(dyn std::error::Error + 'static)| err.downcast_ref::<LookupFault>().is_some();
    if std::iter::successors(Some(err), |err| err.source()).any(is_refused) {
        FailureKind::Address
    } else {
        FailureKind::Network
    }
}

/// An error with what caused it.
pub(super) fn with_sources(err: &dyn std::error::Error) -> String {
    let mut text = err.to_string();
    let mut source = err.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Many errors repeat their cause.
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// Whether a name always means this machine or its network. Behind a proxy, piton does not resolve
/// names itself.
fn is_local_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost"
        || [".localhost", ".local", ".internal"]
            .iter()
            .any(|end| name.ends_with(end))
}

/// Resolves names and returns no forbidden address.
#[derive(Clone, Debug)]
struct GuardedLookup {
    reach: NetworkReach,
    /// Names that may resolve to any address.
    proxies: Arc<[String]>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum LookupFault {
    #[error("`{0}` is a local or private address, which is not allowed")]
    Private(String),
}

impl Resolve for GuardedLookup {
    fn resolve(&self, name: Name) -> Resolving {
        let is_proxy = self
            .proxies
            .iter()
            .any(|proxy| proxy.eq_ignore_ascii_case(name.as_str()));
        let reach = if is_proxy {
            NetworkReach::Anywhere
        } else {
            self.reach
        };
        Box::pin(async move {
            let allowed = allowed_addresses(name.as_str(), 0, reach).await?;
            if allowed.is_empty() {
                return Err(LookupFault::Private(name.as_str().to_owned()).into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// The allowed addresses of a host, for callers that connect themselves.
pub(super) async fn lookup(
    host: &str,
    port: u16,
    reach: NetworkReach,
) -> Result<Vec<SocketAddr>, WorkFailure> {
    let found = allowed_addresses(host, port, reach).await;
    let found = found.map_err(|err| {
        WorkFailure::new(
            FailureKind::Network,
            format!("cannot look `{host}` up: {err}"),
        )
    })?;
    if found.is_empty() {
        Err(refused(host))
    } else {
        Ok(found)
    }
}

async fn allowed_addresses(
    host: &str,
    port: u16,
    reach: NetworkReach,
) -> std::io::Result<Vec<SocketAddr>> {
    let found = tokio::net::lookup_host((host, port)).await?;
    Ok(found
        .filter(|it| reach == NetworkReach::Anywhere || !is_private(it.ip()))
        .collect())
}

/// Whether an address is not routed on the internet: this machine, its network, or reserved.
pub(super) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => is_private_v6(address),
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || a == 0
        || a >= 240
        // Carrier-grade NAT; some clouds have their metadata service there.
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (18..20).contains(&b))
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let [first, second, ..] = segments;
    let [.., high, low] = segments;
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_private_v4(Ipv4Addr::new(a, b, c, d))
    };
    if let Some(mapped) = address.to_ipv4() {
        return is_private_v4(mapped);
    }
    match first {
        // NAT64 and 6to4 lead to the embedded IPv4 address.
        0x0064 if second == 0xff9b => embedded(high, low),
        0x2002 => embedded(second, segments.get(2).copied().unwrap_or_default()),
        // Global addresses begin with 001, except Teredo and documentation.
        _ => first & 0xe000 != 0x2000 || (first == 0x2001 && (second == 0 || second == 0x0db8)),
    }
}

#[cfg(test)]
mod tests;
