//! Images that are built from a folder of the tool.

use std::fs;

use serde_json::json;

use super::{Engine, assert_nothing_left, container, run};

/// The number of built images.
fn builds(engine: &Engine) -> usize {
    engine
        .podman(&["images", "--format", "{{.Repository}}:{{.Tag}}"])
        .lines()
        .filter(|it| it.contains("piton-build:"))
        .count()
}

#[test]
fn an_image_is_built_once_and_again_when_anything_in_its_folder_changes() {
    let engine = Engine::start();
    let config = "build_context: image\nbuild_args: {WHO: Ada}\ncommand: [sh, -c, 'cat /data/text; echo \"$WHO\"; ls -l /data/run | cut -c1-10']";
    let project = container(engine.project(), "made", config, "")
        .file(
            ".ai/tools/made/image/Dockerfile",
            "FROM alpine:3\nARG WHO\nENV WHO=$WHO\nCOPY . /data\n",
        )
        .file(".ai/tools/made/image/text", "one\n")
        .file(".ai/tools/made/image/run", "true\n")
        .committed();
    let expect = |text: &str, count: usize| {
        let (ran, result) = run(&project, &["made"]);
        assert_eq!(result["result"]["stdout"], text, "{ran}");
        assert_eq!(builds(&engine), count, "{ran}");
        ran
    };
    let first = expect("one\nAda\n-rw-r--r--\n", 1);
    assert!(
        first.stderr().contains("building an image from "),
        "{first}"
    );
    let second = expect("one\nAda\n-rw-r--r--\n", 1);
    assert!(!second.stderr().contains("building"), "{second}");
    let folder = project.root().join(".ai/tools/made");
    fs::write(folder.join("image/text"), "two\n").expect("written");
    expect("two\nAda\n-rw-r--r--\n", 2);
    fs::set_permissions(
        folder.join("image/run"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .expect("a mode");
    expect("two\nAda\n-rwxr-xr-x\n", 3);
    // The earlier image still exists.
    fs::write(folder.join("image/text"), "one\n").expect("written");
    fs::set_permissions(
        folder.join("image/run"),
        std::os::unix::fs::PermissionsExt::from_mode(0o644),
    )
    .expect("a mode");
    expect("one\nAda\n-rw-r--r--\n", 3);
    assert_nothing_left(&engine, &project);
}

#[test]
fn a_build_that_fails_shows_what_the_engine_said_last() {
    let engine = Engine::start();
    let project = container(engine.project(), "made", "build_context: .", "")
        .file(
            ".ai/tools/made/Dockerfile",
            "FROM alpine:3\nCOPY missing /data\n",
        )
        .committed();
    let (ran, result) = run(&project, &["made"]);
    assert_eq!(
        (ran.code(), &result["code"]),
        (Some(1), &json!("BUILD_FAILED")),
        "{ran}"
    );
    let message = result["message"].as_str().expect("text");
    assert!(
        message.starts_with("Podman cannot build the image from `"),
        "{ran}"
    );
    assert!(
        message.contains("missing") && message.contains(": COPY missing /data"),
        "{ran}"
    );
    project.assert_clean();
}

#[test]
fn a_stamp_covers_what_an_image_is_built_from() {
    let engine = Engine::start();
    let project = container(
        engine.project(),
        "made",
        "build_context: .\ncommand: [cat, /data/text]",
        "",
    )
    .file(".ai/tools/made/Dockerfile", "FROM alpine:3\nCOPY . /data\n")
    .file(".ai/tools/made/text", "one\n")
    .variable("PITON_SIGNATURE_REQUIRE", "integrity");
    assert_eq!(run(&project, &["made"]).0.code(), Some(3));
    assert_eq!(project.piton(["sign", "made"]).code(), Some(0));
    let (ran, result) = run(&project, &["made"]);
    assert_eq!(result["result"]["stdout"], "one\n", "{ran}");
    fs::write(project.root().join(".ai/tools/made/text"), "two\n").expect("written");
    let (ran, result) = run(&project, &["made"]);
    assert_eq!(
        (ran.code(), &result["code"]),
        (Some(3), &json!("SIGNATURE_MISMATCH")),
        "{ran}"
    );
    // A single file is stamped alone; the stamp does not cover the files beside it.
    let manifest = "tool_id: beside\ntool_type: docker\nversion: \"1.0.0\"\ndescription: B\nexecutor: docker_runtime\n\
                    config: {build_context: image}\n";
    let project = project
        .file(".ai/tools/beside.yaml", manifest)
        .file(".ai/tools/image/Dockerfile", "FROM alpine:3\n");
    assert_eq!(project.piton(["sign", "beside"]).code(), Some(0));
    let (ran, _) = run(&project, &["beside"]);
    assert_eq!(ran.code(), Some(3), "{ran}");
    assert!(
        ran.stdout().contains(".ai/tools/image/Dockerfile") || ran.stderr().contains("Dockerfile"),
        "{ran}"
    );
}
