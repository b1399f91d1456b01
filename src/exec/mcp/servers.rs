//! The servers of one run: a host process for each, supervised like any tool.

use std::fmt;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{Ask, HostJob, Job, SOCKET, Server, Way};
use crate::context::stop::Ear;
use crate::exec::call::{CallError, Machine, Prepared, private_folder};
use crate::exec::interrupt::Interrupts;
use crate::exec::invocation::{Action, Invocation, Limits, Mcp};
use crate::exec::supervisor::{Channel, MARK, Supervisor, SupervisorError, Work};
use crate::exec::worker;

/// How long a server may take to exit by itself.
const FAREWELL: Duration = Duration::from_millis(1500);

/// The memory limit of a host for a remote server; no answer should be larger.
const MEMORY: u64 = 4 * 1024 * 1024 * 1024;

#[derive(Default)]
pub struct Servers {
    hosts: Vec<Host>,
}

struct Host {
    server: Server,
    folder: tempfile::TempDir,
    /// The home of the server, deleted with it.
    _home: Option<tempfile::TempDir>,
    ear: Ear,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.hosts.iter().map(|host| &host.server.id)).finish()
    }
}

impl Servers {
    /// Completes the job of a worker that calls a server's tool, starting the server if needed.
    ///
    /// Does nothing for other calls. `pins` is the folder of pinned definitions.
    pub fn attend(
        &mut self,
        invocation: &Invocation,
        prepared: &mut Prepared,
        machine: &Machine,
        pins: &Path,
    ) -> Result<(), CallError> {
        let Action::Mcp(mcp) = &invocation.action else { return Ok(()) };
        let folder = self.meet(mcp, machine)?;
        let Work { program, argv, input, channel, .. } = worker::Job::Mcp(Job::new(mcp, pins)).work(&machine.program);
        let given = std::mem::take(&mut prepared.work);
        prepared.work = Work { program, argv, folder, input, channel, ..given };
        Ok(())
    }

    /// The folder of the host for the server of a call. Starts the host if needed.
    fn meet(&mut self, mcp: &Mcp, machine: &Machine) -> Result<PathBuf, CallError> {
        let server = Server::of(mcp);
        // A host that exited has ended its server too.
        self.hosts.retain(Host::is_there);
        if let Some(host) = self.hosts.iter().find(|host| host.server == server) {
            return Ok(host.folder.path().to_path_buf());
        }
        let host = Host::start(server, machine)?;
        let folder = host.folder.path().to_path_buf();
        self.hosts.push(host);
        Ok(folder)
    }

    /// Ends all hosts and servers.
    pub fn end(&mut self) {
        self.hosts.iter().for_each(Host::ask_to_end);
        let deadline = Instant::now() + FAREWELL;
        while self.hosts.iter().any(Host::is_there) && Instant::now() < deadline {
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

impl Host {
    fn start(server: Server, machine: &Machine) -> Result<Self, CallError> {
        let folder = private_folder(machine)?;
        let mut prepared = server.clone();
        let home = prepared.prepare(machine)?;
        let limits = match &prepared.way {
            Way::Program { limits, .. } => *limits,
            Way::Address { .. } => Limits { memory: Some(MEMORY), ..Limits::default() },
        };
        let job = worker::Job::McpHost(Box::new(HostJob::new(prepared)));
        let mut work = Work {
            folder: folder.path().to_path_buf(),
            channel: Channel::None,
            limits,
            kept: 64 * 1024,
            ..job.work(&machine.program)
        };
        work.environment.insert(MARK.into(), machine.run.clone().into());
        let supervisor = Supervisor::start(&machine.program)?;
        let mut interrupts = Interrupts::listen().map_err(SupervisorError::NotStarted)?;
        let ear = interrupts.ear();
        let run = move || {
            // The next caller notices that the host is gone.
            let _ = supervisor.run(&work, &mut interrupts, &mut |_, _| {});
        };
        let named = thread::Builder::new().name("mcp-server".to_owned()).spawn(run);
        let thread = Some(named.map_err(SupervisorError::NotStarted)?);
        Ok(Self { server, folder, _home: home, ear, thread })
    }

    fn is_there(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Asks the host to shut its server down; kills it if it cannot be asked.
    fn ask_to_end(&self) {
        if said(self.folder.path()).is_none() {
            self.ear.ring();
        }
    }
}

fn said(folder: &Path) -> Option<()> {
    let mut stream = UnixStream::connect(folder.join(SOCKET)).ok()?;
    let mut line = serde_json::to_vec(&Ask::End).ok()?;
    line.push(b'\n');
    stream.write_all(&line).ok()
}
