//! The calls of a meta tool within one step.

use serde::Serialize;

use crate::journal::event::{Event, ToolCall};
use crate::journal::summary::StepStatus;
use crate::problem::Problem;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallRecord {
    /// From 1, within the step.
    pub number: u32,
    /// The call that made this one; `None` when the step itself did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<u32>,
    pub call: ToolCall,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// `None` while it runs, or when it was interrupted.
    pub status: Option<StepStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}

/// Applies an event about a call; returns false when it is about the step itself.
pub(super) fn take(calls: &mut Vec<CallRecord>, event: &Event) -> bool {
    match event {
        Event::CallStarted {
            number,
            within,
            call,
            ..
        } => calls.push(CallRecord {
            number: *number,
            within: *within,
            call: call.clone(),
            exit_code: None,
            status: None,
            error: None,
        }),
        Event::CallFinished {
            number,
            status,
            error,
            ..
        } => {
            if let Some(call) = calls.iter_mut().rev().find(|call| call.number == *number) {
                call.status = Some(*status);
                call.error.clone_from(error);
            }
        }
        // A process that ends while a call is open belongs to that call, or to the function behind
        // a nested one.
        Event::ToolFinished { exit_code, .. } => {
            let Some(open) = calls.iter_mut().rev().find(|call| call.status.is_none()) else {
                return false;
            };
            open.exit_code = *exit_code;
        }
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_belong_to_the_newest_call_that_is_open() {
        let mut calls = Vec::new();
        let begin = |number, within| Event::CallStarted {
            step: 1,
            number,
            within,
            call: ToolCall {
                external: number == 2,
                ..ToolCall::unresolved("t", None)
            },
        };
        let ended = |exit_code| Event::ToolFinished {
            step: 1,
            exit_code: Some(exit_code),
            signal: None,
            duration_ms: 1,
            timed_out: false,
            stdout: None,
            stderr: None,
            leftovers: 0,
            git_changed: Vec::new(),
        };
        let done = |number| Event::CallFinished {
            step: 1,
            number,
            status: StepStatus::Succeeded,
            error: None,
        };
        assert!(!take(&mut calls, &ended(9)), "the function itself");
        let told = [
            begin(1, None),
            ended(0),
            begin(2, Some(1)),
            ended(3),
            done(2),
            ended(0),
            done(1),
        ];
        assert!(told.iter().all(|event| take(&mut calls, event)));
        assert!(!take(&mut calls, &ended(9)), "the function again");
        let found: Vec<_> = calls
            .iter()
            .map(|call| (call.number, call.within, call.exit_code, call.status))
            .collect();
        let succeeded = Some(StepStatus::Succeeded);
        assert_eq!(
            found,
            [
                (1, None, Some(0), succeeded),
                (2, Some(1), Some(3), succeeded)
            ]
        );
        assert!(calls.iter().any(|call| call.call.external));
    }
}
