//! Tests of the lock. Opening the file twice makes two locks that exclude each other, as in two
//! processes.

use crate::problem::{Code, Explain as _};
use std::fs;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::*;

fn holder(number: u8) -> Holder {
    let run = format!("01kdz3gqc8000000000000000{number}")
        .parse()
        .unwrap();
    Holder::of_process(run, "2026-01-02T03:04:05Z".parse().unwrap())
}

fn acquire(
    folder: &TempDir,
    number: u8,
    wait: u64,
) -> Result<(RunLock, Option<Holder>), LockError> {
    RunLock::acquire(
        &folder.path().join("piton"),
        &holder(number),
        Duration::from_millis(wait),
        &Disk::unsynced(),
    )
}

fn current(folder: &TempDir) -> Option<Holder> {
    current_holder(&folder.path().join("piton"))
}

#[test]
fn the_lock_is_held_until_it_is_released() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(current(&folder), None);
    let (lock, previous) = acquire(&folder, 1, 0).unwrap();
    assert_eq!(previous, None);
    assert_eq!(current(&folder), Some(holder(1)));
    let err = acquire(&folder, 2, 30).unwrap_err();
    let LockError::Held {
        holder: Some(found),
    } = &err
    else {
        panic!("{err}")
    };
    assert_eq!(**found, holder(1));
    assert_eq!((err.code(), err.hint().is_some()), (Code::Locked, true));
    let shown = format!("process {} on", std::process::id());
    assert!(err.to_string().contains(&shown), "{err}");
    lock.release().unwrap();
    assert_eq!(current(&folder), None);
    assert!(
        folder.path().join("piton/lock").exists(),
        "removing it would let two in"
    );
    let (_lock, previous) = acquire(&folder, 2, 0).unwrap();
    assert_eq!(previous, None);
}

#[test]
fn the_next_holder_learns_of_a_holder_that_died() {
    let folder = tempfile::tempdir().unwrap();
    let (lock, _) = acquire(&folder, 1, 0).unwrap();
    drop(lock);
    let (lock, previous) = acquire(&folder, 2, 0).unwrap();
    assert_eq!(previous, Some(holder(1)));
    lock.release().unwrap();
    assert_eq!(acquire(&folder, 3, 0).unwrap().1, None);
}

#[test]
fn a_lock_that_is_given_back_is_as_it_was_found() {
    let folder = tempfile::tempdir().unwrap();
    drop(acquire(&folder, 1, 0).unwrap());
    let path = folder.path().join("piton/lock");
    let state = || {
        (
            fs::read(&path).unwrap(),
            fs::metadata(&path).unwrap().modified().unwrap(),
        )
    };
    let before = state();
    let (lock, previous) = acquire(&folder, 2, 0).unwrap();
    lock.give_back(previous.as_ref()).unwrap();
    assert_eq!(state(), before);
    let (lock, previous) = acquire(&folder, 3, 0).unwrap();
    assert_eq!(previous, Some(holder(1)));
    lock.release().unwrap();
    let (lock, previous) = acquire(&folder, 4, 0).unwrap();
    lock.give_back(previous.as_ref()).unwrap();
    assert_eq!(acquire(&folder, 5, 0).unwrap().1, None);
}

#[test]
fn a_shorter_holder_record_replaces_a_longer_one() {
    let folder = tempfile::tempdir().unwrap();
    let long = Holder {
        host: "h".repeat(300),
        ..holder(1)
    };
    drop(
        RunLock::acquire(
            &folder.path().join("piton"),
            &long,
            Duration::ZERO,
            &Disk::unsynced(),
        )
        .unwrap(),
    );
    let (lock, previous) = acquire(&folder, 2, 0).unwrap();
    assert_eq!(previous, Some(long));
    drop(lock);
    let (lock, previous) = acquire(&folder, 3, 0).unwrap();
    assert_eq!(previous.map(|previous| previous.run), Some(holder(2).run));
    // Neither run has been recovered yet.
    let unfinished: Vec<RunId> = lock
        .unfinished()
        .iter()
        .map(|unfinished| unfinished.run)
        .collect();
    assert_eq!(unfinished, [holder(1).run, holder(2).run]);
}

