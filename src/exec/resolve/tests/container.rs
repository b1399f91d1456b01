//! Containers: what settings resolve to, and what is refused.

use std::os::unix::fs::symlink;

use super::*;
use crate::exec::invocation::{Action, Container, ContainerImage, ContainerNetwork, User, Volume};

fn tool(config: &str) -> String {
    let config = config.trim().replace('\n', "\n  ");
    format!(
        "tool_id: t\ntool_type: docker\nversion: \"1.0.0\"\ndescription: T\nexecutor: docker_runtime\nconfig:\n  {config}\n\
         parameters:\n  - {{name: who, type: string}}\n"
    )
}

fn project(config: &str) -> Project {
    Project::new(&[
        (".ai/tools/t/tool.yaml", &tool(config)),
        (".ai/tools/t/image/Dockerfile", "FROM scratch\n"),
        ("docs/a.txt", "a\n"),
        (".git/config", ""),
        (".git/hooks/pre-commit", ""),
        ("nested/.git/config", ""),
    ])
}

fn resolved(project: &Project) -> Container {
    match project.resolve("t", json!({"who": "a b"})).action {
        Action::Container(container) => *container,
        other => panic!("{other:?}"),
    }
}

fn values(texts: &[MaskedText]) -> Vec<&str> {
    texts.iter().map(|text| text.value.as_str()).collect()
}

