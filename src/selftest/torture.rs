//! Kills piton at random moments, and edits files during steps.

use std::time::{Duration, Instant};

use super::checkpoint::Picture;
use super::lab::Lab;
use super::machine::Attribution;
use super::{SelfTest, SelftestCheck};
use crate::exec::supervisor::Watch;
use crate::run::error::RunError;

/// A step that edits, creates and removes files. `$ROUND` is its number, `$END` its exit code.
const STEP: &str = "mkdir -p step/d; echo \"$ROUND\" >> step/a.txt; echo \"$ROUND\" > \"step/d/$ROUND.txt\"; \
     rm -f step/d/last.txt; echo \"$ROUND\" > step/d/last.txt; exit \"$END\"";

/// Kills piton with SIGKILL after a delay.
const KILL: &str = "\"$PITON\" $WORDS > /dev/null 2>&1 & killed=$!
    sleep \"$AFTER\"; kill -9 $killed 2> /dev/null; wait $killed 2> /dev/null; exit 0";

const EXEC: &str = "\"$PITON\" exec -- sh -c \"$STEP\" > /dev/null 2>&1 & killed=$!
    sleep \"$AFTER\"; kill -9 $killed 2> /dev/null; wait $killed 2> /dev/null; exit 0";

/// Runs steps while a user appends to a file.
const COMPANY: &str =
    "\"$PITON\" exec -- sh -c 'for i in 1 2 3 4 5; do echo $i >> step/beside.txt; sleep 0.02; done; exit '\"$END\" \
     > ../tmp/said 2>&1 & step=$!; count=0
    while kill -0 $step 2> /dev/null; do echo \"$count\" >> live.txt; count=$((count + 1)); sleep 0.005; done
    wait $step; echo \"$? $count\"";

/// How many steps run beside the user.
const ROUNDS: u32 = 6;

/// Pseudo-random numbers from a seed (`SplitMix64`).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below.max(1)
    }

    /// A random part of a duration, as an argument of `sleep`.
    fn moment(&mut self, longest: Duration) -> String {
        let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        let micros = self.roll(micros);
        format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
    }
}

/// Kills piton during steps, and every third time during the recovery too; returns the number of
/// kills.
pub(super) fn kills(
    lab: &mut Lab,
    asked: &SelfTest,
    tell: &mut dyn FnMut(Vec<SelftestCheck>),
) -> Result<u32, RunError> {
    let name = "kill and recovery";
    let mut dice = Dice(asked.seed);
    let start = Instant::now();
    let whole = lab.sh_with(
        "\"$PITON\" exec -- sh -c \"$STEP\"",
        &[("ROUND", "0"), ("END", "0"), ("STEP", STEP)],
        Watch::No,
    )?;
    let longest = start.elapsed();
    if whole.code != Some(0) {
        tell(vec![SelftestCheck::failed(name, whole.output_line())]);
        return Ok(0);
    }
    let (mut kills, mut committed) = (0, 0);
    for round in 1..=asked.kills {
        let before = Picture::of(lab)?;
        let is_failing = dice.roll(3) == 0;
        let (number, end) = (round.to_string(), if is_failing { "3" } else { "0" });
        let mut variables = vec![("ROUND", number.as_str()), ("END", end), ("STEP", STEP)];
        let after = dice.moment(longest);
        variables.push(("AFTER", &after));
        lab.sh_with(EXEC, &variables, Watch::No)?;
        kills += 1;
        if dice.roll(3) == 0 {
            let after = dice.moment(longest / 2);
            lab.sh_with(KILL, &[("WORDS", "recover"), ("AFTER", &after)], Watch::No)?;
            kills += 1;
        }
        let recovered = lab.sh("\"$PITON\" recover")?;
        let found = Picture::of(lab)?;
        let is_done = found.commits == before.commits + 1 && !is_failing;
        let right = if is_done {
            Picture {
                steps: after_round(&before, lab, round)?,
                commits: found.commits,
                ..before
            }
        } else {
            before
        };
        let wrong = match recovered.code {
            Some(0) => right.difference(&found),
            _ => Some("the recovery failed".to_owned()),
        };
        if let Some(wrong) = wrong {
            let detail = format!(
                "kill {kills}, after {after} s, seed {}: {wrong}: {}",
                asked.seed,
                recovered.output_line()
            );
            tell(vec![SelftestCheck::failed(name, detail)]);
            return Ok(kills);
        }
        committed += u32::from(is_done);
    }
    let detail = format!(
        "{kills} kills at random moments: {committed} steps were committed completely, the others rolled back"
    );
    tell(vec![SelftestCheck::ok(name, detail)]);
    Ok(kills)
}

/// The expected files of the steps after a committed round.
fn after_round(before: &Picture, lab: &mut Lab, round: u32) -> Result<String, RunError> {
    let is_whole = lab
        .read("step/a.txt")
        .is_some_and(|text| text.lines().last() == Some(&round.to_string()))
        && [format!("step/d/{round}.txt"), "step/d/last.txt".to_owned()]
            .iter()
            .all(|file| {
                lab.read(file)
                    .is_some_and(|text| text == format!("{round}\n"))
            });
    if is_whole {
        Ok(Picture::of(lab)?.steps)
    } else {
        Ok(before.steps.clone())
    }
}

/// Edits a file during steps: piton must neither commit it nor roll it back.
pub(super) fn company(
    lab: &mut Lab,
    attribution: Attribution,
    tell: &mut dyn FnMut(Vec<SelftestCheck>),
) -> Result<(), RunError> {
    let name = "concurrent edits";
    if attribution == Attribution::Impossible {
        tell(vec![SelftestCheck::limited(
            name,
            "not tried: piton cannot see which files a step touches",
            "see `attribution`",
        )]);
        return Ok(());
    }
    let mut edits = 0_usize;
    for round in 0..ROUNDS {
        let end = if round % 2 == 0 { "0" } else { "3" };
        let answer = lab.sh_with(COMPANY, &[("END", end)], Watch::No)?;
        let (code, count) = answer.stdout.trim().split_once(' ').unwrap_or_default();
        edits += count.parse::<usize>().unwrap_or_default();
        let lines = lab.read("live.txt").map_or(0, |text| text.lines().count());
        let is_committed = lab.sh("git ls-files --error-unmatch live.txt")?.code == Some(0);
        let wrong = match () {
            () if code != end => Some(format!("the step ended with {code} instead of {end}")),
            () if lines != edits => Some(format!(
                "{} of {edits} edits were lost",
                edits.abs_diff(lines)
            )),
            () if is_committed => {
                Some("an edit of the user was committed as the step's".to_owned())
            }
            () => None,
        };
        if let Some(wrong) = wrong {
            let said = lab.sh("cat ../tmp/said")?.stdout;
            tell(vec![SelftestCheck::failed(
                name,
                format!("{wrong}: {}", said.trim()),
            )]);
            return Ok(());
        }
    }
    tell(vec![SelftestCheck::ok(
        name,
        format!("{ROUNDS} steps beside {edits} edits of a file: none lost, none committed"),
    )]);
    Ok(())
}
