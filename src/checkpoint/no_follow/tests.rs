use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

struct Place {
    folder: tempfile::TempDir,
    tree: WorkTree,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().join("top");
        fs::create_dir(&top).unwrap();
        let tree = WorkTree::open(&top, &folder.path().join("git/piton/tmp"), Fsync::Auto).unwrap();
        Self { folder, tree }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn permissions(&self, path: &str) -> u32 {
        fs::symlink_metadata(self.at(path))
            .unwrap()
            .permissions()
            .mode()
            & 0o7777
    }
}

#[test]
fn a_file_is_written_with_its_permissions_and_missing_folders() {
    let place = Place::new();
    place
        .tree
        .write_file(&"a/b/c".into(), b"text", 0o4751)
        .unwrap();
    assert_eq!(fs::read(place.at("top/a/b/c")).unwrap(), b"text");
    assert_eq!(place.permissions("top/a/b/c"), 0o4751);
    place
        .tree
        .write_file(&"a/b/c".into(), b"other", 0o600)
        .unwrap();
    let (bytes, state) = place.tree.read(&"a/b/c".into()).unwrap().unwrap();
    assert_eq!(bytes, b"other");
    assert!(matches!(
        state,
        PathState::File {
            permissions: 0o600,
            size: 5,
            ..
        }
    ));
    assert_eq!(place.tree.state(&"a/b/c".into()).unwrap(), Some(state));
    assert_eq!(fs::read_dir(place.at("git/piton/tmp")).unwrap().count(), 0);
}

#[test]
fn nothing_is_written_removed_or_read_through_a_linked_folder() {
    let place = Place::new();
    fs::create_dir(place.at("outside")).unwrap();
    fs::write(place.at("outside/file"), "precious").unwrap();
    symlink(place.at("outside"), place.at("top/d")).unwrap();
    let path = RepoPath::from("d/file");
    assert!(place.tree.write_file(&path, b"broken", 0o644).is_err());
    assert!(
        place
            .tree
            .write_file(&"d/new/file".into(), b"broken", 0o644)
            .is_err()
    );
    assert!(place.tree.write_link(&path, b"broken").is_err());
    assert!(place.tree.remove_file(&path).is_err());
    assert!(place.tree.make_folder(&"d/new".into(), 0o755).is_err());
    assert!(place.tree.make_folder(&"d".into(), 0o700).is_err());
    assert!(place.tree.set_permissions(&path, 0o600).is_err());
    place.tree.remove_folder_if_empty(&"d".into()).unwrap();
    assert_eq!(place.tree.state(&path).unwrap(), None);
    assert_eq!(place.tree.read(&path).unwrap(), None);
    assert_eq!(fs::read(place.at("outside/file")).unwrap(), b"precious");
    assert_eq!(place.permissions("outside/file"), 0o644);
    assert_eq!(fs::read_dir(place.at("outside")).unwrap().count(), 1);
    assert!(
        fs::symlink_metadata(place.at("top/d"))
            .unwrap()
            .is_symlink()
    );
}

#[test]
fn a_link_in_the_place_of_a_file_is_replaced_not_followed() {
    let place = Place::new();
    fs::write(place.at("outside"), "precious").unwrap();
    symlink(place.at("outside"), place.at("top/link")).unwrap();
    let path = RepoPath::from("link");
    assert_eq!(place.tree.read(&path).unwrap(), None);
    assert_eq!(
        place.tree.read_link(&path).unwrap().unwrap(),
        place.at("outside").as_os_str().as_bytes()
    );
    place.tree.set_permissions(&path, 0o600).unwrap();
    place.tree.write_file(&path, b"mine", 0o644).unwrap();
    assert_eq!(fs::read(place.at("outside")).unwrap(), b"precious");
    assert_eq!(place.permissions("outside"), 0o644);
    assert_eq!(fs::read(place.at("top/link")).unwrap(), b"mine");
    assert_eq!(place.tree.read_link(&path).unwrap(), None);
    place.tree.write_link(&path, b"no/where").unwrap();
    assert_eq!(
        fs::read_link(place.at("top/link")).unwrap(),
        Path::new("no/where")
    );
}

