//! The folder of a self-test, and starting programs in it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::{SelfTest, SelftestFolder};
use crate::context::Context;
use crate::doctor::plain;
use crate::exec::call::CallError;
use crate::exec::interrupt::Interrupts;
use crate::exec::supervisor::{Ended, Supervisor, Watch, Work};
use crate::item::source::read_bytes;
use crate::run::error::RunError;

/// The time limit of a command in a self-test.
const LIMIT: Duration = Duration::from_mins(2);
/// The maximum size of a file in a self-test.
const LARGEST: u64 = 1 << 20;

/// The folder: a repository, a home and a folder for temporary files.
pub(super) struct Lab {
    folder: TempDir,
    program: PathBuf,
    environment: BTreeMap<OsString, OsString>,
    interrupts: Interrupts,
}

/// The result of a script.
pub(super) struct ScriptOutcome {
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) ended: Ended,
}

impl Lab {
    pub(super) fn new(ctx: &Context, asked: &SelfTest) -> Result<Self, RunError> {
        let failed = |folder: &Path| {
            let folder = folder.to_path_buf();
            move |source| RunError::SelfTestFolder { folder, source }
        };
        let folder = tempfile::Builder::new()
            .prefix(".piton-selftest-")
            .tempdir_in(&asked.place);
        let folder = folder.map_err(failed(&asked.place))?;
        let top = folder
            .path()
            .canonicalize()
            .map_err(failed(folder.path()))?;
        for name in ["home", "tmp", "work"] {
            fs::create_dir(top.join(name)).map_err(failed(&top))?;
        }
        // The path by which a process restarts itself means another program in a shell.
        let program = fs::read_link(&ctx.program).unwrap_or_else(|_| ctx.program.clone());
        // Ignore the user's settings, such as signed commits that ask for a passphrase.
        let mut environment = plain(&ctx.environment).variables().clone();
        environment.retain(|name, _| {
            !name.as_encoded_bytes().starts_with(b"XDG_") && name != "GIT_CONFIG_GLOBAL"
        });
        let entries: [(&str, OsString); 9] = [
            ("HOME", top.join("home").into()),
            ("TMPDIR", top.join("tmp").into()),
            ("PITON", program.into()),
            ("GIT_CONFIG_NOSYSTEM", "1".into()),
            ("GIT_AUTHOR_NAME", "Piton Selftest".into()),
            ("GIT_AUTHOR_EMAIL", "selftest@example.com".into()),
            ("GIT_COMMITTER_NAME", "Piton Selftest".into()),
            ("GIT_COMMITTER_EMAIL", "selftest@example.com".into()),
            ("LC_ALL", "C".into()),
        ];
        environment.extend(entries.map(|(name, value)| (name.into(), value)));
        let interrupts = Interrupts::listen_for(&ctx.stop).map_err(RunError::Signals)?;
        Ok(Self {
            folder,
            program: ctx.program.clone(),
            environment,
            interrupts,
        })
    }

    /// The top of the repository.
    pub(super) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Runs an `sh` script in the repository; `$PITON` is piton.
    pub(super) fn sh(&mut self, script: &str) -> Result<ScriptOutcome, RunError> {
        self.sh_with(script, &[], Watch::No)
    }

    /// As [`Self::sh`], with variables and an optional write monitor.
    pub(super) fn sh_with(
        &mut self,
        script: &str,
        variables: &[(&str, &str)],
        watch: Watch,
    ) -> Result<ScriptOutcome, RunError> {
        let mut environment = self.environment.clone();
        environment.extend(
            variables
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into())),
        );
        let work = Work {
            program: PathBuf::from("/bin/sh"),
            argv: vec!["sh".into(), "-c".into(), script.into()],
            folder: self.work(),
            environment,
            watch,
            timeout: Some(LIMIT),
            ..Work::default()
        };
        let ended =
            Supervisor::start(&self.program)?.run(&work, &mut self.interrupts, &mut |_, _| {})?;
        if ended.interrupted {
            return Err(RunError::Call(CallError::Interrupted));
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&ended.stdout.head), text(&ended.stderr.head));
        Ok(ScriptOutcome {
            code: ended.exit_code,
            stdout,
            stderr,
            ended,
        })
    }

    /// The content of a file of the repository; `None` if it does not exist.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        let bytes = read_bytes(&self.work().join(name), LARGEST).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Ends the self-test; returns the folder.
    pub(super) fn end(self, folder: SelftestFolder) -> PathBuf {
        let path = self.folder.path().to_path_buf();
        if folder == SelftestFolder::Keep {
            let _ = self.folder.keep();
        }
        path
    }
}

impl ScriptOutcome {
    /// The output on one line.
    pub(super) fn output_line(&self) -> String {
        let said = if self.stderr.trim().is_empty() {
            &self.stdout
        } else {
            &self.stderr
        };
        let said: Vec<&str> = said
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        let end = match (self.code, self.ended.timed_out) {
            (_, true) => "no answer in time".to_owned(),
            (Some(code), _) => format!("exit code {code}"),
            (None, _) => "killed".to_owned(),
        };
        if said.is_empty() {
            end
        } else {
            format!("{}; {end}", said.join("; "))
        }
    }
}
