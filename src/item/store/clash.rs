//! Conflicting items: the same id in one layer, or ids that differ only in case.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{Item, Layer, Roots, list};
use crate::item::finding::{Finding, Findings, Severity, Strength};
use crate::problem::Code;

/// Finds the conflicts among the project's items, sorted by file.
pub(super) fn find<'i>(
    items: impl Iterator<Item = &'i Item>,
    roots: &Roots,
    strength: Strength,
) -> Vec<Finding> {
    let mut groups: BTreeMap<_, Vec<&Item>> = BTreeMap::new();
    for item in items.filter(|item| item.layer == Layer::Project) {
        groups
            .entry((item.kind(), item.id.as_str().to_ascii_lowercase()))
            .or_default()
            .push(item);
    }
    let mut found = Vec::new();
    for group in groups.values().filter(|group| group.len() > 1) {
        let mut same: BTreeMap<_, Vec<&Item>> = BTreeMap::new();
        for item in group {
            same.entry((&item.id, item.legacy_root))
                .or_default()
                .push(item);
        }
        for item in group {
            let mut findings = Findings::new(&roots.display(&item.file), strength);
            if let Some(same) = same.get(&(&item.id, item.legacy_root)) {
                same_id(item, same, roots, &mut findings);
            }
            other_case(item, group, roots, &mut findings);
            found.extend(findings.into_vec());
        }
    }
    found.sort_by(|a, b| a.file.cmp(&b.file));
    found
}

/// How many files of one id a message lists: each of them has this message.
const MAX_LISTED: usize = 3;

/// `same` are all items of the layer with this id.
fn same_id(item: &Item, same: &[&Item], roots: &Roots, findings: &mut Findings) {
    if same.len() < 2 {
        return;
    }
    let listed = same.iter().take(MAX_LISTED);
    let files: Vec<PathBuf> = listed.map(|other| roots.display(&other.file)).collect();
    let more = match same.len() - files.len() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let (kind, id, count) = (item.kind(), &item.id, same.len());
    let message = format!(
        "{kind} `{id}` is defined {count} times: {}{more}",
        list(&files)
    );
    let field = item.id_field();
    let is_lenient = findings.strength() == Strength::Lenient;
    let finding = findings.add(Code::DuplicateId, item.place_of(field), field, message);
    // Tools that go by their files have the same name in several folders: the full id tells them apart.
    let is_told_apart = item.is_named_by_file()
        && same.iter().all(|other| {
            other.file == item.file
                || other.is_named_by_file() && other.folder_category != item.folder_category
        });
    if is_lenient && is_told_apart {
        finding.with_severity(Severity::Warning).suggest(format!(
            "name it `{}/{id}` where it is used, or give it a `{field}`",
            item.folder_category
        ));
    } else {
        finding.suggest("rename or remove all but one");
    }
}

/// Ids that differ only in case are different items here and one file on other machines.
fn other_case(item: &Item, group: &[&Item], roots: &Roots, findings: &mut Findings) {
    if let Some(other) = group.iter().find(|other| other.id != item.id) {
        let field = item.id_field();
        let file = roots.display(&other.file);
        let message = format!(
            "{} `{}` and `{}` differ only in case: {}",
            item.kind(),
            item.id,
            other.id,
            file.display()
        );
        findings
            .add(Code::NamingConvention, item.place_of(field), field, message)
            .suggest("give one of them another id");
    }
}
