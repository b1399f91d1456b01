//! The ranking on a company's repository of two hundred items: `company.txt`.

use std::fmt::Write as _;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::test_runner::Config;

use super::*;
use crate::item::search::document::Document;
use crate::item::search::image::{Facts, SearchImage};
use crate::item::search::ranking;
use crate::item::search::ranking::rarity;

/// The items of the table as files: path and text.
fn files(table: &str) -> Vec<(String, String)> {
    table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(|line| {
            let cells: Vec<&str> = line.split(" | ").collect();
            let [spelling, category, id, tags, about, text @ ..] = cells.as_slice() else {
                panic!("{line}")
            };
            let (tags, about) = (tags.trim_matches('-'), about.trim_matches('-'));
            let (layer, spelling) = spelling
                .strip_prefix('~')
                .map_or(("project", *spelling), |rest| ("home", rest));
            item(
                spelling,
                category,
                id,
                tags,
                about,
                text.first().unwrap_or(&""),
            )
            .into_iter()
            .map(move |(path, text)| (format!("{layer}/.ai/{path}"), text))
        })
        .collect()
}

fn item(
    spelling: &str,
    category: &str,
    id: &str,
    tags: &str,
    about: &str,
    text: &str,
) -> Vec<(String, String)> {
    let manifest = format!(
        "tool_id: {id}\ntool_type: bash\nversion: 1.0.0\ncategory: {category}\ndescription: \"{about}\"\ntags: [{tags}]\n\
         executor: bash_runtime\nconfig: {{entrypoint: run.sh}}\n"
    );
    match spelling {
        "yaml" => vec![(format!("tools/{category}/{id}.yaml"), manifest)],
        "folder" => vec![
            (format!("tools/{category}/{id}/tool.yaml"), manifest),
            (
                format!("tools/{category}/{id}/run.sh"),
                "echo done\n".to_owned(),
            ),
        ],
        "python" => vec![(
            format!("tools/{category}/{id}.py"),
            format!(
                "\"\"\"\ntool_id: {id}\ntool_type: python\nversion: 1.0.0\ncategory: {category}\ndescription: \"{about}\"\n\
                 tags: [{tags}]\nexecutor: python_runtime\n\"\"\"\n\ndef main():\n    return 1\n"
            ),
        )],
        "json" => {
            let tags: Vec<&str> = tags.split(", ").collect();
            let tool = serde_json::json!({
                "tool_id": id, "tool_type": "cli", "version": "1.0.0", "category": category, "description": about,
                "tags": tags, "executor": "subprocess", "config": {"command": "true"},
                "inputs": {"type": "object", "properties": {}},
            });
            vec![(format!("tools/{category}/{id}.json"), tool.to_string())]
        }
        "root" => vec![(
            format!("tools/{category}/{id}.yaml"),
            format!(
                "tool:\n  schema_version: \"1.0\"\n  id: {id}\n  type: cli\n  name: {id}\n  version: 1.0.0\n  description: {about}\n\
                 \x20 tags: [{tags}]\n"
            ),
        )],
        "script" => vec![(
            format!("scripts/{category}/{id}.py"),
            "print('done')\n".to_owned(),
        )],
        "directive" => {
            let mut steps = String::new();
            for (number, step) in (1..).zip(text.split(", ")) {
                write!(
                    steps,
                    "<step name=\"x{number}\"><action>{step}</action></step>"
                )
                .unwrap();
            }
            let tags = tags.replace(", ", "</tag><tag>");
            vec![(
                format!("directives/{category}/{id}.md"),
                format!(
                    "# {id}\n\n```xml\n<directive name=\"{id}\" version=\"1.0.0\"><metadata><description>{about}</description>\
                     <category>{category}</category><author>me</author><tags><tag>{tags}</tag></tags></metadata>\
                     <process>{steps}</process></directive>\n```\n"
                ),
            )]
        }
        "knowledge" => vec![(
            format!("knowledge/{category}/{id}.md"),
            format!(
                "---\nid: {id}\ntitle: {about}\nversion: 1.0.0\nentry_type: reference\ncategory: {category}\ntags: [{tags}]\n---\n{text}\n"
            ),
        )],
        other => panic!("{other}"),
    }
}

