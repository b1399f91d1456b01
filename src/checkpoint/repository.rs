//! The repository around a project: what kind it is, where its parts are, what state it is in.
//!
//! [`Repository::open`] refuses by name what libgit2 would mishandle without a word. It never
//! looks at `GIT_DIR` and its kin: a hook of another repository may have set them.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use git2::{Config, ErrorCode, RepositoryOpenFlags, RepositoryState};

use super::error::{CheckpointError, Operation};
use super::extension;
use super::index::Index;
use super::object::{ObjectFormat, ObjectId};
use super::objects::Objects;
use super::place::HookPlace;
use super::reference::table::Listing;
use super::reference::{RefHook, RefStorage, storage_of};
use super::store::Store;
use super::substitution::{Replacements, shown};
use super::tree;
use crate::disk::{Disk, Fsync};

/// A repository with a work tree that can be served.
pub struct Repository {
    pub(crate) git: git2::Repository,
    /// The top of the work tree: absolute, without symbolic links.
    pub(crate) top: PathBuf,
    /// Settings of git, with what the environment changes about them.
    pub(crate) config: Config,
    /// The user's own folder of git, e.g. `~/.config/git`.
    user_folder: Option<PathBuf>,
    /// Piton's own objects, which no git command sees.
    pub(crate) store: Store,
    /// The file system of the git directory.
    pub(crate) disk: Disk,
    /// How much is synced.
    pub(crate) fsync: Fsync,
    /// Whether libgit2 reads the store as well.
    is_attached: Cell<bool>,
    /// A second handle, whose writes go nowhere.
    scratch: OnceCell<git2::Repository>,
    /// What `git replace` shows in the place of objects, once it was asked for.
    pub(super) substitutes: RefCell<Option<Arc<Replacements>>>,
    /// The variables of the process, for the `git` program.
    pub(super) environment: BTreeMap<OsString, OsString>,
    /// Whether the user's `reference-transaction` hook has a say.
    pub(super) ref_hook: Cell<RefHook>,
    /// Where the refs are kept.
    pub(super) storage: RefStorage,
    /// The index that libgit2 reads, where it is not the user's.
    index_shown: RefCell<Option<PathBuf>>,
    /// The refs of a reftable, as they were last read.
    pub(super) listing: RefCell<Option<Arc<Listing>>>,
}

impl Repository {
    /// A setting of git, if it is set.
    pub fn find_setting(&self, name: &str) -> Option<String> {
        self.config.get_string(name).ok()
    }

