//! The choice of wgmma, its tiles, and its limits.

use tilewright_layout::Value as Size;

use crate::launch::definition::{Definition, Generated};
use crate::launch::{self, Given};
use crate::specialize::Generate;
use crate::values::elem::Elem;
use crate::words::{Kernels as _, Words};

/// Diagnostics of keys, or whether the first variant multiplies by wgmma.
fn made(keys: &str) -> Result<bool, String> {
    let outcome = Definition::Matmul(Words::read(keys).unwrap().args().to_vec()).generate();
    let errors: Vec<String> = outcome.diagnostics.iter().map(|error| error.text()).collect();
    outcome.kernel.map(|kernel| kernel.source().contains("wgmma")).ok_or_else(|| errors.join("\n"))
}

#[test]
fn auto_takes_tensor_cores_where_it_can() {
    const ROWS: &str = "dtype=bf16 arch=90 a=k_major b=k_major";
    assert_eq!(made(ROWS), Ok(true));
    assert_eq!(made(&format!("{ROWS} c=n_major bm=64 bn=96")), Ok(true));
    assert_eq!(made(&format!("{ROWS} mma=none")), Ok(false));
    assert_eq!(made("dtype=bf16 arch=80 a=k_major b=k_major"), Ok(false));
    assert_eq!(made("dtype=bf16 a=k_major b=k_major"), Ok(true));
    assert_eq!(made("dtype=bf16 arch=90"), Ok(true));
    // Tiles that wgmma does not have are multiplied by mma.sync, unless keys are about wgmma.
    for tile in ["bn=48", "bm=24 bn=64", "bk=32", "bm=144 bn=256"] {
        let kernel = Words::read(&format!("{ROWS} {tile}")).unwrap().matmul().unwrap();
        assert!(kernel.report.instruction.unwrap().starts_with("mma.sync: "), "{tile}");
    }
    // A product that CUDA cores do not support either is an error about tensor cores.
    let wrong = made("dtype=bf16 bm=100").unwrap_err();
    assert!(wrong.contains(
        "cannot share a tile of 100x128 by products of 8x16\nhelp: write bm and bn as multiples of 8 and 16"
    ));
    // Bytes that are not K-major are loaded one by one, which is still faster than on CUDA cores.
    for keys in ["dtype=i8 arch=80", "dtype=e4m3 arch=89 bn=16 b=k_major"] {
        let source = Words::read(keys).unwrap().matmul().unwrap().source().to_owned();
        assert!(source.contains("mma_m16n8k32"), "{keys}");
    }
    // A swizzle of the author's.
    let source = Words::read("dtype=bf16 schedule=(swizzle=(2,3,4)) a=k_major")
        .unwrap()
        .matmul()
        .unwrap()
        .source()
        .to_owned();
    assert!(source.contains("Sw<2,3,4>"));
    // Four warps over a tile of 16x16 share K.
    assert_eq!(made("dtype=bf16 bm=16 bn=16 bk=64 warps=4"), Ok(false));
    assert_eq!(made("dtype=f16 arch=90 a=k_major overlaps=true"), Ok(true));
    assert_eq!(made("dtype=f32 arch=90"), Ok(false));
}

/// A tile that goes with the keys gives the rows and columns that no key sets.
#[test]
fn default_tiles_go_with_the_keys() {
    let tile = |keys: &str| {
        let words = Words::read(&format!("arch=90 a=k_major b=k_major c=n_major {keys}")).unwrap();
        let kernel = words.matmul().unwrap_or_else(|why| panic!("{keys}: {why}"));
        let grid =
            kernel.source().lines().find(|line| line.starts_with("// grid")).unwrap_or_default().to_owned();
        grid.split_once("for ").map_or(grid.clone(), |(_, tiles)| tiles.to_owned())
    };
    assert_eq!(tile("dtype=bf16 schedule=(band=4)"), "ceil(M/128) * ceil(N/256) tiles");
    assert_eq!(tile("dtype=bf16 schedule=(ping_pong=true)"), "ceil(M/128) * ceil(N/128) tiles");
    assert_eq!(tile("dtype=bf16 schedule=(ping_pong=true) bm=64"), "ceil(M/64) * ceil(N/256) tiles");
    assert_eq!(tile("dtype=bf16 schedule=(ping_pong=true) bn=192"), "ceil(M/64) * ceil(N/192) tiles");
    assert_eq!(tile("dtype=e4m3 scales=blocks schedule=(ping_pong=true)"), "ceil(M/64) * ceil(N/128) tiles");
    assert_eq!(tile("dtype=tf32 bm=256"), "ceil(M/256) * ceil(N/128) tiles");
}