#[test]
fn waiting_ends_when_the_lock_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let (lock, _) = acquire(&folder, 1, 0).unwrap();
    thread::scope(|scope| {
        let second = scope.spawn(|| acquire(&folder, 2, 60_000).map(|(_, previous)| previous));
        thread::sleep(Duration::from_millis(20));
        lock.release().unwrap();
        assert_eq!(second.join().unwrap().unwrap(), None);
    });
}

#[test]
fn two_processes_exclude_each_other_and_death_frees_the_lock() {
    const VARIABLE: &str = "PITON_LOCK_CHILD";
    let test = "journal::lock::tests::two_processes_exclude_each_other_and_death_frees_the_lock";
    #[expect(clippy::disallowed_methods, reason = "the test starts itself again")]
    if let Some(folder) = std::env::var_os(VARIABLE) {
        let _lock = RunLock::acquire(
            Path::new(&folder),
            &holder(1),
            Duration::ZERO,
            &Disk::unsynced(),
        )
        .unwrap();
        fs::write(Path::new(&folder).join("ready"), "").unwrap();
        thread::sleep(Duration::from_mins(10));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    #[expect(clippy::disallowed_methods, reason = "the test starts itself again")]
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(VARIABLE, folder.path().join("piton"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while !folder.path().join("piton/ready").exists() {
        thread::sleep(Duration::from_millis(5));
    }
    let err = acquire(&folder, 2, 0).unwrap_err();
    let LockError::Held {
        holder: Some(found),
    } = err
    else {
        panic!("{err}")
    };
    assert_eq!(found.pid, child.id());
    assert_eq!(current(&folder), Some(*found.clone()));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(current(&folder), None);
    let (_lock, previous) = acquire(&folder, 2, 5_000).unwrap();
    assert_eq!(previous, Some(*found));
}

#[test]
fn programs_do_not_inherit_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    let (lock, _) = acquire(&folder, 1, 0).unwrap();
    let flags = rustix::io::fcntl_getfd(lock.file.as_fd()).unwrap();
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    #[expect(
        clippy::disallowed_methods,
        reason = "a program that outlives the lock"
    )]
    let mut sleeper = Command::new("sleep").arg("600").spawn().unwrap();
    lock.release().unwrap();
    let second = acquire(&folder, 2, 0);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    second.unwrap();
}

#[test]
fn a_file_without_a_holder_record_has_no_holder() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("piton")).unwrap();
    for content in [&b""[..], b"\n", b"{\"run\":", b"\xff\0", b"[1]\n{}"] {
        fs::write(folder.path().join("piton/lock"), content).unwrap();
        assert_eq!(current(&folder), None);
        let (lock, previous) = acquire(&folder, 1, 0).unwrap();
        assert_eq!(previous, None);
        drop(lock);
    }
}

#[test]
fn a_holder_from_another_boot_is_dead_and_one_of_another_machine_may_be_alive() {
    let alive = holder(1);
    assert!(alive.may_be_alive());
    assert!(
        !Holder {
            boot: Some("earlier".to_owned()),
            ..alive.clone()
        }
        .may_be_alive()
    );
    assert!(
        !Holder {
            process_started: Some(1),
            ..alive.clone()
        }
        .may_be_alive()
    );
    assert!(
        !Holder {
            pid: u32::MAX,
            process_started: None,
            ..alive.clone()
        }
        .may_be_alive()
    );
    assert!(
        Holder {
            host: "elsewhere".to_owned(),
            pid: u32::MAX,
            ..alive
        }
        .may_be_alive()
    );
}

#[test]
fn a_symlink_as_lock_file_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("piton")).unwrap();
    fs::write(folder.path().join("precious"), "text").unwrap();
    std::os::unix::fs::symlink(
        folder.path().join("precious"),
        folder.path().join("piton/lock"),
    )
    .unwrap();
    assert_eq!(acquire(&folder, 1, 0).unwrap_err().code(), Code::LockFailed);
    assert_eq!(
        fs::read_to_string(folder.path().join("precious")).unwrap(),
        "text"
    );
}
