//! The same tool in every spelling that can express it.

use std::fs;
use std::path::PathBuf;

use super::*;

/// Reads all files in a folder of `fixtures/tools/equal/` and compares their manifests.
fn assert_equal(folder: &str, kind: ToolKind, spellings: &[Spelling]) {
    let base = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/tools/equal")
        .join(folder);
    let mut files: Vec<PathBuf> = walkdir::WalkDir::new(&base)
        .sort_by_file_name()
        .into_iter()
        .map(Result::unwrap)
        .filter(|entry| entry.file_type().is_file())
        .map(walkdir::DirEntry::into_path)
        .collect();
    files.sort();
    let mut met = Vec::new();
    let mut manifests: Vec<(PathBuf, ToolManifest)> = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let case = lenient(file.to_str().unwrap(), &text);
        let told: Vec<String> = case
            .finding_lines()
            .into_iter()
            .filter(|told| !told.starts_with("UNKNOWN_ENUM_VALUE"))
            .collect();
        assert_eq!(told, Vec::<String>::new(), "{}", file.display());
        let tool = case.tool();
        met.push(tool.spelling);
        let mut manifest = tool.manifest.clone();
        manifest.tool_type.clear();
        // Python requires parameters with defaults to come last, so the order may differ.
        manifest.parameters.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(names) = manifest
            .input_schema
            .get_mut("required")
            .and_then(Value::as_array_mut)
        {
            names.sort_by_key(|name| name.as_str().map(str::to_owned));
        }
        manifests.push((file, manifest));
    }
    for spelling in spellings {
        assert!(
            met.contains(spelling),
            "{spelling:?} is missing below {folder}"
        );
    }
    let (first, expected) = manifests.first().unwrap();
    assert_eq!(expected.kind, kind);
    for (file, manifest) in &manifests {
        assert_eq!(
            manifest,
            expected,
            "{} differs from {}",
            file.display(),
            first.display()
        );
    }
}

#[test]
fn a_script_means_the_same_in_every_spelling() {
    use Spelling::{Embedded, ExecutorBlock, JsonSchema, Manifest};
    // The JSON file has `outputs.format`, so `inputs` identifies its spelling.
    assert_equal(
        "script",
        ToolKind::Script,
        &[Manifest, ExecutorBlock, JsonSchema, Embedded],
    );
}

#[test]
fn an_api_call_means_the_same_in_every_spelling() {
    use Spelling::{Embedded, ExecutorBlock, JsonSchema, Manifest};
    assert_equal(
        "api",
        ToolKind::Api,
        &[Manifest, ExecutorBlock, JsonSchema, Embedded],
    );
}

#[test]
fn a_command_means_the_same_in_every_spelling() {
    use Spelling::{Embedded, JsonSchema, Manifest, ToolRoot};
    assert_equal(
        "cli",
        ToolKind::Cli,
        &[Manifest, JsonSchema, ToolRoot, Embedded],
    );
}

#[test]
fn a_container_means_the_same_in_every_spelling() {
    use Spelling::{Embedded, ExecutorBlock, JsonSchema, Manifest};
    assert_equal(
        "docker",
        ToolKind::Docker,
        &[Manifest, ExecutorBlock, JsonSchema, Embedded],
    );
}

#[test]
fn a_local_program_means_the_same_in_every_spelling() {
    assert_equal(
        "local",
        ToolKind::Local,
        &[Spelling::Manifest, Spelling::JsonSchema, Spelling::ToolRoot],
    );
}

#[test]
fn a_server_means_the_same_in_every_spelling() {
    use Spelling::{Embedded, ExecutorBlock, JsonSchema, Manifest, ToolRoot};
    assert_equal(
        "mcp_server",
        ToolKind::McpServer,
        &[Manifest, ExecutorBlock, JsonSchema, ToolRoot, Embedded],
    );
}
