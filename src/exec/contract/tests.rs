//! Files that results name.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use super::*;

fn found(root: &Path, path: &str) -> Result<String, String> {
    let result = Map::from_iter([("path".to_owned(), json!(path))]);
    file(&result, root)
        .map(|file| file.shown)
        .map_err(|err| match err {
            CallError::Contract { problems } => problems.join("; "),
            other => other.to_string(),
        })
}

#[test]
fn a_file_of_a_result_is_one_in_the_project() {
    let top = tempfile::tempdir().unwrap();
    let root = top.path().join("project");
    fs::create_dir_all(root.join("out")).unwrap();
    fs::write(root.join("out/report.txt"), "x").unwrap();
    fs::write(top.path().join("secret"), "x").unwrap();
    symlink(top.path().join("secret"), root.join("link")).unwrap();
    symlink("out/report.txt", root.join("inside")).unwrap();
    let absolute = root.join("out/report.txt");
    for good in [
        "out/report.txt",
        "./out/../out/report.txt",
        "inside",
        absolute.to_str().unwrap(),
    ] {
        assert_eq!(
            found(&root, good).as_deref(),
            Ok("out/report.txt"),
            "{good}"
        );
    }
    for (bad, why) in [
        ("../secret", "is outside of the project"),
        ("link", "is outside of the project"),
        ("/etc/passwd", "is outside of the project"),
        ("out", "is not a regular file"),
        ("none", "does not exist"),
        ("", "is not a regular file"),
    ] {
        assert_eq!(found(&root, bad), Err(format!("the file `{bad}` {why}")));
    }
}

#[test]
fn a_schema_is_searched_in_its_folder_only() {
    let root = tempfile::tempdir().unwrap();
    let schemas = root.path().join(".ai/schemas");
    fs::create_dir_all(&schemas).unwrap();
    fs::write(root.path().join("outside.json"), "{}").unwrap();
    fs::write(schemas.join("bad.json"), "{").unwrap();
    fs::write(schemas.join("good.json"), "{\"type\": \"object\"}").unwrap();
    assert_eq!(
        load_schema("good", root.path()),
        Ok(Some(json!({"type": "object"})))
    );
    assert_eq!(load_schema("../../outside", root.path()), Ok(None));
    assert_eq!(load_schema("none", root.path()), Ok(None));
    assert!(load_schema("bad", root.path()).is_err());
}
