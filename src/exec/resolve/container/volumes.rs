//! The folders of the project that a container sees.
//!
//! Each path is resolved with symlinks and must then be inside the project. In a writable folder
//! everything of git is mounted again read-only: a container must not change hooks or history
//! without piton noticing.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;
use walkdir::WalkDir;

use super::ContainerResolver;
use crate::exec::invocation::Volume;
use crate::exec::isolation::git_folder;
use crate::exec::resolve::error::ResolveError;
use crate::exec::resolve::settings::{SettingData, ToolSetting};
use crate::item::wording::{did_you_mean, nearest, shown};

/// The hint for the syntax of a volume.
const EXAMPLE: &str =
    "write `docs:/docs`, `docs:/docs:ro`, or a mapping with `source` and `target`";

/// Paths that the engine itself uses.
const TAKEN: [&str; 3] = ["/proc", "/sys", "/dev"];

/// The most nested repositories that are protected from a container.
const MOST_REPOSITORIES: usize = 100;

/// The parts of a volume, placeholders filled in.
struct Parts {
    source: String,
    target: String,
    read_only: bool,
}

impl ContainerResolver<'_> {
    pub(super) fn volumes(&mut self) -> Result<Vec<Volume>, ResolveError> {
        let Some(setting) = self.find("volumes") else {
            return Ok(Vec::new());
        };
        let SettingData::List(elements) = &setting.data else {
            let reason = format!("is {}; it must be a list", setting.type_name());
            return Err(setting.error("config.volumes", reason, EXAMPLE));
        };
        let root = self
            .context
            .around
            .root
            .canonicalize()
            .unwrap_or_else(|_| self.context.around.root.clone());
        let mut volumes: Vec<Volume> = Vec::new();
        for (at, element) in elements.iter().enumerate() {
            let field = format!("config.volumes[{at}]");
            let Some(parts) = self.parts(element, &field)? else {
                continue;
            };
            let target = target(&parts.target).ok_or_else(|| {
                let reason = format!(
                    "has the target `{}`, which is no place in a container",
                    shown(&parts.target)
                );
                element.error(&field, reason, "name a folder from `/` on, e.g. `/work`")
            })?;
            if volumes.iter().any(|volume| volume.target == target) {
                let reason = format!("has the target `{}`, as another volume has", shown(&target));
                return Err(element.error(&field, reason, "give each volume a target of its own"));
            }
            let source = source(&parts.source, &root)
                .map_err(|(reason, hint)| element.error(&field, reason, hint))?;
            self.origins.insert(
                format!("action.volumes[{}]", volumes.len()),
                element.source.describe(),
            );
            volumes.push(Volume {
                source,
                target,
                read_only: parts.read_only,
            });
        }
        for at in 0..volumes.len() {
            let Some(volume) = volumes.get(at).filter(|volume| !volume.read_only).cloned() else {
                continue;
            };
            let mut guarded = of_git(&volume.source, &root).map_err(|reason| {
                setting.error(
                    "config.volumes",
                    reason,
                    "mount a folder with less in it, or add `:ro`",
                )
            })?;
            let writes = self.context.tool.manifest.writes.as_deref();
            guarded.extend(items_of(&volume.source, &root, writes.unwrap_or_default()));
            for kept in guarded {
                let inside = kept
                    .strip_prefix(&volume.source)
                    .ok()
                    .and_then(Path::to_str);
                let Some(inside) = inside else {
                    return Err(ResolveError::NotUnicode(kept));
                };
                let target = format!("{}/{inside}", volume.target);
                if volumes.iter().any(|volume| volume.target == target) {
                    continue;
                }
                self.origins.insert(
                    format!("action.volumes[{}]", volumes.len()),
                    "piton, which guards it".to_owned(),
                );
                volumes.push(Volume {
                    source: kept,
                    target,
                    read_only: true,
                });
            }
        }
        Ok(volumes)
    }

    fn parts(
        &mut self,
        element: &ToolSetting<'_>,
        field: &str,
    ) -> Result<Option<Parts>, ResolveError> {
        match &element.data {
            SettingData::Scalar(Value::String(text)) => {
                let words = split(text);
                let (source, target, mode) = match words.as_slice() {
                    [source, target] => (*source, *target, "rw"),
                    [source, target, mode] => (*source, *target, *mode),
                    _ => {
                        return Err(element.error(field, format!("is `{}`", shown(text)), EXAMPLE));
                    }
                };
                let read_only = is_read_only(mode).ok_or_else(|| {
                    element.error(
                        field,
                        format!("has the mode `{}`", shown(mode)),
                        "the modes are `ro` and `rw`",
                    )
                })?;
                let source = self.part(source, element, field)?;
                let target = self.part(target, element, field)?;
                Ok(source.zip(target).map(|(source, target)| Parts {
                    source,
                    target,
                    read_only,
                }))
            }
            SettingData::Map(entries) => self.mapped(entries, element, field),
            _ => Err(element.error(field, format!("is {}", element.type_name()), EXAMPLE)),
        }
    }

    fn mapped(
        &mut self,
        entries: &[(String, ToolSetting<'_>)],
        element: &ToolSetting<'_>,
        field: &str,
    ) -> Result<Option<Parts>, ResolveError> {
        const KEYS: [&str; 5] = ["source", "target", "read_only", "mode", "type"];
        let mut read_only = false;
        let (mut source, mut target) = (None, None);
        for (key, value) in entries {
            let inner = format!("{field}.{key}");
            let unusable =
                |hint: &str| value.error(&inner, format!("is {}", value.type_name()), hint);
            match (key.as_str(), &value.data) {
                ("source", _) => {
                    source = Some(self.public(value, &inner, "a folder of the project")?);
                }
                ("target", _) => {
                    target = Some(self.public(value, &inner, "a folder in the container")?);
                }
                ("read_only", SettingData::Scalar(Value::Bool(is_true))) => read_only |= is_true,
                ("mode", SettingData::Scalar(Value::String(mode))) => {
                    let hint = "the modes are `ro` and `rw`";
                    read_only |= is_read_only(mode).ok_or_else(|| {
                        value.error(&inner, format!("is `{}`", shown(mode)), hint)
                    })?;
                }
                ("type", SettingData::Scalar(Value::String(kind))) if kind == "bind" => {}
                ("type", _) => {
                    return Err(unusable("only `bind` is known: a folder of the project"));
                }
                ("read_only", _) => return Err(unusable("write `true` or `false`")),
                ("mode", _) => return Err(unusable("the modes are `ro` and `rw`")),
                (other, _) => {
                    let hint = did_you_mean(
                        nearest(other, KEYS),
                        &format!("known are {}", KEYS.join(", ")),
                    );
                    return Err(value.error(&inner, "is not known".to_owned(), hint));
                }
            }
        }
        match (source, target) {
            (Some(source), Some(target)) => Ok(source.zip(target).map(|(source, target)| Parts {
                source,
                target,
                read_only,
            })),
            _ => Err(element.error(field, "needs a source and a target".to_owned(), EXAMPLE)),
        }
    }

    fn part(
        &mut self,
        template: &str,
        element: &ToolSetting<'_>,
        field: &str,
    ) -> Result<Option<String>, ResolveError> {
        let text = self.fill(template, element, field)?;
        Self::shown_to_all(text, element, field)
    }
}

/// Splits at colons, except inside placeholders.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    text.split(|c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ':' && depth == 0
    })
    .collect()
}

