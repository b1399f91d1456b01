//! A caller's text arrives byte for byte and never changes the number of arguments.

use proptest::prelude::*;

use super::*;

/// Texts full of characters that are special to shells, templates and terminals.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("; rm -rf ~".to_owned()),
        Just("$(id)".to_owned()),
        Just("`id`".to_owned()),
        Just("${HOME}".to_owned()),
        Just("{b}".to_owned()),
        Just("{{".to_owned()),
        Just("}}".to_owned()),
        Just("\n".to_owned()),
        Just("\r\n".to_owned()),
        Just("--".to_owned()),
        Just("-".to_owned()),
        Just("'\"\\".to_owned()),
        Just("\u{202e}✓größe".to_owned()),
        "[^\0]{0,8}",
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn values_arrive_as_they_were_sent(a in hostile(), b in hostile()) {
        let project = Project::new(&[
            (".ai/tools/run.yaml", &cli("  args: [--, \"{a}\", \"<{a}|{b}>\"]\n  env: {E: \"{b}\"}\n")),
            (".ai/scripts/s.sh", "true\n"),
            (".ai/scripts/p.py", "def main(a, b):\n    pass\n"),
        ]);
        let parameters = json!({"a": a, "b": b, "c": a});

        let invocation = project.resolve("run", parameters.clone());
        let found = arguments(&invocation);
        prop_assert_eq!(&found[..3], ["--", &a, &format!("<{a}|{b}>")]);
        prop_assert_eq!(&process(&invocation).environment["E"].value, &b);
        if a.starts_with('-') {
            prop_assert_eq!(&found[3..], [format!("--c={a}")]);
        } else {
            prop_assert_eq!(&found[3..], ["--c", &a]);
        }

        let invocation = project.resolve("s", parameters.clone());
        prop_assert_eq!(arguments(&invocation).len(), 1);
        prop_assert_eq!(&process(&invocation).environment["PITON_PARAM_A"].value, &a);
        prop_assert_eq!(&serde_json::from_slice::<Value>(&process(&invocation).input).unwrap(), &parameters);

        let parameters = json!({"a": a, "b": b});
        let invocation = project.resolve("p", parameters.clone());
        prop_assert_eq!(arguments(&invocation).len(), 1);
        prop_assert_eq!(&serde_json::from_slice::<Value>(&process(&invocation).input).unwrap(), &parameters);
    }
}
