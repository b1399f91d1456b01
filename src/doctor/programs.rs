//! The programs that tools and commands use.
//!
//! Interpreters are tested by calling a tool in a throw-away project, as `piton tool run` would;
//! other programs by running what piton needs from them.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::ProbeContext;
use super::probe::ProbeOutcome;
use crate::exec::interrupt::Interrupts;
use crate::exec::subprocess::{self, CommandLine};
use crate::exec::supervisor::{Stream, Supervisor};
use crate::item::directive::CheckpointMode;
use crate::item::finding::Strength;
use crate::item::store::{ItemStore, Roots};
use crate::item::wording::shown;
use crate::policy::Authority;
use crate::problem::{Problem, with_causes};
use crate::run::error::RunError;
use crate::run::session::{RunRequest, Session};
use crate::run::tool::{self, ToolPlanner, ToolRequest, ToolStep};

const PYTHON: &str = "def main(number: int) -> dict:\n    import platform\n    \
    return {\"answer\": number * 2, \"version\": platform.python_version()}\n";
const BASH: &str = "printf '{\"answer\": %s, \"version\": \"%s\"}\\n' \"$((PITON_PARAM_NUMBER * 2))\" \"$BASH_VERSION\"\n";
const NODE: &str = "const number = Number(process.env.PITON_PARAM_NUMBER);\n\
    console.log(JSON.stringify({answer: number * 2, version: process.version}));\n";

/// The git program. Checkpoints do not need it; remotes, hooks and filters do.
pub(super) fn git(around: &ProbeContext) -> ProbeOutcome {
    match probe_output(around, &["git", "--version"], b"") {
        Ok(version) if version.starts_with("git version ") => {
            ProbeOutcome::ok(version.trim_start_matches("git version ").to_owned())
        }
        answer => ProbeOutcome::missing(
            format!(
                "{}: `push`, `fetch`, `run --worktree`, hooks and signed commits do not work",
                answer.map_or_else(
                    |wrong| wrong,
                    |said| format!("`git --version` says `{said}`")
                )
            ),
            "install git; checkpoints themselves do not need it",
        ),
    }
}

/// A Python function as a tool.
pub(super) fn python(around: &ProbeContext) -> ProbeOutcome {
    called(
        around,
        ("python", "python_runtime", "main.py", PYTHON),
        "Python",
        "install Python 3 as `python3`",
    )
}

/// A bash script as a tool.
pub(super) fn bash(around: &ProbeContext) -> ProbeOutcome {
    called(
        around,
        ("bash", "bash_runtime", "main.sh", BASH),
        "bash",
        "install bash",
    )
}

/// A JavaScript file as a tool.
pub(super) fn node(around: &ProbeContext) -> ProbeOutcome {
    called(
        around,
        ("node", "node_runtime", "main.js", NODE),
        "JavaScript",
        "install Node.js as `node`",
    )
}

/// Calls a tool that doubles a number and reports its version.
fn called(
    around: &ProbeContext,
    tool: (&str, &str, &str, &str),
    language: &str,
    hint: &str,
) -> ProbeOutcome {
    let wrong = match call(around, tool) {
        Ok(Ok(value)) if value.get("answer").and_then(Value::as_i64) == Some(42) => {
            let version = value
                .get("version")
                .and_then(Value::as_str)
                .unwrap_or_default();
            return if around.own.search_path().is_empty() {
                let detail = format!(
                    "{}, found in a default folder: `PATH` is not set",
                    shown(version)
                );
                ProbeOutcome::warning(detail, "set `PATH`")
            } else {
                ProbeOutcome::ok(shown(version))
            };
        }
        Ok(Ok(value)) => format!("the tool answered {value}"),
        Ok(Err(message)) => message,
        Err(err) => with_causes(&err),
    };
    ProbeOutcome::missing(format!("{wrong}: tools in {language} do not run"), hint)
}

