//! Products whose keys leave the architecture open: variants for the newest and for older ones in one list, from which a device
//! takes the variants that are made for it.

use tilewright_codegen::Generated;
use tilewright_codegen::launch::{Limits, plan};
use tilewright_codegen::words::{Kernels as _, Words};
use tilewright_sim::{Options, run};
use tilewright_tests::number::Random;
use tilewright_tests::problem::{Problem, Setting, Values};
use tilewright_tests::sweep;
use tilewright_tests::tensor::Padding;

fn kernel(keys: &str) -> Generated {
    Words::read(keys).and_then(|words| words.matmul()).unwrap_or_else(|why| panic!("{keys}: {why}"))
}

/// Arguments of these extents, with gaps between rows and addresses that are no multiples of 16 bytes.
fn problem(kernel: &Generated, [m, n, k]: [usize; 3], gap: usize) -> Problem {
    let sizes = &[("M", m), ("N", n), ("K", k), ("L", 2)];
    let paddings = &[Padding { gap, outer: gap, offset: gap }];
    let setting = Setting { sizes, paddings, values: Values::Whole, seed: 7, alpha: 1.0, beta: 2.0 };
    Problem::of(kernel, &setting)
}

/// Sizes of whole tiles, of parts of tiles, and of single rows and columns.
const SIZES: [([usize; 3], usize); 5] =
    [([256, 512, 128], 0), ([100, 36, 77], 1), ([1, 300, 33], 0), ([515, 1, 40], 3), ([63, 65, 1], 8)];

/// The variant that a device of an architecture runs, by its source, and its architecture.
fn taken(kernel: &Generated, (sizes, gap): ([usize; 3], usize), arch: u32) -> Result<(String, u32), String> {
    let problem = problem(kernel, sizes, gap);
    let plan = plan(kernel, &problem.given(), &Limits::of(arch)).map_err(|why| why.to_string())?;
    let variant = kernel.variant(plan.variant);
    Ok((variant.source.clone(), variant.program.arch))
}

/// Types, each with the architectures of its variants.
const TYPES: [(&str, &[u32]); 22] = [
    ("", &[90, 80]),
    ("out=bf16", &[90, 80]),
    ("dtype=bf16", &[90, 80]),
    ("dtype=bf16 a=k_major b=k_major", &[90, 80]),
    ("dtype=f16 c=n_major", &[90, 80]),
    ("dtype=f16 acc=f16", &[90, 80]),
    ("dtype=bf16 out=f32", &[90, 80]),
    ("dtype=tf32", &[90, 80]),
    ("dtype=tf32 a=k_major b=k_major", &[90, 80]),
    ("precision=tf32", &[90, 80]),
    ("precision=f32x3", &[90, 80]),
    ("precision=f32x3 a=k_major b=k_major", &[90, 80]),
    ("dtype=f64", &[90, 80]),
    ("dtype=i8", &[90, 80]),
    ("dtype=u8 a=k_major b=k_major", &[90, 80]),
    ("dtype=e4m3", &[90, 89, 80]),
    ("dtype=e5m2 a=k_major b=k_major out=bf16", &[90, 89, 80]),
    ("dtype=bf16 b_dtype=i4 b=k_major group_size=32", &[90, 80]),
    ("dtype=f16 b_dtype=e4m3", &[90, 80]),
    ("dtype=i32", &[80]),
    ("dtype=u32", &[80]),
    ("dtype=bf16 acc=bf16", &[80]),
];

#[test]
fn the_newest_architecture_comes_first_and_the_oldest_last() {
    for (keys, expected) in sweep::share(TYPES, 4) {
        let mut result: Vec<u32> = kernel(keys).variants.iter().map(|variant| variant.program.arch).collect();
        result.dedup();
        assert_eq!(result, expected, "{keys}");
    }
}

