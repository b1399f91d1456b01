//! Denials and their messages: what is denied, by which directive, and which line would allow it.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// What is not allowed, as a phrase like "run the tool `greet`".
    pub what: String,
    /// The directive that does not allow it.
    pub directive: String,
    /// The line for its `<permissions>` that would allow it; `None` when no line can.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub allow_with: Option<String>,
    /// The `<deny>` that forbids it, if one does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub denied_by: Option<String>,
}

impl Denial {
    pub fn hint(&self) -> String {
        way_out(std::slice::from_ref(self))
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&message(std::slice::from_ref(self)))
    }
}

/// One message for all denials, grouped by directive.
pub fn message(denials: &[Denial]) -> String {
    let told = by_directive(denials)
        .into_iter()
        .map(|(directive, denials)| {
            let what: Vec<&str> = denials.iter().map(|denial| &*denial.what).collect();
            format!(
                "directive `{directive}` does not allow: {}",
                what.join(", ")
            )
        });
    told.collect::<Vec<_>>().join("; ")
}

/// The hint for all denials: the lines to add, by directive, and the `<deny>`s that forbid the
/// rest.
pub fn way_out(denials: &[Denial]) -> String {
    let told = by_directive(denials)
        .into_iter()
        .flat_map(|(directive, denials)| {
            let lines: Vec<&str> = denials
                .iter()
                .filter_map(|denial| denial.allow_with.as_deref())
                .collect();
            let add = (!lines.is_empty()).then(|| {
                format!(
                    "add {} to the <permissions> of `{directive}`",
                    lines.join(" ")
                )
            });
            let mut denies: Vec<&str> = denials
                .iter()
                .filter_map(|denial| denial.denied_by.as_deref())
                .collect();
            denies.dedup();
            let forbidden = denies
                .into_iter()
                .map(move |deny| format!("{deny} in `{directive}` forbids it"));
            add.into_iter().chain(forbidden)
        });
    told.collect::<Vec<_>>().join("; ")
}

/// Groups denials by directive, in order of first occurrence.
fn by_directive(denials: &[Denial]) -> Vec<(&str, Vec<&Denial>)> {
    let mut grouped: Vec<(&str, Vec<&Denial>)> = Vec::new();
    for denial in denials {
        match grouped
            .iter_mut()
            .find(|(directive, _)| *directive == denial.directive)
        {
            Some((_, group)) => group.push(denial),
            None => grouped.push((&denial.directive, vec![denial])),
        }
    }
    grouped
}
