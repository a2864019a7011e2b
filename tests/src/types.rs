//! Kernels of integers of 64 and 16 bits, and of conditions in memory.

use tilewright::KernelDef;
use tilewright::prelude::*;

/// All of them, by name.
pub fn all() -> Vec<(&'static str, KernelDef)> {
    vec![
        ("operations_i64", operations().def().clone()),
        ("operations_u64", operations!(T = u64).def().clone()),
        ("operations_i16", operations!(T = i16).def().clone()),
        ("operations_u16", operations!(T = u16).def().clone()),
        ("lookup", lookup().def().clone()),
        ("lookup_unsigned", lookup_unsigned().def().clone()),
        ("gathered", gathered().def().clone()),
        ("scattered", scattered().def().clone()),
        ("moved", moved().def().clone()),
        ("flags", flags().def().clone()),
        ("masked", masked().def().clone()),
        ("flagged_blocks", flagged_blocks().def().clone()),
        ("totals", totals().def().clone()),
        ("updates", updates().def().clone()),
        ("short_sums", short_sums().def().clone()),
        ("hashes", hashes().def().clone()),
        ("distances", distances().def().clone()),
        ("constants", constants().def().clone()),
        ("cross_entropy", cross_entropy().def().clone()),
        ("by_argument", by_argument().def().clone()),
        ("bits_of_doubles", bits_of_doubles().def().clone()),
        ("widened", widened().def().clone()),
    ]
}

/// Every operation of two integers, a column for each.
#[kernel(T = i64 | u64 | i16 | u16)]
pub fn operations<T>(x: &Tensor<T, N>, y: &Tensor<T, N>, z: &mut Tensor<T, (N, _20)>) {
    let (x, y) = (tile(x, 128, block.x), tile(y, 128, block.x));
    let z = tile(z, (128, 20), (block.x, 0));
    map((x, y), z[(_, 0)], |x, y| x + y);
    map((x, y), z[(_, 1)], |x, y| x - y);
    map((x, y), z[(_, 2)], |x, y| x * y);
    map((x, y), z[(_, 3)], |x, y| x * y + x);
    map((x, y), z[(_, 4)], |x, y| x / y);
    map((x, y), z[(_, 5)], |x, y| x % y);
    map((x, y), z[(_, 6)], |x, y| x << y);
    map((x, y), z[(_, 7)], |x, y| x >> y);
    map((x, y), z[(_, 8)], |x, y| x & y);
    map((x, y), z[(_, 9)], |x, y| x | y);
    map((x, y), z[(_, 10)], |x, y| x ^ y);
    map((x, y), z[(_, 11)], |x, y| min(x, y));
    map((x, y), z[(_, 12)], |x, y| max(x, y));
    map((x, y), z[(_, 13)], |x, y| if x < y { x } else { T::MAX });
    map((x, y), z[(_, 14)], |x, y| (x == y) as T);
    map(x, z[(_, 15)], |x| abs(x));
    map(x, z[(_, 16)], |x| !x);
    map(x, z[(_, 17)], |x| count_ones(x));
    map(x, z[(_, 18)], |x| leading_zeros(x));
    map((x, y), z[(_, 19)], |x, y| x / 7 + (y & 63) % 5);
}

/// Rows of a table by identifiers as PyTorch has them.
#[kernel]
pub fn lookup(
    ids: &Tensor<i64, N>,
    table: &Tensor<f32, (V, D), (ldt, _1)>,
    out: &mut Tensor<f32, (N, D), (ldo, _1)>,
) {
    copy(tile(table, (1, 64), (ids[(block.x)], block.y)), tile(out, (1, 64), (block.x, block.y)));
}

/// The same, by arithmetic on identifiers without a sign.
#[kernel]
pub fn lookup_unsigned(
    base: u64,
    ids: &Tensor<u64, N>,
    table: &Tensor<f32, (V, D), (ldt, _1)>,
    out: &mut Tensor<f32, (N, D), (ldo, _1)>,
) {
    let row = ids[(block.x)] - base;
    copy(tile(table, (1, 64), (row, block.y)), tile(out, (1, 64), (block.x, block.y)));
}

