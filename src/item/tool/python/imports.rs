//! The imports of a Python file, read without running it.

use super::{MAX_SEARCHED, PythonSource, find_error, parse};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Import {
    /// The number of leading dots; 0 for an absolute import.
    pub(crate) level: usize,
    /// The module without the dots; may be empty.
    pub(crate) module: String,
    /// The names after `from … import`; empty for a plain import.
    pub(crate) names: Vec<String>,
}

impl Import {
    pub(crate) fn head(&self) -> &str {
        self.module.split('.').next().unwrap_or_default()
    }
}

/// Finds every import of a file, at any depth; `None` when the file is not valid Python.
pub(crate) fn imports(text: &str) -> Option<Vec<Import>> {
    if text.len() > MAX_SEARCHED {
        return None;
    }
    let tree = parse(text)?;
    if find_error(tree.root_node()).is_some() {
        return None;
    }
    let source = PythonSource::new(text);
    let mut found = Vec::new();
    let mut cursor = tree.walk();
    loop {
        let node = cursor.node();
        match node.kind() {
            "import_statement" => found.extend(plain(node, &source)),
            "import_from_statement" => found.push(from(node, &source)),
            _ => {
                if cursor.goto_first_child() {
                    continue;
                }
            }
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return Some(found);
            }
        }
    }
}

fn plain(statement: tree_sitter::Node<'_>, source: &PythonSource<'_>) -> Vec<Import> {
    named(statement, source)
        .into_iter()
        .map(|module| Import {
            level: 0,
            module,
            names: Vec::new(),
        })
        .collect()
}

fn from(statement: tree_sitter::Node<'_>, source: &PythonSource<'_>) -> Import {
    let written = statement
        .child_by_field_name("module_name")
        .map(|node| source.slice(node))
        .unwrap_or_default();
    let written: String = written.chars().filter(|c| !c.is_whitespace()).collect();
    let module = written.trim_start_matches('.');
    Import {
        level: written.len() - module.len(),
        module: module.to_owned(),
        names: named(statement, source),
    }
}

/// The names of a statement, without their aliases.
fn named(statement: tree_sitter::Node<'_>, source: &PythonSource<'_>) -> Vec<String> {
    let mut cursor = statement.walk();
    let names = statement
        .children_by_field_name("name", &mut cursor)
        .map(|name| {
            let name = if name.kind() == "aliased_import" {
                name.child_by_field_name("name").unwrap_or(name)
            } else {
                name
            };
            source
                .slice(name)
                .chars()
                .filter(|c| !c.is_whitespace())
                .collect()
        });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_import_is_found_wherever_it_stands() {
        let text = "import os, helpers as h\nfrom lib . http import (get,\n    post as p)\nfrom . import near\nfrom ..up import x\n\
                    def f():\n    try: import late\n    except ImportError: pass\nx = 'import not_this'\n# import nor_this\n\
                    if x: import one; import two\n";
        let found = imports(text).unwrap();
        let shown: Vec<String> = found
            .iter()
            .map(|it| {
                format!(
                    "{}{}:{}",
                    ".".repeat(it.level),
                    it.module,
                    it.names.join(",")
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                "os:",
                "helpers:",
                "lib.http:get,post",
                ".:near",
                "..up:x",
                "late:",
                "one:",
                "two:"
            ]
        );
        assert_eq!(found[2].head(), "lib");
        assert_eq!(imports("def broken(:\n"), None);
        assert_eq!(imports(""), Some(Vec::new()));
    }
}
