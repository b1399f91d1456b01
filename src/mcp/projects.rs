//! The projects that the server may access.
//!
//! A project is the one that piton was started in, or lies below a folder given with `--root`. Its
//! settings are read again for each call; the search index is kept between calls. When a project is
//! used for the first time, its files are recorded as its [`Baseline`]: later changes are
//! attributed to the agent.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rmcp::model::RequestStateCodec;

use super::arguments::missing;
use super::authoring::Authoring;
use super::failure::ToolFailure;
use crate::context::Context;
use crate::context::principal::{Consents, Principal, UnreviewedFiles};
use crate::error::Error;
use crate::item::search::{Cache, SearchIndex};
use crate::item::store::LookupError;
use crate::item::wording::shown;
use crate::policy::Authority;
use crate::problem::Code;
use crate::run::baseline::Baseline;
use crate::run::error::RunError;
use crate::run::error_titles::ErrorTitle;
use crate::run::pinned_authority::PinnedAuthority;
use crate::trust::unreviewed;

/// State shared by all calls of a server.
#[derive(Debug)]
pub struct Projects {
    /// Where the server was started.
    origin: Context,
    /// Seals data that travels through a client between a question and its answer. Without the key
    /// of this process it cannot be forged.
    pub(crate) seal: RequestStateCodec,
    /// The default project.
    home: Option<PathBuf>,
    /// The folders that projects may lie in, without symbolic links.
    roots: Vec<PathBuf>,
    /// The directive that limits what agents can run.
    confinement: Option<PinnedAuthority>,
    authoring: Authoring,
    used: Mutex<HashMap<PathBuf, Arc<Project>>>,
}

/// A project that was used before.
#[derive(Debug)]
pub(crate) struct Project {
    pub(crate) root: PathBuf,
    index: Mutex<Option<SearchIndex>>,
    /// Held while something is changed, so that calls of one project run one after the other.
    pub(crate) turn: Mutex<()>,
    baseline: Mutex<Option<Baseline>>,
    /// The context of the first use.
    seen: Context,
    is_closed: AtomicBool,
}

impl Projects {
    /// Serves the project of the working folder and the projects below other folders.
    ///
    /// If a directive is given, agents can run only what that directive permits. It is read now,
    /// from the first of the projects that has it.
    pub fn new(
        ctx: &Context,
        roots: &[PathBuf],
        directive: Option<&str>,
        authoring: Authoring,
    ) -> Result<Self, Error> {
        // `/` is not a project; a server started there only serves folders given with `--root`.
        let home = Some(ctx.root.clone()).filter(|root| root.parent().is_some());
        let mut allowed: Vec<PathBuf> = home.iter().cloned().collect();
        let key: Vec<u8> = [ctx.random_bits(), ctx.random_bits()]
            .into_iter()
            .flat_map(u128::to_le_bytes)
            .collect();
        for root in roots {
            allowed.push(ctx.environment.enter(Some(&ctx.cwd.join(root)))?);
        }
        let confinement = directive.map(|id| pin(ctx, &allowed, id)).transpose()?;
        let mut origin = ctx.clone().on_behalf_of(Principal::Agent);
        origin.unreviewed = UnreviewedFiles::of_server(
            ctx.now(),
            match confinement {
                Some(_) => Consents::Ignored,
                None => Consents::Counted,
            },
        );
        if confinement.is_some() {
            // The items are pinned with the directive; else a later edit would count as seen.
            let served = allowed.iter().filter_map(|root| origin.moved_to(root).ok());
            served.for_each(|project| unreviewed::remember(&project));
        }
        Ok(Self {
            origin,
            seal: RequestStateCodec::new_unchecked(key),
            home,
            roots: allowed,
            authoring: match confinement {
                Some(_) => Authoring::Confined,
                None => authoring,
            },
            confinement,
            used: Mutex::default(),
        })
    }

    /// The directive that limits what agents can run.
    pub(crate) fn confinement(&self) -> Option<&PinnedAuthority> {
        self.confinement.as_ref()
    }

