//! Products with wgmma in the simulator: clusters, multicast, warp specialisation and rings that persist
//! across tiles, over many schedules, on devices that hold one cluster at a time or several.

use tilewright_codegen::Generated;
use tilewright_codegen::launch::Limits;
use tilewright_sim::{Options, run_every};
use tilewright_tests::problem::{Finish, Problem, Setting, Values};
use tilewright_tests::tensor::Padding;
use tilewright_tests::{gallery, sweep};

#[track_caller]
fn kernel(keys: &str) -> Generated {
    let outcome = gallery::matmul(keys);
    let messages: Vec<String> = outcome.diagnostics.iter().map(|d| d.text()).collect();
    outcome.kernel.unwrap_or_else(|| panic!("{keys}: {}", messages.join("\n")))
}

/// Compares one size with double precision, with leading dimensions that are larger than the extents by a gap. The variants that ran.
#[track_caller]
fn run(
    kernel: &Generated,
    keys: &str,
    ([m, n, k], gap): ([usize; 3], usize),
    values: Values,
    options: &Options,
) -> Vec<usize> {
    let sizes: &[(&str, usize)] = &[("M", m), ("N", n), ("K", k), ("L", 3)];
    let paddings = &[Padding::new(gap, 0)];
    let setting = Setting { sizes, paddings, values, seed: options.seed, alpha: 0.5, beta: 2.0 };
    let mut problem = Problem::of(kernel, &setting).finished(values, &Finish::of(keys));
    if values == Values::Any && (keys.contains("e4m3") || keys.contains("e5m2")) {
        // Tensor cores cut terms of 8-bit numbers off 13 bits below the greatest, which is about 1.
        problem.wanted.iter_mut().for_each(|wanted| wanted.within += k as f64 * 2f64.powi(-13));
    }
    let outcomes = run_every(kernel, &problem.args(), options)
        .unwrap_or_else(|fault| panic!("{keys}, {m} {n} {k} + {gap}: {fault}"));
    for outcome in &outcomes {
        let wrong = problem.wrong_outcome(outcome);
        assert!(wrong.is_none(), "{keys}, {m} {n} {k} + {gap}: {wrong:?}");
    }
    outcomes.iter().map(|outcome| outcome.variant()).collect()
}

/// Products of whole numbers in several schedules, on devices that hold one cluster or many.
#[track_caller]
fn check_with(keys: &str, sizes: &[[usize; 3]], gap: usize, schedules: u32) {
    let kernel = kernel(keys);
    for &size in sizes {
        for multiprocessors in sweep::share([2, 132], 2) {
            let limits = Limits { multiprocessors, ..Limits::HOPPER };
            let options = Options { schedules, limits, ..Options::default() };
            run(&kernel, keys, (size, gap), Values::Whole, &options);
        }
    }
}

#[track_caller]
fn check(keys: &str, sizes: &[[usize; 3]], schedules: u32) {
    check_with(keys, sizes, 0, schedules);
}

#[test]
fn two_warpgroups_of_a_cluster() {
    let sizes = sweep::share([[256, 512, 128], [300, 260, 72]], 2);
    check("dtype=bf16 arch=90 a=k_major b=k_major", &sizes, sweep::count(1, 2) as u32);
}

#[test]
fn rows_of_c_are_contiguous() {
    check("dtype=bf16 arch=90 a=k_major b=k_major c=n_major bm=64 bn=64 stages=2", &[[136, 72, 200]], 5);
}

#[test]
fn sums_pass_through_an_epilogue() {
    let keys = "dtype=bf16 arch=90 a=k_major b=k_major bm=64 bn=64 epilogue=|x|x+1.0-1.0";
    check(keys, &[[130, 70, 72]], 1);
}

#[test]
fn sizes_that_bulk_copies_cannot_take_run_on_threads() {
    let kernel = gallery::matmul("dtype=bf16 arch=90 a=k_major b=k_major").kernel.unwrap();
    let uses = |at: usize| kernel.variants[at].program.arch_specific;
    assert!(uses(0) && !uses(kernel.variants.len() - 1));
    check("dtype=bf16 arch=90 a=k_major b=k_major", &[[33, 17, 13]], 1);
}