/// Tiles, threads, instructions and architectures make one kernel for one architecture.
#[test]
fn keys_about_tiles_choose_the_architecture() {
    for keys in [
        "bm=128 bn=128 bk=8 tc=(16,16)",
        "bm=64",
        "mma=none",
        "dtype=bf16 arch=80",
        "dtype=bf16 bm=64 bn=64",
        "dtype=bf16 warps=4",
        "dtype=bf16 stages=3",
        "dtype=bf16 schedule=(swizzle=none)",
        "dtype=bf16 mma=mma_sync",
    ] {
        let kernel = kernel(keys);
        assert!(kernel.variants.iter().all(|variant| variant.program.arch == 80), "{keys}");
    }
    let readable = kernel("bm=128 bn=128 bk=8 tc=(16,16)");
    assert!(readable.variants.iter().all(|variant| variant.program.launch.cost.is_none()));
    assert!(kernel("arch=80").variants.iter().any(|variant| variant.program.launch.cost.is_some()));
}

/// A device takes the variant that it would take if its architecture were a key.
#[test]
fn each_device_runs_the_kernel_of_its_architecture() {
    for (keys, architectures) in sweep::share(TYPES, 10) {
        let (open, oldest) = (kernel(keys), architectures.last().copied().unwrap_or_default());
        let of = |arch: u32| (arch, kernel(&format!("{keys} arch={arch}")));
        let pinned: Vec<(u32, Generated)> = architectures.iter().copied().map(of).collect();
        for at in SIZES {
            for device in [80, 86, 89, 90, 100, 120] {
                let (source, arch) =
                    taken(&open, at, device).unwrap_or_else(|why| panic!("{keys} {at:?} on {device}: {why}"));
                assert!(oldest <= arch && arch <= device, "{keys} on {device}: {arch}");
                // The newest variant that can run there.
                let mut made = pinned.iter().filter(|one| one.0 <= device);
                let expected = made.find_map(|one| taken(&one.1, at, device).ok()).unwrap();
                assert_eq!(source, expected.0, "{keys} {at:?} on {device}");
            }
        }
    }
}

/// Keys that do not set tiles: a variant for sm_80 without assumptions, whatever the other keys are.
#[test]
fn random_keys_without_tiles_have_a_variant_for_every_device() {
    for seed in sweep::share(0..60, 15) {
        let mut random = Random::new(seed);
        let (ty, _) = TYPES[random.word() as usize % TYPES.len()];
        let mut one = |of: &[&'static str]| of[random.word() as usize % of.len()];
        let mut keys = ty.to_owned();
        for key in [
            one(&["", "a=k_major"]),
            one(&["", "b=k_major"]),
            one(&["", "c=n_major"]),
            one(&["", "alpha_beta=true"]),
            one(&["", "", "batched=true"]),
            one(&["", "bias=rows", "bias=columns"]),
            one(&["", "residual=before", "residual=after"]),
            one(&["", "overlaps=true", "overlaps=false"]),
            one(&["", "epilogue=relu", "epilogue=relu aux=true"]),
            one(&["", "name=other"]),
        ] {
            let known = key.split('=').next().is_some_and(|name| keys.contains(&format!("{name}=")));
            if !key.is_empty() && !known {
                keys += &format!(" {key}");
            }
        }
        let kernel = kernel(&keys);
        for at in SIZES {
            for device in [80, 89, 90, 100] {
                taken(&kernel, at, device).unwrap_or_else(|why| panic!("{keys} {at:?} on {device}: {why}"));
            }
        }
        let general = kernel.variants.last().unwrap();
        assert_eq!(general.program.arch, 80, "{keys}");
        assert!(general.program.needs.is_empty(), "{keys}: {:?}", general.program.needs);
    }
}

/// The variant of each device computes the product.
#[test]
fn variants_of_all_architectures_compute_the_product() {
    // Sums of whole numbers are exact in these types.
    let exact = |(keys, _): &(&str, _)| !["precision", "acc="].iter().any(|key| keys.contains(key));
    for (keys, _) in sweep::share(TYPES.into_iter().filter(exact), 6) {
        let kernel = kernel(keys);
        for arch in [80, 90, 100] {
            let problem = problem(&kernel, [70, 33, 45], 1);
            let limits = Limits { multiprocessors: 2, ..Limits::of(arch) };
            let options = Options { limits, ..Options::default() };
            let outcome =
                run(&kernel, &problem.args(), &options).unwrap_or_else(|why| panic!("{keys}: {why}"));
            if let Some(wrong) = problem.wrong_outcome(&outcome) {
                panic!("{keys} on {arch}: {wrong}");
            }
        }
    }
}
