//! Hearing that the server is asked to stop.

use std::io;
use std::thread;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::exec::interrupt::Interrupts;

/// A token that is cancelled by SIGTERM, SIGINT or SIGHUP. Tools under way hear the signal by themselves;
/// this one is for the server, and keeps the signal from being its sudden death.
pub(super) fn signalled() -> io::Result<CancellationToken> {
    let mut interrupts = Interrupts::listen()?;
    let token = CancellationToken::new();
    let asked = token.clone();
    // Not joined: it sleeps until a signal comes, or until the process ends without one.
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        while interrupts.received().is_none() {
            if interrupts.sleep(Duration::from_hours(24)).is_err() {
                return;
            }
        }
        asked.cancel();
        // Listens on: a second signal must not end the process in the middle of the drain.
        loop {
            thread::park();
        }
    })?;
    Ok(token)
}
