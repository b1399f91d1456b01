//! Virtual environments, kept for later calls.
//!
//! There is one per interpreter and list of packages, named by their hash. It is created under a
//! lock, so concurrent calls wait, and used only if its marker says that it is complete: a killed
//! installation is started over.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use crate::disk::create_private_folder;
use crate::encoding::hex;
use crate::exec::call::{CallError, CallProgress, Machine, Starter};
use crate::exec::is_always_given;
use crate::exec::isolation::{Confinement, TcpRule};
use crate::exec::subprocess::resolve;
use crate::exec::supervisor::{Ended, MARK, Work};
use crate::item::wording::first_line;

/// The interval at which a waiting call checks the lock.
const PAUSE: Duration = Duration::from_millis(100);
/// The file that marks a complete environment.
const MARKER: &str = "piton-complete";
/// The file whose modification time is the last use.
const STAMP: &str = "piton-used";
/// How many of the installer's last lines are shown.
const SHOWN_LINES: usize = 12;
/// Prints the interpreter's identity.
const IDENTITY: &str =
    "import os, sys; print(os.path.realpath(sys.executable), sys.version, sys.platform, sep='\\n')";
/// Variables for an installer's settings, caches and certificates.
const SOURCES: [&str; 7] = [
    "HOME",
    "NETRC",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
];
/// Variables that would make an installer write elsewhere.
const MISLEADING: [&str; 6] = [
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_USER",
    "PIP_REQUIRE_VIRTUALENV",
    "UV_PROJECT_ENVIRONMENT",
];

/// A complete virtual environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::exec) struct Venv {
    pub(in crate::exec) folder: PathBuf,
}

#[derive(Clone, Copy, Debug)]
pub(in crate::exec) struct VenvRequest<'w> {
    /// For messages.
    pub(in crate::exec) tool: &'w str,
    pub(in crate::exec) python: &'w Path,
    pub(in crate::exec) dependencies: &'w [String],
}

impl Venv {
    pub(in crate::exec) fn python(&self) -> PathBuf {
        self.folder.join("bin").join("python")
    }

    /// Puts it first for a process and its children.
    pub(in crate::exec) fn enter(&self, environment: &mut BTreeMap<OsString, OsString>) {
        let mut path = self.folder.join("bin").into_os_string();
        if let Some(rest) = environment
            .get(OsStr::new("PATH"))
            .filter(|rest| !rest.is_empty())
        {
            path.push(":");
            path.push(rest);
        }
        environment.insert("PATH".into(), path);
        environment.insert("VIRTUAL_ENV".into(), self.folder.clone().into());
    }

    fn lock(&self) -> io::Result<File> {
        File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.folder.with_extension("lock"))
    }

    /// Records the use. If that fails, the environment is only removed and recreated earlier.
    fn stamp(&self) {
        let _ = fs::write(self.folder.join(STAMP), "used\n");
    }

    /// The last use, or the creation if it was never used.
    fn last_used(&self) -> io::Result<SystemTime> {
        fs::metadata(self.folder.join(STAMP))
            .or_else(|_| fs::symlink_metadata(&self.folder))?
            .modified()
    }

    fn is_complete(&self) -> bool {
        self.folder.join(MARKER).is_file() && self.python().is_file()
    }
}

/// Finds or creates the environment with these packages.
pub(in crate::exec) fn ensure(
    wanted: VenvRequest<'_>,
    machine: &Machine,
    starter: &mut Starter<'_>,
    tell: &mut dyn FnMut(CallProgress<'_>),
) -> Result<Venv, CallError> {
    let unusable = |dependency: &&String| {
        dependency.trim_start().starts_with('-') || dependency.contains(['\n', '\0'])
    };
    if let Some(dependency) = wanted.dependencies.iter().find(unusable) {
        return Err(CallError::BadDependency {
            dependency: dependency.clone(),
        });
    }
    let venvs = machine.cache.join("venvs");
    let not_kept = |source| CallError::Cache {
        folder: venvs.clone(),
        source,
    };
    create_private_folder(&venvs).map_err(not_kept)?;
    let time_limit = machine.patience.installer;
    let maker = VenvBuilder {
        wanted,
        folder: &venvs,
        environment: installer_environment(machine),
        time_limit,
        confinement: installer_confinement(machine),
    };
    let venv = Venv {
        folder: venvs.join(maker.name(starter)?),
    };
    let lock = venv.lock().map_err(not_kept)?;
    // A shared lock: another process must not remove the environment while it is being checked.
    if lock.try_lock_shared().is_ok() && venv.is_complete() {
        venv.stamp();
        return Ok(venv);
    }
    lock.unlock().map_err(not_kept)?;
    loop {
        match lock.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(source)) => return Err(not_kept(source)),
        }
        if starter.interrupts.received().is_some() {
            return Err(CallError::Interrupted);
        }
        starter.interrupts.wait(Some(PAUSE)).map_err(not_kept)?;
    }
    // Another call may have created it while this one waited.
    if venv.is_complete() {
        venv.stamp();
        return Ok(venv);
    }
    tell(CallProgress::Preparing(&maker.announcement()));
    remove(&venv.folder).map_err(not_kept)?;
    let made = maker.make(&venv, starter);
    let sealed = made.and_then(|()| {
        venv.stamp();
        // Write the marker last: it means that everything before it is complete.
        fs::write(venv.folder.join(MARKER), wanted.dependencies.join("\n")).map_err(not_kept)
    });
    if sealed.is_err() {
        // A folder without a marker is never used; the next call removes it if this fails.
        let _ = remove(&venv.folder);
    }
    sealed.map(|()| venv)
}

