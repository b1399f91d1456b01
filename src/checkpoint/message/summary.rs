//! Generates a subject: `type(scope): summary`, from the changes.
//!
//! It is deterministic. The scope is the deepest folder that contains all changes, and the summary
//! names files relative to it.

use std::collections::BTreeSet;

use super::{SUBJECT, escaped};
use crate::checkpoint::delta::{Change, ChangeKind};
use crate::checkpoint::object::FileMode;
use crate::checkpoint::path::RepoPath;

/// The longest scope that is shown as a full path, in characters.
const SCOPE: usize = 24;
/// How many files a summary names before it counts them.
const NAMED: usize = 3;
/// The types of conventional commits.
const TYPES: [&str; 11] = [
    "feat", "fix", "docs", "style", "refactor", "perf", "test", "build", "ci", "chore", "revert",
];
const DOCUMENT_FOLDERS: [&str; 3] = ["docs", "doc", "documentation"];
const DOCUMENT_ENDINGS: [&str; 5] = ["md", "mdx", "rst", "adoc", "markdown"];
const DOCUMENT_NAMES: [&str; 7] = [
    "readme",
    "changelog",
    "license",
    "contributing",
    "authors",
    "copying",
    "code_of_conduct",
];
const TEST_FOLDERS: [&str; 6] = ["tests", "test", "__tests__", "spec", "testdata", "e2e"];
const SOURCE_ENDINGS: [&str; 41] = [
    "rs", "py", "js", "mjs", "cjs", "jsx", "ts", "tsx", "go", "java", "kt", "kts", "scala", "c",
    "h", "cc", "cpp", "hpp", "cs", "swift", "m", "rb", "php", "pl", "lua", "sh", "bash", "zsh",
    "ps1", "ex", "exs", "erl", "hs", "ml", "clj", "dart", "zig", "sql", "vue", "svelte", "css",
];

/// The subject for some changes, from a description or from the name of the step.
pub(super) fn subject(operation: Option<&str>, changes: &[Change]) -> String {
    if let Some(operation) = operation.filter(|text| is_conventional(text)) {
        return shortened(operation, SUBJECT);
    }
    let folder = common_folder(changes);
    let scope = scope(&folder)
        .map(|scope| format!("({scope})"))
        .unwrap_or_default();
    let head = format!("{}{scope}: ", kind_of_work(changes));
    let room = SUBJECT.saturating_sub(head.chars().count());
    let summary = match operation {
        // A description is better than any list of files.
        Some(words) if words.contains(char::is_whitespace) || changes.is_empty() => {
            words.to_owned()
        }
        Some(step) => {
            let by = format!(" by `{step}`");
            let summary = summary(&folder, changes, room.saturating_sub(by.chars().count()));
            if (summary.clone() + &by).chars().count() <= room {
                summary + &by
            } else {
                summary
            }
        }
        None => summary(&folder, changes, room),
    };
    head + &shortened(&summary, room)
}

fn is_conventional(text: &str) -> bool {
    text.split_once(": ").is_some_and(|(head, rest)| {
        let head = head.strip_suffix('!').unwrap_or(head);
        let name = head.split_once('(').map_or(head, |(name, _)| name);
        let whole = !head.contains('(') || head.ends_with(')');
        whole && TYPES.contains(&name) && !rest.trim().is_empty()
    })
}

/// A summary of the changes that fits the space if possible.
fn summary(folder: &RepoPath, changes: &[Change], room: usize) -> String {
    let name = |path: &RepoPath| {
        let below = if folder.is_top() {
            path.as_bytes()
        } else {
            path.as_bytes()
                .get(folder.as_bytes().len() + 1..)
                .unwrap_or_default()
        };
        format!("`{}`", escaped(&RepoPath::from_bytes(below).to_string()))
    };
    let fits = |text: &String| text.chars().count() <= room;
    match changes {
        [] => return "record the state".to_owned(),
        [first, second] => {
            if let Some((from, to)) = renamed(first, second) {
                return Some(format!("rename {} to {}", name(&from.path), name(&to.path)))
                    .filter(fits)
                    .unwrap_or_else(|| format!("rename {}", name(&from.path)));
            }
        }
        _ => {}
    }
    if changes.len() <= NAMED {
        let mut parts: Vec<(&str, Vec<String>)> = Vec::new();
        for change in changes {
            let verb = verb(change);
            match parts.iter_mut().find(|(known, _)| *known == verb) {
                Some((_, names)) => names.push(name(&change.path)),
                None => parts.push((verb, vec![name(&change.path)])),
            }
        }
        let parts: Vec<String> = parts
            .into_iter()
            .map(|(verb, names)| verb.replace('*', &listed(&names)))
            .collect();
        let text = parts.join(", ");
        if changes.len() == 1 || fits(&text) {
            return text;
        }
    }
    counted(folder, changes, &fits)
}

