//! Runs many kernels on several threads and tallies the verdicts.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tilewright_codegen::Definition;

use crate::case::Sizes;
use crate::coverage::Coverage;
use crate::draw::Kind;
use crate::judge::{Plan, Verdict, judge};
use crate::{options, shrink, source};

/// A batch.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The first seed.
    pub first: u64,
    /// How many kernels.
    pub count: u64,
    /// Threads of the host.
    pub threads: usize,
    /// Failures after which no new kernel is started.
    pub most_wrong: usize,
    /// Time after which no new kernel is started.
    pub time: Duration,
    /// Whether failures are shrunk.
    pub shrinks: bool,
    /// The kind of drawn kernels.
    pub kind: Kind,
}

impl Default for Batch {
    fn default() -> Batch {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        Batch {
            first: 0,
            count: 10_000,
            threads,
            most_wrong: 5,
            time: Duration::from_secs(3600),
            shrinks: true,
            kind: Kind::Parts,
        }
    }
}

/// The tally of a batch.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Kernels that agree with their text.
    pub right: u64,
    /// Of the passing kernels, the kernels without a variant that ran on any sizes.
    pub idle: u64,
    /// Runs of variants.
    pub runs: u64,
    /// Reasons of kernels that were refused while compiling, and one seed for each.
    pub refused: BTreeMap<String, (u64, u64)>,
    /// Reasons of undefined behaviour.
    pub undefined: BTreeMap<String, (u64, u64)>,
    /// Reasons of refused launches.
    pub launches: BTreeMap<String, (u64, u64)>,
    /// The number of elements that were compared, and how many of them had unknown values.
    pub elements: [u64; 2],
    /// The failures as text, by seed.
    pub wrong: BTreeMap<u64, String>,
    /// The coverage.
    pub coverage: Coverage,
    /// Were kernels drawn for every pair of options?
    pub has_options: bool,
}

