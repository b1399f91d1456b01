//! The repository around a project: its kind, its folders and its state.
//!
//! [`Repository::open`] refuses by name what libgit2 would silently mishandle. It ignores `GIT_DIR`
//! and similar variables, because a hook of another repository may have set them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use git2::{Config, ErrorCode, RepositoryOpenFlags, RepositoryState};

use super::delta::LineCounts;
use super::error::{CheckpointError, GitOperation};
use super::extension;
use super::hook_environment::HookEnvironment;
use super::included_settings;
use super::index::Index;
use super::object::{ObjectFormat, ObjectId};
use super::objects::Objects;
use super::reference::table::RefListing;
use super::reference::{RefHook, RefStorage, storage_of};
use super::store::Store;
use super::substitution::{Replacements, shown};
use super::tree;
use crate::disk::{Disk, Fsync};

/// A supported repository with a work tree.
pub struct Repository {
    pub(crate) git: git2::Repository,
    /// The top of the work tree: absolute, without symbolic links.
    pub(crate) top: PathBuf,
    /// Git's settings, including changes by the environment.
    pub(crate) config: Config,
    /// The user's git folder, e.g. `~/.config/git`.
    user_folder: Option<PathBuf>,
    /// Piton's private objects, which no git command sees.
    pub(crate) store: Store,
    /// The file system of the git folder.
    pub(crate) disk: Disk,
    pub(crate) fsync: Fsync,
    /// Whether libgit2 reads the store too.
    is_attached: Cell<bool>,
    /// The replacements of `git replace`, once loaded.
    pub(super) substitutes: RefCell<Option<Arc<Replacements>>>,
    /// The environment for the `git` program.
    pub(super) environment: BTreeMap<OsString, OsString>,
    pub(super) ref_hook: Cell<RefHook>,
    pub(super) storage: RefStorage,
    /// The index that libgit2 reads, if it is not the user's.
    index_shown: RefCell<Option<PathBuf>>,
    /// The refs of a reftable, as last read.
    pub(super) listing: RefCell<Option<Arc<RefListing>>>,
    pub(super) line_counts: LineCounts,
}

impl Repository {
    pub fn find_setting(&self, name: &str) -> Option<String> {
        self.config.get_string(name).ok()
    }

    /// Opens the repository that contains a folder.
    pub fn open(
        folder: &Path,
        home: Option<&Path>,
        environment: &BTreeMap<OsString, OsString>,
        fsync: Fsync,
    ) -> Result<Self, CheckpointError> {
        let git = open_git(folder, home)?;
        let top = match git.workdir() {
            Some(top) if !git.is_bare() => {
                std::fs::canonicalize(top).map_err(CheckpointError::io("find the folder", top))?
            }
            _ => return Err(CheckpointError::Bare(git.path().to_path_buf())),
        };
        if top.parent().is_none() || home == Some(top.as_path()) {
            return Err(CheckpointError::TooBroad(top));
        }
        Self::of(git, top, home, environment, fsync)
    }

    /// Opens the repository for which git runs a hook. It need not support steps: hooks only read,
    /// and pushes are checked in bare repositories.
    pub fn open_for_hook(
        place: &HookEnvironment,
        home: Option<&Path>,
        environment: &BTreeMap<OsString, OsString>,
        fsync: Fsync,
    ) -> Result<Self, CheckpointError> {
        extension::accept();
        included_settings::check(place, home)?;
        let git =
            git2::Repository::open(&place.git_dir).map_err(|err| why_not(&place.git_dir, err))?;
        let repository = Self::of(git, place.top.clone(), home, environment, fsync)?;
        if let Some(incoming) = place.incoming.as_ref().and_then(|path| path.to_str()) {
            let odb = repository
                .git
                .odb()
                .map_err(CheckpointError::git("open the object database"))?;
            odb.add_disk_alternate(incoming)
                .map_err(CheckpointError::git("open what is pushed"))?;
        }
        Ok(repository)
    }

