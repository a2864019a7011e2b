//! The defining law of every operation, against brute force on random layouts.

use crate::common::*;
use proptest::prelude::*;
use tilewright_layout::{ALL, Composed, Condition, Layout, Swizzle, Tiler, Tuple};

/// The values of `A∘B`, by brute force.
fn composed(a: &Layout, b: &Layout) -> Vec<i64> {
    let a = leaves(a);
    offsets(b).into_iter().map(|index| eval(&a, index)).collect()
}

#[track_caller]
fn check_composition(a: &Layout, b: &Layout) {
    let expected = composed(a, b);
    let extents = b.shape().ints().unwrap();
    match a.composition(b) {
        Ok(r) => {
            assert!(b.shape().compatible(&r.shape()), "{a} o {b} = {r}");
            assert_eq!(offsets(&r), expected, "{a} o {b} = {r}");
        }
        Err(error) => {
            let first = first_contradiction(&extents, &expected);
            assert!(first.is_some(), "{a} o {b} has an answer: {}", error.line());
            let claimed = error.counterexample().expect("a coordinate").ints().unwrap();
            let actual = claimed.iter().rev().zip(extents.iter().rev()).fold(0, |at, (c, n)| at * n + c);
            assert_eq!(Some(actual as usize), first, "{a} o {b}: {}", error.line());
        }
    }
}

/// Left operands whose bends may cancel: each later stride undoes what an earlier bend did.
fn cancelling() -> impl Strategy<Value = Layout> {
    let modes = proptest::collection::vec((2i64..=10, -1i64..=1), 2..=4);
    (modes, -3i64..=9, -6i64..=6).prop_map(|(modes, slope, bend)| {
        let (mut shape, mut stride) = (Vec::new(), vec![slope]);
        for (n, sign) in modes {
            shape.push(n);
            stride.push(stride.last().unwrap() * n + sign * bend);
        }
        shape.push(4);
        Layout::new(Tuple::flat(&shape), Tuple::flat(&stride)).unwrap()
    })
}

fn small_positive() -> BoxedStrategy<Layout> {
    let stride = prop_oneof![1 => Just(0i64), 4 => 1i64..=12, 2 => 1i64..=48];
    proptest::collection::vec((extent(), stride), 1..=3)
        .prop_map(|modes| match modes[..] {
            [(n, d)] => Layout::new(n, d).unwrap(),
            _ => Layout::from_modes(modes.iter().map(|&(n, d)| Layout::new(n, d).unwrap())).unwrap(),
        })
        .boxed()
}

proptest! {
    #[test]
    fn composition(a in any_layout(), b in positive()) {
        check_composition(&a, &b);
    }

    #[test]
    fn composition_of_flat_layouts(a in small_positive(), b in small_positive()) {
        check_composition(&a, &b);
    }

    #[test]
    fn composition_with_bends_that_cancel(a in cancelling(), n in 2i64..=12, d in 1i64..=40, m in 1i64..=6, e in 0i64..=60) {
        check_composition(&a, &Layout::new(n, d).unwrap());
        check_composition(&a, &Layout::new((n, m), (d, e)).unwrap());
    }

    #[test]
    fn composition_with_the_strides_of_the_shape(a in any_layout(), picks in proptest::collection::vec((0usize..8, 1i64..=3, extent()), 1..=3)) {
        let shape = a.shape().ints().unwrap();
        let modes = picks.iter().map(|&(upto, times, n)| {
            Layout::new(n, times * shape.iter().take(upto).product::<i64>()).unwrap()
        });
        check_composition(&a, &Layout::from_modes(modes).unwrap());
    }

    #[test]
    fn composition_by_mode(a in any_layout(), tilers in proptest::collection::vec(proptest::option::of(small_positive()), 1..=3)) {
        let tiler = Tiler::Modes(tilers.iter().map(|t| t.as_ref().map_or(Tiler::Keep, Tiler::from)).collect());
        if tilers.len() > a.rank() {
            prop_assert!(a.composition(tiler).is_err());
            return Ok(());
        }
        let single: Vec<_> = a.modes().enumerate().map(|(i, mode)| match tilers.get(i) {
            Some(Some(tile)) => mode.composition(tile),
            _ => Ok(mode),
        }).collect();
        match a.composition(tiler) {
            Ok(r) => prop_assert!(r.modes().eq(single.into_iter().map(Result::unwrap))),
            Err(e) => prop_assert!(single[e.mode().unwrap()].is_err()),
        }
    }
}

