//! Scalar expressions in kernels: exact literals, explicit conversions, wide accumulators, and write-only
//! assignments.

use tilewright::prelude::*;
use tilewright::{bf16, f16};
use tilewright_sim::Arg;
use tilewright_tests::inputs::inputs;

#[kernel]
fn literals(
    i: &Tensor<i32, N>,
    u: &Tensor<u32, N>,
    x: &Tensor<f32, N>,
    a: &mut Tensor<i32, N>,
    b: &mut Tensor<u32, N>,
    c: &mut Tensor<f32, N>,
) {
    let t = layout!(32);
    let (i, u, x) = (
        parallelize(tile(i, 32, block.x), t, thread.x),
        parallelize(tile(u, 32, block.x), t, thread.x),
        parallelize(tile(x, 32, block.x), t, thread.x),
    );
    let (a, b, c) = (
        parallelize(tile(a, 32, block.x), t, thread.x),
        parallelize(tile(b, 32, block.x), t, thread.x),
        parallelize(tile(c, 32, block.x), t, thread.x),
    );
    copy(map(i, |i| if i == i32::MIN { i - 2147483647 } else { i + -2147483648 }), a);
    copy(map(u, |u| max(u, 4294967295 - 1) + 1.0), b);
    copy(map(x, |x| x * 1152921573326323713), c);
}

#[test]
fn literals_are_exact() {
    let args = [
        Arg::tensor(&[i32::MIN, 5], [2]),
        Arg::tensor(&[7u32, u32::MAX], [2]),
        Arg::tensor(&[1.0f32, -1.0], [2]),
        Arg::output::<i32>([2]),
        Arg::output::<u32>([2]),
        Arg::output::<f32>([2]),
    ];
    let outcome = literals().simulate(&args).unwrap();
    assert_eq!(outcome.get::<i32>("a").unwrap(), [1, i32::MIN + 5]);
    assert_eq!(outcome.get::<u32>("b").unwrap(), [u32::MAX, 0]);
    // Above the midpoint of two floats; rounded to double first it would be the midpoint.
    assert_eq!(outcome.get::<f32>("c").unwrap(), [1152921642045800448.0, -1152921642045800448.0]);
    let source = literals().source().to_owned();
    for text in ["(-2147483647 - 1)", "4294967294u", "1.1529216e18f"] {
        assert!(source.contains(text), "{text} is not in\n{source}");
    }
}

#[kernel]
fn converted(i: &Tensor<i32, N>, h: &Tensor<f16, N>, y: &mut Tensor<f32, N>, z: &mut Tensor<i32, N>) {
    let t = layout!(32);
    let (i, h) =
        (parallelize(tile(i, 32, block.x), t, thread.x), parallelize(tile(h, 32, block.x), t, thread.x));
    let (y, z) =
        (parallelize(tile(y, 32, block.x), t, thread.x), parallelize(tile(z, 32, block.x), t, thread.x));
    copy(map((i, h), |i, h| i as f32 + h as f32 / 2 + 1.5), y);
    copy(map((i, h), |i, h| !((h as i32 > i) as i32) + select(!(i > 0), 10, 20)), z);
}

#[test]
fn elements_are_converted_where_the_text_says_so() {
    inputs(converted().def()).list("i", [1, -7]).list("h", [3.0, -2.5]).written(["N = 2"]);
}

/// The same sum at every level: per thread, per warp, per block.
#[kernel(T = bf16 | f16 | i8 | u8 | f32, allow(unbounded))]
fn totals<T>(
    x: &Tensor<T, N>,
    threads: &mut Tensor<f32, _1>,
    warp: &mut Tensor<f32, _1>,
    block_: &mut Tensor<f32, _1>,
    narrow: &mut Tensor<f32, _1>,
) {
    let one = layout!(64);
    let all = parallelize(tile(x, 4096, 0), one, thread.x);
    let own = registers_like(all, 0);
    copy(all, own);
    let (first, second) = (sum(own), warp_sum(sum(own)));
    copy(first, parallelize(threads, one, thread.x, ragged = true));
    copy(second, parallelize(warp, one, thread.x, ragged = true));
    copy(block_sum(sum(own)), parallelize(block_, one, thread.x, ragged = true));
    copy(block_sum(sum(own, acc = T)), parallelize(narrow, one, thread.x, ragged = true));
}

