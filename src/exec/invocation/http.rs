//! An HTTP request that a call makes.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::{Rows, Text};

/// An HTTP request to make.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Http {
    /// The method, in capitals.
    pub method: String,
    /// The whole address.
    pub url: Text,
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
    /// Whether the manifest lets it reach addresses of this machine and its network.
    pub allow_private: bool,
    /// The variables that it was given; none of them is sent by itself.
    #[serde(skip)]
    pub environment: BTreeMap<String, Text>,
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
        rows.add("action.allow_private", &self.allow_private.to_string());
    }

    pub(super) fn words(&self) -> Vec<String> {
        vec![self.method.clone(), self.url.shown().to_owned()]
    }
}
