//! Diagnostics of products by instructions.

use tilewright_codegen::Elem;
use tilewright_codegen::atom::OperandName;
use tilewright_codegen::build::Builder;
use tilewright_codegen::problem::Result;
use tilewright_codegen::resolve::{Width, distribute};
use tilewright_codegen::tile::Order;
use tilewright_codegen::tiled::{Fill, TiledMma};
use tilewright_layout::{Layout, layout};

#[track_caller]
fn refused<T: std::fmt::Debug>(of: Result<T>, expected: &str) {
    let problem = of.expect_err("accepted");
    assert_eq!(format!("{}\n{}", problem.message, problem.help.unwrap_or_default()), expected);
}

#[test]
fn refusals_have_help() {
    let best = |elem, acc, tile, warps| TiledMma::best(elem, acc, 80, tile, warps);
    refused(
        best(Elem::Bf16, Elem::F32, [40, 64], 4),
        "4 warps cannot share a tile of 40x64 by products of 16x8\nuse a tile whose extents are multiples of 16 and 8",
    );
    refused(
        best(Elem::Bf16, Elem::F32, [32, 16], 3),
        "3 warps cannot share a tile of 32x16 by products of 16x8\nwrite warps = 1 or 2 or 4, or another tile",
    );
    refused(
        best(Elem::I32, Elem::I32, [64, 64], 4),
        "no matrix instruction of sm_80 multiplies i32 into sums of i32\nthey multiply f64, f16, bf16, i8, u8, tf32; other types are multiplied on CUDA cores: full::<i32>((BM, BN), 0) for the sums",
    );
    refused(
        best(Elem::I8, Elem::F32, [64, 64], 4),
        "no matrix instruction of sm_80 multiplies i8 into sums of f32\nsum in i32",
    );
    refused(
        TiledMma::new("wgmma_m64n64k16_bf16", &layout!((1, 1, 1))),
        "`wgmma_m64n64k16_bf16` is not a matrix product of one warp\ntake an instruction whose name begins with `mma_`",
    );
    refused(
        TiledMma::new("mma_m16n8k16_bf61", &layout!((1, 1, 1))),
        "there is no matrix instruction `mma_m16n8k16_bf61`\ndid you mean `mma_m16n8k16_bf16`?",
    );
    refused(
        TiledMma::new("mma_m16n8k16_bf16", &layout!((2, 1, 2))),
        "(2,1,2):(1,2,2) has warps share K, and their sums would have to be added up\nwrite 1 for the third mode",
    );
    let mut b = Builder::new("refused");
    let mma = best(Elem::Bf16, Elem::F32, [64, 64], 4).unwrap();
    let tile = |b: &mut Builder, name: &str, elem, rows: i64, k: i64| {
        b.shared(name, elem, Layout::row_major((rows, k)).unwrap()).unwrap()
    };
    let (wrong, odd) = (tile(&mut b, "wrong", Elem::F16, 64, 32), tile(&mut b, "odd", Elem::Bf16, 40, 32));
    refused(
        b.partition_operand(&mma, OperandName::A, &odd),
        "mode 0 of `odd` has 40 elements, which 2 warps do not share in parts of 16, as `mma_m16n8k16_bf16` takes them along M\nuse a multiple of 32",
    );
    let acc = b.sums("acc", &mma, [64, 64]).unwrap();
    b.gemm(&wrong, &wrong, &acc, Order::Plain).unwrap();
    let why = distribute(b.finish(), Width::WIDEST).expect_err("accepted");
    assert_eq!(
        why.text(),
        "`mma_m16n8k16_bf16` multiplies bf16, and `wrong` has elements of f16\nhelp: convert it first: `map(wrong, |x| x as bf16)`"
    );
    refused(
        Fill::of([64, 36], 1, 128, 8),
        "36 elements side by side cannot be copied 8 at once\nuse a tile whose contiguous extent is a multiple of 8, or narrower copies",
    );
}
