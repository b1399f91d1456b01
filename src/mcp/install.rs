//! Adds the server to the settings of MCP clients.
//!
//! [`Client`] knows where each client keeps its settings and in which format. [`Installation`] is
//! the entry to write. Only the entry `piton` is ever changed: other servers, unknown keys and
//! comments stay. [`mod@file`] replaces a settings file atomically.

mod client;
mod file;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use client::{Client, InstallScope};
use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::exec::subprocess::find_on_path;
use crate::item::json::member::{self, MemberError, MemberReplacement};
use crate::item::toml;
use crate::item::wording::shown;
use crate::problem::{Code, Explain, Hint};

/// The name of the entry.
const NAME: &str = "piton";

#[derive(Debug)]
pub struct Installation {
    pub client: Client,
    pub scope: InstallScope,
    pub file: PathBuf,
    /// The project root; project settings must not lie outside.
    root: PathBuf,
    fields: Map<String, Value>,
}

/// The current entry for piton.
#[derive(Clone, Debug, PartialEq)]
pub enum ExistingEntry {
    Nothing,
    /// The entry is the one that would be written.
    Same,
    Other(Value),
}

/// What to do with a different entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Keep it and refuse the installation.
    Keep,
    /// Replace it; keys that piton does not set stay.
    Replace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    Added,
    Replaced,
    /// The entry exists already; the file was not touched.
    Unchanged,
}

