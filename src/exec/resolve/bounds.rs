//! Working folder, timeout and resource limits of a process.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::error::ResolveError;
use super::placeholder::{Used, Vocabulary};
use super::settings::{SettingData, ToolSetting, ToolSettings};
use crate::exec::invocation::ResourceLimits;
use crate::item::source::leaves;
use crate::item::wording::{did_you_mean, nearest, shown};

/// The default timeout of a process, in seconds.
pub(super) const PROCESS: f64 = 300.0;
/// The default timeout of an HTTP request, in seconds.
pub(super) const HTTP: f64 = 30.0;
/// The default limit for files that a process writes.
const FILE_SIZE: u64 = 8 * 1024 * 1024 * 1024;

const LIMITS: [&str; 5] = [
    "memory",
    "file_size",
    "cpu_seconds",
    "open_files",
    "processes",
];

/// The timeout of a call; the caller may only lower it.
pub(super) fn timeout(
    settings: &ToolSettings<'_>,
    usual: f64,
    wanted: Option<f64>,
    words: &Vocabulary<'_>,
    used: &mut Used,
    origins: &mut BTreeMap<String, String>,
) -> Result<Duration, ResolveError> {
    let wrong = |setting: &ToolSetting<'_>| {
        let reason = "must be a positive number of seconds";
        setting.error("config.timeout", reason, "e.g. `timeout: 60`")
    };
    let (mut seconds, mut origin) = (usual, "default".to_owned());
    if let Some(setting) = settings.find("timeout") {
        let said = match &setting.data {
            SettingData::Scalar(Value::Number(number)) => number
                .as_f64()
                .map(|seconds| (seconds, setting.source.describe())),
            SettingData::Scalar(Value::String(template)) => {
                match words.fill(template, "config.timeout", &setting.source)? {
                    Some(filled) => {
                        used.add(&filled);
                        let seconds = filled.text.value.trim().parse().ok();
                        seconds.map(|seconds| (seconds, filled.origin(&setting.source)))
                    }
                    None => Some((seconds, origin.clone())),
                }
            }
            _ => None,
        };
        (seconds, origin) = said
            .filter(|(seconds, _)| *seconds > 0.0)
            .ok_or_else(|| wrong(setting))?;
        if Duration::try_from_secs_f64(seconds).is_err() {
            return Err(wrong(setting));
        }
    }
    if let Some(wanted) = wanted.filter(|wanted| *wanted < seconds) {
        (seconds, origin) = (wanted, "parameter timeout".to_owned());
    }
    origins.insert("timeout".to_owned(), origin);
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs(1)))
}

/// The working folder: the project, or a folder in it.
pub(super) fn folder(
    settings: &ToolSettings<'_>,
    words: &Vocabulary<'_>,
    used: &mut Used,
    origins: &mut BTreeMap<String, String>,
) -> Result<PathBuf, ResolveError> {
    let root = &words.around.root;
    let Some(setting) = settings.find("cwd") else {
        origins.insert("action.folder".to_owned(), "default".to_owned());
        return Ok(root.clone());
    };
    let wrong = |reason: String, hint: &str| setting.error("config.cwd", reason, hint);
    let relative = "name a folder of the project, relative to its top";
    let Some(template) = setting.as_text() else {
        return Err(wrong(
            format!("is {}; it must be a text", setting.type_name()),
            relative,
        ));
    };
    let Some(filled) = words.fill(template, "config.cwd", &setting.source)? else {
        origins.insert("action.folder".to_owned(), "default".to_owned());
        return Ok(root.clone());
    };
    used.add(&filled);
    let told = shown(filled.text.shown());
    let given = Path::new(&filled.text.value);
    let inside = given.strip_prefix(root).unwrap_or(given);
    let plain = inside
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let folder = root.join(inside);
    if !plain || filled.text.value.contains('\0') {
        return Err(wrong(
            format!("is `{told}`, which leaves the project"),
            relative,
        ));
    }
    if !folder.is_dir() {
        return Err(wrong(
            format!("is `{told}`, which is not a folder of the project"),
            "create the folder first",
        ));
    }
    if leaves(&folder, root) {
        return Err(wrong(
            format!("is `{told}`, a link that leaves the project"),
            relative,
        ));
    }
    origins.insert("action.folder".to_owned(), filled.origin(&setting.source));
    Ok(folder.components().collect())
}

pub(super) fn limits(
    settings: &ToolSettings<'_>,
    origins: &mut BTreeMap<String, String>,
) -> Result<ResourceLimits, ResolveError> {
    let mut limits = ResourceLimits {
        file_size: Some(FILE_SIZE),
        ..ResourceLimits::default()
    };
    origins.insert("action.limits.file_size".to_owned(), "default".to_owned());
    let Some(setting) = settings.find("limits") else {
        return Ok(limits);
    };
    let wrong = |field: String, setting: &ToolSetting<'_>, reason: &str, hint: String| {
        setting.error(field, reason, hint)
    };
    let SettingData::Map(entries) = &setting.data else {
        let hint = format!("known are {}", LIMITS.join(", "));
        return Err(wrong(
            "config.limits".to_owned(),
            setting,
            "must be a mapping",
            hint,
        ));
    };
    for (name, value) in entries {
        let field = format!("config.limits.{name}");
        let place = match name.as_str() {
            "memory" => &mut limits.memory,
            "file_size" => &mut limits.file_size,
            "cpu_seconds" => &mut limits.cpu_seconds,
            "open_files" => &mut limits.open_files,
            "processes" => &mut limits.processes,
            other => {
                let hint = did_you_mean(
                    nearest(other, LIMITS),
                    &format!("known are {}", LIMITS.join(", ")),
                );
                return Err(wrong(field, value, "is not a limit", hint));
            }
        };
        let number = match &value.data {
            SettingData::Scalar(Value::Number(number)) => {
                number.as_u64().filter(|number| *number > 0)
            }
            _ => None,
        };
        let Some(number) = number else {
            let hint = "write a number of bytes, seconds, files or processes".to_owned();
            return Err(wrong(field, value, "must be a whole number above 0", hint));
        };
        *place = Some(number);
        origins.insert(format!("action.limits.{name}"), value.source.describe());
    }
    Ok(limits)
}
