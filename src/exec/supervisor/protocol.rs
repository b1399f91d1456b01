//! The protocol between piton and its supervisors.
//!
//! A message is its length in four bytes, a byte for its kind, and its fields. Arguments, variables
//! and input are raw bytes. [`Inbox`] reassembles messages from pieces.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use super::touched::TouchedPaths;
use super::{Channel, Farewell, Foreground, ResultFault, Watch, Work};
use crate::checkpoint::attribution::Doubt;
use crate::checkpoint::held::FileTime;
use crate::exec::invocation::ResourceLimits;
use crate::exec::isolation::{Confinement, MountView, NetworkView, TcpRule};

/// A message from piton to a supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SupervisorOrder {
    Work(Box<Work>),
    /// End the work, starting with this signal.
    Stop(i32),
    /// Continue after a stop.
    Continue,
}

/// A message from a supervisor to piton.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SupervisorMessage {
    /// The tool runs with this process id.
    Started(u32),
    /// The tool could not be started; the errno.
    Failed(i32),
    /// The data from the private channel.
    Result(Vec<u8>),
    /// Why an incomplete result is missing.
    NoResult(ResultFault),
    Touched(TouchedPaths),
    /// Paths that it tried to change and may not.
    Refused(Vec<PathBuf>),
    /// Why the touched files are unknown.
    Unwatched(Doubt),
    /// Its first process was stopped by this signal, e.g. by Ctrl-Z.
    Stopped(i32),
    /// No process of it is left.
    Ended(EndMessage),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EndMessage {
    pub(super) exit_code: Option<i32>,
    pub(super) signal: Option<i32>,
    pub(super) timed_out: bool,
    pub(super) stopped: bool,
    pub(super) leftovers: u32,
    pub(super) cpu: Duration,
    pub(super) peak_memory: u64,
    pub(super) duration: Duration,
}

/// Reassembles messages.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
}

impl Inbox {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete message, without its length.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        let (length, rest) = self.bytes.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let message = rest.get(..length)?.to_vec();
        self.bytes.drain(..length + 4);
        Some(message)
    }
}

impl SupervisorOrder {
    /// `None` when it is too large for one message.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let mut writer = FrameWriter::default();
        match self {
            Self::Work(work) => {
                writer.byte(b'W');
                writer.bytes(work.program.as_os_str().as_bytes());
                writer.number(work.argv.len() as u64);
                for word in &work.argv {
                    writer.bytes(word.as_bytes());
                }
                writer.bytes(work.folder.as_os_str().as_bytes());
                writer.number(work.environment.len() as u64);
                for (name, value) in &work.environment {
                    writer.bytes(name.as_bytes());
                    writer.bytes(value.as_bytes());
                }
                writer.bytes(&work.input);
                writer.byte(u8::from(work.channel == Channel::Private));
                writer.byte(u8::from(work.watch == Watch::Yes));
                writer.paths(&work.within);
                writer.number(work.most_touched as u64);
                writer.bytes(
                    work.log
                        .as_ref()
                        .map(|path| path.as_os_str().as_bytes())
                        .unwrap_or_default(),
                );
                writer.byte(u8::from(work.foreground == Foreground::Yes));
                writer.byte(u8::from(work.farewell == Farewell::Ask));
                writer.optional(work.timeout.map(in_micros));
                let ResourceLimits {
                    memory,
                    file_size,
                    cpu_seconds,
                    open_files,
                    processes,
                } = work.limits;
                for limit in [memory, file_size, cpu_seconds, open_files, processes] {
                    writer.optional(limit);
                }
                writer.confinement(work.confinement.as_ref());
            }
            Self::Stop(signal) => {
                writer.byte(b'S');
                writer.signed(*signal);
            }
            Self::Continue => writer.byte(b'C'),
        }
        writer.finish()
    }

    /// `None` when the message is malformed.
    pub(super) fn decode(message: &[u8]) -> Option<Self> {
        let mut reader = FrameReader::new(message);
        match reader.byte()? {
            b'W' => {
                let program = PathBuf::from(reader.word()?);
                let mut argv = Vec::new();
                for _ in 0..reader.number()? {
                    argv.push(reader.word()?);
                }
                let folder = PathBuf::from(reader.word()?);
                let mut environment = BTreeMap::new();
                for _ in 0..reader.number()? {
                    environment.insert(reader.word()?, reader.word()?);
                }
                let input = reader.bytes()?.to_vec();
                let channel = if reader.byte()? == 0 {
                    Channel::None
                } else {
                    Channel::Private
                };
                let watch = if reader.byte()? == 0 {
                    Watch::No
                } else {
                    Watch::Yes
                };
                let within = reader.paths()?;
                let most_touched = usize::try_from(reader.number()?).ok()?;
                let log =
                    Some(PathBuf::from(reader.word()?)).filter(|path| !path.as_os_str().is_empty());
                let foreground = if reader.byte()? == 0 {
                    Foreground::No
                } else {
                    Foreground::Yes
                };
                let farewell = if reader.byte()? == 0 {
                    Farewell::Kill
                } else {
                    Farewell::Ask
                };
                let timeout = reader.optional()?.map(Duration::from_micros);
                let limits = ResourceLimits {
                    memory: reader.optional()?,
                    file_size: reader.optional()?,
                    cpu_seconds: reader.optional()?,
                    open_files: reader.optional()?,
                    processes: reader.optional()?,
                };
                let confinement = reader.confinement()?;
                let kept = 0;
                let work = Work {
                    program,
                    argv,
                    folder,
                    environment,
                    input,
                    channel,
                    watch,
                    within,
                    most_touched,
                    log,
                    foreground,
                    timeout,
                    farewell,
                    limits,
                    confinement,
                    kept,
                };
                Some(Self::Work(Box::new(work)))
            }
            b'S' => Some(Self::Stop(reader.signed()?)),
            b'C' => Some(Self::Continue),
            _ => None,
        }
    }
}