/// Elements by identifiers, and by remainders of identifiers.
#[kernel]
pub fn gathered(
    ids: &Tensor<i64, N>,
    x: &Tensor<f32, V>,
    y: &mut Tensor<f32, N>,
    hashed: &mut Tensor<f32, N>,
) {
    let ids = tile(ids, 256, block.x);
    map(ids, tile(y, 256, block.x), |i| x[(i)]);
    map(ids, tile(hashed, 256, block.x), |i| x[(abs(i % V as i64))]);
}

/// Counts at indices given by identifiers.
#[kernel]
pub fn scattered(ids: &Tensor<i64, N>, counts: &mut Tensor<i64, V>) {
    scatter(tile(ids, 256, block.x), counts, |i| (i, 1), how = "atomic_add");
}

/// Copies and conversions of tiles.
#[kernel]
pub fn moved(
    x: &Tensor<i64, N>,
    y: &mut Tensor<i64, N>,
    low: &mut Tensor<i32, N>,
    short: &mut Tensor<i16, N>,
    real: &mut Tensor<f32, N>,
) {
    let x = tile(x, 512, block.x);
    let s = shared::<i64>(512);
    copy(x, s);
    copy(s, tile(y, 512, block.x));
    copy(x, tile(low, 512, block.x));
    copy(map(s, |x| x as i16), tile(short, 512, block.x));
    copy(s, tile(real, 512, block.x));
}

/// Conditions that are stored.
#[kernel]
pub fn flags(
    x: &Tensor<f32, N>,
    m: &Tensor<bool, N>,
    above: &mut Tensor<bool, N>,
    both: &mut Tensor<bool, N>,
    none: &mut Tensor<bool, N>,
    count: &mut Tensor<i32, { ceil_div(N, 256) }>,
) {
    let (x, m) = (tile(x, 256, block.x), tile(m, 256, block.x));
    let high = x > 0.5;
    copy(high, tile(above, 256, block.x));
    copy(high & m, tile(both, 256, block.x));
    let mut off = full::<bool>(256, true);
    off = !high;
    off &= !m;
    map(off, tile(none, 256, block.x), |off| off);
    copy(sum(m as i32), tile(count, 1, block.x));
}

/// A choice by conditions in memory.
#[kernel]
pub fn masked(x: &Tensor<f32, (M, N)>, m: &Tensor<bool, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let (x, m) = (tile(x, (32, 32), (block.x, block.y)), tile(m, (32, 32), (block.x, block.y)));
    let kept = map((x, m), |x, m| if m { x } else { f32::NEG_INFINITY });
    copy(if m { kept } else { -1.0 }, tile(y, (32, 32), (block.x, block.y)));
}

/// Blocks that a flag leaves out, and one flag for all.
#[kernel]
pub fn flagged_blocks(
    all: bool,
    go: &Tensor<bool, B>,
    stop: &Tensor<bool, _1>,
    x: &Tensor<f32, (_64, B)>,
    y: &mut Tensor<f32, (_64, B)>,
) {
    let (from, to) = (tile(x, (64, 1), (0, block.x)), tile(y, (64, 1), (0, block.x)));
    if go[(block.x)] && !stop[(0)] || all {
        copy(2.0 * from, to);
    } else {
        copy(from, to);
    }
    if stop[(0)] {
        to += 1.0;
    }
}

/// Minima and maxima of single elements of 64 bits, beside literals and sizes too.
#[kernel]
pub fn limits(
    x: &Tensor<i64, N>,
    u: &Tensor<u64, N>,
    y: &mut Tensor<i64, _3>,
    v: &mut Tensor<u64, _1>,
    n: &mut Tensor<i32, _1>,
) {
    copy(max(x[(0)], x[(1)]), tile(y, 1, 0));
    copy(min(x[(0)], 7), tile(y, 1, 1));
    copy(max(x[(1)], N), tile(y, 1, 2));
    let (a, b) = (map(tile(u, 1, 0), |u| u), map(tile(u, 1, 1), |u| u));
    copy(max(a, b), tile(v, 1, 0));
    let mut count = full::<i32>(1, 0);
    for _k in 0..min(x[(0)], 5) {
        count += 1;
    }
    copy(count, tile(n, 1, 0));
}