/// The environments in a cache that were last used before a time.
pub fn unused(cache: &Path, before: SystemTime) -> Vec<PathBuf> {
    let entries = fs::read_dir(cache.join("venvs"))
        .into_iter()
        .flatten()
        .flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let is_old = |venv: &Venv| venv.last_used().is_ok_and(|time| time < before);
    let mut found: Vec<PathBuf> = folders
        .map(|entry| Venv {
            folder: entry.path(),
        })
        .filter(is_old)
        .map(|venv| venv.folder)
        .collect();
    found.sort();
    found
}

/// Removes them and returns the removed ones. An environment that is locked stays.
pub fn remove_unused(cache: &Path, before: SystemTime) -> Vec<PathBuf> {
    let removes = |folder: &PathBuf| {
        let venv = Venv {
            folder: folder.clone(),
        };
        let Ok(lock) = venv.lock() else { return false };
        lock.try_lock().is_ok()
            && venv.last_used().is_ok_and(|time| time < before)
            // Delete the completion marker first, so a half-removed venv is never reused.
            && remove_file(&venv.folder.join(MARKER)).and_then(|()| remove(&venv.folder)).is_ok()
    };
    unused(cache, before).into_iter().filter(removes).collect()
}

/// What installers may do: use the network, and write to the caches of the user.
fn installer_confinement(machine: &Machine) -> Option<Confinement> {
    let confinement = Confinement {
        tcp: TcpRule::Any,
        ..machine.confinement.clone()?
    };
    let named = ["UV_CACHE_DIR", "PIP_CACHE_DIR"]
        .iter()
        .filter_map(|name| machine.environment.get(OsStr::new(name)))
        .map(PathBuf::from);
    // The folder of piton's cache is that of all caches, unless there is no home.
    let caches = machine.cache.parent().map(Path::to_path_buf);
    let pythons = machine
        .home
        .as_ref()
        .map(|home| home.join(".local/share/uv"));
    let folders = named.chain(caches).chain(pythons);
    Some(folders.fold(confinement, |it, folder| it.and_writable(&folder)))
}

struct VenvBuilder<'m> {
    wanted: VenvRequest<'m>,
    /// Where installers run: a folder without project settings.
    folder: &'m Path,
    environment: BTreeMap<OsString, OsString>,
    time_limit: Duration,
    confinement: Option<Confinement>,
}