/// The documents of the company and the built-in ones.
static COMPANY: LazyLock<Vec<Document>> = LazyLock::new(|| {
    let files = files(include_str!("company.txt"));
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let (_root, store) = super::store(&files);
    let broken: Vec<_> = store.broken().collect();
    assert!(broken.is_empty(), "{broken:?}");
    store
        .items()
        .iter()
        .map(|item| Document::of(item, store.roots()))
        .collect()
});

fn image(documents: &[Document]) -> SearchImage {
    SearchImage::build(Facts::default(), documents, &[])
}

fn asked(query: &Query) -> Vec<String> {
    ranking::search(&image(&COMPANY), query)
        .results
        .iter()
        .map(|hit| hit.name.clone())
        .collect()
}

fn best(text: &str, count: usize) -> Vec<String> {
    asked(&Query {
        limit: Some(count),
        ..query(text)
    })
}

#[test]
fn there_are_two_hundred_items() {
    assert_eq!(
        COMPANY
            .iter()
            .filter(|document| document.layer != Layer::Builtin)
            .count(),
        200
    );
}

#[test]
fn names_come_first_in_any_spelling() {
    // Five ids of two words begin with it, all in the category as well: they tie and are sorted by
    // name; longer ids follow.
    assert_eq!(
        best("deploy", 7),
        [
            "Deploy-Preview",
            "deploy_app",
            "deploy_lambda",
            "deploy_windows",
            "deployDocs",
            "deploy_to_production",
            "deployToStaging"
        ]
    );
    // The exact id: the project's, then the user's of the same name, then those with one of the
    // words.
    for text in [
        "deploy_app",
        "deploy app",
        "deployApp",
        "Deploy-App",
        "app deploy",
    ] {
        assert_eq!(
            best(text, 3),
            ["deploy_app", "deploy_app", "rollback_app"],
            "{text}"
        );
    }
    // In one word it is still the id; other ids match only by their prefix.
    assert_eq!(best("deployapp", 2), ["deploy_app", "deploy_app"]);
    assert_eq!(best("DEPLOY DOCS", 1), ["deployDocs"]);
    // The whole id beats a title with the same word.
    assert_eq!(best("coffee", 2), ["coffee", "first_day"]);
    // With its category it is exact as well.
    let exact = ranking::search(&image(&COMPANY), &query("database/db_backup"));
    assert_eq!(
        (
            exact.results[0].name.as_str(),
            exact.results[0].score >= 1.0
        ),
        ("db_backup", true)
    );
    assert!(exact.results[1].score < 1.0);
}

#[test]
fn several_words_are_best_met_together() {
    // Both words in the id; then one in the id, the other in tags or category.
    assert_eq!(
        best("migrate database", 3),
        ["migrate_database", "db_migrate", "migrate_users"]
    );
    // `migration` occurs in one id only; `migrate` is another form of it.
    assert_eq!(
        best("database migration", 3),
        ["migration_pattern", "migrate_database", "db_migrate"]
    );
    assert_eq!(
        best("release notes", 3),
        ["release_notes", "create_release", "my_notes"]
    );
    // The tool that is about both; then the one with both as tags.
    assert_eq!(best("postgres backup", 2), ["db_backup", "db_restore"]);
    assert_eq!(
        best("restore backup", 3),
        ["restore_drill", "db_restore", "backup_policy"]
    );
    assert_eq!(
        best("rotate secrets", 3),
        [
            "rotate_all_secrets",
            "rotate_api_keys",
            "rotate_db_password"
        ]
    );
    // Its tag is github and its id is the rest; the directive has the same words in a longer id.
    assert_eq!(
        best("github pull request", 3),
        [
            "fetch_pull_request",
            "review_pull_request",
            "post_review_comment"
        ]
    );
    assert_eq!(
        best("review pull request", 3),
        [
            "review_pull_request",
            "fetch_pull_request",
            "post_review_comment"
        ]
    );
    assert_eq!(best("k8s logs", 2), ["k8s_logs", "collect_logs"]);
    assert_eq!(
        best("certificates expire", 2),
        ["rotate_certificates", "check_tls"]
    );
    // `churn` is rarer than `model` but occurs in descriptions; an id with one of them counts most.
    assert_eq!(
        best("churn model", 3),
        ["train_model", "retrain_model", "churn_definition"]
    );
    // A word that no item has lowers all scores and keeps the order.
    assert_eq!(best("zzz deploy", 7), best("deploy", 7));
}

