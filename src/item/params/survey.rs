//! The references of a schema, examined before it is compiled.
//!
//! The validator follows references by recursion and trusts its schema. A [`SchemaSurvey`] walks the
//! schema once and refuses what would not end: references that loop without descending into the
//! value, chains that are too long, and alternatives that multiply.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::problem::Code;

use super::schema::SchemaProblem;
use super::{MAX_DEPTH, fits};

const MAX_VALUES: usize = 50_000;
/// The longest chain of subschemas with references followed.
const MAX_CHAIN: u32 = 128;
/// The most subschemas with references followed.
const MAX_EXPANDED: u64 = 100_000;
/// Each pattern is compiled.
const MAX_PATTERNS: usize = 100;
/// Up to this height a schema is compiled and run on the caller's stack.
const SHALLOW: u32 = 16;

const META_SCHEMAS: [&str; 5] = [
    "://json-schema.org/draft/2020-12/schema",
    "://json-schema.org/draft/2019-09/schema",
    "://json-schema.org/draft-07/schema",
    "://json-schema.org/draft-06/schema",
    "://json-schema.org/draft-04/schema",
];

#[derive(Debug)]
pub(super) struct SchemaSurvey<'s> {
    /// Reasons not to compile.
    pub(super) problems: Vec<SchemaProblem>,
    /// The subschemas with a default, by pointer.
    pub(super) defaults: Vec<(String, &'s Map<String, Value>)>,
    height: u32,
    recursive: bool,
}

/// How a subschema is reached from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SchemaEdge {
    /// It checks the same value.
    Here,
    /// It checks a part of the value.
    Below,
    /// It is only stored there (`$defs`).
    Stored,
}

#[derive(Debug, Default)]
struct Spot {
    edges: Vec<(SchemaEdge, usize)>,
}

