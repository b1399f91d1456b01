use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn hmac_gives_the_values_of_rfc_4231() {
    let code = hmac(&[0x0b; 20], b"Hi There");
    assert_eq!(
        hex(&code),
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
    );
    let code = hmac(b"Jefe", b"what do ya want for nothing?");
    assert_eq!(
        hex(&code),
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    );
    let code = hmac(&[0xaa; 20], &[0xdd; 50]);
    assert_eq!(
        hex(&code),
        "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"
    );
}

#[test]
fn a_key_is_created_once_and_only_its_user_can_read_it() {
    let home = tempfile::tempdir().unwrap();
    let settings = home.path().join("config/piton");
    let file = KeyFile::of(Some(&settings));
    assert_eq!(file.read().unwrap(), None);
    let since: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    let key = file.read_or_create(since).unwrap().expect("a key");
    assert_eq!(file.read().unwrap(), Some(key.clone()));
    assert_eq!(
        file.read_or_create(Timestamp::UNIX_EPOCH).unwrap(),
        Some(key.clone())
    );
    assert!(key.covers(since) && !key.covers(Timestamp::UNIX_EPOCH));
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let path = settings.join(KEY_FILE);
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    let names: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(!format!("{key:?}").contains(&hex(&key.bytes)));
}

#[test]
fn a_damaged_key_is_an_error_and_no_new_key() {
    let home = tempfile::tempdir().unwrap();
    let file = KeyFile::of(Some(home.path()));
    file.read_or_create(Timestamp::UNIX_EPOCH).unwrap();
    for text in ["", "piton-journal-key-1 00 2026-01-02T03:04:05Z\n"] {
        std::fs::write(home.path().join(KEY_FILE), text).unwrap();
        let err = file.read_or_create(Timestamp::UNIX_EPOCH).unwrap_err();
        assert!(matches!(err, JournalError::InvalidKey(_)), "{err}");
    }
}

#[test]
fn without_a_home_there_is_no_key() {
    let file = KeyFile::of(None);
    assert_eq!(file.read_or_create(Timestamp::UNIX_EPOCH).unwrap(), None);
    let file = KeyFile::of(Some(Path::new("/dev/null/piton")));
    assert_eq!(file.read_or_create(Timestamp::UNIX_EPOCH).unwrap(), None);
}

#[test]
fn a_tag_is_read_back_and_nothing_else_is() {
    let key = JournalKey {
        bytes: [7; 32],
        since: Timestamp::UNIX_EPOCH,
        folder: None,
    };
    let tag = key.tag(b"line");
    assert_eq!(tag.to_string().parse::<LineTag>().unwrap(), tag);
    for text in [
        "",
        "hmac-sha256",
        "hmac-sha256:00:00",
        "hmac-sha256:0011223344556677:0",
    ] {
        assert!(text.parse::<LineTag>().is_err(), "{text}");
    }
}

#[test]
fn each_line_needs_the_tag_of_the_same_key() {
    use crate::disk::Disk;
    use crate::journal::{Continuation, Durability, Event, Journal, RunId, Salt, read};

    let folder = tempfile::tempdir().unwrap();
    let run: RunId = "01kdz3gqc80000000000000001".parse().unwrap();
    let key = |byte: u8| {
        Some(JournalKey {
            bytes: [byte; 32],
            since: Timestamp::UNIX_EPOCH,
            folder: None,
        })
    };
    let at: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    let event = |step: u32| Event::NoChanges {
        step,
        not_captured: Vec::new(),
        too_large: Vec::new(),
    };
    let (salt, disk) = (Salt::new(1), Disk::unsynced());
    let mut journal = Journal::create(folder.path(), run, salt, Durability::Decisions, &disk)
        .unwrap()
        .authenticated(key(1));
    journal.append(at, &event(1)).unwrap();
    drop(journal);
    let open = |key: Option<JournalKey>, demand: TagDemand| {
        let continuation = Continuation { key, demand };
        Journal::open(folder.path(), run, &disk, &continuation, &mut |_| {})
    };
    let check = |key: Option<JournalKey>| {
        let mut tags = TagCheck::new(key.as_ref());
        let path = crate::journal::path_of(folder.path(), run);
        let records = read(&path).unwrap().records;
        for record in &records {
            tags.take(record);
        }
        tags.found()
    };
    let mut journal = open(key(1), TagDemand::Authenticated).unwrap();
    journal.append(at, &event(2)).unwrap();
    assert_eq!(check(key(1)), Some(Authenticity::Authenticated));
    assert_eq!(check(key(2)), Some(Authenticity::OtherKey));
    assert_eq!(check(None), Some(Authenticity::OtherKey));
    let refused = open(None, TagDemand::NoForeignLine).unwrap_err();
    assert!(matches!(refused, JournalError::OtherKey(_)), "{refused}");
    // Only to end the run, a line of another key is added.
    let mut journal = open(key(2), TagDemand::Nothing).unwrap();
    journal.append(at, &event(3)).unwrap();
    assert_eq!(check(key(1)), Some(Authenticity::Foreign(3)));
    for demand in [TagDemand::NoForeignLine, TagDemand::Authenticated] {
        let refused = open(key(1), demand).unwrap_err();
        assert!(
            matches!(refused, JournalError::ForeignLine { line: 3, .. }),
            "{refused}"
        );
    }
}
