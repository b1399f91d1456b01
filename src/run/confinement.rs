//! Which isolation level a process gets on this machine, and what it may do at that level.
//!
//! The levels are given by the kernel. A level that was asked for and cannot be given is refused;
//! the default, `standard`, gives what the kernel has, and says what is missing.

mod narrowed;

use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use super::agent::AgentCommands;
use super::error::RunError;
use crate::context::Context;
use crate::exec::call;
use crate::exec::invocation::{Action, Invocation, McpTransport};
use crate::exec::isolation::{
    Confinement, MountView, NetworkView, SandboxSupport, Support, TcpRule, git_folders,
};
use crate::exec::subprocess::SubprocessError;
use crate::item::tool::Isolation;
use crate::journal::key::KEY_FILE;
use crate::policy::WriteRules;
use narrowed::NarrowedConfinement;

/// Sockets of the system, and folders with sockets, whose programs do what they are asked with more
/// rights than a tool has.
const SOCKETS: [&str; 15] = [
    "/run/docker.sock",
    "/run/docker",
    "/run/podman",
    "/run/containerd",
    "/run/crio",
    "/run/buildkit",
    "/run/lxd",
    "/var/lib/lxd/unix.socket",
    "/run/libvirt",
    "/run/dbus/system_bus_socket",
    "/run/systemd/private",
    "/run/snapd.socket",
    "/run/snapd-snap.socket",
    "/run/screen",
    "/tmp/.X11-unix",
];

/// The variable with the socket of the user's `ssh-agent`.
const SSH_AGENT: &str = "SSH_AUTH_SOCK";

/// Sockets of `gpg-agent` and its helpers in their folder.
const GNUPG_SOCKETS: [&str; 6] = [
    "S.gpg-agent",
    "S.gpg-agent.browser",
    "S.gpg-agent.extra",
    "S.gpg-agent.ssh",
    "S.keyboxd",
    "S.scdaemon",
];

/// An isolation level as given, and why it is weaker than the wanted one.
pub(super) type GivenIsolation = (Isolation, Option<String>);

/// Who wants an isolation level.
#[derive(Clone, Copy, Debug)]
pub(super) struct IsolationRequest<'r> {
    pub(super) level: Isolation,
    /// Whether it was asked for, and is not only the default.
    pub(super) is_asked: bool,
    pub(super) allow_degraded: bool,
    pub(super) process: IsolatedProcess,
    /// The tool or command, for messages.
    pub(super) subject: &'r str,
}

/// The weakest level that the settings allow for a process.
///
/// A worker runs no code of a tool: only the network is taken from it.
pub(super) fn minimum(ctx: &Context, process: IsolatedProcess) -> Isolation {
    match (ctx.config.isolation_minimum(), process) {
        (Isolation::Restricted, IsolatedProcess::Worker) => Isolation::Restricted,
        (Isolation::Sandboxed, IsolatedProcess::Worker)
        | (Isolation::Sandboxed | Isolation::Restricted, IsolatedProcess::Helper) => {
            Isolation::Standard
        }
        (minimum, _) => minimum,
    }
}

/// Why a process gets a higher level than it asks for; `None` if it does not.
pub fn raised_note(ctx: &Context, asked: Isolation, level: Isolation) -> Option<String> {
    (level > asked).then(|| {
        format!(
            "`{}` instead of `{}`: the setting `isolation.minimum` is `{}`",
            level.as_str(),
            asked.as_str(),
            ctx.config.isolation_minimum().as_str()
        )
    })
}

/// Which process does what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IsolatedProcess {
    /// A program that piton starts, and can confine.
    Program,
    /// A worker of piton, which makes a call of HTTP or to a remote server.
    Worker,
    /// A worker of piton, which runs the helper of a meta tool without files and network.
    Helper,
}

