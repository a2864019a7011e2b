//! Keys of products on tensor cores that are refused, and the messages.

use tilewright_codegen::words::{Kernels as _, Words};

/// Keys, and a part of the message.
const INVALID: &[(&str, &str)] = &[
    ("dtype=bf16 bk=24 mma=mma_sync", "`mma_m16n8k16_bf16` takes 16 of K at once, and bk is 24"),
    ("dtype=bf16 bm=40 bn=20 mma=mma_sync", "4 warps cannot share a tile of 40x20 by products of 8x16\n"),
    ("dtype=bf16 warps=5", "5 warps cannot share a tile of 128x128 by products of 8x16"),
    ("mma=mma_sync", "no matrix instruction of sm_80 multiplies f32 into sums of f32"),
    ("dtype=bf16 mma=mma_m16n8k16_f16", "`mma_m16n8k16_f16` multiplies f16 into sums of f32"),
    ("warps=4", "`warps` is about products on tensor cores"),
    (
        "dtype=bf16 bm=64 bn=40 warps=(2,2)",
        "2 warps share the columns of a tile of C, 8 of them at once, and bn is 40\n",
    ),
    ("dtype=bf16 bm=64 bn=40 warps=(2,2)", "write bn = 32, or other warps"),
    (
        "dtype=bf16 c=n_major bm=24 bn=48 warps=(1,4)",
        "4 warps share the columns of a tile of C, 16 of them at once, and bn is 48",
    ),
    (
        "dtype=bf16 bm=16 bn=64 warps=(4,1)",
        "4 warps share the rows of a tile of C, 8 of them at once, and bm is 16",
    ),
    ("dtype=bf16 warps=(8,8)", "a block has at most 32 warps, and these are 64"),
    ("dtype=bf16 warps=(2,2,2,2)", "write warps = (2, 4), or warps = (1, 1, 8) for warps that share K"),
    ("dtype=bf16 warps=(0,2)", "leaf 0 has the extent 0, and an extent must be at least 1"),
    (
        "dtype=bf16 mma=mma_sync schedule=(vec=8)",
        "`vec` is about the threads of a product without tensor cores",
    ),
    ("schedule=(cluster=2)", "`cluster` is about products by wgmma, and this one runs on CUDA cores"),
    (
        "dtype=bf16 mma=mma_sync stages=16",
        "16 stages take 393216 bytes of shared memory, and a block has 166912",
    ),
    ("dtype=e4m3 mma=mma_sync", "no matrix instruction of sm_80 multiplies e4m3 into sums of f32"),
    ("dtype=e4m3 mma=mma_sync", "write arch = 89"),
    ("mma=mma_sync", "write precision = f32x3, or precision = tf32, or mma = none"),
    ("dtype=f64 precision=tf32", "precision = tf32 is about products of f32, and these are of f64"),
    (
        "precision=f32x3 mma=none tc=(8,8)",
        "`precision` is about products on tensor cores, and this one runs on CUDA",
    ),
    ("precision=exact", "`precision` has no such choice\n"),
    ("bias=both", "write bias = none or rows or columns\nhelp: none, rows or columns: an argument `bias`"),
    (
        "residual=true",
        "write residual = none or before or after\nhelp: none, before or after, or with the type",
    ),
    ("residual=between(f32)", "`residual` has no such choice"),
    ("residual=before(float)", "`residual` must be an element type"),
    ("residual_dtype=f32", "there is no key `residual_dtype`\n"),
    ("residual_dtype=f32", "help: write residual = before(f32)"),
    ("aux=true", "`aux` has what the epilogue's function is applied to, and there is no such function"),
    ("aux=f32", "`aux` has what the epilogue's function is applied to"),
    ("aux=float epilogue=relu", "`aux` must be an element type"),
    ("aux=3 epilogue=relu", "write aux = true, or aux = f32"),
    ("aux_dtype=f32 epilogue=relu", "help: write aux = f32"),
    ("epilogue=rleu", "`rleu`"),
    ("dtype=f32 b_dtype=i8", "elements of i8 are not converted for products of f32"),
    ("dtype=bf16 b_dtype=f16", "write i8, u8, i4, u4, e4m3 or e5m2, with dtype = f16 or bf16"),
    ("dtype=bf16 group_size=128", "about the scales of narrow weights, and B has the type of A"),
    ("dtype=bf16 b_dtype=i8 group_size=100", "16, 32, 64, 128 or 256 elements, and group_size is 100"),
    ("dtype=bf16 b_dtype=u4 b=k_major zeros=true", "scales in groups, and there are no groups"),
    ("dtype=bf16 b_dtype=u4 b=k_major zeros=true", "write group_size = 128, and a narrow b_dtype"),
    ("dtype=f32 b_dtype=u4", "elements of u4 are not converted for products of f32"),
    ("dtype=bf16 b_dtype=i8 group_size=128 zeros=2", "`zeros` is true or false"),
    (
        "dtype=bf16 b_dtype=i8 group_size=128 scales=columns",
        "a scale for each group of each column of C anyway",
    ),
    ("dtype=f32 b_dtype=i4", "elements of i4 are not converted for products of f32"),
    ("dtype=bf16 b_dtype=i4", "packed in pairs along K, and `b` is not k_major"),
    (
        "dtype=bf16 b_dtype=i8 mma=none",
        "`b_dtype` is about products on tensor cores, and this one runs on CUDA",
    ),
    (
        "mma=wgmma arch=90 dtype=bf16 b_dtype=i8",
        "elements of i8 are converted in pairs along K, and `b` is not k_major",
    ),
    ("dtype=bf16 bk=64 warps=(1,1,8)", "`mma_m16n8k16_bf16` of each of 8 warps takes 16 of K at once"),
    ("dtype=bf16 bk=64 warps=(1,1,8)", "write bk = 128"),
    ("dtype=bf16 bm=256 bn=256 warps=4", "4 warps need 512 accumulator registers in each thread"),
    (
        "dtype=bf16 bm=256 bn=256 warps=(2,4,4)",
        "warps that share K exchange their sums of a tile, 270336 bytes of shared memory, and a block has 166912",
    ),
    ("dtype=bf16 bm=256 bn=256 warps=(2,4,4)", "help: write fewer warps, or smaller bm and bn"),
    // A limit points at a key on which the default depends.
    (
        "dtype=e5m2 arch=89 bm=256 bn=256 bk=64 a=k_major b=k_major",
        "\n  dtype=e5m2 arch=89 bm=256 bn=256 bk=64 a=k_major b=k_major\n                        ^^^\n",
    ),
    (
        "dtype=f64 mma=none arch=89 bm=64 bn=64 bk=16 tc=(8,8,4)",
        "the sums of 4 parts of K take 135152 bytes of shared memory beside 16640 of tiles, and a block has 101376\n",
    ),
    ("dtype=f64 mma=none arch=89 bm=64 bn=64 bk=16 tc=(8,8,4)", "help: write a smaller third mode of tc"),
    (
        "schedule=(split_k=2) bm=64 bn=64",
        "the blocks of a cluster split K, which sm_90 has first, and arch is 80",
    ),
    ("schedule=(split_k=2) bm=64 bn=64", "write arch = 90, or split K over the threads of a block"),
    (
        "schedule=(split_k=3) arch=90 bm=64 bn=64",
        "each of 3 blocks adds and stores an equal part of a tile, and bn is 64",
    ),
    ("schedule=(split_k=32) arch=90 bm=64 bn=64", "write split_k = 2, 4, 8 or 16"),
    (
        "schedule=(split_k=8) arch=90 bm=64 bn=20",
        "each of 8 blocks adds and stores an equal part of a tile, and bn is 20",
    ),
    ("schedule=(split_k=8) arch=90 bm=20 bn=64 c=n_major", "write bm = 16, or a smaller split_k"),
    (
        "schedule=(split_k=2) arch=90 dtype=f64 mma=none bm=128 bn=128 bk=64",
        "the sums of a tile take 133104 bytes of shared memory beside ",
    ),
    (
        "mma=none arch=86 bm=128 bn=128 bk=32 stages=4",
        "4 stages take 132096 bytes of shared memory, and a block has 101376\n",
    ),
    (
        "dtype=i8 arch=89 mma=mma_sync bm=96 bn=144 bk=32 stages=12 a=k_major",
        "a block needs 104064 bytes of shared memory, and sm_89 has 101376: ",
    ),
    (
        "dtype=e4m3 scales=blocks arch=89 bm=104 bn=16 bk=64 warps=2",
        "2 warps cannot share a tile of 104x16 by products of 8x16\n",
    ),
    // wgmma has no such rows, whatever shared memory there is.
    (
        "dtype=bf16 arch=90 bm=256 bn=48 bk=96 stages=5",
        "5 stages take 291840 bytes of shared memory, and a block has 232448\n",
    ),
];

