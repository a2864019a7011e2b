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
    assert_eq!(
        made(&format!("{ROWS} schedule=(order=serpentine)")),
        Err("`order` is about the threads of a product without tensor cores\nhelp: leave it out, or write mma = none".into())
    );
    assert_eq!(made("dtype=bf16 arch=80 a=k_major b=k_major"), Ok(false));
    assert_eq!(made("dtype=bf16 a=k_major b=k_major"), Ok(true));
    assert_eq!(made("dtype=bf16 arch=90"), Ok(true));
    // Tiles that wgmma does not have are multiplied by mma.sync, unless keys are about wgmma.
    for tile in ["bn=48", "bm=24 bn=64", "bk=32", "bm=144 bn=256"] {
        let kernel = Words::read(&format!("{ROWS} {tile}")).unwrap().matmul().unwrap();
        assert!(kernel.report.instruction.unwrap().starts_with("mma.sync: "), "{tile}");
    }
    assert_eq!(
        made(&format!("{ROWS} bn=48 schedule=(cluster=1)")),
        Err("a tile has 64 rows for each warpgroup, or twice as many for each of two, and bn is 48\nhelp: write bn = 64, 128, 192 or 256".into())
    );
    // A product that CUDA cores do not support either is an error about tensor cores.
    assert_eq!(
        made("dtype=bf16 stages=12"),
        Err("12 stages take 294912 bytes of shared memory, and a block has 166912\nhelp: write fewer stages, or a smaller bk".into())
    );
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
    assert_eq!(
        made("dtype=bf16 schedule=(swizzle=128)"),
        Err("`swizzle` has three numbers: bits, base and shift\nhelp: write swizzle = (3, 3, 3), swizzle = none, or leave it out".into())
    );
    assert_eq!(
        made("dtype=bf16 arch=90 mma=wgmma schedule=(swizzle=none)"),
        Err("tiles of wgmma have the swizzles of the hardware\nhelp: leave swizzle out, or write mma = mma_sync".into())
    );
    // Four warps over a tile of 16x16 share K.
    assert_eq!(made("dtype=bf16 bm=16 bn=16 bk=64 warps=4"), Ok(false));
    assert_eq!(made("dtype=f16 arch=90 a=k_major overlaps=true"), Ok(true));
    assert_eq!(made("dtype=f32 arch=90"), Ok(false));
}

/// Rows of C are contiguous, so bm is about the rows of wgmma.
#[track_caller]
fn check(keys: &str, expected: &str) {
    check_order(&format!("c=n_major {keys}"), expected);
}

