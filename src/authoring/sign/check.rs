//! `piton sign --check`: verifies the stamps and signatures of items; writes nothing.

use serde::Serialize;

use super::{selection, shown};
use crate::authoring::{ItemStepError, SignItems};
use crate::config::SignatureRequirement;
use crate::context::Context;
use crate::item::finding::Strength;
use crate::item::signature::Integrity;
use crate::item::store::{Item, ItemKind, ItemStore, Layer};
use crate::item::validate;
use crate::problem::{Explain, Hint, HintCall, hint};
use crate::trust::author::{self, AuthorError, Authors, Authorship};

/// The result of the check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SignatureReport {
    /// Whether all items are valid.
    pub valid: bool,
    pub items: Vec<CheckedItem>,
    /// A summary with counts.
    pub message: String,
}

/// The result for one item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckedItem {
    /// Its id, or the name of its file.
    pub name: String,
    pub item_type: ItemKind,
    pub source: Layer,
    pub path: String,
    /// The state of its stamp; `None` if it cannot be read as an item.
    pub signature: Option<Integrity>,
    /// The verdict on the author's signature, if there is one or one is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<Authorship>,
    pub valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<Hint>,
}

/// Checks stamps and signatures of the named items, or of all; writes nothing.
pub fn check_signatures(
    ctx: &Context,
    request: &SignItems,
) -> Result<SignatureReport, ItemStepError> {
    let store = ItemStore::open(ctx.roots(), Strength::Lenient);
    let mut wanted = request.clone();
    if request.item_id.is_empty() {
        wanted.item_id.push("*".to_owned());
    }
    let selection = match selection::select(ctx, &store, &wanted) {
        // A project without items is valid.
        Err(ItemStepError::NothingMatches { .. }) if request.item_id.is_empty() => {
            selection::SignSelection::default()
        }
        other => other?,
    };
    let required = ctx.config.signature_requirement();
    let mut authors = None;
    let mut items = Vec::new();
    for item in selection.items {
        let has_signature = author::signature_beside(&item.file) != Ok(None);
        let author = if has_signature || required == SignatureRequirement::Author {
            let authors = match &mut authors {
                Some(authors) => authors,
                none => none.insert(Authors::of(ctx)?),
            };
            Some(authors.judge(item)?)
        } else {
            None
        };
        let gap = (required != SignatureRequirement::None)
            .then(|| author::gap(ctx, item))
            .flatten();
        items.push(judged(&store, item, author, gap, required));
    }
    for broken in selection.broken {
        items.push(CheckedItem {
            name: broken.name,
            item_type: broken.item_type,
            source: request.source.layer(),
            path: broken.path,
            signature: None,
            author: None,
            valid: false,
            problem: Some(broken.error),
            suggestion: broken.suggestion,
        });
    }
    let valid = items.iter().all(|item| item.valid);
    Ok(SignatureReport {
        valid,
        message: message(&items),
        items,
    })
}

fn judged(
    store: &ItemStore,
    item: &Item,
    author: Option<Authorship>,
    gap: Option<AuthorError>,
    required: SignatureRequirement,
) -> CheckedItem {
    let needs_stamp = required >= SignatureRequirement::Integrity;
    // Only a person signs with a key; agents can stamp.
    let sign = |before: &str| match required {
        SignatureRequirement::Author => {
            format!("{before}, then `piton sign --key KEY {}`", item.id).into()
        }
        _ => hint![
            format!("{before}, then "),
            HintCall::Sign(Some(item.id.to_string()))
        ],
    };
    let again = || Some(sign("look at what changed"));
    let (mut valid, mut problem, mut suggestion) = match &item.integrity {
        Integrity::Valid { .. } => (true, None, None),
        Integrity::Unsigned => (!needs_stamp, None, Some(sign("read it"))),
        Integrity::Foreign { kind } => (!needs_stamp, Some((*kind).to_owned()), again()),
        Integrity::Mismatch { .. } => (false, Some("Content hash mismatch".to_owned()), again()),
        Integrity::Invalid { reason, .. } => (false, Some((*reason).to_owned()), again()),
    };
    let is_stamped = matches!(item.integrity, Integrity::Valid { .. });
    if let Some(author) = author
        .as_ref()
        .filter(|author| is_stamped && !author.is_valid())
    {
        let is_wrong = matches!(
            author,
            Authorship::OtherContent { .. }
                | Authorship::Revoked { .. }
                | Authorship::Invalid { .. }
        );
        valid = !is_wrong && required < SignatureRequirement::Author;
        problem = Some(author.reason());
        suggestion = author.hint();
    }
    if let Some(script) =
        validate::uncovered_script(item).filter(|_| is_stamped && problem.is_none())
    {
        valid = !needs_stamp;
        problem = Some(format!(
            "`{}` is not covered by its stamp",
            shown(&store.roots().display(&script))
        ));
        suggestion =
            Some("put both into a folder of their own, with the manifest as `tool.yaml`".into());
    }
    if let Some(gap) = gap.filter(|_| is_stamped && problem.is_none()) {
        valid = false;
        problem = Some(gap.to_string());
        suggestion = gap.hint();
    }
    CheckedItem {
        name: item.id.to_string(),
        item_type: item.kind(),
        source: item.layer,
        path: shown(&store.roots().display(&item.file)),
        signature: Some(item.integrity.clone()),
        author: author.filter(|_| is_stamped),
        valid,
        problem,
        suggestion,
    }
}

fn message(items: &[CheckedItem]) -> String {
    if items.is_empty() {
        return "there are no items to check".to_owned();
    }
    let count = |is: &dyn Fn(&CheckedItem) -> bool| items.iter().filter(|item| is(item)).count();
    let stamp = |item: &CheckedItem, word: &str| item.state() == word;
    let parts = [
        (count(&|item| stamp(item, "valid")), "valid"),
        (
            count(&|item| item.author.as_ref().is_some_and(Authorship::is_valid)),
            "signed by a trusted author",
        ),
        (count(&|item| stamp(item, "unsigned")), "unsigned"),
        (
            count(&|item| stamp(item, "foreign")),
            "with a stamp of another kind",
        ),
        (count(&|item| !item.valid), "not as they must be"),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, words)| format!("{count} {words}"))
        .collect();
    let plural = if items.len() == 1 { "" } else { "s" };
    format!("{} item{plural}: {}", items.len(), parts.join(", "))
}

impl CheckedItem {
    /// The state of its stamp in a word.
    pub fn state(&self) -> &'static str {
        match &self.signature {
            None => "unreadable",
            Some(Integrity::Unsigned) => "unsigned",
            Some(Integrity::Valid { .. }) => "valid",
            Some(Integrity::Mismatch { .. }) => "mismatch",
            Some(Integrity::Foreign { .. }) => "foreign",
            Some(Integrity::Invalid { .. }) => "invalid",
        }
    }
}
