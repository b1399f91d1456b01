//! A temporary project with the real binary and the real git.
//!
//! [`TestProject`] is hermetic: its own environment, a home inside its temporary folder, no git
//! configuration of the machine, a fixed author and date. [`cmd_snapshot!`] compares the whole
//! output of a command; [`TestProject::filters`] is the only place that masks what differs between
//! machines.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Compares exit code, stdout and stderr of a command with an inline snapshot.
macro_rules! cmd_snapshot {
    ($ran:expr, @$snapshot:literal) => {{
        let ran = $ran;
        insta::with_settings!({ filters => ran.filters(), omit_expression => true }, {
            insta::assert_snapshot!(ran.to_string(), @$snapshot);
        });
    }};
}
pub(crate) use cmd_snapshot;

/// Script lines of a tool that wait until the test has done something meanwhile.
pub(crate) const MEETING: &str =
    r#"echo > "$TMPDIR/ready"; while [ ! -e "$TMPDIR/go" ]; do sleep 0.01; done"#;

/// With `PITON_TEST_OBJECT_FORMAT=sha256` all repositories that tests make have SHA-256 names, unless a test says
/// otherwise. Tests that compare names with recorded ones fail then.
const OBJECT_FORMAT: &str = "PITON_TEST_OBJECT_FORMAT";

/// A project in a temporary folder, removed at the end.
pub(crate) struct TestProject {
    sandbox: TempDir,
    variables: Vec<(String, String)>,
    folder: PathBuf,
    /// The number of started commands, if the test controls piton's clock.
    ticks: Option<Cell<u32>>,
    /// Whether piton syncs its files. Only tests of power loss need it; others would only be
    /// slower.
    is_synced: bool,
}

/// The result of a command.
pub(crate) struct Ran {
    pub(crate) output: Output,
    filters: Vec<(String, String)>,
}

impl TestProject {
    /// Creates an empty git repository.
    pub(crate) fn new() -> Self {
        let project = Self::without_git();
        project.git(["init", "--quiet", "--initial-branch=main"]);
        project
    }

    /// Makes an empty git repository whose objects have SHA-256 names, as all that is made later in this project.
    pub(crate) fn sha256() -> Self {
        let project = Self::without_git().variable("GIT_DEFAULT_HASH", "sha256");
        project.git(["init", "--quiet", "--initial-branch=main"]);
        project
    }

    /// Makes an empty folder that is not a repository.
    pub(crate) fn without_git() -> Self {
        let sandbox = tempfile::Builder::new()
            .prefix("piton-test-")
            .tempdir()
            .expect("a temporary folder");
        for folder in ["home", "tmp", "project"] {
            fs::create_dir(sandbox.path().join(folder)).expect("a folder");
        }
        let folder = sandbox.path().join("project");
        Self {
            sandbox,
            variables: Vec::new(),
            folder,
            ticks: None,
            is_synced: false,
        }
    }

    /// Writes a file below the project and creates its folders.
    pub(crate) fn file(self, path: &str, text: impl AsRef<[u8]>) -> Self {
        write(&self.root().join(path), text.as_ref());
        self
    }

    /// Writes a bash tool: a folder below `.ai/tools/` with a manifest, additional manifest lines,
    /// and a script.
    pub(crate) fn tool(self, id: &str, more: &str, script: &str) -> Self {
        let manifest = format!(
            "tool_id: {id}\ntool_type: script\nversion: \"1.0.0\"\ndescription: The tool {id}\n\
             executor: bash_runtime\nconfig:\n  entrypoint: run.sh\n{}\n",
            more.trim_end()
        );
        self.file(&format!(".ai/tools/{id}/tool.yaml"), manifest)
            .file(
                &format!(".ai/tools/{id}/run.sh"),
                format!("#!/usr/bin/env bash\n{}\n", script.trim_end()),
            )
    }

