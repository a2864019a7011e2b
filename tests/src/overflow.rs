//! Kernels whose coordinates are results of integer arithmetic that can overflow.

use tilewright::KernelDef;
use tilewright::prelude::*;

/// All of them, by name.
pub fn all() -> Vec<(&'static str, KernelDef)> {
    vec![
        ("square", square().def().clone()),
        ("square_hash", square_hash().def().clone()),
        ("square_of_coordinate", square_of_coordinate().def().clone()),
        ("product_of_coordinates", product_of_coordinates().def().clone()),
        ("magnitude", magnitude().def().clone()),
        ("absolute", absolute().def().clone()),
        ("mirrored", mirrored().def().clone()),
        ("below_zero", below_zero().def().clone()),
        ("bits_of_sign", bits_of_sign().def().clone()),
        ("sign_added", sign_added().def().clone()),
        ("complement", complement().def().clone()),
        ("unsigned_opposite", unsigned_opposite().def().clone()),
        ("by_sign", by_sign().def().clone()),
        ("least", least().def().clone()),
        ("limited", limited().def().clone()),
        ("absolute_cells", absolute_cells().def().clone()),
        ("absolute_counted", absolute_counted().def().clone()),
        ("absolute_gathered", absolute_gathered().def().clone()),
        ("strided_row", strided_row().def().clone()),
        ("difference", difference().def().clone()),
        ("multiply_add", multiply_add().def().clone()),
        ("shifted", shifted().def().clone()),
        ("quotient", quotient().def().clone()),
        ("counted", counted().def().clone()),
        ("counted_in_shared", counted_in_shared().def().clone()),
        ("cells", cells().def().clone()),
        ("gathered", gathered().def().clone()),
        ("of_argument", of_argument().def().clone()),
        ("masked", masked().def().clone()),
        ("operations", operations().def().clone()),
        ("unsigned", unsigned().def().clone()),
        ("tiles_by_number", tiles_by_number().def().clone()),
    ]
}

/// Positions that are squares.
#[kernel]
pub fn square(i: &Tensor<i32, N>, y: &mut Tensor<f32, V>) {
    scatter(tile(i, 256, block.x), y, |i| (i * i, 1.0));
}

/// Positions that are hashes of squares.
#[kernel]
pub fn square_hash(i: &Tensor<i32, N>, y: &mut Tensor<f32, V>) {
    scatter(tile(i, 256, block.x), y, |i| ((i * i) % V, 1.0));
}

/// Positions that are squares of coordinates.
#[kernel]
pub fn square_of_coordinate(x: &Tensor<f32, N>, y: &mut Tensor<f32, V>) {
    scatter(tile(x, 256, block.x), y, |x, at| (at.0 * at.0, x));
}

/// Positions that are products of two coordinates.
#[kernel]
pub fn product_of_coordinates(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, V>) {
    scatter(tile(x, (32, 8), (block.x, block.y)), y, |x, at| (at.0 * at.1 - 3, x));
}

/// Positions that are negated where they are negative.
#[kernel]
pub fn magnitude(i: &Tensor<i32, N>, y: &mut Tensor<f32, V>) {
    scatter(tile(i, 256, block.x), y, |i| (if i < 0 { -i } else { i }, 1.0));
}

/// Positions that are absolute values.
#[kernel]
pub fn absolute(i: &Tensor<i32, N>, y: &mut Tensor<f32, V>) {
    scatter(tile(i, 256, block.x), y, |i| (abs(i), 1.0));
}

/// Positions that are the greater of a number and its opposite.
#[kernel]
pub fn mirrored(i: &Tensor<i32, N>, y: &mut Tensor<f32, V>) {
    scatter(tile(i, 256, block.x), y, |i| (max(i, -i), 1.0));
}

/// Positions that are differences from 0 where they are negative.
#[kernel]
pub fn below_zero(i: &Tensor<i32, N>, y: &mut Tensor<f32, V>) {
    scatter(tile(i, 256, block.x), y, |i| (if i < 0 { 0 - i } else { i }, 1.0));
}

