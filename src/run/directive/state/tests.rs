//! The state of a run follows from its events, and from any prefix of them.

use std::path::Path;

use crate::item::finding::{Findings, Strength};
use crate::item::source::SourceFile;
use crate::journal::summary::RunSummary;

use super::*;

const TEXT: &str = "# d\n\n```xml\n<directive name=\"d\" version=\"1.0.0\">\n<metadata><description>d</description></metadata>\n\
    <process><step name=\"a\"><action>a</action></step><step name=\"each\" foreach=\"{step:a.list}\"><action>b</action></step>\
    <step name=\"sub\"><execute item_type=\"directive\" item_id=\"d\"><param name=\"p\" value=\"{step:each}\"/></execute></step></process>\n</directive>\n```\n";

fn directive() -> Arc<Directive> {
    let path = Path::new("d.md");
    let mut findings = Findings::new(path, Strength::Lenient);
    let source = SourceFile::decode(path, TEXT.as_bytes().to_vec(), &mut findings).unwrap();
    Arc::new(crate::item::directive::parse(&source, &mut findings).unwrap())
}

fn fresh(run: RunId) -> RunState {
    let mut state = RunState::new(run);
    state.know("c".to_owned(), directive());
    state
}

fn entered(name: &str) -> Event {
    let (name, directive, content) = (name.to_owned(), "d@1.0.0".to_owned(), "c".to_owned());
    Event::DirectiveStarted {
        name,
        directive,
        content,
        inputs: Map::new(),
        hook: None,
    }
}

fn begun(step: u32, name: &str) -> Event {
    let kind = StepKind::Prose {
        instruction: "i".to_owned(),
    };
    Event::StepStarted {
        step,
        name: name.to_owned(),
        kind,
        tool: None,
        before: None,
        writes: Vec::new(),
        order: None,
    }
}

fn answered(step: u32, result: Value) -> Event {
    Event::Answered {
        step,
        result,
        error: None,
        paths: Vec::new(),
        approver: None,
    }
}

fn ended(step: u32, status: StepStatus) -> Event {
    Event::StepFinished {
        step,
        status,
        error: None,
    }
}

fn waits(run: RunId) -> Event {
    let (directive, steps, outputs, uncommitted) = (None, Vec::new(), Map::new(), Vec::new());
    Event::RunFinished(RunSummary {
        run_id: run,
        directive,
        status: RunStatus::Waiting,
        steps,
        steps_omitted: 0,
        step_totals: None,
        outputs,
        uncommitted,
        error: None,
    })
}

fn resolved(then: Resolution) -> Event {
    Event::Resolved {
        name: "each[1]".to_owned(),
        then,
        error: None,
    }
}

fn events(run: RunId) -> Vec<Event> {
    let finished = |name: &str| Event::DirectiveFinished {
        name: name.to_owned(),
        status: StepStatus::Succeeded,
        outputs: Map::new(),
        error: None,
    };
    let cut = |died| Event::Recovered {
        step: Some(3),
        found: "f".to_owned(),
        did: "d".to_owned(),
        died,
    };
    vec![
        entered(""),
        begun(1, "a"),
        answered(1, json!({"list": [1, 2]})),
        ended(1, StepStatus::Succeeded),
        Event::LoopStarted {
            name: "each".to_owned(),
            elements: vec![json!(1), json!(2)],
        },
        begun(2, "each[0]"),
        answered(2, json!("x")),
        ended(2, StepStatus::Succeeded),
        begun(3, "each[1]"),
        ended(3, StepStatus::CutOff),
        cut(Some(at(9))),
        waits(run),
        Event::RunResumed {
            with: String::new(),
            restart: None,
        },
        begun(4, "each[1]"),
        ended(4, StepStatus::Failed),
        resolved(Resolution::Retry),
        begun(5, "each[1]"),
        ended(5, StepStatus::Failed),
        resolved(Resolution::GoOn),
        entered("sub"),
        begun(6, "sub/a"),
        answered(6, json!({"list": []})),
        ended(6, StepStatus::Succeeded),
        Event::LoopStarted {
            name: "sub/each".to_owned(),
            elements: Vec::new(),
        },
        finished("sub"),
    ]
}

fn at(second: usize) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + i64::try_from(second).unwrap()).unwrap()
}

fn folded<'e>(run: RunId, events: impl Iterator<Item = (usize, &'e Event)>) -> RunState {
    let previous: Digest = format!("sha256:{}", "0".repeat(64)).parse().unwrap();
    let mut state = fresh(run);
    events.for_each(|(second, event)| state.apply(at(second), previous, event));
    state
}

fn run() -> RunId {
    "01kdye7w000000000000000001".parse().unwrap()
}

#[test]
fn a_run_stands_where_its_events_say() {
    let (run, events) = (run(), events(run()));
    let state = folded(run, events.iter().enumerate());
    let frame = state.frames.last().unwrap();
    assert_eq!((state.frames.len(), frame.at), (1, 3));
    assert_eq!(frame.results["each"], json!(["x", {"error": null}]));
    assert!(state.open.is_none() && state.aborted.is_none());
    // The interrupted step does not count.
    assert_eq!((state.cost.steps, state.cost.spawns), (5, 1));
}

#[test]
fn the_time_between_a_death_and_a_resumption_does_not_count() {
    let (run, events) = (run(), events(run()));
    let state = folded(run, events.iter().enumerate());
    // It died at second 9 and was resumed at second 12.
    let (running, waited) = (state.cost_at(at(20)).seconds, state.waited);
    assert!((waited - 3.0).abs() < 1e-6, "{waited}");
    let began = seconds_between(run.started(), at(20));
    assert!((running - (began - 3.0)).abs() < 1e-3, "{running}");
}

#[test]
fn any_beginning_and_any_part_of_a_run_can_be_taken_in() {
    let (run, events) = (run(), events(run()));
    for length in 0..=events.len() {
        let one = folded(run, events.iter().enumerate().take(length));
        let other = folded(run, events.iter().enumerate().take(length));
        assert_eq!(format!("{one:?}"), format!("{other:?}"), "{length}");
        // Missing or repeated events must not panic.
        folded(run, events.iter().enumerate().skip(length));
        folded(
            run,
            events
                .iter()
                .enumerate()
                .filter(|(place, _)| *place != length),
        );
        folded(
            run,
            events.iter().chain(events.iter().skip(length)).enumerate(),
        );
    }
}
