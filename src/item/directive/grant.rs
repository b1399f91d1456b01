//! Permission elements.
//!
//! A grant that is not understood is reported and left out, as a whole: it grants nothing, which is
//! safe, and a warning at first. What may deny something must be understood, so an unknown denial is
//! always an error: leaving it out would grant more than the file says.

mod kind;

use super::reading::{DirectiveReading, join, split_list};
use super::xml::{Attribute, Element, XmlText};
use super::{Access, Grant};
use crate::item::finding::{Finding, Severity, Strength};
use crate::item::wording::{did_you_mean, nearest, shown};
use crate::problem::Code;

const ELEMENTS: [&str; 15] = [
    "read",
    "write",
    "execute",
    "shell",
    "env",
    "mcp",
    "docker",
    "allow",
    "deny",
    "search",
    "load",
    "fetch",
    "sign",
    "cap",
    "permissions",
];
const RESOURCES: [&str; 11] = [
    "tool",
    "shell",
    "mcp",
    "kiwi-mcp",
    "spawn",
    "registry",
    "docker",
    "network",
    "directive",
    "knowledge",
    "env",
];
const FILES: [&str; 2] = ["filesystem", "files"];
const ITEM_TYPES: [&str; 3] = ["tool", "directive", "knowledge"];
/// Parts of words with which people deny.
const DENIALS: [&str; 16] = [
    "deny", "deni", "forbid", "prohibit", "exclu", "except", "block", "restrict", "disallow",
    "ban", "refus", "reject", "revoke", "never", "without", "unless",
];
/// Attributes that do not narrow a grant.
const REMARKS: [&str; 4] = ["resource", "description", "reason", "required"];

pub(super) fn read(
    element: &Element,
    path: &str,
    reading: &mut DirectiveReading<'_>,
    grants: &mut Vec<Grant>,
) {
    let mut reader = GrantReader {
        reading,
        grants,
        deny: false,
    };
    reader.capability_text(element, path);
    reader.children(element, path);
}

#[derive(Clone, Copy)]
enum Direction {
    Read,
    Write,
}

const BOTH: [Direction; 2] = [Direction::Read, Direction::Write];

struct GrantReader<'g, 'r> {
    reading: &'g mut DirectiveReading<'r>,
    grants: &'g mut Vec<Grant>,
    deny: bool,
}

impl GrantReader<'_, '_> {
    fn children(&mut self, element: &Element, path: &str) {
        for (index, child) in element.children().enumerate() {
            self.element(child, &format!("{path}.{}[{index}]", shown(&child.name)));
        }
    }

    fn element(&mut self, element: &Element, path: &str) {
        match &*element.name {
            "read" | "write" => self.file_or_api(element, path),
            "execute" if element.attribute("resource").is_some() => self.resource(element, path),
            "execute"
                if ["id", "tool_id", "tool_type"]
                    .iter()
                    .any(|it| element.attribute(it).is_some()) =>
            {
                self.tool(element, path);
            }
            "execute" | "search" | "load" | "fetch" | "sign" => self.items(element, path),
            "shell" => self.shell(element, path),
            "env" => self.env(element, path),
            "mcp" => self.mcp(element, path),
            "docker" => self.docker(element, path),
            "allow" | "deny" => self.wrapper(element, path),
            "cap" | "permissions" => {
                if self.takes(element, path, &[]) {
                    self.capability_text(element, path);
                    self.children(element, path);
                }
            }
            _ => self.unknown(element, path),
        }
    }

    /// Whether a permission has only attributes that are evaluated. An ignored one may have been
    /// meant to narrow the grant, so it is an error.
    fn takes(&mut self, element: &Element, path: &str, used: &[&str]) -> bool {
        let known: Vec<&str> = used.iter().copied().chain(REMARKS).collect();
        let ignored: Vec<&Attribute> = element
            .attributes
            .iter()
            .filter(|it| !known.contains(&&*it.name))
            .collect();
        for attribute in &ignored {
            let suggestion =
                did_you_mean(nearest(&attribute.name, known.iter().copied()), "remove it");
            let message = format!(
                "`{}` is not a known attribute of this permission",
                shown(&attribute.name)
            );
            let path = join(path, &shown(&attribute.name));
            // `path="**" except="x"` limits this grant only, and is left out with it.
            let limits = ["except", "exclu", "unless", "without"];
            let denies = denies(&attribute.value.value)
                || denies(&attribute.name) && !limits.iter().any(|it| attribute.name.contains(it));
            self.refuse(attribute.offset, path, &message, denies)
                .suggest(suggestion);
        }
        ignored.is_empty()
    }

