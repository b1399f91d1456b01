use std::path::Path;

use super::{Confinement, MountView, TcpRule};

fn confined(writable: &[&str], read_only: &[&str]) -> Vec<(String, bool)> {
    mounts(MountView::Shared, writable, read_only)
}

fn mounts(view: MountView, writable: &[&str], read_only: &[&str]) -> Vec<(String, bool)> {
    let paths = |paths: &[&str]| paths.iter().map(Into::into).collect();
    let mut confinement = Confinement::new(&[], &[], &[], view, TcpRule::Any);
    confinement.writable = paths(writable);
    confinement.read_only = paths(read_only);
    let mounts = confinement.mounts();
    let told = |path: &Path| path.to_string_lossy().into_owned();
    mounts
        .iter()
        .filter(|mount| mount.path != Path::new("/dev/shm"))
        .map(|mount| (told(mount.path), mount.is_read_only))
        .collect()
}

fn read_only(path: &str) -> (String, bool) {
    (path.to_owned(), true)
}

fn writable(path: &str) -> (String, bool) {
    (path.to_owned(), false)
}

#[test]
fn only_what_lies_in_a_writable_folder_needs_a_mount() {
    assert!(confined(&["/p"], &["/git", "/pp/.git"]).is_empty());
    assert_eq!(
        confined(&["/p"], &["/p/.git", "/p/.ai", "/p/.git/modules"]),
        [read_only("/p/.git"), read_only("/p/.ai")]
    );
}

#[test]
fn a_writable_folder_in_a_read_only_one_is_mounted_on_top() {
    assert_eq!(
        confined(&["/p", "/p/.ai/notes", "/p/src"], &["/p/.ai"]),
        [read_only("/p/.ai"), writable("/p/.ai/notes")]
    );
    assert_eq!(
        confined(&["/tmp", "/tmp/p/docs"], &["/tmp/p", "/tmp/p/docs/.git"]),
        [
            read_only("/tmp/p"),
            writable("/tmp/p/docs"),
            read_only("/tmp/p/docs/.git")
        ]
    );
    assert_eq!(confined(&["/p"], &["/p"]), [read_only("/p")]);
}

#[test]
fn where_everything_else_is_read_only_each_writable_folder_needs_a_mount() {
    let own = |writable: &[&str], guarded: &[&str]| mounts(MountView::Own, writable, guarded);
    assert_eq!(
        own(&["/p", "/p/sub", "/tmp"], &["/git", "/p/.git"]),
        [writable("/p"), writable("/tmp"), read_only("/p/.git")]
    );
    assert_eq!(own(&["/git/home"], &["/git"]), [writable("/git/home")]);
}

#[test]
fn folders_on_the_way_to_a_read_only_one_cannot_be_moved() {
    let own = |writable: &[&str], guarded: &[&str]| mounts(MountView::Own, writable, guarded);
    assert_eq!(
        own(&["/p"], &["/p/a/b/git", "/p/a/c/git", "/q/r/git"]),
        [
            writable("/p"),
            writable("/p/a"),
            writable("/p/a/b"),
            writable("/p/a/c"),
            read_only("/p/a/b/git"),
            read_only("/p/a/c/git"),
        ]
    );
    // A project below the temporary folder.
    assert_eq!(
        own(&["/tmp", "/tmp/x/p"], &["/tmp/x/p/.git"]),
        [
            writable("/tmp"),
            writable("/tmp/x"),
            writable("/tmp/x/p"),
            read_only("/tmp/x/p/.git"),
        ]
    );
}

#[test]
fn a_hidden_home_shows_what_is_written_or_named_only() {
    let mut confinement = Confinement::new(&[], &[], &[], MountView::Own, TcpRule::Any);
    confinement.writable = ["/home/user/project", "/tmp"].map(Into::into).into();
    confinement.homes = vec!["/home/user".into()];
    confinement.visible = [
        "/home/user/bin/piton",
        "/home/user/project/lib",
        "/usr/lib/tool",
    ]
    .map(Into::into)
    .into();
    let seen = confinement.seen_in(Path::new("/home/user"));
    assert_eq!(
        seen,
        ["/home/user/project", "/home/user/bin/piton"].map(Path::new)
    );
    let hides = |path: &str| confinement.hides(Path::new(path));
    assert!(hides("/home/user") && hides("/home/user/.ssh/id") && hides("/home/user/projects"));
    assert!(!hides("/home/user/project/a") && !hides("/home/user/bin/piton"));
    assert!(!hides("/usr/bin/env") && !hides("/tmp/x"));
}
