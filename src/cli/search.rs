//! `piton search`: finds items by words.

use std::num::NonZeroUsize;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::items::{ItemKindArgument, SourceArgument};
use super::ui::{Format, Ui, clean};
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::item::search::{Cache, Hit, Query, Results, SearchIndex, SearchOrder, SearchScope};
use crate::item::store::{ItemKind, Layer};
use crate::item::wording::shown;

/// Search tools, directives and knowledge
///
/// piton searches ids (also parts of `deploy_app` and `deployApp`), tags, titles, categories,
/// descriptions and texts, weighted in this order. It also matches prefixes and small typos. The best
/// match comes first, with a score from 0 to 1; 1 is an exact id. Without words, piton lists every item
/// that passes the filters, by name. The exit code is 0 even if nothing matches.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton search deploy app                     The best ten
  piton search --type directive release       Only directives
  piton search --category ops --sort date     Newest items below `ops`
  piton search --source all runtime           Include built-in items
  piton search --format json deploy | jq -r '.results[].path'")]
pub(super) struct SearchArguments {
    /// Words to search for.
    #[arg(value_name = "QUERY")]
    words: Vec<String>,
    /// Only items of this type.
    #[arg(long = "type", value_enum, value_name = "TYPE")]
    kind: Option<ItemKindArgument>,
    /// Show at most N results [default: 10, or all without words].
    #[arg(short = 'n', long, value_name = "N", value_parser = above_nothing)]
    limit: Option<NonZeroUsize>,
    /// Sort order.
    #[arg(long, value_enum, default_value_t, value_name = "ORDER")]
    sort: Sort,
    /// Where to search.
    #[arg(long, value_enum, default_value_t, value_name = "SOURCE")]
    pub(super) source: SourceArgument,
    /// Only tools of this type, e.g. `python` or `api`.
    #[arg(long, value_name = "TYPE")]
    tool_type: Option<String>,
    /// Only items in this category or below it.
    #[arg(long, value_name = "CATEGORY")]
    category: Option<String>,
    /// Only items with this tag; can be repeated.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Sort {
    /// Best match first.
    #[default]
    Score,
    /// Newest first: by `updated_at` or similar, else the stamp, else the file.
    Date,
    /// By name.
    Name,
}

fn above_nothing(text: &str) -> Result<NonZeroUsize, String> {
    text.parse()
        .map_err(|_| "must be a whole number above 0".to_owned())
}

pub(super) fn run(
    arguments: &SearchArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    find(&query(arguments)?, ctx, ui)
}

fn find(query: &Query, ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let index = SearchIndex::open(
        ctx.roots(),
        Some(Cache {
            folder: &ctx.cache_folder(),
            program: &ctx.program,
        }),
    );
    ui.detail(&format!("index of items: {}", index.note()));
    let results = index.search(query);
    match ui.format() {
        Format::Json => ui.json(&results)?,
        _ => table(ui, &results)?,
    }
    summary(ui, &index, query, &results);
    Ok(ExitStatus::Success)
}

/// Lists all items of a kind by name.
pub(super) fn list(
    kind: ItemKind,
    source: SourceArgument,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    let query = Query {
        kind: Some(kind),
        scope: source.scope()?,
        order: SearchOrder::Name,
        limit: Some(usize::MAX),
        ..Query::default()
    };
    find(&query, ctx, ui)
}

fn query(arguments: &SearchArguments) -> Result<Query, Error> {
    let text = arguments.words.join(" ");
    let unlimited = text.trim().is_empty().then_some(usize::MAX);
    Ok(Query {
        kind: arguments.kind.map(ItemKind::from),
        scope: arguments.source.scope()?,
        tool_type: arguments.tool_type.clone(),
        category: arguments.category.clone(),
        tags: arguments.tags.clone(),
        order: match arguments.sort {
            Sort::Score => SearchOrder::Score,
            Sort::Date => SearchOrder::Date,
            Sort::Name => SearchOrder::Name,
        },
        limit: arguments.limit.map(NonZeroUsize::get).or(unlimited),
        text,
    })
}

