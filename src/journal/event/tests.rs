//! Every event as it is stored. A change here is a change of the format.

use serde_json::json;

use super::*;
use crate::checkpoint::object::{Entry, FileMode};
use crate::checkpoint::snapshot::{Head, LeftOut, LeftOutReason, Permissions};
use crate::journal::summary::{CheckpointStatus, CheckpointSummary, ErrorSummary, RunStatus, StepSummary};

const RUN: &str = "01kdz3gqc80000000000000001";

fn id(digit: u8) -> ObjectId {
    ObjectId::from_bytes([digit; 20])
}

fn snapshot() -> Snapshot {
    Snapshot {
        tree: id(1),
        index_tree: id(2),
        head: Head { branch: Some("refs/heads/main".to_owned()), commit: Some(id(3)) },
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
            reason: LeftOutReason::TooLarge { size: u64::MAX, modified: -1 },
        }],
    }
}

/// One event of each type.
pub(in crate::journal) fn samples() -> Vec<Event> {
    let run = RUN.parse().unwrap();
    let entry = Entry { mode: FileMode::Executable, id: id(5) };
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
            checkpoint: Some(CheckpointSummary {
                status: CheckpointStatus::RolledBack,
                commit_sha: None,
                files_changed: 1,
                insertions: 2,
                deletions: 3,
            }),
        }],
        outputs: serde_json::Map::new(),
        error: Some(ErrorSummary { code: "STEP_FAILED".to_owned(), message: "it did".to_owned(), suggestion: None }),
    };
    let commit = Decision::Commit {
        target: "refs/heads/main".to_owned(),
        old: Some(id(3)),
        new: id(6),
        tree: id(7),
        index: "08".repeat(20),
        delta: vec![Change { path: path.clone(), before: None, after: Some(entry), insertions: 1, deletions: 0 }],
        undoes: None,
    };
    vec![
        Event::RunStarted {
            name: "make".to_owned(),
            command: vec!["make".to_owned(), "all".to_owned()],
            mode: CheckpointMode::Auto,
            directive: None,
            root: "/work".to_owned(),
        },
        Event::StepStarted {
            step,
            name: "make".to_owned(),
            kind: StepKind::Command { argv: vec!["make".to_owned()] },
            tool: None,
            before: Some(snapshot()),
            writes: vec!["docs/**".to_owned()],
        },
        Event::ToolStarted { step, pid: 42, started: u64::MAX, boot: "b".to_owned() },
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
            delta: Delta { not_captured: vec![path.clone()], ..Delta::default() },
            outside: Vec::new(),
        },
        Event::Decided { step, decision: commit },
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
        Event::NoChanges { step, not_captured: Vec::new() },
        Event::CheckpointFailed {
            step,
            code: "DIRTY_OVERLAP".to_owned(),
            message: "m".to_owned(),
            suggestion: Some("s".to_owned()),
        },
        Event::CheckpointSkipped { step, reason: "explicit".to_owned() },
        Event::Recovered { step: Some(step), found: "f".to_owned(), did: "d".to_owned() },
        Event::StepFinished { step, status: StepStatus::Failed },
        Event::RunFinished(summary),
    ]
}

#[test]
fn every_event_reads_back_from_json() {
    for event in samples() {
        let text = serde_json::to_string(&event).unwrap();
        assert!(!text.contains('\n'));
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event, "{text}");
    }
    for decision in [Decision::RollBack { reason: "r".to_owned() }, Decision::Keep { reason: "r".to_owned() }] {
        let text = serde_json::to_string(&decision).unwrap();
        assert_eq!(serde_json::from_str::<Decision>(&text).unwrap(), decision);
    }
    let of = StepId { run: RUN.parse().unwrap(), step: 3 };
    for kind in [
        StepKind::Undo { of, commit: Some(id(1)) },
        StepKind::Redo { of, commit: None },
        StepKind::Restore { to: of },
        StepKind::Checkpoint { covers: vec![] },
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
        (json!({"type": "teleported", "step": 1, "to": {"x": [1]}}), Event::Unknown),
        (
            json!({"type": "no_changes", "step": 1, "why": "new"}),
            Event::NoChanges { step: 1, not_captured: Vec::new() },
        ),
        (
            json!({"type": "decided", "step": 1, "decision": {"type": "teleport", "to": 1}}),
            Event::Decided { step: 1, decision: Decision::Unknown },
        ),
    ] {
        assert_eq!(serde_json::from_value::<Event>(json).unwrap(), event);
    }
    assert_eq!(serde_json::from_value::<StepKind>(json!({"type": "dance", "x": 1})).unwrap(), StepKind::Unknown);
}

#[test]
fn a_known_type_with_wrong_fields_is_not_unknown() {
    for json in [
        json!({"type": "no_changes"}),
        json!({"type": "no_changes", "step": "one"}),
        json!({"step": 1}),
        json!("no_changes"),
    ] {
        assert!(serde_json::from_value::<Event>(json.clone()).is_err(), "{json}");
    }
}

#[test]
fn an_event_knows_its_step() {
    let steps: Vec<Option<u32>> = samples().iter().map(Event::step).collect();
    let expected: Vec<Option<u32>> = (0..14).map(|at| (at != 0 && at != 13).then_some(1)).collect();
    assert_eq!(steps, expected);
}
