//! The toolchains of the user: the folders that their programs need, and their caches.
//!
//! A tool has a home of its own, so that programs which look for themselves in the home of the user
//! get a variable that names the real folder ([`homes`]). A cache that a tool declares becomes
//! writable ([`CallCache`]); its toolchain finds it by a variable, too.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::call::CallError;
use super::isolation::Confinement;
use super::resolve::CallEnvironment;
use crate::item::tool::{DeclaredCache, KnownCache};

/// Variables of toolchains with their folders below a home. The programs of rustup do not start
/// without theirs.
const HOMES: [(&str, &str); 2] = [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")];

/// A folder of a cache that a tool declares, on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallCache {
    pub name: DeclaredCache,
    pub folder: PathBuf,
    /// The variable that names the folder to the toolchain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variable: Option<&'static str>,
    /// What becomes writable.
    pub writable: Vec<PathBuf>,
    /// Whether it is where the toolchain keeps it by itself. Any other folder has to be allowed by
    /// the user: a project could choose it by a variable.
    #[serde(skip)]
    pub is_usual: bool,
    /// Which of the writable paths are files.
    #[serde(skip)]
    files: Vec<PathBuf>,
}

/// Where a toolchain keeps a cache.
struct CachePlace {
    /// The variables that choose another folder; the first one is set for the tool.
    variables: &'static [&'static str],
    parent: CacheParent,
    name: &'static str,
    /// The folders of it that are caches; empty if all of it is one.
    folders: &'static [&'static str],
    /// Files beside them, such as locks.
    files: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CacheParent {
    Home,
    /// `XDG_CACHE_HOME`, or `.cache` in the home.
    Caches,
}

const fn whole(
    variables: &'static [&'static str],
    parent: CacheParent,
    name: &'static str,
) -> CachePlace {
    CachePlace {
        variables,
        parent,
        name,
        folders: &[],
        files: &[],
    }
}

const CARGO: [CachePlace; 1] = [CachePlace {
    variables: &["CARGO_HOME"],
    parent: CacheParent::Home,
    name: ".cargo",
    // Not its programs, settings and passwords.
    folders: &["registry", "git"],
    files: &[".package-cache", ".package-cache-mutate"],
}];
const GO: [CachePlace; 2] = [
    whole(&["GOCACHE"], CacheParent::Caches, "go-build"),
    whole(&["GOMODCACHE"], CacheParent::Home, "go/pkg/mod"),
];
const NPM: [CachePlace; 1] = [whole(
    &["npm_config_cache", "NPM_CONFIG_CACHE"],
    CacheParent::Home,
    ".npm",
)];
const PIP: [CachePlace; 1] = [whole(&["PIP_CACHE_DIR"], CacheParent::Caches, "pip")];
const UV: [CachePlace; 1] = [whole(&["UV_CACHE_DIR"], CacheParent::Caches, "uv")];

fn places(cache: KnownCache) -> &'static [CachePlace] {
    match cache {
        KnownCache::Cargo => &CARGO,
        KnownCache::Go => &GO,
        KnownCache::Npm => &NPM,
        KnownCache::Pip => &PIP,
        KnownCache::Uv => &UV,
    }
}

/// The variables of toolchains that look for themselves in the home of the user, with their folders
/// if these exist; `true` when the caller has set them.
pub(super) fn homes(around: &CallEnvironment) -> Vec<(&'static str, PathBuf, bool)> {
    let found = HOMES.iter().filter_map(|(variable, name)| {
        let set = absolute(around, variable).map(|folder| (*variable, folder, true));
        let usual = around.home.as_ref().map(|home| home.join(name));
        set.or_else(|| Some((*variable, usual?, false)))
    });
    found.filter(|(_, folder, _)| folder.is_dir()).collect()
}

/// Whether piton itself gives the variable of a toolchain to tools.
pub(super) fn is_home(name: &str) -> bool {
    HOMES.iter().any(|(variable, _)| *variable == name)
}

/// The folders outside of the usual ones that the user allows as caches.
#[derive(Clone, Debug, Default)]
pub struct AllowedCaches {
    folders: Vec<PathBuf>,
}

impl AllowedCaches {
    /// From the texts of the setting, which are absolute or begin with `~/`.
    pub fn of(texts: &[String], home: Option<&Path>) -> Self {
        let folders = texts.iter().filter_map(|text| folder_of(text, home));
        Self {
            folders: folders.collect(),
        }
    }