    /// Writes a directive that calls tools one after the other and may write anything.
    pub(crate) fn directive<'t>(
        self,
        name: &str,
        tools: impl IntoIterator<Item = &'t str>,
    ) -> Self {
        let tools: Vec<&str> = tools.into_iter().collect();
        let each = |line: &str| {
            tools
                .iter()
                .map(|tool| line.replace("TOOL", tool))
                .collect::<Vec<_>>()
                .concat()
        };
        let grants = each("      <execute resource=\"tool\" id=\"TOOL\"/>\n");
        let steps =
            each("    <step name=\"TOOL\"><execute item_type=\"tool\" item_id=\"TOOL\"/></step>\n");
        let text = format!(
            "# {name}\n\n```xml\n<directive name=\"{name}\" version=\"1.0.0\">\n  <metadata>\n    \
             <description>The directive {name}</description>\n    <permissions>\n{grants}      \
             <write resource=\"filesystem\" path=\"**\"/>\n    </permissions>\n  </metadata>\n  \
             <process>\n{steps}  </process>\n</directive>\n```\n"
        );
        self.file(&format!(".ai/directives/{name}.md"), text)
    }

    /// Installs hooks that only call piton.
    pub(crate) fn hooked<'n>(self, names: impl IntoIterator<Item = &'n str>) -> Self {
        for name in names {
            self.hook(".git", name);
        }
        self
    }

    /// Installs such a hook in a repository below the project.
    pub(crate) fn hook(&self, git_dir: &str, name: &str) {
        let file = self.root().join(git_dir).join("hooks").join(name);
        write(
            &file,
            format!(
                "#!/bin/sh\nexec '{}' hooks run {name} -- \"$@\"\n",
                env!("CARGO_BIN_EXE_piton")
            )
            .as_bytes(),
        );
        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("a hook");
    }

    /// Runs the real git in the project; it may fail.
    pub(crate) fn try_git<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Ran {
        self.ran(
            self.hermetic("git", &self.root())
                .args(arguments)
                .output()
                .expect("git starts"),
        )
    }

    pub(crate) fn committed(self) -> Self {
        self.git(["add", "--all"]);
        self.git(["commit", "--quiet", "--message", "start"]);
        self
    }

    /// Checks with the real git that the work tree is clean and the objects are intact.
    pub(crate) fn assert_clean(&self) {
        assert_eq!(self.git(["status", "--porcelain"]), "");
        self.git(["fsck", "--full", "--strict"]);
    }

    /// Writes a file below the home.
    pub(crate) fn home_file(self, path: &str, text: impl AsRef<[u8]>) -> Self {
        write(&self.home().join(path), text.as_ref());
        self
    }

    /// Sets an environment variable for all later commands.
    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Lets piton sync its files, as it does by default.
    pub(crate) fn synced(mut self) -> Self {
        self.is_synced = true;
        self
    }

    /// Gives piton a clock that advances by a minute per command, and run ids that depend on it.
    pub(crate) fn ticking(mut self) -> Self {
        self.ticks = Some(Cell::new(0));
        self.variable("TZ", "UTC")
    }

    /// Runs all later commands in a folder below the project, which is created.
    pub(crate) fn within(mut self, folder: &str) -> Self {
        self.folder = self.root().join(folder);
        fs::create_dir_all(&self.folder).expect("a folder");
        self
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.sandbox.path().join("project")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.sandbox.path().join("home")
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap_or_else(|err| panic!("{path}: {err}"))
    }

    /// Every file below the project outside `.git`, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let root = self.root();
        let mut files: Vec<String> = walkdir::WalkDir::new(&root)
            .into_iter()
            .filter_entry(|entry| entry.file_name() != ".git")
            .map(|entry| entry.expect("a readable entry"))
            .filter(|entry| !entry.file_type().is_dir())
            .map(|entry| {
                entry
                    .path()
                    .strip_prefix(&root)
                    .expect("below")
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        files.sort();
        files
    }

    pub(crate) fn piton<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Ran {
        self.ran(self.command(arguments).output().expect("piton starts"))
    }

    /// Starts piton; its output is read at its end.
    pub(crate) fn started<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Child {
        self.command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("piton starts")
    }

    /// Runs a script of `sh` as one step.
    pub(crate) fn exec(&self, script: &str) -> Ran {
        self.piton(["exec", "--", "sh", "-c", script])
    }

    /// Saves a copy of the project, and of the notes where its journals end.
    pub(crate) fn save(&self) {
        self.bash(
            "rm -rf ../saved ../saved-ends; cp -a . ../saved
             if [ -d ../home/.config/piton/keys/ends ]; then cp -a ../home/.config/piton/keys/ends ../saved-ends; fi",
        );
    }

    /// Restores the saved copy.
    pub(crate) fn reset(&self) {
        // The notes are found by the inode of the git directory, which a copy may get again: then
        // piton would miss the lines that the reset removed.
        self.bash(
            "cd ..; rm -rf project home/.config/piton/keys/ends; cp -a saved project
             if [ -d saved-ends ]; then cp -a saved-ends home/.config/piton/keys/ends; fi",
        );
    }

    /// Runs a script of `bash` as one step whose changes stay on disk.
    pub(crate) fn keep(&self, script: &str) {
        let ran = self.piton([
            "exec",
            "--checkpoint",
            "explicit",
            "--",
            "bash",
            "-euc",
            script,
        ]);
        assert_eq!(ran.code(), Some(0), "{ran}");
    }

    /// Runs a command as root outside of the project folder, which may be its mount point.
    pub(crate) fn as_root(&self, command: &str) {
        let root = self.root();
        let sudo = if rustix::process::geteuid().is_root() {
            ""
        } else {
            "sudo -n "
        };
        let script = format!("PATH=$PATH:/usr/sbin:/sbin; {sudo}{command}");
        let ran = self
            .hermetic("bash", root.parent().expect("a sandbox"))
            .args(["-euc", &script])
            .output();
        let ran = self.ran(ran.expect("bash starts"));
        assert_eq!(ran.code(), Some(0), "{command}: {ran}");
    }

    /// Runs piton with permission bits enforced, also if the tests run as root.
    pub(crate) fn piton_bound<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Ran {
        let mut command = if rustix::process::geteuid().is_root() {
            let mut command = self.hermetic("setpriv", &self.folder);
            command.args([
                "--bounding-set=-dac_override,-dac_read_search",
                env!("CARGO_BIN_EXE_piton"),
            ]);
            command
        } else {
            self.hermetic(env!("CARGO_BIN_EXE_piton"), &self.folder)
        };
        self.ran(command.args(arguments).output().expect("piton starts"))
    }

    /// The result of a command that was started with [`TestProject::command`].
    pub(crate) fn ran(&self, output: Output) -> Ran {
        Ran {
            output,
            filters: self.filters(),
        }
    }

    /// Runs piton within limits: it is killed when it needs too much CPU time, and the test fails
    /// when it, or a program it starts, needs 64 MiB more memory than the bare program. An
    /// unoptimised build needs much memory by itself.
    pub(crate) fn limited<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Ran {
        let (ran, memory) = self.measured(arguments, 10);
        assert!(
            memory < 64 * 1024,
            "piton needed {memory} KiB more than the bare program"
        );
        ran
    }

    /// Runs piton with some seconds of CPU time; also returns how many KiB of memory it, or a
    /// program it starts, needed more than the bare program.
    pub(crate) fn measured<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
        seconds: u32,
    ) -> (Ran, u64) {
        // The system reports the memory of a process only to the parent that waits for it.
        const WAITER: &str = "import os, resource, subprocess, sys\n\
            seconds = int(sys.argv.pop(1))\n\
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))\n\
            usage = lambda: resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss\n\
            subprocess.run([sys.argv[2], '--version'], stdout=subprocess.DEVNULL)\n\
            bare = usage()\n\
            code = subprocess.run(sys.argv[2:]).returncode\n\
            unit = 1024 if sys.platform == 'darwin' else 1\n\
            open(sys.argv[1], 'w').write(str((usage() - bare) // unit))\n\
            sys.exit(code if code >= 0 else 128 - code)";
        let usage = self.sandbox.path().join("tmp/usage");
        let mut command = self.hermetic("python3", &self.folder);
        command
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .args(["-I", "-S", "-c", WAITER]);
        let output = command
            .arg(seconds.to_string())
            .arg(&usage)
            .arg(env!("CARGO_BIN_EXE_piton"))
            .args(arguments)
            .output();
        let output = output.expect("python3 starts");
        let memory: u64 = fs::read_to_string(usage)
            .expect("the waiter reports")
            .parse()
            .expect("a number of KiB");
        (
            Ran {
                output,
                filters: self.filters(),
            },
            memory,
        )
    }

    /// The command that [`TestProject::piton`] runs, for tests that need its streams.
    pub(crate) fn command<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = self.hermetic(env!("CARGO_BIN_EXE_piton"), &self.folder);
        command.args(arguments);
        if let Some(ticks) = &self.ticks {
            let tick = ticks.get();
            ticks.set(tick + 1);
            command.env(
                "PITON_TEST_CLOCK",
                format!("2026-01-02T{:02}:{:02}:00Z", 3 + tick / 60, tick % 60),
            );
            command.env("PITON_TEST_SEED", (1000 * tick).to_string());
        }
        command
    }

    /// Runs piton with a tool that has [`MEETING`] in its script, and runs bash commands as soon as
    /// the tool waits.
    pub(crate) fn piton_while<S: AsRef<OsStr>>(
        &self,
        commands: &str,
        arguments: impl IntoIterator<Item = S>,
    ) -> Ran {
        let tmp = self.sandbox.path().join("tmp");
        for name in ["ready", "go"] {
            let _ = fs::remove_file(tmp.join(name));
        }
        let mut command = self.command(arguments);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("piton starts");
        let deadline = Instant::now() + Duration::from_mins(1);
        while !tmp.join("ready").exists() && child.try_wait().expect("a child").is_none() {
            assert!(Instant::now() < deadline, "the tool does not begin");
            thread::sleep(Duration::from_millis(5));
        }
        self.bash(commands);
        fs::write(tmp.join("go"), "").expect("a file");
        self.ran(child.wait_with_output().expect("piton ends"))
    }

    /// Like [`TestProject::command`], run by another program that takes the command line last.
    pub(crate) fn command_under<S: AsRef<OsStr>>(
        &self,
        program: &str,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = self.hermetic(program, &self.folder);
        command.args(arguments).arg(env!("CARGO_BIN_EXE_piton"));
        command
    }

    /// Runs the real git in the project and returns its output.
    pub(crate) fn git<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> String {
        let output = self
            .hermetic("git", &self.root())
            .args(arguments)
            .output()
            .expect("git starts");
        assert!(
            output.status.success(),
            "git failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("git prints UTF-8")
    }

    /// Runs commands with the real bash at the top of the project.
    pub(crate) fn bash(&self, commands: &str) -> String {
        let output = self
            .hermetic("bash", &self.root())
            .args(["-euc", commands])
            .output()
            .expect("bash starts");
        assert!(
            output.status.success(),
            "{commands}\nfailed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// A program in a folder, with the environment of the project.
    #[expect(
        clippy::disallowed_methods,
        reason = "tests start the real binary and the real git"
    )]
    pub(crate) fn hermetic(&self, program: &str, folder: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home())
            .env("TMPDIR", self.sandbox.path().join("tmp"))
            .env("LANG", "C.UTF-8")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .env("GIT_AUTHOR_NAME", "Test")
            .env("GIT_AUTHOR_EMAIL", "test@example.com")
            .env("GIT_AUTHOR_DATE", "2026-01-02T03:04:05Z")
            .env("GIT_COMMITTER_NAME", "Test")
            .env("GIT_COMMITTER_EMAIL", "test@example.com")
            .env("GIT_COMMITTER_DATE", "2026-01-02T03:04:05Z");
        if let Some(format) = std::env::var_os(OBJECT_FORMAT) {
            command.env("GIT_DEFAULT_HASH", format);
        }
        if !self.is_synced {
            command.env("PITON_CHECKPOINT_FSYNC", "never");
        }
        command
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .current_dir(folder);
        command
    }

    /// Masks for what differs between machines and runs.
    fn filters(&self) -> Vec<(String, String)> {
        let mut filters = Vec::new();
        let sandbox = self.sandbox.path();
        let real = fs::canonicalize(sandbox).expect("the sandbox exists");
        for base in [real.as_path(), sandbox] {
            for (folder, name) in [
                ("project", "[PROJECT]"),
                ("home", "[HOME]"),
                ("tmp", "[TMP]"),
                ("", "[SANDBOX]"),
            ] {
                let path = base.join(folder);
                let path = path.to_string_lossy();
                filters.push((regex::escape(path.trim_end_matches('/')), name.to_owned()));
            }
        }
        filters.push((
            r"piton-quickstart-\w{6}".to_owned(),
            "piton-quickstart-[ID]".to_owned(),
        ));
        filters.push((
            r"\b[0-9a-f]{64}\b|\b[0-9a-f]{40}\b".to_owned(),
            "[HASH]".to_owned(),
        ));
        filters.push((
            r"/piton/[0-9a-f]{16}/".to_owned(),
            "/piton/[PROJECT ID]/".to_owned(),
        ));
        filters.push((
            r"\boutput_\d{8}_\d{6}(_\d+)?\.json".to_owned(),
            "output_[TIME].json".to_owned(),
        ));
        filters.push((r"\b\d+(\.\d+)? ?(ms|s)\b".to_owned(), "[TIME]".to_owned()));
        if self.ticks.is_some() {
            // The journal holds the path of the project, and every commit holds a hash of the
            // journal.
            filters.push((r"\b[0-9a-f]{10}\b".to_owned(), "[SHA]".to_owned()));
        }
        filters
    }
}

