//! Turns settings into a container.
//!
//! Parameters are passed like to a script: as variables and as JSON on stdin; in `command` and
//! `entrypoint` each is one argument. From the caller's environment only variables requested by
//! name are passed. Settings that would give a container more access to the machine are refused,
//! not ignored.

mod engine;
mod image;
mod volumes;

use std::collections::BTreeMap;
use std::ffi::OsStr;

use serde_json::Value;

use super::arguments::{self, Argument};
use super::environment::{CallVariables, is_always_given, is_public};
use super::error::ResolveError;
use super::placeholder::{Used, Vocabulary};
use super::settings::{SettingData, ToolSetting};
use super::{ResolveContext, ResolvedAction, bounds, inline, origin};
use crate::exec::invocation::{
    Action, Container, ContainerNetwork, MaskedText, ResourceLimits, User, Volume,
};
use crate::item::wording::{did_you_mean, nearest, shown};

/// Settings of other programs that piton refuses.
const REFUSED: [&str; 17] = [
    "cap_add",
    "cgroup_parent",
    "device_cgroup_rules",
    "devices",
    "extra_hosts",
    "group_add",
    "ipc",
    "network_mode",
    "pid",
    "ports",
    "privileged",
    "runtime",
    "security_opt",
    "sysctls",
    "userns_mode",
    "uts",
    "volumes_from",
];

pub(super) fn resolve(
    context: &ResolveContext<'_>,
    wanted_timeout: Option<f64>,
    origins: &mut BTreeMap<String, String>,
) -> Result<ResolvedAction, ResolveError> {
    let folder = context
        .tool
        .folder
        .as_deref()
        .or_else(|| context.tool.file.parent())
        .unwrap_or(&context.around.root);
    let words = context.vocabulary(context.tool, None)?;
    let mut resolver = ContainerResolver {
        context,
        words,
        used: Used::default(),
        origins,
    };
    resolver.refuse_more_power()?;
    let engines = resolver.engines()?;
    let image = resolver.image(folder)?;
    let volumes = resolver.volumes()?;
    let (entrypoint, command) = resolver.command()?;
    let environment = resolver.environment(&volumes)?;
    let container = Container {
        engines,
        image,
        command,
        entrypoint,
        folder: resolver.folder()?,
        volumes,
        network: resolver.network()?,
        user: resolver.user()?,
        environment,
        input: Value::Object(context.parameters.clone())
            .to_string()
            .into_bytes(),
        limits: resolver.limits()?,
    };
    let ContainerResolver {
        words,
        mut used,
        origins,
        ..
    } = resolver;
    let timeout = bounds::timeout(
        context.settings,
        bounds::PROCESS,
        wanted_timeout,
        &words,
        &mut used,
        origins,
    )?;
    Ok(ResolvedAction {
        action: Action::Container(Box::new(container)),
        timeout,
        variables: used.variables,
    })
}

struct ContainerResolver<'c> {
    context: &'c ResolveContext<'c>,
    words: Vocabulary<'c>,
    used: Used,
    origins: &'c mut BTreeMap<String, String>,
}

impl<'c> ContainerResolver<'c> {
    fn find(&self, key: &str) -> Option<&'c ToolSetting<'c>> {
        self.context.settings.find(key)
    }

    fn refuse_more_power(&self) -> Result<(), ResolveError> {
        for name in REFUSED {
            if let Some(setting) = self.find(name) {
                let hint = "take it out: a container gets the folders in `volumes` and the `network`, and nothing else";
                return Err(setting.error(
                    format!("config.{name}"),
                    "is not given to containers".to_owned(),
                    hint,
                ));
            }
        }
        match self.find("cwd") {
            Some(setting) => {
                let reason = "is a folder of this machine".to_owned();
                Err(setting.error(
                    "config.cwd",
                    reason,
                    "name the folder inside the container in `working_dir`",
                ))
            }
            None => Ok(()),
        }
    }

    /// A text with placeholders filled in; `None` when it is just an optional parameter that was
    /// not given.
    fn text(
        &mut self,
        setting: &ToolSetting<'_>,
        field: &str,
        what: &str,
    ) -> Result<Option<MaskedText>, ResolveError> {
        let template = match &setting.data {
            SettingData::Scalar(Value::String(text)) => text.clone(),
            SettingData::Scalar(Value::Number(number)) => number.to_string(),
            _ => {
                return Err(setting.error(
                    field,
                    format!("is {}; it must be {what}", setting.type_name()),
                    what,
                ));
            }
        };
        self.fill(&template, setting, field)
    }

