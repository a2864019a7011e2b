//! Does the simulator detect bugs? Correct kernels are mutated, one bug at a time, and run: a fault or a
//! wrong result must show it, and the correct kernels must show neither, in any schedule of their warps.
//!
//! The faults of each mutant are a snapshot. A mutant that no seed detects has its reason in the table.

mod cut;
mod planted;
mod subjects;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use cut::Cut;
use subjects::{Case, Shown, Subject};
use table::{Mutant, Says};

/// Seeds per mutant, in continuous integration.
const FEW: u64 = 3;
/// Seeds per correct kernel, in continuous integration.
const SOME: u64 = 20;
/// Seeds of `cargo xtask mutants`.
const MANY: u64 = 1000;

/// Runs `work` for each index, on all threads of the machine; returns the results in order.
fn each<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mine = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return done;
            }
            done.push((at, work(at)));
        }
    };
    let mut all: Vec<(usize, T)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(mine)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a thread's results")).collect()
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, done)| done).collect()
}

/// The faults of a mutant over all seeds.
#[derive(Default)]
struct Tally {
    /// The kinds of the first faults, and their counts.
    kinds: BTreeMap<String, u64>,
    /// The text of the first fault.
    text: String,
    caught: u64,
}

/// Runs a mutant with some seeds; the second size only if the first shows no fault.
fn tally(mutant: &Mutant, subject: &Subject, cases: &[Case], seeds: u64) -> Tally {
    let mut program = subject.program.clone();
    (mutant.change)(&mut program);
    let mut tally = Tally::default();
    for seed in 0..seeds {
        let shown = cases.iter().map(|case| case.run(&program, seed));
        let kind = match shown.into_iter().find(|shown| !matches!(shown, Shown::Right)) {
            Some(Shown::Fault(fault)) => {
                if tally.text.is_empty() {
                    tally.text = fault.to_string();
                }
                format!("{:?}", fault.kind())
            }
            Some(Shown::Wrong) => "wrong result".into(),
            _ => continue,
        };
        tally.caught += 1;
        *tally.kinds.entry(kind).or_default() += 1;
    }
    tally
}

/// Runs all mutants.
fn tallies(mutants: &[Mutant], seeds: u64) -> Vec<Tally> {
    let subjects = subjects::all();
    let cases: Vec<Vec<Case>> = each(subjects.len(), |at| subjects[at].cases());
    let of = |mutant: &Mutant| {
        let at = subjects.iter().position(|subject| subject.name == mutant.of);
        at.unwrap_or_else(|| panic!("no kernel `{}`", mutant.of))
    };
    each(mutants.len(), |at| {
        let which = of(&mutants[at]);
        tally(&mutants[at], &subjects[which], &cases[which], seeds)
    })
}

/// Runs all mutants; returns a line for each, and the differences from the table.
fn review(seeds: u64) -> (Vec<String>, Vec<String>) {
    let mutants = table::all();
    let tallies = tallies(&mutants, seeds);
    let (mut lines, mut wrong) = (Vec::new(), Vec::new());
    for (mutant, tally) in mutants.iter().zip(&tallies) {
        let kinds: Vec<&str> = tally.kinds.keys().map(String::as_str).collect();
        let shown = match tally.caught {
            0 => "MISSED".into(),
            caught if caught == seeds => kinds.join(", "),
            caught => format!("{}, with {caught} of {seeds} seeds", kinds.join(", ")),
        };
        lines.push(format!("{}: {}\n    {shown}", mutant.of, mutant.name));
        let expected = match mutant.says {
            Says::Missed(_) => tally.caught == 0,
            Says::Shows(expected) => {
                let allowed: BTreeSet<&str> = expected.split(" | ").collect();
                tally.caught > 0 && kinds.iter().all(|kind| allowed.contains(kind))
            }
        };
        if !expected {
            wrong.push(format!(
                "{}: {}\n    shows {shown}, and the table has {:?}\n{}",
                mutant.of, mutant.name, mutant.says, tally.text
            ));
        }
        if let Says::Missed(why) = mutant.says {
            lines.push(format!("    {why}"));
        }
    }
    let caught = tallies.iter().filter(|tally| tally.caught > 0).count();
    let always = tallies.iter().filter(|tally| tally.caught == seeds).count();
    let results = tallies.iter().filter(|tally| tally.kinds.keys().eq(["wrong result"])).count();
    lines.push(format!(
        "{} mutants: {caught} caught, {always} of them with every one of {seeds} seeds; {results} by their results alone",
        mutants.len(),
    ));
    assert!(caught * 100 >= mutants.len() * 95, "{}\nfewer than 95 % are caught", lines.join("\n"));
    (lines, wrong)
}

