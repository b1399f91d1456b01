//! The way to other machines: one kind of client, and the addresses that it may reach.
//!
//! Whoever speaks HTTP in the name of a tool gets its [`client`] here. Names are looked up by
//! [`GuardedLookup`], which hands out no address that may not be reached, so that a name which means
//! something else a moment later gets nobody any further; addresses that are written out are
//! judged by [`check_url`], which every redirect has to pass as well.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::worker::{Failure, FailureKind};

/// How long it may take to reach the other side.
const CONNECT: Duration = Duration::from_secs(10);

/// Which addresses may be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Those of the internet only.
    Public,
    /// Also this machine and its network.
    Anywhere,
}

impl Reach {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Anywhere => "anywhere",
        }
    }
}

/// The variables that lead programs to the web: proxies, and the certificates to trust.
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

/// Those of the user's variables that a worker needs to get to the web.
pub(super) fn variables(environment: &BTreeMap<OsString, OsString>) -> BTreeMap<OsString, OsString> {
    let pick = |name: &&str| environment.get_key_value(OsStr::new(name));
    let found = VARIABLES.iter().filter_map(pick).filter(|(_, value)| !value.is_empty());
    found.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The hosts of the user's proxies: their names may mean addresses of the network, and are looked up.
pub(super) fn proxy_hosts(environment: &BTreeMap<OsString, OsString>) -> Vec<String> {
    let is_proxy = |name: &OsString| {
        name.to_str().is_some_and(|name| {
            let name = name.to_ascii_lowercase();
            name.ends_with("_proxy") && name != "no_proxy"
        })
    };
    let values = variables(environment).into_iter().filter(|(name, _)| is_proxy(name)).map(|(_, value)| value);
    let host = |value: OsString| {
        let text = value.to_str()?.to_owned();
        // Without a scheme it is one for HTTP.
        let text = if text.contains("://") { text } else { format!("http://{text}") };
        Some(Url::parse(&text).ok()?.host_str()?.to_ascii_lowercase())
    };
    values.filter_map(host).collect()
}

/// A client that follows no redirect by itself.
pub(super) fn client(reach: Reach) -> Result<reqwest::Client, Failure> {
    client_behind(reach, &[])
}

/// A client that follows no redirect by itself, and may look up these proxies wherever they are.
pub(super) fn client_behind(reach: Reach, proxies: &[String]) -> Result<reqwest::Client, Failure> {
    use_ring();
    let builder = reqwest::Client::builder()
        .user_agent(concat!("piton/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .redirect(reqwest::redirect::Policy::none())
        .dns_resolver(Arc::new(GuardedLookup { reach, proxies: proxies.into() }));
    builder.build().map_err(|err| {
        Failure::new(FailureKind::Network, format!("cannot make ready for HTTP: {}", with_sources(&err)))
            .suggest("see that the certificates of this machine can be read")
    })
}

/// Makes `ring` what TLS is done with in this process.
pub(super) fn use_ring() {
    // It may have been done already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Refuses an address that is written out and may not be reached, and anything but HTTP.
pub(super) fn check_url(url: &Url, reach: Reach) -> Result<(), Failure> {
    if !matches!(url.scheme(), "http" | "https" | "ws" | "wss") {
        let message = format!("`{}` is not an address of the web", url.scheme());
        return Err(Failure::new(FailureKind::Address, message).suggest("write `https://…`"));
    }
    let address = match url.host() {
        Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
        Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
        Some(Host::Domain(name)) if is_local_name(name) => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        Some(Host::Domain(_)) => None,
        None => {
            return Err(
                Failure::new(FailureKind::Address, "the address names no host").suggest("write `https://HOST/…`")
            );
        }
    };
    match address {
        Some(address) if reach == Reach::Public && is_private(address) => {
            Err(refused(url.host_str().unwrap_or_default()))
        }
        _ => Ok(()),
    }
}

/// An address that may not be reached.
pub(super) fn refused(host: &str) -> Failure {
    let message = format!("`{host}` is an address of this machine or its network, which is not allowed");
    Failure::new(FailureKind::Address, message).suggest(
        "if that is meant: `config.allow_private: true`, and a person runs it or the directive grants that endpoint",
    )
}

/// The kind of a failure to reach a server: an address that may not be reached is not a fault of the network.
pub(super) fn kind_of(err: &(dyn std::error::Error + 'static)) -> FailureKind {
    let is_refused = |err: &(dyn std::error::Error + 'static)| err.downcast_ref::<LookupFault>().is_some();
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
        // Many repeat what caused them.
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// Whether a name is of this machine or its network, whoever looks it up: behind a proxy that is not us.
fn is_local_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || [".localhost", ".local", ".internal"].iter().any(|end| name.ends_with(end))
}

/// Looks names up and hands out no address that may not be reached.
#[derive(Clone, Debug)]
struct GuardedLookup {
    reach: Reach,
    /// Names that may mean any address.
    proxies: Arc<[String]>,
}

/// Why a name gives no address.
#[derive(Debug, thiserror::Error)]
pub(super) enum LookupFault {
    /// It means an address that may not be reached.
    #[error("`{0}` is an address of this machine or its network, which is not allowed")]
    Private(String),
}

impl Resolve for GuardedLookup {
    fn resolve(&self, name: Name) -> Resolving {
        let is_proxy = self.proxies.iter().any(|proxy| proxy.eq_ignore_ascii_case(name.as_str()));
        let reach = if is_proxy { Reach::Anywhere } else { self.reach };
        Box::pin(async move {
            let allowed = allowed_addresses(name.as_str(), 0, reach).await?;
            if allowed.is_empty() {
                return Err(LookupFault::Private(name.as_str().to_owned()).into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// The addresses of a host that may be reached, for who connects by itself.
pub(super) async fn lookup(host: &str, port: u16, reach: Reach) -> Result<Vec<SocketAddr>, Failure> {
    let found = allowed_addresses(host, port, reach).await;
    let found = found.map_err(|err| Failure::new(FailureKind::Network, format!("cannot look `{host}` up: {err}")))?;
    if found.is_empty() { Err(refused(host)) } else { Ok(found) }
}

async fn allowed_addresses(host: &str, port: u16, reach: Reach) -> std::io::Result<Vec<SocketAddr>> {
    let found = tokio::net::lookup_host((host, port)).await?;
    Ok(found.filter(|it| reach == Reach::Anywhere || !is_private(it.ip())).collect())
}

/// Whether an address is of this machine, its network, or nobody's: whatever the internet does not route.
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
        // Shared by customers of one provider; some clouds have their metadata there.
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
        // NAT64 and 6to4 lead to the IPv4 address inside.
        0x0064 if second == 0xff9b => embedded(high, low),
        0x2002 => embedded(second, segments.get(2).copied().unwrap_or_default()),
        // Everything the internet routes begins with 001; Teredo and documentation are in there as well.
        _ => first & 0xe000 != 0x2000 || (first == 0x2001 && (second == 0 || second == 0x0db8)),
    }
}

#[cfg(test)]
mod tests;
