//! The user's trusted signers: the file `allowed_signers` and the revoked keys.
//!
//! Both files are outside of every repository, because a repository must not choose whom to trust.
//! [`Trust::of`] finds them; [`add`], [`list`] and [`revoke`] implement `piton trust`. Files are
//! replaced atomically, and lines that piton did not write are preserved. Private keys are never
//! read.

mod error;

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use tempfile::NamedTempFile;

pub use error::TrustError;

use crate::context::{Context, FoundBy};
use crate::exec::ssh::{Keygen, SshError};
use crate::item::finding::serialize_path;
use crate::item::source::{Unread, read_bytes};
use crate::item::wording::shown;
use crate::policy::author::{NoPublicKey, Revoked, Signer, Signers, is_identity, public_key};

/// An upper limit for the size of these files.
const MAX_FILE: u64 = 4 * 1024 * 1024;
/// How often to try the lock of the files, and how long to wait each time.
const ATTEMPTS: usize = 400;
const PAUSE: Duration = Duration::from_millis(25);

/// The files of trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// The trusted signers.
    pub allowed: PathBuf,
    /// The revoked keys.
    pub revoked: PathBuf,
}

/// A trusted signer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trusted {
    /// The principals: names and patterns, separated by commas.
    pub name: String,
    pub key_type: String,
    pub fingerprint: String,
    /// Valid from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_after: Option<String>,
    /// Valid until.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_before: Option<String>,
    /// Whether it is a certificate authority, which certifies other keys.
    pub cert_authority: bool,
    /// Whether its signatures are valid for items.
    pub for_items: bool,
    /// Whether the key is also in the list of revoked keys.
    pub revoked: bool,
    /// The file of the entry.
    #[serde(serialize_with = "serialize_path")]
    pub file: PathBuf,
    /// The line, starting at 1.
    pub line: usize,
}

/// The result of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TrustChange {
    /// The affected signers.
    pub signers: Vec<Trusted>,
    /// A description of the change.
    pub message: String,
    /// Whether a file was written.
    pub changed: bool,
}

impl Trust {
    /// Finds the files, and rejects files that a repository could change.
    pub fn of(ctx: &Context) -> Result<Self, TrustError> {
        let folder = ctx.settings_folder().ok_or(TrustError::NoHome)?;
        let allowed = match ctx.config.allowed_signers() {
            None => folder.join("allowed_signers"),
            Some(file) => match file.strip_prefix("~") {
                Ok(inside) => ctx.home.as_ref().ok_or(TrustError::NoHome)?.join(inside),
                Err(_) => file,
            },
        };
        let trust = Self {
            allowed,
            revoked: folder.join("revoked_keys"),
        };
        for file in [&trust.allowed, &trust.revoked] {
            if repository(ctx).iter().any(|top| lies_in(file, top)) {
                return Err(TrustError::InRepository(file.clone()));
            }
        }
        Ok(trust)
    }

    /// The trusted signers; empty if there is no file.
    pub fn signers(&self) -> Result<Signers, TrustError> {
        Ok(Signers::new(read(&self.allowed)?.unwrap_or_default()))
    }

    /// The revoked keys; `None` if there is no file.
    pub fn revoked(&self) -> Result<Option<Revoked>, TrustError> {
        Ok(read(&self.revoked)?.map(Revoked::new))
    }

