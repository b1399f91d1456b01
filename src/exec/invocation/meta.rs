//! A call that consists of calls of other tools.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{InvocationRows, MaskedText};

/// A function that decides which tools are called, in sequence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Meta {
    /// The tools that it may call.
    pub aggregates: Vec<String>,
    /// The id of the helper function.
    pub helper: String,
    #[serde(skip)]
    pub source: String,
    /// The file and first line of the text, where known.
    #[serde(skip)]
    pub place: Option<(String, u32)>,
    /// The variables given to the call. The function sees none of them.
    #[serde(skip)]
    pub environment: BTreeMap<String, MaskedText>,
}

impl Meta {
    pub(super) fn add_to(&self, rows: &mut InvocationRows<'_>) {
        rows.add("action.helper", &self.helper);
        rows.add_list("action.aggregates", &self.aggregates);
    }

    pub(super) fn argv(&self) -> Vec<String> {
        ["meta".to_owned(), format!("helpers.{}", self.helper)]
            .into_iter()
            .chain(self.aggregates.clone())
            .collect()
    }
}
