//! An index as bytes: documents, words with their positions, and the source files.
//!
//! The same [`SearchImage`] is searched in memory and stored on disk, so that a new and a stored index
//! rank in the same way. Opening a stored image reads its contents: the words, and the part of each
//! document that ranking needs for all of them. Everything else is in [`SearchRows`], read on demand. Any
//! change of this format or of the weights needs a new [`FORMAT`].

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;

use super::bytes::{ByteReader, ByteWriter};
use super::document::{Document, Strength};
use super::likeness::letters;
use super::record::{FolderRecord, layer_code, layer_of};
use super::rows::{RowLocation, SearchRows, checksum, read_range};
use super::terms::Terms;
use crate::item::store::{ItemKind, Layer};

/// Marks a file as an index.
const MAGIC: &[u8; 8] = b"pitonidx";
/// The version of the format and of its weights.
pub(super) const FORMAT: u32 = 3;
/// The magic, then the position, length and checksum of the contents.
const HEADER: usize = 8 + 8 + 8 + 8;
/// Up to this many documents one thread builds the image.
const FEW: usize = 64;
/// The size of one mention of a word, in bytes.
const MENTION: u32 = 4 + 2;

/// The data of an image besides its documents.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// What the documents depend on besides their files: program, folders, rules.
    pub(super) key: Vec<u8>,
    /// When reading of the files began, in nanoseconds of the file system's clock.
    pub(super) moment: i64,
    /// The number of project files that should contain an item but have no usable one.
    pub(super) broken: u64,
    /// Whether unchanged metadata of every folder and file proves that nothing changed.
    pub(super) is_provable: bool,
}

#[derive(Clone, Debug)]
pub(super) struct SearchImage {
    rows: SearchRows,
    /// Where the rows end and the contents begin.
    end: u64,
    contents: Vec<u8>,
    pub(super) facts: Facts,
    looks: ImageSection,
    records: ImageSection,
    heads: ImageSection,
    details: ImageSection,
    terms: ImageSection,
    texts: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct ImageSection {
    at: u64,
    count: u64,
}

/// The part of a document that ranking and filters need.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'i> {
    number: u32,
    pub(super) layer: Layer,
    pub(super) kind: ItemKind,
    pub(super) date: Option<i64>,
    pub(super) file_date: Option<i64>,
    pub(super) name: &'i str,
    pub(super) category: &'i str,
    pub(super) tool_type: Option<&'i str>,
    tags: ByteReader<'i>,
}

/// The part of a document that only results show.
#[derive(Clone, Debug, Default)]
pub(super) struct Details {
    pub(super) description: String,
    pub(super) path: String,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Term<'i> {
    word: &'i [u8],
    pub(super) letters: u32,
    mentions: RowLocation,
}

impl SearchImage {
    pub(super) fn build(facts: Facts, documents: &[Document], folders: &[FolderRecord]) -> Self {
        let mut out = ByteWriter(MAGIC.to_vec());
        // The rest of the header is written at the end.
        out.0.resize(HEADER, 0);
        let mut contents = ByteWriter::default();
        let looks = table(&mut out, &mut contents, folders, FolderRecord::write_looks);
        let records = table(
            &mut out,
            &mut contents,
            folders,
            FolderRecord::write_records,
        );
        let details = table(&mut out, &mut contents, documents, write_details);
        let heads = write_heads(&mut contents, documents);
        let (terms, texts) = write_terms(&mut out, &mut contents, documents);
        let last = contents.position();
        contents.bytes(&facts.key);
        contents.signed(facts.moment);
        contents.number(facts.broken);
        contents.byte(u8::from(facts.is_provable));
        for section in [looks, records, heads, details, terms] {
            contents.number(section.at);
            contents.number(section.count);
        }
        contents.number(texts);
        contents.number(last);
        let contents = contents.0;
        let end = out.position();
        let header = [end, contents.len() as u64, u64::from(checksum(&contents))];
        let bytes: Vec<u8> = header.into_iter().flat_map(u64::to_le_bytes).collect();
        if let Some(place) = out.0.get_mut(MAGIC.len()..HEADER) {
            place.copy_from_slice(&bytes);
        }
        Self {
            rows: SearchRows::held(out.0),
            end,
            contents,
            facts,
            looks,
            records,
            heads,
            details,
            terms,
            texts,
        }
    }

