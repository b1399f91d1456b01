//! Provides an image: found, pulled, or built.

use std::collections::VecDeque;

use bollard::errors::Error;
use bollard::query_parameters::{BuildImageOptions, CreateImageOptions};
use futures_util::StreamExt;

use super::engine::Engine;
use super::{context, is_missing, tell, with_sources};
use crate::exec::invocation::{Built, Image};
use crate::exec::worker::{Failure, FailureKind};

/// How many of the last lines of a build are shown.
const LAST_LINES: usize = 15;

impl Engine {
    /// The id of an image, which is pulled or built if missing.
    pub(super) async fn ensure(&self, image: &Image) -> Result<String, Failure> {
        match image {
            Image::Named(name) => {
                if let Some(id) = self.find_image(name).await? {
                    return Ok(id);
                }
                self.pull(name).await?;
                self.made(name).await
            }
            Image::Built(built) => {
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

    async fn find_image(&self, name: &str) -> Result<Option<String>, Failure> {
        match self.docker.inspect_image(name).await {
            Ok(found) => Ok(Some(found.id.unwrap_or_else(|| name.to_owned()))),
            Err(err) if is_missing(&err) => Ok(None),
            Err(err) => Err(self.failed(FailureKind::ContainerImage, &format!("cannot look for `{name}`"), &err)),
        }
    }

    async fn made(&self, name: &str) -> Result<String, Failure> {
        self.find_image(name).await?.ok_or_else(|| {
            let message = format!("{} says that it has `{name}` now, and does not", self.about.brand.name());
            Failure::new(FailureKind::ContainerImage, message)
        })
    }

    async fn pull(&self, name: &str) -> Result<(), Failure> {
        tell(&format!("pulling the image {name}"));
        let (from_image, tag) = apart(name);
        let options = CreateImageOptions {
            from_image: Some(from_image.to_owned()),
            tag: Some(tag.to_owned()),
            ..CreateImageOptions::default()
        };
        let mut progress = self.docker.create_image(Some(options), None, None);
        while let Some(step) = progress.next().await {
            let reason = match step {
                Ok(step) => step.error_detail.map(|detail| detail.message.unwrap_or_default()),
                Err(err) => Some(said(&err)),
            };
            if let Some(reason) = reason {
                let message = format!(
                    "the image `{name}` does not exist here, and {} cannot pull it: {}",
                    self.about.brand.name(),
                    reason.trim()
                );
                return Err(Failure::new(FailureKind::ContainerImage, message)
                    .suggest("see that the name is right and the registry can be reached, or pull it yourself first"));
            }
        }
        Ok(())
    }

    async fn build(&self, built: &Built, name: &str) -> Result<(), Failure> {
        let kind = FailureKind::ContainerBuild;
        let folder = built.context.display();
        let files = context::read(&built.context)
            .map_err(|err| Failure::new(kind, format!("`{folder}` {err}")).suggest(err.hint()))?;
        if files.hash(&built.dockerfile, &built.args) != built.sha256 {
            return Err(Failure::new(kind, format!("`{folder}` changed after it was checked"))
                .suggest("run it again, to have it checked as it is now"));
        }
        let archive =
            files.archive().map_err(|err| Failure::new(kind, format!("`{folder}` cannot be packed: {err}")))?;
        tell(&format!("building an image from {folder}"));
        let options = BuildImageOptions {
            dockerfile: built.dockerfile.clone(),
            t: Some(name.to_owned()),
            rm: true,
            forcerm: true,
            buildargs: Some(built.args.clone().into_iter().collect()),
            labels: Some([("piton.build".to_owned(), built.sha256.clone())].into()),
            ..BuildImageOptions::default()
        };
        let mut progress = self.docker.build_image(options, None, Some(bollard::body_full(archive.into())));
        let mut lines: VecDeque<String> = VecDeque::new();
        while let Some(step) = progress.next().await {
            let (line, reason) = match step {
                Ok(step) => (step.stream, step.error_detail.map(|detail| detail.message.unwrap_or_default())),
                Err(err) => (None, Some(said(&err))),
            };
            for line in line.iter().flat_map(|text| text.lines()).filter(|line| !line.trim().is_empty()) {
                tell(line);
                lines.push_back(line.to_owned());
                if lines.len() > LAST_LINES {
                    lines.pop_front();
                }
            }
            if let Some(reason) = reason {
                let brand = self.about.brand.name();
                let mut message = format!("{brand} cannot build the image from `{folder}`: {}", reason.trim());
                for line in lines {
                    message.push_str("\n  ");
                    message.push_str(&line);
                }
                return Err(Failure::new(kind, message).suggest("correct the Dockerfile, or what it copies"));
            }
        }
        Ok(())
    }

    /// A failure with the engine's own message.
    pub(super) fn failed(&self, kind: FailureKind, what: &str, err: &Error) -> Failure {
        Failure::new(kind, format!("{what}: {} says: {}", self.about.brand.name(), said(err)))
    }
}

/// The engine's message, without the client library's text around it.
pub(super) fn said(err: &Error) -> String {
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
