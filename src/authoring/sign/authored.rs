//! Adds a person's signature to the stamp of an item.
//!
//! Only a person at the terminal can choose the key; directives and agents cannot. One `ssh-keygen`
//! signs everything before the run begins, so that a locked key does not block other runs. Items
//! that change before they are written are refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Signed, SignedItem};
use crate::authoring::{ItemAnswer, ItemEffect, ItemStepError, Write};
use crate::context::Context;
use crate::exec::ssh::{self, Keygen, Talk};
use crate::item::signature::author::{AuthorSignature, PublicKey, statement};
use crate::item::signature::author_file;
use crate::item::source::{MAX_DOCUMENT, read_bytes};
use crate::policy::author::public_key;
use crate::trust::author::{AuthorError, signature_beside};
use crate::trust::keys::{self, Trust, TrustError};

/// Signatures by the text that they sign.
pub(crate) type Signatures = BTreeMap<String, String>;

/// Signs everything that a plan stamps or finds stamped.
pub(crate) fn make(
    ctx: &Context,
    key: &Path,
    effect: &ItemEffect,
    talk: &mut Talk<'_>,
) -> Result<Signatures, AuthorError> {
    let ItemAnswer::Sign(answer) = &effect.answer else {
        return Ok(Signatures::new());
    };
    let keygen = keys::keygen(ctx)?;
    let key = key_file(ctx, key);
    let public = public_half(&key);
    refuse_revoked(ctx, public.as_ref())?;
    let mut signatures = Signatures::new();
    let mut missing: Vec<String> = Vec::new();
    for item in answer.signed.iter().chain(&answer.unchanged) {
        let text = statement(item.item_type, &item.name, &item.hash);
        match kept(ctx, &keygen, item, &text, public.as_ref())? {
            Some(signature) => {
                signatures.insert(text, signature);
            }
            None => missing.push(text),
        }
    }
    if !missing.is_empty() {
        let made = keygen.sign(&key, &missing, talk)?;
        let by = made
            .first()
            .and_then(|signature| AuthorSignature::parse(signature))
            .map(|made| made.key);
        refuse_revoked(ctx, by.as_ref())?;
        signatures.extend(missing.into_iter().zip(made));
    }
    Ok(signatures)
}

/// Adds to a plan what the key would sign. Signs nothing, so that a locked key asks for no
/// passphrase.
pub(crate) fn foresee(
    ctx: &Context,
    key: &Path,
    effect: &mut ItemEffect,
) -> Result<(), AuthorError> {
    let ItemAnswer::Sign(answer) = &mut effect.answer else {
        return Ok(());
    };
    let keygen = keys::keygen(ctx)?;
    let key = key_file(ctx, key);
    ssh::check_key(&key)?;
    let public = public_half(&key);
    refuse_revoked(ctx, public.as_ref())?;
    let (mut kept_ones, mut others) = (Vec::new(), std::mem::take(&mut answer.signed));
    for item in std::mem::take(&mut answer.unchanged) {
        let text = statement(item.item_type, &item.name, &item.hash);
        let is_kept = kept(ctx, &keygen, &item, &text, public.as_ref())?.is_some();
        if is_kept {
            kept_ones.push(item);
        } else {
            others.push(item);
        }
    }
    let author = public.map(|key| key.fingerprint());
    for item in others.iter_mut().chain(&mut kept_ones) {
        item.author.clone_from(&author);
        item.earlier_signature = None;
    }
    (answer.signed, answer.unchanged) = (others, kept_ones);
    answer.update_summary();
    Ok(())
}

/// Adds signatures to a plan.
pub(crate) fn add(
    ctx: &Context,
    effect: &mut ItemEffect,
    signatures: &Signatures,
) -> Result<(), ItemStepError> {
    let ItemAnswer::Sign(answer) = &mut effect.answer else {
        return Ok(());
    };
    for item in answer.signed.iter_mut().chain(&mut answer.unchanged) {
        let text = statement(item.item_type, &item.name, &item.hash);
        let changed = || ItemStepError::NotSignable {
            name: item.name.clone(),
            reason: "it changed while it was being signed".to_owned(),
            hint: Some("look at what changed, then sign it again".into()),
        };
        let signature = signatures.get(&text).ok_or_else(changed)?;
        item.author = AuthorSignature::parse(signature).map(|made| made.key.fingerprint());
        item.earlier_signature = None;
        if signature_beside(&file_of(ctx, item))
            .ok()
            .flatten()
            .as_deref()
            != Some(signature)
        {
            effect.writes.push(Write::text(
                item.home,
                author_file(&item.place),
                signature.clone(),
            ));
        }
    }
    let is_written = |item: &SignedItem| {
        effect
            .writes
            .iter()
            .any(|write| write.path == author_file(&item.place))
    };
    let Signed {
        signed, unchanged, ..
    } = answer;
    signed.extend(unchanged.extract_if(.., |item| is_written(item)));
    answer.update_summary();
    Ok(())
}

/// The signature beside an item, if this key made it for this text.
fn kept(
    ctx: &Context,
    keygen: &Keygen,
    item: &SignedItem,
    text: &str,
    public: Option<&PublicKey>,
) -> Result<Option<String>, AuthorError> {
    let Ok(Some(signature)) = signature_beside(&file_of(ctx, item)) else {
        return Ok(None);
    };
    let is_ours = AuthorSignature::parse(&signature).is_some_and(|made| Some(&made.key) == public);
    Ok(if is_ours && keygen.holds(&signature, text)? {
        Some(signature)
    } else {
        None
    })
}

fn file_of(ctx: &Context, item: &SignedItem) -> PathBuf {
    super::top(ctx, item.home)
        .unwrap_or(&ctx.root)
        .join(&item.place)
}

/// Refuses a key that the user has revoked, because its signatures are not valid.
fn refuse_revoked(ctx: &Context, key: Option<&PublicKey>) -> Result<(), TrustError> {
    let trust = Trust::of(ctx)?;
    let revoked = trust.revoked()?;
    match key.filter(|key| revoked.as_ref().is_some_and(|revoked| revoked.has(key))) {
        Some(key) => Err(TrustError::Revoked {
            fingerprint: key.fingerprint(),
            file: trust.revoked,
        }),
        None => Ok(()),
    }
}

/// The path of a key file as typed.
fn key_file(ctx: &Context, key: &Path) -> PathBuf {
    match (key.strip_prefix("~"), &ctx.home) {
        (Ok(inside), Some(home)) => home.join(inside),
        _ => ctx.cwd.join(key),
    }
}

/// The public key beside a private key, if there is one.
fn public_half(key: &Path) -> Option<PublicKey> {
    let mut beside = key.as_os_str().to_owned();
    beside.push(".pub");
    let read = |file: &Path| {
        let bytes = read_bytes(file, MAX_DOCUMENT).ok()?;
        public_key(&String::from_utf8_lossy(&bytes))
            .ok()
            .map(|(key, _)| key)
    };
    read(key).or_else(|| read(Path::new(&beside)))
}