fn by_index(layout: &Layout, index: i64) -> i64 {
    eval(&leaves(layout), index)
}

/// The offset of a coordinate given as one index for each top-level mode.
fn by_modes(layout: &Layout, indices: &[i64]) -> i64 {
    layout.modes().zip(indices).map(|(mode, &index)| by_index(&mode, index)).sum()
}

proptest! {
    #[test]
    fn coalesce(a in any_layout()) {
        let c = a.coalesce();
        prop_assert_eq!(offsets(&c), offsets(&a));
        prop_assert!(c.depth() <= 1);
        let flat = leaves(&c);
        prop_assert!(flat.len() == 1 || flat.iter().all(|l| l.0 > 1));
        prop_assert!(flat.windows(2).all(|w| w[0].0 * w[0].1 != w[1].1), "{} could be shorter", c);
        let each = Tuple::flat(&vec![1; a.rank()]);
        let by_mode = a.coalesce_modes(each).unwrap();
        if a.depth() > 0 {
            prop_assert!(by_mode.modes().eq(a.modes().map(|m| m.coalesce())));
        }
    }

    #[test]
    fn filter(a in any_layout()) {
        let moving: Vec<(i64, i64)> = leaves(&a).into_iter().filter(|l| l.1 != 0).collect();
        let size: i64 = moving.iter().map(|l| l.0).product();
        let expected: Vec<i64> = (0..size).map(|i| eval(&moving, i)).collect();
        prop_assert_eq!(offsets(&a.filter()), expected);
    }

    #[test]
    fn regrouping(a in any_layout(), from in 0usize..4, to in 0usize..5, picks in proptest::collection::vec(0usize..4, 1..4)) {
        prop_assert_eq!(offsets(&a.flatten()), offsets(&a));
        prop_assert!(a.flatten().depth() <= 1);
        match a.group(from, to) {
            Ok(g) => {
                prop_assert_eq!(g.rank(), a.rank() - (to - from) + 1);
                prop_assert_eq!(g.flatten(), a.flatten());
                prop_assert!(g.mode(from).unwrap().modes().eq(a.modes().skip(from).take(to - from)));
            }
            Err(_) => prop_assert!(from >= to || to > a.rank()),
        }
        match a.select(&picks) {
            Ok(s) => prop_assert!(s.modes().eq(picks.iter().map(|&p| a.mode(p).unwrap()))),
            Err(_) => prop_assert!(picks.iter().any(|&p| p >= a.rank())),
        }
    }

    #[test]
    fn reshape(a in any_layout(), like in any_layout()) {
        let shape = like.shape();
        match a.reshape(&shape) {
            Ok(r) => {
                prop_assert_eq!(offsets(&r), offsets(&a));
                prop_assert!(shape.compatible(&r.shape()));
            }
            Err(_) if a.size() != like.size() => {}
            Err(_) => prop_assert!(!is_a_layout(&shape.ints().unwrap(), &offsets(&a))),
        }
        prop_assert_eq!(offsets(&a.reshape(a.shape()).unwrap()), offsets(&a));
    }

    #[test]
    fn made_from_a_shape(a in any_layout(), order in proptest::collection::vec(0i64..9, 16), pad in 0i64..5) {
        let shape = a.shape();
        let size = a.size().unwrap();
        prop_assert_eq!(offsets(&Layout::compact(&shape).unwrap()), (0..size).collect::<Vec<_>>());
        let extents = shape.ints().unwrap();
        let mut numbers = order.iter().copied().cycle().take(extents.len());
        let ranks: Vec<i64> = order.iter().copied().cycle().take(extents.len()).collect();
        let ordered = Layout::ordered(&shape, fill(&shape, &mut numbers)).unwrap();
        let mut sorted = offsets(&ordered);
        sorted.sort_unstable();
        prop_assert_eq!(sorted, (0..size).collect::<Vec<_>>());
        let flat = leaves(&ordered);
        for (i, x) in flat.iter().enumerate() {
            for (j, y) in flat.iter().enumerate() {
                if ranks[i] < ranks[j] {
                    prop_assert!(x.1 * x.0 <= y.1, "{}", ordered);
                }
            }
        }
        let row_major = Layout::row_major(&shape).unwrap();
        let mut reversed: Vec<(i64, i64)> = leaves(&row_major);
        reversed.reverse();
        prop_assert!((0..size).all(|i| eval(&reversed, i) == i));
        let padded = leaves(&Layout::padded(&shape, pad).unwrap());
        let mut next = 1;
        for (leaf, &(n, d)) in padded.iter().enumerate() {
            prop_assert_eq!(d, next);
            next = next * n + if leaf == 0 { pad } else { 0 };
        }
    }

    #[test]
    fn coordinates(a in any_layout(), index in 0i64..2000) {
        let coordinate = a.coordinate(index).unwrap();
        prop_assert!(coordinate.congruent(&a.shape()));
        prop_assert_eq!(a.at(&coordinate).unwrap().int(), Some(by_index(&a, index)));
        prop_assert_eq!(a.eval(index), Some(by_index(&a, index)));
        prop_assert_eq!(a.at(index).unwrap().int(), a.eval(index));
        let all = offsets(&a);
        prop_assert_eq!(all.len() as i64, a.size().unwrap());
        prop_assert!(all.iter().enumerate().all(|(i, at)| *at == by_index(&a, i as i64)));
        let span = all.iter().max().unwrap() - all.iter().min().unwrap() + 1;
        if leaves(&a).iter().all(|l| l.1 >= 0) || leaves(&a).len() == 1 {
            prop_assert_eq!(a.cosize().unwrap(), span);
        }
        prop_assert_eq!(a.cosize().unwrap(), span);
        let each: Vec<i64> = a.modes().map(|m| index % m.size().unwrap()).collect();
        if a.depth() > 0 {
            prop_assert_eq!(a.at(Tuple::flat(&each)).unwrap().int(), Some(by_modes(&a, &each)));
        }
    }

    #[test]
    fn coordinate_at(shape in any_layout(), order in proptest::collection::vec(0i64..9, 16)) {
        let shape = shape.shape();
        let n = shape.leaves().len();
        let a = Layout::ordered(&shape, fill(&shape, &mut order.into_iter().cycle().take(n))).unwrap();
        for offset in offsets(&a) {
            prop_assert_eq!(a.at(a.coordinate_at(offset).unwrap()).unwrap().int(), Some(offset));
        }
    }

    #[test]
    fn slice_and_dice(a in any_layout(), index in 0i64..800, holes in any::<u64>()) {
        // fix some leaves, keep the others
        let index = index % a.size().unwrap();
        let full = a.coordinate(index).unwrap().ints().unwrap();
        let mut leaf = 0;
        let mut hole = |_: &Tuple| { leaf += 1; holes >> (leaf % 64) & 1 == 1 };
        let coordinate = holed(&a.shape(), &mut full.iter().copied(), &mut hole);
        let (kept, offset) = a.slice(&coordinate).unwrap();
        let flat = leaves(&a);
        let open: Vec<bool> = coordinate.leaves().iter().map(|v| v.int().is_none()).collect();
        let fixed: i64 = (0..flat.len()).filter(|&l| !open[l]).map(|l| full[l] * flat[l].1).sum();
        prop_assert_eq!(offset.int(), Some(fixed));
        let left: Vec<(i64, i64)> = (0..flat.len()).filter(|&l| open[l]).map(|l| flat[l]).collect();
        let left = if left.is_empty() { vec![(1, 0)] } else { left };
        prop_assert_eq!(leaves(&kept), left);
        let diced = leaves(&a.dice(&coordinate).unwrap());
        let cut: Vec<(i64, i64)> = (0..flat.len()).filter(|&l| !open[l]).map(|l| flat[l]).collect();
        let cut = if cut.is_empty() { vec![(1, 0)] } else { cut };
        prop_assert_eq!(diced, cut);
    }

    #[test]
    fn complement(a in any_layout(), size in 1i64..400) {
        let own: Vec<(i64, i64)> = leaves(&a).into_iter().filter(|l| l.0 > 1 && l.1 != 0).map(|(n, d)| (n, d.abs())).collect();
        let apart = reached(&own);
        let Ok(rest) = a.complement(size) else {
            prop_assert!(!all_different(&apart), "{} is injective", a);
            return Ok(());
        };
        let places = leaves(&rest);
        prop_assert!(places.windows(2).all(|w| w[0].0 * w[0].1 <= w[1].1), "ordered: {}", rest);
        let mut both: Vec<i64> = offsets(&rest).iter().flat_map(|j| apart.iter().map(move |i| i + j)).collect();
        prop_assert!(all_different(&both), "disjoint: {} with {}", a, rest);
        // The period is the start of the next copy: `size` is rounded up to whole periods, and everything is
        // below that.
        let period = period(&a);
        let bound = (size + period - 1) / period * period;
        prop_assert!(both.iter().all(|at| (0..bound).contains(at)), "{} with {} passes {}", a, rest, bound);
        // Everything is covered up to the bound, where another copy would begin.
        let gaps = a.complement(1).unwrap().size().unwrap();
        prop_assert_eq!(rest.size().unwrap(), gaps * (bound / period), "{} with {}", a, rest);
        let mut sorted = own.clone();
        sorted.sort_unstable_by_key(|l| l.1);
        if sorted.windows(2).all(|w| w[0].0 * w[0].1 <= w[1].1) {
            prop_assert_eq!(period, sorted.last().map_or(1, |l| l.0 * l.1));
            // each gap of a chain has the copies of the part below that fit
            let mut below = 1;
            let mut expected = 1;
            for (n, d) in sorted {
                expected *= d / below;
                below = n * d;
            }
            prop_assert_eq!(gaps, expected);
        }
        // without padding, everything is covered
        let mut chain: Vec<(i64, i64)> = own.into_iter().chain(places).filter(|l| l.0 > 1).collect();
        chain.sort_unstable_by_key(|l| l.1);
        let mut next = 1;
        let exact = chain.iter().all(|&(n, d)| { let fits = d == next; next = n * d; fits });
        if exact {
            both.sort_unstable();
            prop_assert!(both.into_iter().eq(0..next) && next >= size);
        }
    }

    #[test]
    fn injective(a in any_layout()) {
        prop_assert_eq!(a.is_injective(), Some(all_different(&offsets(&a))));
    }

    #[test]
    fn inverses(a in any_layout()) {
        let right = a.right_inverse().unwrap();
        for i in 0..right.size().unwrap() {
            prop_assert_eq!(by_index(&a, by_index(&right, i)), i, "{} then {}", right, a);
            prop_assert!((0..a.size().unwrap()).contains(&by_index(&right, i)));
        }
        prop_assert_eq!(right.size().unwrap(), longest_chain(&leaves(&a), 1), "{}: {}", a, right);
        match a.left_inverse() {
            Ok(left) => {
                prop_assert!(left.size().is_ok());
                for (i, at) in offsets(&a).into_iter().enumerate() {
                    prop_assert_eq!(by_index(&left, at), i as i64, "{} then {}", a, left);
                }
            }
            Err(error) => {
                let below = leaves(&a).iter().any(|l| l.0 > 1 && l.1 < 0);
                prop_assert!(below || !all_different(&offsets(&a)) || matches!(error.condition(), Condition::NoLayoutThrough { .. }), "{}: {}", a, error);
            }
        }
        let null = a.nullspace().unwrap();
        prop_assert!(offsets(&null).into_iter().all(|i| by_index(&a, i) == 0));
        prop_assert!(all_different(&offsets(&null)));
        let still: i64 = leaves(&a).iter().filter(|l| l.1 == 0).map(|l| l.0).product();
        prop_assert_eq!(null.size().unwrap(), still);
    }

    #[test]
    fn common_layout_and_vector(a in prop_oneof![any_layout(), dense()], b in prop_oneof![any_layout(), dense()]) {
        check_common(&a, &b)?;
        check_common(&a, &a)?;
        if let Ok(b) = b.reshape(a.shape()) {
            check_common(&a, &b)?;
        }
        let order: Vec<i64> = (0..a.shape().leaves().len() as i64).rev().collect();
        let other = Layout::ordered(a.shape(), fill(&a.shape(), &mut order.into_iter())).unwrap();
        check_common(&a, &other)?;
    }

    #[test]
    fn divide(a in any_layout(), b in positive()) {
        let Ok(parts) = a.logical_divide(&b) else {
            // the tile has no complement, or the composition no answer
            let both = b.complement(a.size().unwrap()).map(|rest| Layout::from_modes([b.clone(), rest]).unwrap());
            prop_assert!(both.is_err() || a.composition(both.unwrap()).is_err());
            return Ok(());
        };
        let rest = b.complement(a.size().unwrap()).unwrap();
        let (tile, tiles) = (parts.mode(0).unwrap(), parts.mode(1).unwrap());
        prop_assert_eq!(parts.rank(), 2);
        for (j, from) in offsets(&rest).into_iter().enumerate() {
            for (i, at) in offsets(&b).into_iter().enumerate() {
                let actual = by_index(&tile, i as i64) + by_index(&tiles, j as i64);
                prop_assert_eq!(actual, by_index(&a, at + from), "{} / {} = {}", a, b, parts);
            }
        }
        prop_assert_eq!(a.zipped_divide(&b).unwrap(), parts);
        let tiled = a.tiled_divide(&b).unwrap();
        prop_assert!(tiled.modes().eq([tile.clone()].into_iter().chain(tiles.modes())));
        let flat = a.flat_divide(&b).unwrap();
        prop_assert!(flat.modes().eq(tile.modes().chain(tiles.modes())));
    }

    #[test]
    fn divide_by_mode(a in any_layout(), tile in proptest::collection::vec(1i64..=6, 1..=3)) {
        let Ok(parts) = a.logical_divide(Tuple::flat(&tile)) else {
            let fails = a.modes().zip(&tile).any(|(m, &t)| m.logical_divide(Layout::new(t, 1).unwrap()).is_err());
            prop_assert!(fails || tile.len() > a.rank());
            return Ok(());
        };
        let zipped = a.zipped_divide(Tuple::flat(&tile)).unwrap();
        let (one, all) = (zipped.mode(0).unwrap(), zipped.mode(1).unwrap());
        prop_assert_eq!((one.rank(), all.rank()), (tile.len(), a.rank()));
        let sizes: Vec<i64> = a.modes().map(|m| m.size().unwrap()).collect();
        let counts: Vec<i64> = (0..a.rank()).map(|m| match tile.get(m) { Some(t) => (sizes[m] + t - 1) / t, None => sizes[m] }).collect();
        for which in positions(&counts) {
            for within in positions(&tile) {
                let actual = by_modes(&one, &within) + by_modes(&all, &which);
                let coordinate: Vec<i64> = (0..a.rank()).map(|m| tile.get(m).map_or(which[m], |t| which[m] * t + within[m])).collect();
                prop_assert_eq!(actual, by_modes(&a, &coordinate), "{} / {:?} = {}", a, tile, zipped);
            }
        }
        prop_assert!(a.tiled_divide(Tuple::flat(&tile)).unwrap().modes().eq([one.clone()].into_iter().chain(all.modes())));
        prop_assert!(a.flat_divide(Tuple::flat(&tile)).unwrap().modes().eq(one.modes().chain(all.modes())));
        prop_assert_eq!(parts.rank(), a.rank());
    }

    #[test]
    fn product(a in prop_oneof![any_layout(), dense()], b in small_positive()) {
        let rest = copies_of(&a, b.cosize().unwrap());
        let Ok(parts) = a.logical_product(&b) else {
            prop_assert!(rest.and_then(|rest| rest.composition(&b)).is_err());
            return Ok(());
        };
        let rest = rest.unwrap();
        prop_assert_eq!(parts.mode(0).unwrap(), a.clone());
        let copies = parts.mode(1).unwrap();
        let expected: Vec<i64> = offsets(&b).into_iter().map(|j| by_index(&rest, j)).collect();
        prop_assert_eq!(offsets(&copies), expected);
        // copies do not touch
        if all_different(&offsets(&b)) && a.filter().size() == a.size() {
            prop_assert!(all_different(&offsets(&parts)), "{} x {} = {}", a, b, parts);
        }
        prop_assert_eq!(a.zipped_product(&b).unwrap(), parts);
        prop_assert!(a.tiled_product(&b).unwrap().modes().eq([a.clone()].into_iter().chain(copies.modes())));
        prop_assert!(a.flat_product(&b).unwrap().modes().eq(a.modes().chain(copies.modes())));

        let (blocked, raked) = (a.blocked_product(&b).unwrap(), a.raked_product(&b).unwrap());
        let rank = a.rank().max(b.rank());
        prop_assert_eq!((blocked.rank(), raked.rank()), (rank, rank));
        let extents = |l: &Layout| -> Vec<i64> { (0..rank).map(|m| l.mode(m).map_or(1, |m| m.size().unwrap())).collect() };
        let (tile, count) = (extents(&a), extents(&b));
        for which in positions(&count) {
            for within in positions(&tile) {
                let copy = by_index(&rest, by_modes(&b, &which));
                let at = by_modes(&a, &within) + copy;
                let coordinate: Vec<i64> = (0..rank).map(|m| within[m] + tile[m] * which[m]).collect();
                prop_assert_eq!(by_modes(&blocked, &coordinate), at, "{} x {} = {}", a, b, blocked);
                let coordinate: Vec<i64> = (0..rank).map(|m| which[m] + count[m] * within[m]).collect();
                prop_assert_eq!(by_modes(&raked, &coordinate), at, "{} x {} = {}", a, b, raked);
            }
        }
    }

    #[test]
    fn tile_to_shape(a in dense(), times in proptest::collection::vec(1i64..=3, 1..=3), ragged in 0i64..=1, order in proptest::option::of(proptest::collection::vec(0i64..9, 3))) {
        let sizes: Vec<i64> = (0..times.len().max(a.rank())).map(|m| a.mode(m).map_or(1, |m| m.size().unwrap())).collect();
        let times: Vec<i64> = (0..sizes.len()).map(|m| times.get(m).copied().unwrap_or(1)).collect();
        let mut shape: Vec<i64> = (0..sizes.len()).map(|m| sizes[m] * times[m]).collect();
        shape[0] += ragged;
        let order = order.filter(|o| o.len() == shape.len());
        let actual = a.tile_to_shape(Tuple::flat(&shape), order.as_ref().map(|o| Tuple::flat(o)));
        if ragged == 1 && sizes[0] > 1 {
            prop_assert!(actual.is_err());
            return Ok(());
        }
        let times: Vec<i64> = shape.iter().zip(&sizes).map(|(s, n)| s / n).collect();
        let grid = order.map_or_else(|| Layout::compact(Tuple::flat(&times)), |o| Layout::ordered(Tuple::flat(&times), Tuple::flat(&o))).unwrap();
        let actual = actual.unwrap();
        prop_assert_eq!(actual.rank(), shape.len());
        // Each block is a copy of the first, none overlaps another, and they begin in the order asked for.
        let mut begins = vec![0; grid.size().unwrap() as usize];
        for which in positions(&times) {
            let begin: Vec<i64> = which.iter().zip(&sizes).map(|(x, n)| x * n).collect();
            begins[by_modes(&grid, &which) as usize] = by_modes(&actual, &begin);
        }
        prop_assert!(begins.windows(2).all(|pair| pair[0] < pair[1]), "{} to {:?}: {}", a, shape, actual);
        for at in positions(&shape) {
            let within: Vec<i64> = at.iter().zip(&sizes).map(|(x, n)| x % n).collect();
            let which: Vec<i64> = at.iter().zip(&sizes).map(|(x, n)| x / n).collect();
            prop_assert_eq!(by_modes(&actual, &at), by_modes(&a, &within) + begins[by_modes(&grid, &which) as usize]);
        }
        if all_different(&offsets(&a)) {
            prop_assert!(all_different(&offsets(&actual)), "{} to {:?}: {}", a, shape, actual);
        }
        // Where the complement has room in that order, the blocks interleave.
        if let Ok(begin) = copies_of(&a, grid.size().unwrap()).unwrap().composition(&grid) {
            prop_assert!(positions(&times).iter().all(|which| by_modes(&begin, which) == begins[by_modes(&grid, which) as usize]));
        }
    }

    #[test]
    fn text(a in any_layout(), nested in any_layout()) {
        prop_assert_eq!(&a.to_string().parse::<Layout>().unwrap(), &a);
        prop_assert_eq!(&a.shape().to_string().parse::<Tuple>().unwrap(), &a.shape());
        let tiler = Tiler::Modes(vec![Tiler::from(&a), Tiler::Keep, Tiler::Modes(vec![Tiler::from(nested)])]);
        prop_assert_eq!(tiler.to_string().parse::<Tiler>().unwrap(), tiler);
        let swizzled = Composed::new(Swizzle::new(2, 1, -3).unwrap(), -5, a.clone());
        prop_assert_eq!(swizzled.to_string().parse::<Composed>().unwrap(), swizzled);
        let plain = Composed::new(Swizzle::new(0, 4, 3).unwrap(), 0, a);
        prop_assert_eq!(plain.to_string().parse::<Composed>().unwrap(), plain);
    }
}

