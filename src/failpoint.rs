//! Points at which tests make piton die or fail. Release builds have none.
//!
//! The CLI arms one point with [`arm`]: `name` kills the process the first time it is reached,
//! `name:3` the third time, `name=error` and `name:3=error` make [`fail`] report a full disk
//! instead, `name=stop` stops the process until a test continues it. It is the lowest module,
//! because every other one has such points.

#[cfg(debug_assertions)]
pub use armed::{arm, fail, failpoint};
#[cfg(not(debug_assertions))]
pub use disarmed::{arm, fail, failpoint};

#[cfg(debug_assertions)]
mod armed {
    use std::ffi::OsStr;
    use std::io;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use rustix::process::{Signal, getpid, kill_process};

    static ARMED: OnceLock<Failpoint> = OnceLock::new();

    #[derive(Debug)]
    pub(super) struct Failpoint {
        name: String,
        /// The remaining passes, including the one that triggers.
        passes_left: AtomicU64,
        action: FailpointAction,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum FailpointAction {
        Kill,
        Error,
        Stop,
    }

    impl Failpoint {
        pub(super) fn parse(text: &str) -> Self {
            let (place, action) = match text.rsplit_once('=') {
                Some((place, "error")) => (place, FailpointAction::Error),
                Some((place, "stop")) => (place, FailpointAction::Stop),
                _ => (text, FailpointAction::Kill),
            };
            let numbered = place
                .rsplit_once(':')
                .and_then(|(name, pass)| Some((name, pass.parse().ok()?)));
            let (name, pass) = numbered.unwrap_or((place, 1));
            Self {
                name: name.to_owned(),
                passes_left: AtomicU64::new(pass),
                action,
            }
        }

        /// Whether this pass triggers; each call counts as a pass.
        pub(super) fn strikes(&self, name: &str, action: FailpointAction) -> bool {
            let here = self.name == name && self.action == action;
            here && self
                .passes_left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                    left.checked_sub(1)
                })
                .is_ok_and(|left| left == 1)
        }
    }

    /// Arms a point, once per process.
    pub fn arm(text: Option<&OsStr>) {
        if let Some(text) = text {
            ARMED.get_or_init(|| Failpoint::parse(&text.to_string_lossy()));
        }
    }

    /// Kills the process if this point is armed, or stops it with `=stop`.
    pub fn failpoint(name: &str) {
        if ARMED
            .get()
            .is_some_and(|armed| armed.strikes(name, FailpointAction::Stop))
        {
            let _ = kill_process(getpid(), Signal::STOP);
        }
        while ARMED
            .get()
            .is_some_and(|armed| armed.strikes(name, FailpointAction::Kill))
        {
            let _ = kill_process(getpid(), Signal::KILL);
        }
    }

    /// Fails like a full disk if this point is armed with `=error`.
    pub fn fail(name: &str) -> io::Result<()> {
        match ARMED.get() {
            Some(armed) if armed.strikes(name, FailpointAction::Error) => {
                Err(rustix::io::Errno::NOSPC.into())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(not(debug_assertions))]
mod disarmed {
    use std::ffi::OsStr;
    use std::io;

    #[inline]
    pub fn arm(_: Option<&OsStr>) {}

    #[inline]
    pub fn failpoint(_: &str) {}

    #[inline]
    pub fn fail(_: &str) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[cfg(debug_assertions)]
mod tests {
    use std::io;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::armed::{Failpoint, FailpointAction};
    use super::*;

    /// The passes, of five, at which a point triggers.
    fn struck(text: &str, name: &str, action: FailpointAction) -> Vec<u32> {
        let failpoint = Failpoint::parse(text);
        (1..=5)
            .filter(|_| failpoint.strikes(name, action))
            .collect()
    }

    #[test]
    fn a_place_strikes_once_at_its_pass() {
        assert_eq!(struck("a", "a", FailpointAction::Kill), [1]);
        assert_eq!(struck("a:3", "a", FailpointAction::Kill), [3]);
        assert_eq!(struck("a:3=error", "a", FailpointAction::Error), [3]);
        assert_eq!(struck("a:b:2", "a:b", FailpointAction::Kill), [2]);
        assert_eq!(struck("a:2=stop", "a", FailpointAction::Stop), [2]);
    }

    #[test]
    fn other_places_and_other_actions_are_unharmed() {
        assert!(struck("a", "b", FailpointAction::Kill).is_empty());
        assert!(struck("a", "a", FailpointAction::Error).is_empty());
        assert!(struck("a=error", "a", FailpointAction::Kill).is_empty());
        assert!(struck("a:0", "a", FailpointAction::Kill).is_empty());
    }

    #[test]
    fn an_armed_place_kills_or_fails_and_others_do_not() {
        const VARIABLE: &str = "PITON_FAILPOINT_CHILD";
        #[expect(clippy::disallowed_methods, reason = "the test starts itself again")]
        if let Some(armed) = std::env::var_os(VARIABLE) {
            arm(Some(&armed));
            failpoint("elsewhere");
            failpoint("here");
            let failed = fail("here").map_err(|err| err.kind());
            assert_eq!(failed, Err(io::ErrorKind::StorageFull));
            assert!(fail("here").is_ok());
            return;
        }
        #[expect(clippy::disallowed_methods, reason = "the test starts itself again")]
        let ends = |armed: &str| {
            let test = "failpoint::tests::an_armed_place_kills_or_fails_and_others_do_not";
            let mut command = Command::new(std::env::current_exe().unwrap());
            command
                .args(["--exact", test])
                .env(VARIABLE, armed)
                .output()
                .unwrap()
                .status
        };
        assert_eq!(ends("here").signal(), Some(9));
        assert!(ends("here=error").success());
    }
}
