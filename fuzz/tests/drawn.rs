//! A short run of `cargo xtask fuzz kernels`.

use std::path::Path;

use tilewright_codegen::Definition;
use tilewright_fuzz::draw::Kind;
use tilewright_fuzz::judge::Source;
use tilewright_fuzz::planted::{faults, misfits};
use tilewright_fuzz::run::{Batch, run};
use tilewright_fuzz::{draw, source};

/// The first of the kernels, and how many: enough for every kind of statement, in some seconds.
const SAMPLE: (u64, u64) = (137, 300);

#[test]
fn drawn_kernels_compute_what_their_tiles_say() {
    let tally = run(&Batch { first: SAMPLE.0, count: SAMPLE.1, ..Batch::default() });
    let complaints = tally.complaints(1);
    assert!(complaints.is_empty(), "{}\n\n{}", tally.text(), complaints.join("\n\n"));
}

/// Kernels of whole tiles, against the evaluator of their text.
#[test]
fn drawn_kernels_of_whole_tiles_compute_what_their_text_says() {
    let tally = run(&Batch { count: 60, kind: Kind::Whole, ..Batch::default() });
    let complaints = tally.complaints(0);
    assert!(complaints.is_empty(), "{}\n\n{}", tally.text(), complaints.join("\n\n"));
}

/// Kernels about one interplay, against the same.
#[test]
fn drawn_kernels_about_one_interplay_compute_what_their_text_says() {
    let tally = run(&Batch { first: 100, count: 40, kind: Kind::Targeted, ..Batch::default() });
    let complaints = tally.complaints(0);
    assert!(complaints.is_empty(), "{}\n\n{}", tally.text(), complaints.join("\n\n"));
}

/// Kernels that were wrong: sources of copies in flight that are overwritten, shared tiles that are copied to views of
/// themselves, tiles that are read behind writes of other views, parts of K that moved to other threads, mbarriers of loops
/// without iterations, and their barriers; what a producer fills and consumers change; loops between integers without a sign, which
/// were not simulated; coordinates of more than 32 bits, and comparisons of such integers; tiles that are reduced while they are only
/// filled; conditions that are known while compiling; casts of elements with a point; roles whose arrays may be kept in memory; and
/// elements that all threads have, in a statement of one thread; coordinates of rows that go through shared memory. And those to which the reference gave no meaning: integers of the kernel as `u32`,
/// the least of two literals, numbers of 8 bits beside one element.
#[test]
fn kernels_that_were_wrong_are_right() {
    let parts =
        [70_607, 100_170, 101_283, 102_759, 301_654, 305_700, 307_494, 308_083, 401_611, 401_622, 500_589]
            .map(|seed| (seed, Kind::Parts));
    let whole = [
        83, 241, 492, 1_055, 1_217, 1_349, 1_643, 1_947, 3_023, 5_836, 10_328, 20_149, 20_216, 70_443,
        301_591, 302_408, 302_622, 302_818, 304_774, 304_798, 306_400, 500_091, 500_420, 500_588, 501_207,
        600_599,
    ]
    .map(|seed| (seed, Kind::Whole));
    // Those that find planted faults, and what a shared row and sums of several threads stand for.
    let targeted = [5, 19, 47, 83, 881].map(|seed| (seed, Kind::Targeted));
    for (first, kind) in parts.into_iter().chain(whole).chain(targeted) {
        let tally = run(&Batch { first, kind, count: 1, ..Batch::default() });
        // Limits on the shares of refused kernels and unknown elements need many kernels.
        assert_eq!(tally.right, 1, "{kind:?} {first}: {}", tally.text());
    }
}

/// A maximum of sums that may have no terms.
#[test]
fn kernels_that_were_wrong_are_refused() {
    let tally = run(&Batch { first: 300_451, count: 1, ..Batch::default() });
    assert_eq!((tally.wrong.len(), tally.refusals()), (0, 1), "{}", tally.text());
}

#[test]
fn a_seed_draws_the_same_kernel_again() {
    for seed in 0..200 {
        for kind in [Kind::Parts, Kind::Whole, Kind::Targeted] {
            assert_eq!(source::subject(&kind.subject(seed)), source::subject(&kind.subject(seed)));
        }
    }
}

/// The text of a subject is complete: two of them never have the same text.
#[test]
fn kernels_differ() {
    let texts: std::collections::BTreeSet<String> = (0..200)
        .filter_map(|seed| match draw::subject(seed).source {
            Source::Text(definition @ Definition::Function(..)) => Some(source::definition(&definition)),
            _ => None,
        })
        .collect();
    assert!(texts.len() > 150, "only {} of 200 are different kernels", texts.len());
}

/// A changed line under a fault of the table is reported with the row to adapt.
#[test]
fn planted_faults_still_apply() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let misfits = misfits(root);
    assert!(misfits.is_empty(), "{}", misfits.join("\n\n"));
    let count = faults().count();
    assert!(count >= 40, "{count} faults");
}
