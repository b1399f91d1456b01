//! The core promises: commit, roll back, undo and redo, with the user's own work untouched.

use super::SelftestCheck;
use super::lab::Lab;
use crate::run::error::RunError;

/// Creates a repository with uncommitted user changes: modified, staged, partly staged, deleted,
/// untracked and ignored files.
const BEGIN: &str = "set -e; git init -q; printf '*.log\\n' > .gitignore
    for name in clean mine gone partly; do echo $name > $name.txt; done; git add -A; git commit -qm begin
    echo more >> mine.txt; chmod 600 mine.txt; rm gone.txt; echo staged > staged.txt; git add staged.txt
    echo one >> partly.txt; git add partly.txt; echo two >> partly.txt; echo new > untracked.txt; echo log > x.log";

/// The user's files: names, contents, permissions and git status. Excludes `step/`, where the steps
/// write.
pub(super) const USERS: &str =
    "find . -name .git -prune -o -path ./step -prune -o -type f -exec ls -ld {} + | awk '{print $1, $NF}' | sort
    find . -name .git -prune -o -path ./step -prune -o -type f -print | sort | xargs cat
    git status --porcelain=v2 -- . ':!step'; git ls-files --stage -- . ':!step'";

/// The files of the steps.
const STEPS: &str = "if [ -d step ]; then find step -type f | sort; find step -type f | sort | xargs cat; fi; git ls-files --stage step";

/// The state that the checks compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Picture {
    pub(super) users: String,
    pub(super) steps: String,
    pub(super) commits: u32,
}

impl Picture {
    pub(super) fn of(lab: &mut Lab) -> Result<Self, RunError> {
        let users = lab.sh(USERS)?.stdout;
        let steps = lab.sh(STEPS)?.stdout;
        let commits = lab
            .sh("git rev-list --count HEAD")?
            .stdout
            .trim()
            .parse()
            .unwrap_or_default();
        Ok(Self {
            users,
            steps,
            commits,
        })
    }

    /// The difference; `None` if there is none.
    pub(super) fn difference(&self, found: &Self) -> Option<String> {
        if self.users != found.users {
            return Some("uncommitted work of the user has changed".to_owned());
        }
        if self.steps != found.steps {
            return Some("files of the step are not as they have to be".to_owned());
        }
        let (expected, found) = (self.commits, found.commits);
        (expected != found).then(|| format!("there are {found} commits instead of {expected}"))
    }
}

/// Runs a piton command, checks its exit code, and compares the state afterwards.
fn expect(
    lab: &mut Lab,
    command: &str,
    code: i32,
    right: impl FnOnce(&Picture) -> Picture,
) -> Result<Option<String>, RunError> {
    let before = Picture::of(lab)?;
    let answer = lab.sh(command)?;
    if answer.code != Some(code) {
        return Ok(Some(answer.output_line()));
    }
    let found = Picture::of(lab)?;
    Ok(right(&before)
        .difference(&found)
        .map(|wrong| format!("{wrong}: {}", answer.output_line())))
}

/// Commits, rolls back, undoes and redoes.
pub(super) fn walk(
    lab: &mut Lab,
    tell: &mut dyn FnMut(Vec<SelftestCheck>),
) -> Result<(), RunError> {
    let begun = lab.sh(BEGIN)?;
    if begun.code != Some(0) {
        tell(vec![SelftestCheck::failed(
            "repository",
            begun.output_line(),
        )]);
        return Ok(());
    }
    let step = "\"$PITON\" exec -- sh -c 'mkdir -p step; echo first > step/a.txt; echo more >> step/b.txt'";
    let base = Picture::of(lab)?;
    let answer = lab.sh(step)?;
    let done = Picture::of(lab)?;
    let wrong = if answer.code != Some(0) {
        Some(answer.output_line())
    } else if done.users != base.users
        || done.commits != base.commits + 1
        || !done.steps.contains("first\nmore\n")
    {
        Some(format!(
            "the commit holds something else than the step: {}",
            answer.output_line()
        ))
    } else {
        None
    };
    tell(vec![SelftestCheck::of(
        "commit",
        wrong,
        "a step became a commit; uncommitted work stayed as it was",
    )]);

    let failing = "\"$PITON\" exec -- sh -c 'echo harm >> mine.txt; echo harm >> step/a.txt; rm -f untracked.txt step/b.txt; \
         : > junk.txt; chmod 777 partly.txt; exit 3'";
    let wrong = expect(lab, failing, 3, Clone::clone)?;
    tell(vec![SelftestCheck::of(
        "roll back",
        wrong,
        "a failed step was rolled back, including its damage to uncommitted work",
    )]);

    let undone = |before: &Picture| Picture {
        commits: before.commits + 1,
        ..base.clone()
    };
    let wrong = expect(lab, "\"$PITON\" undo", 0, undone)?;
    tell(vec![SelftestCheck::of(
        "undo",
        wrong,
        "a step was undone by a new commit",
    )]);

    let redone = |before: &Picture| Picture {
        commits: before.commits + 1,
        ..done.clone()
    };
    let wrong = expect(lab, "\"$PITON\" redo", 0, redone)?;
    tell(vec![SelftestCheck::of(
        "redo",
        wrong,
        "the undo was redone",
    )]);
    Ok(())
}

/// Checks the integrity of everything at the end.
pub(super) fn look_back(
    lab: &mut Lab,
    tell: &mut dyn FnMut(Vec<SelftestCheck>),
) -> Result<(), RunError> {
    let answer = lab.sh("git fsck --full --strict --no-dangling")?;
    let wrong = (answer.code != Some(0)).then(|| answer.output_line());
    tell(vec![SelftestCheck::of(
        "git fsck",
        wrong,
        "every object of the repository is intact",
    )]);
    let answer = lab.sh("\"$PITON\" verify --all")?;
    let wrong = (answer.code != Some(0)).then(|| answer.output_line());
    tell(vec![SelftestCheck::of(
        "record",
        wrong,
        "the record verifies",
    )]);
    let answer = lab.sh("find .git -name '*.lock'; git add -A && git commit -qm end")?;
    let wrong =
        (answer.code != Some(0) || !answer.stdout.trim().is_empty()).then(|| answer.output_line());
    tell(vec![SelftestCheck::of(
        "locks",
        wrong,
        "none is left, and git can commit",
    )]);
    Ok(())
}
