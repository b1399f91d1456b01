//! Pushes and fetches the logs of runs, with the `git` program.
//!
//! Network, credentials, ssh and push hooks are git's, with the user's settings. Refs are named one
//! by one, never forced and never pruned: refs below `refs/piton/local/` cannot leave, and existing
//! refs cannot be replaced. [`Remote`] is the type to read first.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

use super::error::CheckpointError;
use super::git_cli::{GitOutput, GitProgram};
use super::object::ObjectId;
use super::reading::PinRef;
use super::repository::Repository;
use super::trail::run_of_trail;

/// How many refs one command names, because the length of a command line is limited.
const AT_ONCE: usize = 500;
/// The prefix of attestations.
const ATTESTATIONS: &str = "refs/attestations/";

pub struct Remote<'r> {
    repository: &'r Repository,
    program: GitProgram,
    name: String,
}

impl<'r> Remote<'r> {
    /// Finds a remote by name, URL or absolute path.
    pub fn open(
        repository: &'r Repository,
        environment: &BTreeMap<OsString, OsString>,
        name: &str,
    ) -> Result<Self, CheckpointError> {
        let known = repository
            .git
            .remotes()
            .map_err(CheckpointError::git("list the remotes"))?;
        let known: Vec<String> = known
            .iter()
            .flatten()
            .flatten()
            .map(str::to_owned)
            .collect();
        let is_address = name.contains([':', '/']) && !name.starts_with('-');
        if !is_address && !known.iter().any(|remote| remote == name) {
            return Err(CheckpointError::UnknownRemote {
                name: name.to_owned(),
                known,
            });
        }
        let program =
            GitProgram::for_remotes(environment.clone(), repository.git_dir(), repository.top());
        Ok(Self {
            repository,
            program,
            name: name.to_owned(),
        })
    }

    /// Its logs and attestations.
    pub fn refs(&self) -> Result<BTreeMap<String, ObjectId>, CheckpointError> {
        let patterns = ["refs/piton/runs/*", "refs/attestations/*"];
        let output = self.git(&[
            "ls-remote",
            "--quiet",
            "--",
            &self.name,
            patterns[0],
            patterns[1],
        ])?;
        if !output.succeeded {
            return Err(self.failed("list what is there", output.reason));
        }
        let listed = String::from_utf8_lossy(&output.stdout);
        let entry = |line: &str| {
            let (id, name) = line.split_once('\t')?;
            let id = id.parse().ok()?;
            is_ours(name).then(|| (name.to_owned(), id))
        };
        Ok(listed.lines().filter_map(entry).collect())
    }

    /// Pushes refs. Rejected refs are an error; the others were pushed.
    pub fn push(&self, refs: &[PinRef]) -> Result<(), CheckpointError> {
        let mut refused = Vec::new();
        for some in refs.chunks(AT_ONCE) {
            let specs: Vec<String> = some
                .iter()
                .map(|pin| format!("{}:{}", pin.commit, pin.name))
                .collect();
            let mut words = vec![
                "push",
                "--porcelain",
                "--no-follow-tags",
                "--recurse-submodules=no",
                "--",
                self.name.as_str(),
            ];
            words.extend(specs.iter().map(String::as_str));
            let output = self.git(&words)?;
            let listed = String::from_utf8_lossy(&output.stdout).into_owned();
            let found: Vec<_> = listed.lines().filter_map(rejection).collect();
            if !output.succeeded && found.is_empty() {
                return Err(self.failed("push", output.reason));
            }
            refused.extend(found);
        }
        self.require_none(refused)
    }

