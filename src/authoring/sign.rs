//! `<sign>`: adds integrity stamps to items of the project or the user.
//!
//! Stamped and unchanged items are left alone, so signing twice writes nothing. An invalid item is
//! not signed, because a stamp says that its author approved it. [`selection`] resolves patterns,
//! [`authored`] adds a person's signature, [`check`] only verifies.

pub(crate) mod authored;
pub(super) mod check;
pub(super) mod selection;

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{FileAccess, Home, ItemAnswer, ItemEffect, ItemStepError, SignItems, Write, shown};
use crate::context::{Context, ITEMS};
use crate::item::finding::{Findings, Strength};
use crate::item::signature::stamp::{self, Stamped, Tidied};
use crate::item::signature::{Integrity, author_file};
use crate::item::source::{MAX_TEXT, SourceFile};
use crate::item::store::{Item, ItemKind, ItemStore};
use crate::item::validate::Unsigned;
use crate::problem::{Explain, Hint, HintCall, hint};
use crate::validation::{self, ValidationOptions};

/// The result of signing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Signed {
    /// The result for a single tool, in the form that callers of a tool expect.
    #[serde(flatten)]
    pub tool: Option<SignedTool>,
    /// Items with a new stamp or signature.
    pub signed: Vec<SignedItem>,
    /// Items that were signed and unchanged.
    pub unchanged: Vec<SignedItem>,
    /// Items that cannot be signed.
    pub failed: Vec<Unsignable>,
    /// A summary with counts.
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SignedTool {
    pub tool_id: String,
    /// Always `sign`.
    pub action: &'static str,
    /// Always `signed`.
    pub status: &'static str,
    pub signature: String,
    /// The sha256 in the stamp.
    pub hash: String,
}

/// A stamped item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SignedItem {
    /// Its id, without category.
    pub name: String,
    pub item_type: ItemKind,
    pub path: String,
    /// The sha256 in the stamp.
    pub hash: String,
    pub time: String,
    /// The fingerprint of the key that signed it now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// The file of an earlier signature by a person, which may be for other content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earlier_signature: Option<String>,
    /// Its file, relative to its layer.
    #[serde(skip)]
    place: PathBuf,
    #[serde(skip)]
    home: Home,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unsignable {
    /// Its id, or the name of its file.
    pub name: String,
    pub item_type: ItemKind,
    pub path: String,
    pub error: String,
    /// How to fix it.
    pub suggestion: Option<Hint>,
}

/// Why an item is not signed, and how to fix it.
struct SignRefusal {
    reason: String,
    hint: Option<Hint>,
}

/// Signs the items that ids, paths or patterns name.
pub(super) fn sign(
    ctx: &Context,
    store: &ItemStore,
    request: &SignItems,
) -> Result<ItemEffect, ItemStepError> {
    let home = request.source;
    let selection = selection::select(ctx, store, request)?;
    let is_one = selection.broken.is_empty() && selection.items.len() == 1;
    let time = ctx.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let (mut signed, mut unchanged, mut writes) = (Vec::new(), Vec::new(), Vec::new());
    let mut failed = selection.broken;
    let (stamped_before, others): (Vec<&Item>, Vec<&Item>) = selection
        .items
        .into_iter()
        .partition(|item| matches!(item.integrity, Integrity::Valid { .. }));
    let options = ValidationOptions {
        strength: Strength::Lenient,
        unsigned: Unsigned::Warned,
        ..ValidationOptions::of(ctx)
    };
    let mistakes = validation::first_errors(&others, store, &options);
    let others = others.into_iter().zip(mistakes);
    for (item, mistake) in stamped_before
        .into_iter()
        .map(|item| (item, None))
        .chain(others)
    {
        let top = top(ctx, home)?;
        let entry = |hash: &str, time: &str| SignedItem {
            name: item.id.to_string(),
            item_type: item.kind(),
            path: shown(&store.roots().display(&item.file)),
            hash: hash.to_owned(),
            time: time.to_owned(),
            author: None,
            earlier_signature: None,
            place: item
                .file
                .strip_prefix(top)
                .unwrap_or(&item.file)
                .to_path_buf(),
            home,
        };
        if let Integrity::Valid { hash, time } = &item.integrity {
            unchanged.push(entry(hash, time));
            continue;
        }
        let stamped = match mistake {
            Some(error) => Err(SignRefusal {
                reason: format!("{}: {}", error.code, error.message),
                hint: error.suggestion,
            }),
            None => stamped(ctx, store, item, home, &time),
        };
        match stamped {
            Ok(stamped) => {
                let beside = author_file(&item.file);
                let earlier_signature = beside
                    .is_file()
                    .then(|| shown(&store.roots().display(&beside)));
                signed.push(SignedItem {
                    earlier_signature,
                    ..entry(&stamped.hash, &time)
                });
                add_writes(&mut writes, stamped, top, home);
            }
            Err(SignRefusal { reason, hint }) if is_one => {
                let name = item.id.to_string();
                return Err(ItemStepError::NotSignable { name, reason, hint });
            }
            Err(SignRefusal { reason, hint }) => failed.push(Unsignable {
                name: item.id.to_string(),
                item_type: item.kind(),
                path: shown(&store.roots().display(&item.file)),
                error: reason,
                suggestion: hint,
            }),
        }
    }
    let mut answer = Signed {
        tool: None,
        signed,
        unchanged,
        failed,
        message: String::new(),
    };
    answer.update_summary();
    answer.require_any(request)?;
    Ok(ItemEffect {
        answer: ItemAnswer::Sign(answer),
        writes,
    })
}