#[track_caller]
fn check_order(keys: &str, expected: &str) {
    assert_eq!(
        made(&format!("dtype=bf16 arch=90 a=k_major b=k_major mma=wgmma {keys}")),
        Err(expected.into())
    );
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

#[test]
fn limits_of_wgmma_are_reported_at_their_key() {
    check(
        "bm=96",
        "a tile has 64 rows for each warpgroup, or twice as many for each of two, and bm is 96\nhelp: write bm = 64, 128, 192 or 256",
    );
    check(
        "bk=40",
        "wgmma takes 16 elements of bf16 along K at once, and bk is 40\nhelp: write bk = 32, or leave it out",
    );
    check(
        "bn=100",
        "wgmma takes 16 to 256 columns in steps of 16, and bn is 100\nhelp: write bn = 128 or bn = 256",
    );
    check(
        "stages=8",
        "8 stages take 393216 bytes of shared memory, and a block has 232448\nhelp: write fewer stages, or a smaller bk",
    );
    check(
        "schedule=(vec=8)",
        "`vec` is about the threads of a product without tensor cores\nhelp: leave it out, or write mma = none",
    );
    check(
        "schedule=(cluster=3)",
        "a cluster has 1, 2, 4 or 8 blocks along the rows of C, and cluster is 3\nhelp: write cluster = 1, 2, 4 or 8",
    );
    check(
        "bm=64 bn=48 schedule=(cluster=4)",
        "each of 4 blocks copies a multiple of 8 of what they share, and bn is 48\nhelp: write bn = 32, or a smaller cluster",
    );
    check(
        "schedule=(split_k=17) bm=64",
        "K is split over the blocks of a cluster, at most 16, and split_k is 17\nhelp: write split_k = 2, 4, 8 or 16",
    );
    check(
        "schedule=(split_k=3) bm=64 bn=128",
        "each of 3 blocks adds and stores an equal part of the rows or of the columns of a tile, which has 64 by 128\nhelp: write bn = 96, or another split_k",
    );
    check(
        "schedule=(split_k=4) bm=192",
        "where K is split, each of a block's warpgroups multiplies 64 rows, 128 in all, and bm is 192\nhelp: write bm = 128",
    );
    check(
        "schedule=(split_k=8 cluster=4) bm=64",
        "a cluster has at most 16 blocks, and cluster = 4 and split_k = 8 are 32\nhelp: write a smaller split_k",
    );
    check(
        "schedule=(split_k=2 ping_pong=true) bm=64",
        "several blocks split K, which does not go together with a ping-pong schedule\nhelp: leave split_k out",
    );
    check(
        "schedule=(split_k=blocks(65)) bm=64",
        "K is divided among 1 to 64 blocks\nhelp: write split_k = blocks(4)",
    );
    check(
        "schedule=(split_k=blocks(4)) bm=64 batched=true",
        "blocks of the grid divide K in the tiles of one matrix, and batched has several\nhelp: write split_k = 4, or leave it out",
    );
    check(
        "bm=256 bn=256",
        "a thread has 256 accumulators of a tile of 256 by 256, and at most 128 fit\nhelp: write bn = 128, or a smaller bm",
    );
    assert_eq!(
        made("dtype=f16 b_dtype=i4 arch=90 a=k_major b=k_major mma=wgmma bk=48"),
        Err("a bulk copy takes rows of a multiple of 16 bytes, 32 weights along K, and bk is 48\nhelp: write bk = 32, or leave it out".into())
    );
    // Blocks of a cluster share K of an operand that is not k_major, and any width is copied.
    assert_eq!(
        made("dtype=bf16 arch=90 mma=wgmma c=n_major bm=64 bn=64 bk=16 schedule=(cluster=4)"),
        Err("each of 4 blocks copies a multiple of 8 of what they share, and bk is 16\nhelp: write bk = 32, or a smaller cluster".into())
    );
    assert_eq!(made("dtype=bf16 arch=90 bm=64 bn=48 c=n_major schedule=(cluster=4)"), Ok(true));
    assert_eq!(made("dtype=bf16 arch=90 bm=64 bn=64 c=n_major schedule=(cluster=2)"), Ok(true));
    assert_eq!(made("dtype=bf16 arch=90 bm=64 bn=48 c=n_major"), Ok(true));
    assert_eq!(
        made("dtype=bf16 mma=wgmma"),
        Err("wgmma is an instruction of sm_90a\nhelp: write arch = 90".into())
    );
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
    let wrong = |keys: &str| made(&format!("{keys} arch=90 mma=wgmma")).unwrap_err();
    assert_eq!(
        wrong("dtype=tf32 a=k_major"),
        "wgmma reads elements of tf32 from rows that are contiguous along K, and `b` is not k_major\nhelp: write k_major for both operands, or leave mma out: launches then copy the operand where that is faster"
    );
    assert_eq!(
        wrong("dtype=f64"),
        "wgmma does not multiply f64\nhelp: write dtype = bf16, f16, tf32, e4m3, e5m2, i8 or u8"
    );
    assert_eq!(
        wrong("dtype=f16 acc=f16"),
        "wgmma sums products of f16 in f32 here\nhelp: leave acc out, or write mma = mma_sync"
    );
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
    assert_eq!(
        made(&format!("{BYTES} bm=64 bn=64 bk=256 mma=wgmma")).unwrap_err(),
        "sums of each 128 along K are promoted to f32, and bk is 256\nhelp: write bk = 128, or leave it out"
    );
    assert_eq!(
        made(&format!("{BYTES} bm=128 bn=256 mma=wgmma")).unwrap_err(),
        "a thread has 128 accumulators of a tile of 128 by 256, and at most 64 fit\nhelp: write bn = 128, or a smaller bm; with fast_accum = true 128 fit"
    );
    assert_eq!(
        made("dtype=bf16 arch=90 fast_accum=true").unwrap_err(),
        "`fast_accum` is about sums of e4m3 and e5m2, and dtype is bf16\nhelp: leave it out: other sums are as accurate as those in f32"
    );
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
    let wrong = |keys: &str| made(keys).unwrap_err();
    assert_eq!(
        wrong("dtype=bf16 arch=90 scales=blocks"),
        "scales of blocks are about products of e4m3 and e5m2, and dtype is bf16\nhelp: write scales = both, or dtype = e4m3"
    );
    assert_eq!(
        wrong("dtype=bf16 b_dtype=e4m3 b=k_major arch=90 scales=blocks"),
        "narrow weights have a scale for each column of C anyway, the argument `scale`\nhelp: leave `scales` out, or write scales = rows for those of activations too"
    );
    assert_eq!(
        wrong(&format!("{KEYS} fast_accum=true")),
        "scales of blocks multiply sums of each 128 of K, which fast_accum = true leaves in the tensor cores\nhelp: leave fast_accum out"
    );
    assert_eq!(
        wrong(&format!("{KEYS} bm=64 bn=96")),
        "a tile lies in one block of 128 with one scale, and bn is 96\nhelp: write bn = 64 or bn = 128"
    );
    assert_eq!(
        wrong(&format!("{KEYS} bm=256 bn=128")),
        "a thread has 128 accumulators of a tile of 256 by 128, and at most 64 fit\nhelp: write bn = 64, or a smaller bm"
    );
    assert_eq!(
        wrong("dtype=e4m3 scales=blocks arch=89 mma=mma_sync bm=64 bn=64 bk=96"),
        "a tile lies in one block of 128 with one scale, and bk is 96\nhelp: write bk = 64 or bk = 128"
    );
    assert_eq!(
        wrong("dtype=e4m3 scales=blocks arch=89 mma=mma_sync bm=64 bn=64 bk=128 warps=(1,1,4)"),
        "4 warps share K, whose sums have different scales\nhelp: leave the third mode of warps out"
    );
    assert_eq!(
        wrong("dtype=e4m3 scales=blocks arch=80 a=k_major b=k_major"),
        "no matrix instruction of sm_80 multiplies e4m3 into sums of f32\nhelp: write arch = 89"
    );
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
    assert_eq!(
        made("dtype=bf16 arch=75"),
        Err("kernels need sm_80, and this is sm_75\nhelp: write arch = 80 or more, or leave it out".into())
    );
    assert_eq!(
        made("dtype=e5m2 arch=86 warps=8"),
        Err("no matrix instruction of sm_86 multiplies e5m2 into sums of f32\nhelp: write arch = 89".into())
    );
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
    let wrong = |keys: &str| made(&format!("{keys} arch=90 mma=wgmma a=k_major b=k_major")).unwrap_err();
    assert_eq!(
        wrong("precision=f32x3 schedule=(ping_pong=true)"),
        "each slot of a ping-pong schedule is read by one warpgroup, and with precision = f32x3 another one splits it first\nhelp: leave ping_pong out"
    );
    assert_eq!(
        wrong("precision=f32x3 c=n_major bm=128 bn=256"),
        "a thread has 128 accumulators of a tile of 128 by 256, and at most 64 fit\nhelp: write bn = 128, or a smaller bm"
    );
    assert_eq!(
        wrong("precision=tf32"),
        "wgmma reads an operand from shared memory, where nothing rounds it to tf32\nhelp: write precision = f32x3, dtype = tf32 for operands that are rounded already, or mma = mma_sync"
    );
    assert_eq!(
        wrong("dtype=f32"),
        "wgmma does not multiply f32\nhelp: write precision = f32x3, or dtype = tf32"
    );
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

#[test]
fn the_transposed_product_blames_the_other_key() {
    check_order(
        "bn=96",
        "a tile has 64 rows for each warpgroup, or twice as many for each of two, and bn is 96\nhelp: write bn = 64, 128, 192 or 256",
    );
    check_order(
        "bm=100",
        "wgmma takes 16 to 256 columns in steps of 16, and bm is 100\nhelp: write bm = 128 or bm = 256",
    );
    check_order(
        "schedule=(cluster=3)",
        "a cluster has 1, 2, 4 or 8 blocks along the columns of C, and cluster is 3\nhelp: write cluster = 1, 2, 4 or 8",
    );
    check_order(
        "bm=192 bn=256",
        "a thread has 192 accumulators of a tile of 192 by 256, and at most 128 fit\nhelp: write bm = 128, or a smaller bn",
    );
    assert_eq!(made("dtype=bf16 arch=90 bm=64 bn=64 schedule=(cluster=2)"), Ok(true));
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
            ([4096, 16, 4096], "64x16"),
            ([256, 4096, 4096], "64x128"),
            ([512, 4096, 4096], "128x128"),
            // Few tiles and a long K, which the blocks of a cluster split.
            ([256, 256, 8192], "64x64, K over 4"),
            ([256, 256, 4096], "64x64, K over 4"),
            ([64, 1024, 8192], "64x64, K over 4"),
            ([512, 512, 8192], "64x128, K over 2"),
            ([256, 1024, 8192], "64x128, K over 2"),
            ([128, 2048, 8192], "64x128, K over 2"),
            ([384, 384, 4096], "64x128, K over 4"),
            ([128, 1024, 4096], "64x128, K over 4"),
            ([128, 128, 16384], "64x64, K over 8"),
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
            ([128, 128, 16384], "64x64, K over 8"),
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