/// All sums of these leaves.
fn reached(leaves: &[(i64, i64)]) -> Vec<i64> {
    let size: i64 = leaves.iter().map(|l| l.0).product();
    (0..size).map(|index| eval(leaves, index)).collect()
}

/// The period of the copies in the complement of a layout, from one of unknown size.
fn period(a: &Layout) -> i64 {
    let rest = a.complement(tilewright_layout::Value::symbol("S")).unwrap();
    let last = rest.leaves().last().unwrap();
    assert!(last.0.int().is_none(), "{a}: {rest}");
    last.1.int().unwrap()
}

/// The largest number of offsets, from 0, that a chain of whole modes covers, in any order.
fn longest_chain(leaves: &[(i64, i64)], next: i64) -> i64 {
    let follow = leaves.iter().filter(|l| l.0 > 1 && l.1 == next);
    follow.map(|l| longest_chain(leaves, next * l.0)).max().unwrap_or(next)
}

/// Is there a layout of up to three modes, with small strides, that maps these indices to these values?
fn some_layout_goes_through(points: &[(i64, i64)]) -> bool {
    let far = points.iter().map(|p| p.0).max().unwrap();
    let strides = || -4i64..=8;
    let fits = |leaves: &[(i64, i64)]| points.iter().all(|&(at, value)| eval(leaves, at) == value);
    strides().any(|last| fits(&[(1, last)]))
        || (2..=far).any(|n| {
            strides().any(|d| {
                // the part below the first wrap determines the first stride
                points.iter().all(|&(at, value)| at >= n || at * d == value)
                    && (strides().any(|last| fits(&[(n, d), (1, last)]))
                        || (2..=far / n).any(|m| {
                            strides().any(|e| strides().any(|last| fits(&[(n, d), (m, e), (1, last)])))
                        }))
            })
        })
}

