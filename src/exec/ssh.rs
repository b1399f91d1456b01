//! Runs the user's `ssh-keygen` to make and check SSH signatures.
//!
//! It handles agents, passphrases, hardware keys and the meaning of `allowed_signers`; [`Keygen`]
//! starts it with a minimal environment and explains its errors. It asks for a passphrase at the
//! terminal by itself. Everything to be checked is first written to a private folder, so that it
//! cannot change between reading and checking.

mod error;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use error::SshError;

use super::interrupt::Interrupts;
use super::private_folder::{PrivateFolder, PrivatePlaces, PrivateUse};
use super::subprocess::{
    CommandLine, Conversation, SubprocessError, converse, kept_folders, resolve,
};
use super::supervisor::Stream;
use crate::item::signature::author::{AuthorSignature, MAX_SIGNATURE, NAMESPACE};
use crate::item::source::read_bytes;

/// The variables needed to ask for a passphrase or a hardware key.
const FOR_SIGNING: [&str; 20] = [
    "HOME",
    "USER",
    "LOGNAME",
    "TERM",
    "TMPDIR",
    "TZ",
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "SSH_ASKPASS",
    "SSH_ASKPASS_REQUIRE",
    "SSH_SK_PROVIDER",
    "SSH_SK_HELPER",
    "SSH_PKCS11_HELPER",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "GPG_TTY",
    "KRB5CCNAME",
];
/// The variables needed for checking.
const FOR_CHECKING: [&str; 3] = ["HOME", "TMPDIR", "TZ"];
/// How long a person may take to enter a passphrase or touch a key.
const PATIENCE: Duration = Duration::from_mins(5);
const CHECKING: Duration = Duration::from_secs(20);
/// How many texts one process signs; a process asks for a passphrase once.
const AT_ONCE: usize = 500;
/// How many names of one key are tried.
const MOST_PRINCIPALS: usize = 32;
const PRIVATE: &[u8] = b"PRIVATE KEY-----";

/// Gets the messages of `ssh-keygen`, e.g. that a key wants to be touched.
pub type Talk<'t> = dyn FnMut(&str) + 't;

#[derive(Clone, Debug)]
pub struct Keygen {
    program: PathBuf,
    environment: BTreeMap<OsString, OsString>,
    /// The user's cache folder.
    cache: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verified {
    /// A trusted signer.
    By(String),
    /// No trusted signer for this time and purpose; with the program's message.
    ByNobody(String),
    /// A trusted key, but the signature is for another text.
    NotOfThisText,
}

impl Keygen {
    /// Finds the program. Relative folders of `PATH` and those that are not `trusted` are skipped:
    /// a project could put a program there that accepts every signature.
    pub fn find(
        variables: &BTreeMap<OsString, OsString>,
        cache: &Path,
        trusted: impl Fn(&Path) -> bool,
    ) -> Result<Self, SshError> {
        let path = variables
            .get(OsStr::new("PATH"))
            .cloned()
            .unwrap_or_default();
        let path = kept_folders(&path, |folder| folder.is_absolute() && trusted(folder));
        let program = resolve(OsStr::new("ssh-keygen"), &path, Path::new("/"));
        let program = program.map_err(|_| SshError::NoProgram)?;
        let mut environment = variables.clone();
        environment.insert("PATH".into(), path);
        Ok(Self {
            program,
            environment,
            cache: cache.to_path_buf(),
        })
    }

