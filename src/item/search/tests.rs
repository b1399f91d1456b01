use std::fs;
use std::path::Path;

use super::*;
use crate::item::finding::Strength;
use crate::item::store::Roots;

fn store(files: &[(&str, &str)]) -> (tempfile::TempDir, ItemStore) {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let file = root.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    let project = |name: &str| Some(root.path().join(name)).filter(|path| Path::new(path).exists());
    let roots = Roots {
        project: project("project"),
        user: project("home"),
    };
    let store = ItemStore::open(roots, Strength::Lenient);
    (root, store)
}

fn tool(id: &str, category: &str, description: &str, tags: &str) -> String {
    format!(
        "tool_id: {id}\ntool_type: bash\nversion: \"1.0.0\"\ncategory: {category}\ndescription: {description}\n\
         executor: bash_runtime\nconfig: {{entrypoint: run.sh}}\ntags: [{tags}]\n"
    )
}

fn example() -> (tempfile::TempDir, ItemStore) {
    store(&[
        (
            "project/.ai/tools/a.yaml",
            &tool("deploy_app", "ops", "Bring the app to a server", "release"),
        ),
        (
            "project/.ai/tools/b.yaml",
            &tool("rollOut", "ops/web", "Deploy slowly", ""),
        ),
        (
            "project/.ai/tools/c.yaml",
            &tool("cook", "kitchen", "Make soup", "deploy"),
        ),
        (
            "home/.ai/tools/d.yaml",
            &tool("deploy_app", "ops", "Mine", ""),
        ),
        (
            "project/.ai/knowledge/k.md",
            "---\nid: k\ntitle: How we deploy\nversion: 1.0.0\nentry_type: reference\ncategory: ops\ntags: []\n---\nText\n",
        ),
    ])
}

fn found(store: &ItemStore, query: &Query) -> Vec<String> {
    let listed = |hit: &Hit| format!("{} {}", hit.source, hit.name);
    search(store, query).results.iter().map(listed).collect()
}

fn query(text: &str) -> Query {
    Query {
        text: text.to_owned(),
        ..Query::default()
    }
}

#[test]
fn an_id_says_more_than_a_tag_and_a_tag_more_than_a_description() {
    let (_root, store) = example();
    assert_eq!(
        found(&store, &query("deploy")),
        [
            "project deploy_app",
            "user deploy_app",
            "project cook",
            "project k",
            "project rollOut"
        ]
    );
    let exact = search(&store, &query("deploy_app"));
    assert_eq!(
        exact
            .results
            .iter()
            .map(|hit| hit.score >= 1.0)
            .collect::<Vec<_>>(),
        [true, true, false, false, false]
    );
    assert_eq!(found(&store, &query("deploy_app"))[0], "project deploy_app");
    assert_eq!(
        found(&store, &query("ops/deploy_app"))[0],
        "project deploy_app"
    );
    assert_eq!(found(&store, &query("roll")), ["project rollOut"]);
    assert_eq!(
        found(&store, &query("zebra crossing")),
        Vec::<String>::new()
    );
    assert_eq!(found(&store, &query("!?")), Vec::<String>::new());
    assert_eq!(found(&store, &query(" ")).len(), 5);
}

#[test]
fn filters_leave_items_out_and_the_total_counts_what_the_limit_hides() {
    let (_root, store) = example();
    let only = |query: Query| found(&store, &query);
    assert_eq!(
        only(Query {
            kind: Some(ItemKind::Knowledge),
            ..query("deploy")
        }),
        ["project k"]
    );
    assert_eq!(
        only(Query {
            tags: vec!["release".to_owned()],
            ..query("deploy")
        }),
        ["project deploy_app"]
    );
    assert_eq!(
        only(Query {
            category: Some("ops/web".to_owned()),
            ..query("deploy")
        }),
        ["project rollOut"]
    );
    assert_eq!(
        only(Query {
            scope: SearchScope::Only(Layer::User),
            ..query("deploy")
        }),
        ["user deploy_app"]
    );
    let limited = search(
        &store,
        &Query {
            limit: Some(1),
            order: SearchOrder::Name,
            ..query("deploy")
        },
    );
    assert_eq!((limited.results.len(), limited.total), (1, 5));
    assert_eq!(limited.results[0].name, "cook");
}

#[test]
fn built_in_items_are_found_when_all_are_asked_for() {
    let (_root, store) = example();
    assert_eq!(
        found(&store, &query("git_checkpoint")),
        Vec::<String>::new()
    );
    let all = search(
        &store,
        &Query {
            scope: SearchScope::All,
            ..query("git_checkpoint")
        },
    );
    let first = serde_json::to_value(&all).unwrap();
    assert_eq!(
        (
            &first["results"][0]["name"],
            &first["results"][0]["source"],
            &first["source"]
        ),
        (&"git_checkpoint".into(), &"builtin".into(), &"all".into())
    );
    assert_eq!(first["results"][0]["tool_type"], serde_json::Value::Null);
}

#[test]
fn scores_lie_between_nothing_and_one_for_any_query() {
    let (_root, store) = example();
    for text in [
        "deploy deploy app ops",
        "a",
        "dep",
        "app server soup deploy",
        &"x ".repeat(5_000),
        "\u{0}\u{202e}ü",
    ] {
        let all = search(
            &store,
            &Query {
                scope: SearchScope::All,
                limit: Some(1_000),
                ..query(text)
            },
        );
        assert!(
            all.results
                .iter()
                .all(|hit| hit.score > 0.0 && hit.score <= 1.0),
            "{text}"
        );
        assert_eq!(
            all,
            search(
                &store,
                &Query {
                    scope: SearchScope::All,
                    limit: Some(1_000),
                    ..query(text)
                }
            )
        );
    }
}

mod cache;
mod ranking;
