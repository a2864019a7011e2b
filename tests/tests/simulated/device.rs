//! Functions of numbers that kernels share: of this module and of others, that use one another, under other
//! names, of several types.

use tilewright::prelude::*;
use tilewright_sim::{Arg, Options, run_every};
use tilewright_tests::inputs::inputs;

mod math {
    use tilewright::prelude::*;

    pub(crate) mod shrink {
        use tilewright::prelude::*;

        /// Moves a number towards 0, by at most `by`.
        #[device]
        pub(crate) fn soft(x: f32, by: f32) -> f32 {
            let rest = abs(x) - by;
            if rest > 0.0 { copysign(rest, x) } else { 0.0 }
        }
    }

    /// The Huber loss: a square near 0, linear past `d`.
    #[device]
    pub(crate) fn huber(x: f32, d: f32) -> f32 {
        use self::shrink::soft;
        let near = x - soft(x, d);
        near * near / 2.0 + d * abs(soft(x, d))
    }

    #[device]
    pub(crate) fn wrapped(n: i32, by: i32) -> i32 {
        n - n / by * by
    }
}

/// A bijection of the 32 bits of a number.
#[device]
fn mixed(n: u32) -> u32 {
    let n = (n ^ (n >> 16)) * 0x21f0aaad;
    let n = (n ^ (n >> 15)) * 0x735a2d97;
    n ^ (n >> 15)
}

#[kernel]
fn losses(d: f32, x: &Tensor<f32, N>, loss: &mut Tensor<f32, N>, rest: &mut Tensor<f32, N>) {
    use crate::device::math::{huber, shrink::soft as shrunk};
    let x = tile(x, 256, block.x);
    let (a, b) = map(x, |x| (huber(x, d), shrunk(x, 2.0 * d)));
    copy(a, tile(loss, 256, block.x));
    copy(b, tile(rest, 256, block.x));
}

#[kernel]
fn numbers(x: &Tensor<i32, N>, hash: &mut Tensor<u32, N>, index: &mut Tensor<i32, N>) {
    use self::math::wrapped;
    use self::mixed;
    let x = tile(x, 256, block.x);
    // An element, a coordinate, and an integer of the kernel.
    map(x, tile(hash, 256, block.x), |x| mixed(x as u32));
    map(x, tile(index, 256, block.x), |x, at| wrapped(x, 7) + wrapped(at.0, 3) + wrapped(block.x, 2));
}

#[test]
fn functions_are_inlined_wherever_they_are_defined() {
    inputs(losses().def()).set("d = 1.5").written(["N = 1", "N = 255", "N = 256", "N = 1000"]);
}

#[test]
fn functions_of_integers_take_elements_and_coordinates() {
    inputs(numbers().def()).written(["N = 600"]);
}

#[test]
fn a_specialised_kernel_keeps_its_functions() {
    let other = numbers().specialize(&[]).unwrap();
    assert_eq!(other.source(), numbers().source());
    assert_eq!(losses!().source(), losses().source());
}

mod tiles {
    use tilewright::prelude::*;

    /// The part of a thread of a row of `width` elements in tile `i`, four neighbours at a time.
    #[device]
    pub(crate) fn row(x: View, width: usize, at: (usize, usize), threads: Arrangement) -> View {
        parallelize(tile(x, (1, width), at), threads, thread.x, values = (1, 4))
    }

    /// Sums of several tiles, of a function of their elements.
    #[device]
    pub(crate) fn summed(x: View, count: usize, f: fn(f32) -> f32) -> View {
        let mut total = full::<f32>((1, 1), 0.0);
        for k in 0..count {
            total += sum(map(x[(_, _, k)], f), 1);
        }
        total
    }

    /// Adds to an accumulator, where the block is not the first.
    #[device]
    pub(crate) fn add_later<T>(acc: &mut View, pair: (View, f32)) {
        let (x, scale) = pair;
        let zero = full::<T>(1, 0.0);
        if block.x > 0 {
            acc += map((x, zero), |x, zero| scale * x + zero as f32);
        }
    }

    /// The ends of a tile of `n` of all elements: integers alone.
    #[device]
    pub(crate) fn ends(i: usize, n: usize, all: usize) -> (usize, usize) {
        (i * n, min((i + 1) * n, all))
    }
}

