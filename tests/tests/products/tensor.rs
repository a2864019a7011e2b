//! Products by mma.sync in the simulator, compared with double precision: types, operand orders, tiles,
//! warps, stages, sizes that tiles do not divide, and leading dimensions that rule out vectors.

use tilewright_codegen::launch::{Limits, plan};
use tilewright_codegen::words::{Kernels as _, Words};
use tilewright_codegen::{Elem, Generated};
use tilewright_sim::{Options, run_every};
use tilewright_tests::problem::{Finish, Problem, Setting, Values};
use tilewright_tests::sweep;
use tilewright_tests::tensor::Padding;

pub(crate) fn kernel(keys: &str) -> Generated {
    Words::read(keys).and_then(|words| words.matmul()).unwrap_or_else(|why| panic!("{keys}: {why}"))
}

/// M, N, K, and the padding of every leading dimension.
pub(crate) type Size = ([usize; 3], usize);

/// Whole tiles, partial tiles, and sizes at which copies are narrow.
pub(crate) const SIZES: [Size; 5] =
    [([128, 128, 64], 0), ([72, 136, 48], 8), ([130, 70, 46], 2), ([67, 33, 45], 1), ([1, 1, 1], 0)];

/// Runs every variant that accepts a size; returns which did.
#[track_caller]
pub(crate) fn check(keys: &str, sizes: &[Size]) -> Vec<bool> {
    let kernel = kernel(keys);
    let mut ran = vec![false; kernel.variants.len()];
    for &([m, n, k], gap) in sizes {
        let sizes: &[(&str, usize)] = &[("M", m), ("N", n), ("K", k), ("L", 2)];
        let paddings = &[Padding::new(gap, 0)];
        let setting = Setting { sizes, paddings, values: Values::Whole, seed: 1, alpha: 0.5, beta: 2.0 };
        let problem = Problem::of(&kernel, &setting).finished(Values::Whole, &Finish::of(keys));
        let outcomes = run_every(&kernel, &problem.args(), &Options::default())
            .unwrap_or_else(|error| panic!("{keys}, {sizes:?}: {error}"));
        for outcome in outcomes {
            let wrong = problem.wrong_outcome(&outcome);
            assert!(wrong.is_none(), "{keys}, {sizes:?}, variant {}: {wrong:?}", outcome.variant() + 1);
            ran[outcome.variant()] = true;
        }
    }
    ran
}

/// The same; asserts that every variant uses mma.sync and has run.
#[track_caller]
pub(crate) fn check_all(keys: &str) {
    let ran = check(keys, &SIZES);
    let kernel = kernel(keys);
    for (at, variant) in kernel.variants.iter().enumerate() {
        assert!(variant.source.contains("mma.sync"), "{keys}: variant {} has no tensor cores", at + 1);
        // The last variant is for offsets of more than 32 bits.
        assert!(ran[at] || at + 1 == ran.len(), "{keys}: variant {} never ran", at + 1);
    }
}

pub(crate) const ORDERS: [&str; 8] = [
    "",
    "a=k_major",
    "b=k_major",
    "a=k_major b=k_major",
    "c=n_major",
    "a=k_major c=n_major",
    "b=k_major c=n_major",
    "a=k_major b=k_major c=n_major",
];

#[test]
fn bf16_in_every_order() {
    ORDERS.into_iter().for_each(|order| check_all(&format!("dtype=bf16 bm=64 bn=64 stages=3 {order}")));
}

#[test]
fn other_types_in_every_order() {
    for order in ORDERS {
        check_all(&format!("dtype=f64 bm=64 bn=32 {order}"));
        check_all(&format!("dtype=i8 bm=64 bn=32 mma=mma_sync {order}"));
    }
    check_all("dtype=u8 bm=64 bn=32 a=k_major b=k_major");
    check_all("dtype=f16 bm=64 bn=32 b=k_major");
}

#[test]
fn tf32_in_every_order() {
    ORDERS.into_iter().for_each(|order| check_all(&format!("dtype=tf32 bm=64 bn=32 {order}")));
}

