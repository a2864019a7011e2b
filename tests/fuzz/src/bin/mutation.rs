//! `cargo xtask mutants` runs it: faults of random kernels, which the simulator must find.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tilewright_fuzz::case::{Case, Fit, Sizes};
use tilewright_fuzz::draw::Kind;
use tilewright_fuzz::judge::prepare;
use tilewright_fuzz::mutation::{Shown, faults, results, shown};
use tilewright_fuzz::random::Random;
use tilewright_sim::Options;

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|word| word.parse::<u64>().ok());
    let (count, first) = (numbers.next().unwrap_or(1000), numbers.next().unwrap_or(0));
    let show = std::env::args().any(|word| word == "--slips");
    let mut tally: BTreeMap<(&str, &str), [u64; 2]> = BTreeMap::new();
    let mut total = 0;
    let kinds = [Kind::Whole, Kind::Parts, Kind::Exchanges, Kind::Targeted];
    std::panic::set_hook(Box::new(|_| {}));
    for seed in first.. {
        if total >= count {
            break;
        }
        let kind = kinds[seed as usize % kinds.len()];
        let subject = kind.subject(seed);
        let Ok(Ok((program, generated))) = catch_unwind(AssertUnwindSafe(|| prepare(&subject))) else {
            continue;
        };
        let mut random = Random::new(seed);
        // Larger sizes first: rings have more iterations than slots.
        let drawn = Case::draw(&program, &generated, Fit::Any, seed, &Sizes::default());
        let symbols = drawn.map_or_else(Vec::new, |case| case.symbols);
        let cases: Vec<_> = (0..8)
            .filter_map(|n| {
                let mut sizes = Sizes::default();
                if n < 4 && !symbols.is_empty() {
                    sizes.set.insert(random.pick(&symbols).0.name().to_owned(), 320);
                }
                Case::draw(&program, &generated, [Fit::Whole, Fit::Any][n as usize % 2], seed * 7 + n, &sizes)
            })
            .filter(|case| {
                case.grid(&program).is_some_and(|grid| (1..=16).contains(&grid.iter().product::<i64>()))
            })
            .collect();
        let variant = random.below(generated.variants.len());
        let kernel = &generated.variants[variant].program;
        let options = Options { count: false, threads: 1, exact: true, ..Options::default() };
        let runs: Vec<_> = cases
            .iter()
            .filter_map(|case| {
                let args = case.args(&program);
                let wanted = results(kernel, &args, &options).ok()?;
                Some((args, wanted))
            })
            .take(4)
            .collect();
        if runs.is_empty() {
            continue;
        }
        // The classes that have been drawn least come first.
        let mut all = random.shuffled(&(0..faults(kernel).len()).collect::<Vec<_>>());
        let list = faults(kernel);
        all.sort_by_key(|&at| tally.get(&(list[at].class, list[at].change)).map_or(0, |[of, _]| *of));
        for at in all.into_iter().take(4) {
            let fault = &list[at];
            if !runs.iter().any(|(args, _)| fault.is_executed(kernel, args, &options)) {
                continue;
            }
            let mutant = fault.plant(kernel);
            let shows = catch_unwind(AssertUnwindSafe(|| {
                let all = runs.iter().map(|(args, wanted)| shown(&mutant, args, wanted, &options, 2));
                all.into_iter().find(|shows| *shows != Shown::Slips)
            }));
            let caught = !matches!(shows, Ok(None));
            let row = tally.entry((fault.class, fault.change)).or_default();
            row[0] += 1;
            row[1] += u64::from(caught);
            total += 1;
            if shows.is_err() {
                println!("PANIC {kind:?} {seed} variant {}: {}, {}", variant + 1, fault.class, fault.change);
            }
            if show && !caught {
                println!(
                    "{kind:?} {seed} variant {}: {}, {}: {}",
                    variant + 1,
                    fault.class,
                    fault.change,
                    fault.statement(kernel)
                );
            }
        }
    }
    for ((class, change), [all, caught]) in &tally {
        println!("{caught:>5} of {all:>5}  {class}, {change}");
    }
    let sums = tally.values().fold([0, 0], |sums, row| [sums[0] + row[0], sums[1] + row[1]]);
    println!("{:>5} of {:>5}", sums[1], sums[0]);
}
