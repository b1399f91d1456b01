//! Reads and moves refs. All access to refs goes through this module.
//!
//! There are two ways. libgit2 reads loose and packed refs, and [`loose`] writes them under a lock
//! of its own. The `git` program does both for a reftable ([`table`]), and moves refs if the user
//! has a `reference-transaction` hook: git runs that hook for every ref update, and lets it refuse.
//! A move is always a compare-and-swap.

mod loose;
pub(super) mod table;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use git2::ErrorCode;
use serde_json::Value;

use super::error::CheckpointError;
use super::files::read_if_there;
use super::git_cli::hook::find_hook_named;
use super::git_cli::{GitOutput, GitProgram};
use super::object::ObjectId;
use super::reading::PinRef;
use super::repository::Repository;
use super::snapshot::Head;
use crate::disk::Fsync;

const HOOK: &str = "reference-transaction";
/// The time limit of a hook, which may ask a server.
const LIMIT: Duration = Duration::from_mins(5);

/// Whether the user's `reference-transaction` hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefHook {
    /// It runs, if it exists.
    Run,
    /// It is skipped, because of the user's settings or because a step changed the hooks.
    Skip,
}

/// The ref storage of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefStorage {
    /// Loose files and `packed-refs`.
    Files,
    /// A reftable.
    Table,
}

/// Compare-and-swap of a ref.
pub(crate) fn move_ref(
    repository: &Repository,
    name: &str,
    old: Option<ObjectId>,
    new: ObjectId,
    message: &str,
) -> Result<(), CheckpointError> {
    if repository.storage == RefStorage::Table || repository.has_ref_hook() {
        return repository.update_ref_with_git(name, old, new, message);
    }
    loose::write(repository, name, old, new, message)
}

/// Removes refs that have not moved since they were read. The `git` program does it, because it
/// survives a killed piton and removes its own locks.
pub(crate) fn remove_refs(
    repository: &Repository,
    refs: &[(&str, ObjectId)],
) -> Result<(), CheckpointError> {
    let unmoved = refs
        .iter()
        .filter(|(name, old)| repository.ref_now(name) == Some(*old));
    let lines: Vec<String> = unmoved
        .map(|(name, old)| format!("delete {name} {old}\n"))
        .collect();
    if lines.is_empty() {
        return Ok(());
    }
    let words = ["update-ref", "--stdin", "-m", "piton: remove"].map(OsString::from);
    let updated = repository.git_update_ref(&words, Some(lines.concat().as_bytes()))?;
    if updated.output.succeeded {
        Ok(())
    } else {
        Err(updated.refusal())
    }
}

/// Removes the ref locks that killed piton processes left.
pub(crate) fn clear_stale_locks(repository: &Repository) -> Result<(), CheckpointError> {
    loose::clear_stale(repository)
}

/// Syncs a loose ref to disk, after everything that is staged.
pub(crate) fn sync_ref(repository: &Repository, name: &str) -> Result<(), CheckpointError> {
    let path = loose_path(repository, name);
    if !path.is_file() {
        return Ok(());
    }
    let synced = File::open(&path).and_then(|file| repository.disk.barrier(&file));
    synced.map_err(CheckpointError::io("write to disk", &path))
}

/// Stages a loose ref: it has to be on disk before a journal line says that it moved.
pub(crate) fn stage_ref(repository: &Repository, name: &str) -> Result<(), CheckpointError> {
    let path = loose_path(repository, name);
    if !path.is_file() {
        return Ok(());
    }
    repository
        .disk
        .stage_path(&path)
        .map_err(CheckpointError::io("write to disk", &path))
}

/// The ref storage in the settings of a repository; `None` if it is unknown.
pub(super) fn storage_of(config: &git2::Config) -> Option<RefStorage> {
    match config.get_string("extensions.refstorage").as_deref() {
        Ok("reftable") => Some(RefStorage::Table),
        Ok("files") | Err(_) => Some(RefStorage::Files),
        Ok(_) => None,
    }
}

fn head_commit(git: &GitProgram) -> Option<ObjectId> {
    let words = ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"];
    table::answer(git, "read HEAD", &words)
        .ok()?
        .trim_end()
        .parse()
        .ok()
}

