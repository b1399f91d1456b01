//! The container engine: Docker, or Podman's Docker-compatible API.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, Docker};
use serde::{Deserialize, Serialize};

use super::with_sources;
use crate::exec::worker::{FailureKind, WorkFailure};

/// How long an engine may take to identify itself.
const ANSWERING_TIME: Duration = Duration::from_secs(10);

/// Longer than any call: the supervisor enforces the timeout, not this client.
const ANY_TIME: u64 = 30 * 24 * 60 * 60;

#[derive(Debug)]
pub(super) struct ContainerEngine {
    pub(super) docker: Docker,
    pub(super) about: About,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct About {
    pub(super) url: String,
    pub(super) brand: Brand,
    /// Whether root in its containers is an ordinary user outside.
    pub(super) is_rootless: bool,
    pub(super) limits_memory: bool,
    pub(super) limits_processes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Brand {
    Docker,
    Podman,
}

impl Brand {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Docker => "Docker",
            Self::Podman => "Podman",
        }
    }
}

impl ContainerEngine {
    /// The first engine that answers.
    pub(super) async fn find(urls: &[String]) -> Result<Self, WorkFailure> {
        let mut tried = Vec::new();
        for url in urls {
            match Self::connect(url).await {
                Ok(engine) => return Ok(engine),
                Err(reason) => tried.push((url, reason)),
            }
        }
        let told: Vec<String> = tried
            .iter()
            .map(|(url, reason)| format!("`{url}`: {reason}"))
            .collect();
        let message = format!("no container engine responds ({})", told.join("; "));
        let is_forbidden = tried.iter().any(|(_, reason)| *reason == FORBIDDEN);
        Err(WorkFailure::new(FailureKind::ContainerEngine, message).suggest(if is_forbidden {
            "you may not use that socket: join the group that owns it, or run a rootless engine"
        } else {
            "start Docker, or Podman with `systemctl --user start podman.socket`; set `DOCKER_HOST` to use another socket"
        }))
    }

    /// Reconnects without asking the engine for its properties again, which is slow.
    pub(super) fn again(about: About) -> Result<Self, String> {
        let path = about.url.strip_prefix("unix://").unwrap_or(&about.url);
        let docker = Docker::connect_with_unix(path, ANY_TIME, API_DEFAULT_VERSION);
        Ok(Self {
            docker: docker.map_err(|err| with_sources(&err))?,
            about,
        })
    }

    async fn connect(url: &str) -> Result<Self, String> {
        let path = url.strip_prefix("unix://").unwrap_or(url);
        // The operating system's error for a socket is clearer than the client library's.
        UnixStream::connect(path).map_err(|err| match err.kind() {
            io::ErrorKind::NotFound => "there is no such socket".to_owned(),
            io::ErrorKind::PermissionDenied => FORBIDDEN.to_owned(),
            io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
            _ => err.to_string(),
        })?;
        let ask = async {
            let docker = Docker::connect_with_unix(path, ANY_TIME, API_DEFAULT_VERSION)?;
            Ok::<_, bollard::errors::Error>((docker.version().await?, docker.info().await?))
        };
        let answer = tokio::time::timeout(ANSWERING_TIME, ask)
            .await
            .map_err(|_| "it does not answer".to_owned())?;
        let (version, info) = answer.map_err(|err| with_sources(&err))?;
        let names = version
            .components
            .iter()
            .flatten()
            .map(|component| component.name.as_str());
        let is_podman = names.chain(
            version
                .platform
                .as_ref()
                .map(|platform| platform.name.as_str()),
        );
        let is_podman = is_podman.into_iter().any(|name| name.contains("Podman"));
        let about = About {
            url: url.to_owned(),
            brand: if is_podman {
                Brand::Podman
            } else {
                Brand::Docker
            },
            is_rootless: info
                .security_options
                .iter()
                .flatten()
                .any(|option| option.contains("rootless")),
            limits_memory: info.memory_limit.unwrap_or_default(),
            limits_processes: info.pids_limit.unwrap_or_default(),
        };
        Self::again(about)
    }
}

const FORBIDDEN: &str = "permission denied";
