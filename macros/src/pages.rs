//! Products as functions: printed as Rust and read back, they make the same CUDA to the byte.

use crate::drawn::read;
use tilewright_codegen::definition::Variant;
use tilewright_codegen::thread::Fact;
use tilewright_codegen::words::Words;
use tilewright_codegen::{Definition, Generate, Generated, Settings};

/// How many sets of keys are drawn, unless `TILEWRIGHT_PAGES` has another number.
const DRAWN: usize = 6;

#[track_caller]
fn generated(of: &Definition) -> Generated {
    let outcome = of.generate();
    outcome.kernel.unwrap_or_else(|| panic!("{:?}", outcome.diagnostics))
}

/// The product and the printed function have the same variants, to the byte, but for the one with 64-bit offsets: of products by wgmma
/// those by wgmma, of products by mma.sync the first two, with bulk copies if the first has them, which others with narrower copies follow,
/// and where copies are of vectors, those that have them.
#[track_caller]
fn check(keys: &str) {
    let words = Words::read(keys).unwrap_or_else(|why| panic!("{keys}: {why}"));
    let product = Definition::Matmul(words.args().to_vec());
    let printed = product.function().unwrap_or_else(|| panic!("{keys}: no function")).to_string();
    let (product, copied) =
        (generated(&product), generated(&Definition::Function(read(&printed), Settings::default())));
    assert_eq!(copied.source(), product.source(), "{keys}\n{printed}");
    let sources: Vec<&str> = copied.variants.iter().map(|variant| &*variant.source).collect();
    let needs = |of: &Variant, fact: fn(&Fact) -> bool| of.program.needs.iter().any(fact);
    let is_wgmma = |of: &Variant| of.source.contains("wgmma_m64");
    let is_small = |of: &Variant| needs(of, |fact| matches!(fact, Fact::Small { .. }));
    let is_aligned = |of: &Variant| needs(of, |fact| matches!(fact, Fact::Aligned { .. }));
    let [wgmma, aligned] =
        [&is_wgmma, &is_aligned as &dyn Fn(&Variant) -> bool].map(|is| product.variants.iter().any(is));
    let (by_warps, bulk) = (product.source().contains("mma_m"), product.source().contains("mbarrier"));
    let is_ours = |(at, of): &(usize, &Variant)| match (wgmma, by_warps) {
        (true, _) => is_small(of) && is_wgmma(of),
        (_, true) => *at < 2 && of.source.contains("mbarrier") == bulk,
        _ => is_small(of) && (is_aligned(of) || !aligned),
    };
    for (at, variant) in product.variants.iter().enumerate().filter(is_ours) {
        assert!(sources.contains(&&*variant.source), "{keys}: variant {}\n{printed}", at + 1);
    }
    assert_eq!(copied.params, product.params, "{keys}");
}

