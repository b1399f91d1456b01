//! User control over commits: hooks, signatures, and the search for secrets.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;

use super::checkpointer::Checkpointer;
use super::commit::{CommitPlan, commits_since};
use super::error::CheckpointError;
use super::files::read_if_there;
use super::git_cli::GitProgram;
use super::git_cli::hook::{HookOutcome, UserHookCall, find_hook, run_hook};
use super::git_cli::signing::{UnsignedCommit, create_signed_commit};
use super::hook::Hook;
use super::identity::Identity;
use super::message::Trailers;
use super::object::{Entry, FileMode, ObjectId};
use super::objects::Objects;
use super::path::RepoPath;
use super::reference::RefHook;
use super::secret::{SecretHit, SecretScanner};
use super::snapshot::{Head, Snapshot};
use super::tree;
use crate::config::{HookPolicy, SecretPolicy};

/// The time limit of a hook, which may run linters and tests.
const HOOK_LIMIT: Duration = Duration::from_mins(5);
/// The time limit of signing; a person may have to touch a key.
const SIGNING_LIMIT: Duration = Duration::from_mins(1);

/// Whether the `pre-commit` hook ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookRun {
    /// There is no hook, or hooks are disabled.
    None,
    /// It passed; files may have changed.
    Ran,
    /// It was skipped, for this reason.
    Skipped(String),
}

impl Checkpointer {
    /// Stops running hooks, because a step changed them.
    pub fn distrust_hooks(&mut self) {
        self.options.hooks = HookPolicy::Skip;
        self.hooks_distrusted = true;
        self.repository.ref_hook.set(RefHook::Skip);
    }

    /// Whether hooks of the user will run for the commit of a step and have not been announced.
    pub fn expects_hooks(&self, step: u32) -> bool {
        const OF_COMMITS: [Hook; 4] = [
            Hook::PreCommit,
            Hook::PrepareCommitMessage,
            Hook::CommitMessage,
            Hook::PostCommit,
        ];
        self.options.hooks != HookPolicy::Skip
            && self.hook_token.as_ref().is_none_or(|(of, _)| *of != step)
            && OF_COMMITS
                .into_iter()
                .any(|hook| find_hook(&self.repository.git, hook).is_some())
    }

    /// Gives the hooks of a step's commit a token to recognize it.
    pub fn arm_hooks(&mut self, step: u32, token: String) {
        self.hook_token = Some((step, token));
    }

