//! One container, from creation to removal.

use std::collections::HashMap;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use bollard::container::{AttachContainerResults, LogOutput};
use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigLogConfig, Mount, MountType, ResourcesUlimits,
};
use bollard::query_parameters::{
    AttachContainerOptions, CreateContainerOptions, KillContainerOptions, WaitContainerOptions,
};
use futures_util::StreamExt;
use rustix::process::{getegid, geteuid};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::signal::unix::{SignalKind, signal};

use super::PreparedImage;
use super::engine::{About, ContainerEngine};
use super::note::{ContainerNote, RUN, TOOL, prefix_of};
use super::write_all;
use crate::exec::call::Machine;
use crate::exec::invocation::{
    Container, ContainerNetwork, Invocation, ResourceLimits, User, Volume,
};
use crate::exec::supervisor::MARK;
use crate::exec::worker::{FailureKind, WorkFailure, WorkerEnd};

/// How long a container gets to end before it is killed. It is less than its worker gets.
const ENDING_TIME: Duration = Duration::from_millis(500);

/// How long to wait for remaining output after its end.
const DRAINING_TIME: Duration = Duration::from_secs(2);

/// The exit status after `SIGKILL`.
const KILLED: u8 = 128 + 9;

/// The default process limit: enough for a build, too few to harm the machine.
const PROCESSES: u64 = 4096;

#[derive(Debug, Serialize, Deserialize)]
#[expect(
    clippy::unsafe_derive_deserialize,
    reason = "the unsafe code is within `pin!` and `select!`, and about futures"
)]
pub(in crate::exec) struct ContainerRun {
    engine: About,
    image: String,
    name: String,
    /// The run and the tool.
    labels: HashMap<String, String>,
    command: Vec<String>,
    entrypoint: Option<Vec<String>>,
    folder: Option<String>,
    volumes: Vec<Volume>,
    network: ContainerNetwork,
    user: User,
    environment: Vec<String>,
    input: String,
    limits: ResourceLimits,
    notes: PathBuf,
}

impl ContainerRun {
    pub(super) fn new(
        container: &Container,
        invocation: &Invocation,
        machine: &Machine,
        found: PreparedImage,
        notes: PathBuf,
    ) -> Self {
        let values = |texts: &[crate::exec::invocation::MaskedText]| {
            texts.iter().map(|text| text.value.clone()).collect()
        };
        let mut environment: Vec<String> = container
            .environment
            .iter()
            .map(|(name, text)| format!("{name}={}", text.value))
            .collect();
        environment.push(format!("{MARK}={}", machine.run));
        let name = format!("{}{}", prefix_of(&machine.run), distinct(&found, container));
        Self {
            engine: found.engine,
            image: found.image,
            name,
            labels: HashMap::from([
                (RUN.to_owned(), machine.run.clone()),
                (TOOL.to_owned(), invocation.tool()),
            ]),
            command: values(&container.command),
            entrypoint: container.entrypoint.as_deref().map(values),
            folder: container.folder.clone(),
            volumes: container.volumes.clone(),
            network: container.network,
            user: container.user.clone(),
            environment,
            // The input was serialized as JSON, so it is UTF-8.
            input: String::from_utf8_lossy(&container.input).into_owned(),
            limits: container.limits,
            notes,
        }
    }

    /// Runs the container and removes it.
    pub(super) async fn carry_out(self) -> WorkerEnd {
        match self.run().await {
            Ok(status) => WorkerEnd::Exit(status),
            Err(failure) => failure.into(),
        }
    }

    async fn run(&self) -> Result<u8, WorkFailure> {
        let failed = |message: String| WorkFailure::new(FailureKind::Container, message);
        let mut ended = signal(SignalKind::terminate())
            .map_err(|err| failed(format!("cannot listen: {err}")))?;
        let body = self.body()?;
        let engine = ContainerEngine::again(self.engine.clone()).map_err(|reason| {
            let message = format!(
                "{} at `{}` no longer answers: {reason}",
                self.engine.brand.name(),
                self.engine.url
            );
            WorkFailure::new(FailureKind::ContainerEngine, message)
        })?;
        let note = ContainerNote::leave(&self.notes, &self.engine, &self.name).map_err(|err| {
            failed(format!(
                "cannot leave a note in `{}`: {err}",
                self.notes.display()
            ))
            .suggest("check that the folder is writable")
        })?;
        let options = CreateContainerOptions {
            name: Some(self.name.clone()),
            ..Default::default()
        };
        // Do not cancel this request: a half-made request could leave a container that no note
        // names.
        let made = engine.docker.create_container(Some(options), body).await;
        let outcome = if let Err(err) = made {
            Err(engine.failed(FailureKind::Container, "the container cannot be made", &err))
        } else {
            tokio::select! {
                outcome = self.accompany(&engine) => outcome,
                _ = ended.recv() => {
                    self.ask_to_end(&engine).await;
                    Err(failed("the container was ended".to_owned()))
                }
            }
        };
        if engine.remove(&self.name).await {
            note.take_back();
        }
        outcome
    }