    fn fill(
        &mut self,
        template: &str,
        setting: &ToolSetting<'_>,
        field: &str,
    ) -> Result<Option<MaskedText>, ResolveError> {
        let Some(filled) = self.words.fill(template, field, &setting.source)? else {
            return Ok(None);
        };
        self.used.add(&filled);
        if filled.text.value.contains('\0') {
            return Err(ResolveError::Nul {
                what: format!("`{field}`"),
            });
        }
        Ok(Some(filled.text))
    }

    /// Like [`Self::text`], but refuses secrets: every user who inspects the container would see
    /// them.
    fn public(
        &mut self,
        setting: &ToolSetting<'_>,
        field: &str,
        what: &str,
    ) -> Result<Option<String>, ResolveError> {
        let text = self.text(setting, field, what)?;
        Self::shown_to_all(text, setting, field)
    }

    fn shown_to_all(
        text: Option<MaskedText>,
        setting: &ToolSetting<'_>,
        field: &str,
    ) -> Result<Option<String>, ResolveError> {
        match text {
            Some(text) if text.has_secret() => {
                let reason =
                    "holds a variable of the environment, which stays readable there".to_owned();
                Err(setting.error(
                    field,
                    reason,
                    "pass it with `env` or `requires.environment`",
                ))
            }
            text => Ok(text.map(|text| text.value)),
        }
    }

    fn command(&mut self) -> Result<(Option<Vec<MaskedText>>, Vec<MaskedText>), ResolveError> {
        let read = |this: &mut Self, key: &str| -> Result<Option<Vec<Argument>>, ResolveError> {
            let Some(setting) = this.find(key) else {
                return Ok(None);
            };
            arguments::worded(
                setting,
                &format!("config.{key}"),
                &this.words,
                &mut this.used,
            )
            .map(Some)
        };
        let entrypoint = read(self, "entrypoint")?;
        let mut command = read(self, "command")?.unwrap_or_default();
        if let Some(name) = self.context.command {
            command.push(Argument::plain(name, "command"));
        }
        let all: Vec<Argument> = entrypoint
            .iter()
            .flatten()
            .chain(&command)
            .cloned()
            .collect();
        arguments::check(&all)?;
        if let Some((program, rest)) = all.split_first() {
            inline::check(&program.text.value, rest)?;
        }
        for (name, words) in [
            ("entrypoint", entrypoint.as_deref().unwrap_or_default()),
            ("command", &command),
        ] {
            for (at, word) in words.iter().enumerate() {
                self.origins
                    .insert(format!("action.{name}[{at}]"), word.origin.clone());
            }
        }
        let texts =
            |words: Vec<Argument>| words.into_iter().map(|word| word.text).collect::<Vec<_>>();
        Ok((entrypoint.map(texts), texts(command)))
    }

    fn environment(
        &mut self,
        volumes: &[Volume],
    ) -> Result<BTreeMap<String, MaskedText>, ResolveError> {
        let context = self.context;
        let mut environment = CallVariables::default();
        environment.declare(&context.requires.environment, context.around)?;
        // The variables that other tools always get describe this machine; a container has its own,
        // unless they are requested.
        for name in context
            .requires
            .environment
            .iter()
            .filter(|name| is_always_given(name))
        {
            if let Some(value) = context
                .around
                .environment
                .get(OsStr::new(name))
                .and_then(|value| value.to_str())
            {
                let text = if is_public(name) {
                    MaskedText::plain(value)
                } else {
                    MaskedText::secret(value)
                };
                environment.set(name, text, format!("environment variable {name}"));
            }
        }
        environment.configure(context.settings, &self.words, &mut self.used)?;
        environment.parameters(context.parameters)?;
        let root = context
            .around
            .root
            .canonicalize()
            .unwrap_or_else(|_| context.around.root.clone());
        let project = volumes.iter().find(|volume| volume.source == root);
        environment.add_own(
            project.map(|volume| volume.target.as_str()),
            context.command,
        );
        environment.check()?;
        Ok(environment.into_values(self.origins))
    }

