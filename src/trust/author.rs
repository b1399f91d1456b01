//! Who signed an item, and whether this user trusts the signature.
//!
//! [`Authors`] reads the user's trusted keys once and judges items by the signature files beside
//! them; `ssh-keygen` checks each signature. An author signs the hash in the stamp: without a valid
//! stamp there is nothing to judge. The result for the same signature and text is cached in the
//! process.

mod error;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use serde::Serialize;
use sha2::{Digest as _, Sha256};

pub use error::{AuthorError, UntrustedItem};

use super::keys::{self, Trust};
use super::unreviewed::unreviewed;
use crate::config::SignatureRequirement;
use crate::context::Context;
use crate::exec::call;
use crate::exec::invocation::Invocation;
use crate::exec::ssh::{Keygen, Verified};
use crate::item::directive::Directive;
use crate::item::signature::author::{
    AuthorSignature, MAX_SIGNATURE, NAMESPACE, PublicKey, statement,
};
use crate::item::signature::{self, Integrity, author_file};
use crate::item::source::{MAX_TEXT, Unread, read_bytes};
use crate::item::store::{Item, ItemKind, Layer};
use crate::item::validate;
use crate::item::wording::shown;
pub use crate::journal::event::SignedBy;
use crate::policy::author::{Revoked, Signers};
use crate::problem::Hint;

/// The verdict on the signature of an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Authorship {
    /// There is no signature.
    Unsigned,
    /// A trusted key signed exactly this content.
    Valid {
        /// The name of the trusted signer.
        name: String,
        fingerprint: String,
    },
    /// The key is not trusted.
    Untrusted {
        fingerprint: String,
        /// The key itself, so that the user can trust it.
        key: String,
    },
    /// The key is revoked.
    Revoked { fingerprint: String },
    /// The key is not valid at this time.
    Expired {
        fingerprint: String,
        /// The owner of the key.
        name: String,
    },
    /// The key is trusted, but not for items.
    OtherPurpose { fingerprint: String },
    /// The signature is for another content or another item.
    OtherContent { fingerprint: String },
    /// The file is not a signature of an item.
    Invalid { reason: String },
}

impl Authorship {
    /// The reason as a phrase that follows the name of a file.
    pub fn reason(&self) -> String {
        match self {
            Self::Unsigned => "has no author's signature".to_owned(),
            Self::Valid { name, .. } => format!("is signed by `{}`", shown(name)),
            Self::Untrusted { fingerprint, .. } => {
                format!("is signed by {fingerprint}, which is not trusted")
            }
            Self::Revoked { fingerprint } => {
                format!("is signed by {fingerprint}, which was revoked")
            }
            Self::Expired { fingerprint, name } => {
                format!(
                    "is signed by {fingerprint} of `{}`, which is not valid now",
                    shown(name)
                )
            }
            Self::OtherPurpose { fingerprint } => {
                format!(
                    "is signed by {fingerprint}, which is not trusted for items (`{NAMESPACE}`)"
                )
            }
            Self::OtherContent { fingerprint } => {
                format!("has a signature by {fingerprint} for other content or another item")
            }
            Self::Invalid { reason } => format!("has an unusable signature: {reason}"),
        }
    }

    /// How to fix it.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::Valid { .. } => None,
            Self::Unsigned | Self::OtherContent { .. } | Self::Invalid { .. } => {
                Some("read it, then sign it with `piton sign --key KEY ITEM`, or ask its author to".into())
            }
            Self::Untrusted { key, .. } => {
                Some(format!("if you know whose key it is: `piton trust add '{key}' --as NAME`").into())
            }
            Self::Revoked { .. } | Self::Expired { .. } => Some("have it signed again with a valid key".into()),
            Self::OtherPurpose { .. } => Some(
                format!("add `{NAMESPACE}` to the `namespaces` of its line; `piton trust list` shows where").into(),
            ),
        }
    }

    /// Whether a trusted key signed it.
    pub fn is_valid(&self) -> bool {
        matches!(self, Self::Valid { .. })
    }
}

/// How many unsigned items a message lists.
const MOST_NAMES: usize = 5;

/// The verdicts so far; the key is a hash of all inputs of the verdict.
static KNOWN: LazyLock<Mutex<HashMap<[u8; 32], Authorship>>> = LazyLock::new(Mutex::default);

/// The keys that the user trusted when this was built.
pub struct Authors<'c> {
    ctx: &'c Context,
    signers: Signers,
    revoked: Option<Revoked>,
}

impl<'c> Authors<'c> {
    /// Reads the trusted keys of the user.
    pub fn of(ctx: &'c Context) -> Result<Self, AuthorError> {
        let trust = Trust::of(ctx)?;
        Ok(Self {
            ctx,
            signers: trust.signers()?,
            revoked: trust.revoked()?,
        })
    }

    /// Judges the signature of an item. An item without a valid stamp counts as unsigned.
    pub fn judge(&self, item: &Item) -> Result<Authorship, AuthorError> {
        let Integrity::Valid { hash, .. } = &item.integrity else {
            return Ok(Authorship::Unsigned);
        };
        let text = statement(item.kind(), item.id.as_str(), hash);
        match signature_beside(&item.file) {
            Ok(None) => Ok(Authorship::Unsigned),
            Ok(Some(signature)) => self.judge_signature(&signature, &text),
            Err(reason) => Ok(Authorship::Invalid { reason }),
        }
    }

