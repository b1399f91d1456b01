//! One reader for each kind of grant.

use super::{BOTH, Direction, GrantReader, ITEM_TYPES, denies};
use crate::item::directive::reading::{join, split_list};
use crate::item::directive::xml::{Attribute, Element, XmlText};
use crate::item::directive::{Access, pattern};
use crate::item::wording::shown;
use crate::problem::Code;

impl GrantReader<'_, '_> {
    /// The directions of an element, or of the action of `<allow>` and `<deny>`.
    fn directions(
        &mut self,
        element: &Element,
        path: &str,
        used: &[&str],
    ) -> Option<&'static [Direction]> {
        match &*element.name {
            "read" => {
                return self
                    .takes(element, path, used)
                    .then_some(&[Direction::Read]);
            }
            "write" => {
                return self
                    .takes(element, path, used)
                    .then_some(&[Direction::Write]);
            }
            _ if !self.takes(element, path, &[used, &["action"]].concat()) => return None,
            _ => {}
        }
        let Some(Attribute { value, .. }) = element.attribute("action") else {
            return Some(&BOTH);
        };
        match value.value.trim() {
            "read" => Some(&[Direction::Read]),
            "write" => Some(&[Direction::Write]),
            "*" => Some(&BOTH),
            other => {
                let message = format!(
                    "`{}` is not an action that can be allowed or denied here",
                    shown(other)
                );
                let denies = denies(other);
                self.refuse(value.offset_at(0), join(path, "action"), &message, denies)
                    .suggest(
                        "write action=\"read\" or action=\"write\", or leave it out to mean both",
                    );
                None
            }
        }
    }

    pub(super) fn files(&mut self, element: &Element, path: &str) {
        let Some((directions, text)) = self.directed(element, path, &["path", "pattern"]) else {
            return;
        };
        if !pattern::check_path(&text, &join(path, "path"), self.reading) {
            return;
        }
        if !self.deny {
            pattern::check_effect(&text, &join(path, "path"), self.reading);
        }
        for direction in directions {
            let path = text.value.clone();
            let access = match direction {
                Direction::Read => Access::Read { path },
                Direction::Write => Access::Write { path },
            };
            self.grant(element, access);
        }
    }

    pub(super) fn api(&mut self, element: &Element, path: &str) {
        let Some((directions, text)) = self.directed(element, path, &["endpoint"]) else {
            return;
        };
        if !pattern::check_endpoint(&text, &join(path, "endpoint"), self.reading) {
            return;
        }
        for direction in directions {
            let endpoint = text.value.clone();
            let access = match direction {
                Direction::Read => Access::ReadApi { endpoint },
                Direction::Write => Access::WriteApi { endpoint },
            };
            self.grant(element, access);
        }
    }

    /// The directions of an element, and the first of its attributes with these names.
    fn directed(
        &mut self,
        element: &Element,
        path: &str,
        names: &[&str],
    ) -> Option<(&'static [Direction], XmlText)> {
        let directions = self.directions(element, path, names)?;
        Some((directions, self.required(element, names, path)?))
    }

    pub(super) fn tool(&mut self, element: &Element, path: &str) {
        if !self.takes(element, path, &["id", "tool_id", "name", "tool_type"]) {
            return;
        }
        let glob = |name: &str| {
            element
                .attribute(name)
                .map(|it| it.value.trimmed())
                .filter(|text| !text.is_blank())
        };
        let id = glob("id")
            .or_else(|| glob("tool_id"))
            .or_else(|| glob("name"));
        let tool_type = glob("tool_type");
        if id.is_none() && tool_type.is_none() {
            self.missing(element, path, "id")
                .suggest("add id=\"…\" or tool_type=\"…\"; id=\"*\" is every tool");
            return;
        }
        let valid = [&id, &tool_type]
            .into_iter()
            .flatten()
            .all(|text| pattern::check_glob(text, path, self.reading));
        if valid {
            let (id, tool_type) = (id.map(|text| text.value), tool_type.map(|text| text.value));
            self.grant(element, Access::Tool { id, tool_type });
        }
    }

    pub(super) fn shell(&mut self, element: &Element, path: &str) {
        let names = ["commands", "command", "action"];
        if self.takes(element, path, &names)
            && let Some(commands) = self.list(element, &names, path)
        {
            self.grant(element, Access::Shell { commands });
        }
    }

    pub(super) fn env(&mut self, element: &Element, path: &str) {
        if !self.takes(element, path, &["vars", "name"]) {
            return;
        }
        let Some(vars) = self.list(element, &["vars", "name"], path) else {
            return;
        };
        let is_name = |name: &String| {
            name.starts_with(|c: char| c.is_ascii_alphabetic() || "_*".contains(c))
                && name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "_*?".contains(c))
        };
        if let Some(bad) = vars.iter().find(|name| !is_name(name)) {
            let message = format!("`{}` is not the name of a variable", shown(bad));
            self.reading
                .report(
                    Code::InvalidId,
                    element.span.start,
                    join(path, "vars"),
                    message,
                )
                .suggest("write names separated by commas, e.g. vars=\"API_TOKEN,REGION\"");
            return;
        }
        self.grant(element, Access::Env { vars });
    }

    pub(super) fn mcp(&mut self, element: &Element, path: &str) {
        if !self.takes(
            element,
            path,
            &["name", "server", "tools", "actions", "action"],
        ) {
            return;
        }
        let Some(server) = self.required(element, &["name", "server"], path) else {
            return;
        };
        let tools = ["tools", "actions", "action"]
            .iter()
            .find_map(|name| element.attribute(name));
        let tools = tools
            .map(|it| split_list(&it.value.value))
            .unwrap_or_default();
        if pattern::check_glob(&server, path, self.reading) {
            self.grant(
                element,
                Access::Mcp {
                    server: server.value,
                    tools,
                },
            );
        }
    }

    pub(super) fn docker(&mut self, element: &Element, path: &str) {
        if self.takes(element, path, &["network"]) {
            let network = element
                .attribute("network")
                .map(|it| it.value.value.trim().to_owned());
            self.grant(element, Access::Docker { network });
        }
    }

    pub(super) fn capability(&mut self, element: &Element, resource: &str, path: &str) {
        if !self.takes(element, path, &["action", "actions"]) {
            return;
        }
        let actions = element.attribute("action").or(element.attribute("actions"));
        let actions = actions
            .map(|it| split_list(&it.value.value))
            .unwrap_or_default();
        if actions.is_empty() {
            self.grant(
                element,
                Access::Capability {
                    name: resource.to_owned(),
                },
            );
        }
        for action in actions {
            self.grant(
                element,
                Access::Capability {
                    name: format!("{resource}.{action}"),
                },
            );
        }
    }

    /// `<search>*</search>`, `<execute><tool>glob</tool></execute>`.
    pub(super) fn items(&mut self, element: &Element, path: &str) {
        if !self.takes(element, path, &[]) {
            return;
        }
        let mut says_something = false;
        for text in element.own_text().lines() {
            self.item(element, &element.name, "*", &text, path);
            says_something = true;
        }
        for child in element.children() {
            let path = join(path, &shown(&child.name));
            says_something = true;
            if ITEM_TYPES.contains(&&*child.name) {
                if !self.takes(child, &path, &[]) {
                    continue;
                }
                let text = child.own_text().trimmed();
                if text.is_blank() {
                    self.missing(child, &path, "id")
                        .suggest(format!("write <{0}>*</{0}>", child.name));
                } else {
                    self.item(child, &element.name, &child.name, &text, &path);
                }
            } else {
                self.unknown_among(child, &path, &ITEM_TYPES);
            }
        }
        if !says_something {
            let message = format!("`<{}>` grants nothing", element.name);
            self.empty(element, path, message).suggest(format!(
                "write <{0}><tool>…</tool></{0}>, or add resource=\"…\"",
                element.name
            ));
        }
    }

    pub(super) fn item(
        &mut self,
        element: &Element,
        verb: &str,
        item_type: &str,
        id: &XmlText,
        path: &str,
    ) {
        if !pattern::check_glob(id, path, self.reading) {
            return;
        }
        // Newer RYE files write `fetch` for both.
        let verbs = if verb == "fetch" {
            &["search", "load"][..]
        } else {
            &[verb][..]
        };
        for verb in verbs {
            let (verb, item_type) = ((*verb).to_owned(), item_type.to_owned());
            self.grant(
                element,
                Access::Item {
                    verb,
                    item_type,
                    id: id.value.trim().to_owned(),
                },
            );
        }
    }
}
