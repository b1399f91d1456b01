//! Help topics.
//!
//! The pages are Markdown in `topic/`. The CLI renders them; the MCP server returns a [`TopicPage`]. A
//! topic is one row of [`TOPICS`]; the tests of `cli/help` parse each command line of a page with
//! the real parser.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topic {
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Markdown.
    pub text: &'static str,
}

/// A page for the MCP server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TopicPage {
    pub help: String,
    pub topic: String,
    /// Its command lines.
    pub examples: Vec<String>,
}

macro_rules! topic {
    ($name:literal, $summary:literal) => {
        Topic {
            name: $name,
            summary: $summary,
            text: include_str!(concat!("topic/", $name, ".md")),
        }
    };
}

/// In reading order.
pub const TOPICS: [Topic; 14] = [
    topic!("overview", "what piton does, and how to start"),
    topic!("directive", "workflows: steps, inputs and permissions"),
    topic!("tool", "scripts, programs and requests that do the work"),
    topic!("knowledge", "information for people and agents"),
    topic!("search", "find items by words"),
    topic!("load", "read an item, or copy it"),
    topic!("execute", "run directives, tools and command lines"),
    topic!("checkpoint", "commit, roll back, undo and redo"),
    topic!("runs", "wait, resume, look back, run side by side"),
    topic!(
        "permissions",
        "what a directive may do, and how that is enforced"
    ),
    topic!("signing", "stamps, signatures and trust"),
    topic!("templates", "placeholders and conditions in directives"),
    topic!("settings", "where settings come from, and who can set them"),
    topic!("exit-codes", "the exit codes and what they mean"),
];

impl Topic {
    pub fn find(name: &str) -> Option<&'static Self> {
        TOPICS.iter().find(|topic| topic.name == name)
    }

    /// Its command lines without their prompt.
    pub fn examples(&self) -> Vec<String> {
        self.text
            .lines()
            .filter_map(|line| line.strip_prefix("$ "))
            .map(command_line)
            .collect()
    }

    pub fn page(&self) -> TopicPage {
        TopicPage {
            help: self.text.to_owned(),
            topic: self.name.to_owned(),
            examples: self.examples(),
        }
    }
}

/// A command line without its trailing comment.
fn command_line(line: &str) -> String {
    line.split_once("  #")
        .map_or(line, |(command, _)| command)
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_a_title_examples_and_lines_that_fit_a_terminal() {
        for topic in TOPICS {
            assert!(topic.text.starts_with("# "), "{}", topic.name);
            assert!(!topic.examples().is_empty(), "{}", topic.name);
            let mut in_code = false;
            for line in topic.text.lines() {
                in_code ^= line.starts_with("```");
                let most = if in_code { 102 } else { 80 };
                assert!(line.chars().count() <= most, "{}: {line}", topic.name);
            }
        }
    }

    #[test]
    fn remarks_are_no_part_of_a_command_line() {
        assert_eq!(command_line("piton log   # what happened"), "piton log");
        assert_eq!(
            command_line("piton tool run x --param text='# one'"),
            "piton tool run x --param text='# one'"
        );
    }

    #[test]
    fn the_topics_that_other_front_doors_promise_are_there() {
        for name in [
            "overview",
            "tool",
            "directive",
            "knowledge",
            "search",
            "load",
            "execute",
            "checkpoint",
        ] {
            assert_eq!(Topic::find(name).map(|topic| topic.name), Some(name));
        }
        assert_eq!(Topic::find("nonsense"), None);
    }
}
