//! Tests of the stored form of every event. A change here is a change of the format.

mod latest;

use crate::problem::Code;
use serde_json::json;

use super::*;
use crate::checkpoint::object::{Entry, FileMode};
use crate::checkpoint::snapshot::{Head, LeftOut, LeftOutReason, Permissions};
use crate::context::principal::PersonChannel;
use crate::journal::summary::{CheckpointStatus, CheckpointSummary, RunStatus, StepSummary};
use crate::problem::Problem;

const RUN: &str = "01kdz3gqc80000000000000001";

fn id(digit: u8) -> ObjectId {
    ObjectId::from_bytes(&[digit; 20]).unwrap()
}

fn snapshot() -> Snapshot {
    Snapshot {
        tree: id(1),
        index_tree: id(2),
        head: Head {
            branch: Some("refs/heads/main".to_owned()),
            commit: Some(id(3)),
        },
        commit: Some(id(4)),
        permissions: Permissions {
            file: 0o644,
            executable: 0o755,
            folder: 0o755,
            exceptions: [(RepoPath::from_bytes(&b"bad\xff"[..]), 0o600)].into(),
        },
        empty_folders: vec![RepoPath::from("empty")],
        announced: Vec::new(),
        left_out: vec![LeftOut {
            path: RepoPath::from("big"),
            held: false,
            reason: LeftOutReason::TooLarge {
                size: u64::MAX,
                modified: -1,
            },
        }],
    }
}

/// One event of each type.
pub(in crate::journal) fn every_sample() -> Vec<Event> {
    let mut events = samples();
    events.extend(later_samples());
    events.extend(call_samples());
    events.push(acceptance_sample());
    events.push(consent_sample());
    events.extend(latest::latest_samples());
    events
}

fn approver_sample() -> Approver {
    Approver {
        by: "Ada <ada@example.com>".to_owned(),
        channel: PersonChannel::Elicitation,
        at: "2026-01-02T03:04:05Z".parse().unwrap(),
    }
}

fn consent_sample() -> Event {
    Event::Consented(Consent {
        to: ConsentTo::Run,
        items: vec![ConsentedItem {
            item_type: "tool".to_owned(),
            id: "greet".to_owned(),
            content: "ab".repeat(32),
        }],
        approver: approver_sample(),
    })
}

fn acceptance_sample() -> Event {
    Event::Accepted(Acceptance {
        of: StepId {
            run: RUN.parse().unwrap(),
            step: 2,
        },
        commit: Some(id(5)),
        instead: vec![AcceptedCommit {
            commit: id(6),
            tree: id(7),
            delta: Vec::new(),
        }],
        by: "Ada <ada@example.com>".to_owned(),
        channel: "terminal".to_owned(),
        at: "2026-01-02T03:04:05Z".parse().unwrap(),
        reason: "squashed by hand".to_owned(),
    })
}

/// Calls within a step.
fn call_samples() -> Vec<Event> {
    let step = 1;
    vec![
        Event::CallStarted {
            step,
            number: 2,
            within: Some(1),
            call: ToolCall {
                parameters: serde_json::Map::from_iter([("who".to_owned(), "Ada".into())]),
                ..ToolCall::unresolved("greet", Some("loudly"))
            },
        },
        Event::CallFinished {
            step,
            number: 2,
            status: StepStatus::Failed,
            error: Some(Problem::new(Code::ToolFailed, "m")),
        },
    ]
}

