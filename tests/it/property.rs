//! Properties of the checkpoint engine on random trees, compared with the real git.
//!
//! A case is three lists of [`Action`]s: what is committed, what the user then does without
//! committing it, and what the step does. An impossible action does nothing, so every list is valid
//! and shrinks freely.

#[path = "property/concurrent_user.rs"]
mod concurrent_user;
#[path = "property/git_life.rs"]
mod git_life;
#[path = "property/world.rs"]
mod world;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use world::{Action, Content, Name, Rule, Target, World};

/// Enough for a check of each change; `PROPTEST_CASES` sets another number.
fn cases(number: u32) -> ProptestConfig {
    let asked = ProptestConfig::default();
    #[expect(
        clippy::disallowed_methods,
        reason = "whether a number of cases was asked for"
    )]
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() {
        asked.cases
    } else {
        number
    };
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..asked
    }
}

fn name() -> impl Strategy<Value = Name> {
    let names: [&[u8]; 9] = [
        b"a",
        b"b",
        b"c.o",
        b"-dash",
        b"sp ace",
        b"new\nline",
        "\u{fc}".as_bytes(),
        b"bad\xff",
        b".dot",
    ];
    prop::sample::select(names.to_vec()).prop_map(|name| Name(name.to_vec()))
}

fn path() -> impl Strategy<Value = Vec<Name>> {
    vec(name(), 1..=3)
}

fn content() -> impl Strategy<Value = Content> {
    prop::sample::select(vec![
        Content(String::new()),
        Content("one\n".into()),
        Content("two\n".into()),
        Content("a\r\nb\r\n".into()),
        Content("mixed\r\nends\n".into()),
        Content("no end".into()),
        Content("zero\0byte\n".into()),
    ])
}

/// No link to itself: git does not see that a folder is gone if such a link replaces it.
fn target() -> impl Strategy<Value = Target> {
    prop::sample::select(vec![
        Target("nowhere"),
        Target("../outside"),
        Target("../outside/file"),
        Target("../a"),
        Target("."),
    ])
}

/// Changes of files.
fn file_action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => (path(), content()).prop_map(|(path, content)| Action::Write(path, content)),
        2 => path().prop_map(Action::Flip),
        1 => (path(), target()).prop_map(|(path, target)| Action::Link(path, target)),
        2 => (path(), prop::sample::select(vec![0o644, 0o755, 0o600, 0o700, 0o640])).prop_map(|(path, mode)| Action::Mode(path, mode)),
        2 => path().prop_map(Action::Remove),
        1 => path().prop_map(Action::MakeFolder),
        2 => (path(), path()).prop_map(|(from, to)| Action::Rename(from, to)),
    ]
}

/// Changes of ignore rules.
fn rule_action() -> impl Strategy<Value = Action> {
    let rule = prop::sample::select(vec![
        Rule("*.o\n"),
        Rule("*.o\n!c.o\n"),
        Rule("b/\n"),
        Rule("!*\n"),
        Rule("/a\n"),
        Rule(""),
    ]);
    (vec(name(), 0..=2), rule).prop_map(|(folder, rule)| Action::Ignore(folder, rule))
}

/// Changes of the index.
fn index_action() -> impl Strategy<Value = Action> {
    prop_oneof![
        3 => path().prop_map(Action::Stage),
        1 => path().prop_map(Action::Unstage),
        1 => path().prop_map(Action::Announce),
    ]
}

fn files_and_rules(size: usize) -> impl Strategy<Value = Vec<Action>> {
    vec(prop_oneof![9 => file_action(), 1 => rule_action()], 0..size)
}

/// The initial state, with or without conversion of line ends.
fn start(rules: impl Strategy<Value = Vec<Action>>) -> impl Strategy<Value = Vec<Action>> {
    (prop::bool::weighted(0.3), rules).prop_map(|(converts, mut actions)| {
        if converts {
            actions.push(Action::Convert);
        }
        actions
    })
}

fn anything(size: usize) -> impl Strategy<Value = Vec<Action>> {
    vec(
        prop_oneof![8 => file_action(), 1 => rule_action(), 4 => index_action()],
        0..size,
    )
}

#[test]
fn a_file_is_not_restored_where_ignored_files_are_by_now() {
    let world = World::new();
    let file = |path: &[&str]| {
        path.iter()
            .map(|name| Name(name.as_bytes().to_vec()))
            .collect::<Vec<_>>()
    };
    let write = |path: &[&str]| Action::Write(file(path), Content("one\n".into()));
    world.commit_all(&[
        Action::Ignore(Vec::new(), Rule("*.o\n")),
        write(&["a"]),
        write(&["b"]),
    ]);
    let mut engine = world.engine();
    let before = engine.before().expect("a snapshot");
    world.act(&[write(&["a", "c.o"]), Action::Remove(file(&["b"]))]);
    let picture = world.picture();
    let after = engine.after(&before).expect("a snapshot");
    let delta = engine.delta(&before, &after).expect("a delta");
    let report = engine.roll_back(&before, &delta).expect("a roll back");
    assert_eq!(report.kept, ["a".into()]);
    assert_eq!(report.restored, ["b".into()]);
    assert_eq!(
        picture.difference(&world.picture()).lines().next(),
        Some("`b`: expected None, found Some(\"644 \\\"one\\\\n\\\"\")")
    );
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn a_step_that_is_rolled_back_leaves_no_trace(
        committed in start(files_and_rules(14)),
        users in anything(8),
        step in anything(10),
    ) {
        roll_back(&committed, &users, &step)?;
    }

    #[test]
    fn on_a_clean_tree_the_commit_is_the_one_git_makes(committed in start(files_and_rules(14)), step in files_and_rules(10)) {
        commit_clean(&committed, &step)?;
    }

    #[test]
    fn a_commit_holds_nothing_of_the_users(
        committed in start(vec(file_action(), 0..14)),
        users in vec(prop_oneof![2 => file_action(), 1 => index_action()], 0..8),
        step in vec(file_action(), 0..10),
    ) {
        commit_beside_users_work(&committed, &users, &step)?;
    }

    #[test]
    fn two_snapshots_of_the_same_tree_are_equal_and_the_second_stores_nothing(
        committed in start(files_and_rules(14)),
        users in anything(8),
    ) {
        snapshot_twice(&committed, &users)?;
    }

    #[test]
    fn a_snapshot_sees_every_edit_however_soon_it_comes(
        committed in vec(file_action(), 0..10),
        rounds in vec(vec(prop_oneof![1 => file_action(), 2 => path().prop_map(Action::Flip)], 0..4), 1..5),
    ) {
        snapshot_between_edits(&committed, &rounds)?;
    }
}

