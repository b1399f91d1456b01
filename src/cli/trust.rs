//! `piton trust`: manages trusted signers.

use std::io::Read as _;

use super::{Format, Ui};
use crate::context::Context;
use crate::error::{Error, ExitStatus};
use crate::run::error::RunError;
use crate::trust::keys::{self, TrustChange, TrustError, Trusted};

/// The maximum size of a key.
const MAX_KEY: u64 = 64 * 1024;

/// Manage the keys you trust to sign items
///
/// Trusted keys matter for `signature.require: author`. piton keeps them in your own configuration
/// folder, in OpenSSH's format, and never in a repository: a repository must not choose whom you trust.
#[derive(Debug, clap::Args)]
pub(super) struct TrustArguments {
    #[command(subcommand)]
    command: TrustCommand,
}

#[derive(Debug, clap::Subcommand)]
enum TrustCommand {
    Add(AddArguments),
    List(TrustListArguments),
    Revoke(RevokeArguments),
}

/// Trust a key.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton trust add ada.pub --as ada@example.com
  piton trust add 'ssh-ed25519 AAAA… ada@example.com'
  curl -s https://github.com/ada.keys | head -1 | piton trust add - --as ada")]
pub(super) struct AddArguments {
    /// `.pub` file, its text, or `-` for stdin.
    #[arg(value_name = "KEY")]
    key: String,
    /// Name of the signer; by default the comment of the key.
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
}

/// List trusted keys.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton trust list
  piton trust list --format json")]
pub(super) struct TrustListArguments {}

/// Revoke a key.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  piton trust revoke ada@example.com
  piton trust revoke SHA256:AXvu4fbN8knfKbLe1yJG/UfX8egoGasiXYMNMN/+eik")]
pub(super) struct RevokeArguments {
    /// Name of the signer, or fingerprint of the key.
    #[arg(value_name = "NAME|FINGERPRINT")]
    name: String,
}

pub(super) fn run(
    arguments: &TrustArguments,
    ctx: &Context,
    ui: &mut Ui,
) -> Result<ExitStatus, Error> {
    match &arguments.command {
        TrustCommand::Add(add) => {
            let key = if add.key == "-" {
                typed()?
            } else {
                add.key.clone()
            };
            print_change(
                &keys::add(ctx, &key, add.name.as_deref()).map_err(RunError::from)?,
                ui,
            )
        }
        TrustCommand::List(_) => list(ctx, ui),
        TrustCommand::Revoke(revoke) => print_change(
            &keys::revoke(ctx, &revoke.name).map_err(RunError::from)?,
            ui,
        ),
    }
}

fn typed() -> Result<String, Error> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().take(MAX_KEY).read_to_end(&mut bytes);
    read.map_err(|_| RunError::from(TrustError::NotAKey))?;
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    // A line feed makes it a key text, not a file name.
    text.push('\n');
    Ok(text)
}

fn print_change(change: &TrustChange, ui: &mut Ui) -> Result<ExitStatus, Error> {
    if ui.format() == Format::Json {
        ui.json(change)?;
        return Ok(ExitStatus::Success);
    }
    lines(&change.signers, ui)?;
    if change.changed {
        ui.success(&change.message);
    } else {
        ui.note(&change.message);
    }
    Ok(ExitStatus::Success)
}

fn list(ctx: &Context, ui: &mut Ui) -> Result<ExitStatus, Error> {
    let (trust, all) = keys::list(ctx).map_err(RunError::from)?;
    if ui.format() == Format::Json {
        ui.json(&serde_json::json!({
            "signers": all,
            "allowed_signers": trust.allowed.to_string_lossy(),
            "revoked_keys": trust.revoked.to_string_lossy(),
        }))?;
        return Ok(ExitStatus::Success);
    }
    if all.is_empty() {
        ui.note(&format!("no trusted keys in `{}`", trust.allowed.display()));
        ui.hint("`piton trust add KEY.pub --as NAME` adds one");
    }
    lines(&all, ui)?;
    Ok(ExitStatus::Success)
}

fn lines(signers: &[Trusted], ui: &mut Ui) -> Result<(), Error> {
    let width = |of: fn(&Trusted) -> &str| {
        signers
            .iter()
            .map(|it| of(it).chars().count())
            .max()
            .unwrap_or_default()
    };
    let (names, kinds) = (
        width(|signer| &signer.name),
        width(|signer| &signer.key_type),
    );
    for signer in signers {
        let Trusted {
            name,
            key_type,
            fingerprint,
            file,
            line,
            ..
        } = signer;
        let validity = validity(signer);
        ui.line(&format!(
            "{name:names$}  {key_type:kinds$}  {fingerprint}  {validity}  {}:{line}",
            file.display()
        ))?;
    }
    Ok(())
}

fn validity(signer: &Trusted) -> String {
    let mut words = Vec::new();
    if signer.revoked {
        words.push("revoked".to_owned());
    }
    if !signer.for_items {
        words.push("not for items".to_owned());
    }
    if signer.cert_authority {
        words.push("certificate authority".to_owned());
    }
    words.extend(signer.valid_after.iter().map(|time| format!("from {time}")));
    words.extend(
        signer
            .valid_before
            .iter()
            .map(|time| format!("until {time}")),
    );
    if words.is_empty() {
        "always".to_owned()
    } else {
        words.join(", ")
    }
}
