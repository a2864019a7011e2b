//! Products by wgmma and mma.sync whose operands or results have rows or addresses that bulk copies do not support.

use crate::number::Random;
use crate::problem::{Problem, Setting, Values};
use crate::tensor::Padding;
use tilewright_codegen::Generated;

/// A product.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its keys.
    pub keys: String,
    /// M, N, K.
    pub sizes: [usize; 3],
    /// Gaps and offsets of A, B and C; the last is used for all others.
    pub paddings: Vec<Padding>,
    /// Decides the elements.
    pub seed: u64,
}

impl Case {
    /// Its arguments, in buffers of poison.
    pub fn problem(&self, kernel: &Generated) -> Problem {
        let [m, n, k] = self.sizes;
        let sizes: &[(&str, usize)] = &[("M", m), ("N", n), ("K", k), ("L", 2)];
        let (paddings, seed) = (&self.paddings[..], self.seed);
        Problem::of(kernel, &Setting { sizes, paddings, values: Values::Whole, seed, alpha: 0.5, beta: 2.0 })
    }
}

/// The keys of an order of operands and result.
fn order(bits: usize) -> String {
    let choice = |bit: usize, key: &'static str| if bits >> bit & 1 == 1 { key } else { "" };
    [choice(0, "a=k_major"), choice(1, "b=k_major"), choice(2, "c=n_major")].join(" ")
}

/// Every order of operands and result.
pub fn orders() -> Vec<Case> {
    let one = |bits: usize| Case {
        keys: format!("dtype=bf16 arch=90 bm=64 bn=128 {}", order(bits)),
        sizes: [67, 131, 69],
        paddings: vec![Padding::default()],
        seed: bits as u64,
    };
    (0..8).map(one).collect()
}

/// Every type.
pub fn types() -> Vec<Case> {
    let all = [
        "dtype=f16",
        "dtype=tf32",
        "dtype=tf32 c=n_major",
        "dtype=e4m3 out=bf16",
        "dtype=e5m2 c=n_major",
        "dtype=e4m3 out=bf16 scales=blocks",
        "dtype=e5m2 c=n_major scales=blocks batched=true",
        "dtype=i8",
        "dtype=u8 out=f32",
        "dtype=f16 alpha_beta=true out=f32",
        "dtype=bf16 batched=true",
        "dtype=i8 batched=true c=n_major",
    ];
    let one = |keys: &&str| Case {
        keys: format!("{keys} arch=90 a=k_major b=k_major bm=64 bn=64"),
        sizes: [66, 37, 45],
        paddings: vec![Padding { gap: 2, outer: 5, offset: 1 }],
        seed: 3,
    };
    all.iter().map(one).collect()
}

/// Products by mma.sync of odd sizes, with a ring that bulk copies fill, and how many of their operands are packed.
pub fn by_mma_sync() -> Vec<(Case, usize)> {
    let all = [
        ("dtype=bf16 a=k_major b=k_major", 2),
        ("dtype=bf16 a=k_major", 2),
        ("dtype=f16 c=n_major", 2),
        ("dtype=f16 b=k_major batched=true", 2),
        ("dtype=bf16 a=k_major b=k_major bias=rows alpha_beta=true residual=before", 2),
        ("dtype=bf16 a=k_major b=k_major out=f32", 2),
        ("dtype=tf32 a=k_major b=k_major", 2),
        ("dtype=tf32 a=k_major b=k_major c=n_major alpha_beta=true", 2),
        ("precision=f32x3 a=k_major b=k_major", 2),
        ("dtype=i8 a=k_major b=k_major", 2),
        ("dtype=u8 a=k_major b=k_major out=u8 c=n_major", 2),
        ("dtype=e4m3 a=k_major b=k_major out=f16", 2),
        ("dtype=bf16 b_dtype=i8 a=k_major b=k_major", 2),
        ("dtype=bf16 b_dtype=i8 a=k_major b=k_major group_size=16", 3),
    ];
    let one = |(seed, (keys, packed)): (usize, &(&str, usize))| {
        let keys = format!("{keys} mma=mma_sync arch=90 bm=64 bn=64");
        let sizes = [66 + seed % 2, 37, 45 + seed % 3];
        (
            Case { keys, sizes, paddings: vec![Padding { gap: 2, outer: 5, offset: 1 }], seed: seed as u64 },
            *packed,
        )
    };
    all.iter().enumerate().map(one).collect()
}

/// Random orders, sizes, gaps and offsets, up to these sizes.
pub fn random(count: u64, [rows, terms]: [u32; 2]) -> Vec<Case> {
    let mut random = Random::new(11);
    let mut below = |n: u32| (random.word() % n) as usize;
    let mut one = |seed| Case {
        sizes: [1 + below(rows), 1 + below(rows), 1 + below(terms)],
        paddings: (0..3).map(|_| Padding::new(below(9), below(9))).collect(),
        keys: format!("dtype=bf16 arch=90 bm=64 bn=64 {}", order(below(8))),
        seed,
    };
    (0..count).map(&mut one).collect()
}

/// Products that wgmma multiplies of copies which are contiguous along K: their operands are not.
pub fn transposed() -> Vec<Case> {
    let all = [
        "dtype=tf32",
        "dtype=tf32 a=k_major c=n_major batched=true",
        "dtype=tf32 b=k_major alpha_beta=true",
        "precision=f32x3 a=k_major",
        "dtype=e4m3 out=bf16 scales=both",
        "dtype=i8 b=k_major out=i32",
        "dtype=u8 a=k_major c=n_major out=f32",
        "dtype=bf16 b_dtype=i8",
        "dtype=f16 b_dtype=e5m2 a=k_major group_size=16",
    ];
    let one = |(seed, keys): (usize, &&str)| Case {
        keys: format!("{keys} arch=90"),
        sizes: [66, 34, 141 + seed % 2],
        // Bulk copies store every other result: rows of 72 or 40 elements.
        paddings: vec![Padding::new(seed % 3, seed % 2), Padding::new(1, 0), Padding::new(6 + seed % 2, 0)],
        seed: seed as u64,
    };
    all.iter().enumerate().map(one).collect()
}
