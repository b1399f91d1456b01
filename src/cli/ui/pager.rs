//! Decides which output uses a pager, and which pager, by git's rules.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use super::{Format, OutputStream, Ui};
use crate::checkpoint::repository::Repository;
use crate::context::Environment;
use crate::exec::pager::Pager;
use crate::exec::subprocess::resolve;

/// The pager if git configures none.
const DEFAULT: &str = "less";
/// Git's settings for its pager: quit if the page fits, pass colours on, leave the page on the
/// screen.
const DEFAULTS: [(&str, &str); 2] = [("LESS", "FRX"), ("LV", "-c")];

/// Whether long output may go through a pager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Paging {
    /// On a terminal.
    #[default]
    Auto,
    /// Never: `--no-pager`.
    Off,
}

impl Ui {
    /// Sends all further output to the user's pager, if a person reads it on a terminal.
    pub(in crate::cli) fn page(
        &mut self,
        environment: &Environment,
        repository: Option<&Repository>,
    ) {
        let is_read = self.format == Format::Human
            && self.talk_to == OutputStream::Stderr
            && io::stdout().is_terminal();
        if !is_read || self.paging == Paging::Off || self.pager.is_some() {
            return;
        }
        let Some(command) = command(environment, repository) else {
            return;
        };
        if self.out.flush().is_err() {
            return;
        }
        self.live = None;
        let is_unset = |name: &str| environment.find(name).is_none();
        let defaults: Vec<_> = DEFAULTS
            .into_iter()
            .filter(|(name, _)| is_unset(name))
            .collect();
        // Without a pager the output is printed directly.
        self.pager = Pager::start(&command, &defaults).ok();
    }

    /// Waits until the user leaves the pager.
    pub(super) fn leave_pager(&mut self) -> io::Result<()> {
        self.pager.take().map_or(Ok(()), Pager::finish)
    }

    /// Whether stdout goes to a person.
    pub(super) fn is_read_by_person(&self) -> bool {
        self.pager.is_some() || io::stdout().is_terminal()
    }
}

/// `GIT_PAGER`, `core.pager`, `PAGER`, `less`, in this order; `None` if the first set one is empty
/// or `cat`.
fn command(environment: &Environment, repository: Option<&Repository>) -> Option<OsString> {
    let variable = |name: &str| environment.variables().get(OsStr::new(name)).cloned();
    let configured = || {
        repository
            .and_then(|it| it.find_setting("core.pager"))
            .map(OsString::from)
    };
    let chosen = variable("GIT_PAGER")
        .or_else(configured)
        .or_else(|| variable("PAGER"));
    if chosen.is_some() {
        return chosen.filter(|command| !command.is_empty() && command != "cat");
    }
    let search_path = variable("PATH").unwrap_or_default();
    resolve(OsStr::new(DEFAULT), &search_path, Path::new("/"))
        .ok()
        .map(PathBuf::into_os_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pager_is_chosen_as_git_chooses_it() {
        let chosen = |variables: &[(&str, &str)]| {
            let variables = variables
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect();
            command(&Environment::new(variables, PathBuf::from("/")), None)
        };
        assert_eq!(
            chosen(&[("GIT_PAGER", "more"), ("PAGER", "most")]),
            Some("more".into())
        );
        assert_eq!(chosen(&[("PAGER", "most")]), Some("most".into()));
        assert_eq!(chosen(&[("GIT_PAGER", ""), ("PAGER", "most")]), None);
        assert_eq!(chosen(&[("PAGER", "cat")]), None);
        assert_eq!(chosen(&[("PATH", "/nowhere")]), None);
    }
}