#[test]
fn every_order_of_operands_and_result() {
    for order in sweep::share(0..8, 3) {
        let choice = |bit: usize, key: &'static str| if order >> bit & 1 == 1 { key } else { "" };
        let keys = [choice(0, "a=k_major"), choice(1, "b=k_major"), choice(2, "c=n_major")].join(" ");
        let keys = format!("dtype=bf16 arch=90 bm=64 bn=128 {keys}");
        check_with(&keys, &[[136, 144, 72]], 8, 1);
    }
}

#[test]
fn two_tiles_of_rows_per_warpgroup() {
    check("dtype=bf16 arch=90 bm=256 bn=64 c=n_major schedule=(cluster=1) a=k_major", &[[264, 520, 136]], 2);
}

#[test]
fn three_warpgroups() {
    for keys in sweep::share(
        [
            "bm=192 bn=64 c=n_major b=k_major",
            "bm=192 bn=192 schedule=(cluster=2) b=k_major out=f32",
            "bm=112 bn=192",
        ],
        6,
    ) {
        check_numbers(&format!("dtype=bf16 arch=90 a=k_major {keys}"), &sizes(8));
    }
    check("dtype=bf16 arch=90 bm=96 bn=192 a=k_major b=k_major schedule=(cluster=2)", &[[200, 400, 136]], 3);
}

/// Operands that are not k_major, as tiles that whole swizzles of 128 bytes do not divide, and shared by blocks of a cluster.
#[test]
fn columns_of_any_width() {
    for keys in sweep::share(["bm=160 bn=128 b=k_major", "bm=48 bn=64", "bm=64 bn=96 c=n_major a=k_major"], 6)
    {
        check_with(&format!("dtype=bf16 arch=90 {keys}"), &[[200, 136, 136]], 8, 1);
    }
    for keys in sweep::share(["bm=192 bn=64 b=k_major", "bm=64 bn=96 c=n_major a=k_major", "bm=32 bn=128"], 6)
    {
        check_with(&format!("dtype=bf16 arch=90 schedule=(cluster=2) {keys}"), &[[200, 264, 136]], 8, 3);
    }
}

#[test]
fn clusters_of_four() {
    for keys in sweep::share(
        ["bm=160 bn=64 a=k_major b=k_major", "bm=64 bn=64 b=k_major", "bm=128 bn=128 c=n_major"],
        6,
    ) {
        check_with(
            &format!("dtype=bf16 arch=90 schedule=(cluster=4) {keys}"),
            &[[200, 328, 136], [264, 72, 8]],
            8,
            3,
        );
    }
}

/// The blocks of a cluster split K; some have no part of it.
#[test]
fn blocks_of_a_cluster_split_k() {
    for keys in sweep::share(
        [
            "dtype=bf16 bm=64 bn=64 schedule=(split_k=8) b=k_major",
            "dtype=f16 bm=64 bn=128 schedule=(split_k=4) c=n_major bias=columns a=k_major",
            "dtype=f16 bm=64 bn=16 schedule=(split_k=8) c=n_major bias=columns",
            "dtype=f16 b_dtype=i4 bm=48 bn=64 schedule=(split_k=8) b=k_major c=n_major bias=rows",
            "dtype=bf16 bm=64 bn=64 schedule=(split_k=2) out=f32 alpha_beta=true bias=columns a=k_major b=k_major",
            "dtype=e4m3 bm=64 bn=64 schedule=(split_k=2) a=k_major b=k_major out=bf16",
            "dtype=bf16 bm=128 bn=128 schedule=(split_k=2) b=k_major bias=rows alpha_beta=true",
            "dtype=bf16 bm=128 bn=64 schedule=(split_k=4) c=n_major",
            // Accumulators need more memory than the ring that they replace.
            "dtype=bf16 bm=256 bn=128 schedule=(split_k=2) stages=2 a=k_major b=k_major",
            "dtype=bf16 bm=64 bn=64 schedule=(split_k=2) batched=true bias=rows alpha_beta=true",
            "dtype=f16 bm=128 bn=32 schedule=(split_k=4) batched=true c=n_major a=k_major residual=after",
            "precision=f32x3 bm=64 bn=64 schedule=(split_k=2) a=k_major b=k_major",
            "precision=f32x3 bm=64 bn=32 schedule=(split_k=4) c=n_major batched=true a=k_major b=k_major",
            "dtype=bf16 b_dtype=i8 bm=64 bn=64 schedule=(split_k=2) b=k_major",
            "dtype=f16 b_dtype=u4 bm=64 bn=128 schedule=(split_k=4) b=k_major out=f32 group_size=32 zeros=true batched=true",
        ],
        15,
    ) {
        let elements = if keys.contains("e4m3") { 16 } else { 8 };
        let mut sizes = sizes(elements);
        // As many rows as columns would not tell a bias of rows from one of columns.
        (sizes[0].0[0], sizes[0].0[2]) = (256, 9 * sizes[0].0[2]);
        sizes[1].0[0] += 16;
        check_numbers(&format!("{keys} arch=90"), &sizes);
    }
    let seeds = sweep::count(2, 5) as u32;
    check(
        "dtype=bf16 arch=90 bm=64 bn=64 schedule=(split_k=4) a=k_major b=k_major",
        &[[72, 136, 1000]],
        seeds,
    );
}

