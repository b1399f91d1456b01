//! Samples of every event, step kind, wait and decision that the older samples leave out, with
//! every field.
//!
//! `fixtures/journal/v2.jsonl` holds all samples. The test below reads the type declarations and
//! names each variant and field that is missing in the fixture, so that later versions can still
//! read the journals of this one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use super::{Event, RUN, approver_sample, snapshot};
use crate::journal;

/// One event for each variant or field that the older samples leave out.
pub(in crate::journal) fn latest_samples() -> Vec<Event> {
    let mut events = run_samples();
    events.extend(kind_samples());
    events.extend(step_samples());
    events
        .into_iter()
        .map(|event| serde_json::from_value(event).unwrap())
        .collect()
}

fn id(digit: u8) -> String {
    format!("{digit:02x}").repeat(20)
}

fn step_id(step: u32) -> String {
    format!("{RUN}/{step}")
}

fn error() -> Value {
    json!({"code": "TOOL_FAILED", "message": "it did", "suggestion": "mend it"})
}

fn change() -> Value {
    let entry = |digit| json!({"mode": "100644", "id": id(digit)});
    json!({"path": "notes.md", "before": entry(5), "after": entry(6), "insertions": 2, "deletions": 1})
}

fn delta() -> Value {
    let large = json!({"path": "big.bin", "size": 20_000_000, "limit": 10_485_760});
    json!({
        "changes": [change()], "folders_added": ["new"], "folders_removed": ["old"],
        "permissions": [{"path": "run.sh", "before": 0o644, "after": 0o755}],
        "index": {"before": id(2), "after": id(3)}, "announced_removed": ["gone.txt"], "announced_added": ["soon.txt"],
        "not_captured": ["big.bin"], "too_large": [large], "stored_before": {"a.txt": id(4)},
    })
}

fn whole_snapshot() -> Value {
    let mut value = serde_json::to_value(snapshot()).unwrap();
    value["announced"] = json!(["soon.txt"]);
    value["left_out"] = json!([
        {"path": "big.bin", "held": true, "reason": "too_large", "size": 20_000_000, "modified": 7},
        {"path": "vendored", "reason": "nested_repository"},
        {"path": "pipe", "reason": "special_file"},
        {"path": "local.cfg", "reason": "overlooked"},
        {"path": "closed", "reason": "unreadable"},
    ]);
    value
}

/// Events about the run as a whole.
fn run_samples() -> Vec<Value> {
    let changed =
        json!({"kind": "tool", "id": "greet", "before": "11".repeat(32), "after": "22".repeat(32)});
    let restart = json!({
        "ended": "failed", "depth": 2, "within": "release", "step": "build", "element": 1, "passed_over": ["lint"],
        "skip": true, "result": {"done": true},
    });
    let step = json!({
        "name": "make", "status": "failed", "tool": "greet@1.0.0", "exit_code": null, "signal": 9,
        "checkpoint": {"status": "committed", "commit_sha": id(6), "files_changed": 1, "insertions": 2, "deletions": 3},
    });
    vec![
        json!({
            "type": "run_started", "name": "release", "command": ["run", "release"], "mode": "explicit",
            "directive": "release@1.0.0", "root": "/work", "worktree": "review", "pinned": "33".repeat(32), "beside": step_id(2),
            "steps": ["build", "publish"], "atomic": true, "order": 7,
            "repository": {"id": RUN, "device": 1, "inode": 2, "git_dir": "/project/.git"},
        }),
        json!({"type": "tool_started", "step": 3, "pid": 42, "started": 7, "boot": "b", "supervised": true}),
        json!({"type": "repinned", "pinned": "44".repeat(32), "frames": ["55".repeat(32)], "changed": [changed]}),
        json!({"type": "run_resumed", "with": "the answer", "restart": restart}),
        json!({"type": "sent_back", "name": "look", "to": "write", "reason": "too short"}),
        json!({"type": "snapshots_moved", "refs": 3}),
        json!({"type": "snapshots_dropped", "runs": [RUN]}),
        json!({"type": "rewritten", "cause": "found", "commits": [
            {"step": step_id(2), "old": id(5), "new": id(6), "delta": [change()], "same_changes": false},
        ]}),
        json!({
            "type": "accepted", "of": step_id(2), "commit": id(5),
            "instead": [{"commit": id(6), "tree": id(7), "delta": [change()]}],
            "by": "Ada <ada@example.com>", "channel": "terminal", "at": "2026-01-02T03:04:05Z", "reason": "by hand",
        }),
        json!({
            "type": "run_finished", "run_id": RUN, "directive": "release@1.0.0", "status": "cancelled", "steps": [step],
            "steps_omitted": 4000, "step_totals": {
                "succeeded": 1, "failed": 2, "denied": 3, "cancelled": 4, "skipped": 5, "waiting": 6, "cut_off": 7,
                "committed": 8,
            },
            "outputs": {"version": "1.2"}, "uncommitted": ["notes.md"], "error": error(),
        }),
    ]
}

