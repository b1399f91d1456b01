//! `piton hooks status`: the state of each hook, and what needs attention.

use std::path::Path;

use super::error::HooksError;
use super::manager::{Charge, Manager};
use super::record::HookRecord;
use super::slot::{Slot, SlotContent};
use super::snippet::snippets;
use super::stub::{Age, FailureMode, Stub};
use super::{Hook, HookReport, HookState, HooksReport, chosen, program, site};
use crate::checkpoint::hook_site::{HookSite, is_executable};
use crate::context::Context;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HooksSummary {
    /// Every requested hook is in force.
    Well,
    /// No hook was ever requested.
    Nothing,
    Attention,
}

/// Reports the hooks of the repository around the working folder: those in `asked`, or all known
/// ones if it is empty.
pub fn status(ctx: &Context, asked: &[Hook]) -> Result<HooksReport, HooksError> {
    let site = site(ctx)?;
    let record = HookRecord::load(&site.common_dir);
    let hooks = match asked {
        [] => {
            let usual = chosen(&site, asked);
            let there = |hook: &Hook| {
                record.hooks.contains(hook) || Slot::look(&site.folder, *hook).stub().is_some()
            };
            Hook::ALL
                .into_iter()
                .filter(|hook| usual.contains(hook) || there(hook))
                .collect()
        }
        asked => chosen(&site, asked),
    };
    let hooks = hooks
        .into_iter()
        .map(|hook| look(ctx, &site, &record, hook))
        .collect();
    Ok(HooksReport {
        folder: site.folder.to_string_lossy().into_owned(),
        hooks,
        snippets: Vec::new(),
    })
}

/// Sums up a report. An absent hook needs attention when it was asked for by name or when no hook
/// is installed at all.
pub fn summary(report: &HooksReport, asked: &[Hook]) -> HooksSummary {
    let absent = |report: &HookReport| report.state == HookState::NotInstalled;
    if report
        .hooks
        .iter()
        .any(|hook| !hook.state.is_well() && !absent(hook))
    {
        return HooksSummary::Attention;
    }
    match report.hooks.iter().filter(|hook| absent(hook)).count() {
        0 => HooksSummary::Well,
        missing if missing == report.hooks.len() => HooksSummary::Nothing,
        _ if asked.is_empty() => HooksSummary::Well,
        _ => HooksSummary::Attention,
    }
}

fn look(ctx: &Context, site: &HookSite, record: &HookRecord, hook: Hook) -> HookReport {
    let slot = Slot::look(&site.folder, hook);
    if let Some(stub) = slot.stub() {
        return installed(ctx, &slot, stub);
    }
    let charge = Charge::of(site, &slot);
    let report = |state, detail: String| HookReport::new(hook, state, detail);
    if charge.calls_piton(&slot) {
        let file = charge.file(&slot);
        if charge.is_reached(&slot) {
            return report(
                HookState::Delegated,
                format!("`{}` calls piton", file.display()),
            );
        }
        let not_reached = report(
            HookState::NotReached,
            format!(
                "`{}` would call piton, but git does not run it",
                file.display()
            ),
        );
        let then = snippets(&charge, &[(hook, file.clone())])
            .into_iter()
            .find_map(|snippet| snippet.then);
        return not_reached.with_hint(format!(
            "run `{}`",
            then.unwrap_or_else(|| format!("chmod +x '{}'", file.display()))
        ));
    }
    if let Some(detail) = replaced(site, record, &slot, &charge) {
        let replaced = report(HookState::Replaced, detail);
        return replaced
            .with_hint("`piton hooks install` restores it, or shows what to write instead");
    }
    let detail = if charge == Charge::Free {
        String::new()
    } else {
        charge.reason()
    };
    report(HookState::NotInstalled, detail)
}

