//! The programs that take code from their command line.

/// A program, and where it expects code.
pub(super) struct Interpreter {
    names: &'static [&'static str],
    /// The letters of options before code.
    pub(super) code: &'static str,
    /// The letters of options before another value.
    pub(super) valued: &'static str,
    /// The long options before code.
    pub(super) long: &'static [&'static str],
    pub(super) operands: Operands,
}

/// What the arguments are that are not options.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    /// Of a shell: a script, or another program as in `busybox sh`.
    Shell,
    /// A script, and its arguments.
    Script,
    /// The same, where an option before code can be repeated.
    Repeated,
    /// The first is code unless an option had it; the others are files.
    Code,
    /// The first is something else; options and a program follow.
    Later,
    /// The first is a host; the others are a command for its shell.
    Remote,
    /// A command for a shell.
    Command,
    /// Neither code nor programs.
    None,
}

static INTERPRETERS: [Interpreter; 25] = [
    row(
        &[
            "sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "fish", "busybox",
        ],
        ("c", "oO"),
        &["command"],
        Operands::Shell,
    ),
    row(&["python", "pypy"], ("c", "WX"), &[], Operands::Script),
    row(
        &["node", "nodejs", "bun", "deno"],
        ("ep", "r"),
        &["eval", "print"],
        Operands::Script,
    ),
    row(
        &["perl", "ruby", "lua", "Rscript"],
        ("eE", "IM"),
        &["execute"],
        Operands::Repeated,
    ),
    row(&["php"], ("rBRE", "dzcS"), &["run"], Operands::Script),
    row(&["pwsh", "powershell"], ("cC", ""), &[], Operands::Script),
    row(
        &["awk", "gawk", "mawk", "nawk", "original-awk"],
        ("e", "Ffv"),
        &["source"],
        Operands::Code,
    ),
    row(
        &["sed", "gsed"],
        ("e", "fl"),
        &["expression"],
        Operands::Code,
    ),
    row(
        &["su", "runuser", "sg"],
        ("c", "gGsuw"),
        &["command", "session-command"],
        Operands::Later,
    ),
    row(&["flock"], ("c", "wE"), &["command"], Operands::Later),
    row(&["script"], ("c", "BEIOTmo"), &["command"], Operands::None),
    row(&["env"], ("S", "uC"), &["split-string"], Operands::Repeated),
    row(
        &["ssh"],
        ("", "BbcDEeFIiJLlmOopPQRSWw"),
        &[],
        Operands::Remote,
    ),
    row(&["watch"], ("", "nq"), &[], Operands::Command),
    row(&["parallel"], ("", "jaINnLPS"), &[], Operands::Command),
    row(
        &["rsync"],
        ("e", "fBTM"),
        &["rsh", "rsync-path"],
        Operands::None,
    ),
    row(&["git"], ("", ""), &[], Operands::None),
    row(
        &["tar", "gtar", "bsdtar"],
        ("IF", "CKNTVXbfgL"),
        &[
            "to-command",
            "checkpoint-action",
            "use-compress-program",
            "info-script",
            "rsh-command",
        ],
        Operands::None,
    ),
    row(
        &["make", "gmake"],
        ("E", "CIWfo"),
        &["eval"],
        Operands::None,
    ),
    row(&["scp", "sftp"], ("S", "DFJPXclo"), &[], Operands::None),
    row(&["npx", "npm"], ("c", "pw"), &["call"], Operands::None),
    row(
        &["psql", "vim", "vi", "nvim", "ex"],
        ("c", "SUdfhopuv"),
        &["command", "cmd"],
        Operands::None,
    ),
    row(
        &["emacs"],
        ("", "Lfl"),
        &["eval", "execute"],
        Operands::None,
    ),
    row(&["split"], ("", "abCln"), &["filter"], Operands::None),
    row(
        &["sort"],
        ("", "kotST"),
        &["compress-program"],
        Operands::None,
    ),
];

const fn row(
    names: &'static [&'static str],
    (code, valued): (&'static str, &'static str),
    long: &'static [&'static str],
    operands: Operands,
) -> Interpreter {
    Interpreter {
        names,
        code,
        valued,
        long,
        operands,
    }
}

/// The interpreter that an argument names, if any.
pub(super) fn find(word: &str) -> Option<(&'static str, &'static Interpreter)> {
    let name = word.rsplit('/').next().unwrap_or(word);
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.iter().find_map(|known| {
        let known_name = known.names.iter().find(|known| **known == name).copied()?;
        Some((known_name, known))
    })
}
