//! Products of narrow weights by mma.sync and wgmma in the simulator: their scales and zero points.

use tilewright_tests::sweep;

use crate::tensor::{ORDERS, check, check_all, kernel};

/// Weights of eight bits, converted in registers, with a scale for each column of C.
#[test]
fn narrow_weights() {
    for order in ORDERS {
        check_all(&format!("dtype=bf16 b_dtype=i8 bm=64 bn=32 out=f32 {order}"));
    }
    for keys in sweep::share(
        [
            "dtype=f16 b_dtype=u8 out=f32 b=k_major",
            "dtype=bf16 b_dtype=e4m3 out=f32 a=k_major b=k_major",
            "dtype=f16 b_dtype=e5m2 out=f32 c=n_major",
            "dtype=bf16 b_dtype=i8 a=k_major b=k_major c=n_major alpha_beta=true bias=columns batched=true",
        ],
        4,
    ) {
        check(&format!("bm=64 bn=32 {keys}"), &[([64, 72, 40], 8), ([67, 33, 45], 1)]);
    }
    check("dtype=bf16 b_dtype=i8 out=f32 arch=90 a=k_major b=k_major", &[([40, 72, 64], 0)]);
}

/// Numbers of four bits, two in a byte, with an odd K too.
#[test]
fn weights_of_four_bits() {
    for keys in sweep::share(
        [
            "dtype=bf16 b_dtype=i4 out=f32 bm=64 bn=64",
            "dtype=f16 b_dtype=i4 c=n_major bm=64 bn=64 alpha_beta=true",
            "dtype=bf16 b_dtype=i4 bm=64 bn=64 bk=64 arch=90 mma=mma_sync",
            "dtype=bf16 b_dtype=i4 bm=16 bn=32 bk=128 warps=(1,1,4) out=f32",
            "dtype=f16 b_dtype=i4 bm=16 bn=32 bk=256 warps=(1,1,8) arch=90 c=n_major",
            "dtype=bf16 b_dtype=i4 bm=64 bn=128 arch=90 mma=wgmma",
            "dtype=f16 b_dtype=i4 bm=64 bn=64 arch=90 mma=wgmma out=f32 bias=rows",
        ],
        4,
    ) {
        let keys = format!("a=k_major b=k_major {keys}");
        let ran = check(&keys, &[([128, 256, 512], 0), ([72, 144, 96], 16), ([67, 33, 45], 1)]);
        assert!(ran[0], "{keys}");
    }
}

/// Narrow copies have other warps, whose columns are converted in pairs too.
#[test]
fn pairs_of_columns_of_weights_of_four_bits() {
    for dtype in sweep::share(["bf16", "f16"], 4) {
        let keys = format!(
            "dtype={dtype} b_dtype=i4 bm=144 bn=80 arch=89 mma=mma_sync a=k_major b=k_major c=n_major bias=columns"
        );
        let ran = check(&keys, &[([144, 80, 96], 0), ([67, 33, 45], 1)]);
        assert!(ran[0], "{keys}");
    }
}

/// Scales in groups along K, of every narrow type: by cp.async, from rings, by warps that share K and by wgmma; groups that are
/// shorter and longer than a step, a last one of a part of K, and odd extents.
#[test]
fn scales_of_groups() {
    let sizes = [([64, 128, 768], 0), ([72, 144, 176], 16), ([67, 33, 45], 1), ([20, 40, 330], 8)];
    for keys in sweep::share(
        [
            "dtype=bf16 b_dtype=i4 group_size=128 bm=64 bn=64 out=f32",
            "dtype=bf16 b_dtype=i8 group_size=32 bm=64 bn=64 bk=64 c=n_major",
            "dtype=f16 b_dtype=e5m2 group_size=64 bm=64 bn=64 bk=32 batched=true alpha_beta=true",
            "dtype=bf16 b_dtype=i4 group_size=64 bm=64 bn=64 bk=64 arch=90 mma=mma_sync scales=rows",
            "dtype=f16 b_dtype=u8 group_size=128 bm=64 bn=64 bk=64 arch=90 mma=mma_sync batched=true c=n_major",
            "dtype=bf16 b_dtype=i4 group_size=32 bm=16 bn=32 bk=256 warps=(1,1,8) arch=90 c=n_major",
            "dtype=bf16 b_dtype=i4 group_size=128 bm=16 bn=32 bk=256 warps=(1,1,8) arch=90",
            "dtype=f16 b_dtype=i8 group_size=256 bm=16 bn=32 bk=128 warps=(1,1,4)",
            "dtype=bf16 b_dtype=i4 group_size=128 bm=64 bn=128 arch=90 mma=wgmma bias=rows",
            "dtype=f16 b_dtype=u8 group_size=32 bm=64 bn=64 arch=90 mma=wgmma out=f32 batched=true",
            "dtype=bf16 b_dtype=i8 group_size=16 bm=64 bn=64 arch=90 mma=wgmma c=n_major schedule=(ping_pong=true)",
            "dtype=bf16 b_dtype=e4m3 group_size=64 bm=32 bn=128 arch=90 mma=wgmma schedule=(cluster=2)",
            // Steps and groups where neither divides the other, and warps whose part of K has no whole groups.
            "dtype=bf16 b_dtype=i4 group_size=64 bm=64 bn=64 bk=96 out=f32",
            "dtype=f16 b_dtype=i8 group_size=128 bm=64 bn=32 bk=48 arch=90 mma=mma_sync batched=true",
            "dtype=bf16 b_dtype=i4 group_size=32 bm=64 bn=32 bk=96 warps=(2,1,2) arch=90 mma=mma_sync",
            "dtype=bf16 b_dtype=u8 group_size=32 bm=64 bn=32 bk=96 warps=(2,1,2)",
        ],
        4,
    ) {
        let keys = format!("a=k_major b=k_major {keys}");
        let ran = check(&keys, &sizes);
        assert!(ran[0], "{keys}");
    }
}