    /// Opens a stored file; `None` if it is not a complete image.
    pub(super) fn read(file: File, length: u64) -> Option<Self> {
        let header = read_range(&file, 0, HEADER as u64)?;
        let mut reader = ByteReader::at(header.strip_prefix(MAGIC)?, 0);
        let (end, size, sum) = (reader.number()?, reader.number()?, reader.number()?);
        if end.checked_add(size)? != length {
            return None;
        }
        let contents = read_range(&file, end, size)?;
        if u64::from(checksum(&contents)) != sum {
            return None;
        }
        let last = ByteReader::at(&contents, size.checked_sub(8)?).number()?;
        let mut reader = ByteReader::at(&contents, last);
        let facts = Facts {
            key: reader.bytes()?.to_vec(),
            moment: reader.signed()?,
            broken: reader.number()?,
            is_provable: reader.byte()? == 1,
        };
        let mut section = || {
            Some(ImageSection {
                at: reader.number()?,
                count: reader.number()?,
            })
        };
        let (looks, records, heads, details, terms) =
            (section()?, section()?, section()?, section()?, section()?);
        let texts = reader.number()?;
        Some(Self {
            rows: SearchRows::kept(file),
            end,
            contents,
            facts,
            looks,
            records,
            heads,
            details,
            terms,
            texts,
        })
    }

    /// The bytes to store.
    pub(super) fn parts(&self) -> [&[u8]; 2] {
        [self.rows.as_bytes(), &self.contents]
    }

    /// Reads everything into memory, for repeated searches.
    pub(super) fn hold(&mut self) {
        self.rows.hold(self.end);
    }

    /// Whether corrupt data was read: no earlier result can be trusted.
    pub(super) fn is_damaged(&self) -> bool {
        self.rows.are_damaged()
    }

    pub(super) fn len(&self) -> usize {
        usize::try_from(self.heads.count).unwrap_or(usize::MAX)
    }

    pub(super) fn document(&self, number: u32) -> Option<View<'_>> {
        if u64::from(number) >= self.heads.count {
            return None;
        }
        let at = ByteReader::at(&self.contents, self.heads.at + u64::from(number) * 8).number()?;
        View::read(number, &mut ByteReader::at(&self.contents, at))
    }

    pub(super) fn details(&self, view: &View<'_>) -> Details {
        let bytes = self.row(self.details, u64::from(view.number));
        let mut reader = ByteReader::at(&bytes, 0);
        let mut text = || reader.text().unwrap_or_default().to_owned();
        Details {
            description: text(),
            path: text(),
        }
    }

    pub(super) fn folder_count(&self) -> u64 {
        self.looks.count
    }

    /// The metadata of a part of a folder, see [`FolderRecord::write_looks`].
    pub(super) fn look(&self, number: u64) -> Cow<'_, [u8]> {
        self.row(self.looks, number)
    }

    /// Every folder record; `None` if one cannot be read.
    pub(super) fn to_folders(&self) -> Option<Vec<FolderRecord>> {
        let folder = |number| {
            let (looks, records) = (self.row(self.looks, number), self.row(self.records, number));
            FolderRecord::read(
                &mut ByteReader::at(&looks, 0),
                &mut ByteReader::at(&records, 0),
            )
        };
        (0..self.looks.count).map(folder).collect()
    }

    /// Sorted.
    pub(super) fn terms(&self) -> impl Iterator<Item = Term<'_>> {
        let texts = ByteReader::at(&self.contents, self.texts);
        let mut rows = ByteReader::at(&self.contents, self.terms.at);
        (0..self.terms.count).map_while(move |_| {
            let word = texts.range(rows.count()?, rows.count()?)?;
            Some(Term {
                word,
                letters: rows.count()?,
                mentions: RowLocation::from_table(&mut rows)?,
            })
        })
    }

    /// Calls `found` for each document that contains a word, with the word's strength there.
    pub(super) fn each_mention(&self, term: &Term<'_>, mut found: impl FnMut(u32, Strength)) {
        let bytes = self.rows.read(term.mentions);
        let mut reader = ByteReader::at(&bytes, 0);
        for _ in 0..term.mentions.count(MENTION) {
            if let (Some(number), Some(strength)) = (reader.count(), reader.short()) {
                found(number, strength);
            }
        }
    }

    /// Every document with its words; `None` if one cannot be read.
    pub(super) fn to_documents(&self) -> Option<Vec<Document>> {
        let count = u32::try_from(self.heads.count).unwrap_or(u32::MAX);
        let mut documents: Vec<Document> = (0..count)
            .map(|number| Some(self.to_document(&self.document(number)?)))
            .collect::<Option<_>>()?;
        for term in self.terms() {
            let word = term.word()?;
            self.each_mention(&term, |number, strength| {
                if let Some(document) = usize::try_from(number)
                    .ok()
                    .and_then(|number| documents.get_mut(number))
                {
                    document.terms.push(word, strength);
                }
            });
        }
        (!self.is_damaged()).then_some(documents)
    }

    fn to_document(&self, view: &View<'_>) -> Document {
        let Details { description, path } = self.details(view);
        Document {
            layer: view.layer,
            kind: view.kind,
            name: view.name.to_owned(),
            category: view.category.to_owned(),
            description,
            path,
            tool_type: view.tool_type.map(str::to_owned),
            tags: view.tags().map(str::to_owned).collect(),
            date: view.date,
            file_date: view.file_date,
            terms: Terms::default(),
        }
    }

    fn row(&self, section: ImageSection, number: u64) -> Cow<'_, [u8]> {
        let mut table = ByteReader::at(
            &self.contents,
            section.at + number.min(section.count) * RowLocation::SIZE,
        );
        RowLocation::from_table(&mut table)
            .map(|row| self.rows.read(row))
            .unwrap_or_default()
    }
}