#[test]
fn functions_of_products_make_the_same_source() {
    check("dtype=bf16 arch=90 bm=128 bn=256");
    check("dtype=bf16 a=k_major b=k_major c=n_major arch=90 bm=128 bn=256 bias=columns epilogue=gelu");
    check(
        "dtype=f16 arch=90 bm=64 bn=128 a=k_major c=n_major bias=rows residual=after(f32) scales=both epilogue=silu",
    );
    check(
        "dtype=f16 arch=90 bm=128 bn=64 b=k_major residual=before batched=true epilogue=|y| y * y + max(y, 1.0)",
    );
    check("dtype=i8 out=bf16 arch=90 bm=128 bn=128 a=k_major b=k_major c=n_major scales=columns");
    check("dtype=bf16 arch=90 bm=256 bn=128 schedule=(cluster=2 band=4) name=wide");
    check("dtype=bf16 out=f32 arch=90 bm=128 bn=128 alpha_beta=true bias=columns epilogue=gelu");
    check("dtype=f16 arch=90 bm=128 bn=128 bias=rows residual=before epilogue=relu aux=f32 batched=true");
    check("dtype=bf16 arch=90 bm=64 bn=256 c=n_major schedule=(ping_pong=true) bias=columns epilogue=gelu");
    check("dtype=u8 out=u8 arch=90 mma=wgmma bm=64 bn=128 a=k_major b=k_major");
    check("dtype=bf16 arch=90 bm=64 bn=64 a=k_major b=k_major c=n_major schedule=(split_k=4) overlaps=false");
    check("dtype=bf16 arch=90 bm=128 bn=64 a=k_major b=k_major c=n_major schedule=(split_k=blocks(4))");
    check("dtype=e4m3 out=bf16 arch=90 bm=128 bn=128 a=k_major b=k_major");
    check("dtype=e4m3 out=bf16 arch=90 bm=64 bn=64 a=k_major b=k_major schedule=(split_k=2)");
    check("dtype=e5m2 out=f32 arch=90 bm=128 bn=64 a=k_major b=k_major c=n_major bias=columns");
    check("dtype=e4m3 out=bf16 arch=90 bm=128 bn=128 a=k_major b=k_major scales=blocks");
    check("dtype=bf16 b_dtype=i8 arch=90 bm=128 bn=128 a=k_major b=k_major c=n_major");
    check("dtype=f16 b_dtype=e4m3 arch=90 bm=64 bn=128 b=k_major bias=columns epilogue=gelu");
    check("precision=f32x3 arch=90 bm=128 bn=128 a=k_major b=k_major");
    check(
        "precision=f32x3 out=bf16 arch=90 bm=64 bn=96 a=k_major b=k_major c=n_major bias=rows epilogue=gelu schedule=(cluster=2)",
    );
    check("precision=f32x3 arch=90 bm=64 bn=64 a=k_major b=k_major alpha_beta=true schedule=(split_k=2)");
    check("dtype=bf16 b_dtype=i4 arch=90 bm=128 bn=128 a=k_major b=k_major c=n_major");
    check(
        "dtype=bf16 b_dtype=u4 group_size=128 zeros=true arch=90 bm=64 bn=128 a=k_major b=k_major c=n_major",
    );
    check(
        "dtype=f16 b_dtype=i4 group_size=32 arch=90 bm=128 bn=64 b=k_major batched=true scales=rows alpha_beta=true",
    );
    check("dtype=bf16 b_dtype=u8 group_size=64 arch=90 mma=wgmma bm=64 bn=64 bk=96 b=k_major c=n_major");
}

#[test]
fn functions_of_products_on_cuda_cores_make_the_same_source() {
    check("bm=128 bn=128 bk=8 tc=(16,16)");
    check("bm=128 bn=128 a=k_major b=k_major c=n_major alpha_beta=true");
    check("schedule=(values=(4,4) fragments=2 vec=4) stages=3 bk=16");
    check(
        "name=wide arch=90 bm=128 bn=256 bk=8 tc=swizzled(2,0,-2,((4,2),(8,4)):((1,32),(4,64))) \
         schedule=(values=(4,4) vec=4 pad=4 fragments=2 order=row_serpentine) stages=4 alpha_beta=true overlaps=true",
    );
    check(
        "schedule=(staged=transposed values=(4,4) vec=4 fragments=2 exits=false) a=k_major b=k_major stages=2",
    );
    check(
        "batched=true bm=64 bn=64 bk=16 tc=(8,8) schedule=(vec=4) stages=2 bias=rows epilogue=gelu out=bf16",
    );
    check("dtype=f64 bm=64 bn=64 mma=none residual=before scales=both epilogue=|x| x * 2.0 + 1.0");
    check("dtype=i32 bm=64 bn=64 epilogue=relu aux=true bias=columns");
    check("dtype=f16 schedule=(vec=8) bk=16 mma=none out=f32 residual=after(f32) epilogue=silu aux=f16");
    check("dtype=i8 bm=64 bn=64 mma=none out=bf16 alpha_beta=true schedule=(order=serpentine)");
    check("tc=(8,8):(8,1) schedule=(sa=(64,16):(1,68) ta=(16,4) tb=(8,8)) bm=64 bn=32 bk=16");
    check("bm=64 bn=64 bk=32 tc=(8,8,4)");
    check("bm=64 bn=64 bk=32 tc=(8,8,2) bias=rows epilogue=gelu aux=true alpha_beta=true c=n_major");
    check("dtype=f64 bm=32 bn=32 bk=32 tc=(8,8,1) mma=none scales=both residual=before");
    check("arch=90 bm=64 bn=32 bk=32 tc=(8,8) schedule=(split_k=4)");
    check(
        "arch=90 bm=64 bn=32 bk=32 tc=swizzled(2,0,-2,((4,2),4,4):((1,16),4,32)) batched=true bias=columns epilogue=relu \
         schedule=(split_k=8 staged=both values=(4,4) vec=4 fragments=2 order=row_serpentine) stages=2",
    );
    check("arch=90 bm=16 bn=16 bk=32 tc=(8,8) schedule=(split_k=16) bias=rows aux=f16 epilogue=relu");
}