    /// The permissions with which agents call tools.
    pub(crate) fn authority(&self) -> Authority<'_> {
        let confined = self.confinement.as_ref().map(PinnedAuthority::authority);
        confined.unwrap_or(Authority::Agent)
    }

    /// Whether agents may write items.
    pub(crate) fn authoring(&self) -> Authoring {
        self.authoring
    }

    /// The project that a call is about, with its current settings.
    pub(crate) fn project(
        &self,
        named: Option<&str>,
    ) -> Result<(Arc<Project>, Context), ToolFailure> {
        let folder = match (named, &self.home) {
            (Some(named), _) => self.confine(Path::new(named))?,
            (None, Some(home)) => home.clone(),
            (None, None) => return Err(missing("project_path")),
        };
        let ctx = self.origin.moved_to(&folder)?;
        // The named folder may be below the project root, and the root may not be served.
        self.require_served(&ctx.root)?;
        if ctx.config.has_errors() {
            return Err(Error::Settings(ctx.config.findings().to_vec()).into());
        }
        let mut projects = lock(&self.used);
        let project = projects
            .entry(ctx.root.clone())
            .or_insert_with(|| Project::seen_first(&ctx));
        Ok((Arc::clone(project), ctx))
    }

    /// Records the baseline of the default project, so that it is as old as the server.
    pub(crate) fn look_around(self: &Arc<Self>) {
        let projects = Arc::clone(self);
        // An error is ignored here: the first call reports it.
        thread::spawn(move || projects.project(None).is_ok());
    }

    /// Whether there is a default project.
    pub(crate) fn has_home(&self) -> bool {
        self.home.is_some()
    }

    /// Whether a call could mean more than one project.
    pub(crate) fn has_choice(&self) -> bool {
        self.roots.len() > usize::from(self.home.is_some())
    }

    /// Resolves a named folder and checks that it is served.
    pub(crate) fn confine(&self, named: &Path) -> Result<PathBuf, ToolFailure> {
        if named.is_relative() {
            return Err(ToolFailure::argument(format!(
                "`{}` is not an absolute path",
                shown(&named.to_string_lossy())
            ))
            .with_suggestion("`project_path` is the absolute path of a project"));
        }
        let folder = self.origin.environment.enter(Some(named)).map_err(|err| {
            let failure = ToolFailure::from(err);
            failure
                .with_suggestion("`project_path` is the absolute path of a project that is there")
        })?;
        self.require_served(&folder)?;
        Ok(folder)
    }

    pub(crate) fn require_served(&self, folder: &Path) -> Result<(), ToolFailure> {
        if self.roots.iter().any(|root| folder.starts_with(root)) {
            return Ok(());
        }
        let message = format!(
            "`{}` is not a project that this server serves",
            shown(&folder.to_string_lossy())
        );
        Err(ToolFailure::new(
            ErrorTitle::ProjectNotServed,
            Code::ProjectNotServed,
            message,
        )
        .with_suggestion("start the server in that project, or with `piton mcp --root DIR`"))
    }
}

/// Reads the directive that limits a server from the first project that has it.
fn pin(ctx: &Context, roots: &[PathBuf], id: &str) -> Result<PinnedAuthority, Error> {
    let mut found = PinnedAuthority::of(ctx, id);
    for root in roots {
        if matches!(
            found,
            Err(RunError::NoDirective(LookupError::NotFound { .. }))
        ) && let Ok(there) = ctx.moved_to(root)
        {
            found = PinnedAuthority::of(&there, id).or(found);
        }
    }
    Ok(found?)
}

impl Project {
    /// Records the baseline on a separate thread, so that calls that only read do not wait for it.
    fn seen_first(ctx: &Context) -> Arc<Self> {
        let project = Arc::new(Self {
            root: ctx.root.clone(),
            index: Mutex::default(),
            turn: Mutex::default(),
            baseline: Mutex::default(),
            seen: ctx.clone(),
            is_closed: AtomicBool::new(false),
        });
        let looking = Arc::clone(&project);
        thread::spawn(move || looking.remember());
        project
    }

    /// Waits until the baseline is recorded. An error is reported by the call that needs the
    /// baseline.
    pub(crate) fn remember(&self) {
        let _ = self.with_baseline(|_| ());
    }

    /// Calls `then` with the baseline, which is taken first if necessary; none without a
    /// repository.
    pub(crate) fn with_baseline<T>(
        &self,
        then: impl FnOnce(Option<&mut Baseline>) -> T,
    ) -> Result<T, RunError> {
        // Nothing runs before the items are known, or an agent's item would count as the person's.
        unreviewed::remember(&self.seen);
        let mut kept = lock(&self.baseline);
        if kept.is_none() && !self.is_closed.load(Ordering::SeqCst) {
            *kept = Baseline::take(&self.seen)?;
        }
        Ok(then(kept.as_mut()))
    }

    /// Releases the baseline.
    fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        if let Some(baseline) = lock(&self.baseline).take() {
            // `piton gc` removes a ref that is left behind.
            let _ = baseline.release(&self.seen);
        }
    }

    /// Calls `then` with the refreshed search index.
    pub(crate) fn with_index<T>(&self, ctx: &Context, then: impl FnOnce(&SearchIndex) -> T) -> T {
        let mut kept = lock(&self.index);
        let index = match kept.take() {
            Some(mut index) => {
                index.refresh();
                index
            }
            None => SearchIndex::open(
                ctx.roots(),
                Some(Cache {
                    folder: &ctx.cache_folder(),
                    program: &ctx.program,
                }),
            ),
        };
        then(kept.insert(index))
    }
}

impl Drop for Projects {
    fn drop(&mut self) {
        lock(&self.used)
            .values()
            .for_each(|project| project.close());
    }
}

/// Locks a mutex even if its previous holder panicked: each user restores the guarded value first.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
