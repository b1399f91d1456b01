//! Rules about the structure of the source.
//!
//! Tests (after `#[cfg(test)]`, in a `tests.rs` or below `tests/`) and comments may mention
//! anything.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Front door first. A module may use the modules after it, never one before it.
const ORDER: [&str; 27] = [
    "main",
    "cli",
    "mcp",
    "hooks",
    "error",
    "selftest",
    "doctor",
    "run",
    "authoring",
    "trust",
    "values",
    "workspace",
    "audit",
    "journal",
    "validation",
    "policy",
    "exec",
    "checkpoint",
    "context",
    "config",
    "item",
    "problem",
    "disk",
    "system_call",
    "encoding",
    "words",
    "failpoint",
];

/// Text that only some files may contain: the text, the allowed files, and the rule.
const HOMES: [(&[&str], &[&str], &str); 27] = [
    (
        &["base64::"],
        &["encoding.rs"],
        "only `encoding.rs` mentions the base64 crate",
    ),
    (
        &["rmcp"],
        &["mcp", "exec/mcp"],
        "only `mcp` and `exec/mcp` speak the protocol",
    ),
    (
        &[
            "tokio",
            "tokio_util",
            "futures_util",
            "hyper",
            "hyper_util",
            "http_body_util",
            "tokio_tungstenite",
        ],
        &[
            "mcp",
            "exec/mcp",
            "exec/http",
            "exec/container",
            "exec/web.rs",
        ],
        "only `mcp` and what workers do in `exec` is asynchronous",
    ),
    (
        &["reqwest", "rustls"],
        &["exec/web.rs", "exec/http", "exec/mcp"],
        "only `exec/web.rs` and who it hands its client to speak HTTP",
    ),
    (
        &["bollard", "tar"],
        &["exec/container"],
        "only `exec/container` speaks to container engines",
    ),
    (
        &["encoding_rs"],
        &["exec/http"],
        "only `exec/http` reads texts in other encodings than UTF-8",
    ),
    (
        &["serde_json_path"],
        &["item/json_path.rs"],
        "only `item/json_path.rs` mentions the JSONPath crate",
    ),
    (
        &["saphyr_parser", "serde_yaml"],
        &["item/yaml"],
        "only `item/yaml` mentions the YAML crates",
    ),
    (
        &["jsonc_parser"],
        &["item/json"],
        "only `item/json` mentions the JSON parser that knows places",
    ),
    (
        &["toml_edit"],
        &["item/toml"],
        "only `item/toml` mentions the TOML crate",
    ),
    (
        &["roxmltree"],
        &["item/directive"],
        "only `item/directive` mentions the XML crate",
    ),
    (
        &["rquickjs"],
        &["item/javascript", "exec/javascript"],
        "only `item/javascript`, which compiles, and `exec/javascript`, which runs, mention the JavaScript engine",
    ),
    (
        &["tree_sitter", "tree_sitter_python"],
        &["item/tool/python"],
        "only `item/tool/python` mentions the Python parser",
    ),
    (
        &["jsonschema"],
        &["item/params"],
        "only `item/params` mentions the JSON Schema crate",
    ),
    (
        &["git2"],
        &["checkpoint"],
        "only `checkpoint` mentions libgit2",
    ),
    (
        &["clap"],
        &["cli", "config"],
        "only `cli`, and `config` for the values of flags, mention the argument parser",
    ),
    (
        &["clap_complete", "clap_mangen"],
        &["cli/completions.rs", "cli/man.rs"],
        "only `cli/completions.rs` and `cli/man.rs` make completions and manual pages",
    ),
    (
        &["anstream", "annotate_snippets"],
        &["cli"],
        "only `cli` draws for a terminal",
    ),
    (
        &["io::stdout", "io::stderr", "println!", "print!"],
        &["cli/ui"],
        "only `cli/ui` prints",
    ),
    (
        &["env::var", "env::args", "env::current_dir"],
        &["context.rs"],
        "only `context.rs` reads the process",
    ),
    (
        &["std::env", "current_dir"],
        &[
            "context.rs",
            "exec/subprocess.rs",
            "exec/supervisor/launch.rs",
            "exec/mcp/connection.rs",
        ],
        "only `context.rs` reads the process; `exec/subprocess.rs` splits search paths and sets a command's folder, \
         as `exec/supervisor/launch.rs` does for a tool and `exec/mcp/connection.rs` for an MCP server",
    ),
    (
        &["Timestamp::now", "SystemTime::now", "getrandom"],
        &["context"],
        "only `context` reads the clock",
    ),
    (
        &["signal_hook"],
        &["exec/interrupt.rs"],
        "only `exec/interrupt.rs` listens for signals",
    ),
    (
        &["nix"],
        &[
            "exec/terminal.rs",
            "exec/supervisor/child.rs",
            "exec/supervisor/process.rs",
            "checkpoint/lock_guard.rs",
        ],
        "only `exec/terminal.rs`, the supervisor and the guard of locks mask signals",
    ),
    (
        &["libc"],
        &[
            "exec/supervisor",
            "exec/isolation",
            "disk.rs",
            "checkpoint/lock_guard.rs",
        ],
        "only the supervisor, isolation, `disk.rs` and the guard of locks make system calls that no crate wraps",
    ),
    (
        &[
            "fs::read",
            "fs::read_to_string",
            "read_to_string",
            "File::open",
        ],
        &[
            "item/source.rs",
            "exec/process",
            "journal.rs",
            "checkpoint",
            "disk.rs",
        ],
        "only `item/source.rs` opens files of others; anything else could hang on a pipe. `exec/process` \
         and `disk.rs` ask the kernel, `journal.rs` reads its own files, `checkpoint` those of git",
    ),
    (
        &["Command::new", "process::Command"],
        &["exec", "checkpoint/git_cli"],
        "processes are started in `exec`, and git and its hooks in `checkpoint/git_cli`",
    ),
];

