//! The environment of a tool: almost nothing, and what was declared.
//!
//! From the caller it gets `PATH`, language and time zone, and the variables that the tool or its
//! runtime requests by name. The values of the caller's variables are secrets, except for a few
//! well-known ones.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;

use serde_json::{Map, Value};

use super::error::ResolveError;
use super::placeholder::{Used, Vocabulary};
use super::settings::{SettingData, ToolSetting, ToolSettings};
use super::surroundings::Surroundings;
use super::{CallEnvironment, MAX_WORD, as_text};
use crate::exec::invocation::MaskedText;
use crate::exec::toolchain::{self, CallCache};
use crate::item::wording::shown;

/// The default `PATH`.
const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The variables of one call with their origins.
#[derive(Debug, Default)]
pub(super) struct CallVariables {
    pub(super) values: BTreeMap<String, MaskedText>,
    pub(super) origins: BTreeMap<String, String>,
}

/// Whether every tool gets the variable without a request.
pub(crate) fn is_always_given(name: &str) -> bool {
    matches!(name, "PATH" | "LANG" | "TZ" | "TMPDIR" | "USER" | "LOGNAME")
        || name.starts_with("LC_")
}

/// Whether the value of the variable is not secret.
pub(crate) fn is_public(name: &str) -> bool {
    is_always_given(name) || name == "HOME"
}

impl CallVariables {
    /// The variables that every tool gets from the caller.
    pub(super) fn scrubbed(around: &CallEnvironment) -> Self {
        let mut environment = Self::default();
        for (name, value) in &around.environment {
            let (Some(name), Some(text)) = (name.to_str(), value.to_str()) else {
                continue;
            };
            let usable = match name {
                "PATH" => continue,
                "TMPDIR" => Path::new(text).is_absolute(),
                name => is_always_given(name),
            };
            if usable {
                environment.set(
                    name,
                    MaskedText::plain(text),
                    format!("environment variable {name}"),
                );
            }
        }
        match search_path(around.environment.get(OsStr::new("PATH"))) {
            Some(path) => environment.set(
                "PATH",
                MaskedText::plain(path),
                "environment variable PATH".to_owned(),
            ),
            None => environment.set("PATH", MaskedText::plain(SEARCH_PATH), "default".to_owned()),
        }
        environment.set("TERM", MaskedText::plain("dumb"), "default".to_owned());
        environment
    }

    /// Adds the folders of toolchains that a private home would hide, and those of declared caches.
    pub(super) fn toolchains(&mut self, around: &CallEnvironment, caches: &[CallCache]) {
        for (name, folder, is_set) in toolchain::homes(around) {
            let origin = if is_set {
                format!("environment variable {name}")
            } else {
                "the home of the user".to_owned()
            };
            self.set_folder(name, &folder, origin);
        }
        for cache in caches {
            if let Some(name) = cache.variable {
                self.set_folder(name, &cache.folder, format!("cache {}", cache.name));
            }
        }
    }

    fn has_toolchain(&self, name: &str) -> bool {
        toolchain::is_home(name) && self.values.contains_key(name)
    }

    fn set_folder(&mut self, name: &str, folder: &Path, origin: String) {
        if let Some(text) = folder.to_str() {
            self.set(name, MaskedText::plain(text), origin);
        }
    }

    /// Adds variables requested by name. The caller checks that they are set.
    pub(super) fn declare(
        &mut self,
        names: &[String],
        around: &CallEnvironment,
    ) -> Result<(), ResolveError> {
        let is_wanted = |name: &&String| !is_always_given(name) && !self.has_toolchain(name);
        let names: Vec<&String> = names.iter().filter(is_wanted).collect();
        for name in names {
            let Some(value) = around.environment.get(OsStr::new(name)) else {
                continue;
            };
            let Some(text) = value.to_str() else {
                return Err(ResolveError::Setting {
                    field: "requires.environment".to_owned(),
                    reason: format!("names `{}`, whose value is not valid Unicode", shown(name)),
                    hint: format!("set `{}` to another value", shown(name)),
                    at: None,
                });
            };
            let text = if is_public(name) {
                MaskedText::plain(text)
            } else {
                MaskedText::secret(text)
            };
            self.set(name, text, format!("environment variable {name}"));
        }
        Ok(())
    }

    /// Adds the variables and search paths that a runtime of RYE names.
    pub(super) fn surround(
        &mut self,
        surroundings: &Surroundings,
        words: &Vocabulary<'_>,
        settings: &ToolSettings<'_>,
        used: &mut Used,
    ) -> Result<(), ResolveError> {
        let Some(source) = settings.any_source() else {
            return Ok(());
        };
        let mut fill = |text: &str, field: &str| -> Result<Option<MaskedText>, ResolveError> {
            let filled = words.fill(text, field, source)?;
            Ok(filled.map(|filled| {
                used.add(&filled);
                filled.text
            }))
        };
        for (name, template) in &surroundings.variables {
            let field = format!("env_config.env.{name}");
            let is_name = !name.is_empty() && !name.contains(['=', '\0']);
            if is_name && let Some(text) = fill(template, &field)? {
                self.set(name, text, "env_config".to_owned());
            }
        }
        for (name, (before, after)) in &surroundings.paths {
            let mut folders = Vec::new();
            for (part, list) in [(0, before), (1, after)] {
                if part == 1
                    && let Some(present) = self.values.get(name)
                {
                    folders.push(present.value.clone());
                }
                for template in list {
                    let field = format!("anchor.env_paths.{name}");
                    folders.extend(fill(template, &field)?.map(|text| text.value));
                }
            }
            self.set(
                name,
                MaskedText::plain(folders.join(":")),
                "anchor".to_owned(),
            );
        }
        Ok(())
    }

