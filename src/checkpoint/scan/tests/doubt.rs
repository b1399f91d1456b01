//! Cases in which stat fields or timestamps prove nothing.

use super::*;

#[test]
fn a_file_of_the_same_size_and_time_is_not_mistaken() {
    let repo = Repo::new();
    repo.write("a", "one");
    repo.write("u", "one");
    repo.git(&["add", "a"]);
    let time = fs::metadata(repo.at("a")).unwrap().modified().unwrap();
    let before = repo.scan();
    for path in ["a", "u"] {
        repo.write(path, "two");
        fs::File::options()
            .write(true)
            .open(repo.at(path))
            .unwrap()
            .set_modified(time)
            .unwrap();
    }
    let after = repo
        .scan_with(&before.cache, &before.ignore_rules, &OPTIONS)
        .unwrap()
        .0;
    assert_eq!(repo.laid_over(&after), repo.truth());
    assert_eq!(changed(&after), ["a", "u"]);
}

#[test]
fn the_cache_answers_only_while_the_object_is_stored() {
    let repo = Repo::new();
    repo.write("u", "one");
    std::thread::sleep(std::time::Duration::from_millis(20));
    let (first, stored) = repo
        .scan_with(&StatCache::default(), &repo.rules(), &OPTIONS)
        .unwrap();
    assert_eq!(stored.len(), 1);
    let (second, again) = repo
        .scan_with(&first.cache, &repo.rules(), &OPTIONS)
        .unwrap();
    assert_eq!((&second.files, again), (&first.files, vec![]));
    let tree = WorkTree::open(repo.folder.path(), &repo.at(".git/piton/tmp"), Fsync::Auto).unwrap();
    let mut count = 0;
    let mut store = |blobs: &[Blob]| {
        count += blobs.len();
        Ok(())
    };
    let mut sink = Sink {
        holds: &mut |_| false,
        store: &mut store,
        keep_large: &mut |_| Ok(None),
    };
    scan(
        &tree,
        &repo.index(),
        &first.cache,
        &repo.rules(),
        &OPTIONS,
        &mut sink,
    )
    .unwrap();
    assert_eq!(count, 1);
}

#[test]
fn the_executable_bit_comes_from_the_index_where_the_disk_has_none() {
    let repo = Repo::new();
    repo.write("script", "x");
    repo.write("plain", "x");
    repo.git(&["add", "-A"]);
    repo.git(&["update-index", "--chmod=+x", "script"]);
    fs::set_permissions(repo.at("plain"), fs::Permissions::from_mode(0o755)).unwrap();
    repo.git(&["config", "core.fileMode", "false"]);
    let options = ScanOptions {
        executable: Executable::FromIndex,
        ..OPTIONS
    };
    let scan = repo
        .scan_with(&StatCache::default(), &repo.rules(), &options)
        .unwrap()
        .0;
    assert_eq!(changed(&scan), Vec::<String>::new());
    assert_eq!(repo.laid_over(&scan), repo.truth());
    assert_eq!(changed(&repo.scan()), ["plain", "script"]);
}

#[test]
fn files_that_come_and_go_during_the_scan_are_no_error() {
    let repo = Repo::new();
    for number in 0..300 {
        repo.write(&format!("d{}/f{number}", number % 10), "text");
    }
    repo.git(&["add", "-A"]);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let still: BTreeSet<String> = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                for number in 0..5 {
                    remove(&repo.at(format!("d{number}")));
                    repo.write(&format!("d{number}"), "file");
                    remove(&repo.at(format!("d{number}")));
                    repo.write(&format!("d{number}/new"), "x");
                }
            }
        });
        let scans: Vec<_> = (0..50)
            .map(|_| repo.scan_with(&StatCache::default(), &repo.rules(), &OPTIONS))
            .collect();
        // Check after the other thread has stopped: a failure here must not wait for it.
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        scans
    })
    .into_iter()
    .flat_map(|scan| changed(&scan.unwrap().0))
    .collect();
    let elsewhere = |path: &String| (5..10).any(|number| path.contains(&format!("d{number}/")));
    assert!(!still.iter().any(elsewhere), "{still:?}");
    repo.assert_as_git();
}

#[test]
fn an_entry_that_proves_nothing_is_hashed() {
    let repo = Repo::new();
    repo.write("file", "text");
    repo.write("emptied", "");
    repo.git(&["add", "-A"]);
    let tree = WorkTree::open(repo.folder.path(), &repo.at(".git/piton/tmp"), Fsync::Auto).unwrap();
    let scan_as = |path: &str, modified: SystemTime| {
        fs::File::options()
            .write(true)
            .open(repo.at(path))
            .unwrap()
            .set_modified(modified)
            .unwrap();
        repo.git(&["update-index", "--refresh"]);
        let index = repo.index();
        // The stat fields are right and the content wrong, as after an edit within one tick of the
        // clock.
        let entry = IndexEntry {
            id: ObjectId::zero(ObjectFormat::Sha1),
            ..*index.get(index.find(path.as_bytes()).unwrap()).unwrap()
        };
        let index = index.edited(&BTreeMap::from([(path.into(), Some(entry))]));
        let mut sink = Sink {
            holds: &mut |_| true,
            store: &mut |_| Ok(()),
            keep_large: &mut |_| Ok(None),
        };
        let scan = scan(
            &tree,
            &index,
            &StatCache::default(),
            &repo.rules(),
            &OPTIONS,
            &mut sink,
        );
        scan.unwrap().files.contains_key(path.as_bytes())
    };
    let now = fs::metadata(repo.at("file")).unwrap().modified().unwrap();
    let (early, late) = (now - Duration::from_mins(1), now + Duration::from_mins(1));
    assert!(scan_as("file", late));
    assert!(!scan_as("file", early), "the stat was not the recorded one");
    // Git sets the size of an entry that it cannot confirm to 0.
    assert!(scan_as("emptied", early));
}

#[test]
fn a_file_that_never_holds_still_is_an_error() {
    // The system reports this file as empty although it is not, as if it grew at each reading.
    let folder = tempfile::tempdir().unwrap();
    let tree = WorkTree::open(Path::new("/proc/self"), folder.path(), Fsync::Auto).unwrap();
    let pending = content::PendingFile {
        path: "status".into(),
        tracked: None,
        mode: FileMode::Regular,
        stat: Stat::default(),
        permissions: 0o444,
        size: 0,
        known: None,
    };
    let mut sink = Sink {
        holds: &mut |_| true,
        store: &mut |_| Ok(()),
        keep_large: &mut |_| Ok(None),
    };
    let error = content::resolve(
        &tree,
        TrackedFiles::of(&Index::empty(ObjectFormat::Sha1)),
        &OPTIONS,
        vec![pending],
        &mut sink,
    )
    .unwrap_err();
    assert!(
        matches!(&error, CheckpointError::Changing(path) if *path == RepoPath::from("status")),
        "{error:?}"
    );
}