    /// Opens the repository that a folder lies in.
    pub fn open(
        folder: &Path,
        home: Option<&Path>,
        environment: &BTreeMap<OsString, OsString>,
        fsync: Fsync,
    ) -> Result<Self, CheckpointError> {
        let git = open_git(folder)?;
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

    /// Opens the repository that git runs a hook for. It may be one in which nothing can be run: hooks only read, and
    /// what is pushed is looked at in bare repositories, before it is taken in.
    pub fn open_for_hook(
        place: &HookPlace,
        home: Option<&Path>,
        environment: &BTreeMap<OsString, OsString>,
        fsync: Fsync,
    ) -> Result<Self, CheckpointError> {
        extension::accept();
        let git = git2::Repository::open(&place.git_dir).map_err(|err| why_not(&place.git_dir, err))?;
        let repository = Self::of(git, place.top.clone(), home, environment, fsync)?;
        if let Some(incoming) = place.incoming.as_ref().and_then(|path| path.to_str()) {
            let odb = repository.git.odb().map_err(CheckpointError::git("open the object database"))?;
            odb.add_disk_alternate(incoming).map_err(CheckpointError::git("open what is pushed"))?;
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
        // Line ends and the like are converted by libgit2, which would look into other files.
        git.set_config(&config).map_err(CheckpointError::git("read the settings of git"))?;
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
            return Err(CheckpointError::Unsupported { feature: "this kind of ref storage", found });
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
            scratch: OnceCell::new(),
            substitutes: RefCell::new(None),
            environment: environment.clone(),
            ref_hook: Cell::new(RefHook::Run),
            storage,
            index_shown: RefCell::new(None),
            listing: RefCell::new(None),
        };
        repository.attach_store()?;
        Ok(repository)
    }

    /// Lets libgit2 read the private store, in this process only, once there is one.
    pub(crate) fn attach_store(&self) -> Result<(), CheckpointError> {
        let objects = self.store.objects();
        if self.is_attached.get() || !objects.is_dir() {
            return Ok(());
        }
        // A path that is not UTF-8 cannot be told to libgit2; `Objects` then reads the store by itself.
        if let Some(objects) = objects.to_str() {
            let opening = || CheckpointError::git("open the private object store");
            self.git.odb().and_then(|odb| odb.add_disk_alternate(objects)).map_err(opening())?;
        }
        self.is_attached.set(true);
        Ok(())
    }

    /// A handle for conversions that libgit2 only does while it writes: each caller gives it a place to write to.
    pub(crate) fn scratch(&self) -> Result<&git2::Repository, CheckpointError> {
        if self.scratch.get().is_none() {
            let opening = || CheckpointError::git("open the repository");
            let git = git2::Repository::open(self.git.path()).map_err(opening())?;
            git.set_config(&self.config).map_err(opening())?;
            if let Some(index) = self.index_shown.borrow().as_deref() {
                show_index(&git, index)?;
            }
            let _ = self.scratch.set(git);
        }
        let missing = || CheckpointError::Missing { what: "the repository".to_owned(), promisor: None };
        self.scratch.get().ok_or_else(missing)
    }

    /// Lets libgit2 read a full copy of the index where it cannot read the user's: it asks the index about attributes and
    /// line ends.
    pub(super) fn show_index_to_libgit2(&self, index: &Index) -> Result<(), CheckpointError> {
        let path = if index.is_folded() {
            let path = self.own_folder().join("tmp").join(format!("full-index-{}", std::process::id()));
            std::fs::write(&path, index.to_bytes()).map_err(CheckpointError::io("write", &path))?;
            path
        } else if self.index_shown.borrow().is_some() {
            self.index_file()
        } else {
            return Ok(());
        };
        for git in std::iter::once(&self.git).chain(self.scratch.get()) {
            show_index(git, &path)?;
        }
        *self.index_shown.borrow_mut() = Some(path);
        Ok(())
    }

    /// The file system of the git directory, for what has to survive a power loss.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// How objects are named.
    pub fn format(&self) -> ObjectFormat {
        self.git.object_format().into()
    }

    /// The tree without files.
    pub fn empty_tree(&self) -> ObjectId {
        ObjectId::empty_tree(self.format())
    }

    /// The top of the work tree.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// The data of this worktree.
    pub fn git_dir(&self) -> &Path {
        self.git.path()
    }

    /// Where piton keeps the journals of every worktree.
    pub fn runs_folder(&self) -> PathBuf {
        self.git.commondir().join("piton").join("runs")
    }

    /// Where piton keeps its lock, its cache and temporary files for this worktree.
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
            Ok(files.into_iter().filter_map(|(path, _, entry)| Some((path, entry?))).collect())
        })
    }

    /// The files of a commit, as git shows them (`git replace`); none on an unborn branch.
    pub(crate) fn tree_of(&self, commit: Option<ObjectId>) -> Result<ObjectId, CheckpointError> {
        let Some(commit) = commit else { return Ok(self.empty_tree()) };
        let substitutes = self.substitutes()?;
        Ok(shown(&substitutes, self.stored_tree_of(shown(&substitutes, commit))?))
    }

    /// The files of a commit as it is stored.
    pub(crate) fn stored_tree_of(&self, commit: ObjectId) -> Result<ObjectId, CheckpointError> {
        let commit = self.git.find_commit(commit.into()).map_err(CheckpointError::git("read a commit"))?;
        Ok(commit.tree_id().into())
    }

    /// The commits that one has and the other has not, oldest first.
    pub fn commits_between(
        &self,
        base: Option<ObjectId>,
        tip: Option<ObjectId>,
    ) -> Result<Vec<ObjectId>, CheckpointError> {
        let reading = || CheckpointError::git("read the history");
        let Some(tip) = tip else { return Ok(Vec::new()) };
        let mut walk = self.git.revwalk().map_err(reading())?;
        walk.push(tip.into()).map_err(reading())?;
        if let Some(base) = base {
            walk.hide(base.into()).map_err(reading())?;
        }
        let mut commits: Vec<ObjectId> =
            walk.map(|id| id.map(ObjectId::from)).collect::<Result<_, _>>().map_err(reading())?;
        commits.reverse();
        Ok(commits)
    }

    /// Refuses while git is in the middle of something: a commit would end it, or be swept into it.
    pub fn refuse_operation_in_progress(&self) -> Result<(), CheckpointError> {
        let operation = match self.git.state() {
            // In a reftable these are refs, where libgit2 looks for files.
            RepositoryState::Clean if self.has_root_ref("CHERRY_PICK_HEAD")? => Operation::CherryPick,
            RepositoryState::Clean if self.has_root_ref("REVERT_HEAD")? => Operation::Revert,
            RepositoryState::Clean => return Ok(()),
            RepositoryState::Merge => Operation::Merge,
            RepositoryState::Revert | RepositoryState::RevertSequence => Operation::Revert,
            RepositoryState::CherryPick | RepositoryState::CherryPickSequence => Operation::CherryPick,
            RepositoryState::Bisect => Operation::Bisect,
            RepositoryState::Rebase
            | RepositoryState::RebaseInteractive
            | RepositoryState::RebaseMerge
            | RepositoryState::ApplyMailboxOrRebase => Operation::Rebase,
            RepositoryState::ApplyMailbox => Operation::ApplyMailbox,
        };
        Err(CheckpointError::InProgress(operation))
    }

    /// Whether git keeps a ref that says that it picks or reverts a commit; only a reftable has it as a ref.
    pub fn is_picking(&self) -> Result<bool, CheckpointError> {
        Ok(self.has_root_ref("CHERRY_PICK_HEAD")? || self.has_root_ref("REVERT_HEAD")?)
    }

    /// A setting that is true or false.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.config.get_bool(name).ok()
    }

    /// A setting that is true, also when it was made in a file that was not there when the repository was opened.
    pub(crate) fn flag_now(&self, name: &str) -> bool {
        let worktree = Config::open(&self.git.path().join("config.worktree"));
        let set = worktree.ok().and_then(|config| config.get_bool(name).ok());
        set.or_else(|| self.flag(name)).unwrap_or(false)
    }

    /// A setting that is a text.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.config.get_string(name).ok()
    }

    /// What comments begin with in the messages that people edit.
    pub fn comment_mark(&self) -> String {
        self.text("core.commentString").or_else(|| self.text("core.commentChar")).unwrap_or_else(|| "#".to_owned())
    }

    /// A setting that is a path, with `~` resolved.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.config.get_path(name).ok()
    }

    /// The user's own folder of git, where rules for every repository may be.
    pub(crate) fn user_git_folder(&self) -> Option<&Path> {
        self.user_folder.as_deref()
    }

    /// The remote that objects are missing because of, in a partial clone.
    pub(crate) fn promisor(&self) -> Option<String> {
        let mut entries = self.config.entries(Some("^remote\\..*\\.promisor$")).ok()?;
        while let Some(entry) = entries.next() {
            let entry = entry.ok()?;
            let remote = entry.name().ok().and_then(|name| name.strip_prefix("remote.")?.strip_suffix(".promisor"));
            if let Some(remote) = remote
                && entry.value().is_ok_and(|value| value == "true")
            {
                return Some(remote.to_owned());
            }
        }
        self.text("extensions.partialClone")
    }
}