#[test]
fn keys_that_are_invalid_on_tensor_cores() {
    let check = |keys: &str, expected: &str| {
        let message = match Words::read(keys).and_then(|words| words.matmul()) {
            Ok(_) => panic!("{keys}: accepted"),
            Err(why) => why.to_string(),
        };
        assert!(message.contains(expected), "{keys}: {message}");
    };
    INVALID.iter().for_each(|(keys, expected)| check(keys, expected));
    for (keys, key) in [
        ("dtype=bf16 schedule=(cluster=2)", "cluster"),
        ("dtype=bf16 arch=90 warps=4 schedule=(cluster=3)", "cluster"),
        ("dtype=bf16 arch=90 mma=mma_sync schedule=(band=4)", "band"),
        ("dtype=f16 schedule=(ping_pong=true)", "ping_pong"),
        ("dtype=bf16 mma=mma_sync schedule=(split_k=4)", "split_k"),
    ] {
        let message = format!("`{key}` is about products by wgmma, and this one runs by mma.sync\n");
        check(keys, &message);
        check(keys, "leave it out, or write arch = 90 and mma = wgmma");
    }
}

/// A key about threads does not turn tensor cores off by itself.
#[test]
fn keys_about_threads_name_the_instruction() {
    const KEYS: [&str; 12] = [
        "tc=(8,8)",
        "values=(4,4)",
        "ta=(32,4)",
        "tb=(32,4)",
        "pad=4",
        "sa=(64,16):(1,64)",
        "sb=(64,16):(1,64)",
        "fragments=2",
        "exits=false",
        "staged=both",
        "vec=2",
        "order=serpentine",
    ];
    let made = |keys: &str| Words::read(keys).and_then(|words| words.matmul()).map_err(|why| why.to_string());
    for key in KEYS {
        let name = key.split('=').next().unwrap_or_default();
        let key = if name == "tc" { key.to_owned() } else { format!("schedule=({key})") };
        for types in ["dtype=f16", "dtype=bf16 arch=90 a=k_major", "dtype=f64", "dtype=i8", "precision=f32x3"]
        {
            let message = made(&format!("{types} bm=64 bn=64 bk=16 {key}")).err().unwrap_or_default();
            let expected = format!("`{name}` is about the threads of a product without tensor cores\n");
            assert!(message.starts_with(&expected), "{types} {key}: {message}");
            assert!(
                message.ends_with("^\nhelp: leave it out, or write mma = none"),
                "{types} {key}: {message}"
            );
        }
        // Where tensor cores do not multiply a type, no path is turned off.
        for types in ["", "dtype=i32", "dtype=u32", "dtype=f16 mma=none", "dtype=f64 mma=none"] {
            let keys = format!("{types} bm=64 bn=64 bk=16 {key}");
            let message = made(&keys).err().unwrap_or_default();
            assert!(!message.contains("tensor cores"), "{keys}: {message}");
        }
    }
}