/// The result of a tool, or why it failed.
fn call(
    around: &ProbeContext,
    (name, runtime, entrypoint, source): (&str, &str, &str, &str),
) -> Result<Result<Value, String>, RunError> {
    let ctx = around.project(name)?;
    let folder = ctx.project_items().join("tools").join(name);
    let manifest = format!(
        "tool_id: {name}\ntool_type: script\nversion: \"1.0.0\"\ncategory: probes\ndescription: Doubles a number\n\
         executor: {runtime}\nmutates_state: false\nconfig:\n  entrypoint: {entrypoint}\n  timeout: {}\nparameters:\n  \
         - {{name: number, type: integer, required: true, description: The number}}\n",
        around.patient.limit.as_secs().max(1)
    );
    let written = fs::create_dir_all(&folder)
        .and_then(|()| fs::write(folder.join("tool.yaml"), manifest))
        .and_then(|()| fs::write(folder.join(entrypoint), source));
    written.map_err(RunError::Marker)?;
    let store = ItemStore::open(
        Roots {
            project: Some(ctx.root.clone()),
            user: None,
        },
        Strength::Lenient,
    );
    let request = ToolRequest {
        id: name.to_owned(),
        words: vec!["number=21".to_owned()],
        ..ToolRequest::default()
    };
    let planner = ToolPlanner {
        store: &store,
        authority: &Authority::Person,
    };
    let plan = tool::plan(&ctx, planner.store, &request, planner.authority)?;
    let supervisor = Supervisor::start(&ctx.program)?;
    let run = RunRequest {
        name: name.to_owned(),
        command: vec!["piton".to_owned(), "doctor".to_owned()],
        mode: CheckpointMode::Disabled,
        lock_timeout: Duration::ZERO,
        directive: None,
    };
    let mut silent = |_: &_| {};
    let mut session = Session::begin(&ctx, &run, &mut silent)?;
    let end = tool::call_tool(
        &mut session,
        ToolStep::new(name, &plan, planner, None),
        supervisor,
        &mut |_| {},
    )?;
    let error = end.end.error.as_ref().map(Problem::message);
    session.finish(end.end.run_status(), end.end.error)?;
    Ok(end
        .result
        .result
        .ok_or_else(|| error.unwrap_or_else(|| "the tool returned nothing".to_owned())))
}

/// Whether packages of Python tools can be installed.
pub(super) fn venv(around: &ProbeContext) -> ProbeOutcome {
    if let Some(version) = probe_output(around, &["uv", "--version"], b"")
        .ok()
        .filter(|said| said.starts_with("uv "))
    {
        return ProbeOutcome::ok(format!("made by {version}"));
    }
    let folder = around.workshop.join("venv");
    let made = probe_output(
        around,
        &[
            "python3",
            "-m",
            "venv",
            "--without-pip",
            &folder.to_string_lossy(),
        ],
        b"",
    );
    let works = made.and_then(|_| {
        probe_output(
            around,
            &[&folder.join("bin/python").to_string_lossy(), "-c", "pass"],
            b"",
        )
    });
    let hint = "install uv, or the venv module of Python (on Debian: `apt install python3-venv`)";
    match works.and_then(|_| probe_output(around, &["python3", "-c", "import ensurepip"], b"")) {
        Ok(_) => ProbeOutcome::ok("made by `python3 -m venv`, filled by pip; uv would be quicker"),
        Err(wrong) => ProbeOutcome::missing(
            format!("{wrong}: Python tools with `dependencies` do not run"),
            hint,
        ),
    }
}

/// Whether items can be signed by a key, and signatures checked.
pub(super) fn ssh_keygen(around: &ProbeContext) -> ProbeOutcome {
    let folder = around.workshop.join("keys");
    let hint = "install OpenSSH 8.2 or newer; integrity stamps do not need it";
    match sign_and_verify(around, &folder) {
        Ok(()) => {
            ProbeOutcome::ok("a key was made; it signed a text, and the signature was verified")
        }
        Err(wrong) => ProbeOutcome::missing(
            format!("{wrong}: authorship cannot be signed or checked"),
            hint,
        ),
    }
}

fn sign_and_verify(around: &ProbeContext, folder: &Path) -> Result<(), String> {
    let failed = |err: std::io::Error| err.to_string();
    fs::create_dir_all(folder).map_err(failed)?;
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let (key, text, signature, allowed) =
        (path("key"), path("text"), path("text.sig"), path("allowed"));
    fs::write(&text, "text\n").map_err(failed)?;
    let program = "ssh-keygen";
    probe_output(
        around,
        &[
            program, "-q", "-t", "ed25519", "-N", "", "-C", "probe", "-f", &key,
        ],
        b"",
    )?;
    probe_output(
        around,
        &[
            program,
            "-Y",
            "sign",
            "-f",
            &key,
            "-n",
            "piton-probe",
            &text,
        ],
        b"",
    )?;
    let public = crate::item::source::read_bytes(Path::new(&path("key.pub")), 4096)
        .map_err(|err| err.to_string())?;
    fs::write(&allowed, [b"probe ", public.as_slice()].concat()).map_err(failed)?;
    let verify = [
        program,
        "-Y",
        "verify",
        "-f",
        &allowed,
        "-I",
        "probe",
        "-n",
        "piton-probe",
        "-s",
        &signature,
    ];
    probe_output(around, &verify, b"text\n")?;
    match probe_output(around, &verify, b"another text\n") {
        Ok(_) => Err("it accepts the signature of another text".to_owned()),
        Err(_) => Ok(()),
    }
}

