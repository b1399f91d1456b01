use proptest::prelude::*;

use super::{
    Digest as _, Integrity, Path, Sha256, after_stamp, check_detached, check_folder, folder_hash,
};
use crate::encoding::hex;

const TIME: &str = "2026-01-28T12:00:00Z";

fn stamped(prefix: &str, suffix: &str, content: &str) -> String {
    let hash = hex(&Sha256::digest(content));
    format!("{prefix}kiwi-mcp:validated:{TIME}:{hash}{suffix}\n{content}")
}

/// Checks a text in the language of its first comment, or else as Python.
fn check(text: &str) -> Integrity {
    super::check(Path::new(file_of(text)), text)
}

fn file_of(text: &str) -> &'static str {
    let marks = [
        ("<!--", "a.md"),
        ("//", "a.js"),
        ("--", "a.lua"),
        ("/*", "a.css"),
        (";", "a.el"),
    ];
    marks
        .iter()
        .find(|(mark, _)| text.starts_with(mark))
        .map_or("a.py", |(_, file)| file)
}

fn check_directive(text: &str, name: &str, version: &str) -> Integrity {
    super::check_directive(Path::new("a.md"), text, name, version)
}

fn is_valid(text: &str) -> bool {
    matches!(check(text), Integrity::Valid { .. })
}

#[test]
fn a_line_that_no_hash_covers_must_be_a_comment() {
    let hash = hex(&Sha256::digest("x\n"));
    let body = format!("kiwi-mcp:validated:{TIME}:{hash}");
    for (file, line) in [
        ("a.sh", format!(":<<{body}")),
        ("a.sh", body.clone()),
        ("a.sh", format!("# {body} \\")),
        ("a.sh", format!("# {body}\0")),
        ("a.sh", format!("// {body}")),
        ("a.py", format!("\"\"\"{body}")),
        ("a.py", format!("# {body}\u{c}")),
        ("a.py", format!("# {body}\rx = 1")),
        ("a.js", format!("/*{body}")),
        ("a.js", format!("/* {body} */")),
        ("a.js", format!("// {body}\u{2028}x()")),
        ("a.js", format!("//\u{2029}{body}")),
        ("a.js", format!("// {body}\u{b}")),
        ("a.c", format!("// {body}\\")),
        ("a.lua", format!("--[[{body}")),
        ("a.md", format!("<!-- {body}")),
        ("a.md", format!("<!-- {body} --> more")),
        ("a.yaml", format!("- {body}")),
        ("a.php", format!("# {body}")),
        ("a.what", format!("# {body}")),
    ] {
        for end in ["\n", "\r\n"] {
            let integrity = super::check(Path::new(file), &format!("{line}{end}x\n"));
            assert!(
                matches!(integrity, Integrity::Invalid { line: 1, .. }),
                "{file} {line:?} {integrity:?}"
            );
        }
    }
    for (file, line) in [
        ("a.sh", format!("#{body}")),
        ("a.js", format!("//{body}")),
        ("a.md", format!("<!--{body} -->")),
        ("a.py", format!("# {body} ")),
    ] {
        for end in ["\n", "\r\n"] {
            let integrity = super::check(Path::new(file), &format!("{line}{end}x\n"));
            assert!(
                matches!(integrity, Integrity::Valid { .. }),
                "{file} {line:?} {integrity:?}"
            );
        }
    }
}

#[test]
fn a_stamp_in_any_comment_covers_the_rest_of_the_file() {
    for (prefix, suffix) in [
        ("# ", ""),
        ("<!-- ", " -->"),
        ("// ", ""),
        ("-- ", ""),
        ("/* ", " */"),
        ("; ", ""),
    ] {
        let text = stamped(prefix, suffix, "content\nmore\r\n");
        assert!(is_valid(&text), "{text}");
        assert!(matches!(
            check(&format!("{text}!")),
            Integrity::Mismatch { .. }
        ));
    }
}

#[test]
fn a_shebang_stays_before_the_stamp_and_is_covered() {
    let content = "#!/bin/sh\necho hi\n";
    let hash = hex(&Sha256::digest(content));
    let text = format!("#!/bin/sh\n# kiwi-mcp:validated:{TIME}:{hash}\necho hi\n");
    assert!(is_valid(&text));
    assert!(!is_valid(&text.replace("/bin/sh", "/bin/rm")));
    assert_eq!(after_stamp(&text), 0);
}