    fn folder(&mut self) -> Result<Option<String>, ResolveError> {
        let keys = ["working_dir", "workdir"];
        let Some((key, setting)) = keys.iter().find_map(|key| Some((*key, self.find(key)?))) else {
            return Ok(None);
        };
        let field = format!("config.{key}");
        let Some(folder) = self.public(setting, &field, "a folder inside the container")? else {
            return Ok(None);
        };
        if !folder.starts_with('/') {
            let reason = format!("is `{}`, which is not a path from `/`", shown(&folder));
            return Err(setting.error(
                &field,
                reason,
                "name a folder inside the container, e.g. `/work`",
            ));
        }
        self.origins
            .insert("action.folder".to_owned(), setting.source.describe());
        Ok(Some(folder))
    }

    fn network(&mut self) -> Result<ContainerNetwork, ResolveError> {
        const KNOWN: [&str; 3] = ["none", "bridge", "host"];
        let Some(setting) = self.find("network") else {
            self.origins
                .insert("action.network".to_owned(), "default".to_owned());
            return Ok(ContainerNetwork::None);
        };
        self.origins
            .insert("action.network".to_owned(), setting.source.describe());
        // No placeholder here: the caller must not choose the network.
        match setting.as_text() {
            Some("none") => Ok(ContainerNetwork::None),
            Some("bridge") => Ok(ContainerNetwork::Bridge),
            Some("host") => Ok(ContainerNetwork::Host),
            Some(other) => {
                let hint = did_you_mean(nearest(other, KNOWN), "use one of none, bridge, host");
                Err(setting.error("config.network", format!("is `{}`", shown(other)), hint))
            }
            None => {
                let reason = format!("is {}; it must be a text", setting.type_name());
                Err(setting.error("config.network", reason, "use one of none, bridge, host"))
            }
        }
    }

    fn user(&mut self) -> Result<User, ResolveError> {
        let Some(setting) = self.find("user") else {
            self.origins
                .insert("action.user".to_owned(), "default".to_owned());
            return Ok(User::Caller);
        };
        let what = "a user, a `user:group`, or `image` for whom the image names";
        let user = self.public(setting, "config.user", what)?;
        self.origins
            .insert("action.user".to_owned(), setting.source.describe());
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
        match user {
            None => Ok(User::Caller),
            Some(name) if name == "image" => Ok(User::OfImage),
            Some(name) if !name.is_empty() && name.chars().all(fits) => Ok(User::Named(name)),
            Some(name) => {
                let reason = format!("is `{}`, which is not a user name", shown(&name));
                Err(setting.error("config.user", reason, format!("write {what}")))
            }
        }
    }

    fn limits(&mut self) -> Result<ResourceLimits, ResolveError> {
        let asked = self.find("limits");
        let mut limits = match asked {
            Some(_) => bounds::limits(self.context.settings, self.origins)?,
            None => ResourceLimits::default(),
        };
        let is_asked = |key: &str| match asked.map(|setting| &setting.data) {
            Some(SettingData::Map(entries)) => entries.iter().any(|(name, _)| name == key),
            _ => false,
        };
        if !is_asked("file_size") {
            // The default is for processes of this machine; a container's disk belongs to the
            // engine.
            limits.file_size = None;
            self.origins.remove("action.limits.file_size");
        }
        if let Some(setting) = self.find("memory") {
            let bytes = match &setting.data {
                SettingData::Scalar(Value::Number(number)) => number.as_u64(),
                SettingData::Scalar(Value::String(text)) => bytes(text),
                _ => None,
            };
            let Some(bytes) = bytes.filter(|bytes| *bytes > 0) else {
                let reason = "must be an amount of memory".to_owned();
                return Err(setting.error(
                    "config.memory",
                    reason,
                    "e.g. `memory: 512m`, or a number of bytes",
                ));
            };
            limits.memory = Some(bytes);
            self.origins
                .insert("action.limits.memory".to_owned(), setting.source.describe());
        }
        Ok(limits)
    }

    /// The error for a tool that names nothing to run.
    fn nothing(&self, missing: &'static str, example: &'static str) -> ResolveError {
        ResolveError::NothingToRun {
            id: self.context.tool.manifest.tool_id.clone(),
            missing,
            example,
            at: Box::new(origin(self.context.tool, "config", self.context.roots)),
        }
    }
}

/// A size with `b`, `k`, `m` or `g`, as engines accept it.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let text = text
        .strip_suffix("ib")
        .or_else(|| text.strip_suffix('b'))
        .unwrap_or(&text);
    let (number, shift) = match text.char_indices().next_back()? {
        (at, 'k') => (text.get(..at)?, 10),
        (at, 'm') => (text.get(..at)?, 20),
        (at, 'g') => (text.get(..at)?, 30),
        _ => (text, 0),
    };
    number.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}