    fn judge_signature(&self, signature: &str, text: &str) -> Result<Authorship, AuthorError> {
        let Some(made) = AuthorSignature::parse(signature) else {
            return Ok(Authorship::Invalid {
                reason: "it is not an SSH signature".to_owned(),
            });
        };
        if made.namespace != NAMESPACE {
            let reason = format!(
                "it was made for `{}`, not for `{NAMESPACE}`",
                shown(&made.namespace)
            );
            return Ok(Authorship::Invalid { reason });
        }
        let revoked = self.revoked.as_ref().map(Revoked::text);
        let known = digest(&[
            signature,
            text,
            self.signers.text(),
            revoked.unwrap_or_default(),
        ]);
        let remembered = KNOWN
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&known)
            .cloned();
        if let Some(authorship) = remembered {
            return Ok(authorship);
        }
        let keygen = keys::keygen(self.ctx)?;
        let mut authorship = self.judge_key(&keygen, &made.key, signature, text)?;
        // Report a problem with the key only if that key signed exactly this content.
        if !authorship.is_valid() && !keygen.holds(signature, text)? {
            authorship = Authorship::OtherContent {
                fingerprint: made.key.fingerprint(),
            };
        }
        KNOWN
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(known, authorship.clone());
        Ok(authorship)
    }

    /// Judges the key of a signature. Unless the verdict is `Valid`, the signature itself is not
    /// checked yet.
    fn judge_key(
        &self,
        keygen: &Keygen,
        key: &PublicKey,
        signature: &str,
        text: &str,
    ) -> Result<Authorship, AuthorError> {
        let fingerprint = key.fingerprint();
        if self
            .revoked
            .as_ref()
            .is_some_and(|revoked| revoked.has(key))
        {
            return Ok(Authorship::Revoked { fingerprint });
        }
        let lines = self
            .signers
            .all()
            .into_iter()
            .filter(|signer| signer.key == *key && signer.is_for_items());
        let names: Vec<String> = lines
            .flat_map(|signer| {
                signer
                    .principals
                    .split(',')
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            })
            .collect();
        let (allowed, revoked) = (
            self.signers.text().as_bytes(),
            self.revoked.as_ref().map(Revoked::text),
        );
        Ok(
            match keygen.verify(signature, text, &names, allowed, revoked.map(str::as_bytes))? {
                Verified::By(name) => Authorship::Valid { name, fingerprint },
                Verified::NotOfThisText => Authorship::OtherContent { fingerprint },
                Verified::ByNobody(said) => match self
                    .signers
                    .all()
                    .into_iter()
                    .find(|signer| signer.key == *key)
                {
                    Some(_) if said.contains("namespace") => {
                        Authorship::OtherPurpose { fingerprint }
                    }
                    Some(signer) if said.contains("expired") || said.contains("not yet valid") => {
                        Authorship::Expired {
                            fingerprint,
                            name: signer.principals,
                        }
                    }
                    _ => Authorship::Untrusted {
                        fingerprint,
                        key: key.text(),
                    },
                },
            },
        )
    }
}

/// Refuses items that the signature policy does not allow; returns their signers where the policy
/// requires signatures.
pub(crate) fn demand<'i>(
    ctx: &Context,
    items: impl IntoIterator<Item = &'i Item>,
) -> Result<Vec<SignedBy>, AuthorError> {
    let required = ctx.config.signature_requirement();
    let mut signed = Vec::new();
    let own: Vec<&Item> = items
        .into_iter()
        .filter(|item| item.layer != Layer::Builtin)
        .collect();
    let unreviewed = unreviewed(ctx, own.iter().copied());
    if let (Some(item), true) = (unreviewed.first(), ctx.unreviewed.is_pinned()) {
        return Err(AuthorError::Changed(item.id.to_string()));
    }
    if !unreviewed.is_empty() {
        return Err(AuthorError::Unreviewed(unreviewed));
    }
    if required == SignatureRequirement::None {
        return Ok(signed);
    }
    if required == SignatureRequirement::Integrity {
        let unsigned = own
            .iter()
            .filter(|item| !matches!(item.integrity, Integrity::Valid { .. }));
        let unsigned: Vec<PathBuf> = unsigned.map(|item| ctx.shown_path(&item.file)).collect();
        if !unsigned.is_empty() {
            return Err(AuthorError::Unsigned(unsigned));
        }
    } else if !own.is_empty() {
        let authors = Authors::of(ctx)?;
        let mut untrusted = Vec::new();
        for item in &own {
            let file = ctx.shown_path(&item.file);
            match authors.judge(item)? {
                Authorship::Valid { name, fingerprint } => signed.push(SignedBy {
                    file,
                    name,
                    fingerprint,
                }),
                author => untrusted.push(UntrustedItem { file, author }),
            }
        }
        if !untrusted.is_empty() {
            return Err(AuthorError::Untrusted(untrusted));
        }
    }
    match own.into_iter().find_map(|item| gap(ctx, item)) {
        Some(gap) => Err(gap),
        None => Ok(signed),
    }
}