    /// Locks the files against other piton processes until it is dropped, because each write
    /// depends on an earlier read.
    fn lock(&self) -> Result<File, TrustError> {
        let file = self.revoked.with_file_name("trust.lock");
        let failed = |source| TrustError::Unwritable {
            file: file.clone(),
            source,
        };
        ensure_folder(&file).map_err(failed)?;
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&file)
            .map_err(failed)?;
        for _ in 0..ATTEMPTS {
            match lock.try_lock() {
                Ok(()) => return Ok(lock),
                Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
        Err(failed(io::Error::other("another piton process holds it")))
    }

    fn trusted_key(&self, signer: &Signer, revoked: Option<&Revoked>) -> Trusted {
        Trusted {
            name: signer.principals.clone(),
            key_type: signer.key.kind().unwrap_or_default().to_owned(),
            fingerprint: signer.key.fingerprint(),
            valid_after: signer.option("valid-after").map(str::to_owned),
            valid_before: signer.option("valid-before").map(str::to_owned),
            cert_authority: signer.is_authority(),
            for_items: signer.is_for_items(),
            revoked: revoked.is_some_and(|revoked| revoked.has(&signer.key)),
            file: self.allowed.clone(),
            line: signer.line,
        }
    }
}

/// All trusted signers.
pub fn list(ctx: &Context) -> Result<(Trust, Vec<Trusted>), TrustError> {
    let trust = Trust::of(ctx)?;
    let revoked = trust.revoked()?;
    let all = trust
        .signers()?
        .all()
        .iter()
        .map(|signer| trust.trusted_key(signer, revoked.as_ref()))
        .collect();
    Ok((trust, all))
}

/// Trusts a key, given as a `.pub` file or as its content.
pub fn add(ctx: &Context, given: &str, name: Option<&str>) -> Result<TrustChange, TrustError> {
    let trust = Trust::of(ctx)?;
    let text = key_text(ctx, given)?;
    let (key, comment) = public_key(&text).map_err(|reason| match reason {
        NoPublicKey::Private => TrustError::PrivateKey,
        NoPublicKey::Several => TrustError::SeveralKeys,
        NoPublicKey::Other => TrustError::NotAKey,
    })?;
    let name = match name {
        Some(name) if is_identity(name) => name.to_owned(),
        Some(name) => return Err(TrustError::InvalidName(name.to_owned())),
        None if is_identity(&comment) => comment.clone(),
        None => return Err(TrustError::NoName),
    };
    let _lock = trust.lock()?;
    let revoked = trust.revoked()?;
    if revoked.as_ref().is_some_and(|revoked| revoked.has(&key)) {
        return Err(TrustError::Revoked {
            fingerprint: key.fingerprint(),
            file: trust.revoked,
        });
    }
    let mut signers = trust.signers()?;
    let is_there = |signer: &&Signer| {
        signer.key == key
            && signer.principals == name
            && signer.is_for_items()
            && !signer.is_authority()
    };
    let change = |signers: &Signers, changed: bool, message: String| {
        let told = signers
            .all()
            .into_iter()
            .rfind(|signer| signer.key == key && signer.principals == name);
        let signers = told
            .iter()
            .map(|signer| trust.trusted_key(signer, revoked.as_ref()))
            .collect();
        TrustChange {
            signers,
            message,
            changed,
        }
    };
    if signers.all().iter().any(|signer| is_there(&signer)) {
        return Ok(change(
            &signers,
            false,
            format!("`{name}` is already trusted"),
        ));
    }
    // The comment could be any text; keep it only if it is a valid name.
    signers.add(
        &name,
        &key,
        if is_identity(&comment) && comment != name {
            &comment
        } else {
            ""
        },
    );
    write(&trust.allowed, signers.text())?;
    Ok(change(
        &signers,
        true,
        format!("signatures of `{name}` are now trusted"),
    ))
}

/// Revokes a signer, by name or fingerprint.
pub fn revoke(ctx: &Context, name: &str) -> Result<TrustChange, TrustError> {
    let trust = Trust::of(ctx)?;
    let _lock = trust.lock()?;
    let mut signers = trust.signers()?;
    let mut revoked = trust.revoked()?.unwrap_or_default();
    let found: Vec<Signer> = signers
        .all()
        .into_iter()
        .filter(|signer| signer.answers_to(name))
        .collect();
    if found.is_empty() {
        let known = signers
            .all()
            .into_iter()
            .map(|signer| signer.principals)
            .collect();
        return Err(TrustError::Unknown {
            name: name.to_owned(),
            known,
        });
    }
    for signer in &found {
        revoked.add(
            &signer.key,
            signer.principals.split(',').next().unwrap_or_default(),
        );
    }
    // Remove all names of the key: it is the key that is revoked.
    let gone: Vec<Signer> = signers
        .all()
        .into_iter()
        .filter(|signer| found.iter().any(|other| other.key == signer.key))
        .collect();
    let told = gone
        .iter()
        .map(|signer| trust.trusted_key(signer, Some(&revoked)))
        .collect();
    // Write the revocation first: if piton is interrupted, the key must already be invalid.
    write(&trust.revoked, revoked.text())?;
    signers.remove(&gone.iter().map(|signer| signer.line).collect::<Vec<_>>());
    write(&trust.allowed, signers.text())?;
    let keys = if found.len() == 1 {
        "the key".to_owned()
    } else {
        format!("{} keys", found.len())
    };
    Ok(TrustChange {
        signers: told,
        message: format!("revoked {keys} of `{name}`"),
        changed: true,
    })
}

/// The text of a key that was given as a file or directly.
fn key_text(ctx: &Context, given: &str) -> Result<String, TrustError> {
    // A key contains blanks and does not look like a usual file name.
    if public_key(given).is_ok() || given.contains('\n') || given.contains("PRIVATE KEY") {
        return Ok(given.to_owned());
    }
    let file = match (given.strip_prefix("~/"), &ctx.home) {
        (Some(inside), Some(home)) => home.join(inside),
        _ => ctx.cwd.join(given),
    };
    if !file.exists() && given.starts_with("ssh-") {
        return Err(TrustError::NotAKey);
    }
    let unreadable = |source| TrustError::NoKeyFile {
        file: PathBuf::from(given),
        source,
    };
    let bytes = read_bytes(&file, MAX_FILE).map_err(|err| match err {
        Unread::Failed(source) => unreadable(source),
        other => unreadable(io::Error::other(other)),
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The user's own `ssh-keygen`, never one from a repository.
pub(crate) fn keygen(ctx: &Context) -> Result<Keygen, SshError> {
    let repository = repository(ctx);
    Keygen::find(ctx.environment.variables(), |folder| {
        !repository.iter().any(|top| lies_in(folder, top))
    })
}

/// The folders that a repository may change: the project and the work trees around it, except the
/// home.
fn repository(ctx: &Context) -> Vec<PathBuf> {
    // A current folder outside of any repository does not count.
    let project =
        Some(ctx.root.clone()).filter(|_| matches!(ctx.found_by, FoundBy::Items | FoundBy::Git));
    let is_top = |folder: &&Path| fs::symlink_metadata(folder.join(".git")).is_ok();
    let tops = ctx
        .root
        .ancestors()
        .filter(is_top)
        .filter(|top| ctx.home.as_deref() != Some(*top));
    project
        .into_iter()
        .chain(tops.map(Path::to_path_buf))
        .collect()
}

/// Whether a file, or the target of its link, is in a folder.
fn lies_in(file: &Path, folder: &Path) -> bool {
    let real = file.ancestors().find_map(|part| {
        let rest = file.strip_prefix(part).ok()?;
        Some(fs::canonicalize(part).ok()?.join(rest))
    });
    file.starts_with(folder) || real.is_some_and(|real| real.starts_with(folder))
}

fn read(file: &Path) -> Result<Option<String>, TrustError> {
    let unreadable = |source| TrustError::Unreadable {
        file: file.to_path_buf(),
        source,
    };
    match read_bytes(file, MAX_FILE) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(unreadable(io::Error::other("not valid UTF-8"))),
        },
        // A dangling link is not an empty list: a revoked key would become valid again.
        Err(Unread::Failed(err)) if err.kind() == io::ErrorKind::NotFound => match dangling(file) {
            Some(link) => Err(unreadable(leads_nowhere(&link))),
            None => Ok(None),
        },
        Err(Unread::Failed(err)) => Err(unreadable(err)),
        Err(other) => Err(unreadable(io::Error::other(other))),
    }
}

/// The dangling link on the path to a file, or the file itself.
fn dangling(file: &Path) -> Option<PathBuf> {
    let link = file
        .ancestors()
        .find(|part| fs::symlink_metadata(part).is_ok())?;
    fs::metadata(link).is_err().then(|| link.to_path_buf())
}

fn leads_nowhere(link: &Path) -> io::Error {
    io::Error::other(format!(
        "the link `{}` is dangling",
        shown(&link.to_string_lossy())
    ))
}

/// Replaces a file atomically; if it is a link, replaces the target.
fn write(file: &Path, text: &str) -> Result<(), TrustError> {
    let replace = || -> io::Result<()> {
        if let Some(link) = dangling(file) {
            return Err(leads_nowhere(&link));
        }
        let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_path_buf());
        let folder = ensure_folder(&file)?;
        let mode = fs::metadata(&file).map_or(0o600, |found| found.permissions().mode() & 0o777);
        let mut new = NamedTempFile::new_in(folder)?;
        new.write_all(text.as_bytes())?;
        // Only the user may write the file, because it decides whom to trust.
        new.as_file()
            .set_permissions(fs::Permissions::from_mode(mode & 0o755))?;
        new.as_file().sync_all()?;
        new.persist(&file)?;
        Ok(())
    };
    replace().map_err(|source| TrustError::Unwritable {
        file: file.to_path_buf(),
        source,
    })
}

/// Ensures the folder of a file; only the user can access a new one.
fn ensure_folder(file: &Path) -> io::Result<&Path> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    if !folder.exists() {
        fs::create_dir_all(folder)?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    }
    Ok(folder)
}