/// One event for each kind of step.
fn kind_samples() -> Vec<Value> {
    let call = json!({
        "chain": ["greet@1.0.0", "bash_runtime@1.0.0"], "command": "loudly", "parameters": {"who": "Ada"},
        "permissions": [{"need": "<execute/>", "granted_by": "release", "enforcement": "kernel"}],
        "isolation": "standard", "degraded": "no landlock", "raised": "`isolation.minimum` is `standard`",
        "authors": [{"file": ".ai/tools/greet/tool.yaml", "name": "ada", "fingerprint": "SHA256:abc"}],
        "external": true, "repeatable": true,
    });
    let mut tool = call;
    tool["type"] = "tool".into();
    let kinds = [
        json!({"type": "command", "argv": ["make"], "on_failure": "rollback", "isolation": "sandboxed"}),
        tool,
        json!({"type": "undo", "of": step_id(3), "also": [step_id(2)], "commit": id(5)}),
        json!({"type": "redo", "of": step_id(4), "commit": id(5)}),
        json!({"type": "apply", "of": step_id(2), "also": [step_id(3)]}),
        json!({"type": "roll_back_run", "steps": [step_id(2), step_id(1)], "commits": [id(5)]}),
        json!({"type": "restore", "to": step_id(1)}),
        json!({"type": "prose", "instruction": "Write the notes"}),
        json!({"type": "directive", "id": "release"}),
        json!({"type": "human", "gate": "human-verify"}),
        json!({"type": "item", "verb": "sign", "parameters": {"id": "greet"}}),
        json!({"type": "checkpoint", "covers": [step_id(1), step_id(2)]}),
        json!({"type": "finish", "of": RUN, "how": "squash", "tip": id(5)}),
        json!({"type": "roll_back", "to": id(3)}),
    ];
    let started = kinds.into_iter().enumerate().map(|(at, kind)| {
        let before = if at == 0 { whole_snapshot() } else { Value::Null };
        let writes: &[&str] = if at == 0 { &["docs/**"] } else { &[] };
        json!({"type": "step_started", "step": 10 + at, "name": "work", "kind": kind, "tool": null, "before": before,
            "writes": writes, "order": 8 + at})
    });
    started.collect()
}

/// Events within a step.
fn step_samples() -> Vec<Value> {
    let step = 10;
    let written = |bytes: u64| json!({"bytes": bytes, "sha256": "66".repeat(32)});
    let denial = json!({"what": "run the tool `greet`", "directive": "release", "allow_with": "<execute/>",
        "denied_by": "<deny/>"});
    vec![
        json!({
            "type": "tool_finished", "step": step, "exit_code": 0, "signal": null, "duration_ms": 12, "timed_out": false,
            "stdout": written(5), "stderr": written(0), "leftovers": 2, "git_changed": ["config"],
        }),
        json!({"type": "tool_denied", "step": step, "denials": [denial]}),
        json!({"type": "answered", "step": step, "result": null, "error": error(), "paths": ["notes.md"]}),
        json!({"type": "waiting", "step": step, "wait": {"for": "work", "instruction": "Write", "checks": ["it is there"],
            "outside": ["elsewhere.txt"], "rejected": "too short"}}),
        json!({"type": "waiting", "step": step, "wait": {"for": "person", "gate": "decision", "question": "Really?"}}),
        json!({"type": "waiting", "step": step, "wait": {"for": "changes"}}),
        json!({"type": "waiting", "step": step, "wait": {"for": "indeterminate", "reason": "it was cut off"}}),
        json!({"type": "base_moved", "step": step, "before": whole_snapshot(), "after": whole_snapshot(),
            "delta": delta(), "runs": [RUN]}),
        json!({"type": "changes_found", "step": step, "after": whole_snapshot(), "delta": delta(),
            "outside": ["elsewhere.txt"]}),
        json!({"type": "remainder_found", "step": step, "dropped": [step_id(1)], "edits": ["notes.md"]}),
        json!({"type": "approved", "step": step, "tree": id(7), "edits": ["notes.md"], "approver": approver_sample()}),
        json!({"type": "hand_committed", "step": step, "commits": [{"commit": id(5), "by": "somebody"}]}),
        json!({"type": "decided", "step": step, "decision": {
            "type": "commit", "target": "refs/heads/main", "old": id(3), "new": id(6), "tree": id(7),
            "index": "08".repeat(20), "delta": [change()], "undoes": id(5), "parents": [id(3), id(4)],
        }}),
        json!({"type": "decided", "step": step, "decision": {
            "type": "roll_back", "reason": "it failed", "status": "cut_off", "error": error(),
        }}),
        json!({"type": "decided", "step": step, "decision": {"type": "keep", "reason": "explicit"}}),
        json!({"type": "rolled_back", "step": step, "paths": 2, "kept": ["notes.md"], "repositories": ["vendored"],
            "rescue": step_id(10)}),
        json!({"type": "no_changes", "step": step, "not_captured": ["big.bin"],
            "too_large": [{"path": "big.bin", "size": 20_000_000, "limit": 10_485_760}]}),
        json!({"type": "recovered", "step": step, "found": "f", "did": "d", "died": "2026-01-02T03:04:05Z"}),
        json!({"type": "step_finished", "step": step, "status": "denied", "error": error()}),
    ]
}