    /// Starts the container, forwards its streams, and waits for its end.
    async fn accompany(&self, engine: &ContainerEngine) -> Result<u8, WorkFailure> {
        let not_started = |err: bollard::errors::Error| {
            engine
                .failed(
                    FailureKind::Container,
                    "the container cannot be started",
                    &err,
                )
                .suggest(hint_for(&err))
        };
        // Attach before the start, so that no output is lost. Podman already reports here what
        // cannot run. Use one connection per direction: if a container does not read stdin, Podman
        // closes the whole connection.
        let attach = |options| engine.docker.attach_container(&self.name, Some(options));
        let AttachContainerResults {
            mut output,
            input: _unused,
        } = attach(AttachContainerOptions {
            stdout: true,
            stderr: true,
            stream: true,
            ..Default::default()
        })
        .await
        .map_err(not_started)?;
        let AttachContainerResults {
            mut input,
            output: _silent,
        } = attach(AttachContainerOptions {
            stdin: true,
            stream: true,
            ..Default::default()
        })
        .await
        .map_err(not_started)?;
        engine
            .docker
            .start_container(&self.name, None)
            .await
            .map_err(not_started)?;
        let feed = async {
            // The container may not read its input.
            let _ = input.write_all(self.input.as_bytes()).await;
            let _ = input.shutdown().await;
        };
        let relay = async {
            while let Some(Ok(piece)) = output.next().await {
                let (to, bytes) = match &piece {
                    LogOutput::StdErr { message } => (rustix::stdio::stderr(), message),
                    LogOutput::StdOut { message } | LogOutput::Console { message } => {
                        (rustix::stdio::stdout(), message)
                    }
                    LogOutput::StdIn { .. } => continue,
                };
                if write_all(to, bytes).is_err() {
                    break;
                }
            }
        };
        let mut streams = pin!(async { tokio::join!(feed, relay) });
        let mut waiting = pin!(self.wait(engine));
        let mut are_open = true;
        let status = loop {
            tokio::select! {
                status = &mut waiting => break status?,
                _ = &mut streams, if are_open => are_open = false,
            }
        };
        if are_open {
            let _ = tokio::time::timeout(DRAINING_TIME, streams).await;
        }
        self.judge_status(engine, status).await
    }

    /// The exit status, unless the container ended because it had too little memory.
    async fn judge_status(&self, engine: &ContainerEngine, status: u8) -> Result<u8, WorkFailure> {
        let state = engine
            .docker
            .inspect_container(&self.name, None)
            .await
            .ok()
            .and_then(|found| found.state);
        let is_certain = state.is_some_and(|state| state.oom_killed == Some(true));
        match self.limits.memory {
            _ if is_certain => Err(self.too_hungry("it was killed because")),
            // Not every engine reports an out-of-memory kill.
            Some(_) if status == KILLED => {
                Err(self.too_hungry("it was killed, most likely because"))
            }
            _ => Ok(status),
        }
    }

    fn too_hungry(&self, what: &str) -> WorkFailure {
        let limit = self
            .limits
            .memory
            .map_or_else(|| "there was".to_owned(), |bytes| format!("{bytes} bytes"));
        let message = format!("{what} the container needed more memory than {limit}");
        WorkFailure::new(FailureKind::ContainerMemory, message)
            .suggest("give it more with `memory:` in the tool")
    }

    /// The exit status.
    async fn wait(&self, engine: &ContainerEngine) -> Result<u8, WorkFailure> {
        let options = WaitContainerOptions {
            condition: "not-running".to_owned(),
        };
        let mut waiting = pin!(engine.docker.wait_container(&self.name, Some(options)));
        let code = match waiting.next().await {
            Some(Ok(ended)) => ended.status_code,
            Some(Err(bollard::errors::Error::DockerContainerWaitError { code, .. })) => code,
            Some(Err(err)) => {
                return Err(engine.failed(
                    FailureKind::Container,
                    "it is unknown how the container ended",
                    &err,
                ));
            }
            None => {
                let message =
                    "it is unknown how the container ended: the engine closed the connection";
                return Err(WorkFailure::new(FailureKind::Container, message));
            }
        };
        Ok(u8::try_from(code).unwrap_or(u8::MAX))
    }

    async fn ask_to_end(&self, engine: &ContainerEngine) {
        let options = KillContainerOptions {
            signal: "SIGTERM".to_owned(),
        };
        let ending = async {
            if engine
                .docker
                .kill_container(&self.name, Some(options))
                .await
                .is_ok()
            {
                let _ = self.wait(engine).await;
            }
        };
        // The container is killed and removed in any case.
        let _ = tokio::time::timeout(ENDING_TIME, ending).await;
    }