/// Rows divided by the sum of squares of all their elements.
#[kernel]
fn divided<const W: usize = 512>(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    use self::tiles::{row, summed};
    let threads = layout!((1, 128));
    let parts = tile(x, (1, W), (block.x, _));
    let total = summed(parts, parts.size(2), |x| x * x);
    for k in 0..parts.size(2) {
        let (from, to) = (row(x, W, (block.x, k), threads), row(y, W, (block.x, k), threads));
        copy(map(from, |x| x / total[(0, 0)]), to);
    }
}

/// Twice the elements of the first block, and more of the others; then how many elements each block has.
#[kernel]
fn grown(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>, n: &mut Tensor<i32, { ceil_div(N, 256) }>) {
    use self::tiles::{add_later, ends};
    let x = map(tile(x, 256, block.x), |x| x);
    let mut acc = 2.0 * x;
    let before = acc;
    add_later::<f32>(&mut acc, (x, 0.5));
    copy(acc + (before - 2.0 * x), tile(y, 256, block.x));
    let (from, to) = ends(block.x, 256, y.size(0));
    copy(to - from, tile(n, 1, block.x));
}

#[test]
fn functions_of_tiles_have_statements() {
    let (m, n) = (3, 700);
    let x: Vec<f32> = (0..m * n).map(|i| (i % 5) as f32).collect();
    let sums: Vec<f32> = x.chunks(n).map(|row| row.iter().map(|x| x * x).sum()).collect();
    let expected: Vec<f32> = x.iter().enumerate().map(|(i, x)| x / sums[i / n]).collect();
    let args = [Arg::tensor(&x, [m, n]).strides([n, 1]), Arg::output::<f32>([m, n]).strides([n, 1])];
    for outcome in run_every(&divided().def().generate().unwrap(), &args, &Options::default()).unwrap() {
        assert_eq!(outcome.get::<f32>("y").unwrap(), expected);
    }
    let x = &x[..600];
    let expected: Vec<f32> =
        x.iter().enumerate().map(|(i, x)| if i < 256 { 2.0 * x } else { 2.5 * x }).collect();
    let args = [Arg::tensor(x, [600]), Arg::output::<f32>([600]), Arg::output::<i32>([3])];
    for outcome in run_every(&grown().def().generate().unwrap(), &args, &Options::default()).unwrap() {
        assert_eq!(outcome.get::<f32>("y").unwrap(), expected);
        assert_eq!(outcome.get::<i32>("n").unwrap(), [256, 256, 88]);
    }
}

mod closures {
    use tilewright::prelude::*;

    #[device]
    pub(crate) fn step(x: f32) -> f32 {
        x + 1.0
    }

    #[device]
    fn leap(x: f32) -> f32 {
        x + 100.0
    }

    /// A closure of its caller, then its own function, which has the name of another there.
    #[device]
    pub(crate) fn applied(x: View, f: fn(f32) -> f32) -> View {
        use self::leap as step;
        map(map(x, f), |x| step(x))
    }
}

/// A closure calls the functions of the kernel that it is written in.
#[kernel]
fn stepped(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    use self::closures::{applied, step};
    copy(applied(tile(x, 256, block.x), |x| step(x) * N as f32), tile(y, 256, block.x));
}

/// An operation on integers alone, of any integer type.
#[device]
fn halved<T>(x: T) -> T {
    (x << 1) >> 2
}

/// Sums of pairs.
#[device]
fn plus<T>(a: (T, T), b: (T, T)) -> (T, T) {
    (a.0 + b.0, a.1 + b.1)
}

/// One element of a tile may be an integer of a function.
#[device]
fn times(x: View, n: usize) -> View {
    let mut total = x * 0.0;
    for _ in 0..n {
        total += x;
    }
    total
}

#[kernel]
fn mixtures(x: &Tensor<f32, N>, n: &Tensor<i32, _1>, y: &mut Tensor<f32, N>, z: &mut Tensor<u8, N>) {
    use self::{halved, plus, times};
    let x = tile(x, 256, block.x);
    let (a, b) = plus((x, 2.0 * x), (x, 1.0));
    copy(times(a + b, n[(0)]), tile(y, 256, block.x));
    map(x, tile(z, 256, block.x), |x| halved((x as i32) as u8));
}

