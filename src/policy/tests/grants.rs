//! What each form of grant allows.

use super::*;
use Enforcement::{Broker, DeclaredOnly};

const GREET: &str = "<execute resource=\"tool\" id=\"greet\"/>";

fn greet() -> Invocation {
    script("greet", "bash", "bash_runtime")
}

fn lines(verdict: &Verdict) -> Vec<&str> {
    verdict
        .denials
        .iter()
        .filter_map(|it| it.allow_with.as_deref())
        .collect()
}

#[test]
fn nothing_is_allowed_by_default() {
    let verdict = judge_by("", &greet());
    assert_eq!(
        verdict.denials,
        [Denial {
            what: "run the tool `greet`".to_owned(),
            directive: "d".to_owned(),
            allow_with: Some(GREET.to_owned()),
            denied_by: None,
        }]
    );
    assert_eq!(verdict.permissions, []);
}

#[test]
fn a_denial_reads_well() {
    let verdict = judge_by("", &greet());
    let denial = verdict.denials.first().expect("a denial");
    assert_eq!(
        denial.to_string(),
        "directive `d` does not allow: run the tool `greet`"
    );
    assert_eq!(
        denial.hint(),
        "add <execute resource=\"tool\" id=\"greet\"/> to the <permissions> of `d`"
    );
    let verdict = judge_by(&format!("{GREET}<deny>{GREET}</deny>"), &greet());
    let denial = verdict.denials.first().expect("a denial");
    assert_eq!(
        denial.hint(),
        "<deny><execute resource=\"tool\" id=\"greet\"/></deny> in `d` forbids it"
    );
}

#[test]
fn denials_are_reported_together_by_directive() {
    let mut call = greet();
    call.requires.commands = vec!["jq".to_owned()];
    let (outer, inner) = (grants(GREET), grants("<deny>*</deny>"));
    let callers = vec![
        PolicyCaller {
            name: "outer",
            grants: &outer,
        },
        PolicyCaller {
            name: "inner",
            grants: &inner,
        },
    ];
    let denials = judge(&Authority::Directives(callers), &call).denials;
    assert_eq!(
        message(&denials),
        "directive `inner` does not allow: run the tool `greet`, run the tool `bash_runtime`, run the tool `subprocess`, \
         use the command `jq`; directive `outer` does not allow: use the command `jq`"
    );
    assert_eq!(
        way_out(&denials),
        "<deny><allow>*</allow></deny> in `inner` forbids it; add <shell commands=\"jq\"/> to the <permissions> of `outer`"
    );
}

#[test]
fn a_call_without_any_directive_is_denied() {
    assert!(!judge(&Authority::Directives(vec![]), &greet()).is_allowed());
}

#[test]
fn a_person_may_do_everything_and_it_is_on_record() {
    let mut call = greet();
    call.requires.commands = vec!["jq".to_owned()];
    call.writes = Some(vec!["docs/**".to_owned()]);
    let permission = |need: &str, enforcement| Permission {
        need: need.to_owned(),
        granted_by: "the person at the terminal".to_owned(),
        enforcement,
    };
    let verdict = judge(&Authority::Person, &call);
    assert!(verdict.is_allowed());
    assert_eq!(
        verdict.permissions,
        [
            permission(GREET, Enforcement::Broker),
            permission("<shell commands=\"jq\"/>", Enforcement::DeclaredOnly),
            permission(
                "<write resource=\"filesystem\" path=\"docs/**\"/>",
                Enforcement::AfterTheFact
            ),
        ]
    );
}

