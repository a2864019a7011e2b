//! Products with other operations than + and ·, against their text: whole tiles in pipelined loops and
//! parts of threads from global memory, at sizes that tiles do not divide, in every variant.

use tilewright::prelude::*;

use crate::inputs;

macro_rules! products {
    ($whole:ident, $parts:ident, $elem:ident, $first:tt, $add:tt, $mul:tt) => {
        #[kernel]
        fn $whole(
            a: &Tensor<$elem, (M, K)>,
            b: &Tensor<$elem, (N, K), (ldb, _1)>,
            c: &mut Tensor<$elem, (M, N)>,
        ) {
            let (a, b) = (tile(a, (32, 8), (block.x, _)), tile(b, (16, 8), (block.y, _)));
            let (sa, sb) = (shared::<$elem>((32, 8)), shared::<$elem>((16, 8)));
            let mut acc = full::<$elem>((32, 16), $elem::$first);
            for k in pipelined(0..a.size(2), stages = 3) {
                copy(a[(_, _, k)], sa);
                copy(b[(_, _, k)], sb);
                gemm(sa, sb, &mut acc, with = ($add, $mul));
            }
            copy(acc, tile(c, (32, 16), (block.x, block.y)));
        }

        #[kernel(allow(uncoalesced))]
        fn $parts(
            a: &Tensor<$elem, (M, K)>,
            b: &Tensor<$elem, (N, K), (ldb, _1)>,
            c: &mut Tensor<$elem, (M, N)>,
        ) {
            let t = layout!((8, 4));
            let (a, b) = (tile(a, (16, 4), (block.x, _)), tile(b, (8, 4), (block.y, _)));
            let (a, b) = (parallelize(a, t, thread.x, (1, _)), parallelize(b, t, thread.x, (_, 1)));
            let c = parallelize(tile(c, (16, 8), (block.x, block.y)), t, thread.x);
            let mut acc = registers_like(c, $elem::$first);
            for k in 0..a.size(2) {
                gemm(a[(_, _, k)], b[(_, _, k)], &mut acc, with = ($add, $mul), order = "serpentine");
            }
            copy(acc, c);
        }
    };
}

products!(shortest, shortest_parts, f32, INFINITY, min, add);
products!(longest, longest_parts, i32, MIN, max, add);
products!(widest, widest_parts, f64, NEG_INFINITY, max, min);
products!(likeliest, likeliest_parts, f32, NEG_INFINITY, max, mul);
products!(reachable, reachable_parts, u32, MIN, or, and);
products!(parity, parity_parts, u32, MIN, xor, and);

/// Extents of two names that are declared equal end together; otherwise -∞ would meet elements, and the product is refused.
#[kernel(allow(uncoalesced))]
fn likeliest_of_two_names(
    a: &Tensor<f32, (M, K)>,
    b: &Tensor<f32, (N, L), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    assert(L == K);
    let t = layout!((8, 4));
    let (a, b) = (tile(a, (16, 4), (block.x, _)), tile(b, (8, 4), (block.y, _)));
    let (a, b) = (parallelize(a, t, thread.x, (1, _)), parallelize(b, t, thread.x, (_, 1)));
    let c = parallelize(tile(c, (16, 8), (block.x, block.y)), t, thread.x);
    let mut acc = registers_like(c, f32::NEG_INFINITY);
    for k in 0..a.size(2) {
        gemm(a[(_, _, k)], b[(_, _, k)], &mut acc, with = (max, mul));
    }
    copy(acc, c);
}

macro_rules! tested {
    ($test:ident: [$($kernel:ident),*], $number:expr) => {
        #[test]
        fn $test() {
            for def in [$($kernel().def()),*] {
                inputs(def).indexed("a", |at, x| $number(7 * at + 3, x)).indexed("b", |at, x| $number(5 * at + 1, x)).written([
                    "M = 32, N = 16, K = 16, L = 16",
                    "M = 33, N = 17, K = 9, L = 9",
                    "M = 1, N = 1, K = 1, L = 1",
                    "M = 70, N = 40, K = 21, L = 21",
                    "M = 5, N = 64, K = 8, L = 8",
                    "M = 32, N = 16, K = 57, L = 57",
                ]);
            }
        }
    };
}

// Some distances are infinite, and some weights negative.
tested!(shortest_paths: [shortest, shortest_parts],
    |at: usize, _| if at.is_multiple_of(11) { f64::INFINITY } else { (at % 17) as f64 - 5.0 });
tested!(longest_paths: [longest, longest_parts], |at: usize, _| (at % 23) as f64 - 40.0);
tested!(widest_paths: [widest, widest_parts], |at: usize, _| (at % 13) as f64 - 20.0);
tested!(likeliest_paths: [likeliest, likeliest_parts, likeliest_of_two_names], |at: usize, _| (at % 9) as f64 - 20.0);
tested!(reachable_bits: [reachable, reachable_parts], |_, word| word);
tested!(products_of_bit_matrices: [parity, parity_parts], |_, word| word);