#[test]
fn beginnings_and_slips_are_found() {
    // By how much of the word matches, then by the id.
    assert_eq!(
        best("mig", 4),
        [
            "db_migrate",
            "migrate_database",
            "migrate_users",
            "migration_pattern"
        ]
    );
    // The word itself, its plural as a beginning, then other words that begin with it.
    assert_eq!(
        best("test", 5),
        [
            "alert_test",
            "run_tests",
            "write_tests",
            "find_flaky_tests",
            "testing_pyramid"
        ]
    );
    assert_eq!(best("onboard", 2), ["onboard_customer", "onboard_engineer"]);
    for slip in ["databse", "datbase", "dtaabase", "databasse"] {
        assert_eq!(best(slip, 1), ["migrate_database"], "{slip}");
    }
    assert_eq!(best("kuberentes", 1), ["kubernetes_basics"]);
    assert_eq!(best("postmrotem", 1), ["write_postmortem"]);
    assert_eq!(
        best("terrafrom", 3),
        ["terraform_apply", "terraform_plan", "terraform_style"]
    );
    // A typo counts less than the word: `preview` itself before all `review`s.
    assert_eq!(best("preview", 2), ["Deploy-Preview", "review_guidelines"]);
    // A word inside words is found, below a typo.
    let inside = best("ploy", 9);
    assert_eq!(inside[0], "play_store_listing");
    assert!(inside.contains(&"deploy_app".to_owned()), "{inside:?}");
}

#[test]
fn tags_titles_categories_and_texts_are_found() {
    assert_eq!(
        best("postmortem", 3),
        [
            "write_postmortem",
            "postmortem_2024_outage",
            "incidentTimeline"
        ]
    );
    assert_eq!(
        best("oncall", 3),
        ["oncall_handbook", "page_oncall", "handle_incident"]
    );
    assert_eq!(
        best("kubernetes", 2),
        ["kubernetes_basics", "blue_green_switch"]
    );
    assert_eq!(
        best("translation", 3),
        ["i18n_extract", "add_language", "i18n_import"]
    );
    // Only in bodies: of a directive's steps and of knowledge.
    assert_eq!(best("crypto shredding", 1), ["gdpr_delete"]);
    assert_eq!(best("PKCE", 1), ["oauth_flow"]);
    assert_eq!(
        best("laptop", 3),
        ["order_laptop", "first_day", "onboard_engineer"]
    );
    assert_eq!(best("changelog", 1), ["changelogFromCommits"]);
}

#[test]
fn every_script_is_found() {
    for (text, name) in [
        ("ubersetzung prufen", "uebersetzung_pruefen"),
        ("ÜBERSETZUNG", "uebersetzung_pruefen"),
        ("GROSSE", "sprachdateien"),
        ("Gro\u{308}ße", "sprachdateien"),
        ("cafe", "cantine_menu"),
        ("РАЗВЕРТЫВАНИЕ", "razvertyvanie"),
        ("移行", "data_ikou"),
        ("ﾃﾞｰﾀ", "data_ikou"),
        ("部署", "bushu_yingyong"),
    ] {
        assert_eq!(best(text, 1), [name], "{text}");
    }
}

