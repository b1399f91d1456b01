//! One HTTP request, in a worker.
//!
//! [`HttpJob`] is all that the worker knows. It sends the request, follows redirects itself
//! ([`redirect`]), retries where allowed ([`retry`]) while there is time, and turns the response
//! into a result ([`answer`]). The supervisor enforces the timeout; here the remaining time only
//! decides whether waiting makes sense.

mod answer;
mod redirect;
mod retry;

use std::time::{Duration, Instant};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use super::call::Machine;
use super::invocation::{Endpoints, Http, Invocation};
use super::web::{self, LookupFault, NetworkReach};
use super::worker::{FailureKind, WorkFailure, WorkerEnd};
use crate::item::endpoint::{Base, Fit, Request};
use crate::item::json_path::JsonPath;
use answer::HttpResponse;
use redirect::NextRequest;

pub(super) use retry::is_repeatable;

const MOST_HOPS: usize = 10;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HttpJob {
    method: String,
    url: String,
    /// The part of the address that comes from a variable: as written, and its value.
    base: Option<(String, String)>,
    /// Whether the tool itself names the host.
    is_named: bool,
    headers: Vec<HeaderField>,
    body: Option<String>,
    /// Whether the body contains a secret, which may go to one server only.
    is_body_secret: bool,
    transform: Option<String>,
    retries: u32,
    max_size: u64,
    reach: NetworkReach,
    endpoints: Endpoints,
    /// The hosts of the user's proxies.
    proxies: Vec<String>,
    timeout: Duration,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct HeaderField {
    name: String,
    value: String,
    /// Whether it contains a secret, which may go to one server only.
    is_secret: bool,
}

impl HttpJob {
    pub(super) fn new(http: &Http, invocation: &Invocation, machine: &Machine) -> Self {
        let field = |(name, text): &(String, super::invocation::MaskedText)| HeaderField {
            name: name.clone(),
            value: text.value.clone(),
            is_secret: text.has_secret(),
        };
        Self {
            method: http.method.clone(),
            url: http.url.value.clone(),
            base: match &http.base {
                Base::Variable { written, value } => Some((written.clone(), value.clone())),
                Base::Named | Base::Foreign => None,
            },
            is_named: http.base == Base::Named,
            headers: http.headers.iter().map(field).collect(),
            body: http.body.as_ref().map(|body| body.value.clone()),
            is_body_secret: http
                .body
                .as_ref()
                .is_some_and(super::invocation::MaskedText::has_secret),
            transform: http.transform.clone(),
            retries: http.retries,
            max_size: http.max_size,
            reach: http.reach,
            endpoints: http.endpoints.clone(),
            proxies: web::proxy_hosts(&machine.environment),
            timeout: invocation.timeout,
        }
    }

    pub(super) fn carry_out(self) -> WorkerEnd {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        match runtime {
            Ok(runtime) => runtime.block_on(self.call()).into(),
            Err(err) => {
                WorkFailure::new(FailureKind::Job, format!("cannot set up HTTP: {err}")).into()
            }
        }
    }

    async fn call(self) -> Result<Value, WorkFailure> {
        let first = Url::parse(&self.url).map_err(|err| {
            WorkFailure::new(
                FailureKind::Job,
                format!("the address cannot be read: {err}"),
            )
        })?;
        let transform = match &self.transform {
            Some(text) => Some((
                text.as_str(),
                JsonPath::parse(text).map_err(|err| WorkFailure::new(FailureKind::Job, err))?,
            )),
            None => None,
        };
        let deadline = Instant::now() + self.timeout;
        let mut clients = Clients {
            public: None,
            anywhere: None,
            proxies: &self.proxies,
        };
        let mut attempt = 0;
        loop {
            let outcome = self.attempt(&first, &mut clients).await;
            let wait = match &outcome {
                Ok(answer) => retry::after_answer(&self.method, answer, attempt),
                Err(fault) => retry::after_fault(&self.method, fault, attempt),
            };
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(wait) = wait.filter(|wait| attempt < self.retries && *wait < left) else {
                let answer = outcome.map_err(|fault| fault.into_failure(&self.method))?;
                return answer.into_result(
                    transform.as_ref().map(|(text, path)| (*text, path)),
                    attempt + 1,
                );
            };
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }

    /// One attempt, including redirects.
    async fn attempt(
        &self,
        first: &Url,
        clients: &mut Clients<'_>,
    ) -> Result<HttpResponse, RequestFault> {
        let mut next = NextRequest {
            method: self.method.clone(),
            url: first.clone(),
            headers: self.headers.clone(),
            body: self.body.clone(),
        };
        for _ in 0..=MOST_HOPS {
            let reach = self.permit(&next, first)?;
            let response = send(&next, clients.get(reach)?).await?;
            match redirect::follow(&next, &response, self.is_body_secret)? {
                Some(further) => next = further,
                None => return HttpResponse::read(response, &next.url, self.max_size).await,
            }
        }
        let message = format!("`{}` redirects more than {MOST_HOPS} times", host_of(first));
        Err(WorkFailure::new(FailureKind::Redirect, message)
            .suggest("follow the redirects with `curl -sIL`")
            .into())
    }

    /// Checks whether a request may be made, and which addresses it may reach.
    fn permit(&self, next: &NextRequest, first: &Url) -> Result<NetworkReach, WorkFailure> {
        let is_first = next.url.origin() == first.origin();
        let base = match &self.base {
            Some((written, value)) => Base::Variable {
                written: written.clone(),
                value: value.clone(),
            },
            None if self.is_named && is_first => Base::Named,
            None => Base::Foreign,
        };
        let fit = self.endpoints.fit(&Request {
            method: &next.method,
            url: &next.url,
            base: &base,
        });
        if fit == Fit::No {
            let address = format!(
                "{}{}",
                next.url.origin().ascii_serialization(),
                next.url.path()
            );
            let message = format!(
                "the server redirects to `{} {address}`, which no directive allows",
                next.method
            );
            return Err(WorkFailure::new(FailureKind::Redirect, message)
                .suggest("grant that endpoint, if this is intended"));
        }
        // A public server must not redirect into the caller's private network: a host that the tool
        // or a grant does not name is limited to public addresses.
        let is_named = next.url.host() == first.host() || fit == Fit::ThisHost;
        let reach = if is_named {
            self.reach
        } else {
            NetworkReach::Public
        };
        web::check_url(&next.url, reach)?;
        let is_proxy = self
            .proxies
            .iter()
            .any(|proxy| Some(proxy.as_str()) == next.url.host_str());
        if is_proxy && reach == NetworkReach::Public {
            return Err(web::refused(host_of(&next.url)));
        }
        Ok(reach)
    }
}

/// A failed attempt.
#[derive(Debug)]
struct RequestFault {
    failure: WorkFailure,
    kind: FaultKind,
}

/// When the attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaultKind {
    /// Before anything was sent.
    Unsent,
    /// After something was sent.
    Broken,
    /// Retrying cannot help.
    Final,
}

impl From<WorkFailure> for RequestFault {
    fn from(failure: WorkFailure) -> Self {
        Self {
            failure,
            kind: FaultKind::Final,
        }
    }
}

impl RequestFault {
    fn into_failure(self, method: &str) -> WorkFailure {
        if self.kind == FaultKind::Broken && !retry::is_repeatable(method) {
            return self.failure.unanswered();
        }
        self.failure
    }

    /// Describes the client's error without the URL, which may contain secrets.
    fn of(err: reqwest::Error, url: &Url, meanwhile: &str) -> Self {
        let err = err.without_url();
        if let Some(fault) = lookup_fault(&err) {
            let LookupFault::Private(_) = fault;
            return web::refused(host_of(url)).into();
        }
        let (host, cause) = (host_of(url), root_cause(&err));
        let is_untrusted = cause.contains("invalid peer certificate");
        let (kind, message) = match () {
            // Retrying cannot fix an untrusted certificate.
            () if is_untrusted => (
                FaultKind::Final,
                format!("`{host}` has an untrusted certificate: {cause}"),
            ),
            () if err.is_connect() => {
                (FaultKind::Unsent, format!("cannot reach `{host}`: {cause}"))
            }
            () if err.is_builder() => (
                FaultKind::Final,
                format!("the request to `{host}` cannot be made: {cause}"),
            ),
            () => (
                FaultKind::Broken,
                format!("{meanwhile} `{host}` broke off: {cause}"),
            ),
        };
        let failure = WorkFailure::new(FailureKind::Network, message);
        let failure = match kind {
            _ if is_untrusted => failure
                .suggest("`SSL_CERT_FILE` names certificates to trust beside those of the machine"),
            FaultKind::Unsent => failure.suggest(
                "check the address, the network, and `HTTPS_PROXY` where there is a proxy",
            ),
            FaultKind::Broken | FaultKind::Final => failure,
        };
        Self { failure, kind }
    }
}

/// The innermost error; the outer ones only describe the client library.
fn root_cause(err: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = err;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// One client per reach.
struct Clients<'c> {
    public: Option<Client>,
    anywhere: Option<Client>,
    proxies: &'c [String],
}

impl Clients<'_> {
    fn get(&mut self, reach: NetworkReach) -> Result<Client, WorkFailure> {
        let place = match reach {
            NetworkReach::Public => &mut self.public,
            NetworkReach::Anywhere => &mut self.anywhere,
        };
        match place {
            Some(client) => Ok(client.clone()),
            None => Ok(place
                .insert(web::client_behind(reach, self.proxies)?)
                .clone()),
        }
    }
}

