//! The pager that long output goes through.
//!
//! As in git, the pager is a shell command that reads a pipe. While it runs, the pipe takes the place of stdout, and of
//! stderr if that is a terminal, so that messages do not break into the page.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use rustix::io::fcntl_dupfd_cloexec;
use rustix::stdio::{dup2_stderr, dup2_stdout, stderr, stdout};
use rustix::termios::isatty;

use super::interrupt::Interrupts;

/// A running pager.
#[derive(Debug)]
pub struct Pager {
    child: Child,
    stdout: OwnedFd,
    stderr: Option<OwnedFd>,
    /// Ctrl-C is for the pager: if piton exited first, the shell and the pager would share the terminal.
    _interrupts: Interrupts,
}

impl Pager {
    /// Starts a shell command and sends everything printed from now on to it.
    ///
    /// `defaults` are variables for the command that the caller's environment does not set.
    pub fn start(command: &OsStr, defaults: &[(&str, &str)]) -> io::Result<Self> {
        let mut child = shell(command)
            .envs(defaults.iter().copied())
            .stdin(Stdio::piped())
            .spawn()?;
        // Listening starts after the pager: a child inherits signals that its parent ignores.
        let interrupts = Interrupts::listen()?;
        let pipe = child
            .stdin
            .take()
            .ok_or_else(|| io::Error::other("the pager has no pipe"))?;
        let saved_stdout = fcntl_dupfd_cloexec(stdout(), 3)?;
        dup2_stdout(&pipe)?;
        let saved_stderr = if isatty(stderr()) {
            let saved = fcntl_dupfd_cloexec(stderr(), 3)?;
            dup2_stderr(&pipe)?;
            Some(saved)
        } else {
            None
        };
        Ok(Self {
            child,
            stdout: saved_stdout,
            stderr: saved_stderr,
            _interrupts: interrupts,
        })
    }

    /// Ends the page and waits until the user leaves the pager.
    pub fn finish(mut self) -> io::Result<()> {
        dup2_stdout(&self.stdout)?;
        if let Some(stderr) = &self.stderr {
            dup2_stderr(stderr)?;
        }
        self.child.wait().map(drop)
    }
}

#[expect(clippy::disallowed_methods, reason = "exec is the home of processes")]
fn shell(command: &OsStr) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command);
    shell
}
