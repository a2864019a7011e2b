//! The reference interpreter of tile programs, by which drawn kernels and devices are judged: on random data it agrees with the
//! simulator in every variant of the kernels below, or reports the statement that it does not support.

use tilewright::KernelDef;
use tilewright_fuzz::case::Sizes;
use tilewright_fuzz::judge::{Plan, Source, Subject, Verdict, judge};
use tilewright_tests::{arithmetic, gathers, integers, types, views};

/// Random runs of each kernel.
const RUNS: u32 = 1;

/// Kernels with a statement, or a function, that the reference does not have.
const WITHOUT: [&str; 17] = [
    "bilinear",
    "by_argument",
    "compact",
    "coo",
    "cross_entropy",
    "gathered",
    "histogram",
    "in_range",
    "lattice",
    "life",
    "max_pool",
    "philox",
    "scattered",
    "sparse",
    "totals",
    "updates",
    "widened",
];

fn verdict(def: &KernelDef) -> Verdict {
    let text = Source::Text(def.definition().expect("a definition of this version"));
    let program = Subject { source: text, changes: Vec::new() }.program().expect("a program");
    let subject = Subject { source: Source::Built(program), changes: Vec::new() };
    judge(&subject, &Plan { seed: 0, runs: RUNS, sizes: Sizes::default() })
}

#[test]
fn the_reference_agrees_with_the_simulator() {
    // Scattered rows may collide, which is a race.
    let all = integers::all().into_iter().filter(|(name, _)| *name != "scatter_rows");
    let all = all.chain(views::all()).chain(types::all()).chain(gathers::all()).chain(arithmetic::all());
    let mut wrong = Vec::new();
    for (name, def) in all {
        match verdict(&def) {
            Verdict::Right(right) if right.ran.iter().any(|&runs| runs > 0) => {}
            Verdict::Undefined(_) if WITHOUT.contains(&name) => {}
            Verdict::Right(_) => wrong.push(format!("{name} never ran")),
            Verdict::Undefined(why) => wrong.push(format!("{name} has no reference: {why}")),
            Verdict::Refused(why) => wrong.push(format!("{name} is refused: {why}")),
            Verdict::Wrong(of) => {
                let case = of.case.map_or_else(String::new, |case| case.text());
                wrong.push(format!("{name}, {case}, variant {}: {}", of.variant + 1, of.why));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
