//! Distributions against brute force and against partitions, which are implemented independently.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use tilewright_layout::{Distribution, Exchange, Layout, MmaAtom, Submode, TiledMma, layout};

/// The coordinates of a thread's values, in order, without out-of-bounds ones.
fn owned(d: &Distribution, thread: i64) -> Vec<Vec<i64>> {
    let inside = |at: &Vec<i64>| at.iter().zip(d.tile()).all(|(at, extent)| at < extent);
    (0..d.values()).map(|value| d.coordinate(thread, value)).filter(inside).collect()
}

/// The number of threads that have each element.
fn owners(d: &Distribution) -> HashMap<Vec<i64>, i64> {
    let mut owners = HashMap::new();
    for at in (0..d.threads()).flat_map(|thread| owned(d, thread)) {
        *owners.entry(at).or_default() += 1;
    }
    owners
}

proptest! {
    /// Whatever the extents, every element belongs to exactly one thread.
    #[test]
    fn threads_spread_over_a_tile_hold_all_of_it_once(
        m in 1i64..70, n in 1i64..70, vector in 0u32..3, threads in 1i64..130, turned: bool,
    ) {
        let order = if turned { [1, 0] } else { [0, 1] };
        let along = [m, n][order[0]];
        let vector = (0..=vector).map(|n| 1 << n).filter(|n| along % n == 0).max().unwrap();
        let d = Distribution::spread(&[m, n], &order, vector, threads);
        prop_assert_eq!(d.threads(), threads);
        let owners = owners(&d);
        prop_assert_eq!(owners.len() as i64, m * n);
        prop_assert!(owners.values().all(|&count| count == 1));
        // A vector is inside as a whole, or out of bounds.
        for thread in 0..threads {
            for value in (0..d.values()).step_by(vector as usize) {
                let at: Vec<i64> = (0..vector).map(|e| d.coordinate(thread, value + e)[order[0]]).collect();
                prop_assert!(at.windows(2).all(|pair| pair[1] == pair[0] + 1));
                prop_assert!(at[0] >= along || at[at.len() - 1] < along);
            }
        }
    }

    /// A projection keeps the coordinates along the remaining modes.
    #[test]
    fn projections_keep_what_stands_along_other_modes(m in 1i64..20, n in 1i64..20, threads in 1i64..65) {
        let d = Distribution::spread(&[m, n], &[1, 0], 1, threads);
        let rows = d.projected(&[true, false]);
        prop_assert_eq!(rows.tile(), &[m, 1]);
        for thread in 0..threads {
            let before: HashSet<i64> = (0..d.values()).map(|v| d.coordinate(thread, v)[0]).collect();
            let after: HashSet<i64> = (0..rows.values()).map(|v| rows.coordinate(thread, v)[0]).collect();
            prop_assert_eq!(before, after);
        }
        // Threads that differ only in combined digits have the same rows.
        for (extent, stride) in d.combined(&[true, false]) {
            for thread in 0..threads {
                let first = thread - thread / stride % extent * stride;
                prop_assert_eq!(rows.coordinate(thread, 0), rows.coordinate(first, 0));
            }
        }
        prop_assert_eq!(rows.replicated(), d.combined(&[true, false]));
    }
}

/// The same part for each thread as [`Layout::parallelize`] gives.
#[track_caller]
fn check_threads(tile: [i64; 2], threads: &Layout) {
    let d = Distribution::of_threads(&tile, threads, &[1, 1]).unwrap();
    let plain = Layout::compact((tile[0], tile[1])).unwrap();
    for thread in 0..threads.size().unwrap() {
        let (part, begin) = plain.parallelize(threads, thread, None).unwrap();
        let expected: HashSet<i64> = part.offsets().unwrap().map(|at| at + begin.int().unwrap()).collect();
        let own: HashSet<i64> = owned(&d, thread).iter().map(|at| at[0] + tile[0] * at[1]).collect();
        assert_eq!(own, expected, "thread {thread}");
    }
}

#[test]
fn thread_layouts_distribute_as_partitions_do() {
    check_threads([16, 8], &layout!((8, 4)));
    check_threads([16, 8], &layout!((8, 4) : (4, 1)));
    check_threads([16, 8], &layout!((1, 4)));
    check_threads([16, 8], &layout!(((2, 4), 2) : ((1, 4), 2)));
    check_threads([12, 10], &layout!((3, 5) : (5, 1)));
}

