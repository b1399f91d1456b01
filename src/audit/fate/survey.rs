//! Reads every commit of the branches once, to find those that could have the changes of a lost
//! checkpoint.

use std::collections::{BTreeMap, BTreeSet};

use super::index::FateIndex;
use crate::audit::error::AuditError;
use crate::checkpoint::message::Trailers;
use crate::checkpoint::object::ObjectId;
use crate::checkpoint::reading::Claim;
use crate::checkpoint::repository::Repository;
use crate::journal::StepId;

#[derive(Default)]
pub(super) struct BranchSurvey {
    /// The commits that claim to be checkpoints, including those made by steps.
    pub(super) claims: Vec<Claim>,
    /// Commits without our trailers and with at most one parent.
    pub(super) free: Vec<ObjectId>,
    /// Commits that name a lost step but are not its own.
    named: BTreeMap<StepId, Vec<ObjectId>>,
    /// Commits with the same parents and tree as a lost checkpoint.
    twins: BTreeMap<Likeness, ObjectId>,
    /// Commits, with their parents, that have the same tree as a lost checkpoint.
    by_tree: BTreeMap<ObjectId, Vec<(ObjectId, Option<ObjectId>)>>,
}

/// Parents and tree of a commit.
type Likeness = (Vec<ObjectId>, ObjectId);

impl BranchSurvey {
    pub(super) fn of(
        repository: &Repository,
        index: &FateIndex<'_>,
        reachable: &BTreeSet<ObjectId>,
        lost: &BTreeSet<StepId>,
    ) -> Result<Self, AuditError> {
        let recorded = || lost.iter().filter_map(|id| index.get(*id));
        let twins: BTreeSet<Likeness> = recorded()
            .filter_map(|it| Some((it.parents.clone(), it.tree?)))
            .collect();
        let trees: BTreeSet<ObjectId> = recorded().filter_map(|it| it.tree).collect();
        let mut survey = Self::default();
        for commit in reachable {
            let Some(facts) = repository.find_commit(*commit)? else {
                continue;
            };
            let is_own = index.owner(*commit).is_some();
            // Parsing trailers is slow, and most commits have none of ours.
            let trailers = if facts.message.contains("Piton-Run:") {
                Trailers::find(&facts.message)
            } else {
                None
            };
            let claims = trailers.is_some();
            survey.claims.extend(trailers.map(|trailers| Claim {
                commit: *commit,
                trailers,
            }));
            if is_own || lost.is_empty() {
                continue;
            }
            for id in index
                .steps_named_in(&facts.message)
                .into_iter()
                .filter(|id| lost.contains(id))
            {
                survey.named.entry(id).or_default().push(*commit);
            }
            let is_single = facts.parents.len() <= 1;
            if is_single && trees.contains(&facts.tree) {
                let parent = facts.parents.first().copied();
                survey
                    .by_tree
                    .entry(facts.tree)
                    .or_default()
                    .push((*commit, parent));
            }
            if is_single && !claims {
                survey.free.push(*commit);
            }
            let twin = (facts.parents, facts.tree);
            if twins.contains(&twin) {
                survey.twins.insert(twin, *commit);
            }
        }
        Ok(survey)
    }

    pub(super) fn named(&self, id: StepId) -> &[ObjectId] {
        self.named.get(&id).map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn twin(&self, parents: &[ObjectId], tree: ObjectId) -> Option<ObjectId> {
        self.twins.get(&(parents.to_vec(), tree)).copied()
    }

    pub(super) fn with_tree(&self, tree: ObjectId) -> &[(ObjectId, Option<ObjectId>)] {
        self.by_tree
            .get(&tree)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }
}