/// Absolute values from the bits of a sign.
#[kernel]
pub fn bits_of_sign(i: &Tensor<i32, N>, y: &mut Tensor<f32, V>) {
    scatter(tile(i, 256, block.x), y, |i| ((i ^ (i >> 31)) - (i >> 31), 1.0));
}

/// The same, where the sign is added first.
#[kernel]
pub fn sign_added(i: &Tensor<i32, N>, y: &mut Tensor<f32, V>) {
    scatter(tile(i, 256, block.x), y, |i| ((i + (i >> 31)) ^ (i >> 31), 1.0));
}

/// Absolute values from complements.
#[kernel]
pub fn complement(i: &Tensor<i32, N>, y: &mut Tensor<f32, V>) {
    scatter(tile(i, 256, block.x), y, |i| (if i < 0 { (i ^ -1) + 1 } else { i }, 1.0));
}

/// Absolute values from numbers without a sign.
#[kernel]
pub fn unsigned_opposite(i: &Tensor<i32, N>, y: &mut Tensor<f32, V>) {
    scatter(tile(i, 256, block.x), y, |i| {
        (if i < 0 { ((i as u32) * (4294967295 as u32)) as i32 } else { i }, 1.0)
    });
}

/// Absolute values as products with a sign.
#[kernel]
pub fn by_sign(i: &Tensor<i32, N>, y: &mut Tensor<f32, V>) {
    scatter(tile(i, 256, block.x), y, |i| (i * if i < 0 { -1 } else { 1 }, 1.0));
}

/// Absolute values as the opposite of the lesser of a number and its opposite.
#[kernel]
pub fn least(i: &Tensor<i32, N>, y: &mut Tensor<f32, V>) {
    scatter(tile(i, 256, block.x), y, |i| (0 - min(i, 0 - i), 1.0));
}

/// Absolute values that are at most 5.
#[kernel]
pub fn limited(i: &Tensor<i32, N>, y: &mut Tensor<f32, V>) {
    scatter(tile(i, 256, block.x), y, |i| (min((i ^ (i >> 31)) - (i >> 31), 5), 1.0));
}

/// Absolute values along two modes.
#[kernel]
pub fn absolute_cells(i: &Tensor<i32, N>, y: &mut Tensor<f32, (V, W), (ldy, _1)>) {
    scatter(tile(i, 256, block.x), y, |i| (((i ^ (i >> 31)) - (i >> 31), abs(i) % W), 1.0));
}

/// Absolute values, counted.
#[kernel]
pub fn absolute_counted(i: &Tensor<i32, N>, y: &mut Tensor<i32, V>) {
    scatter(tile(i, 256, block.x), y, |i| ((i ^ (i >> 31)) - (i >> 31), 1), how = "atomic_add");
}

/// Elements at absolute values.
#[kernel]
pub fn absolute_gathered(i: &Tensor<i32, N>, x: &Tensor<f32, V>, y: &mut Tensor<f32, N>) {
    map(tile(i, 256, block.x), tile(y, 256, block.x), |i| x[((i ^ (i >> 31)) - (i >> 31))]);
}

/// Every 4096th element.
#[kernel]
pub fn strided_row(x: &Tensor<f32, V>, y: &mut Tensor<f32, N>) {
    let y = tile(y, 256, block.x);
    map(y, y, |_, at| x[(at.0 * 4096)]);
}

/// Positions that are sums and differences.
#[kernel]
pub fn difference(i: &Tensor<i32, N>, y: &mut Tensor<f32, V>) {
    scatter(tile(i, 256, block.x), y, |i| (if i > 5 { i + 100 } else { 5 - i }, 1.0));
}

/// Positions that are multiply-adds of masked numbers.
#[kernel]
pub fn multiply_add(i: &Tensor<i32, N>, y: &mut Tensor<f32, V>) {
    scatter(tile(i, 256, block.x), y, |i| ((i & 0xffff) * (i & 0xffff) + (i & 3), 1.0));
}

/// Positions that are shifted by more bits than they have.
#[kernel]
pub fn shifted(i: &Tensor<i32, N>, y: &mut Tensor<f32, V>) {
    scatter(tile(i, 256, block.x), y, |i| ((i & 0x7fff) << (i & 63), 1.0));
}

