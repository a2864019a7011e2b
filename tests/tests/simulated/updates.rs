//! Sums of products that bulk stores add to a tensor in global memory.

use tilewright::Element;
use tilewright::prelude::*;
use tilewright_codegen::Generated;
use tilewright_sim::{Arg, Options, run_every};

/// A product. Two blocks compute a part of K each. C has this type and these strides.
macro_rules! split {
    ($name:ident, $T:ident, $S:ident, $strides:tt $(, $more:stmt)?) => {
        #[kernel(arch = 90)]
        fn $name(
            a: &Tensor<$T, (M, K), (lda, _1)>,
            b: &Tensor<$T, (N, K), (ldb, _1)>,
            c: &mut Tensor<$S, (M, N), $strides>,
        ) {
            $($more;)?
            let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
            let (sa, sb) = (shared::<$T>((64, 64)), shared::<$T>((64, 64)));
            let mut acc = tiled_mma::<$T, $S>(warpgroups = 1).accumulators((64, 64), 0.0);
            let (part, _) = walk((2, 1), block.z);
            let each = ceil_div(ga.size(2), 2);
            for k in pipelined(0..min(each, ga.size(2) - part * each), stages = 2, producer = warp) {
                copy(ga[(_, _, part * each + k)], sa);
                copy(gb[(_, _, part * each + k)], sb);
                gemm(sa, sb, &mut acc);
            }
            copy(acc, tile(c, (64, 64), (block.x, block.y)), how = "atomic_add");
        }
    };
}
split!(of_rows, bf16, f32, (ldc, _1));
split!(of_columns, f16, f32, (_1, ldc));
split!(of_halves, f16, f16, (ldc, _1));
split!(of_integers, i8, i32, (ldc, _1));
split!(of_waves, bf16, f32, (ldc, _1), persistent());

/// Extents of C and K: bulk stores need rows of a multiple of 16 bytes.
const SIZES: [[usize; 3]; 4] = [[70, 104, 130], [64, 64, 64], [4, 8, 1], [129, 33, 70]];

/// Numbers that are exact in every type, as are their sums.
fn numbers(count: usize) -> impl Iterator<Item = f32> {
    (0..count).map(|i| (i * 7 % 5) as f32 - 2.0)
}

fn check<T: Element, S: Element + PartialEq>(
    kernel: &Generated,
    by_rows: bool,
    of: fn(f32) -> T,
    to: fn(f32) -> S,
) {
    for [m, n, k] in SIZES {
        for extra in [0, 1, 8] {
            let [a, b] = [m, n].map(|rows| numbers(rows * k).collect::<Vec<_>>());
            let strides = if by_rows { [n + extra, 1] } else { [1, m + extra] };
            let before: Vec<f32> = numbers((m - 1) * strides[0] + (n - 1) * strides[1] + 1).collect();
            let (ta, tb): (Vec<T>, Vec<T>) =
                (a.iter().map(|x| of(*x)).collect(), b.iter().map(|x| of(*x)).collect());
            let args = [
                Arg::tensor(&ta, [m, k]).strides([k, 1]),
                Arg::tensor(&tb, [n, k]).strides([k, 1]),
                Arg::in_out(&before.iter().map(|x| to(*x)).collect::<Vec<S>>(), [m, n]).strides(strides),
            ];
            for run in run_every(kernel, &args, &Options::default()).unwrap() {
                let c = run.get::<S>("c").unwrap();
                for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                    let at = i * strides[0] + j * strides[1];
                    let sum: f32 = (0..k).map(|k_at| a[i * k + k_at] * b[j * k + k_at]).sum();
                    assert!(c[at] == to(before[at] + sum), "{} at ({i}, {j}) of {m}x{n}x{k}", kernel.name);
                }
            }
        }
    }
}

#[test]
fn blocks_add_their_tiles() {
    let adds = |kernel: &Generated| {
        let adds = |source: &str| source.contains("bulk_add_2d(");
        let sources: Vec<bool> = kernel.variants.iter().map(|variant| adds(&variant.source)).collect();
        assert!(sources[0] && !sources[sources.len() - 1], "{}: {sources:?}", kernel.name);
    };
    let kernels = [
        of_rows().def().generate(),
        of_columns().def().generate(),
        of_halves().def().generate(),
        of_integers().def().generate(),
        of_waves().def().generate(),
    ];
    let kernels = kernels.map(Result::unwrap);
    kernels.iter().for_each(adds);
    let [rows, columns, halves, integers, waves] = &kernels;
    check(rows, true, bf16::from_f32, |x| x);
    check(columns, false, f16::from_f32, |x| x);
    check(halves, true, f16::from_f32, f16::from_f32);
    check(integers, true, |x| x as i8, |x| x as i32);
    check(waves, true, bf16::from_f32, |x| x);
}
