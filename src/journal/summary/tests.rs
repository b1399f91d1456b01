//! Tests of the limited step list, and of old and short summaries.

use serde_json::{Value, json};

use super::*;

fn step(number: usize, status: StepStatus) -> StepSummary {
    StepSummary::without_changes(format!("each[{number}]"), status)
}

fn committed(number: usize) -> StepSummary {
    let status = CheckpointStatus::Committed;
    let made = CheckpointSummary {
        status,
        commit_sha: None,
        files_changed: 1,
        insertions: 1,
        deletions: 0,
    };
    StepSummary {
        checkpoint: Some(made),
        ..step(number, StepStatus::Succeeded)
    }
}

fn summary(steps: StepList) -> RunSummary {
    let (steps, steps_omitted, step_totals) = steps.into_parts();
    RunSummary {
        run_id: "01kdz3gqc80000000000000001".parse().unwrap(),
        directive: None,
        status: RunStatus::Succeeded,
        steps,
        steps_omitted,
        step_totals,
        outputs: Map::new(),
        uncommitted: Vec::new(),
        error: None,
    }
}

#[test]
fn a_summary_with_all_steps_has_no_totals() {
    let mut list = StepList::default();
    list.extend((0..MOST_LISTED).map(committed));
    let told = summary(list);
    assert_eq!(
        (told.steps.len(), told.steps_omitted, told.step_totals),
        (MOST_LISTED, 0, None)
    );
    assert_eq!((told.totals().ran(), told.totals().committed), (1000, 1000));
    let written = serde_json::to_value(&told).unwrap();
    assert!(written.get("steps_omitted").is_none() && written.get("step_totals").is_none());
}

#[test]
fn a_long_run_lists_its_newest_steps_and_counts_all() {
    const MORE: usize = 7;
    let mut list = StepList::default();
    list.push(step(0, StepStatus::Failed));
    list.push(step(1, StepStatus::Skipped));
    list.push(step(2, StepStatus::CutOff));
    list.extend((3..MOST_LISTED + MORE).map(committed));
    let told = summary(list);
    assert_eq!(
        (told.steps.len(), told.steps_omitted),
        (MOST_LISTED, MORE as u64)
    );
    assert_eq!(told.steps.first().unwrap().name, format!("each[{MORE}]"));
    let written = serde_json::to_value(&told).unwrap();
    assert_eq!(written["steps_omitted"], 7);
    assert_eq!(
        written["step_totals"],
        json!({
            "succeeded": 1004, "failed": 1, "denied": 0, "cancelled": 0, "skipped": 1, "waiting": 0, "cut_off": 1,
            "committed": 1004,
        })
    );
    assert_eq!(told.totals().ran(), 1006);
    assert_eq!(serde_json::from_value::<RunSummary>(written).unwrap(), told);
}

#[test]
fn a_summary_from_before_the_limit_is_read_and_counted() {
    let steps: Vec<Value> = (0..3)
        .map(|number| json!({"name": format!("s{number}"), "status": "succeeded", "tool": null, "checkpoint": null}))
        .collect();
    let old = json!({
        "run_id": "01kdz3gqc80000000000000001", "directive": null, "status": "succeeded", "steps": steps, "error": null,
    });
    let told: RunSummary = serde_json::from_value(old).unwrap();
    assert_eq!(
        (
            told.steps_omitted,
            told.totals().ran(),
            told.totals().committed
        ),
        (0, 3, 0)
    );
}