#[test]
fn f32_on_tensor_cores() {
    for order in ORDERS {
        check_all(&format!("precision=f32x3 bm=64 bn=32 {order}"));
    }
    check_all("precision=tf32 bm=64 bn=32 b=k_major");
    check_all("precision=f32x3 bm=64 bn=32 alpha_beta=true batched=true");
}

/// Rows that begin anywhere: all default variants. Many split K over the blocks of a cluster.
#[test]
fn single_elements_of_four_bytes() {
    let sizes = [([67, 33, 45], 1), ([130, 70, 1035], 1), ([1, 1, 1], 0)];
    for keys in sweep::share(
        [
            "dtype=tf32",
            "dtype=tf32 a=k_major bias=rows batched=true",
            "precision=tf32 c=n_major alpha_beta=true",
            "precision=f32x3",
            "precision=f32x3 a=k_major b=k_major",
            "precision=f32x3 b=k_major c=n_major residual=after",
        ],
        3,
    ) {
        let keys = format!("arch=90 {keys}");
        let (ran, kernel) = (check(&keys, &sizes), kernel(&keys));
        let copies = |at: &usize| ran[*at] && kernel.variants[*at].source.contains("cp_async_4");
        assert!((0..ran.len()).filter(copies).count() > 2, "{keys}: no variants copy single elements");
    }
}

#[test]
fn floats_of_eight_bits() {
    for order in ORDERS {
        check_all(&format!("dtype=e4m3 arch=89 bm=64 bn=32 mma=mma_sync {order}"));
    }
    // auto takes tensor cores where both operands are K-major.
    check_all("dtype=e5m2 arch=89 bm=64 bn=32 a=k_major b=k_major");
    check_all("dtype=e4m3 arch=89 bm=64 bn=32 a=k_major b=k_major out=bf16 c=n_major");
    // Sums in f16 are exact only for a short K.
    let keys = "dtype=e4m3 arch=89 bm=64 bn=32 a=k_major b=k_major acc=f16";
    check(keys, &[([64, 32, 24], 0), ([67, 33, 13], 1)]);
}

/// Sums of each step are promoted, times the scales of its block of 128 along K.
#[test]
fn blocks_have_scales() {
    let sizes = [([128, 136, 256], 0), ([72, 48, 200], 8), ([33, 70, 45], 1)];
    for keys in sweep::share(
        [
            "arch=89 a=k_major b=k_major bm=64 bn=64",
            "arch=89 a=k_major b=k_major c=n_major out=bf16 bm=64 bn=128 bk=128",
            "arch=90 mma=mma_sync bm=32 bn=32 bk=32 c=n_major alpha_beta=true bias=columns",
            "arch=89 mma=mma_sync bm=64 bn=32 batched=true b=k_major out=f16",
        ],
        4,
    ) {
        check(&format!("dtype=e4m3 scales=blocks {keys}"), &sizes);
    }
}

/// C has the type of the accumulators if the type of the operands cannot represent them.
#[test]
fn the_usual_type_of_the_result() {
    for (keys, wanted) in sweep::share(
        [
            ("dtype=tf32", Elem::F32),
            ("dtype=e4m3 arch=89", Elem::F32),
            ("dtype=e5m2 arch=89 acc=f16", Elem::F16),
            ("dtype=i8", Elem::I32),
            ("dtype=bf16", Elem::Bf16),
            ("dtype=tf32 out=tf32", Elem::Tf32),
        ],
        4,
    ) {
        let kernel = kernel(keys);
        let c = kernel.params.iter().find(|param| param.name == "c").expect("a result");
        assert_eq!(c.elem, wanted, "{keys}");
    }
}

#[test]
fn every_instruction_of_f64() {
    for row in sweep::share(["mma_m8n8k4_f64", "mma_m16n8k4_f64", "mma_m16n8k8_f64", "mma_m16n8k16_f64"], 4) {
        check(&format!("dtype=f64 arch=90 bm=32 bn=32 mma={row}"), &[([40, 72, 33], 0), ([64, 64, 32], 0)]);
    }
}