/// The file of a loose ref.
fn loose_path(repository: &Repository, name: &str) -> PathBuf {
    let folder = if name == "HEAD" {
        repository.git.path()
    } else {
        repository.git.commondir()
    };
    folder.join(name)
}

/// The result of `git update-ref`.
struct RefUpdate {
    output: GitOutput,
    /// Whether the hook failed.
    hook_failed: bool,
}

impl RefUpdate {
    /// Why git did not update a ref.
    fn refusal(self) -> CheckpointError {
        let reason = self.output.reason;
        if self.hook_failed {
            CheckpointError::HookFailed { hook: HOOK, reason }
        } else {
            CheckpointError::GitProgram {
                doing: "update-ref",
                reason,
            }
        }
    }
}

/// Whether the hook failed, from git's trace of its child processes (`GIT_TRACE2_EVENT`).
fn has_failed_hook(events: &str) -> bool {
    let events: Vec<Value> = events
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    // A hook may run git itself, which writes its own events to the same file.
    let Some(first) = events.first().map(|event| event["sid"].clone()) else {
        return false;
    };
    let own = || events.iter().filter(|event| event["sid"] == first);
    let hooks: Vec<&Value> = own()
        .filter(|event| event["hook_name"] == HOOK)
        .map(|event| &event["child_id"])
        .collect();
    own().any(|event| {
        event["event"] == "child_exit" && event["code"] != 0 && hooks.contains(&&event["child_id"])
    })
}

impl Repository {
    /// Whether the user has a `reference-transaction` hook that applies here.
    pub(super) fn has_ref_hook(&self) -> bool {
        self.ref_hook.get() == RefHook::Run && find_hook_named(&self.git, HOOK).is_some()
    }

    pub fn head(&self) -> Result<Head, CheckpointError> {
        let reading = CheckpointError::git;
        if self.storage == RefStorage::Table {
            let listing = table::listing(self)?;
            return Ok(Head {
                branch: listing.branch(),
                commit: listing.find("HEAD"),
            });
        }
        let head = self
            .git
            .find_reference("HEAD")
            .map_err(reading("read HEAD"))?;
        let branch = self.branch_of(&head);
        Ok(Head {
            branch,
            commit: self.find_ref("HEAD", "read HEAD")?,
        })
    }

