//! The servers of one run: a host process for each, supervised like any tool.

use std::fmt;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{Ask, HostToken, McpCallJob, McpHostJob, McpServer, SOCKET, ServerTransport};
use crate::context::stop::StopListener;
use crate::exec::call::{CallError, Machine, PreparedCall, private_folder};
use crate::exec::interrupt::Interrupts;
use crate::exec::invocation::{Action, Invocation, Mcp, ResourceLimits};
use crate::exec::isolation::Confinement;
use crate::exec::private_folder::PrivateFolder;
use crate::exec::supervisor::{Channel, MARK, Supervisor, SupervisorError, Work};
use crate::exec::worker;

/// How long a server may take to exit by itself.
const FAREWELL: Duration = Duration::from_millis(1500);

/// The memory limit of a host for a remote server; no answer should be larger.
const MEMORY: u64 = 4 * 1024 * 1024 * 1024;

#[derive(Default)]
pub struct Servers {
    hosts: Vec<HostProcess>,
}

struct HostProcess {
    server: McpServer,
    /// What the kernel lets it do. A call with other rights gets a server of its own.
    confinement: Option<Confinement>,
    folder: PrivateFolder,
    token: HostToken,
    /// The home of the server, deleted with it.
    _home: Option<PrivateFolder>,
    ear: StopListener,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.hosts.iter().map(|host| &host.server.id))
            .finish()
    }
}

impl Servers {
    /// Completes the job of a worker that calls a server's tool, starting the server if needed.
    ///
    /// Does nothing for other calls. `pins` is the folder of pinned definitions, `random` a number
    /// that cannot be guessed.
    pub fn attend(
        &mut self,
        invocation: &Invocation,
        prepared: &mut PreparedCall,
        machine: &Machine,
        pins: &Path,
        random: impl FnOnce() -> u128,
    ) -> Result<(), CallError> {
        let Action::Mcp(mcp) = &invocation.action else {
            return Ok(());
        };
        // The server is confined; the worker that calls it is piton's own.
        let confinement = prepared.work.confinement.take();
        let (folder, token) = self.meet(mcp, confinement, machine, random)?;
        let Work {
            program,
            argv,
            input,
            channel,
            ..
        } = worker::WorkerJob::Mcp(McpCallJob::new(mcp, pins, token)).work(&machine.program);
        let given = std::mem::take(&mut prepared.work);
        prepared.work = Work {
            program,
            argv,
            folder,
            input,
            channel,
            ..given
        };
        Ok(())
    }

    /// The folder and the token of the host for the server of a call. Starts the host if needed.
    fn meet(
        &mut self,
        mcp: &Mcp,
        confinement: Option<Confinement>,
        machine: &Machine,
        random: impl FnOnce() -> u128,
    ) -> Result<(PathBuf, HostToken), CallError> {
        let server = McpServer::of(mcp);
        // A host that exited has ended its server too.
        self.hosts.retain(HostProcess::is_there);
        if let Some(host) = self
            .hosts
            .iter()
            .find(|host| host.server == server && host.confinement == confinement)
        {
            return Ok(host.address());
        }
        let host = HostProcess::start(server, confinement, machine, HostToken::new(random()))?;
        let address = host.address();
        self.hosts.push(host);
        Ok(address)
    }

    /// The folders with the sockets of hosts: a process that could write there could answer in the
    /// place of a host.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.hosts.iter().map(|host| host.folder.path())
    }

    /// Ends all hosts and servers.
    pub fn end(&mut self) {
        self.hosts.iter().for_each(HostProcess::ask_to_end);
        let deadline = Instant::now() + FAREWELL;
        while self.hosts.iter().any(HostProcess::is_there) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
        // Supervisors kill the hosts that do not exit.
        self.hosts.iter().for_each(|host| host.ear.ring());
        for host in &mut self.hosts {
            if let Some(thread) = host.thread.take() {
                // The thread does not panic; even if it did, its supervisor ends with this process.
                let _ = thread.join();
            }
        }
        self.hosts.clear();
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.end();
    }
}

impl HostProcess {
    fn start(
        server: McpServer,
        confinement: Option<Confinement>,
        machine: &Machine,
        token: HostToken,
    ) -> Result<Self, CallError> {
        let folder = private_folder(machine)?;
        let mut prepared = server.clone();
        let home = prepared.prepare(machine)?;
        let limits = match &prepared.way {
            ServerTransport::Program { limits, .. } => *limits,
            ServerTransport::Address { .. } => ResourceLimits {
                memory: Some(MEMORY),
                ..ResourceLimits::default()
            },
        };
        let job = worker::WorkerJob::McpHost(Box::new(McpHostJob::new(prepared, token.clone())));
        let mut work = Work {
            folder: folder.path().to_path_buf(),
            channel: Channel::None,
            limits,
            confinement: confinement.clone(),
            kept: 64 * 1024,
            ..job.work(&machine.program)
        };
        work.environment
            .insert(MARK.into(), machine.run.clone().into());
        let supervisor = Supervisor::start(&machine.program)?;
        let mut interrupts = Interrupts::listen().map_err(SupervisorError::NotStarted)?;
        let ear = interrupts.ear();
        let run = move || {
            // The next caller notices that the host is gone.
            let _ = supervisor.run(&work, &mut interrupts, &mut |_, _| {});
        };
        let named = thread::Builder::new()
            .name("mcp-server".to_owned())
            .spawn(run);
        let thread = Some(named.map_err(SupervisorError::NotStarted)?);
        Ok(Self {
            server,
            confinement,
            folder,
            token,
            _home: home,
            ear,
            thread,
        })
    }

    /// Where callers reach it, and what they prove themselves with.
    fn address(&self) -> (PathBuf, HostToken) {
        (self.folder.path().to_path_buf(), self.token.clone())
    }

    fn is_there(&self) -> bool {
        self.thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
    }

    /// Asks the host to shut its server down; kills it if it cannot be asked.
    fn ask_to_end(&self) {
        if request_end(self.folder.path(), &self.token).is_none() {
            self.ear.ring();
        }
    }
}

fn request_end(folder: &Path, token: &HostToken) -> Option<()> {
    let mut stream = UnixStream::connect(folder.join(SOCKET)).ok()?;
    let mut lines = token.line();
    lines.extend(serde_json::to_vec(&Ask::End).ok()?);
    lines.push(b'\n');
    stream.write_all(&lines).ok()
}
