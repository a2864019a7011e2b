//! Long random runs, behind `cargo xtask fuzz`: text of any kind, and every operation on operands of any
//! size.

use crate::common::*;
use proptest::prelude::*;
use tilewright_layout::*;

/// Numbers close to overflow.
fn number() -> impl Strategy<Value = i64> {
    prop_oneof![
        6 => 0i64..=9,
        3 => -9i64..=64,
        2 => (0u32..63, -1i64..=1, any::<bool>()).prop_map(|(bits, more, down)| {
            let n = (1i64 << bits).wrapping_add(more);
            if down { n.wrapping_neg() } else { n }
        }),
        1 => prop_oneof![Just(i64::MAX), Just(i64::MIN), Just(i64::MAX / 2), Just(3_037_000_500)],
        1 => any::<i64>(),
    ]
}

fn extreme_extent() -> impl Strategy<Value = i64> {
    prop_oneof![8 => 1i64..=8, 2 => number(), 1 => (0u32..63).prop_map(|bits| 1 << bits)]
}

fn value() -> impl Strategy<Value = Value> {
    let symbol = prop_oneof![Just("M"), Just("K"), Just("lda")];
    prop_oneof![
        12 => number().prop_map(Value::Int),
        1 => (number(), symbol).prop_map(|(n, s)| Value::symbol(s).times(Value::Int(n)).unwrap_or_default()),
        1 => (number(), 0usize..3).prop_map(|(n, mode)| Value::basis(mode).unwrap().times(Value::Int(n)).unwrap_or_default()),
    ]
}

/// A nested tuple of leaves.
fn tuple(leaf: BoxedStrategy<Value>) -> BoxedStrategy<Tuple> {
    leaf.prop_map(Tuple::from)
        .prop_recursive(4, 16, 4, |inner| proptest::collection::vec(inner, 0..=4).prop_map(Tuple::of))
        .boxed()
}

/// Layouts as they come, most of them acceptable; `1:0` for those that are not.
fn extreme() -> BoxedStrategy<Layout> {
    let extent = prop_oneof![12 => extreme_extent().prop_map(Value::Int), 1 => Just(Value::symbol("M"))];
    (tuple(extent.boxed()), proptest::collection::vec(value(), 64))
        .prop_map(|(shape, strides)| {
            let mut next = strides.into_iter().cycle();
            let stride = relabel(&shape, &mut next);
            Layout::new(shape, stride).unwrap_or_else(|_| "1:0".parse().unwrap())
        })
        .boxed()
}

fn operand() -> BoxedStrategy<Layout> {
    prop_oneof![3 => extreme(), 2 => positive(), 1 => dense(), 1 => many_leaves()].boxed()
}

fn relabel(like: &Tuple, next: &mut dyn Iterator<Item = Value>) -> Tuple {
    if like.is_leaf() {
        Tuple::from(next.next().unwrap())
    } else {
        Tuple::of(like.modes().map(|mode| relabel(&mode, next)).collect::<Vec<_>>())
    }
}

fn coordinate() -> BoxedStrategy<Tuple> {
    tuple(prop_oneof![4 => value(), 1 => Just(Value::Any)].boxed())
}

/// The result of an operation is a layout that all others accept, or an error with a message.
fn sound(result: tilewright_layout::Result<Layout>) -> Option<Layout> {
    match result {
        Ok(layout) => {
            let again: Layout = layout.to_string().parse().expect("prints what it reads");
            assert_eq!(again, layout);
            if layout.is_static() {
                let (size, room) =
                    (layout.size().expect("a size that fits"), layout.cosize().expect("room that fits"));
                assert!(size >= 1 && room >= 1);
                assert!(layout.eval(size - 1).is_some(), "{layout}");
                assert_eq!(layout.offsets().unwrap().take(100).count() as i64, size.min(100));
            }
            Some(layout)
        }
        Err(error) => {
            fine(&error);
            None
        }
    }
}

fn fine(error: &LayoutError) {
    let line = error.line();
    assert!(!line.is_empty() && !line.contains('\n'), "{line}");
    assert!(error.to_string().ends_with('.'));
}