impl<'i> View<'i> {
    fn read(number: u32, reader: &mut ByteReader<'i>) -> Option<Self> {
        let layer = layer_of(reader.byte()?);
        let kind = match reader.byte()? {
            0 => ItemKind::Tool,
            1 => ItemKind::Directive,
            _ => ItemKind::Knowledge,
        };
        let (date, file_date) = (reader.maybe()?, reader.maybe()?);
        let (name, category) = (reader.text()?, reader.text()?);
        let has_type = reader.byte()? == 1;
        let tool_type = Some(reader.text()?).filter(|_| has_type);
        Some(Self {
            number,
            layer,
            kind,
            date,
            file_date,
            name,
            category,
            tool_type,
            tags: *reader,
        })
    }

    pub(super) fn tags(&self) -> impl Iterator<Item = &'i str> {
        let mut reader = self.tags;
        let count = reader.count().unwrap_or(0);
        (0..count).map_while(move |_| reader.text())
    }
}

impl<'i> Term<'i> {
    pub(super) fn word(&self) -> Option<&'i str> {
        std::str::from_utf8(self.word).ok()
    }
}

/// Writes the part of each document that is read with the image, and the table of its positions.
fn write_heads(contents: &mut ByteWriter, documents: &[Document]) -> ImageSection {
    let mut places = Vec::with_capacity(documents.len());
    for document in documents {
        places.push(contents.position());
        contents.byte(layer_code(document.layer));
        contents.byte(match document.kind {
            ItemKind::Tool => 0,
            ItemKind::Directive => 1,
            ItemKind::Knowledge => 2,
        });
        contents.maybe(document.date);
        contents.maybe(document.file_date);
        contents.text(&document.name);
        contents.text(&document.category);
        contents.byte(u8::from(document.tool_type.is_some()));
        contents.text(document.tool_type.as_deref().unwrap_or_default());
        contents.count(document.tags.len());
        for tag in &document.tags {
            contents.text(tag);
        }
    }
    let at = contents.position();
    for place in &places {
        contents.number(*place);
    }
    ImageSection {
        at,
        count: places.len() as u64,
    }
}

fn write_details(document: &Document, out: &mut ByteWriter) {
    out.text(&document.description);
    out.text(&document.path);
}

/// Writes rows, and a table of their positions into the contents.
fn table<T>(
    out: &mut ByteWriter,
    contents: &mut ByteWriter,
    rows: &[T],
    write: impl Fn(&T, &mut ByteWriter),
) -> ImageSection {
    let at = contents.position();
    for row in rows {
        let position = out.position();
        write(row, out);
        RowLocation::since(position, out).write(contents);
    }
    ImageSection {
        at,
        count: rows.len() as u64,
    }
}

/// Writes the mentions of each word, and all words into the contents.
fn write_terms(
    out: &mut ByteWriter,
    contents: &mut ByteWriter,
    documents: &[Document],
) -> (ImageSection, u64) {
    // Starting threads takes longer than sorting a few words.
    let (mut all, odd) = match documents.len() {
        ..FEW => (invert(documents, |_| true), Vec::new()),
        _ => rayon::join(
            || invert(documents, is_even),
            || invert(documents, |word| !is_even(word)),
        ),
    };
    all.extend(odd);
    all.sort_unstable_by_key(|(word, _)| *word);
    let mut texts = ByteWriter::default();
    let at = contents.position();
    for (word, mentions) in &all {
        let position = out.position();
        for (document, strength) in mentions {
            out.0.extend(document.to_le_bytes());
            out.short(*strength);
        }
        contents.count(texts.0.len());
        contents.count(word.len());
        contents.0.extend(letters(word).to_le_bytes());
        RowLocation::since(position, out).write(contents);
        texts.0.extend(word.as_bytes());
    }
    let section = ImageSection {
        at,
        count: all.len() as u64,
    };
    let at = contents.position();
    contents.0.extend(texts.0);
    (section, at)
}

/// The mentions of some words, in the order of the documents.
fn invert(
    documents: &[Document],
    is_wanted: impl Fn(&str) -> bool,
) -> Vec<(&str, Vec<(u32, Strength)>)> {
    // Documents come in order, so only the words have to be sorted, not their mentions.
    let mut by_word: HashMap<&str, Vec<(u32, Strength)>> = HashMap::new();
    for (number, document) in (0..).zip(documents) {
        for (word, strength) in document.terms.iter().filter(|(word, _)| is_wanted(word)) {
            by_word.entry(word).or_default().push((number, strength));
        }
    }
    by_word.into_iter().collect()
}

/// Splits the words into two halves for two threads.
fn is_even(word: &str) -> bool {
    word.bytes()
        .fold(word.len(), |sum, byte| sum.wrapping_add(usize::from(byte)))
        .is_multiple_of(2)
}
