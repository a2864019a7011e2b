//! Products with other operations than + and ·, against brute force: whole tiles in pipelined loops and
//! parts of threads from global memory, at sizes that tiles do not divide, in every variant.

use tilewright::prelude::*;
use tilewright_codegen::Generated;
use tilewright_codegen::element::Element;
use tilewright_sim::{Arg, Options, run_every};

/// Sizes (M, N, K): whole tiles, partial ones, one element, more k-tiles than stages.
const SIZES: [(usize, usize, usize); 6] =
    [(32, 16, 16), (33, 17, 9), (1, 1, 1), (70, 40, 21), (5, 64, 8), (32, 16, 57)];

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

/// Compares a kernel's result with a fold over K, exactly.
fn check<T>(kernel: Generated, first: T, number: impl Fn(usize) -> T, fold: impl Fn(T, T, T) -> T)
where
    T: Element + PartialEq + std::fmt::Debug,
{
    for (m, n, k) in SIZES {
        let a: Vec<T> = (0..m * k).map(|at| number(at * 7 + 3)).collect();
        let b: Vec<T> = (0..n * k).map(|at| number(at * 5 + 1)).collect();
        let sum = |i: usize, j: usize| (0..k).fold(first, |sum, l| fold(sum, a[i + l * m], b[j * k + l]));
        let wanted: Vec<T> = (0..m * n).map(|at| sum(at % m, at / m)).collect();
        let args =
            [Arg::tensor(&a, [m, k]), Arg::tensor(&b, [n, k]).strides([k, 1]), Arg::output::<T>([m, n])];
        let options = Options { schedules: 2, ..Options::default() };
        let all = run_every(&kernel, &args, &options)
            .unwrap_or_else(|fault| panic!("{} {m} {n} {k}: {fault}", kernel.name));
        for outcome in all {
            let got = outcome.get::<T>("c").unwrap();
            assert!(got == wanted, "{} {m} {n} {k}: {got:?} is not {wanted:?}", kernel.name);
        }
    }
}

macro_rules! tested {
    ($test:ident: [$($kernel:ident),*], $first:expr, $number:expr, $fold:expr) => {
        #[test]
        fn $test() {
            for kernel in [$($kernel().def()),*] {
                check(kernel.generate().unwrap(), $first, $number, $fold);
            }
        }
    };
}

// Some distances are infinite, and some weights negative.
tested!(shortest_paths: [shortest, shortest_parts], f32::INFINITY,
    |at| if at % 11 == 0 { f32::INFINITY } else { (at % 17) as f32 - 5.0 },
    |sum, a, b| sum.min(a + b));
tested!(longest_paths: [longest, longest_parts], i32::MIN, |at| (at % 23) as i32 - 40, |sum, a, b| sum.max(a + b));
tested!(widest_paths: [widest, widest_parts], f64::NEG_INFINITY,
    |at| (at % 13) as f64 - 20.0, |sum, a, b| sum.max(a.min(b)));
tested!(likeliest_paths: [likeliest, likeliest_parts, likeliest_of_two_names], f32::NEG_INFINITY,
    |at| (at % 9) as f32 - 20.0, |sum, a, b| sum.max(a * b));
tested!(reachable_bits: [reachable, reachable_parts], 0u32,
    |at| (at as u32).wrapping_mul(0x9e37_79b9), |sum, a, b| sum | (a & b));
tested!(products_of_bit_matrices: [parity, parity_parts], 0u32,
    |at| (at as u32).wrapping_mul(0x85eb_ca6b), |sum, a, b| sum ^ (a & b));