    /// Signs texts with a key, in order.
    pub fn sign(
        &self,
        key: &Path,
        texts: &[String],
        talk: &mut Talk<'_>,
    ) -> Result<Vec<String>, SshError> {
        check_key(key)?;
        let mut signatures = Vec::new();
        for texts in texts.chunks(AT_ONCE) {
            let folder = self.private_folder()?;
            let mut words: Vec<OsString> = ["-Y", "sign", "-q", "-n", NAMESPACE, "-f"]
                .map(OsString::from)
                .to_vec();
            words.push(key.into());
            for (number, text) in texts.iter().enumerate() {
                let file = folder.path().join(number.to_string());
                fs::write(&file, text)?;
                words.push(file.into());
            }
            let (ended, said) = self.run(words, b"", &FOR_SIGNING, PATIENCE, talk)?;
            if ended.outcome.interrupted {
                return Err(SshError::Interrupted);
            }
            if ended.outcome.timed_out {
                return Err(SshError::TooLong(PATIENCE));
            }
            if ended.outcome.exit_code != Some(0) {
                return Err(SshError::not_signed(key, &said));
            }
            for number in 0..texts.len() {
                let file = folder.path().join(format!("{number}.sig"));
                let bytes = read_bytes(&file, MAX_SIGNATURE)
                    .map_err(|_| SshError::not_signed(key, &said))?;
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let is_signature =
                    AuthorSignature::parse(&text).is_some_and(|made| made.namespace == NAMESPACE);
                signatures.push(
                    is_signature
                        .then_some(text)
                        .ok_or_else(|| SshError::not_signed(key, &said))?,
                );
            }
        }
        Ok(signatures)
    }

    /// Checks a signature against the trusted and the revoked keys.
    ///
    /// `names` are tried besides those that the program finds: it stops at the first line with the
    /// key, which may be for another purpose.
    pub fn verify(
        &self,
        signature: &str,
        text: &str,
        names: &[String],
        allowed: &[u8],
        revoked: Option<&[u8]>,
    ) -> Result<Verified, SshError> {
        let folder = self.private_folder()?;
        let file = |name: &str, content: &[u8]| -> Result<OsString, SshError> {
            let file = folder.path().join(name);
            fs::write(&file, content)?;
            Ok(file.into())
        };
        let signature = file("signature", signature.as_bytes())?;
        let allowed = file("allowed_signers", allowed)?;
        let revoked = revoked.map(|keys| file("revoked_keys", keys)).transpose()?;
        let words = |words: &[&OsStr]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let by_whom = words(&[
            "-Y".as_ref(),
            "find-principals".as_ref(),
            "-s".as_ref(),
            &signature,
            "-f".as_ref(),
            &allowed,
        ]);
        let (found, said) = self.check(by_whom, b"")?;
        if found.outcome.exit_code != Some(0) {
            return Ok(Verified::ByNobody(said));
        }
        let principals = String::from_utf8_lossy(&found.stdout.head).into_owned();
        let mut refusal = None;
        // Skip negated patterns (`!name`); they are not principals.
        let is_name = |name: &&str| !name.is_empty() && !name.starts_with('!');
        let mut tried = BTreeSet::new();
        let principals = principals.lines().chain(names.iter().map(String::as_str));
        for principal in principals
            .filter(is_name)
            .filter(|name| tried.insert(*name))
            .take(MOST_PRINCIPALS)
        {
            let mut verify = words(&[
                "-Y".as_ref(),
                "verify".as_ref(),
                "-n".as_ref(),
                NAMESPACE.as_ref(),
            ]);
            verify.extend(words(&[
                "-s".as_ref(),
                &signature,
                "-f".as_ref(),
                &allowed,
                "-I".as_ref(),
                principal.as_ref(),
            ]));
            if let Some(revoked) = &revoked {
                verify.extend(words(&["-r".as_ref(), revoked]));
            }
            let (verified, said) = self.check(verify, text.as_bytes())?;
            if verified.outcome.exit_code == Some(0) {
                return Ok(Verified::By(principal.to_owned()));
            }
            refusal = Some(said);
        }
        Ok(match refusal {
            Some(said) if said.contains("incorrect signature") => Verified::NotOfThisText,
            said => Verified::ByNobody(said.unwrap_or_default()),
        })
    }