    fn hook_call<'a>(
        &'a self,
        arguments: &'a [&'a OsStr],
        index: &'a Path,
        run: &'a str,
        identity: &'a Identity,
    ) -> UserHookCall<'a> {
        let token = self.hook_token.as_ref().map(|(_, token)| token.as_str());
        UserHookCall {
            arguments,
            index,
            run,
            token,
            author: &identity.author,
            limit: HOOK_LIMIT,
        }
    }

    /// Whether the user has a `pre-commit` hook.
    pub fn has_pre_commit(&self) -> bool {
        find_hook(&self.repository.git, Hook::PreCommit).is_some()
    }

    /// Runs the user's `pre-commit` hook on a private index with the content of the commit.
    pub fn run_pre_commit(
        &mut self,
        plan: &CommitPlan,
        after: &Snapshot,
        run: &str,
        now: Timestamp,
    ) -> Result<HookRun, CheckpointError> {
        if !self.has_pre_commit() {
            return Ok(HookRun::None);
        }
        match self.options.hooks {
            HookPolicy::Skip => {
                let reason = if self.hooks_distrusted {
                    "`pre-commit` was skipped: the step changed the hooks or settings of git"
                } else {
                    "`pre-commit` was skipped: `checkpoint.hooks` is `skip`"
                };
                return Ok(HookRun::Skipped(reason.to_owned()));
            }
            HookPolicy::Auto if self.is_dirty_outside(plan, after)? => {
                let reason = "`pre-commit` was skipped: other files have changes that it might stash or rewrite";
                return Ok(HookRun::Skipped(reason.to_owned()));
            }
            HookPolicy::Auto | HookPolicy::Run => {}
        }
        // The hook reads the content through git: a secret must not get into the user's object
        // database that way.
        self.check_secrets(plan)?;
        let index = self.write_private_index(plan)?;
        let identity = Identity::find(&self.repository, &self.options.environment, now)?;
        let call = self.hook_call(&[], &index, run, &identity);
        let outcome = run_hook(
            &self.git_program(),
            &self.repository.git,
            Hook::PreCommit,
            &call,
        )?;
        Ok(if outcome == HookOutcome::Absent {
            HookRun::None
        } else {
            HookRun::Ran
        })
    }

    /// Lets the user's hooks read and change the message; piton's trailers must survive.
    pub fn edit_message(
        &mut self,
        plan: &CommitPlan,
        message: String,
        run: &str,
        now: Timestamp,
    ) -> Result<String, CheckpointError> {
        let hooks: Vec<Hook> = [Hook::PrepareCommitMessage, Hook::CommitMessage]
            .into_iter()
            .filter(|hook| find_hook(&self.repository.git, *hook).is_some())
            .collect();
        if hooks.is_empty() || self.options.hooks == HookPolicy::Skip {
            return Ok(message);
        }
        // The hook reads the content through git: a secret must not get into the user's object
        // database that way.
        self.check_secrets(plan)?;
        let index = self.write_private_index(plan)?;
        let identity = Identity::find(&self.repository, &self.options.environment, now)?;
        let file = self
            .repository
            .own_folder()
            .join("tmp")
            .join("COMMIT_EDITMSG");
        std::fs::write(&file, &message).map_err(CheckpointError::io("write", &file))?;
        for hook in &hooks {
            let arguments = match hook {
                Hook::PrepareCommitMessage => vec![file.as_os_str(), "message".as_ref()],
                _ => vec![file.as_os_str()],
            };
            let call = self.hook_call(&arguments, &index, run, &identity);
            run_hook(&self.git_program(), &self.repository.git, *hook, &call)?;
        }
        let edited = read_if_there(&file)?.unwrap_or_default();
        let edited = String::from_utf8_lossy(&edited).into_owned();
        if Trailers::find(&edited) != Trailers::find(&message) {
            let hook = hooks.last().map_or("commit-msg", |hook| hook.name());
            let reason = "it changed or removed the trailers that name the run".to_owned();
            return Err(CheckpointError::HookFailed { hook, reason });
        }
        Ok(edited)
    }

    /// Runs the user's `post-commit` hook; its result does not matter.
    pub fn run_post_commit(&self, run: &str, now: Timestamp) {
        if self.options.hooks == HookPolicy::Skip
            || find_hook(&self.repository.git, Hook::PostCommit).is_none()
        {
            return;
        }
        let Ok(identity) = Identity::find(&self.repository, &self.options.environment, now) else {
            return;
        };
        let index = self.repository.index_file();
        let call = self.hook_call(&[], &index, run, &identity);
        // The commit exists; a failing hook is ignored, as git does.
        let _ = run_hook(
            &self.git_program(),
            &self.repository.git,
            Hook::PostCommit,
            &call,
        );
    }

    /// The scanner for secrets, with the user's exceptions.
    pub(super) fn secret_scanner(&self) -> Result<SecretScanner, CheckpointError> {
        let allowed = self.options.secrets_allowed.iter().map(String::as_str);
        SecretScanner::allowing(allowed).map_err(|err| CheckpointError::InvalidAllowance {
            entry: err.entry,
            reason: err.reason,
        })
    }

    /// Searches for secrets in the additions of a commit; returns warnings.
    pub fn check_secrets(&self, plan: &CommitPlan) -> Result<Vec<String>, CheckpointError> {
        let scanner = self.secret_scanner()?;
        let objects = Objects::of(&self.repository)?;
        let mut hits = Vec::new();
        for change in &plan.changes {
            hits.extend(in_names(
                &scanner,
                &objects,
                &change.path,
                (change.before, change.after),
                &hits,
            )?);
            let content = |entry: Option<Entry>| match entry.filter(|entry| entry.mode.is_file()) {
                Some(entry) => objects.read(entry.id).map(Some),
                None => Ok(None),
            };
            if let Some(after) = content(change.after)? {
                hits.extend(scanner.scan_change(
                    &change.path,
                    content(change.before)?.as_deref(),
                    &after,
                ));
            }
            // A filter may store the content elsewhere, and git only a pointer to it.
            let on_disk = |entry: Option<Entry>| {
                let id = entry.and_then(|entry| {
                    self.filters
                        .raw_of(&change.path, entry.id)
                        .filter(|raw| *raw != entry.id)
                });
                let id = id.filter(|id| !objects.is_elsewhere(*id));
                id.map(|id| objects.read(id)).transpose()
            };
            if let Some(after) = on_disk(change.after)? {
                let found =
                    scanner.scan_change(&change.path, on_disk(change.before)?.as_deref(), &after);
                let known: Vec<String> = hits.iter().map(|hit| hit.fingerprint.clone()).collect();
                hits.extend(
                    found
                        .into_iter()
                        .filter(|hit| !known.contains(&hit.fingerprint)),
                );
            }
        }
        match self.options.secrets {
            SecretPolicy::Block if !hits.is_empty() => Err(CheckpointError::SecretFound(hits)),
            _ => Ok(warnings(&hits)),
        }
    }

    /// Searches for secrets in each commit that a step made itself, also for those that a later
    /// commit removes; returns warnings. Commits that are not on top of the old HEAD are not the
    /// step's to judge.
    pub fn check_made_commits(
        &self,
        before: &Head,
        after: &Head,
    ) -> Result<Vec<String>, CheckpointError> {
        let Ok(commits) = commits_since(&self.repository, before, after) else {
            return Ok(Vec::new());
        };
        let scanner = self.secret_scanner()?;
        let objects = Objects::of(&self.repository)?;
        let content = |entry: Option<Entry>| {
            let file = entry.filter(|entry| entry.mode.is_file());
            file.map(|entry| objects.read(entry.id)).transpose()
        };
        let mut notes = Vec::new();
        for commit in commits {
            let parents = self.repository.parents_of(commit)?;
            let first = self.repository.tree_of(parents.first().copied())?;
            let tree = self.repository.tree_of(Some(commit))?;
            let mut hits = Vec::new();
            'files: for (path, before, after) in tree::differences(&objects, first, tree)? {
                // What a merge took from another parent has commits of its own.
                for other in parents.iter().skip(1) {
                    let theirs = self.repository.tree_of(Some(*other))?;
                    if tree::find(&objects, theirs, &path)? == after {
                        continue 'files;
                    }
                }
                hits.extend(in_names(&scanner, &objects, &path, (before, after), &hits)?);
                if let Some(after) = content(after)? {
                    hits.extend(scanner.scan_change(&path, content(before)?.as_deref(), &after));
                }
            }
            if !hits.is_empty() && self.options.secrets == SecretPolicy::Block {
                return Err(CheckpointError::SecretCommitted { commit, hits });
            }
            notes.extend(warnings(&hits));
        }
        Ok(notes)
    }

    pub(super) fn create_signed_commit(
        &self,
        plan: &CommitPlan,
        message: &str,
        identity: &Identity,
    ) -> Result<ObjectId, CheckpointError> {
        let commit = UnsignedCommit {
            tree: plan.tree,
            parents: &plan.parents,
            message,
            author: &identity.author,
            committer: &identity.committer,
        };
        create_signed_commit(
            &self.git_program(),
            &self.repository.git,
            &commit,
            SIGNING_LIMIT,
        )
    }

    /// Whether any other file than those of a commit differs from HEAD, on disk or in the index.
    fn is_dirty_outside(
        &self,
        plan: &CommitPlan,
        after: &Snapshot,
    ) -> Result<bool, CheckpointError> {
        let ours: BTreeSet<&RepoPath> = plan.changes.iter().map(|change| &change.path).collect();
        let ours = |path: &RepoPath| ours.contains(path);
        if self
            .delta_to_head(after)?
            .changes
            .iter()
            .any(|change| !ours(&change.path))
        {
            return Ok(true);
        }
        let objects = Objects::of(&self.repository)?;
        let head_tree = self.repository.tree_of(plan.head.commit)?;
        let staged = super::tree::differences(&objects, head_tree, after.index_tree)?;
        Ok(staged.iter().any(|(path, ..)| !ours(path)))
    }

    pub(super) fn git_program(&self) -> GitProgram {
        GitProgram::new(
            self.options.environment.clone(),
            self.repository.git_dir(),
            self.repository.top(),
        )
    }
}

/// Searches the name of a new file, and the target of a symlink. A secret that is known already is
/// left out: the name of a folder is in the names of all its files.
fn in_names(
    scanner: &SecretScanner,
    objects: &Objects,
    path: &RepoPath,
    (before, after): (Option<Entry>, Option<Entry>),
    known: &[SecretHit],
) -> Result<Vec<SecretHit>, CheckpointError> {
    let Some(after) = after else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    if before.is_none() {
        found.extend(scanner.scan_name(path));
    }
    if after.mode == FileMode::Symlink && before != Some(after) {
        found.extend(scanner.scan_target(path, &objects.read(after.id)?));
    }
    found.retain(|hit| {
        !known
            .iter()
            .any(|known| known.fingerprint == hit.fingerprint)
    });
    Ok(found)
}

fn warnings(hits: &[SecretHit]) -> Vec<String> {
    let warning = |hit: &SecretHit| {
        format!(
            "looks like a secret: {} in `{}` {} ({})",
            hit.rule, hit.path, hit.place, hit.fingerprint
        )
    };
    hits.iter().map(warning).collect()
}
