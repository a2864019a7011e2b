//! The evaluator of a kernel's text, by which drawn kernels and devices are judged: on random data it agrees with the
//! simulator in every variant of the kernels below, or reports what it does not support.

use tilewright::KernelDef;
use tilewright_fuzz::case::Sizes;
use tilewright_fuzz::judge::{Plan, Verdict, judge};
use tilewright_tests::{arithmetic, gathers, integers, types, views};

/// Random runs of each kernel.
const RUNS: u32 = 1;

/// Kernels with a statement, or a function, that it does not have.
const WITHOUT: [&str; 4] = ["as_numbers", "compact", "philox", "sparse"];

fn verdict(def: &KernelDef) -> Verdict {
    let definition = def.definition().expect("a definition of this version");
    judge(&definition, &Plan { seed: 0, runs: RUNS, sizes: Sizes::default() })
}

#[test]
fn the_text_agrees_with_the_simulator() {
    // Scattered rows may collide, which is a race; old values depend on the order of updates.
    let all = integers::all().into_iter().chain(views::all()).chain(types::all());
    let all = all.chain(gathers::all()).chain(arithmetic::all());
    let all = all.filter(|(name, _)| !["scatter_rows", "updates"].contains(name));
    let mut wrong = Vec::new();
    for (name, def) in all {
        match verdict(&def) {
            Verdict::Right(right) if right.ran.iter().any(|&runs| runs > 0) => {}
            Verdict::Undefined(_) if WITHOUT.contains(&name) => {}
            _ if WITHOUT.contains(&name) => wrong.push(format!("{name} has a meaning now")),
            Verdict::Right(_) => wrong.push(format!("{name} never ran")),
            Verdict::Undefined(why) => wrong.push(format!("{name} has no meaning: {why}")),
            Verdict::Refused(why) => wrong.push(format!("{name} is refused: {why}")),
            Verdict::Wrong(of) => {
                let case = of.case.map_or_else(String::new, |case| case.text());
                wrong.push(format!("{name}, {case}, variant {}: {}", of.variant + 1, of.why));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
