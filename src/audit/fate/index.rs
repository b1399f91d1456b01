//! Index of the committed steps of all runs, by commit, by trailers and by branch.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::audit::error::AuditError;
use crate::audit::history::{History, RecordSource, RunRecord, StepRecord};
use crate::checkpoint::delta::Change;
use crate::checkpoint::message::Trailers;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::repository::Repository;
use crate::journal::StepId;
use crate::journal::event::{Acceptance, Decision, RewrittenCommit};

pub(super) struct RecordedCheckpoint<'a> {
    pub(super) step: &'a StepRecord,
    pub(super) commit: ObjectId,
    pub(super) parents: Vec<ObjectId>,
    /// `None` when only the commit itself would tell, and it is gone.
    pub(super) tree: Option<ObjectId>,
    /// The changes against the first parent.
    pub(super) delta: Cow<'a, [Change]>,
    pub(super) source: RecordSource,
    branch: &'a str,
}

/// The trailers of a commit: run, step and journal head.
type Key = (String, String, String);

pub(super) struct FateIndex<'a> {
    recorded: BTreeMap<StepId, RecordedCheckpoint<'a>>,
    owners: BTreeMap<ObjectId, StepId>,
    by_trailers: BTreeMap<Key, StepId>,
    branches: BTreeMap<&'a str, Vec<StepId>>,
    links: BTreeMap<ObjectId, Vec<&'a RewrittenCommit>>,
    /// The steps whose changes a commit had when it was recorded.
    linked: BTreeMap<ObjectId, BTreeSet<StepId>>,
    acceptances: BTreeMap<StepId, Vec<&'a Acceptance>>,
}

impl<'a> FateIndex<'a> {
    /// Commits in `in_place` need no search, so their objects are not read.
    pub(super) fn new(
        repository: &Repository,
        history: &'a History,
        in_place: &BTreeSet<ObjectId>,
    ) -> Result<Self, AuditError> {
        let mut index = Self {
            recorded: BTreeMap::new(),
            owners: BTreeMap::new(),
            by_trailers: BTreeMap::new(),
            branches: BTreeMap::new(),
            links: BTreeMap::new(),
            linked: BTreeMap::new(),
            acceptances: BTreeMap::new(),
        };
        // Oldest first.
        for run in history.runs.iter().rev() {
            for step in &run.steps {
                if let Some(recorded) = RecordedCheckpoint::of(repository, run, step, in_place)? {
                    index.take(recorded);
                }
            }
            for link in &run.rewritten {
                index.links.entry(link.old).or_default().push(link);
                if link.same_changes {
                    index.linked.entry(link.new).or_default().insert(link.step);
                }
            }
            for acceptance in &run.accepted {
                index
                    .acceptances
                    .entry(acceptance.of)
                    .or_default()
                    .push(acceptance);
            }
        }
        Ok(index)
    }

    fn take(&mut self, recorded: RecordedCheckpoint<'a>) {
        let step = recorded.step;
        self.owners.insert(recorded.commit, step.id);
        if let Some(journal) = step.decided_after {
            let name = format!("{} {}", step.id.step, step.name);
            self.by_trailers.insert(
                (step.id.run.to_string(), name, journal.to_string()),
                step.id,
            );
        }
        self.branches
            .entry(recorded.branch)
            .or_default()
            .push(step.id);
        self.recorded.insert(step.id, recorded);
    }