/// Describes what has replaced a stub that used to be there.
fn replaced(site: &HookSite, record: &HookRecord, slot: &Slot, charge: &Charge) -> Option<String> {
    let moved = slot.moved_stub();
    let elsewhere = site.usual_folder() != site.folder
        && Slot::look(&site.usual_folder(), slot.hook).stub().is_some();
    let kept = matches!(slot.before, SlotContent::Other(_)).then(|| slot.before_file.display());
    if moved.is_none() && !elsewhere && kept.is_none() && !record.hooks.contains(&slot.hook) {
        return None;
    }
    let by = match (&slot.now, charge) {
        (_, Charge::Manager(Manager::Husky, _)) => "husky is in its place".to_owned(),
        (_, Charge::EveryRepository | Charge::WorkTree | Charge::Off) => {
            format!("git looks elsewhere: {}", charge.reason())
        }
        (SlotContent::Other(other), _) => match Manager::that_wrote(&other.text) {
            Some(manager) => format!("{} is in its place", manager.name()),
            None => "another hook is in its place".to_owned(),
        },
        _ => "the stub is gone".to_owned(),
    };
    let rest = match (moved, kept) {
        (Some(moved), _) if moved.extension().is_some_and(|ending| ending == "legacy") => {
            format!(
                "; it runs `{}`, which is the stub, as long as that is there",
                moved.display()
            )
        }
        (Some(moved), _) => format!("; the stub is left in `{}`", moved.display()),
        (None, Some(kept)) => format!("; the previous hook is still in `{kept}`"),
        (None, None) => String::new(),
    };
    Some(format!("{by}{rest}"))
}

/// Reports on a stub that is in its place.
fn installed(ctx: &Context, slot: &Slot, stub: &Stub) -> HookReport {
    let report = |state, detail: String| HookReport::new(slot.hook, state, detail);
    let again = format!(
        "`piton hooks install --hook {}` updates it",
        slot.hook.name()
    );
    match stub.age {
        Age::Edited => {
            let hint = format!(
                "remove `{}` and install again, if this is unintended",
                slot.file.display()
            );
            return report(HookState::Edited, "the stub was edited".to_owned()).with_hint(hint);
        }
        Age::Other => {
            return report(
                HookState::Outdated,
                "another version of piton made the stub".to_owned(),
            )
            .with_hint(again);
        }
        Age::Current => {}
    }
    if !is_executable(&slot.file) {
        return report(
            HookState::Edited,
            "git does not run it: it is not executable".to_owned(),
        )
        .with_hint(again);
    }
    if let Some((state, detail)) = changed_before(slot, stub) {
        return report(state, detail).with_hint(again);
    }
    if let Some(missing) = stub
        .settings
        .program
        .as_deref()
        .filter(|file| !is_executable(file))
    {
        let detail = format!(
            "there is no `{}`, so `piton` on the search path is used",
            missing.display()
        );
        return report(HookState::ProgramMissing, detail).with_hint(again);
    }
    if let Some(detail) = other_failure_mode(ctx, slot, stub) {
        return report(HookState::SettingDiffers, detail).with_hint(again);
    }
    let before = slot.before_file.display();
    let mut detail = stub
        .settings
        .before
        .iter()
        .map(|_| format!("`{before}` runs first"))
        .collect::<Vec<_>>();
    let own = program(ctx);
    if let Some(other) = stub
        .settings
        .program
        .as_deref()
        .filter(|file| Some(*file) != own.as_deref())
    {
        detail.push(format!("runs `{}`", Path::display(other)));
    }
    report(HookState::Installed, detail.join("; "))
}

/// How the hook that runs first differs from the one that was there at the installation.
fn changed_before(slot: &Slot, stub: &Stub) -> Option<(HookState, String)> {
    let before = slot.before_file.display();
    match (&stub.settings.before, &slot.before) {
        (Some(_), SlotContent::Nothing) => Some((
            HookState::BeforeMissing,
            format!("`{before}` is gone, so it no longer runs"),
        )),
        (Some(known), found) if found.fingerprint() != Some(known) => Some((
            HookState::BeforeEdited,
            format!("`{before}` was edited; it is run as it is now"),
        )),
        (None, SlotContent::Nothing) | (Some(_), _) => None,
        (None, _) => Some((
            HookState::BeforeEdited,
            format!("`{before}` is new; it runs first"),
        )),
    }
}

/// What the stub does without piton, if the settings want something else.
fn other_failure_mode(ctx: &Context, slot: &Slot, stub: &Stub) -> Option<String> {
    let setting = FailureMode::of(slot.hook, ctx);
    if setting == stub.settings.failure {
        return None;
    }
    let does = if setting == FailureMode::Open {
        "stops git"
    } else {
        "lets git go on"
    };
    Some(if slot.hook.is_guard() {
        format!("without piton it {does}; on a server it must stop git")
    } else {
        format!("without piton it {does}, unlike the setting `hooks.fail_closed`")
    })
}