impl IsolationRequest<'_> {
    /// The level that a process gets on this machine.
    pub(super) fn given(self, ctx: &Context) -> Result<GivenIsolation, RunError> {
        if self.level == Isolation::Trusted {
            return Ok((Isolation::Trusted, None));
        }
        let support = support(ctx);
        let mut missing = support.missing();
        let is_sandbox = self.level > Isolation::Standard;
        if is_sandbox && self.process == IsolatedProcess::Program {
            missing.extend(missing_for_sandbox(ctx, self.level));
        }
        if missing.is_empty() && (!is_sandbox || self.process == IsolatedProcess::Program) {
            return Ok((self.level, None));
        }
        if self.is_asked && !self.allow_degraded {
            return Err(RunError::Sandbox {
                subject: self.subject.to_owned(),
                level: self.level,
                missing,
                network: None,
            });
        }
        let given = if support.writes {
            Isolation::Standard
        } else {
            Isolation::Trusted
        };
        let mut reasons = Vec::new();
        if is_sandbox && self.process != IsolatedProcess::Program {
            reasons.push(format!(
                "piton makes this call itself, outside of a sandbox; asked for is `{}`",
                self.level.as_str()
            ));
        }
        if !missing.is_empty() {
            reasons.push(format!(
                "the kernel does not prevent {}",
                missing.join(", ")
            ));
        }
        if self.is_asked {
            reasons.push("accepted by `--allow-degraded`".to_owned());
        }
        Ok((given, Some(reasons.join("; "))))
    }
}

/// What the processes of a call may do at a level; `None` means no limit by the kernel.
pub(super) fn of_call(
    ctx: &Context,
    invocation: &Invocation,
    writes: &WriteRules,
    given: Isolation,
    tcp: TcpRule,
) -> Option<NarrowedConfinement> {
    if given == Isolation::Trusted {
        return None;
    }
    let tcp = match &invocation.action {
        Action::Process(_) => tcp,
        // A server talks to its service; the grant that names the server allows that.
        Action::Mcp(mcp) if matches!(mcp.transport, McpTransport::Stdio(_)) => TcpRule::Any,
        // piton itself makes these calls, or a container engine confines them.
        Action::Mcp(_) | Action::Http(_) | Action::Meta(_) | Action::Container(_) => return None,
    };
    let script = invocation
        .action
        .program()
        .and_then(|process| process.script.as_ref());
    let folder = script.and_then(|script| script.path.parent());
    let mut confinement = standard(ctx, vec![ctx.root.clone()], tcp);
    // A tool that declares the variable may ask the agent.
    if let Some(socket) = invocation.action.environment().get(SSH_AGENT) {
        confinement.reveal(Path::new(&socket.value));
    }
    let confinement = raised(ctx, confinement, given, folder);
    Some(narrowed::narrow(ctx, confinement, writes))
}

/// What a command at the terminal may do at a level that its user asked for.
pub(super) fn of_command(ctx: &Context, given: Isolation) -> Option<Confinement> {
    (given != Isolation::Trusted).then(|| {
        let standard = standard(ctx, vec![ctx.root.clone()], TcpRule::Any);
        raised(ctx, standard, given, None)
    })
}

/// Refuses agent commands at a level that this machine cannot give.
pub(super) fn require_for_agents(ctx: &Context, agents: &AgentCommands) -> Result<(), RunError> {
    if agents.is_empty() {
        return Ok(());
    }
    let request = IsolationRequest {
        level: agents.isolation(),
        is_asked: true,
        allow_degraded: false,
        process: IsolatedProcess::Program,
        subject: "the agent command",
    };
    request.given(ctx).map(|_| ())
}

/// Refuses a program that a confined process would not see.
pub(super) fn require_visible(
    confinement: Option<&Confinement>,
    program: PathBuf,
) -> Result<(), SubprocessError> {
    if confinement.is_some_and(|confinement| confinement.hides(&program)) {
        return Err(SubprocessError::Hidden(program));
    }
    Ok(())
}

/// What a level above `standard` takes away: the home of the user, and at `restricted` the network.
/// The project, the folder of a script, git's folders and piton itself stay visible.
fn raised(
    ctx: &Context,
    confinement: Confinement,
    level: Isolation,
    script: Option<&Path>,
) -> Confinement {
    if level < Isolation::Sandboxed {
        return confinement;
    }
    let mut visible = git_folders(&ctx.root);
    // The project may be read-only.
    visible.extend([ctx.root.clone(), ctx.program.clone()]);
    visible.extend(script.map(Path::to_path_buf));
    let confinement = match &ctx.home {
        Some(home) => confinement.without_home(home, &visible),
        None => confinement,
    };
    if level < Isolation::Restricted {
        return confinement;
    }
    Confinement {
        tcp: TcpRule::Ports([].into()),
        network: NetworkView::Empty,
        ..confinement
    }
}

