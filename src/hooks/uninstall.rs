//! `piton hooks uninstall`.

use std::path::Path;

use super::change::Changes;
use super::error::HooksError;
use super::manager::Manager;
use super::record::Record;
use super::slot::{Found, Slot};
use super::stub::{Age, Stub};
use super::{Hook, HookReport, Report, State, chosen, site};
use crate::checkpoint::hook_site::HookSite;
use crate::context::Context;

/// What to do about one hook.
enum Plan {
    /// Remove the stub and restore the previous hook.
    Take(HookReport),
    /// Remove the second name that an interrupted installation left.
    Forget(HookReport),
    Leave(HookReport),
}

/// Removes stubs from the repository around the working folder, and restores the previous hooks.
pub fn uninstall(ctx: &Context, asked: &[Hook]) -> Result<Report, HooksError> {
    let site = site(ctx)?;
    let hooks = match asked {
        [] => Hook::ALL.to_vec(),
        asked => chosen(&site, asked),
    };
    let mut reports = take_all(&site.folder, &hooks)?;
    // Stubs stay in the default folder when `core.hooksPath` points elsewhere.
    let usual = site.usual_folder();
    if usual != site.folder {
        for found in take_all(&usual, &hooks)?.into_iter().filter(|found| found.state != State::NotInstalled) {
            reports.retain(|other| other.hook != found.hook || other.state != State::NotInstalled);
            reports.push(HookReport { detail: format!("in `{}`", usual.display()), ..found });
        }
        reports.sort_by_key(|report| report.hook);
    }
    forget(&site, &reports)?;
    if asked.is_empty() {
        // Leave out hooks that are not installed, unless they are the default ones.
        let defaults = chosen(&site, asked);
        reports.retain(|report| report.state != State::NotInstalled || defaults.contains(&report.hook));
    }
    Ok(Report { folder: site.folder.to_string_lossy().into_owned(), hooks: reports, snippets: Vec::new() })
}

fn take_all(folder: &Path, hooks: &[Hook]) -> Result<Vec<HookReport>, HooksError> {
    let look = || hooks.iter().map(|hook| plan(Slot::look(folder, *hook))).collect::<Vec<_>>();
    let mut plans = look();
    if plans.iter().any(|(_, plan)| !matches!(plan, Plan::Leave(_))) {
        let mut changes = Changes::begin(folder)?;
        plans = look();
        let done = plans.iter().try_for_each(|(slot, plan)| match plan {
            Plan::Take(_) => changes.take(slot),
            Plan::Forget(_) => Changes::forget(slot),
            Plan::Leave(_) => Ok(()),
        });
        match done {
            Ok(()) => changes.finish(),
            Err(err) => return Err(changes.undo(err)),
        }
    }
    Ok(plans.into_iter().map(|(_, Plan::Take(told) | Plan::Forget(told) | Plan::Leave(told))| told).collect())
}

fn plan(slot: Slot) -> (Slot, Plan) {
    let report = |state, detail: String| HookReport::new(slot.hook, state, detail);
    let refused = |detail: String, hint: String| Plan::Leave(report(State::Refused, detail).with_hint(hint));
    let (file, before) = (slot.file.display(), slot.before_file.display());
    let plan = match (&slot.now, &slot.before) {
        (Found::Stub(Stub { age: Age::Edited, .. }), _) => refused(
            "the stub was edited, and nothing of yours is removed".to_owned(),
            format!("take your lines out of `{file}`, remove it, and uninstall again"),
        ),
        (Found::Stub(stub), Found::Other(kept)) => {
            if stub.settings.before.as_deref() == Some(kept.fingerprint.as_str()) {
                Plan::Take(report(State::Restored, "the hook from before is in its place again".to_owned()))
            } else {
                refused(
                    format!("`{before}` is not the hook that was here before"),
                    format!(
                        "`piton hooks install --hook {}` takes it as it is now; then uninstall again",
                        slot.hook.name()
                    ),
                )
            }
        }
        (Found::Stub(stub), Found::Nothing) => match stub.settings.before {
            None => Plan::Take(report(State::Removed, String::new())),
            Some(_) => {
                Plan::Take(report(State::Removed, format!("the hook from before is gone: there is no `{before}`")))
            }
        },
        (Found::Stub(_), Found::Stub(_) | Found::Odd(_)) => {
            refused(format!("`{before}` is no hook that could be put back"), "move it away".to_owned())
        }
        // The user deleted the stub.
        (Found::Nothing, Found::Other(_)) => {
            Plan::Take(report(State::Restored, "the hook from before is in its place again".to_owned()))
        }
        // An installation was interrupted between its two steps.
        (Found::Other(now), Found::Other(kept)) if now.fingerprint == kept.fingerprint => {
            Plan::Forget(report(State::Restored, "the hook from before was still in its place".to_owned()))
        }
        (Found::Other(now), kept) => {
            let moved = slot.moved_stub();
            if moved.is_none() && matches!(kept, Found::Nothing) {
                Plan::Leave(report(State::NotInstalled, String::new()))
            } else {
                let manager = Manager::that_wrote(&now.text);
                let whose = manager.map_or("another hook", Manager::name);
                let left = moved.unwrap_or_else(|| slot.before_file.clone());
                let hint = match manager {
                    Some(manager) => format!("`{} uninstall` puts it back; then uninstall again", manager.name()),
                    None => format!("keep either that or `{file}`, and move the other away"),
                };
                refused(format!("{whose} has taken its place since; `{}` is left", left.display()), hint)
            }
        }
        _ => Plan::Leave(report(State::NotInstalled, String::new())),
    };
    (slot, plan)
}

/// Removes uninstalled hooks from the record, so that status no longer misses them.
fn forget(site: &HookSite, reports: &[HookReport]) -> Result<(), HooksError> {
    let mut record = Record::load(&site.common_dir);
    let before = record.hooks.len();
    for report in reports.iter().filter(|report| report.state != State::Refused) {
        record.hooks.remove(&report.hook);
    }
    if record.hooks.len() == before {
        return Ok(());
    }
    record.save().map_err(HooksError::unwritable(&site.common_dir.join("piton")))
}