/// Lets a handle of libgit2 read another index than the user's.
fn show_index(git: &git2::Repository, path: &Path) -> Result<(), CheckpointError> {
    let opened = git2::Index::open_ext(path, git.object_format()).and_then(|mut index| git.set_index(&mut index));
    opened.map_err(CheckpointError::git("read the index"))
}

/// Opens the repository that a folder lies in, whether it can be served or not.
pub(super) fn open_git(folder: &Path) -> Result<git2::Repository, CheckpointError> {
    extension::accept();
    git2::Repository::open_ext(folder, RepositoryOpenFlags::empty(), None::<&Path>).map_err(|err| why_not(folder, err))
}

/// Makes a repository for an example, with an identity of its own.
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
    settings.iter().try_for_each(|(name, value)| config.set_str(name, value)).map_err(making())
}

/// Git's settings as the git program sees them: `GIT_CONFIG_GLOBAL` and `GIT_CONFIG_SYSTEM` may
/// name other files than the usual ones, which libgit2 does not know.
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
        (system.or_else(|| found(Config::find_system())), git2::ConfigLevel::System),
        (if global.is_some() { None } else { found(Config::find_xdg()) }, git2::ConfigLevel::XDG),
        (global.or_else(|| found(Config::find_global())), git2::ConfigLevel::Global),
        (Some(git.commondir().join("config")), git2::ConfigLevel::Local),
        (git_reads_worktree.then(|| git.path().join("config.worktree")), git2::ConfigLevel::Worktree),
    ];
    for (path, level) in files {
        if let Some(path) = path.filter(|path| path.is_file()) {
            config.add_file(&path, level, true).map_err(reading())?;
        }
    }
    Ok(config)
}

/// Why libgit2 would not open a repository, by the name of what it does not know.
fn why_not(folder: &Path, err: git2::Error) -> CheckpointError {
    match err.code() {
        ErrorCode::NotFound => return CheckpointError::NoRepository(folder.to_path_buf()),
        ErrorCode::Owner => return CheckpointError::ForeignOwner(folder.to_path_buf()),
        _ => {}
    }
    extension::refused(folder).unwrap_or(CheckpointError::Git { doing: "open the repository", source: err })
}