impl TestProject {
    /// Starts piton and waits until a failpoint has stopped it.
    pub(crate) fn stopped_at(&self, words: &[&str], place: &str) -> Child {
        let mut command = self.command(words);
        command
            .env("PITON_FAILPOINT", format!("{place}=stop"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("piton starts");
        let pid = child.id();
        let deadline = Instant::now() + Duration::from_mins(1);
        let is_stopped = || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(") ")
                .is_some_and(|(_, rest)| rest.starts_with('T'))
        };
        while !is_stopped() {
            assert!(
                child.try_wait().expect("a child").is_none(),
                "it ended before `{place}`"
            );
            assert!(Instant::now() < deadline, "it does not reach `{place}`");
            thread::sleep(Duration::from_millis(5));
        }
        child
    }

    /// Lets a stopped piton go on to its end.
    pub(crate) fn continued(&self, child: Child) -> Ran {
        self.bash(&format!("kill -CONT {}", child.id()));
        self.ran(child.wait_with_output().expect("piton ends"))
    }
}

impl Ran {
    /// The result of a command that a test started itself.
    pub(crate) fn new(output: Output, project: &TestProject) -> Self {
        Self {
            output,
            filters: project.filters(),
        }
    }

    /// The filters of a snapshot: pattern and replacement.
    pub(crate) fn filters(&self) -> Vec<(&str, &str)> {
        self.filters
            .iter()
            .map(|(pattern, shown)| (pattern.as_str(), shown.as_str()))
            .collect()
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8(self.output.stdout.clone()).expect("piton prints UTF-8")
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8(self.output.stderr.clone()).expect("piton prints UTF-8")
    }

    /// Parses stdout as one JSON value.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout()).unwrap_or_else(|err| panic!("not JSON: {err}\n{self}"))
    }

    /// Parses the last line of stdout, which is the result of most commands, as JSON.
    pub(crate) fn last_json(&self) -> serde_json::Value {
        let stdout = self.stdout();
        serde_json::from_str(stdout.lines().last().unwrap_or_default())
            .unwrap_or_else(|err| panic!("not JSON: {err}\n{self}"))
    }

    /// Panics with the whole output unless the command exited with 0.
    pub(crate) fn succeeded(self) -> Self {
        assert_eq!(self.code(), Some(0), "{self}");
        self
    }

    pub(crate) fn code(&self) -> Option<i32> {
        self.output.status.code()
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "success: {}", self.output.status.success())?;
        writeln!(
            f,
            "exit_code: {}",
            self.code()
                .map_or("none".to_owned(), |code| code.to_string())
        )?;
        write!(f, "----- stdout -----\n{}", self.stdout())?;
        write!(f, "----- stderr -----\n{}", self.stderr())
    }
}

fn write(path: &Path, text: &[u8]) {
    fs::create_dir_all(path.parent().expect("a file has a folder")).expect("a folder");
    fs::write(path, text).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
}
