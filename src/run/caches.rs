//! Whether the caches that a tool declares may become writable for it.
//!
//! The usual folder of a known toolchain may. Any other folder needs a setting that only the user's
//! own layer can make, because a project could declare `~/.ssh`.

use std::path::PathBuf;

use crate::context::Context;
use crate::exec::invocation::Invocation;
use crate::exec::toolchain::AllowedCaches;
use crate::item::wording::shown;
use crate::problem::{Code, Explain, Hint};

#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    #[error(
        "tool `{tool}` declares the cache `{}` in `{}`, which you have not allowed",
        shown(.cache),
        .folder.display()
    )]
    NotAllowed {
        tool: String,
        /// As declared.
        cache: String,
        folder: PathBuf,
    },
    #[error(
        "tool `{tool}` declares the cache `{}` in `{}`, which contains your home",
        shown(.cache),
        .folder.display()
    )]
    HoldsHome {
        tool: String,
        cache: String,
        folder: PathBuf,
    },
}

impl Explain for CacheError {
    fn code(&self) -> Code {
        Code::CacheNotAllowed
    }

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::NotAllowed { .. } => "if it may write there, add the folder to `isolation.cache_folders` in `~/.ai/config.yaml`".into(),
            Self::HoldsHome { .. } => "name a folder that is used for this cache only".into(),
        })
    }
}

/// Refuses a call whose caches the user has not allowed.
pub(super) fn check(ctx: &Context, invocation: &Invocation) -> Result<(), CacheError> {
    let allowed = AllowedCaches::of(&ctx.config.cache_folders(), ctx.home.as_deref());
    for cache in &invocation.caches {
        let tool = invocation.id().to_owned();
        let (name, folder) = (cache.name.to_string(), cache.folder.clone());
        let holds_home = |home: &PathBuf| {
            let (home, folder) = (home.canonicalize(), folder.canonicalize());
            matches!((home, folder), (Ok(home), Ok(folder)) if home.starts_with(&folder))
        };
        if ctx.home.as_ref().is_some_and(holds_home) {
            return Err(CacheError::HoldsHome {
                tool,
                cache: name,
                folder,
            });
        }
        if !cache.is_usual && !allowed.has(&cache.folder) {
            return Err(CacheError::NotAllowed {
                tool,
                cache: name,
                folder,
            });
        }
    }
    Ok(())
}