#[test]
fn a_tool_is_granted_by_id_or_type_and_by_both_only_if_both_match() {
    for (permission, allowed) in [
        (GREET, true),
        ("<execute resource=\"tool\" id=\"*\"/>", true),
        ("<execute resource=\"tool\" id=\"gr*\"/>", true),
        ("<execute resource=\"tool\" id=\"{greet,part}\"/>", true),
        ("<execute resource=\"tool\" id=\"gree\"/>", false),
        ("<execute resource=\"tool\" id=\"Greet\"/>", false),
        ("<execute resource=\"tool\" tool_id=\"greet\"/>", true),
        ("<execute tool_type=\"bash\"/>", true),
        ("<execute resource=\"tool\" tool_type=\"script\"/>", true),
        ("<execute resource=\"tool\" tool_type=\"shell\"/>", true),
        ("<execute resource=\"tool\" tool_type=\"python\"/>", false),
        ("<execute resource=\"tool\" tool_type=\"*\"/>", true),
        (
            "<execute resource=\"tool\" id=\"greet\" tool_type=\"bash\"/>",
            true,
        ),
        (
            "<execute resource=\"tool\" id=\"greet\" tool_type=\"python\"/>",
            false,
        ),
        (
            "<execute resource=\"tool\" id=\"part\" tool_type=\"bash\"/>",
            false,
        ),
        ("<execute resource=\"tool\" id=\"bash_runtime\"/>", false),
        ("<execute resource=\"shell\" commands=\"greet\"/>", false),
        ("<execute resource=\"directive\" id=\"greet\"/>", false),
        ("<allow id=\"greet\"/>", true),
    ] {
        assert_eq!(allows(permission, &greet()), allowed, "{permission}");
    }
}

#[test]
fn a_star_is_every_tool_also_those_in_categories() {
    let call = script("text/format/greet", "bash", "bash_runtime");
    assert!(allows("<execute resource=\"tool\" id=\"*\"/>", &call));
    assert!(allows("<execute resource=\"tool\" id=\"text/**\"/>", &call));
    assert!(
        !allows(GREET, &call),
        "a name alone is not the tool of some category"
    );
}

#[test]
fn a_type_is_what_really_runs_and_not_what_a_script_calls_itself() {
    let disguised = script("greet", "python", "bash_runtime");
    assert!(!allows(
        "<execute resource=\"tool\" tool_type=\"python\"/>",
        &disguised
    ));
    assert!(allows(
        "<execute resource=\"tool\" tool_type=\"bash\"/>",
        &disguised
    ));
    assert!(allows(
        "<execute resource=\"tool\" tool_type=\"node\"/>",
        &script("a", "javascript", "node_runtime")
    ));
    assert!(allows(
        "<execute resource=\"tool\" tool_type=\"python\"/>",
        &script("a", "script", "python_runtime")
    ));
    // A deny matches both types.
    for denied in ["python", "bash"] {
        let permissions =
            format!("{GREET}<deny><execute resource=\"tool\" tool_type=\"{denied}\"/></deny>");
        assert!(!allows(&permissions, &disguised), "{denied}");
    }
}

#[test]
fn the_runtime_that_a_tool_names_comes_with_it_and_further_links_need_their_own_grant() {
    for layer in [Layer::Project, Layer::User] {
        let chain = |more: &[&str]| {
            let runtimes = more
                .iter()
                .map(|id| link(id, "runtime", ToolKind::Runtime, layer));
            let tool = link("greet", "script", ToolKind::Script, Layer::Project);
            let primitive = link(
                "subprocess",
                "primitive",
                ToolKind::Primitive,
                Layer::Builtin,
            );
            invocation(
                std::iter::once(tool)
                    .chain(runtimes)
                    .chain([primitive])
                    .collect(),
            )
        };
        let named = chain(&["ruby_runtime"]);
        assert!(allows(GREET, &named));
        assert!(!allows(&format!("{GREET}<deny id=\"ruby_*\"/>"), &named));
        let further = chain(&["ruby_runtime", "base_runtime"]);
        assert_eq!(
            lines(&judge_by(GREET, &further)),
            ["<execute resource=\"tool\" id=\"base_runtime\"/>"]
        );
        assert!(allows(
            &format!("{GREET}<execute resource=\"tool\" tool_type=\"runtime\"/>"),
            &further
        ));
    }
}