    fn of(
        git: git2::Repository,
        top: PathBuf,
        home: Option<&Path>,
        environment: &BTreeMap<OsString, OsString>,
        fsync: Fsync,
    ) -> Result<Self, CheckpointError> {
        let config = settings(&git, environment)?;
        // libgit2 converts line ends, and would otherwise read other files.
        git.set_config(&config)
            .map_err(CheckpointError::git("read the settings of git"))?;
        let user_folder = environment
            .get(OsStr::new("XDG_CONFIG_HOME"))
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
            .or_else(|| home.map(|home| home.join(".config")))
            .map(|folder| folder.join("git"));
        let disk = Disk::of(git.commondir(), fsync);
        let store = Store::of(git.commondir(), disk.clone(), git.object_format().into());
        let Some(storage) = storage_of(&config) else {
            let found = "`extensions.refStorage`".to_owned();
            return Err(CheckpointError::Unsupported {
                feature: "this kind of ref storage",
                found,
            });
        };
        let repository = Self {
            git,
            top,
            config,
            user_folder,
            store,
            disk,
            fsync,
            is_attached: Cell::new(false),
            substitutes: RefCell::new(None),
            environment: environment.clone(),
            ref_hook: Cell::new(RefHook::Run),
            storage,
            index_shown: RefCell::new(None),
            listing: RefCell::new(None),
            line_counts: LineCounts::default(),
        };
        repository.attach_store()?;
        Ok(repository)
    }

    /// Lets libgit2 read the private store, in this process only, once it exists.
    pub(crate) fn attach_store(&self) -> Result<(), CheckpointError> {
        let objects = self.store.objects();
        if self.is_attached.get() || !objects.is_dir() {
            return Ok(());
        }
        // libgit2 accepts only UTF-8 paths; otherwise `Objects` reads the store itself.
        if let Some(objects) = objects.to_str() {
            let opening = || CheckpointError::git("open the private object store");
            self.git
                .odb()
                .and_then(|odb| odb.add_disk_alternate(objects))
                .map_err(opening())?;
        }
        self.is_attached.set(true);
        Ok(())
    }

    /// Lets libgit2 read a full copy of the index if it cannot read the user's: it uses the index
    /// for attributes.
    pub(super) fn show_index_to_libgit2(&self, index: &Index) -> Result<(), CheckpointError> {
        let path = if index.is_folded() {
            let path = self
                .own_folder()
                .join("tmp")
                .join(format!("full-index-{}", std::process::id()));
            std::fs::write(&path, index.to_bytes()).map_err(CheckpointError::io("write", &path))?;
            path
        } else if self.index_shown.borrow().is_some() {
            self.index_file()
        } else {
            return Ok(());
        };
        show_index(&self.git, &path)?;
        *self.index_shown.borrow_mut() = Some(path);
        Ok(())
    }

