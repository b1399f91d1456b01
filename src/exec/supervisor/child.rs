//! The supervisor process: one loop that waits for everything and never blocks.
//!
//! It ends when the tool has ended, timed out or is to stop, or when piton is gone; then no process
//! of the tool is left. It has one thread and does little, so that little can fail.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{SigSet, Signal as Caught};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, write};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, set_child_subreaper, setsid,
    wait,
};
use rustix::stdio::{dup2_stderr, dup2_stdout, stdin};

use super::handover::receive_streams;
use super::launch::{Launched, close_inherited, launch};
use super::protocol::{EndMessage, Inbox, SupervisorMessage, SupervisorOrder};
use super::result::Incoming;
use super::touched::{Touched, TouchedLog};
use super::write_monitor::WriteMonitor;
use super::{Farewell, STOP_GRACE, TIMEOUT_GRACE, Work};
use crate::exec::isolation::kernel::Lock;
use crate::exec::isolation::mounts::TerminalView;
use crate::exec::process::{kill_below, signal_below};

/// The session of a supervisor and its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SupervisorSession {
    /// A new session without a terminal.
    Apart,
    /// piton's session, with its terminal and streams.
    Terminal,
}

/// Closes all descriptors but the standard streams, waits for work and does it.
pub(super) fn serve(seat: SupervisorSession) -> std::io::Result<()> {
    // Without work, piton has closed the connection.
    if let Some(mut guard) = Guard::begin(seat)? {
        guard.keep();
    }
    Ok(())
}

/// Why the tool is being ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    TimedOut,
    Stopped,
}

/// Whether a child may have ended that was not reaped; most news are of watched calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ChildrenState {
    #[default]
    Known,
    Unknown,
}

/// A supervisor with its work.
struct Guard {
    seat: SupervisorSession,
    streams: Option<[OwnedFd; 3]>,
    inbox: Inbox,
    signals: SignalFd,
    null: OwnedFd,
    work: Work,
    input: Option<OwnedFd>,
    fed: usize,
    incoming: Option<Incoming>,
    monitor: Option<WriteMonitor>,
    tool: u32,
    status: Option<(WaitStatus, Instant)>,
    asked: Option<Reason>,
    is_alone: bool,
    is_deserted: bool,
    /// Whether everything is being killed: processes stopped for that are not reported.
    is_killing: bool,
    children: ChildrenState,
}

impl Guard {
    /// Sets up the process and waits for work; `None` when piton closes the connection.
    fn begin(seat: SupervisorSession) -> std::io::Result<Option<Self>> {
        let null = close_inherited()?;
        // Block all signals: the tool would go on without its supervisor.
        SigSet::all().thread_block()?;
        let mut heard = SigSet::empty();
        heard.extend([
            Caught::SIGCHLD,
            Caught::SIGTERM,
            Caught::SIGINT,
            Caught::SIGHUP,
        ]);
        let signals = SignalFd::with_flags(&heard, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let streams = match seat {
            // It may already lead a session.
            SupervisorSession::Apart => {
                let _ = setsid();
                None
            }
            // It was started in its own process group, so Ctrl-C does not reach it.
            SupervisorSession::Terminal => match receive_streams(stdin())? {
                Some(streams) => Some(streams),
                None => return Ok(None),
            },
        };
        set_child_subreaper(Some(getpid()))?;
        let mut inbox = Inbox::default();
        let work = loop {
            match inbox.next().as_deref().map(SupervisorOrder::decode) {
                Some(Some(SupervisorOrder::Work(work))) => break *work,
                Some(_) => return Ok(None),
                None if !hear(&mut inbox) => return Ok(None),
                None => {}
            }
        };
        Ok(Some(Self {
            seat,
            streams,
            inbox,
            signals,
            null,
            work,
            input: None,
            fed: 0,
            incoming: None,
            monitor: None,
            tool: 0,
            status: None,
            asked: None,
            is_alone: false,
            is_deserted: false,
            is_killing: false,
            children: ChildrenState::Unknown,
        }))
    }

    /// Runs the tool to its end and reports.
    fn keep(&mut self) {
        let started = Instant::now();
        // A log that cannot be opened was deleted, which means that nothing is known.
        let log = self
            .work
            .log
            .as_ref()
            .and_then(|path| TouchedLog::open(path).ok());
        let terminals = match self.seat {
            SupervisorSession::Apart => TerminalView::Own,
            SupervisorSession::Terminal => TerminalView::Users,
        };
        let confinement = self.work.confinement.as_ref();
        let lock = confinement
            .map(|confinement| Lock::new(confinement, terminals))
            .transpose();
        let launched =
            lock.and_then(|lock| launch(&self.work, self.streams.as_ref(), lock.as_ref(), log));
        // Only the command may hold the streams: a pipe must end when the command closes it.
        self.streams = None;
        match launched {
            Ok(Launched {
                pid,
                input,
                channel,
                monitor,
            }) => {
                self.tool = pid;
                self.input = input;
                self.incoming = channel.map(Incoming::new);
                self.monitor = monitor;
                send(&SupervisorMessage::Started(pid));
            }
            Err(err) => {
                return send(&SupervisorMessage::Failed(
                    err.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error()),
                ));
            }
        }
        // Only the tool may hold the streams: they must end when all its processes have closed
        // them.
        let _ = dup2_stdout(&self.null);
        let _ = dup2_stderr(&self.null);
        self.wait(started);
        self.is_killing = true;
        let killed = kill_below(|_| false, || self.reap());
        if self.is_deserted {
            return;
        }
        if let Some(incoming) = &mut self.incoming {
            incoming.take();
        }
        if let Some(report) = self.incoming.take().and_then(Incoming::finish) {
            send(&report);
        }
        if let Some((touched, refused)) = self.monitor.take().map(WriteMonitor::finish) {
            match touched {
                Touched::Paths(paths) => send(&SupervisorMessage::Touched(paths)),
                Touched::Unknown(doubt) => send(&SupervisorMessage::Unwatched(doubt)),
                Touched::Everything => {}
            }
            if !refused.is_empty() {
                send(&SupervisorMessage::Refused(refused));
            }
        }
        let leftovers = killed.iter().filter(|pid| **pid != self.tool).count();
        send(&SupervisorMessage::Ended(
            self.end(started, u32::try_from(leftovers).unwrap_or(u32::MAX)),
        ));
    }