#[test]
fn what_is_not_said_is_the_least() {
    let container = resolved(&project("image: alpine:3"));
    assert_eq!(
        container.image,
        ContainerImage::Named("alpine:3".to_owned())
    );
    assert_eq!(
        (container.network, container.user),
        (ContainerNetwork::None, User::Caller)
    );
    assert_eq!(
        (container.volumes, container.command, container.entrypoint),
        (vec![], vec![], None)
    );
    assert_eq!(container.limits, ResourceLimits::default());
    assert_eq!(
        container.engines,
        [
            "unix:///var/run/docker.sock",
            "unix:///run/podman/podman.sock"
        ]
    );
    assert_eq!(
        container.environment.keys().collect::<Vec<_>>(),
        ["PITON_PARAM_WHO"]
    );
    assert_eq!(container.input, br#"{"who":"a b"}"#);
    let invocation = project("image: alpine:3").resolve("t", json!({}));
    assert_eq!(
        (invocation.isolation, invocation.isolation_asked),
        (Isolation::Restricted, false)
    );
    assert_eq!(invocation.timeout, Duration::from_mins(5));
}

#[test]
fn a_parameter_is_one_word_in_a_list_and_in_a_text() {
    let container = resolved(&project(
        "image: a\nentrypoint: \"/bin/x 'one two'\"\ncommand: \"say {who} --to={who}\"",
    ));
    assert_eq!(
        values(&container.entrypoint.unwrap()),
        ["/bin/x", "one two"]
    );
    assert_eq!(values(&container.command), ["say", "a b", "--to=a b"]);
    let container = resolved(&project("image: a\ncommand: [say, \"{who}\", 3]"));
    assert_eq!(values(&container.command), ["say", "a b", "3"]);
}

#[test]
fn a_parameter_is_never_code() {
    for command in [
        "[sh, -c, \"echo {who}\"]",
        "sh -c 'echo {who}'",
        "[busybox, sh, -c, \"{who}\"]",
    ] {
        let refusal =
            project(&format!("image: a\ncommand: {command}")).refusal("t", json!({"who": "x"}));
        assert!(
            refusal.contains("would become a part of the code"),
            "{refusal}"
        );
    }
    let refusal = project("image: a\nentrypoint: [sh, -c]\ncommand: [\"{who}\"]")
        .refusal("t", json!({"who": "x"}));
    assert!(
        refusal.contains("would become a part of the code"),
        "{refusal}"
    );
}

#[test]
fn volumes_are_folders_of_the_project_as_they_lie_on_disk() {
    let project = project(
        "image: a\nvolumes:\n  - docs:/docs:ro\n  - {source: ./link, target: /more/, mode: rw}",
    );
    symlink("docs", project.root().join("link")).unwrap();
    let root = project.root().canonicalize().unwrap();
    let volume = |target: &str, read_only| Volume {
        source: root.join("docs"),
        target: target.to_owned(),
        read_only,
    };
    assert_eq!(
        resolved(&project).volumes,
        [volume("/docs", true), volume("/more", false)]
    );
}

#[test]
fn what_is_gits_is_guarded_where_it_could_be_written() {
    let project = project("image: a\nvolumes: [\".:/p\"]");
    let root = project.root().canonicalize().unwrap();
    let container = resolved(&project);
    let volume = |path: &str, target: &str, read_only| Volume {
        source: if path.is_empty() {
            root.clone()
        } else {
            root.join(path)
        },
        target: target.to_owned(),
        read_only,
    };
    let mut volumes = container.volumes.clone();
    volumes.sort_by(|a, b| a.target.cmp(&b.target));
    let expected = [
        volume("", "/p", false),
        volume(".ai", "/p/.ai", true),
        volume(".git", "/p/.git", true),
        volume("nested/.git", "/p/nested/.git", true),
    ];
    assert_eq!(volumes, expected);
    assert_eq!(container.environment["PITON_PROJECT"].value, "/p");
    // A git folder with another name is protected as well.
    fs::remove_dir_all(root.join(".git")).unwrap();
    fs::write(root.join(".git"), "gitdir: data\n").unwrap();
    fs::create_dir(root.join("data")).unwrap();
    assert!(
        resolved(&project)
            .volumes
            .contains(&volume("data", "/p/data", true))
    );
    let inside = super::container::project("image: a\nvolumes: [\"data:/d\"]");
    fs::remove_dir_all(inside.root().join(".git")).unwrap();
    fs::write(inside.root().join(".git"), "gitdir: data\n").unwrap();
    fs::create_dir(inside.root().join("data")).unwrap();
    assert!(
        inside
            .refusal("t", json!({}))
            .contains("which is git's own")
    );
}

#[test]
fn volumes_that_lead_elsewhere_are_refused() {
    let refusal = |volume: &str| {
        let project = project(&format!("image: a\nvolumes: [{volume}]"));
        symlink("/etc", project.root().join("out")).unwrap();
        symlink(".git", project.root().join("history")).unwrap();
        project.refusal("t", json!({"who": "../x"}))
    };
    for (volume, reason) in [
        ("\"/etc:/e\"", "`/etc`, which lies outside the project"),
        ("\"../x:/e\"", "`../x`, which lies outside the project"),
        ("\"docs/../../x:/e\"", "which lies outside the project"),
        ("\"{who}:/e\"", "`../x`, which lies outside the project"),
        ("\"out:/e\"", "`out`, a link that leads outside the project"),
        ("\"gone:/e\"", "`gone`, which does not exist"),
        ("\".git:/e:ro\"", "which is git's own"),
        ("\".git/hooks:/e\"", "which is git's own"),
        ("\"nested/.git:/e\"", "which is git's own"),
        ("\"history:/e\"", "which is git's own"),
        (
            "\"docs:e\"",
            "the target `e`, which is no place in a container",
        ),
        ("\"docs:/\"", "which is no place in a container"),
        ("\"docs:/proc/self\"", "which is no place in a container"),
        ("\"docs:/a/../b\"", "which is no place in a container"),
        ("\"docs:/a:z\"", "has the mode `z`"),
        ("docs", "`config.volumes[0]` is `docs`"),
        (
            "\"docs:/a\", \"nested:/a/\"",
            "has the target `/a`, as another volume has",
        ),
        ("{source: docs}", "needs a source and a target"),
        (
            "{source: docs, target: /a, propagation: shared}",
            "`config.volumes[0].propagation` is not known",
        ),
        (
            "{source: docs, target: /a, type: tmpfs}",
            "only `bind` is known",
        ),
    ] {
        let refusal = refusal(volume);
        assert!(
            refusal.starts_with("INVALID_CONFIG: ") && refusal.contains(reason),
            "{volume}: {refusal}"
        );
        assert!(
            refusal.contains("--> .ai/tools/t/tool.yaml:8"),
            "{volume}: {refusal}"
        );
    }
}

#[test]
fn what_would_give_more_of_the_machine_is_refused_by_name() {
    for (line, refused) in [
        (
            "privileged: true",
            "`config.privileged` is not given to containers",
        ),
        (
            "cap_add: [SYS_ADMIN]",
            "`config.cap_add` is not given to containers",
        ),
        ("devices: [/dev/kvm]", "`config.devices` is not given"),
        (
            "network: container:other",
            "`config.network` is `container:other`",
        ),
        ("network: hots", "did you mean `host`?"),
        (
            "cwd: docs",
            "name the folder inside the container in `working_dir`",
        ),
        (
            "working_dir: docs",
            "is `docs`, which is not a path from `/`",
        ),
        ("user: \"a b\"", "which is not a user name"),
        ("memory: lots", "must be an amount of memory"),
        ("limits: {memroy: 1}", "did you mean `memory`?"),
        ("build_context: ..", "leaves the tool's folder"),
        ("build_context: /etc", "leaves the tool's folder"),
        ("build_context: gone", "is not a folder"),
        ("build_context: .", "has no file `Dockerfile`"),
        (
            "working_dir: \"/${TOKEN}\"",
            "holds a variable of the environment",
        ),
        ("url: tcp://x", "an engine is reached by its socket"),
        (
            "url: unix:///tmp/x",
            "which engine is used is not for a project to say",
        ),
        ("command: \"echo 'x\"", "ends within quotes"),
    ] {
        let refusal = project(&format!("image: a\n{line}")).refusal("t", json!({}));
        assert!(refusal.contains(refused), "{line}: {refusal}");
    }
    for name in ["", "-x", "a b", "a\\nb", "{who}"] {
        let refusal = project(&format!("image: \"{name}\"")).refusal("t", json!({"who": "a;b"}));
        assert!(
            refusal.contains("which names no image"),
            "{name}: {refusal}"
        );
    }
    insta::assert_snapshot!(project("network: none").refusal("t", json!({})), @"
    MISSING_REQUIRED_FIELD: `t` does not say what to run: it has no `config.image`
    --> .ai/tools/t/tool.yaml:7
    hint: add `config: {image: alpine:3}`, or `build_context: .` with a Dockerfile
    ");
}

#[test]
fn limits_and_users_are_taken_as_engines_know_them() {
    let container = resolved(&project(
        "image: a\nmemory: 64m\nuser: \"1000:1000\"\nlimits: {processes: 5}",
    ));
    assert_eq!(
        container.limits,
        ResourceLimits {
            memory: Some(64 << 20),
            processes: Some(5),
            ..ResourceLimits::default()
        }
    );
    assert_eq!(container.user, User::Named("1000:1000".to_owned()));
    assert_eq!(
        resolved(&project("image: a\nuser: 0")).user,
        User::Named("0".to_owned())
    );
    assert_eq!(
        resolved(&project("image: a\nuser: image")).user,
        User::OfImage
    );
    for (text, bytes) in [
        ("1024", 1024),
        ("1k", 1024),
        ("2Mb", 2 << 20),
        ("1GiB", 1 << 30),
    ] {
        assert_eq!(
            resolved(&project(&format!("image: a\nmemory: \"{text}\"")))
                .limits
                .memory,
            Some(bytes),
            "{text}"
        );
    }
}

#[test]
fn what_is_built_is_known_by_everything_in_it() {
    let first = project("build_context: image\nbuild_args: {A: 1, B: \"{who}\"}");
    let hash = |project: &Project| match resolved(project).image {
        ContainerImage::Built(built) => {
            assert!(built.context.ends_with(".ai/tools/t/image") && built.is_of_tool);
            assert_eq!(built.args.values().collect::<Vec<_>>(), ["1", "a b"]);
            built.sha256
        }
        ContainerImage::Named(name) => panic!("{name}"),
    };
    let before = hash(&first);
    assert_eq!(before, hash(&first));
    fs::write(first.root().join(".ai/tools/t/image/more"), "").unwrap();
    assert_ne!(before, hash(&first));
}

#[test]
fn the_callers_variables_stay_outside_but_for_those_that_are_asked_for() {
    let text =
        tool("image: a\nenv: {A: \"${TOKEN}\"}") + "requires: {environment: [TOKEN, LANG]}\n";
    let project = Project::new(&[(".ai/tools/t/tool.yaml", &text)]);
    let container = resolved(&project);
    let shown: Vec<(&str, &str)> = container
        .environment
        .iter()
        .map(|(name, value)| (name.as_str(), value.shown()))
        .collect();
    assert_eq!(
        shown,
        [
            ("A", "***"),
            ("LANG", "C.UTF-8"),
            ("PITON_PARAM_WHO", "a b"),
            ("TOKEN", "***")
        ]
    );
    assert_eq!(project.resolve("t", json!({})).variables, ["TOKEN"]);
}