#[test]
fn functions_of_products_by_warps_make_the_same_source() {
    check("dtype=bf16 arch=80 a=k_major b=k_major c=n_major");
    check("dtype=f16 arch=80 bm=64 bn=96 bias=rows residual=after(f32) scales=both epilogue=silu");
    check("dtype=f64 arch=80 b=k_major batched=true epilogue=relu");
    check("dtype=f16 arch=80 batched=true aux=true epilogue=relu");
    check("dtype=i8 arch=80 a=k_major b=k_major out=bf16 scales=columns");
    check("dtype=tf32 arch=80 bm=128 bn=128 warps=(4,2) c=n_major aux=true epilogue=gelu bias=columns");
    check("dtype=bf16 arch=80 bm=64 bn=64 bk=64 mma=mma_m16n8k8_bf16 schedule=(swizzle=(2,3,3))");
    check("dtype=e4m3 arch=89 out=bf16 a=k_major b=k_major");
    check("dtype=bf16 arch=80 a=k_major b=k_major c=n_major alpha_beta=true bias=columns epilogue=gelu");
    check("dtype=f16 arch=80 bm=128 bn=64 alpha_beta=true aux=f32 epilogue=relu batched=true");
    check("dtype=e4m3 arch=89 out=bf16 a=k_major b=k_major scales=blocks mma=mma_sync batched=true");
    check("dtype=e5m2 arch=89 out=bf16 c=n_major scales=blocks mma=mma_sync bm=64 bn=128 bk=128");
    check("dtype=bf16 arch=80 warps=(1,1,8) bm=16 bn=32 bk=256 c=n_major bias=rows");
    check("dtype=f64 arch=80 warps=(2,1,4) bm=32 bn=16 bk=64 alpha_beta=true");
    check("precision=f32x3 arch=80 a=k_major b=k_major c=n_major");
    check("precision=f32x3 arch=80 bm=64 bn=64 mma=mma_m16n8k4_tf32 residual=before");
    check("precision=tf32 arch=80 a=k_major scales=both epilogue=silu");
    check("dtype=bf16 b_dtype=i8 arch=80 a=k_major b=k_major c=n_major");
    check("dtype=f16 b_dtype=e4m3 arch=80 bm=64 bn=128 batched=true");
    check("dtype=bf16 b_dtype=i4 arch=80 bm=128 bn=128 b=k_major");
    check("dtype=bf16 b_dtype=u4 group_size=128 zeros=true arch=80 bm=64 bn=128 bk=64 b=k_major c=n_major");
    check("dtype=f16 b_dtype=i4 group_size=32 arch=80 bm=64 bn=64 bk=96 b=k_major batched=true");
    check("dtype=bf16 arch=90 mma=mma_sync a=k_major b=k_major c=n_major bias=columns epilogue=gelu");
    check("dtype=f16 arch=90 mma=mma_sync batched=true bm=128 bn=128 alpha_beta=true");
    check("precision=f32x3 arch=90 mma=mma_sync a=k_major b=k_major c=n_major bm=64 bn=64");
    check("dtype=bf16 b_dtype=u4 group_size=64 arch=90 mma=mma_sync a=k_major b=k_major bm=64 bn=128 bk=64");
    check("dtype=bf16 arch=90 mma=mma_sync warps=(1,1,8) bm=16 bn=32 bk=256 a=k_major b=k_major c=n_major");
}

