//! An HTTP request that a call makes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{InvocationRows, MaskedText};
use crate::exec::web::NetworkReach;
use crate::item::endpoint::{self, Base, Fit, Request, Strictness};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Http {
    pub method: String,
    pub url: MaskedText,
    /// Who decides where the address begins.
    #[serde(skip)]
    pub base: Base,
    /// The address as a permission names it: without secrets and query; only the path if the tool
    /// names the host.
    #[serde(skip)]
    pub endpoint: String,
    pub headers: Vec<(String, MaskedText)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<MaskedText>,
    /// The `JSONPath` that selects the result in the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transform: Option<String>,
    /// How often it is retried when the server is busy or fails.
    pub retries: u32,
    /// The largest response, in bytes.
    pub max_size: u64,
    /// Whether the manifest allows addresses of this machine and its network.
    pub allow_private: bool,
    /// Which addresses it may reach. The policy decides.
    pub reach: NetworkReach,
    /// Where redirects may lead. The policy decides.
    #[serde(skip)]
    pub endpoints: Endpoints,
    /// Secrets in the forms in which they are sent: encoded, joined, or with a prefix.
    #[serde(skip)]
    pub encoded_secrets: Vec<String>,
    /// The variables given to the call. None is sent by itself.
    #[serde(skip)]
    pub environment: BTreeMap<String, MaskedText>,
}

/// The endpoints that a call may reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Endpoints {
    Any,
    /// Those that all of these directives grant.
    Granted(Vec<EndpointRules>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointRules {
    pub grants: Vec<EndpointRule>,
    pub denials: Vec<EndpointRule>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointRule {
    pub endpoint: String,
    pub writes: bool,
}

impl Default for Endpoints {
    fn default() -> Self {
        // Nothing is allowed until the policy has checked the call.
        Self::Granted(vec![EndpointRules::default()])
    }
}

impl Endpoints {
    pub fn fit(&self, request: &Request<'_>) -> Fit {
        match self {
            Self::Any => Fit::AnyHost,
            Self::Granted(rules) => rules
                .iter()
                .map(|rules| rules.fit(request))
                .min()
                .unwrap_or(Fit::No),
        }
    }
}

impl EndpointRules {
    fn fit(&self, request: &Request<'_>) -> Fit {
        let fit = |rule: &EndpointRule, reading| {
            endpoint::fit(&rule.endpoint, rule.writes, request, reading)
        };
        if self
            .denials
            .iter()
            .any(|rule| fit(rule, Strictness::Wide) != Fit::No)
        {
            return Fit::No;
        }
        self.grants
            .iter()
            .map(|rule| fit(rule, Strictness::Narrow))
            .max()
            .unwrap_or(Fit::No)
    }
}

impl Http {
    pub(super) fn add_to(&self, rows: &mut InvocationRows<'_>) {
        rows.add("action.method", &self.method);
        rows.add("action.url", self.url.shown());
        for (name, value) in &self.headers {
            rows.add(&format!("action.headers.{name}"), value.shown());
        }
        if let Some(body) = &self.body {
            rows.add("action.body", body.shown());
        }
        if let Some(transform) = &self.transform {
            rows.add("action.transform", transform);
        }
        rows.add("action.retries", &Value::from(self.retries).to_string());
        rows.add("action.max_size", &self.max_size.to_string());
        rows.add("action.allow_private", &self.allow_private.to_string());
        rows.add("action.reach", self.reach.as_str());
    }

    pub(super) fn argv(&self) -> Vec<String> {
        vec![self.method.clone(), self.url.shown().to_owned()]
    }
}