/// What this machine does not prevent at a level above `standard`.
fn missing_for_sandbox(ctx: &Context, level: Isolation) -> Vec<&'static str> {
    let mut missing = SandboxSupport::of_this_machine().missing(level);
    let home = ctx.home.as_ref().and_then(|home| home.canonicalize().ok());
    let works_in = [ctx.root.clone(), ctx.environment.temporary_folder()];
    let mut works_in = works_in.iter().filter_map(|path| path.canonicalize().ok());
    if home.is_some_and(|home| works_in.any(|folder| folder == home)) {
        missing.push("reading your home folder, which is the project or the temporary folder");
    }
    missing
}

/// What processes that help a call may do, such as parsers.
pub(super) fn of_helpers(ctx: &Context) -> Option<Confinement> {
    of_parser(ctx, Isolation::Standard)
}

/// What the parser of a call may do: it is at least as isolated as the call itself.
pub(super) fn of_parser(ctx: &Context, level: Isolation) -> Option<Confinement> {
    support(ctx).writes.then(|| {
        let confinement = standard(ctx, vec![ctx.root.clone()], TcpRule::Ports([].into()));
        raised(ctx, confinement, level, None)
    })
}

/// What the kernel does not prevent to the parser and the installers of a call, if it has any and the
/// call itself is not weaker than it should be.
pub(super) fn degraded_helpers(ctx: &Context, invocation: &Invocation) -> Option<String> {
    let missing = support(ctx).missing();
    let folders = [
        Some(ctx.root.as_path()),
        Some(&ctx.cwd),
        ctx.home.as_deref(),
    ];
    (!missing.is_empty() && call::has_helpers(invocation, folders)).then(|| {
        format!(
            "the kernel does not prevent {} by parsers and installers",
            missing.join(", ")
        )
    })
}

/// The level `standard`: writes below these folders and the temporary folder, but not into the git
/// directory, `.ai` or piton's own folders; no sockets of programs with more rights.
fn standard(ctx: &Context, mut writable: Vec<PathBuf>, tcp: TcpRule) -> Confinement {
    writable.push(ctx.environment.temporary_folder());
    let (view, guarded, hidden) = if support(ctx).mounts {
        (MountView::Own, guarded(ctx), hidden(ctx))
    } else {
        (MountView::Shared, Vec::new(), Vec::new())
    };
    let confinement = Confinement::new(&writable, &guarded, &hidden, view, tcp);
    match ctx.settings_folder().filter(|_| view == MountView::Own) {
        // With the key of journals, a tool could write lines in piton's name.
        Some(settings) => confinement.and_hidden(&settings.join(KEY_FILE)),
        None => confinement,
    }
}

/// Sockets through which a process could have other programs act for it.
fn hidden(ctx: &Context) -> Vec<PathBuf> {
    let user = geteuid().as_raw();
    let own = [
        PathBuf::from(format!("/run/user/{user}")),
        PathBuf::from(format!("/tmp/tmux-{user}")),
    ];
    let engines = ctx.home.iter().flat_map(|home| {
        [".docker/run", ".docker/desktop", ".colima", ".lima"].map(|folder| home.join(folder))
    });
    // The socket of the engine that the user has chosen.
    let chosen = ["DOCKER_HOST", "CONTAINER_HOST"]
        .into_iter()
        .filter_map(|name| {
            ctx.environment
                .find(name)?
                .to_str()?
                .strip_prefix("unix://")
        })
        .map(PathBuf::from);
    let system = SOCKETS.iter().map(PathBuf::from);
    let all = system.chain(own).chain(engines).chain(chosen);
    all.chain(agents(ctx)).collect()
}

/// Sockets of programs that hold the user's keys.
fn agents(ctx: &Context) -> Vec<PathBuf> {
    let folder = |name: &str| ctx.environment.find(name).map(PathBuf::from);
    let usual = ctx.home.as_ref().map(|home| home.join(".gnupg"));
    let gnupg = folder("GNUPGHOME").into_iter().chain(usual);
    let sockets = gnupg.flat_map(|folder| GNUPG_SOCKETS.map(|name| folder.join(name)));
    sockets.chain(folder(SSH_AGENT)).collect()
}

fn guarded(ctx: &Context) -> Vec<PathBuf> {
    let mut guarded = git_folders(&ctx.root);
    guarded.push(ctx.project_items());
    guarded.extend(ctx.state_folder().parent().map(Path::to_path_buf));
    guarded.extend(ctx.settings_folder());
    guarded
}

/// What the kernel of this machine enforces.
pub(super) fn support(ctx: &Context) -> Support {
    Support::of_this_machine(&ctx.environment.temporary_folder())
}