/// The variants of an enum and their field names in stored form, read from its declaration.
fn variants(source: &str, name: &str) -> BTreeMap<String, BTreeSet<String>> {
    let (_, body) = source.split_once(&format!("pub enum {name} {{\n")).unwrap();
    let (body, _) = body.split_once("\n}\n").unwrap();
    let mut variants = BTreeMap::<String, BTreeSet<String>>::new();
    let mut current = String::new();
    for line in body.lines() {
        let field = line
            .strip_prefix("        ")
            .and_then(|rest| rest.split_once(": "))
            .map(|(field, _)| field);
        if let Some(rest) = line
            .strip_prefix("    ")
            .filter(|rest| rest.starts_with(char::is_uppercase))
        {
            current = snake_case(&rest[..rest.find([' ', '(', ',']).unwrap()]);
            let inline = rest
                .split_once(" { ")
                .and_then(|(_, fields)| fields.strip_suffix(" },"))
                .unwrap_or_default();
            let names = inline
                .split(", ")
                .filter_map(|field| field.split_once(": "))
                .map(|(name, _)| name.to_owned());
            variants.entry(current.clone()).or_default().extend(names);
        } else {
            let field =
                field.filter(|field| field.chars().all(|it| it.is_ascii_lowercase() || it == '_'));
            variants
                .entry(current.clone())
                .or_default()
                .extend(field.map(str::to_owned));
        }
    }
    variants.remove("unknown");
    variants.remove("");
    variants
}

fn snake_case(name: &str) -> String {
    let mut text = String::new();
    for (at, letter) in name.chars().enumerate() {
        if letter.is_uppercase() && at > 0 {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

/// The public fields of all types that a file declares.
fn fields(source: &str) -> BTreeSet<String> {
    let declared = source
        .lines()
        .filter_map(|line| line.strip_prefix("    pub ")?.split_once(": "));
    declared
        .map(|(field, _)| field.to_owned())
        .filter(|field| !field.contains(' '))
        .collect()
}

/// All objects inside a value.
fn objects<'v>(value: &'v Value, found: &mut Vec<&'v serde_json::Map<String, Value>>) {
    match value {
        Value::Object(object) => {
            found.push(object);
            object.values().for_each(|value| objects(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| objects(value, found)),
        _ => {}
    }
}

#[test]
fn the_fixture_has_every_event_with_every_field() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/journal/v2.jsonl");
    let records = journal::read(&path).unwrap().records;
    let events: Vec<Value> = records
        .iter()
        .map(|record| serde_json::to_value(&record.event).unwrap())
        .collect();
    let mut all = Vec::new();
    for event in &events {
        objects(event, &mut all);
    }
    let mut missing = Vec::new();
    let (event, kind) = (include_str!("../../event.rs"), include_str!("../kind.rs"));
    for (source, name, tag) in [
        (event, "Event", "type"),
        (event, "Decision", "type"),
        (kind, "StepKind", "type"),
        (include_str!("../control_flow.rs"), "Wait", "for"),
    ] {
        for (variant, fields) in variants(source, name) {
            let of_variant: Vec<_> = all
                .iter()
                .filter(|object| object.get(tag).and_then(Value::as_str) == Some(&variant))
                .collect();
            if of_variant.is_empty() {
                missing.push(format!("{name} {variant}"));
            }
            let is_absent =
                |field: &&String| !of_variant.iter().any(|object| object.contains_key(*field));
            missing.extend(
                fields
                    .iter()
                    .filter(is_absent)
                    .map(|field| format!("{name} {variant}.{field}")),
            );
        }
    }
    for source in [
        include_str!("../call.rs"),
        include_str!("../commits.rs"),
        include_str!("../control_flow.rs"),
        include_str!("../../summary.rs"),
        include_str!("../../../checkpoint/snapshot.rs"),
        include_str!("../../../checkpoint/delta.rs"),
        include_str!("../../../policy/denial.rs"),
    ] {
        let flattened = ["reason"];
        let known = |field: &String| all.iter().any(|object| object.contains_key(field));
        missing.extend(
            fields(source)
                .into_iter()
                .filter(|field| !known(field) && !flattened.contains(&&**field)),
        );
    }
    assert_eq!(
        missing,
        Vec::<String>::new(),
        "add them to `latest_samples` and write the fixture anew"
    );
}
