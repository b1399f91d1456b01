//! Which engine runs a container.
//!
//! The user decides, by `DOCKER_HOST` or by the `url` of their own runtime. A project may only name
//! one of the default sockets, because piton would talk to any other socket with the user's rights.

use std::ffi::OsStr;
use std::path::Path;

use super::ContainerResolver;
use crate::exec::resolve::error::ResolveError;
use crate::item::store::Layer;
use crate::item::wording::shown;

const SCHEME: &str = "unix://";

impl ContainerResolver<'_> {
    /// The sockets to try, in order.
    pub(super) fn engines(&mut self) -> Result<Vec<String>, ResolveError> {
        let variable = |name: &str| {
            let value = self
                .context
                .around
                .environment
                .get(OsStr::new(name))
                .and_then(|value| value.to_str());
            value.filter(|value| !value.is_empty())
        };
        if let Some(host) = variable("DOCKER_HOST") {
            if is_socket(host) {
                self.origins.insert(
                    "action.engines[0]".to_owned(),
                    "environment variable DOCKER_HOST".to_owned(),
                );
                return Ok(vec![host.to_owned()]);
            }
            return Err(ResolveError::Setting {
                field: "DOCKER_HOST".to_owned(),
                reason: format!(
                    "is `{}`; only engines of this machine are used, by their socket",
                    shown(host)
                ),
                hint: "set it to `unix:///path/to/the/socket`, or unset it".to_owned(),
                at: None,
            });
        }
        let mut usual = vec!["unix:///var/run/docker.sock".to_owned()];
        if let Some(folder) =
            variable("XDG_RUNTIME_DIR").filter(|folder| Path::new(folder).is_absolute())
        {
            usual.extend(
                ["docker.sock", "podman/podman.sock"]
                    .map(|name| format!("{SCHEME}{folder}/{name}")),
            );
        }
        usual.push("unix:///run/podman/podman.sock".to_owned());
        let Some(setting) = self.find("url") else {
            return Ok(usual);
        };
        let field = "config.url";
        let Some(url) = setting.as_text().filter(|url| is_socket(url)) else {
            let told = setting.as_text().map_or_else(
                || setting.type_name().to_owned(),
                |url| format!("`{}`", shown(url)),
            );
            let reason = format!("is {told}; an engine is reached by its socket on this machine");
            return Err(setting.error(field, reason, "write `unix:///path/to/the/socket`"));
        };
        let (url, is_usual) = (url.to_owned(), usual.iter().any(|it| it == url));
        match setting.source.link.layer {
            // The built-in runtime names the first default socket.
            Layer::Builtin => return Ok(usual),
            Layer::Project if !is_usual => {
                let reason = format!(
                    "is `{}`; which engine is used is not for a project to say",
                    shown(&url)
                );
                let hint = "remove it; set `DOCKER_HOST` to use another engine";
                return Err(setting.error(field, reason, hint));
            }
            Layer::Project | Layer::User => {}
        }
        self.origins
            .insert("action.engines[0]".to_owned(), setting.source.describe());
        Ok(vec![url])
    }
}

fn is_socket(url: &str) -> bool {
    url.strip_prefix(SCHEME)
        .is_some_and(|path| path.starts_with('/') && !path.contains('\0'))
}
