//! The tool `help`: the pages of `piton help`, with tool calls instead of command lines.
//!
//! The folder `help/` describes the calls, by topic. Each block marked `call:TOOL` is an example.

use std::sync::LazyLock;

use rmcp::model::CallToolResult;
use serde_json::{Value, json};

use super::answer::{AnswerKind, ToolAnswer};
use super::arguments::CallArguments;
use super::failure::ToolFailure;
use crate::item::topic::{TOPICS, Topic};
use crate::item::wording::{nearest, shown};
use crate::problem::Code;
use crate::run::error_titles::ErrorTitle;

pub(crate) const ARGUMENTS: [&str; 2] = ["topic", "dry_run"];

/// The call descriptions by topic.
const CALLS: [(&str, &str); 8] = [
    ("overview", include_str!("help/overview.md")),
    ("tool", include_str!("help/tool.md")),
    ("directive", include_str!("help/directive.md")),
    ("knowledge", include_str!("help/knowledge.md")),
    ("search", include_str!("help/search.md")),
    ("load", include_str!("help/load.md")),
    ("execute", include_str!("help/execute.md")),
    ("checkpoint", include_str!("help/checkpoint.md")),
];

/// The finished pages by topic, built once.
static PAGES: LazyLock<Vec<(&str, CallToolResult)>> = LazyLock::new(|| {
    let result = |value| {
        CallToolResult::from(ToolAnswer {
            value,
            kind: AnswerKind::Result,
        })
    };
    TOPICS
        .iter()
        .map(|topic| (topic.name, result(page(topic))))
        .collect()
});

pub(crate) fn answer(arguments: &CallArguments) -> Result<CallToolResult, ToolFailure> {
    let name = match arguments.text("topic")? {
        None => "overview",
        // The old name of the page about tools.
        Some("tools") => "tool",
        Some(name) => name,
    };
    if let Some((_, page)) = PAGES.iter().find(|(topic, _)| *topic == name) {
        return Ok(page.clone());
    }
    let topics = TOPICS.map(|topic| topic.name);
    let known = format!("the topics are {}", topics.join(", "));
    let suggestion = match nearest(name, topics) {
        Some(similar) => format!("did you mean `{similar}`? {known}"),
        None => known,
    };
    let failure = ToolFailure::new(
        ErrorTitle::TopicNotFound,
        Code::UnknownTopic,
        format!("there is no topic `{}`", shown(name)),
    );
    Err(failure.with_suggestion(suggestion).with("topics", topics))
}

fn page(topic: &Topic) -> Value {
    let calls = CALLS
        .iter()
        .find(|(name, _)| *name == topic.name)
        .map(|(_, calls)| *calls);
    json!({
        "help": calls.map_or_else(|| topic.text.to_owned(), |calls| format!("{}\n{calls}", without_commands(topic.text))),
        "topic": topic.name,
        // Some topics only have terminal commands.
        "examples": calls.map_or_else(|| topic.examples().into_iter().map(Value::from).collect(), examples),
        "topics": TOPICS.map(|topic| topic.name),
    })
}

/// Removes the blocks of command lines, which agents cannot run.
fn without_commands(page: &str) -> String {
    let mut blocks = page.split("```console\n");
    let before = blocks.next().unwrap_or_default().to_owned();
    blocks.fold(before, |kept, block| {
        kept + block
            .split_once("```\n")
            .map_or("", |(_, after)| after.trim_start())
    })
}

/// The example calls of a page.
fn examples(page: &str) -> Vec<Value> {
    let blocks = page.split("```json call:").skip(1);
    let calls = blocks.filter_map(|block| {
        let (tool, rest) = block.split_once('\n')?;
        let (arguments, _) = rest.split_once("```")?;
        Some(json!({"tool": tool, "arguments": serde_json::from_str::<Value>(arguments).ok()?}))
    });
    calls.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::toolbox::tools;

    #[test]
    fn every_block_is_an_example_of_a_tool() {
        let tools: Vec<String> = tools().iter().map(|tool| tool.name.to_string()).collect();
        for (topic, page) in CALLS {
            let examples = examples(page);
            assert_eq!(examples.len(), page.matches("```json").count(), "{topic}");
            assert!(
                examples
                    .iter()
                    .all(|call| tools.iter().any(|tool| call["tool"] == **tool)),
                "{topic}"
            );
        }
    }

    #[test]
    fn blocks_of_command_lines_are_left_out() {
        let page = "# One\n\nText.\n\n```console\n$ piton run\n```\n\nMore.\n\n```console\n$ piton log\n```\n";
        assert_eq!(without_commands(page), "# One\n\nText.\n\nMore.\n\n");
        assert_eq!(without_commands("no block\n"), "no block\n");
    }

    #[test]
    fn every_page_of_calls_belongs_to_a_topic() {
        for (topic, _) in CALLS {
            assert!(Topic::find(topic).is_some(), "{topic}");
        }
    }
}
