//! Limits of a hook that guards a server: time and memory.
//!
//! What a push contains is chosen by the person who pushes. A check that needs more than its limits
//! refuses the push: libgit2 cannot be interrupted, so the check runs in a thread, and the process
//! ends without it. Memory is limited by the kernel; an allocation that fails ends the process.

use std::ffi::OsStr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{HookAnswer, HookCall};
use crate::error::Error;
use crate::exec::process;
use crate::problem::Code;

/// The variable with which an administrator changes the time limit, in seconds.
const TIME_LIMIT: &str = "PITON_PRE_RECEIVE_SECONDS";
const LONGEST: Duration = Duration::from_mins(2);
/// How much memory the process may take besides what its allocator reserves at the start, which is
/// about 1 GiB. Files that are mapped do not count.
const MORE_MEMORY: u64 = 512 * 1024 * 1024;

/// Runs a check within the limits.
pub(super) fn within(
    call: &HookCall<'_>,
    check: fn(&HookCall<'_>) -> Result<HookAnswer, Error>,
) -> Result<HookAnswer, Error> {
    let seconds = |text: &OsStr| text.to_str()?.parse().ok();
    let set = call.environment.find(TIME_LIMIT).map(seconds);
    let Some(limit) = set.map_or(Some(LONGEST), |set| set.map(Duration::from_secs)) else {
        let message = format!("`{TIME_LIMIT}` is not a number of seconds");
        let hint = "the administrator of the server has to correct or remove it";
        return Ok(HookAnswer::refused(Code::CheckTimedOut, message, hint));
    };
    limit_memory();
    let (arguments, input) = (call.arguments.to_vec(), call.input.to_vec());
    let (hook, environment) = (call.hook, call.environment.clone());
    let (sender, answer) = mpsc::channel();
    thread::spawn(move || {
        let answered = check(&HookCall {
            hook,
            arguments: &arguments,
            input: &input,
            environment: &environment,
        });
        // The receiver is gone after the time limit.
        let _ = sender.send(answered);
    });
    let (code, message) = match answer.recv_timeout(limit) {
        Ok(answered) => return answered,
        Err(RecvTimeoutError::Timeout) => (
            Code::CheckTimedOut,
            format!(
                "the push was not checked within {} seconds",
                limit.as_secs()
            ),
        ),
        Err(RecvTimeoutError::Disconnected) => (
            Code::CheckFailed,
            "the check of the push ended early".to_owned(),
        ),
    };
    let hint = format!(
        "push less at a time; the administrator of the server can set `{TIME_LIMIT}` for longer checks"
    );
    Ok(HookAnswer::refused(code, message, hint))
}

/// Lowers the limit of the process. If that fails, the limits of sizes still hold.
fn limit_memory() {
    let Some(most) = process::data_size().and_then(|now| now.checked_add(MORE_MEMORY)) else {
        return;
    };
    let Rlimit { current, maximum } = getrlimit(Resource::Data);
    let current = Some(current.map_or(most, |limit| limit.min(most)));
    let _ = setrlimit(Resource::Data, Rlimit { current, maximum });
}