/// Layouts without a left inverse: every layout of two small modes, against every small candidate.
#[test]
fn left_inverses_that_do_not_exist() {
    let (mut actual, mut refused) = (0, 0);
    for (n, m) in [(2, 2), (2, 3), (3, 2), (3, 3)] {
        for (d, e) in (1..=6).flat_map(|d| (1..=6).map(move |e| (d, e))) {
            let a = Layout::new((n, m), (d, e)).unwrap();
            let points: Vec<(i64, i64)> = offsets(&a).into_iter().zip(0..).collect();
            match a.left_inverse() {
                Ok(left) => {
                    assert!(points.iter().all(|&(at, index)| by_index(&left, at) == index), "{a}: {left}");
                    actual += 1;
                }
                Err(error) => {
                    assert!(!some_layout_goes_through(&points), "{a}: {error}");
                    let no_layout = matches!(error.condition(), Condition::NoLayoutThrough { .. });
                    assert_eq!(no_layout, all_different(&offsets(&a)), "{a}: {error}");
                    refused += i32::from(no_layout);
                }
            }
        }
    }
    assert!(actual >= 100 && refused >= 6, "{actual} have one, {refused} have none");
}

/// Answers without a divisible chain of strides.
#[test]
fn gaps_and_interleaved_modes() {
    let check = |actual: tilewright_layout::Result<Layout>, expected: &str| {
        assert_eq!(actual.map_or_else(|e| e.line(), |actual| actual.to_string()), expected);
    };
    let l = |text: &str| text.parse::<Layout>().unwrap();
    check(l("(3,3):(4,16)").complement(45), "4:1");
    check(l("(3,3):(4,16)").complement(49), "(4,2):(1,48)");
    check(l("(2,3):(2,3)").complement(24), "3:9"); // 0 2 3 5 6 8, and then again
    check(l("(2,2):(4,6)").complement(24), "(2,2):(1,12)"); // pairs fit between 0 4 6 10
    check(l("(2,2,2):(0,2,3)").complement(24), "4:6"); // strides of 0 are left out
    check(l("(2,3,4):(2,3,100)").complement(800), "(11,2):(9,400)");
    check(
        l("(2,2,2):(0,1,1)").complement(8),
        "complement: the layout is not injective: its coordinates 2 and 4 share the offset 1",
    );
    check(l("(1000000000,2):(3,2999999999)").complement(9), "2:1"); // no two are closer than 2
    check(l("(2,2):(3,5)").left_inverse(), "(2,3,2):(0,1,2)");
    check(l("(2,3,2):(1,1,3)").right_inverse(), "6:2");
    check(l("4:2").tile_to_shape(12, None), "(12):(2)");
    check(l("(2,2):(3,5)").tile_to_shape((4, 4), None), "((2,2),4):((3,1),5)");
}