/// Runs a batch.
pub fn run(batch: &Batch) -> Tally {
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let all = Mutex::new(Tally::default());
    let begun = Instant::now();
    let work = || {
        let mut tally = Tally::default();
        while !stop.load(Ordering::Relaxed) && begun.elapsed() < batch.time {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= batch.count {
                break;
            }
            tally.take(batch, batch.first + at);
            if tally.wrong.len() >= batch.most_wrong {
                stop.store(true, Ordering::Relaxed);
            }
        }
        all.lock().unwrap_or_else(std::sync::PoisonError::into_inner).merge(tally);
    };
    std::thread::scope(|scope| {
        for _ in 0..batch.threads.max(1) {
            scope.spawn(work);
        }
    });
    all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Tally {
    fn take(&mut self, batch: &Batch, seed: u64) {
        let kernel = batch.kind.kernel(seed);
        let plan = Plan { seed, runs: 1, sizes: Sizes::default() };
        let count = |to: &mut BTreeMap<String, (u64, u64)>, why: &str| {
            to.entry(words(why)).or_insert((0, seed)).0 += 1;
        };
        match judge(&kernel, &plan) {
            Verdict::Right(right) => {
                self.right += 1;
                let runs: u64 = right.ran.iter().map(|&n| u64::from(n)).sum();
                self.runs += runs;
                self.has_options |= batch.kind == Kind::Options;
                self.idle += u64::from(runs == 0);
                self.coverage.add(&right);
                for why in &right.refused {
                    count(&mut self.launches, why);
                }
                self.elements[0] += right.elements[0];
                self.elements[1] += right.elements[1];
            }
            Verdict::Refused(why) => count(&mut self.refused, &why),
            Verdict::Undefined(why) => count(&mut self.undefined, &why),
            Verdict::Wrong(wrong) => {
                let first = wrong.why.lines().next().unwrap_or_default().to_owned();
                let (kernel, _, wrong) = match batch.shrinks {
                    true => shrink::smallest(kernel, plan, *wrong),
                    false => (kernel, plan, *wrong),
                };
                let text = failure(seed, batch.kind, &first, &kernel, &wrong);
                self.wrong.insert(seed, text);
            }
        }
    }

    fn merge(&mut self, other: Tally) {
        self.right += other.right;
        self.idle += other.idle;
        self.runs += other.runs;
        for (to, from) in [
            (&mut self.refused, other.refused),
            (&mut self.undefined, other.undefined),
            (&mut self.launches, other.launches),
        ] {
            for (why, (count, seed)) in from {
                to.entry(why).or_insert((0, seed)).0 += count;
            }
        }
        self.elements = [self.elements[0] + other.elements[0], self.elements[1] + other.elements[1]];
        self.wrong.extend(other.wrong);
        self.coverage.merge(&other.coverage);
        self.has_options |= other.has_options;
    }

    /// How many kernels were refused while compiling.
    pub fn refusals(&self) -> u64 {
        self.refused.values().map(|(count, _)| count).sum()
    }

    /// How many have undefined behaviour.
    pub fn meaningless(&self) -> u64 {
        self.undefined.values().map(|(count, _)| count).sum()
    }

    /// How many kernels were drawn.
    pub fn drawn(&self) -> u64 {
        self.right + self.wrong.len() as u64 + self.refusals() + self.meaningless()
    }

    /// The thresholds that are missed. `least`: every feature must have been drawn in this many kernels.
    pub fn complaints(&self, least: u32) -> Vec<String> {
        let mut all: Vec<String> = self.wrong.values().cloned().collect();
        let share = |part: u64| part * 100 / self.drawn().max(1);
        if share(self.refusals()) > 30 {
            all.push(format!("{} % of the kernels were refused, and 30 is the most", share(self.refusals())));
        }
        if share(self.meaningless()) > 3 {
            all.push(format!(
                "{} % of the kernels have undefined behaviour, and 3 is the most",
                share(self.meaningless())
            ));
        }
        if self.elements[1] * 20 > self.elements[0] {
            all.push("more than 5 % of the elements have unknown values".into());
        }
        let few = self.coverage.below(least);
        if !few.is_empty() {
            all.push(format!("in fewer than {least} kernels: {}", few.join("; ")));
        }
        if self.has_options && self.drawn() >= options::PAIRS.len() as u64 {
            let missing = self.coverage.missing_pairs();
            if !missing.is_empty() {
                all.push(format!("options in no right kernel: {}", missing.join("; ")));
            }
        }
        all
    }

    /// The coverage and the tally.
    pub fn text(&self) -> String {
        let list = |title: &str, of: &BTreeMap<String, (u64, u64)>| {
            let mut rows: Vec<_> = of.iter().collect();
            rows.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
            let rows =
                rows.into_iter().map(|(why, (count, seed))| format!("{count:>7}  {why} (seed {seed})"));
            let rows: Vec<String> = rows.collect();
            if rows.is_empty() { String::new() } else { format!("{title}\n{}\n", rows.join("\n")) }
        };
        format!(
            "{}\n\n{}{}{}{}\n{} kernels: {} right, {} wrong, {} refused, {} without a meaning; {} runs of variants, {} kernels \
             never ran; {} elements compared, {} of them could be anything",
            self.coverage.text(),
            if self.has_options { self.coverage.table_of_options() } else { String::new() },
            list("refused while compiling", &self.refused),
            list("undefined behaviour", &self.undefined),
            list("launches refused", &self.launches),
            self.drawn(),
            self.right,
            self.wrong.len(),
            self.refusals(),
            self.meaningless(),
            self.runs,
            self.idle,
            self.elements[0],
            self.elements[1],
        )
    }
}

/// A failure as text.
fn failure(seed: u64, kind: Kind, first: &str, kernel: &Definition, wrong: &crate::judge::Wrong) -> String {
    let case = wrong.case.as_ref().map_or_else(String::new, |case| format!("sizes: {}\n", case.text()));
    let option = kind.option();
    format!(
        "seed {seed} (`cargo xtask fuzz kernels {option} --seed {seed}` repeats it): {first}\nthe smallest like it:\n\n{}\n{case}variant {}: {}\n",
        source::definition(kernel),
        wrong.variant + 1,
        wrong.why,
    )
}

/// The words of a message, without names and numbers.
fn words(why: &str) -> String {
    let (mut of, mut quoted) = (String::new(), false);
    for letter in why.lines().next().unwrap_or_default().chars() {
        let plain = !quoted && letter != '`' && !letter.is_ascii_digit();
        quoted ^= letter == '`';
        match plain {
            true => of.push(letter),
            false if !of.ends_with('#') => of.push('#'),
            false => {}
        }
    }
    of.chars().take(100).collect()
}