#[test]
fn crlf_and_byte_order_marks_are_hashed_as_they_are() {
    let content = "a\r\nb\r\n";
    let hash = hex(&Sha256::digest(content));
    assert!(is_valid(&format!(
        "# kiwi-mcp:validated:{TIME}:{hash}\r\n{content}"
    )));
    let with_mark = hex(&Sha256::digest(format!("\u{feff}{content}")));
    assert!(is_valid(&format!(
        "\u{feff}# kiwi-mcp:validated:{TIME}:{with_mark}\n{content}"
    )));
}

#[test]
fn what_is_no_stamp_is_named() {
    let invalid = |text: &str| matches!(check(text), Integrity::Invalid { .. });
    let good = stamped("# ", "", "x\n");
    assert!(invalid(&format!("\n{good}")), "not the first line");
    assert!(
        invalid(&format!("{}{good}", stamped("# ", "", ""))),
        "twice"
    );
    assert!(
        invalid(&good.replace(&good[60..70], "ABCDEFGHIJ")),
        "not hexadecimal"
    );
    assert!(
        invalid(&good.replacen('\n', " trailing\n", 1)),
        "trailing data"
    );
    assert!(invalid(&good.replace(TIME, "yesterday")), "not a time");
    assert_eq!(check("plain"), Integrity::Unsigned);
}

#[test]
fn a_stamp_before_the_shebang_is_refused() {
    let text = stamped("# ", "", "#!/usr/bin/env python3\nx = 1\n");
    let reason = "a stamp must come after the shebang";
    for (text, line) in [(text.clone(), 1), (format!("\u{feff}{text}"), 1)] {
        assert_eq!(check(&text), Integrity::Invalid { reason, line }, "{text}");
    }
    // Further down such a line is an ordinary comment.
    let hash = hex(&Sha256::digest("#!/bin/sh\n#!x\n"));
    assert!(is_valid(&format!(
        "#!/bin/sh\n# kiwi-mcp:validated:{TIME}:{hash}\n#!x\n"
    )));
}

#[test]
fn a_stamp_that_was_moved_far_down_is_refused_and_one_that_is_quoted_is_content() {
    let content = "a = 1\nb = 2\nc = 3\nd = 4\ne = 5\n";
    let stamp = format!(
        "# kiwi-mcp:validated:{TIME}:{}\n",
        hex(&Sha256::digest(content))
    );
    let reason = "a stamp must be the first line";
    for (at, line) in [(4, 5), (5, 6)] {
        let moved: String = content
            .split_inclusive('\n')
            .take(at)
            .chain([stamp.as_str()])
            .collect();
        let moved = moved + &content.split_inclusive('\n').skip(at).collect::<String>();
        assert_eq!(
            check(&moved),
            Integrity::Invalid { reason, line },
            "{moved}"
        );
    }
    for quoted in [
        format!("{content}f = 6\n{stamp}"),
        format!("{content}  {stamp}"),
        format!("{content}x = 1  {stamp}"),
        format!("{content}{}", stamp.replace(TIME, "<UTC time>Z")),
    ] {
        assert_eq!(check(&quoted), Integrity::Unsigned, "{quoted}");
    }
}

#[test]
fn older_stamps_are_recognised() {
    assert_eq!(
        check(&format!(
            "<!-- kiwi-mcp:validated:{TIME}:0123456789ab -->\n# x"
        )),
        Integrity::Foreign {
            kind: "a Kiwi stamp with a short hash"
        }
    );
    let rye = "<!-- rye:signed:2026-01-01T00:00:00Z:aa:bb:cc -->\n# x\n";
    assert!(matches!(check(rye), Integrity::Foreign { .. }));
    assert_eq!(&rye[after_stamp(rye)..], "# x\n");

    let block = "<directive name=\"a\" version=\"1.0.0\"></directive>";
    let payload = format!(
        r#"{{"directive_name":"a","metadata":{{}},"version":"1.0.0","xml_hash":"{}"}}"#,
        hex(&Sha256::digest(block))
    );
    let text = format!(
        "<!-- kiwi-mcp:validated:{TIME}:{} -->\n# A\n{block}\n",
        hex(&Sha256::digest(payload))
    );
    assert!(matches!(check(&text), Integrity::Mismatch { .. }));
    assert!(matches!(
        check_directive(&text, "a", "1.0.0"),
        Integrity::Foreign { .. }
    ));
    assert!(matches!(
        check_directive(&text, "b", "1.0.0"),
        Integrity::Mismatch { .. }
    ));
}

#[test]
fn detached_stamps_hold_one_line() {
    let hash = hex(&Sha256::digest("{}"));
    let stamp = format!("kiwi-mcp:validated:{TIME}:{hash}\n");
    assert!(matches!(
        check_detached(&stamp, "{}"),
        Integrity::Valid { .. }
    ));
    assert!(matches!(
        check_detached(&stamp, "{ }"),
        Integrity::Mismatch { .. }
    ));
    assert!(matches!(
        check_detached(&format!("{stamp}{stamp}"), "{}"),
        Integrity::Invalid { .. }
    ));
    assert!(matches!(
        check_detached("", "{}"),
        Integrity::Invalid { .. }
    ));
}

