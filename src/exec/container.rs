//! Runs a container through the API of Docker or Podman, in worker processes.
//!
//! The first worker finds the engine and provides the image, which can be slow and happens before
//! any snapshot. The second creates the container, forwards its standard streams, and exits with
//! its status. A container is not a child process of piton: [`note`] makes sure that none is
//! forgotten.

pub(super) mod context;
mod engine;
mod image;
mod note;
mod run;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::errors::Error;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::call::{CallError, CallProgress, Machine, PreparedCall, Starter};
use super::interrupt::Interrupts;
use super::invocation::{Action, Built, Container, ContainerImage, Invocation};
use super::supervisor::{Farewell, MARK, Supervisor, Work};
use super::web::with_sources;
use super::worker::{self, FailureKind, WorkFailure, WorkerAnswer, WorkerEnd};
use crate::item::source::files_below;
use engine::{About, ContainerEngine};
use run::ContainerRun;

/// The time limit for ending abandoned containers.
const SWEEPING_TIME: Duration = Duration::from_secs(30);

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "snake_case")]
pub(super) enum ContainerJob {
    /// Find the engine and provide the image.
    Prepare {
        /// Sockets to try.
        engines: Vec<String>,
        image: ContainerImage,
        notes: PathBuf,
    },
    Run(Box<ContainerRun>),
    /// End containers whose worker is gone.
    Sweep {
        notes: PathBuf,
        /// The run that has ended.
        over: String,
    },
}

/// The result of the first worker.
#[derive(Debug, Serialize, Deserialize)]
struct PreparedImage {
    engine: About,
    image: String,
}

/// Finds the engine and provides the image of a container.
pub(super) fn prepare(
    container: &Container,
    invocation: &Invocation,
    machine: &Machine,
    starter: &mut Starter<'_>,
    tell: &mut dyn FnMut(CallProgress<'_>),
) -> Result<PreparedCall, CallError> {
    let notes = notes_of(&machine.cache);
    let job = worker::WorkerJob::Container(ContainerJob::Prepare {
        engines: container.engines.clone(),
        image: container.image.clone(),
        notes: notes.clone(),
    });
    let mut work = Work {
        timeout: Some(machine.patience.installer),
        ..job.work(&machine.program)
    };
    work.environment
        .insert(MARK.into(), machine.run.clone().into());
    let ended = starter.run_aloud(&work, &mut |_, bytes| {
        for line in String::from_utf8_lossy(bytes)
            .lines()
            .filter(|line| !line.trim().is_empty())
        {
            tell(CallProgress::Preparing(line));
        }
    })?;
    if ended.interrupted {
        return Err(CallError::Interrupted);
    }
    let failed =
        |message: String| CallError::Failed(WorkFailure::new(FailureKind::ContainerImage, message));
    if ended.timed_out {
        let limit = machine.patience.installer.as_secs();
        return Err(failed(format!(
            "{} was not there after {limit} s",
            container.image.shown()
        )));
    }
    let found: PreparedImage =
        match worker::answer(&ended).map_err(|bytes| CallError::TooLarge { bytes })? {
            Some(WorkerAnswer::Ok(value)) => {
                serde_json::from_value(value).map_err(|err| failed(err.to_string()))?
            }
            Some(WorkerAnswer::Failed(failure)) => return Err(CallError::Failed(failure)),
            None => return Err(CallError::NoResult { function: "work" }),
        };
    let run = ContainerRun::new(container, invocation, machine, found, notes);
    let job = worker::WorkerJob::Container(ContainerJob::Run(Box::new(run)));
    let mut work = Work {
        timeout: Some(invocation.timeout),
        farewell: Farewell::Ask,
        ..job.work(&machine.program)
    };
    work.environment
        .insert(MARK.into(), machine.run.clone().into());
    Ok(PreparedCall::plain(work))
}

/// Ends the containers of a run whose workers were killed, and other abandoned ones, as far as
/// their engines answer.
pub fn end_abandoned(cache: &Path, program: &Path, run: &str) {
    let notes = notes_of(cache);
    if !note::any(&notes) {
        return;
    }
    let job = worker::WorkerJob::Container(ContainerJob::Sweep {
        notes,
        over: run.to_owned(),
    });
    let work = Work {
        timeout: Some(SWEEPING_TIME),
        ..job.work(program)
    };
    // A container that cannot be ended now keeps its note for the next attempt.
    if let (Ok(supervisor), Ok(mut interrupts)) = (Supervisor::start(program), Interrupts::listen())
    {
        let _ = supervisor.run(&work, &mut interrupts, &mut |_, _| {});
    }
}

/// The files of a build context that are not part of the tool.
pub(super) fn borrowed_files(invocation: &Invocation) -> Vec<PathBuf> {
    match &invocation.action {
        Action::Container(container) => match &container.image {
            ContainerImage::Built(Built {
                context,
                is_of_tool: false,
                ..
            }) => files_below(context)
                .into_iter()
                .map(|(path, _)| path)
                .collect(),
            ContainerImage::Built(_) | ContainerImage::Named(_) => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn notes_of(cache: &Path) -> PathBuf {
    cache.join("containers")
}

impl ContainerJob {
    pub(super) fn carry_out(self) -> WorkerEnd {
        let runtime = match tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
        {
            Ok(runtime) => runtime,
            Err(err) => {
                return WorkFailure::new(FailureKind::Job, format!("cannot begin: {err}")).into();
            }
        };
        let end = runtime.block_on(async {
            match self {
                Self::Prepare {
                    engines,
                    image,
                    notes,
                } => {
                    note::sweep(&notes, None).await;
                    WorkerEnd::from(find(&engines, &image).await.map(|found| json!(found)))
                }
                Self::Run(run) => run.carry_out().await,
                Self::Sweep { notes, over } => {
                    note::sweep(&notes, Some(&over)).await;
                    WorkerEnd::from(Ok(json!(null)))
                }
            }
        });
        // Do not wait for a request that still hangs.
        runtime.shutdown_background();
        end
    }
}

async fn find(engines: &[String], image: &ContainerImage) -> Result<PreparedImage, WorkFailure> {
    let engine = ContainerEngine::find(engines).await?;
    let image = engine.ensure(image).await?;
    Ok(PreparedImage {
        engine: engine.about,
        image,
    })
}

/// Reports progress to the parent process through stderr.
fn report_progress(line: &str) {
    // The parent may not be reading.
    let _ = write_all(rustix::stdio::stderr(), format!("{line}\n").as_bytes());
}

fn write_all(to: std::os::fd::BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::io::write(to, rest) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(err) => return Err(err.into()),
        }
    }
    Ok(())
}

/// Whether the engine answered "not found".
fn is_missing(err: &Error) -> bool {
    matches!(
        err,
        Error::DockerResponseServerError {
            status_code: 404,
            ..
        }
    )
}
