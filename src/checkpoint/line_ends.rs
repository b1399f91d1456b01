//! Line ends as git stores them and as it writes them to disk, and whether a file keeps those it has.
//!
//! This follows `crlf_to_git` and `crlf_to_worktree` of git's `convert.c`. Libgit2 converts only while it writes a file, and
//! reports some failed writes without a cause; here nothing is written. The settings and attributes of a path become a [`LineEnds`].

use std::borrow::Cow;

use git2::AttrValue;

/// What git does with the line ends of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineEnds {
    kind: LineEndKind,
    /// What a checkout writes.
    output: LineEndOutput,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineEndKind {
    /// Never converted.
    Binary,
    /// Always converted.
    Text,
    /// Converted if the content looks like text.
    Guessed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineEndOutput {
    Lf,
    Crlf,
}

/// The settings of git about line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineEndSettings {
    pub(crate) autocrlf: AutoCrlf,
    /// Whether `core.eol` is `crlf`.
    pub(crate) is_eol_crlf: bool,
    /// Whether `core.safecrlf` refuses what a checkout would not give back.
    pub(crate) is_safe: bool,
}

/// `core.autocrlf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AutoCrlf {
    False,
    True,
    Input,
}

/// Why `core.safecrlf` refuses a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnsafeLineEnds {
    CrlfToLf,
    LfToCrlf,
}

impl std::fmt::Display for UnsafeLineEnds {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::CrlfToLf => "CRLF would be replaced by LF",
            Self::LfToCrlf => "LF would be replaced by CRLF",
        })
    }
}

impl LineEnds {
    /// From the attributes `text`, `crlf` and `eol` of a path.
    pub(crate) fn of(
        text: AttrValue<'_>,
        crlf: AttrValue<'_>,
        eol: AttrValue<'_>,
        settings: LineEndSettings,
    ) -> Self {
        let usual = match (settings.autocrlf, settings.is_eol_crlf) {
            (AutoCrlf::True, _) | (AutoCrlf::False, true) => LineEndOutput::Crlf,
            _ => LineEndOutput::Lf,
        };
        let asked = LineEndAttribute::of(text).or_else(|| LineEndAttribute::of(crlf));
        if asked == Some(LineEndAttribute::Binary) {
            return Self::binary();
        }
        let eol = match eol {
            AttrValue::String("lf") => Some(LineEndOutput::Lf),
            AttrValue::String("crlf") => Some(LineEndOutput::Crlf),
            _ => None,
        };
        let (kind, output) = match (asked, eol) {
            (Some(LineEndAttribute::Auto), eol) => (LineEndKind::Guessed, eol.unwrap_or(usual)),
            (_, Some(output)) => (LineEndKind::Text, output),
            (Some(LineEndAttribute::Input), None) => (LineEndKind::Text, LineEndOutput::Lf),
            (Some(_), None) => (LineEndKind::Text, usual),
            (None, None) => match settings.autocrlf {
                AutoCrlf::False => return Self::binary(),
                AutoCrlf::True => (LineEndKind::Guessed, LineEndOutput::Crlf),
                AutoCrlf::Input => (LineEndKind::Guessed, LineEndOutput::Lf),
            },
        };
        Self { kind, output }
    }

    fn binary() -> Self {
        Self {
            kind: LineEndKind::Binary,
            output: LineEndOutput::Lf,
        }
    }

    /// Whether the content in the index decides: a guessed text file that has CRLF there keeps it.
    pub(crate) fn depends_on_index(self, content: &[u8]) -> bool {
        self.kind == LineEndKind::Guessed && content.contains(&b'\r')
    }

