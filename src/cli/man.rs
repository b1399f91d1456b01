//! `piton man`: prints manual pages, generated from the descriptions of `--help`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man;
use serde_json::json;

use super::{CliArguments, Format, Ui};
use crate::config::SettingKey;
use crate::error::{Error, ExitStatus};

/// Print the manual page, or write one for each command.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton man | man -l -                            Read it
  piton man --dir ~/.local/share/man/man1         One page for each command; then `man piton-run`")]
pub(super) struct ManArguments {
    /// Write `piton.1`, `piton-run.1` and so on to this folder; piton creates it.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(super) fn run(arguments: &ManArguments, cwd: &Path, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let root = CliArguments::described();
    let Some(dir) = &arguments.dir else {
        let page = page(&root, "piton")?;
        if ui.format() == Format::Json {
            ui.json(&json!({"name": "piton.1", "page": String::from_utf8_lossy(&page)}))?;
        } else {
            ui.contents(&page)?;
        }
        return Ok(ExitStatus::Success);
    };
    let mut pages = Vec::new();
    collect(&root, "piton", &mut pages)?;
    let folder = cwd.join(dir);
    let failed = |file: &Path| {
        let file = file.to_path_buf();
        move |source| Error::Write { file, source }
    };
    fs::create_dir_all(&folder).map_err(failed(&folder))?;
    for (name, text) in &pages {
        let file = folder.join(name);
        fs::write(&file, text).map_err(failed(&file))?;
    }
    if ui.format() == Format::Json {
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        ui.json(&json!({"dir": folder.to_string_lossy(), "pages": names}))?;
    } else {
        ui.success(&format!(
            "wrote {} pages into `{}`",
            pages.len(),
            folder.display()
        ));
    }
    Ok(ExitStatus::Success)
}

fn collect(command: &Command, name: &str, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    pages.push((format!("{name}.1"), page(command, name)?));
    for below in command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
    {
        collect(below, &format!("{name}-{}", below.get_name()), pages)?;
    }
    Ok(())
}

/// The page of one command. The page of the program also has the shared parts.
fn page(command: &Command, name: &str) -> io::Result<Vec<u8>> {
    let is_program = name == "piton";
    let examples = super::help::examples_of(command);
    let man = Man::new(command.clone().after_help(""));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    man.render_subcommands_section(&mut page)?;
    let mut extra = String::new();
    if is_program {
        extra.push_str(".SH ENVIRONMENT\n");
        for (key, variable) in SettingKey::ALL
            .into_iter()
            .filter_map(|key| Some((key, key.effective_variable()?)))
        {
            extra.push_str(&entry(
                variable,
                &format!("{}: {}", key.name(), key.summary()),
            ));
        }
        extra.push_str(&entry("NO_COLOR", "no colours, whatever the value"));
        extra.push_str(".SH FILES\n");
        extra.push_str(&entry(".ai/", "the items and settings of a project"));
        extra.push_str(&entry("~/.ai/", "those of a user"));
        extra.push_str(&entry(
            ".git/piton/",
            "journals, and the lock of a worktree",
        ));
    }
    extra.push_str(".SH \"EXIT STATUS\"\n");
    for status in ExitStatus::ALL {
        extra.push_str(&entry(&status.number().to_string(), status.meaning()));
    }
    if !examples.is_empty() {
        extra.push_str(".SH EXAMPLES\n");
        for (line, remark) in examples {
            extra.push_str(&entry(&line, &remark));
        }
    }
    let see = if is_program { "git(1)" } else { "piton(1)" };
    extra.push_str(
        &[
            ".SH \"SEE ALSO\"\n",
            &escaped(see),
            ", \\fBpiton help\\fR\n",
        ]
        .concat(),
    );
    page.extend_from_slice(extra.as_bytes());
    Ok(page)
}

/// A term with its explanation.
fn entry(term: &str, text: &str) -> String {
    format!(".TP\n\\fB{}\\fR\n{}\n", escaped(term), escaped(text))
}

/// Text for roff: escapes and requests disabled, real hyphens.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) {
        format!("\\&{text}")
    } else {
        text
    }
}
