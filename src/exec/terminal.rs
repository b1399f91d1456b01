//! Who may read from the terminal.
//!
//! A command runs in a process group of its own, so that all of it can be killed. The terminal lets
//! only one group read: it is lent to the command and taken back. Ctrl-Z stops the command, and piton with it, so that
//! the shell has its terminal again.

use nix::sys::signal::{SigSet, SigmaskHow, Signal as MaskedSignal};
use rustix::fd::BorrowedFd;
use rustix::process::{Pid, Signal, getpgrp, kill_process_group};
use rustix::stdio::{stderr, stdin, stdout};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};

/// The terminal that piton was started from.
pub(super) struct Terminal {
    fd: BorrowedFd<'static>,
    own: Pid,
    modes: Option<Termios>,
    lent: Lent,
}

/// Whether the terminal is with a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lent {
    No,
    Yes,
}

impl Terminal {
    /// The terminal behind one of the standard streams.
    pub(super) fn find() -> Option<Self> {
        let fd = [stdin(), stderr(), stdout()].into_iter().find(|fd| isatty(fd) && tcgetpgrp(fd).is_ok())?;
        Some(Self { fd, own: getpgrp(), modes: tcgetattr(fd).ok(), lent: Lent::No })
    }

    /// Whether a command should have the terminal from its start.
    ///
    /// Not when the output goes to another program: that may be a pager, which needs it too. A
    /// command that reads all the same is stopped by the kernel and gets it then.
    pub(super) fn is_for_the_command() -> bool {
        isatty(stdin()) && isatty(stdout())
    }

    /// Lends the terminal to a group, if it is piton's to lend; says whether the group has it.
    pub(super) fn lend(&mut self, group: Pid) -> bool {
        if tcgetpgrp(self.fd).is_ok_and(|holder| holder == self.own) && tcsetpgrp(self.fd, group).is_ok() {
            self.lent = Lent::Yes;
        }
        self.is_lent()
    }

    /// Promises the terminal to a command that is about to be started and will take it by itself, if it is piton's to
    /// lend; says whether it may.
    pub(super) fn promise(&mut self) -> bool {
        if Self::is_for_the_command() && tcgetpgrp(self.fd).is_ok_and(|holder| holder == self.own) {
            self.lent = Lent::Yes;
        }
        self.is_lent()
    }

    /// Decides what follows when a signal has stopped the command; when this returns, the command is to go on.
    ///
    /// A command that wants the terminal gets it, if that can be. Anything else, as Ctrl-Z, is meant for piton as well:
    /// it stops too, and returns when the shell continues it.
    pub(super) fn answer_stop(&mut self, group: Pid, signal: Option<i32>) {
        let wants_terminal = [Signal::TTIN.as_raw(), Signal::TTOU.as_raw()];
        if signal.is_some_and(|signal| wants_terminal.contains(&signal)) && self.lend(group) {
            return;
        }
        self.take_back();
        // Returns at once where no shell could continue piton.
        let _ = kill_process_group(getpgrp(), Signal::TSTP);
        self.lend(group);
    }

    /// Whether a command has it.
    pub(super) fn is_lent(&self) -> bool {
        self.lent == Lent::Yes
    }

    /// Takes the terminal back.
    pub(super) fn take_back(&mut self) {
        if self.is_lent() {
            unstoppable(|| {
                // A terminal that has gone away cannot be taken back, and need not be.
                let _ = tcsetpgrp(self.fd, self.own);
            });
            self.lent = Lent::No;
        }
    }

    /// Brings the terminal's modes back to what they were, after a command that could not do so.
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

/// Does something to the terminal from outside its group, for which the kernel would stop piton.
fn unstoppable(act: impl FnOnce()) {
    let mut stop = SigSet::empty();
    stop.add(MaskedSignal::SIGTTOU);
    let Ok(before) = stop.thread_swap_mask(SigmaskHow::SIG_BLOCK) else { return };
    act();
    let _ = before.thread_set_mask();
}
