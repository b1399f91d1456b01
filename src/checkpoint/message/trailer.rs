//! Parses trailers exactly as `git interpret-trailers --parse` does.
//!
//! This follows git's `trailer.c` with its default settings (comment character `#`, separator `:`).
//! The tests compare it with the real program.

const CUT_LINE: &str = "# ------------------------ >8 ------------------------\n";
/// Lines that git itself writes: one of them makes a mixed paragraph a paragraph of trailers.
const GENERATED: [&str; 2] = ["Signed-off-by: ", "(cherry picked from commit "];

/// The trailers of a message, in order, continuation lines joined.
pub(crate) fn parse_trailers(message: &str) -> Vec<(String, String)> {
    let mut message = message.to_owned();
    if !message.is_empty() && !message.ends_with('\n') {
        message.push('\n');
    }
    let lines: Vec<&str> = log_message(&message).split_inclusive('\n').collect();
    let mut joined: Vec<String> = Vec::new();
    let mut continues = false;
    for line in lines.get(block_start(&lines)..).unwrap_or_default() {
        if let Some(last) = joined
            .last_mut()
            .filter(|_| continues && starts_with_space(line))
        {
            last.push_str(line);
        } else {
            continues = separator(line).is_some();
            joined.push((*line).to_owned());
        }
    }
    joined
        .iter()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| read(line))
        .collect()
}

fn read(line: &str) -> Option<(String, String)> {
    let (key, value) = line.split_at_checked(separator(line)?)?;
    let mut unfolded = String::new();
    let mut rest = value.strip_prefix(':')?.trim_matches(is_space);
    while let Some((before, after)) = rest.split_once('\n') {
        unfolded.push_str(before);
        unfolded.push(' ');
        rest = after.trim_start_matches(is_space);
    }
    unfolded.push_str(rest);
    Some((
        key.trim_matches(is_space).to_owned(),
        unfolded.trim_matches(is_space).to_owned(),
    ))
}

/// The message without a patch below it, and without the comments and conflicts at its end.
fn log_message(message: &str) -> &str {
    let divider = line_starts(message)
        .find(|(_, line)| {
            line.strip_prefix("---")
                .is_some_and(|rest| rest.starts_with(is_space))
        })
        .map_or(message.len(), |(at, _)| at);
    let mut end = divider;
    if message.starts_with(CUT_LINE) {
        end = 0;
    } else if let Some(at) = message.find(&format!("\n{CUT_LINE}")) {
        end = end.min(at + 1);
    }
    // As in git, a run of comments that starts with the very first byte does not count.
    let mut comments = 0;
    let mut in_conflicts = false;
    for (at, line) in line_starts(message).take_while(|(at, _)| *at < end) {
        if line.starts_with('#') || line.starts_with('\n') {
            comments = if comments == 0 { at } else { comments };
        } else if line == "Conflicts:\n" {
            in_conflicts = true;
            comments = if comments == 0 { at } else { comments };
        } else if !(in_conflicts && line.starts_with('\t')) && comments > 0 {
            comments = 0;
            in_conflicts = false;
        }
    }
    message
        .get(..if comments == 0 { end } else { comments })
        .unwrap_or(message)
}

fn line_starts(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive('\n').map(move |line| {
        let start = at;
        at += line.len();
        (start, line)
    })
}

/// The first line of the trailers; the number of lines if there are none.
pub(super) fn block_start(lines: &[&str]) -> usize {
    let title = lines
        .iter()
        .position(|line| !line.starts_with('#') && is_blank(line))
        .unwrap_or(lines.len());
    let (mut trailers, mut others, mut continuations) = (0, 0, 0);
    let (mut generated, mut only_spaces) = (false, true);
    for (at, line) in lines.iter().enumerate().skip(title).rev() {
        if line.starts_with('#') {
            others += continuations;
            continuations = 0;
        } else if is_blank(line) {
            if only_spaces {
                continue;
            }
            others += continuations;
            let found = (generated && trailers * 3 >= others) || (trailers > 0 && others == 0);
            return if found { at + 1 } else { lines.len() };
        } else {
            only_spaces = false;
            if GENERATED.iter().any(|prefix| line.starts_with(prefix)) {
                trailers += 1;
                continuations = 0;
                generated = true;
            } else if starts_with_space(line) {
                continuations += 1;
            } else if separator(line).is_some() {
                trailers += 1;
                continuations = 0;
            } else {
                others += 1 + continuations;
                continuations = 0;
            }
        }
    }
    lines.len()
}

/// The position of the `:` after a key.
fn separator(line: &str) -> Option<usize> {
    let mut spaces = false;
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            b':' => return (at > 0).then_some(at),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' if !spaces => {}
            b' ' | b'\t' if at > 0 => spaces = true,
            _ => return None,
        }
    }
    None
}

/// The spaces of git's C code: no vertical tab and no form feed.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

fn starts_with_space(line: &str) -> bool {
    line.starts_with(is_space)
}

fn is_blank(line: &str) -> bool {
    line.chars().all(is_space)
}
