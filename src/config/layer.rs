//! Reads one settings file.
//!
//! Every mistake is a finding with its position, and the rest of the file still counts: one wrong
//! line does not disable the others.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{Config, SettingKey, SettingSource};
use crate::item::finding::{Findings, Strength};
use crate::item::node::{Data, Node, NodeEntry};
use crate::item::position::Position;
use crate::item::source::{MAX_DOCUMENT, SourceFile, leaves};
use crate::item::wording::{did_you_mean, nearest};
use crate::item::yaml;
use crate::problem::Code;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    User,
    Project,
}

/// Reads a file into the settings. A missing file counts as empty.
pub(super) fn read(config: &mut Config, file: &Path, owner: Owner) {
    if let Err(err) = fs::symlink_metadata(file)
        && matches!(err.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
    {
        return;
    }
    let shown = match owner {
        Owner::User => file.to_path_buf(),
        Owner::Project => PathBuf::from(".ai/config.yaml"),
    };
    let mut findings = Findings::new(&shown, Strength::Lenient);
    let root = file.ancestors().nth(2).unwrap_or(file);
    if owner == Owner::Project && leaves(file, root) {
        findings
            .add(
                Code::PathEscape,
                Position::START,
                "",
                "the link leaves the project",
            )
            .suggest("copy the file into the project");
    } else if let Some(source) = SourceFile::load(file, MAX_DOCUMENT, &mut findings)
        && !holds_only_comments(&source.text)
        && let Some(document) = yaml::parse(&source.text, Position::START, &mut findings)
    {
        let mut layer = ConfigLayer {
            config,
            findings: &mut findings,
            owner,
            file: &shown,
        };
        layer.read_map(&document, "");
    }
    config.findings.extend(findings.into_vec());
}

fn holds_only_comments(text: &str) -> bool {
    text.lines()
        .map(str::trim)
        .all(|line| line.is_empty() || line.starts_with('#'))
}

struct ConfigLayer<'a> {
    config: &'a mut Config,
    findings: &'a mut Findings,
    owner: Owner,
    file: &'a Path,
}

impl ConfigLayer<'_> {
    /// Reads the entries below a dotted prefix. The recursion is as deep as the longest setting
    /// name.
    fn read_map(&mut self, map: &Node, prefix: &str) {
        let Some(entries) = map.entries() else {
            let message = match prefix {
                "" => format!("settings must be a mapping, not a {}", map.type_name()),
                _ => format!(
                    "`{prefix}` must be a mapping of settings, not a {}",
                    map.type_name()
                ),
            };
            self.findings
                .add(Code::InvalidType, map.place, prefix, message)
                .suggest("write one setting per line below it, each as `name: value`");
            return;
        };
        for entry in entries {
            let name = if prefix.is_empty() {
                entry.key.clone()
            } else {
                format!("{prefix}.{}", entry.key)
            };
            let section = format!("{name}.");
            if SettingKey::ALL
                .iter()
                .any(|key| key.name().starts_with(&section))
            {
                // A null section is one whose lines are all commented out.
                if !entry.value.is_null() {
                    self.read_map(&entry.value, &name);
                }
            } else if let Some(key) = SettingKey::find(&name).filter(|_| !prefix.is_empty()) {
                self.read_value(key, &entry.value);
            } else {
                self.report_unknown(entry, &name);
            }
        }
    }

    fn read_value(&mut self, key: SettingKey, node: &Node) {
        let text = match &node.data {
            Data::List(items)
                if key.is_list() && items.iter().all(|item| item.scalar().is_some()) =>
            {
                let texts: Vec<_> = items.iter().filter_map(Node::scalar).collect();
                texts.join(",")
            }
            // In YAML `none` is a string, but `null` is not a value.
            Data::Null | Data::List(_) | Data::Map(_) => {
                let given = if node.is_null() {
                    "nothing".to_owned()
                } else {
                    format!("a {}", node.type_name())
                };
                let message = format!("`{}` must be {}, not {given}", key.name(), key.expected());
                self.findings
                    .add(Code::InvalidType, node.place, key.name(), message)
                    .suggest(format!("write {}", key.expected()));
                return;
            }
            _ => node.scalar().unwrap_or_default(),
        };
        let Some(value) = key.parse(&text) else {
            let message = format!("`{}` must be {}, not `{text}`", key.name(), key.expected());
            let finding =
                self.findings
                    .add(Code::InvalidEnumValue, node.place, key.name(), message);
            let similar = nearest(&text, key.allowed_values().iter().copied());
            finding.suggest(did_you_mean(similar, &format!("write {}", key.expected())));
            return;
        };
        let current = self.config.get(key);
        if self.owner == Owner::Project
            && let Some(message) = key.objection("a project", &current, &value)
        {
            self.findings
                .add(Code::SettingIgnored, node.place, key.name(), message)
                .suggest("set it in `~/.ai/config.yaml` if you want this");
            return;
        }
        let (file, line) = (self.file.to_path_buf(), node.place.line);
        let source = match self.owner {
            Owner::User => SettingSource::User { file, line },
            Owner::Project => SettingSource::Project { file, line },
        };
        self.config.set(key, value, source);
    }

    fn report_unknown(&mut self, entry: &NodeEntry, name: &str) {
        let message = format!("`{name}` is not a setting");
        let finding = self
            .findings
            .add(Code::UnknownSetting, entry.place, name, message);
        if let Some((section, rest)) =
            SettingKey::find(name).and_then(|key| key.name().split_once('.'))
        {
            finding.suggest(format!(
                "write `{rest}` on a line of its own below `{section}:`"
            ));
        } else {
            let similar = SettingKey::find_similar(name).map(SettingKey::name);
            finding.suggest(did_you_mean(
                similar,
                "list the settings with `piton config`",
            ));
        }
    }
}
