//! `piton hooks uninstall`.

use std::path::Path;

use super::change::Changes;
use super::error::HooksError;
use super::manager::Manager;
use super::record::HookRecord;
use super::slot::{Slot, SlotContent};
use super::stub::{Age, Stub};
use super::{Hook, HookReport, HookState, HooksReport, chosen, site};
use crate::checkpoint::hook_site::HookSite;
use crate::context::Context;

/// What to do about one hook.
enum UninstallPlan {
    /// Remove the stub and restore the previous hook.
    Take(HookReport),
    /// Remove the second name that an interrupted installation left.
    Forget(HookReport),
    Leave(HookReport),
}

/// Removes stubs from the repository around the working folder, and restores the previous hooks.
pub fn uninstall(ctx: &Context, asked: &[Hook]) -> Result<HooksReport, HooksError> {
    let site = site(ctx)?;
    let hooks = match asked {
        [] => Hook::ALL.to_vec(),
        asked => chosen(&site, asked),
    };
    let mut reports = take_all(&site.folder, &hooks)?;
    // Stubs stay in the default folder when `core.hooksPath` points elsewhere.
    let usual = site.usual_folder();
    if usual != site.folder {
        for found in take_all(&usual, &hooks)?
            .into_iter()
            .filter(|found| found.state != HookState::NotInstalled)
        {
            reports
                .retain(|other| other.hook != found.hook || other.state != HookState::NotInstalled);
            reports.push(HookReport {
                detail: format!("in `{}`", usual.display()),
                ..found
            });
        }
        reports.sort_by_key(|report| report.hook);
    }
    forget(&site, &reports)?;
    if asked.is_empty() {
        // Leave out hooks that are not installed, unless they are the default ones.
        let defaults = chosen(&site, asked);
        reports.retain(|report| {
            report.state != HookState::NotInstalled || defaults.contains(&report.hook)
        });
    }
    Ok(HooksReport {
        folder: site.folder.to_string_lossy().into_owned(),
        hooks: reports,
        snippets: Vec::new(),
    })
}

fn take_all(folder: &Path, hooks: &[Hook]) -> Result<Vec<HookReport>, HooksError> {
    let look = || {
        hooks
            .iter()
            .map(|hook| plan(Slot::look(folder, *hook)))
            .collect::<Vec<_>>()
    };
    let mut plans = look();
    if plans
        .iter()
        .any(|(_, plan)| !matches!(plan, UninstallPlan::Leave(_)))
    {
        let mut changes = Changes::begin(folder)?;
        plans = look();
        let done = plans.iter().try_for_each(|(slot, plan)| match plan {
            UninstallPlan::Take(_) => changes.take(slot),
            UninstallPlan::Forget(_) => Changes::forget(slot),
            UninstallPlan::Leave(_) => Ok(()),
        });
        match done {
            Ok(()) => changes.finish(),
            Err(err) => return Err(changes.undo(err)),
        }
    }
    Ok(plans
        .into_iter()
        .map(
            |(
                _,
                UninstallPlan::Take(told)
                | UninstallPlan::Forget(told)
                | UninstallPlan::Leave(told),
            )| told,
        )
        .collect())
}

fn plan(slot: Slot) -> (Slot, UninstallPlan) {
    let report = |state, detail: String| HookReport::new(slot.hook, state, detail);
    let refused = |detail: String, hint: String| {
        UninstallPlan::Leave(report(HookState::Refused, detail).with_hint(hint))
    };
    let (file, before) = (slot.file.display(), slot.before_file.display());
    let plan = match (&slot.now, &slot.before) {
        (
            SlotContent::Stub(Stub {
                age: Age::Edited, ..
            }),
            _,
        ) => refused(
            "the stub was edited, and piton does not remove your changes".to_owned(),
            format!("take your lines out of `{file}`, remove it, and uninstall again"),
        ),
        (SlotContent::Stub(stub), SlotContent::Other(kept)) => {
            if stub.settings.before.as_deref() == Some(kept.fingerprint.as_str()) {
                UninstallPlan::Take(report(
                    HookState::Restored,
                    "the previous hook was restored".to_owned(),
                ))
            } else {
                refused(
                    format!("`{before}` is not the previous hook"),
                    format!(
                        "`piton hooks install --hook {}` accepts it as it is now; then uninstall again",
                        slot.hook.name()
                    ),
                )
            }
        }
        (SlotContent::Stub(stub), SlotContent::Nothing) => match stub.settings.before {
            None => UninstallPlan::Take(report(HookState::Removed, String::new())),
            Some(_) => UninstallPlan::Take(report(
                HookState::Removed,
                format!("the previous hook is gone: there is no `{before}`"),
            )),
        },
        (SlotContent::Stub(_), SlotContent::Stub(_) | SlotContent::Odd(_)) => refused(
            format!("`{before}` is not a hook that can be restored"),
            "move it away".to_owned(),
        ),
        // The user deleted the stub.
        (SlotContent::Nothing, SlotContent::Other(_)) => UninstallPlan::Take(report(
            HookState::Restored,
            "the previous hook was restored".to_owned(),
        )),
        // An installation was interrupted between its two steps.
        (SlotContent::Other(now), SlotContent::Other(kept))
            if now.fingerprint == kept.fingerprint =>
        {
            UninstallPlan::Forget(report(
                HookState::Restored,
                "the previous hook was still in place".to_owned(),
            ))
        }
        (SlotContent::Other(now), kept) => {
            let moved = slot.moved_stub();
            if moved.is_none() && matches!(kept, SlotContent::Nothing) {
                UninstallPlan::Leave(report(HookState::NotInstalled, String::new()))
            } else {
                let left = moved.unwrap_or_else(|| slot.before_file.clone());
                let (detail, hint) = taken_place(&slot, Manager::that_wrote(&now.text), &left);
                refused(detail, hint)
            }
        }
        _ => UninstallPlan::Leave(report(HookState::NotInstalled, String::new())),
    };
    (slot, plan)
}

/// What is wrong, and a hint, if another hook has taken the place of the stub.
fn taken_place(slot: &Slot, manager: Option<Manager>, left: &Path) -> (String, String) {
    let whose = manager.map_or("another hook", Manager::name);
    let hint = match manager {
        Some(manager) => format!(
            "`{} uninstall` restores it; then uninstall again",
            manager.name()
        ),
        None => format!(
            "keep either that or `{}`, and move the other away",
            slot.file.display()
        ),
    };
    let detail = format!(
        "{whose} has taken its place since; `{}` is left",
        left.display()
    );
    (detail, hint)
}

/// Removes uninstalled hooks from the record, so that status no longer misses them.
fn forget(site: &HookSite, reports: &[HookReport]) -> Result<(), HooksError> {
    let mut record = HookRecord::load(&site.common_dir);
    let before = record.hooks.len();
    for report in reports
        .iter()
        .filter(|report| report.state != HookState::Refused)
    {
        record.hooks.remove(&report.hook);
    }
    if record.hooks.len() == before {
        return Ok(());
    }
    record
        .save()
        .map_err(HooksError::unwritable(&site.common_dir.join("piton")))
}