#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("there is no home folder to find the settings in")]
    NoHome,
    /// The path of the program is unknown.
    #[error("the file of piton itself cannot be named in settings")]
    NoProgram,
    #[error("`{}` is not UTF-8 and cannot be written into settings", .0.display())]
    NotText(PathBuf),
    /// The settings do not have the expected form.
    #[error("`{}` cannot be changed: {problem}", .file.display())]
    Unclear { file: PathBuf, problem: String },
    #[error("`{}` has an entry `piton` already, which {found}", .file.display())]
    Other {
        file: PathBuf,
        /// What the entry does instead.
        found: String,
    },
    /// A symbolic link leads out of the project.
    #[error("`{}` leads out of the project by a link", .0.display())]
    Leaves(PathBuf),
    #[error("`{}` is a link that leads to nothing", .0.display())]
    Dangling(PathBuf),
    #[error("`{}` is read-only", .0.display())]
    ReadOnly(PathBuf),
    /// Another program wrote the file at the same time.
    #[error("`{}` was changed by another program meanwhile", .0.display())]
    Changed(PathBuf),
    #[error("cannot write `{}`", .file.display())]
    Unwritable {
        file: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl Explain for InstallError {
    fn code(&self) -> Code {
        match self {
            Self::NoHome => Code::NoHome,
            Self::NoProgram | Self::NotText(_) => Code::NotText,
            Self::Unclear { .. } => Code::InvalidFile,
            Self::Other { .. } => Code::EntryDiffers,
            Self::Leaves(_) => Code::OutsideProject,
            Self::Dangling(_) | Self::ReadOnly(_) | Self::Unwritable { .. } => Code::CannotWrite,
            Self::Changed(_) => Code::ChangedMeanwhile,
        }
    }

    fn hint(&self) -> Option<Hint> {
        let by_hand = "without `--write`, `piton mcp install` prints what to write by hand";
        Some(match self {
            Self::NoHome => "set `HOME`, or install for the project with `--scope project`".into(),
            Self::NoProgram => {
                "start piton by its path, e.g. `/usr/local/bin/piton mcp install`".into()
            }
            Self::NotText(_) => "rename the folder".into(),
            Self::Unclear { .. } => {
                format!("nothing was written: correct the file first; {by_hand}").into()
            }
            Self::Other { .. } => {
                "`--force` replaces what piton sets and keeps the other keys; nothing was written"
                    .into()
            }
            Self::Leaves(_) => {
                format!("nothing was written, because a project must not say where; {by_hand}")
                    .into()
            }
            Self::Dangling(_) => "make what it leads to, or remove the link".into(),
            Self::ReadOnly(_) => format!("make it writable with `chmod u+w`; {by_hand}").into(),
            Self::Changed(_) => {
                "nothing was written: try again, best while the client is not running".into()
            }
            Self::Unwritable { .. } => by_hand.into(),
        })
    }
}

impl Installation {
    /// Builds the entry that makes a client start this program. `limits` are the arguments that say
    /// what agents may do.
    pub fn new(
        ctx: &Context,
        client: Client,
        scope: InstallScope,
        roots: &[PathBuf],
        limits: Vec<String>,
    ) -> Result<Self, InstallError> {
        let file = client.settings(scope, ctx).ok_or(InstallError::NoHome)?;
        let mut arguments: Vec<String> = client.start().iter().map(|&it| it.to_owned()).collect();
        arguments.push("mcp".to_owned());
        for root in roots {
            arguments.extend(["--root".to_owned(), text(root)?]);
        }
        arguments.extend(limits);
        let mut fields = Map::new();
        if client.writes_type() {
            fields.insert("type".to_owned(), "stdio".into());
        }
        fields.insert("command".to_owned(), program(ctx)?.into());
        fields.insert("args".to_owned(), arguments.into());
        Ok(Self {
            client,
            scope,
            file,
            root: ctx.root.clone(),
            fields,
        })
    }

    pub fn entry(&self) -> &Map<String, Value> {
        &self.fields
    }

    pub fn command(&self) -> &str {
        self.fields
            .get("command")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// A settings file with only this entry.
    pub fn snippet(&self) -> String {
        let section = self.client.section();
        if self.client.is_toml() {
            return toml::snippet(section, NAME, &self.fields);
        }
        format!("{:#}\n", json!({ section: { NAME: self.fields } }))
    }

    /// The current entry for piton.
    pub fn look(&self) -> Result<ExistingEntry, InstallError> {
        let text = file::read(&self.file)?.unwrap_or_default();
        self.found_in(&text)
    }

    pub fn write(&self, existing: Existing) -> Result<Done, InstallError> {
        if self.scope == InstallScope::Project {
            file::require_inside(&self.file, &self.root)?;
        }
        let old = file::read(&self.file)?;
        let text = old.as_deref().unwrap_or_default();
        let (done, how) = match self.found_in(text)? {
            ExistingEntry::Same => return Ok(Done::Unchanged),
            ExistingEntry::Nothing => (Done::Added, MemberReplacement::Fields),
            ExistingEntry::Other(found) if existing == Existing::Keep => {
                return Err(InstallError::Other {
                    file: self.file.clone(),
                    found: instead(&found),
                });
            }
            // An entry that starts a program keeps its other keys. An entry for a remote server is
            // replaced as a whole.
            ExistingEntry::Other(found) if found.get("command").is_some() => {
                (Done::Replaced, MemberReplacement::Fields)
            }
            ExistingEntry::Other(_) => (Done::Replaced, MemberReplacement::Whole),
        };
        let section = self.client.section();
        let (mark, rest) = marked(text);
        let new = if self.client.is_toml() {
            toml::set(rest, section, NAME, &self.fields, how)
        } else {
            member::set(rest, section, NAME, &self.fields, how)
        };
        let new = format!("{mark}{}", new.map_err(|err| self.unclear(&err))?);
        file::replace(&self.file, old.as_deref(), &new, self.scope)?;
        Ok(done)
    }

    fn found_in(&self, text: &str) -> Result<ExistingEntry, InstallError> {
        let (_, rest) = marked(text);
        let section = self.client.section();
        let found = if self.client.is_toml() {
            toml::find(rest, section, NAME)
        } else {
            member::find(rest, section, NAME)
        };
        Ok(match found.map_err(|err| self.unclear(&err))? {
            None => ExistingEntry::Nothing,
            // Other keys belong to the user and are ignored.
            Some(found)
                if self
                    .fields
                    .iter()
                    .all(|(key, value)| found.get(key) == Some(value)) =>
            {
                ExistingEntry::Same
            }
            Some(found) => ExistingEntry::Other(found),
        })
    }

    fn unclear(&self, err: &MemberError) -> InstallError {
        InstallError::Unclear {
            file: self.file.clone(),
            problem: shown(&err.to_string()),
        }
    }
}

/// Describes what an entry does, without the secrets that other keys may hold.
fn instead(found: &Value) -> String {
    let word = |key: &str| found.get(key).and_then(Value::as_str);
    if let Some(url) = word("url").or_else(|| word("httpUrl")) {
        let address = url.split(['?', '#']).next().unwrap_or(url);
        return format!("connects to `{}`", shown(address));
    }
    let Some(command) = word("command") else {
        return "starts nothing".to_owned();
    };
    let arguments = found
        .get("args")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let line: Vec<&str> = std::iter::once(command).chain(arguments).collect();
    format!("starts `{}`", shown(&line.join(" ")))
}

/// Splits off the byte order mark that some editors write.
fn marked(text: &str) -> (&str, &str) {
    text.strip_prefix('\u{feff}')
        .map_or(("", text), |rest| ("\u{feff}", rest))
}

/// How clients start piton: by name if that finds this program on the `PATH`, otherwise by path.
fn program(ctx: &Context) -> Result<String, InstallError> {
    let own = fs::canonicalize(&ctx.program).map_err(|_| InstallError::NoProgram)?;
    let is_found = find_on_path(&own, NAME, ctx.search_path()).is_some();
    if is_found {
        Ok(NAME.to_owned())
    } else {
        text(&own)
    }
}

fn text(path: &Path) -> Result<String, InstallError> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| InstallError::NotText(path.to_path_buf()))
}