/// Blocks of the grid divide the tiles of a last wave; some have no part of K.
#[test]
fn blocks_of_the_grid_split_k() {
    for (keys, [m, n]) in sweep::share(
        [
            ("dtype=bf16 bm=64 bn=64 schedule=(split_k=blocks(8)) b=k_major", [256, 128]),
            (
                "dtype=f16 bm=64 bn=128 schedule=(split_k=blocks(4)) c=n_major bias=columns a=k_major",
                [256, 128],
            ),
            (
                "dtype=bf16 bm=192 bn=192 schedule=(split_k=blocks(2)) out=f32 alpha_beta=true bias=rows",
                [192, 192],
            ),
            ("dtype=e4m3 bm=64 bn=64 schedule=(split_k=blocks(2)) a=k_major b=k_major out=bf16", [256, 128]),
            ("dtype=f16 bm=128 bn=64 schedule=(split_k=blocks(4) cluster=2) residual=after", [256, 128]),
            ("precision=f32x3 bm=48 bn=64 schedule=(split_k=blocks(3)) a=k_major b=k_major", [240, 128]),
            (
                "dtype=f16 b_dtype=u4 bm=64 bn=128 schedule=(split_k=blocks(16)) b=k_major out=f32 group_size=32 zeros=true",
                [256, 128],
            ),
        ],
        7,
    ) {
        let elements = if keys.contains("e4m3") { 16 } else { 8 };
        let mut sizes = sizes(elements);
        sizes[0].0 = [m, n, 9 * sizes[0].0[2]];
        sizes[1].0[0] += 16;
        check_numbers(&format!("{keys} arch=90"), &sizes);
    }
    let seeds = sweep::count(2, 5) as u32;
    check(
        "dtype=bf16 arch=90 bm=64 bn=64 schedule=(split_k=blocks(4)) a=k_major b=k_major",
        &[[72, 136, 1000]],
        seeds,
    );
}

/// Tiles whose rows and steps a warpgroup splits in two terms in one part or several, by vectors of any width.
#[test]
fn tiles_are_split_whole() {
    for keys in sweep::share(
        ["bn=16 bk=16", "bn=80 bk=8", "bn=48 bk=24", "bn=64 bk=24", "bn=96 bk=16", "bn=16 bk=8"],
        6,
    ) {
        let keys = format!("precision=f32x3 arch=90 mma=wgmma bm=64 a=k_major b=k_major c=n_major {keys}");
        check_numbers(&keys, &sizes(4));
    }
}

