//! The laws of tiles, partitions, casts, swizzles and thread-value layouts, against brute force.

use crate::common::*;
use proptest::prelude::*;
use tilewright_layout::{
    ALL, Composed, Condition, Layout, MmaAtom, Swizzle, Symbol, TiledCopy, TiledMma, Tiler, Tuple,
};

fn by_index(layout: &Layout, index: i64) -> i64 {
    eval(&leaves(layout), index)
}

fn mode_leaves(layout: &Layout) -> Vec<Vec<(i64, i64)>> {
    layout.modes().map(|mode| leaves(&mode)).collect()
}

fn mode_offset(modes: &[Vec<(i64, i64)>], indices: &[i64]) -> i64 {
    modes.iter().zip(indices).map(|(mode, &index)| eval(mode, index)).sum()
}

fn by_modes(layout: &Layout, indices: &[i64]) -> i64 {
    layout.modes().zip(indices).map(|(mode, &index)| by_index(&mode, index)).sum()
}

fn sizes(layout: &Layout) -> Vec<i64> {
    layout.modes().map(|mode| mode.size().unwrap()).collect()
}

fn sorted(mut values: Vec<i64>) -> Vec<i64> {
    values.sort_unstable();
    values
}

fn swizzle() -> impl Strategy<Value = Swizzle> {
    (0u32..=3, 0u32..=4, 0i32..=3, any::<bool>()).prop_map(|(bits, base, more, down)| {
        let shift = bits as i32 + more;
        Swizzle::new(bits, base, if down { shift } else { -shift }).unwrap()
    })
}

/// A matrix whose extents tiles divide well.
fn matrix() -> impl Strategy<Value = Layout> {
    (1i64..=4, 1i64..=4, 1i64..=3, 1i64..=3, -2i64..=40, -2i64..=40)
        .prop_map(|(m, n, i, j, d, e)| Layout::new((m * i * 2, n * j), (d, e)).unwrap())
}

/// Numbers its threads 0..size in some order.
fn threads() -> impl Strategy<Value = Layout> {
    prop_oneof![
        (1i64..=4, 1i64..=4).prop_map(|(m, n)| Layout::compact((m, n)).unwrap()),
        (1i64..=4, 1i64..=4).prop_map(|(m, n)| Layout::row_major((m, n)).unwrap()),
        (1i64..=2, 1i64..=2, 1i64..=3)
            .prop_map(|(m, n, k)| Layout::ordered(((m, n), k), ((2, 0), 1)).unwrap()),
    ]
}

/// A tile of a few elements, with gaps, nested or not.
fn strided_tile() -> impl Strategy<Value = Layout> {
    let stride = prop_oneof![1 => Just(0i64), 3 => Just(1), 3 => 1i64..=4, 2 => 1i64..=12];
    proptest::collection::vec((1i64..=4, stride), 1..=3).prop_map(|modes| {
        let (shape, stride): (Vec<i64>, Vec<i64>) = modes.into_iter().unzip();
        Layout::new(Tuple::flat(&shape), Tuple::flat(&stride)).unwrap()
    })
}

/// Does every tile of a mode lie inside it? By the definition of a division: the tile, and copies of it in
/// its complement.
fn tile_is_whole(tile: &Layout, size: i64) -> bool {
    let Ok(rest) = tile.complement(size) else { return false };
    offsets(&rest).iter().all(|from| offsets(tile).iter().all(|at| from + at < size))
}

fn all_coordinates(extents: &[i64]) -> Vec<Vec<i64>> {
    let size: i64 = extents.iter().product();
    let digits = |mut index: i64| extents.iter().map(|n| (index % n, index /= n).0).collect();
    (0..size).map(digits).collect()
}

