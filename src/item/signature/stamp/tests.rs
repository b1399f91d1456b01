use std::fs;

use proptest::prelude::*;

use super::*;
use crate::item::signature::{
    Integrity, author_file, check, check_detached, check_folder, check_folder_detached,
};

const TIME: &str = "2026-01-28T12:00:00Z";
const LATER: &str = "2026-02-03T04:05:06Z";
const ENDINGS: [&str; 8] = ["py", "sh", "js", "lua", "md", "yaml", "css", "el"];

fn stamped(ending: &str, raw: &str, time: &str) -> String {
    stamp_file(Path::new(&format!("item.{ending}")), raw, time)
        .unwrap()
        .content
}

fn is_valid(ending: &str, text: &str) -> bool {
    matches!(
        check(Path::new(&format!("item.{ending}")), text),
        Integrity::Valid { .. }
    )
}

#[test]
fn the_stamp_is_a_comment_of_the_language_on_the_first_line() {
    let first = |ending: &str| {
        stamped(ending, "x\n", TIME)
            .lines()
            .next()
            .unwrap()
            .replace(&hash_of("x\n"), "H")
    };
    assert_eq!(first("py"), "# kiwi-mcp:validated:2026-01-28T12:00:00Z:H");
    assert_eq!(first("js"), "// kiwi-mcp:validated:2026-01-28T12:00:00Z:H");
    assert_eq!(first("lua"), "-- kiwi-mcp:validated:2026-01-28T12:00:00Z:H");
    assert_eq!(
        first("md"),
        "<!-- kiwi-mcp:validated:2026-01-28T12:00:00Z:H -->"
    );
}

#[test]
fn shebangs_marks_and_line_ends_stay_where_they_are() {
    assert_eq!(
        stamped("sh", "#!/bin/sh\necho\n", TIME).lines().next(),
        Some("#!/bin/sh")
    );
    assert!(stamped("py", "\u{feff}x = 1\n", TIME).starts_with("\u{feff}# kiwi-mcp"));
    assert_eq!(
        stamped("py", "x = 1\r\ny = 2\r\n", TIME)
            .matches("\r\n")
            .count(),
        3
    );
    // A stamp cannot follow a shebang without a line end.
    let text = stamped("sh", "#!/bin/sh", TIME);
    assert!(
        text.starts_with("#!/bin/sh\n# kiwi-mcp") && is_valid("sh", &text),
        "{text}"
    );
    let text = stamped("sh", "#!/bin/sh\r", TIME);
    assert!(
        text.starts_with("#!/bin/sh\r\n# kiwi-mcp")
            && text.ends_with("\r\n")
            && is_valid("sh", &text),
        "{text:?}"
    );
}

#[test]
fn an_older_stamp_of_any_author_is_replaced() {
    let plain = stamped("md", "# Title\n", TIME);
    for old in [
        "<!-- kiwi-mcp:validated:2025-01-01T00:00:00Z:0123456789ab -->\n".to_owned(),
        "<!-- rye:signed:2026-01-01T00:00:00Z:aa:bb:cc -->\r\n".to_owned(),
        format!("<!-- kiwi-mcp:validated:{LATER}:{} -->\n", "0".repeat(64)),
        "<!-- rye:signed:a -->\n<!-- kiwi-mcp:validated:b -->\n".to_owned(),
    ] {
        assert_eq!(
            stamped("md", &format!("{old}# Title\n"), TIME),
            plain,
            "{old}"
        );
    }
    // A misplaced stamp does not count, and must not stay as content either.
    let far = "a\nb\nc\nd\n";
    let own = stamped("md", far, LATER);
    let (line, _) = own.split_once('\n').unwrap();
    assert_eq!(
        stamped("md", &format!("{far}{line}\n"), TIME),
        stamped("md", far, TIME)
    );
    // A quotation stays.
    let quoting = format!("{far}{line}\nmore\n");
    assert!(stamped("md", &quoting, TIME).ends_with(&quoting));
    let slipped = stamped(
        "md",
        "<!-- a path -->\n<!-- kiwi-mcp:validated:b -->\n# Title\n",
        TIME,
    );
    assert_eq!(slipped, stamped("md", "<!-- a path -->\n# Title\n", TIME));
}

#[test]
fn what_no_comment_can_precede_is_stamped_beside_the_file() {
    for (name, text) in [
        ("a.php", "<?php\n"),
        ("a.what", "x"),
        ("a", "x"),
        ("b.php", "#!/usr/bin/env php\n<?php\n"),
    ] {
        let stamp = stamp_file(Path::new(name), text, TIME).unwrap();
        assert_eq!(
            (stamp.file, stamp.tidied),
            (PathBuf::from(format!("{name}.sig")), Tidied::Nothing)
        );
        assert!(
            matches!(
                check_detached(&stamp.content, text),
                Integrity::Valid { .. }
            ),
            "{name}"
        );
    }
    assert!(is_valid(
        "thing",
        &stamp_file(Path::new("a"), "#!/usr/bin/env thing\n", TIME)
            .unwrap()
            .content
    ));
}

