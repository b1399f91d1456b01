use std::fs;

use super::*;
use crate::item::finding::{Finding, Findings, Strength};
use crate::item::store::{ItemStore, Roots};
use crate::item::validate::{self, Unsigned};
use crate::problem::{Code, Explain as _};

fn fields(category: &str) -> SkeletonFields {
    SkeletonFields {
        id: "my_item".parse().unwrap(),
        category: category.to_owned(),
        description: None,
        executor: None,
        layout: None,
        author: "Ada <ada@example.com>".to_owned(),
    }
}

/// The findings of strict validation for a skeleton, except that it is unsigned.
fn complaints(made: &Skeleton) -> Vec<Finding> {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for file in &made.files {
        let path = root.join(&file.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, &file.content).unwrap();
    }
    let store = ItemStore::open(
        Roots {
            project: Some(root),
            user: None,
        },
        Strength::Strict,
    );
    let item = store
        .find(made.kind, "my_item")
        .unwrap_or_else(|err| panic!("{err}: {made:#?}"));
    let mut findings = Findings::new(&item.file, Strength::Strict);
    validate::check(item, &store, Unsigned::Warned, &mut findings);
    store
        .findings()
        .cloned()
        .chain(findings.into_vec())
        .filter(|finding| finding.code != Code::Unsigned)
        .collect()
}

#[test]
fn every_skeleton_is_valid_to_the_letter() {
    for written in TYPES {
        let kind = SkeletonKind::of(written, None).unwrap();
        for layout in [
            None,
            Some(SkeletonLayout::File),
            Some(SkeletonLayout::Folder),
        ] {
            for category in ["", "ops", "a/b"] {
                let made = match skeleton(
                    kind,
                    &SkeletonFields {
                        layout,
                        ..fields(category)
                    },
                ) {
                    Err(SkeletonError::NoFolder(_))
                        if ["directive", "knowledge"].contains(&written) =>
                    {
                        continue;
                    }
                    made => made.unwrap(),
                };
                assert_eq!(complaints(&made), vec![], "{written} {layout:?} {made:#?}");
                assert!(
                    made.files.iter().any(|file| file.path == made.edit),
                    "{written}"
                );
                assert!(
                    made.files
                        .iter()
                        .all(|file| file.content.lines().count() < 60),
                    "{written}"
                );
                assert!(
                    !made.files.iter().any(|file| file.content.contains("@id@")),
                    "{written}"
                );
            }
        }
    }
}

#[test]
fn a_description_stays_what_it_is() {
    for text in [
        "true",
        "it's: a \"test\" # no <comment> & @id@ @description@ {input:x}",
        "- dash",
        "größe ✓",
        "''",
        "a \\d \"\"\" b",
        "*/ x",
    ] {
        for written in TYPES.into_iter().filter(|written| *written != "knowledge") {
            for layout in [SkeletonLayout::File, SkeletonLayout::Folder] {
                let kind = SkeletonKind::of(written, None).unwrap();
                let layout = Some(layout).filter(|_| written != "directive");
                let made = skeleton(
                    kind,
                    &SkeletonFields {
                        description: Some(text.to_owned()),
                        layout,
                        ..fields("")
                    },
                )
                .unwrap();
                let folder = tempfile::tempdir().unwrap();
                for file in &made.files {
                    let path = folder.path().join(&file.path);
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    fs::write(path, &file.content).unwrap();
                }
                let roots = Roots {
                    project: Some(folder.path().to_path_buf()),
                    user: None,
                };
                let store = ItemStore::open(roots, Strength::Lenient);
                let item = store
                    .find(made.kind, "my_item")
                    .unwrap_or_else(|err| panic!("{err} {made:#?}"));
                let said = match (item.as_tool(), item.as_directive()) {
                    (Some(tool), _) => &tool.manifest.description,
                    (_, Some(directive)) => &directive.description,
                    _ => panic!("something that is run"),
                };
                assert_eq!(said, text, "{written}");
            }
        }
    }
    for text in ["", "  ", "two\nlines", "a\u{0}b"] {
        let refused = skeleton(
            SkeletonKind::Cli,
            &SkeletonFields {
                description: Some(text.to_owned()),
                ..fields("")
            },
        );
        assert_eq!(refused, Err(SkeletonError::Description(text.to_owned())));
    }
}

#[test]
fn a_type_that_is_none_is_told_what_there_is() {
    let hint = |written: &str| {
        let err = SkeletonKind::of(written, None).unwrap_err();
        (err.code(), err.hint().unwrap().to_string())
    };
    assert_eq!(
        hint("pyton"),
        (Code::UnknownType, "did you mean `python`?".to_owned())
    );
    assert_eq!(
        hint("mcp"),
        (Code::UnknownType, "did you mean `mcp_server`?".to_owned())
    );
    assert_eq!(hint("js").1, "did you mean `node`?");
    assert!(
        hint("zebra")
            .1
            .starts_with("there are script, python, bash, node, api,")
    );
    assert_eq!(hint("primitive").0, Code::PrimitiveShadowed);
    assert_eq!(
        SkeletonKind::of("script", Some("my_ruby")),
        Err(SkeletonError::UnknownLanguage("my_ruby".to_owned()))
    );
    assert_eq!(
        SkeletonKind::of("script", Some("bash_runtime"))
            .unwrap()
            .as_str(),
        "script"
    );
}

#[test]
fn a_skeleton_reads_as_if_a_person_had_written_it() {
    let made = skeleton(SkeletonKind::of("script", None).unwrap(), &fields("text")).unwrap();
    let paths: Vec<&Path> = made.files.iter().map(|file| file.path.as_path()).collect();
    assert_eq!(
        paths,
        [
            Path::new(".ai/tools/text/my_item/main.py"),
            Path::new(".ai/tools/text/my_item/tool.yaml")
        ]
    );
    insta::assert_snapshot!(made.files[1].content, @r#"
    tool_id: my_item
    tool_type: script
    version: "1.0.0"
    category: text
    description: Greets a person
    executor: python_runtime
    config:
      entrypoint: main.py
      timeout: 60
    # `true` for a tool that changes files; `writes` then lists the only ones that it may change.
    mutates_state: false
    # writes: ["docs/**"]
    # Parameters are those of `main`; what it returns is the result.
    # dependencies: ["requests>=2"]
    outputs:
      format: json
    "#);
    let made = skeleton(
        SkeletonKind::of("bash", None).unwrap(),
        &SkeletonFields {
            layout: Some(SkeletonLayout::File),
            ..fields("")
        },
    )
    .unwrap();
    assert!(made.files[0].executable);
    insta::assert_snapshot!(made.files[0].content, @r#"
    #!/usr/bin/env bash
    # ---
    # tool_id: my_item
    # tool_type: bash
    # version: "1.0.0"
    # description: Greets a person
    # executor: bash_runtime
    # mutates_state: false
    # parameters:
    #   - name: who
    #     type: string
    #     required: false
    #     default: world
    #     description: Who is greeted
    # ---

    set -euo pipefail

    # Never put a parameter into a command line unquoted. JSON on stdout becomes the result, other text `{"stdout": …}`.
    printf 'Hello, %s!\n' "$PITON_PARAM_WHO"
    "#);
}
