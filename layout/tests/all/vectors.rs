//! Answers confirmed by brute force elsewhere: pointwise equality on the whole file, equal text on nearly all
//! of it.

use tilewright_layout::{Layout, Result};

pub(crate) fn apply(op: &str, a: &Layout, b: &str) -> Result<Layout> {
    let right = || b.parse::<Layout>();
    match op {
        "coalesce" => Ok(a.coalesce()),
        "right_inverse" => a.right_inverse(),
        "left_inverse" => a.left_inverse(),
        "complement" => a.complement(b.parse::<i64>().unwrap()),
        "composition" => a.composition(right()?),
        "logical_divide" => a.logical_divide(right()?),
        "zipped_divide" => a.zipped_divide(right()?),
        "tiled_divide" => a.tiled_divide(right()?),
        "flat_divide" => a.flat_divide(right()?),
        "logical_product" => a.logical_product(right()?),
        "zipped_product" => a.zipped_product(right()?),
        "blocked_product" => a.blocked_product(&right()?),
        "raked_product" => a.raked_product(&right()?),
        other => panic!("unknown operation {other}"),
    }
}

/// The copies of a product are `A*(B(j))`, with `A*` the complement of `A`. Where that is not a layout we
/// refuse, although an answer is recorded: this finds a `j` for which the recorded answer is wrong.
fn is_not_the_product(a: &Layout, b: &Layout, recorded: &Layout) -> bool {
    let room = a.size().unwrap() * b.cosize().unwrap();
    let rest = a.complement(room).unwrap();
    let copies = recorded.mode(1).unwrap();
    b.offsets()
        .unwrap()
        .zip(copies.offsets().unwrap())
        .any(|(index, offset)| rest.eval(index) != Some(offset))
}

#[test]
fn operations() {
    let (mut lines, mut same_text) = (0, 0);
    for line in include_str!("../vectors/layout_ops.txt").lines() {
        let [op, a, b, expected] = line.split('|').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let a: Layout = a.parse().unwrap();
        let expected: Layout = expected.parse().unwrap();
        lines += 1;
        match apply(op, &a, b) {
            Ok(result) => {
                assert_eq!(result.size(), expected.size(), "{line}: found {result}");
                assert!(result.offsets().unwrap().eq(expected.offsets().unwrap()), "{line}: found {result}");
                same_text += usize::from(result == expected);
            }
            Err(error) => {
                let refused =
                    op.ends_with("product") && is_not_the_product(&a, &b.parse().unwrap(), &expected);
                assert!(refused, "{line}: {}", error.line());
            }
        }
    }
    assert!(same_text * 1000 >= lines * 997, "{same_text} of {lines} have the same text");
}

#[test]
fn composition_exists_exactly_when_it_should() {
    for line in include_str!("../vectors/composition_truth.txt").lines() {
        let [a, b, truth] = line.split('|').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let (a, b): (Layout, Layout) = (a.parse().unwrap(), b.parse().unwrap());
        match a.composition(&b) {
            Ok(r) => {
                assert_eq!(truth, "1", "{line}: found {r}");
                let right = b.offsets().unwrap().map(|i| a.eval(i).unwrap());
                assert!(r.size() == b.size() && r.offsets().unwrap().eq(right), "{line}: found {r}");
                assert!(b.shape().compatible(&r.shape()), "{line}: found {r}");
            }
            Err(error) => assert_eq!(truth, "0", "{line}: {}", error.line()),
        }
    }
}