    /// Lets Python find the modules beside a script that a runtime of the project loads.
    pub(super) fn search_beside(&mut self, words: &Vocabulary<'_>) {
        const SEARCHED: &str = "PYTHONPATH";
        let is_python = |script: &String| Path::new(script).extension() == Some(OsStr::new("py"));
        if !words.script.as_ref().is_some_and(is_python) {
            return;
        }
        let present = self.values.get(SEARCHED).map(|text| text.value.clone());
        let folders: Vec<String> = present
            .into_iter()
            .chain([words.tool_dir.clone()])
            .collect();
        self.set(
            SEARCHED,
            MaskedText::plain(folders.join(":")),
            "the folder of the tool".to_owned(),
        );
    }

    /// Adds the variables of `config.env`.
    pub(super) fn configure(
        &mut self,
        settings: &ToolSettings<'_>,
        words: &Vocabulary<'_>,
        used: &mut Used,
    ) -> Result<(), ResolveError> {
        let Some(setting) = settings.find("env") else {
            return Ok(());
        };
        let SettingData::Map(entries) = &setting.data else {
            return Err(wrong(
                setting,
                "config.env",
                "must be a mapping of names to values",
            ));
        };
        for (name, value) in entries {
            let field = format!("config.env.{name}");
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(wrong(value, &field, "is not the name of a variable"));
            }
            let (text, origin) = match &value.data {
                SettingData::Scalar(Value::String(template)) => {
                    let Some(filled) = words.fill(template, &field, &value.source)? else {
                        continue;
                    };
                    used.add(&filled);
                    (filled.text.clone(), filled.origin(&value.source))
                }
                SettingData::Scalar(scalar) => {
                    (MaskedText::plain(as_text(scalar)), value.source.describe())
                }
                _ => return Err(wrong(value, &field, "must be a text")),
            };
            self.set(name, text, origin);
        }
        Ok(())
    }

    /// Adds the parameters as `PITON_PARAM_<NAME>`.
    pub(super) fn parameters(
        &mut self,
        parameters: &Map<String, Value>,
    ) -> Result<(), ResolveError> {
        let mut owners: BTreeMap<String, &str> = BTreeMap::new();
        for (name, value) in parameters {
            let variable = parameter_variable(name);
            if let Some(first) = owners.insert(variable.clone(), name) {
                return Err(ResolveError::Clash {
                    first: first.to_owned(),
                    second: name.clone(),
                    variable,
                });
            }
            if !value.is_null() {
                self.set(
                    &variable,
                    MaskedText::plain(as_text(value)),
                    format!("parameter {name}"),
                );
            }
        }
        Ok(())
    }

    /// Adds the variables that tell a tool about its call: the project folder as the tool sees it,
    /// and the command.
    pub(super) fn add_own(&mut self, project: Option<&str>, command: Option<&str>) {
        if let Some(project) = project {
            self.set(
                "PITON_PROJECT",
                MaskedText::plain(project),
                "piton".to_owned(),
            );
        }
        if let Some(command) = command {
            self.set(
                "PITON_COMMAND",
                MaskedText::plain(command),
                "command".to_owned(),
            );
        }
    }

    /// The variables; notes where each comes from.
    pub(super) fn into_values(
        self,
        origins: &mut BTreeMap<String, String>,
    ) -> BTreeMap<String, MaskedText> {
        for (name, origin) in self.origins {
            origins.insert(format!("action.environment.{name}"), origin);
        }
        self.values
    }

    pub(super) fn set(&mut self, name: &str, value: MaskedText, origin: String) {
        self.values.insert(name.to_owned(), value);
        self.origins.insert(name.to_owned(), origin);
    }

    /// Checks that the operating system can pass all of them.
    pub(super) fn check(&self) -> Result<(), ResolveError> {
        for (name, text) in &self.values {
            let what = || match self.origins.get(name) {
                Some(origin) if origin.starts_with("parameter ") => origin.clone(),
                _ => format!("variable {}", shown(name)),
            };
            if text.value.contains('\0') {
                return Err(ResolveError::Nul { what: what() });
            }
            if name.len() + text.value.len() + 2 > MAX_WORD {
                return Err(ResolveError::TooLong {
                    what: what(),
                    limit: MAX_WORD,
                });
            }
        }
        Ok(())
    }
}

/// The variables that a call takes from its caller, besides those that every tool gets.
pub(super) fn taken(required: &[String], used: BTreeSet<String>) -> Vec<String> {
    let mut names = used;
    names.extend(required.iter().cloned());
    names
        .into_iter()
        .filter(|name| !is_always_given(name) && !toolchain::is_home(name))
        .collect()
}

/// The variable that passes a parameter.
pub(super) fn parameter_variable(name: &str) -> String {
    let fits = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    };
    format!("PITON_PARAM_{}", name.chars().map(fits).collect::<String>())
}

/// The absolute folders of a `PATH`; a relative one would mean files of the project.
fn search_path(value: Option<&OsString>) -> Option<String> {
    let folders: Vec<&str> = value?
        .to_str()?
        .split(':')
        .filter(|folder| Path::new(folder).is_absolute())
        .collect();
    (!folders.is_empty()).then(|| folders.join(":"))
}

fn wrong(setting: &ToolSetting<'_>, field: &str, reason: &str) -> ResolveError {
    setting.error(field, reason, "e.g. `env: {NAME: value}`")
}