async fn send(next: &NextRequest, client: Client) -> Result<Response, RequestFault> {
    let wrong = |what: &str| {
        RequestFault::from(WorkFailure::new(
            FailureKind::Job,
            format!("{what} cannot be sent"),
        ))
    };
    let method = Method::from_bytes(next.method.as_bytes()).map_err(|_| wrong("the method"))?;
    let mut headers = HeaderMap::new();
    for field in &next.headers {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| wrong("a header"))?;
        let mut value =
            HeaderValue::from_bytes(field.value.as_bytes()).map_err(|_| wrong("a header"))?;
        value.set_sensitive(field.is_secret);
        headers.append(name, value);
    }
    let mut request = client.request(method, next.url.clone()).headers(headers);
    if let Some(body) = &next.body {
        request = request.body(body.clone());
    }
    request
        .send()
        .await
        .map_err(|err| RequestFault::of(err, &next.url, "the request to"))
}

/// The refused address lookup behind an error, if that was the cause.
fn lookup_fault(err: &reqwest::Error) -> Option<&LookupFault> {
    let mut source = std::error::Error::source(err);
    while let Some(cause) = source {
        if let Some(fault) = cause.downcast_ref::<LookupFault>() {
            return Some(fault);
        }
        source = cause.source();
    }
    None
}

/// The host with its port, if that is not the default.
fn host_of(url: &Url) -> &str {
    &url[url::Position::BeforeHost..url::Position::AfterPort]
}