#[test]
fn sums_of_narrow_elements_are_kept_in_wider_ones() {
    // 64 elements per thread, all of them 3.
    let sums = |arg: Arg, kernel: &dyn Fn(&[Arg]) -> tilewright_sim::Outcome| {
        let mut args = vec![arg];
        args.extend((0..4).map(|_| Arg::output::<f32>([1])));
        let outcome = kernel(&args);
        ["threads", "warp", "block_", "narrow"].map(|name| outcome.get::<f32>(name).unwrap()[0])
    };
    macro_rules! of {
        ($ty:ident, $value:expr) => {
            sums(Arg::tensor(&vec![$value; 4096], [4096]), &|args| {
                totals!(T = $ty).simulate(args).unwrap_or_else(|error| panic!("{error}"))
            })
        };
    }
    let right = [193.0, 6176.0, 12352.0];
    let value = 193.0 / 64.0;
    assert_eq!(of!(f32, value)[..3], right);
    assert_eq!(of!(f16, f16::from_f32(value))[..3], right);
    // 3 + 1/64 has more digits than bf16.
    assert_eq!(of!(bf16, bf16::from_f32(3.0))[..3], [192.0, 6144.0, 12288.0]);
    assert_eq!(of!(i8, -100i8)[..3], [-6400.0, -204800.0, -409600.0]);
    // Each thread's sum wraps where `acc` is `u8`; the sum over threads is `i32` again.
    assert_eq!(of!(u8, 255u8), [16320.0, 522240.0, 1044480.0, 64.0 * 192.0]);
    // An explicit narrow type is respected: from 32 on, bf16 has no eighths.
    let ones = of!(bf16, bf16::from_f32(1.125));
    assert_eq!(ones[2], 4608.0);
    assert!(ones[3] != 4608.0, "{ones:?}");
}

#[kernel]
fn set(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>, z: &mut Tensor<f32, N>) {
    let t = layout!(32);
    let x = parallelize(tile(x, 32, block.x), t, thread.x);
    let (y, z) =
        (parallelize(tile(y, 32, block.x), t, thread.x), parallelize(tile(z, 32, block.x), t, thread.x));
    y = map(x, |x| x + 1.0);
    z = 2.5;
}

#[test]
fn an_assignment_does_not_read_its_target() {
    inputs(set().def()).written(["N = 2"]);
    assert!(!set().source().contains("= y["), "{}", set().source());
}

/// Sums of arguments are compared exactly, though they do not fit the type of the arguments.
#[kernel]
fn compared(n: i8, m: u32, y: &mut Tensor<i32, _3>) {
    let less = m - 1;
    fill(y[(0)], if n + 1 > n { 1 } else { 0 });
    if 4 * n >= 100 {
        fill(y[(1)], 1);
    } else {
        fill(y[(1)], 0);
    }
    fill(y[(2)], if less < m { 1 } else { 0 });
}

#[test]
fn comparisons_of_arguments_are_exact() {
    for (n, m, wanted) in
        [(127i8, 0u32, [1, 1, 1]), (-128, u32::MAX, [1, 0, 1]), (24, 1, [1, 0, 1]), (32, 7, [1, 1, 1])]
    {
        let args = [Arg::number(n), Arg::number(m), Arg::output::<i32>([3])];
        assert_eq!(compared().simulate(&args).unwrap().get::<i32>("y").unwrap(), wanted, "{n} {m}");
    }
}

#[kernel]
fn differences(
    x: &Tensor<f32, N>,
    y: &Tensor<f32, N>,
    a: &mut Tensor<f32, N>,
    b: &mut Tensor<f32, N>,
    c: &mut Tensor<f32, N>,
) {
    let own = |view| tile(view, 32, block.x);
    let (x, y) = (own(x), own(y));
    copy(x * x - y, own(a));
    copy(y - x * x, own(b));
    let c = own(c);
    c -= x * x;
}

/// A product and a difference are rounded once, as a product and a sum are.
#[test]
fn differences_of_products_are_rounded_once() {
    let x = 1.0f32 + f32::EPSILON;
    let y = 1.0f32 + 2.0 * f32::EPSILON; // x · x, rounded
    let args = [
        Arg::tensor(&[x], [1]),
        Arg::tensor(&[y], [1]),
        Arg::output::<f32>([1]),
        Arg::output::<f32>([1]),
        Arg::in_out(&[y], [1]),
    ];
    let outcome = differences().simulate(&args).unwrap();
    let left = f32::EPSILON * f32::EPSILON;
    for (name, wanted) in [("a", left), ("b", -left), ("c", -left)] {
        assert_eq!(outcome.get::<f32>(name).unwrap(), [wanted], "{name}");
    }
}