/// One event of each type that the second format added.
pub(in crate::journal) fn later_samples() -> Vec<Event> {
    let step = 2;
    let of = |value: Value| value.as_object().unwrap().clone();
    let error = Some(Problem::new(Code::ToolFailed, "it did"));
    let name = || "release/build[2]".to_owned();
    let path = || RepoPath::from("elsewhere.txt");
    let started = |step, kind: Value| Event::StepStarted {
        step,
        name: name(),
        kind: serde_json::from_value(kind).unwrap(),
        tool: Some("greet@1.0.0".to_owned()),
        before: Some(Snapshot {
            announced: vec![path()],
            ..snapshot()
        }),
        writes: Vec::new(),
        order: None,
    };
    let permission = json!({"need": "<execute/>", "granted_by": "the person at the terminal", "enforcement": "declared_only"});
    vec![
        Event::DirectiveStarted {
            name: String::new(),
            directive: "release@1.0.0".to_owned(),
            content: "00".repeat(32),
            inputs: of(json!({"version": "1.2", "dry": false, "list": [1, {"b": 2, "a": null}]})),
            hook: Some(HookPhase::Before),
        },
        Event::DirectiveFinished {
            name: name(),
            status: StepStatus::Failed,
            outputs: of(json!({"notes": "text"})),
            error: error.clone(),
        },
        Event::StepSkipped {
            name: name(),
            reason: "its condition does not hold".to_owned(),
        },
        Event::LoopStarted {
            name: name(),
            elements: vec![json!("one"), json!({"two": 2}), Value::Null],
        },
        started(
            step,
            json!({"type": "tool", "chain": ["greet@1.0.0"], "parameters": {"who": "you", "often": 3},
                "permissions": [permission], "isolation": "standard", "degraded": "no landlock",
                "authors": [{"file": ".ai/tools/greet/tool.yaml", "name": "ada", "fingerprint": "SHA256:abc"}]}),
        ),
        started(
            3,
            json!({"type": "item", "verb": "search", "parameters": {"query": "words"}}),
        ),
        started(
            4,
            json!({"type": "prose", "instruction": "Write the notes"}),
        ),
        started(5, json!({"type": "human", "gate": "decision"})),
        Event::Answered {
            step,
            result: json!({"ok": true}),
            error: None,
            paths: Vec::new(),
            approver: Some(approver_sample()),
        },
        Event::Answered {
            step,
            result: Value::Null,
            error: error.clone(),
            paths: Vec::new(),
            approver: None,
        },
        Event::Resolved {
            name: name(),
            then: Resolution::Retry,
            error,
        },
        Event::Waiting {
            step,
            wait: Wait::Work {
                instruction: "Write".to_owned(),
                checks: vec!["it is there".to_owned()],
                outside: vec![path()],
                rejected: None,
            },
        },
        Event::Waiting {
            step,
            wait: Wait::Person {
                gate: "decision".to_owned(),
                question: "Really?".to_owned(),
            },
        },
        Event::Waiting {
            step,
            wait: Wait::Changes,
        },
        Event::Waiting {
            step,
            wait: Wait::Indeterminate {
                reason: "it was cut off".to_owned(),
            },
        },
        Event::BaseMoved {
            step,
            before: snapshot(),
            after: None,
            delta: None,
            runs: vec![RUN.parse().unwrap()],
        },
        Event::RunResumed {
            with: "the answer".to_owned(),
            restart: None,
        },
        Event::ToolDenied {
            step,
            denials: vec![Denial {
                what: "run the tool `greet`".to_owned(),
                directive: "release".to_owned(),
                allow_with: Some("<execute/>".to_owned()),
                denied_by: None,
            }],
        },
        Event::ChangesFound {
            step,
            after: Snapshot {
                left_out: Vec::new(),
                ..snapshot()
            },
            delta: Delta::default(),
            outside: vec![path()],
        },
        Event::NoChanges {
            step,
            not_captured: vec![path()],
            too_large: Vec::new(),
        },
        Event::SnapshotsDropped {
            refs: vec!["refs/piton/local/x/1/before".to_owned()],
            runs: Vec::new(),
        },
        Event::RunFinished(RunSummary {
            run_id: RUN.parse().unwrap(),
            directive: Some("release@1.0.0".to_owned()),
            status: RunStatus::Succeeded,
            steps: Vec::new(),
            steps_omitted: 0,
            step_totals: None,
            outputs: of(json!({"version": "1.2"})),
            uncommitted: Vec::new(),
            error: None,
        }),
        Event::HandCommitted {
            step,
            commits: vec![HandCommit {
                commit: id(5),
                by: CommitMaker::Step,
            }],
        },
        Event::HooksStarted {
            step,
            token: Digest::of(b"token"),
        },
        Event::Rewritten {
            cause: "rebase".to_owned(),
            commits: vec![RewrittenCommit {
                step: StepId {
                    run: RUN.parse().unwrap(),
                    step,
                },
                old: id(5),
                new: id(6),
                delta: Vec::new(),
                same_changes: true,
            }],
        },
    ]
}

