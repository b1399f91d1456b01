//! Parses the text of a file into a [`Directive`].
//!
//! [`parse`] finds the block, parses it as XML and passes each part to its reader. It reports
//! everything it finds. A directive with errors is still returned if it has a usable name.

use std::mem;

use super::metadata::{self, Metadata};
use super::reading::{DirectiveReading, PlaceholderScope};
use super::scan::DirectiveScan;
use super::xml::{self, Element, XmlText};
use super::{Directive, DirectiveOutputs, block, inputs, outputs, reference, steps};
use crate::item::finding::{Findings, Severity, Strength};
use crate::item::id::ItemId;
use crate::item::position::LineIndex;
use crate::item::source::SourceFile;
use crate::item::version;
use crate::item::wording::{separated, shown};
use crate::problem::Code;

const ROOT_ELEMENTS: [&str; 8] = [
    "metadata",
    "context",
    "inputs",
    "process",
    "steps",
    "outputs",
    "success_criteria",
    "permissions",
];

/// Reads the directive of a file; problems go to `findings`.
///
/// Returns `None` when there is no directive, when its XML cannot be parsed, or when it has no
/// usable name. Otherwise the result is as complete as possible, even with errors.
pub fn parse(source: &SourceFile, findings: &mut Findings) -> Option<Directive> {
    let text = &*source.text;
    let lines = LineIndex::new(text);
    let block = block::find(text, &lines, findings)?;
    let root = read_tree(text, block.start, &block.scan, &lines, findings)?;
    let below: Vec<(&str, Option<Element>)> = ["process", "success_criteria"]
        .into_iter()
        .filter(|name| {
            !root
                .children()
                .any(|child| child.name == *name || (*name == "process" && is_process(child)))
        })
        .filter_map(|name| Some((name, block::find_below(text, &block, name)?)))
        .map(|(name, (start, scan))| (name, read_tree(text, start, &scan, &lines, findings)))
        .collect();
    let mut reading = DirectiveReading {
        text,
        lines,
        findings,
        notes: Vec::new(),
        unknown: Vec::new(),
        uses: Vec::new(),
        scope: PlaceholderScope::default(),
    };
    read_root(&root, &below, source, &mut reading)
}

/// Reports the problems of a scan and parses the scanned text.
fn read_tree(
    text: &str,
    start: usize,
    scan: &DirectiveScan,
    lines: &LineIndex<'_>,
    findings: &mut Findings,
) -> Option<Element> {
    for problem in &scan.problems {
        findings
            .add(
                problem.code,
                lines.place(problem.offset),
                "",
                &*problem.message,
            )
            .suggest(&*problem.suggestion);
    }
    let end = scan.end.filter(|_| !scan.broken)?;
    match xml::parse(text, start, end, scan) {
        Ok(root) => Some(root),
        Err(malformed) => {
            findings
                .add(
                    Code::XmlSyntax,
                    lines.place(malformed.offset),
                    "",
                    malformed.reason,
                )
                .suggest("correct the XML; wrap text that holds markup in CDATA: <![CDATA[ … ]]>");
            None
        }
    }
}

fn is_process(element: &Element) -> bool {
    matches!(&*element.name, "process" | "steps")
}

fn read_root(
    root: &Element,
    below: &[(&str, Option<Element>)],
    source: &SourceFile,
    reading: &mut DirectiveReading<'_>,
) -> Option<Directive> {
    reading.check_attributes(root, "", &["name", "version", "extends"]);
    reading.check_single(root, "", &["metadata"]);
    reading.check_single(root, "", &["inputs"]);
    reading.check_single(root, "", &["process", "steps"]);
    reading.check_single(root, "", &["outputs"]);

    let mut metadata = Metadata::default();
    metadata.relationships.extends.extend(
        root.attribute("extends")
            .map(|it| it.value.value.trim().to_owned()),
    );
    let mut context = None;
    let mut declared = inputs::DeclaredInputs::default();
    let mut process = Vec::new();
    let mut results = DirectiveOutputs::default();
    let mut success_criteria = Vec::new();
    for child in root.children() {
        match &*child.name {
            "metadata" => metadata::read(child, reading, &mut metadata),
            "context" => {
                let text = reading.text.get(child.inner.clone()).unwrap_or_default();
                context = Some(text.trim().to_owned());
            }
            "inputs" => inputs::read(child, reading, &mut declared),
            "process" | "steps" => steps::read(child, reading, &mut process),
            "outputs" => outputs::read(child, reading, &mut results),
            "success_criteria" => success_criteria.extend(outputs::criteria(child, reading)),
            _ if child.is_opaque() => reading.keep_note(child, ""),
            // Existing directives put permissions, descriptions and the like beside <metadata>.
            name if metadata::is_known(name) => {
                metadata::read_element(child, "", reading, &mut metadata);
            }
            _ => {
                let known = ROOT_ELEMENTS.into_iter().chain(metadata::ELEMENTS);
                reading.keep_unknown(child, "", &known.collect::<Vec<_>>());
            }
        }
    }
    for (name, part) in below {
        match part {
            Some(part) if *name == "process" => steps::read(part, reading, &mut process),
            Some(part) => success_criteria.extend(outputs::criteria(part, reading)),
            None => {}
        }
    }

    let unreadable = below
        .iter()
        .any(|(name, part)| *name == "process" && part.is_none());
    metadata::check_recommended(root, &metadata, reading);
    if process.is_empty() && !unreadable {
        report_no_steps(root, reading);
    }
    reference::check(&process, &declared.names(), reading);

    let name = read_name(root, &metadata, source, reading);
    let version = read_version(root, &metadata, reading);
    Some(Directive {
        name: name?,
        version,
        description: metadata.description,
        category: metadata.category,
        author: metadata.author,
        model: metadata.model,
        git_checkpoint: metadata.git_checkpoint,
        permissions: metadata.permissions,
        relationships: metadata.relationships,
        limits: metadata.limits,
        hooks: metadata.hooks,
        context,
        input_schema: declared.schema(),
        inputs: declared.inputs,
        steps: process,
        outputs: results,
        success_criteria,
        tags: metadata.tags,
        notes: mem::take(&mut reading.notes),
        unknown: mem::take(&mut reading.unknown),
        place: reading.place(root.span.start),
    })
}

