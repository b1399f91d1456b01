//! Permission elements, one by one.

use super::*;

/// The grants of one permission element, as JSON without positions, and the codes of the findings.
fn grants(permission: &str) -> (Vec<Value>, Vec<String>) {
    let (directive, findings) = read_content(&format!(
        "<permissions>{permission}</permissions><process><step name=\"a\"><action>x</action></step></process>"
    ));
    let grants = directive.expect("a directive").permissions;
    let json = grants.iter().map(|grant| {
        let mut json = without_nulls(&serde_json::to_value(grant).unwrap());
        json.as_object_mut().unwrap().remove("place");
        json
    });
    (
        json.collect(),
        findings
            .as_slice()
            .iter()
            .map(|it| it.code.to_string())
            .collect(),
    )
}

fn granted(permission: &str) -> Vec<Value> {
    let (grants, codes) = grants(permission);
    assert_eq!(codes, [""; 0], "{permission}");
    grants
}

fn refused(permission: &str) -> Vec<String> {
    let (grants, codes) = grants(permission);
    assert_eq!(grants, [Value::Null; 0], "{permission}");
    codes
}

#[test]
fn what_is_not_understood_is_refused() {
    for (permission, code) in [
        (
            "<delete resource=\"filesystem\" path=\"x\"/>",
            "UNKNOWN_PERMISSION",
        ),
        (
            "<read resource=\"database\" path=\"x\"/>",
            "UNKNOWN_PERMISSION",
        ),
        (
            "<execute resource=\"shel\" commands=\"x\"/>",
            "UNKNOWN_PERMISSION",
        ),
        ("<execute><tols>x</tols></execute>", "UNKNOWN_PERMISSION"),
        (
            "<write resource=\"filesystem\" path=\"a\" unless=\"b\"/>",
            "UNKNOWN_PERMISSION",
        ),
        ("<write path=\"a\" commands=\"b\"/>", "UNKNOWN_PERMISSION"),
        (
            "<execute resource=\"tool\" id=\"*\" commands=\"git\"/>",
            "UNKNOWN_PERMISSION",
        ),
        (
            "<execute resource=\"docker\" path=\"a\"/>",
            "UNKNOWN_PERMISSION",
        ),
        (
            "<execute><tool except=\"a\">*</tool></execute>",
            "UNKNOWN_PERMISSION",
        ),
        (
            "<allow resource=\"filesystem\" action=\"list\" path=\"a\"/>",
            "UNKNOWN_PERMISSION",
        ),
        (
            "<allow endpoint=\"GET /a\" action=\"get\"/>",
            "UNKNOWN_PERMISSION",
        ),
        ("<allow action=\"read\">a</allow>", "UNKNOWN_PERMISSION"),
        ("everything you need", "UNKNOWN_PERMISSION"),
        ("<execute/>", "MISSING_REQUIRED_FIELD"),
        ("<execute><tool/></execute>", "MISSING_REQUIRED_FIELD"),
        ("<execute resource=\"tool\"/>", "MISSING_REQUIRED_FIELD"),
        ("<execute resource=\"shell\"/>", "MISSING_REQUIRED_FIELD"),
        (
            "<execute resource=\"mcp\" tools=\"a\"/>",
            "MISSING_REQUIRED_FIELD",
        ),
        ("<shell commands=\" , \"/>", "MISSING_REQUIRED_FIELD"),
        ("<env/>", "MISSING_REQUIRED_FIELD"),
        ("<read/>", "MISSING_REQUIRED_FIELD"),
        (
            "<read resource=\"filesystem\" path=\"\"/>",
            "MISSING_REQUIRED_FIELD",
        ),
        ("<read resource=\"api\"/>", "MISSING_REQUIRED_FIELD"),
        ("<deny/>", "MISSING_REQUIRED_FIELD"),
        ("<cap/>", "MISSING_REQUIRED_FIELD"),
        ("<env vars=\"A-B\"/>", "INVALID_ID"),
        (
            "<write resource=\"files\" path=\"/etc/**\"/>",
            "PATH_ESCAPE",
        ),
        ("<write resource=\"files\" path=\"~/x\"/>", "PATH_ESCAPE"),
        ("<write resource=\"files\" path=\"C:/x\"/>", "PATH_ESCAPE"),
        (
            "<write resource=\"files\" path=\"a/../../b\"/>",
            "PATH_ESCAPE",
        ),
        (
            "<write resource=\"files\" path=\"a&#10;b\"/>",
            "INVALID_PATH",
        ),
        ("<write resource=\"files\" path=\"{a\"/>", "INVALID_PATTERN"),
        ("<execute resource=\"tool\" id=\"[\"/>", "INVALID_PATTERN"),
    ] {
        assert_eq!(refused(permission), [code], "{permission}");
    }
}

