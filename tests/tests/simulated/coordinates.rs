//! Coordinates far out of bounds: whatever index a kernel uses, every variant reads zeros there, writes
//! nothing, and never mistakes a coordinate that overflows 32 bits for one in bounds.

use tilewright::prelude::*;
use tilewright_codegen::kernel_def::KernelDef;
use tilewright_sim::{Arg, Options, Outcome, run_every};

/// Rows per tile.
const ROWS: usize = 64;
/// Columns per tile.
const COLUMNS: usize = 8;
/// The column of a tile that is read or written.
const COLUMN: usize = 3;

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|x| (x % 7) as f32 + 1.0).collect()
}

fn every_variant(name: &str, def: &KernelDef, args: &[Arg]) -> Vec<Outcome> {
    let kernel = def.generate().unwrap_or_else(|refused| panic!("{name}: {refused}"));
    let options = Options { complete: false, ..Options::default() };
    run_every(&kernel, args, &options).unwrap_or_else(|fault| panic!("{name}: {fault}"))
}

/// A sum over tiles along the second mode; iteration `k` reads tile `at(k)`.
#[track_caller]
fn check_reads(def: &KernelDef, at: impl Fn(i64) -> i64) {
    for (m, k) in [(64, 64), (64, 8), (100, 33), (1, 2_200_000)] {
        let a = numbers(m * k);
        let inside = |tile: i64| {
            let column = i128::from(tile) * COLUMNS as i128 + COLUMN as i128;
            usize::try_from(column).ok().filter(|&column| column < k)
        };
        let columns: Vec<usize> = (0..k.div_ceil(COLUMNS) as i64).filter_map(|k| inside(at(k))).collect();
        let wanted: Vec<f32> =
            (0..m).map(|row| columns.iter().fold(0.0, |sum, column| sum + a[row + column * m])).collect();
        for outcome in every_variant("reads", def, &[Arg::tensor(&a, [m, k]), Arg::output::<f32>([m])]) {
            assert_eq!(outcome.get::<f32>("c").unwrap(), wanted, "{m} x {k}, variant {}", outcome.variant());
        }
    }
}

macro_rules! reads {
    ($name:ident, |$k:ident| $at:expr, $reference:expr) => {
        #[test]
        fn $name() {
            #[kernel]
            fn reads(a: &Tensor<f32, (M, K)>, c: &mut Tensor<f32, M>) {
                let ga = tile(a, (64, 8), (block.x, _));
                let out = parallelize(tile(c, 64, block.x), layout!(64), thread.x);
                let mut acc = registers_like(out, 0.0);
                for $k in 0..ga.size(2) {
                    let x = parallelize(ga[(_, 3, $at)], layout!(64), thread.x);
                    acc += x;
                }
                copy(acc, out);
            }
            check_reads(reads().def(), $reference);
        }
    };
}

reads!(tiles_after, |k| k + 1, |k| k + 1);
reads!(tiles_before, |k| k - 1, |k| k - 1);
reads!(one_tile, |k| 5, |_| 5);
reads!(every_third_tile, |k| k * 3, |k| k * 3);
reads!(tiles_that_wrap_at_32_bits, |k| k * 1000, |k| k * 1000);
reads!(tiles_that_come_back_after_wrapping, |k| k * 536870912, |k| k * 536870912);
reads!(tiles_far_away, |k| 100000000, |_| 100_000_000);
reads!(tiles_below_zero, |k| 0 - 268435456, |_| -268_435_456);
reads!(tiles_backwards, |k| 100 - k, |k| 100 - k);

/// A kernel writes tile `block.x * factor` of `c` from tile `block.x` of `x`: only the first block's target
/// tile is in bounds.
#[track_caller]
fn check_writes(def: &KernelDef) {
    for n in [64, 2000, 2240, 4480, 8960] {
        let x = numbers(n);
        for outcome in
            every_variant("writes", def, &[Arg::tensor(&x, [n]), Arg::in_out(&vec![0.5f32; n], [n])])
        {
            let wanted: Vec<f32> = (0..n).map(|at| if at < ROWS { x[at] } else { 0.5 }).collect();
            assert_eq!(outcome.get::<f32>("c").unwrap(), wanted, "{n}, variant {}", outcome.variant());
        }
    }
}

macro_rules! writes {
    ($name:ident, $factor:literal) => {
        #[test]
        fn $name() {
            #[kernel]
            fn spread(x: &Tensor<f32, N>, c: &mut Tensor<f32, N>) {
                let (gx, gc) = (tile(x, 64, block.x), tile(c, 64, _));
                let to = parallelize(gc[(_, block.x * $factor)], layout!(64), thread.x);
                copy(parallelize(gx, layout!(64), thread.x), to);
            }
            check_writes(spread().def());
        }
    };
}

writes!(blocks_scaled_beyond_32_bits_write_nothing, 1000000);
writes!(a_factor_that_wraps_to_zero_writes_nothing, 67108864);
writes!(a_factor_that_wraps_below_zero_writes_nothing, 67108863);

/// The last tile of the largest extent that a launch accepts ends at a coordinate of more than 32 bits.
#[test]
fn tiles_that_end_beyond_32_bits_are_guarded() {
    const EXTENT: usize = i32::MAX as usize - (1 << 16);
    const TILE: usize = 3_145_728;
    const THREADS: usize = 1024;
    #[kernel]
    fn count(x: &Tensor<f32, layout!((N) : (0))>, c: &mut Tensor<f32, M>) {
        let gx = parallelize(tile(x, 3145728, 682), layout!(1024), thread.x);
        let out = parallelize(tile(c, 1024, block.x), layout!(1024), thread.x);
        let mut acc = registers_like(out, 0.0);
        for i in 0..3072 {
            acc += gx[(i)];
        }
        copy(acc, out);
    }
    let ones = [1.0f32];
    let counts: Vec<f32> =
        (0..THREADS).map(|thread| (682 * TILE + thread..EXTENT).step_by(THREADS).count() as f32).collect();
    let args = [Arg::tensor(&ones, [EXTENT]).strides([0]), Arg::output::<f32>([THREADS])];
    for outcome in every_variant("count", count().def(), &args) {
        assert_eq!(outcome.get::<f32>("c").unwrap(), counts, "variant {}", outcome.variant());
    }
}