/// A slot is filled again once the product that reads it is done.
#[test]
fn rings_of_one_slot() {
    for keys in sweep::share(
        [
            "dtype=bf16 bm=64 bn=64 c=n_major",
            "dtype=f16 bm=64 bn=128 schedule=(ping_pong=true) alpha_beta=true",
            "dtype=bf16 bm=64 bn=128 schedule=(cluster=2) bias=rows a=k_major",
            "dtype=f16 bm=64 bn=64 schedule=(split_k=2) c=n_major",
            "dtype=i8 bm=128 bn=64 a=k_major b=k_major",
            "dtype=e4m3 bm=64 bn=64 out=bf16 a=k_major b=k_major",
            "dtype=e4m3 scales=blocks bm=64 bn=64 a=k_major b=k_major",
            "precision=f32x3 bm=64 bn=64 a=k_major b=k_major",
            "dtype=bf16 b_dtype=i8 bm=64 bn=64 b=k_major",
        ],
        9,
    ) {
        let elements = if keys.contains("e4m3") || keys.contains("i8 bm=128") { 16 } else { 8 };
        check_numbers(&format!("{keys} stages=1 arch=90 mma=wgmma"), &sizes(elements));
    }
    check(
        "dtype=bf16 arch=90 bm=64 bn=64 stages=1 schedule=(cluster=2) a=k_major b=k_major",
        &[[200, 136, 200]],
        5,
    );
}

#[test]
fn one_block_without_a_cluster() {
    check(
        "dtype=bf16 arch=90 bm=64 bn=96 c=n_major schedule=(cluster=1) a=k_major b=k_major",
        &[[200, 104, 72]],
        3,
    );
    check("dtype=bf16 arch=90 bm=96 bn=64 schedule=(cluster=1) a=k_major b=k_major", &[[104, 200, 72]], 3);
}

#[test]
fn beta_times_c_is_added() {
    check("dtype=bf16 arch=90 bm=64 bn=128 c=n_major alpha_beta=true", &[[72, 136, 72]], 3);
}

#[test]
fn leading_dimensions_of_c_that_bulk_copies_cannot_take() {
    let keys = "dtype=bf16 arch=90 bm=64 bn=64 a=k_major b=k_major";
    // Odd leading dimensions: the epilogue stores element by element from threads.
    check(keys, &[[133, 70, 72], [134, 70, 72]], 2);
}

/// Bulk stores write groups of 16 bytes, and rows of C end inside one: threads store them.
#[test]
fn rows_of_c_that_end_inside_a_group_of_16_bytes() {
    let keys = "dtype=bf16 arch=90 bm=64 bn=64 a=k_major b=k_major";
    check_with(keys, &[[130, 70, 66]], 6, 2);
    check_with(&format!("{keys} c=n_major"), &[[70, 130, 66]], 6, 2);
}

#[test]
fn ping_pong_warpgroups() {
    let keys = "dtype=bf16 arch=90 bm=64 bn=64 schedule=(ping_pong=true) a=k_major b=k_major";
    check(keys, &[[300, 136, 136], [72, 64, 64]], 5);
    check_with(
        "dtype=bf16 arch=90 bm=128 bn=64 c=n_major schedule=(cluster=1 ping_pong=true) stages=2",
        &[[264, 200, 200]],
        8,
        2,
    );
}

/// Products of whole and of random numbers. Every variant runs for some size.
#[track_caller]
fn check_numbers(keys: &str, sizes: &[([usize; 3], usize)]) {
    let kernel = kernel(keys);
    assert!(kernel.variants[0].source.contains("wgmma"), "{keys}");
    let mut ran = vec![false; kernel.variants.len()];
    for (at, &size) in sizes.iter().enumerate() {
        let limits = Limits { multiprocessors: 2, ..Limits::HOPPER };
        let options = Options { seed: at as u64 + 1, limits, ..Options::default() };
        let variants = run(&kernel, keys, size, [Values::Whole, Values::Any][at % 2], &options);
        variants.into_iter().for_each(|variant| ran[variant] = true);
    }
    let idle: Vec<usize> = (0..ran.len()).filter(|&at| !ran[at]).map(|at| at + 1).collect();
    assert!(idle.is_empty(), "{keys}: variants {idle:?} of {} never ran", ran.len());
}