fn roll_back(committed: &[Action], users: &[Action], step: &[Action]) -> TestCaseResult {
    let world = World::new();
    world.commit_all(committed);
    world.act(users);
    let mut engine = world.engine();
    let before = engine.before().expect("a snapshot");
    let (picture, ignored) = (world.picture(), world.ignored());
    // By design, changes of ignored files cannot be undone, so the step does not touch them here.
    let step: Vec<Action> = step
        .iter()
        .filter(|action| !action.touches(&ignored))
        .cloned()
        .collect();
    world.act(&step);
    let after = engine.after(&before).expect("a snapshot");
    let delta = engine.delta(&before, &after).expect("a delta");
    let report = engine.roll_back(&before, &delta).expect("a roll back");
    let mut found = world.picture();
    let extras = world.newly_ignored(&picture, &found);
    // A file that the old rules ignore may block the restore.
    prop_assume!(extras.is_empty() || report.kept.is_empty());
    found.forget(&extras);
    prop_assert_eq!(&report.kept, &Vec::new(), "kept, of {:?}", delta);
    prop_assert!(
        found == picture,
        "{}\ndelta: {delta:#?}",
        picture.difference(&found)
    );
    Ok(())
}

fn commit_clean(committed: &[Action], step: &[Action]) -> TestCaseResult {
    let world = World::new();
    world.commit_all(committed);
    let pristine = world.copy("pristine");
    let mut engine = world.engine();
    let before = engine.before().expect("a snapshot");
    let copy = world.copy("copy");
    world.act(step);
    copy.act(step);
    world::commit_step(&mut engine, &before)?;
    copy.git(&["add", "--all"]);
    copy.git(&["commit", "--quiet", "--allow-empty", "--message", "step"]);
    let (ours, theirs) = (world.committed_files(), copy.committed_files());
    // Files that were ignored before the step and no longer are stay out. libgit2 does not convert
    // a file that replaces a staged link; git does.
    let differing: Vec<&Name> = ours.symmetric_difference(&theirs).collect();
    let unexpected: Vec<&&Name> = differing
        .iter()
        .filter(|line| !pristine.ignores_file_of(line) && !pristine.has_converted_link(line))
        .collect();
    prop_assert!(
        unexpected.is_empty(),
        "the commits differ: {unexpected:#?}\nours {ours:#?}\ngit's {theirs:#?}"
    );
    if differing.is_empty() {
        prop_assert_eq!(world.status(), copy.status());
    }
    Ok(())
}

fn commit_beside_users_work(
    committed: &[Action],
    users: &[Action],
    step: &[Action],
) -> TestCaseResult {
    let world = World::new();
    let inside = |side: &'static str, actions: &[Action]| -> Vec<Action> {
        actions.iter().map(|action| action.below(side)).collect()
    };
    world.commit_all(&[inside("mine", committed), inside("step", committed)].concat());
    world.act(&inside("mine", users));
    let mut engine = world.engine();
    let before = engine.before().expect("a snapshot");
    let picture = world.picture_below("mine");
    world.act(&inside("step", step));
    let pending = world.pending("step");
    world::commit_step(&mut engine, &before)?;
    let found = world.picture_below("mine");
    prop_assert!(found == picture, "{}", picture.difference(&found));
    prop_assert!(
        world.pending("step").is_empty(),
        "left of the step's: {:?}",
        world.pending("step")
    );
    prop_assert_eq!(world.files_since_start(), pending);
    Ok(())
}

fn snapshot_twice(committed: &[Action], users: &[Action]) -> TestCaseResult {
    let world = World::new();
    world.commit_all(committed);
    let stored = world.objects();
    world.engine().before().expect("a snapshot");
    if world.status().is_empty() && !world.converts() {
        prop_assert_eq!(
            world.objects(),
            stored,
            "a snapshot of a clean tree stored something"
        );
    }
    world.act(users);
    let mut engine = world.engine();
    let first = engine.before().expect("a snapshot");
    let stored = world.objects();
    prop_assert_eq!(&engine.before().expect("a snapshot"), &first);
    prop_assert_eq!(&world.engine().before().expect("a snapshot"), &first);
    prop_assert_eq!(
        world.objects(),
        stored,
        "the second snapshot stored something"
    );
    Ok(())
}

fn snapshot_between_edits(committed: &[Action], rounds: &[Vec<Action>]) -> TestCaseResult {
    let world = World::new();
    world.commit_all(committed);
    let mut engine = world.engine();
    for round in rounds {
        world.act(round);
        let snapshot = engine.before().expect("a snapshot");
        prop_assert_eq!(snapshot.tree.to_string(), world.tree_by_git());
    }
    Ok(())
}
