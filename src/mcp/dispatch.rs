//! Which call does what a person asks for, as a table: `AGENTS.md` has it, made by `piton reference`.

use std::fmt::Write as _;

/// What a person asks for, the call of an agent, and the command of a person; empty if there is none.
const ROWS: [(&str, &str, &str); 19] = [
    (
        "find X",
        "`search` with `item_type`, `query: \"X\"`",
        "`piton search X`",
    ),
    (
        "show X",
        "`load` with `item_type`, `item_id: \"X\"`",
        "`piton load X`",
    ),
    (
        "copy X into the project",
        "`load` with `destination: \"project\"`",
        "`piton load X --to project`",
    ),
    (
        "run the tool X",
        "`execute` with `item_type: \"tool\"`, `item_id: \"X\"`, `parameters`",
        "`piton tool run X`",
    ),
    (
        "run the command Y of the tool X",
        "the same with `parameters: {command: \"Y\"}`",
        "`piton tool run X Y`",
    ),
    (
        "run the directive X",
        "`execute` with `item_type: \"directive\"`, `item_id: \"X\"`, `parameters`",
        "`piton run X`",
    ),
    (
        "read the knowledge X",
        "`execute` with `item_type: \"knowledge\"`, `item_id: \"X\"`",
        "`piton load X`",
    ),
    (
        "commit what was done",
        "`execute` with `item_type: \"directive\"`, `item_id: \"git_checkpoint\"`, `parameters: {operation}`",
        "`piton checkpoint`",
    ),
    (
        "go on",
        "`execute` with `action: \"continue\"`, `parameters: {run_id}`",
        "`piton resume`",
    ),
    (
        "say where it is",
        "`execute` with `action: \"status\"`",
        "`piton status`",
    ),
    (
        "stop the run",
        "`execute` with `action: \"cancel\"`, `parameters: {run_id}`",
        "`piton cancel`",
    ),
    (
        "undo it",
        "`execute` with `action: \"undo\"`",
        "`piton undo`",
    ),
    (
        "redo it",
        "`execute` with `action: \"redo\"`",
        "`piton redo`",
    ),
    (
        "bring back files of a step",
        "`execute` with `action: \"restore\"`, `parameters: {step}`",
        "`piton restore STEP`",
    ),
    (
        "sign X",
        "`execute` with `action: \"sign\"`, `item_id: \"X\"`",
        "`piton sign X`",
    ),
    (
        "validate X",
        "`execute` with `action: \"validate\"`, `item_id: \"X\"`",
        "`piton validate`",
    ),
    (
        "create X",
        "`execute` with `action: \"create\"`, `parameters: {content}` or `{fields, tool_type}`",
        "`piton new`",
    ),
    (
        "change X",
        "`execute` with `action: \"update\"`, `parameters: {content}` or `{updates}`",
        "",
    ),
    (
        "delete X",
        "`execute` with `action: \"delete\"`, `parameters: {confirm: true}`",
        "",
    ),
];

/// The table in Markdown.
pub fn table() -> String {
    let mut table =
        "| when the person asks to | call | in a terminal |\n|---|---|---|\n".to_owned();
    for (asked, call, terminal) in ROWS {
        // Writing to a `String` cannot fail.
        let _ = writeln!(table, "| {asked} | {call} | {terminal} |");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::execute::ACTIONS;
    use super::ROWS;

    #[test]
    fn every_action_is_in_the_table() {
        for action in ACTIONS.into_iter().filter(|action| *action != "run") {
            let named = format!("`action: \"{action}\"`");
            assert!(
                ROWS.iter().any(|(_, call, _)| call.contains(&named)),
                "{action}"
            );
        }
    }
}