/// Whole tiles; sizes that tiles do not divide, whose rows bulk copies take; a C whose rows they do not; rows
/// that they do not take at all.
fn sizes(elements: usize) -> [([usize; 3], usize); 4] {
    [
        ([128, 128, 8 * elements], 0),
        ([8 * elements + 16, 144, 11 * elements], 16),
        ([72, 132, 3 * elements], 0),
        ([37, 41, 45], 1),
    ]
}

#[test]
fn tf32_into_either_type_of_32_bits() {
    for keys in sweep::share(
        [
            "bm=128 bn=64",
            "bm=128 bn=64 c=n_major",
            "bm=64 bn=64 out=tf32",
            "bm=64 bn=80 out=bf16 c=n_major",
            "bm=64 bn=128 alpha_beta=true c=n_major",
        ],
        6,
    ) {
        check_numbers(&format!("dtype=tf32 arch=90 a=k_major b=k_major {keys}"), &sizes(4));
    }
}

#[test]
fn bytes_into_wide_sums() {
    let tiles = ["bm=64 bn=64 c=n_major", "bm=32 bn=64 stages=2", "bm=128 bn=48 c=n_major"];
    let types = [
        "dtype=e4m3",
        "dtype=e5m2 out=bf16",
        "dtype=i8",
        "dtype=u8",
        "dtype=e4m3 out=f16",
        "dtype=i8 out=f32",
    ];
    for (at, types) in sweep::share(types.into_iter().enumerate(), 3) {
        let tile = tiles[at % tiles.len()];
        check_numbers(&format!("{types} arch=90 a=k_major b=k_major {tile}"), &sizes(16));
    }
}

#[test]
fn other_types_of_the_result() {
    for keys in sweep::share(
        [
            "dtype=bf16 out=f32 bm=64 bn=64 a=k_major",
            "dtype=f16 out=f32 bm=128 bn=64 c=n_major alpha_beta=true",
            "dtype=bf16 out=f16 bm=64 bn=64 b=k_major",
            "dtype=f16 out=f32 bm=64 bn=64 schedule=(ping_pong=true cluster=2) a=k_major b=k_major",
        ],
        6,
    ) {
        check_numbers(&format!("{keys} arch=90"), &sizes(8));
    }
}

/// Steps of a part of a swizzled row of 128 bytes, of several, and of neither.
#[test]
fn steps_of_any_length() {
    // Every step is a part of it.
    let whole = |elements: usize| {
        let mut sizes = sizes(elements);
        sizes[0].0[2] = 768;
        sizes
    };
    for keys in sweep::share(
        [
            "dtype=bf16 bm=64 bn=64 bk=32 a=k_major b=k_major",
            "dtype=bf16 bm=64 bn=128 bk=128 c=n_major a=k_major b=k_major",
            "dtype=f16 bm=64 bn=64 bk=48 b=k_major schedule=(cluster=2)",
            "dtype=bf16 bm=64 bn=64 bk=16 schedule=(cluster=2)",
            "dtype=bf16 bm=32 bn=64 bk=96 schedule=(ping_pong=true) a=k_major out=f32",
            "dtype=f16 bm=64 bn=64 bk=128 schedule=(split_k=2) a=k_major b=k_major",
        ],
        6,
    ) {
        check_numbers(&format!("{keys} mma=wgmma arch=90"), &whole(8));
    }
    for keys in sweep::share(
        [
            "dtype=tf32 bm=64 bn=64 bk=16",
            "dtype=i8 bm=128 bn=64 bk=256 c=n_major",
            "dtype=e4m3 bm=64 bn=64 bk=64 out=bf16",
            "precision=f32x3 bm=64 bn=64 bk=16",
            "dtype=bf16 b_dtype=i8 bm=64 bn=64 bk=32",
            "dtype=f16 b_dtype=u4 bm=64 bn=64 bk=128 group_size=32 zeros=true",
            "dtype=bf16 b_dtype=u8 bm=64 bn=64 bk=96 group_size=64 c=n_major",
        ],
        6,
    ) {
        check_numbers(&format!("{keys} mma=wgmma arch=90 a=k_major b=k_major"), &whole(16));
    }
}

