//! The stable codes of findings.
//!
//! One table: the name, how severe it is, and one line of what it means. Every code has a section
//! in `docs/reference/codes.md` with a failing and a mended example; a test keeps the two equal.

use std::fmt;

use serde::{Serialize, Serializer};

/// How severe the findings of a code are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Always an error.
    Error,
    /// Always a warning.
    Warning,
    /// A warning in lenient, an error in strict validation.
    ErrorWhenStrict,
}

macro_rules! codes {
    ($($variant:ident $name:literal $level:ident $summary:literal)*) => {
        /// A stable code, e.g. `MISSING_REQUIRED_FIELD`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $summary] $variant,)*
        }

        impl Code {
            /// Every code, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The code as it is printed.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// How severe its findings are.
            pub fn level(self) -> Level {
                match self { $(Self::$variant => Level::$level,)* }
            }

            /// What it means, in one line.
            pub fn summary(self) -> &'static str {
                match self { $(Self::$variant => $summary,)* }
            }
        }
    };
}

codes! {
    // Any file.
    UnreadableFile "UNREADABLE_FILE" Error "the file cannot be read"
    NotARegularFile "NOT_A_REGULAR_FILE" Error "an item must be a regular file, not a folder, pipe or device"
    FileTooLarge "FILE_TOO_LARGE" Error "the file is larger than an item may be"
    NotUtf8 "NOT_UTF8" Error "the file is not valid UTF-8"
    EmptyFile "EMPTY_FILE" Error "the file has no content"
    PathEscape "PATH_ESCAPE" Error "a path leaves the folder it must stay in"
    InvalidPath "INVALID_PATH" Error "a path holds characters that no path may hold"
    // Documents.
    YamlSyntax "YAML_SYNTAX" Error "the YAML cannot be parsed"
    YamlTag "YAML_TAG" Error "YAML tags are not accepted"
    YamlMergeKey "YAML_MERGE_KEY" Error "YAML merge keys are not accepted"
    YamlManyDocuments "YAML_MANY_DOCUMENTS" Error "the file holds more than one YAML document"
    RepetitionLimit "REPETITION_LIMIT" Error "aliases repeat more content than is accepted"
    NestingLimit "NESTING_LIMIT" Error "the content is nested too deeply"
    DuplicateKey "DUPLICATE_KEY" Error "a key is given twice"
    InvalidNumber "INVALID_NUMBER" Error "a number is out of range or not a number"
    JsonSyntax "JSON_SYNTAX" Error "the JSON cannot be parsed"
    XmlSyntax "XML_SYNTAX" Error "the XML cannot be parsed"
    XmlDtd "XML_DTD" Error "document type declarations and entities are not accepted"
    UnescapedMarkup "UNESCAPED_MARKUP" ErrorWhenStrict "an unescaped `<` or `&` in text"
    // Any item.
    MissingRequiredField "MISSING_REQUIRED_FIELD" Error "a required field is missing"
    MissingRecommendedField "MISSING_RECOMMENDED_FIELD" Warning "a field that readers and search rely on is missing"
    InvalidType "INVALID_TYPE" Error "a field has the wrong type"
    InvalidEnumValue "INVALID_ENUM_VALUE" Error "a value is not one of those allowed"
    UnknownEnumValue "UNKNOWN_ENUM_VALUE" ErrorWhenStrict "a value outside the documented list that files in the wild use"
    InvalidSemver "INVALID_SEMVER" Error "a version is not MAJOR.MINOR.PATCH"
    UnquotedVersion "UNQUOTED_VERSION" ErrorWhenStrict "a version is written as a number"
    NamingConvention "NAMING_CONVENTION" Warning "a name does not follow the naming convention"
    InvalidId "INVALID_ID" Error "an id holds characters that no id may hold"
    DuplicateId "DUPLICATE_ID" Error "two items in one layer have the same id"
    DuplicateName "DUPLICATE_NAME" Error "two steps, inputs or parameters have the same name"
    UnknownField "UNKNOWN_FIELD" ErrorWhenStrict "a field is not known"
    CategoryMismatch "CATEGORY_MISMATCH" Warning "the category differs from the folder the item lies in"
    NameMismatch "NAME_MISMATCH" Warning "the file is not named after the item"
    Unsigned "UNSIGNED" Warning "the item has no integrity stamp"
    HashMismatch "HASH_MISMATCH" Error "the content differs from what was stamped"
    InvalidStamp "INVALID_STAMP" Error "the integrity stamp is malformed, misplaced or given twice"
    ForeignStamp "FOREIGN_STAMP" Warning "the stamp is of another kind and cannot be checked"
    UncoveredScript "UNCOVERED_SCRIPT" Warning "the stamp of a manifest does not cover the script beside it"
    // Directives.
    NoDirective "NO_DIRECTIVE" Error "the file holds no directive"
    ManyDirectives "MANY_DIRECTIVES" Error "the file holds more than one directive"
    UnfencedDirective "UNFENCED_DIRECTIVE" ErrorWhenStrict "the directive does not stand in a fenced xml block"
    TextAfterDirective "TEXT_AFTER_DIRECTIVE" Error "text stands between the directive and the end of its fence"
    UnknownElement "UNKNOWN_ELEMENT" Warning "an element is not known; it is kept and has no effect"
    UnknownPermission "UNKNOWN_PERMISSION" Error "a permission element is not known"
    GrantWithoutEffect "GRANT_WITHOUT_EFFECT" Warning "a permission grants nothing"
    MissingGrant "MISSING_GRANT" Error "a step needs a permission that the directive does not grant"
    UnusedGrant "UNUSED_GRANT" Warning "no step that can be reached uses a grant"
    UnknownReference "UNKNOWN_REFERENCE" Error "a placeholder names an input or step that does not exist"
    InvalidTemplate "INVALID_TEMPLATE" Error "a placeholder is malformed"
    InvalidExpression "INVALID_EXPRESSION" Error "an expression cannot be parsed"
    AmbiguousStep "AMBIGUOUS_STEP" Error "a step does more than one thing, or nothing"
    UnknownItem "UNKNOWN_ITEM" ErrorWhenStrict "an item that is named does not exist"
    DirectiveCycle "DIRECTIVE_CYCLE" Error "a directive calls itself, and no condition ends it"
    InvalidParameter "INVALID_PARAMETER" Error "a parameter does not fit the tool that is called"
    // Tools.
    MissingMetadata "MISSING_METADATA" Error "a script says nothing about itself"
    ConflictingField "CONFLICTING_FIELD" Warning "a field is given in two places with different values"
    CodeNotExecuted "CODE_NOT_EXECUTED" Warning "project code is never executed to read metadata"
    PrimitiveShadowed "PRIMITIVE_SHADOWED" Warning "a project file describes a primitive and is ignored"
    UnknownExecutor "UNKNOWN_EXECUTOR" Error "the executor does not exist"
    UnexpectedExecutor "UNEXPECTED_EXECUTOR" Error "the executor is of the wrong kind, or must be absent"
    ExecutorCycle "EXECUTOR_CYCLE" Error "the executor chain loops"
    ExecutorDepth "EXECUTOR_DEPTH" Error "the executor chain is too long"
    MissingEntrypoint "MISSING_ENTRYPOINT" Error "the entrypoint does not exist"
    SyntaxError "SYNTAX_ERROR" Error "a script cannot be parsed by its interpreter"
    InvalidUrl "INVALID_URL" Error "a URL cannot be used"
    UnknownTemplateVariable "UNKNOWN_TEMPLATE_VARIABLE" Error "a template variable has no parameter"
    InvalidRequirement "INVALID_REQUIREMENT" Error "a dependency is not a valid requirement"
    InvalidSchema "INVALID_SCHEMA" Error "a JSON Schema is not valid"
    RemoteReference "REMOTE_REFERENCE" Error "a JSON Schema refers to something outside itself"
    InvalidDefault "INVALID_DEFAULT" Error "a default does not fit its own schema"
    UnknownSchema "UNKNOWN_SCHEMA" Warning "the named schema does not exist"
    InvalidPattern "INVALID_PATTERN" Error "a pattern cannot be compiled"
    DeclaredPermissions "DECLARED_PERMISSIONS" Warning "a tool declares permissions; directives grant, tools only require"
    // Tool schema 1.0 and 2.0.
    InvalidFunctionSyntax "INVALID_FUNCTION_SYNTAX" Error "a JavaScript function cannot be parsed"
    ForbiddenCall "FORBIDDEN_CALL" Error "a JavaScript function uses something outside its sandbox"
    MissingScenario "MISSING_SCENARIO" ErrorWhenStrict "a required example scenario is missing"
    IgnoredSection "IGNORED_SECTION" Warning "a section is ignored by the schema version"
    UncheckableDetection "UNCHECKABLE_DETECTION" Warning "a payload detection cannot be evaluated"
    // Knowledge.
    MissingFrontMatter "MISSING_FRONT_MATTER" Error "the file has no YAML front matter"
    // Settings.
    UnknownSetting "UNKNOWN_SETTING" Warning "a setting is not known"
    SettingIgnored "SETTING_IGNORED" Warning "a project may not loosen this setting"
}