impl SupervisorMessage {
    /// `None` when it is too large for one message.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let mut writer = FrameWriter::default();
        match self {
            Self::Started(pid) => {
                writer.byte(b's');
                writer.number((*pid).into());
            }
            Self::Failed(errno) => {
                writer.byte(b'f');
                writer.signed(*errno);
            }
            Self::Result(bytes) => {
                writer.byte(b'r');
                writer.bytes(bytes);
            }
            Self::NoResult(fault) => {
                writer.byte(b'n');
                writer.optional(match fault {
                    ResultFault::TooLarge(size) => Some(*size),
                    ResultFault::CutOff => None,
                });
            }
            Self::Touched(touched) => {
                writer.byte(b't');
                for paths in [&touched.paths, &touched.trees] {
                    writer.number(paths.len() as u64);
                    for path in paths {
                        writer.bytes(path.as_os_str().as_bytes());
                    }
                }
                writer.number(touched.inodes.len() as u64);
                for (device, inode) in &touched.inodes {
                    writer.number(*device);
                    writer.number(*inode);
                }
                writer.number(touched.removed.len() as u64);
                for (path, born) in &touched.removed {
                    writer.bytes(path.as_os_str().as_bytes());
                    writer.number(born.seconds.cast_unsigned());
                    writer.number(born.nanos.cast_unsigned());
                }
            }
            Self::Refused(paths) => {
                writer.byte(b'd');
                writer.paths(paths);
            }
            Self::Unwatched(doubt) => {
                writer.byte(b'u');
                writer.doubt(*doubt);
            }
            Self::Stopped(signal) => {
                writer.byte(b'z');
                writer.signed(*signal);
            }
            Self::Ended(end) => {
                writer.byte(b'e');
                for code in [end.exit_code, end.signal] {
                    writer.byte(u8::from(code.is_some()));
                    writer.signed(code.unwrap_or_default());
                }
                writer.byte(u8::from(end.timed_out));
                writer.byte(u8::from(end.stopped));
                writer.number(end.leftovers.into());
                writer.number(in_micros(end.cpu));
                writer.number(end.peak_memory);
                writer.number(in_micros(end.duration));
            }
        }
        writer.finish()
    }

    /// `None` when the message is malformed.
    pub(super) fn decode(message: &[u8]) -> Option<Self> {
        let mut reader = FrameReader::new(message);
        Some(match reader.byte()? {
            b's' => Self::Started(reader.number()?.try_into().ok()?),
            b'f' => Self::Failed(reader.signed()?),
            b'r' => Self::Result(reader.bytes()?.to_vec()),
            b'n' => Self::NoResult(
                reader
                    .optional()?
                    .map_or(ResultFault::CutOff, ResultFault::TooLarge),
            ),
            b't' => {
                let mut touched = TouchedPaths::default();
                for paths in [&mut touched.paths, &mut touched.trees] {
                    for _ in 0..reader.number()? {
                        paths.insert(reader.word()?.into());
                    }
                }
                for _ in 0..reader.number()? {
                    touched.inodes.insert((reader.number()?, reader.number()?));
                }
                for _ in 0..reader.number()? {
                    let path = reader.word()?.into();
                    let born = FileTime {
                        seconds: reader.number()?.cast_signed(),
                        nanos: reader.number()?.cast_signed(),
                    };
                    touched.removed.insert(path, born);
                }
                Self::Touched(touched)
            }
            b'd' => Self::Refused(reader.paths()?),
            b'u' => Self::Unwatched(reader.doubt()?),
            b'z' => Self::Stopped(reader.signed()?),
            b'e' => {
                let mut code = || Some((reader.byte()? != 0, reader.signed()?));
                let (exit_code, signal) = (code()?, code()?);
                Self::Ended(EndMessage {
                    exit_code: Some(exit_code.1).filter(|_| exit_code.0),
                    signal: Some(signal.1).filter(|_| signal.0),
                    timed_out: reader.byte()? != 0,
                    stopped: reader.byte()? != 0,
                    leftovers: reader.number()?.try_into().ok()?,
                    cpu: Duration::from_micros(reader.number()?),
                    peak_memory: reader.number()?,
                    duration: Duration::from_micros(reader.number()?),
                })
            }
            _ => return None,
        })
    }
}