#[test]
fn unsafe_paths_are_refused_by_every_operation() {
    let place = Place::new();
    fs::write(place.at("file"), "precious").unwrap();
    for path in [
        "../file",
        "a/../../file",
        ".git/config",
        "sub/.GIT/x",
        "",
        "/etc/x",
        "git~1",
        ".g\u{200c}it/x",
    ] {
        let path = RepoPath::from(path);
        assert!(place.tree.state(&path).is_err(), "{path}");
        assert!(place.tree.read(&path).is_err(), "{path}");
        assert!(place.tree.read_link(&path).is_err(), "{path}");
        assert!(place.tree.write_file(&path, b"x", 0o644).is_err(), "{path}");
        assert!(place.tree.write_link(&path, b"x").is_err(), "{path}");
        assert!(place.tree.remove_file(&path).is_err(), "{path}");
        assert!(place.tree.remove_folder_if_empty(&path).is_err(), "{path}");
        assert!(place.tree.make_folder(&path, 0o755).is_err(), "{path}");
        assert!(place.tree.set_permissions(&path, 0o600).is_err(), "{path}");
    }
    assert_eq!(fs::read(place.at("file")).unwrap(), b"precious");
    assert_eq!(fs::read_dir(place.at("top")).unwrap().count(), 0);
}

#[test]
fn a_pipe_is_special_and_is_not_opened() {
    let place = Place::new();
    system::mknodat(
        place.tree.fd(),
        "pipe",
        FileType::Fifo,
        Mode::from_bits_truncate(0o644),
        0,
    )
    .unwrap();
    assert_eq!(
        place.tree.state(&"pipe".into()).unwrap(),
        Some(PathState::Special)
    );
    assert_eq!(place.tree.read(&"pipe".into()).unwrap(), None);
    place.tree.set_permissions(&"pipe".into(), 0o600).unwrap();
    assert_eq!(place.permissions("top/pipe"), 0o644);
}

#[test]
fn folders_are_made_changed_and_removed_only_when_empty() {
    let place = Place::new();
    place.tree.make_folder(&"a/b".into(), 0o2750).unwrap();
    assert_eq!(place.permissions("top/a/b"), 0o2750);
    assert_eq!(
        place.tree.state(&"a/b".into()).unwrap(),
        Some(PathState::Folder {
            permissions: 0o2750
        })
    );
    place.tree.set_permissions(&"a/b".into(), 0o700).unwrap();
    assert_eq!(place.permissions("top/a/b"), 0o700);
    place.tree.remove_folder_if_empty(&"a".into()).unwrap();
    assert!(place.at("top/a/b").is_dir());
    place.tree.remove_folder_if_empty(&"a/b".into()).unwrap();
    place.tree.remove_folder_if_empty(&"a/b".into()).unwrap();
    place.tree.remove_folder_if_empty(&"a".into()).unwrap();
    assert!(!place.at("top/a").exists());
}

#[test]
fn a_file_is_not_written_over_a_folder_and_leaves_nothing_behind() {
    let place = Place::new();
    fs::create_dir(place.at("top/a")).unwrap();
    fs::write(place.at("top/file"), "x").unwrap();
    assert!(place.tree.write_file(&"a".into(), b"x", 0o644).is_err());
    assert!(
        place
            .tree
            .write_file(&"file/below".into(), b"x", 0o644)
            .is_err()
    );
    assert!(place.tree.remove_file(&"a".into()).is_err());
    assert_eq!(place.tree.state(&"file/below".into()).unwrap(), None);
    assert_eq!(fs::read_dir(place.at("git/piton/tmp")).unwrap().count(), 0);
    place.tree.remove_file(&"file".into()).unwrap();
    place.tree.remove_file(&"file".into()).unwrap();
}

#[test]
fn a_file_is_written_where_the_temporary_folder_is_on_another_device() {
    let place = Place::new();
    let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
    let tree = WorkTree::open(&place.at("top"), elsewhere.path(), Fsync::Auto).unwrap();
    tree.write_file(&"a/file".into(), b"text", 0o640).unwrap();
    tree.write_link(&"a/link".into(), b"file").unwrap();
    assert_eq!(fs::read(place.at("top/a/link")).unwrap(), b"text");
    assert_eq!(place.permissions("top/a/file"), 0o640);
    assert_eq!(fs::read_dir(place.at("top/a")).unwrap().count(), 2);
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}
