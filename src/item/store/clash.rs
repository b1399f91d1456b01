//! Conflicting items: the same id in one layer, or ids that differ only in case.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{Item, Layer, Roots, list};
use crate::item::finding::{Finding, Findings, Strength};
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
        for item in group {
            let mut findings = Findings::new(&roots.display(&item.file), strength);
            same_id(item, group, roots, &mut findings);
            other_case(item, group, roots, &mut findings);
            found.extend(findings.into_vec());
        }
    }
    found.sort_by(|a, b| a.file.cmp(&b.file));
    found
}

fn same_id(item: &Item, group: &[&Item], roots: &Roots, findings: &mut Findings) {
    let same = group
        .iter()
        .filter(|other| other.id == item.id && other.legacy_root == item.legacy_root);
    let files: Vec<PathBuf> = same.map(|other| roots.display(&other.file)).collect();
    if files.len() > 1 {
        let field = item.id_field();
        let message = format!(
            "{} `{}` is defined {} times: {}",
            item.kind(),
            item.id,
            files.len(),
            list(&files)
        );
        findings
            .add(Code::DuplicateId, item.place_of(field), field, message)
            .suggest("rename or remove all but one");
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
