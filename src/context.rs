//! The surroundings of piton: project, home, environment, settings, time and randomness.
//!
//! The only reader of the process environment, the working folder and the clock. The CLI and the
//! MCP server build one [`Context`] and pass it by reference; everything below takes what it needs
//! as data, so that tests never have to change the process.

mod clock;
pub mod message_writer;
pub mod person;
pub mod principal;
pub mod stop;

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use clock::Clock;
use message_writer::MessageWriter;
use person::Person;
use principal::{PersonChannel, Principal, UnreviewedFiles};
use stop::Stop;

use sha2::Digest;

use crate::config::{Config, InvalidVariable, SettingsFiles};
use crate::encoding::hex;
use crate::item::store::Roots;
use crate::problem::{Code, Explain, Hint};

/// The folder with the items of a project or user.
pub const ITEMS: &str = ".ai";

/// The variable that tells hooks which commit is piton's own.
pub const HOOK_TOKEN: &str = "PITON_HOOK_TOKEN";

#[derive(Clone, Debug)]
pub struct Context {
    /// The project: absolute, without symlinks. `/` where there is none; see [`Self::project`].
    pub root: PathBuf,
    pub found_by: FoundBy,
    pub home: Option<PathBuf>,
    /// The folder piton was started in, or the one of `-C`.
    pub cwd: PathBuf,
    pub environment: Environment,
    pub config: Config,
    /// The program itself, to start workers and supervisors.
    pub program: PathBuf,
    /// Cancels the work of this caller.
    pub stop: Stop,
    /// Writes commit messages for this caller.
    pub message_writer: MessageWriter,
    /// The person at the terminal, if there is one to ask.
    pub person: Person,
    /// Who asks for the work.
    pub principal: Principal,
    /// Items that an agent wrote and no person has allowed yet.
    pub unreviewed: UnreviewedFiles,
    clock: Clock,
}

/// Why a folder is the project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// It has `.ai/`.
    Items,
    /// It is the top of a git work tree.
    Git,
    /// No better candidate; piton was started there.
    WorkingFolder,
    /// There is no project.
    Nowhere,
}

#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
    cwd: Option<PathBuf>,
    hook_token: Option<OsString>,
}