/// More threads than a slot of the ring has scales: the other threads must not write to the next slot.
#[test]
fn scales_of_few_columns() {
    let keys = "dtype=bf16 b_dtype=u4 b=k_major arch=80 mma=mma_sync bm=32 bn=128 bk=96 stages=1 warps=(1,1) group_size=256";
    let ran = check(keys, &[([64, 128, 768], 0), ([67, 33, 45], 1)]);
    assert!(ran[0]);
}

/// The epilogue's tile has the memory of all that a step fills, scales and zero points included.
#[test]
fn the_epilogue_reuses_the_memory_of_scales() {
    for keys in sweep::share(["group_size=32", "group_size=32 zeros=true"], 4) {
        let keys = format!("dtype=bf16 b_dtype=i8 a=k_major b=k_major bm=64 bn=64 bk=32 stages=2 {keys}");
        let [with, without] =
            [keys.as_str(), "dtype=bf16 b_dtype=i8 a=k_major b=k_major bm=64 bn=64 bk=32 stages=2"]
                .map(|keys| kernel(keys).variants[0].program.launch.shared_bytes);
        assert!(
            with <= without.max(2 * 64 * (64 + 32 + 2 + 2)),
            "{keys}: {with} bytes, and {without} without scales"
        );
    }
}

/// Zero points of groups, of every narrow integer, wherever there are scales of groups.
#[test]
fn zero_points() {
    let sizes = [([64, 128, 768], 0), ([72, 144, 176], 16), ([67, 33, 45], 1), ([20, 40, 330], 8)];
    for keys in sweep::share(
        [
            "dtype=bf16 b_dtype=u4 group_size=128 bm=64 bn=64 out=f32",
            "dtype=bf16 b_dtype=i8 group_size=32 bm=64 bn=64 bk=64 c=n_major",
            "dtype=f16 b_dtype=u8 group_size=64 bm=64 bn=64 bk=96 batched=true alpha_beta=true",
            "dtype=f16 b_dtype=u4 group_size=64 bm=64 bn=64 bk=64 arch=90 mma=mma_sync scales=rows",
            "dtype=f16 b_dtype=u8 group_size=128 bm=64 bn=64 bk=64 arch=90 mma=mma_sync batched=true c=n_major",
            "dtype=bf16 b_dtype=u4 group_size=32 bm=16 bn=32 bk=256 warps=(1,1,8) arch=90 c=n_major",
            "dtype=f16 b_dtype=i8 group_size=256 bm=16 bn=32 bk=128 warps=(1,1,4)",
            "dtype=bf16 b_dtype=u4 group_size=128 bm=64 bn=128 arch=90 mma=wgmma bias=rows",
            "dtype=f16 b_dtype=i4 group_size=32 bm=64 bn=64 arch=90 mma=wgmma out=f32 batched=true",
            "dtype=bf16 b_dtype=u8 group_size=16 bm=64 bn=64 arch=90 mma=wgmma c=n_major schedule=(ping_pong=true)",
        ],
        4,
    ) {
        let keys = format!("a=k_major b=k_major zeros=true {keys}");
        let ran = check(&keys, &sizes);
        assert!(ran[0], "{keys}");
        let params: Vec<String> = kernel(&keys).params.iter().map(|param| param.name.clone()).collect();
        let scale = params.iter().position(|name| name == "scale").expect("scales");
        assert_eq!(params[scale + 1], "zero");
    }
}

/// By wgmma: weights are converted into registers, from which it reads the left operand.
#[test]
fn narrow_weights_by_wgmma() {
    for keys in sweep::share(
        [
            "dtype=bf16 b_dtype=i8 a=k_major bm=64 bn=128",
            "dtype=f16 b_dtype=u8 bm=64 bn=64 out=f32",
            "dtype=bf16 b_dtype=e4m3 a=k_major bm=128 bn=64 alpha_beta=true bias=columns batched=true",
            "dtype=f16 b_dtype=e5m2 a=k_major bm=32 bn=128 schedule=(cluster=2)",
            "dtype=bf16 b_dtype=i8 a=k_major bm=64 bn=64 schedule=(ping_pong=true)",
            "dtype=bf16 b_dtype=i8 a=k_major c=n_major bm=64 bn=128 bias=columns",
            "dtype=f16 b_dtype=u8 a=k_major c=n_major bm=32 bn=64 alpha_beta=true batched=true",
        ],
        4,
    ) {
        let keys = format!("b=k_major arch=90 mma=wgmma {keys}");
        let ran = check(&keys, &[([128, 256, 256], 0), ([72, 144, 80], 16), ([67, 33, 45], 1)]);
        let by_wgmma = kernel(&keys).variants[0].source.contains("wgmma.mma_async");
        assert!(ran[0] && by_wgmma, "{keys}");
    }
}

/// Without keys of tiles, a launch chooses the tile.
#[test]
fn few_rows_have_tiles_of_their_own() {
    for (arch, rows) in sweep::share([(80, 16), (90, 16), (90, 30), (90, 60)], 4) {
        let keys = format!("dtype=bf16 b_dtype=i8 a=k_major b=k_major c=n_major arch={arch}");
        check(&keys, &[([rows, 96, 512], 0)]);
    }
}