    /// Waits until all processes have ended.
    fn wait(&mut self, started: Instant) {
        let mut deadline = self
            .work
            .timeout
            .and_then(|limit| started.checked_add(limit));
        loop {
            if std::mem::take(&mut self.children) == ChildrenState::Unknown {
                self.reap();
            }
            let is_due = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            match self.asked {
                _ if self.is_deserted && self.work.farewell == Farewell::Kill => return,
                None if self.is_deserted => {
                    deadline = self.ask_to_stop(Reason::Stopped, Signal::TERM, STOP_GRACE);
                }
                None if self.status.is_some() => return,
                None if is_due => {
                    deadline = self.ask_to_stop(Reason::TimedOut, Signal::TERM, TIMEOUT_GRACE);
                }
                Some(_) if self.is_alone || is_due => return,
                _ => {}
            }
            if let News::Stop(signal) = self.look(deadline) {
                let sooner = match self.asked {
                    None => self.ask_to_stop(Reason::Stopped, signal, STOP_GRACE),
                    Some(_) => Instant::now().checked_add(STOP_GRACE),
                };
                deadline = deadline
                    .filter(|_| self.asked == Some(Reason::TimedOut))
                    .min(sooner)
                    .or(sooner);
            }
        }
    }

    /// Waits for the next event and handles it.
    fn look(&mut self, deadline: Option<Instant>) -> News {
        let limit = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let nothing = PollFlags::empty();
        let mut fds = [
            // A closed connection would be reported as ready again and again.
            if self.is_deserted {
                PollFd::new(&self.null, nothing)
            } else {
                PollFd::from_borrowed_fd(stdin(), PollFlags::IN)
            },
            PollFd::new(&self.signals, PollFlags::IN),
            // Missing descriptors are not polled.
            match &self.input {
                Some(input) => PollFd::new(input, PollFlags::OUT),
                None => PollFd::new(&self.null, nothing),
            },
            match &self.incoming {
                Some(incoming) if incoming.is_open() => {
                    PollFd::from_borrowed_fd(incoming.as_fd(), PollFlags::IN)
                }
                _ => PollFd::new(&self.null, nothing),
            },
            match self.monitor.as_ref().and_then(WriteMonitor::listener) {
                Some(listener) => PollFd::from_borrowed_fd(listener, PollFlags::IN),
                None => PollFd::new(&self.null, nothing),
            },
        ];
        if poll(&mut fds, limit.as_ref()).is_err() {
            return News::None;
        }
        let can_be_seen = fds
            .last()
            .is_some_and(|fd| fd.revents().contains(PollFlags::IN));
        let [control, signals, input, channel, is_monitor_ready] =
            fds.map(|fd| !fd.revents().is_empty());
        if let Some(monitor) = self.monitor.as_mut().filter(|_| is_monitor_ready) {
            if can_be_seen {
                monitor.look();
            } else {
                monitor.leave();
            }
        }
        if input {
            self.feed();
        }
        if channel && let Some(incoming) = &mut self.incoming {
            incoming.take();
        }
        let mut news = News::None;
        if signals {
            self.children = ChildrenState::Unknown;
        }
        while signals && let Ok(Some(signal)) = self.signals.read_signal() {
            if i32::try_from(signal.ssi_signo) != Ok(Caught::SIGCHLD as i32) {
                news = News::Stop(Signal::TERM);
            }
        }
        if control {
            self.is_deserted = !hear(&mut self.inbox);
            while let Some(message) = self.inbox.next() {
                match SupervisorOrder::decode(&message) {
                    Some(SupervisorOrder::Stop(signal)) => {
                        news = News::Stop(Signal::from_named_raw(signal).unwrap_or(Signal::TERM));
                    }
                    Some(SupervisorOrder::Continue) => self.continue_tool(),
                    Some(SupervisorOrder::Work(_)) | None => {}
                }
            }
        }
        news
    }

