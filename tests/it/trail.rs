//! Pushed and fetched runs: `push`, `fetch`, and what a clone shows of them.

use std::fs;
use std::path::PathBuf;

use crate::harness::{TestProject, cmd_snapshot};

/// A value that must not leave the repository.
const HIDDEN: &str = "swordfish";

/// Two commits of piton, one of them by a tool with a parameter, a step that was rolled back, and a
/// remote.
fn project() -> TestProject {
    let parameters = "mutates_state: true\nparameters:\n  - name: word\n    type: string\n    required: true\n  \
                      - name: api_token\n    type: string";
    let project = TestProject::new()
        .ticking()
        .file("a.txt", "one\n")
        .tool("note", parameters, "echo noted >> notes.txt")
        .committed();
    for (arguments, code) in [
        (
            &[
                "exec",
                "--name",
                "append",
                "--",
                "sh",
                "-c",
                "echo two >> a.txt # swordfish",
            ][..],
            0,
        ),
        (
            &[
                "tool",
                "run",
                "note",
                "--checkpoint",
                "auto",
                "--param",
                "word=swordfish",
                "--param",
                "api_token=7f3a9c",
            ],
            0,
        ),
        (&["exec", "--", "sh", "-c", "rm a.txt; exit 3"], 3),
    ] {
        let ran = project.piton(arguments);
        assert_eq!(ran.code(), Some(code), "{ran}");
    }
    project.bash("git init --quiet --bare --initial-branch=main ../remote.git; git remote add origin ../remote.git; git push --quiet origin main");
    project
}

/// Like [`project`], pushed, with a clone that has fetched.
fn travelled() -> TestProject {
    let project = project();
    project.piton(["push", "origin"]).succeeded();
    cloned(&project);
    project
        .piton(["-C", "../clone", "fetch", "origin"])
        .succeeded();
    project
}

fn cloned(project: &TestProject) {
    project.bash("git clone --quiet ../remote.git ../clone");
}

