//! Error messages: one line and one paragraph for every condition, the smallest counterexample, a remedy that
//! works.

use crate::common::*;
use proptest::prelude::*;
use tilewright_layout::*;

fn text<T: std::str::FromStr<Err = LayoutError>>(text: &str) -> T {
    text.parse().unwrap()
}

/// The two forms of an error, under the operation.
fn says<T>(asked: &str, result: tilewright_layout::Result<T>) -> String {
    let error = result.err().unwrap_or_else(|| panic!("{asked} has an answer"));
    let (line, paragraph) = (error.line(), error.to_string());
    assert_eq!(format!("{error:#}"), line);
    assert!(!line.contains('\n') && !paragraph.contains('\n'));
    format!("{asked}\n    {line}\n    {paragraph}\n\n")
}

macro_rules! table {
    ($($asked:expr;)*) => { [$(says(&stringify!($asked).split_whitespace().collect::<Vec<_>>().join(" "), $asked)),*].concat() };
}

fn l(layout: &str) -> Layout {
    text(layout)
}

#[test]
fn every_condition() {
    let all = table! {
        Layout::new((4, 2), 1);
        "(4,0):(1,4)".parse::<Layout>();
        "(4,_):(1,4)".parse::<Layout>();
        "(4,2:(1,4)".parse::<Layout>();
        "(4294967296,4294967296):(1,1)".parse::<Layout>();
        l("(M,4):(1,M)").size();
        l("(M,K):(1,lda)").at((0, text::<Tuple>("(1,M)")));
        l("(4,4):(lda,ldb)").at((1, 1));
        l("(4,4):(1,4)").at((1, ALL));
        l("(4,4):(1,4)").slice((1, 2, 3));
        l("(4,4):(1,4)").mode(2);
        Layout::identity(text::<Tuple>("((((((2))))))"));
        l("8:1").parallelize(&l("4:1"), 4, None);
        l("8:1").parallelize(&l("4:2"), 0, None);
        l("(7,6):(6,1)").composition(l("8:4"));
        l("(6,2):(1,7)").composition(l("(3,2):(2,3)"));
        l("(2,1000000000,4):(1,3,2999999999)").composition(l("2000000000:1000000001"));
        l("(4,4):(1,8)").composition(l("4:-1"));
        l("(2,2):(1,1)").complement(8);
        l("(8,4):(4,1)").tile_to_shape((16, 6), None);
        l("(8,4):(1,129)").upcast(4);
        l("(3,3):(2,3)").left_inverse();
        l("(2,2,2):(0,1,1)").complement(8);
        l("(4,3):(3,1)").reshape((6, 2));
        l("(8,4):(1,18)").recast(8, 32);
        l("9:1").tile_obligations(l("(2,2):(1,3)"));
        l("8:1").complement(0);
        l("24:2").reshape((4, 5));
        Swizzle::new(3, 0, 2);
        l("((8,8),4):((1,9),128)").composition((l("(4,4):(1,6)"), 4));
    };
    insta::assert_snapshot!(all);
}

/// The first argument of every error is a tuple within the right operand, and every part before it is right: see
/// `composition` in `laws.rs`. Here: the reported nearest operand works, and no nearer operand
/// does.
fn failing() -> impl Strategy<Value = (Layout, Layout)> {
    (positive(), positive()).prop_filter("fails", |(a, b)| a.composition(b).is_err())
}

proptest! {
    #[test]
    fn the_nearest_that_works_does((a, b) in failing()) {
        let error = a.composition(&b).unwrap_err();
        let Some(Operand::Layout(nearest)) = error.nearest() else { return Ok(()) };
        prop_assert!(a.composition(&nearest).is_ok());
        let apart = |x: &Layout| leaves(x).iter().zip(leaves(&b)).map(|(x, y)| (x.0 - y.0).abs() + (x.1 - y.1).abs()).sum::<i64>();
        prop_assert_eq!(nearest.shape().congruent(&b.shape()), true);
        let flat = leaves(&b);
        for leaf in 0..flat.len() {
            for by in 1..apart(&nearest) {
                for (extent, stride) in [(by, 0), (-by, 0), (0, by), (0, -by)] {
                    let mut other = flat.clone();
                    other[leaf] = (other[leaf].0 + extent, other[leaf].1 + stride);
                    let (n, d) = other[leaf];
                    if n < 1 || (stride != 0 && d < 1) || other.iter().all(|l| l.0 == 1) {
                        continue;
                    }
                    let shape = fill(&b.shape(), &mut other.iter().map(|l| l.0));
                    let nearer = Layout::new(shape, fill(&b.shape(), &mut other.iter().map(|l| l.1))).unwrap();
                    prop_assert!(a.composition(&nearer).is_err(), "{} is nearer than {}", nearer, nearest);
                }
            }
        }
    }

    #[test]
    fn divisions_name_a_tile_that_divides(a in dense(), b in positive()) {
        if let Err(error) = a.logical_divide(&b)
            && let Some(Operand::Layout(nearest)) = error.nearest()
        {
            prop_assert!(a.logical_divide(nearest).is_ok());
        }
    }
}
