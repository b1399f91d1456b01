use std::fs;
use std::path::Path;

use super::*;

/// Every command with its words, including hidden ones.
fn each_command(visit: &mut dyn FnMut(&str, &Command)) {
    fn walk(words: &str, command: &Command, visit: &mut dyn FnMut(&str, &Command)) {
        visit(words, command);
        for below in command
            .get_subcommands()
            .filter(|it| it.get_name() != "help" || words == "piton")
        {
            walk(&format!("{words} {}", below.get_name()), below, visit);
        }
    }
    let root = CliArguments::described();
    walk("piton", &root, visit);
}

/// Why a command line is not valid for piton; `None` if it is. Everything after a shell operator is
/// ignored.
fn fault_of(line: &str) -> Option<String> {
    let words = shlex::split(line).unwrap_or_else(|| panic!("{line}"));
    let mut words: Vec<String> = words
        .into_iter()
        .take_while(|word| !["|", "||", "&&", ">", ";"].contains(&word.as_str()))
        .collect();
    // Skip leading variable assignments.
    let at = words
        .iter()
        .position(|word| !word.contains('='))
        .expect("a program");
    words.drain(..at);
    if words.first().is_none_or(|word| word != "piton") {
        return None;
    }
    CliArguments::parse_words(words)
        .err()
        .filter(clap::Error::use_stderr)
        .map(|err| format!("{line}\n{err}"))
}

#[test]
fn every_command_has_examples_that_can_be_parsed() {
    let mut faults = Vec::new();
    each_command(&mut |words, command| {
        let examples = examples_of(command);
        let has_to = !command.is_hide_set() && !command.has_subcommands();
        if has_to && !examples.iter().any(|(line, _)| line.contains(words)) {
            faults.push(format!("`{words}` has no example of its own"));
        }
        faults.extend(examples.iter().filter_map(|(line, _)| fault_of(line)));
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_command_line_of_a_topic_can_be_parsed() {
    let lines = TOPICS.iter().flat_map(Topic::examples);
    let faults: Vec<String> = lines.filter_map(|line| fault_of(&line)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_command_line_of_the_readme_and_the_guide_can_be_parsed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = fs::read_dir(root.join("docs/guide"))
        .expect("a guide")
        .map(|page| page.expect("an entry").path());
    let mut faults = Vec::new();
    for page in guide.chain([root.join("README.md")]) {
        let text = fs::read_to_string(&page).expect("a page");
        let lines = text
            .lines()
            .filter_map(|line| line.strip_prefix("$ "))
            .filter(|line| line.starts_with("piton "));
        faults.extend(
            lines
                .filter_map(fault_of)
                .map(|fault| format!("{}: {fault}", page.display())),
        );
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn names_in_backticks_after_piton_help_are_topics_or_commands() {
    let mut root = CliArguments::described();
    for topic in TOPICS {
        for named in topic
            .text
            .split("`piton help ")
            .skip(1)
            .filter_map(|rest| rest.split('`').next())
        {
            let words: Vec<String> = named.split(' ').map(str::to_owned).collect();
            let is_known = Topic::find(named).is_some() || find(&mut root, &words).is_some();
            assert!(
                is_known || named.chars().all(char::is_uppercase),
                "{}: `{named}`",
                topic.name
            );
        }
    }
}

#[test]
fn the_page_about_exit_codes_has_all_of_them() {
    let page = Topic::find("exit-codes").expect("a topic");
    let listed: Vec<&str> = page
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("- "))
        .collect();
    let expected: Vec<String> = ExitStatus::ALL
        .iter()
        .map(|status| format!("{}: {}", status.number(), status.meaning()))
        .collect();
    assert_eq!(listed, expected);
}

#[test]
fn a_page_is_styled_for_a_terminal() {
    let page =
        "# Title\n\nSome `text`.\n\n## More\n\n```console\n$ piton log\n\n# no heading\n```\nend\n";
    let expected = format!(
        "{BOLD}Title{BOLD:#}\n\nSome `text`.\n\n{BOLD}More{BOLD:#}\n\n    $ piton log\n\n    # no heading\nend\n"
    );
    assert_eq!(styled(page), expected);
}
