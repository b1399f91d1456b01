//! The projects that are served, and nothing outside of them.
//!
//! A project is the one that piton was started in, or lies below a folder named by `--root`. Its
//! settings are read anew for each call; what is costly to make is kept: the index of its items. When a project is seen
//! first, its files are remembered as its [`Baseline`]: what changes from then on, an agent has changed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rmcp::model::RequestStateCodec;

use super::arguments::missing;
use super::failure::Failure;
use crate::context::Context;
use crate::error::Error;
use crate::item::search::{Cache, Index};
use crate::item::wording::shown;
use crate::problem::Code;
use crate::run::baseline::Baseline;
use crate::run::error::RunError;

/// Everything that the calls of a server share.
#[derive(Debug)]
pub struct Desk {
    /// Where the server was started.
    origin: Context,
    /// Seals what a client carries from a question to its answer; whoever forges it has not this process's key.
    pub(crate) seal: RequestStateCodec,
    /// The project that is meant when none is named.
    home: Option<PathBuf>,
    /// The folders that projects may lie in, without symbolic links.
    roots: Vec<PathBuf>,
    /// The directive that tools run for; no more than it allows is allowed.
    directive: Option<String>,
    projects: Mutex<HashMap<PathBuf, Arc<Project>>>,
}

/// A project that was seen before.
#[derive(Debug)]
pub(crate) struct Project {
    /// Its top.
    pub(crate) root: PathBuf,
    index: Mutex<Option<Index>>,
    /// Held by whoever changes something: calls of one project take turns.
    pub(crate) turn: Mutex<()>,
    baseline: Mutex<Option<Baseline>>,
    /// The settings that it was seen with first.
    seen: Context,
    is_closed: AtomicBool,
}

impl Desk {
    /// Serves the project around the working folder and those below other folders.
    ///
    /// Tools that are called by themselves run for a directive, if one is named.
    pub fn new(ctx: &Context, roots: &[PathBuf], directive: Option<String>) -> Result<Self, Error> {
        // The top of the system is no project: there, only folders that are named are served.
        let home = Some(ctx.root.clone()).filter(|root| root.parent().is_some());
        let mut allowed: Vec<PathBuf> = home.iter().cloned().collect();
        let key: Vec<u8> = [ctx.random_bits(), ctx.random_bits()].into_iter().flat_map(u128::to_le_bytes).collect();
        for root in roots {
            allowed.push(ctx.environment.enter(Some(&ctx.cwd.join(root)))?);
        }
        Ok(Self {
            origin: ctx.clone(),
            seal: RequestStateCodec::new_unchecked(key),
            home,
            roots: allowed,
            directive,
            projects: Mutex::default(),
        })
    }

    /// The directive that tools run for.
    pub(crate) fn directive(&self) -> Option<&str> {
        self.directive.as_deref()
    }

    /// The project that a call is about, with its settings as they are now.
    pub(crate) fn project(&self, named: Option<&str>) -> Result<(Arc<Project>, Context), Failure> {
        let folder = match (named, &self.home) {
            (Some(named), _) => self.confine(Path::new(named))?,
            (None, Some(home)) => home.clone(),
            (None, None) => return Err(missing("project_path")),
        };
        let ctx = self.origin.moved_to(&folder)?;
        // What lies above the folder that was named may not be served.
        self.require_served(&ctx.root)?;
        if ctx.config.has_errors() {
            return Err(Error::Settings(ctx.config.findings().to_vec()).into());
        }
        let mut projects = lock(&self.projects);
        let project = projects.entry(ctx.root.clone()).or_insert_with(|| Project::seen_first(&ctx));
        Ok((Arc::clone(project), ctx))
    }

    /// Looks at the project that the server was started in, so that its baseline is as old as the server.
    pub(crate) fn look_around(self: &Arc<Self>) {
        let desk = Arc::clone(self);
        // What is wrong with it is told by the first call.
        thread::spawn(move || desk.project(None).is_ok());
    }

    /// Whether there is a project that is meant when none is named.
    pub(crate) fn has_home(&self) -> bool {
        self.home.is_some()
    }

    /// Whether more than one project may be meant.
    pub(crate) fn has_choice(&self) -> bool {
        self.roots.len() > usize::from(self.home.is_some())
    }

    /// A folder that was named, if it is served.
    pub(crate) fn confine(&self, named: &Path) -> Result<PathBuf, Failure> {
        if named.is_relative() {
            return Err(Failure::argument(format!("`{}` is not an absolute path", shown(&named.to_string_lossy())))
                .with_suggestion("`project_path` is the absolute path of a project"));
        }
        let folder = self.origin.environment.enter(Some(named)).map_err(|err| {
            let failure = Failure::from(err);
            failure.with_suggestion("`project_path` is the absolute path of a project that is there")
        })?;
        self.require_served(&folder)?;
        Ok(folder)
    }

    pub(crate) fn require_served(&self, folder: &Path) -> Result<(), Failure> {
        if self.roots.iter().any(|root| folder.starts_with(root)) {
            return Ok(());
        }
        let message = format!("`{}` is not a project that this server serves", shown(&folder.to_string_lossy()));
        Err(Failure::new("Project not served", Code::ProjectNotServed, message)
            .with_suggestion("start the server in that project, or with `piton mcp --root DIR`"))
    }
}

impl Project {
    /// Remembers the files as they are, on a thread of its own: nobody waits for it who changes nothing.
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

    /// Waits until the files are remembered. Why they cannot be is told by what needs them.
    pub(crate) fn remember(&self) {
        let _ = self.with_baseline(|_| ());
    }

    /// Does something with the baseline, which is taken first where there is none yet; none without a repository.
    pub(crate) fn with_baseline<T>(&self, then: impl FnOnce(Option<&mut Baseline>) -> T) -> Result<T, RunError> {
        let mut kept = lock(&self.baseline);
        if kept.is_none() && !self.is_closed.load(Ordering::SeqCst) {
            *kept = Baseline::take(&self.seen)?;
        }
        Ok(then(kept.as_mut()))
    }

    /// Lets the baseline go.
    fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        if let Some(baseline) = lock(&self.baseline).take() {
            // A ref that stays behind is removed by `piton gc`.
            let _ = baseline.release(&self.seen);
        }
    }

    /// Does something with the index of its items, which is made right first.
    pub(crate) fn with_index<T>(&self, ctx: &Context, then: impl FnOnce(&Index) -> T) -> T {
        let mut kept = lock(&self.index);
        let index = match kept.take() {
            Some(mut index) => {
                index.refresh();
                index
            }
            None => Index::open(ctx.roots(), Some(Cache { folder: &ctx.cache_folder(), program: &ctx.program })),
        };
        then(kept.insert(index))
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        lock(&self.projects).values().for_each(|project| project.close());
    }
}

/// A lock whose holder may have panicked: what it guards is made right by its next user.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
