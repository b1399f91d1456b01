//! Packages that tools need, kept for later calls: virtual environments of Python, modules of Node.js.
//!
//! There is one folder per list of packages, named by a hash of it. It is made under a lock, so
//! concurrent calls wait, and used only if its marker says that it is complete: a killed
//! installation is started over. [`Installer`] runs the package managers.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::call::{CallError, CallProgress, Machine, Starter};
use super::isolation::{Confinement, TcpRule};
use super::subprocess::resolve;
use super::supervisor::{Ended, MARK, Work};
use super::{is_always_given, node, python};
use crate::disk::create_private_folder;
use crate::item::wording::first_line;

/// The interval at which a waiting call checks the lock.
const PAUSE: Duration = Duration::from_millis(100);
/// The file that marks a complete environment.
const MARKER: &str = "piton-complete";
/// The file whose modification time is the last use.
const STAMP: &str = "piton-used";
/// How many of the installer's last lines are shown.
const SHOWN_LINES: usize = 12;
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

/// A folder of packages.
#[derive(Clone, Debug)]
pub(super) struct KeptPackages {
    pub(super) folder: PathBuf,
    /// A file or folder that a complete one has.
    pub(super) proof: &'static str,
}

impl KeptPackages {
    /// Finds the folder, or has it made. `told` is the content of its marker, and what is said before it is made.
    pub(super) fn ensure(
        self,
        told: (&str, String),
        starter: &mut Starter<'_>,
        tell: &mut dyn FnMut(CallProgress<'_>),
        install: impl FnOnce(&Path, &mut Starter<'_>) -> Result<(), CallError>,
    ) -> Result<PathBuf, CallError> {
        let (content, announcement) = told;
        let not_kept = |source| CallError::Cache {
            folder: self.folder.clone(),
            source,
        };
        let lock = self.lock().map_err(not_kept)?;
        // A shared lock: another process must not remove the folder while it is being checked.
        if lock.try_lock_shared().is_ok() && self.is_complete() {
            self.stamp();
            return Ok(self.folder);
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
        // Another call may have made it while this one waited.
        if self.is_complete() {
            self.stamp();
            return Ok(self.folder);
        }
        tell(CallProgress::Preparing(&announcement));
        remove(&self.folder).map_err(not_kept)?;
        let made = install(&self.folder, starter);
        let sealed = made.and_then(|()| {
            self.stamp();
            // Write the marker last: it means that everything before it is complete.
            fs::write(self.folder.join(MARKER), content).map_err(not_kept)
        });
        if sealed.is_err() {
            // A folder without a marker is never used; the next call removes it if this fails.
            let _ = remove(&self.folder);
        }
        sealed.map(|()| self.folder)
    }

    fn lock(&self) -> io::Result<File> {
        File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.folder.with_extension("lock"))
    }

    /// Records the use. If that fails, the folder is only removed and made again earlier.
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
        self.folder.join(MARKER).is_file() && self.folder.join(self.proof).exists()
    }
}

/// The folders of packages in a cache that were last used before a time.
pub fn unused(cache: &Path, before: SystemTime) -> Vec<PathBuf> {
    let kept = [python::venv::FOLDER, node::FOLDER].map(|folder| cache.join(folder));
    let entries = kept
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut found: Vec<PathBuf> = folders
        .map(|entry| at(entry.path()))
        .filter(|kept| kept.last_used().is_ok_and(|time| time < before))
        .map(|kept| kept.folder)
        .collect();
    found.sort();
    found
}

/// Removes them and returns the removed ones. A folder that is locked stays.
pub fn remove_unused(cache: &Path, before: SystemTime) -> Vec<PathBuf> {
    let removes = |folder: &PathBuf| {
        let kept = at(folder.clone());
        let Ok(lock) = kept.lock() else { return false };
        lock.try_lock().is_ok()
            && kept.last_used().is_ok_and(|time| time < before)
            // Delete the completion marker first, so a half-removed folder is never reused.
            && remove_file(&folder.join(MARKER)).and_then(|()| remove(folder)).is_ok()
    };
    unused(cache, before).into_iter().filter(removes).collect()
}

fn at(folder: PathBuf) -> KeptPackages {
    KeptPackages {
        folder,
        proof: MARKER,
    }
}

/// Runs package managers.
pub(super) struct Installer<'m> {
    /// The tool, for messages.
    tool: &'m str,
    /// Where they run: a folder of the cache without project settings.
    pub(super) folder: PathBuf,
    environment: BTreeMap<OsString, OsString>,
    time_limit: Duration,
    confinement: Option<Confinement>,
}

impl<'m> Installer<'m> {
    pub(super) fn new(tool: &'m str, machine: &Machine, folder: &Path) -> Result<Self, CallError> {
        create_private_folder(folder).map_err(|source| CallError::Cache {
            folder: folder.to_path_buf(),
            source,
        })?;
        Ok(Self {
            tool,
            folder: folder.to_path_buf(),
            environment: installer_environment(machine),
            time_limit: machine.patience.installer,
            confinement: installer_confinement(machine),
        })
    }

    /// The error for a package manager that is not installed.
    pub(super) fn missing(&self, program: &str) -> CallError {
        CallError::Dependencies {
            tool: self.tool.to_owned(),
            what: format!("find `{program}`, which installs the packages"),
            said: Vec::new(),
        }
    }

    /// Finds a package manager.
    pub(super) fn find(&self, program: &str) -> Option<PathBuf> {
        let search_path = self
            .environment
            .get(OsStr::new("PATH"))
            .map(OsString::as_os_str)
            .unwrap_or_default();
        resolve(OsStr::new(program), search_path, &self.folder).ok()
    }

    pub(super) fn step(
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

    pub(super) fn run(
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
            folder: self.folder.clone(),
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

    pub(super) fn failed(&self, what: &str, ended: &Ended) -> CallError {
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
            tool: self.tool.to_owned(),
            what: if ended.timed_out {
                format!("{what} in {} s", self.time_limit.as_secs())
            } else {
                what.to_owned()
            },
            said,
        }
    }
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
    let is_source = ["PIP_", "UV_", "SSL_CERT_", "NPM_CONFIG_"]
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
            "npm_config_registry",
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
