//! `help`: the pages that the terminal shows as well.

use super::answer::Answer;
use super::arguments::Arguments;
use super::call::Answered;
use super::failure::Failure;
use crate::item::topic::{TOPICS, Topic};
use crate::item::wording::{nearest, shown};

/// The arguments that it knows.
pub(crate) const ARGUMENTS: [&str; 1] = ["topic"];

/// Hands out a page.
pub(crate) fn answer(arguments: &Arguments) -> Answered {
    let name = arguments.text("topic")?.unwrap_or("overview");
    // The old name of the page about tools.
    let name = if name == "tools" { "tool" } else { name };
    let Some(topic) = Topic::find(name) else {
        let names: Vec<&str> = TOPICS.iter().map(|topic| topic.name).collect();
        let known = format!("the topics are {}", names.join(", "));
        let suggestion = match nearest(name, names.iter().copied()) {
            Some(similar) => format!("did you mean `{similar}`? {known}"),
            None => known,
        };
        let failure = Failure::new("Topic not found", "UNKNOWN_TOPIC", format!("there is no topic `{}`", shown(name)));
        return Err(failure.with_suggestion(suggestion).with("topics", names));
    };
    Answer::result(&topic.page())
}
