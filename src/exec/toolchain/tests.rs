use std::collections::BTreeMap;
use std::ffi::OsString;

use super::*;

fn around(variables: &[(&str, &str)]) -> CallEnvironment {
    let pair = |(name, value): &(&str, &str)| (OsString::from(name), OsString::from(value));
    CallEnvironment {
        root: PathBuf::from("/srv/project"),
        home: Some(PathBuf::from("/home/me")),
        environment: variables.iter().map(pair).collect::<BTreeMap<_, _>>(),
    }
}

fn folders(cache: &str, around: &CallEnvironment) -> Vec<(String, bool)> {
    let declared = match KnownCache::parse(cache) {
        Some(known) => DeclaredCache::Known(known),
        None => DeclaredCache::Folder(cache.to_owned()),
    };
    find_cache(&declared, around)
        .iter()
        .flat_map(|found| {
            let shown = |path: &PathBuf| (path.display().to_string(), found.is_usual);
            found.writable.iter().map(shown)
        })
        .collect()
}

fn usual(paths: &[&str]) -> Vec<(String, bool)> {
    let pair = |path: &&str| ((*path).to_owned(), true);
    paths.iter().map(pair).collect()
}

#[test]
fn known_caches_are_in_the_home() {
    let around = around(&[]);
    let cargo = [
        "/home/me/.cargo/registry",
        "/home/me/.cargo/git",
        "/home/me/.cargo/.package-cache",
        "/home/me/.cargo/.package-cache-mutate",
    ];
    assert_eq!(folders("cargo", &around), usual(&cargo));
    let go = ["/home/me/.cache/go-build", "/home/me/go/pkg/mod"];
    assert_eq!(folders("go", &around), usual(&go));
    assert_eq!(folders("npm", &around), usual(&["/home/me/.npm"]));
    assert_eq!(folders("pip", &around), usual(&["/home/me/.cache/pip"]));
    assert_eq!(folders("uv", &around), usual(&["/home/me/.cache/uv"]));
}

#[test]
fn a_variable_moves_a_cache_to_where_it_is_not_usual() {
    let moved = around(&[
        ("PIP_CACHE_DIR", "/home/me/.ssh"),
        ("XDG_CACHE_HOME", "/home/me"),
        ("UV_CACHE_DIR", "relative"),
        ("NPM_CONFIG_CACHE", "/srv/project/.npm"),
    ]);
    let unusual = |path: &str| vec![(path.to_owned(), false)];
    assert_eq!(folders("pip", &moved), unusual("/home/me/.ssh"));
    assert_eq!(folders("uv", &moved), unusual("/home/me/uv"));
    assert_eq!(folders("npm", &moved), usual(&["/srv/project/.npm"]));
}

#[test]
fn a_folder_is_never_usual_and_needs_a_home_for_a_tilde() {
    let mut around = around(&[]);
    let unusual = |path: &str| vec![(path.to_owned(), false)];
    assert_eq!(
        folders("~/.cache/thing", &around),
        unusual("/home/me/.cache/thing")
    );
    assert_eq!(folders("/var/thing", &around), unusual("/var/thing"));
    around.home = None;
    assert_eq!(folders("~/.cache/thing", &around), []);
    assert_eq!(folders("pip", &around), []);
}

#[test]
fn a_path_belongs_to_the_cache_that_holds_it() {
    let around = around(&[]);
    let of = |path: &str| cache_of(Path::new(path), &around);
    assert_eq!(
        of("/home/me/.cargo/registry/index"),
        Some(KnownCache::Cargo)
    );
    assert_eq!(of("/home/me/.cargo/config.toml"), None);
    assert_eq!(of("/home/me/.cache/pip/http"), Some(KnownCache::Pip));
    assert_eq!(of("/home/me/.ssh/id"), None);
}
