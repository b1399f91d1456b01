//! `piton init`: creates an `.ai/` folder with a working example.
//!
//! No existing file is overwritten: everything is checked before anything is written, a file with
//! the same content counts as done, and nothing is written through a symbolic link.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Format, Ui};
use crate::checkpoint::error::CheckpointError;
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::item::finding::serialize_path;
use crate::item::source::read_bytes;
use crate::workspace::open_repository;

/// Create `.ai/` with a working example
///
/// The folder is created at the top of the git work tree, or in the current folder outside git.
/// Existing files are never overwritten.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton init                  Create `.ai/` in this project
  piton -C ../other init      Create it in another project")]
pub(super) struct InitArguments {}

const EXAMPLE: [(&str, &str); 6] = [
    (".ai/config.yaml", include_str!("example/config.yaml")),
    (
        ".ai/directives/examples/hello.md",
        include_str!("example/hello.md"),
    ),
    (
        ".ai/tools/examples/greet/tool.yaml",
        include_str!("example/tool.yaml"),
    ),
    (
        ".ai/tools/examples/greet/greet.sh",
        include_str!("example/greet.sh"),
    ),
    (
        ".ai/knowledge/examples/how_items_work.md",
        include_str!("example/how_items_work.md"),
    ),
    (".ai/outputs/.gitignore", "*\n"),
];

/// The result of [`write_example`].
#[derive(Debug, Serialize)]
pub(super) struct WrittenExample {
    /// The folder that the paths are relative to.
    #[serde(serialize_with = "serialize_path")]
    root: PathBuf,
    created: Vec<PathBuf>,
    /// Existing files with the same content.
    unchanged: Vec<PathBuf>,
}

pub(super) fn run(ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let written = write_example(&ctx.root)?;
    if ui.format() == Format::Json {
        ui.json(&written)?;
        return Ok(ExitStatus::Success);
    }
    for file in &written.created {
        ui.line(&format!("created {}", file.display()))?;
    }
    let place = if ctx.root == ctx.cwd {
        String::new()
    } else {
        format!(" in `{}`", ctx.root.display())
    };
    if written.created.is_empty() {
        ui.success(&format!("the example is already there{place}"));
    } else {
        ui.success(&format!("created {} files{place}", written.created.len()));
    }
    let first = match open_repository(ctx) {
        Err(CheckpointError::NoRepository(_)) => "create a repository with `git init`, then ",
        _ => "",
    };
    ui.hint(&format!(
        "{first}run the example with `piton run hello`, check the items with `piton validate`"
    ));
    Ok(ExitStatus::Success)
}

/// Writes the example project below a folder: all of it, or nothing if something is in the way.
pub(super) fn write_example(root: &Path) -> Result<WrittenExample, Error> {
    let mut written = WrittenExample {
        root: root.to_path_buf(),
        created: Vec::new(),
        unchanged: Vec::new(),
    };
    let mut in_the_way = Vec::new();
    for (file, text) in EXAMPLE {
        let file = PathBuf::from(file);
        match look_at(root, &file, text) {
            ExampleFileState::Missing => written.created.push(file),
            ExampleFileState::Same => written.unchanged.push(file),
            ExampleFileState::InTheWay(path) if in_the_way.contains(&path) => {}
            ExampleFileState::InTheWay(path) => in_the_way.push(path),
        }
    }
    if !in_the_way.is_empty() {
        return Err(Error::FilesInTheWay(in_the_way));
    }
    let new_folders = missing_folders(root, &written.created);
    let mut done = Vec::new();
    for (file, text) in EXAMPLE
        .iter()
        .filter(|(file, _)| written.created.iter().any(|it| it == Path::new(file)))
    {
        if let Err(source) = create(&root.join(file), text) {
            take_back(root, &done, &new_folders);
            return Err(Error::Write {
                file: PathBuf::from(file),
                source,
            });
        }
        done.push(PathBuf::from(file));
    }
    Ok(written)
}

/// The missing folders of some files, deepest first.
fn missing_folders(root: &Path, files: &[PathBuf]) -> Vec<PathBuf> {
    let folders = files
        .iter()
        .flat_map(|file| file.ancestors().skip(1))
        .filter(|it| !root.join(it).exists());
    let mut folders: Vec<PathBuf> = folders.map(Path::to_path_buf).collect();
    folders.sort_by_key(|folder| std::cmp::Reverse(folder.components().count()));
    folders.dedup();
    folders
}

/// Removes the files of a failed call; a folder with other content stays.
fn take_back(root: &Path, files: &[PathBuf], folders: &[PathBuf]) {
    // Report the original failure.
    for file in files {
        let _ = fs::remove_file(root.join(file));
    }
    for folder in folders {
        let _ = fs::remove_dir(root.join(folder));
    }
}

enum ExampleFileState {
    Missing,
    Same,
    /// The file, or a link or file in the place of one of its folders.
    InTheWay(PathBuf),
}

fn look_at(root: &Path, file: &Path, text: &str) -> ExampleFileState {
    let folders: Vec<&Path> = file
        .ancestors()
        .skip(1)
        .filter(|folder| !folder.as_os_str().is_empty())
        .collect();
    for folder in folders.into_iter().rev() {
        match fs::symlink_metadata(root.join(folder)) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return ExampleFileState::InTheWay(folder.to_path_buf()),
            Err(_) => return ExampleFileState::Missing,
        }
    }
    match fs::symlink_metadata(root.join(file)) {
        Err(_) => ExampleFileState::Missing,
        Ok(metadata) if metadata.is_file() && holds(&root.join(file), text) => {
            ExampleFileState::Same
        }
        Ok(_) => ExampleFileState::InTheWay(file.to_path_buf()),
    }
}

fn holds(file: &Path, text: &str) -> bool {
    read_bytes(file, text.len() as u64).is_ok_and(|bytes| bytes == text.as_bytes())
}

/// Writes a file atomically; a file that appears there meanwhile stays.
fn create(file: &Path, text: &str) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mode = if text.starts_with("#!") { 0o777 } else { 0o666 };
    #[cfg(target_os = "linux")]
    match create_unnamed(folder, file, text, mode) {
        // Some file systems do not support unnamed files, and some machines have no `/proc`.
        Err(err) if is_unknown(&err) => {}
        placed => return placed,
    }
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    let mut whole = builder.tempfile_in(folder)?;
    whole.write_all(text.as_bytes())?;
    whole.persist_noclobber(file)?;
    Ok(())
}

/// Writes an unnamed file and links it when it is complete: a kill leaves neither a partial nor a
/// temporary file.
#[cfg(target_os = "linux")]
fn create_unnamed(folder: &Path, file: &Path, text: &str, mode: u32) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;

    use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat};

    use crate::system_call::open;

    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let mut whole = fs::File::from(open(folder, flags, Mode::from_raw_mode(mode))?);
    whole.write_all(text.as_bytes())?;
    let name = format!("/proc/self/fd/{}", whole.as_raw_fd());
    Ok(linkat(CWD, name, CWD, file, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(target_os = "linux")]
fn is_unknown(err: &io::Error) -> bool {
    use rustix::io::Errno;

    matches!(
        Errno::from_io_error(err),
        Some(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT)
    )
}