fn in_micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[derive(Default)]
pub(super) struct FrameWriter {
    body: Vec<u8>,
}

impl FrameWriter {
    pub(super) fn byte(&mut self, byte: u8) {
        self.body.push(byte);
    }

    pub(super) fn number(&mut self, number: u64) {
        self.body.extend_from_slice(&number.to_be_bytes());
    }

    fn signed(&mut self, number: i32) {
        self.body.extend_from_slice(&number.to_be_bytes());
    }

    fn optional(&mut self, number: Option<u64>) {
        self.byte(u8::from(number.is_some()));
        self.number(number.unwrap_or_default());
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.body.extend_from_slice(bytes);
    }

    fn paths(&mut self, paths: &[PathBuf]) {
        self.number(paths.len() as u64);
        for path in paths {
            self.bytes(path.as_os_str().as_bytes());
        }
    }

    fn confinement(&mut self, confinement: Option<&Confinement>) {
        self.byte(u8::from(confinement.is_some()));
        let Some(confinement) = confinement else {
            return;
        };
        self.paths(&confinement.writable);
        self.paths(&confinement.read_only);
        self.paths(&confinement.hidden);
        self.paths(&confinement.homes);
        self.paths(&confinement.visible);
        self.byte(u8::from(confinement.view == MountView::Own));
        self.byte(u8::from(confinement.network == NetworkView::Empty));
        match &confinement.tcp {
            TcpRule::Any => self.optional(None),
            TcpRule::Ports(ports) => {
                self.optional(Some(ports.len() as u64));
                for port in ports {
                    self.number((*port).into());
                }
            }
        }
    }

    pub(super) fn doubt(&mut self, doubt: Doubt) {
        let (kind, errno) = match doubt {
            Doubt::Platform => (0, 0),
            Doubt::Kernel(errno) => (1, errno),
            Doubt::TooMany => (2, 0),
            Doubt::OtherPlace => (3, 0),
            Doubt::Unreadable => (4, 0),
            Doubt::SetUser => (5, 0),
            Doubt::Lost => (6, 0),
        };
        self.byte(kind);
        self.signed(errno);
    }

    /// The content without a length prefix.
    pub(super) fn into_body(self) -> Vec<u8> {
        self.body
    }

    fn finish(self) -> Option<Vec<u8>> {
        let length = u32::try_from(self.body.len()).ok()?;
        let mut message = Vec::with_capacity(self.body.len() + 4);
        message.extend_from_slice(&length.to_be_bytes());
        message.extend_from_slice(&self.body);
        Some(message)
    }
}

/// Reads fields; `None` where the data ends too early.
pub(super) struct FrameReader<'m> {
    rest: &'m [u8],
}

impl<'m> FrameReader<'m> {
    pub(super) fn new(rest: &'m [u8]) -> Self {
        Self { rest }
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*taken)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    fn signed(&mut self) -> Option<i32> {
        self.take().map(i32::from_be_bytes)
    }

    #[expect(
        clippy::option_option,
        reason = "there may be no number, and there may be no message left"
    )]
    fn optional(&mut self) -> Option<Option<u64>> {
        let is_some = self.byte()? != 0;
        let number = self.number()?;
        Some(Some(number).filter(|_| is_some))
    }

    fn bytes(&mut self) -> Option<&'m [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn paths(&mut self) -> Option<Vec<PathBuf>> {
        (0..self.number()?)
            .map(|_| self.word().map(PathBuf::from))
            .collect()
    }

    #[expect(
        clippy::option_option,
        reason = "there may be no confinement, and there may be no message left"
    )]
    fn confinement(&mut self) -> Option<Option<Confinement>> {
        if self.byte()? == 0 {
            return Some(None);
        }
        let (writable, read_only) = (self.paths()?, self.paths()?);
        let hidden = self.paths()?;
        let (homes, visible) = (self.paths()?, self.paths()?);
        let view = match self.byte()? {
            0 => MountView::Shared,
            _ => MountView::Own,
        };
        let network = match self.byte()? {
            0 => NetworkView::Shared,
            _ => NetworkView::Empty,
        };
        let tcp = match self.optional()? {
            None => TcpRule::Any,
            Some(count) => TcpRule::Ports(
                (0..count)
                    .map(|_| self.number()?.try_into().ok())
                    .collect::<Option<_>>()?,
            ),
        };
        Some(Some(Confinement {
            writable,
            read_only,
            hidden,
            homes,
            visible,
            view,
            tcp,
            network,
        }))
    }

    pub(super) fn doubt(&mut self) -> Option<Doubt> {
        let (kind, errno) = (self.byte()?, self.signed()?);
        Some(match kind {
            0 => Doubt::Platform,
            1 => Doubt::Kernel(errno),
            2 => Doubt::TooMany,
            3 => Doubt::OtherPlace,
            4 => Doubt::Unreadable,
            5 => Doubt::SetUser,
            6 => Doubt::Lost,
            _ => return None,
        })
    }

    pub(super) fn word(&mut self) -> Option<OsString> {
        self.bytes().map(|bytes| OsString::from_vec(bytes.to_vec()))
    }
}

#[cfg(test)]
mod tests;
