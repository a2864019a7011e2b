//! Shared tiles that several copies fill in parts: what is known about the tile is the union of what is known about its parts.

use tilewright::prelude::*;

use crate::inputs;

/// c(i) = Σ q(i)·k(key) over the keys of 4 pages at once, whose rows from R on are out of bounds.
macro_rules! page_sums {
    ($name:ident, $group:ident = $count:literal, $($how:tt)*) => {
        #[kernel(arch = 90)]
        fn $name<const PAGE: usize = 16>(
            q: &Tensor<bf16, { (64, 64) }, (ldq, _1)>,
            k: &Tensor<bf16, (R, _64, P), (ldk, _1, page_k)>,
            table: &Tensor<i32, T>,
            c: &mut Tensor<f32, _64>,
        ) {
            at_most(R, PAGE);
            let _ = walk(1, block.x);
            let (sq, sk) = (shared::<bf16>((64, 64)), shared::<bf16>((64, 64)));
            copy(tile(q, (64, 64), (0, 0)), sq);
            let mma = tiled_mma::<bf16, f32>($group = $count);
            let mut total = full::<f32>((64, 1), 0.0);
            for n in pipelined(0..ceil_div(T, 4), $($how)*) {
                for i in unroll(0..64 / PAGE) {
                    let page = tile(k, (PAGE, 64, 1), (0, 0, table[(4 * n + i)]));
                    copy(page[(_, _, 0)], tile(sk, (PAGE, 64), (i, 0)));
                }
                let mut s = mma.accumulators((64, 64), 0.0);
                gemm(sq, sk, &mut s);
                total += sum(map(s, |s| s + 1.0), 1);
            }
            copy(total, tile(c, 64, 0).along(0));
        }
    };
}

page_sums!(by_threads, warps = 4, stages = 2);
page_sums!(by_a_producer, warps = 4, stages = 2, producer = warp);
page_sums!(by_warpgroups, warpgroups = 1, stages = 2, producer = warp);

#[test]
fn pages_of_one_tile() {
    for def in [by_threads().def(), by_a_producer().def(), by_warpgroups().def()] {
        inputs(def)
            .with("q", f64::trunc)
            .with("k", f64::trunc)
            .below("table", 9)
            .written([8, 4, 3, 5, 0].map(|t| format!("R = 10, P = 9, T = {t}")).iter().map(|sizes| &**sizes));
    }
}

/// Column sums of a shared tile of 64 rows.
macro_rules! column_sums {
    ($name:ident, |$x:ident, $z:ident, $s:ident| { $($fills:tt)* }) => {
        #[kernel(arch = 90, allow(unbounded, uncoalesced, unread))]
        fn $name(
            x: &Tensor<f32, (M, _64), (ldx, _1)>,
            z: &Tensor<f32, (R, _64), (ldz, _1)>,
            y: &mut Tensor<f32, { (1, 64) }>,
            most: &mut Tensor<f32, { (1, 64) }>,
        ) {
            let _ = walk(1, block.x);
            let ($x, $z) = (x, z);
            let $s = shared::<f32>((64, 64));
            $($fills)*
            copy(sum(map($s, |x| x + 1.0), 0), y);
            copy(maximum($s, 0), most);
        }
    };
}

column_sums!(of_two, |x, z, s| {
    copy(tile(x, (32, 64), (0, 0)), tile(s, (32, 64), (0, 0)));
    copy(tile(z, (32, 64), (0, 0)), tile(s, (32, 64), (1, 0)));
});
column_sums!(of_a_fill, |x, z, s| {
    fill(s, 2.0);
    copy(tile(x, (32, 64), (0, 0)), tile(s, (32, 64), (1, 0)));
    let _ = z;
});
column_sums!(overwritten, |x, z, s| {
    copy(tile(z, (64, 64), (0, 0)), s);
    copy(tile(x, (16, 64), (0, 0)), tile(s, (16, 64), (1, 0)));
});

#[test]
fn columns_of_parts() {
    for def in [of_two().def(), of_a_fill().def(), overwritten().def()] {
        let negative = |x: f64| x.trunc() - 20.0;
        inputs(def).with("x", negative).with("z", negative).written(["M = 9, R = 50"]);
    }
}
