//! Git's repository format extensions (`extensions.*`) that piton supports.
//!
//! libgit2 refuses a repository with an unknown extension unless the program declares support.
//! Piton declares two: in a partial clone objects may be missing, which is reported when one is
//! needed; in a reftable repository libgit2 must not read refs, which `reference` ensures.

use std::path::Path;
use std::sync::Once;

use git2::Config;

use super::error::CheckpointError;
use super::hook_environment::HookEnvironment;

/// The extensions that libgit2 must accept, in its spelling.
const UNDERSTOOD: [&str; 2] = ["partialclone", "refstorage"];

static TOLD: Once = Once::new();

/// Tells libgit2 once which extensions piton supports. Call it before opening a repository.
#[expect(
    unsafe_code,
    reason = "libgit2 keeps the list in a static variable; it is written once, before it is read"
)]
pub(super) fn accept() {
    TOLD.call_once(|| {
        // SAFETY: libgit2 reads the list when it opens a repository; every such call in this crate waits for this one.
        // If it fails, libgit2 refuses such repositories.
        let _ = unsafe { git2::opts::set_extensions(&UNDERSTOOD) };
    });
}

/// The extension that prevents opening a repository, if any, from its own settings.
pub(super) fn refused(folder: &Path) -> Option<CheckpointError> {
    let place = HookEnvironment::find(folder, |_| None)?;
    let config = Config::open(&place.common_dir.join("config")).ok()?;
    let unsupported = |feature, found: &str| CheckpointError::Unsupported {
        feature,
        found: format!("`{found}`"),
    };
    if config
        .get_string("extensions.objectformat")
        .is_ok_and(|format| format != "sha1" && format != "sha256")
    {
        return Some(unsupported(
            "this format of object names",
            "extensions.objectFormat",
        ));
    }
    let mut entries = config.entries(Some("^extensions\\.")).ok()?;
    while let Some(entry) = entries.next() {
        let Ok(name) = entry.ok()?.name().map(str::to_owned) else {
            continue;
        };
        let known = [
            "noop",
            "objectformat",
            "worktreeconfig",
            "preciousobjects",
            "relativeworktrees",
        ];
        let short = name.strip_prefix("extensions.").unwrap_or(&name);
        if !known.contains(&short) && !UNDERSTOOD.contains(&short) {
            return Some(unsupported("an extension of git's format", &name));
        }
    }
    None
}