#[test]
fn modules_use_only_what_lies_below_them() {
    let mut broken = Vec::new();
    for (file, text) in sources() {
        let module = module_of(&file);
        let rank = ORDER.iter().position(|name| *name == module);
        for (number, line) in code_lines(&text) {
            let Some((_, path)) = line
                .split_once("crate::")
                .or_else(|| line.split_once("piton::"))
            else {
                continue;
            };
            let used: String = path
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            let allowed = match (rank, ORDER.iter().position(|name| *name == used)) {
                (Some(own), Some(other)) => other >= own,
                _ => false,
            };
            if !allowed {
                broken.push(format!(
                    "src/{file}:{number}: `{module}` may not use `{used}`; the order is {}",
                    ORDER.join(" → ")
                ));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn crates_and_powers_stay_in_their_homes() {
    let mut broken = Vec::new();
    for (file, text) in sources() {
        for (number, line) in code_lines(&text) {
            for (words, homes, rule) in HOMES {
                let at_home = homes.iter().any(|home| file.starts_with(home));
                if let Some(word) = words.iter().find(|word| !at_home && mentions(line, word)) {
                    broken.push(format!(
                        "src/{file}:{number}: mentions `{word}`, but {rule}"
                    ));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Files that are longer than 600 lines and wait to be split. None may be added.
const LONG_FILES: &[&str] = &[
    "audit/history.rs",
    "audit/verification.rs",
    "checkpoint/filter.rs",
    "checkpoint/restore.rs",
    "checkpoint/reversal.rs",
    "checkpoint/scan/walk.rs",
];

#[test]
fn files_stay_readable() {
    let long: Vec<String> = sources()
        .into_iter()
        .map(|(file, text)| {
            let lines = text
                .lines()
                .take_while(|line| !line.starts_with("#[cfg(test)]"));
            (file, lines.count())
        })
        .filter_map(
            |(file, lines)| match (lines > 600, LONG_FILES.contains(&file.as_str())) {
                (true, false) => Some(format!("src/{file} has {lines} lines; split files at 600")),
                (false, true) => Some(format!("src/{file} is short now; remove it from the list")),
                _ => None,
            },
        )
        .collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn a_module_with_parts_is_a_file_beside_its_folder() {
    let others: Vec<String> = sources()
        .into_iter()
        .filter(|(file, _)| file.ends_with("/mod.rs"))
        .map(|(file, _)| format!("src/{file}: name it after its folder, as `name.rs` + `name/`"))
        .collect();
    assert!(others.is_empty(), "{}", others.join("\n"));
}

#[test]
fn a_type_name_is_defined_once() {
    let mut homes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (file, text) in sources() {
        let lines = text.lines().take_while(|line| *line != "mod tests {");
        for name in lines.filter_map(defined_type) {
            homes
                .entry(name.to_owned())
                .or_default()
                .push(format!("src/{file}"));
        }
    }
    let twice: Vec<String> = homes
        .into_iter()
        .filter(|(_, homes)| homes.len() > 1)
        .map(|(name, homes)| format!("`{name}` is defined in {}", homes.join(" and in ")))
        .collect();
    assert!(twice.is_empty(), "{}", twice.join("\n"));
}

/// The name of the struct, enum or union that a line defines.
fn defined_type(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if let Some(public) = rest.strip_prefix("pub") {
        rest = match public.strip_prefix('(') {
            Some(scoped) => scoped.split_once(')')?.1,
            None => public,
        };
        rest = rest.strip_prefix(' ')?;
    }
    let (keyword, rest) = rest.split_once(' ')?;
    let end = rest
        .find(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .unwrap_or(rest.len());
    let name = rest.get(..end)?;
    (matches!(keyword, "struct" | "enum" | "union") && !name.is_empty()).then_some(name)
}

#[test]
fn definitions_of_types_are_found() {
    for (line, name) in [
        ("struct One;", Some("One")),
        ("    pub struct Two<'a> {", Some("Two")),
        ("pub(in crate::run) enum Three {", Some("Three")),
        ("pub(crate) struct Four(u8);", Some("Four")),
        ("let structure = one;", None),
        ("use super::structs;", None),
        ("publish(struct);", None),
    ] {
        assert_eq!(defined_type(line), name, "{line}");
    }
}

#[test]
fn every_module_says_what_it_owns() {
    let silent: Vec<String> = sources()
        .into_iter()
        .filter(|(_, text)| !text.starts_with("//!"))
        .map(|(file, _)| format!("src/{file} does not open with `//!`"))
        .collect();
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}

/// Words that hide who acts, and archaic ones. A text names the actor: the tool, the user, another
/// process.
const RIDDLE_WORDS: [&str; 12] = [
    "nobody",
    "somebody",
    "whoever",
    "anybody",
    "everybody",
    "whence",
    "thereof",
    "naught",
    "amiss",
    "lest",
    "aloud",
    "its kin",
];

#[test]
fn texts_name_the_actor() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut wrong = Vec::new();
    for folder in ["src", "tests", "benches", "docs"] {
        for entry in walkdir::WalkDir::new(root.join(folder)).sort_by_file_name() {
            let path = entry.expect("a readable entry").into_path();
            let find: fn(&str) -> Option<&'static str> =
                match path.extension().and_then(|extension| extension.to_str()) {
                    // This file lists the words.
                    Some("rs") if !path.ends_with("tests/it/architecture.rs") => riddle_in_code,
                    Some("md") => riddle_word,
                    _ => continue,
                };
            let text = fs::read_to_string(&path).expect("readable");
            let mut in_example = false;
            for (at, line) in text.lines().enumerate() {
                in_example ^= line.starts_with("```");
                if let Some(word) = find(line).filter(|_| !in_example) {
                    let file = path.strip_prefix(root).expect("below").display();
                    wrong.push(format!("{file}:{}: `{word}`: {}", at + 1, line.trim()));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "name the actor, see \"Words\" in CONTRIBUTING.md:\n{}",
        wrong.join("\n")
    );
}

/// The riddle word in a comment, or in a text with four words or more.
fn riddle_in_code(line: &str) -> Option<&'static str> {
    if let Some(comment) = line.trim_start().strip_prefix("//") {
        return riddle_word(comment);
    }
    line.split('"')
        .skip(1)
        .step_by(2)
        .filter(|text| text.split_whitespace().count() > 3)
        .find_map(riddle_word)
}

/// The riddle word in prose. Text in backticks and in single quotes does not count: `nobody` is a
/// Unix user.
fn riddle_word(text: &str) -> Option<&'static str> {
    let text = text.to_lowercase();
    let prose: String = text.split('`').step_by(2).collect();
    let quoted: Vec<String> = RIDDLE_WORDS
        .iter()
        .map(|word| format!("'{word}'"))
        .collect();
    let prose = quoted
        .iter()
        .fold(prose, |prose, word| prose.replace(word.as_str(), ""));
    RIDDLE_WORDS.into_iter().find(|word| mentions(&prose, word))
}

#[test]
fn a_riddle_word_is_found_in_prose_only() {
    assert_eq!(riddle_in_code("    /// Nobody is left."), Some("nobody"));
    assert_eq!(
        riddle_in_code("let hint = \"a date that nobody can know\";"),
        Some("nobody")
    );
    assert_eq!(riddle_in_code("// Runs as the user `nobody`."), None);
    assert_eq!(riddle_in_code("let nobody = 65534;"), None);
    assert_eq!(riddle_in_code("let user = \"nobody\";"), None);
    assert_eq!(riddle_word("Runs if the name is not 'nobody'."), None);
}

#[test]
fn every_crate_has_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("readable");
    let mut in_dependencies = false;
    let mut used = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            in_dependencies = line.ends_with("dependencies]");
        } else if let Some((name, _)) = line.split_once(" =").filter(|_| in_dependencies) {
            used.push(name.to_owned());
        }
    }
    let page = fs::read_to_string(root.join("docs/DEPENDENCIES.md")).expect("readable");
    let mut explained: Vec<String> = page
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once("` | ")?.0.to_owned()))
        .collect();
    used.sort();
    explained.sort();
    assert_eq!(
        used, explained,
        "Cargo.toml and docs/DEPENDENCIES.md name different crates"
    );
}

#[test]
fn the_map_shows_the_order() {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/ARCHITECTURE.md"))
            .expect("readable");
    let order = ORDER.join(" → ");
    assert!(
        page.contains(&format!("\n{order}\n")),
        "docs/ARCHITECTURE.md does not show the order `{order}`"
    );
}

fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files: Vec<(String, String)> = walkdir::WalkDir::new(&root)
        .sort_by_file_name()
        .into_iter()
        .map(|entry| entry.expect("a readable entry").into_path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| {
            let name = path
                .strip_prefix(&root)
                .expect("below")
                .to_string_lossy()
                .replace('\\', "/");
            (name, fs::read_to_string(&path).expect("readable"))
        })
        .filter(|(name, _)| !name.ends_with("/tests.rs") && !name.contains("/tests/"))
        .collect();
    assert!(files.len() > 10, "the sources were not found");
    files
}

/// The code lines of a file before its tests, with line numbers.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..)
        .zip(text.lines())
        .take_while(|(_, line)| !line.starts_with("#[cfg(test)]"))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}

fn module_of(file: &str) -> &str {
    let first = file.split('/').next().unwrap_or(file);
    match first.strip_suffix(".rs").unwrap_or(first) {
        // The crate root only lists modules; it is above all of them.
        "lib" => "main",
        module => module,
    }
}

/// Whether a line contains a word as a whole: `git2_free` does not contain `git2`.
fn mentions(line: &str, word: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line
            .get(at + word.len()..)
            .and_then(|text| text.chars().next());
        let goes_on = after.is_some_and(is_word) && word.ends_with(is_word);
        !goes_on && !before.is_some_and(is_word)
    })
}

#[test]
fn a_word_is_mentioned_as_a_whole_only() {
    assert!(mentions("use git2::Repository;", "git2"));
    assert!(!mentions("fn git2_free() {}", "git2"));
    assert!(mentions("    print!(\"x\")", "print!"));
    assert!(!mentions("    eprint_all!(x)", "print!"));
}

/// Files that may compare texts of other programs, and whose these are.
const FOREIGN_TEXTS: [(&str, &str); 24] = [
    ("checkpoint/error.rs", "libgit2"),
    ("checkpoint/reference.rs", "git"),
    ("cli/items.rs", "ssh-keygen"),
    ("cli/ui.rs", "clap"),
    ("exec/call/error.rs", "pip and uv"),
    ("exec/container/run.rs", "container engines"),
    ("exec/http.rs", "rustls"),
    ("exec/javascript/engine.rs", "QuickJS"),
    ("exec/mcp/connection.rs", "rmcp"),
    ("exec/ssh.rs", "ssh-keygen"),
    ("exec/ssh/error.rs", "ssh-keygen"),
    ("exec/syntax", "interpreters"),
    ("item/javascript", "QuickJS"),
    ("item/json.rs", "the JSON parser"),
    ("item/yaml", "the YAML parser"),
    ("item/params", "the JSON Schema crate"),
    ("mcp/stdio/message.rs", "the JSON parser"),
    ("trust/author.rs", "ssh-keygen"),
    ("problem", "the names of the codes"),
    ("checkpoint/message/given.rs", "git"),
    ("exec/resolve/script.rs", "Python"),
    ("item/migration/modules.rs", "Python"),
    ("doctor/programs.rs", "git"),
    // Only the colour of a status depends on its text.
    ("cli/ui/paint.rs", "piton"),
];

#[test]
fn no_text_of_ours_decides_what_happens() {
    let names: Vec<String> = piton::problem::Code::ALL
        .iter()
        .map(|code| format!("\"{code}\""))
        .collect();
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        let is_foreign = FOREIGN_TEXTS.iter().any(|(home, _)| file.starts_with(home));
        for (number, line) in code_lines(&text) {
            if names.iter().any(|name| line.contains(name.as_str())) && !file.starts_with("problem")
            {
                wrong.push(format!(
                    "src/{file}:{number}: write the variant of `Code`: {}",
                    line.trim()
                ));
            }
            if !is_foreign && compares_words(line) {
                wrong.push(format!(
                    "src/{file}:{number}: a message decides: {}",
                    line.trim()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether a line compares with a text of several words, which only a message has.
fn compares_words(line: &str) -> bool {
    compares_by_call(line) || compares_by_arm(line)
}

/// Whether a line has a match arm with a text of several words.
fn compares_by_arm(line: &str) -> bool {
    let parts: Vec<&str> = line.split('"').collect();
    parts
        .chunks(2)
        .zip(parts.iter().skip(2).step_by(2))
        .any(|(parts, after)| matches!(parts, [_, text] if has_words(text)) && begins_arm(after))
}

/// Whether code after a text shows that the text is the pattern of a match arm.
fn begins_arm(code: &str) -> bool {
    let code = code.trim_start();
    code.starts_with("=>") || code.starts_with("if ") || code.starts_with('|')
}

fn has_words(text: &str) -> bool {
    let is_word = |word: &&str| {
        let rest = word.strip_prefix(|first: char| first.is_ascii_alphabetic());
        rest.is_some_and(|rest| {
            !rest.is_empty() && rest.chars().all(|letter| letter.is_ascii_lowercase())
        })
    };
    text.split(' ').filter(is_word).count() > 1
}

fn compares_by_call(line: &str) -> bool {
    let comparisons = [
        "contains(\"",
        "starts_with(\"",
        "ends_with(\"",
        "strip_prefix(\"",
        "strip_suffix(\"",
        "== \"",
        "!= \"",
    ];
    comparisons.iter().any(|comparison| {
        line.split(comparison)
            .skip(1)
            .any(|rest| has_words(rest.split('"').next().unwrap_or_default()))
    })
}

#[test]
fn a_comparison_with_a_message_is_seen() {
    assert!(compares_words(
        "if told.contains(\"which is not allowed\") {"
    ));
    assert!(compares_words(
        "let what = message.strip_prefix(\"the result is \");"
    ));
    assert!(compares_words(
        "\"Execution failed\" if is_denied => title,"
    ));
    assert!(compares_words("\"one\" | \"cut off\" => YELLOW,"));
    assert!(!compares_words("Self::Failed => \"the run failed\","));
    assert!(!compares_words("\"one\" => \"the run failed\","));
    assert!(!compares_words("name.strip_prefix(\"refs/heads/\")"));
    assert!(!compares_words("assert!(text == \"two\")"));
}