#[test]
fn a_grant_names_a_tool_by_its_id_its_category_or_both_with_dots() {
    let mut call = script("write", "python", "python_runtime");
    call.chain[0].categories = vec!["rye/file-system".to_owned(), "vendor/files".to_owned()];
    for (grant, allowed) in [
        ("write", true),
        ("wr*", true),
        ("*", true),
        ("rye/file-system/write", true),
        ("rye.file-system.write", true),
        ("rye.file-system.*", true),
        ("rye.*", true),
        ("rye/**", true),
        ("vendor/files/write", true),
        ("vendor.files.*", true),
        // Without a separator it is about the id only.
        ("rye*", false),
        ("{rye/file-system,r}*", false),
        ("rye.shell.*", false),
        ("file-system/write", false),
        ("rye.file-system", false),
    ] {
        for permission in [
            format!("<execute resource=\"tool\" id=\"{grant}\"/>"),
            format!("<execute><tool>{grant}</tool></execute>"),
        ] {
            assert_eq!(allows(&permission, &call), allowed, "{permission}");
        }
    }
    for deny in [
        "write",
        "rye/file-system/write",
        "rye.file-system.*",
        "rye*",
        "vendor.*",
    ] {
        let permissions = format!("<execute resource=\"tool\" id=\"*\"/><deny id=\"{deny}\"/>");
        assert!(!allows(&permissions, &call), "{deny}");
    }
    let mut repeating = script("rye/bash/bash", "python", "python_runtime");
    repeating.chain[0].categories = vec!["rye/bash".to_owned()];
    for grant in ["bash", "rye/bash/bash", "rye.bash.*"] {
        assert!(
            allows(
                &format!("<execute><tool>{grant}</tool></execute>"),
                &repeating
            ),
            "{grant}"
        );
    }
}

#[test]
fn a_project_runtime_in_the_place_of_a_built_in_one_needs_a_grant() {
    let mut call = greet();
    for link in &mut call.chain {
        link.layer = Layer::Project;
    }
    assert_eq!(
        lines(&judge_by(GREET, &call)),
        [
            "<execute resource=\"tool\" id=\"bash_runtime\"/>",
            "<execute resource=\"tool\" id=\"subprocess\"/>"
        ]
    );
}

#[test]
fn what_a_tool_requires_has_to_be_granted_and_everything_missing_is_listed_together() {
    let mut call = greet();
    call.requires = Requires {
        commands: vec!["curl".to_owned(), "jq".to_owned(), "jq".to_owned()],
        environment: vec!["API_KEY".to_owned()],
        mcp: vec!["github".to_owned()],
    };
    call.variables = vec!["API_KEY".to_owned(), "REGION".to_owned()];
    assert_eq!(
        lines(&judge_by(GREET, &call)),
        [
            "<shell commands=\"curl\"/>",
            "<shell commands=\"jq\"/>",
            "<env vars=\"API_KEY\"/>",
            "<env vars=\"REGION\"/>",
            "<mcp name=\"github\"/>",
        ]
    );
    let seed = format!(
        "{GREET}<shell commands=\"curl,jq\"/><env vars=\"API_KEY REG*\"/><mcp name=\"git*\"/>"
    );
    let verdict = judge_by(&seed, &call);
    assert_eq!(verdict.denials, []);
    let enforcement = verdict
        .permissions
        .iter()
        .map(|it| it.enforcement)
        .collect::<Vec<_>>();
    assert_eq!(
        enforcement,
        [Broker, DeclaredOnly, DeclaredOnly, Broker, Broker, Broker]
    );
    let execute = format!(
        "{GREET}<execute resource=\"shell\" commands=\"*\"/><env vars=\"*\"/><mcp name=\"*\"/>"
    );
    assert!(allows(&execute, &call));
}

#[test]
fn names_of_commands_and_variables_match_as_a_whole() {
    let mut call = greet();
    call.requires.commands = vec!["git".to_owned()];
    for (commands, allowed) in [
        ("git", true),
        ("gi", false),
        ("gitk", false),
        ("g?t", true),
        ("*t", true),
        ("", false),
    ] {
        let permissions = if commands.is_empty() {
            String::new()
        } else {
            format!("<shell commands=\"{commands}\"/>")
        };
        assert_eq!(
            allows(&format!("{GREET}{permissions}"), &call),
            allowed,
            "{commands}"
        );
    }
    assert!(!allows(&format!("{GREET}<env vars=\"git\"/>"), &call));
}

