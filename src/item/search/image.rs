//! An index as one block of bytes: documents, words and where they stand, and the files behind them.
//!
//! The same [`Image`] is searched in memory and kept on disk, so that there is one ranking, whether it
//! was just made or read back. Reading takes no more than a checksum: texts stay where they are until
//! a result shows them. Any change of what is written here, or of how words are weighed, needs a new
//! [`FORMAT`].

use std::collections::HashMap;

use super::bytes::{Reader, Writer};
use super::document::{Document, Strength};
use super::likeness::letters;
use super::record::{FolderRecord, layer_code, layer_of};
use super::terms::Terms;
use crate::item::store::{ItemKind, Layer};

/// Says that a file is an index of this making.
const MAGIC: &[u8; 8] = b"pitonidx";
/// The number of the format and of the weights in it.
pub(super) const FORMAT: u32 = 2;
/// Where the checksum stands, and where what it covers begins.
const CHECKSUM: u64 = 8;
const COVERED: u64 = 16;
/// How many documents one thread makes an image of.
const FEW: usize = 64;
/// The bytes of one mention of a word.
const MENTION: u64 = 4 + 2;

/// What an image is made of, besides its documents.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// What the documents depend on besides their files: program, folders, rules.
    pub(super) key: Vec<u8>,
    /// When its files began to be read, in nanoseconds by the clock of the file system.
    pub(super) moment: i64,
    /// How many files of the project should hold an item and hold none that can be used.
    pub(super) broken: u64,
    /// Whether an unchanged look at every folder and file means that nothing changed.
    pub(super) is_provable: bool,
}

/// An index.
#[derive(Clone, Debug)]
pub(super) struct Image {
    bytes: Vec<u8>,
    pub(super) facts: Facts,
    folders: Section,
    documents: Section,
    terms: Section,
    texts: u64,
    mentions: u64,
}

/// A table and the number of its rows.
#[derive(Clone, Copy, Debug, Default)]
struct Section {
    at: u64,
    count: u64,
}

/// A document as it stands in an image: what ranking asks of every one, and the place of the rest.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'i> {
    pub(super) layer: Layer,
    pub(super) kind: ItemKind,
    pub(super) date: Option<i64>,
    pub(super) file_date: Option<i64>,
    pub(super) name: &'i str,
    pub(super) category: &'i str,
    details: Reader<'i>,
}

/// What a result shows, or a filter asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Details<'i> {
    pub(super) description: &'i str,
    pub(super) path: &'i str,
    pub(super) tool_type: Option<&'i str>,
    tags: Reader<'i>,
}

/// A word of an image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Term<'i> {
    word: &'i [u8],
    pub(super) letters: u32,
    mentions: (u32, u32),
}

impl Image {
    /// Makes an image.
    pub(super) fn build(facts: Facts, documents: &[Document], folders: &[FolderRecord]) -> Self {
        let mut out = Writer(MAGIC.to_vec());
        // The checksum and the place of the contents follow when they are known.
        out.number(0);
        out.number(0);
        let folders = table(&mut out, folders, FolderRecord::write);
        let documents_at = table(&mut out, documents, write_document);
        let (terms, texts, mentions) = write_terms(&mut out, documents);
        let contents = out.position();
        out.bytes(&facts.key);
        out.signed(facts.moment);
        out.number(facts.broken);
        out.byte(u8::from(facts.is_provable));
        for section in [folders, documents_at, terms] {
            out.number(section.at);
            out.number(section.count);
        }
        out.number(texts);
        out.number(mentions);
        let mut bytes = out.0;
        put(&mut bytes, COVERED, contents);
        let checksum = u64::from(checksum(&bytes));
        put(&mut bytes, CHECKSUM, checksum);
        Self { bytes, facts, folders, documents: documents_at, terms, texts, mentions }
    }

    /// Takes up bytes that were kept; none if they are not an image, or not all of it.
    pub(super) fn read(bytes: Vec<u8>) -> Option<Self> {
        if !bytes.starts_with(MAGIC) || Reader::at(&bytes, CHECKSUM).number()? != u64::from(checksum(&bytes)) {
            return None;
        }
        let contents = Reader::at(&bytes, COVERED).number()?;
        let mut reader = Reader::at(&bytes, contents);
        let facts = Facts {
            key: reader.bytes()?.to_vec(),
            moment: reader.signed()?,
            broken: reader.number()?,
            is_provable: reader.byte()? == 1,
        };
        let mut section = || Some(Section { at: reader.number()?, count: reader.number()? });
        let (folders, documents, terms) = (section()?, section()?, section()?);
        let (texts, mentions) = (reader.number()?, reader.number()?);
        Some(Self { bytes, facts, folders, documents, terms, texts, mentions })
    }

