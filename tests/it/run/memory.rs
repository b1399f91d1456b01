//! Long runs: their memory does not grow with the number of steps, and no step is lost from the
//! record.

use serde_json::{Value, json};

use super::{directive, project, summary};
use crate::harness::TestProject;

const DISABLED: &str = "<git_checkpoint mode=\"disabled\"/>";
const INPUTS: &str = "<inputs><input name=\"l\" type=\"array\" required=\"true\">What to go through</input>\
                      <input name=\"inner\" type=\"array\" default=\"[]\">What to go through each time</input></inputs>";
/// A quick step: it starts no process, and the items are read once.
const SEARCH: &str = "<search item_type=\"tool\" query=\"list\" limit=\"1\"/>";
/// The number of elements in every list of a long run.
const ELEMENTS: usize = 100;

/// Adds a directive with the inputs `l` and `inner`.
fn looping(project: TestProject, name: &str, steps: &str) -> TestProject {
    let project = directive(name, DISABLED, steps)(project);
    let path = format!(".ai/directives/{name}.md");
    let text = project.read(&path);
    let (start, end) = (
        text.find("<inputs>").expect("inputs"),
        text.find("</inputs>").expect("inputs"),
    );
    let given = text.get(start..end + "</inputs>".len()).expect("inputs");
    let text = text.replace(given, INPUTS);
    project.file(&path, text)
}

/// Writes lists of numbers as inputs; returns the file.
fn inputs(project: &TestProject, count: usize) -> String {
    let list = |count: usize| (0..count).collect::<Vec<_>>();
    let path = project.home().join("in.json");
    std::fs::write(
        &path,
        json!({"l": list(count), "inner": list(ELEMENTS)}).to_string(),
    )
    .expect("a file");
    path.to_string_lossy().into_owned()
}

/// The memory in KiB that a run of this many steps needs more than the bare program, and the same
/// for its resume.
fn peaks(project: &TestProject, steps: usize) -> [u64; 2] {
    let file = inputs(project, steps / ELEMENTS);
    let (ran, run) = project.measured(["run", "outer", "--quiet", "--inputs", &file], 240);
    assert_eq!(ran.code(), Some(4), "{ran}");
    let (ran, resumed) = project.measured(["resume", "--format", "json", "--result", "{}"], 240);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let totals = summary(&ran)["step_totals"].clone();
    assert_eq!(totals["succeeded"], steps + 1, "{totals}");
    [run, resumed]
}

#[test]
fn three_times_as_many_steps_need_no_more_memory_in_a_run_nor_when_it_is_resumed() {
    // The peaks of equal runs differ by up to 1.2 MiB, depending on the scheduling of threads. A
    // list of all steps would need 2.8 MiB more.
    const ROOM: u64 = 2048;
    let inner = format!("<step name=\"each\" foreach=\"{{input:l}}\">{SEARCH}</step>\n");
    let outer = "<step name=\"part\" foreach=\"{input:l}\"><execute item_type=\"directive\" item_id=\"inner\">\
                 <param name=\"l\" value=\"{input:inner}\"/></execute></step>\n\
                 <step name=\"write\"><action>Write.</action></step>\n";
    let project = looping(looping(project(), "inner", &inner), "outer", outer).committed();
    let few = peaks(&project, 1200);
    let many = peaks(&project, 3600);
    for (few, many) in few.into_iter().zip(many) {
        assert!(many <= few + ROOM, "{few} KiB became {many} KiB");
    }
}

#[test]
fn of_a_long_run_the_newest_steps_are_listed_and_all_are_counted() {
    let steps = format!(
        "<step name=\"each\" foreach=\"{{input:l}}\" when=\"{{input:item}} &lt; 5\">{SEARCH}</step>\n"
    );
    let project = looping(project(), "loops", &steps).committed();
    let file = inputs(&project, 1010);
    let ran = project.piton(["run", "loops", "--format", "json", "--inputs", &file]);
    assert_eq!(ran.code(), Some(0), "{ran}");
    let told = summary(&ran);
    let listed: Vec<&Value> = told["steps"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|step| &step["name"])
        .collect();
    assert_eq!(
        (listed.len(), listed[0], listed[999]),
        (1000, &json!("each[10]"), &json!("each[1009]"))
    );
    assert_eq!(told["steps_omitted"], 10);
    assert_eq!(
        (
            &told["step_totals"]["succeeded"],
            &told["step_totals"]["skipped"]
        ),
        (&json!(5), &json!(1005))
    );
    // The journal has them all.
    let shown = project.piton(["show", told["run_id"].as_str().expect("a name")]);
    assert_eq!(shown.code(), Some(0), "{shown}");
    for number in [0, 4, 5, 1009] {
        assert!(
            shown.stdout().contains(&format!("each[{number}]")),
            "{shown}"
        );
    }

    let ran = project.piton(["run", "loops", "--inputs", &file]);
    assert!(
        ran.stderr().contains("loops succeeded: 5 steps, 0 commits"),
        "{ran}"
    );
    // The summary of a short run is unchanged.
    let file = inputs(&project, 3);
    let told = summary(&project.piton(["run", "loops", "--format", "json", "--inputs", &file]));
    assert_eq!(
        (told.get("steps_omitted"), told.get("step_totals")),
        (None, None),
        "{told}"
    );
}