/// Results of 8 and of 64 bits, along rows and along columns of wgmma's result.
#[test]
fn results_of_any_width() {
    for keys in sweep::share(
        [
            "dtype=i8 out=i8 bm=64 bn=64",
            "dtype=u8 out=u8 bm=128 bn=32 c=n_major alpha_beta=true",
            "dtype=e4m3 out=e4m3 bm=64 bn=128 bias=rows",
            "dtype=bf16 out=f64 bm=64 bn=64 residual=before",
            "dtype=f16 out=f64 bm=128 bn=32 c=n_major schedule=(cluster=2)",
            "dtype=i8 out=i8 bm=64 bn=128 schedule=(ping_pong=true) batched=true",
            "precision=f32x3 out=f64 bm=64 bn=64",
            "dtype=bf16 out=e5m2 bm=64 bn=64 schedule=(split_k=2) c=n_major",
            "dtype=bf16 b_dtype=i8 out=f32 bm=64 bn=64 c=n_major",
            "dtype=f16 b_dtype=i8 out=f64 bm=64 bn=64 c=n_major bias=columns",
            "dtype=f16 b_dtype=i8 out=e4m3 bm=64 bn=128",
            "dtype=bf16 b_dtype=i4 out=e4m3 bm=32 bn=128 c=n_major",
        ],
        6,
    ) {
        let mut sizes = sizes(16);
        // As many rows as columns would not tell a bias of rows from one of columns.
        sizes[0].0[0] *= 2;
        sizes[1].0[0] += 16;
        check_numbers(&format!("{keys} mma=wgmma arch=90 a=k_major b=k_major"), &sizes);
    }
}

/// Three warpgroups, whose registers also hold other sums or converted elements.
#[test]
fn three_warpgroups_with_further_registers() {
    for keys in sweep::share(
        [
            "precision=f32x3 bm=192 bn=48 c=n_major",
            "dtype=e4m3 bm=192 bn=64 c=n_major out=bf16",
            "dtype=bf16 b_dtype=i8 bm=64 bn=192",
        ],
        6,
    ) {
        let mut sizes = sizes(16);
        (sizes[0].0[0], sizes[0].0[1]) = (192, 384);
        check_numbers(&format!("{keys} mma=wgmma arch=90 a=k_major b=k_major"), &sizes);
    }
}

#[test]
fn tiles_of_every_default_size() {
    for tile in sweep::share(["bm=128 bn=192 c=n_major", "bm=256 bn=128 c=n_major", "bm=192 bn=128"], 6) {
        check_numbers(&format!("dtype=bf16 arch=90 a=k_major {tile}"), &sizes(8));
    }
}

#[test]
fn batches_are_a_third_mode_of_tensor_maps() {
    for keys in sweep::share(
        [
            "dtype=bf16 bm=64 bn=64",
            "dtype=f16 bm=64 bn=64 c=n_major a=k_major b=k_major schedule=(cluster=2) out=f32",
            "dtype=bf16 bm=64 bn=64 schedule=(ping_pong=true band=1) a=k_major alpha_beta=true",
            "dtype=e4m3 bm=64 bn=64 a=k_major b=k_major out=bf16",
        ],
        6,
    ) {
        let elements = if keys.contains("e4m3") { 16 } else { 8 };
        check_numbers(&format!("{keys} arch=90 batched=true"), &sizes(elements));
    }
}

/// A number for each row or column of C: along wgmma's rows or columns, by the order of C.
#[test]
fn a_bias_is_added_and_scales_multiply() {
    for keys in sweep::share(
        [
            "dtype=bf16 bm=128 bn=32 b=k_major c=n_major bias=columns",
            "dtype=bf16 bm=64 bn=128 bias=rows",
            "dtype=f16 bm=256 bn=64 c=n_major bias=rows a=k_major",
            "dtype=bf16 bm=64 bn=64 out=f32 bias=columns b=k_major alpha_beta=true",
            "dtype=tf32 bm=128 bn=64 a=k_major b=k_major c=n_major bias=columns",
            "dtype=e4m3 bm=64 bn=64 a=k_major b=k_major out=bf16 bias=rows batched=true",
            "dtype=i8 bm=64 bn=64 a=k_major b=k_major bias=columns",
            "dtype=e4m3 bm=64 bn=64 a=k_major b=k_major out=bf16 scales=both",
            "dtype=e4m3 bm=128 bn=64 a=k_major b=k_major c=n_major out=bf16 scales=rows bias=columns fast_accum=true",
            "dtype=bf16 bm=64 bn=64 out=f32 scales=columns alpha_beta=true",
            "dtype=bf16 bm=64 bn=64 schedule=(ping_pong=true cluster=2) a=k_major b=k_major bias=rows alpha_beta=true batched=true",
        ],
        6,
    ) {
        let elements = if keys.contains("a=k_major b=k_major") { 16 } else { 8 };
        let mut sizes = sizes(elements);
        // As many rows as columns would not tell a bias of rows from one of columns.
        sizes[0].0[0] *= 2;
        sizes[1].0[0] += 16;
        check_numbers(&format!("{keys} arch=90"), &sizes);
    }
}

