//! Kills at random moments. `scripts/torture` runs many of them.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::scene::{Picture, Scene};

/// System calls after which something of piton's has changed on disk.
const CALLS: [&str; 12] = [
    "openat",
    "write",
    "pwrite64",
    "rename",
    "renameat",
    "unlink",
    "unlinkat",
    "linkat",
    "link",
    "fsync",
    "fdatasync",
    "mkdir",
];

/// Without git: a killed git leaves locks that piton must not remove.
const WORK: &str = "echo new line >> edited.txt; mkdir -p new/deep; echo fresh > new/deep/n.txt; rm gone.txt; \
     chmod +x clean.txt; sed -i 's/^five/FIVE/' partly.txt; ln -sfn edited.txt link; mkdir hollow; rmdir void";

/// Pseudo-random numbers from a seed (`SplitMix64`).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how many rounds `scripts/torture` asks for"
)]
pub(crate) fn asked(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is a number"))
    })
}

/// Adds to a count that `scripts/torture` prints at the end, if it asks for counts.
#[expect(
    clippy::disallowed_methods,
    reason = "where `scripts/torture` collects its counts"
)]
pub(crate) fn tally(set: &str, number: u64) {
    if let Some(file) = std::env::var_os("PITON_TORTURE_COUNTS") {
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(file)
            .expect("the file of counts");
        file.write_all(format!("{number} {set}\n").as_bytes())
            .expect("a count");
    }
}

/// Kills piton at a random moment, or after a random system call.
fn strike(scene: &Scene, arguments: &[&str], longest: Duration, dice: &mut Dice) -> String {
    if asked("PITON_TORTURE_STRACE").is_some() && dice.roll(3) != 0 {
        let call = CALLS[usize::try_from(dice.roll(CALLS.len() as u64)).expect("a small number")];
        let inject = format!("inject={call}:signal=KILL:when={}", 1 + dice.roll(60));
        let mut command = scene
            .project
            .command_under("strace", ["-qq", "-o", "/dev/null", "-e", inject.as_str()]);
        command
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().expect("strace starts");
        return inject;
    }
    let longest = u64::try_from(longest.as_micros()).expect("a short time");
    let moment = Duration::from_micros(dice.roll(longest.max(1)));
    let mut command = scene.project.command(arguments);
    let mut piton = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("piton starts");
    sleep(moment);
    piton.kill().expect("a process to kill");
    piton.wait().expect("piton ends");
    format!("after {moment:?}")
}

fn kill_at_random(arguments: &[&str], rounds: u64, mut dice: Dice) {
    let scene = Scene::new();
    scene.save();
    let before = scene.picture();
    let started = Instant::now();
    scene.project.piton(arguments);
    let longest = started.elapsed();
    let pictures: [Picture; 2] = [before, scene.picture()];
    for round in 0..rounds {
        scene.reset();
        let mut told = format!(
            "round {round}: {}",
            strike(&scene, arguments, longest, &mut dice)
        );
        if dice.roll(2) == 0 {
            told.push_str(", the recovery ");
            told.push_str(&strike(&scene, &["recover"], longest / 2, &mut dice));
        }
        let ran = scene.project.piton(["recover"]);
        assert_eq!(ran.code(), Some(0), "{told}: {ran}");
        let picture = scene.picture();
        assert!(
            pictures.contains(&picture),
            "{told}: {ran}\nfound {picture:?}\nexpected one of {pictures:#?}"
        );
        if scene.project.root().join(".git/piton/lock").exists() {
            scene.assert_sound(&told, &picture);
        }
        scene.assert_usable();
    }
    tally("kills at random moments", rounds);
}

#[test]
fn killed_at_any_moment_a_step_is_there_or_not() {
    let rounds = asked("PITON_TORTURE_ROUNDS").unwrap_or(8);
    let seed = asked("PITON_TORTURE_SEED").unwrap_or(20_260_101);
    kill_at_random(&["exec", "--", "bash", "-c", WORK], rounds, Dice(seed));
    kill_at_random(
        &["exec", "--", "bash", "-c", "eval \"$0\"; exit 3", WORK],
        rounds,
        Dice(seed + 1),
    );
}
