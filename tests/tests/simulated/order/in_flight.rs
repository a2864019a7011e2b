//! Copies that are in flight on paths that pass by the wait for them.

use tilewright::prelude::*;
use tilewright_codegen::definition::Generated;
use tilewright_codegen::element::Element;
use tilewright_sim::Arg;

use super::run_all;

/// A product under a condition: its operands are in flight where it is not taken.
macro_rules! product_under_a_condition {
    ($name:ident, $elem:ident, $arch:literal) => {
        #[kernel(arch = $arch, allow(unbounded))]
        fn $name(
            a: &Tensor<$elem, (M, K), (lda, _1)>,
            b: &Tensor<$elem, (N, K), (ldb, _1)>,
            c: &mut Tensor<$elem, (M, N), (ldc, _1)>,
        ) {
            let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
            let (sa, sb) = (shared::<$elem>((64, 64)), shared::<$elem>((64, 64)));
            let mma = tiled_mma::<$elem, f32>(warps = 4);
            let mut acc = mma.accumulators((64, 64), 0.0);
            copy(ga[(_, _, 0)], sa);
            copy(gb[(_, _, 0)], sb);
            if block.x % 2 == 0 {
                gemm(sa, sb, &mut acc);
            }
            copy(acc, tile(c, (64, 64), (block.x, block.y)));
        }
    };
}

product_under_a_condition!(bf16_of_80, bf16, 80);
product_under_a_condition!(bf16_of_90, bf16, 90);
product_under_a_condition!(f16_of_80, f16, 80);
product_under_a_condition!(f16_of_90, f16, 90);

/// The same in a loop, whose last copies no iteration waits for.
#[kernel]
fn every_other(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<bf16, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (64, 32), (block.x, _)), tile(b, (64, 32), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 32)), shared::<bf16>((64, 32)));
    let mma = tiled_mma::<bf16, f32>(warps = 4);
    let mut acc = mma.accumulators((64, 64), 0.0);
    for k in 0..ga.size(2) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        if k % 2 == 0 {
            gemm(sa, sb, &mut acc);
        }
    }
    copy(acc, tile(c, (64, 64), (block.x, block.y)));
}

/// The condition is a scalar argument, and both arms use the tile or none does.
#[kernel(allow(unbounded))]
fn by_argument(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<bf16, (M, N), (ldc, _1)>,
    yes: i32,
) {
    let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 64)), shared::<bf16>((64, 64)));
    let mma = tiled_mma::<bf16, f32>(warps = 4);
    let mut acc = mma.accumulators((64, 64), 0.0);
    copy(ga[(_, _, 0)], sa);
    copy(gb[(_, _, 0)], sb);
    if yes > 0 {
        if block.x == 0 {
            gemm(sa, sb, &mut acc);
        }
    }
    copy(acc, tile(c, (64, 64), (block.x, block.y)));
}

/// Elements of f32 change threads through shared memory after copies that are waited for in an `if`.
#[kernel(allow(rearranged))]
fn exchanged(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
    let (g, h) = (tile(x, (32, 32), (block.x, block.y)), tile(y, (32, 32), (block.x, block.y)));
    let s = shared::<f32>((32, 32));
    let mut t = map(g, |x| x * 2.0);
    copy(g, s);
    if block.x % 2 == 0 {
        t = t + s;
    }
    copy(permute(t, (1, 0)), h);
}

fn ones<T: Element>(count: usize, one: T) -> Vec<T> {
    vec![one; count]
}

/// `expected` is the result of each of two blocks.
#[track_caller]
fn check_product<T: Element + PartialEq<T> + Copy + std::fmt::Debug>(
    kernel: &Generated,
    one: T,
    k: usize,
    scalar: Option<i32>,
    expected: [T; 2],
) {
    let (a, b) = (ones(128 * k, one), ones(64 * k, one));
    let args = [
        Arg::tensor(&a, [128, k]).strides([k, 1]),
        Arg::tensor(&b, [64, k]).strides([k, 1]),
        Arg::output::<T>([128, 64]).strides([64, 1]),
    ];
    let args: Vec<Arg> = args.into_iter().chain(scalar.map(Arg::number)).collect();
    for result in run_all::<T>(kernel, &args, "c", 10) {
        for (at, element) in result.iter().enumerate() {
            assert_eq!(*element, expected[at / (64 * 64)], "element {at}");
        }
    }
}

fn generated(def: &tilewright_codegen::kernel_def::KernelDef) -> Generated {
    def.generate().expect("a kernel")
}

#[test]
fn staging_tiles_wait_for_copies_into_what_they_overlay() {
    let (one, sum) = (bf16::from_f32(1.0), bf16::from_f32(64.0));
    for kernel in [bf16_of_80().def(), bf16_of_90().def()] {
        check_product(&generated(kernel), one, 64, None, [sum, bf16::from_f32(0.0)]);
    }
    let (one, sum) = (f16::from_f32(1.0), f16::from_f32(64.0));
    for kernel in [f16_of_80().def(), f16_of_90().def()] {
        check_product(&generated(kernel), one, 64, None, [sum, f16::from_f32(0.0)]);
    }
}

#[test]
fn staging_tiles_wait_for_the_copies_of_a_loop() {
    let (one, sum) = (bf16::from_f32(1.0), bf16::from_f32(64.0));
    check_product(&generated(every_other().def()), one, 96, None, [sum, sum]);
    check_product(&generated(every_other().def()), one, 64, None, [bf16::from_f32(32.0); 2]);
}

#[test]
fn staging_tiles_wait_where_an_argument_decides() {
    let (one, sum, none) = (bf16::from_f32(1.0), bf16::from_f32(64.0), bf16::from_f32(0.0));
    check_product(&generated(by_argument().def()), one, 64, Some(1), [sum, none]);
    check_product(&generated(by_argument().def()), one, 64, Some(0), [none, none]);
}

#[test]
fn exchanged_elements_wait_for_copies_into_what_they_overlay() {
    let x: Vec<f32> = (0..64 * 32).map(|i| i as f32).collect();
    let args = [Arg::tensor(&x, [64, 32]).strides([32, 1]), Arg::output::<f32>([64, 32]).strides([32, 1])];
    for y in run_all::<f32>(&generated(exchanged().def()), &args, "y", 10) {
        for (at, y) in y.iter().enumerate() {
            let (block, i, j) = (at / 1024, at / 32 % 32, at % 32);
            let factor = if block == 0 { 3.0 } else { 2.0 };
            assert_eq!(*y, factor * x[block * 1024 + j * 32 + i], "element {at}");
        }
    }
}