impl Signed {
    /// Fails if no item could be signed.
    fn require_any(&self, request: &SignItems) -> Result<(), ItemStepError> {
        let Some(first) = self.failed.first() else {
            return Ok(());
        };
        if !self.signed.is_empty() || !self.unchanged.is_empty() {
            return Ok(());
        }
        Err(ItemStepError::NotSignable {
            name: request.item_id.join(" "),
            reason: format!(
                "{}; the first: `{}`: {}",
                self.message, first.name, first.error
            ),
            hint: Some(match request.source {
                Home::User => "`piton validate ~/.ai` says what is wrong with them".into(),
                Home::Project => hint![HintCall::Validate, " says what is wrong with them"],
            }),
        })
    }

    /// Updates the summary.
    fn update_summary(&mut self) {
        let (signed, unchanged, failed) =
            (self.signed.len(), self.unchanged.len(), self.failed.len());
        let all = signed + unchanged + failed;
        let items = if all == 1 { "item" } else { "items" };
        self.message = format!("signed {signed} of {all} {items}");
        for (count, words) in [(unchanged, "unchanged"), (failed, "cannot be signed")] {
            if count > 0 {
                self.message = format!("{}, {count} {words}", self.message);
            }
        }
        let mut all = self.signed.iter().chain(&self.unchanged);
        self.tool = match (all.next(), all.next(), self.failed.is_empty()) {
            (Some(item), None, true) if item.item_type == ItemKind::Tool => Some(SignedTool {
                tool_id: item.name.clone(),
                action: "sign",
                status: "signed",
                signature: format!("kiwi-mcp:validated:{}:{}", item.time, item.hash),
                hash: item.hash.clone(),
            }),
            _ => None,
        };
    }
}

fn add_writes(writes: &mut Vec<Write>, stamped: Stamped, top: &Path, home: Home) {
    let place = |file: PathBuf| {
        file.strip_prefix(top)
            .map(Path::to_path_buf)
            .unwrap_or(file)
    };
    match stamped.tidied {
        // Other programs use that name for their own signatures.
        Tidied::Removed(file) if stamp::holds_stamp(&file) => {
            writes.push(Write {
                home,
                path: place(file),
                content: None,
                access: FileAccess::Plain,
            });
        }
        Tidied::Rewritten(file, content) => writes.push(Write::text(home, place(file), content)),
        Tidied::Removed(_) | Tidied::Nothing => {}
    }
    writes.push(Write::text(home, place(stamped.file), stamped.content));
}

/// The folder that contains the `.ai/` of a layer, without links.
pub(super) fn top(ctx: &Context, home: Home) -> Result<&Path, ItemStepError> {
    match home {
        Home::Project => Ok(&ctx.root),
        Home::User => ctx.home.as_deref().ok_or(ItemStepError::NoHome),
    }
}

fn stamped(
    ctx: &Context,
    store: &ItemStore,
    item: &Item,
    home: Home,
    time: &str,
) -> Result<Stamped, SignRefusal> {
    let file = real_file(ctx, item, home)?;
    let mut findings = Findings::new(&store.roots().display(&file), Strength::Lenient);
    let Some(source) = SourceFile::load(&file, MAX_TEXT, &mut findings) else {
        let reason = findings
            .into_vec()
            .pop()
            .map_or_else(|| "it cannot be read".to_owned(), |found| found.message);
        return Err(SignRefusal { reason, hint: None });
    };
    let raw = source.raw();
    let folder = item
        .as_tool()
        .and_then(|tool| tool.folder.as_ref())
        .and_then(|_| file.parent());
    let stamped = match folder {
        Some(folder) => stamp::stamp_folder(folder, &file, &raw, time),
        None => stamp::stamp_file(&file, &raw, time),
    };
    stamped.map_err(|err| SignRefusal {
        reason: err.to_string(),
        hint: err.hint(),
    })
}

/// The file of an item with links resolved; refuses a link that leads out of `.ai/`.
fn real_file(ctx: &Context, item: &Item, home: Home) -> Result<PathBuf, SignRefusal> {
    let refusal = |reason: String| SignRefusal {
        reason,
        hint: Some("replace the link by what it leads to".into()),
    };
    let real = |path: &Path| {
        fs::canonicalize(path).map_err(|err| refusal(format!("its file cannot be found: {err}")))
    };
    let file = real(&item.file)?;
    let items = top(ctx, home)
        .map_err(|err| refusal(err.to_string()))?
        .join(ITEMS);
    // Users may link their items from elsewhere; a project contains only what was cloned.
    if home == Home::User {
        return match item.file.strip_prefix(&items) {
            Ok(inside) if real(&items)?.join(inside) == file => Ok(item.file.clone()),
            _ => Err(refusal("a parent folder is a link".to_owned())),
        };
    }
    if !file.starts_with(items) {
        return Err(refusal("a link leads out of `.ai/`".to_owned()));
    }
    // Writing the manifest would replace the link by a file.
    if let Some(folder) = item.as_tool().and_then(|tool| tool.folder.as_deref())
        && Some(real(folder)?.as_path()) != file.parent()
    {
        return Err(refusal("its manifest is a link".to_owned()));
    }
    Ok(file)
}