    fn file_or_api(&mut self, element: &Element, path: &str) {
        let resource = element
            .attribute("resource")
            .map(|it| it.value.value.trim());
        match resource {
            Some(resource) if FILES.contains(&resource) => self.files(element, path),
            Some("api") => self.api(element, path),
            Some(resource @ ("knowledge" | "directive")) if element.name == "read" => {
                if self.takes(element, path, &["id", "path"])
                    && let Some(id) = self.required(element, &["id", "path"], path)
                {
                    self.item(element, "load", resource, &id, path);
                }
            }
            Some(_) => self.unknown_resource(element, path, &["filesystem", "files", "api"]),
            None if element.attribute("endpoint").is_some() => self.api(element, path),
            None if element.attribute("path").is_some() => self.files(element, path),
            None => {
                self.missing(element, path, "resource").suggest(format!(
                    "write <{} resource=\"filesystem\" path=\"…\"/>",
                    element.name
                ));
            }
        }
    }

    fn resource(&mut self, element: &Element, path: &str) {
        let resource = element
            .attribute("resource")
            .map(|it| it.value.value.trim().to_owned())
            .unwrap_or_default();
        match &*resource {
            "tool" => self.tool(element, path),
            "shell" => self.shell(element, path),
            "env" => self.env(element, path),
            "mcp" => self.mcp(element, path),
            "docker" => self.docker(element, path),
            "kiwi-mcp" | "spawn" | "registry" | "network" => {
                self.capability(element, &resource, path);
            }
            "directive" | "knowledge" => {
                if self.takes(element, path, &["id", "name"])
                    && let Some(id) = self.required(element, &["id", "name"], path)
                {
                    self.item(element, "execute", &resource, &id, path);
                }
            }
            _ => self.unknown_resource(element, path, &RESOURCES),
        }
    }

    /// `<allow>` and `<deny>`: around other elements, with attributes, or with the name of a capability.
    fn wrapper(&mut self, element: &Element, path: &str) {
        let outer = self.deny;
        self.deny |= element.name == "deny";
        let resource = element
            .attribute("resource")
            .map(|it| it.value.value.trim());
        match resource {
            Some(resource) if FILES.contains(&resource) => self.files(element, path),
            Some("api") => self.api(element, path),
            Some(_) => self.resource(element, path),
            None if element.attribute("path").is_some() => self.files(element, path),
            None if element
                .attribute("commands")
                .or(element.attribute("command"))
                .is_some() =>
            {
                self.shell(element, path);
            }
            None if element.attribute("vars").is_some() => self.env(element, path),
            None if element.attribute("endpoint").is_some() => self.api(element, path),
            None if ["id", "tool_id", "tool_type"]
                .iter()
                .any(|it| element.attribute(it).is_some()) =>
            {
                self.tool(element, path);
            }
            None if !self.takes(element, path, &[]) => {}
            None => {
                let empty = element.own_text().is_blank() && element.children().next().is_none();
                if empty {
                    let message = format!("`<{}>` says nothing", element.name);
                    self.empty(element, path, message)
                        .suggest("put permissions into it, or add resource=\"…\"");
                }
                self.capability_text(element, path);
            }
        }
        self.children(element, path);
        self.deny = outer;
    }

