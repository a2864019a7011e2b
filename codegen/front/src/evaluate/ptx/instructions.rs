//! The instructions of PTX that only compute numbers of their operands: they access no memory, no flag and no other thread, and
//! control continues after them.

/// Instructions that take the same modifiers.
struct Row {
    names: &'static str,
    modifiers: &'static [&'static str],
}

const fn row(names: &'static str, modifiers: &'static [&'static str]) -> Row {
    Row { names, modifiers }
}

/// Types of registers and of operands.
const INTEGERS: &str = "u8 u16 u32 u64 s8 s16 s32 s64 u16x2 s16x2";
const BITS: &str = "b16 b32 b64 pred";
const FLOATS: &str = "f16 f16x2 bf16 bf16x2 f32 f32x2 f64";
const SMALL_FLOATS: &str = "tf32 e4m3x2 e5m2x2 e2m1x2 e2m3x2 e3m2x2 ue8m0x2 e4m3x4 e5m2x4";

const ROUNDING: &str = "rn rz rm rp";
const COMPARISONS: &str = "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan";

const ROWS: &[Row] = &[
    row("add sub mul mad fma div", &[INTEGERS, FLOATS, ROUNDING, "ftz sat relu lo hi wide approx full"]),
    row("rem sad abs neg popc clz brev", &[INTEGERS, BITS, FLOATS, "ftz"]),
    row("min max", &[INTEGERS, FLOATS, "ftz nan xorsign abs relu"]),
    row("mul24 mad24", &["u32 s32 lo hi sat"]),
    row("dp4a dp2a", &["u32 s32 lo hi"]),
    row("bfind bfe bfi bmsk szext", &[INTEGERS, BITS, "shiftamt clamp wrap"]),
    row("rcp sqrt rsqrt sin cos lg2 ex2 tanh", &[FLOATS, ROUNDING, "approx ftz"]),
    row("testp copysign", &["f32 f64 finite infinite number notanumber normal subnormal"]),
    row("set setp", &[INTEGERS, BITS, FLOATS, COMPARISONS, "and or xor ftz"]),
    row("selp slct", &[INTEGERS, BITS, FLOATS, "ftz"]),
    row("and or xor not cnot lop3 shl shr", &[INTEGERS, BITS, "and or"]),
    row("shf", &["b32 l r clamp wrap"]),
    row("prmt", &["b32 f4e b4e rc8 ecl ecr rc16"]),
    row("mov", &[INTEGERS, BITS, FLOATS]),
    row(
        "cvt",
        &[INTEGERS, FLOATS, SMALL_FLOATS, ROUNDING, "rni rzi rmi rpi rna rs ftz sat satfinite relu pack b32"],
    ),
];

/// Registers that PTX sets.
const SPECIAL: &str = "tid ntid laneid warpid nwarpid ctaid nctaid smid nsmid gridid clusterid nclusterid cluster_ctaid \
                       cluster_nctaid cluster_ctarank cluster_nctarank lanemask_eq lanemask_le lanemask_lt lanemask_ge lanemask_gt \
                       clock clock_hi clock64 globaltimer globaltimer_lo globaltimer_hi total_smem_size dynamic_smem_size";

fn lists(words: &str, word: &str) -> bool {
    words.split(' ').any(|known| known == word)
}

/// May a text use the instruction of this name with this modifier?
pub(super) fn takes(name: &str, modifier: &str) -> bool {
    let mut rows = ROWS.iter().filter(|row| lists(row.names, name));
    rows.any(|row| row.modifiers.iter().any(|words| lists(words, modifier)))
}

/// Does the instruction of this name only compute a number?
pub(super) fn computes(name: &str) -> bool {
    ROWS.iter().any(|row| lists(row.names, name))
}

/// Is it the type of a register?
pub(super) fn is_type(name: &str) -> bool {
    [INTEGERS, BITS, FLOATS].iter().any(|words| lists(words, name))
}

/// Is it a register that PTX sets?
pub(super) fn is_special(name: &str) -> bool {
    lists(SPECIAL, name.split('.').next().unwrap_or_default())
}