#[test]
fn part_of_a_server_is_not_the_server() {
    let mut call = greet();
    call.requires.mcp = vec!["github".to_owned()];
    assert!(!allows(
        &format!("{GREET}<mcp name=\"github\" tools=\"list\"/>"),
        &call
    ));
    assert!(allows(
        &format!("{GREET}<mcp name=\"github\" tools=\"*\"/>"),
        &call
    ));
    assert!(!allows(
        &format!("{GREET}<mcp name=\"*\"/><deny><mcp name=\"github\" tools=\"list\"/></deny>"),
        &call
    ));
}

#[test]
fn rye_forms_allow_tools_and_nothing_else() {
    for (permission, allowed) in [
        ("<execute><tool>greet</tool></execute>", true),
        ("<execute><tool>*</tool></execute>", true),
        ("<execute><directive>*</directive></execute>", false),
        ("<execute>greet</execute>", true),
        ("<search><tool>*</tool></search>", false),
        ("<load>*</load>", false),
        ("<allow>*</allow>", true),
        ("*", true),
        ("<cap>rye.execute.tool.*</cap>", true),
        ("<cap>rye.execute.tool.greet</cap>", true),
        ("<cap>rye.execute.tool.other</cap>", false),
        ("<cap>rye.execute.*</cap>", true),
        ("<cap>rye.*</cap>", true),
        ("<cap>rye.execute.directive.*</cap>", false),
        ("<cap>rye.search.tool.*</cap>", false),
        ("<cap>rye.execute.tool</cap>", false),
        ("<cap>other.execute.tool.*</cap>", false),
        ("<execute resource=\"kiwi-mcp\" action=\"execute\"/>", false),
        ("<execute resource=\"spawn\" action=\"thread\"/>", false),
    ] {
        assert_eq!(allows(permission, &greet()), allowed, "{permission}");
    }
    let dotted = script("rye/file-system/read", "python", "python_runtime");
    assert!(allows(
        "<execute><tool>rye.file-system.*</tool></execute>",
        &dotted
    ));
    assert!(allows(
        "<execute><tool>rye/file-system/*</tool></execute>",
        &dotted
    ));
    assert!(allows(
        "<cap>rye.execute.tool.rye.file-system.*</cap>",
        &dotted
    ));
    assert!(!allows(
        "<execute><tool>rye.shell.*</tool></execute>",
        &dotted
    ));
    // RYE's `*` covers items and files, not commands and variables.
    let mut needy = greet();
    needy.requires.commands = vec!["git".to_owned()];
    assert!(!allows("<allow>*</allow>", &needy));
}

#[test]
fn a_deny_wins_wherever_it_stands() {
    for deny in [
        "<deny><execute resource=\"tool\" id=\"greet\"/></deny>",
        "<deny id=\"gr*\"/>",
        "<deny><execute><tool>greet</tool></execute></deny>",
        "<deny>*</deny>",
        "<deny>rye.execute.tool.greet</deny>",
        "<deny><execute resource=\"kiwi-mcp\" action=\"execute\"/></deny>",
        "<deny tool_type=\"script\"/>",
        "<deny id=\"bash_runtime\"/>",
        "<deny tool_type=\"primitive\"/>",
    ] {
        let every = "<execute resource=\"tool\" id=\"*\"/>";
        for permissions in [
            format!("{deny}{GREET}{every}"),
            format!("{every}{GREET}{deny}"),
        ] {
            let verdict = judge_by(&permissions, &greet());
            assert!(!verdict.is_allowed(), "{permissions}");
            assert!(
                verdict
                    .denials
                    .iter()
                    .all(|it| it.allow_with.is_none() && it.denied_by.is_some()),
                "{deny}"
            );
        }
    }
    assert!(allows(
        &format!("{GREET}<deny id=\"other\"/><deny><shell commands=\"greet\"/></deny>"),
        &greet()
    ));
}

#[test]
fn a_deny_by_name_holds_in_every_category() {
    let call = script("text/greet", "bash", "bash_runtime");
    assert!(!allows(
        "<execute resource=\"tool\" id=\"*\"/><deny id=\"greet\"/>",
        &call
    ));
}