#[test]
fn functions_take_closures_pairs_and_integers_of_any_type() {
    let x: Vec<f32> = (0..300).map(|at| at as f32).collect();
    let args = [Arg::tensor(&x, [300]), Arg::output::<f32>([300])];
    for outcome in run_every(&stepped().def().generate().unwrap(), &args, &Options::default()).unwrap() {
        let wanted: Vec<f32> = x.iter().map(|x| (x + 1.0) * 300.0 + 100.0).collect();
        assert_eq!(outcome.get::<f32>("y").unwrap(), wanted);
    }
    let args =
        [Arg::tensor(&x, [300]), Arg::tensor(&[3], [1]), Arg::output::<f32>([300]), Arg::output::<u8>([300])];
    for outcome in run_every(&mixtures().def().generate().unwrap(), &args, &Options::default()).unwrap() {
        let wanted: Vec<f32> = x.iter().map(|x| 3.0 * (4.0 * x + 1.0)).collect();
        assert_eq!(outcome.get::<f32>("y").unwrap(), wanted);
        let wanted: Vec<u8> = (0..300).map(|n| (n as u8) << 1 >> 2).collect();
        assert_eq!(outcome.get::<u8>("z").unwrap(), wanted);
    }
}

mod names {
    use tilewright::prelude::*;

    #[device]
    pub(crate) fn same(x: View) -> View {
        x
    }

    /// A tile of its own begins as a parameter, which does not change.
    #[device]
    pub(crate) fn more(x: View) -> View {
        let mut y = x;
        y += 1.0;
        y
    }

    #[device]
    pub(crate) fn exchange(pair: (&mut View, &mut View)) {
        pair = (pair.1, pair.0);
    }
}

/// Each line adds 1 to a tile, and 10 times its old value.
#[kernel]
fn second_names(x: &Tensor<f32, N>, y: &mut Tensor<f32, (N, _10)>) {
    use self::names::{exchange, more, same};
    let x = tile(x, 256, block.x);
    let y = tile(y, (256, 1), (block.x, _))[(_, 0, _)];
    let mut t = 1.0 * x;
    let pair = (t, x);
    t += 1.0;
    copy(10.0 * pair.0 + t, y[(_, 0)]);

    let u = 1.0 * x;
    let mut pair = (u, x);
    pair.0 += 1.0;
    copy(10.0 * u + pair.0, y[(_, 1)]);

    let mut t = 1.0 * x;
    let all = [t, x];
    t += 1.0;
    copy(10.0 * all[0] + t, y[(_, 2)]);

    let mut t = 1.0 * x;
    let ((u, _), _) = ((t, x), x);
    t += 1.0;
    copy(10.0 * u + t, y[(_, 3)]);

    let mut t = 1.0 * x;
    let u = if 2 > 1 { t } else { x };
    t += 1.0;
    copy(10.0 * u + t, y[(_, 4)]);

    let u = 1.0 * x;
    let mut t = 1.0 * x;
    for part in [u] {
        part += 1.0;
        t = part;
    }
    copy(10.0 * u + t, y[(_, 5)]);

    let mut t = 1.0 * x;
    let u = same(t);
    t += 1.0;
    copy(10.0 * u + t, y[(_, 6)]);

    let u = 1.0 * x;
    let t = more(u);
    copy(10.0 * u + t, y[(_, 7)]);

    let (mut t, mut u) = (1.0 * x, x + 1.0);
    exchange((&mut t, &mut u));
    copy(10.0 * u + t, y[(_, 8)]);

    let mut pair = (x + 1.0, 1.0 * x);
    for _ in 0..2 {
        pair = (pair.1, pair.0);
    }
    copy(10.0 * pair.1 + pair.0, y[(_, 9)]);
}

#[test]
fn a_tile_keeps_its_elements_when_its_second_name_changes() {
    // Small integers, whose sums are exact.
    let kernel = second_names();
    let args = inputs(kernel.def()).indexed("x", |at, _| at as f64).args("N = 300");
    let wanted: Vec<f32> = (0..300).map(|at| 11.0 * at as f32 + 1.0).collect();
    crate::check_output(kernel.def(), &args, "y", &wanted.repeat(10));
}
