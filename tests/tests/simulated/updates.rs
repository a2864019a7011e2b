//! Sums of products that bulk stores add to a tensor in global memory.

use tilewright::KernelDef;
use tilewright::prelude::*;

use crate::inputs;

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

/// Numbers are exact in every type, as are their sums. Bulk stores need rows of a multiple of 16 bytes.
fn check(def: &KernelDef, by_rows: bool) {
    let adds = |source: &str| source.contains("bulk_add_2d(");
    let kernel = def.generate().unwrap();
    let sources: Vec<bool> = kernel.variants.iter().map(|variant| adds(&variant.source)).collect();
    assert!(sources[0] && !sources[sources.len() - 1], "{}: {sources:?}", kernel.name);
    let small = |at: usize, _| (at * 7 % 5) as f64 - 2.0;
    let inputs = inputs(def).indexed("a", small).indexed("b", small).indexed("c", small);
    for [m, n, k] in [[70, 104, 130], [64, 64, 64], [4, 8, 1], [129, 33, 70]] {
        for extra in [0, 1, 8] {
            let ldc = extra + if by_rows { n } else { m };
            inputs.written([&*format!("M = {m}, N = {n}, K = {k}, ldc = {ldc}")]);
        }
    }
}

#[test]
fn blocks_add_their_tiles() {
    check(of_rows().def(), true);
    check(of_columns().def(), false);
    check(of_halves().def(), true);
    check(of_integers().def(), true);
    check(of_waves().def(), true);
}