/// Obligations as text, or the error.
#[test]
fn obligations_in_words() {
    let check = |layout: &str, tiler: &str, expected: &str| {
        let (layout, tiler): (Layout, Tiler) = (layout.parse().unwrap(), tiler.parse().unwrap());
        let actual = layout.tile_obligations(&tiler).map_or_else(
            |error| error.line(),
            |needs| needs.iter().map(|need| need.to_string()).collect::<Vec<_>>().join(", "),
        );
        assert_eq!(actual, expected, "{layout} by {tiler}");
    };
    check("M:1", "4:2", "8 divides M");
    check("M:1", "9223372036854775807:1", "9223372036854775807 divides M");
    check("M:1", "2:9223372036854775806", "tile_obligations: the size or the largest offset passes 63 bits");
    check("(M,M):(1,lda)", "(4,4)", "4 divides M");
    check("(M,M):(1,lda)", "(4,8)", "8 divides M");
    check("(M,K):(1,lda)", "(128,_)", "128 divides M");
    check("M:1", "(4,2):(1,0)", "4 divides M"); // a replicated element is one
    check("6*M:1", "4:1", "4 divides 6*M");
    check("8*M:1", "4:1", "");
    check("4*ceil(M/3):1", "4:1", "");
    // 0 1 3 4, period 6: five of six suffice
    check("M:1", "(2,2):(1,3)", "M leaves a remainder of 0 or at least 5 when divided by 6");
    check("5:1", "(2,2):(1,3)", "");
    check(
        "9:1",
        "(2,2):(1,3)",
        "tile_obligations: tiles repeat every 6 elements and span 5 of them, so the last of 9 elements are 3 of a tile in mode 0",
    );
    check("(8,100):(1,8)", "(4,64)", "tile_obligations: the tile's extent 64 does not divide 100 in mode 1");
    check(
        "12:1",
        "4:2",
        "tile_obligations: tiles repeat every 8 elements and span 8 of them, so the last of 12 elements are 4 of a tile in mode 0",
    );
    check(
        "M:1",
        "4:-1",
        "tile_obligations: the stride -1 leads to negative indices, where the left operand is not defined",
    );
}

