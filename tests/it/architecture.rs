//! Rules about the structure of the source.
//!
//! Tests (after `#[cfg(test)]`, in a `tests.rs` or below `tests/`) and comments may mention
//! anything.

use std::fs;
use std::path::Path;

/// Front door first. A module may use the modules after it, never one before it.
const ORDER: [&str; 18] = [
    "main",
    "cli",
    "mcp",
    "hooks",
    "error",
    "run",
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
    "failpoint",
];

/// Text that only some files may contain: the text, the allowed files, and the rule.
const HOMES: [(&[&str], &[&str], &str); 26] = [
    (&["rmcp"], &["mcp", "exec/mcp"], "only `mcp` and `exec/mcp` speak the protocol"),
    (
        &["tokio", "tokio_util", "futures_util", "hyper", "hyper_util", "http_body_util", "tokio_tungstenite"],
        &["mcp", "exec/mcp", "exec/http", "exec/container", "exec/web.rs"],
        "only `mcp` and what workers do in `exec` is asynchronous",
    ),
    (
        &["reqwest", "rustls"],
        &["exec/web.rs", "exec/http", "exec/mcp"],
        "only `exec/web.rs` and who it hands its client to speak HTTP",
    ),
    (&["bollard", "tar"], &["exec/container"], "only `exec/container` speaks to container engines"),
    (&["encoding_rs"], &["exec/http"], "only `exec/http` reads texts in other encodings than UTF-8"),
    (&["serde_json_path"], &["item/json_path.rs"], "only `item/json_path.rs` mentions the JSONPath crate"),
    (&["saphyr_parser", "serde_yaml"], &["item/yaml"], "only `item/yaml` mentions the YAML crates"),
    (&["jsonc_parser"], &["item/json"], "only `item/json` mentions the JSON parser that knows places"),
    (&["toml_edit"], &["item/toml"], "only `item/toml` mentions the TOML crate"),
    (&["roxmltree"], &["item/directive"], "only `item/directive` mentions the XML crate"),
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
    (&["jsonschema"], &["item/params"], "only `item/params` mentions the JSON Schema crate"),
    (&["git2"], &["checkpoint"], "only `checkpoint` mentions libgit2"),
    (&["clap"], &["cli", "config"], "only `cli`, and `config` for the values of flags, mention the argument parser"),
    (
        &["clap_complete", "clap_mangen"],
        &["cli/completions.rs", "cli/man.rs"],
        "only `cli/completions.rs` and `cli/man.rs` make completions and manual pages",
    ),
    (&["anstream", "annotate_snippets"], &["cli"], "only `cli` draws for a terminal"),
    (&["io::stdout", "io::stderr", "println!", "print!"], &["cli/ui"], "only `cli/ui` prints"),
    (&["env::var", "env::args", "env::current_dir"], &["context.rs"], "only `context.rs` reads the process"),
    (
        &["std::env", "current_dir"],
        &["context.rs", "exec/subprocess.rs", "exec/supervisor/launch.rs", "exec/mcp/connection.rs"],
        "only `context.rs` reads the process; `exec/subprocess.rs` splits search paths and sets a command's folder, \
         as `exec/supervisor/launch.rs` does for a tool and `exec/mcp/connection.rs` for an MCP server",
    ),
    (&["Timestamp::now", "SystemTime::now", "getrandom"], &["context"], "only `context` reads the clock"),
    (&["signal_hook"], &["exec/interrupt.rs"], "only `exec/interrupt.rs` listens for signals"),
    (
        &["nix"],
        &["exec/terminal.rs", "exec/supervisor/child.rs", "checkpoint/lock_guard.rs"],
        "only `exec/terminal.rs`, the supervisor and the guard of locks mask signals",
    ),
    (
        &["libc"],
        &["exec/supervisor", "disk.rs", "checkpoint/lock_guard.rs"],
        "only the supervisor, `disk.rs` and the guard of locks make system calls that no crate wraps",
    ),
    (
        &["fs::read", "fs::read_to_string", "read_to_string", "File::open"],
        &["item/source.rs", "exec/process", "journal/mod.rs", "checkpoint", "disk.rs"],
        "only `item/source.rs` opens files of others; anything else could hang on a pipe. `exec/process` \
         and `disk.rs` ask the kernel, `journal/mod.rs` reads its own files, `checkpoint` those of git",
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
            let Some((_, path)) = line.split_once("crate::").or_else(|| line.split_once("piton::")) else { continue };
            let used: String = path.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
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
                    broken.push(format!("src/{file}:{number}: mentions `{word}`, but {rule}"));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn files_stay_readable() {
    let long: Vec<String> = sources()
        .into_iter()
        .map(|(file, text)| (file, text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).count()))
        .filter(|(_, lines)| *lines > 600)
        .map(|(file, lines)| format!("src/{file} has {lines} lines; split files at 600"))
        .collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
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
    let mut explained: Vec<String> =
        page.lines().filter_map(|line| Some(line.strip_prefix("| `")?.split_once("` | ")?.0.to_owned())).collect();
    used.sort();
    explained.sort();
    assert_eq!(used, explained, "Cargo.toml and docs/DEPENDENCIES.md name different crates");
}

#[test]
fn the_map_shows_the_order() {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/ARCHITECTURE.md")).expect("readable");
    let order = ORDER.join(" → ");
    assert!(page.contains(&format!("\n{order}\n")), "docs/ARCHITECTURE.md does not show the order `{order}`");
}

fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files: Vec<(String, String)> = walkdir::WalkDir::new(&root)
        .sort_by_file_name()
        .into_iter()
        .map(|entry| entry.expect("a readable entry").into_path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| {
            let name = path.strip_prefix(&root).expect("below").to_string_lossy().replace('\\', "/");
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
        let after = line.get(at + word.len()..).and_then(|text| text.chars().next());
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
const FOREIGN_TEXTS: [(&str, &str); 25] = [
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
    ("run/author.rs", "ssh-keygen"),
    ("problem", "the names of the codes"),
    ("checkpoint/message/given.rs", "git"),
    ("exec/resolve/script.rs", "Python"),
    ("item/migration/modules.rs", "Python"),
    ("run/doctor/programs.rs", "git"),
    // Ours: the next steps after `piton new` and the origins of settings are still texts.
    ("cli/new.rs", "piton"),
    ("run/tool/plan.rs", "piton"),
];

#[test]
fn no_text_of_ours_decides_what_happens() {
    let names: Vec<String> = piton::problem::Code::ALL.iter().map(|code| format!("\"{code}\"")).collect();
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        let is_foreign = FOREIGN_TEXTS.iter().any(|(home, _)| file.starts_with(home));
        for (number, line) in code_lines(&text) {
            if names.iter().any(|name| line.contains(name.as_str())) && !file.starts_with("problem") {
                wrong.push(format!("src/{file}:{number}: write the variant of `Code`: {}", line.trim()));
            }
            if !is_foreign && compares_words(line) {
                wrong.push(format!("src/{file}:{number}: a message decides: {}", line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether a line compares with a text of several words, which only a message has.
fn compares_words(line: &str) -> bool {
    let comparisons =
        ["contains(\"", "starts_with(\"", "ends_with(\"", "strip_prefix(\"", "strip_suffix(\"", "== \"", "!= \""];
    comparisons.iter().any(|comparison| {
        line.split(comparison).skip(1).any(|rest| {
            let text = rest.split('"').next().unwrap_or_default();
            let words = text.split(' ').filter(|word| word.len() > 1 && word.chars().all(|it| it.is_ascii_lowercase()));
            words.count() > 1
        })
    })
}

#[test]
fn a_comparison_with_a_message_is_seen() {
    assert!(compares_words("if told.contains(\"which is not allowed\") {"));
    assert!(compares_words("let what = message.strip_prefix(\"the result is \");"));
    assert!(!compares_words("name.strip_prefix(\"refs/heads/\")"));
    assert!(!compares_words("assert!(text == \"two\")"));
}
