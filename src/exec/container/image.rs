//! Provides an image: found, pulled, or built.

use std::collections::VecDeque;

use bollard::errors::Error;
use bollard::query_parameters::{BuildImageOptions, CreateImageOptions};
use futures_util::StreamExt;

use super::engine::ContainerEngine;
use super::{context, is_missing, report_progress, with_sources};
use crate::exec::invocation::{Built, ContainerImage};
use crate::exec::worker::{FailureKind, WorkFailure};

/// How many of the last lines of a build are shown.
const LAST_LINES: usize = 15;

impl ContainerEngine {
    /// The id of an image, which is pulled or built if missing.
    pub(super) async fn ensure(&self, image: &ContainerImage) -> Result<String, WorkFailure> {
        match image {
            ContainerImage::Named(name) => {
                if let Some(id) = self.find_image(name).await? {
                    return Ok(id);
                }
                self.pull(name).await?;
                self.made(name).await
            }
            ContainerImage::Built(built) => {
                // With a host name, no engine searches a registry for it.
                let name = format!("localhost/piton-build:{}", built.sha256);
                if let Some(id) = self.find_image(&name).await? {
                    return Ok(id);
                }
                self.build(built, &name).await?;
                self.made(&name).await
            }
        }
    }

    async fn find_image(&self, name: &str) -> Result<Option<String>, WorkFailure> {
        match self.docker.inspect_image(name).await {
            Ok(found) => Ok(Some(found.id.unwrap_or_else(|| name.to_owned()))),
            Err(err) if is_missing(&err) => Ok(None),
            Err(err) => Err(self.failed(
                FailureKind::ContainerImage,
                &format!("cannot look for `{name}`"),
                &err,
            )),
        }
    }

    async fn made(&self, name: &str) -> Result<String, WorkFailure> {
        self.find_image(name).await?.ok_or_else(|| {
            let message = format!(
                "{} says that it has `{name}` now, and does not",
                self.about.brand.name()
            );
            WorkFailure::new(FailureKind::ContainerImage, message)
        })
    }

    async fn pull(&self, name: &str) -> Result<(), WorkFailure> {
        report_progress(&format!("pulling the image {name}"));
        let (from_image, tag) = apart(name);
        let options = CreateImageOptions {
            from_image: Some(from_image.to_owned()),
            tag: Some(tag.to_owned()),
            ..CreateImageOptions::default()
        };
        let mut progress = self.docker.create_image(Some(options), None, None);
        while let Some(step) = progress.next().await {
            let reason = match step {
                Ok(step) => step
                    .error_detail
                    .map(|detail| detail.message.unwrap_or_default()),
                Err(err) => Some(engine_message(&err)),
            };
            if let Some(reason) = reason {
                let message = format!(
                    "the image `{name}` does not exist here, and {} cannot pull it: {}",
                    self.about.brand.name(),
                    reason.trim()
                );
                return Err(WorkFailure::new(FailureKind::ContainerImage, message)
                    .suggest("check the name and that the registry is reachable, or pull the image yourself"));
            }
        }
        Ok(())
    }

    async fn build(&self, built: &Built, name: &str) -> Result<(), WorkFailure> {
        let kind = FailureKind::ContainerBuild;
        let folder = built.context.display();
        let files = context::read(&built.context).map_err(|err| {
            WorkFailure::new(kind, format!("`{folder}` {err}")).suggest(err.hint())
        })?;
        if files.hash(&built.dockerfile, &built.args) != built.sha256 {
            return Err(
                WorkFailure::new(kind, format!("`{folder}` changed after it was checked"))
                    .suggest("run it again, to have it checked as it is now"),
            );
        }
        let archive = files
            .archive()
            .map_err(|err| WorkFailure::new(kind, format!("`{folder}` cannot be packed: {err}")))?;
        report_progress(&format!("building an image from {folder}"));
        let options = BuildImageOptions {
            dockerfile: built.dockerfile.clone(),
            t: Some(name.to_owned()),
            rm: true,
            forcerm: true,
            buildargs: Some(built.args.clone().into_iter().collect()),
            labels: Some([("piton.build".to_owned(), built.sha256.clone())].into()),
            ..BuildImageOptions::default()
        };
        let mut progress =
            self.docker
                .build_image(options, None, Some(bollard::body_full(archive.into())));
        let mut lines: VecDeque<String> = VecDeque::new();
        while let Some(step) = progress.next().await {
            let (line, reason) = match step {
                Ok(step) => (
                    step.stream,
                    step.error_detail
                        .map(|detail| detail.message.unwrap_or_default()),
                ),
                Err(err) => (None, Some(engine_message(&err))),
            };
            for line in line
                .iter()
                .flat_map(|text| text.lines())
                .filter(|line| !line.trim().is_empty())
            {
                report_progress(line);
                lines.push_back(line.to_owned());
                if lines.len() > LAST_LINES {
                    lines.pop_front();
                }
            }
            if let Some(reason) = reason {
                let brand = self.about.brand.name();
                let mut message = format!(
                    "{brand} cannot build the image from `{folder}`: {}",
                    reason.trim()
                );
                for line in lines {
                    message.push_str("\n  ");
                    message.push_str(&line);
                }
                return Err(WorkFailure::new(kind, message)
                    .suggest("correct the Dockerfile, or what it copies"));
            }
        }
        Ok(())
    }

    /// A failure with the engine's own message.
    pub(super) fn failed(&self, kind: FailureKind, what: &str, err: &Error) -> WorkFailure {
        WorkFailure::new(
            kind,
            format!(
                "{what}: {} says: {}",
                self.about.brand.name(),
                engine_message(err)
            ),
        )
    }
}

/// The engine's message, without the client library's text around it.
pub(super) fn engine_message(err: &Error) -> String {
    match err {
        Error::DockerResponseServerError { message, .. } => message.trim().to_owned(),
        Error::DockerStreamError { error } => error.trim().to_owned(),
        other => with_sources(other),
    }
}

/// Splits a name into repository and tag or digest.
fn apart(name: &str) -> (&str, &str) {
    if let Some((name, digest)) = name.split_once('@') {
        return (name, digest);
    }
    match name.rsplit_once(':') {
        // A colon before a slash belongs to a port.
        Some((before, tag)) if !tag.contains('/') => (before, tag),
        _ => (name, "latest"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_apart_as_engines_do() {
        assert_eq!(apart("alpine"), ("alpine", "latest"));
        assert_eq!(apart("alpine:3"), ("alpine", "3"));
        assert_eq!(apart("host:5000/a/b"), ("host:5000/a/b", "latest"));
        assert_eq!(apart("host:5000/a/b:1"), ("host:5000/a/b", "1"));
        assert_eq!(apart("a@sha256:00"), ("a", "sha256:00"));
    }
}