    /// The file system of the git folder, for durable writes.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    pub fn format(&self) -> ObjectFormat {
        self.git.object_format().into()
    }

    pub fn empty_tree(&self) -> ObjectId {
        ObjectId::empty_tree(self.format())
    }

    /// The top of the work tree.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// The git folder of this worktree.
    pub fn git_dir(&self) -> &Path {
        self.git.path()
    }

    /// The folder of the journals of all worktrees.
    pub fn runs_folder(&self) -> PathBuf {
        self.git.commondir().join("piton").join("runs")
    }

    /// The folder of piton's lock, cache and temporary files for this worktree.
    pub fn own_folder(&self) -> PathBuf {
        self.git.path().join("piton")
    }

    pub(crate) fn index_file(&self) -> PathBuf {
        self.git.path().join("index")
    }

    /// Reads the user's index.
    pub(crate) fn load_index(&self) -> Result<Index, CheckpointError> {
        self.load_index_at(&self.index_file())
    }

    /// Reads an index of this repository.
    pub(crate) fn load_index_at(&self, path: &Path) -> Result<Index, CheckpointError> {
        Index::load(path, self.format(), &|folder| {
            let files = tree::differences(&Objects::of(self)?, self.empty_tree(), folder)?;
            Ok(files
                .into_iter()
                .filter_map(|(path, _, entry)| Some((path, entry?)))
                .collect())
        })
    }

    /// The tree of a commit as git shows it (`git replace`); the empty tree on an unborn branch.
    pub(crate) fn tree_of(&self, commit: Option<ObjectId>) -> Result<ObjectId, CheckpointError> {
        let Some(commit) = commit else {
            return Ok(self.empty_tree());
        };
        let substitutes = self.substitutes()?;
        Ok(shown(
            &substitutes,
            self.stored_tree_of(shown(&substitutes, commit))?,
        ))
    }

    /// The tree of a commit as stored.
    pub(crate) fn stored_tree_of(&self, commit: ObjectId) -> Result<ObjectId, CheckpointError> {
        let commit = self
            .git
            .find_commit(commit.into())
            .map_err(CheckpointError::git("read a commit"))?;
        Ok(commit.tree_id().into())
    }

    /// The parents of a commit.
    pub(crate) fn parents_of(&self, commit: ObjectId) -> Result<Vec<ObjectId>, CheckpointError> {
        let commit = self
            .git
            .find_commit(commit.into())
            .map_err(CheckpointError::git("read a commit"))?;
        Ok(commit.parent_ids().map(ObjectId::from).collect())
    }

    /// The commits that one has and the other does not, oldest first.
    pub fn commits_between(
        &self,
        base: Option<ObjectId>,
        tip: Option<ObjectId>,
    ) -> Result<Vec<ObjectId>, CheckpointError> {
        let reading = || CheckpointError::git("read the history");
        let Some(tip) = tip else {
            return Ok(Vec::new());
        };
        let mut walk = self.git.revwalk().map_err(reading())?;
        walk.push(tip.into()).map_err(reading())?;
        if let Some(base) = base {
            walk.hide(base.into()).map_err(reading())?;
        }
        let mut commits: Vec<ObjectId> = walk
            .map(|id| id.map(ObjectId::from))
            .collect::<Result<_, _>>()
            .map_err(reading())?;
        commits.reverse();
        Ok(commits)
    }

    /// Fails during a git operation: a commit would conclude it, or become part of it.
    pub fn refuse_operation_in_progress(&self) -> Result<(), CheckpointError> {
        let operation = match self.git.state() {
            // In a reftable these are refs, while libgit2 looks for files.
            RepositoryState::Clean if self.has_root_ref("CHERRY_PICK_HEAD")? => {
                GitOperation::CherryPick
            }
            RepositoryState::Clean if self.has_root_ref("REVERT_HEAD")? => GitOperation::Revert,
            RepositoryState::Clean => return Ok(()),
            RepositoryState::Merge => GitOperation::Merge,
            RepositoryState::Revert | RepositoryState::RevertSequence => GitOperation::Revert,
            RepositoryState::CherryPick | RepositoryState::CherryPickSequence => {
                GitOperation::CherryPick
            }
            RepositoryState::Bisect => GitOperation::Bisect,
            RepositoryState::Rebase
            | RepositoryState::RebaseInteractive
            | RepositoryState::RebaseMerge
            | RepositoryState::ApplyMailboxOrRebase => GitOperation::Rebase,
            RepositoryState::ApplyMailbox => GitOperation::ApplyMailbox,
        };
        Err(CheckpointError::InProgress(operation))
    }

    /// Whether a cherry-pick or revert is in progress, by its ref; only a reftable has it as a ref.
    pub fn is_picking(&self) -> Result<bool, CheckpointError> {
        Ok(self.has_root_ref("CHERRY_PICK_HEAD")? || self.has_root_ref("REVERT_HEAD")?)
    }

    /// A boolean setting.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.config.get_bool(name).ok()
    }

    /// A boolean setting, also from a file that did not exist when the repository was opened.
    pub(crate) fn flag_now(&self, name: &str) -> bool {
        let worktree = Config::open(&self.git.path().join("config.worktree"));
        let set = worktree.ok().and_then(|config| config.get_bool(name).ok());
        set.or_else(|| self.flag(name)).unwrap_or(false)
    }

    /// A text setting.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.config.get_string(name).ok()
    }

    /// The comment prefix in messages that people edit.
    pub fn comment_mark(&self) -> String {
        self.text("core.commentString")
            .or_else(|| self.text("core.commentChar"))
            .unwrap_or_else(|| "#".to_owned())
    }

    /// A path setting, with `~` resolved.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.config.get_path(name).ok()
    }

    /// The user's git folder, which may contain rules for all repositories.
    pub(crate) fn user_git_folder(&self) -> Option<&Path> {
        self.user_folder.as_deref()
    }

    /// The promisor remote of a partial clone.
    pub(crate) fn promisor(&self) -> Option<String> {
        let mut entries = self.config.entries(Some("^remote\\..*\\.promisor$")).ok()?;
        while let Some(entry) = entries.next() {
            let entry = entry.ok()?;
            let remote = entry
                .name()
                .ok()
                .and_then(|name| name.strip_prefix("remote.")?.strip_suffix(".promisor"));
            if let Some(remote) = remote
                && entry.value().is_ok_and(|value| value == "true")
            {
                return Some(remote.to_owned());
            }
        }
        self.text("extensions.partialClone")
    }
}