/// Sums, minima and maxima of rows.
#[kernel]
pub fn totals(
    x: &Tensor<i64, (M, N), (ld, _1)>,
    total: &mut Tensor<i64, M>,
    least: &mut Tensor<i64, M>,
    most: &mut Tensor<i64, M>,
    first: &mut Tensor<i64, M>,
) {
    at_most(N, 512);
    let t = tile(x, (4, 512), (block.x, 0));
    copy(sum(t, 1), tile(total, 4, block.x).along(0));
    copy(minimum(t, 1), tile(least, 4, block.x).along(0));
    copy(maximum(t, 1), tile(most, 4, block.x).along(0));
    let index = map(t, |x, at| (x, at.1 as i64));
    let (_, at) = reduce(
        index,
        (i64::MIN, i64::MAX),
        |(a, i), (b, j)| if (b > a) | ((b == a) & (j < i)) { (b, j) } else { (a, i) },
        mode = 1,
    );
    copy(at, tile(first, 4, block.x).along(0));
}

/// Atomic updates of 64 bits.
#[kernel]
pub fn updates(
    x: &Tensor<i64, N>,
    u: &Tensor<u64, N>,
    signed: &mut Tensor<i64, _5>,
    unsigned: &mut Tensor<u64, _5>,
    before: &mut Tensor<i64, N>,
) {
    let (x, u) = (tile(x, 256, block.x), tile(u, 256, block.x));
    let own = map(x, |x| x);
    let old = scatter(own, signed, |x| (0, x), how = "atomic_add", out_of_bounds = -1);
    copy(old, tile(before, 256, block.x));
    scatter(x, signed, |x| (1, x), how = "atomic_min");
    scatter(x, signed, |x| (2, x), how = "atomic_max");
    scatter(x, signed, |x| (3, x), how = "atomic_or");
    scatter(x, signed, |x| (4, x), how = "atomic_sub");
    scatter(u, unsigned, |u| (0, u), how = "atomic_add");
    scatter(u, unsigned, |u| (1, u), how = "atomic_min");
    scatter(u, unsigned, |u| (2, u), how = "atomic_max");
    scatter(u, unsigned, |u| (3, u), how = "atomic_and");
    scatter(u, unsigned, |u| (4, u), how = "atomic_xor");
}

/// Sums of 16 bits are wider.
#[kernel]
pub fn short_sums(x: &Tensor<i16, (M, N), (ld, _1)>, y: &mut Tensor<i32, M>, z: &mut Tensor<i16, M>) {
    at_most(N, 1024);
    let x = tile(x, (4, 1024), (block.x, 0));
    copy(sum(x, 1), tile(y, 4, block.x).along(0));
    copy(maximum(x, 1), tile(z, 4, block.x).along(0));
}

/// Arithmetic on constants of a type, which doubles do not have, and multiply-adds that are computed with 32 bits.
#[kernel]
pub fn constants(x: &Tensor<u64, N>, y: &mut Tensor<u64, N>, z: &mut Tensor<i64, N>, w: &mut Tensor<u16, N>) {
    let x = tile(x, 256, block.x);
    map(x, tile(y, 256, block.x), |x| x ^ ((u64::MAX / 3) as u64));
    map(x, tile(z, 256, block.x), |x| (x as i64) + ((i64::MAX - 1) as i64));
    map(x, tile(w, 256, block.x), |x| (x as u16) * ((x >> 16) as u16) + ((x >> 32) as u16));
}