/// The starts of copies of a layout: a complement with room for at least this many.
fn copies_of(a: &Layout, count: i64) -> tilewright_layout::Result<Layout> {
    let rest = a.complement(a.size()? * count)?;
    let enough = rest.size()? >= count;
    if enough { Ok(rest) } else { a.complement(2 * a.cosize()? * count) }
}

/// Consecutive from 0 in both, and as a vector: consecutive everywhere.
fn check_common(a: &Layout, b: &Layout) -> Result<(), TestCaseError> {
    let common = a.max_common_layout(b).unwrap();
    for (i, at) in offsets(&common).into_iter().enumerate() {
        prop_assert!(at < a.size().unwrap() && at < b.size().unwrap(), "{} {}: {}", a, b, common);
        if common.size().unwrap() > 1 {
            prop_assert_eq!(
                (by_index(a, at), by_index(b, at)),
                (i as i64, i as i64),
                "{} {}: {}",
                a,
                b,
                common
            );
        }
    }
    let width = a.max_common_vector(b).unwrap();
    prop_assert!(width >= 1 && common.size().unwrap() % width == 0);
    if width > 1 && a.size() == b.size() {
        // every group of coordinates that begins at a multiple of `width` is consecutive in both
        for l in [a, b] {
            prop_assert!(groups_are_consecutive(l, &common, width), "{} and {} by {}: {}", a, b, width, l);
        }
    }
    Ok(())
}