#[test]
fn a_folder_stamp_covers_every_file_but_caches() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let manifest = dir.path().join("tool.yaml");
    write("tool.yaml", "tool_id: a\n");
    write("lib/x.py", "x = 1\n");
    let hash = folder_hash(dir.path(), &manifest, "tool_id: a\n").unwrap();
    let text = format!("# kiwi-mcp:validated:{TIME}:{hash}\ntool_id: a\n");
    let integrity = || check_folder(dir.path(), &manifest, &text).unwrap();
    assert!(matches!(integrity(), Integrity::Valid { .. }));
    write("__pycache__/x.pyc", "cache");
    assert!(matches!(integrity(), Integrity::Valid { .. }));
    write("lib/x.py", "x = 2\n");
    assert!(matches!(integrity(), Integrity::Mismatch { .. }));
}

#[cfg(unix)]
#[test]
fn a_folder_stamp_covers_links_and_refuses_those_that_lead_out() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let tool = dir.path().join("tool");
    let manifest = tool.join("tool.yaml");
    std::fs::create_dir_all(tool.join("lib")).unwrap();
    for (name, text) in [
        ("tool/tool.yaml", ""),
        ("tool/a", "a"),
        ("tool/b", "b"),
        ("outside", "c"),
    ] {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let hash = || folder_hash(&tool, &manifest, "").map_err(|err| err.to_string());
    let link = |target: &str, name: &str| symlink(target, tool.join(name)).unwrap();
    let without = hash();
    link("a", "main");
    let to_a = hash();
    std::fs::remove_file(tool.join("main")).unwrap();
    link("b", "main");
    let to_b = hash();
    assert!(without.is_ok() && without != to_a && to_a != to_b && to_b != without);
    link("/tmp", "node_modules");
    assert_eq!(hash(), to_b);
    std::fs::write(tool.join("lib/.venv"), "a file, not a folder").unwrap();
    assert!(hash().is_ok_and(|hash| Ok(hash) != to_b));
    for (target, name) in [("../outside", "x"), ("lib", "y")] {
        link(target, name);
        assert_eq!(
            hash(),
            Err(format!(
                "the link `{name}` points to something that no stamp covers"
            ))
        );
        std::fs::remove_file(tool.join(name)).unwrap();
    }
    std::fs::write(tool.join("a\nb"), "").unwrap();
    assert_eq!(
        hash(),
        Err("`a\\nb` is not a name that can be stamped".to_owned())
    );
}

/// Text made of pieces of stamps and their surroundings.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "kiwi-mcp:validated:",
        "rye:signed:",
        TIME,
        ":",
        "0123456789ab",
        "<!-- ",
        " -->",
        "# ",
        "// ",
        "/* ",
        " */",
        "#!/bin/sh",
        "\n",
        "\r\n",
        "\u{feff}",
        "ü",
        "<directive",
        "</directive>",
    ]);
    prop::collection::vec((piece, prop_oneof![9 => Just(1), 1 => 2..200_usize]), 0..24).prop_map(
        |pieces| {
            pieces
                .into_iter()
                .map(|(piece, times)| piece.repeat(times))
                .collect()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_text_is_judged(text in pieces()) {
        let lines = u32::try_from(text.lines().count()).unwrap();
        for integrity in [check(&text), check_directive(&text, "a", "1.0.0")] {
            if let Integrity::Invalid { line, .. } = integrity {
                prop_assert!((1..=lines).contains(&line), "line {} of {:?}", line, text);
            }
            prop_assert!(!matches!(integrity, Integrity::Valid { .. }), "nothing here has a hash");
        }
        prop_assert!(text.is_char_boundary(after_stamp(&text)));
        check_detached(&text, &text);
    }

    #[test]
    fn a_stamp_holds_until_its_content_changes(
        content in "(x|[a-z ]{1,9}|\r?\n|ü){0,40}",
        (open, close) in prop::sample::select(vec![("# ", ""), ("// ", ""), ("<!-- ", " -->"), ("/* ", " */")]),
        more in 1..50_usize,
    ) {
        let text = stamped(open, close, &content);
        prop_assert!(matches!(check(&text), Integrity::Valid { .. }), "{}", text);
        let longer = format!("{text}{}", "y".repeat(more));
        prop_assert!(matches!(check(&longer), Integrity::Mismatch { .. }), "{}", longer);
    }
}