/// Shifts by distances of other types, which the types of the shifted numbers may not have.
#[kernel]
pub fn distances(
    x: &Tensor<i32, N>,
    by: &Tensor<i64, N>,
    left: &mut Tensor<i32, N>,
    right: &mut Tensor<i32, N>,
    byte: &mut Tensor<u8, N>,
    long: &mut Tensor<u64, N>,
) {
    let (x, by) = (tile(x, 256, block.x), tile(by, 256, block.x));
    map((x, by), tile(left, 256, block.x), |x, n| x << n);
    map((x, by), tile(right, 256, block.x), |x, n| x >> n);
    map((x, by), tile(byte, 256, block.x), |x, n| (x as u8) >> (n as i32));
    map((x, by), tile(long, 256, block.x), |x, n| (x as u64) << (n as i8));
}

/// FNV-1a of the bytes of numbers.
#[kernel]
pub fn hashes(x: &Tensor<u32, N>, y: &mut Tensor<u64, N>, upper: &mut Tensor<u64, N>) {
    let x = tile(x, 256, block.x);
    let step = |h, byte| (h ^ byte) * 0x100000001b3;
    let hash = map(x, |x| {
        let x = x as u64;
        let h = step(0xcbf29ce484222325, x & 255);
        let h = step(h, (x >> 8) & 255);
        let h = step(h, (x >> 16) & 255);
        step(h, x >> 24)
    });
    copy(hash, tile(y, 256, block.x));
    map(hash, tile(upper, 256, block.x), |h| mul_high(h, 1000000007));
}

/// Cross entropy of rows with 64-bit targets; rows with the target -100 are left out.
#[kernel]
pub fn cross_entropy(x: &Tensor<f32, (M, N), (ld, _1)>, target: &Tensor<i64, M>, loss: &mut Tensor<f32, M>) {
    at_most(N, 512);
    let x = map(tile(x, (1, 512), (block.x, 0)), |x| x);
    let most = maximum(x, 1);
    let norm = log(sum(exp(x - most), 1)) + most;
    let target = target[(block.x)];
    let hit = sum(map(x, |x, at| if at.1 as i64 == target { x } else { 0.0 }), 1);
    copy(if target == -100 { 0.0 * norm } else { norm - hit }, tile(loss, 1, block.x).along(0));
}

/// Elements by an argument of 64 bits.
#[kernel]
pub fn by_argument(n: i64, x: &Tensor<f32, V>, y: &mut Tensor<f32, _5>, z: &mut Tensor<i64, N>) {
    let y = tile(y, 5, 0);
    if block.x == 0 {
        copy(x[(n)], y[(0)]);
        copy(x[(n % 1000)], y[(1)]);
        copy(x[(n >> 33)], y[(2)]);
        copy(if n > 4000000000 { 1.0 } else { 0.0 }, y[(3)]);
        let mut count = full::<f32>(1, 0.0);
        for _k in (n >> 33) - 1..min(n, 5) {
            count += 1.0;
        }
        copy(count + shift(tile(x, 1, 0), (n % 1000 - 1)), y[(4)]);
    }
    map(tile(z, 64, block.x), tile(z, 64, block.x), |_, at| n + at.0 as i64 * 3);
}

/// The bits of numbers of 8 bytes, and back.
#[kernel]
pub fn bits_of_doubles(
    x: &Tensor<f64, N>,
    y: &mut Tensor<i64, N>,
    z: &mut Tensor<f64, N>,
    u: &mut Tensor<u64, N>,
) {
    let x = tile(x, 128, block.x);
    map(x, tile(y, 128, block.x), |x| bits::<i64>(x));
    map(x, tile(u, 128, block.x), |x| bits::<u64>(x) >> 52);
    map(x, tile(z, 128, block.x), |x| bits::<f64>(bits::<u64>(x) & 0x7fffffffffffffff));
}

/// Coordinates and sizes among 64-bit elements, and a loop whose number of iterations is such an element.
#[kernel]
pub fn widened(counts: &Tensor<i64, B>, y: &mut Tensor<i64, (_32, B)>) {
    let mut total = full::<i64>(32, 0);
    for k in 0..counts[(block.x)] {
        total += (k as i64) * 4294967296 + (B as i64);
    }
    total += counts[(block.x)];
    copy(total, tile(y, (32, 1), (0, block.x))[(_, 0)]);
}
