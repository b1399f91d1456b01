//! A stored index is never wrong: after any change of the files it answers like a new one.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::Config;

use super::*;
use crate::item::search::{Cache, Freshness, SearchIndex, remove_unused, unused};

struct World {
    folder: tempfile::TempDir,
    roots: Roots,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["project/.ai", "home/.ai"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        fs::write(root.join("program"), "one build").unwrap();
        let roots = Roots {
            project: Some(root.join("project")),
            user: Some(root.join("home")),
        };
        Self { folder, roots }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let file = self.path(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn kept(&self) -> SearchIndex {
        self.kept_in("cache")
    }

    fn kept_in(&self, folder: &str) -> SearchIndex {
        let (folder, program) = (self.path(folder), self.path("program"));
        SearchIndex::open(
            self.roots.clone(),
            Some(Cache {
                folder: &folder,
                program: &program,
            }),
        )
    }

    fn files(&self) -> Vec<PathBuf> {
        let listed = fs::read_dir(self.path("cache/search"))
            .into_iter()
            .flatten();
        listed.map(|entry| entry.unwrap().path()).collect()
    }

    /// The answers of an index and of a fresh store.
    fn answers(&self, index: &SearchIndex) -> (String, String) {
        let store = ItemStore::open(self.roots.clone(), Strength::Lenient);
        let queries = [
            "",
            "deploy",
            "alpha beta",
            "gamma",
            "entry",
            "server migration",
        ]
        .map(|text| Query {
            scope: SearchScope::All,
            limit: Some(1_000),
            ..query(text)
        });
        let dated = Query {
            order: SearchOrder::Date,
            ..queries[0].clone()
        };
        let all = || queries.iter().chain([&dated]);
        let fresh: Vec<Results> = all().map(|query| search(&store, query)).collect();
        let kept: Vec<Results> = all().map(|query| index.search(query)).collect();
        (
            format!(
                "{} {}",
                serde_json::to_string(&kept).unwrap(),
                index.broken()
            ),
            format!(
                "{} {}",
                serde_json::to_string(&fresh).unwrap(),
                [Layer::Project, Layer::User]
                    .map(|layer| store.broken_in(layer).count())
                    .iter()
                    .sum::<usize>()
            ),
        )
    }

    fn assert_right(&self, index: &SearchIndex) {
        let (kept, fresh) = self.answers(index);
        assert_eq!(kept, fresh);
    }
}

/// A time before which all metadata can be trusted.
const LATER: i64 = i64::MAX;

/// The clock of a file system may stand still for a few milliseconds.
fn tick() {
    std::thread::sleep(Duration::from_millis(15));
}

fn note(id: &str, title: &str) -> String {
    format!(
        "---\nid: {id}\ntitle: {title}\nversion: 1.0.0\nentry_type: reference\ncategory: c\ntags: []\n---\nText\n"
    )
}

#[test]
fn nothing_is_read_when_nothing_changed() {
    let world = World::new();
    world.write("project/.ai/tools/a.yaml", &tool("alpha", "x", "first", ""));
    world.write("home/.ai/knowledge/k.md", &note("beta", "second"));
    let mut index = world.kept();
    index.refresh_at(LATER);
    assert_eq!(index.refresh_at(LATER), Freshness::Unchanged);
    world.assert_right(&index);
    // Another process opens what this one stored.
    let again = world.kept();
    assert_eq!(again.note(), "nothing changed since the last search");
    world.assert_right(&again);
    tick();
    world.write("project/.ai/knowledge/new.md", &note("gamma", "third"));
    assert_eq!(index.refresh_at(LATER), Freshness::Renewed);
    assert_eq!(index.note(), "1 of 3 files were read");
    world.assert_right(&index);
}

#[test]
fn a_file_that_was_written_a_moment_ago_is_read_again() {
    let world = World::new();
    world.write("project/.ai/knowledge/k.md", &note("alpha", "one"));
    let index = world.kept();
    // The same length, and perhaps the same time.
    world.write("project/.ai/knowledge/k.md", &note("alpha", "two"));
    let mut again = index.clone();
    again.refresh();
    world.assert_right(&again);
    world.assert_right(&world.kept());
}

#[test]
fn an_old_time_on_a_new_content_does_not_deceive() {
    let world = World::new();
    world.write("project/.ai/knowledge/k.md", &note("alpha", "one"));
    let mut index = world.kept();
    index.refresh_at(LATER);
    let file = world.path("project/.ai/knowledge/k.md");
    let before = fs::metadata(&file).unwrap().modified().unwrap();
    tick();
    world.write("project/.ai/knowledge/k.md", &note("alpha", "two"));
    fs::File::options()
        .append(true)
        .open(&file)
        .unwrap()
        .set_modified(before)
        .unwrap();
    assert_eq!(index.refresh_at(LATER), Freshness::Renewed);
    world.assert_right(&index);
}

#[test]
fn what_cannot_be_used_is_rebuilt() {
    let world = World::new();
    world.write("project/.ai/tools/a.yaml", &tool("alpha", "x", "first", ""));
    let mut index = world.kept();
    index.refresh_at(LATER);
    let file = world.files().pop().unwrap();
    let good = fs::read(&file).unwrap();
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    let mut longer = good.clone();
    longer.extend(b"more");
    for bad in [
        &b""[..],
        b"pitonidx",
        b"something else",
        &good[..good.len() / 2],
        &flipped,
        &longer,
    ] {
        fs::write(&file, bad).unwrap();
        world.assert_right(&world.kept());
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    world.assert_right(&world.kept());
}

#[test]
fn a_byte_that_went_bad_anywhere_changes_no_answer() {
    let world = World::new();
    world.write(
        "project/.ai/tools/a.yaml",
        &tool("alpha", "x", "first", "deploy"),
    );
    world.write("home/.ai/knowledge/k.md", &note("beta", "server migration"));
    let mut index = world.kept();
    index.refresh_at(LATER);
    let file = world.files().pop().unwrap();
    let good = fs::read(&file).unwrap();
    // A prime, so that bytes of every kind are hit.
    for at in (0..good.len()).step_by(17) {
        let mut bad = good.clone();
        bad[at] ^= 0x41;
        fs::write(&file, &bad).unwrap();
        let (kept, fresh) = world.answers(&world.kept());
        assert_eq!(kept, fresh, "byte {at} of {}", good.len());
        // A corrupt file is not opened a second time.
        let again = fs::read(&file).unwrap_or_default();
        assert!(
            again != bad || world.kept().note().starts_with("nothing changed"),
            "byte {at}"
        );
    }
}

#[test]
fn an_index_that_goes_bad_while_it_is_used_is_rebuilt() {
    let world = World::new();
    world.write("project/.ai/tools/a.yaml", &tool("alpha", "x", "first", ""));
    world.kept().refresh_at(LATER);
    let mut index = world.kept();
    assert_eq!(index.note(), "nothing changed since the last search");
    let file = world.files().pop().unwrap();
    // Overwritten in place, which piton itself never does.
    fs::write(&file, "").unwrap();
    world.assert_right(&index);
    assert!(!file.exists());
    assert_eq!(index.refresh_at(LATER), Freshness::Renewed);
    world.assert_right(&index);
    assert_eq!(index.refresh_at(LATER), Freshness::Unchanged);
}

#[test]
fn a_folder_that_cannot_be_written_costs_time_only() {
    let world = World::new();
    world.write("project/.ai/tools/a.yaml", &tool("alpha", "x", "first", ""));
    world.write("cache", "a file");
    let index = world.kept();
    world.assert_right(&index);
    assert!(
        index.note().contains("the index is not kept"),
        "{}",
        index.note()
    );
    let inside = world.kept_in("project/.cache");
    world.assert_right(&inside);
    assert!(!world.path("project/.cache").exists());
    world.assert_right(&SearchIndex::open(world.roots.clone(), None));
}

#[test]
fn what_another_build_of_the_program_kept_is_rebuilt() {
    let world = World::new();
    world.write("project/.ai/tools/a.yaml", &tool("alpha", "x", "first", ""));
    world.kept().refresh_at(LATER);
    assert_eq!(world.kept().note(), "nothing changed since the last search");
    // The same length, and an old time as package managers set it.
    let program = world.path("program");
    let before = fs::metadata(&program).unwrap().modified().unwrap();
    tick();
    world.write("program", "two build");
    fs::File::options()
        .append(true)
        .open(&program)
        .unwrap()
        .set_modified(before)
        .unwrap();
    assert_eq!(world.kept().note(), "1 of 1 files were read");
    world.assert_right(&world.kept());
    fs::remove_file(&program).unwrap();
    let index = world.kept();
    assert_eq!(
        index.note(),
        "1 of 1 files were read; the index is not kept: it cannot be said which program makes it"
    );
    world.assert_right(&index);
}

#[test]
fn files_that_came_to_rest_are_not_read_again() {
    let world = World::new();
    world.write("project/.ai/tools/a.yaml", &tool("alpha", "x", "first", ""));
    world.write("home/.ai/knowledge/k.md", &note("beta", "second"));
    assert_eq!(world.kept().note(), "2 of 2 files were read");
    assert_eq!(
        world.kept().note(),
        "2 of 2 files were read",
        "too young to be trusted"
    );
    // By the real clock: more than the coarsest file system resolution.
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!(
        world.kept().note(),
        "2 of 2 files were read",
        "an old look at them proves nothing"
    );
    assert_eq!(world.kept().note(), "nothing changed since the last search");
    world.write("project/.ai/tools/a.yaml", &tool("alpha", "x", "third", ""));
    let index = world.kept();
    assert_eq!(index.note(), "1 of 2 files were read");
    world.assert_right(&index);
}

#[test]
fn an_index_that_is_unused_or_whose_project_is_gone_is_removed() {
    let world = World::new();
    world.write("project/.ai/tools/a.yaml", &tool("alpha", "x", "first", ""));
    world.kept();
    let [file] = world.files().try_into().unwrap();
    let month = Duration::from_hours(30 * 24);
    let now = fs::metadata(&file).unwrap().modified().unwrap();
    fs::File::options()
        .append(true)
        .open(&file)
        .unwrap()
        .set_modified(now - 2 * month)
        .unwrap();
    assert_eq!(unused(&world.path("cache"), now - month), [file.as_path()]);
    // Every use counts, even one that writes nothing.
    world.kept();
    assert_eq!(
        unused(&world.path("cache"), now - month),
        Vec::<PathBuf>::new()
    );
    // Foreign and unreadable files are left alone until they are old.
    world.write("cache/search/other", "new");
    fs::create_dir(world.path("cache/search/folder")).unwrap();
    symlink("nowhere", world.path("cache/search/link")).unwrap();
    fs::rename(world.path("project"), world.path("moved")).unwrap();
    assert_eq!(
        remove_unused(&world.path("cache"), now - month),
        [file.as_path()]
    );
    assert_eq!(
        remove_unused(&world.path("cache"), now + month),
        [world.path("cache/search/other")]
    );
    assert_eq!(world.files().len(), 2);
    assert_eq!(unused(&world.path("none"), now), Vec::<PathBuf>::new());
}

#[test]
fn rules_links_stamps_and_settings_beside_a_script_are_noticed() {
    let world = World::new();
    world.write("project/.ai/tools/one.rb", "# tool one\nputs 1\n");
    world.write(
        "project/.ai/tools/two/tool.json",
        &serde_json::json!({
        "tool_id": "beta", "tool_type": "cli", "version": "1.0.0", "executor": "subprocess",
        "config": {"command": "true"}, "description": "two"})
        .to_string(),
    );
    let mut index = world.kept();
    index.refresh_at(LATER);
    let mut step = |change: &dyn Fn()| {
        tick();
        change();
        index.refresh_at(LATER);
        world.assert_right(&index);
        assert_eq!(index.clone().refresh_at(LATER), index.refresh_at(LATER));
    };
    step(&|| {
        world.write("project/.ai/extractors/ruby.yaml", "extensions: [rb]\ntool_id: {pattern: 'tool (\\w+)'}\ntool_type: {default: script}\nversion: {default: 1.0.0}\ndescription: {pattern: 'about (\\w+)', source: config}\n");
    });
    step(&|| world.write("project/.ai/tools/one.toml", "about deploy\n"));
    step(&|| world.write("project/.ai/tools/one.toml", "about server\n"));
    step(&|| fs::remove_file(world.path("project/.ai/tools/one.toml")).unwrap());
    step(&|| {
        world.write(
            "project/.ai/tools/two/tool.json.sig",
            "kiwi-mcp:validated:2026-01-28T12:00:00Z:00\n",
        );
    });
    step(&|| {
        world.write(
            "project/.ai/tools/two/tool.yaml",
            &tool("gamma", "x", "in its place", ""),
        );
    });
    step(&|| fs::remove_file(world.path("project/.ai/tools/two/tool.yaml")).unwrap());
    step(&|| {
        symlink(
            world.path("project/.ai/tools/two"),
            world.path("project/.ai/tools/three"),
        )
        .unwrap();
    });
    world.write("project/elsewhere.md", &note("deploy", "one"));
    fs::create_dir_all(world.path("project/.ai/knowledge")).unwrap();
    step(&|| {
        symlink(
            "../../elsewhere.md",
            world.path("project/.ai/knowledge/link.md"),
        )
        .unwrap();
    });
    step(&|| world.write("project/elsewhere.md", &note("deploy", "two")));
    step(&|| world.write("project/.ai/tools/silent.py", "print(1)\n"));
    step(&|| {
        world.write("project/.ai/tools/starter.yaml", "tool_id: starter\ntool_type: python\nversion: 1.0.0\nexecutor: python_runtime\nconfig: {entrypoint: silent.py}\n");
    });
    step(&|| fs::remove_dir_all(world.path("project/.ai")).unwrap());
    step(&|| world.write("project/.ai/scripts/old.py", "print(1)\n"));
}

/// A tool in JSON and a stamp for it.
fn stamped(id: &str, hash: impl FnOnce(&str) -> String) -> (String, String) {
    let manifest = serde_json::json!({
        "tool_id": id, "tool_type": "cli", "version": "1.0.0", "executor": "subprocess",
        "config": {"command": "true"}, "description": "stamped"})
    .to_string();
    let stamp = format!(
        "kiwi-mcp:validated:2020-02-02T00:00:00Z:{}\n",
        hash(&manifest)
    );
    (manifest, stamp)
}

fn sha256(text: &str) -> String {
    crate::encoding::hex(&<sha2::Sha256 as sha2::Digest>::digest(text))
}

#[test]
fn a_stamp_that_comes_to_be_beside_a_file_is_noticed() {
    let world = World::new();
    let (manifest, stamp) = stamped("alpha", sha256);
    world.write("project/.ai/tools/a.json", &manifest);
    let (beside, folder) = (
        "project/.ai/tools/a.json.sig",
        world.path("project/.ai/tools"),
    );
    let mut index = world.kept();
    index.refresh_at(LATER);
    let date = |index: &SearchIndex| {
        index.search(&query("alpha")).results[0]
            .date
            .unwrap()
            .to_string()
    };
    let unstamped = date(&index);
    let mut step = |change: &dyn Fn(), is_stamped: bool| {
        assert_eq!(index.refresh_at(LATER), Freshness::Unchanged);
        tick();
        change();
        assert_eq!(index.refresh_at(LATER), Freshness::Renewed);
        world.assert_right(&index);
        assert_eq!(date(&index) == "2020-02-02T00:00:00Z", is_stamped);
    };
    step(&|| world.write(beside, &stamp), true);
    step(
        &|| world.write(beside, &stamp.replace("2020", "2021").replace(':', ";")),
        false,
    );
    step(&|| fs::remove_file(world.path(beside)).unwrap(), false);
    // First under another name, and with the folder's old time.
    let before = fs::metadata(&folder).unwrap().modified().unwrap();
    let rename = || {
        world.write("project/.ai/draft", &stamp);
        fs::rename(world.path("project/.ai/draft"), world.path(beside)).unwrap();
        fs::File::open(&folder)
            .unwrap()
            .set_modified(before)
            .unwrap();
    };
    step(&rename, true);
    step(&|| fs::remove_file(world.path(beside)).unwrap(), false);
    assert_eq!(date(&index), unstamped);
}

#[test]
fn a_stamp_in_the_folder_of_a_tool_is_noticed_though_the_folder_above_is_unchanged() {
    let world = World::new();
    let folder = world.path("project/.ai/tools/a");
    let (manifest, _) = stamped("alpha", sha256);
    world.write("project/.ai/tools/a/tool.json", &manifest);
    let hash =
        crate::item::signature::folder_hash(&folder, &folder.join("tool.json"), &manifest).unwrap();
    let mut index = world.kept();
    index.refresh_at(LATER);
    assert_eq!(index.refresh_at(LATER), Freshness::Unchanged);
    tick();
    world.write(
        "project/.ai/tools/a/tool.json.sig",
        &stamped("alpha", |_| hash).1,
    );
    assert_eq!(index.refresh_at(LATER), Freshness::Renewed);
    world.assert_right(&index);
}

#[test]
fn a_link_to_a_stamp_that_is_not_there_is_followed_when_it_comes_to_be() {
    let world = World::new();
    let (manifest, stamp) = stamped("alpha", sha256);
    world.write("project/.ai/tools/a.json", &manifest);
    symlink(
        "../../later.sig",
        world.path("project/.ai/tools/a.json.sig"),
    )
    .unwrap();
    let mut index = world.kept();
    index.refresh_at(LATER);
    world.assert_right(&index);
    tick();
    world.write("project/later.sig", &stamp);
    assert_eq!(index.refresh_at(LATER), Freshness::Renewed);
    world.assert_right(&index);
}

#[test]
fn a_file_without_an_ending_is_noticed_when_it_becomes_a_script() {
    let world = World::new();
    let script = "#!/usr/bin/env python3\n\"\"\"\ntool_id: alpha\ntool_type: script\nversion: 1.0.0\nexecutor: python_runtime\n\"\"\"\n";
    world.write("project/.ai/tools/alpha", &script.replace("#!", "##"));
    let mut index = world.kept();
    index.refresh_at(LATER);
    assert_eq!(index.search(&query("alpha")).total, 0);
    for (text, total) in [(script.to_owned(), 1), (script.replace("#!", "##"), 0)] {
        tick();
        world.write("project/.ai/tools/alpha", &text);
        assert_eq!(index.refresh_at(LATER), Freshness::Renewed);
        world.assert_right(&index);
        assert_eq!(index.search(&query("alpha")).total, total);
    }
}

#[test]
fn the_stamp_of_a_folder_depends_on_every_file_in_it() {
    let world = World::new();
    let manifest = tool("alpha", "x", "first", "");
    world.write("project/.ai/tools/a/run.sh", "echo 1\n");
    world.write("project/.ai/tools/a/tool.yaml", &manifest);
    let folder = world.path("project/.ai/tools/a");
    let hash =
        crate::item::signature::folder_hash(&folder, &folder.join("tool.yaml"), &manifest).unwrap();
    world.write(
        "project/.ai/tools/a/tool.yaml",
        &format!("# kiwi-mcp:validated:2020-02-02T00:00:00Z:{hash}\n{manifest}"),
    );
    let mut index = world.kept();
    index.refresh_at(LATER);
    let date = |index: &SearchIndex| {
        index.search(&query("alpha")).results[0]
            .date
            .unwrap()
            .to_string()
    };
    assert_eq!(date(&index), "2020-02-02T00:00:00Z");
    for change in ["echo 2\n", "echo 1\n"] {
        tick();
        world.write("project/.ai/tools/a/run.sh", change);
        index.refresh_at(LATER);
        world.assert_right(&index);
    }
    assert_eq!(date(&index), "2020-02-02T00:00:00Z");
    tick();
    world.write("project/.ai/tools/a/deep/er.txt", "new");
    index.refresh_at(LATER);
    world.assert_right(&index);
    assert_ne!(date(&index), "2020-02-02T00:00:00Z");
}

#[test]
fn a_folder_that_cannot_be_read_is_passed_over_until_it_can() {
    let world = World::new();
    world.write("project/.ai/knowledge/open/a.md", &note("alpha", "one"));
    world.write("project/.ai/knowledge/closed/b.md", &note("beta", "two"));
    let closed = world.path("project/.ai/knowledge/closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o0)).unwrap();
    let mut index = world.kept();
    world.assert_right(&index);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
    index.refresh_at(LATER);
    world.assert_right(&index);
    assert_eq!(index.search(&query("beta")).total, 1);
}

/// A change of a tree.
#[derive(Clone, Debug)]
enum Edit {
    Write(usize, usize),
    Remove(usize),
    Rename(usize, usize),
    Touch(usize),
    Break(usize),
    Reopen,
    Spoil,
}

const PLACES: [&str; 8] = [
    "project/.ai/tools/a.yaml",
    "project/.ai/tools/ops/b.yaml",
    "project/.ai/tools/folder/tool.yaml",
    "project/.ai/tools/folder/tool.yml",
    "project/.ai/knowledge/c.md",
    "project/.ai/knowledge/deep/er/d.md",
    "home/.ai/knowledge/e.md",
    "home/.ai/tools/f.yaml",
];

fn text(place: usize, variant: usize) -> String {
    let id = ["alpha", "beta", "gamma", "deploy", "serve"][variant % 5];
    let words = [
        "deploy server",
        "server deploy",
        "alpha gamma",
        "entry beta.",
    ][variant % 4];
    if PLACES[place].ends_with("md") {
        note(id, words)
    } else {
        tool(id, "ops", words, "one")
    }
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let place = 0..PLACES.len();
    let edit = prop_oneof![
        4 => (place.clone(), 0..20_usize).prop_map(|(place, variant)| Edit::Write(place, variant)),
        1 => place.clone().prop_map(Edit::Remove),
        1 => (place.clone(), place.clone()).prop_map(|(from, to)| Edit::Rename(from, to)),
        1 => place.clone().prop_map(Edit::Touch),
        1 => place.prop_map(Edit::Break),
        1 => Just(Edit::Reopen),
        1 => Just(Edit::Spoil),
    ];
    prop::collection::vec(edit, 1..12)
}

fn carry_out(world: &World, edit: &Edit) {
    let path = |place: usize| world.path(PLACES[place]);
    match edit {
        Edit::Write(place, variant) => world.write(PLACES[*place], &text(*place, *variant)),
        Edit::Remove(place) => drop(fs::remove_file(path(*place))),
        Edit::Rename(from, to) => {
            fs::create_dir_all(path(*to).parent().unwrap()).unwrap();
            drop(fs::rename(path(*from), path(*to)));
        }
        Edit::Touch(place) => {
            let file = fs::File::options().append(true).open(path(*place));
            drop(
                file.map(|file| file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(9))),
            );
        }
        Edit::Break(place) => world.write(PLACES[*place], "tool_id: [\n"),
        Edit::Reopen => {}
        Edit::Spoil => world
            .files()
            .iter()
            .for_each(|file| fs::write(file, "spoiled").unwrap()),
    }
}

proptest! {
    #![proptest_config(Config { cases: 24, ..Config::default() })]

    #[test]
    fn an_index_that_was_kept_answers_as_one_that_was_not(edits in edits()) {
        let world = World::new();
        let mut index = world.kept();
        for edit in &edits {
            carry_out(&world, edit);
            if matches!(edit, Edit::Reopen | Edit::Spoil) {
                index = world.kept();
            } else {
                index.refresh();
            }
            let (kept, fresh) = world.answers(&index);
            prop_assert_eq!(kept, fresh);
        }
    }

    #[test]
    fn trusting_old_files_is_right_as_long_as_the_clock_continues(edits in edits()) {
        let world = World::new();
        let mut index = world.kept();
        for edit in &edits {
            carry_out(&world, edit);
            index.refresh_at(LATER);
            let (kept, fresh) = world.answers(&index);
            prop_assert_eq!(kept, fresh);
            let second = index.refresh_at(LATER);
            // Only what can never be proven is examined again.
            prop_assert_eq!(second, Freshness::Unchanged);
            tick();
        }
    }
}