/// Blocks of a cluster share K of an operand that is not k_major, and any width is copied.
#[test]
fn operands_across_rows_have_any_width() {
    for keys in [
        "bm=64 bn=48 c=n_major schedule=(cluster=4)",
        "bm=64 bn=64 c=n_major schedule=(cluster=2)",
        "bm=64 bn=64 schedule=(cluster=2)",
        "bm=64 bn=48 c=n_major",
    ] {
        assert_eq!(made(&format!("dtype=bf16 arch=90 {keys}")), Ok(true), "{keys}");
    }
}

#[test]
fn types_take_wgmma_where_the_hardware_does() {
    const ROWS: &str = "arch=90 a=k_major b=k_major";
    for dtype in ["tf32", "e4m3", "e5m2", "i8", "u8", "e4m3 out=bf16", "bf16 out=f32", "i8 out=f32"] {
        assert_eq!(made(&format!("dtype={dtype} {ROWS}")), Ok(true), "{dtype}");
    }
    assert_eq!(made(&format!("dtype=f64 {ROWS}")), Ok(false));
    // Only elements of 16 bits are read across rows.
    for keys in ["dtype=tf32 arch=90 a=k_major", "dtype=i8 arch=90 b=k_major", "dtype=i8 out=i8 arch=90"] {
        assert_eq!(made(keys), Ok(false), "{keys}");
    }
    // On request, wgmma also has results of 8 and of 64 bits.
    for keys in ["dtype=i8 a=k_major b=k_major out=i8", "dtype=bf16 out=f64 bm=64 bn=64"] {
        assert_eq!(made(&format!("{keys} arch=90")), Ok(false), "{keys}");
        assert_eq!(made(&format!("{keys} arch=90 mma=wgmma")), Ok(true), "{keys}");
    }
}

#[test]
fn sums_that_are_promoted_have_half_as_many_accumulators() {
    const BYTES: &str = "arch=90 a=k_major b=k_major c=n_major dtype=e4m3";
    for keys in ["", "bm=128 bn=128", "bm=128 bn=256 fast_accum=true", "bm=64 bn=128 batched=true"] {
        assert_eq!(made(&format!("{BYTES} {keys}")), Ok(true), "{keys}");
    }
}

/// Launch bounds do not ask for more blocks than fit the shared memory of the architectures that run the kernel.
#[test]
fn blocks_of_launch_bounds_fit() {
    for keys in ["dtype=i8 out=bf16 a=k_major bias=rows", "dtype=f16 acc=f16 mma=mma_sync bm=128 bn=32 bk=48"]
    {
        for (arch, all) in [(90, 228), (120, 100)] {
            let kernel = Words::read(&format!("{keys} arch={arch}")).unwrap().matmul().unwrap();
            for variant in &kernel.variants {
                let launch = &variant.program.launch;
                let bytes = launch.blocks_per_sm * (launch.shared_bytes + 1024);
                assert!(launch.blocks_per_sm < 2 || bytes <= all * 1024, "{keys} arch={arch}: {bytes}");
            }
        }
    }
}

#[test]
fn scales_of_blocks_have_limits() {
    const KEYS: &str = "arch=90 a=k_major b=k_major dtype=e4m3 scales=blocks";
    for keys in [
        "",
        "c=n_major out=bf16",
        "bm=128 bn=64",
        "bm=64 bn=64 schedule=(split_k=2)",
        "schedule=(cluster=2) batched=true",
    ] {
        assert_eq!(made(&format!("{KEYS} {keys}")), Ok(true), "{keys}");
    }
    for keys in [
        "dtype=e4m3 scales=blocks arch=89 a=k_major b=k_major",
        "dtype=e5m2 scales=blocks arch=90 mma=mma_sync",
    ] {
        assert_eq!(made(keys), Ok(false), "{keys}");
    }
}

/// Tiles and copies that only other threads, other copies or the other product have.
#[test]
fn what_has_a_way_is_not_refused() {
    for keys in [
        // Columns of C are contiguous, and 40 of its columns are no rows of an instruction.
        "dtype=bf16 mma=mma_sync bm=96 bn=40",
        "dtype=i8 arch=90 a=k_major b=k_major bm=64 bn=8",
        "dtype=bf16 mma=mma_sync c=n_major bm=24 bn=64 warps=(1,2)",
        // 256 threads do not divide such tiles.
        "bm=80 bn=64",
        "dtype=f64 mma=none a=k_major bm=48 bn=112 bk=8",
        // cp.async does not copy two bytes.
        "dtype=f16 mma=none a=k_major stages=3",
        "dtype=u8 mma=none a=k_major b=k_major bm=64 bn=64 stages=2",
        "schedule=(fragments=2)",
    ] {
        assert_eq!(made(keys), Ok(false), "{keys}");
    }
}

