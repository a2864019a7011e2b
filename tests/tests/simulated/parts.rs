//! Shared tiles that several copies fill in parts: what is known about the tile is the union of what is known about its parts.

use tilewright::prelude::*;
use tilewright_tests::number::Random;

use crate::run;

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
    let mut random = Random::new(5);
    let (pages, rows) = (9usize, 10usize);
    let mut numbers = |count: usize| -> Vec<bf16> {
        (0..count).map(|_| bf16::from_f32((random.word() % 9) as f32 - 4.0)).collect()
    };
    let (q, k) = (numbers(64 * 64), numbers(pages * rows * 64));
    for t in [8, 4, 3, 5, 0] {
        let table: Vec<i32> = (0..t).map(|at| (5 * at % pages) as i32).collect();
        let keys = table.iter().flat_map(|page| (0..rows).map(move |row| *page as usize * rows + row));
        let score = |i: usize, key: usize| -> f32 {
            (0..64).map(|c| q[i * 64 + c].to_f32() * k[key * 64 + c].to_f32()).sum()
        };
        let wanted: Vec<f32> = (0..64).map(|i| keys.clone().map(|key| score(i, key) + 1.0).sum()).collect();
        let args = [
            Arg::tensor(&q, [64, 64]).strides([64, 1]),
            Arg::tensor(&k, [rows, 64, pages]).strides([64, 1, rows * 64]),
            Arg::tensor(&table, [t]),
            Arg::output::<f32>([64]),
        ];
        let kernels = [
            ("threads", by_threads().def().clone()),
            ("a producer", by_a_producer().def().clone()),
            ("warpgroups", by_warpgroups().def().clone()),
        ];
        for (name, def) in kernels {
            for outcome in run(&def, &args) {
                assert_eq!(outcome.get::<f32>("c").unwrap(), wanted, "{name}, {t} pages");
            }
        }
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
    let (m, r) = (9usize, 50usize);
    let value = |at: usize| (at * 7 % 11) as f32 - 20.0;
    let (x, z): (Vec<f32>, Vec<f32>) =
        ((0..m * 64).map(value).collect(), (0..r * 64).map(|at| value(at + 3)).collect());
    let row = |of: &[f32], row: usize, column: usize| of.get(row * 64 + column).copied();
    type Element<'e> = &'e dyn Fn(usize, usize) -> Option<f32>;
    let cases: [(&str, tilewright::KernelDef, Element); 3] = [
        ("two", of_two().def().clone(), &|at, c| match at {
            0..32 => row(&x, at, c),
            _ => row(&z, at - 32, c),
        }),
        ("a fill", of_a_fill().def().clone(), &|at, c| match at {
            0..32 => Some(2.0),
            _ => row(&x, at - 32, c),
        }),
        ("overwritten", overwritten().def().clone(), &|at, c| match at {
            16..32 => row(&x, at - 16, c),
            _ => row(&z, at, c),
        }),
    ];
    for (name, def, element) in cases {
        let column = |c: usize| (0..64).filter_map(move |at| element(at, c));
        let sums: Vec<f32> = (0..64).map(|c| column(c).map(|x| x + 1.0).sum()).collect();
        let most: Vec<f32> = (0..64).map(|c| column(c).fold(f32::NEG_INFINITY, f32::max)).collect();
        let args = [
            Arg::tensor(&x, [m, 64]).strides([64, 1]),
            Arg::tensor(&z, [r, 64]).strides([64, 1]),
            Arg::output::<f32>([1, 64]),
            Arg::output::<f32>([1, 64]),
        ];
        for outcome in run(&def, &args) {
            assert_eq!(outcome.get::<f32>("y").unwrap(), sums, "{name}");
            assert_eq!(outcome.get::<f32>("most").unwrap(), most, "{name}");
        }
    }
}
