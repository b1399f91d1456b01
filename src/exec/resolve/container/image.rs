//! The image of a container.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use serde_json::Value;

use super::ContainerResolver;
use crate::exec::container::context;
use crate::exec::invocation::{Built, ContainerImage};
use crate::exec::resolve::error::ResolveError;
use crate::exec::resolve::settings::{SettingData, ToolSetting};
use crate::item::source::leaves;
use crate::item::wording::shown;

impl ContainerResolver<'_> {
    /// The image by name, or its build context.
    pub(super) fn image(&mut self, folder: &Path) -> Result<ContainerImage, ResolveError> {
        if let Some(setting) = self.find("build_context") {
            return self.built(setting, folder).map(ContainerImage::Built);
        }
        let example = "`config: {image: alpine:3}`, or `build_context: .` with a Dockerfile";
        let setting = self
            .find("image")
            .ok_or_else(|| self.nothing("config.image", example))?;
        let what = "the name of an image, e.g. `alpine:3`";
        let name = self
            .public(setting, "config.image", what)?
            .unwrap_or_default();
        if !is_reference(&name) {
            let reason = format!("is `{}`, which names no image", shown(&name));
            return Err(setting.error(
                "config.image",
                reason,
                "e.g. `alpine:3`, or `NAME@sha256:…` for exactly one",
            ));
        }
        self.origins
            .insert("action.image".to_owned(), setting.source.describe());
        Ok(ContainerImage::Named(name))
    }

    fn built(&mut self, setting: &ToolSetting<'_>, folder: &Path) -> Result<Built, ResolveError> {
        const FIELD: &str = "config.build_context";
        let hint = "keep what is built beside the manifest, e.g. `build_context: .`";
        let Some(written) = setting.as_text() else {
            return Err(setting.error(
                FIELD,
                format!("is {}; it must be a text", setting.type_name()),
                hint,
            ));
        };
        let path = folder.join(written);
        if !is_inside(written) || leaves(&path, folder) {
            let reason = format!("is `{}`, which leaves the tool's folder", shown(written));
            return Err(setting.error(FIELD, reason, hint));
        }
        if !path.is_dir() {
            let reason = format!("is `{}`, which is not a folder", shown(written));
            return Err(setting.error(
                FIELD,
                reason,
                "create it beside the manifest, with a `Dockerfile` in it",
            ));
        }
        let (dockerfile, dockerfile_at) = match self.find("dockerfile") {
            None => ("Dockerfile".to_owned(), setting),
            Some(named) => {
                let name = self.public(
                    named,
                    "config.dockerfile",
                    "the name of a file in the build context",
                )?;
                (name.unwrap_or_else(|| "Dockerfile".to_owned()), named)
            }
        };
        if !is_inside(&dockerfile) || !path.join(&dockerfile).is_file() {
            let reason = format!("has no file `{}`", shown(&dockerfile));
            let hint =
                "write one that says how the image is built, or name another in `dockerfile`";
            return Err(dockerfile_at.error(FIELD, reason, hint));
        }
        let args = self.build_args()?;
        let context = path.components().collect();
        let files = context::read(&path)
            .map_err(|reason| setting.error(FIELD, reason.to_string(), reason.hint()))?;
        let sha256 = files.hash(&dockerfile, &args);
        self.origins
            .insert("action.image".to_owned(), setting.source.describe());
        // The stamp of a single-file tool does not cover the files beside it.
        let is_of_tool = self.context.tool.folder.is_some();
        Ok(Built {
            context,
            dockerfile,
            args,
            sha256,
            is_of_tool,
        })
    }

    fn build_args(&mut self) -> Result<BTreeMap<String, String>, ResolveError> {
        let Some(setting) = self.find("build_args") else {
            return Ok(BTreeMap::new());
        };
        let SettingData::Map(entries) = &setting.data else {
            let reason = format!("is {}; it must be a mapping", setting.type_name());
            return Err(setting.error(
                "config.build_args",
                reason,
                "e.g. `build_args: {VERSION: \"3\"}`",
            ));
        };
        let mut args = BTreeMap::new();
        for (name, value) in entries {
            let field = format!("config.build_args.{name}");
            let text = match &value.data {
                SettingData::Scalar(Value::Bool(is_true)) => Some(is_true.to_string()),
                _ => self.public(value, &field, "a text")?,
            };
            if let Some(text) = text {
                args.insert(name.clone(), text);
            }
        }
        Ok(args)
    }
}

/// Whether this is a valid image name, with or without a tag or digest.
fn is_reference(name: &str) -> bool {
    let fits =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | ':' | '@');
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= 512
        && name.chars().all(fits)
}

/// Whether a relative path stays below its start.
fn is_inside(path: &str) -> bool {
    !path.is_empty()
        && !path.contains('\0')
        && Path::new(path)
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}