/// On architectures with bulk copies, those fill a ring for aligned operands that ldmatrix reads.
#[test]
fn fed_by_bulk_copies() {
    let sizes = [([192, 128, 128], 0), ([72, 136, 48], 8), ([160, 80, 208], 16)];
    for keys in sweep::share(
        [
            "dtype=bf16",
            "dtype=bf16 a=k_major",
            "dtype=bf16 b=k_major c=n_major",
            "dtype=bf16 a=k_major b=k_major bk=32 alpha_beta=true",
            "dtype=f16 a=k_major b=k_major c=n_major bias=rows epilogue=|x|x+1.0-1.0",
            "dtype=bf16 a=k_major b=k_major bias=columns bk=128",
            "dtype=bf16 a=k_major b=k_major scales=both c=n_major",
            "dtype=bf16 scales=rows bm=64 bn=64 bk=32",
            "dtype=bf16 a=k_major b=k_major batched=true bm=64 bn=96 stages=3",
            "dtype=bf16 a=k_major b=k_major batched=true out=f32 alpha_beta=true",
            "dtype=i8 a=k_major b=k_major",
            "dtype=e4m3 a=k_major b=k_major out=bf16",
            "dtype=tf32 a=k_major b=k_major bm=128",
            "dtype=f32 precision=f32x3 a=k_major b=k_major bm=64 bn=32",
            "dtype=bf16 a=k_major b=k_major bm=128 bn=256 warps=8",
            "dtype=bf16 warps=((2,2),2) bm=128 bn=64",
            "dtype=bf16 b_dtype=i8 a=k_major b=k_major",
            "dtype=f16 b_dtype=e4m3 b=k_major out=f32 c=n_major",
        ],
        4,
    ) {
        let tile = if keys.contains("bm=") { "" } else { "bm=64 bn=64 " };
        let keys = format!("{tile}arch=90 mma=mma_sync {keys}");
        let sources: Vec<String> = kernel(&keys).variants.into_iter().map(|variant| variant.source).collect();
        assert!(sources[0].contains("bulk_load") && sources[0].contains("mma.sync"), "{keys}: no ring");
        let mut ran = sources.iter().zip(check(&keys, &sizes));
        assert!(ran.any(|(source, ran)| ran && source.contains("bulk_load")), "{keys}: the ring never ran");
    }
    // Not where fragments would be loaded element by element, with bank conflicts.
    for keys in
        sweep::share(["dtype=f64", "dtype=i8", "dtype=tf32", "dtype=bf16 b_dtype=i8 out=f32 a=k_major"], 4)
    {
        let keys = format!("arch=90 mma=mma_sync bm=64 bn=32 {keys}");
        assert!(!kernel(&keys).variants[0].source.contains("bulk_load"), "{keys}");
    }
}

/// A launch chooses among tiles, and every one of them is right.
#[test]
fn tiles_that_are_chosen_at_launch() {
    // Whole tiles of 256 and of 192, and sizes that no tile divides.
    let sizes = [
        ([256, 128, 128], 0),
        ([192, 128, 128], 0),
        ([72, 136, 48], 8),
        ([65, 72, 48], 0),
        ([130, 70, 46], 2),
        ([67, 33, 45], 1),
    ];
    for keys in sweep::share(
        [
            "dtype=bf16 arch=80 a=k_major b=k_major",
            "dtype=tf32 arch=80 b=k_major",
            "dtype=f64 arch=90",
            "dtype=tf32 arch=90",
            "dtype=i8 arch=80 a=k_major b=k_major",
        ],
        5,
    ) {
        let ran = check(keys, &sizes);
        let most = ran.len() - 1;
        assert!(most > 5 && ran[..most].iter().filter(|ran| **ran).count() >= most - 1, "{keys}: {ran:?}");
    }
}

/// Products in f32 on CUDA cores too, where no key is about tiles or threads.
#[test]
fn tiles_of_f32_that_are_chosen_at_launch() {
    let sizes = sweep::share(
        [
            ([128, 256, 128], 0),
            ([64, 128, 128], 0),
            ([72, 136, 48], 0),
            ([65, 72, 48], 0),
            ([130, 70, 46], 2),
            ([67, 33, 45], 1),
        ],
        2,
    );
    for keys in sweep::share(
        [
            "arch=80",
            "arch=90",
            "arch=90 a=k_major alpha_beta=true",
            "arch=90 a=k_major b=k_major c=n_major bias=columns",
            "arch=90 batched=true",
        ],
        5,
    ) {
        check(keys, &sizes);
    }
}