#[test]
fn products_in_two_terms() {
    const ROWS: &str = "precision=f32x3 arch=90 a=k_major b=k_major";
    for keys in
        ["", "bm=128 bn=128", "c=n_major bm=64 bn=96 schedule=(cluster=2)", "alpha_beta=true bias=rows"]
    {
        assert_eq!(made(&format!("{ROWS} {keys}")), Ok(true), "{keys}");
    }
    for keys in ["precision=f32x3 arch=90 a=k_major", "precision=tf32 arch=90 a=k_major b=k_major"] {
        assert_eq!(made(keys), Ok(false), "{keys}");
    }
}

#[test]
fn the_report_says_why_it_is_not_wgmma() {
    let report = |keys: &str| {
        let kernel = Definition::Matmul(Words::read(keys).unwrap().args().to_vec()).generate().kernel;
        kernel.unwrap().report.instruction
    };
    assert_eq!(
        report("dtype=tf32 arch=90 b=k_major").as_deref(),
        Some(
            "mma.sync: wgmma reads elements of tf32 from rows that are contiguous along K, and `a` is not k_major; where it is faster, a launch copies such operands and multiplies the copies by wgmma"
        )
    );
    assert_eq!(
        report("dtype=e4m3 arch=90").as_deref(),
        Some(
            "mma.sync: wgmma reads elements of e4m3 from rows that are contiguous along K, and `a` is not k_major; where it is faster, a launch copies such operands and multiplies the copies by wgmma"
        )
    );
    // Keys that choose a tile leave no choice to launches.
    assert_eq!(
        report("dtype=i8 arch=90 a=k_major bm=64").as_deref(),
        Some(
            "mma.sync: wgmma reads elements of i8 from rows that are contiguous along K, and `b` is not k_major"
        )
    );
    // By choice, and where there is no wgmma for it.
    assert_eq!(report("dtype=tf32 arch=90 mma=mma_sync"), None);
    assert_eq!(report("dtype=f32 arch=90"), None);
    assert_eq!(report("dtype=bf16 arch=80"), None);
}

/// The tile of C that a block computes in a product of these sizes, in rows and columns of wgmma, and the blocks of a cluster.
fn chosen(kernel: &Generated, c_rows: bool, [m, n, k]: [i64; 3]) -> String {
    let b_elem = kernel.params[1].elem;
    let narrow = b_elem != Elem::Bf16;
    let tensor_of = |elem: Elem, extents: &[i64], mutable: bool| {
        let strides = extents.iter().skip(1).copied().chain([1]).collect();
        let len = extents.iter().product::<i64>() as u64;
        Given::Tensor(launch::Tensor {
            elem,
            mutable,
            extents: extents.to_vec(),
            strides,
            len,
            address: 1 << (if mutable { 40 } else { 32 }),
        })
    };
    let scale = narrow.then(|| tensor_of(Elem::F32, &[n], false));
    let tensor = |extents: [i64; 2], mutable: bool| tensor_of(Elem::Bf16, &extents, mutable);
    let mut c = tensor([m, n], true);
    if let (Given::Tensor(c), false) = (&mut c, c_rows) {
        c.strides = vec![1, m];
    }
    let given = [tensor([m, k], false), tensor_of(b_elem, &[n, k], false), c];
    let given: Vec<Given> = given.into_iter().chain(scale).collect();
    let plan = launch::plan(kernel, &given, &launch::Limits::HOPPER).unwrap();
    let launch = &kernel.variants[plan.variant].program.launch;
    let mut tile = launch.grid.iter().flatten().filter_map(|count| match count {
        Size::Sym { over, .. } => Some(*over),
        _ => None,
    });
    let (rows, columns) = (tile.next().unwrap_or(1), tile.next().unwrap_or(1));
    let [sharing, _, parts] = launch.cluster;
    let by = if sharing > 1 { format!(" by {sharing} blocks") } else { String::new() };
    let over = if parts > 1 { format!(", K over {parts}") } else { String::new() };
    format!("{rows}x{columns}{by}{over}")
}