proptest! {
    #[test]
    fn upcast(a in prop_oneof![any_layout(), dense()], n in prop_oneof![Just(2i64), Just(3), Just(4), Just(6), Just(8)]) {
        if let Ok((wide, needs)) = a.upcast(n) {
            prop_assert!(needs.is_empty() && wide.shape().congruent(&a.shape()));
            // leaf by leaf a group of coordinates becomes one, and its offset the number of the wide element
            // it lies in
            let groups: Vec<i64> = leaves(&a).iter().zip(leaves(&wide)).map(|(a, w)| a.0 / w.0).collect();
            let flat = leaves(&wide);
            for (index, at) in offsets(&a).into_iter().enumerate() {
                let coordinate = a.coordinate(index as i64).unwrap().ints().unwrap();
                let actual: i64 = (0..flat.len()).map(|l| coordinate[l] / groups[l] * flat[l].1).sum();
                prop_assert_eq!(actual, at.div_euclid(n), "{} by {}: {}", a, n, wide);
            }
        }
        if let Ok(narrow) = a.downcast(n) {
            let expected: Vec<i64> = offsets(&a).into_iter().flat_map(|at| (0..n).map(move |i| at * n + i)).collect();
            prop_assert_eq!(sorted(offsets(&narrow)), sorted(expected), "{} by {}: {}", a, n, narrow);
            let (back, _) = narrow.upcast(n).unwrap();
            prop_assert_eq!(offsets(&back), offsets(&a));
        } else {
            prop_assert!(leaves(&a).iter().all(|l| l.1 != 1));
        }
        if let Ok((recast, _)) = a.recast(16, 16 * n) {
            prop_assert_eq!(recast, a.upcast(n).unwrap().0);
        }
        if let Ok((recast, _)) = a.recast(2 * n, 3 * n) {
            prop_assert_eq!(recast, a.downcast(2).unwrap().upcast(3).unwrap().0);
        }
    }

    /// Refused means that no grouping works, whichever divisors of the extents it uses.
    #[test]
    fn upcasts_exist_exactly_when_groups_do(modes in proptest::collection::vec((1i64..=6, -3i64..=12), 1..=3), n in 1i64..=8) {
        let (shape, stride): (Vec<i64>, Vec<i64>) = modes.iter().copied().unzip();
        let a = Layout::new(Tuple::flat(&shape), Tuple::flat(&stride)).unwrap();
        let groups: Vec<Vec<i64>> = shape.iter().map(|n| (1..=*n).filter(|g| n % g == 0).collect()).collect();
        let places = all_coordinates(&shape);
        let offset = |at: &[i64]| -> i64 { at.iter().zip(&stride).map(|(x, d)| x * d).sum() };
        // a group begins at a multiple of the width and ends inside it
        let whole = |groups: &[i64]| places.iter().all(|at| {
            let begin: Vec<i64> = at.iter().zip(groups).map(|(x, g)| x / g * g).collect();
            offset(&begin) % n == 0 && (0..n).contains(&(offset(at) - offset(&begin)))
        });
        let counts: Vec<i64> = groups.iter().map(|g| g.len() as i64).collect();
        let possible = all_coordinates(&counts).iter().any(|pick| {
            whole(&pick.iter().zip(&groups).map(|(i, g)| g[*i as usize]).collect::<Vec<_>>())
        });
        match a.upcast(n) {
            Ok((wide, _)) => {
                prop_assert!(possible, "{} by {}: {}", a, n, wide);
                let groups: Vec<i64> = leaves(&a).iter().zip(leaves(&wide)).map(|(a, w)| a.0 / w.0).collect();
                prop_assert!(whole(&groups), "{} by {}: {}", a, n, wide);
            }
            Err(error) => prop_assert!(!possible, "{}", error),
        }
    }

    /// The obligations hold for concrete sizes exactly when no tile has an element outside.
    #[test]
    fn obligations_are_exact(tiles in proptest::collection::vec(proptest::option::of(strided_tile()), 1..=2), m in 1i64..=80, k in 1i64..=80) {
        let lookup = |s: Symbol| match s.name() { "M" => Some(m), "K" => Some(k), "lda" => Some(m), _ => None };
        let tiler = Tiler::Modes(tiles.iter().map(|t| t.as_ref().map_or(Tiler::Keep, Tiler::from)).collect());
        for text in ["(M,K):(1,lda)", "(M,12):(1,lda)", "(M,M):(1,lda)", "(2*M,K):(1,lda)"] {
            let symbolic: Layout = text.parse().unwrap();
            let now = symbolic.bind(&lookup).unwrap();
            let mode_sizes = sizes(&now);
            let without = tiles.iter().flatten().any(|tile| tile.complement(1).is_err());
            let whole = tiles.iter().zip(&mode_sizes).all(|(tile, size)| tile.as_ref().is_none_or(|tile| tile_is_whole(tile, *size)));
            match symbolic.tile_obligations(&tiler) {
                Err(error) => match error.condition() {
                    Condition::NotInjective { .. } => prop_assert!(without, "{}", error),
                    Condition::TileDoesNotDivide { .. } | Condition::TilesOutOfBounds { .. } => prop_assert!(!whole, "{}", error),
                    _ => prop_assert!(false, "{}", error),
                },
                Ok(needs) => {
                    prop_assert!(!without);
                    let hold = needs.iter().all(|need| need.is_met(&lookup).unwrap());
                    prop_assert_eq!(hold, whole, "{} by {} for {}, {}: {:?}", text, tiler, m, k, needs);
                    for (i, need) in needs.iter().enumerate() {
                        prop_assert!(!needs[..i].iter().any(|other| other == need), "twice: {}", need);
                    }
                }
            }
            prop_assert_eq!(now.tile_obligations(&tiler).is_ok_and(|needs| needs.is_empty()), whole && !without);
        }
    }

    #[test]
    fn tile(a in prop_oneof![matrix(), any_layout()], tile in proptest::collection::vec(1i64..=6, 1..=2), which in proptest::collection::vec(0i64..6, 3), open in 0usize..4) {
        let rank = a.rank();
        if tile.len() > rank || rank > 3 {
            return Ok(());
        }
        let counts: Vec<i64> = sizes(&a).iter().enumerate().map(|(m, n)| tile.get(m).map_or(*n, |t| (n + t - 1) / t)).collect();
        let which: Vec<i64> = which.iter().zip(&counts).map(|(w, n)| w % n).collect();
        let holes: Vec<usize> = (0..rank).filter(|m| open == m + 1).collect();
        let coordinate = Tuple::of((0..rank).map(|m| if holes.contains(&m) { ALL.into() } else { which[m].into() }));
        let Ok((tiles, offset)) = a.tile(Tuple::flat(&tile), &coordinate) else {
            prop_assert!(a.zipped_divide(Tuple::flat(&tile)).is_err());
            return Ok(());
        };
        prop_assert_eq!(tiles.rank(), tile.len() + holes.len(), "{} {:?} {}: {}", a, tile, coordinate, tiles);
        let (of_a, of_tiles, extents) = (mode_leaves(&a), mode_leaves(&tiles), sizes(&tiles));
        for index in 0..tiles.size().unwrap() {
            let (mut rest, mut at) = (index, Vec::new());
            for n in &extents {
                at.push(rest % n);
                rest /= n;
            }
            let of_element: Vec<i64> = (0..rank).map(|m| {
                let which = if holes.contains(&m) { at[tile.len()] } else { which[m] };
                tile.get(m).map_or(which, |t| which * t + at[m])
            }).collect();
            prop_assert_eq!(offset.int().unwrap() + mode_offset(&of_tiles, &at), mode_offset(&of_a, &of_element));
        }
        let whole = sizes(&a).iter().zip(&tile).all(|(n, t)| n % t == 0);
        prop_assert_eq!(a.tile_obligations(Tuple::flat(&tile)).is_ok(), whole);
    }

    #[test]
    fn parallelize(a in matrix(), threads in threads(), projection in 0..3usize) {
        let n = threads.size().unwrap();
        let mode = sizes(&threads);
        let used: Vec<usize> = match projection { 0 => vec![0, 1], 1 => vec![0], _ => vec![1] };
        let tuple = [None, Some(Tuple::from((1, ALL))), Some(Tuple::from((ALL, 1)))][projection].clone();
        let share: Vec<i64> = used.iter().map(|&m| mode[m]).collect();
        let a_sizes = sizes(&a);
        let mut all = Vec::new();
        for index in 0..n {
            // the thread at this index of the arrangement
            let thread = by_index(&threads, index);
            let at = [index % mode[0], index / mode[0]];
            let (mine, offset) = a.parallelize(&threads, thread, tuple.clone()).unwrap();
            let counts: Vec<i64> = (0..2).map(|m| share.get(m).map_or(a_sizes[m], |s| (a_sizes[m] + s - 1) / s)).collect();
            prop_assert_eq!(sizes(&mine), counts.clone());
            for y in 0..counts[1] {
                for x in 0..counts[0] {
                    let position: Vec<i64> = [x, y].iter().enumerate()
                        .map(|(m, i)| share.get(m).map_or(*i, |s| at[used[m]] + i * s)).collect();
                    let actual = offset.int().unwrap() + by_modes(&mine, &[x, y]);
                    prop_assert_eq!(actual, by_modes(&a, &position));
                    all.push(actual);
                }
            }
        }
        // together: every element once for each thread that has it
        let divides = a_sizes.iter().zip(&share).all(|(n, s)| n % s == 0);
        if divides {
            let copies = n / share.iter().product::<i64>();
            let expected: Vec<i64> = offsets(&a).into_iter().flat_map(|at| (0..copies).map(move |_| at)).collect();
            prop_assert_eq!(sorted(all), sorted(expected));
        }
    }

    #[test]
    fn threads_must_be_numbered(a in matrix(), threads in any_layout()) {
        let n = threads.size().unwrap();
        let bijective = sorted(offsets(&threads)).into_iter().eq(0..n);
        if threads.rank() <= 2 && !bijective {
            prop_assert!(a.parallelize(&threads, 0, None).is_err(), "{}", threads);
        }
        prop_assert!(a.parallelize(&threads, n, None).is_err() && a.parallelize(&threads, -1, None).is_err());
    }

    #[test]
    fn swizzles(s in swizzle(), y in any::<i64>(), n in 0u32..=4) {
        prop_assert_eq!(s.apply(s.apply(y)), y);
        // bit by bit
        let (from, to) = if s.shift() >= 0 { (s.base() + s.shift() as u32, s.base()) } else { (s.base(), s.base() + s.shift().unsigned_abs()) };
        let expected = (0..s.bits()).fold(y, |z, bit| z ^ ((y >> (from + bit) & 1) << (to + bit)));
        prop_assert_eq!(s.apply(y), expected);
        let y = y >> 8;
        let narrow = s.downcast(1 << n).unwrap();
        prop_assert_eq!(narrow.apply(y << n), s.apply(y) << n);
        prop_assert_eq!(narrow.upcast(1 << n).unwrap(), s);
        if let Ok(wide) = s.upcast(1 << n) {
            prop_assert_eq!(wide.apply(y >> n), s.apply(y) >> n);
        }
    }

    #[test]
    fn seen_through_a_swizzle(s in swizzle(), offset in -20i64..100, a in any_layout(), b in positive(), index in 0i64..800) {
        let c = Composed::new(s, offset, a.clone());
        let through = |at: i64| s.apply(at + offset);
        let all: Vec<i64> = offsets(&a).into_iter().map(through).collect();
        prop_assert_eq!(c.offsets().unwrap().collect::<Vec<_>>(), all.clone());
        let index = index % a.size().unwrap();
        prop_assert_eq!(c.eval(index), Some(all[index as usize]));
        prop_assert_eq!(c.at(a.coordinate(index).unwrap()).unwrap(), all[index as usize]);
        if c.as_layout().is_none() {
            prop_assert_eq!(c.cosize().unwrap(), (all.iter().max().unwrap() + 1).max(1));
        }
        prop_assert_eq!(c.is_injective(), Some(all_different(&all)));
        if a.left_inverse().is_ok() {
            for at in -5..200 {
                let expected = all.iter().position(|x| *x == at).map(|i| i as i64);
                prop_assert_eq!(c.coordinate_of(at).unwrap(), expected);
            }
        }
        if let Ok(r) = c.composition(&b) {
            let expected: Vec<i64> = offsets(&b).into_iter().map(|i| through(by_index(&a, i))).collect();
            prop_assert_eq!(r.offsets().unwrap().collect::<Vec<_>>(), expected);
        }
        if a.depth() > 0 {
            let mut coordinate: Vec<Tuple> = a.modes().map(|_| ALL.into()).collect();
            coordinate[0] = (index % a.mode(0).unwrap().size().unwrap()).into();
            let coordinate = Tuple::of(coordinate);
            let (kept, by) = a.slice(&coordinate).unwrap();
            let expected: Vec<i64> = offsets(&kept).into_iter().map(|at| through(at + by.int().unwrap())).collect();
            prop_assert_eq!(c.slice(&coordinate).unwrap().offsets().unwrap().collect::<Vec<_>>(), expected);
        }
        for n in [2, 4] {
            if let Ok(wide) = c.upcast(n) {
                let inner = a.upcast(n).unwrap().0;
                let expected: Vec<i64> = offsets(&inner).into_iter().map(|at| through(at * n) / n).collect();
                prop_assert_eq!(wide.offsets().unwrap().collect::<Vec<_>>(), expected);
            }
            if let Ok(narrow) = c.downcast(n) {
                let expected: Vec<i64> = all.iter().flat_map(|at| (0..n).map(move |i| at * n + i)).collect();
                prop_assert_eq!(sorted(narrow.offsets().unwrap().collect()), sorted(expected));
            }
        }
    }

    #[test]
    fn vectors_through_a_swizzle(s in swizzle(), offset in 0i64..64, a in prop_oneof![dense(), positive()]) {
        let c = Composed::new(s, offset, a.clone());
        let plain: Composed = a.clone().into();
        let width = c.max_common_vector(&plain).unwrap();
        prop_assert_eq!(width, plain.max_common_vector(&c).unwrap());
        let group: Vec<i64> = offsets(&a.max_common_layout(&a).unwrap()).into_iter().take(width as usize).collect();
        let mut seen = vec![false; a.size().unwrap() as usize];
        for start in 0..seen.len() {
            if !seen[start] {
                let first = c.eval(start as i64).unwrap();
                for (i, step) in group.iter().enumerate() {
                    let at = start as i64 + step;
                    seen[at as usize] = true;
                    prop_assert_eq!(c.eval(at), Some(first + i as i64), "{} by {}", c, width);
                }
            }
        }
    }

    #[test]
    fn tiled_copy(threads in threads(), values in threads(), m in 1i64..=2, n in 1i64..=2, d in 1i64..50) {
        let copy = TiledCopy::new(&threads, &values).unwrap();
        let (per_thread, all) = (values.size().unwrap(), threads.size().unwrap());
        let (t, v) = (sizes(&threads), sizes(&values));
        let tile = copy.tile().ints().unwrap();
        prop_assert_eq!(&tile, &vec![t[0] * v[0], t[1] * v[1]]);
        prop_assert_eq!(copy.threads().unwrap(), all);
        for y in 0..tile[1] {
            for x in 0..tile[0] {
                let thread = by_modes(&threads, &[x / v[0], y / v[1]]);
                let value = by_modes(&values, &[x % v[0], y % v[1]]);
                prop_assert_eq!(copy.tv().at((thread, value)).unwrap().int(), Some(x + tile[0] * y));
            }
        }
        let tensor = Layout::new((tile[0] * m, tile[1] * n), (1, d * 7)).unwrap();
        let mut seen = Vec::new();
        for thread in 0..all {
            let (mine, offset) = copy.partition(&tensor, thread).unwrap();
            prop_assert_eq!(sizes(&mine), vec![per_thread, m, n]);
            seen.extend(offsets(&mine).into_iter().map(|at| at + offset.int().unwrap()));
            // the same elements, regrouped
            let retiled = copy.retile(&mine).unwrap();
            prop_assert_eq!(offsets(&retiled), offsets(&mine));
            prop_assert_eq!(retiled.mode(0).unwrap().size().unwrap(), per_thread);
        }
        prop_assert_eq!(sorted(seen), sorted(offsets(&tensor)));
        prop_assert!(copy.partition(&tensor, all).is_err());
    }

    #[test]
    fn any_tiled_copy(threads in any_layout(), values in any_layout()) {
        let Ok(copy) = TiledCopy::new(&threads, &values) else { return Ok(()) };
        prop_assert!(sorted(offsets(copy.tv())).into_iter().eq(0..copy.tile().product().unwrap()));
        prop_assert_eq!(sizes(copy.tv()), vec![threads.size().unwrap(), values.size().unwrap()]);
    }

    #[test]
    fn symbols_bind_late(m in 1i64..=20, k in 1i64..=20, lda in 1i64..=40, tile in (1i64..=8, 1i64..=8), which in (0i64..=3, 0i64..=3), upcast in 1i64..=4, size in 1i64..60) {
        let lookup = |s: Symbol| match s.name() { "M" => Some(m), "K" => Some(k), "lda" => Some(lda), _ => None };
        let bind = |l: &Layout| l.bind(&lookup).unwrap();
        let same = |late: &Layout, now: &Layout| offsets(&late.flatten()) == offsets(&now.flatten()) && late.rank() == now.rank();
        for text in ["(M,K):(1,lda)", "(M,K):(lda,1)", "(M,8):(1,lda)", "((2,M),K):((1,2),lda)", "(4,K,M):(lda,1,16*lda)"] {
            let symbolic: Layout = text.parse().unwrap();
            let now = bind(&symbolic);
            prop_assert!(same(&bind(&symbolic.coalesce()), &now.coalesce()) || symbolic.coalesce().rank() != now.coalesce().rank());
            prop_assert_eq!(offsets(&bind(&symbolic.coalesce())), offsets(&now));
            let tiler = Tiler::from(tile);
            if let Ok(late) = symbolic.zipped_divide(&tiler) {
                prop_assert!(same(&bind(&late), &now.zipped_divide(&tiler).unwrap()), "{}", text);
            }
            let coordinate: Tuple = if symbolic.rank() == 2 { (which.0, ALL).into() } else { (which.0, ALL, which.1).into() };
            if let Ok((late, offset)) = symbolic.tile(&tiler, &coordinate) {
                let (tiles, at) = now.tile(&tiler, &coordinate).unwrap();
                prop_assert!(same(&bind(&late), &tiles), "{}", text);
                prop_assert_eq!(offset.evaluate(&lookup), at.int());
            }
            let needs = symbolic.tile_obligations(&tiler);
            if let Ok(needs) = needs {
                let hold = needs.iter().all(|need| need.is_met(&lookup).unwrap());
                prop_assert_eq!(hold, now.tile_obligations(&tiler).is_ok());
            }
            if let Ok((late, needs)) = symbolic.upcast(upcast)
                && needs.iter().all(|need| need.is_met(&lookup).unwrap())
            {
                prop_assert!(same(&bind(&late), &now.upcast(upcast).unwrap().0), "{} by {}", text, upcast);
            }
            if let Ok((late, offset)) = symbolic.parallelize(&Layout::compact((2, 4)).unwrap(), 5, None) {
                let (mine, at) = now.parallelize(&Layout::compact((2, 4)).unwrap(), 5, None).unwrap();
                prop_assert!(same(&bind(&late), &mine));
                prop_assert_eq!(offset.evaluate(&lookup), at.int());
            }
            let steps = Layout::new(size, 3).unwrap();
            if let Ok(late) = symbolic.composition(&steps) {
                prop_assert_eq!(offsets(&bind(&late)), offsets(&now.composition(&steps).unwrap()));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })] // few to draw from

    #[test]
    fn tiled_mma(m in 1i64..=2, n in 1i64..=2, k in 1i64..=2, order in proptest::collection::vec(0i64..9, 3), reps in (1i64..=2, 1i64..=2, 1i64..=2)) {
        let atom = MmaAtom {
            shape: (16, 8, 8),
            a: "((4,8),(2,2)):((32,1),(16,8))".parse().unwrap(),
            b: "((4,8),2):((16,1),8)".parse().unwrap(),
            c: "((4,8),(2,2)):((32,1),(16,8))".parse().unwrap(),
        };
        // m16n8k8: a thread has A at columns of 4 lanes; only the bijection matters here
        let atom = MmaAtom { a: "((4,8),(2,2)):((32,1),(8,16))".parse().unwrap(), ..atom };
        let groups = Layout::ordered((m, n, k), Tuple::flat(&order)).unwrap();
        let mma = TiledMma::new(atom.clone(), groups.clone()).unwrap();
        let (tm, tn, tk) = mma.tile().unwrap();
        prop_assert_eq!((tm, tn, tk), (16 * m, 8 * n, 8 * k));
        let threads = mma.threads().unwrap();
        prop_assert_eq!(threads, 32 * m * n * k);
        type Part = fn(&TiledMma, &Layout, i64) -> tilewright_layout::Result<(Layout, tilewright_layout::Value)>;
        let parts: [(Part, i64, i64, i64); 3] = [
            (TiledMma::partition_a, tm * reps.0, tk * reps.2, n),
            (TiledMma::partition_b, tn * reps.1, tk * reps.2, m),
            (TiledMma::partition_c, tm * reps.0, tn * reps.1, k),
        ];
        for (partition, rows, columns, shared) in parts {
            let tensor = Layout::new((rows, columns), (1, rows + 3)).unwrap();
            let mut seen = Vec::new();
            for thread in 0..threads {
                let (mine, offset) = partition(&mma, &tensor, thread).unwrap();
                seen.extend(offsets(&mine).into_iter().map(|at| at + offset.int().unwrap()));
            }
            let expected: Vec<i64> = offsets(&tensor).into_iter().flat_map(|at| (0..shared).map(move |_| at)).collect();
            prop_assert_eq!(sorted(seen), sorted(expected));
        }
    }
}

/// The room of a large swizzled tile is exact without a look at each of its elements.
#[test]
fn room_of_large_swizzled_tiles() {
    for (layout, swizzle) in [
        ("((64,4),64,5):((1,4096),64,16384)", (3, 3, 3)),
        ("(200,64,7):(1,200,12808)", (3, 4, 3)),
        ("(300,(5,9),77):(-1,(300,1504),13541)", (2, 3, -4)),
        ("(1000,400):(3,3000)", (4, 2, 7)),
    ] {
        let (bits, base, shift) = swizzle;
        let tile = Composed::new(Swizzle::new(bits, base, shift).unwrap(), 5, layout.parse().unwrap());
        let most = tile.offsets().unwrap().max().unwrap();
        assert_eq!(tile.cosize().unwrap(), most + 1, "{layout}");
    }
}