    /// What git stores for a content.
    pub(crate) fn stored<'c>(
        self,
        content: &'c [u8],
        in_index: Option<&[u8]>,
        settings: LineEndSettings,
    ) -> Result<Cow<'c, [u8]>, UnsafeLineEnds> {
        let counts = TextCounts::of(content);
        let is_guessed = self.kind == LineEndKind::Guessed;
        if self.kind == LineEndKind::Binary || is_guessed && counts.is_binary() {
            return Ok(Cow::Borrowed(content));
        }
        let keeps = is_guessed && in_index.is_some_and(has_crlf_text);
        let converts = counts.crlf > 0 && !keeps;
        if settings.is_safe {
            self.require_safe(counts, converts)?;
        }
        Ok(if converts {
            Cow::Owned(without_crlf(content))
        } else {
            Cow::Borrowed(content)
        })
    }

    /// What a checkout writes for a stored content.
    pub(crate) fn checked_out(self, stored: &[u8]) -> Cow<'_, [u8]> {
        let counts = TextCounts::of(stored);
        if self.kind != LineEndKind::Binary && self.gives_crlf(counts) {
            Cow::Owned(with_crlf(stored))
        } else {
            Cow::Borrowed(stored)
        }
    }

    /// Whether a checkout writes CRLF for each LF of a text.
    fn gives_crlf(self, counts: TextCounts) -> bool {
        let keeps_mixed = self.kind == LineEndKind::Guessed
            && (counts.cr > 0 || counts.crlf > 0 || counts.is_binary());
        self.output == LineEndOutput::Crlf && counts.lf > 0 && !keeps_mixed
    }

    /// Whether a checkout would give the same line ends back.
    fn require_safe(self, counts: TextCounts, converts: bool) -> Result<(), UnsafeLineEnds> {
        let mut after = counts;
        if converts {
            after.lf += after.crlf;
            after.crlf = 0;
        }
        if self.gives_crlf(after) {
            after.crlf += after.lf;
            after.lf = 0;
        }
        if counts.crlf > 0 && after.crlf == 0 {
            Err(UnsafeLineEnds::CrlfToLf)
        } else if counts.lf > 0 && after.lf == 0 {
            Err(UnsafeLineEnds::LfToCrlf)
        } else {
            Ok(())
        }
    }
}

/// What an attribute says about line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineEndAttribute {
    Binary,
    Text,
    Input,
    Auto,
}

impl LineEndAttribute {
    fn of(value: AttrValue<'_>) -> Option<Self> {
        match value {
            AttrValue::True => Some(Self::Text),
            AttrValue::False => Some(Self::Binary),
            AttrValue::String("input") => Some(Self::Input),
            AttrValue::String("auto") => Some(Self::Auto),
            _ => None,
        }
    }
}

/// What a content is made of.
#[derive(Clone, Copy, Debug, Default)]
struct TextCounts {
    nul: usize,
    /// CR without LF.
    cr: usize,
    /// LF without CR.
    lf: usize,
    crlf: usize,
    printable: usize,
    unprintable: usize,
}

impl TextCounts {
    fn of(content: &[u8]) -> Self {
        let mut counts = Self::default();
        let mut bytes = content.iter().peekable();
        while let Some(byte) = bytes.next() {
            match byte {
                b'\r' if bytes.next_if_eq(&&b'\n').is_some() => counts.crlf += 1,
                b'\r' => counts.cr += 1,
                b'\n' => counts.lf += 1,
                // Backspace, tab, escape, form feed.
                8 | b'\t' | 27 | 12 | 32..=126 | 128.. => counts.printable += 1,
                0 => {
                    counts.nul += 1;
                    counts.unprintable += 1;
                }
                _ => counts.unprintable += 1,
            }
        }
        // The end-of-file mark of DOS.
        if content.last() == Some(&26) {
            counts.unprintable -= 1;
        }
        counts
    }

    fn is_binary(self) -> bool {
        self.cr > 0 || self.nul > 0 || self.printable / 128 < self.unprintable
    }
}

/// Whether a content is text with CRLF.
fn has_crlf_text(content: &[u8]) -> bool {
    let counts = TextCounts::of(content);
    counts.crlf > 0 && !counts.is_binary()
}

fn without_crlf(content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(content.len());
    let mut rest = content.iter().peekable();
    while let Some(byte) = rest.next() {
        if *byte != b'\r' || rest.peek() != Some(&&b'\n') {
            bytes.push(*byte);
        }
    }
    bytes
}

/// Every LF that has no CR before it becomes CRLF.
fn with_crlf(content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(content.len() + content.len() / 16);
    for byte in content {
        if *byte == b'\n' && bytes.last() != Some(&b'\r') {
            bytes.push(b'\r');
        }
        bytes.push(*byte);
    }
    bytes
}