/// Prints one line per item, in columns; descriptions end at the edge of the terminal.
fn table(ui: &mut Ui, results: &Results) -> std::io::Result<()> {
    let is_list = results.query.trim().is_empty();
    let score = |hit: &Hit| {
        if is_list {
            String::new()
        } else {
            format!("{:.2}", hit.score)
        }
    };
    let rows: Vec<[String; 5]> = results
        .results
        .iter()
        .map(|hit| row(hit, score(hit)))
        .collect();
    let widths: Vec<usize> = (0..4)
        .map(|at| {
            rows.iter()
                .filter_map(|row| row.get(at))
                .map(|text| text.width())
                .max()
                .unwrap_or(0)
        })
        .collect();
    for [columns @ .., description] in &rows {
        let mut line = String::new();
        for (text, width) in columns.iter().zip(&widths).filter(|(_, width)| **width > 0) {
            line.push_str(text);
            line.push_str(&" ".repeat(width.saturating_sub(text.width()) + 2));
        }
        match Ui::width() {
            // Too short a description is useless.
            Some(width) => line.push_str(&shortened(
                description,
                width.saturating_sub(line.width()).max(10),
            )),
            None => line.push_str(description),
        }
        ui.line(line.trim_end())?;
    }
    Ok(())
}

fn row(hit: &Hit, score: String) -> [String; 5] {
    let one_line =
        |text: &str| clean(&text.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned();
    let category = if hit.category.is_empty() {
        "-"
    } else {
        hit.category.as_str()
    };
    let place = match hit.source {
        Layer::Project => category.to_owned(),
        layer => format!("{category} ({layer})"),
    };
    [
        score,
        hit.item_type.to_string(),
        one_line(&hit.name),
        one_line(&place),
        one_line(&hit.description),
    ]
}

fn shortened(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let mut cut = String::new();
    for character in text.chars() {
        let needed = character.width().unwrap_or(0);
        if needed > left {
            break;
        }
        left -= needed;
        cut.push(character);
    }
    format!("{}…", cut.trim_end())
}

/// Prints the number of results, and suggestions if there are none.
fn summary(ui: &mut Ui, index: &SearchIndex, query: &Query, results: &Results) {
    let (shown_count, total) = (results.results.len(), results.total);
    if total == 0 {
        nothing(ui, index, query);
    } else if shown_count < total {
        ui.note(&format!("{shown_count} of {total}; `--limit N` shows more"));
    } else {
        ui.note(&format!(
            "{total} {}",
            if total == 1 { "item" } else { "items" }
        ));
    }
    match index.broken() {
        0 => {}
        1 => ui.warning("1 file could not be read as an item: `piton validate` or `piton validate ~/.ai` says why"),
        count => ui.warning(&format!(
            "{count} files could not be read as items: `piton validate` or `piton validate ~/.ai` says why"
        )),
    }
}

fn nothing(ui: &mut Ui, index: &SearchIndex, query: &Query) {
    let text = query.text.trim();
    let is_filtered = query.kind.is_some()
        || query.tool_type.is_some()
        || query.category.is_some()
        || !query.tags.is_empty();
    let everywhere = Query {
        text: query.text.clone(),
        scope: SearchScope::All,
        limit: Some(1),
        ..Query::default()
    };
    let elsewhere = index.search(&everywhere);
    if text.is_empty() {
        ui.note(if is_filtered {
            "no item passes the filters"
        } else {
            "there are no items here"
        });
    } else {
        ui.note(&format!("nothing fits `{}`", shown(text)));
    }
    if text.is_empty() && !is_filtered {
        return ui.hint("`piton init` creates an example; `--source all` lists built-in items");
    }
    match elsewhere.results.first() {
        Some(_) if is_filtered => ui.hint("remove a filter: there are results without them"),
        Some(hit) if query.scope != SearchScope::All => {
            ui.hint(&format!(
                "`--source all` finds the {} {} `{}`",
                hit.source, hit.item_type, hit.name
            ));
        }
        _ => match index.nearest(text) {
            Some(name) => ui.hint(&format!("did you mean `{name}`?")),
            None => ui.hint(
                "`piton search` without words lists everything; `--source all` adds built-in items",
            ),
        },
    }
}