/// The same part for each thread, in the same order, as partitions for instructions give.
#[track_caller]
fn check_atom(tile: [i64; 2], groups: &Layout) {
    let c = layout!(((4, 8), (2, 2)) : ((32, 1), (16, 8)));
    let atom =
        MmaAtom { shape: (16, 8, 8), a: c.clone(), b: layout!(((4, 8), 2) : ((16, 1), 8)), c: c.clone() };
    let over = Layout::from_modes(groups.modes().chain([Layout::new(1i64, 0i64).unwrap()])).unwrap();
    let mma = TiledMma::new(atom, over).unwrap();
    let d = Distribution::of_atom(&tile, &[16, 8], &c, groups).unwrap();
    let plain = Layout::compact((tile[0], tile[1])).unwrap();
    assert_eq!(d.threads(), mma.threads().unwrap());
    for thread in 0..d.threads() {
        let (part, begin) = mma.partition_c(&plain, thread).unwrap();
        let expected: Vec<i64> = part.offsets().unwrap().map(|at| at + begin.int().unwrap()).collect();
        let own: Vec<i64> = owned(&d, thread).iter().map(|at| at[0] + tile[0] * at[1]).collect();
        assert_eq!(own, expected, "thread {thread}");
    }
}

#[test]
fn instructions_distribute_as_their_partitions_do() {
    check_atom([16, 8], &layout!((1, 1)));
    check_atom([64, 32], &layout!((2, 2)));
    check_atom([64, 32], &layout!((2, 2) : (2, 1)));
    check_atom([128, 64], &layout!((4, 1)));
    let tv = layout!(((4, 8), (2, 2)) : ((32, 1), (16, 8)));
    assert!(Distribution::of_atom(&[24, 8], &[16, 8], &tv, &layout!((1, 1))).is_err());
}

#[test]
fn repeated_distributions_lie_side_by_side() {
    let warp = Distribution::spread(&[8, 16], &[1, 0], 2, 32);
    for groups in [layout!((2, 3)), layout!((2, 3) : (3, 1)), layout!((1, 4))] {
        let all = warp.repeated(&groups).unwrap();
        let back = groups.right_inverse().unwrap();
        let rows = groups.mode(0).unwrap().size().unwrap();
        for thread in 0..all.threads() {
            let index = back.offsets().unwrap().nth((thread / 32) as usize).unwrap();
            for value in 0..all.values() {
                let own = warp.coordinate(thread % 32, value);
                let expected = [own[0] + 8 * (index % rows), own[1] + 16 * (index / rows)];
                assert_eq!(all.coordinate(thread, value), expected);
            }
        }
        assert!(owners(&all).values().all(|&count| count == 1));
    }
    assert!(warp.repeated(&layout!((2, 2) : (1, 4))).is_err());
    let larger = Distribution::spread(&[8, 12], &[1, 0], 2, 32);
    assert!(larger.repeated(&layout!((2, 2))).is_err());
}

#[test]
fn exchanges_are_judged() {
    let tv = layout!(((4, 8), (2, 2)) : ((32, 1), (16, 8)));
    let acc = Distribution::of_atom(&[16, 8], &[16, 8], &tv, &layout!((1, 1))).unwrap();
    let rows = Distribution::spread(&[16, 8], &[1, 0], 4, 32);
    // One warp: every needed element is in the same warp.
    assert_eq!(acc.exchange(&rows), Exchange::Warp);
    let submode = |extent, mode, step| Submode { extent, mode, step };
    let swapped = Distribution::new(
        &[16, 8],
        vec![submode(4, 1, 2), submode(8, 0, 1)],
        vec![submode(2, 0, 8), submode(2, 1, 1)],
    );
    assert_eq!(acc.exchange(&swapped), Exchange::Registers);
    let four = |order: &[usize]| Distribution::spread(&[64, 64], order, 1, 128);
    assert_eq!(four(&[0, 1]).exchange(&four(&[1, 0])), Exchange::Shared);
    // A replicated element is in every thread.
    let everywhere = Distribution::new(&[4, 1], vec![submode(32, 0, 0)], vec![submode(4, 0, 1)]);
    let apart = Distribution::new(&[4, 1], vec![submode(4, 0, 1), submode(8, 0, 0)], vec![]);
    assert_eq!(apart.exchange(&everywhere), Exchange::Warp);
}
