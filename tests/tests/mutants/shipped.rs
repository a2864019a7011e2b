//! Every fault of [`tilewright_fuzz::mutation`] in kernels of each kind: in exact arithmetic the simulator reports it,
//! or a result differs.

use tilewright_fuzz::mutation::{Shown, faults, results, shown};
use tilewright_sim::Options;
use tilewright_tests::problem::{Problem, Setting, Values};
use tilewright_tests::tensor::Padding;
use tilewright_tests::{by_all_cores, gallery, sweep};

/// Extents by name.
type Sizes = &'static [(&'static str, usize)];

/// Kernels of the gallery, whose last variants are changed, and extents.
const KERNELS: &[(&str, Sizes)] = &[
    ("tutorial", &[("M", 70), ("N", 37), ("K", 13)]),
    ("shared_tile", &[("M", 30), ("N", 17), ("K", 45)]),
    ("mma_sync", &[("M", 128), ("N", 64), ("K", 104)]),
    ("wgmma_ring", &[("M", 50), ("N", 40), ("K", 600)]),
    ("softmax", &[("M", 2), ("N", 1100)]),
    ("row_sums", &[("M", 5), ("N", 1100)]),
    ("cumulative_sums", &[("M", 1), ("N", 17000)]),
    ("attention", &[("M", 70), ("N", 300), ("K", 64), ("L", 1)]),
];

/// Changes of these kernels without effect: kernel, class, change, how many, and why.
const WITHOUT_EFFECT: &[(&str, &str, &str, usize, &str)] = &[
    (
        "softmax",
        "address",
        "one element further",
        1,
        "any number near a row's maximum gives the same quotients",
    ),
    ("attention", "barrier", "removed", 1, "ahead of the first copies, no thread reads their slots"),
    ("attention", "barrier", "ahead of the last access", 1, "the same barrier"),
    ("attention", "barrier", "behind the next access", 2, "the same barrier; and Q has a barrier of its own"),
];

#[test]
fn faults_of_shipped_kernels_show() {
    let options = Options { exact: true, count: false, threads: 1, ..Options::default() };
    let mut cases = Vec::new();
    for (name, sizes) in KERNELS {
        let kernel = gallery::named(name);
        let setting = Setting {
            sizes,
            paddings: &[Padding::new(0, 0)],
            values: Values::Any,
            seed: 1,
            alpha: 0.5,
            beta: 2.0,
        };
        let args = Problem::of(kernel, &setting).blank_args();
        let program = &kernel.variants.last().expect("a variant").program;
        let wanted = results(program, &args, &options).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (args, wanted) = (std::sync::Arc::new(args), std::sync::Arc::new(wanted));
        cases.extend(
            faults(program).into_iter().map(|fault| (*name, program, args.clone(), wanted.clone(), fault)),
        );
    }
    let outcomes = by_all_cores(&sweep::share(cases, 6), |(name, program, args, wanted, fault)| {
        if !fault.is_executed(program, args, &options) {
            return None;
        }
        let shows = shown(&fault.plant(program), args, wanted, &options, 3);
        Some((shows == Shown::Slips).then(|| {
            let line = format!("{name}: {}, {}: {}", fault.class, fault.change, fault.statement(program));
            ((*name, fault.class, fault.change), line)
        }))
    });
    let (all, mut slips) = (outcomes.iter().flatten().count(), Vec::new());
    let mut left: Vec<usize> = WITHOUT_EFFECT.iter().map(|row| row.3).collect();
    for (key, line) in outcomes.into_iter().flatten().flatten() {
        match WITHOUT_EFFECT.iter().position(|row| (row.0, row.1, row.2) == key) {
            Some(row) if left[row] > 0 => left[row] -= 1,
            _ => slips.push(line),
        }
    }
    let is_stale = |left: &&usize| **left > 0 && sweep::is_full();
    assert_eq!(
        left.iter().find(is_stale),
        None,
        "a row of changes without effect has fewer: {left:?} of each are left"
    );
    let without_effect: usize = WITHOUT_EFFECT.iter().zip(&left).map(|(row, left)| row.3 - left).sum();
    let real = all - without_effect;
    assert!(real > 0, "no fault was made");
    println!(
        "{} of {real} faults were reported; {without_effect} changes have no effect",
        real - slips.len()
    );
    assert!(slips.is_empty(), "{}", slips.join("\n"));
}