    /// Writes as much input as the tool accepts now.
    fn feed(&mut self) {
        while let Some(input) = &self.input {
            let rest = self.work.input.get(self.fed..).unwrap_or_default();
            match write(input, rest) {
                Ok(written) if written < rest.len() => self.fed += written,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // Everything is written, or the reader is gone.
                Ok(_) | Err(_) => {
                    self.input = None;
                    self.work.input = Vec::new();
                }
            }
        }
    }

    fn continue_tool(&self) {
        let group = i32::try_from(self.tool)
            .ok()
            .and_then(Pid::from_raw)
            .filter(|_| self.status.is_none());
        if let Some(group) = group {
            // The group may be gone.
            let _ = kill_process_group(group, Signal::CONT);
        }
    }

    /// Reaps exited children; returns true when none remain.
    fn reap(&mut self) -> bool {
        let options = match self.seat {
            SupervisorSession::Apart => WaitOptions::NOHANG,
            SupervisorSession::Terminal => WaitOptions::NOHANG | WaitOptions::UNTRACED,
        };
        loop {
            match wait(options) {
                Ok(Some((pid, status))) => {
                    let is_tool = u32::try_from(pid.as_raw_nonzero().get()) == Ok(self.tool);
                    match status.stopping_signal() {
                        Some(signal) if is_tool && !self.is_killing => {
                            send(&SupervisorMessage::Stopped(signal));
                        }
                        None if is_tool => self.status = Some((status, Instant::now())),
                        _ => {}
                    }
                }
                Ok(None) => return false,
                Err(Errno::INTR) => {}
                Err(_) => {
                    self.is_alone = true;
                    return true;
                }
            }
        }
    }

    /// Signals all processes of the tool; returns the deadline for their end.
    fn ask_to_stop(&mut self, reason: Reason, signal: Signal, grace: Duration) -> Option<Instant> {
        self.asked = Some(reason);
        signal_below(Some(signal), |_| false);
        // A stopped process would not react to the signal.
        signal_below(Some(Signal::CONT), |_| false);
        Instant::now().checked_add(grace)
    }

    fn end(&self, started: Instant, leftovers: u32) -> EndMessage {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).ok();
        let time = |value: nix::sys::time::TimeVal| {
            let micros = value
                .tv_sec()
                .saturating_mul(1_000_000)
                .saturating_add(value.tv_usec());
            Duration::from_micros(u64::try_from(micros).unwrap_or_default())
        };
        EndMessage {
            exit_code: self.status.and_then(|(status, _)| status.exit_status()),
            signal: self
                .status
                .and_then(|(status, _)| status.terminating_signal()),
            timed_out: self.asked == Some(Reason::TimedOut),
            stopped: self.asked == Some(Reason::Stopped),
            leftovers,
            cpu: usage
                .map(|usage| time(usage.user_time()) + time(usage.system_time()))
                .unwrap_or_default(),
            peak_memory: usage
                .and_then(|usage| u64::try_from(usage.max_rss()).ok())
                .unwrap_or_default()
                * 1024,
            duration: self.status.map_or_else(
                || started.elapsed(),
                |(_, ended)| ended.duration_since(started),
            ),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    None,
    Stop(Signal),
}

/// Reads from piton; returns false when piton is gone.
fn hear(inbox: &mut Inbox) -> bool {
    let mut bytes = vec![0; 64 * 1024];
    match read(stdin(), &mut bytes) {
        Ok(0) => false,
        Ok(length) => {
            inbox.add(bytes.get(..length).unwrap_or_default());
            true
        }
        Err(err) => matches!(err, Errno::INTR | Errno::AGAIN),
    }
}

/// Reports to piton. If piton is gone, the failure does not matter.
fn send(report: &SupervisorMessage) {
    let message = report.encode().unwrap_or_default();
    let mut rest = message.as_slice();
    while !rest.is_empty() {
        match write(stdin(), rest) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}