    /// Whether a signature matches this text, no matter who made it.
    pub fn holds(&self, signature: &str, text: &str) -> Result<bool, SshError> {
        let folder = self.private_folder()?;
        let file = folder.path().join("signature");
        fs::write(&file, signature)?;
        let words = ["-Y", "check-novalidate", "-n", NAMESPACE, "-s"].map(OsString::from);
        let words = words.into_iter().chain([file.into()]).collect();
        let (ended, _) = self.check(words, text.as_bytes())?;
        Ok(ended.outcome.exit_code == Some(0))
    }

    fn private_folder(&self) -> io::Result<PrivateFolder> {
        let temporary = self.environment.get(OsStr::new("TMPDIR"));
        let places = PrivatePlaces {
            cache: &self.cache,
            temporary: temporary.map_or(Path::new("/tmp"), Path::new),
        };
        PrivateFolder::create_apart(places, PrivateUse::Signatures)
    }

    fn check(
        &self,
        words: Vec<OsString>,
        input: &[u8],
    ) -> Result<(Conversation, String), SshError> {
        let (ended, said) = self.run(words, input, &FOR_CHECKING, CHECKING, &mut |_| {})?;
        if ended.outcome.interrupted {
            return Err(SshError::Interrupted);
        }
        if ended.outcome.timed_out {
            return Err(SshError::TooLong(CHECKING));
        }
        if is_too_old(&said) {
            return Err(SshError::TooOld);
        }
        Ok((ended, said))
    }

    fn run(
        &self,
        words: Vec<OsString>,
        input: &[u8],
        variables: &[&str],
        patience: Duration,
        talk: &mut Talk<'_>,
    ) -> Result<(Conversation, String), SshError> {
        let kept = |name: &OsString| name == "PATH" || variables.iter().any(|known| name == *known);
        let mut environment: BTreeMap<OsString, OsString> = self
            .environment
            .iter()
            .filter(|(name, _)| kept(name))
            .map(|(n, v)| (n.clone(), v.clone()))
            .collect();
        // The program's messages are parsed in English only.
        environment.insert("LC_ALL".into(), "C".into());
        let argv = std::iter::once(self.program.clone().into())
            .chain(words)
            .collect();
        let mut command = CommandLine::new(argv, PathBuf::from("/"), environment)?;
        command.timeout = Some(patience);
        let mut interrupts = Interrupts::listen()?;
        let mut said = Vec::new();
        let mut on_output = |stream: Stream, bytes: &[u8]| {
            if stream == Stream::Stderr {
                said.extend_from_slice(bytes);
                talk(&String::from_utf8_lossy(bytes));
            }
        };
        let ended = converse::<SubprocessError>(
            &command,
            input,
            &mut interrupts,
            |_| Ok(()),
            &mut on_output,
        )?;
        Ok((ended, String::from_utf8_lossy(&said).into_owned()))
    }
}

/// Checks a key file first: most mistakes are made here.
pub fn check_key(key: &Path) -> Result<(), SshError> {
    let not_found = |source| SshError::NoKey {
        key: key.to_path_buf(),
        source,
    };
    let metadata = fs::metadata(key).map_err(not_found)?;
    if !metadata.is_file() {
        return Err(SshError::NotAKey(key.to_path_buf()));
    }
    let bytes = read_bytes(key, MAX_SIGNATURE).map_err(|err| not_found(io::Error::other(err)))?;
    if bytes.windows(PRIVATE.len()).any(|window| window == PRIVATE) {
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(SshError::OpenToOthers(key.to_path_buf()));
        }
        return Ok(());
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut words = text.split_ascii_whitespace();
    let is_public =
        words.next().is_some() && words.next().is_some_and(|word| word.starts_with("AAAA"));
    if is_public {
        Ok(())
    } else {
        Err(SshError::NotAKey(key.to_path_buf()))
    }
}

/// Whether the program is too old for this operation.
fn is_too_old(said: &str) -> bool {
    [
        "Unsupported operation for -Y",
        "unknown option",
        "illegal option",
        "invalid option",
    ]
    .iter()
    .any(|words| said.contains(words))
}