/// Whether Docker or Podman responds.
pub(super) fn containers(around: &ProbeContext) -> ProbeOutcome {
    let environment = &around.own.environment;
    let host = environment
        .find("DOCKER_HOST")
        .filter(|host| !host.is_empty());
    let of_variable = host.and_then(|it| it.to_str()?.strip_prefix("unix://").map(PathBuf::from));
    if let (Some(host), None) = (host, &of_variable) {
        let detail = format!(
            "`DOCKER_HOST` is `{}`; only sockets of this machine are used",
            shown(&host.to_string_lossy())
        );
        return ProbeOutcome::missing(
            detail,
            "set it to `unix:///path/to/the/socket`, or unset it",
        );
    }
    let runtime = environment.find("XDG_RUNTIME_DIR").map(PathBuf::from);
    let sockets = of_variable.map_or_else(
        || {
            let usual = ["/var/run/docker.sock", "/run/podman/podman.sock"]
                .map(PathBuf::from)
                .into_iter();
            let own = runtime
                .into_iter()
                .flat_map(|it| [it.join("docker.sock"), it.join("podman/podman.sock")]);
            usual.chain(own).collect()
        },
        |named| vec![named],
    );
    let found = sockets
        .into_iter()
        .find_map(|socket| Some((engine_at(&socket, around.patient.limit)?, socket)));
    match found {
        Some((engine, socket)) => {
            ProbeOutcome::ok(format!("{engine} answers at `{}`", socket.display()))
        }
        None => ProbeOutcome::missing(
            "neither Docker nor Podman responds: tools of type `docker` cannot run",
            "start Docker, or Podman with `systemctl --user start podman.socket`; set `DOCKER_HOST` to use another socket",
        ),
    }
}

/// The name of the engine that responds at a socket, if any.
fn engine_at(socket: &Path, limit: Duration) -> Option<&'static str> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(limit)).ok()?;
    stream.set_write_timeout(Some(limit)).ok()?;
    stream
        .write_all(b"GET /_ping HTTP/1.0\r\nHost: localhost\r\n\r\n")
        .ok()?;
    let mut answer = Vec::new();
    // The engine may keep the connection open after its answer.
    let _ = stream.take(4096).read_to_end(&mut answer);
    let head = String::from_utf8_lossy(&answer);
    let is_well = head.get(..12).is_some_and(|status| status.ends_with("200"));
    is_well.then(|| {
        if head.contains("Libpod") {
            "Podman"
        } else {
            "Docker"
        }
    })
}

/// The first line of a program's output if it succeeds, otherwise the error.
fn probe_output(around: &ProbeContext, words: &[&str], input: &[u8]) -> Result<String, String> {
    let name = words.first().copied().unwrap_or_default();
    let argv = words.iter().map(Into::into).collect();
    let mut environment = around.own.environment.variables().clone();
    environment.insert("LC_ALL".into(), "C".into());
    let mut command = CommandLine::new(argv, around.workshop.clone(), environment)
        .map_err(|err| with_causes(&err))?;
    command.timeout = Some(around.patient.limit);
    let mut interrupts = Interrupts::listen().map_err(|err| err.to_string())?;
    let mut errors = Vec::new();
    let mut hear = |stream: Stream, bytes: &[u8]| {
        if stream == Stream::Stderr && errors.len() < 4096 {
            errors.extend_from_slice(bytes);
        }
    };
    let ended =
        subprocess::converse::<RunError>(&command, input, &mut interrupts, |_| Ok(()), &mut hear);
    let ended = ended.map_err(|err| with_causes(&err))?;
    let first = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        text.lines()
            .map(str::trim)
            .find(|line| !line.is_empty())
            .map(shown)
            .unwrap_or_default()
    };
    match ended.outcome.exit_code {
        Some(0) => Ok(first(&ended.stdout.head)),
        _ if ended.outcome.timed_out => Err(format!(
            "`{name}` did not answer within {} s",
            around.patient.limit.as_secs()
        )),
        Some(code) if errors.is_empty() => Err(format!("`{name}` exited with status {code}")),
        _ => Err(format!("`{name}` failed: {}", first(&errors))),
    }
}