fn is_read_only(mode: &str) -> Option<bool> {
    match mode {
        "ro" => Some(true),
        "rw" => Some(false),
        _ => None,
    }
}

/// A normalized path in the container; `None` when it is invalid.
fn target(path: &str) -> Option<String> {
    let mut target = String::new();
    for part in Path::new(path).components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => {
                target.push('/');
                target.push_str(name.to_str()?);
            }
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    let is_taken = TAKEN
        .iter()
        .any(|taken| Path::new(&target).starts_with(taken));
    let is_plain =
        path.starts_with('/') && !path.contains([':', ',']) && !path.chars().any(char::is_control);
    (is_plain && !is_taken && !target.is_empty()).then_some(target)
}

/// The folder or file of the project, without symlinks.
fn source(path: &str, root: &Path) -> Result<PathBuf, (String, &'static str)> {
    const HINT: &str = "mount folders of the project only, by a relative path";
    let told = shown(path);
    let given = Path::new(path);
    let plain = |path: &Path| {
        path.components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
    };
    let inside = given.strip_prefix(root).unwrap_or(given);
    if path.is_empty() || !plain(inside) {
        return Err((
            format!("has the source `{told}`, which lies outside the project"),
            HINT,
        ));
    }
    let found = root.join(inside).canonicalize().map_err(|_| {
        (
            format!("has the source `{told}`, which does not exist"),
            "create it first; nothing is made by itself",
        )
    })?;
    let Ok(inside) = found.strip_prefix(root) else {
        return Err((
            format!("has the source `{told}`, a link that leads outside the project"),
            HINT,
        ));
    };
    if inside.components().any(|part| part.as_os_str() == ".git")
        || git_folder(root).is_some_and(|it| found.starts_with(it))
    {
        return Err((
            format!("has the source `{told}`, which is git's own"),
            "mount what the tool works on, not its history",
        ));
    }
    if found.is_dir() || found.is_file() {
        Ok(found)
    } else {
        Err((
            format!("has the source `{told}`, which is neither a folder nor a file"),
            HINT,
        ))
    }
}

