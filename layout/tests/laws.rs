//! The defining law of every operation, against brute force on random layouts.

mod common;

use common::*;
use proptest::prelude::*;
use tilewright_layout::*;

/// What composition must answer, by brute force: the values of `A∘B`.
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
            let found = claimed
                .iter()
                .rev()
                .zip(extents.iter().rev())
                .fold(0, |at, (c, n)| at * n + c);
            assert_eq!(Some(found as usize), first, "{a} o {b}: {}", error.line());
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

#[track_caller]
fn check_composition_text(a: &str, b: &str, expected: &str) {
    let (a, b): (Layout, Layout) = (a.parse().unwrap(), b.parse().unwrap());
    let found = a.composition(b).map_or_else(|e| e.line(), |r| r.to_string());
    assert!(found.contains(expected), "{a}: {found}");
}

/// What random operands never meet.
#[test]
fn composition_of_tall_layouts() {
    let check = check_composition_text;
    // bends that cancel for ever, at once or in a cycle of five
    check("(4,3,1000000000):(1,5,14)", "100000000:6", "100000000:7");
    check("(5,4,2,4,100000000):(0,1,5,9,35)", "10000000:96", "10000000:21");
    check(
        "(4,3,1000000000):(1,5,14)",
        "(100000,10000):(6,600000)",
        "(100000,10000):(7,700000)",
    );
    // and one that lasts long: honest about it
    check(
        "(2,1000000000,4):(1,3,2999999999)",
        "2000000000:1000000001",
        "could not be decided",
    );
    // the stride of a single element is never used
    check("(4,4):(1,lda)", "(4,1):(1,5)", "(4,1):(1,0)");
    check("4:4", "1:9223372036854775807", "1:0");
    // extents of 1 are no obstacle
    check("(4,1,4):(lda,7,4*lda)", "16:1", "16:lda");
    check("(4,1):(1,7)", "8:1", "(4,2):(1,7)");
    // largest numbers
    check(
        "9223372036854775807:1",
        "9223372036854775807:1",
        "9223372036854775807:1",
    );
    check("(2,2):(1,4611686018427387904)", "8:1", "passes 63 bits");
    check("2:9223372036854775806", "2:1", "2:9223372036854775806");
    check("2:9223372036854775806", "2:2", "passes 63 bits");
}
