//! Broken chains, merged settings, and stamps.

use super::*;

const SCRIPT: &str = "tool_id: t\ntool_type: script\nversion: \"1.0.0\"\ndescription: T\nconfig: {entrypoint: t.sh}\n";

fn runtime(id: &str, executor: &str, config: &str) -> String {
    format!(
        "tool_id: {id}\ntool_type: runtime\nversion: \"1.0.0\"\ndescription: R\nexecutor: {executor}\nconfig:\n  command: sh\n{config}"
    )
}

fn project(executor: &str, more: &[(&str, &str)]) -> Project {
    let tool = format!("{SCRIPT}executor: {executor}\n");
    let mut files = vec![
        (".ai/tools/t/tool.yaml", tool.as_str()),
        (".ai/tools/t/t.sh", "true\n"),
    ];
    files.extend(more);
    Project::new(&files)
}

#[test]
fn broken_chains_are_shown_whole() {
    insta::assert_snapshot!(project("bash_runtim", &[]).refusal("t", json!({})), @"
    UNKNOWN_EXECUTOR: tool `t` names executor `bash_runtim`, which does not exist (`t` → `bash_runtim`)
    --> .ai/tools/t/tool.yaml:6
    hint: did you mean `bash_runtime`?
    ");
    insta::assert_snapshot!(project("subprocess", &[]).refusal("t", json!({})), @"
    UNEXPECTED_EXECUTOR: Script executor must be a runtime, got: subprocess (`t` → `subprocess`)
    --> .ai/tools/t/tool.yaml:6
    hint: use `python_runtime`, `bash_runtime` or `node_runtime`; a tool of type `cli` needs no runtime
    ");
    let (a, b) = (runtime("a", "b", ""), runtime("b", "a", ""));
    let looped = project("a", &[(".ai/tools/a.yaml", &a), (".ai/tools/b.yaml", &b)]);
    insta::assert_snapshot!(looped.refusal("t", json!({})), @"
    EXECUTOR_CYCLE: executor chain loops: `t` → `a` → `b` → `a`
    --> .ai/tools/t/tool.yaml:6
    hint: let one of them name a primitive: `subprocess` or `http_client`
    ");
    let over = runtime("my_python", "python_runtime", "");
    let stacked = project("my_python", &[(".ai/tools/my_python.yaml", &over)]);
    insta::assert_snapshot!(stacked.refusal("t", json!({})), @"
    UNEXPECTED_EXECUTOR: Runtimes must use a primitive executor, got: python_runtime (`t` → `my_python` → `python_runtime` → `subprocess`)
    --> .ai/tools/t/tool.yaml:6
    hint: write `executor: subprocess` or `executor: http_client`
    ");
}

#[test]
fn settings_merge_along_the_chain_and_know_where_they_come_from() {
    let runtime = runtime(
        "mine",
        "subprocess",
        "  args: [-x, -y]\n  env: {A: runtime, B: runtime, GONE: runtime}\n  timeout: 10\n",
    );
    let tool = "tool_id: t\ntool_type: script\nversion: \"1.0.0\"\ndescription: T\nexecutor: mine\nconfig:\n  entrypoint: t.sh\n  env:\n    B: tool\n    GONE: null\n    C: tool\n";
    let project = Project::new(&[
        (".ai/tools/t/tool.yaml", tool),
        (".ai/tools/t/t.sh", "true\n"),
        (".ai/tools/mine.yaml", &runtime),
    ]);
    let invocation = project.resolve("t", json!({}));
    let environment = &process(&invocation).environment;
    assert_eq!(environment["A"].value, "runtime");
    assert_eq!(environment["B"].value, "tool");
    assert_eq!(environment["C"].value, "tool");
    assert!(!environment.contains_key("GONE"));
    assert_eq!(invocation.timeout, Duration::from_secs(10));
    let origins: Vec<(&str, &str)> = invocation
        .origins
        .iter()
        .filter(|(_, origin)| origin.contains(".yaml") || *origin == "built in")
        .map(|(name, origin)| (name.as_str(), origin.as_str()))
        .collect();
    assert_eq!(
        origins,
        [
            ("action.arguments[0]", "mine, .ai/tools/mine.yaml:8"),
            ("action.arguments[1]", "mine, .ai/tools/mine.yaml:8"),
            ("action.arguments[2]", "t, .ai/tools/t/tool.yaml:7"),
            ("action.environment.A", "mine, .ai/tools/mine.yaml:9"),
            ("action.environment.B", "t, .ai/tools/t/tool.yaml:9"),
            ("action.environment.C", "t, .ai/tools/t/tool.yaml:11"),
            ("action.program", "mine, .ai/tools/mine.yaml:7"),
            ("timeout", "mine, .ai/tools/mine.yaml:10"),
        ]
    );
}

#[test]
fn what_was_changed_after_it_was_stamped_is_not_run() {
    let stamp = format!(
        "# kiwi-mcp:validated:2026-01-28T12:00:00Z:{}\n",
        "0".repeat(64)
    );
    let project = Project::new(&[(".ai/tools/run.yaml", &(stamp + &cli("")))]);
    insta::with_settings!({filters => vec![("found [0-9a-f]{12}", "found [HASH]")]}, {
        insta::assert_snapshot!(project.refusal("run", json!({})), @"
        SIGNATURE_MISMATCH: Content hash mismatch: `run` does not match its stamp: stamped 000000000000…, found [HASH]…
        --> .ai/tools/run.yaml:1
        hint: see what changed since it was stamped; if you meant it, stamp it again with `piton sign`
        ");
    });
    let mine = format!(
        "# kiwi-mcp:validated:nonsense\n{}",
        runtime("mine", "subprocess", "")
    );
    let below = self::project("mine", &[(".ai/tools/mine.yaml", &mine)]);
    insta::assert_snapshot!(below.refusal("t", json!({})), @"
    SIGNATURE_MISMATCH: Content hash mismatch: `mine` does not match its stamp: a stamp reads kiwi-mcp:validated:<UTC time>Z:<sha256>
    --> .ai/tools/mine.yaml:1
    hint: see what changed since it was stamped; if you meant it, stamp it again with `piton sign`
    ");
}

#[test]
fn what_only_runs_others_or_says_too_little_is_refused() {
    insta::assert_snapshot!(project("docker_runtime", &[]).refusal("t", json!({})), @"
    MISSING_REQUIRED_FIELD: `t` does not say what to run: it has no `config.image`
    --> .ai/tools/t/tool.yaml:5
    hint: add `config: {image: alpine:3}`, or `build_context: .` with a Dockerfile
    ");
    insta::assert_snapshot!(Project::new(&[]).refusal("bash_runtime", json!({})), @"
    NOT_RUNNABLE: `bash_runtime` is a runtime: it runs tools and is none itself
    hint: run a tool that names it: `executor: bash_runtime`
    ");
    insta::assert_snapshot!(Project::new(&[]).refusal("subprocess", json!({})), @"
    NOT_RUNNABLE: `subprocess` is a primitive: it runs tools and is none itself
    hint: run a tool that names it: `executor: subprocess`
    ");
}

#[test]
fn requirements_are_those_of_the_whole_chain() {
    let mine =
        runtime("mine", "subprocess", "") + "requires: {commands: [sh, jq], environment: [A]}\n";
    let tool = format!("{SCRIPT}executor: mine\nrequires: {{commands: [jq, git]}}\n");
    let project = Project::new(&[
        (".ai/tools/t/tool.yaml", &tool),
        (".ai/tools/t/t.sh", "true\n"),
        (".ai/tools/mine.yaml", &mine),
    ]);
    let invocation = project.resolve("t", json!({}));
    assert_eq!(invocation.requires.commands, ["jq", "git", "sh"]);
    assert_eq!(invocation.requires.environment, ["A"]);
    assert_eq!(invocation.variables, ["A"]);
}
