//! Tests of the search for the project.

use tempfile::TempDir;

use super::*;

/// A temporary folder with `home/` in it; the tests create the rest.
struct Ground(TempDir);

impl Ground {
    fn new(folders: &[&str]) -> Self {
        let ground = Self(tempfile::tempdir().unwrap());
        for folder in folders.iter().chain(&["home"]) {
            fs::create_dir_all(ground.path(folder)).unwrap();
        }
        ground
    }

    fn path(&self, path: &str) -> PathBuf {
        fs::canonicalize(self.0.path()).unwrap().join(path)
    }

    fn environment(&self, cwd: &str) -> Environment {
        let variables = BTreeMap::from([("HOME".into(), self.path("home").into())]);
        Environment::new(variables, self.path(cwd))
    }

    fn find(&self, cwd: &str) -> Result<(PathBuf, FoundBy), ContextError> {
        Context::discover(self.environment(cwd), None).map(|ctx| (ctx.root, ctx.found_by))
    }
}

#[test]
fn the_nearest_folder_with_items_is_the_project() {
    let ground = Ground::new(&["repo/.git", "repo/.ai", "repo/part/.ai", "repo/part/src"]);
    assert_eq!(
        ground.find("repo/part/src").unwrap(),
        (ground.path("repo/part"), FoundBy::Items)
    );
    assert_eq!(
        ground.find("repo").unwrap(),
        (ground.path("repo"), FoundBy::Items)
    );
}

#[test]
fn without_items_it_is_the_top_of_the_work_tree() {
    let ground = Ground::new(&["repo/.git", "repo/src/deep"]);
    assert_eq!(
        ground.find("repo/src/deep").unwrap(),
        (ground.path("repo"), FoundBy::Git)
    );
}

#[test]
fn a_linked_work_tree_or_submodule_is_a_top_of_its_own() {
    let ground = Ground::new(&["repo/.git", "repo/.ai", "repo/linked/src"]);
    fs::write(ground.path("repo/linked/.git"), "gitdir: elsewhere\n").unwrap();
    assert_eq!(
        ground.find("repo/linked/src").unwrap(),
        (ground.path("repo/linked"), FoundBy::Git)
    );
}

#[test]
fn a_file_named_like_the_items_folder_is_not_one() {
    let ground = Ground::new(&["repo/.git", "repo/src"]);
    fs::write(ground.path("repo/src/.ai"), "").unwrap();
    assert_eq!(
        ground.find("repo/src").unwrap(),
        (ground.path("repo"), FoundBy::Git)
    );
}

#[test]
fn without_git_the_search_ends_below_the_home() {
    let ground = Ground::new(&[
        ".ai",
        "home/.ai",
        "home/work/.ai",
        "home/work/deep",
        "home/other",
    ]);
    assert_eq!(
        ground.find("home/work/deep").unwrap(),
        (ground.path("home/work"), FoundBy::Items)
    );
    assert_eq!(
        ground.find("home/other").unwrap(),
        (ground.path("home/other"), FoundBy::WorkingFolder)
    );
}

#[test]
fn the_home_is_refused_even_as_a_work_tree() {
    let ground = Ground::new(&["home/.git", "home/.ai", "home/plain", "home/work/.ai"]);
    for folder in ["home", "home/plain"] {
        assert!(
            matches!(ground.find(folder), Err(ContextError::RootIsHome(_))),
            "{folder}"
        );
    }
    assert_eq!(
        ground.find("home/work").unwrap(),
        (ground.path("home/work"), FoundBy::Items)
    );
}

#[cfg(unix)]
#[test]
fn a_link_to_the_home_is_the_home() {
    let ground = Ground::new(&[]);
    std::os::unix::fs::symlink(ground.path("home"), ground.path("alias")).unwrap();
    assert!(matches!(
        ground.find("alias"),
        Err(ContextError::RootIsHome(_))
    ));
    let variables = BTreeMap::from([("HOME".into(), ground.path("alias").into())]);
    let found = Context::discover(Environment::new(variables, ground.path("home")), None);
    assert!(matches!(found, Err(ContextError::RootIsHome(_))));
}