struct SchemaWalk<'s> {
    root: &'s Value,
    spots: Vec<Spot>,
    /// The visited subschemas, by pointer.
    known: HashMap<String, usize>,
    /// Subschemas by their `$anchor` or `$dynamicAnchor`.
    anchors: HashMap<&'s str, Vec<usize>>,
    /// References to anchors, resolved when all anchors are known.
    pending: Vec<(usize, String, &'s str)>,
    todo: Vec<(String, &'s Value, usize)>,
    patterns: usize,
    problems: Vec<SchemaProblem>,
    defaults: Vec<(String, &'s Map<String, Value>)>,
}

impl<'s> SchemaSurvey<'s> {
    pub(super) fn of(root: &'s Value) -> Self {
        if !fits(root, MAX_DEPTH, &mut MAX_VALUES.clone()) {
            let message =
                format!("the schema is too large or nested more than {MAX_DEPTH} levels deep");
            return Self {
                problems: vec![SchemaProblem::new(Code::InvalidSchema, "", message)],
                defaults: Vec::new(),
                height: 0,
                recursive: false,
            };
        }
        let mut walk = SchemaWalk {
            root,
            spots: Vec::new(),
            known: HashMap::new(),
            anchors: HashMap::new(),
            pending: Vec::new(),
            todo: Vec::new(),
            patterns: 0,
            problems: Vec::new(),
            defaults: Vec::new(),
        };
        walk.run();
        let SchemaWalk {
            spots,
            mut problems,
            defaults,
            ..
        } = walk;
        let names = || "the schema refers to itself without going down into the value";
        let invalid = |message: String| SchemaProblem::new(Code::InvalidSchema, "", message);
        let here = Heights::of(&spots, |edge| edge == SchemaEdge::Here);
        let all = Heights::of(&spots, |edge| edge != SchemaEdge::Stored);
        if here.recursive {
            problems.push(invalid(names().to_owned()));
        } else if here.too_high || all.too_high {
            problems.push(invalid(format!(
                "the schema has a chain of more than {MAX_CHAIN} subschemas"
            )));
        } else if all.expanded > MAX_EXPANDED {
            problems.push(invalid(
                "the schema multiplies its subschemas by references".to_owned(),
            ));
        }
        Self {
            problems,
            defaults,
            height: all.height,
            recursive: all.recursive,
        }
    }

    /// Whether using the schema needs its own thread with a time limit.
    pub(super) fn needs_bounds(&self) -> bool {
        self.recursive || self.height > SHALLOW
    }
}

impl<'s> SchemaWalk<'s> {
    fn run(&mut self) {
        self.reach(String::new(), self.root);
        while let Some((pointer, schema, at)) = self.todo.pop() {
            if let Some(map) = schema.as_object() {
                self.visit(&pointer, map, at);
            }
        }
        for (from, pointer, name) in std::mem::take(&mut self.pending) {
            match self.anchors.get(name) {
                Some(targets) => {
                    let edges = targets.iter().map(|target| (SchemaEdge::Here, *target));
                    if let Some(spot) = self.spots.get_mut(from) {
                        spot.edges.extend(edges);
                    }
                }
                None => self.complain(
                    Code::InvalidSchema,
                    &pointer,
                    format!("`#{name}` does not exist in the schema"),
                ),
            }
        }
        if self.patterns > MAX_PATTERNS {
            self.complain(
                Code::InvalidSchema,
                "",
                format!("the schema has more than {MAX_PATTERNS} patterns"),
            );
        }
    }

    /// The index of the subschema at a pointer; visits it if it is new.
    fn reach(&mut self, pointer: String, schema: &'s Value) -> usize {
        if let Some(at) = self.known.get(&pointer) {
            return *at;
        }
        let at = self.spots.len();
        self.spots.push(Spot::default());
        self.known.insert(pointer.clone(), at);
        self.todo.push((pointer, schema, at));
        at
    }

    fn visit(&mut self, pointer: &str, map: &'s Map<String, Value>, at: usize) {
        if map.contains_key("default") {
            self.defaults.push((pointer.to_owned(), map));
        }
        for (keyword, value) in map {
            let here = format!(
                "{pointer}/{}",
                keyword.replace('~', "~0").replace('/', "~1")
            );
            match keyword.as_str() {
                "$ref" | "$dynamicRef" | "$recursiveRef" => self.refer(at, here, value),
                "$schema" => self.check_meta_schema(&here, value),
                "$anchor" | "$dynamicAnchor" => {
                    if let Some(name) = value.as_str() {
                        self.anchors.entry(name).or_default().push(at);
                    }
                }
                "$id" if !pointer.is_empty() => {
                    match value.as_str().and_then(|id| id.strip_prefix('#')) {
                        Some(name) => self.anchors.entry(name).or_default().push(at),
                        None => self.complain(
                            Code::InvalidSchema,
                            &here,
                            "an embedded `$id` is not supported",
                        ),
                    }
                }
                "pattern" => self.patterns += 1,
                "patternProperties" => {
                    self.patterns += value.as_object().map_or(0, Map::len);
                    self.children(at, SchemaEdge::Below, &here, value);
                }
                "properties" | "prefixItems" => self.children(at, SchemaEdge::Below, &here, value),
                "$defs" | "definitions" => self.children(at, SchemaEdge::Stored, &here, value),
                "allOf" | "anyOf" | "oneOf" | "dependentSchemas" | "dependencies" => {
                    self.children(at, SchemaEdge::Here, &here, value);
                }
                "not" | "if" | "then" | "else" => self.child(at, SchemaEdge::Here, here, value),
                "items" if value.is_array() => self.children(at, SchemaEdge::Below, &here, value),
                "items"
                | "additionalItems"
                | "additionalProperties"
                | "unevaluatedItems"
                | "unevaluatedProperties"
                | "contains"
                | "propertyNames"
                | "contentSchema" => self.child(at, SchemaEdge::Below, here, value),
                _ => {}
            }
        }
    }

    fn child(&mut self, from: usize, edge: SchemaEdge, pointer: String, schema: &'s Value) {
        let to = self.reach(pointer, schema);
        if let Some(spot) = self.spots.get_mut(from) {
            spot.edges.push((edge, to));
        }
    }

    fn children(&mut self, from: usize, edge: SchemaEdge, pointer: &str, schemas: &'s Value) {
        match schemas {
            Value::Array(list) => {
                for (at, schema) in list.iter().enumerate() {
                    self.child(from, edge, format!("{pointer}/{at}"), schema);
                }
            }
            Value::Object(map) => {
                for (name, schema) in map {
                    let name = name.replace('~', "~0").replace('/', "~1");
                    self.child(from, edge, format!("{pointer}/{name}"), schema);
                }
            }
            _ => {}
        }
    }

    fn refer(&mut self, from: usize, pointer: String, value: &'s Value) {
        // The meta-schema reports anything but text.
        let Some(target) = value.as_str() else { return };
        let Some(fragment) = target.strip_prefix('#') else {
            self.complain(
                Code::RemoteReference,
                &pointer,
                format!("`{target}` is outside the schema"),
            );
            return;
        };
        if !fragment.is_empty() && !fragment.starts_with('/') {
            self.pending.push((from, pointer, fragment));
            return;
        }
        let decoded = percent_decoded(fragment);
        match self.root.pointer(&decoded) {
            Some(schema) => self.child(from, SchemaEdge::Here, decoded, schema),
            None => self.complain(
                Code::InvalidSchema,
                &pointer,
                format!("`{target}` does not exist in the schema"),
            ),
        }
    }

    fn check_meta_schema(&mut self, pointer: &str, value: &Value) {
        let Some(id) = value.as_str() else { return };
        let bare = id
            .trim_end_matches('#')
            .trim_start_matches("https")
            .trim_start_matches("http");
        if !META_SCHEMAS.contains(&bare) {
            self.complain(
                Code::RemoteReference,
                pointer,
                format!("`{id}` is not a known JSON Schema draft"),
            );
        }
    }

    fn complain(&mut self, code: Code, pointer: &str, message: impl Into<String>) {
        self.problems
            .push(SchemaProblem::new(code, pointer, message));
    }
}

/// How far subschemas reach along some of their edges.
#[derive(Debug, Default)]
struct Heights {
    recursive: bool,
    too_high: bool,
    height: u32,
    expanded: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VisitMark {
    New,
    Open,
    Done { height: u32, expanded: u64 },
}

impl Heights {
    fn of(spots: &[Spot], follow: impl Fn(SchemaEdge) -> bool + Copy) -> Self {
        let mut heights = Self::default();
        let mut marks = vec![VisitMark::New; spots.len()];
        for at in 0..spots.len() {
            let (height, expanded) = heights.measure(spots, follow, &mut marks, at, MAX_CHAIN);
            heights.height = heights.height.max(height);
            heights.expanded = heights.expanded.max(expanded);
        }
        heights
    }

    /// Height and number of subschemas below one; recursion ends at `left`.
    fn measure(
        &mut self,
        spots: &[Spot],
        follow: impl Fn(SchemaEdge) -> bool + Copy,
        marks: &mut [VisitMark],
        at: usize,
        left: u32,
    ) -> (u32, u64) {
        match marks.get(at) {
            Some(VisitMark::New) => {}
            Some(VisitMark::Open) => {
                self.recursive = true;
                return (0, 1);
            }
            Some(VisitMark::Done { height, expanded }) => {
                self.too_high |= *height > left;
                return (*height, *expanded);
            }
            None => return (0, 0),
        }
        let Some(left) = left.checked_sub(1) else {
            self.too_high = true;
            return (0, 1);
        };
        if let Some(mark) = marks.get_mut(at) {
            *mark = VisitMark::Open;
        }
        let (mut height, mut expanded) = (0, 1_u64);
        for (edge, to) in spots
            .get(at)
            .map(|spot| spot.edges.as_slice())
            .unwrap_or_default()
        {
            if follow(*edge) {
                let (above, more) = self.measure(spots, follow, marks, *to, left);
                height = height.max(above);
                expanded = expanded.saturating_add(more);
            }
        }
        height += 1;
        if let Some(mark) = marks.get_mut(at) {
            *mark = VisitMark::Done { height, expanded };
        }
        (height, expanded)
    }
}

fn percent_decoded(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        let digits = tail
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => bytes.push(*first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
