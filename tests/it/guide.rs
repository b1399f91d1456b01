//! `docs/guide/`: the examples are true.

use std::fs;
use std::path::{Path, PathBuf};

use crate::api_tools::secure::stage;
use crate::api_tools::server::json;
use crate::harness::TestProject;

/// The files that a page shows: fenced blocks whose info string names a path.
pub(crate) fn examples(page: &str) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let fence: String = line.chars().take_while(|c| *c == '`').collect();
        if fence.len() < 3 {
            continue;
        }
        let body: Vec<&str> = lines.by_ref().take_while(|line| *line != fence).collect();
        if let Some((_, path)) = line.split_once(' ').filter(|(_, path)| path.contains('/')) {
            files.push((path.to_owned(), body.join("\n") + "\n"));
        }
    }
    files
}

/// The command lines that a page shows.
pub(crate) fn commands(page: &str) -> Vec<&str> {
    page.lines()
        .filter_map(|line| line.strip_prefix("$ "))
        .collect()
}

pub(crate) fn pages() -> Vec<String> {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guide");
    let pages = fs::read_dir(guide)
        .expect("a guide")
        .map(|page| page.expect("an entry").path());
    pages
        .map(|page| fs::read_to_string(page).expect("a page"))
        .collect()
}

/// A command of a page and the output that the page shows; empty if it shows none.
struct Shown<'p> {
    block: usize,
    command: &'p str,
    printed: Vec<&'p str>,
}

/// The commands of a page in order, with the number of their block.
fn shown(page: &str) -> Vec<Shown<'_>> {
    let mut shown: Vec<Shown<'_>> = Vec::new();
    let mut lines = page.lines();
    let mut block = 0;
    while let Some(line) = lines.next() {
        let fence: String = line.chars().take_while(|c| *c == '`').collect();
        if fence.len() < 3 {
            continue;
        }
        let body: Vec<&str> = lines.by_ref().take_while(|line| *line != fence).collect();
        if !body.first().is_some_and(|line| line.starts_with("$ ")) {
            continue;
        }
        for line in body {
            match (line.strip_prefix("$ "), shown.last_mut()) {
                (Some(command), _) => shown.push(Shown {
                    block,
                    command,
                    printed: Vec::new(),
                }),
                (None, Some(last)) => last.printed.push(line),
                (None, None) => {}
            }
        }
        block += 1;
    }
    shown
}

/// A text with run ids, commit ids, people, times and folders masked.
fn without_names(text: &str, project: &TestProject) -> String {
    let root = fs::canonicalize(project.root())
        .expect("a folder")
        .display()
        .to_string();
    let rules = [
        (r"[0-9a-hjkmnp-tv-z]{26}", "RUN"),
        (r"\b[0-9a-f]{10}([0-9a-f]{30})?\b", "COMMIT"),
        (r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "TIME"),
        (r"\w+ <[^>\s]+@[^>\s]+>", "PERSON"),
    ];
    let text = text.replace(&format!("{root}/"), "");
    rules.iter().fold(text, |text, (pattern, name)| {
        regex::Regex::new(pattern)
            .expect("a pattern")
            .replace_all(&text, *name)
            .into_owned()
    })
}