/// Do the coordinates fall into groups, each a shifted copy of the first `width` of `common`, and each
/// consecutive?
fn groups_are_consecutive(layout: &Layout, common: &Layout, width: i64) -> bool {
    let group: Vec<i64> = offsets(common).into_iter().take(width as usize).collect();
    let mut seen = vec![false; layout.size().unwrap() as usize];
    for start in 0..seen.len() {
        if seen[start] {
            continue;
        }
        let first = by_index(layout, start as i64);
        for (i, step) in group.iter().enumerate() {
            let at = start as i64 + step;
            let fresh = seen.get_mut(at as usize).is_some_and(|seen| !std::mem::replace(seen, true));
            if !fresh || by_index(layout, at) != first + i as i64 {
                return false;
            }
        }
    }
    true
}

/// All coordinates of these extents, leftmost fastest.
fn positions(extents: &[i64]) -> Vec<Vec<i64>> {
    let size: i64 = extents.iter().product();
    let position = |mut index: i64| {
        extents
            .iter()
            .map(|n| {
                let coordinate = index % n;
                index /= n;
                coordinate
            })
            .collect()
    };
    (0..size).map(position).collect()
}

/// A coordinate with `_` in the leaves that `hole` picks.
fn holed(
    shape: &Tuple,
    numbers: &mut dyn Iterator<Item = i64>,
    hole: &mut dyn FnMut(&Tuple) -> bool,
) -> Tuple {
    if shape.is_leaf() {
        let number = numbers.next().unwrap();
        return if hole(shape) { ALL.into() } else { number.into() };
    }
    Tuple::of(shape.modes().map(|mode| holed(&mode, numbers, hole)).collect::<Vec<_>>())
}

