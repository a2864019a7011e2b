//! Every fault of [`tilewright_fuzz::synchronisation`] in kernels of each kind: in exact arithmetic the simulator reports it,
//! or a result differs.

use tilewright_fuzz::synchronisation::{Shown, faults, results, shown};
use tilewright_sim::Options;
use tilewright_tests::problem::{Problem, Setting, Values};
use tilewright_tests::tensor::Padding;
use tilewright_tests::{by_all_cores, gallery, sweep};

/// A kernel of the gallery, its variant counted from the last, and extents.
const KERNELS: &[(&str, usize, &[(&str, usize)])] = &[
    ("tutorial", 0, &[("M", 70), ("N", 37), ("K", 13)]),
    ("shared_tile", 0, &[("M", 30), ("N", 17), ("K", 45)]),
    ("mma_sync", 0, &[("M", 128), ("N", 64), ("K", 104)]),
    ("wgmma_ring", 0, &[("M", 50), ("N", 40), ("K", 600)]),
    ("softmax", 0, &[("M", 2), ("N", 1100)]),
    ("row_sums", 0, &[("M", 5), ("N", 1100)]),
    ("cumulative_sums", 0, &[("M", 3), ("N", 5000)]),
    ("attention", 0, &[("M", 70), ("N", 70), ("K", 64), ("L", 1)]),
    ("softmax_resident", 0, &[("M", 2), ("N", 3000)]),
];

/// Faults of these kernels that show nothing, and why.
const SLIPS: &[(&str, &str, &str, &str)] = &[];

#[test]
fn faults_of_shipped_kernels_are_found() {
    let options = Options { exact: true, count: false, threads: 1, ..Options::default() };
    let mut cases = Vec::new();
    for (name, from_last, sizes) in KERNELS {
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
        let program = &kernel.variants[kernel.variants.len() - 1 - from_last].program;
        let wanted = results(program, &args, &options).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (args, wanted) = (std::sync::Arc::new(args), std::sync::Arc::new(wanted));
        cases.extend(
            faults(program).into_iter().map(|fault| (*name, program, args.clone(), wanted.clone(), fault)),
        );
    }
    let found = by_all_cores(&sweep::share(cases, 6), |(name, program, args, wanted, fault)| {
        let known = SLIPS.iter().any(|slip| (slip.0, slip.1, slip.2) == (*name, fault.class, fault.change));
        if known || !fault.is_executed(program, args, &options) {
            return None;
        }
        let shows = shown(&fault.plant(program), args, wanted, &options, 3);
        Some(
            (shows == Shown::Slips)
                .then(|| format!("{name}: {}, {}: {}", fault.class, fault.change, fault.statement(program))),
        )
    });
    let real: Vec<_> = found.into_iter().flatten().collect();
    let slips: Vec<String> = real.iter().flatten().cloned().collect();
    println!("{} of {} faults were found", real.len() - slips.len(), real.len());
    assert!(slips.is_empty(), "{}", slips.join("\n"));
}