#[test]
fn the_default_product_is_a_function() {
    check("dtype=bf16 a=k_major b=k_major c=n_major");
}

/// Keys to draw from: one of each row, or none.
const DRAWS: &[&[&str]] = &[
    &["dtype=bf16", "dtype=f16"],
    &["a=k_major", ""],
    &["b=k_major", ""],
    &["c=n_major", ""],
    &["bm=128 bn=128", "bm=64 bn=96", "bm=256 bn=128", "bm=192 bn=192", "bm=128 bn=160 stages=3"],
    &["", "bias=rows", "bias=columns"],
    &["", "scales=rows", "scales=both"],
    &["", "", "residual=before", "residual=after(f32)"],
    &["", "epilogue=relu", "epilogue=silu aux=true", "epilogue=|x| x * 2.0 + 1.0"],
    &["", "", "alpha_beta=true"],
    &["", "", "out=f32"],
    &["", "", "batched=true"],
    &["", "", "schedule=(band=2)"],
    &[
        "",
        "",
        "b_dtype=i8",
        "b_dtype=e5m2",
        "b_dtype=i4",
        "b_dtype=u4 group_size=64",
        "b_dtype=u8 group_size=16 zeros=true",
    ],
];

/// Keys of products on CUDA cores to draw from, beside further ones of [`DRAWS`].
const OF_THREADS: &[&[&str]] = &[
    &["", "dtype=f64", "dtype=f16 out=f32", "dtype=i8", "out=bf16", "dtype=u32"],
    &["a=k_major", ""],
    &["b=k_major", ""],
    &["c=n_major", ""],
    &[
        "bm=128 bn=128",
        "bm=64 bn=96 bk=16",
        "bm=64 bn=64 bk=16 tc=(8,8) stages=2",
        "bm=48 bn=80 bk=16 stages=3",
        "bm=32 bn=64 bk=32 tc=(8,8,2)",
        "arch=90 bm=64 bn=32 bk=32 tc=(8,8,2) schedule=(split_k=4)",
    ],
    &["", "bias=rows", "bias=columns"],
    &["", "scales=rows", "scales=both"],
    &["", "", "residual=before", "residual=after(f32)"],
    &["", "epilogue=relu", "epilogue=relu aux=true", "epilogue=|x| x * 2 + 1"],
    &["", "", "alpha_beta=true"],
    &["", "", "batched=true"],
    &[
        "",
        "schedule=(fragments=2)",
        "schedule=(staged=both vec=4)",
        "schedule=(values=(2,2) vec=2 order=rows)",
    ],
];

#[test]
fn functions_of_drawn_products_make_the_same_source() {
    check_drawn("arch=90", DRAWS);
    check_drawn("arch=80 mma=mma_sync", DRAWS);
    check_drawn("arch=90 mma=mma_sync", DRAWS);
    check_drawn("mma=none", OF_THREADS);
}

fn check_drawn(first: &str, draws: &[&[&str]]) {
    let count = std::env::var("TILEWRIGHT_PAGES").map_or(DRAWN, |count| count.parse().expect("a number"));
    let mut state = 1u64;
    let mut one = |of: &[&str]| -> String {
        // Knuth's linear congruential generator.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        of[(state >> 33) as usize % of.len()].to_owned()
    };
    for _ in 0..count {
        let keys: Vec<String> = draws.iter().map(|row| one(row)).collect();
        let keys = format!("{first} {}", keys.join(" "));
        let words = Words::read(&keys).expect("keys");
        // Tiles and threads for one dtype and order may not suit another.
        if Definition::Matmul(words.args().to_vec()).function().is_some() {
            check(&keys);
        }
    }
}