/// Positions that are quotients and remainders by numbers that may be 0 or -1.
#[kernel]
pub fn quotient(i: &Tensor<i32, N>, d: &Tensor<i32, N>, y: &mut Tensor<f32, V>) {
    scatter((tile(i, 256, block.x), tile(d, 256, block.x)), y, |i, d| (i / d + i % d, 1.0));
}

/// Hashes of squares, counted.
#[kernel]
pub fn counted(i: &Tensor<i32, N>, y: &mut Tensor<i32, V>) {
    scatter(tile(i, 256, block.x), y, |i| ((i * i) % V, 1), how = "atomic_add");
}

/// The same in shared memory.
#[kernel]
pub fn counted_in_shared(i: &Tensor<i32, N>, y: &mut Tensor<i32, _256>) {
    let counts = shared::<i32>(256);
    fill(counts, 0);
    scatter(tile(i, 256, block.x), counts, |i| (i * i * 7, 1), how = "atomic_add");
    copy(counts, tile(y, 256, 0), how = "atomic_add");
}

/// Positions along two modes.
#[kernel]
pub fn cells(i: &Tensor<i32, N>, y: &mut Tensor<f32, (V, W), (ldy, _1)>) {
    scatter(tile(i, 256, block.x), y, |i| ((i * i, i * i * i * i), 1.0));
}

/// Elements at positions along two modes.
#[kernel]
pub fn gathered(i: &Tensor<i32, N>, x: &Tensor<f32, (V, W), (ldx, _1)>, y: &mut Tensor<f32, N>) {
    map(tile(i, 256, block.x), tile(y, 256, block.x), |i| x[(i * i, (i * i) % W)]);
}

/// Positions that are products with an argument.
#[kernel]
pub fn of_argument(s: i32, i: &Tensor<i32, N>, y: &mut Tensor<f32, V>) {
    scatter(tile(i, 256, block.x), y, |i| (max(i, 0) * max(s, 0), 1.0));
}

/// Positions that cannot overflow.
#[kernel]
pub fn masked(i: &Tensor<i32, N>, y: &mut Tensor<f32, V>) {
    scatter(tile(i, 256, block.x), y, |i| ((i & 255) * 7 + 3, 1.0));
}

/// Tiles whose coordinates are read from memory, by bulk copies.
#[kernel(arch = 90, allow(unbounded))]
pub fn tiles_by_number(
    a: &Tensor<f32, (M, K), (lda, _1)>,
    ids: &Tensor<i32, I>,
    c: &mut Tensor<f32, (I, K), (ldc, _1)>,
) {
    let (ga, gc) = (tile(a, (1, 64), (_, _)), tile(c, (1, 64), (_, 0)));
    let s = shared::<f32>((1, 64));
    for k in pipelined(0..ids.size(0), stages = 2, producer = warp) {
        let j = ids[(k)];
        copy(ga[(_, _, 0, j)], s);
        copy(s, gc[(_, _, k)]);
    }
}

/// Numbers near the limits of all types, of shifts, and of the square root of 2^31.
pub const EDGES: [i32; 20] = [
    0,
    1,
    -1,
    2,
    -2,
    7,
    -7,
    31,
    32,
    33,
    -31,
    -32,
    46340,
    46341,
    -46341,
    65536,
    i32::MAX,
    i32::MAX - 1,
    i32::MIN,
    i32::MIN + 1,
];

