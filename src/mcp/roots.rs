//! The default project of a call: the only root of its client.
//!
//! The client is asked only if the server serves more than one project. A root only selects among
//! the served projects; it never grants access to others.

#![expect(
    deprecated,
    reason = "roots are deprecated by the protocol, and clients offer them"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use rmcp::model::{
    InputRequest, InputRequiredResult, JsonObject, ListRootsRequest, ListRootsResult,
};

use super::call::{Caller, Era};
use super::decision;
use super::projects::Projects;

const NAME: &str = "roots";
/// How long a client may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) enum FilledArguments {
    /// The arguments, completed if possible.
    Arguments(Option<JsonObject>),
    /// The client must name its roots and call again.
    Asked(Box<InputRequiredResult>),
}

/// Adds the project to a call that names none.
pub(super) async fn fill(
    projects: &Projects,
    caller: &Caller,
    given: Option<JsonObject>,
) -> FilledArguments {
    let is_named = given.as_ref().is_some_and(|given| {
        given
            .get("project_path")
            .is_some_and(|path| !path.is_null())
    });
    if is_named || !projects.has_choice() {
        return FilledArguments::Arguments(given);
    }
    // The client repeats the call: the sealed state names the project.
    let before = caller
        .state
        .as_ref()
        .and_then(|sealed| decision::root_of(projects, caller, sealed));
    let root = match (before, caller.era()) {
        (Some(root), _) => root.to_str().map(str::to_owned),
        (None, Era::Sessions) => only(projects, caller).await,
        (None, Era::Stateless) if !is_offered(caller) => None,
        (None, Era::Stateless) => {
            let Some(answer) = caller
                .answered
                .as_ref()
                .and_then(|answers| answers.get(NAME))
            else {
                let request = InputRequest::ListRoots(ListRootsRequest::default());
                let requests = BTreeMap::from([(NAME.to_owned(), request)]);
                return FilledArguments::Asked(Box::new(InputRequiredResult::new(
                    Some(requests),
                    None,
                )));
            };
            serde_json::from_value(answer.clone())
                .ok()
                .and_then(|roots| served(projects, &roots))
        }
    };
    FilledArguments::Arguments(match root {
        Some(root) => {
            let mut given = given.unwrap_or_default();
            given.insert("project_path".to_owned(), root.into());
            Some(given)
        }
        None => given,
    })
}

/// The only root of a client, if it is served. Asks the client; only in the session era.
pub(super) async fn only(projects: &Projects, caller: &Caller) -> Option<String> {
    if !projects.has_choice() || caller.era() == Era::Stateless || !is_offered(caller) {
        return None;
    }
    let listed = tokio::select! {
        listed = tokio::time::timeout(PATIENCE, caller.request.peer.list_roots()) => listed.ok()?.ok()?,
        () = caller.request.ct.cancelled() => return None,
    };
    served(projects, &listed)
}

fn is_offered(caller: &Caller) -> bool {
    caller
        .request
        .client_capabilities()
        .is_some_and(|able| able.roots.is_some())
}

fn served(projects: &Projects, listed: &ListRootsResult) -> Option<String> {
    let [root] = listed.roots.as_slice() else {
        return None;
    };
    let path = url::Url::parse(&root.uri).ok()?.to_file_path().ok()?;
    let folder = projects.confine(&path).ok()?;
    folder.to_str().map(str::to_owned)
}