fn offset<T>(result: tilewright_layout::Result<T>) -> Option<T> {
    result.map_err(|error| fine(&error)).ok()
}

/// Results agree with the definition of composition at a few coordinates, whatever the size.
fn spot_check(a: &Layout, b: &Layout, r: &Layout, at: i64) {
    let Ok(size) = b.size() else { return };
    for index in [0, 1, size / 2, size - 1, at.rem_euclid(size)] {
        if let (true, Some(through)) =
            (r.is_static() && index < size, b.eval(index).filter(|i| *i >= 0).and_then(|i| a.eval(i)))
        {
            assert_eq!(r.eval(index), Some(through), "{a} o {b} = {r} at {index}");
        }
    }
}

proptest! {
    #[test]
    #[ignore = "cargo xtask fuzz"]
    fn fuzz_operations(a in operand(), b in operand(), c in coordinate(), t in tuple(value().boxed()), n in number(), m in number()) {
        if let Some(r) = sound(a.composition(&b)) {
            spot_check(&a, &b, &r, n);
        }
        sound(Ok(a.coalesce()));
        sound(Ok(a.filter()));
        sound(Ok(a.flatten()));
        sound(a.coalesce_modes(&t));
        sound(a.reshape(&t));
        sound(a.group(n as usize, m as usize));
        sound(a.select(&[n as usize % 4, m as usize % 4]));
        sound(a.complement(n));
        sound(a.right_inverse());
        sound(a.left_inverse());
        sound(a.nullspace());
        sound(a.max_common_layout(&b));
        offset(a.max_common_vector(&b));
        let _ = a.is_injective();
        for tiler in [Tiler::from(&b), Tiler::from(&t), Tiler::Modes(vec![Tiler::from(&b), Tiler::Keep]), Tiler::from(&c)] {
            sound(a.composition(&tiler));
            sound(a.logical_divide(&tiler));
            sound(a.zipped_divide(&tiler));
            sound(a.tiled_divide(&tiler));
            sound(a.flat_divide(&tiler));
            sound(a.logical_product(&tiler));
            sound(a.zipped_product(&tiler));
            sound(a.tiled_product(&tiler));
            sound(a.flat_product(&tiler));
            sound(a.tile(&tiler, &c).map(|(tile, _)| tile));
            offset(a.tile_obligations(&tiler));
        }
        sound(a.blocked_product(&b));
        sound(a.raked_product(&b));
        sound(a.tile_to_shape(&t, None));
        sound(a.tile_to_shape(&t, Some(c.clone())));
        sound(a.upcast(n).map(|(wide, _)| wide));
        sound(a.downcast(n));
        sound(a.recast(n, m).map(|(wide, _)| wide));
        sound(a.slice(&c).map(|(kept, _)| kept));
        sound(a.dice(&c));
        offset(a.at(&c));
        offset(a.coordinate(n));
        offset(a.coordinate_at(n));
        offset(a.cosize());
        let _ = (a.eval(n), a.size(), a.rank(), a.depth());
        sound(a.parallelize(&b, n, None).map(|(mine, _)| mine));
        sound(a.parallelize(&b, 0, Some(c.clone())).map(|(mine, _)| mine));
        sound(a.bind(&|_| Some(n)));
        for made in [Layout::compact(&t), Layout::row_major(&t), Layout::ordered(&t, &c), Layout::identity(&t), Layout::padded(&t, n), Layout::new(&t, &c)] {
            sound(made);
        }
        sound(Layout::from_modes([a.clone(), b.clone()]));
        let _ = (t.compatible(&c), c.compatible(&t), t.product(), t.rank(), t.depth());
    }

    #[test]
    #[ignore = "cargo xtask fuzz"]
    fn fuzz_thread_values(a in operand(), b in operand(), c in operand(), t in tuple(value().boxed()), n in number(), shape in (number(), number(), number())) {
        for copy in [TiledCopy::new(&a, &b), TiledCopy::from_tv(&t, b.clone()), TiledCopy::from_tv((8, 8), b.clone())] {
            if let Some(copy) = offset(copy) {
                sound(copy.divide(&c));
                sound(copy.partition(&c, n).map(|(mine, _)| mine));
                sound(copy.partition(&c, 0).map(|(mine, _)| mine));
                sound(copy.retile(&c));
            }
        }
        let atom = MmaAtom { shape, a: a.clone(), b: b.clone(), c: c.clone() };
        offset(TiledMma::new(atom, a.clone()));
        let tv = || "((4,8),(2,2)):((32,1),(8,16))".parse().unwrap();
        let atom = MmaAtom { shape: (16, 8, 8), a: tv(), b: "((4,8),2):((16,1),8)".parse().unwrap(), c: tv() };
        if let Some(mma) = offset(TiledMma::new(atom, b)) {
            for thread in [0, 31, n] {
                sound(mma.partition_a(&a, thread).map(|(mine, _)| mine));
                sound(mma.partition_b(&a, thread).map(|(mine, _)| mine));
                sound(mma.partition_c(&c, thread).map(|(mine, _)| mine));
            }
        }
    }

    #[test]
    #[ignore = "cargo xtask fuzz"]
    fn fuzz_swizzles(a in operand(), b in operand(), c in coordinate(), parts in (0u32..70, 0u32..70, -70i32..70), offset_ in number(), n in number()) {
        let swizzle = offset(Swizzle::new(parts.0 % 8, parts.1 % 16, parts.2 % 16)).unwrap_or(Swizzle::IDENTITY);
        offset(Swizzle::new(parts.0, parts.1, parts.2));
        prop_assert_eq!(swizzle.apply(swizzle.apply(n)), n);
        let x = Composed::new(swizzle, offset_, a);
        prop_assert_eq!(&x.to_string().parse::<Composed>().unwrap(), &x);
        offset(x.cosize());
        let _ = (x.eval(n), x.is_injective(), x.as_layout());
        offset(x.at(&c));
        if let Some(offsets) = offset(x.offsets()) {
            let _ = offsets.take(100).count();
        }
        for made in [x.slice(&c), x.tile(&b, &c), x.composition(&b), x.logical_divide(&b), x.zipped_divide(&b), x.tile_to_shape(&c, None),
            x.upcast(n), x.downcast(n), x.parallelize(&b, n, None)] {
            if let Some(made) = offset(made) {
                sound(Ok(made.layout().clone()));
            }
        }
        offset(x.max_common_vector(&b.into()));
        offset(x.coordinate_of(n));
    }

    #[test]
    #[ignore = "cargo xtask fuzz"]
    fn fuzz_parse(noise in "[-(),:<>_*@/0-9MKceilSw o]{0,40}|\\PC{0,20}", a in operand(), cut in any::<(u16, u16)>()) {
        let tiler = Tiler::Modes(vec![Tiler::from(&a), Tiler::Keep]).to_string();
        let swizzled = Composed::new(Swizzle::new(2, 1, 3).unwrap(), 5, a.clone()).to_string();
        for valid in ["", &a.to_string(), &tiler, &swizzled, "(M,ceil(K/8),3*lda):(1@0,-2@1@0,ceil(M/3))"] {
            // a part of a valid text is replaced by noise
            let at = |n: u16| valid.char_indices().map(|(at, _)| at).nth(n as usize % (valid.chars().count() + 1)).unwrap_or(valid.len());
            let (from, to) = (at(cut.0), at(cut.0.saturating_add(cut.1 % 4)));
            let text = format!("{}{noise}{}", &valid[..from], &valid[to.max(from)..]);
            reads::<Layout>(&text);
            reads::<Tuple>(&text);
            reads::<Tiler>(&text);
            reads::<Composed>(&text);
        }
    }
}

/// The text parses, and its printed form parses to the same; or an error points into the text.
fn reads<T: std::str::FromStr<Err = LayoutError> + std::fmt::Display + PartialEq + std::fmt::Debug>(
    text: &str,
) {
    match text.parse::<T>() {
        Ok(read) => assert_eq!(read.to_string().parse::<T>().as_ref(), Ok(&read), "{text}"),
        Err(error) => {
            fine(&error);
            if let Condition::Parse { column, .. } = error.condition() {
                assert!((1..=text.chars().count() + 1).contains(column), "{text}: column {column}");
            }
        }
    }
}