    /// Fetches refs. Refs that are no fast-forward are an error; the others were fetched.
    pub fn fetch(&self, names: &[String]) -> Result<(), CheckpointError> {
        let before: BTreeSet<String> = self.own_refs()?.into_keys().collect();
        let mut refused = Vec::new();
        for some in names.chunks(AT_ONCE) {
            let specs: Vec<String> = some.iter().map(|name| format!("{name}:{name}")).collect();
            // Settings may tell git to prune or to force; override them.
            let mut words = vec![
                "fetch",
                "--quiet",
                "--no-tags",
                "--no-prune",
                "--no-recurse-submodules",
                "--no-write-fetch-head",
                "--refmap=",
                "--",
                self.name.as_str(),
            ];
            words.extend(specs.iter().map(String::as_str));
            let output = self.git(&words)?;
            if output.succeeded {
                continue;
            }
            let offered = self.refs()?;
            let here = self.own_refs()?;
            let differs =
                |name: &&String| before.contains(*name) && here.get(*name) != offered.get(*name);
            let found: Vec<_> = some
                .iter()
                .filter(differs)
                .map(|name| (name.clone(), None))
                .collect();
            if found.is_empty() {
                return Err(self.failed("fetch", output.reason));
            }
            refused.extend(found);
        }
        self.require_none(refused)
    }

    /// The local logs and attestations.
    pub fn own_refs(&self) -> Result<BTreeMap<String, ObjectId>, CheckpointError> {
        let mut pins = self.repository.trails()?;
        pins.extend(self.repository.refs_like("refs/attestations/*")?);
        Ok(pins
            .into_iter()
            .filter(|pin| is_ours(&pin.name))
            .map(|pin| (pin.name, pin.commit))
            .collect())
    }

    /// Its name without a password.
    pub fn shown(&self) -> String {
        match self.name.split_once("://") {
            Some((scheme, rest)) => {
                let host = rest.find('/').unwrap_or(rest.len());
                let start = rest
                    .get(..host)
                    .and_then(|host| host.rfind('@'))
                    .map_or(0, |at| at + 1);
                format!("{scheme}://{}", rest.get(start..).unwrap_or_default())
            }
            None => self.name.clone(),
        }
    }

    fn git(&self, words: &[&str]) -> Result<GitOutput, CheckpointError> {
        let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
        self.program.run_in_front("push or fetch", &words)
    }

    fn failed(&self, doing: &'static str, reason: String) -> CheckpointError {
        CheckpointError::Remote {
            doing,
            remote: self.shown(),
            reason,
        }
    }

    fn require_none(&self, refused: Vec<(String, Option<String>)>) -> Result<(), CheckpointError> {
        if refused.is_empty() {
            return Ok(());
        }
        Err(CheckpointError::RemoteRefused {
            remote: self.shown(),
            refused,
        })
    }
}

/// Whether piton pushes and fetches a ref.
fn is_ours(name: &str) -> bool {
    name.starts_with(ATTESTATIONS) || run_of_trail(name).is_some()
}

/// The rejected ref in a line of `git push --porcelain`, with the reason unless it is no
/// fast-forward.
fn rejection(line: &str) -> Option<(String, Option<String>)> {
    let (refs, why) = line.strip_prefix("!\t")?.split_once('\t')?;
    let (_, name) = refs.split_once(':')?;
    let is_other = ["non-fast-forward", "fetch first", "already exists"]
        .iter()
        .any(|words| why.contains(words));
    Some((name.to_owned(), (!is_other).then(|| why.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_logs_and_attestations_are_pushed() {
        for name in ["refs/piton/runs/01k/log", "refs/attestations/commits/abc"] {
            assert!(is_ours(name), "{name}");
        }
        for name in [
            "refs/piton/local/01k/1/before",
            "refs/piton/runs/01k/1/log",
            "refs/heads/main",
            "HEAD",
        ] {
            assert!(!is_ours(name), "{name}");
        }
    }

    #[test]
    fn a_refusal_is_told_from_what_went_well() {
        let log = "refs/piton/runs/01k/log";
        let line = |flag: &str, why: &str| format!("{flag}\tabc:{log}\t{why}");
        assert_eq!(rejection(&line("*", "[new reference]")), None);
        assert_eq!(rejection(&line("=", "[up to date]")), None);
        assert_eq!(rejection("To ../remote.git"), None);
        let other = Some((log.to_owned(), None));
        assert_eq!(
            rejection(&line("!", "[rejected] (non-fast-forward)")),
            other
        );
        assert_eq!(rejection(&line("!", "[rejected] (fetch first)")), other);
        let declined = "[remote rejected] (pre-receive hook declined)";
        assert_eq!(
            rejection(&line("!", declined)),
            Some((log.to_owned(), Some(declined.to_owned())))
        );
    }
}
