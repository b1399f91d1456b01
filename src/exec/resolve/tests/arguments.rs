//! Arguments of a command line, folders, limits and timeouts.

use super::*;
use crate::item::params::ParameterText;
use crate::problem::Code;

#[test]
fn parameters_that_are_placed_are_not_passed_twice() {
    let project = cli_project("  args: [\"{name}\", --level, \"{level}\"]\n");
    let invocation = project.resolve("run", json!({"name": "a b", "level": 3, "other": "x"}));
    assert_eq!(
        arguments(&invocation),
        ["a b", "--level", "3", "--other", "x"]
    );
    assert_eq!(invocation.origins["action.arguments[0]"], "parameter name");
    assert_eq!(
        invocation.origins["action.arguments[1]"],
        "run, .ai/tools/run.yaml:8"
    );
    assert_eq!(invocation.origins["action.arguments[3]"], "parameter other");
}

#[test]
fn a_value_that_looks_like_an_option_is_refused_or_tied_to_its_name() {
    let upload = json!({"url": "--upload-pack=x"});
    insta::assert_snapshot!(cli_project("  args: [clone, \"{url}\"]\n").refusal("run", upload.clone()), @"
    INVALID_PARAMETER: parameter `url` begins with `-` and would be taken for an option in `config.args[1]`
    --> .ai/tools/run.yaml:8
    hint: in the tool, write `--` before it, or `--name={url}` as one argument
    ");
    insta::assert_snapshot!(cli_project("  args: [\"{url}/x\"]\n").refusal("run", upload.clone()), @"
    INVALID_PARAMETER: parameter `url` begins with `-` and would be taken for an option in `config.args[0]`
    --> .ai/tools/run.yaml:8
    hint: in the tool, write `--` before it, or `--name={url}` as one argument
    ");
    for (args, words) in [
        (
            "[clone, --, \"{url}\"]",
            vec!["clone", "--", "--upload-pack=x"],
        ),
        (
            "[clone, \"--url={url}\"]",
            vec!["clone", "--url=--upload-pack=x"],
        ),
        (
            "[clone, --url, \"{url}\"]",
            vec!["clone", "--url=--upload-pack=x"],
        ),
        ("[clone]", vec!["clone", "--url=--upload-pack=x"]),
    ] {
        let project = cli_project(&format!("  args: {args}\n"));
        assert_eq!(
            arguments(&project.resolve("run", upload.clone())),
            words,
            "{args}"
        );
    }
    let after_flag = cli_project("  args: [clone, -q, \"{url}\"]\n")
        .try_lower("run", &call(upload))
        .unwrap_err();
    assert!(
        matches!(after_flag, ResolveError::Dash { .. }),
        "{after_flag}"
    );
    let project = cli_project("  args: [\"{n}\"]\n");
    assert_eq!(arguments(&project.resolve("run", json!({"n": -5}))), ["-5"]);
}

#[test]
fn a_text_is_never_a_part_of_code() {
    for args in [
        "[bash, -euo, pipefail, -c, 'echo {x}']",
        "[find, ., -exec, sh, -c, \"echo '{x}'\", ;]",
        "[python3.12, -Ic, 'print(\"{x}\")']",
        "[node, '--eval=f(\"{x}\")']",
        "[/usr/bin/perl, -ne, 'print \"{x}\"']",
        "[perl, -e, 'print 1;', -e, 'print \"{x}\"']",
        "[ruby, -e, 'puts \"{x}\"']",
        "[env, -S, 'echo {x}']",
        "[env, -i, '-Secho {x}']",
        "[env, '--split-string=echo {x}']",
        "[/usr/bin/env, A=b, bash, -c, 'echo {x}']",
        "[flock, /tmp/lock, -c, 'echo {x}']",
        "[flock, -w, '5', /tmp/lock, --command, 'echo {x}']",
        "[flock, /tmp/lock, bash, -c, 'echo {x}']",
        "[git, -c, 'alias.x=!echo {x}', x]",
        "[git, -C, folder, -c, 'core.sshCommand=ssh {x}', fetch]",
        "[git, -c, 'filter.lfs.clean=clean {x}', add, .]",
        "[git, -c, 'credential.https://a.io.helper=!{x}', fetch]",
        "[git, clone, --config, 'core.fsmonitor={x}', url]",
        "[git, clone, '--upload-pack=up {x}', url]",
        "[git, rebase, --exec, 'make {x}', main]",
        "[git, rebase, -x, 'make {x}', main]",
        "[git, submodule, foreach, 'echo {x}']",
        "[git, bisect, run, sh, -c, '{x}']",
        "[awk, '{ print \"{x}\" }', file]",
        "[gawk, '-F,', -v, 'a=b', 'BEGIN {{ print \"{x}\" }}']",
        "[gawk, --source, 'BEGIN {{ print \"{x}\" }}']",
        "[busybox, awk, 'BEGIN {{ print \"{x}\" }}']",
        "[sed, -n, 's/a/{x}/e', file]",
        "[sed, -i, -e, 's/a/b/', -e, 's/c/{x}/', file]",
        "[sed, '-es/a/{x}/', file]",
        "[sed, '--expression=s/a/{x}/', file]",
        "[xargs, -0, sh, -c, 'echo {x}']",
        "[find, ., -exec, sh, -c, 'echo a', ;, -exec, sh, -c, 'echo {x}', ;]",
        "[ssh, host, 'echo {x}']",
        "[ssh, -p, '22', host, echo, '{x}']",
        "[ssh, -o, 'ProxyCommand=nc {x} 22', host]",
        "[ssh, '-oProxyCommand=nc {x} 22', host]",
        "[su, user, -c, 'echo {x}']",
        "[sudo, -u, user, bash, -c, 'echo {x}']",
        "[script, -q, -c, 'echo {x}', log]",
        "[watch, -n, '2', 'echo {x}']",
        "[parallel, 'echo {x}', ':::', a]",
        "[rsync, -e, 'ssh {x}', a, b]",
        "[php, -r, 'echo \"{x}\";']",
        "[timeout, '5', bash, -c, 'echo {x}']",
        "[tar, -xf, a.tar, '--to-command=cat > {x}']",
        "[tar, -I, 'zstd {x}', -cf, a.tar, .]",
        "[tar, --checkpoint-action, 'exec={x}', -cf, a.tar, .]",
        "[make, '--eval=$(shell {x})']",
        "[scp, -o, 'ProxyCommand=nc {x} 22', a, b]",
        "[npx, -c, 'echo {x}']",
        "[psql, -c, 'select {x}']",
        "[vim, --cmd, 'let a = {x}']",
        "[split, '--filter=gzip > {x}', file]",
        "[sort, '--compress-program={x}', file]",
    ] {
        let err = cli_project(&format!("  args: {args}\n"))
            .try_lower("run", &call(json!({"x": "a"})))
            .unwrap_err();
        assert!(
            err.to_string().contains("would become a part of the code"),
            "{args}: {err}"
        );
    }
    for args in [
        "[bash, script.sh, -c, '{x}']",
        "[git, -c, 'user.name={x}']",
        "[python3, -m, module, -c, '{x}']",
        "[bash, -c, 'echo \"$1\"', bash, '{x}']",
        "[perl, -e, 'print shift', '{x}']",
        "[env, 'A={x}']",
        "[env, A=b, printf, '{x}']",
        "[flock, /tmp/lock, echo, '{x}']",
        "[git, -c, 'user.name={x}', commit, -m, '{x}']",
        "[git, restore, '--source={x}']",
        "[git, clean, -fdx, '{x}']",
        "[git, log, '--grep={x}']",
        "[git, clone, -c, 'http.userAgent={x}', url, '{x}']",
        "[git, submodule, add, '{x}']",
        "[awk, -v, 'a={x}']",
        "[awk, '{ print $1 }', '{x}']",
        "[awk, -f, script.awk, '{x}']",
        "[sed, -n, 's/a/b/p', '{x}']",
        "[sed, -e, 's/a/b/', '{x}']",
        "[sed, -f, script.sed, '{x}']",
        "[sed, '-es/a/b/', '{x}']",
        "[xargs, -I, '%', sh, -c, 'echo \"$1\"', sh, '{x}']",
        "[find, ., -name, '{x}']",
        "[find, ., -exec, sh, -c, 'echo \"$1\"', sh, '{x}']",
        "[ssh, -p, '22', '{x}']",
        "[ssh, -o, 'User={x}']",
        "[parallel, echo, ':::', '{x}']",
        "[rsync, -a, '{x}']",
        "[deno, run, script.ts, '{x}']",
        "[grep, -e, '{x}']",
        "[sort, -c, '{x}']",
        "[tar, -C, folder, -czf, '{x}', '{x}']",
        "[make, -C, folder, '{x}']",
        "[npm, install, --prefix, '{x}']",
        "[psql, -f, '{x}']",
        "[vim, '{x}']",
    ] {
        let invocation =
            cli_project(&format!("  args: {args}\n")).resolve("run", json!({"x": "a; b"}));
        assert!(
            arguments(&invocation)
                .last()
                .is_some_and(|word| word.ends_with("a; b")),
            "{args}"
        );
    }
    // A number cannot contain code.
    let invocation =
        cli_project("  args: [bash, -c, 'sleep {n}']\n").resolve("run", json!({"n": 3}));
    assert_eq!(arguments(&invocation), ["bash", "-c", "sleep 3"]);
}

#[test]
fn names_that_are_no_options_are_refused() {
    let project = cli_project("");
    for name in ["", "a=b", "-x", "a b", "a\nb"] {
        let err = project
            .try_lower("run", &call(json!({name: "x"})))
            .unwrap_err();
        assert!(
            matches!(err, ResolveError::OptionName(_)),
            "{name:?}: {err}"
        );
    }
}

#[test]
fn a_command_is_one_program() {
    let project = |command: &str| {
        Project::new(&[(
            ".ai/tools/run.yaml",
            &cli("").replace("command: prog", &format!("command: {command}")),
        )])
    };
    insta::assert_snapshot!(project("git status").refusal("run", json!({})), @"
    INVALID_CONFIG: `config.command` is `git status`, which is not one program
    --> .ai/tools/run.yaml:7
    hint: name one program there, and its arguments in `config.args`
    ");
    insta::assert_snapshot!(project("[git, status]").refusal("run", json!({})), @"
    INVALID_CONFIG: `config.command` is a list; it must be a text
    --> .ai/tools/run.yaml:7
    hint: name one program there, and its arguments in `config.args`
    ");
    let local = project("./bin/x");
    let invocation = local.resolve("run", json!({}));
    assert_eq!(
        process(&invocation).program.value,
        local.root().join("./bin/x").to_str().unwrap()
    );
}

#[test]
fn tools_run_in_the_project_or_in_a_folder_of_it() {
    let project = cli_project("  cwd: \"{dir}\"\n");
    fs::create_dir_all(project.root().join("sub/deep")).unwrap();
    std::os::unix::fs::symlink("/", project.root().join("out")).unwrap();
    let invocation = project.resolve("run", json!({"dir": "./sub/deep"}));
    assert_eq!(process(&invocation).folder, project.root().join("sub/deep"));
    assert_eq!(invocation.origins["action.folder"], "parameter dir");
    for bad in ["..", "sub/../..", "/etc", "out", "out/etc", "none", "a\0b"] {
        let err = project
            .try_lower("run", &call(json!({"dir": bad})))
            .unwrap_err();
        assert!(
            matches!(&err, ResolveError::Setting { field, .. } if field == "config.cwd"),
            "{bad:?}: {err}"
        );
    }
    insta::assert_snapshot!(project.refusal("run", json!({"dir": "../x"})), @"
    INVALID_CONFIG: `config.cwd` is `../x`, which leaves the project
    --> .ai/tools/run.yaml:8
    hint: name a folder of the project, relative to its top
    ");
}

#[test]
fn a_timeout_parameter_may_only_lower() {
    let timeout = |config: &str, parameters: Value| {
        let invocation = cli_project(config).resolve("run", parameters);
        assert!(arguments(&invocation).is_empty());
        (
            invocation.timeout.as_secs_f64(),
            invocation.origins["timeout"].clone(),
        )
    };
    let said = "run, .ai/tools/run.yaml:8".to_owned();
    assert_eq!(timeout("", json!({})), (300.0, "default".to_owned()));
    assert_eq!(timeout("  timeout: 2.5\n", json!({})), (2.5, said.clone()));
    assert_eq!(
        timeout("  timeout: 60\n", json!({"timeout": 5})),
        (5.0, "parameter timeout".to_owned())
    );
    assert_eq!(
        timeout("  timeout: 60\n", json!({"timeout": 500})),
        (60.0, said)
    );
    assert_eq!(
        timeout("  timeout: \"${LIMIT:-7}\"\n", json!({})),
        (7.0, "environment variable LIMIT".to_owned())
    );
    for bad in [json!(0), json!(-1), json!("5"), json!([])] {
        let err = cli_project("")
            .try_lower("run", &call(json!({"timeout": bad})))
            .unwrap_err();
        assert_eq!(err.code(), Code::InvalidParameter);
    }
    for (bad, code) in [
        ("0", Code::InvalidItem),
        ("-1", Code::InvalidItem),
        ("1e300", Code::InvalidConfig),
        ("\"${EMPTY}\"", Code::InvalidConfig),
        ("[1]", Code::InvalidItem),
    ] {
        let err = cli_project(&format!("  timeout: {bad}\n"))
            .try_lower("run", &call(json!({})))
            .unwrap_err();
        assert_eq!(err.code(), code, "{bad}");
    }
}

#[test]
fn limits_come_from_the_config() {
    let project = cli_project("  limits: {memory: 1000, processes: 3}\n");
    assert_eq!(
        process(&project.resolve("run", json!({}))).limits,
        ResourceLimits {
            memory: Some(1000),
            processes: Some(3),
            file_size: Some(8 << 30),
            cpu_seconds: None,
            open_files: None
        }
    );
    insta::assert_snapshot!(cli_project("  limits: {memroy: 1}\n").refusal("run", json!({})), @"
    INVALID_CONFIG: `config.limits.memroy` is not a limit
    --> .ai/tools/run.yaml:8
    hint: did you mean `memory`?
    ");
    insta::assert_snapshot!(cli_project("  limits: {memory: lots}\n").refusal("run", json!({})), @"
    INVALID_CONFIG: `config.limits.memory` must be a whole number above 0
    --> .ai/tools/run.yaml:8
    hint: write a number of bytes, seconds, files or processes
    ");
}

#[test]
fn parameters_are_checked_all_at_once() {
    let project = Project::new(&[(
        ".ai/tools/run.yaml",
        &(cli("")
            + "parameters:\n  - {name: count, type: integer, required: true}\n  - {name: title, type: string, required: true}\n"),
    )]);
    insta::assert_snapshot!(project.refusal("run", json!({"count": "x", "titel": "y"})), @r#"
    INVALID_PARAMETER: tool `run` cannot be called like this: unknown parameter `titel`; missing parameter `title`; parameter `count` is not of type "integer"
    hint: did you mean `title`?
    "#);
}

#[test]
fn words_of_a_command_line_get_their_types() {
    let project = Project::new(&[(
        ".ai/tools/run.yaml",
        &(cli("")
            + "parameters:\n  - {name: count, type: integer}\n  - {name: title, type: string}\n  - {name: all, type: boolean}\n  - {name: tags, type: array}\n"),
    )]);
    let store = ItemStore::open(
        Roots {
            project: Some(project.root().into()),
            user: None,
        },
        Strength::Lenient,
    );
    let manifest = &store
        .find(ItemKind::Tool, "run")
        .unwrap()
        .as_tool()
        .unwrap()
        .manifest;
    let read = |words: &[&str]| parameters::convert(manifest, &ParameterText::of_arguments(words));
    assert_eq!(
        Value::Object(
            read(&["count=3", "title=5=x", "all=true", "tags=[1]", "timeout=4"]).unwrap()
        ),
        json!({"count": 3, "title": "5=x", "all": true, "tags": [1], "timeout": 4})
    );
    let problems =
        read(&["count=x", "titel=y", "title", "=a", "all=true", "all=false"]).unwrap_err();
    let told: Vec<String> = problems
        .into_iter()
        .map(|problem| format!("{} {:?}", problem.message, problem.suggestion))
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    parameter `count`: `x` is not an integer None
    unknown parameter `titel` Some("did you mean `title`?")
    `title` is not `name=value` None
    `=a` is not `name=value` None
    parameter `all` is given twice None
    "#);
}