impl VenvBuilder<'_> {
    /// The name of the environment: a hash of interpreter and packages.
    fn name(&self, starter: &mut Starter<'_>) -> Result<String, CallError> {
        let words = ["-I", "-S", "-c", IDENTITY].map(OsString::from);
        let ended = self.run(self.wanted.python, &words, starter)?;
        if ended.exit_code != Some(0) {
            return Err(self.failed("ask the Python interpreter for its version", &ended));
        }
        let mut dependencies: Vec<&str> = self
            .wanted
            .dependencies
            .iter()
            .map(|it| it.trim())
            .collect();
        dependencies.sort_unstable();
        dependencies.dedup();
        let mut hash = Sha256::new();
        hash.update(&ended.stdout.head);
        for dependency in dependencies {
            hash.update(b"\0");
            hash.update(dependency.as_bytes());
        }
        Ok(hex(&hash.finalize()))
    }

    fn make(&self, venv: &Venv, starter: &mut Starter<'_>) -> Result<(), CallError> {
        let search_path = self
            .environment
            .get(OsStr::new("PATH"))
            .map(OsString::as_os_str)
            .unwrap_or_default();
        match resolve(OsStr::new("uv"), search_path, self.folder) {
            Ok(uv) => self.make_with_uv(&uv, venv, starter),
            Err(_) => self.make_with_pip(venv, starter),
        }
    }

    fn make_with_uv(
        &self,
        uv: &Path,
        venv: &Venv,
        starter: &mut Starter<'_>,
    ) -> Result<(), CallError> {
        let python = self.wanted.python.as_os_str();
        let words = [
            "venv".as_ref(),
            "--no-project".as_ref(),
            "--python".as_ref(),
            python,
            venv.folder.as_os_str(),
        ];
        self.step("make a virtual environment with `uv`", uv, &words, starter)?;
        if self.wanted.dependencies.is_empty() {
            return Ok(());
        }
        let python = venv.python();
        let mut words: Vec<&OsStr> = ["pip", "install", "--python"].map(OsStr::new).to_vec();
        words.extend([python.as_os_str(), "--".as_ref()]);
        words.extend(
            self.wanted
                .dependencies
                .iter()
                .map(|it| OsStr::new(it.trim())),
        );
        self.step("install the packages with `uv`", uv, &words, starter)
    }

    fn make_with_pip(&self, venv: &Venv, starter: &mut Starter<'_>) -> Result<(), CallError> {
        // Isolated: the working folder and variables must not change what is imported.
        let mut words: Vec<&OsStr> = ["-I", "-m", "venv"].map(OsStr::new).to_vec();
        if self.wanted.dependencies.is_empty() {
            // Installing `pip` takes most of the time, and is not needed here.
            words.push("--without-pip".as_ref());
        }
        words.extend(["--".as_ref(), venv.folder.as_os_str()]);
        self.step(
            "make a virtual environment",
            self.wanted.python,
            &words,
            starter,
        )?;
        if self.wanted.dependencies.is_empty() {
            return Ok(());
        }
        let options = [
            "-I",
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--no-input",
            "--",
        ];
        let mut words: Vec<&OsStr> = options.map(OsStr::new).to_vec();
        words.extend(
            self.wanted
                .dependencies
                .iter()
                .map(|it| OsStr::new(it.trim())),
        );
        self.step("install the packages", &venv.python(), &words, starter)
    }

    fn step(
        &self,
        what: &str,
        program: &Path,
        words: &[&OsStr],
        starter: &mut Starter<'_>,
    ) -> Result<(), CallError> {
        let words: Vec<OsString> = words.iter().map(|word| (*word).to_owned()).collect();
        let ended = self.run(program, &words, starter)?;
        if ended.exit_code == Some(0) {
            Ok(())
        } else {
            Err(self.failed(what, &ended))
        }
    }

    fn run(
        &self,
        program: &Path,
        words: &[OsString],
        starter: &mut Starter<'_>,
    ) -> Result<Ended, CallError> {
        let mut argv = vec![program.as_os_str().to_owned()];
        argv.extend_from_slice(words);
        let work = Work {
            program: program.to_path_buf(),
            argv,
            folder: self.folder.to_path_buf(),
            environment: self.environment.clone(),
            timeout: Some(self.time_limit),
            confinement: self.confinement.clone(),
            ..Work::default()
        };
        let ended = starter.run(&work)?;
        if ended.interrupted {
            Err(CallError::Interrupted)
        } else {
            Ok(ended)
        }
    }

    fn failed(&self, what: &str, ended: &Ended) -> CallError {
        let said = if ended.stderr.total > 0 {
            ended.stderr.text()
        } else {
            ended.stdout.text()
        };
        let lines: Vec<String> = said
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(|line| first_line(line, usize::MAX))
            .collect();
        let said = lines
            .get(lines.len().saturating_sub(SHOWN_LINES)..)
            .unwrap_or_default()
            .to_vec();
        CallError::Dependencies {
            tool: self.wanted.tool.to_owned(),
            what: if ended.timed_out {
                format!("{what} in {} s", self.time_limit.as_secs())
            } else {
                what.to_owned()
            },
            said,
        }
    }

    fn announcement(&self) -> String {
        let tool = self.wanted.tool;
        if self.wanted.dependencies.is_empty() {
            return format!("making a virtual environment for `{tool}` …");
        }
        format!(
            "installing {} for `{tool}` …",
            first_line(&self.wanted.dependencies.join(", "), usize::MAX)
        )
    }
}

/// The user's variables for proxies and indexes, without those that mislead.
fn installer_environment(machine: &Machine) -> BTreeMap<OsString, OsString> {
    let kept = machine
        .environment
        .iter()
        .filter(|(name, _)| name.to_str().is_some_and(is_for_installers));
    let mark = (MARK.into(), machine.run.clone().into());
    kept.map(|(name, value)| (name.clone(), value.clone()))
        .chain([mark])
        .collect()
}

/// Whether an installer may see a variable: package sources and proxies, but no other secrets of
/// the user, because packages may run their own code.
fn is_for_installers(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let is_source = ["PIP_", "UV_", "SSL_CERT_"]
        .iter()
        .any(|prefix| upper.starts_with(prefix))
        || upper.ends_with("_PROXY")
        || SOURCES.contains(&name);
    (is_source || is_always_given(name)) && !MISLEADING.contains(&name)
}

fn remove_file(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => Err(err),
        _ => Ok(()),
    }
}

/// Removes a folder if it exists.
fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => Err(err),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installers_know_where_packages_come_from_and_no_secrets() {
        for known in [
            "PATH",
            "HOME",
            "LC_ALL",
            "PIP_INDEX_URL",
            "UV_INDEX",
            "https_proxy",
            "NO_PROXY",
            "SSL_CERT_FILE",
        ] {
            assert!(is_for_installers(known), "{known}");
        }
        for kept in [
            "MY_API_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "SSH_AUTH_SOCK",
            "GIT_DIR",
            "PYTHONPATH",
            "PIP_TARGET",
        ] {
            assert!(!is_for_installers(kept), "{kept}");
        }
    }
}