/// Scales of blocks of 128 along K, in both orders of C, with tiles that are a part of a block of columns.
#[test]
fn blocks_have_scales() {
    for keys in sweep::share(
        [
            "bm=64 bn=128 c=n_major",
            "bm=256 bn=64 out=bf16",
            "bm=64 bn=32 out=bf16 bias=rows alpha_beta=true",
            "bm=128 bn=16 c=n_major out=f16 batched=true",
            "bm=64 bn=64 schedule=(cluster=2)",
            "bm=64 bn=64 schedule=(ping_pong=true) c=n_major out=bf16",
            "bm=64 bn=64 schedule=(split_k=2) out=bf16",
            "bm=64 bn=64 schedule=(split_k=4) c=n_major",
        ],
        8,
    ) {
        let mut sizes = sizes(16).to_vec();
        // With equal numbers of rows and columns, scales of rows and of columns could be confused.
        sizes[0].0[0] *= 2;
        // Whole iterations of eight steps, whose scales are all within K.
        sizes[0].0[2] = 1024;
        if keys.contains("bn=32") {
            // Iterations of two steps after iterations of eight, and a last step without any product.
            sizes.extend([([40, 144, 1312], 16), ([36, 16, 1104], 0)]);
        }
        let types = if keys.contains("cluster") { "e5m2" } else { "e4m3" };
        check_numbers(&format!("dtype={types} scales=blocks arch=90 a=k_major b=k_major {keys}"), &sizes);
    }
}

/// A warpgroup splits the right operand, consumers the left one.
#[test]
fn operands_in_two_terms() {
    for keys in sweep::share(
        [
            "bm=64 bn=64",
            "bm=128 bn=128 c=n_major bias=columns",
            "bm=128 bn=64 stages=2 alpha_beta=true",
            "bm=64 bn=128 schedule=(cluster=2) batched=true c=n_major out=bf16",
        ],
        6,
    ) {
        let mut sizes = sizes(4);
        sizes[0].0[0] *= 2;
        check_numbers(&format!("precision=f32x3 arch=90 a=k_major b=k_major {keys}"), &sizes);
    }
}

#[test]
fn sums_of_bytes_stay_in_tensor_cores_where_asked() {
    for keys in sweep::share(
        ["dtype=e4m3 bm=128 bn=144 c=n_major", "dtype=e5m2 bm=64 bn=64 schedule=(ping_pong=true) out=f16"],
        6,
    ) {
        check_numbers(&format!("{keys} arch=90 a=k_major b=k_major fast_accum=true"), &sizes(16));
    }
    // Promoted sums: even and odd numbers of steps.
    let keys = "dtype=e4m3 bm=64 bn=64 arch=90 a=k_major b=k_major";
    let long = [([72, 80, 2048], 0), ([40, 72, 1312], 16), ([33, 36, 1424], 0), ([17, 18, 1035], 1)];
    check_numbers(keys, &long);
    let source = |fast: bool| {
        let keys = "dtype=e4m3 arch=90 a=k_major b=k_major bm=64 bn=64 fast_accum=";
        gallery::matmul(&format!("{keys}{fast}")).kernel.unwrap().variants.swap_remove(0).source
    };
    assert!(source(false).contains("part[") && !source(true).contains("part["));
}
