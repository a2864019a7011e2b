//! A short run of `cargo xtask fuzz kernels`.

use std::collections::BTreeSet;

use tilewright_codegen::tile::{Expr, Op, Program, Space, Stmt};
use tilewright_codegen::view::View;
use tilewright_codegen::{Definition, Generate};
use tilewright_fuzz::draw::Kind;
use tilewright_fuzz::run::{Batch, run};
use tilewright_fuzz::{options, source};

/// The first of the kernels, and how many: enough for every construct.
const SAMPLE: (u64, u64) = (470, 300);

#[test]
fn drawn_kernels_of_parts_compute_what_their_text_says() {
    let tally = run(&Batch { first: SAMPLE.0, count: SAMPLE.1, ..Batch::default() });
    let complaints = tally.complaints(1);
    assert!(complaints.is_empty(), "{}\n\n{}", tally.text(), complaints.join("\n\n"));
}

/// Kernels of whole tiles.
#[test]
fn drawn_kernels_of_whole_tiles_compute_what_their_text_says() {
    let tally = run(&Batch { count: 60, kind: Kind::Whole, ..Batch::default() });
    let complaints = tally.complaints(0);
    assert!(complaints.is_empty(), "{}\n\n{}", tally.text(), complaints.join("\n\n"));
}

/// Kernels about one interplay.
#[test]
fn drawn_kernels_about_one_interplay_compute_what_their_text_says() {
    let tally = run(&Batch { first: 100, count: 40, kind: Kind::Targeted, ..Batch::default() });
    let complaints = tally.complaints(0);
    assert!(complaints.is_empty(), "{}\n\n{}", tally.text(), complaints.join("\n\n"));
}

/// Kernels whose lanes and blocks exchange elements, whose loops elements end, and of tuples of tiles.
#[test]
fn drawn_kernels_of_exchanges_compute_what_their_text_says() {
    let tally = run(&Batch { count: 60, kind: Kind::Exchanges, ..Batch::default() });
    let complaints = tally.complaints(0);
    assert!(complaints.is_empty(), "{}\n\n{}", tally.text(), complaints.join("\n\n"));
}

/// Kernels for pairs of options.
#[test]
fn drawn_kernels_with_options_compute_what_their_text_says() {
    let tally = run(&Batch { count: 80, kind: Kind::Options, ..Batch::default() });
    let complaints = tally.complaints(0);
    assert!(complaints.is_empty(), "{}\n\n{}", tally.text(), complaints.join("\n\n"));
}

/// Every option of the language is drawn beside every other, or there is a reason why not.
#[test]
fn each_option_is_drawn_beside_each_other() {
    for (seed, pair) in options::PAIRS.iter().enumerate() {
        let definition = Kind::Options.kernel(seed as u64);
        let Definition::Function(kernel, _) = &definition else { panic!("no text") };
        let drawn = options::of_kernel(kernel);
        let missing: Vec<_> = pair.iter().filter(|of| !drawn.contains(of)).collect();
        assert!(missing.is_empty(), "seed {seed}: {missing:?} in\n{}", source::definition(&definition));
    }
    assert_eq!(options::idle_exceptions(), Vec::<String>::new(), "exceptions that concern no pair");
}

