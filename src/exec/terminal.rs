//! Lends the terminal to a command.
//!
//! A command runs in its own process group, so that all of it can be killed. The terminal lets only
//! one group read: it is lent to the command and taken back. Ctrl-Z stops the command and piton, so
//! that the shell gets its terminal back.

use nix::sys::signal::{SigSet, SigmaskHow, Signal as MaskedSignal};
use rustix::fd::BorrowedFd;
use rustix::process::{Pid, Signal, getpgrp, kill_process_group};
use rustix::stdio::{stderr, stdin, stdout};
use rustix::termios::{
    OptionalActions, Termios, isatty, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp,
};

/// The terminal that piton was started from.
pub(super) struct Terminal {
    fd: BorrowedFd<'static>,
    own: Pid,
    modes: Option<Termios>,
    used: TerminalUse,
}

/// Who uses the terminal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TerminalUse {
    Own,
    Lent,
}

impl Terminal {
    /// The terminal behind one of the standard streams.
    pub(super) fn find() -> Option<Self> {
        let fd = [stdin(), stderr(), stdout()]
            .into_iter()
            .find(|fd| isatty(fd) && tcgetpgrp(fd).is_ok())?;
        Some(Self {
            fd,
            own: getpgrp(),
            modes: tcgetattr(fd).ok(),
            used: TerminalUse::Own,
        })
    }

    /// Whether a command should have the terminal from the start.
    ///
    /// Not when piton's output is piped: the reader may be a pager, which needs the terminal too. A
    /// command that reads anyway is stopped by the kernel and gets the terminal then.
    pub(super) fn is_for_the_command() -> bool {
        isatty(stdin()) && isatty(stdout())
    }

    /// Lends the terminal to a group if piton has it; returns whether the group has it now.
    pub(super) fn lend(&mut self, group: Pid) -> bool {
        if tcgetpgrp(self.fd).is_ok_and(|holder| holder == self.own)
            && tcsetpgrp(self.fd, group).is_ok()
        {
            self.used = TerminalUse::Lent;
        }
        self.is_lent()
    }

    /// Reserves the terminal for a command that will take it when it starts, if piton has it;
    /// returns whether it may.
    pub(super) fn promise(&mut self) -> bool {
        if Self::is_for_the_command() && tcgetpgrp(self.fd).is_ok_and(|holder| holder == self.own) {
            self.used = TerminalUse::Lent;
        }
        self.is_lent()
    }

    /// Handles a stopped command; when this returns, the command is to continue.
    ///
    /// A command that wants the terminal gets it if possible. Any other stop, such as Ctrl-Z, stops
    /// piton too, until the shell continues it.
    pub(super) fn answer_stop(&mut self, group: Pid, signal: Option<i32>) {
        let wants_terminal = [Signal::TTIN.as_raw(), Signal::TTOU.as_raw()];
        if signal.is_some_and(|signal| wants_terminal.contains(&signal)) && self.lend(group) {
            return;
        }
        self.take_back();
        // Returns at once if no shell could continue piton.
        let _ = kill_process_group(getpgrp(), Signal::TSTP);
        self.lend(group);
    }

    pub(super) fn is_lent(&self) -> bool {
        self.used == TerminalUse::Lent
    }

    pub(super) fn take_back(&mut self) {
        if self.is_lent() {
            unstoppable(|| {
                // Fails when the terminal is gone; then there is nothing to take back.
                let _ = tcsetpgrp(self.fd, self.own);
            });
            self.used = TerminalUse::Own;
        }
    }

    /// Restores the terminal modes after a command that was killed.
    pub(super) fn restore_modes(&self) {
        if let Some(modes) = &self.modes {
            unstoppable(|| {
                let _ = tcsetattr(self.fd, OptionalActions::Now, modes);
            });
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.take_back();
    }
}

/// Changes the terminal from a background group, for which the kernel would stop piton.
fn unstoppable(act: impl FnOnce()) {
    let mut stop = SigSet::empty();
    stop.add(MaskedSignal::SIGTTOU);
    let Ok(before) = stop.thread_swap_mask(SigmaskHow::SIG_BLOCK) else {
        return;
    };
    act();
    let _ = before.thread_set_mask();
}
