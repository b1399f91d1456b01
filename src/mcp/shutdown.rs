//! Signals that ask the server to stop.

use std::io;
use std::thread;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::exec::interrupt::Interrupts;

/// Returns a token that SIGTERM, SIGINT or SIGHUP cancels, instead of the signal killing the
/// server. Running tools handle the signals themselves.
pub(super) fn signalled() -> io::Result<CancellationToken> {
    let mut interrupts = Interrupts::listen()?;
    let token = CancellationToken::new();
    let asked = token.clone();
    // Not joined: the thread sleeps until a signal arrives or the process ends.
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            while interrupts.received().is_none() {
                if interrupts.sleep(Duration::from_hours(24)).is_err() {
                    return;
                }
            }
            asked.cancel();
            // Keep listening: a second signal must not end the process during the drain.
            loop {
                thread::park();
            }
        })?;
    Ok(token)
}