/// One event of each type of the first format.
pub(in crate::journal) fn samples() -> Vec<Event> {
    let run = RUN.parse().unwrap();
    let entry = Entry {
        mode: FileMode::Executable,
        id: id(5),
    };
    let path = RepoPath::from_bytes(&b"a\nb\xff"[..]);
    let step = 1;
    let summary = RunSummary {
        run_id: run,
        directive: None,
        status: RunStatus::Failed,
        steps: vec![StepSummary {
            name: "make".to_owned(),
            status: StepStatus::Failed,
            tool: None,
            exit_code: Some(2),
            signal: None,
            checkpoint: Some(CheckpointSummary {
                status: CheckpointStatus::RolledBack,
                commit_sha: None,
                files_changed: 1,
                insertions: 2,
                deletions: 3,
            }),
        }],
        steps_omitted: 0,
        step_totals: None,
        outputs: serde_json::Map::new(),
        uncommitted: Vec::new(),
        error: Some(Problem::new(Code::StepFailed, "it did")),
    };
    let commit = Decision::Commit {
        target: "refs/heads/main".to_owned(),
        old: Some(id(3)),
        new: id(6),
        tree: id(7),
        index: "08".repeat(20),
        delta: vec![Change {
            path: path.clone(),
            before: None,
            after: Some(entry),
            insertions: 1,
            deletions: 0,
        }],
        undoes: None,
        parents: None,
    };
    vec![
        Event::RunStarted {
            name: "make".to_owned(),
            command: vec!["make".to_owned(), "all".to_owned()],
            mode: CheckpointMode::Auto,
            directive: None,
            root: "/work".to_owned(),
            worktree: None,
            pinned: None,
            beside: None,
            steps: Vec::new(),
            atomic: false,
            order: None,
            repository: None,
        },
        Event::StepStarted {
            step,
            name: "make".to_owned(),
            kind: StepKind::Command {
                argv: vec!["make".to_owned()],
                on_failure: None,
                isolation: None,
            },
            tool: None,
            before: Some(snapshot()),
            writes: vec!["docs/**".to_owned()],
            order: None,
        },
        Event::ToolStarted {
            step,
            pid: 42,
            started: u64::MAX,
            boot: "b".to_owned(),
            supervised: false,
        },
        Event::ToolFinished {
            step,
            exit_code: None,
            signal: Some(9),
            duration_ms: 12,
            timed_out: true,
            stdout: None,
            stderr: None,
            leftovers: 0,
            git_changed: Vec::new(),
        },
        Event::ChangesFound {
            step,
            after: snapshot(),
            delta: Delta {
                not_captured: vec![path.clone()],
                ..Delta::default()
            },
            outside: Vec::new(),
        },
        Event::Decided {
            step,
            decision: commit,
        },
        Event::Committed {
            step,
            commit: id(6),
            message: "chore: make\n".to_owned(),
            files_changed: 1,
            insertions: 2,
            deletions: 3,
            adopted: vec![id(9)],
            notes: vec!["hooks skipped".to_owned()],
        },
        Event::RolledBack {
            step,
            paths: 2,
            kept: vec![path],
            repositories: Vec::new(),
            rescue: Some("refs/piton/local/x".to_owned()),
        },
        Event::NoChanges {
            step,
            not_captured: Vec::new(),
            too_large: Vec::new(),
        },
        Event::CheckpointFailed {
            step,
            code: Code::DirtyOverlap,
            message: "m".to_owned(),
            suggestion: Some("s".into()),
        },
        Event::CheckpointSkipped {
            step,
            reason: "explicit".to_owned(),
        },
        Event::Recovered {
            step: Some(step),
            found: "f".to_owned(),
            did: "d".to_owned(),
            died: None,
        },
        Event::StepFinished {
            step,
            status: StepStatus::Failed,
            error: None,
        },
        Event::RunFinished(summary),
    ]
}