#[test]
fn a_denied_everything_is_commands_and_variables_too() {
    let mut call = greet();
    call.requires.commands = vec!["git".to_owned()];
    call.variables = vec!["TOKEN".to_owned()];
    let verdict = judge_by(
        &format!("{GREET}<shell commands=\"git\"/><env vars=\"TOKEN\"/><deny>*</deny>"),
        &call,
    );
    assert!(verdict.permissions.is_empty(), "{verdict:?}");
}

#[test]
fn every_caller_has_to_allow_it_so_that_a_child_never_gains() {
    let (outer, inner) = (
        grants(GREET),
        grants("<execute resource=\"tool\" id=\"*\"/>"),
    );
    let caller = |name, grants| PolicyCaller { name, grants };
    let both = Authority::Directives(vec![caller("outer", &*outer), caller("inner", &*inner)]);
    assert_eq!(
        judge(&both, &greet()).permissions,
        [Permission {
            need: GREET.to_owned(),
            granted_by: format!(
                "{GREET} in `outer`, <execute resource=\"tool\" id=\"*\"/> in `inner`"
            ),
            enforcement: Enforcement::Broker,
        }]
    );
    let verdict = judge(&both, &script("other", "bash", "bash_runtime"));
    let denied = verdict
        .denials
        .iter()
        .map(|it| &*it.directive)
        .collect::<Vec<_>>();
    assert_eq!(denied, ["outer"]);
}

#[test]
fn grants_for_files_are_on_record_with_what_enforces_them() {
    let files = "<read resource=\"files\" path=\"src/**\"/><write resource=\"filesystem\" path=\"docs/**\"/>";
    let verdict = judge_by(&format!("{GREET}{files}<deny path=\"docs/x\"/>"), &greet());
    let found = verdict
        .permissions
        .iter()
        .skip(1)
        .map(|it| (&*it.need, it.enforcement))
        .collect::<Vec<_>>();
    assert_eq!(
        found,
        [
            (
                "<read resource=\"filesystem\" path=\"src/**\"/>",
                Enforcement::DeclaredOnly
            ),
            (
                "<write resource=\"filesystem\" path=\"docs/**\"/>",
                Enforcement::AfterTheFact
            ),
        ]
    );
}

#[test]
fn odd_names_are_allowed_by_the_line_that_is_printed() {
    for name in [
        "a b",
        "a,b",
        "x*",
        "[",
        "quo\"te",
        "a&b<c>",
        "ä",
        "\u{7}bell",
        "1A",
        "-",
        "{input:x}",
        "\\",
        "e\u{301}",
    ] {
        let mut call = greet();
        call.requires = Requires {
            commands: vec![name.to_owned()],
            environment: vec![name.to_owned()],
            mcp: vec![name.to_owned()],
        };
        let denied = judge_by("", &call);
        assert_eq!(lines(&denied).len(), 4, "{name}");
        assert_eq!(
            judge_by(&lines(&denied).concat(), &call).denials,
            [],
            "{name}"
        );
    }
}

#[test]
fn a_printed_grant_reads_back_as_itself() {
    for permission in [
        GREET,
        "<execute resource=\"tool\" id=\"a*\" tool_type=\"bash\"/>",
        "<shell commands=\"git,jq\"/>",
        "<env vars=\"A,B_*\"/>",
        "<read resource=\"filesystem\" path=\"a &amp; &quot;b&quot;/**\"/>",
        "<write resource=\"api\" endpoint=\"POST /users\"/>",
        "<mcp name=\"x\" tools=\"a,b\"/>",
        "<docker network=\"host\"/>",
        "<docker/>",
        "<execute><tool>a.*</tool></execute>",
        "<search>*</search>",
        "<allow>*</allow>",
        "<cap>rye.execute.tool.*</cap>",
        "<deny><write resource=\"filesystem\" path=\"x\"/></deny>",
    ] {
        assert_eq!(
            grants(permission).iter().map(line::of).collect::<String>(),
            permission
        );
    }
}