/// Runs every command of a page in order, in the folder that `prepare` returns for its block, and
/// compares the output with the page. Commands may fail only if they are listed with their exit
/// status.
fn follow(
    project: &TestProject,
    page: &str,
    failing: &[(&str, i32)],
    mut prepare: impl FnMut(usize) -> PathBuf,
) {
    let piton = Path::new(env!("CARGO_BIN_EXE_piton"))
        .parent()
        .expect("a folder")
        .display();
    let (mut begun, mut folder) = (None, project.root());
    for Shown {
        block,
        command,
        printed,
    } in shown(page)
    {
        if begun.replace(block) != Some(block) {
            folder = prepare(block);
        }
        let script = format!("PATH=\"{piton}:$PATH\"; exec 2>&1; {command}");
        let output = project
            .hermetic("bash", &folder)
            .args(["-uc", &script])
            .output()
            .expect("bash starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let status = failing
            .iter()
            .find(|(name, _)| *name == command)
            .map_or(0, |(_, status)| *status);
        assert_eq!(output.status.code(), Some(status), "{command}\n{text}");
        if !printed.is_empty() {
            let expected = printed.join("\n") + "\n";
            assert_eq!(
                without_names(&text, project),
                without_names(&expected, project),
                "{command}"
            );
        }
    }
}

fn page_of(title: &str) -> String {
    pages()
        .into_iter()
        .find(|page| page.starts_with(title))
        .expect("the page")
}

#[test]
fn every_command_of_the_guide_to_checkpoints_works() {
    let page = page_of("# Checkpoints");
    let project = TestProject::new()
        .file("README.md", "read me\n")
        .file("mine.txt", "mine\n")
        .committed();
    let project = project
        .file("mine.txt", "mine, changed\n")
        .file("untracked.txt", "mine\n");
    assert!(shown(&page).len() > 8);
    follow(&project, &page, &[], |_| project.root());
    assert_eq!(
        project.git(["status", "--porcelain"]),
        " M mine.txt\n?? untracked.txt\n"
    );
    assert_eq!(project.read("one.txt"), "one\n");
    assert_eq!(project.read("greeting.txt"), "hello\n");
    project.git(["fsck", "--strict"]);
}

#[test]
fn every_command_of_the_guide_to_looking_back_works() {
    let page = page_of("# Looking back");
    let project = TestProject::new().file("a.txt", "a\n").committed();
    project.bash("git init -q --bare -b main ../origin; git remote add origin ../origin");
    let clone = project.root().with_file_name("clone");
    follow(&project, &page, &[], |block| {
        if block == 3 {
            project.bash("git clone -q ../origin ../clone");
            return clone.clone();
        }
        project.root()
    });
    assert_eq!(
        project.git(["log", "-1", "--format=%s", "rescued"]),
        "chore: add `hello.txt` by `hello`\n"
    );
    assert_eq!(project.read("hello.txt"), "hello\nmore\nunsaved\n");
    project.git(["fsck", "--strict"]);
}

#[test]
fn every_command_of_the_guide_to_git_hooks_works() {
    let page = page_of("# Git hooks");
    let project = TestProject::new().file("a.txt", "a\n").committed();
    project.bash("git init -q --bare -b main ../origin; git remote add origin ../origin");
    project.hook("../origin", "pre-receive");
    let failing = [("piton hooks install --hook commit-msg", 5)];
    follow(&project, &page, &failing, |block| {
        match block {
            1 => drop(project.exec("echo b > b.txt")),
            2 => drop(project.bash("rm .git/hooks/*; echo 'pre-commit:' > lefthook.yml")),
            3 => drop(project.bash("rm lefthook.yml; echo c > c.txt; git add c.txt")),
            _ => {}
        }
        project.root()
    });
    assert_eq!(project.git(["log", "-1", "--format=%s"]), "without hooks\n");
    assert_eq!(
        project.git(["log", "-1", "--format=%s", "origin/main"]),
        project.git(["log", "-1", "--format=%s", "HEAD~1"])
    );
    assert!(project.read(".git/hooks/pre-commit").contains("piton"));
    project.assert_clean();
}

#[test]
fn every_command_of_the_guide_to_signing_works() {
    let page = pages()
        .into_iter()
        .find(|page| page.starts_with("# Signing"))
        .expect("the page");
    let project = TestProject::new()
        .tool("greet", "", "echo hello")
        .committed();
    project.bash("mkdir ~/.ssh; ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519");
    let piton = Path::new(env!("CARGO_BIN_EXE_piton"))
        .parent()
        .expect("a folder")
        .display();
    let commands = commands(&page);
    assert!(commands.len() > 6);
    for command in commands {
        project.bash(&format!("PATH=\"{piton}:$PATH\"; {command}"));
    }
    // The shell examples are also true: the hash of a folder, and a signature checked by hand.
    let shells: Vec<&str> = page
        .split("```sh\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    let [hash, verify] = shells.as_slice() else {
        panic!("two examples: {shells:?}")
    };
    let hash = project.bash(hash);
    let hash = hash.split_whitespace().next().expect("a hash");
    assert!(project.read(".ai/tools/greet/tool.yaml").contains(hash));
    project.bash(&format!("{piton}/piton sign greet"));
    let trusted =
        "echo \"me@example.com $(cat ~/.ssh/id_ed25519.pub)\" > ~/.config/piton/allowed_signers";
    let said = project.bash(&format!("{trusted}; HASH={hash}; {verify}"));
    assert!(
        said.starts_with("Good \"piton-content\" signature for me@example.com"),
        "{said}"
    );
}

#[test]
fn every_command_of_the_guide_to_tools_works() {
    let page = pages()
        .into_iter()
        .find(|page| page.starts_with("# Running tools"))
        .expect("the page");
    let project = TestProject::new().file("README.md", "one two three\n");
    let project = examples(&page)
        .iter()
        .fold(project, |project, (path, text)| project.file(path, text))
        .committed();
    let piton = Path::new(env!("CARGO_BIN_EXE_piton"))
        .parent()
        .expect("a folder")
        .display();
    let commands = commands(&page);
    assert!(commands.len() > 6);
    let printed: Vec<String> = commands
        .iter()
        .map(|command| project.bash(&format!("PATH=\"{piton}:$PATH\"; {command}")))
        .collect();
    let after = |command: &str| {
        let at = commands
            .iter()
            .position(|candidate| candidate.contains(command))
            .expect(command);
        printed[at].as_str()
    };
    assert!(after("longest=1").contains("\"words\": 3"), "{printed:?}");
    assert_eq!(
        after("git log"),
        "docs(notes): add `roof.md` by `add_note`\nPiton-Tool: add_note@1.0.0\n\n"
    );
    assert!(after("../escape").ends_with("exit 1\n"), "{printed:?}");
    assert_eq!(after("git status"), "");
    assert_eq!(project.read("notes/roof.md"), "mend it; $(rm -rf ~)\n");
    project.assert_clean();
}

#[test]
fn every_command_of_the_guide_to_directives_works() {
    let page = pages()
        .into_iter()
        .find(|page| page.starts_with("# Running directives"))
        .expect("the page");
    let project = TestProject::new()
        .file("README.md", "read me\n")
        .file("mine.txt", "mine\n");
    let project = examples(&page)
        .iter()
        .fold(project, |project, (path, text)| project.file(path, text))
        .committed();
    let project = project.file("mine.txt", "mine, changed\n");
    let piton = Path::new(env!("CARGO_BIN_EXE_piton"))
        .parent()
        .expect("a folder")
        .display();
    let commands = commands(&page);
    assert!(commands.len() > 10);
    let printed: Vec<String> = commands
        .iter()
        .map(|command| project.bash(&format!("PATH=\"{piton}:$PATH\"; {command}")))
        .collect();
    let after = |command: &str| {
        let at = commands
            .iter()
            .position(|candidate| candidate.contains(command))
            .expect(command);
        printed[at].as_str()
    };
    assert_eq!(
        after("git log -1"),
        "docs(notes): greet [\"Ada\",\"nobody\",\"Grace\"]\nPiton-Directive: greet_all@1.0.0\n\n",
        "{printed:?}"
    );
    assert_eq!(
        after("git log -2"),
        "docs(notes): update `names.md` by `note`\ndocs(docs): add `overview.md` by `write`\n",
        "{printed:?}"
    );
    assert_eq!(
        project.read("notes/names.md"),
        "hello Ada!\nhello Grace!\ndescribed: short and clear\n"
    );
    assert!(after("piton verify").is_empty(), "{printed:?}");
    assert_eq!(project.git(["status", "--porcelain"]), " M mine.txt\n");
    project.git(["fsck", "--strict"]);
}

#[test]
fn every_command_of_the_guide_to_migrating_works() {
    let page = pages()
        .into_iter()
        .find(|page| page.starts_with("# Migrating"))
        .expect("the page");
    let project = TestProject::new()
        .file("README.md", "read me\n")
        .file("mine.txt", "mine\n");
    let project = examples(&page)
        .iter()
        .fold(project, |project, (path, text)| project.file(path, text))
        .committed();
    let project = project.file("mine.txt", "mine, changed\n");
    let piton = Path::new(env!("CARGO_BIN_EXE_piton"))
        .parent()
        .expect("a folder")
        .display();
    let commands = commands(&page);
    assert!(commands.len() > 8);
    let printed: Vec<String> = commands
        .iter()
        .map(|command| project.bash(&format!("PATH=\"{piton}:$PATH\"; {command}")))
        .collect();
    let results: Vec<&String> = commands
        .iter()
        .zip(&printed)
        .filter(|(command, _)| command.contains("count_words"))
        .map(|(_, it)| it)
        .collect();
    assert!(
        results.len() == 2 && results[0] == results[1] && results[0].contains("\"words\": 2"),
        "{printed:?}"
    );
    assert!(
        printed.iter().any(|it| it.contains("SPRING")),
        "{printed:?}"
    );
    let files: Vec<String> = project
        .files()
        .into_iter()
        .filter(|file| file.starts_with(".ai/") && !file.contains("outputs"))
        .collect();
    assert_eq!(
        files,
        [
            ".ai/tools/lib/style.py",
            ".ai/tools/ops/where/main.py",
            ".ai/tools/ops/where/tool.yaml",
            ".ai/tools/report/main.py",
            ".ai/tools/report/tool.yaml",
            ".ai/tools/text/count_words/main.py",
            ".ai/tools/text/count_words/tool.yaml",
            ".ai/tools/text/count_words/wording.py",
        ]
    );
    assert_eq!(project.git(["status", "--porcelain"]), " M mine.txt\n");
    project.git(["fsck", "--strict"]);
}

#[test]
fn every_command_of_the_guide_to_apis_works() {
    let page = pages()
        .into_iter()
        .find(|page| page.starts_with("# Calling APIs"))
        .expect("the page");
    let project = TestProject::new();
    let stage = stage(
        &project,
        "api.github.com",
        json(r#"{"description": "Git Source Code Mirror"}"#),
    );
    let project = stage.enter(project);
    let project = examples(&page)
        .iter()
        .fold(project, |project, (path, text)| project.file(path, text))
        .committed();
    let piton = Path::new(env!("CARGO_BIN_EXE_piton"))
        .parent()
        .expect("a folder")
        .display();
    let commands = commands(&page);
    assert_eq!(commands.len(), 4);
    let printed: Vec<String> = commands
        .iter()
        .map(|command| project.bash(&format!("PATH=\"{piton}:$PATH\"; {command}")))
        .collect();
    assert_eq!(printed[0], "\"Git Source Code Mirror\"\n");
    assert!(
        printed[2].contains("action.url: https://api.github.com/repos/git/git"),
        "{printed:?}"
    );
    assert!(printed[3].contains("Git Source Code Mirror"), "{printed:?}");
    project.assert_clean();
}

#[test]
fn every_new_item_of_the_guide_is_valid() {
    let page = pages()
        .into_iter()
        .find(|page| page.starts_with("# Writing items"))
        .expect("the page");
    let project = TestProject::new()
        .file("README.md", "read me\n")
        .committed();
    let piton = Path::new(env!("CARGO_BIN_EXE_piton"))
        .parent()
        .expect("a folder")
        .display();
    let new: Vec<&str> = commands(&page)
        .into_iter()
        .filter(|command| command.starts_with("piton new"))
        .collect();
    assert_eq!(new.len(), 4);
    for command in new {
        project.bash(&format!("PATH=\"{piton}:$PATH\"; {command}"));
    }
    assert_eq!(project.piton(["validate", "--strict"]).code(), Some(0));
}

#[test]
fn the_readme_calls_a_tool_that_is_there() {
    let readme = include_str!("../../README.md");
    let project = TestProject::new().file("README.md", readme).committed();
    let piton = Path::new(env!("CARGO_BIN_EXE_piton"))
        .parent()
        .expect("a folder")
        .display();
    let start = readme.find("$ piton init\n").expect("the part about items");
    let rest = &readme[start..];
    // The rest of the section breaks something on purpose.
    let (rest, _) = rest.split_once("$ sed").expect("the part about mistakes");
    let commands: Vec<&str> = commands(rest);
    assert!(commands.len() > 5, "{commands:?}");
    for command in commands {
        project.bash(&format!("PATH=\"{piton}:$PATH\"; {command}"));
    }
    assert_eq!(project.read("hello.txt"), "Hello, Grace!\n");
    let log = project.git(["log", "-2", "--format=%s"]);
    // The directive commits; a tool by itself leaves its change uncommitted by default.
    assert_eq!(log, "chore: add `hello.txt` by `greet`\nstart\n");
    assert!(
        project
            .git(["status", "--porcelain"])
            .contains(" M hello.txt\n")
    );
}

#[test]
fn every_example_of_the_guide_validates_strictly() {
    for page in pages() {
        let files = examples(&page);
        if files.is_empty() {
            assert!(!commands(&page).is_empty(), "a page without examples");
            continue;
        }
        let project = files
            .iter()
            .fold(TestProject::new(), |project, (path, text)| {
                project.file(path, text)
            });
        let report = project
            .piton(["validate", "--strict", "--format", "json"])
            .json();
        let findings = report["findings"].as_array().expect("a list");
        let told: Vec<_> = findings
            .iter()
            .filter(|finding| finding["code"] != "UNSIGNED")
            .collect();
        assert_eq!(told, Vec::<&serde_json::Value>::new());
        // Entrypoints and library modules belong to items and are not items.
        let parts = ["/main.py", "/publish.sh", "/shout.sh", "/Dockerfile"];
        let is_part =
            |path: &str| parts.iter().any(|part| path.ends_with(part)) || path.contains("/lib/");
        let manifests = files.iter().filter(|(path, _)| !is_part(path)).count();
        assert_eq!(findings.len(), manifests, "an example is no item");
    }
}

#[test]
fn every_command_of_the_guide_to_meta_tools_works() {
    let page = pages()
        .into_iter()
        .find(|page| page.starts_with("# Meta tools"))
        .expect("the page");
    let project = TestProject::new()
        .file("README.md", "read me\n")
        .committed();
    let project = examples(&page)
        .into_iter()
        .fold(project, |project, (path, text)| project.file(&path, text))
        .committed();
    let piton = Path::new(env!("CARGO_BIN_EXE_piton"))
        .parent()
        .expect("a folder")
        .display();
    let commands = commands(&page);
    assert!(commands.len() > 4);
    for command in commands {
        project.bash(&format!("PATH=\"{piton}:$PATH\"; {command}"));
    }
    assert_eq!(project.read("notes.txt"), "2 words\n");
    let report = project.piton(["validate", "--format", "json"]).json();
    let errors = report["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .filter(|it| it["severity"] == "error");
    assert_eq!(errors.count(), 0, "{report}");
}
