//! What is denied, told to people: what it is, by which directive, and which line would allow it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A need that nothing allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// What is not allowed, in words, as in "run the tool `greet`".
    pub what: String,
    /// The directive that does not allow it.
    pub directive: String,
    /// The exact line for its `<permissions>` that would allow it; none when no line would.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub allow_with: Option<String>,
    /// The `<deny>` of the directive that takes it away, where one does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub denied_by: Option<String>,
}

impl Denial {
    /// What to do about it.
    pub fn hint(&self) -> String {
        way_out(std::slice::from_ref(self))
    }
}

/// What is denied and by which directive.
impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&message(std::slice::from_ref(self)))
    }
}

/// Everything that is denied, by directive.
pub fn message(denials: &[Denial]) -> String {
    let told = by_directive(denials).into_iter().map(|(directive, denials)| {
        let what: Vec<&str> = denials.iter().map(|denial| &*denial.what).collect();
        format!("directive `{directive}` does not allow to {}", what.join(", "))
    });
    told.collect::<Vec<_>>().join("; ")
}

/// What to do about all of it: the lines to add, by directive, and what forbids the rest.
pub fn way_out(denials: &[Denial]) -> String {
    let told = by_directive(denials).into_iter().flat_map(|(directive, denials)| {
        let lines: Vec<&str> = denials.iter().filter_map(|denial| denial.allow_with.as_deref()).collect();
        let add = (!lines.is_empty()).then(|| format!("add {} to the <permissions> of `{directive}`", lines.join(" ")));
        let mut denies: Vec<&str> = denials.iter().filter_map(|denial| denial.denied_by.as_deref()).collect();
        denies.dedup();
        let forbidden = denies.into_iter().map(move |deny| format!("{deny} in `{directive}` forbids it"));
        add.into_iter().chain(forbidden)
    });
    told.collect::<Vec<_>>().join("; ")
}

/// The denials of each directive, in the order in which they first occur.
fn by_directive(denials: &[Denial]) -> Vec<(&str, Vec<&Denial>)> {
    let mut grouped: Vec<(&str, Vec<&Denial>)> = Vec::new();
    for denial in denials {
        match grouped.iter_mut().find(|(directive, _)| *directive == denial.directive) {
            Some((_, group)) => group.push(denial),
            None => grouped.push((&denial.directive, vec![denial])),
        }
    }
    grouped
}