/// The runs, oldest first.
fn runs(project: &TestProject) -> Vec<String> {
    let folder = project.root().join(".git/piton/runs");
    let mut found: Vec<String> = fs::read_dir(folder)
        .expect("runs")
        .map(|run| {
            run.expect("a run")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    found.sort();
    found
}

fn log_of(run: &str) -> String {
    format!("refs/piton/runs/{run}/log")
}

/// The lines of a log in the clone.
fn lines(project: &TestProject, run: &str) -> Vec<String> {
    let log = log_of(run);
    let text = project.bash(&format!(
        "for id in $(git -C ../clone rev-list --reverse {log}); do git -C ../clone cat-file blob $id:events.jsonl; done"
    ));
    text.lines().map(str::to_owned).collect()
}

/// Replaces a log in the clone by a forged one with other lines.
fn rewrite(project: &TestProject, run: &str, lines: &[String]) {
    let file = project.home().join("lines");
    fs::write(&file, lines.join("\n") + "\n").expect("written");
    let log = log_of(run);
    project.bash(&format!(
        "cd ../clone; blob=$(git hash-object -w '{}'); \
         tree=$(printf '100644 blob %s\\tevents.jsonl\\n' $blob | git mktree); \
         git update-ref {log} $(git commit-tree -m forged $tree)",
        file.display()
    ));
}

/// Changes the lines of a log in the clone.
fn edit(project: &TestProject, run: &str, change: impl Fn(&mut Vec<String>)) {
    let mut lines = lines(project, run);
    change(&mut lines);
    rewrite(project, run, &lines);
}

/// The problems found in the clone: code, step, message.
fn breaks(project: &TestProject) -> Vec<(String, Option<u64>, String)> {
    let ran = project.piton(["-C", "../clone", "verify", "--all", "--format", "json"]);
    let found = ran.json()["breaks"].as_array().expect("a list").clone();
    assert_eq!(ran.code(), Some(i32::from(!found.is_empty())), "{ran}");
    let step = |one: &serde_json::Value| one["step"].as_str()?.rsplit_once('/')?.1.parse().ok();
    let text =
        |one: &serde_json::Value, field: &str| one[field].as_str().expect("a text").to_owned();
    found
        .iter()
        .map(|one| (text(one, "code"), step(one), text(one, "message")))
        .collect()
}

fn first_break(project: &TestProject) -> (String, Option<u64>, String) {
    breaks(project).into_iter().next().expect("a break")
}

fn broken(code: &str, step: Option<u64>, message: &str) -> (String, Option<u64>, String) {
    (code.to_owned(), step, message.to_owned())
}

#[test]
fn a_run_that_was_pushed_verifies_in_a_clone() {
    let project = project();
    cmd_snapshot!(project.piton(["push", "origin"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    ✓ pushed 3 runs to `origin`
    ");
    cmd_snapshot!(project.piton(["push", "origin"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    ✓ already up to date at `origin`: 3 runs
    ");
    cloned(&project);
    let ran = project.piton(["-C", "../clone", "verify", "--all", "--format", "json"]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    let found = &ran.json()["breaks"][0];
    assert_eq!(found["code"], "LOG_MISSING", "{ran}");
    assert!(
        found["suggestion"]
            .as_str()
            .expect("a way out")
            .contains("`piton fetch REMOTE`"),
        "{ran}"
    );
    cmd_snapshot!(project.piton(["-C", "../clone", "fetch", "origin"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    ✓ fetched 3 runs from `origin`
    hint: `piton verify --all` checks them
    ");
    cmd_snapshot!(project.piton(["-C", "../clone", "fetch", "origin"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    ✓ already up to date with `origin`: 3 runs
    ");
    cmd_snapshot!(project.piton(["-C", "../clone", "verify", "--all"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    ✓ 3 runs, 2 checkpoints verified
    ");
    cmd_snapshot!(project.piton(["-C", "../clone", "verify"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    ----- stderr -----
    note: 3 runs of other clones: `piton verify --all` checks them
    ✓ 0 runs, 0 checkpoints verified
    ");
    project.bash("cd ../clone; git gc --quiet --prune=now; git fsck --full --strict");
    project
        .piton(["-C", "../clone", "verify", "--all"])
        .succeeded();
    project.bash("git gc --quiet --prune=now");
    project
        .piton(["gc", "--keep-days", "0", "--keep-runs", "0"])
        .succeeded();
    project.bash("git reflog expire --expire=now --all; git gc --quiet --prune=now; git fsck --full --strict");
    project.piton(["verify", "--all"]).succeeded();
    let subjects = project.bash(
        "git -C ../remote.git log --reverse --format=%s --glob=refs/piton/runs | sed 's/d [0-9a-f]\\{10\\}$/d ID/'",
    );
    let expected = [
        "step 1 append: committed ID",
        "run: succeeded",
        "step 1 note: committed ID",
    ];
    assert!(
        expected
            .iter()
            .all(|subject| subjects.lines().any(|line| line == *subject)),
        "{subjects}"
    );
    let names = project.bash("git -C ../remote.git for-each-ref --format='%(refname)'");
    assert!(!names.contains("local"), "{names}");
    assert_eq!(
        names.lines().filter(|name| name.ends_with("/log")).count(),
        3,
        "{names}"
    );
}

#[test]
fn a_clone_tells_of_runs_that_happened_elsewhere() {
    let project = travelled();
    let run = &runs(&project)[1];
    cmd_snapshot!(project.piton(["-C", "../clone", "log"]), @"
    success: true
    exit_code: 0
    ----- stdout -----
    01kdyaf9  2026-01-02 03:02:01  sh      failed     rolled back  1 file, +0 −2  elsewhere
    01kdyade  2026-01-02 03:01:01  note    succeeded  [SHA]  1 file, +1 −0  elsewhere
    01kdyabk  2026-01-02 03:00:01  append  succeeded  [SHA]  1 file, +1 −0  elsewhere
    ----- stderr -----
    ");
    cmd_snapshot!(project.piton(["-C", "../clone", "show", run, "--stat"]), @r#"
    success: true
    exit_code: 0
    ----- stdout -----
    step          01kdyadef0fgz2syhf4d156af1/1
    name          note
    what          tool note → bash_runtime → subprocess
    when          2026-01-02 03:01:02
    known from    only its log is known: values are shown as hashes, without command lines, instructions and comments
    tool          note@1.0.0
    mode          auto
    permissions   <execute resource="tool" id="note"/> by the person at the terminal, enforced: broker
    parameters    word = sha256:[HASH]
                  api_token = sha256:[HASH]
    isolation     standard
    exit code     0
    stdout        0 bytes, sha256:[HASH]
    stderr        0 bytes, sha256:[HASH]
    status        succeeded
    outcome       [SHA]  1 file, +1 −0
    commit        [HASH]
    message       chore: add `notes.txt` by `note`

                  1 file changed, 1 insertion(+)

                  Piton-Run: 01kdyadef0fgz2syhf4d156af1
                  Piton-Step: 1 note
                  Piton-Tool: note@1.0.0
                  Piton-Journal: sha256:[HASH]

    A notes.txt  +1 −0
    1 file, +1 −0
    ----- stderr -----
    "#);
    cmd_snapshot!(project.piton(["-C", "../clone", "undo"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    error: there is no step to undo in this work tree

    hint: see what happened with `piton log`
    ");
    let ran = project.piton(["-C", "../clone", "log", run, "--format", "json"]);
    assert_eq!(
        (&ran.json()["source"], &ran.json()["root"]),
        (&"log".into(), &"".into()),
        "{ran}"
    );
    let ran = project.piton(["-C", "../clone", "undo", &format!("{run}/1")]);
    assert_eq!(ran.code(), Some(1), "{ran}");
    assert!(
        ran.stderr().contains("it was made in another clone"),
        "{ran}"
    );
    assert_eq!(project.git(["-C", "../clone", "status", "--porcelain"]), "");
}

#[test]
fn what_is_private_stays() {
    let project = travelled();
    for run in runs(&project) {
        let lines = lines(&project, &run).join("\n");
        assert!(!lines.contains(HIDDEN), "{lines}");
        assert!(
            !lines.contains(&*project.root().to_string_lossy()),
            "{lines}"
        );
        assert!(!lines.contains("\"pid\""), "{lines}");
    }
    let everything = project.bash(
        "cd ../remote.git; git cat-file --batch-all-objects --batch-check='%(objectname) %(objecttype)' | \
         while read id type; do [ $type = tree ] || git cat-file $type $id; done",
    );
    assert!(
        everything.contains("\"parameters\":{\"word\":{\"sha256\":"),
        "{everything}"
    );
    assert!(!everything.contains(HIDDEN), "{everything}");
    let local = fs::read_to_string(project.root().join(format!(
        ".git/piton/runs/{}/journal.jsonl",
        runs(&project)[1]
    )));
    assert!(local.expect("a journal").contains(HIDDEN));
    let shown = project
        .piton(["show", &runs(&project)[1], "--no-diff"])
        .succeeded();
    assert!(shown.stdout().contains("word = \"swordfish\""), "{shown}");
}

#[test]
fn an_amended_checkpoint_is_found_in_the_clone() {
    let project = travelled();
    let file = project
        .git(["show", "--name-only", "--format=", "HEAD"])
        .lines()
        .next()
        .expect("a file")
        .to_owned();
    project.bash(&format!(
        "echo more >> {file}; git add {file}; git commit --quiet --amend --no-edit; git push --quiet --force origin main"
    ));
    project.bash("cd ../clone; git fetch --quiet; git reset --quiet --hard origin/main");
    let (code, step, message) = first_break(&project);
    assert_eq!((code.as_str(), step), ("REWRITTEN", Some(1)), "{message}");
    project.bash("cd ../clone; git reflog expire --expire=now --all; git gc --quiet --prune=now");
    let (code, _, message) = first_break(&project);
    assert_eq!(code, "REWRITTEN");
    assert!(
        message.contains(" was rewritten as ") && message.ends_with(&format!("`{file}`")),
        "{message}"
    );
    project.bash(
        "cd ../clone; git reset --quiet --hard HEAD~1; git update-ref -d refs/remotes/origin/main",
    );
    project.bash("cd ../clone; git reflog expire --expire=now --all; git gc --quiet --prune=now");
    let (code, _, message) = first_break(&project);
    assert_eq!(code, "REWRITTEN");
    assert!(
        message.ends_with("is not here: its branch was rewritten, or neither pushed nor fetched"),
        "{message}"
    );
}

#[test]
fn dropped_edited_moved_and_foreign_entries_are_found() {
    let project = travelled();
    let run = &runs(&project)[0];
    let other = &runs(&project)[1];
    let whole = lines(&project, run);
    let foreign = lines(&project, other);
    let count = whole.len();
    let judged = |lines: &[String]| {
        rewrite(&project, run, lines);
        first_break(&project)
    };
    let as_written = "the log is not as it was written:";
    let dropped = |at: usize| [&whole[..at], &whole[at + 1..]].concat();
    let missing = |entry| format!("{as_written} entries before entry {entry} are missing");
    assert_eq!(
        judged(&dropped(0)),
        broken("LOG_BROKEN", Some(1), &missing(1))
    );
    assert_eq!(
        judged(&dropped(3)),
        broken("LOG_BROKEN", Some(1), &missing(4))
    );
    let cut = |entries| {
        format!(
            "the log ends with entry {entries}, before the end of the run: the rest was dropped"
        )
    };
    assert_eq!(
        judged(&dropped(count - 1)),
        broken("LOG_BROKEN", Some(1), &cut(count - 1))
    );
    assert_eq!(judged(&whole[..2]), broken("LOG_BROKEN", Some(1), &cut(2)));
    let mut edited = whole.clone();
    edited[3] = edited[3].replace("\"exit_code\":0", "\"exit_code\":1");
    assert_eq!(
        judged(&edited),
        broken(
            "LOG_BROKEN",
            Some(1),
            &format!("{as_written} entry 4 was edited")
        )
    );
    let mut moved = whole.clone();
    moved.swap(2, 3);
    assert_eq!(
        judged(&moved),
        broken(
            "LOG_BROKEN",
            Some(1),
            &format!("{as_written} entry 3 is not at its place")
        )
    );
    let mut inserted = whole.clone();
    inserted.insert(3, foreign[3].clone());
    assert_eq!(
        judged(&inserted),
        broken(
            "LOG_BROKEN",
            Some(1),
            &format!("{as_written} entry 4 is from another run")
        )
    );
    assert_eq!(
        judged(&foreign),
        broken(
            "LOG_BROKEN",
            None,
            &format!("{as_written} entry 1 is from another run")
        )
    );
    let mut garbage = whole.clone();
    garbage[1] = "garbage".to_owned();
    assert_eq!(judged(&garbage).0, "LOG_BROKEN");
    rewrite(&project, run, &whole);
    assert_eq!(breaks(&project), []);
}

#[test]
fn a_log_whose_chain_was_rewritten_does_not_fit_the_commits() {
    let project = travelled();
    let run = &runs(&project)[0];
    let script = "import hashlib, json, sys\n\
        digest = lambda text: 'sha256:' + hashlib.sha256(text.encode()).hexdigest()\n\
        lines = open(sys.argv[1]).read().splitlines()\n\
        prev, out = digest(json.loads(lines[0])['run']), []\n\
        for line in lines:\n\
        \x20   line = line.replace('\"append\"', '\"harmless\"').replace(json.loads(line)['prev'], prev)\n\
        \x20   prev = digest(line)\n\
        \x20   out.append(line)\n\
        open(sys.argv[1], 'w').write('\\n'.join(out) + '\\n')\n";
    let (program, file) = (
        project.home().join("forge.py"),
        project.home().join("forged"),
    );
    fs::write(&program, script).expect("written");
    fs::write(&file, lines(&project, run).join("\n")).expect("written");
    project.bash(&format!(
        "python3 '{}' '{}'",
        program.display(),
        file.display()
    ));
    let forged: Vec<String> = fs::read_to_string(&file)
        .expect("lines")
        .lines()
        .map(str::to_owned)
        .collect();
    rewrite(&project, run, &forged);
    let (code, step, _) = first_break(&project);
    assert_eq!((code.as_str(), step), ("TRAILER_MISMATCH", Some(1)));
}

#[test]
fn a_log_whose_decisions_were_dropped_does_not_fit_the_commits() {
    let project = travelled();
    let run = &runs(&project)[0];
    let script = "import hashlib, json, sys\n\
        digest = lambda text: 'sha256:' + hashlib.sha256(text.encode()).hexdigest()\n\
        lines = open(sys.argv[1]).read().splitlines()\n\
        prev, out = digest(json.loads(lines[0])['run']), []\n\
        for line in lines:\n\
        \x20   fields = json.loads(line.replace('\"append\"', '\"harmless\"'))\n\
        \x20   kind = fields['event']['type']\n\
        \x20   if kind == 'decided' or kind == sys.argv[2]: continue\n\
        \x20   if kind == 'committed' and sys.argv[2] == 'adopt': fields['event']['adopted'] = [fields['event']['commit']]\n\
        \x20   fields['prev'], fields['seq'] = prev, len(out) + 1\n\
        \x20   line = json.dumps(fields, separators=(',', ':'))\n\
        \x20   prev = digest(line)\n\
        \x20   out.append(line)\n\
        open(sys.argv[1], 'w').write('\\n'.join(out) + '\\n')\n";
    let (program, file) = (
        project.home().join("forge.py"),
        project.home().join("forged"),
    );
    fs::write(&program, script).expect("written");
    let whole = lines(&project, run);
    for (how, code, step) in [
        ("", "JOURNAL_INCONSISTENT", Some(1)),
        ("adopt", "JOURNAL_INCONSISTENT", Some(1)),
        ("committed", "NOT_RECORDED", Some(1)),
    ] {
        fs::write(&file, whole.join("\n")).expect("written");
        project.bash(&format!(
            "python3 '{}' '{}' '{how}'",
            program.display(),
            file.display()
        ));
        let forged: Vec<String> = fs::read_to_string(&file)
            .expect("lines")
            .lines()
            .map(str::to_owned)
            .collect();
        rewrite(&project, run, &forged);
        let found = breaks(&project);
        assert_eq!(found.len(), 1, "{how}: {found:?}");
        assert_eq!(
            (found[0].0.as_str(), found[0].1),
            (code, step),
            "{how}: {found:?}"
        );
    }
}

#[test]
fn a_log_that_is_no_log_is_found_and_harms_nothing() {
    let project = travelled();
    let run = &runs(&project)[0];
    project.bash(&format!("cd ../clone; git update-ref {} HEAD", log_of(run)));
    let (code, _, message) = first_break(&project);
    assert_eq!(code, "LOG_BROKEN");
    assert!(
        message.ends_with("holds something else than `events.jsonl`"),
        "{message}"
    );
    let ran = project.piton(["-C", "../clone", "log"]).succeeded();
    assert!(ran.stderr().contains("warning"), "{ran}");
    assert_eq!(ran.stdout().lines().count(), 2, "{ran}");
}

#[test]
fn journal_and_log_have_to_tell_the_same() {
    let project = travelled();
    let run = &runs(&project)[0];
    edit(&project, run, |lines| {
        lines[3] = lines[3].replace("\"exit_code\":0", "\"exit_code\":1");
    });
    project.bash(&format!("git fetch --quiet ../clone +{0}:{0}", log_of(run)));
    let ran = project.piton(["verify", "--format", "json"]);
    assert_eq!(ran.json()["breaks"][0]["code"], "LOG_MISMATCH", "{ran}");
    assert_eq!(
        ran.json()["breaks"][0]["message"],
        "entry 4 of the log is not line 4 of the journal",
        "{ran}"
    );
    cmd_snapshot!(project.piton(["push", "origin"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    error: the log of run `01kdyabkw0000e485875xhvkdf` is not its journal: they differ at entry 4

    hint: `piton verify 01kdyabkw0000e485875xhvkdf` shows which of them matches the commits; `git update-ref -d refs/piton/runs/01kdyabkw0000e485875xhvkdf/log` removes a forged log
    ");
    project.git(["update-ref", "-d", &log_of(run)]);
    project.piton(["push", "origin"]).succeeded();
    project.piton(["verify", "--all"]).succeeded();
}

#[test]
fn a_log_is_continued_and_never_replaced() {
    let project = travelled();
    let run = &runs(&project)[0];
    edit(&project, run, |lines| drop(lines.pop()));
    cmd_snapshot!(project.piton(["-C", "../clone", "push", "origin"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    error: the log of run `01kdyabkw0000e485875xhvkdf` is another one at `origin`

    hint: logs are append-only, so one of the two was changed later: run `piton verify --all` here and in the other repository
    ");
    cmd_snapshot!(project.piton(["-C", "../clone", "fetch", "origin"]), @"
    success: false
    exit_code: 1
    ----- stdout -----
    ----- stderr -----
    error: the log of run `01kdyabkw0000e485875xhvkdf` is another one at `origin`

    hint: logs are append-only, so one of the two was changed later: run `piton verify --all` here and in the other repository
    ");
    // Settings that force or prune do not change this.
    project.bash(
        "cd ../clone; git config fetch.prune true; git config remote.origin.fetch '+refs/*:refs/*'",
    );
    project.git([
        "-C",
        "../remote.git",
        "update-ref",
        "-d",
        &log_of(&runs(&project)[2]),
    ]);
    assert_eq!(
        project.piton(["-C", "../clone", "fetch", "origin"]).code(),
        Some(1)
    );
    let names = project.bash("git -C ../clone for-each-ref --format='%(refname)' refs/piton");
    assert_eq!(names.lines().count(), 3, "{names}");
    // The repository that made the run still has all of it.
    project.piton(["fetch", "origin"]).succeeded();
    project.piton(["verify", "--all"]).succeeded();
}

#[test]
fn runs_can_be_pushed_one_by_one() {
    let project = project();
    let runs = runs(&project);
    let ran = project
        .piton(["push", "origin", &runs[1], "--format", "json"])
        .succeeded();
    assert_eq!(
        ran.json(),
        serde_json::json!({
            "remote": "origin", "pushed": [runs[1]], "up_to_date": 0, "withheld": {}, "attestations": 0,
        })
    );
    project
        .piton(["exec", "--checkpoint", "disabled", "--", "true"])
        .succeeded();
    let last = self::runs(&project).pop().expect("a run");
    cmd_snapshot!(project.piton(["push", "origin", &last]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: run `01kdyajy801w6fs3d6q2eve7ya` cannot be pushed: it ran without checkpoints

    hint: `piton log` shows which runs there are and how they ended
    ");
    let ran = project
        .piton(["push", "origin", "--format", "json"])
        .succeeded();
    assert_eq!(
        (&ran.json()["up_to_date"], &ran.json()["pushed"]),
        (&1.into(), &serde_json::json!([runs[0], runs[2]]))
    );
    assert_eq!(
        ran.json()["withheld"][&last],
        "it ran without checkpoints",
        "{ran}"
    );
    cloned(&project);
    let ran = project
        .piton(["-C", "../clone", "fetch", "origin", "--format", "json"])
        .succeeded();
    let expected = serde_json::json!({"remote": "origin", "fetched": runs, "up_to_date": 0, "attestations": 0});
    assert_eq!(ran.json(), expected);
}

#[test]
fn attestations_are_pushed_and_snapshots_are_not() {
    let project = project();
    project.git(["update-ref", "refs/attestations/one", "HEAD"]);
    let ran = project.piton(["push", "origin"]).succeeded();
    assert!(ran.stderr().contains("3 runs and 1 attestation"), "{ran}");
    cloned(&project);
    project
        .piton(["-C", "../clone", "fetch", "origin"])
        .succeeded();
    let names = project
        .bash("git -C ../clone for-each-ref --format='%(refname)' refs/piton refs/attestations");
    assert!(
        names.contains("refs/attestations/one") && !names.contains("local"),
        "{names}"
    );
}

#[test]
fn a_secret_does_not_leave() {
    let project = project();
    // Split, so that secret scanners do not report this file.
    let token = ["ghp_wWPw5k4aXcaT4fNP", "0UcnZwJUVFk6LO0pINUx"].concat();
    let words = ["exec", "--", "sh", "-c", "echo > \"$0.txt\"", &token];
    let mut committed = project.command(words);
    let committed = committed
        .env("PITON_CHECKPOINT_SECRETS", "warn")
        .output()
        .expect("piton starts");
    assert!(committed.status.success(), "{committed:?}");
    let ran = project.piton(["push", "origin", "--format", "json"]);
    assert_eq!(
        (ran.code(), &ran.json()["error"]["code"]),
        (Some(1), &"SECRET_FOUND".into()),
        "{ran}"
    );
    assert!(!ran.stdout().contains(&token), "{ran}");
    let run = runs(&project).pop().expect("a run");
    assert!(
        ran.stdout().contains(&format!("of the log of run `{run}`")),
        "{ran}"
    );
    assert_eq!(
        project.bash("git -C ../remote.git for-each-ref refs/piton"),
        ""
    );
}

#[test]
fn a_remote_that_is_not_there_is_named() {
    let project = project();
    cmd_snapshot!(project.piton(["push", "upstream"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: there is no remote `upstream`

    hint: there is `origin`; you can also use a URL
    ");
    cmd_snapshot!(project.piton(["fetch", "--", "--upload-pack=touch pwned"]), @"
    success: false
    exit_code: 2
    ----- stdout -----
    ----- stderr -----
    error: there is no remote `--upload-pack=touch pwned`

    hint: there is `origin`; you can also use a URL
    ");
    assert!(!project.root().join("pwned").exists());
    fs::rename(
        project.root().join("../remote.git"),
        project.root().join("../gone.git"),
    )
    .expect("moved");
    let ran = project.piton(["fetch", "origin", "--format", "json"]);
    assert_eq!(
        (ran.code(), &ran.json()["error"]["code"]),
        (Some(1), &"REMOTE_FAILED".into()),
        "{ran}"
    );
    let ran = project.piton([
        "push",
        "https://me:pass@localhost:1/x.git",
        "--format",
        "json",
    ]);
    assert_eq!(
        (ran.code(), &ran.json()["error"]["code"]),
        (Some(1), &"REMOTE_FAILED".into()),
        "{ran}"
    );
    assert!(!ran.stdout().contains("pass"), "{ran}");
    project.piton(["push", "../gone.git"]).succeeded();
    let bare = TestProject::without_git();
    assert_eq!(bare.piton(["push", "origin"]).code(), Some(5));
}

#[test]
fn a_journal_of_the_first_format_stays_here() {
    let project = project();
    let run = "01kdz3gqc80000000000000001";
    let folder: PathBuf = project.root().join(".git/piton/runs").join(run);
    fs::create_dir(&folder).expect("a folder");
    let fixture = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/journal/v1.jsonl");
    fs::copy(fixture, folder.join("journal.jsonl")).expect("copied");
    let ran = project
        .piton(["push", "origin", "--format", "json"])
        .succeeded();
    let reason = ran.json()["withheld"][run]
        .as_str()
        .expect("a reason")
        .to_owned();
    assert!(reason.contains("older format"), "{ran}");
    assert_eq!(
        ran.json()["pushed"].as_array().map(Vec::len),
        Some(3),
        "{ran}"
    );
}

#[test]
fn a_kill_while_writing_a_log_is_all_or_nothing() {
    for place in ["trail-written", "ref-locked", "trail-moved"] {
        let project = project();
        let killed = project
            .command(["push", "origin"])
            .env("PITON_FAILPOINT", place)
            .output()
            .expect("piton starts");
        assert!(!killed.status.success(), "{place}");
        project.bash("git fsck --full --strict");
        project.piton(["verify", "--all"]).succeeded();
        project.piton(["push", "origin"]).succeeded();
        assert_eq!(project.bash("find .git -name '*.lock'"), "", "{place}");
        cloned(&project);
        project
            .piton(["-C", "../clone", "fetch", "origin"])
            .succeeded();
        project
            .piton(["-C", "../clone", "verify", "--all"])
            .succeeded();
    }
}
