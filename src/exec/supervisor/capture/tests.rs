//! Tests of what is kept.

use super::*;

fn captured(kept: usize, pieces: &[&[u8]]) -> Captured {
    let mut capture = Capture::new(kept);
    for piece in pieces {
        capture.add(piece);
    }
    capture.finish()
}

#[test]
fn little_is_kept_as_it_is() {
    let seen = captured(8, &[b"ab", b"", b"\xffde"]);
    assert_eq!(
        (seen.head.as_slice(), seen.tail.as_slice(), seen.total),
        (&b"ab\xffd"[..], &b"e"[..], 5)
    );
    assert_eq!(seen.whole().unwrap(), b"ab\xffde");
    assert_eq!(seen.text(), "ab\u{fffd}de");
    assert_eq!(
        captured(8, &[]).sha256,
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    );
}

#[test]
fn however_it_comes_the_head_and_the_tail_are_kept() {
    let all: Vec<u8> = (0..=255).cycle().take(5000).collect();
    for size in [1, 3, 7, 64, 4096, 5000] {
        let pieces: Vec<&[u8]> = all.chunks(size).collect();
        let seen = captured(100, &pieces);
        assert_eq!(
            (seen.head.as_slice(), seen.tail.as_slice()),
            (&all[..50], &all[4950..]),
            "pieces of {size}"
        );
        assert_eq!(seen.total, 5000);
        assert!(seen.is_truncated() && seen.whole().is_none());
    }
}

#[test]
fn a_character_that_was_cut_is_left_out() {
    let seen = captured(8, &["abcä and more of it äbcd".as_bytes()]);
    assert_eq!(seen.text(), "abc\n… 18 bytes left out …\nbcd");
}