/// Blocks of a launch on an H100.
fn blocks(kernel: &Generated, [m, n, k]: [usize; 3]) -> u32 {
    let sizes: &[(&str, usize)] = &[("M", m), ("N", n), ("K", k)];
    let paddings = &[Padding::new(0, 0)];
    let setting = Setting { sizes, paddings, values: Values::Whole, seed: 1, alpha: 1.0, beta: 0.0 };
    let problem = Problem::new(&kernel.variants[0].program.params, &setting, |_, _| Vec::new());
    plan(kernel, &problem.given(), &Limits::HOPPER).expect("a plan").grid.iter().product()
}

/// The choices of launches of products in f32: a tile, by its blocks and the blocks that split K.
#[test]
fn tiles_of_f32_by_sizes() {
    let cases = [
        ([4096, 4096, 4096], 32 * 16),
        ([1000, 1000, 1000], 8 * 16),
        ([512, 512, 512], 8 * 16),
        ([256, 256, 4096], 4 * 8 * 8),
        ([16, 4096, 4096], 64 * 4),
        ([4096, 16, 4096], 64 * 4),
        ([768, 1280, 5120], 6 * 20),
        ([64, 4096, 4096], 128),
        ([1001, 1001, 1001], 8 * 16),
    ];
    let kernel = kernel("arch=90");
    for (sizes, blocks_of) in cases {
        assert_eq!(blocks(&kernel, sizes), blocks_of, "{sizes:?}");
    }
}

/// Few tiles are split over the blocks of clusters, where K is long.
#[test]
fn few_tiles_of_f64_split_k() {
    let kernel = kernel("dtype=f64 arch=90");
    let cases =
        [([72, 16, 12384], 48), ([16, 128, 7320], 64), ([752, 96, 13376], 96), ([168, 416, 5480], 80)];
    for (sizes, least) in cases {
        assert!(blocks(&kernel, sizes) >= least, "{sizes:?}");
    }
    assert!(blocks(&kernel, [72, 16, 64]) < 16);
}

#[test]
fn small_products_and_few_rows_have_small_tiles() {
    let family = kernel("dtype=bf16 arch=80 a=k_major b=k_major");
    // Tiles of 256x128 take 288 us on an H100, tiles of 128x128 take 309.
    assert_eq!(blocks(&family, [4096; 3]), 16 * 32);
    assert_eq!(blocks(&family, [1024; 3]), 16 * 16);
    assert!(blocks(&family, [512; 3]) >= 64);
    assert!(blocks(&family, [16, 4096, 4096]) >= 64);
    assert!(blocks(&family, [4096, 16, 4096]) >= 64);
    // Tiles of the author's choice are not replaced.
    assert_eq!(blocks(&kernel("dtype=bf16 bm=128 bn=128"), [512; 3]), 16);
}

#[test]
fn tiles_warps_and_stages() {
    for keys in sweep::share(
        [
            "",
            "bm=128 bn=128 bk=64 stages=3",
            "bm=64 bn=128 warps=8 stages=2",
            "bm=96 bn=48 warps=6 bk=48",
            "bm=128 bn=64 warps=(4,2) c=n_major",
            "bm=8 bn=16 bk=16 warps=1 stages=2",
            "bm=16 bn=8 bk=16 warps=1 stages=2 c=n_major",
            "bm=40 bn=32 stages=1",
        ],
        4,
    ) {
        let keys = format!("dtype=bf16 arch=80 {keys}");
        check(&keys, &[([136, 72, 136], 0), ([131, 67, 45], 0)]);
    }
}

/// Rows that are padded leave shared memory for fewer stages.
#[test]
fn stages_of_padded_tiles() {
    check("dtype=i8 out=i8 arch=89 bm=72 bn=48 bk=128 b=k_major", &SIZES);
}

/// As many warps as a tile without an even number of parts needs for its sums.
#[test]
fn warps_of_tiles_of_odd_extents() {
    let kernel = kernel("dtype=f16 bm=104 bn=80 bk=32 a=k_major c=n_major");
    assert_eq!(kernel.variants[0].program.launch.threads, 5 * 32);
    check("dtype=f16 bm=104 bn=80 bk=32 a=k_major c=n_major", &SIZES);
}