    /// Each line of text is the name of a capability; `*` means all.
    fn capability_text(&mut self, element: &Element, path: &str) {
        let lines = element.own_text().lines();
        if lines.is_empty() && element.name == "cap" {
            self.missing(element, path, "name")
                .suggest("write <cap>rye.execute.tool.*</cap>");
        }
        for line in lines {
            if line.value == "*" {
                let all = || "*".to_owned();
                self.grant(
                    element,
                    Access::Item {
                        verb: all(),
                        item_type: all(),
                        id: all(),
                    },
                );
                // `<permissions>*</permissions>`, in which RYE's tools may also use every file.
                if element.name == "permissions" && !self.deny {
                    let path = || "**".to_owned();
                    self.grant(element, Access::Read { path: path() });
                    self.grant(element, Access::Write { path: path() });
                }
            } else if line
                .value
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_-./*?:".contains(c))
            {
                self.grant(element, Access::Capability { name: line.value });
            } else {
                let message = format!("`{}` is not a permission", shown(&line.value));
                let denies = denies(&line.value);
                self.refuse(line.offset_at(0), path, &message, denies)
                    .suggest("write one element per permission; move remarks into a comment");
            }
        }
    }

    fn required(&mut self, element: &Element, names: &[&str], path: &str) -> Option<XmlText> {
        let text = names
            .iter()
            .find_map(|name| element.attribute(name))
            .map(|it| it.value.trimmed());
        let text = text.filter(|text| !text.is_blank());
        if text.is_none() {
            self.missing(element, path, names.first().copied().unwrap_or_default());
        }
        text
    }

    fn list(&mut self, element: &Element, names: &[&str], path: &str) -> Option<Vec<String>> {
        let attribute = names
            .iter()
            .find_map(|name| element.attribute(name))
            .map(|it| it.value.clone());
        let list = split_list(&attribute.unwrap_or_else(|| element.own_text()).value);
        if list.is_empty() {
            self.missing(element, path, names.first().copied().unwrap_or_default());
            return None;
        }
        Some(list)
    }

    fn unknown(&mut self, element: &Element, path: &str) {
        self.unknown_among(element, path, &ELEMENTS);
    }

    fn unknown_among(&mut self, element: &Element, path: &str, known: &[&str]) {
        let suggestion = match nearest(&element.name, known.iter().copied()) {
            Some(meant) => format!("did you mean `<{meant}>`?"),
            None => format!("known are: {}", known.join(", ")),
        };
        let message = format!("`<{}>` is not a known permission", shown(&element.name));
        let denies = may_deny(element);
        self.refuse(element.span.start, path, &message, denies)
            .suggest(suggestion);
    }

    fn unknown_resource(&mut self, element: &Element, path: &str, known: &[&str]) {
        let Some(Attribute { value, .. }) = element.attribute("resource") else {
            return;
        };
        let suggestion = did_you_mean(
            nearest(value.value.trim(), known.iter().copied()),
            &format!("known are: {}", known.join(", ")),
        );
        let message = format!(
            "`{}` is not a resource that `<{}>` can name",
            shown(&value.value),
            element.name
        );
        let denies = may_deny(element);
        self.refuse(value.offset_at(0), join(path, "resource"), &message, denies)
            .suggest(suggestion);
    }

    /// Reports a permission that is not understood; `denies` tells whether it may be a denial.
    fn refuse(
        &mut self,
        offset: usize,
        path: impl Into<String>,
        message: &str,
        denies: bool,
    ) -> &mut Finding {
        let is_denial = self.deny || denies;
        let end = if is_denial { "" } else { "; it grants nothing" };
        let finding = self.reading.report(
            Code::UnknownPermission,
            offset,
            path,
            format!("{message}{end}"),
        );
        if is_denial {
            finding.with_severity(Severity::Error);
        }
        finding
    }

    /// Reports a permission without a field that it needs; a grant is left out.
    fn missing(&mut self, element: &Element, path: &str, field: &str) -> &mut Finding {
        let severity = self.severity_of_empty(element);
        self.reading
            .missing(element, path, field)
            .with_severity(severity)
    }

    /// Reports a permission that says nothing; a grant is left out.
    fn empty(&mut self, element: &Element, path: &str, message: String) -> &mut Finding {
        let severity = self.severity_of_empty(element);
        self.reading
            .report(
                Code::MissingRequiredField,
                element.span.start,
                path,
                message,
            )
            .with_severity(severity)
    }

    fn severity_of_empty(&self, element: &Element) -> Severity {
        let is_lenient = self.reading.findings.strength() == Strength::Lenient;
        if is_lenient && !self.deny && !may_deny(element) {
            Severity::Warning
        } else {
            Severity::Error
        }
    }

    fn grant(&mut self, element: &Element, access: Access) {
        let place = self.reading.place(element.span.start);
        self.grants.push(Grant {
            access,
            deny: self.deny,
            place,
        });
    }
}

/// Whether an element that is not understood may be a denial, or hold one.
fn may_deny(element: &Element) -> bool {
    denies(&element.name)
        || nearest(&element.name, ["deny"]).is_some()
        || element
            .attributes
            .iter()
            .any(|it| denies(&it.name) || denies(&it.value.value))
        || element.children().any(may_deny)
}

/// Whether a word is one with which people deny.
fn denies(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let negates = |word: &str| matches!(word, "no" | "not" | "none" | "false");
    DENIALS.iter().any(|part| text.contains(part))
        || text
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(negates)
}