/// RYE has directives that only others extend.
fn report_no_steps(root: &Element, reading: &mut DirectiveReading<'_>) {
    let severity = tolerated(reading);
    let message = match severity {
        Severity::Warning => "there are no steps, so the directive cannot run",
        Severity::Error => "at least one step is required",
    };
    reading
        .report(
            Code::MissingRequiredField,
            root.span.start,
            "process",
            message,
        )
        .with_severity(severity)
        .suggest("add <process><step name=\"…\"><action>…</action></step></process>");
}

/// The severity of a mistake that does not keep a directive from being understood.
fn tolerated(reading: &DirectiveReading<'_>) -> Severity {
    match reading.findings.strength() {
        Strength::Lenient => Severity::Warning,
        Strength::Strict => Severity::Error,
    }
}

/// Reads the name; the file name replaces an unusable one.
fn read_name(
    root: &Element,
    metadata: &Metadata,
    source: &SourceFile,
    reading: &mut DirectiveReading<'_>,
) -> Option<ItemId> {
    let stem = source
        .path
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default();
    let Some(written) = pick(root, "name", metadata.name.as_ref(), reading) else {
        reading.missing(root, "", "name");
        return stem.parse().ok();
    };
    let name = &*written.value;
    let offset = written.offset_at(0);
    match name.parse::<ItemId>() {
        Ok(id) => {
            if !is_conventional(name) {
                reading
                    .report(
                        Code::NamingConvention,
                        offset,
                        "name",
                        format!("`{name}` is not in snake_case"),
                    )
                    .suggest(format!("name it `{}`", separated(name, '_')));
            }
            if id.name() != stem && !stem.is_empty() {
                reading
                    .report(
                        Code::NameMismatch,
                        offset,
                        "name",
                        format!(
                            "the file is named `{}`, the directive `{name}`",
                            shown(&stem)
                        ),
                    )
                    .suggest(format!("rename the file to `{}.md`", id.name()));
            }
            Some(id)
        }
        Err(err) => {
            let message = format!("`{}` cannot be a name: {err}", shown(name));
            reading
                .report(Code::InvalidId, offset, "name", message)
                .suggest("use lower case letters, digits and `_`");
            stem.parse().ok()
        }
    }
}

fn read_version(root: &Element, metadata: &Metadata, reading: &mut DirectiveReading<'_>) -> String {
    let Some(written) = pick(root, "version", metadata.version.as_ref(), reading) else {
        let severity = tolerated(reading);
        reading
            .missing(root, "", "version")
            .with_severity(severity)
            .suggest("add version=\"1.0.0\" to `<directive>`");
        return "0.0.0".to_owned();
    };
    if semver::Version::parse(&written.value).is_err() {
        let message = format!(
            "`{}` is not a version of the form MAJOR.MINOR.PATCH",
            shown(&written.value)
        );
        reading
            .report(
                Code::InvalidSemver,
                written.offset_at(0),
                "version",
                message,
            )
            .suggest(format!(
                "write version=\"{}\"",
                version::completed(&written.value)
            ));
    }
    written.value
}

/// Chooses between an attribute of the root and an element that repeats it.
fn pick(
    root: &Element,
    name: &str,
    repeated: Option<&XmlText>,
    reading: &mut DirectiveReading<'_>,
) -> Option<XmlText> {
    let attribute = root
        .attribute(name)
        .map(|attribute| attribute.value.trimmed())
        .filter(|text| !text.is_blank());
    if let (Some(attribute), Some(repeated)) = (&attribute, repeated)
        && attribute.value != repeated.value
    {
        let message = format!(
            "the element says `{}`, the attribute of `<directive>` says `{}`",
            shown(&repeated.value),
            shown(&attribute.value)
        );
        reading
            .report(
                Code::ConflictingField,
                repeated.offset_at(0),
                format!("metadata.{name}"),
                message,
            )
            .suggest("remove the element; the attribute counts");
    }
    attribute.or_else(|| repeated.cloned())
}

fn is_conventional(name: &str) -> bool {
    !name.starts_with('_')
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}