/// A note that lists the items without a valid stamp which the policy allows to run; each id comes
/// with its layer.
pub fn unsigned_note<'i>(items: impl IntoIterator<Item = (&'i str, Layer)>) -> Option<String> {
    let items: BTreeSet<(&str, Layer)> = items.into_iter().collect();
    let names: Vec<&str> = items.iter().map(|(id, _)| *id).collect();
    let is_of = |layer: Layer| items.iter().all(|(_, own)| *own == layer);
    let way_out = match (names.len(), is_of(Layer::Project), is_of(Layer::User)) {
        (0, ..) => return None,
        (1..=MOST_NAMES, true, _) => format!(" (`piton sign {}`)", names.join(" ")),
        (1..=MOST_NAMES, _, true) => format!(" (`piton sign --source user {}`)", names.join(" ")),
        _ => String::new(),
    };
    let more = match names.len().saturating_sub(MOST_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let names = names.get(..MOST_NAMES).unwrap_or(&names);
    Some(format!("not signed: {}{more}{way_out}", names.join(", ")))
}

/// The part of a tool that its stamp does not cover.
pub(crate) fn gap(ctx: &Context, item: &Item) -> Option<AuthorError> {
    let tool = item.as_tool()?;
    let id = item.id.to_string();
    if let Some(script) = validate::uncovered_script(item) {
        return Some(AuthorError::Uncovered {
            tool: id,
            files: vec![ctx.shown_path(&script)],
        });
    }
    if !tool.lenders.is_empty() {
        let files = tool
            .lenders
            .iter()
            .map(|file| ctx.shown_path(file))
            .collect();
        return Some(AuthorError::Lent { tool: id, files });
    }
    let folder = signature::uncovered_folder(tool.folder.as_deref()?)?;
    Some(AuthorError::Packages {
        tool: id,
        folder: ctx.shown_path(&folder),
    })
}

/// Refuses a pinned directive that the current policy does not allow: a key may have been revoked
/// while the run waited.
pub(crate) fn demand_pinned(
    ctx: &Context,
    file: &Path,
    directive: &Directive,
    text: &str,
    signature: Option<&str>,
) -> Result<(), AuthorError> {
    let required = ctx.config.signature_requirement();
    let author =
        match signature::check_directive(file, text, directive.name.as_str(), &directive.version) {
            _ if required == SignatureRequirement::None => return Ok(()),
            Integrity::Valid { .. } if required == SignatureRequirement::Integrity => return Ok(()),
            Integrity::Valid { hash, .. } => match signature {
                Some(signature) => {
                    let text = statement(ItemKind::Directive, directive.name.as_str(), &hash);
                    Authors::of(ctx)?.judge_signature(signature, &text)?
                }
                None => Authorship::Unsigned,
            },
            _ => Authorship::Unsigned,
        };
    if author.is_valid() {
        return Ok(());
    }
    Err(AuthorError::Pinned(UntrustedItem {
        file: ctx.shown_path(file),
        author,
    }))
}

/// Refuses a call that runs files outside any item, unless these files carry valid stamps and the
/// policy accepts stamps.
pub(crate) fn demand_borrowed(ctx: &Context, invocation: &Invocation) -> Result<(), AuthorError> {
    let required = ctx.config.signature_requirement();
    if required == SignatureRequirement::None {
        return Ok(());
    }
    let is_stamped = |file: &PathBuf| {
        let bytes = read_bytes(file, MAX_TEXT).unwrap_or_default();
        let checked = std::str::from_utf8(&bytes).map(|text| signature::check(file, text));
        required == SignatureRequirement::Integrity
            && matches!(checked, Ok(Integrity::Valid { .. }))
    };
    let borrowed = call::borrowed_files(
        invocation,
        [Some(&ctx.root), Some(&ctx.cwd), ctx.home.as_deref()],
    );
    let files: Vec<PathBuf> = borrowed
        .iter()
        .filter(|file| !is_stamped(file))
        .map(|file| ctx.shown_path(file))
        .collect();
    if files.is_empty() {
        Ok(())
    } else {
        Err(AuthorError::Uncovered {
            tool: invocation.id().to_owned(),
            files,
        })
    }
}

/// The verdict on the signature of an item, if there is a signature.
pub fn of_item(ctx: &Context, item: &Item) -> Result<Option<Authorship>, AuthorError> {
    match signature_beside(&item.file) {
        Ok(None) => Ok(None),
        _ => Authors::of(ctx)?.judge(item).map(Some),
    }
}

/// The signature beside a file, if there is one.
pub(crate) fn signature_beside(file: &Path) -> Result<Option<String>, String> {
    match read_bytes(&author_file(file), MAX_SIGNATURE) {
        Ok(bytes) => String::from_utf8(bytes)
            .map(Some)
            .map_err(|_| "it is not an SSH signature".to_owned()),
        Err(Unread::Failed(err)) if err.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(err) => Err(err.to_string()),
    }
}

fn digest(parts: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}