#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// The working folder was removed or cannot be read.
    #[error("the current folder does not exist or cannot be read")]
    NoWorkingFolder,
    #[error("cannot enter the folder `{}`", .folder.display())]
    NotAFolder {
        folder: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the root of the file system is not a project")]
    RootIsSystem,
    #[error("the home folder `{}` is not a project", .0.display())]
    RootIsHome(PathBuf),
    /// A bare repository, or `.git`.
    #[error("`{}` is a git folder, not a work tree", .0.display())]
    InsideGitData(PathBuf),
    #[error(transparent)]
    Variable(#[from] InvalidVariable),
}

impl Context {
    /// Finds the project around the working folder, or around `folder` (`-C`), and reads its
    /// settings.
    pub fn discover(environment: Environment, folder: Option<&Path>) -> Result<Self, ContextError> {
        let cwd = environment.enter(folder)?;
        let home = environment.home();
        let (root, found_by) = find_root(&cwd, home.as_deref())?;
        if root.parent().is_none() {
            return Err(ContextError::RootIsSystem);
        }
        if home.as_ref() == Some(&root) {
            return Err(ContextError::RootIsHome(root));
        }
        Self::new(root, found_by, cwd, environment)
    }

    /// The same for commands that need no project: without one, only the user's settings apply.
    pub fn anywhere(environment: Environment, folder: Option<&Path>) -> Result<Self, ContextError> {
        match Self::discover(environment.clone(), folder) {
            Err(
                ContextError::RootIsSystem
                | ContextError::RootIsHome(_)
                | ContextError::InsideGitData(_),
            ) => {
                let cwd = environment.enter(folder)?;
                Self::new(PathBuf::from("/"), FoundBy::Nowhere, cwd, environment)
            }
            found => found,
        }
    }

    /// Uses a folder as the project without searching.
    pub fn at(environment: Environment, root: &Path) -> Result<Self, ContextError> {
        let root = environment.enter(Some(root))?;
        Self::new(root.clone(), FoundBy::WorkingFolder, root, environment)
    }

    /// The same process in another folder: its project and settings are found anew; clock and
    /// randomness continue.
    pub fn moved_to(&self, folder: &Path) -> Result<Self, ContextError> {
        let moved = Self::discover(self.environment.clone(), Some(folder))?;
        Ok(Self {
            clock: self.clock.clone(),
            program: self.program.clone(),
            stop: self.stop.clone(),
            message_writer: self.message_writer.clone(),
            person: self.person.clone(),
            principal: self.principal,
            unreviewed: self.unreviewed.clone(),
            ..moved
        })
    }

    /// The same for a caller that can cancel its work.
    #[must_use]
    pub fn ended_by(mut self, stop: &Stop) -> Self {
        self.stop = stop.clone();
        self
    }

    /// The same for a caller that has a model to write commit messages.
    #[must_use]
    pub fn written_by(mut self, message_writer: &MessageWriter) -> Self {
        self.message_writer = message_writer.clone();
        self
    }

    /// The same for another principal.
    #[must_use]
    pub fn on_behalf_of(mut self, principal: Principal) -> Self {
        self.principal = principal;
        self
    }

    fn new(
        root: PathBuf,
        found_by: FoundBy,
        cwd: PathBuf,
        environment: Environment,
    ) -> Result<Self, ContextError> {
        let home = environment.home();
        let user = home
            .as_ref()
            .map(|home| home.join(ITEMS).join("config.yaml"));
        let project = (found_by != FoundBy::Nowhere).then(|| root.join(ITEMS).join("config.yaml"));
        let files = SettingsFiles {
            user: user.as_deref(),
            project: project.as_deref(),
        };
        let config = Config::load(files, &environment.variables)?;
        let clock = Clock::of(&environment)?;
        Ok(Self {
            root,
            found_by,
            home,
            cwd,
            environment,
            config,
            program: own_program(),
            stop: Stop::default(),
            message_writer: MessageWriter::default(),
            person: Person::default(),
            principal: Principal::Person(PersonChannel::Terminal),
            unreviewed: UnreviewedFiles::default(),
            clock,
        })
    }

    /// To the millisecond.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn random_bits(&self) -> u128 {
        self.clock.random_bits()
    }

    /// The project, if there is one.
    pub fn project(&self) -> Option<&Path> {
        (self.found_by != FoundBy::Nowhere).then_some(&self.root)
    }

    pub fn roots(&self) -> Roots {
        Roots {
            project: self.project().map(Path::to_path_buf),
            user: self.home.clone(),
        }
    }

    /// `PATH`.
    pub fn search_path(&self) -> &OsStr {
        self.environment.find("PATH").unwrap_or_default()
    }

    /// Where the state of this project is kept without a repository.
    pub fn state_folder(&self) -> PathBuf {
        let state = self
            .environment
            .find("XDG_STATE_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute());
        let state = state.or_else(|| {
            self.home
                .as_ref()
                .map(|home| home.join(".local").join("state"))
        });
        let state = state.unwrap_or_else(|| self.environment.temporary_folder());
        let name = sha2::Sha256::digest(self.root.as_os_str().as_encoded_bytes());
        state
            .join("piton")
            .join(hex(name.get(..8).unwrap_or(&name)))
    }

    /// Where data is kept that can be recreated, such as virtual environments.
    pub fn cache_folder(&self) -> PathBuf {
        let cache = self
            .environment
            .find("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute());
        let cache = cache.or_else(|| self.home.as_ref().map(|home| home.join(".cache")));
        cache
            .unwrap_or_else(|| self.environment.temporary_folder())
            .join("piton")
    }

    /// The user's settings folder, e.g. for trusted signers; `None` without a home.
    pub fn settings_folder(&self) -> Option<PathBuf> {
        self.environment.settings_folder()
    }

    pub fn project_items(&self) -> PathBuf {
        self.root.join(ITEMS)
    }

    /// A path as shown to users: relative to the project if it is inside.
    pub fn shown_path(&self, path: &Path) -> PathBuf {
        self.project()
            .and_then(|root| path.strip_prefix(root).ok())
            .unwrap_or(path)
            .to_path_buf()
    }
}

impl FoundBy {
    pub fn reason(self) -> &'static str {
        match self {
            Self::Items => "which has `.ai/`",
            Self::Git => "the top of its git work tree",
            Self::WorkingFolder => "the current folder",
            Self::Nowhere => "there is none",
        }
    }
}

impl Environment {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads the environment"
    )]
    pub fn of_process() -> Self {
        let mut variables: BTreeMap<OsString, OsString> = env::vars_os().collect();
        // Only the hooks of piton's own commits may get it, not other child processes.
        let hook_token = variables.remove(OsStr::new(HOOK_TOKEN));
        Self {
            variables,
            cwd: env::current_dir().ok(),
            hook_token,
        }
    }

    pub fn new(variables: BTreeMap<OsString, OsString>, cwd: PathBuf) -> Self {
        Self {
            variables,
            cwd: Some(cwd),
            hook_token: None,
        }
    }

    pub fn variables(&self) -> &BTreeMap<OsString, OsString> {
        &self.variables
    }

    /// An empty variable counts as unset.
    pub fn find(&self, name: &str) -> Option<&OsStr> {
        self.variables
            .get(OsStr::new(name))
            .map(OsString::as_os_str)
            .filter(|value| !value.is_empty())
    }

    /// The token by which a hook recognizes piton's own commit.
    pub fn hook_token(&self) -> Option<&[u8]> {
        self.hook_token
            .as_ref()
            .map(|token| token.as_encoded_bytes())
    }

    /// The variables for a program that has to find repositories itself: without those that point
    /// git at the repository of a running hook or alias.
    ///
    /// With them, `git` in any other folder would write into that repository's index, objects and
    /// refs.
    pub fn without_git_variables(&self) -> BTreeMap<OsString, OsString> {
        let kept = self
            .variables
            .iter()
            .filter(|(name, _)| !is_repository_local(name));
        kept.map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    pub fn temporary_folder(&self) -> PathBuf {
        self.find("TMPDIR")
            .map_or_else(env::temp_dir, PathBuf::from)
    }

    /// As [`Context::settings_folder`].
    pub fn settings_folder(&self) -> Option<PathBuf> {
        let settings = self
            .find("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute());
        let settings = settings.or_else(|| Some(self.home()?.join(".config")))?;
        Some(settings.join("piton"))
    }

    /// Without symlinks, so that it can be compared with a project.
    pub fn home(&self) -> Option<PathBuf> {
        let home = Path::new(self.find("HOME")?);
        // A relative home would move with the working folder: treat it as unset.
        home.is_absolute()
            .then(|| fs::canonicalize(home).unwrap_or_else(|_| home.to_path_buf()))
    }

    /// The folder to work in: that of the process, or another one relative to it.
    pub fn enter(&self, folder: Option<&Path>) -> Result<PathBuf, ContextError> {
        let target = match (&self.cwd, folder) {
            (None, None) => return Err(ContextError::NoWorkingFolder),
            (None, Some(folder)) if folder.is_relative() => {
                return Err(ContextError::NoWorkingFolder);
            }
            (None, Some(folder)) => folder.to_path_buf(),
            (Some(cwd), None) => cwd.clone(),
            (Some(cwd), Some(folder)) => cwd.join(folder),
        };
        let not_a_folder = |source| ContextError::NotAFolder {
            folder: target.clone(),
            source,
        };
        let entered = fs::canonicalize(&target).map_err(not_a_folder)?;
        // Reading it is the only way to know that the folder can be entered.
        fs::read_dir(&entered).map_err(not_a_folder)?;
        Ok(entered)
    }
}

impl Explain for ContextError {
    fn code(&self) -> Code {
        match self {
            Self::NoWorkingFolder => Code::NoWorkingFolder,
            Self::NotAFolder { .. } => Code::NotAFolder,
            Self::RootIsSystem | Self::RootIsHome(_) | Self::InsideGitData(_) => Code::NotAProject,
            Self::Variable(_) => Code::InvalidVariable,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::NoWorkingFolder => Some("go to a folder that exists, or name one with `-C DIR`".into()),
            Self::NotAFolder { .. } => None,
            Self::RootIsSystem => Some(
                "go to the folder of a project or name one with `-C DIR`; a folder with `.ai/` in it is one".into(),
            ),
            Self::RootIsHome(_) => Some(
                "go to the folder of a project or name one with `-C DIR`; `~/.ai` is for what you use in all of them"
                    .into(),
            ),
            Self::InsideGitData(_) => {
                Some("go to a work tree of the repository, or create one with `git worktree add`".into())
            }
            Self::Variable(_) => Some("correct the variable or unset it".into()),
        }
    }
}

/// The file of the program. On Linux this path stays valid after an update replaced the file.
pub fn own_program() -> PathBuf {
    if cfg!(target_os = "linux") {
        return PathBuf::from("/proc/self/exe");
    }
    env::current_exe().unwrap_or_else(|_| PathBuf::from("piton"))
}

/// Random bytes for a key.
pub fn fresh_secret() -> std::io::Result<[u8; 32]> {
    clock::fresh_secret()
}

/// With the program name first.
pub fn arguments() -> Vec<OsString> {
    env::args_os().collect()
}

/// The variables that tie git to one repository: `git rev-parse --local-env-vars`, and others that
/// hooks get.
const REPOSITORY_LOCAL: [&str; 18] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NAMESPACE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// Whether a variable ties git to one repository. `GIT_CONFIG_GLOBAL` and `_SYSTEM` name the user's
/// files and stay; the numbered settings are meaningless without their count.
pub(crate) fn is_repository_local(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let numbered = ["GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"]
        .iter()
        .any(|prefix| name.starts_with(prefix));
    numbered || REPOSITORY_LOCAL.contains(&name)
}

/// Finds the project that contains a folder.
///
/// The nearest folder with items wins, searched up to the top of the git work tree. The home folder
/// never counts, because its items belong to the user layer.
fn find_root(cwd: &Path, home: Option<&Path>) -> Result<(PathBuf, FoundBy), ContextError> {
    for folder in cwd.ancestors() {
        if holds_git_data(folder) {
            return Err(ContextError::InsideGitData(folder.to_path_buf()));
        }
        let is_home = home == Some(folder);
        if !is_home && folder.parent().is_some() && folder.join(ITEMS).is_dir() {
            return Ok((folder.to_path_buf(), FoundBy::Items));
        }
        if fs::symlink_metadata(folder.join(".git")).is_ok() {
            return Ok((folder.to_path_buf(), FoundBy::Git));
        }
        if is_home {
            break;
        }
    }
    Ok((cwd.to_path_buf(), FoundBy::WorkingFolder))
}

/// Whether git would recognize a folder as a repository, by the same three entries.
fn holds_git_data(folder: &Path) -> bool {
    folder.join("objects").is_dir() && folder.join("refs").is_dir() && folder.join("HEAD").is_file()
}

#[cfg(test)]
mod tests;
