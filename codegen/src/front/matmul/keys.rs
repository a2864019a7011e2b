//! The keys of the product family, as a table: the page of keys, messages and the reader of keys use it.

/// A key: its name, its default in words, and its meaning.
pub type Key = (&'static str, &'static str, &'static str);

/// The subjects of the table, each with its keys.
const SUBJECTS: &[(&str, &[Key])] = &[
    (
        "Tiles and threads",
        &[
            (
                "bm",
                "tiles among which a launch chooses; 128 on CUDA cores if a key is about tiles or threads, and for types other than f32",
                "rows of C that a block computes",
            ),
            (
                "bn",
                "tiles among which a launch chooses; 128 on CUDA cores if a key is about tiles or threads, and for types other than f32",
                "columns of C that a block computes",
            ),
            (
                "bk",
                "8, or 64 bytes on tensor cores, or a length that suits the tiles that a launch chooses",
                "length of one step along K",
            ),
            (
                "tc",
                "(16, 16), or a layout that divides the tiles, along the contiguous mode of C",
                "thread layout of the multiply-adds; a third mode splits K",
            ),
        ],
    ),
    (
        "Types",
        &[
            ("dtype", "f32", "element type of A and B, and of C; 8-bit numbers and tf32 give a C of `acc`"),
            (
                "b_dtype",
                "dtype",
                "element type of B if it is narrower than f16 or bf16: i8, u8, i4, u4, e4m3 or e5m2. An element of u8 contains two numbers of i4 (-8 to 7) or u4 (0 to 15) that are neighbours along K, the first in its lower bits. Elements are converted in registers, exactly. An argument `scale` after the others has a factor of type acc for each column of C: the scales of quantised weights",
            ),
            ("out", "dtype, or acc for 8-bit numbers and tf32", "element type of C"),
            ("acc", "f32, f64 or i32 by dtype", "accumulator type"),
            (
                "precision",
                "strict",
                "strict, tf32 or f32x3, for dtype = f32. strict: multiply-adds on CUDA cores. tf32: operands are rounded to tf32 (11 significant bits) for tensor cores. f32x3: each operand is the sum of two terms of tf32, and the sum of each 8 or 16 products, or 32 with wgmma, is promoted to f32. The error is at most K/2·2^-23·|A|·|B|ᵀ with strict and (44 + K/16)·2^-23·|A|·|B|ᵀ with f32x3; with f32x3, infinite elements give NaN, and parts of elements below 2^-126 are lost",
            ),
        ],
    ),
    (
        "Layouts",
        &[
            ("a", "m_major", "m_major: columns of A contiguous; k_major: rows"),
            ("b", "n_major", "n_major: columns of B contiguous; k_major: rows"),
            ("c", "m_major", "m_major: columns of C contiguous; n_major: rows"),
        ],
    ),
    (
        "Copies and pipeline",
        &[
            (
                "schedule",
                "none",
                "keys of the table at the end, in parentheses, which record how a kernel was tuned: thread layouts of copies, layouts of shared tiles, loop orders, clusters",
            ),
            (
                "stages",
                "1, or 2 with 2 fragments, or up to 4 on tensor cores",
                "stages of shared tiles in flight",
            ),
        ],
    ),
    (
        "What is computed",
        &[
            (
                "alpha_beta",
                "false",
                "C = alpha·A·Bᵀ + beta·C, with two more arguments, of type acc, or of f32 if acc is i32 and out is not",
            ),
            ("batched", "false", "a product for each index of a third mode, L, of all three tensors"),
            (
                "bias",
                "none",
                "none, rows or columns: an argument `bias` after the others, of the type of C, with a number for each row or each column of C, which is added to it: C = alpha·A·Bᵀ + beta·C + bias",
            ),
            (
                "residual",
                "none",
                "none, before or after, or with the type of its elements, before(f32): an argument `residual` after `bias`, a matrix of the extents of C with its own leading dimension, which is added to C. before adds it before the function of `epilogue`, like beta·C (a ResNet's relu(x + residual), or C and D of cuBLASLt). after adds it after the function, as in CUTLASS's LinearCombinationResidualBlock (gelu(x) + residual). It is added in the type of alpha, and C is rounded once",
            ),
            (
                "aux",
                "false",
                "true, or the type of its elements, which otherwise is the type of C: a second result, the input of the function of `epilogue`, for the backward pass of a training step; cuBLASLt's GELU_AUX. It includes alpha, beta, bias and a residual = before. The argument `aux` after the others is a matrix of the extents of C with its own leading dimension. It is rounded to its type once, and C is computed from the value before rounding",
            ),
            (
                "scales",
                "none",
                "none, rows, columns, both or blocks. rows, columns and both: arguments `scale_rows` and `scale_columns` after the others, of the type of alpha, with a factor for each row and for each column of C: the scales of operands that were quantised by rows; C = alpha·A·Bᵀ·scale_rows·scale_columns + beta·C + bias. blocks, for e4m3 and e5m2: arguments `scale_a` and `scale_b`. `scale_a` (M, K/128) has a scale for each row of A and each 128 elements along K, columns contiguous. `scale_b` (N/128, K/128) has a scale for each 128x128 block of B, rows contiguous. Extents are rounded up. Each sum over 128 elements along K is multiplied by scale_a·scale_b when it is promoted to f32",
            ),
            (
                "group_size",
                "K",
                "16, 32, 64, 128 or 256, with a narrow b_dtype: the number of elements of B along K that have one scale. The argument `scale` is then a matrix (N, K / group_size, rounded up) of dtype with contiguous columns, the layout of GPTQ and AWQ. A converted element times its scale is rounded to dtype before it is multiplied, as if weights were dequantised in memory",
            ),
            (
                "zeros",
                "false",
                "true: each group of narrow weights has a zero point. The argument `zero`, after `scale`, is a matrix of the same type and extents. A weight is (element - zero)·scale: the difference is exact if the element and the zero point are whole numbers of up to eight bits, and the product is rounded to dtype",
            ),
            (
                "epilogue",
                "none",
                "relu, gelu, silu or another function of one number by its name, or a closure, |x| max(x, 0.0): applied to each element of C before it is rounded, after alpha, beta and bias, in the type of alpha",
            ),
        ],
    ),
    (
        "Architecture, instructions, launch",
        &[
            (
                "arch",
                "90 first, then the oldest with an instruction for the types, 80 or 89 (e4m3, e5m2), in one list of variants; 80 if a key is about tiles, threads or the instruction",
                "oldest compute capability; a device runs the variants for the newest one that it has",
            ),
            (
                "mma",
                "auto",
                "auto, none, wgmma, mma_sync or an instruction by name, such as mma_m16n8k16_bf16: the instruction. auto takes tensor cores for f16, bf16, tf32, f64 and K-major 8-bit numbers (e4m3 and e5m2 from arch = 89 on). For arch = 90 it takes wgmma for f16, bf16, and K-major tf32, 8-bit numbers and f32 with precision = f32x3; otherwise mma.sync. Operands that are not K-major but need to be are copied to rows along K if that is faster. Operands whose rows or addresses bulk copies do not support are packed first, or multiplied by mma.sync with narrower copies if that takes less time",
            ),
            (
                "warps",
                "one for each 64x64 of a tile",
                "warps that multiply by mma.sync: their number, or as (2, 4) over rows and columns of C, or as (1, 1, 8) with warps that share K",
            ),
            (
                "fast_accum",
                "false",
                "with wgmma, e4m3 and e5m2: Hopper's tensor cores keep about 13 bits of sums of 8-bit numbers. false adds the sum of each 128 elements along K in f32; true keeps sums in the tensor cores, which is faster and allows larger tiles",
            ),
            (
                "overlaps",
                "false; with wgmma true",
                "programmatic dependent launch: starts before the previous kernel has ended, and waits for it: sm_90",
            ),
            ("name", "matmul", "the kernel's name"),
        ],
    ),
];

/// The keys inside `schedule`.
const SCHEDULE: &[Key] = &[
    ("values", "(1, 1)", "adjacent rows and columns of C that a thread computes"),
    ("fragments", "1", "k-steps in registers: 2 loads the next while one is multiplied"),
    ("order", "plain", "plain, serpentine, rows or row_serpentine: loop order over the accumulators"),
    (
        "exits",
        "true",
        "with 2 fragments: a loop-exit test after each k-step, which keeps nvcc from interleaving k-steps",
    ),
    (
        "staged",
        "none",
        "none, transposed or both: the operands that are copied through registers, `vec` elements at once. transposed selects the k_major operands",
    ),
    ("vec", "1", "vector width of copies, in elements"),
    ("ta", "along the contiguous mode", "thread layout of A's copy"),
    ("tb", "along the contiguous mode", "thread layout of B's copy"),
    ("sa", "(bm, bk) : (1, bm + pad)", "shared layout of A's tile"),
    ("sb", "(bn, bk) : (1, bn + pad)", "shared layout of B's tile"),
    ("pad", "the padding without bank conflicts", "padding between columns of the shared tiles, in elements"),
    (
        "swizzle",
        "the swizzle without bank conflicts",
        "none, or (bits, base, shift): the swizzle of both shared tiles of a product by mma.sync, whose rows are compact along the contiguous modes of A and B; (3, 3, 3) suits rows of 128 bytes of 16-bit elements. Bulk copies write only the hardware's swizzles, so tiles with other swizzles are filled by cp.async",
    ),
    (
        "cluster",
        "1",
        "with wgmma: 1, 2 or 4 blocks of a cluster, which multicast the columns that they share",
    ),
    (
        "split_k",
        "1",
        "with wgmma, and on CUDA cores for arch = 90: 1, 2, 4, 8 or 16 blocks of a cluster that compute one tile together, each a part of K, for products of few tiles and a long K. The parts are added in a fixed order, so results do not differ from run to run",
    ),
    (
        "ping_pong",
        "false",
        "with wgmma: two warpgroups alternate tiles: one multiplies while the other runs its epilogue",
    ),
    (
        "band",
        "8",
        "with wgmma: the number of rows of tiles in a band of the raster order; within a band, tiles are ordered column by column",
    ),
];

/// All keys, but for those inside `schedule`.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    SUBJECTS.iter().flat_map(|(_, keys)| *keys)
}

