//! `cargo xtask mutants` runs it: faults of random kernels, which the simulator must find.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tilewright_codegen::Generated;
use tilewright_codegen::thread::Kernel;
use tilewright_codegen::tile::Program;
use tilewright_fuzz::case::{Case, Fit, Sizes};
use tilewright_fuzz::draw::Kind;
use tilewright_fuzz::judge::prepare;
use tilewright_fuzz::mutation::{Shown, faults, results, shown};
use tilewright_fuzz::random::Random;
use tilewright_sim::{Arg, Options};

/// Arguments, and the results for them.
type Run = (Vec<Arg>, Vec<(String, Vec<u8>)>);

/// Faults of a class.
#[derive(Default)]
struct Row {
    made: u64,
    caught: u64,
    /// No run of any order of warps differs.
    without_effect: u64,
}

impl fmt::Display for Row {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:>5} of {:>5}, {:>5}", self.caught, self.made - self.without_effect, self.without_effect)
    }
}

/// Draws runs of a kernel.
struct Runs<'k> {
    program: &'k Program,
    generated: &'k Generated,
    kernel: &'k Kernel,
    options: &'k Options,
    seed: u64,
    next: u64,
}

impl Runs<'_> {
    /// Up to `most` runs of `cases` drawn cases.
    fn next(&mut self, most: usize, cases: u64, random: &mut Random) -> Vec<Run> {
        let drawn = Case::draw(self.program, self.generated, Fit::Any, self.seed, &Sizes::default());
        let symbols = drawn.map_or_else(Vec::new, |case| case.symbols);
        let begin = self.next;
        self.next += cases;
        let draw = |n: u64| {
            let mut sizes = Sizes::default();
            // Larger sizes first: rings have more iterations than slots.
            if n < begin + cases / 2 && !symbols.is_empty() {
                sizes.set.insert(random.pick(&symbols).0.name().to_owned(), 320);
            }
            let fit = [Fit::Whole, Fit::Any][n as usize % 2];
            Case::draw(self.program, self.generated, fit, self.seed * 7 + n, &sizes)
        };
        let blocks = |case: &Case| case.grid(self.program).map(|grid| grid.iter().product::<i64>());
        let fits = |case: &Case| blocks(case).is_some_and(|blocks| (1..=16).contains(&blocks));
        let run = |case: Case| {
            let args = case.args(self.program);
            let wanted = results(self.kernel, &args, self.options).ok()?;
            Some((args, wanted))
        };
        (begin..self.next).filter_map(draw).filter(fits).filter_map(run).take(most).collect()
    }
}

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|word| word.parse::<u64>().ok());
    let (count, first) = (numbers.next().unwrap_or(1000), numbers.next().unwrap_or(0));
    let show = std::env::args().any(|word| word == "--slips");
    let mut tally: BTreeMap<(&str, &str), Row> = BTreeMap::new();
    let mut total = 0;
    let kinds = [Kind::Whole, Kind::Parts, Kind::Exchanges, Kind::Targeted];
    std::panic::set_hook(Box::new(|_| {}));
    for seed in first.. {
        if total >= count {
            break;
        }
        let kind = kinds[seed as usize % kinds.len()];
        let definition = kind.kernel(seed);
        let Ok(Ok((program, generated))) = catch_unwind(AssertUnwindSafe(|| prepare(&definition))) else {
            continue;
        };
        let mut random = Random::new(seed);
        let variant = random.below(generated.variants.len());
        let kernel = &generated.variants[variant].program;
        let options = Options { count: false, threads: 1, exact: true, ..Options::default() };
        let mut runs =
            Runs { program: &program, generated: &generated, kernel, options: &options, seed, next: 0 };
        let first = runs.next(4, 8, &mut random);
        if first.is_empty() {
            continue;
        }
        // The classes that have been drawn least come first.
        let mut all = random.shuffled(&(0..faults(kernel).len()).collect::<Vec<_>>());
        let list = faults(kernel);
        all.sort_by_key(|&at| tally.get(&(list[at].class, list[at].change)).map_or(0, |row| row.made));
        for at in all.into_iter().take(4) {
            let fault = &list[at];
            if !first.iter().any(|(args, _)| fault.is_executed(kernel, args, &options)) {
                continue;
            }
            let mutant = fault.plant(kernel);
            let shows = |options: &Options, runs: &[Run], seeds: u64| {
                catch_unwind(AssertUnwindSafe(|| {
                    runs.iter()
                        .any(|(args, wanted)| shown(&mutant, args, wanted, options, seeds) != Shown::Slips)
                }))
            };
            let caught = shows(&options, &first, 2);
            let row = tally.entry((fault.class, fault.change)).or_default();
            row.made += 1;
            total += 1;
            if caught.is_err() {
                println!("PANIC {kind:?} {seed} variant {}: {}, {}", variant + 1, fault.class, fault.change);
            }
            if caught.unwrap_or(true) {
                row.caught += 1;
                continue;
            }
            // A judge that knows nothing of races: the results of other orders of warps, for more sizes.
            let more = runs.next(16, 32, &mut random);
            if shows(&options, &more, 2).unwrap_or(true) {
                row.caught += 1;
                continue;
            }
            let unchecked = Options { races: false, ..options.clone() };
            let is_real = [&first, &more].into_iter().any(|runs| shows(&unchecked, runs, 8).unwrap_or(true));
            row.without_effect += u64::from(!is_real);
            if show {
                let effect = if is_real { "SLIPS" } else { "no effect" };
                println!(
                    "{effect}: {kind:?} {seed} variant {}: {}, {}: {}",
                    variant + 1,
                    fault.class,
                    fault.change,
                    fault.statement(kernel)
                );
            }
        }
    }
    println!("caught of real ones, and changes without effect");
    let mut sum = Row::default();
    for ((class, change), row) in &tally {
        println!("{row}  {class}, {change}");
        sum.made += row.made;
        sum.caught += row.caught;
        sum.without_effect += row.without_effect;
    }
    println!("{sum}");
}
