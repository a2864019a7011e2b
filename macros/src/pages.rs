//! Products as functions: printed as Rust and read back, they make the same CUDA to the byte.

use crate::drawn::read;
use tilewright_codegen::thread::Fact;
use tilewright_codegen::words::Words;
use tilewright_codegen::{Definition, Generated, Settings};

/// How many sets of keys are drawn, unless `TILEWRIGHT_PAGES` has another number.
const DRAWN: usize = 6;

#[track_caller]
fn generated(of: &Definition) -> Generated {
    let outcome = of.generate();
    outcome.kernel.unwrap_or_else(|| panic!("{:?}", outcome.diagnostics))
}

/// The product and the printed function have the same variants by wgmma, but for the one with 64-bit offsets, to the byte.
#[track_caller]
fn check(keys: &str) {
    let words = Words::read(keys).unwrap_or_else(|why| panic!("{keys}: {why}"));
    let product = Definition::Matmul(words.args().to_vec());
    let printed = product.function().unwrap_or_else(|| panic!("{keys}: no function")).to_string();
    let (product, copied) =
        (generated(&product), generated(&Definition::Function(read(&printed), Settings::default())));
    assert_eq!(copied.source(), product.source(), "{keys}\n{printed}");
    let sources: Vec<&str> = copied.variants.iter().map(|variant| &*variant.source).collect();
    let narrow = |fact: &Fact| matches!(fact, Fact::Small { .. });
    let ours = product
        .variants
        .iter()
        .filter(|variant| variant.source.contains("wgmma_m64") && variant.program.needs.iter().any(narrow));
    for (at, variant) in ours.enumerate() {
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

#[test]
fn functions_of_drawn_products_make_the_same_source() {
    let count = std::env::var("TILEWRIGHT_PAGES").map_or(DRAWN, |count| count.parse().expect("a number"));
    let mut state = 1u64;
    let mut one = |of: &[&str]| -> String {
        // Knuth's linear congruential generator.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        of[(state >> 33) as usize % of.len()].to_owned()
    };
    for _ in 0..count {
        let keys: Vec<String> = DRAWS.iter().map(|row| one(row)).collect();
        let keys = format!("arch=90 {}", keys.join(" "));
        let words = Words::read(&keys).expect("keys");
        // Tiles and threads for one dtype and order may not suit another.
        if Definition::Matmul(words.args().to_vec()).function().is_some() {
            check(&keys);
        }
    }
}