    fn body(&self) -> Result<ContainerCreateBody, WorkFailure> {
        let engine = &self.engine;
        let refuse = |what: &str| {
            let message = format!(
                "{} cannot limit {what} on this machine",
                engine.brand.name()
            );
            Err(WorkFailure::new(FailureKind::Container, message)
                .suggest("take the limit out of the tool"))
        };
        if self.limits.memory.is_some() && !engine.limits_memory {
            return refuse("memory");
        }
        if self.limits.processes.is_some() && !engine.limits_processes {
            return refuse("the number of processes");
        }
        let processes = self
            .limits
            .processes
            .or(engine.limits_processes.then_some(PROCESSES));
        let ulimits = [
            ("nofile", self.limits.open_files),
            ("fsize", self.limits.file_size),
            ("cpu", self.limits.cpu_seconds),
        ];
        let ulimits = ulimits.into_iter().filter_map(|(name, limit)| {
            let limit = Some(number(limit?));
            Some(ResourcesUlimits {
                name: Some(name.to_owned()),
                soft: limit,
                hard: limit,
            })
        });
        let mounts = self.volumes.iter().map(|volume| Mount {
            target: Some(volume.target.clone()),
            source: Some(volume.source.to_string_lossy().into_owned()),
            typ: Some(MountType::BIND),
            read_only: Some(volume.read_only),
            ..Mount::default()
        });
        let host_config = HostConfig {
            mounts: Some(mounts.collect()),
            network_mode: Some(self.network.as_str().to_owned()),
            cap_drop: Some(vec!["ALL".to_owned()]),
            security_opt: Some(vec!["no-new-privileges".to_owned()]),
            memory: self.limits.memory.map(number),
            // The same value means no swap; otherwise the limit would be doubled.
            memory_swap: self.limits.memory.map(number),
            pids_limit: processes.map(number),
            ulimits: Some(ulimits.collect::<Vec<_>>()).filter(|limits| !limits.is_empty()),
            // The output goes to the caller. A log kept by the engine could contain secrets.
            log_config: Some(HostConfigLogConfig {
                typ: Some("none".to_owned()),
                config: None,
            }),
            auto_remove: Some(false),
            ..HostConfig::default()
        };
        Ok(ContainerCreateBody {
            image: Some(self.image.clone()),
            cmd: Some(self.command.clone()).filter(|command| !command.is_empty()),
            entrypoint: self.entrypoint.clone(),
            env: Some(self.environment.clone()),
            working_dir: self.folder.clone(),
            user: self.user()?,
            labels: Some(self.labels.clone()),
            open_stdin: Some(true),
            stdin_once: Some(true),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            tty: Some(false),
            host_config: Some(host_config),
            ..ContainerCreateBody::default()
        })
    }

    /// The user inside the container, in the engine's syntax; `None` leaves it to the image.
    fn user(&self) -> Result<Option<String>, WorkFailure> {
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        let named = match &self.user {
            // In a rootless engine, root inside is the user who started it, and every other id is
            // foreign to the user's files.
            User::Caller if self.engine.is_rootless => return Ok(Some("0:0".to_owned())),
            User::Caller => return Ok(Some(format!("{uid}:{gid}"))),
            User::Named(name) => Some(name.clone()),
            User::OfImage => None,
        };
        let is_caller = named.as_ref().is_some_and(|name| {
            name.split(':').next() == Some(&uid.to_string())
                && name
                    .split(':')
                    .nth(1)
                    .is_none_or(|it| it == gid.to_string())
        });
        let writes = self.volumes.iter().any(|volume| !volume.read_only);
        if writes && !is_caller && !self.engine.is_rootless && uid != 0 {
            let message = "the container would write files of the project as another user";
            return Err(WorkFailure::new(FailureKind::Container, message)
                .suggest("take `user` out of the tool, or mount its volumes with `:ro`"));
        }
        Ok(named)
    }
}

/// A suffix that distinguishes containers of one run, even for identical calls.
fn distinct(found: &PreparedImage, container: &Container) -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let mut hasher = RandomState::new().build_hasher();
    hasher.write(found.image.as_bytes());
    hasher.write(&container.input);
    format!("{:016x}", hasher.finish())
}

fn number(limit: u64) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn hint_for(err: &bollard::errors::Error) -> &'static str {
    let said = super::image::engine_message(err);
    if said.contains("not found") || said.contains("no such file") {
        "check that the image has that program, and that `command` is right"
    } else if said.contains("permission denied") {
        "check that every user may run the program in the image"
    } else {
        "see what the engine says, and correct the tool"
    }
}