fn counted(folder: &RepoPath, changes: &[Change], fits: &dyn Fn(&String) -> bool) -> String {
    let count = |kind| {
        changes
            .iter()
            .filter(|change| change.kind() == kind)
            .count()
    };
    let kinds = [
        (ChangeKind::Added, "add"),
        (ChangeKind::Modified, "update"),
        (ChangeKind::Deleted, "delete"),
    ];
    let total = changes.len();
    let only = kinds
        .into_iter()
        .find(|(kind, _)| count(*kind) == total)
        .map(|(_, verb)| verb);
    let mut text = format!("{} {total} files", only.unwrap_or("change"));
    if folder.is_top() {
        let tops: BTreeSet<String> = changes
            .iter()
            .filter_map(|change| top_folder(&change.path))
            .collect();
        let tops: Vec<String> = tops.into_iter().map(|top| format!("`{top}`")).collect();
        let all_inside = changes
            .iter()
            .all(|change| top_folder(&change.path).is_some());
        text = Some(format!("{text} in {}", listed(&tops)))
            .filter(|longer| all_inside && tops.len() <= NAMED && fits(longer))
            .unwrap_or(text);
    }
    if only.is_some() {
        return text;
    }
    let parts: Vec<String> = kinds
        .into_iter()
        .zip(["added", "updated", "deleted"])
        .map(|((kind, _), word)| (count(kind), word))
        .filter(|(number, _)| *number > 0)
        .map(|(number, word)| format!("{number} {word}"))
        .collect();
    Some(format!("{text} ({})", parts.join(", ")))
        .filter(fits)
        .unwrap_or(text)
}

/// The verb for the change of a file; `*` is replaced by its name.
fn verb(change: &Change) -> &'static str {
    match (change.before, change.after) {
        (None, _) => "add *",
        (_, None) => "delete *",
        (Some(before), Some(after)) if before.id == after.id => match (before.mode, after.mode) {
            (FileMode::Regular, FileMode::Executable) => "make * executable",
            (FileMode::Executable, FileMode::Regular) => "make * not executable",
            _ => "update *",
        },
        _ => "update *",
    }
}

fn renamed<'a>(first: &'a Change, second: &'a Change) -> Option<(&'a Change, &'a Change)> {
    let (from, to) = match (first.kind(), second.kind()) {
        (ChangeKind::Deleted, ChangeKind::Added) => (first, second),
        (ChangeKind::Added, ChangeKind::Deleted) => (second, first),
        _ => return None,
    };
    (from.before?.id == to.after?.id).then_some((from, to))
}

/// `a`, `a and b`, `a, b and c`.
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn kind_of_work(changes: &[Change]) -> &'static str {
    let all = |is: fn(&RepoPath) -> bool| {
        !changes.is_empty() && changes.iter().all(|change| is(&change.path))
    };
    if all(is_document) {
        "docs"
    } else if all(is_test) {
        "test"
    } else if changes.iter().any(|change| {
        change.kind() == ChangeKind::Added
            && ends_with(&change.path, &SOURCE_ENDINGS)
            && !is_test(&change.path)
    }) {
        "feat"
    } else {
        "chore"
    }
}

fn is_document(path: &RepoPath) -> bool {
    let (stem, _) = stem_and_ending(path);
    lies_in(path, &DOCUMENT_FOLDERS)
        || ends_with(path, &DOCUMENT_ENDINGS)
        || DOCUMENT_NAMES.contains(&stem.as_str())
}

fn is_test(path: &RepoPath) -> bool {
    let (stem, ending) = stem_and_ending(path);
    let named = ["_test", ".test", "_spec", ".spec", "-test"]
        .iter()
        .any(|end| stem.ends_with(end));
    let named = named || stem.starts_with("test_") || stem == "tests";
    lies_in(path, &TEST_FOLDERS) || (named && SOURCE_ENDINGS.contains(&ending.as_str()))
}

fn lies_in(path: &RepoPath, folders: &[&str]) -> bool {
    path.parent().components().any(|part| {
        folders
            .iter()
            .any(|folder| part.eq_ignore_ascii_case(folder.as_bytes()))
    })
}

fn ends_with(path: &RepoPath, endings: &[&str]) -> bool {
    endings.contains(&stem_and_ending(path).1.as_str())
}

/// The file's name in lower case, split at the last dot.
fn stem_and_ending(path: &RepoPath) -> (String, String) {
    let name = String::from_utf8_lossy(path.file_name()).to_lowercase();
    match name.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() => (stem.to_owned(), ending.to_owned()),
        _ => (name, String::new()),
    }
}

fn top_folder(path: &RepoPath) -> Option<String> {
    path.parent()
        .components()
        .next()
        .map(|top| escaped(&RepoPath::from_bytes(top).to_string()))
}

/// The deepest folder that contains all changes.
fn common_folder(changes: &[Change]) -> RepoPath {
    let mut changes = changes.iter();
    let Some(first) = changes.next() else {
        return RepoPath::default();
    };
    changes.fold(first.path.parent(), |mut folder, change| {
        while !change.path.is_inside(&folder) {
            folder = folder.parent();
        }
        folder
    })
}

/// The folder as a scope: short, and without characters that would end it.
fn scope(folder: &RepoPath) -> Option<String> {
    let whole = String::from_utf8_lossy(folder.as_bytes());
    let last = String::from_utf8_lossy(folder.file_name());
    let shown = if whole.chars().count() <= SCOPE {
        whole
    } else {
        last
    };
    let plain: String = shown
        .trim_start_matches('.')
        .chars()
        .map(|c| {
            if c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/') {
                c
            } else {
                '-'
            }
        })
        .take(SCOPE)
        .collect();
    Some(plain).filter(|scope| scope.contains(char::is_alphanumeric))
}

fn shortened(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let cut: String = text.chars().take(room.saturating_sub(1)).collect();
    cut.trim_end().to_owned() + "…"
}