/// Runs the correct kernels.
fn unbroken(seeds: u64) {
    let subjects = subjects::all();
    let wrong = each(subjects.len(), |at| {
        let (subject, cases) = (&subjects[at], subjects[at].cases());
        for (case, size) in cases.iter().zip(&subject.sizes) {
            for seed in 0..seeds {
                let fault = match case.run(&subject.program, seed) {
                    Shown::Right => continue,
                    Shown::Wrong => "a wrong result".into(),
                    Shown::Fault(why) => why.to_string(),
                };
                return Some(format!("{} with {:?} and seed {seed}: {fault}", subject.name, size.extents));
            }
        }
        None
    });
    let wrong: Vec<String> = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn broken_kernels_are_caught() {
    let (lines, wrong) = review(FEW);
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    insta::assert_snapshot!("table", lines.join("\n"));
}

/// Statements whose removal goes undetected, by kernel, and why.
const IDLE: &[(&str, &str)] = &[
    ("multistage: break", "k-steps beyond K multiply zeros"),
    ("multistage: a step of `left`", "the same"),
    ("multistage, vectorised: break", "the same"),
    ("multistage, vectorised: a step of `left`", "the same"),
    (
        "softmax",
        "any number near the maximum gives the same quotient, and a guarded load fills its registers anyway",
    ),
    (
        "wgmma_ring: Fence(Threads(Warp))",
        "a syncwarp before the elected arrival; here only wgmma reads the slots, and its wait synchronises the warp",
    ),
    ("bulk epilogue: Fence(Threads(Warp))", "the same"),
    ("bulk epilogue: Arrive", "the same"),
    ("bulk epilogue: (Arrive", "each block has one tile here, and the last slot is not refilled"),
    (
        "bulk epilogue: Pin",
        "nothing uses the registers between that wait and the pin ahead of the next fence",
    ),
    (
        "bulk stores",
        "the last store has read shared memory already, and its writes complete before the kernel ends",
    ),
    (
        "multistage: a value for `acc`",
        "sums that are stored pass through a product by one: other registers, the same numbers",
    ),
    ("multistage: (a value for `acc`)", "the same"),
    ("multistage: ((a value for `acc`))", "the same"),
    ("multistage, vectorised: a value for `acc`", "the same"),
    ("multistage, vectorised: (a value for `acc`)", "the same"),
    ("multistage, vectorised: ((a value for `acc`))", "the same"),
    (
        "exchanges: Sync { bar: 0, member: None }",
        "between two exchanges there are other barriers, except in the innermost loop",
    ),
    ("exchanges: a read to `whole`", "what the first warp has combined is sent, and it begins with its own"),
    ("exchanges: a read to `here`", "the same"),
    ("exchanges: a read to `again`", "the same"),
];

/// Removes every statement of every kernel, one at a time.
#[test]
fn every_statement_matters() {
    let subjects = subjects::all();
    let cases: Vec<Vec<Case>> = each(subjects.len(), |at| subjects[at].cases());
    let all: Vec<(usize, usize)> = subjects
        .iter()
        .enumerate()
        .flat_map(|(of, subject)| (0..subject.program.statements()).map(move |nth| (of, nth)))
        .collect();
    let idle = each(all.len(), |at| {
        let (subject, cases) = (&subjects[all[at].0], &cases[all[at].0]);
        let mut program = subject.program.clone();
        let mut left_out = String::new();
        program.list(cut::acts, all[at].1, |_, list, at| {
            left_out = cut::words(&subject.program, &list.remove(at).op)
        });
        let right = |seed| cases.iter().all(|case| matches!(case.run(&program, seed), Shown::Right));
        (0..2).all(right).then(|| format!("{}: {left_out}", subject.name))
    });
    let idle: Vec<String> = idle.into_iter().flatten().collect();
    let explained = |line: &&String| IDLE.iter().any(|(name, _)| line.starts_with(name));
    let others: Vec<&String> = idle.iter().filter(|line| !explained(line)).collect();
    assert!(others.is_empty(), "removed undetected\n{others:#?}");
    let reasons = IDLE.iter().map(|(name, why)| format!("{name}: {why}"));
    let count = format!("{} of {} statements can be removed undetected", idle.len(), all.len());
    let text: Vec<String> = reasons.chain([count]).chain(idle.iter().cloned()).collect();
    insta::assert_snapshot!("idle", text.join("\n"));
}

#[test]
fn correct_kernels_have_no_fault() {
    unbroken(SOME);
}

/// The part of the long version's faults that the tests above find.
#[test]
#[ignore = "takes minutes: `cargo xtask mutants`"]
fn few_seeds_catch_what_many_do() {
    let mutants = table::all();
    let [few, many] = [FEW, MANY / 20].map(|seeds| tallies(&mutants, seeds));
    let caught = few.iter().filter(|tally| tally.caught > 0).count();
    let full = many.iter().filter(|tally| tally.caught > 0).count();
    println!("{FEW} seeds catch {caught} of the {full} mutants that {} seeds catch", MANY / 20);
    assert!(caught * 100 >= full * 95, "that is less than 95 %");
}

/// `cargo xtask mutants`.
#[test]
#[ignore = "takes many minutes: `cargo xtask mutants`"]
fn a_thousand_seeds() {
    unbroken(MANY);
    planted::unbroken(MANY);
    let (mut lines, mut wrong) = review(MANY / 20);
    let (planted, missed) = planted::review(MANY / 20);
    lines.extend(planted);
    wrong.extend(missed);
    println!("{}", lines.join("\n"));
    println!("correct kernels: no fault and no wrong result with {MANY} seeds at each of two sizes");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