    /// The bytes to be kept.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many documents there are.
    pub(super) fn len(&self) -> usize {
        usize::try_from(self.documents.count).unwrap_or(usize::MAX)
    }

    /// A document by its number.
    pub(super) fn document(&self, number: u32) -> Option<View<'_>> {
        View::read(&mut self.row(self.documents, u64::from(number))?)
    }

    /// How many folders were listed.
    pub(super) fn folder_count(&self) -> u64 {
        self.folders.count
    }

    /// Where what is known about a folder begins.
    pub(super) fn folder(&self, number: u64) -> Option<Reader<'_>> {
        self.row(self.folders, number)
    }

    /// Every word, sorted.
    pub(super) fn terms(&self) -> impl Iterator<Item = Term<'_>> {
        let texts = Reader::at(&self.bytes, self.texts);
        let mut rows = Reader::at(&self.bytes, self.terms.at);
        (0..self.terms.count).map_while(move |_| {
            let word = texts.range(rows.count()?, rows.count()?)?;
            Some(Term { word, letters: rows.count()?, mentions: (rows.count()?, rows.count()?) })
        })
    }

    /// The documents that hold a word, each with the strength of the word in it.
    pub(super) fn mentions(&self, term: &Term<'_>) -> impl Iterator<Item = (u32, Strength)> {
        let (first, count) = term.mentions;
        let mut reader = Reader::at(&self.bytes, self.mentions + u64::from(first) * MENTION);
        (0..count).map_while(move |_| Some((reader.count()?, reader.short()?)))
    }

    /// Every document with its words, as it was before the image was made.
    pub(super) fn to_documents(&self) -> Vec<Document> {
        let count = u32::try_from(self.documents.count).unwrap_or(u32::MAX);
        let mut documents: Vec<Document> =
            (0..count).filter_map(|number| self.document(number)?.to_document()).collect();
        for term in self.terms() {
            let Some(word) = term.word() else { continue };
            for (number, strength) in self.mentions(&term) {
                if let Some(document) = usize::try_from(number).ok().and_then(|number| documents.get_mut(number)) {
                    document.terms.push(word, strength);
                }
            }
        }
        documents
    }

    fn row(&self, section: Section, number: u64) -> Option<Reader<'_>> {
        if number >= section.count {
            return None;
        }
        let at = Reader::at(&self.bytes, section.at + number * 8).number()?;
        Some(Reader::at(&self.bytes, at))
    }
}

impl<'i> View<'i> {
    fn read(reader: &mut Reader<'i>) -> Option<Self> {
        let layer = layer_of(reader.byte()?);
        let kind = match reader.byte()? {
            0 => ItemKind::Tool,
            1 => ItemKind::Directive,
            _ => ItemKind::Knowledge,
        };
        Some(Self {
            layer,
            kind,
            date: reader.maybe()?,
            file_date: reader.maybe()?,
            name: reader.text()?,
            category: reader.text()?,
            details: *reader,
        })
    }

    /// The rest of it.
    pub(super) fn details(&self) -> Option<Details<'i>> {
        let mut reader = self.details;
        let (description, path) = (reader.text()?, reader.text()?);
        let has_type = reader.byte()? == 1;
        let tool_type = Some(reader.text()?).filter(|_| has_type);
        Some(Details { description, path, tool_type, tags: reader })
    }

    /// Its file, as it is shown.
    pub(super) fn path(&self) -> &'i str {
        self.details().map(|details| details.path).unwrap_or_default()
    }

    fn to_document(self) -> Option<Document> {
        let details = self.details()?;
        Some(Document {
            layer: self.layer,
            kind: self.kind,
            name: self.name.to_owned(),
            category: self.category.to_owned(),
            description: details.description.to_owned(),
            path: details.path.to_owned(),
            tool_type: details.tool_type.map(str::to_owned),
            tags: details.tags().map(str::to_owned).collect(),
            date: self.date,
            file_date: self.file_date,
            terms: Terms::default(),
        })
    }
}

