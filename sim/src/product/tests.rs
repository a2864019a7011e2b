use super::*;
use tilewright_layout::{Composed, Layout, Swizzle};

/// Checks that the descriptor addresses a matrix as this layout does.
#[track_caller]
fn check(mode: u8, transposed: bool, expected: &str) {
    let matrix = Matrix {
        start: 2048,
        leading: 4096,
        stride: 1024,
        mode,
        transposed,
        extent: 64,
        k: 16,
        elem: Elem::F16,
    };
    let layout: Layout = expected.parse().unwrap();
    let swizzle = match mode {
        0 => Swizzle::new(0, 4, 3),
        mode => Swizzle::new(4 - u32::from(mode), 4, 3),
    };
    let layout = Composed::new(swizzle.unwrap(), 2048, layout);
    for mn in 0..64 {
        for k in 0..16 {
            let wanted = layout.at((mn as i64, k as i64)).unwrap();
            assert_eq!(
                matrix.address(mn, k) as i64,
                wanted,
                "mode {mode}, transposed {transposed}: {mn}, {k}"
            );
        }
    }
}

/// A row of products and an accumulator.
#[track_caller]
fn sum(d: f64, terms: &[(f64, f64)], operand: Elem, expected: f64) {
    let (a, b): (Vec<f64>, Vec<f64>) = terms.iter().copied().unzip();
    let mut sums = Dense::Float(vec![d]);
    let rounding = Rounding::of(operand, Elem::F32);
    multiply(&mut sums, &Dense::Float(a), &Dense::Float(b), [1, 1, terms.len()], rounding);
    let Dense::Float(sums) = sums else { panic!("floating-point sums") };
    assert_eq!(sums, [expected]);
}

#[test]
fn terms_are_cut_off_below_the_last_bit_of_the_greatest() {
    let e = 2f64.powi(-23);
    sum(1.0, &[(e, 1.0)], Elem::Tf32, 1.0 + e);
    // Each is cut off on its own, and toward zero.
    sum(1.0, &[(e * 0.75, 1.0), (e * 0.75, 1.0)], Elem::Tf32, 1.0);
    sum(1.0, &[(-e * 0.75, 1.0), (-e * 0.75, 1.0)], Elem::Tf32, 1.0);
    sum(e * 0.75, &[(1.0, 1.0)], Elem::Tf32, 1.0);
    sum(e * 0.75, &[(1.0, 0.0)], Elem::Tf32, e * 0.75);
    // The sum is truncated to f32.
    sum(1.0, &[(1.0, 1.0), (e, 1.0)], Elem::Bf16, 2.0);
    sum(-1.0, &[(-1.0, 1.0), (-e, 1.0)], Elem::Bf16, -2.0);
    sum(0.0, &[(0.0, 1.0)], Elem::Bf16, 0.0);
    sum(f64::INFINITY, &[(1.0, 1.0)], Elem::Bf16, f64::INFINITY);
    let eighth = 2f64.powi(-13);
    sum(1.0, &[(eighth * 1.5, 1.0)], Elem::E4m3, 1.0 + eighth);
}

/// Layouts in bytes, as the PTX manual's canonical layouts have them for elements of two bytes.
#[test]
fn descriptors_are_layouts() {
    check(0, false, "((8,8),(8,2)):((16,1024),(2,4096))");
    check(1, false, "((8,8),(8,2)):((128,1024),(2,16))");
    check(2, false, "((8,8),(8,2)):((64,1024),(2,16))");
    check(3, false, "((8,8),(8,2)):((32,1024),(2,16))");
    check(0, true, "((8,8),(8,2)):((2,1024),(16,4096))");
    check(1, true, "((8,8,1),(8,2)):((2,16,4096),(128,1024))");
    check(2, true, "((8,4,2),(8,2)):((2,16,4096),(64,1024))");
    check(3, true, "((8,2,4),(8,2)):((2,16,4096),(32,1024))");
}