/// Few rows: warps share K, and their sums are added in shared memory; rows from which bulk copies load, and others.
#[test]
fn warps_share_k() {
    for keys in sweep::share(
        [
            "dtype=bf16 b_dtype=i8 out=f32 bk=64 warps=(1,1,4)",
            "dtype=bf16 b_dtype=i8 c=n_major bk=64 warps=(1,1,4)",
            "dtype=f16 b_dtype=u8 out=f32 bk=128 warps=(1,2,4) arch=90",
            "dtype=bf16 b_dtype=i8 bk=256 warps=(1,1,8) arch=90 c=n_major",
            "dtype=bf16 b_dtype=i8 bk=256 warps=(1,1,8) arch=90 alpha_beta=true bias=rows",
            "dtype=bf16 out=f32 bk=128 warps=(1,1,4) arch=90 mma=mma_sync",
        ],
        4,
    ) {
        let keys = format!("a=k_major b=k_major bm=16 bn=32 stages=2 {keys}");
        let ran = check(&keys, &[([16, 64, 512], 0), ([13, 40, 144], 16), ([33, 31, 45], 1)]);
        assert!(ran[0], "{keys}");
        let ring = kernel(&keys).variants[0].source.contains("bulk_load");
        assert_eq!(ring, keys.contains("arch=90"), "{keys}");
    }
}

/// The memory of the operands' tiles has no room for the sums of all parts of K at once: one part after the other, or two.
#[test]
fn sums_of_parts_of_k_take_turns() {
    for (keys, [m, n], len) in sweep::share(
        [
            ("dtype=bf16 arch=86 mma=mma_sync bk=32 warps=(2,2,2) out=f32", [128, 128], 128 * 128),
            ("dtype=i8 bk=128 warps=(1,4,4)", [104, 128], 2 * 128 * 104),
            ("dtype=f16 b_dtype=i4 arch=90 bk=64 warps=8 c=n_major bias=rows", [144, 96], 144 * 96),
            (
                "precision=f32x3 arch=86 bk=32 warps=(2,1,2) alpha_beta=true c=n_major",
                [192, 64],
                2 * 192 * 64,
            ),
        ],
        4,
    ) {
        let keys = format!("a=k_major b=k_major {keys} bm={m} bn={n}");
        let ran = check(&keys, &[([m, n, 128], 0), ([72, 144, 96], 16), ([67, 33, 45], 1)]);
        assert!(ran[0], "{keys}");
        let kernel = kernel(&keys);
        let parts = kernel.variants[0].program.shared.iter().find(|of| of.name == "acc_parts").expect("sums");
        assert_eq!(parts.len, len, "{keys}");
    }
}

#[test]
fn wgmma_falls_back_to_mma_sync() {
    let keys = "dtype=bf16 arch=90 a=k_major b=k_major";
    let kernel = kernel(keys);
    assert!(kernel.variants[0].source.contains("wgmma"));
    // After the wgmma variants come those by mma.sync, for all sizes and addresses.
    let by_warps = kernel.variants.iter().skip_while(|variant| variant.source.contains("wgmma"));
    let by_warps: Vec<_> = by_warps.collect();
    assert!(by_warps.len() > 1 && by_warps.iter().all(|variant| variant.source.contains("mma.sync")));
    check(keys, &[([33, 17, 13], 0), ([33, 18, 14], 0)]);
}

/// Shared tiles of the usual kernels have no bank conflicts.
#[test]
fn usual_layouts_have_no_bank_conflicts() {
    for keys in sweep::share(
        [
            "dtype=bf16 arch=80",
            "dtype=f16 bk=64 stages=3",
            "dtype=f64 arch=80",
            "dtype=f64 arch=90",
            "dtype=i8 arch=80 a=k_major b=k_major",
        ],
        4,
    ) {
        for order in ORDERS {
            if keys.contains("a=") && order.contains("=k_major") {
                continue;
            }
            let report = kernel(&format!("{keys} {order}")).report;
            for access in &report.accesses {
                let conflicts = access.wavefronts.map_or(0, |(takes, least)| takes - least);
                assert_eq!(conflicts, 0, "{keys} {order}: {access:?}");
            }
        }
    }
}
