//! An HTTP request that a call makes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Rows, Text};
use crate::exec::web::Reach;
use crate::item::endpoint::{self, Base, Fit, Reading, Request};

/// An HTTP request to make.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Http {
    /// The method, in capitals.
    pub method: String,
    /// The whole address.
    pub url: Text,
    /// Who says where the address begins.
    #[serde(skip)]
    pub base: Base,
    /// The address as a permission names it: without secrets and query, the path alone where the tool names the host.
    #[serde(skip)]
    pub endpoint: String,
    /// The header fields, in their order.
    pub headers: Vec<(String, Text)>,
    /// What is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Text>,
    /// The `JSONPath` that picks the result out of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transform: Option<String>,
    /// How often it is tried again when the other side is busy or broken.
    pub retries: u32,
    /// The most bytes of an answer.
    pub max_size: u64,
    /// Whether the manifest lets it reach addresses of this machine and its network.
    pub allow_private: bool,
    /// Which addresses it may reach; whoever judges the call decides.
    pub reach: Reach,
    /// Where redirects may lead; whoever judges the call decides.
    #[serde(skip)]
    pub endpoints: Endpoints,
    /// Secrets in the forms in which they are sent: encoded, joined, behind a word.
    #[serde(skip)]
    pub encoded_secrets: Vec<String>,
    /// The variables that it was given; none of them is sent by itself.
    #[serde(skip)]
    pub environment: BTreeMap<String, Text>,
}

/// The endpoints that a call may reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Endpoints {
    /// Any.
    Any,
    /// Those that all of these directives grant.
    Granted(Vec<EndpointRules>),
}

/// What one directive grants and denies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointRules {
    /// What it grants.
    pub grants: Vec<EndpointRule>,
    /// What it takes away.
    pub denials: Vec<EndpointRule>,
}

/// One permission about endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointRule {
    /// The endpoint as it is written.
    pub endpoint: String,
    /// Whether it is about writing.
    pub writes: bool,
}

impl Default for Endpoints {
    fn default() -> Self {
        // Until somebody has judged the call, nothing is allowed.
        Self::Granted(vec![EndpointRules::default()])
    }
}

impl Endpoints {
    /// How far a request is allowed.
    pub fn fit(&self, request: &Request<'_>) -> Fit {
        match self {
            Self::Any => Fit::AnyHost,
            Self::Granted(rules) => rules.iter().map(|rules| rules.fit(request)).min().unwrap_or(Fit::No),
        }
    }
}

impl EndpointRules {
    fn fit(&self, request: &Request<'_>) -> Fit {
        let fit = |rule: &EndpointRule, reading| endpoint::fit(&rule.endpoint, rule.writes, request, reading);
        if self.denials.iter().any(|rule| fit(rule, Reading::Wide) != Fit::No) {
            return Fit::No;
        }
        self.grants.iter().map(|rule| fit(rule, Reading::Narrow)).max().unwrap_or(Fit::No)
    }
}

impl Http {
    pub(super) fn add_to(&self, rows: &mut Rows<'_>) {
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

    pub(super) fn words(&self) -> Vec<String> {
        vec![self.method.clone(), self.url.shown().to_owned()]
    }
}