/// Everything of git below a folder: nested repositories, and the git folder of a worktree.
fn of_git(folder: &Path, root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut entries = WalkDir::new(folder)
        .min_depth(1)
        .follow_links(false)
        .into_iter();
    while let Some(entry) = entries.next() {
        // A folder that cannot be read here cannot be entered by the same user in the container
        // either.
        let Ok(entry) = entry else { continue };
        if entry.file_name() == ".git" {
            if entry.path_is_symlink() {
                // A symlink cannot be mounted over, and it could be changed to point elsewhere.
                return Err(
                    "holds a folder whose `.git` is a link, which cannot be guarded".to_owned(),
                );
            }
            found.push(entry.path().to_path_buf());
            if entry.file_type().is_dir() {
                entries.skip_current_dir();
            }
        }
        if found.len() > MOST_REPOSITORIES {
            return Err(format!(
                "holds a folder with more than {MOST_REPOSITORIES} repositories in it"
            ));
        }
    }
    if let Some(elsewhere) = git_folder(root)
        .filter(|it| it.starts_with(folder) && !found.iter().any(|git| it.starts_with(git)))
    {
        found.push(elsewhere);
    }
    Ok(found)
}

/// The items of the project if they are below a folder and the tool does not say that it writes them.
fn items_of(folder: &Path, root: &Path, writes: &[String]) -> Option<PathBuf> {
    let items = root.join(".ai");
    let is_inside = items.starts_with(folder) && items != folder;
    let is_real = items.symlink_metadata().is_ok_and(|file| file.is_dir());
    let is_named = writes.iter().any(|glob| glob.starts_with(".ai/"));
    (is_inside && is_real && !is_named).then_some(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colons_of_placeholders_are_their_own() {
        assert_eq!(
            split("${DATA:-data}:/data:ro"),
            ["${DATA:-data}", "/data", "ro"]
        );
        assert_eq!(split("a:b"), ["a", "b"]);
        assert_eq!(split("alone"), ["alone"]);
    }

    #[test]
    fn a_target_is_an_absolute_path_that_is_not_used_yet() {
        assert_eq!(target("/docs/./x/").as_deref(), Some("/docs/x"));
        for bad in [
            "", "/", "docs", "/a/../b", "/proc/1", "/dev", "/a:b", "/a,b", "/a\nb",
        ] {
            assert_eq!(target(bad), None, "{bad}");
        }
        assert_eq!(target("/device").as_deref(), Some("/device"));
    }
}
