//! Properties of all grants and all calls.

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;

const ALLOWS: [&str; 22] = [
    "<execute resource=\"tool\" id=\"greet\"/>",
    "<execute resource=\"tool\" id=\"*\"/>",
    "<execute resource=\"tool\" id=\"text/*\"/>",
    "<execute resource=\"tool\" tool_type=\"bash\"/>",
    "<execute resource=\"tool\" id=\"*\" tool_type=\"python\"/>",
    "<execute resource=\"tool\" tool_type=\"runtime\"/>",
    "<execute><tool>text.*</tool></execute>",
    "<allow>*</allow>",
    "<cap>rye.execute.tool.gr*</cap>",
    "<shell commands=\"git\"/>",
    "<shell commands=\"*\"/>",
    "<env vars=\"TOKEN,REG*\"/>",
    "<env vars=\"*\"/>",
    "<mcp name=\"github\"/>",
    "<mcp name=\"github\" tools=\"list\"/>",
    "<write path=\"docs/**\"/>",
    "<write path=\"docs\"/>",
    "<write path=\"**\"/>",
    "<write path=\".ai/**\"/>",
    "<write path=\"**/*.md\"/>",
    "<read path=\"**\"/>",
    "<write path=\"a[*]\"/>",
];

fn some_allows() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(select(&ALLOWS[..]).prop_map(str::to_owned), 0..8)
}

fn some_permissions() -> impl Strategy<Value = Vec<String>> {
    let deny = select(&ALLOWS[..]).prop_map(|it| format!("<deny>{it}</deny>"));
    let any = prop_oneof![6 => select(&ALLOWS[..]).prop_map(str::to_owned), 1 => deny];
    prop::collection::vec(any, 0..8)
}

fn some_call() -> impl Strategy<Value = Invocation> {
    let id = select(vec!["greet", "text/greet", "other", "text/format/x"]);
    let runtime = select(vec![
        "python_runtime",
        "bash_runtime",
        "node_runtime",
        "ruby_runtime",
    ]);
    let layer = select(vec![Layer::Builtin, Layer::Project, Layer::User]);
    let kind = select(vec!["python", "bash", "script", "node", ""]);
    let name = || prop_oneof![3 => select(vec!["git", "TOKEN", "github", "REGION"]).prop_map(str::to_owned), 1 => any::<String>()];
    let names = || prop::collection::vec(name(), 0..3);
    let writes = prop::option::of(prop::collection::vec(
        select(vec!["docs/**", "**", "a"]).prop_map(str::to_owned),
        0..3,
    ));
    (
        id,
        runtime,
        layer,
        kind,
        (names(), names(), names(), names()),
        writes,
    )
        .prop_map(
            |(id, runtime, layer, kind, (commands, environment, mcp, variables), writes)| {
                let mut call = script(id, kind, runtime);
                call.chain[1].layer = layer;
                call.requires = Requires {
                    commands,
                    environment,
                    mcp,
                };
                call.variables = variables;
                call.writes = writes;
                call
            },
        )
}

fn some_path() -> impl Strategy<Value = PathBuf> {
    let part = prop_oneof![
        4 => select(vec!["docs", "a.md", ".ai", "src", ".git", "..", "a*", "x"]).prop_map(|it| it.as_bytes().to_vec()),
        1 => prop::collection::vec(1_u8.., 1..6),
    ];
    prop::collection::vec(part, 1..4).prop_map(|parts| {
        use std::os::unix::ffi::OsStringExt;
        PathBuf::from(std::ffi::OsString::from_vec(parts.join(&b'/')))
    })
}

/// Checks with one directive: the number of denials, and whether the file may be changed.
fn by(permissions: &[String], call: &Invocation, path: &Path) -> (usize, bool) {
    let grants = grants(&permissions.concat());
    let authority = Authority::Directives(vec![PolicyCaller {
        name: "d",
        grants: &grants,
    }]);
    (
        judge(&authority, call).denials.len(),
        WriteRules::of(&authority, call).allows(path),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_printed_lines_allow_the_call(permissions in some_allows(), call in some_call()) {
        let denied = judge_by(&permissions.concat(), &call);
        let lines: String = denied.denials.iter().filter_map(|it| it.allow_with.clone()).collect();
        prop_assert_eq!(judge_by(&format!("{}{lines}", permissions.concat()), &call).denials, []);
    }

    #[test]
    fn the_printed_line_allows_the_file(permissions in some_permissions(), call in some_call(), path in some_path()) {
        let before = grants(&permissions.concat());
        let of = |grants: &[Grant]| WriteRules::of(&Authority::Directives(vec![PolicyCaller { name: "d", grants }]), &call);
        let rules = of(&before);
        prop_assert_eq!(rules.hint(&path).is_none(), rules.allows(&path));
        if let Some(line) = rules.allow_with(&path) {
            prop_assert!(!rules.allows(&path));
            prop_assert!(of(&grants(&format!("{}{line}", permissions.concat()))).allows(&path), "{}", line);
        }
    }

    #[test]
    fn several_callers_allow_no_more_than_each(
        callers in prop::collection::vec(some_permissions(), 1..4), call in some_call(), path in some_path(),
    ) {
        let parsed: Vec<Vec<Grant>> = callers.iter().map(|it| grants(&it.concat())).collect();
        let together = Authority::Directives(parsed.iter().map(|grants| PolicyCaller { name: "d", grants }).collect());
        let each: Vec<(usize, bool)> = callers.iter().map(|it| by(it, &call, &path)).collect();
        prop_assert_eq!(judge(&together, &call).is_allowed(), each.iter().all(|(denials, _)| *denials == 0));
        prop_assert_eq!(WriteRules::of(&together, &call).allows(&path), each.iter().all(|(_, write)| *write));
    }

    #[test]
    fn another_grant_takes_nothing_away(
        permissions in some_permissions(), more in select(&ALLOWS[..]), at in any::<Index>(), call in some_call(),
        path in some_path(),
    ) {
        let before = by(&permissions, &call, &path);
        let mut after = permissions.clone();
        after.insert(at.index(permissions.len() + 1), more.to_owned());
        let after = by(&after, &call, &path);
        prop_assert!(after.0 <= before.0 && after.1 >= before.1);
    }

    #[test]
    fn another_deny_gives_nothing(
        permissions in some_permissions(), less in select(&ALLOWS[..]), at in any::<Index>(), call in some_call(),
        path in some_path(),
    ) {
        let before = by(&permissions, &call, &path);
        let mut after = permissions.clone();
        after.insert(at.index(permissions.len() + 1), format!("<deny>{less}</deny>"));
        let after = by(&after, &call, &path);
        prop_assert!(after.0 >= before.0 && after.1 <= before.1);
    }

    #[test]
    fn the_order_of_grants_does_not_matter(
        (permissions, shuffled) in some_permissions().prop_flat_map(|it| (Just(it.clone()), Just(it).prop_shuffle())),
        call in some_call(), path in some_path(),
    ) {
        prop_assert_eq!(by(&permissions, &call, &path), by(&shuffled, &call, &path));
    }

    #[test]
    fn a_name_pattern_is_what_a_glob_says(pattern in "[ab*?]{0,8}", name in "[ab]{0,8}") {
        let glob = globset::GlobBuilder::new(&pattern).literal_separator(false).build().unwrap().compile_matcher();
        // `**` beside other text equals `*` in our matcher, but not in globset.
        prop_assume!(!pattern.contains("**"));
        prop_assert_eq!(matching::is_name(&pattern, &name), glob.is_match(&name));
    }
}