#[test]
fn every_event_reads_back_from_json() {
    for event in every_sample() {
        let text = serde_json::to_string(&event).unwrap();
        assert!(!text.contains('\n'));
        assert_eq!(
            serde_json::from_str::<Event>(&text).unwrap(),
            event,
            "{text}"
        );
    }
    for decision in [
        Decision::RollBack {
            reason: "r".to_owned(),
            status: Some(StepStatus::CutOff),
            error: None,
        },
        Decision::Keep {
            reason: "r".to_owned(),
        },
    ] {
        let text = serde_json::to_string(&decision).unwrap();
        assert_eq!(serde_json::from_str::<Decision>(&text).unwrap(), decision);
    }
    let of = StepId {
        run: RUN.parse().unwrap(),
        step: 3,
    };
    for kind in [
        StepKind::Undo {
            of,
            also: vec![],
            commit: Some(id(1)),
        },
        StepKind::Undo {
            of,
            also: vec![StepId { step: 2, ..of }],
            commit: None,
        },
        StepKind::Apply { of, also: vec![] },
        StepKind::Redo { of, commit: None },
        StepKind::Restore { to: of },
        StepKind::Checkpoint { covers: vec![] },
        StepKind::Finish {
            of: of.run,
            how: FinishHow::Squash,
            tip: Some(id(2)),
        },
    ] {
        let text = serde_json::to_string(&kind).unwrap();
        assert_eq!(serde_json::from_str::<StepKind>(&text).unwrap(), kind);
    }
}

#[test]
fn the_last_line_is_what_is_promised() {
    let last = serde_json::to_value(samples().pop().unwrap()).unwrap();
    assert_eq!(
        last,
        json!({
            "type": "run_finished",
            "run_id": RUN,
            "directive": null,
            "status": "failed",
            "steps": [{
                "name": "make",
                "status": "failed",
                "tool": null,
                "exit_code": 2,
                "checkpoint": {
                    "status": "rolled_back",
                    "commit_sha": null,
                    "files_changed": 1,
                    "insertions": 2,
                    "deletions": 3
                }
            }],
            "outputs": {},
            "error": {"code": "STEP_FAILED", "message": "it did", "suggestion": null}
        })
    );
}

#[test]
fn unknown_types_and_fields_are_accepted() {
    for (json, event) in [
        (
            json!({"type": "teleported", "step": 1, "to": {"x": [1]}}),
            Event::Unknown,
        ),
        (
            json!({"type": "no_changes", "step": 1, "why": "new"}),
            Event::NoChanges {
                step: 1,
                not_captured: Vec::new(),
                too_large: Vec::new(),
            },
        ),
        (
            json!({"type": "decided", "step": 1, "decision": {"type": "teleport", "to": 1}}),
            Event::Decided {
                step: 1,
                decision: Decision::Unknown,
            },
        ),
    ] {
        assert_eq!(serde_json::from_value::<Event>(json).unwrap(), event);
    }
    assert_eq!(
        serde_json::from_value::<StepKind>(json!({"type": "dance", "x": 1})).unwrap(),
        StepKind::Unknown
    );
}

#[test]
fn a_known_type_with_wrong_fields_is_not_unknown() {
    for json in [
        json!({"type": "no_changes"}),
        json!({"type": "no_changes", "step": "one"}),
        json!({"step": 1}),
        json!("no_changes"),
    ] {
        assert!(
            serde_json::from_value::<Event>(json.clone()).is_err(),
            "{json}"
        );
    }
}

#[test]
fn an_event_knows_its_step() {
    let steps: Vec<Option<u32>> = samples().iter().map(Event::step).collect();
    let expected: Vec<Option<u32>> = (0..14)
        .map(|at| (at != 0 && at != 13).then_some(1))
        .collect();
    assert_eq!(steps, expected);
}

#[test]
fn what_happens_to_contents_of_the_store_is_stored_as_this() {
    let dropped = Event::SnapshotsDropped {
        refs: Vec::new(),
        runs: vec![RUN.parse().unwrap()],
    };
    let samples = [
        (dropped, json!({"type": "snapshots_dropped", "runs": [RUN]})),
        (
            Event::SnapshotsMoved { refs: 3 },
            json!({"type": "snapshots_moved", "refs": 3}),
        ),
    ];
    for (event, stored) in samples {
        assert_eq!(serde_json::to_value(&event).unwrap(), stored);
        assert_eq!(serde_json::from_value::<Event>(stored).unwrap(), event);
    }
}

#[test]
fn a_snapshot_of_today_names_no_commit_that_keeps_it() {
    let today = Snapshot {
        commit: None,
        ..snapshot()
    };
    let stored = serde_json::to_value(&today).unwrap();
    assert_eq!(stored.get("commit"), None);
    assert_eq!(serde_json::from_value::<Snapshot>(stored).unwrap(), today);
}