#[test]
fn there_is_one_stamp_and_not_two() {
    let inside = stamp_file(Path::new("a.py"), "x\n", TIME).unwrap();
    assert_eq!(inside.tidied, Tidied::Removed("a.py.sig".into()));
    let old = "# kiwi-mcp:validated:2025-01-01T00:00:00Z:0123456789ab\n<?php\n";
    let beside = stamp_file(Path::new("a.php"), old, TIME).unwrap();
    assert_eq!(
        beside.tidied,
        Tidied::Rewritten("a.php".into(), "<?php\n".to_owned())
    );
    assert!(matches!(
        check_detached(&beside.content, "<?php\n"),
        Integrity::Valid { .. }
    ));
    // In JSON such a line is data.
    let data = "{\n\"kiwi-mcp:validated:x\": 1}\n";
    let json = stamp_file(Path::new("a.json"), data, TIME).unwrap();
    assert_eq!((json.hash, json.tidied), (hash_of(data), Tidied::Nothing));
}

#[test]
fn json_is_stamped_beside_the_file() {
    let stamp = stamp_file(Path::new("a/t.json"), "{}\n", TIME).unwrap();
    assert_eq!(stamp.file, Path::new("a/t.json.sig"));
    assert!(matches!(
        check_detached(&stamp.content, "{}\n"),
        Integrity::Valid { .. }
    ));
    assert!(matches!(
        check_detached(&stamp.content, "{} \n"),
        Integrity::Mismatch { .. }
    ));
}

#[test]
fn the_stamp_of_a_folder_covers_every_file_in_either_form() {
    for name in ["tool.yaml", "tool.json"] {
        let folder = tempfile::tempdir().unwrap();
        let manifest = folder.path().join(name);
        fs::write(&manifest, "{}\n").unwrap();
        fs::write(folder.path().join("main.py"), "x = 1\n").unwrap();
        let stamp = |time: &str| {
            let raw = fs::read_to_string(&manifest).unwrap();
            stamp_folder(folder.path(), &manifest, &raw, time).unwrap()
        };
        let checked = || {
            let raw = fs::read_to_string(&manifest).unwrap();
            match fs::read_to_string(detached_file(&manifest)) {
                Err(_) => check_folder(folder.path(), &manifest, &raw).unwrap(),
                Ok(stamp) => check_folder_detached(folder.path(), &manifest, &stamp, &raw).unwrap(),
            }
        };
        let first = stamp(TIME);
        fs::write(&first.file, &first.content).unwrap();
        assert!(
            matches!(checked(), Integrity::Valid { time, .. } if time == TIME),
            "{name}"
        );
        let second = stamp(LATER);
        assert_eq!(second.content, first.content.replace(TIME, LATER), "{name}");
        fs::write(author_file(&manifest), "an author").unwrap();
        assert!(matches!(checked(), Integrity::Valid { .. }), "{name}");
        fs::write(folder.path().join("main.py"), "x = 2\n").unwrap();
        assert!(matches!(checked(), Integrity::Mismatch { .. }), "{name}");
        fs::write(folder.path().join("main.py"), "x = 1\n").unwrap();
        fs::write(folder.path().join("more.py"), "").unwrap();
        assert!(matches!(checked(), Integrity::Mismatch { .. }), "{name}");
    }
}

fn hash_of(text: &str) -> String {
    hex(&Sha256::digest(text))
}

/// Text made of pieces of stamps and their surroundings.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "# kiwi-mcp:validated:2026-01-28T12:00:00Z:0123456789ab",
        "<!-- rye:signed:a:b -->",
        "kiwi-mcp:validated:",
        "#!/bin/sh",
        "\n",
        "\r\n",
        "\r",
        "\u{feff}",
        "ü",
        "-->",
        "x = 1",
        "---",
    ]);
    prop::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn what_was_stamped_is_valid_until_it_changes(
        raw in pieces(),
        ending in prop::sample::select(ENDINGS.to_vec()),
        at in any::<prop::sample::Index>(),
    ) {
        let text = stamped(ending, &raw, TIME);
        prop_assert!(is_valid(ending, &text), "{:?}", text);
        // Stamping again changes the time, and only in the stamp.
        let hash = &stamp_file(Path::new(&format!("item.{ending}")), &raw, TIME).unwrap().hash;
        let later = text.replacen(&format!("{TIME}:{hash}"), &format!("{LATER}:{hash}"), 1);
        prop_assert_eq!(stamped(ending, &text, LATER), later);
        let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let at = places[at.index(places.len())];
        let longer = format!("{}y{}", &text[..at], &text[at..]);
        prop_assert!(!is_valid(ending, &longer), "{:?}", longer);
        // Everything but stamps is still there.
        let ended = |text: &str| unstamped(text).trim_end_matches(['\r', '\n']).to_owned();
        prop_assert_eq!(ended(&text), ended(&raw));
    }
}
