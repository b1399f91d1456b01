//! Measures searching many items: with and without the cache, beside `grep`, and beside a program
//! that only calls `stat` on the same files.
//!
//! `cargo bench --bench search` prints medians and minima, of whole processes in turns and of calls
//! in one process. CPU time is shown beside wall time, because other work on the machine affects it
//! less. See `docs/BENCHMARKS.md`.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a benchmark prints its figures and stops at a fault"
)]

#[path = "../tests/it/many_items.rs"]
mod many_items;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use piton::item::search::{Cache, Query, SearchIndex};
use piton::item::store::Roots;
use rustix::fs::AtFlags;

// The same allocator as the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ITEMS: usize = 10_000;
const SERVED: usize = 1_000;
const ROUNDS: usize = 15;
const CALLS: usize = 100;
/// A typical query: a word that few items contain.
const WORDS: &str = "forecast 4210";
/// With this flag and a list of files, the program only looks at the files.
const LOOK: &str = "--look";

fn main() {
    let words: Vec<String> = std::env::args().collect();
    if let [_, flag, list] = words.as_slice()
        && flag == LOOK
    {
        return look(Path::new(list));
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (many, few) = (folder.path().join("many"), folder.path().join("few"));
    many_items::plant(&many, ITEMS);
    many_items::plant(&few, SERVED);
    // The index does not trust files that are as young as itself and reads them again, so wait
    // first.
    std::thread::sleep(Duration::from_secs(3));

    println!("| what | wall ms (median) | wall ms (best) | CPU ms (median) | CPU ms (best) |");
    println!("|---|---|---|---|---|");
    processes(folder.path(), &many);
    let program = Path::new(env!("CARGO_BIN_EXE_piton"));
    let open = |root: &Path, cache: Option<&Path>| {
        let roots = Roots {
            project: Some(root.to_path_buf()),
            user: None,
        };
        SearchIndex::open(roots, cache.map(|folder| Cache { folder, program }))
    };
    let query = Query {
        text: WORDS.to_owned(),
        ..Query::default()
    };
    let cold = times(ROUNDS, || {
        assert!(open(&many, None).search(&query).total > 0);
    });
    report(&format!("in process, {ITEMS} items, nothing kept"), &cold);
    let cache = folder.path().join("in-process");
    open(&many, Some(&cache));
    let taken_up = times(CALLS, || {
        assert!(open(&many, Some(&cache)).search(&query).total > 0);
    });
    report(
        &format!("in process, {ITEMS} items, taken up from disk"),
        &taken_up,
    );
    for (root, count) in [(&many, ITEMS), (&few, SERVED)] {
        let mut index = open(root, Some(&cache));
        let held = times(CALLS, || {
            index.refresh();
            assert!(index.search(&query).total > 0);
        });
        report(&format!("in process, {count} items, held in memory"), &held);
        let search = times(CALLS, || assert!(index.search(&query).total > 0));
        report(
            &format!("in process, {count} items, without a look at the disk"),
            &search,
        );
    }
}

/// Measures whole processes in turns, so that other load affects all of them alike.
fn processes(folder: &Path, root: &Path) {
    let piton = Path::new(env!("CARGO_BIN_EXE_piton"));
    let cache = folder.join("cache");
    let items = root.join(".ai");
    let (mut cold, mut warm, mut grep, mut bare, mut start) =
        (vec![], vec![], vec![], vec![], vec![]);
    let list = folder.join("list");
    fs::write(&list, files_of(&items)).expect("a list");
    let own = std::env::current_exe().expect("this program");
    let search: Vec<&str> = ["search", "--format", "json"]
        .into_iter()
        .chain(WORDS.split(' '))
        .collect();
    for _ in 0..ROUNDS {
        fs::remove_dir_all(&cache).ok();
        cold.push(run(piton, &search, root, &cache));
        warm.push(run(piton, &search, root, &cache));
        warm.push(run(piton, &search, root, &cache));
        grep.push(run(
            Path::new("grep"),
            &["-rilE", "forecast|4210", &items.to_string_lossy()],
            root,
            &cache,
        ));
        bare.push(run(&own, &[LOOK, &list.to_string_lossy()], root, &cache));
        start.push(run(piton, &["--version"], root, &cache));
    }
    report(
        &format!("`piton search`, {ITEMS} items, nothing kept"),
        &cold,
    );
    report(&format!("`piton search`, {ITEMS} items, kept"), &warm);
    report("`grep -rilE` over the same files", &grep);
    report(
        "a program that only looks at the same files, two threads",
        &bare,
    );
    report("`piton --version`", &start);
}

/// The files that are items, each after the folder of its group. Scripts that belong to a manifest
/// are left out.
fn files_of(items: &Path) -> String {
    let walk = walkdir::WalkDir::new(items)
        .sort_by_file_name()
        .into_iter()
        .filter_map(Result::ok);
    let mut list = String::new();
    for entry in walk.filter(|entry| entry.file_type().is_file()) {
        let inside = entry
            .path()
            .strip_prefix(items)
            .expect("below")
            .to_string_lossy()
            .into_owned();
        let parts: Vec<&str> = inside.splitn(3, '/').collect();
        if let [kind, group, name] = parts.as_slice()
            && !["main.py", "run.sh"]
                .iter()
                .any(|script| name.ends_with(script))
        {
            let _ = writeln!(list, "{}\t{name}", items.join(kind).join(group).display());
        }
    }
    list
}

/// Looks at each file of a list once, as cheaply as the system allows.
fn look(list: &Path) {
    let list = fs::read_to_string(list).expect("a list");
    let files: Vec<(&str, &str)> = list
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .collect();
    let folders: Vec<&[(&str, &str)]> = files.chunk_by(|a, b| a.0 == b.0).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(files) = folders.get(next.fetch_add(1, Ordering::Relaxed)) {
            let folder = fs::File::open(files.first().map_or("", |(folder, _)| folder));
            let folder = folder.expect("a folder");
            for (_, name) in *files {
                rustix::fs::statat(&folder, *name, AtFlags::SYMLINK_NOFOLLOW).expect("a file");
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
}

#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures whole processes"
)]
fn run(program: &Path, arguments: &[&str], folder: &Path, cache: &Path) -> Cost {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
        .env("XDG_CACHE_HOME", cache)
        .env("HOME", cache.with_file_name("home"));
    cost(UsageWho::RUSAGE_CHILDREN, || {
        let status = command.status().expect("the program starts");
        assert!(status.success(), "{} failed", program.display());
    })
}

struct Cost {
    wall: f64,
    cpu: f64,
}

fn cost(who: UsageWho, work: impl FnOnce()) -> Cost {
    let used = || {
        let usage = getrusage(who).expect("the system counts");
        let millis = |time: TimeVal| {
            Duration::from_micros(time.num_microseconds().unsigned_abs()).as_secs_f64() * 1e3
        };
        millis(usage.user_time()) + millis(usage.system_time())
    };
    let (before, start) = (used(), Instant::now());
    work();
    let wall = start.elapsed().as_secs_f64() * 1e3;
    Cost {
        wall,
        cpu: used() - before,
    }
}

fn times(rounds: usize, mut round: impl FnMut()) -> Vec<Cost> {
    round();
    (0..rounds)
        .map(|_| cost(UsageWho::RUSAGE_SELF, &mut round))
        .collect()
}

fn report(what: &str, costs: &[Cost]) {
    let sorted = |value: fn(&Cost) -> f64| {
        let mut values: Vec<f64> = costs.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        let at = |at: usize| values.get(at).copied().unwrap_or_default();
        format!("{:.1} | {:.1}", at(values.len() / 2), at(0))
    };
    println!(
        "| {what} | {} | {} |",
        sorted(|cost| cost.wall),
        sorted(|cost| cost.cpu)
    );
}
