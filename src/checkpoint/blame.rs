//! The commit of each line of a file, from `git blame`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::RangeInclusive;

use jiff::Timestamp;
use serde::Serialize;

use super::error::CheckpointError;
use super::files::read_if_there;
use super::git_cli::GitProgram;
use super::object::{FileMode, ObjectId};
use super::objects::Objects;
use super::path::RepoPath;
use super::repository::Repository;
use super::tree;

/// The action, for error messages.
const DOING: &str = "find out which commit made a line";

/// The lines of a file and their commits.
#[derive(Debug, Default)]
pub struct CommitBlame {
    pub lines: Vec<CommitLine>,
    /// The commits of the lines.
    pub commits: BTreeMap<ObjectId, CommitHeading>,
}

#[derive(Debug)]
pub struct CommitLine {
    /// Its number in the file, from 1.
    pub number: usize,
    /// Its text, without the line end.
    pub text: Vec<u8>,
    /// Its commit; `None` if it is not committed.
    pub commit: Option<ObjectId>,
    /// The path in that commit.
    pub path: RepoPath,
    /// Its number in that file, from 1.
    pub number_there: usize,
}

/// The data of a commit from `git blame`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CommitHeading {
    pub author: String,
    pub time: Option<Timestamp>,
    /// The first line of its message.
    pub summary: String,
}

impl Repository {
    /// The commits of the lines of a file or of a range; `None` if neither the disk nor HEAD has
    /// the file.
    pub fn blame(
        &self,
        path: &RepoPath,
        range: Option<&RangeInclusive<usize>>,
    ) -> Result<Option<CommitBlame>, CheckpointError> {
        let tree = self.tree_of(self.head()?.commit)?;
        let committed = tree::find(&Objects::of(self)?, tree, path)?;
        if committed.is_some_and(|entry| entry.mode != FileMode::Gitlink) {
            return self
                .git_blame(path, range, self.is_file_on_disk(path))
                .map(Some);
        }
        Ok(self
            .disk_content(path)?
            .map(|content| uncommitted(&content, path, range)))
    }

    /// The content of a file on disk; `None` if there is no file.
    pub fn disk_content(&self, path: &RepoPath) -> Result<Option<Vec<u8>>, CheckpointError> {
        if self.is_file_on_disk(path) {
            read_if_there(&self.top.join(path.as_path()))
        } else {
            Ok(None)
        }
    }

    fn is_file_on_disk(&self, path: &RepoPath) -> bool {
        std::fs::metadata(self.top.join(path.as_path())).is_ok_and(|found| found.is_file())
    }

    fn git_blame(
        &self,
        path: &RepoPath,
        range: Option<&RangeInclusive<usize>>,
        is_on_disk: bool,
    ) -> Result<CommitBlame, CheckpointError> {
        let lines = range.map(|range| format!("-L{},{}", range.start(), range.end()));
        // Do not run programs that convert binary files to text.
        let mut arguments: Vec<&OsStr> = ["blame", "--porcelain", "--no-textconv"]
            .map(OsStr::new)
            .to_vec();
        arguments.extend(lines.as_deref().map(OsStr::new));
        if !is_on_disk {
            arguments.push(OsStr::new("HEAD"));
        }
        arguments.extend([OsStr::new("--"), path.as_path().as_os_str()]);
        let program = GitProgram::new(self.environment.clone(), self.git_dir(), self.top());
        let output = program.run_in_front(DOING, &arguments)?;
        let failed = |reason: String| CheckpointError::GitProgram {
            doing: DOING,
            reason,
        };
        if !output.succeeded {
            return Err(failed(output.reason));
        }
        parse(&output.stdout, path).ok_or_else(|| failed("its output cannot be read".to_owned()))
    }
}

/// The result for a file that no commit contains.
fn uncommitted(
    content: &[u8],
    path: &RepoPath,
    range: Option<&RangeInclusive<usize>>,
) -> CommitBlame {
    let lines = split_lines(content).into_iter().zip(1..);
    let wanted = lines.filter(|(_, number)| range.is_none_or(|range| range.contains(number)));
    let lines = wanted
        .map(|(text, number)| CommitLine {
            number,
            text: text.to_vec(),
            commit: None,
            path: path.clone(),
            number_there: number,
        })
        .collect();
    CommitBlame {
        lines,
        commits: BTreeMap::new(),
    }
}

/// The lines of a content, without line ends.
pub fn split_lines(content: &[u8]) -> Vec<&[u8]> {
    let content = content.strip_suffix(b"\n").unwrap_or(content);
    if content.is_empty() {
        return Vec::new();
    }
    content
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .collect()
}

/// Parses the output of `git blame --porcelain`; `None` if it is malformed.
fn parse(output: &[u8], asked: &RepoPath) -> Option<CommitBlame> {
    let mut found = CommitBlame::default();
    let mut paths: BTreeMap<ObjectId, RepoPath> = BTreeMap::new();
    let mut lines = output
        .strip_suffix(b"\n")
        .unwrap_or(output)
        .split(|byte| *byte == b'\n');
    while let Some(header) = lines.next().filter(|header| !header.is_empty()) {
        let mut words = std::str::from_utf8(header).ok()?.split(' ');
        let id: ObjectId = words.next()?.parse().ok()?;
        let (number_there, number) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let text = loop {
            let line = lines.next()?;
            if let Some(text) = line.strip_prefix(b"\t") {
                break text;
            }
            let line = String::from_utf8_lossy(line);
            let (key, value) = line.split_once(' ').unwrap_or((&line, ""));
            let heading = found.commits.entry(id).or_default();
            match key {
                "author" => value.clone_into(&mut heading.author),
                "author-time" => {
                    heading.time = value
                        .parse()
                        .ok()
                        .and_then(|time| Timestamp::from_second(time).ok());
                }
                "summary" => value.clone_into(&mut heading.summary),
                "filename" => {
                    paths.insert(id, RepoPath::from_git(value.as_bytes())?);
                }
                _ => {}
            }
        };
        found.lines.push(CommitLine {
            number,
            text: text.strip_suffix(b"\r").unwrap_or(text).to_vec(),
            commit: Some(id).filter(|id| !id.is_zero()),
            path: paths.get(&id).unwrap_or(asked).clone(),
            number_there,
        });
    }
    found.commits.retain(|id, _| !id.is_zero());
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_no_line_ends() {
        assert_eq!(split_lines(b""), Vec::<&[u8]>::new());
        assert_eq!(split_lines(b"a\r\nb\n\nc"), [&b"a"[..], b"b", b"", b"c"]);
        assert_eq!(split_lines(b"\n\n"), [&b""[..], b""]);
    }

    #[test]
    fn a_quoted_name_of_a_file_is_read() {
        let id = "1".repeat(40);
        let text = format!(
            "{id} 3 1 1\nauthor A\nauthor-time 0\nsummary s\nfilename \"a\\tb\"\n\ttext\n{id} 4 2\n\tmore\n"
        );
        let found = parse(text.as_bytes(), &RepoPath::from("new")).unwrap();
        assert_eq!(found.lines.len(), 2);
        assert_eq!((found.lines[1].number, found.lines[1].number_there), (2, 4));
        assert!(
            found
                .lines
                .iter()
                .all(|line| line.path == RepoPath::from("a\tb"))
        );
        assert_eq!(
            found
                .commits
                .values()
                .next()
                .map(|commit| commit.author.as_str()),
            Some("A")
        );
    }

    #[test]
    fn other_output_is_refused() {
        assert!(parse(b"no blame", &RepoPath::from("a")).is_none());
    }
}