/// All operations on two numbers.
#[kernel]
pub fn operations(
    x: &Tensor<i32, N>,
    y: &Tensor<i32, N>,
    sum: &mut Tensor<i32, N>,
    difference: &mut Tensor<i32, N>,
    product: &mut Tensor<i32, N>,
    combined: &mut Tensor<i32, N>,
    quotient: &mut Tensor<i32, N>,
    remainder: &mut Tensor<i32, N>,
    left: &mut Tensor<i32, N>,
    right: &mut Tensor<i32, N>,
    negated: &mut Tensor<i32, N>,
    magnitude: &mut Tensor<i32, N>,
) {
    let (x, y) = (tile(x, 128, block.x), tile(y, 128, block.x));
    map((x, y), tile(sum, 128, block.x), |x, y| x + y);
    map((x, y), tile(difference, 128, block.x), |x, y| x - y);
    map((x, y), tile(product, 128, block.x), |x, y| x * y);
    map((x, y), tile(combined, 128, block.x), |x, y| x * y + x);
    map((x, y), tile(quotient, 128, block.x), |x, y| x / y);
    map((x, y), tile(remainder, 128, block.x), |x, y| x % y);
    map((x, y), tile(left, 128, block.x), |x, y| x << y);
    map((x, y), tile(right, 128, block.x), |x, y| x >> y);
    map(x, tile(negated, 128, block.x), |x| -x);
    map(x, tile(magnitude, 128, block.x), |x| abs(x));
}

/// Operations on numbers without a sign that have no result in mathematics.
#[kernel]
pub fn unsigned(
    x: &Tensor<u32, N>,
    y: &Tensor<u32, N>,
    quotient: &mut Tensor<u32, N>,
    remainder: &mut Tensor<u32, N>,
    left: &mut Tensor<u32, N>,
    right: &mut Tensor<u32, N>,
) {
    let (x, y) = (tile(x, 128, block.x), tile(y, 128, block.x));
    map((x, y), tile(quotient, 128, block.x), |x, y| x / y);
    map((x, y), tile(remainder, 128, block.x), |x, y| x % y);
    map((x, y), tile(left, 128, block.x), |x, y| x << y);
    map((x, y), tile(right, 128, block.x), |x, y| x >> y);
}

/// A distance by which 32 bits can be shifted.
fn distance(n: i64) -> Option<u32> {
    u32::try_from(n).ok().filter(|n| *n < 32)
}

/// The name of an output, and its value for two numbers.
pub type Operation<T> = (&'static str, fn(T, T) -> T);

/// The outputs of `operations`.
pub const SIGNED: [Operation<i32>; 10] = [
    ("sum", i32::wrapping_add),
    ("difference", i32::wrapping_sub),
    ("product", i32::wrapping_mul),
    ("combined", |x, y| x.wrapping_mul(y).wrapping_add(x)),
    ("quotient", |x, y| if y == 0 { -1 } else { x.wrapping_div(y) }),
    ("remainder", |x, y| if y == 0 { x } else { x.wrapping_rem(y) }),
    ("left", |x, y| distance(y.into()).map_or(0, |y| x << y)),
    ("right", |x, y| x >> distance(y.into()).unwrap_or(31)),
    ("negated", |x, _| x.wrapping_neg()),
    ("magnitude", |x, _| x.wrapping_abs()),
];

/// The outputs of `unsigned`.
pub const UNSIGNED: [Operation<u32>; 4] = [
    ("quotient", |x, y| x.checked_div(y).unwrap_or(u32::MAX)),
    ("remainder", |x, y| x.checked_rem(y).unwrap_or(x)),
    ("left", |x, y| distance(y.into()).map_or(0, |y| x << y)),
    ("right", |x, y| distance(y.into()).map_or(0, |y| x >> y)),
];

/// All pairs of numbers.
pub fn pairs<T: Copy>(numbers: &[T]) -> (Vec<T>, Vec<T>) {
    numbers.iter().flat_map(|&x| numbers.iter().map(move |&y| (x, y))).unzip()
}

/// Quotients of numbers that may be the greatest `i32`: one more follows the last iteration.
#[kernel]
pub fn quotients_to_the_greatest(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (_16, _4)>, n: i32) {
    let t = layout!((16, 2));
    let gx = tile(x, (16, 4), (_, _));
    let to = parallelize(tile(y, (16, 4), (0, 0)), t, thread.x);
    let mut sum = registers_like(to, 0.0);
    let rows = gx.size(2);
    for k in 0..n {
        sum += parallelize(gx[(_, _, (k + 1) % rows, (k + 1) / rows)], t, thread.x);
    }
    copy(sum, to);
}