#[test]
fn a_flag_moves_to_another_folder() {
    let ground = Ground::new(&["one", "two/.ai"]);
    let ctx = Context::discover(ground.environment("one"), Some(Path::new("../two"))).unwrap();
    assert_eq!(
        (ctx.root, ctx.cwd),
        (ground.path("two"), ground.path("two"))
    );
    fs::write(ground.path("file"), "").unwrap();
    let found = Context::discover(ground.environment("one"), Some(Path::new("../file")));
    assert!(matches!(found, Err(ContextError::NotAFolder { .. })));
}

#[test]
fn a_removed_working_folder_does_not_matter_when_another_is_named() {
    let ground = Ground::new(&["project/.ai"]);
    let gone = Environment::default();
    let found = Context::discover(gone.clone(), Some(&ground.path("project"))).unwrap();
    assert_eq!(found.root, ground.path("project"));
    for folder in [None, Some(Path::new("project"))] {
        assert!(matches!(
            Context::discover(gone.clone(), folder),
            Err(ContextError::NoWorkingFolder)
        ));
    }
}

#[test]
fn a_home_that_is_relative_or_empty_is_none() {
    let ground = Ground::new(&["work"]);
    for home in ["", "home"] {
        let variables = BTreeMap::from([("HOME".into(), home.into())]);
        let ctx =
            Context::discover(Environment::new(variables, ground.path("work")), None).unwrap();
        assert_eq!(ctx.home, None);
    }
}

#[test]
fn paths_are_shown_relative_to_the_project() {
    let ground = Ground::new(&["work"]);
    let ctx = Context::discover(ground.environment("work"), None).unwrap();
    assert_eq!(
        ctx.shown_path(&ground.path("work/.ai/x.md")),
        PathBuf::from(".ai/x.md")
    );
    assert_eq!(
        ctx.shown_path(&ground.path("home/.ai/x.md")),
        ground.path("home/.ai/x.md")
    );
    assert_eq!(ctx.project_items(), ground.path("work/.ai"));
    assert_eq!(ctx.home, Some(ground.path("home")));
}

#[test]
fn the_data_of_git_is_not_a_project() {
    let ground = Ground::new(&["bare.git/objects", "bare.git/refs", "bare.git/hooks"]);
    fs::write(ground.path("bare.git/HEAD"), "ref: refs/heads/main\n").unwrap();
    for folder in ["bare.git", "bare.git/hooks"] {
        assert!(
            matches!(ground.find(folder), Err(ContextError::InsideGitData(_))),
            "{folder}"
        );
    }
}

#[test]
fn programs_see_no_variables_that_point_git_at_a_repository() {
    #[expect(clippy::disallowed_methods, reason = "git knows them best")]
    let local = std::process::Command::new("git")
        .args(["rev-parse", "--local-env-vars"])
        .output()
        .unwrap();
    let local = String::from_utf8(local.stdout).unwrap();
    let hidden = local.lines().chain([
        "GIT_QUARANTINE_PATH",
        "GIT_NAMESPACE",
        "GIT_INTERNAL_SUPER_PREFIX",
    ]);
    let hidden = hidden.chain(["GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_12"]);
    let kept = [
        "GIT_AUTHOR_NAME",
        "GIT_CONFIG_GLOBAL",
        "GIT_EDITOR",
        "GIT_SSH_COMMAND",
        "PATH",
        "XGIT_DIR",
    ];
    let variables = hidden
        .chain(kept)
        .map(|name| (name.into(), "value".into()))
        .collect();
    let seen = Environment::new(variables, "/".into()).without_git_variables();
    assert_eq!(seen.keys().collect::<Vec<_>>(), kept);
}