/// What developers type, and the expected result; written down before it was tried.
const QUESTIONS: [(&str, &str); 13] = [
    ("backup database", "db_backup"),
    ("new employee laptop", "order_laptop"),
    ("certificates expire soon", "check_tls"),
    ("wake the on call engineer", "page_oncall"),
    ("undo bad deploy", "emergency_rollback"),
    ("write changelog", "changelogFromCommits"),
    ("find unused code", "dead_code"),
    ("gdpr delete user data", "gdpr_delete"),
    ("terafrom plan", "terraform_plan"),
    ("rotate secrets after a leak", "rotate_all_secrets"),
    ("kube logs", "k8s_logs"),
    ("flaky test", "find_flaky_tests"),
    ("how do we name tables", "naming_tables"),
];

/// The expected item is second: another item has as many of the words in its id. Only the meaning
/// distinguishes them.
const NEARLY: [(&str, [&str; 2]); 2] = [
    ("send slack message", ["send_mail", "slack_post"]),
    (
        "pull request comment",
        ["fetch_pull_request", "post_review_comment"],
    ),
];

#[test]
fn what_developers_type_finds_what_they_mean() {
    let found: Vec<(&str, String)> = QUESTIONS
        .iter()
        .map(|(text, _)| (*text, best(text, 1).remove(0)))
        .collect();
    let wanted: Vec<(&str, String)> = QUESTIONS
        .iter()
        .map(|(text, name)| (*text, (*name).to_owned()))
        .collect();
    assert_eq!(found, wanted);
    for (text, names) in NEARLY {
        assert_eq!(best(text, 2), names, "{text}");
    }
}

#[test]
fn filters_leave_out_what_was_not_asked_for() {
    let of = |change: Query| {
        asked(&Query {
            limit: Some(3),
            ..change
        })
    };
    assert_eq!(
        of(Query {
            kind: Some(ItemKind::Directive),
            ..query("deploy")
        }),
        [
            "deploy_to_production",
            "deployToStaging",
            "emergency_rollback"
        ]
    );
    assert_eq!(
        of(Query {
            kind: Some(ItemKind::Knowledge),
            ..query("deploy")
        })[0],
        "deploy_windows"
    );
    assert_eq!(
        of(Query {
            category: Some("database".to_owned()),
            ..query("deploy")
        }),
        Vec::<String>::new()
    );
    assert_eq!(
        of(Query {
            tags: vec!["backup".to_owned()],
            ..query("postgres")
        }),
        ["db_backup", "db_restore"]
    );
    assert_eq!(
        of(Query {
            tool_type: Some("python".to_owned()),
            ..query("deploy")
        })[0],
        "deploy_lambda"
    );
    assert_eq!(
        of(Query {
            scope: SearchScope::Only(Layer::User),
            ..query("deploy")
        }),
        ["deploy_app", "ideas"]
    );
    assert_eq!(
        of(Query {
            scope: SearchScope::Only(Layer::Builtin),
            ..query("checkpoint")
        })[0],
        "git_checkpoint"
    );
    assert_eq!(
        of(Query {
            order: SearchOrder::Name,
            ..query("release")
        }),
        ["bump_version", "changelogFromCommits", "create_release"]
    );
    assert_eq!(
        of(Query {
            category: Some("mine".to_owned()),
            ..query("")
        }),
        ["coffee", "deploy_app", "ideas"]
    );
}

/// Words of the company; none is a whole id.
const VOCABULARY: [&str; 24] = [
    "deploy",
    "database",
    "release",
    "review",
    "incident",
    "migration",
    "backup",
    "secrets",
    "schema",
    "postgres",
    "tests",
    "github",
    "kubernetes",
    "people",
    "logs",
    "version",
    "model",
    "customers",
    "dep",
    "databse",
    "größe",
    "移行",
    "nothing",
    "qqq",
];

