//! Permission elements.
//!
//! An element that is not understood is an error, never ignored: a misread permission would grant
//! too much or too little. A grant with an error is reported and left out.

mod kind;

use super::reading::{DirectiveReading, join, split_list};
use super::xml::{Attribute, Element, XmlText};
use super::{Access, Grant};
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
            self.reading
                .report(Code::UnknownPermission, attribute.offset, path, message)
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
                self.reading
                    .missing(element, path, "resource")
                    .suggest(format!(
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
                    self.reading
                        .report(
                            Code::MissingRequiredField,
                            element.span.start,
                            path,
                            message,
                        )
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
            self.reading
                .missing(element, path, "name")
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
            } else if line
                .value
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_-./*?:".contains(c))
            {
                self.grant(element, Access::Capability { name: line.value });
            } else {
                let message = format!("`{}` is not a permission", shown(&line.value));
                self.reading
                    .report(Code::UnknownPermission, line.offset_at(0), path, message)
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
            self.reading
                .missing(element, path, names.first().copied().unwrap_or_default());
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
            self.reading
                .missing(element, path, names.first().copied().unwrap_or_default());
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
        self.reading
            .report(Code::UnknownPermission, element.span.start, path, message)
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
        self.reading
            .report(
                Code::UnknownPermission,
                value.offset_at(0),
                join(path, "resource"),
                message,
            )
            .suggest(suggestion);
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