impl<'i> Details<'i> {
    /// The tags.
    pub(super) fn tags(&self) -> impl Iterator<Item = &'i str> {
        let mut reader = self.tags;
        let count = reader.count().unwrap_or(0);
        (0..count).map_while(move |_| reader.text())
    }
}

impl<'i> Term<'i> {
    /// The word itself.
    pub(super) fn word(&self) -> Option<&'i str> {
        std::str::from_utf8(self.word).ok()
    }
}

fn write_document(document: &Document, out: &mut Writer) {
    out.byte(layer_code(document.layer));
    out.byte(match document.kind {
        ItemKind::Tool => 0,
        ItemKind::Directive => 1,
        ItemKind::Knowledge => 2,
    });
    out.maybe(document.date);
    out.maybe(document.file_date);
    out.text(&document.name);
    out.text(&document.category);
    out.text(&document.description);
    out.text(&document.path);
    out.byte(u8::from(document.tool_type.is_some()));
    out.text(document.tool_type.as_deref().unwrap_or_default());
    out.count(document.tags.len());
    for tag in &document.tags {
        out.text(tag);
    }
}

/// Writes rows and the table of where they begin.
fn table<T>(out: &mut Writer, rows: &[T], write: impl Fn(&T, &mut Writer)) -> Section {
    let mut places = Vec::with_capacity(rows.len());
    for row in rows {
        places.push(out.position());
        write(row, out);
    }
    let at = out.position();
    for place in &places {
        out.number(*place);
    }
    Section { at, count: places.len() as u64 }
}

/// Writes all words and where they are mentioned.
fn write_terms(out: &mut Writer, documents: &[Document]) -> (Section, u64, u64) {
    // Starting threads takes longer than sorting a few words.
    let (mut all, odd) = match documents.len() {
        ..FEW => (invert(documents, |_| true), Vec::new()),
        _ => rayon::join(|| invert(documents, is_even), || invert(documents, |word| !is_even(word))),
    };
    all.extend(odd);
    all.sort_unstable_by_key(|(word, _)| *word);
    let mentions = out.position();
    for (document, strength) in all.iter().flat_map(|(_, mentions)| mentions) {
        out.0.extend(document.to_le_bytes());
        out.short(*strength);
    }
    let texts = out.position();
    let before = out.0.len();
    let mut rows = Writer::default();
    let mut first = 0;
    for (word, mentions) in &all {
        rows.count(out.0.len() - before);
        rows.count(word.len());
        rows.0.extend(letters(word).to_le_bytes());
        rows.count(first);
        rows.count(mentions.len());
        out.0.extend(word.as_bytes());
        first += mentions.len();
    }
    let count = all.len() as u64;
    let at = out.position();
    out.0.extend(rows.0);
    (Section { at, count }, texts, mentions)
}

/// Where each of some words is mentioned, in the order of the documents.
fn invert(documents: &[Document], is_wanted: impl Fn(&str) -> bool) -> Vec<(&str, Vec<(u32, Strength)>)> {
    // Documents come in order, so only the words have to be sorted, not every mention of them.
    let mut by_word: HashMap<&str, Vec<(u32, Strength)>> = HashMap::new();
    for (number, document) in (0..).zip(documents) {
        for (word, strength) in document.terms.iter().filter(|(word, _)| is_wanted(word)) {
            by_word.entry(word).or_default().push((number, strength));
        }
    }
    by_word.into_iter().collect()
}

/// Halves the words, so that two threads can share them.
fn is_even(word: &str) -> bool {
    word.bytes().fold(word.len(), |sum, byte| sum.wrapping_add(usize::from(byte))).is_multiple_of(2)
}

/// Puts a number in a place that was left for it.
fn put(bytes: &mut [u8], at: u64, number: u64) {
    let place = usize::try_from(at).ok().and_then(|at| bytes.get_mut(at..at + 8));
    if let Some(place) = place {
        place.copy_from_slice(&number.to_le_bytes());
    }
}

/// The checksum of everything after it: it finds accidents, nothing else.
fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(usize::try_from(COVERED).ok().and_then(|at| bytes.get(at..)).unwrap_or_default())
}