/// Each construct that they are about is drawn.
#[test]
fn kernels_of_exchanges_have_all_constructs() {
    let text: String = (0..600).map(|seed| source::definition(&Kind::Exchanges.kernel(seed))).collect();
    let wanted = [
        "warp_shuffle(",
        "warp_ballot(",
        "warp_match(",
        "warp_sum(",
        "lanes = 8",
        "walk(",
        "wait(",
        "signal(",
        "carry =",
        "while ",
        "break;",
        "fast_exp(",
        "fast_div(",
        "for (o, w) in (",
        "for m in (",
        "|(a, b), (c, d)|",
        "regroup(",
    ];
    let missing: Vec<_> = wanted.into_iter().filter(|of| !text.contains(of)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Kernels that were wrong: sources of copies in flight that are overwritten, shared tiles that are copied to views of
/// themselves, tiles that are read after writes of other views, parts of K that moved to other threads, mbarriers of loops
/// without iterations, and their barriers; what a producer fills and consumers change; loops between integers without a sign, which
/// were not simulated; coordinates of more than 32 bits, and comparisons of such integers; tiles that are reduced while they are only
/// filled; conditions that are known while compiling; casts of elements with a point; roles whose arrays may be kept in memory; and
/// elements that all threads have, in a statement of one thread; coordinates of rows that go through shared memory; remainders of
/// negative numbers in bounds of loops that a size of 0 may empty; numbers that are not exact and stay what they were where 0 is added;
/// registers of roles without products; elements before a tile that threads do not divide; false claims of
/// launches without blocks. And those to which the oracle gave no meaning: integers of the kernel as `u32`, the least of two
/// literals, numbers of 8 bits beside one element, literals alone in a map of bytes.
#[test]
fn kernels_that_were_wrong_are_right() {
    let parts = [
        963_819,
        70_607,
        100_170,
        101_283,
        102_759,
        301_654,
        305_700,
        307_494,
        308_083,
        401_611,
        401_622,
        500_589,
        1_000_990,
        206_000_477,
    ]
    .map(|seed| (seed, Kind::Parts));
    let whole = [
        83, 110, 241, 492, 1_055, 1_217, 1_349, 1_643, 1_947, 3_023, 5_836, 10_328, 20_149, 20_216, 70_443,
        301_591, 302_408, 302_622, 302_818, 304_774, 304_798, 306_400, 500_091, 500_420, 500_588, 501_207,
        600_599, 964_544, 968_438, 1_032_119, 5_000_410, 5_000_909,
    ]
    .map(|seed| (seed, Kind::Whole));
    // Those that find planted faults, and what a shared row, sums of several threads and tiles of two loops stand for.
    let targeted =
        [5, 7, 11, 47, 60, 83, 881, 1_020_891, 7_000_356, 7_002_340].map(|seed| (seed, Kind::Targeted));
    // Results in blocks of columns that bulk stores cannot begin at, or that do not divide the tile.
    let options = [7_000_807, 7_001_089].map(|seed| (seed, Kind::Options));
    for (first, kind) in parts.into_iter().chain(whole).chain(targeted).chain(options) {
        let tally = run(&Batch { first, kind, count: 1, ..Batch::default() });
        // Limits on the shares of refused kernels and unknown elements need many kernels.
        assert_eq!(tally.right, 1, "{kind:?} {first}: {}", tally.text());
    }
}

/// A coordinate that combined tiles disagree about; products of operands that end at different places, in other operations.
#[test]
fn kernels_that_were_wrong_are_refused() {
    for (first, kind) in [(19, Kind::Targeted), (96_000_441, Kind::Parts), (95_500_748, Kind::Parts)] {
        let tally = run(&Batch { first, kind, count: 1, ..Batch::default() });
        assert_eq!((tally.wrong.len(), tally.refusals()), (0, 1), "{first}: {}", tally.text());
    }
}

#[test]
fn a_seed_draws_the_same_kernel_again() {
    for seed in 0..200 {
        for kind in [Kind::Parts, Kind::Whole, Kind::Targeted, Kind::Exchanges, Kind::Options] {
            assert_eq!(source::definition(&kind.kernel(seed)), source::definition(&kind.kernel(seed)));
        }
    }
}

/// The effects of statements on elements of a type.
fn roles(program: &Program) -> BTreeSet<(&'static str, &'static str)> {
    let mut all = BTreeSet::new();
    let elem = |view: &View| program.tensor(view.tensor).elem.name();
    let is_global = |view: &View| matches!(program.tensor(view.tensor).space, Space::Global { .. });
    let see = |stmt: &Stmt| match &stmt.op {
        Op::Copy { from, to, .. } => {
            for (role, of) in [("load", from), ("store", to)] {
                if is_global(of) {
                    all.insert((role, elem(of)));
                }
            }
            if elem(from) != elem(to) {
                all.extend([("conversion", elem(from)), ("conversion", elem(to))]);
            }
        }
        Op::Map { ins, to, value } => {
            all.extend(ins.iter().filter(|of| is_global(of)).map(|of| ("load", elem(of))));
            all.extend(is_global(to).then(|| ("store", elem(to))));
            let has = |is: fn(&Expr) -> bool| value.any(&is);
            let of_first = ins.first().map(elem);
            let arithmetic = has(|part| matches!(part, Expr::Bin(..)));
            all.extend(of_first.filter(|_| arithmetic).map(|elem| ("arithmetic", elem)));
            let compares = has(|part| matches!(part, Expr::Cmp(..) | Expr::Pick(..)));
            all.extend(of_first.filter(|_| compares).map(|elem| ("comparison", elem)));
            let converts = has(|part| matches!(part, Expr::Cast(..))) && of_first != Some(elem(to));
            all.extend(of_first.filter(|_| converts).map(|elem| ("conversion", elem)));
        }
        Op::Fold { from, .. } => all.extend(from.iter().map(|view| ("reduction", elem(view)))),
        Op::Gather { from, .. } => {
            all.insert(("gather", elem(from)));
        }
        Op::Scatter { to, update, .. } => {
            all.insert((if update.is_some() { "atomic" } else { "scatter" }, elem(to)));
        }
        Op::Atomic { to, .. } => {
            all.insert(("atomic", elem(to)));
        }
        Op::Take { from, .. } => {
            all.insert(("coordinate", elem(from)));
        }
        _ => {}
    };
    program.body.iter().flat_map(Stmt::preorder).for_each(see);
    all
}

/// Kernels about types of elements have each of the types in each role.
#[test]
fn types_of_elements_have_all_roles() {
    let programs = (0..200).filter_map(|n| Kind::Targeted.kernel(4 * n + 2).program().ok());
    let all: BTreeSet<_> = programs.flat_map(|program| roles(&program)).collect();
    let numbers = ["i64", "u64", "i16", "u16"];
    let mut wanted = Vec::new();
    for role in
        ["load", "store", "arithmetic", "comparison", "conversion", "reduction", "gather", "coordinate"]
    {
        wanted.extend(numbers.map(|elem| (role, elem)));
        wanted.push((role, "bool"));
    }
    wanted.extend(["i64", "u64"].map(|elem| ("atomic", elem)));
    let missing: Vec<_> = wanted.iter().filter(|of| !all.contains(of)).collect();
    assert!(missing.is_empty(), "{missing:?}\n{all:?}");
}

/// The text of a kernel is complete: two of them never have the same text.
#[test]
fn kernels_differ() {
    let texts: BTreeSet<String> = (0..200)
        .map(|seed| Kind::Parts.kernel(seed))
        .filter(|of| matches!(of, Definition::Function(..)))
        .map(|of| source::definition(&of))
        .collect();
    assert!(texts.len() > 150, "only {} of 200 are different kernels", texts.len());
}