/// The keys inside `schedule`.
pub fn schedule() -> impl Iterator<Item = &'static Key> {
    SCHEDULE.iter()
}

/// A key by its name, also one inside `schedule`.
pub(super) fn key(name: &str) -> Option<&'static Key> {
    keys().chain(schedule()).find(|(known, ..)| *known == name)
}

/// Is a key inside of `schedule`?
pub(super) fn is_of_schedule(name: &str) -> bool {
    schedule().any(|(known, ..)| *known == name)
}

/// The table as Markdown, a list for each subject, and a table of the keys inside `schedule`.
pub fn page() -> String {
    let list = |(key, default, about): &Key| format!("- **`{key}`**: {about}. Default: {default}.\n");
    let subject = |(subject, keys): &(&str, &[Key])| {
        format!("\n# {subject}\n\n{}", keys.iter().map(list).collect::<String>())
    };
    let row = |(key, default, about): &Key| format!("| **`{key}`** | {about} | {default} |\n");
    let of_schedule = format!(
        "\n# Schedule\n\nKeys that record how a kernel was tuned are written inside `schedule`: `schedule = (values = (4, 4), vec = 4)`.\n\n\
         | key | meaning | default |\n|---|---|---|\n{}",
        SCHEDULE.iter().map(row).collect::<String>()
    );
    SUBJECTS.iter().map(subject).collect::<String>() + &of_schedule
}
