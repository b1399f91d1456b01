//! Pagination of long lists.
//!
//! A cursor tells where the next page begins. It belongs to one list; any other text, including the
//! cursor of another list, is refused.

use rmcp::model::{ErrorData, PaginatedRequestParams};

use crate::item::wording::shown;

const SIZE: usize = 50;

/// Returns the requested page and the cursor of the next one.
pub(super) fn page<T>(
    list: &'static str,
    entries: Vec<T>,
    asked: Option<PaginatedRequestParams>,
) -> Result<(Vec<T>, Option<String>), ErrorData> {
    let start = match asked.and_then(|asked| asked.cursor) {
        None => 0,
        Some(cursor) => place(list, &cursor).ok_or_else(|| {
            ErrorData::invalid_params(
                format!("`{}` is not a cursor of this list", shown(&cursor)),
                None,
            )
        })?,
    };
    let next = start.saturating_add(SIZE);
    let next = (next < entries.len()).then(|| format!("{list}-{next}"));
    // The list may have become shorter since; then the page is empty.
    Ok((entries.into_iter().skip(start).take(SIZE).collect(), next))
}

fn place(list: &str, cursor: &str) -> Option<usize> {
    let number = cursor.strip_prefix(list)?.strip_prefix('-')?;
    let place: usize = number.parse().ok()?;
    // Only accept cursors exactly as this server writes them.
    (place.is_multiple_of(SIZE) && place > 0 && number == place.to_string()).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(cursor: &str) -> PaginatedRequestParams {
        PaginatedRequestParams::default().with_cursor(Some(cursor.to_owned()))
    }

    #[test]
    fn every_entry_is_on_one_page() {
        let all: Vec<usize> = (0..120).collect();
        let (mut seen, mut cursor) = page("runs", all.clone(), None).unwrap();
        assert_eq!(seen.len(), SIZE);
        while let Some(next) = cursor {
            let (more, after) = page("runs", all.clone(), Some(asked(&next))).unwrap();
            seen.extend(more);
            cursor = after;
        }
        assert_eq!(seen, all);
    }

    #[test]
    fn other_texts_are_refused_as_cursors() {
        for wrong in [
            "", "50", "items-50", "runs-", "runs-1", "runs-0", "runs--50", "runs-050", "runs-5e1",
            "runs-50 ",
        ] {
            let refused = page("runs", vec![1; 200], Some(asked(wrong)));
            assert_eq!(
                refused.unwrap_err().code,
                rmcp::model::ErrorCode::INVALID_PARAMS,
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn a_list_that_became_shorter_ends() {
        assert_eq!(
            page("runs", vec![1; 10], Some(asked("runs-50"))).unwrap(),
            (vec![], None)
        );
    }
}