#[test]
fn every_form_is_understood() {
    for (permission, expected) in [
        (
            "<execute resource=\"tool\" id=\"a_*\"/>",
            r#"[{"access":"tool","id":"a_*","deny":false}]"#,
        ),
        (
            "<execute tool_type=\"api\"/>",
            r#"[{"access":"tool","tool_type":"api","deny":false}]"#,
        ),
        (
            "<execute resource=\"shell\" action=\"git\"/>",
            r#"[{"access":"shell","commands":["git"],"deny":false}]"#,
        ),
        (
            "<env vars=\"A, B\"/>",
            r#"[{"access":"env","vars":["A","B"],"deny":false}]"#,
        ),
        (
            "<mcp name=\"gh\" actions=\"a b\"/>",
            r#"[{"access":"mcp","server":"gh","tools":["a","b"],"deny":false}]"#,
        ),
        (
            "<mcp name=\"gh\" action=\"a\"/>",
            r#"[{"access":"mcp","server":"gh","tools":["a"],"deny":false}]"#,
        ),
        (
            "<execute resource=\"docker\"/>",
            r#"[{"access":"docker","deny":false}]"#,
        ),
        (
            "<execute resource=\"spawn\" action=\"thread\"/>",
            r#"[{"access":"capability","name":"spawn.thread","deny":false}]"#,
        ),
        (
            "<execute resource=\"directive\" id=\"ops/*\"/>",
            r#"[{"access":"item","verb":"execute","item_type":"directive","id":"ops/*","deny":false}]"#,
        ),
        (
            "<write path=\"docs/**\"/>",
            r#"[{"access":"write","path":"docs/**","deny":false}]"#,
        ),
        (
            "<write endpoint=\"POST /a\"/>",
            r#"[{"access":"write_api","endpoint":"POST /a","deny":false}]"#,
        ),
        (
            "<deny><shell commands=\"rm\"/><allow><read path=\"a\"/></allow></deny>",
            r#"[{"access":"shell","commands":["rm"],"deny":true},{"access":"read","path":"a","deny":true}]"#,
        ),
        (
            "<deny path=\"secrets/**\"/>",
            r#"[{"access":"read","path":"secrets/**","deny":true},{"access":"write","path":"secrets/**","deny":true}]"#,
        ),
        (
            "<deny resource=\"filesystem\" action=\"write\" path=\"a\"/>",
            r#"[{"access":"write","path":"a","deny":true}]"#,
        ),
        (
            "<allow>rye.execute.tool.*</allow>",
            r#"[{"access":"capability","name":"rye.execute.tool.*","deny":false}]"#,
        ),
        (
            "<read resource=\"knowledge\" path=\"**/*\"/>",
            r#"[{"access":"item","verb":"load","item_type":"knowledge","id":"**/*","deny":false}]"#,
        ),
        (
            "<deny resource=\"network\" action=\"*\"/>",
            r#"[{"access":"capability","name":"network.*","deny":true}]"#,
        ),
        (
            "*",
            r#"[{"access":"item","verb":"*","item_type":"*","id":"*","deny":false},
                {"access":"read","path":"**","deny":false},{"access":"write","path":"**","deny":false}]"#,
        ),
        (
            "<allow>*</allow>",
            r#"[{"access":"item","verb":"*","item_type":"*","id":"*","deny":false}]"#,
        ),
        (
            "<search>*</search>",
            r#"[{"access":"item","verb":"search","item_type":"*","id":"*","deny":false}]"#,
        ),
    ] {
        assert_eq!(
            Value::Array(granted(permission)),
            serde_json::from_str::<Value>(expected).unwrap(),
            "{permission}"
        );
    }
}

#[test]
fn the_git_folder_is_never_granted() {
    for path in [".git", ".git/**", "./.git/hooks", ".GIT/config"] {
        let (_, codes) = grants(&format!("<write resource=\"filesystem\" path=\"{path}\"/>"));
        assert_eq!(codes, ["GRANT_WITHOUT_EFFECT"], "{path}");
    }
    assert_eq!(granted("<write path=\".gitignore\"/>").len(), 1);
    assert_eq!(granted("<deny path=\".git/**\"/>").len(), 2);
}
