use super::*;
use crate::item::params::ParamProblem;

const INPUTS: &str = "<inputs>
<input name=\"version\" type=\"string\" required=\"true\" pattern=\"[0-9.]+\">The version</input>
<input name=\"count\" type=\"integer\" default=\"3\">How many</input>
<input name=\"files\" type=\"array\">Which</input>
</inputs>";

fn given(given: Value, words: &[&str]) -> Result<Value, Vec<(String, Option<String>)>> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let told = |problem: ParamProblem| (problem.message, problem.suggestion);
    inputs(&read(INPUTS), object(given), &words)
        .map(Value::Object)
        .map_err(|problems| problems.into_iter().map(told).collect())
}

fn plain(message: &str) -> (String, Option<String>) {
    (message.to_owned(), None)
}

#[test]
fn wrong_inputs_are_all_named() {
    assert_eq!(
        given(json!({}), &[]),
        Err(vec![plain("missing input `version`")])
    );
    assert_eq!(
        given(
            json!({"verson": "1"}),
            &["count=many", "files", "version=1", "version=2", "other=x"]
        ),
        Err(vec![
            (
                "unknown input `verson`".to_owned(),
                Some("did you mean `version`?".to_owned())
            ),
            plain("input `count`: `many` is not an integer"),
            plain("`files` is not `name=value`"),
            plain("input `version` is given twice"),
            (
                "unknown input `other`".to_owned(),
                Some("it takes `version`, `count`, `files`".to_owned())
            ),
        ])
    );
    let wrong = given(json!({"version": "one", "count": "3"}), &[]).unwrap_err();
    assert_eq!(wrong.len(), 2, "{wrong:?}");
}

#[test]
fn words_are_converted_to_the_declared_type_and_defaults_filled_in() {
    assert_eq!(
        given(json!({"version": "1.0"}), &["version=2.0", "files=[\"a\"]"]),
        Ok(json!({"version": "2.0", "files": ["a"], "count": 3}))
    );
}