/// Keys that record how a kernel was tuned are inside `schedule`.
#[test]
fn keys_of_the_schedule() {
    #[track_caller]
    fn check(keys: &str, expected: &str) {
        let message = Words::read(keys).and_then(|words| words.matmul()).expect_err(keys).to_string();
        assert_eq!(message, expected);
    }
    check(
        "bm=64 values=(4,4)",
        "`values` is a key of `schedule`\n  bm=64 values=(4,4)\n        ^^^^^^\nhelp: write schedule = (values = (4, 4))",
    );
    let both = "help: write schedule = (vec = 4, order = rows)";
    check(
        "vec=4 order=rows",
        &format!(
            "`vec` is a key of `schedule`\n  vec=4 order=rows\n  ^^^\n{both}\n`order` is a key of `schedule`\n  vec=4 order=rows\n        ^^^^^\n{both}"
        ),
    );
    check(
        "schedule=(bm=64 vec=4)",
        "`bm` is no key of `schedule`\n  schedule=(bm=64 vec=4)\n            ^^\nhelp: write it beside the schedule: bm = 64",
    );
    check(
        "schedule=4",
        "`schedule` has keys in parentheses\n  schedule=4\n           ^\nhelp: write schedule = (values = (4, 4), vec = 4)",
    );
    check(
        "schedule=(vec=4 vec=2)",
        "`vec` is given twice\n  schedule=(vec=4 vec=2)\n                  ^^^\nhelp: remove one of them",
    );
    check(
        "schedule=(vecs=4)",
        "there is no key `vecs`\n  schedule=(vecs=4)\n            ^^^^\nhelp: did you mean `vec`?",
    );
    check(
        "schedule=(vec=3)",
        "copies of 3 elements need a shared layout whose first stride is 1 and whose others are multiples of 3, and this is (128,8):(1,128): the stride 128 is not a multiple\n  schedule=(vec=3)\n                ^\nhelp: pad by a multiple of 3, or write vec = 1",
    );
    // Mistakes elsewhere are named as well.
    let message =
        Words::read("vec=4 dtype=float").and_then(|words| words.matmul()).err().unwrap().to_string();
    assert!(message.contains("`vec` is a key of") && message.contains("`dtype` must be"), "{message}");
    // The same keys in one `schedule`, or in two.
    let source = |keys: &str| Words::read(keys).and_then(|words| words.matmul()).unwrap().source().to_owned();
    let (one, two) =
        ("schedule=(vec=4 values=(4,4)) bk=16", "schedule=(vec=4), bk=16 schedule=(values = (4, 4),)");
    assert_eq!(source(one), source(two));
}

/// Most keys set the function, the tiles, or the operands.
#[test]
fn there_are_fewer_than_thirty_keys() {
    let (keys, schedule) = (tilewright_codegen::matmul::keys(), tilewright_codegen::matmul::schedule());
    assert_eq!((keys.count(), schedule.count()), (29, 16));
}
