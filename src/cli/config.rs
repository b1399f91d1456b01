//! `piton config`: shows every setting with its source.

use serde::Serialize;

use super::{Format, Ui};
use crate::config::{Setting, SettingKey, SettingSource};
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::item::finding::Finding;

/// Show settings and where each value comes from
///
/// Later sources override earlier ones: defaults, `~/.ai/config.yaml`, `.ai/config.yaml`, `PITON_*`
/// variables, flags.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton config                            Show all settings
  piton config signature.require          Show one
  PITON_UI_COLOR=never piton config       Set one for a single command")]
pub(super) struct ConfigArguments {
    /// Show only this setting.
    key: Option<String>,
}

#[derive(Serialize)]
struct SettingsReport<'a> {
    settings: &'a [Setting],
    findings: &'a [Finding],
}

pub(super) fn run(
    arguments: &ConfigArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    let settings = match &arguments.key {
        None => ctx.config.all(),
        Some(name) => {
            let unknown = || Error::UnknownSetting {
                name: name.clone(),
                similar: SettingKey::find_similar(name).map(SettingKey::name),
            };
            vec![ctx.config.get(SettingKey::find(name).ok_or_else(unknown)?)]
        }
    };
    if ui.format() == Format::Json {
        ui.json(&SettingsReport {
            settings: &settings,
            findings: ctx.config.findings(),
        })?;
    } else {
        for setting in &settings {
            ui.line(&row(setting))?;
        }
        for finding in ctx.config.findings() {
            ui.finding(finding);
        }
    }
    Ok(if ctx.config.has_errors() {
        ExitStatus::Invalid
    } else {
        ExitStatus::Success
    })
}

fn row(setting: &Setting) -> String {
    let source = match &setting.source {
        SettingSource::Default => "default".to_owned(),
        SettingSource::User { file, line } => format!("user, {}:{line}", file.display()),
        SettingSource::Project { file, line } => format!("project, {}:{line}", file.display()),
        SettingSource::Environment { variable } => format!("environment, {variable}"),
        SettingSource::Flag { flag } => format!("flag, {flag}"),
    };
    let value = setting.value.to_string();
    format!(
        "{:<27} {:<10} {source}",
        setting.key.name(),
        if value.is_empty() { "(none)" } else { &value }
    )
}