/// The page about all of them, in their order.
const PAGE: &str = include_str!("../../docs/reference/codes.md");

impl Code {
    /// The code of a name, in upper or lower case.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str().eq_ignore_ascii_case(name))
    }

    /// Its section of the documentation: what it means, an example that fails, and one that is mended.
    pub fn section(self) -> &'static str {
        let heading = |code: Self| PAGE.find(&format!("\n### {code}\n")).map(|at| at + 1);
        let next = Self::ALL.iter().copied().skip_while(|code| *code != self).nth(1);
        let end = next.and_then(heading).unwrap_or(PAGE.len());
        let section = heading(self).and_then(|start| PAGE.get(start..end)).unwrap_or_default().trim_end();
        // The last line may be the title of the codes that follow.
        match section.rsplit_once('\n') {
            Some((before, last)) if last.starts_with("## ") => before.trim_end(),
            _ => section,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_section_of_its_own() {
        for code in Code::ALL {
            let section = code.section();
            assert!(section.starts_with(&format!("### {code}\n\n**")), "{code}: {section}");
            let others = Code::ALL.iter().filter(|other| section.contains(&format!("\n### {other}\n")));
            assert_eq!(others.count(), 0, "{code}");
            assert!(!section.lines().next_back().unwrap().starts_with("## "), "{code}");
            assert_eq!(Code::find(&code.as_str().to_lowercase()), Some(*code));
        }
    }
}
