//! Git's lock on the index.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::thread;
use std::time::Duration;

use super::super::super::error::CheckpointError;
use super::super::lock::IndexLock;
use super::repository::Repository;
use crate::disk::Disk;

#[test]
fn git_waits_for_us_and_we_for_git() {
    let repository = Repository::with_files();
    let lock = IndexLock::acquire(
        &repository.index(),
        &repository.own(),
        Duration::ZERO,
        &Disk::unsynced(),
    )
    .unwrap();
    repository.write(b"new", b"new");
    assert!(!repository.run(&["add", "new"], b"").status.success());
    drop(lock);
    repository.git(&["add", "new"]);

    let path = repository.index().with_extension("lock");
    fs::write(&path, "somebody's").unwrap();
    for wait in [Duration::ZERO, Duration::from_millis(20)] {
        let refused = IndexLock::acquire(
            &repository.index(),
            &repository.own(),
            wait,
            &Disk::unsynced(),
        )
        .unwrap_err();
        assert!(
            matches!(&refused, CheckpointError::IndexLocked { path: named, age } if *named == path && age.as_secs() < 3600)
        );
    }
    // A lock of another program stays.
    assert_eq!(fs::read_to_string(&path).unwrap(), "somebody's");
}

#[test]
fn a_lock_that_goes_away_in_time_is_taken() {
    let repository = Repository::with_files();
    let held = IndexLock::acquire(
        &repository.index(),
        &repository.own(),
        Duration::ZERO,
        &Disk::unsynced(),
    )
    .unwrap();
    let index = repository.index();
    let own = tempfile::tempdir().unwrap();
    let waiting = thread::spawn(move || {
        IndexLock::acquire(
            &index,
            own.path(),
            Duration::from_mins(1),
            &Disk::unsynced(),
        )
        .map(drop)
    });
    thread::sleep(Duration::from_millis(30));
    drop(held);
    waiting.join().unwrap().unwrap();
    repository.assert_sound();
}

/// The disk failed when piton removed its lock.
#[test]
fn a_lock_that_piton_could_not_remove_is_not_taken_for_that_of_another_program() {
    let repository = Repository::with_files();
    let path = repository.index().with_extension("lock");
    for is_lock_left in [true, false] {
        let mark = repository.own().join("index-lock");
        fs::write(&mark, "").unwrap();
        if is_lock_left {
            fs::hard_link(&mark, &path).unwrap();
        }
        let lock = IndexLock::acquire(
            &repository.index(),
            &repository.own(),
            Duration::ZERO,
            &Disk::unsynced(),
        )
        .unwrap();
        drop(lock);
        assert!(!path.exists() && !mark.exists());
    }
    repository.assert_sound();
}

#[test]
fn nothing_changes_unless_it_is_committed() {
    let repository = Repository::with_files();
    let before = repository.bytes();
    let lock = IndexLock::acquire(
        &repository.index(),
        &repository.own(),
        Duration::ZERO,
        &Disk::unsynced(),
    )
    .unwrap();
    let written = lock.write(b"never used").unwrap();
    assert_eq!(
        fs::read(repository.index().with_extension("lock")).unwrap(),
        b"never used"
    );
    drop(written);
    assert_eq!(repository.bytes(), before);
    repository.assert_sound();
}

#[test]
fn the_permissions_of_the_index_stay() {
    let repository = Repository::with_files();
    for mode in [0o600, 0o664, 0o444] {
        fs::set_permissions(repository.index(), fs::Permissions::from_mode(mode)).unwrap();
        repository.assert_survives();
        assert_eq!(
            fs::metadata(repository.index())
                .unwrap()
                .permissions()
                .mode()
                & 0o7777,
            mode
        );
    }
}

#[test]
fn the_file_behind_a_link_is_replaced() {
    let repository = Repository::with_files();
    let target = repository.folder().join(".git/real");
    fs::rename(repository.index(), &target).unwrap();
    symlink("real", repository.index()).unwrap();
    let lock = IndexLock::acquire(
        &repository.index(),
        &repository.own(),
        Duration::ZERO,
        &Disk::unsynced(),
    )
    .unwrap();
    assert!(repository.folder().join(".git/real.lock").exists());
    drop(lock);
    repository.assert_survives();
    assert!(repository.index().is_symlink());
}

#[test]
fn a_folder_that_is_not_there_is_an_error_at_once() {
    let repository = Repository::new();
    let refused = IndexLock::acquire(
        &repository.folder().join("none/index"),
        &repository.own(),
        Duration::from_mins(1),
        &Disk::unsynced(),
    )
    .unwrap_err();
    assert!(matches!(refused, CheckpointError::Io { .. }));
}
