//! Virtual environments, kept for later calls.
//!
//! There is one per interpreter and list of packages, named by their hash. [`KeptPackages`] keeps them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::encoding::hex;
use crate::exec::call::{CallError, CallProgress, Machine, Starter};
use crate::exec::packages::{Installer, KeptPackages};
use crate::item::wording::first_line;

/// Where environments are, in the cache.
pub(in crate::exec) const FOLDER: &str = "venvs";
/// Prints the interpreter's identity.
const IDENTITY: &str =
    "import os, sys; print(os.path.realpath(sys.executable), sys.version, sys.platform, sep='\\n')";
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
    let installer = Installer::new(wanted.tool, machine, &machine.cache.join(FOLDER))?;
    let maker = VenvBuilder {
        wanted,
        installer: &installer,
    };
    let kept = KeptPackages {
        folder: installer.folder.join(maker.name(starter)?),
        proof: "bin/python",
    };
    let content = wanted.dependencies.join("\n");
    let announced = (content.as_str(), maker.announcement());
    let made = kept.ensure(announced, starter, tell, |folder, starter| {
        let venv = Venv {
            folder: folder.to_path_buf(),
        };
        maker.make(&venv, starter)
    });
    made.map(|folder| Venv { folder })
}

struct VenvBuilder<'m> {
    wanted: VenvRequest<'m>,
    installer: &'m Installer<'m>,
}

impl VenvBuilder<'_> {
    /// The name of the environment: a hash of interpreter and packages.
    fn name(&self, starter: &mut Starter<'_>) -> Result<String, CallError> {
        let words = ["-I", "-S", "-c", IDENTITY].map(OsString::from);
        let ended = self.installer.run(self.wanted.python, &words, starter)?;
        if ended.exit_code != Some(0) {
            return Err(self
                .installer
                .failed("ask the Python interpreter for its version", &ended));
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
        match self.installer.find("uv") {
            Some(uv) => self.make_with_uv(&uv, venv, starter),
            None => self.make_with_pip(venv, starter),
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
        self.installer
            .step("make a virtual environment with `uv`", uv, &words, starter)?;
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
        self.installer
            .step("install the packages with `uv`", uv, &words, starter)
    }

    fn make_with_pip(&self, venv: &Venv, starter: &mut Starter<'_>) -> Result<(), CallError> {
        // Isolated: the working folder and variables must not change what is imported.
        let mut words: Vec<&OsStr> = ["-I", "-m", "venv"].map(OsStr::new).to_vec();
        if self.wanted.dependencies.is_empty() {
            // Installing `pip` takes most of the time, and is not needed here.
            words.push("--without-pip".as_ref());
        }
        words.extend(["--".as_ref(), venv.folder.as_os_str()]);
        self.installer.step(
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
        self.installer
            .step("install the packages", &venv.python(), &words, starter)
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