/// Lets a libgit2 handle read another index than the user's.
fn show_index(git: &git2::Repository, path: &Path) -> Result<(), CheckpointError> {
    let opened = git2::Index::open_ext(path, git.object_format())
        .and_then(|mut index| git.set_index(&mut index));
    opened.map_err(CheckpointError::git("read the index"))
}

/// Opens the repository that contains a folder, supported or not.
pub(super) fn open_git(
    folder: &Path,
    home: Option<&Path>,
) -> Result<git2::Repository, CheckpointError> {
    extension::accept();
    if let Some(place) = HookEnvironment::find(folder, |_| None) {
        included_settings::check(&place, home)?;
    }
    git2::Repository::open_ext(folder, RepositoryOpenFlags::empty(), None::<&Path>)
        .map_err(|err| why_not(folder, err))
}

/// Creates a repository for an example, with its own identity.
pub fn create_repository(folder: &Path) -> Result<(), CheckpointError> {
    let making = || CheckpointError::git("make a repository");
    let mut options = git2::RepositoryInitOptions::new();
    options.initial_head("main").external_template(false);
    let repository = git2::Repository::init_opts(folder, &options).map_err(making())?;
    let mut config = repository.config().map_err(making())?;
    let settings = [
        ("user.name", "piton quickstart"),
        ("user.email", "quickstart@example.org"),
        ("commit.gpgsign", "false"),
        ("core.hooksPath", "/dev/null"),
    ];
    settings
        .iter()
        .try_for_each(|(name, value)| config.set_str(name, value))
        .map_err(making())
}

/// Git's settings as the git program reads them: `GIT_CONFIG_GLOBAL` and `GIT_CONFIG_SYSTEM`, which
/// libgit2 ignores, may name other files.
pub(super) fn settings(
    git: &git2::Repository,
    environment: &BTreeMap<OsString, OsString>,
) -> Result<Config, CheckpointError> {
    let reading = || CheckpointError::git("read the settings of git");
    let usual = git.config().map_err(reading())?;
    let variable = |name: &str| environment.get(OsStr::new(name)).map(PathBuf::from);
    let (global, system) = (variable("GIT_CONFIG_GLOBAL"), variable("GIT_CONFIG_SYSTEM"));
    if global.is_none() && system.is_none() {
        return Ok(usual);
    }
    let mut config = Config::new().map_err(reading())?;
    let git_reads_worktree = usual.get_bool("extensions.worktreeConfig").unwrap_or(false);
    let found = |path: Result<PathBuf, git2::Error>| path.ok();
    let files = [
        (
            system.or_else(|| found(Config::find_system())),
            git2::ConfigLevel::System,
        ),
        (
            if global.is_some() {
                None
            } else {
                found(Config::find_xdg())
            },
            git2::ConfigLevel::XDG,
        ),
        (
            global.or_else(|| found(Config::find_global())),
            git2::ConfigLevel::Global,
        ),
        (
            Some(git.commondir().join("config")),
            git2::ConfigLevel::Local,
        ),
        (
            git_reads_worktree.then(|| git.path().join("config.worktree")),
            git2::ConfigLevel::Worktree,
        ),
    ];
    for (path, level) in files {
        if let Some(path) = path.filter(|path| path.is_file()) {
            config.add_file(&path, level, true).map_err(reading())?;
        }
    }
    Ok(config)
}

/// Why libgit2 could not open a repository, with the name of an unknown extension.
fn why_not(folder: &Path, err: git2::Error) -> CheckpointError {
    match err.code() {
        ErrorCode::NotFound => return CheckpointError::NoRepository(folder.to_path_buf()),
        ErrorCode::Owner => return CheckpointError::ForeignOwner(folder.to_path_buf()),
        _ => {}
    }
    extension::refused(folder).unwrap_or(CheckpointError::Git {
        doing: "open the repository",
        source: err,
    })
}
