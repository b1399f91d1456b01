//! `piton hooks install`.

use std::path::PathBuf;

use super::change::Changes;
use super::error::HooksError;
use super::manager::Charge;
use super::record::HookRecord;
use super::slot::{Slot, SlotContent};
use super::snippet::{Snippet, snippets};
use super::stub::{self, Age, FailureMode, Stub, StubSettings};
use super::{Hook, HookReport, HookState, HooksReport, chosen, program, site};
use crate::checkpoint::hook_site::{HookSite, is_executable};
use crate::context::Context;

/// What to do about one hook.
enum InstallPlan {
    Write {
        slot: Slot,
        text: Vec<u8>,
        done: HookReport,
    },
    /// Another hook manager or a shared folder owns the hook.
    Delegate {
        slot: Slot,
        charge: Charge,
    },
    Leave(HookReport),
}

/// Installs stubs in the repository around the working folder: every possible one, or none if a
/// write fails.
pub fn install(ctx: &Context, asked: &[Hook]) -> Result<HooksReport, HooksError> {
    let site = site(ctx)?;
    let hooks = chosen(&site, asked);
    let program = program(ctx);
    let look = || -> Vec<InstallPlan> {
        hooks
            .iter()
            .map(|hook| plan(&site, *hook, ctx, program.as_ref()))
            .collect()
    };
    let mut plans = look();
    if plans
        .iter()
        .any(|plan| matches!(plan, InstallPlan::Write { .. }))
    {
        let mut changes = Changes::begin(&site.folder)?;
        // Plan again under the lock: another process may have changed a hook since the first plan.
        plans = look();
        match write(&plans, &site, &mut changes) {
            Ok(()) => changes.finish(),
            Err(err) => return Err(changes.undo(err)),
        }
    }
    Ok(report(&site, plans))
}

fn plan(site: &HookSite, hook: Hook, ctx: &Context, program: Option<&PathBuf>) -> InstallPlan {
    let slot = Slot::look(&site.folder, hook);
    let charge = Charge::of(site, &slot);
    // An installed stub stays ours even if another hook manager was added later.
    if charge != Charge::Free && slot.stub().is_none() {
        return InstallPlan::Delegate { slot, charge };
    }
    let refused = |detail: String, hint: String| {
        InstallPlan::Leave(HookReport::new(hook, HookState::Refused, detail).with_hint(hint))
    };
    let (state, detail) = match (&slot.now, &slot.before) {
        (SlotContent::Odd(reason), _) => {
            return refused(
                format!("something else is in its place: {reason}"),
                format!("look at `{}`, and move it away", slot.file.display()),
            );
        }
        (_, SlotContent::Odd(_) | SlotContent::Stub(_)) => {
            return refused(
                format!("`{}` is not a runnable hook", slot.before_file.display()),
                "move it away".to_owned(),
            );
        }
        (
            SlotContent::Stub(Stub {
                age: Age::Edited, ..
            }),
            _,
        ) => {
            return refused(
                "the stub was edited, and piton does not overwrite your changes".to_owned(),
                format!(
                    "move your lines into `{}`, which runs first, and remove `{}`",
                    slot.before_file.display(),
                    slot.file.display()
                ),
            );
        }
        (SlotContent::Other(now), SlotContent::Other(kept))
            if now.fingerprint != kept.fingerprint =>
        {
            return refused(
                format!(
                    "there is a hook, and another one in `{}`",
                    slot.before_file.display()
                ),
                "keep one of them: move the other away".to_owned(),
            );
        }
        (SlotContent::Stub(_), _) => (HookState::Updated, String::new()),
        (SlotContent::Other(_), _) | (SlotContent::Nothing, SlotContent::Other(_)) => (
            HookState::Installed,
            format!("the hook in `{}` runs first", slot.before_file.display()),
        ),
        (SlotContent::Nothing, SlotContent::Nothing) => (HookState::Installed, String::new()),
    };
    let kept = if slot.stub().is_some() {
        None
    } else {
        slot.now.fingerprint()
    };
    let settings = StubSettings {
        program: program.cloned(),
        failure: FailureMode::of(hook, ctx),
        before: kept
            .or_else(|| slot.before.fingerprint())
            .map(str::to_owned),
    };
    let text = stub::render(hook, &settings);
    if slot.stub().is_some_and(|stub| stub.text == text) && is_executable(&slot.file) {
        return InstallPlan::Leave(HookReport::new(hook, HookState::Unchanged, ""));
    }
    InstallPlan::Write {
        slot,
        text,
        done: HookReport::new(hook, state, detail),
    }
}

fn write(plans: &[InstallPlan], site: &HookSite, changes: &mut Changes) -> Result<(), HooksError> {
    // First do everything that can fail for lack of permission or disk space.
    let mut drafts = Vec::new();
    let mut record = HookRecord::load(&site.common_dir);
    for plan in plans {
        if let InstallPlan::Write { slot, text, .. } = plan {
            drafts.push((slot, changes.draft(text)?));
            record.hooks.insert(slot.hook);
        }
    }
    record
        .save()
        .map_err(HooksError::unwritable(&site.common_dir.join("piton")))?;
    for (slot, draft) in drafts {
        changes.put(slot, draft)?;
    }
    Ok(())
}

fn report(site: &HookSite, plans: Vec<InstallPlan>) -> HooksReport {
    let mut hooks = Vec::new();
    let mut asked: Vec<(Charge, Vec<(Hook, PathBuf)>)> = Vec::new();
    for plan in plans {
        hooks.push(match plan {
            InstallPlan::Write { done, .. } | InstallPlan::Leave(done) => done,
            InstallPlan::Delegate { slot, charge } => {
                let told = delegated(&slot, &charge);
                if told.state != HookState::Delegated {
                    let entry = (slot.hook, charge.file(&slot));
                    match asked.iter_mut().find(|(other, _)| *other == charge) {
                        Some((_, entries)) => entries.push(entry),
                        None => asked.push((charge, vec![entry])),
                    }
                }
                told
            }
        });
    }
    let snippets: Vec<Snippet> = asked
        .iter()
        .flat_map(|(charge, hooks)| snippets(charge, hooks))
        .collect();
    HooksReport {
        folder: site.folder.to_string_lossy().into_owned(),
        hooks,
        snippets,
    }
}

/// Reports on a hook that another manager or a shared folder owns.
fn delegated(slot: &Slot, charge: &Charge) -> HookReport {
    let calls = charge.calls_piton(slot);
    if calls && charge.is_reached(slot) {
        let detail = format!("`{}` calls piton", charge.file(slot).display());
        return HookReport::new(slot.hook, HookState::Delegated, detail);
    }
    let refused = HookReport::new(
        slot.hook,
        HookState::Refused,
        format!("nothing was written: {}", charge.reason()),
    );
    match charge {
        Charge::Off => refused.with_hint(
            "`git config --unset core.hooksPath`, where it is set, switches hooks on again",
        ),
        _ => refused,
    }
}