#[track_caller]
fn check_composition_text(a: &str, b: &str, expected: &str) {
    let (a, b): (Layout, Layout) = (a.parse().unwrap(), b.parse().unwrap());
    let actual = a.composition(b).map_or_else(|e| e.line(), |r| r.to_string());
    assert!(actual.contains(expected), "{a}: {actual}");
}

/// Cases that random operands do not reach.
#[test]
fn composition_of_tall_layouts() {
    let check = check_composition_text;
    // bends that cancel for ever, at once or in a cycle of five
    check("(4,3,1000000000):(1,5,14)", "100000000:6", "100000000:7");
    check("(5,4,2,4,100000000):(0,1,5,9,35)", "10000000:96", "10000000:21");
    check("(4,3,1000000000):(1,5,14)", "(100000,10000):(6,600000)", "(100000,10000):(7,700000)");
    // and one that lasts long: honest about it
    check("(2,1000000000,4):(1,3,2999999999)", "2000000000:1000000001", "could not be decided");
    // the stride of a single element is never used
    check("(4,4):(1,lda)", "(4,1):(1,5)", "(4,1):(1,0)");
    check("4:4", "1:9223372036854775807", "1:0");
    // extents of 1 are no obstacle
    check("(4,1,4):(lda,7,4*lda)", "16:1", "16:lda");
    check("(4,1):(1,7)", "8:1", "(4,2):(1,7)");
    // largest numbers
    check("9223372036854775807:1", "9223372036854775807:1", "9223372036854775807:1");
    check("(2,2):(1,4611686018427387904)", "8:1", "passes 63 bits");
    check("2:9223372036854775806", "2:1", "2:9223372036854775806");
    check("2:9223372036854775806", "2:2", "passes 63 bits");
}