fn some_words() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(VOCABULARY.to_vec()), 1..5)
}

fn everything(text: &str) -> Query {
    Query {
        scope: SearchScope::All,
        limit: Some(1_000),
        ..query(text)
    }
}

/// An item without any word of a query.
fn stranger(number: usize) -> Document {
    let mut terms = crate::item::search::terms::Terms::default();
    for (letters, strength) in [("ĸĸ", 6_900), ("ŋŋ", 8_900), ("ŧŧ", 4_900)] {
        terms.push(&format!("{letters}{number}"), strength);
    }
    Document {
        name: format!("stranger_{number}"),
        path: format!("stranger/{number}"),
        terms,
        ..COMPANY[0].clone()
    }
}

proptest! {
    #![proptest_config(Config { cases: 48, ..Config::default() })]

    #[test]
    fn scores_are_above_nothing_and_at_most_one(text in "\\PC{0,40}|[a-z ]{0,30}|(deploy|app|release|db|_| ){0,9}") {
        let results = ranking::search(&image(&COMPANY), &everything(&text));
        prop_assert!(results.results.iter().all(|hit| hit.score > 0.0 && hit.score <= 1.0));
        for hit in results.results.iter().filter(|hit| hit.score >= 1.0 && !text.trim().is_empty()) {
            let names = [hit.name.clone(), format!("{}/{}", hit.category, hit.name)];
            prop_assert!(names.contains(&text.trim().to_owned()), "{text}");
        }
    }

    #[test]
    fn neither_the_order_of_items_nor_of_words_matters(words in some_words(), turn in 0..200_usize, back in any::<bool>()) {
        let text = words.join(" ");
        let mut other_words = words.clone();
        let turns = turn % words.len();
        other_words.rotate_left(turns);
        let mut documents = COMPANY.clone();
        documents.rotate_left(turn);
        if back {
            documents.reverse();
            other_words.reverse();
        }
        let first = ranking::search(&image(&COMPANY), &everything(&text));
        let mut second = ranking::search(&image(&documents), &everything(&other_words.join(" ")));
        second.query = text;
        prop_assert_eq!(first, second);
    }

    #[test]
    fn another_item_does_not_change_the_score_of_one_word(word in prop::sample::select(VOCABULARY.to_vec()), strangers in 1..60_usize) {
        let mut documents = COMPANY.clone();
        documents.extend((0..strangers).map(stranger));
        let before = ranking::search(&image(&COMPANY), &everything(word));
        prop_assert_eq!(before, ranking::search(&image(&documents), &everything(word)));
    }

    #[test]
    fn another_item_changes_scores_only_through_word_rarity(words in some_words(), strangers in 1..60_usize) {
        let mut words = words;
        words.sort_unstable();
        words.dedup();
        let mut documents = COMPANY.clone();
        documents.extend((0..strangers).map(stranger));
        // The match of each item for each word, and the rarity of the word among more items.
        let alone: Vec<Results> = words.iter().map(|word| ranking::search(&image(&COMPANY), &everything(word))).collect();
        let weights: Vec<f64> = alone.iter().map(|results| rarity(documents.len(), results.total)).collect();
        let whole: f64 = weights.iter().sum();
        let together = ranking::search(&image(&documents), &everything(&words.join(" ")));
        for hit in &together.results {
            let of = |results: &Results| {
                let same = |other: &&Hit| (&other.path, other.source) == (&hit.path, hit.source);
                results.results.iter().find(same).map_or(0.0, |hit| hit.score)
            };
            let explained: f64 = alone.iter().zip(&weights).map(|(results, weight)| of(results) * weight).sum::<f64>() / whole;
            // Each score is rounded to four digits.
            prop_assert!((explained - hit.score).abs() <= 2e-4, "{} {explained} {}", hit.name, hit.score);
        }
        prop_assert!(together.results.windows(2).all(|pair| pair[0].score >= pair[1].score));
    }
}
