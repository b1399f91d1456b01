//! The person who decided something, and what agents may run because a person allowed it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::context::principal::PersonChannel;

/// The person who decided, and how piton was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approver {
    /// The person's name and address, as git has them.
    pub by: String,
    pub channel: PersonChannel,
    pub at: Timestamp,
}

/// What a person has agreed to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consent {
    pub to: ConsentTo,
    pub items: Vec<ConsentedItem>,
    pub approver: Approver,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConsentTo {
    /// Agents may run the items, although an agent wrote them.
    Run,
    /// The person's key signed the items.
    Signature,
    /// The run continues, although its journal was not authenticated.
    Continue,
    /// A kind that a newer piton writes.
    #[serde(other)]
    Unknown,
}

/// An item with the content that the person has seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsentedItem {
    /// `tool`, `directive` or `run`.
    pub item_type: String,
    pub id: String,
    /// The sha256 of its files, with their paths; of a run the hash of its last line.
    pub content: String,
}
