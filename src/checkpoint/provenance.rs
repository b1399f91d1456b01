//! Tracks which lines of a file steps wrote or removed, from version to version.
//!
//! [`Provenance::reaches`] tells whether any of these lines are among the differences to another
//! version. It answers one question about files that were edited after a step: is any change of the
//! step left that HEAD does not have? This module does no input or output.

use std::ops::Range;

use git2::{DiffOptions, Patch};

use super::error::CheckpointError;

/// The author of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VersionAuthor {
    /// A step.
    Step,
    /// A person.
    Person,
}

/// The newest version of a file, with the changes of steps.
#[derive(Clone, Debug)]
pub(super) struct Provenance {
    content: Vec<u8>,
    /// For each line, whether a step wrote it.
    written: Vec<bool>,
    /// The lines that steps removed before each line, and after the last one.
    removed: Vec<Vec<Vec<u8>>>,
}

impl Provenance {
    /// A file before any step.
    pub(super) fn new(content: &[u8]) -> Self {
        let count = lines(content).len();
        Self {
            content: content.to_vec(),
            written: vec![false; count],
            removed: vec![Vec::new(); count + 1],
        }
    }

    /// Moves to the next version.
    pub(super) fn advance(
        &mut self,
        next: &[u8],
        author: VersionAuthor,
    ) -> Result<(), CheckpointError> {
        let old_lines = lines(&self.content);
        let (mut written, mut removed) = (Vec::new(), Vec::new());
        let mut at = 0;
        // The lines that were removed just before the next kept line, if a hunk ended there.
        let mut seam: Option<Vec<Vec<u8>>> = None;
        let end = Hunk {
            old: old_lines.len()..old_lines.len(),
            new: 0..0,
        };
        for Hunk { old, new } in hunks(&self.content, next)?.into_iter().chain([end]) {
            for line in at..old.start {
                removed.push(
                    seam.take()
                        .unwrap_or_else(|| self.removed.get(line).cloned().unwrap_or_default()),
                );
                written.push(self.written.get(line).copied().unwrap_or_default());
            }
            let mut gone = seam.take().unwrap_or_default();
            gone.extend(
                self.removed
                    .get(old.start..=old.end)
                    .unwrap_or_default()
                    .concat(),
            );
            if author == VersionAuthor::Step {
                gone.extend(
                    old_lines
                        .get(old.clone())
                        .unwrap_or_default()
                        .iter()
                        .map(|line| line.to_vec()),
                );
            }
            gone.sort();
            gone.dedup();
            removed.extend(std::iter::repeat_n(gone.clone(), new.len()));
            written.extend(std::iter::repeat_n(
                author == VersionAuthor::Step,
                new.len(),
            ));
            seam = Some(gone);
            at = old.end;
        }
        removed.push(seam.unwrap_or_default());
        *self = Self {
            content: next.to_vec(),
            written,
            removed,
        };
        Ok(())
    }

    /// Whether another version lacks a line that a step wrote, or has one that a step removed.
    pub(super) fn reaches(&self, other: &[u8]) -> Result<bool, CheckpointError> {
        let theirs = lines(other);
        Ok(hunks(other, &self.content)?
            .into_iter()
            .any(|Hunk { old, new }| {
                let gone: Vec<&Vec<u8>> = self
                    .removed
                    .get(new.start..=new.end)
                    .unwrap_or_default()
                    .iter()
                    .flatten()
                    .collect();
                let is_gone = |line: &&[u8]| gone.iter().any(|gone| gone.as_slice() == *line);
                self.written.get(new).unwrap_or_default().contains(&true)
                    || theirs.get(old).unwrap_or_default().iter().any(is_gone)
            }))
    }
}

/// Differing lines, as ranges of line numbers from 0.
struct Hunk {
    old: Range<usize>,
    new: Range<usize>,
}

fn hunks(old: &[u8], new: &[u8]) -> Result<Vec<Hunk>, CheckpointError> {
    let comparing = || CheckpointError::git("compare two versions of a file");
    let mut options = DiffOptions::new();
    options.context_lines(0).interhunk_lines(0).force_text(true);
    let patch =
        Patch::from_buffers(old, None, new, None, Some(&mut options)).map_err(comparing())?;
    let mut hunks = Vec::new();
    for number in 0..patch.num_hunks() {
        let (hunk, _) = patch.hunk(number).map_err(comparing())?;
        let (old, new) = (
            range(hunk.old_start(), hunk.old_lines()),
            range(hunk.new_start(), hunk.new_lines()),
        );
        hunks.push(Hunk { old, new });
    }
    Ok(hunks)
}

/// libgit2 numbers lines from 1; an empty range has the number of the line before it.
fn range(start: u32, count: u32) -> Range<usize> {
    let start = if count == 0 {
        start
    } else {
        start.saturating_sub(1)
    } as usize;
    start..start + count as usize
}

fn lines(content: &[u8]) -> Vec<&[u8]> {
    content.split_inclusive(|byte| *byte == b'\n').collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::VersionAuthor::{Person, Step};
    use super::*;

    fn reaches(first: &str, versions: &[(&str, VersionAuthor)], other: &str) -> bool {
        let mut found = Provenance::new(first.as_bytes());
        for (next, author) in versions {
            found.advance(next.as_bytes(), *author).unwrap();
        }
        found.reaches(other.as_bytes()).unwrap()
    }

    #[test]
    fn a_line_of_a_step_that_is_not_there_yet_is_found() {
        assert!(reaches("1\n2\n3\n", &[("1\ntwo\n3\n", Step)], "1\n2\n3\n"));
        assert!(reaches("1\n2\n3\n", &[("1\n3\n", Step)], "1\n2\n3\n"));
        assert!(reaches("", &[("1\n", Step), ("0\n1\n", Person)], "0\n"));
        assert!(reaches("1\n", &[("", Step)], "1\n"));
    }

    #[test]
    fn what_a_person_did_to_a_committed_line_is_not_the_steps() {
        let versions = [("1\ntwo\n3\n", Step), ("1\ndos\n3\n", Person)];
        assert!(!reaches("1\n2\n3\n", &versions, "1\nzwei\n3\n"));
        assert!(!reaches(
            "",
            &[("1\n2\n", Step), ("1\n2\n3\n", Person)],
            "1\n2\n"
        ));
        assert!(!reaches("", &[("1\n2\n", Step), ("1\n", Person)], "1\n2\n"));
    }

    fn text() -> impl Strategy<Value = String> {
        proptest::collection::vec(prop_oneof!["a", "b", "c", "d"], 0..8).prop_map(|lines| {
            lines
                .iter()
                .flat_map(|line| [line.as_str(), "\n"])
                .collect()
        })
    }

    proptest! {
        #[test]
        fn what_no_step_did_is_never_a_steps(first in text(), next in text(), other in text()) {
            prop_assert!(!reaches(&first, &[(&next, Person)], &other));
        }

        #[test]
        fn a_version_reaches_nothing_in_itself(first in text(), step in text(), since in text()) {
            prop_assert!(!reaches(&first, &[(&step, Step), (&since, Person)], &since));
        }

        #[test]
        fn lines_and_gaps_fit_the_content(versions in proptest::collection::vec(text(), 1..6)) {
            let mut found = Provenance::new(b"a\nb\n");
            for next in &versions {
                found.advance(next.as_bytes(), Step).unwrap();
                prop_assert_eq!(found.written.len(), lines(next.as_bytes()).len());
                prop_assert_eq!(found.removed.len(), found.written.len() + 1);
            }
        }
    }
}