    /// The branch of a symbolic ref. It may refer to another one; git follows a few of them.
    fn branch_of(&self, head: &git2::Reference<'_>) -> Option<String> {
        const FOLLOWED: usize = 5;
        let target = |found: &git2::Reference<'_>| {
            found
                .symbolic_target_bytes()
                .map(|name| String::from_utf8_lossy(name).into_owned())
        };
        let mut branch = target(head)?;
        for _ in 0..FOLLOWED {
            match self
                .git
                .find_reference(&branch)
                .ok()
                .as_ref()
                .and_then(target)
            {
                Some(next) => branch = next,
                None => break,
            }
        }
        Some(branch)
    }

    /// The target of a ref; `None` if it does not exist.
    pub(super) fn find_ref(
        &self,
        name: &str,
        doing: &'static str,
    ) -> Result<Option<ObjectId>, CheckpointError> {
        if self.storage == RefStorage::Table {
            return Ok(table::listing(self)?.find(name));
        }
        match self.git.refname_to_id(name) {
            Ok(id) => Ok(Some(id.into())),
            Err(err) if err.code() == ErrorCode::NotFound => Ok(None),
            Err(err) => Err(CheckpointError::git(doing)(err)),
        }
    }

    /// Whether git has a root ref beside HEAD, which it keeps during an operation.
    pub(super) fn has_root_ref(&self, name: &str) -> Result<bool, CheckpointError> {
        Ok(self.storage == RefStorage::Table && table::listing(self)?.find(name).is_some())
    }

    /// The refs that match a pattern, sorted by name, without symbolic ones.
    pub(crate) fn refs_like(&self, pattern: &str) -> Result<Vec<PinRef>, CheckpointError> {
        if self.storage == RefStorage::Table {
            let pattern = globset::GlobBuilder::new(pattern)
                .build()
                .map(|glob| glob.compile_matcher());
            let Ok(pattern) = pattern else {
                return Ok(Vec::new());
            };
            let listing = table::listing(self)?;
            let found = listing.direct().filter(|(name, _)| pattern.is_match(name));
            return Ok(found
                .map(|(name, commit)| PinRef {
                    name: name.to_owned(),
                    commit,
                })
                .collect());
        }
        let reading = || CheckpointError::git("read the refs");
        let mut pins = Vec::new();
        for found in self.git.references_glob(pattern).map_err(reading())? {
            let found = found.map_err(reading())?;
            let name = String::from_utf8_lossy(found.name_bytes()).into_owned();
            pins.extend(found.target().map(|target| PinRef {
                name,
                commit: target.into(),
            }));
        }
        pins.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(pins)
    }

    /// The commits of all refs with wanted names, including symbolic ones; tags are peeled.
    pub(super) fn commits_of_refs(
        &self,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<(String, ObjectId)>, CheckpointError> {
        let mut commits = Vec::new();
        if self.storage == RefStorage::Table {
            for (name, id) in table::listing(self)?.all().filter(|(name, _)| wanted(name)) {
                let commit = self
                    .git
                    .find_object(id.into(), None)
                    .and_then(|found| found.peel_to_commit());
                commits.extend(commit.map(|commit| (name.to_owned(), commit.id().into())));
            }
            return Ok(commits);
        }
        let reading = || CheckpointError::git("read the branches");
        for found in self.git.references().map_err(reading())? {
            let found = found.map_err(reading())?;
            let name = String::from_utf8_lossy(found.name_bytes()).into_owned();
            if wanted(&name) {
                commits.extend(
                    found
                        .peel_to_commit()
                        .map(|commit| (name, commit.id().into())),
                );
            }
        }
        Ok(commits)
    }

    /// The commit with a name: a branch, a tag, `HEAD~2`, an abbreviated id.
    pub fn find_named(&self, name: &str) -> Option<ObjectId> {
        if self.storage == RefStorage::Table {
            return table::find_named(self, name);
        }
        let found = self.git.revparse_single(name).ok()?;
        Some(found.peel_to_commit().ok()?.id().into())
    }

    /// The last move of HEAD: from, to and why.
    pub(super) fn last_move_of_head(&self) -> Option<(ObjectId, ObjectId, String)> {
        if self.storage == RefStorage::Table {
            let moves = table::last_moves(self)?;
            let ((new, why), (old, _)) = (moves.first()?, moves.get(1)?);
            return Some((*old, *new, why.clone()));
        }
        let log = self.git.reflog("HEAD").ok()?;
        let last = log.get(0)?;
        let why = String::from_utf8_lossy(last.message_bytes().unwrap_or_default()).into_owned();
        Some((last.id_old().into(), last.id_new().into(), why))
    }

    /// The branch of the HEAD of a worktree. Its folder may be gone, so libgit2 could not open it.
    pub(super) fn head_of(&self, git_dir: &Path) -> Result<Option<String>, CheckpointError> {
        if self.storage == RefStorage::Table {
            let git = GitProgram::new(self.environment.clone(), git_dir, self.top());
            let found = table::answer(&git, "read HEAD", &["symbolic-ref", "HEAD"]);
            return Ok(found.ok().map(|name| name.trim_end().to_owned()));
        }
        let head = read_if_there(&git_dir.join("HEAD"))?.unwrap_or_default();
        Ok(head
            .strip_prefix(b"ref: ")
            .map(|name| String::from_utf8_lossy(name.trim_ascii()).into_owned()))
    }

    /// The commits of the HEADs of the other worktrees.
    pub(super) fn other_heads(&self) -> Result<Vec<ObjectId>, CheckpointError> {
        let reading = || CheckpointError::git("read the branches");
        let mut heads = Vec::new();
        let names = self.git.worktrees().map_err(reading())?;
        for name in names.iter().flatten().flatten() {
            if self.storage == RefStorage::Table {
                let git_dir = self.git.commondir().join("worktrees").join(name);
                heads.extend(head_commit(&GitProgram::new(
                    self.environment.clone(),
                    &git_dir,
                    self.top(),
                )));
                continue;
            }
            let head = self
                .git
                .find_worktree(name)
                .and_then(|found| git2::Repository::open_from_worktree(&found));
            heads.extend(
                head.and_then(|found| found.refname_to_id("HEAD"))
                    .map(ObjectId::from),
            );
        }
        // From a linked worktree, include the main one.
        if self.storage == RefStorage::Table {
            heads.extend(head_commit(&GitProgram::new(
                self.environment.clone(),
                self.git.commondir(),
                self.top(),
            )));
        } else if let Ok(main) = git2::Repository::open(self.git.commondir()) {
            heads.extend(main.refname_to_id("HEAD").map(ObjectId::from));
        }
        Ok(heads)
    }

    /// The HEAD of a nested repository; `None` if it is not checked out.
    pub(super) fn head_of_submodule(&self, folder: &Path) -> Option<ObjectId> {
        let repository = git2::Repository::open(folder).ok()?;
        if storage_of(&repository.config().ok()?) == Some(RefStorage::Table) {
            return head_commit(&GitProgram::new(
                self.environment.clone(),
                repository.path(),
                folder,
            ));
        }
        repository.refname_to_id("HEAD").ok().map(ObjectId::from)
    }

    /// The `git` program for this repository.
    pub(super) fn program(&self) -> GitProgram {
        GitProgram::new(self.environment.clone(), self.git_dir(), self.top())
    }

    fn ref_now(&self, name: &str) -> Option<ObjectId> {
        self.find_ref(name, "read a ref").ok().flatten()
    }

    /// Moves a ref with the `git` program, which runs the hook.
    fn update_ref_with_git(
        &self,
        name: &str,
        old: Option<ObjectId>,
        new: ObjectId,
        message: &str,
    ) -> Result<(), CheckpointError> {
        let mut words: Vec<OsString> = ["update-ref", "-m", message].map(OsString::from).to_vec();
        if name == "HEAD" {
            words.push("--no-deref".into());
        }
        words.push(name.into());
        words.push(new.to_string().into());
        // Zeros mean that the ref must not exist.
        words.push(
            old.unwrap_or(ObjectId::zero(new.format()))
                .to_string()
                .into(),
        );
        let updated = self.git_update_ref(&words, None)?;
        if updated.output.succeeded {
            return Ok(());
        }
        let found = self.ref_now(name);
        if found != old {
            return Err(CheckpointError::HeadMoved {
                expected: old,
                found,
            });
        }
        Err(updated.refusal())
    }

    fn git_update_ref(
        &self,
        words: &[OsString],
        input: Option<&[u8]>,
    ) -> Result<RefUpdate, CheckpointError> {
        let without_hooks = ["-c", "core.hooksPath=/dev/null"].map(OsStr::new);
        let settings = if self.ref_hook.get() == RefHook::Skip {
            without_hooks.as_slice()
        } else {
            &[]
        };
        // A journal line relies on the ref, and a reftable has no file of its own to sync.
        let synced = ["-c", "core.fsync=reference"].map(OsStr::new);
        let is_synced = self.storage == RefStorage::Table && self.fsync != Fsync::Never;
        let synced = if is_synced { synced.as_slice() } else { &[] };
        let words = words.iter().map(OsString::as_os_str);
        let words: Vec<&OsStr> = settings
            .iter()
            .chain(synced)
            .copied()
            .chain(words)
            .collect();
        if !self.has_ref_hook() {
            let output = self
                .program()
                .run("update-ref", &words, &[], input, LIMIT)?;
            return Ok(RefUpdate {
                output,
                hook_failed: false,
            });
        }
        let own = self.own_folder().join("tmp");
        let events = tempfile::Builder::new()
            .prefix(".piton-tmp-")
            .tempfile_in(&own);
        let events = events.map_err(CheckpointError::io("make a file in", &own))?;
        let variables = [("GIT_TRACE2_EVENT", OsString::from(events.path()))];
        let output = self
            .program()
            .run("update-ref", &words, &variables, input, LIMIT)?;
        let written = read_if_there(events.path())?.unwrap_or_default();
        let hook_failed = !output.succeeded && has_failed_hook(&String::from_utf8_lossy(&written));
        Ok(RefUpdate {
            output,
            hook_failed,
        })
    }
}