    pub(super) fn recorded(&self) -> impl Iterator<Item = &RecordedCheckpoint<'a>> {
        self.recorded.values()
    }

    pub(super) fn get(&self, id: StepId) -> Option<&RecordedCheckpoint<'a>> {
        self.recorded.get(&id)
    }

    pub(super) fn owner(&self, commit: ObjectId) -> Option<StepId> {
        self.owners.get(&commit).copied()
    }

    /// The step with exactly these trailers.
    pub(super) fn step_named(&self, trailers: &Trailers) -> Option<StepId> {
        self.named(&trailers.run, &trailers.step, &trailers.journal)
    }

    fn named(&self, run: &str, step: &str, journal: &str) -> Option<StepId> {
        self.by_trailers
            .get(&(run.to_owned(), step.to_owned(), journal.to_owned()))
            .copied()
    }

    /// The steps whose trailers appear anywhere in a message, in message order. A squashed commit
    /// contains several messages, and `git merge --squash` indents them.
    pub(super) fn steps_named_in(&self, message: &str) -> Vec<StepId> {
        if !message.contains("Piton-Journal:") {
            return Vec::new();
        }
        let mut found = Vec::new();
        let (mut run, mut step) = ("", "");
        for (key, value) in message
            .lines()
            .filter_map(|line| line.trim().split_once(": "))
        {
            match key {
                "Piton-Run" => (run, step) = (value, ""),
                "Piton-Step" => step = value,
                "Piton-Journal" => found.extend(self.named(run, step, value)),
                _ => {}
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The steps committed to the same branch as this one, oldest first.
    pub(super) fn branch_of(&self, id: StepId) -> &[StepId] {
        let branch = self
            .recorded
            .get(&id)
            .and_then(|recorded| self.branches.get(recorded.branch));
        branch.map(Vec::as_slice).unwrap_or_default()
    }

    /// The recorded replacements of a commit.
    pub(super) fn links_from(&self, commit: ObjectId) -> impl Iterator<Item = &'a RewrittenCommit> {
        self.links.get(&commit).into_iter().flatten().copied()
    }

    /// The commits that replaced a step's commit, directly or through other replacements.
    pub(super) fn replaced_by(&self, id: StepId) -> impl Iterator<Item = ObjectId> {
        self.links_of(id).into_iter().map(|link| link.new)
    }

    /// The recorded replacements of a step's commit, and of those in turn.
    pub(super) fn links_of(&self, id: StepId) -> Vec<&'a RewrittenCommit> {
        let Some(recorded) = self.recorded.get(&id) else {
            return Vec::new();
        };
        let mut found: Vec<&RewrittenCommit> = Vec::new();
        let mut next = vec![recorded.commit];
        while let Some(old) = next.pop() {
            for link in self.links_from(old).filter(|link| link.step == id) {
                if link.new != recorded.commit && !found.iter().any(|known| known.new == link.new) {
                    next.push(link.new);
                    found.push(link);
                }
            }
        }
        found
    }

    /// The steps whose changes a commit had when it was recorded, in order.
    pub(super) fn linked_to(&self, commit: ObjectId) -> Vec<StepId> {
        self.linked
            .get(&commit)
            .into_iter()
            .flatten()
            .copied()
            .collect()
    }

    pub(super) fn acceptances(&self, id: StepId) -> impl Iterator<Item = &'a Acceptance> {
        self.acceptances.get(&id).into_iter().flatten().copied()
    }
}

impl<'a> RecordedCheckpoint<'a> {
    /// `None` for a step without its own commit.
    fn of(
        repository: &Repository,
        run: &RunRecord,
        step: &'a StepRecord,
        in_place: &BTreeSet<ObjectId>,
    ) -> Result<Option<Self>, AuditError> {
        let Some(commit) = step.commit().filter(|_| !step.is_fast_forward()) else {
            return Ok(None);
        };
        let source = run.source;
        if let Some(Decision::Commit {
            target,
            old,
            tree,
            delta,
            parents,
            ..
        }) = &step.decision
        {
            let parents = parents
                .clone()
                .unwrap_or_else(|| old.iter().copied().collect());
            let delta = Cow::Borrowed(delta.as_slice());
            return Ok(Some(Self {
                step,
                commit,
                parents,
                tree: Some(*tree),
                delta,
                source,
                branch: target,
            }));
        }
        // The step itself ran `git commit`; its last commit is the one to follow.
        let before = step.before.as_ref();
        let branch = before
            .and_then(|before| before.head.branch.as_deref())
            .unwrap_or("HEAD");
        if !in_place.contains(&commit)
            && let Some(facts) = repository.find_commit(commit)?
            && let Ok(base) = repository.base_of(&facts)
        {
            let delta = Cow::Owned(repository.changes(base, facts.tree)?);
            return Ok(Some(Self {
                step,
                commit,
                parents: facts.parents,
                tree: Some(facts.tree),
                delta,
                source,
                branch,
            }));
        }
        let parents = before
            .and_then(|before| before.head.commit)
            .into_iter()
            .collect();
        let delta = Cow::Borrowed(
            step.delta
                .as_ref()
                .map(|delta| delta.changes.as_slice())
                .unwrap_or_default(),
        );
        Ok(Some(Self {
            step,
            commit,
            parents,
            tree: None,
            delta,
            source,
            branch,
        }))
    }
}
