//! Packages of tools that run in Node.js: installed by npm into a folder of the cache, one per list of packages.
//!
//! `require` finds them by `NODE_PATH`. Modules do not look there; for them [`NodePackages::options`] adds a hook that
//! resolves what is not found beside the script. Scripts of packages are not run when they are installed.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};

use super::call::{CallError, CallProgress, Machine, Starter};
use super::packages::{Installer, KeptPackages};
use crate::encoding::hex;
use crate::item::source::{MAX_TEXT, files_below, leaves, read_bytes};
use crate::item::wording::first_line;

/// Where the packages are, in the cache.
pub(super) const FOLDER: &str = "node";

/// Installed packages.
#[derive(Clone, Debug)]
pub(super) struct NodePackages {
    pub(super) folder: PathBuf,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct NodeRequest<'w> {
    /// For messages.
    pub(super) tool: &'w str,
    /// The folder of the script, which local packages are relative to.
    pub(super) beside: &'w Path,
    pub(super) dependencies: &'w [String],
}

/// Finds or installs packages.
pub(super) fn ensure(
    wanted: NodeRequest<'_>,
    machine: &Machine,
    starter: &mut Starter<'_>,
    tell: &mut dyn FnMut(CallProgress<'_>),
) -> Result<NodePackages, CallError> {
    let mut hash = Sha256::new();
    let mut packages = Vec::new();
    let mut dependencies: Vec<&str> = wanted.dependencies.iter().map(|it| it.trim()).collect();
    dependencies.sort_unstable();
    dependencies.dedup();
    for dependency in &dependencies {
        packages.push(package(dependency, wanted.beside, &mut hash)?);
        hash.update(b"\0");
        hash.update(dependency.as_bytes());
    }
    let installer = Installer::new(wanted.tool, machine, &machine.cache.join(FOLDER))?;
    let kept = KeptPackages {
        folder: installer.folder.join(hex(&hash.finalize())),
        proof: "node_modules",
    };
    let content = dependencies.join("\n");
    let list = first_line(&dependencies.join(", "), usize::MAX);
    let announcement = format!("installing {list} for `{}` …", wanted.tool);
    let cache = machine.cache.join("npm");
    let made = kept.ensure(
        (&content, announcement),
        starter,
        tell,
        |folder, starter| install(&installer, folder, &cache, &packages, starter),
    );
    made.map(|folder| NodePackages { folder })
}

fn install(
    installer: &Installer<'_>,
    folder: &Path,
    cache: &Path,
    packages: &[OsString],
    starter: &mut Starter<'_>,
) -> Result<(), CallError> {
    let Some(npm) = installer.find("npm") else {
        return Err(installer.missing("npm"));
    };
    fs::create_dir_all(folder.join("node_modules"))
        .and_then(|()| fs::write(folder.join("package.json"), "{\"private\": true}\n"))
        .map_err(|source| CallError::Cache {
            folder: folder.to_path_buf(),
            source,
        })?;
    let options = [
        "install",
        "--ignore-scripts",
        "--install-links",
        "--no-audit",
        "--no-fund",
        "--no-update-notifier",
        "--loglevel=error",
        "--prefix",
    ];
    let mut words: Vec<&OsStr> = options.map(OsStr::new).to_vec();
    words.extend([
        folder.as_os_str(),
        "--cache".as_ref(),
        cache.as_os_str(),
        "--".as_ref(),
    ]);
    words.extend(packages.iter().map(OsString::as_os_str));
    installer.step("install the packages with `npm`", &npm, &words, starter)
}

/// A dependency as npm takes it. The files of a local package, which must be beside the script, become part of the hash.
fn package(dependency: &str, beside: &Path, hash: &mut Sha256) -> Result<OsString, CallError> {
    let refused = || CallError::BadDependency {
        dependency: dependency.to_owned(),
    };
    if dependency.is_empty() || dependency.starts_with('-') || dependency.contains(['\n', '\0']) {
        return Err(refused());
    }
    let local = dependency.strip_prefix("file:").or_else(|| {
        dependency
            .starts_with(['.', '/', '~'])
            .then_some(dependency)
    });
    let Some(path) = local else {
        return Ok(dependency.into());
    };
    let is_inside = Path::new(path)
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let file = beside.join(path);
    if !is_inside || !file.exists() || leaves(&file, beside) {
        return Err(refused());
    }
    for (file, _) in files_below(&file) {
        let bytes = read_bytes(&file, MAX_TEXT).map_err(|_| refused())?;
        hash.update(
            file.strip_prefix(beside)
                .unwrap_or(&file)
                .as_os_str()
                .as_encoded_bytes(),
        );
        hash.update(b"\0");
        hash.update(Sha256::digest(&bytes));
    }
    let mut package = OsString::from("file:");
    package.push(file.components().collect::<PathBuf>());
    Ok(package)
}

impl NodePackages {
    /// Lets `require` find them.
    pub(super) fn enter(&self, environment: &mut BTreeMap<OsString, OsString>) {
        let mut path = self.folder.join("node_modules").into_os_string();
        if let Some(rest) = environment
            .get(OsStr::new("NODE_PATH"))
            .filter(|rest| !rest.is_empty())
        {
            path.push(":");
            path.push(rest);
        }
        environment.insert("NODE_PATH".into(), path);
    }

    /// The options of Node.js with which `import` finds them.
    pub(super) fn options(&self) -> [OsString; 2] {
        let base = format!(
            "file://{}",
            escaped(&self.folder.join("piton.mjs").to_string_lossy())
        );
        let hook = format!(
            "export async function resolve(s,c,n){{try{{return await n(s,c)}}catch(e){{\
             if(e.code!=='ERR_MODULE_NOT_FOUND')throw e;return n(s,{{...c,parentURL:'{base}'}})}}}}"
        );
        let start = format!(
            "import{{register}}from'node:module';register('data:text/javascript,{}')",
            escaped(&hook)
        );
        [
            "--import".into(),
            format!("data:text/javascript,{}", escaped(&start)).into(),
        ]
    }
}

/// A text as part of a URL.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' => {
                escaped.push(char::from(byte));
            }
            // Writing to a `String` cannot fail.
            other => {
                let _ = write!(escaped, "%{other:02X}");
            }
        }
    }
    escaped
}