/// Checks the tiles that launches of a product choose.
#[track_caller]
fn check_chosen(keys: &str, expected: &[([i64; 3], &str)]) {
    let words = Words::read(&format!("dtype=bf16 arch=90 a=k_major b=k_major {keys}")).unwrap();
    let kernel = Definition::Matmul(words.args().to_vec()).generate().kernel.unwrap();
    let c_rows = keys.contains("c=n_major");
    let found = expected.iter().map(|&(sizes, _)| (sizes, chosen(&kernel, c_rows, sizes)));
    let found: Vec<([i64; 3], String)> = found.collect();
    let found: Vec<([i64; 3], &str)> = found.iter().map(|(sizes, tile)| (*sizes, &**tile)).collect();
    assert_eq!(found, expected, "{keys}");
}

/// Tiles that were measured at these sizes.
#[test]
fn a_launch_chooses_among_tiles() {
    check_chosen(
        "",
        &[
            ([512, 512, 512], "64x32"),
            ([1000, 1000, 1000], "256x160 by 4 blocks"),
            ([1024, 1024, 1024], "64x128"),
            ([1536, 1536, 1536], "192x96"),
            ([2048, 2048, 2048], "128x256"),
            ([2304, 2304, 2304], "128x192"),
            // Rows that begin in the middle of a line: blocks of a cluster share copies.
            ([3000, 3000, 3000], "384x192 by 2 blocks"),
            ([904, 1096, 2024], "256x160 by 4 blocks"),
            ([1160, 1160, 1160], "256x256 by 4 blocks"),
            ([1512, 1416, 1000], "512x160 by 4 blocks"),
            ([2000, 3000, 1000], "256x192 by 2 blocks"),
            ([3072, 3072, 3072], "192x192"),
            ([4096, 4096, 4096], "128x256"),
            ([6000, 6000, 6000], "384x192 by 2 blocks"),
            ([7440, 440, 88], "256x128"),
            ([1352, 2792, 232], "256x256 by 2 blocks"),
            ([2048, 11008, 4096], "128x160"),
            ([8192, 8192, 8192], "128x192"),
            ([8192, 8192, 1024], "128x224"),
            // Few rows, which memory limits.
            ([16, 4096, 4096], "64x16"),
            ([64, 4096, 4096], "64x32"),
            ([128, 4096, 4096], "64x64"),
            ([4096, 128, 4096], "64x64"),
            ([4096, 64, 4096], "64x32"),
            ([4096, 16, 4096], "64x16, K over 2"),
            ([256, 4096, 4096], "64x128"),
            ([512, 4096, 4096], "128x128"),
            // Few tiles and a long K, which the blocks of a cluster split.
            ([256, 256, 8192], "64x128, K over 8"),
            ([256, 256, 4096], "64x64, K over 4"),
            ([64, 1024, 8192], "64x64, K over 4"),
            ([512, 512, 8192], "64x128, K over 2"),
            ([256, 1024, 8192], "64x128, K over 2"),
            ([128, 2048, 8192], "64x128, K over 2"),
            ([384, 384, 4096], "64x96, K over 4"),
            ([128, 1024, 4096], "64x128, K over 4"),
            ([128, 128, 16384], "64x32, K over 8"),
            ([1024, 1024, 8192], "64x128"),
            // A shorter K: smaller tiles.
            ([512, 512, 4096], "64x32"),
            // No more blocks than there are pairs of multiprocessors, which share a port.
            ([160, 4096, 4096], "64x160"),
            ([640, 1024, 4096], "64x160"),
            ([384, 896, 6144], "64x192, K over 4"),
            // The same, and rows that begin in the middle of a line.
            ([568, 968, 5664], "256x192 by 4 blocks, K over 2"),
            ([424, 760, 7208], "256x128 by 4 blocks, K over 2"),
        ],
    );
    check_chosen(
        "c=n_major",
        &[
            ([4096, 4096, 4096], "128x256"),
            ([11264, 384, 2048], "256x128"),
            ([4096, 16, 4096], "64x16"),
            ([128, 128, 16384], "64x32, K over 8"),
            // Columns of C do not matter, where threads store it.
            ([1024, 1023, 1024], "64x128"),
        ],
    );
}

#[test]
fn products_with_narrow_weights_choose_too() {
    // wgmma's rows are the weights' rows.
    check_chosen(
        "b_dtype=i8 c=n_major",
        &[
            ([4096, 4096, 4096], "128x256"),
            ([1, 4096, 4096], "16x32"),
            ([16, 4096, 4096], "16x32"),
            ([32, 4096, 4096], "32x32"),
        ],
    );
    check_chosen("b_dtype=i8", &[([1, 4096, 4096], "32x16"), ([16, 4096, 4096], "32x16")]);
}