    /// Whether a folder is one of them. Folders below them are not: a tool could put a symlink there.
    pub fn has(&self, folder: &Path) -> bool {
        self.folders.iter().any(|allowed| allowed == folder)
    }

    /// Whether a cache may be used as it is declared.
    pub fn allows(&self, declared: &DeclaredCache, home: Option<&Path>) -> bool {
        match declared {
            DeclaredCache::Known(_) => true,
            DeclaredCache::Folder(text) => {
                folder_of(text, home).is_some_and(|folder| self.has(&folder))
            }
        }
    }
}

fn folder_of(text: &str, home: Option<&Path>) -> Option<PathBuf> {
    match text.strip_prefix("~/") {
        Some(below) => home.map(|home| home.join(below)),
        None => Some(PathBuf::from(text)),
    }
}

/// The folders of a declared cache; empty if there is no home in which they could be.
pub fn find_cache(declared: &DeclaredCache, around: &CallEnvironment) -> Vec<CallCache> {
    match declared {
        DeclaredCache::Known(cache) => places(*cache)
            .iter()
            .filter_map(|place| place.find(declared, around))
            .collect(),
        DeclaredCache::Folder(text) => {
            let cache = folder_of(text, around.home.as_deref()).map(|folder| CallCache {
                name: declared.clone(),
                variable: None,
                writable: vec![folder.clone()],
                folder,
                is_usual: false,
                files: Vec::new(),
            });
            cache.into_iter().collect()
        }
    }
}

/// The known cache to which a path belongs.
pub fn cache_of(path: &Path, around: &CallEnvironment) -> Option<KnownCache> {
    KnownCache::ALL.into_iter().find(|cache| {
        find_cache(&DeclaredCache::Known(*cache), around)
            .iter()
            .flat_map(|found| &found.writable)
            .any(|folder| {
                let real = folder.canonicalize();
                path.starts_with(folder) || real.is_ok_and(|real| path.starts_with(real))
            })
    })
}

impl CachePlace {
    fn find(&self, declared: &DeclaredCache, around: &CallEnvironment) -> Option<CallCache> {
        let home = around.home.as_deref();
        let chosen = self
            .variables
            .iter()
            .find_map(|variable| absolute(around, variable));
        let parent = match self.parent {
            CacheParent::Home => home.map(Path::to_path_buf),
            CacheParent::Caches => {
                absolute(around, "XDG_CACHE_HOME").or_else(|| Some(home?.join(".cache")))
            }
        };
        let folder = chosen.or_else(|| Some(parent?.join(self.name)))?;
        let usual = home.map(|home| match self.parent {
            CacheParent::Home => home.join(self.name),
            CacheParent::Caches => home.join(".cache").join(self.name),
        });
        let below = |names: &[&str]| names.iter().map(|name| folder.join(name)).collect();
        let files: Vec<PathBuf> = below(self.files);
        let mut writable: Vec<PathBuf> = below(self.folders);
        if writable.is_empty() {
            writable.push(folder.clone());
        }
        writable.extend(files.iter().cloned());
        Some(CallCache {
            name: declared.clone(),
            // In the project everything is writable.
            is_usual: usual.as_ref() == Some(&folder) || folder.starts_with(&around.root),
            folder,
            variable: self.variables.first().copied(),
            writable,
            files,
        })
    }
}

/// Makes the folders of the caches that do not exist yet, and adds them to what a call may write.
pub(super) fn open_caches(
    caches: &[CallCache],
    confinement: Option<Confinement>,
) -> Result<Option<Confinement>, CallError> {
    let Some(mut confinement) = confinement else {
        return Ok(None);
    };
    for cache in caches {
        for path in &cache.writable {
            let made = if cache.files.contains(path) {
                make_file(path)
            } else {
                make_folder(path)
            };
            made.map_err(|source| CallError::DeclaredCache {
                folder: path.clone(),
                source,
            })?;
            confinement = confinement.and_writable(path);
        }
    }
    Ok(Some(confinement))
}

fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn make_file(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok() {
        return Ok(());
    }
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600);
    options.open(path).map(drop)
}

fn absolute(around: &CallEnvironment, name: &str) -> Option<PathBuf> {
    let value = around.environment.get(OsStr::new(name))?;
    Some(PathBuf::from(value)).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests;
