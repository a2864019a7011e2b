//! Random configurations of products: types, architectures, tiles, warps or threads, stages, orders, epilogues and sizes,
//! for the simulator and for GPUs.

use tilewright_codegen::Generated;
use tilewright_codegen::words::{Kernels as _, Words};

use crate::functions::FUNCTIONS;
use crate::number::Random;
use crate::problem::{Finish, Problem, Setting, Values};
use crate::tensor::Padding;

/// The limits that a refusal may name: sizes of instructions, shared memory, registers.
const LIMITS: [&str; 8] = [
    "lies in one block of 128",
    "bytes of shared memory",
    "accumulator registers",
    "cannot share a tile",
    "accumulators of a tile",
    "a block has at most",
    "a bulk copy takes rows of a multiple of 16 bytes",
    "blocks copies a multiple of 8 of what they share",
];

/// Where products are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// One or a few tiles, any architecture: for the simulator.
    Small,
    /// Up to thousands of rows and columns, for a GPU of this architecture.
    Device(u32),
}

/// The types of a product, as keys; the K of its instruction, or 0 on CUDA cores; the oldest architecture.
struct Types {
    keys: &'static str,
    k: usize,
    arch: u32,
}

const fn types(keys: &'static str, k: usize, arch: u32) -> Types {
    Types { keys, k, arch }
}

impl Types {
    /// Are there two numbers in an element of B?
    fn has_pairs(&self) -> bool {
        ["b_dtype=i4", "b_dtype=u4"].iter().any(|of| self.keys.contains(of))
    }

    /// Does wgmma multiply them?
    fn has_wgmma(&self) -> bool {
        self.k > 0
            && ["f64 ", "acc=f16", "precision=tf32"].iter().all(|of| !format!("{} ", self.keys).contains(of))
    }

    /// Are sums of a step added to others in f32?
    fn promotes(&self) -> bool {
        ["dtype=e4m3", "dtype=e5m2", "precision=f32x3"].iter().any(|of| self.keys.starts_with(of))
    }

    /// Have its sums a sign?
    fn has_signs(&self) -> bool {
        !self.keys.starts_with("dtype=u32")
    }

    /// Are its operands integers?
    fn is_whole(&self) -> bool {
        ["dtype=i", "dtype=u"].iter().any(|of| self.keys.starts_with(of))
    }
}

const TYPES: [Types; 44] = [
    types("", 0, 80),
    types("mma=none", 0, 80),
    types("out=bf16", 0, 80),
    types("dtype=f64 mma=none", 0, 80),
    types("dtype=f16 mma=none", 0, 80),
    types("dtype=bf16 mma=none out=f32", 0, 80),
    types("dtype=i8 mma=none", 0, 80),
    types("dtype=i32", 0, 80),
    types("dtype=u32", 0, 80),
    types("dtype=e4m3 mma=none out=e4m3", 0, 80),
    types("dtype=e4m3 out=e4m3", 32, 89),
    types("dtype=i8 out=i8", 32, 80),
    types("precision=f32x3 out=f64", 8, 80),
    types("dtype=bf16", 16, 80),
    types("dtype=bf16", 16, 80),
    types("dtype=f16", 16, 80),
    types("dtype=f16 acc=f16", 16, 80),
    types("dtype=bf16 out=f32", 16, 80),
    types("dtype=f16 out=f32", 16, 80),
    types("dtype=bf16 out=f16", 16, 80),
    types("dtype=f16 out=bf16", 16, 80),
    types("dtype=tf32", 8, 80),
    types("dtype=tf32 out=bf16", 8, 80),
    types("precision=tf32", 8, 80),
    types("precision=f32x3", 8, 80),
    types("precision=f32x3 out=bf16", 8, 80),
    types("dtype=f64", 4, 80),
    types("dtype=i8", 32, 80),
    types("dtype=u8", 32, 80),
    types("dtype=i8 out=f32", 32, 80),
    types("dtype=i8 out=bf16", 32, 80),
    types("dtype=e4m3", 32, 89),
    types("dtype=e4m3 out=bf16", 32, 89),
    types("dtype=e5m2 out=f16", 32, 89),
    types("dtype=e4m3 scales=blocks", 32, 89),
    types("dtype=bf16 b_dtype=i8", 16, 80),
    types("dtype=f16 b_dtype=i8 out=f32", 16, 80),
    types("dtype=bf16 b_dtype=u8", 16, 80),
    types("dtype=f16 b_dtype=e4m3", 16, 80),
    types("dtype=bf16 b_dtype=e5m2 out=f32", 16, 80),
    types("dtype=bf16 b_dtype=i4 b=k_major", 16, 80),
    types("dtype=f16 b_dtype=i4 b=k_major out=f32", 16, 80),
    types("dtype=f16 b_dtype=i4 b=k_major", 16, 80),
    types("dtype=bf16 b_dtype=u4 b=k_major", 16, 80),
];

/// A function of the sums, as a key, in double precision, and the bound of its derivative.
type Function = (&'static str, fn(f64) -> f64, f64);

/// Functions for every type.
const EXACT: [Function; 5] = [
    ("relu", |x| x.max(0.0), 1.0),
    ("|x| max(x, 0) * 2", |x| x.max(0.0) * 2.0, 2.0),
    ("|x| -x", |x| -x, 1.0),
    ("|x| min(x, 3)", |x| x.min(3.0), 1.0),
    ("|x| abs(x) + 1", |x| x.abs() + 1.0, 1.0),
];

/// Functions of floating-point numbers.
const SMOOTH: [(&str, f64); 5] =
    [("gelu", 1.2), ("silu", 1.1), ("gelu_tanh", 1.2), ("tanh", 1.0), ("sigmoid", 0.25)];

/// A product, its sizes and numbers.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// Keys of `matmul_kernel!`.
    pub keys: String,
    /// M, N, K and the batch size.
    pub sizes: [usize; 4],
    /// The gaps and offsets of A, B, C and of all further tensors.
    pub paddings: [Padding; 4],
    values: Values,
    function: Option<Function>,
    scalars: [f64; 2],
    seed: u64,
}

struct Draw(Random);

impl Draw {
    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.0.word() as usize % of.len()]
    }

    /// True once in `count` draws.
    fn once_in(&mut self, count: u32) -> bool {
        self.0.word().is_multiple_of(count)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0.word() as usize % bound
    }

    fn arch(&mut self, of: &Types, scale: Scale) -> u32 {
        let mut known = vec![80, 80, 86, 89, 90, 90, 90];
        match scale {
            Scale::Small => known.extend([100, 120]),
            Scale::Device(arch) => known.retain(|&known| known <= arch),
        }
        self.one(&known).max(of.arch)
    }

    /// The tile, stages and warps; any of them may be left to their defaults.
    fn tile(&mut self, of: &Types) -> String {
        let mut keys = String::new();
        if self.once_in(4) {
            return keys;
        }
        let sides = [16, 32, 32, 48, 64, 64, 80, 96, 128, 128, 144, 192, 256];
        let (mut bm, mut bn) = (self.one(&sides), self.one(&sides));
        // An instruction has 16 rows and 8 columns, or the other way round; fragments of i4 are converted in pairs.
        let side = [8, 24, 40, 72, 104][self.below(5)];
        match self.below(8) {
            0 if !of.has_pairs() => bm = side,
            1 if !of.has_pairs() => bn = side,
            _ => {}
        }
        let bk = of.k * self.one(&[1, 2, 2, 3, 4, 4, 6]);
        let mut given = |key: &str, value: usize, chance: u32| {
            if !self.once_in(chance) {
                keys += &format!(" {key}={value}");
            }
        };
        given("bm", bm, 8);
        given("bn", bn, 8);
        given("bk", bk, 4);
        if !self.once_in(3) {
            keys += &format!(" stages={}", self.one(&[1, 2, 2, 3, 3, 4, 5]));
        }
        match self.below(4) {
            0 if bm * bn <= 64 * 128 => keys += &format!(" warps={}", self.one(&[1, 2, 4, 4])),
            0 => keys += " warps=8",
            1 => {
                let fit = |extent: usize| {
                    [1, 2, 4].into_iter().filter(move |over| extent.is_multiple_of(16 * over))
                };
                let (over, columns) = (self.over(fit(bm)), self.over(fit(bn)));
                let parts: Vec<usize> =
                    [1, 1, 2, 4].into_iter().filter(|parts| bk.is_multiple_of(of.k * parts)).collect();
                // Warps that share K have sums of several blocks.
                let parts = if of.keys.contains("scales=blocks") { 1 } else { self.one(&parts) };
                // Few warps have no registers for the sums of large tiles.
                if over * columns * parts <= 16 && bm * bn <= 6000 * over * columns {
                    keys += &match parts {
                        1 => format!(" warps=({over},{columns})"),
                        _ => format!(" warps=({over},{columns},{parts})"),
                    };
                }
            }
            _ => {}
        }
        keys
    }

    /// The tile, steps, stages and schedule of a product by wgmma, and the orders that it has.
    fn wgmma(&mut self, of: &Types) -> String {
        let mut keys = " mma=wgmma".to_owned();
        let mixed = of.keys.contains("b_dtype");
        let wide = ["dtype=bf16", "dtype=f16"].iter().any(|of_two| of.keys.starts_with(of_two));
        if (mixed || !wide) && !of.keys.contains("b=k_major") {
            keys += " b=k_major";
        }
        keys += if wide { "" } else { " a=k_major" };
        let c_rows = self.once_in(2);
        keys += if c_rows { " c=n_major" } else { "" };
        if self.once_in(6) {
            return keys;
        }
        let blocks = of.keys.contains("scales=blocks");
        let (rows, columns) = (
            self.one(&[64, 64, 128, 128, 192, 256]),
            self.one(&[16, 32, 48, 64, 64, 80, 96, 128, 128, 160, 192, 256]),
        );
        let [bm, bn] = if (c_rows || blocks) && !mixed { [rows, columns] } else { [columns, rows] };
        keys += &format!(" bm={bm} bn={bn}");
        if !blocks && self.once_in(2) {
            let steps = self.one(&[1, 2, 3, 4, 4, 6, 8]);
            keys += &format!(" bk={}", of.k * if of.promotes() { steps.min(4) } else { steps });
        }
        if self.once_in(3) {
            keys += &format!(" stages={}", self.one(&[1, 2, 3, 4]));
        }
        let few = if of.promotes() { rows == 64 } else { rows <= 128 };
        match self.below(7) {
            0 => keys += &format!(" schedule=(cluster={})", self.one(&[2, 4, 8])),
            1 if rows <= 128 && !of.keys.contains("f32x3") => keys += " schedule=(ping_pong=true)",
            2 if few => {
                let split = self.one(&[2, 3, 4, 8]);
                let split = if rows % split == 0 || columns % split == 0 { split } else { 2 };
                let cluster = self.one(&[1, 1, 2, 4].map(|blocks: i64| blocks.min(16 / split)));
                keys += &format!(" schedule=(split_k={split} cluster={cluster})");
            }
            3 if !keys.contains("batched") => {
                let parts = self.one(&[2, 4, 8, 16]);
                let parts = if rows % parts == 0 || columns % parts == 0 { parts } else { 2 };
                keys += &format!(" schedule=(split_k=blocks({parts}) cluster={})", self.one(&[1, 1, 2]));
            }
            4 => keys += " schedule=(band=1)",
            _ => {}
        }
        keys
    }

    /// One of these numbers of warps, or one.
    fn over(&mut self, of: impl Iterator<Item = usize>) -> usize {
        let of: Vec<usize> = of.collect();
        if of.is_empty() { 1 } else { self.one(&of) }
    }

    /// The tile, threads, copies and stages of a product on CUDA cores; any of them may be left to their defaults.
    fn threads(&mut self) -> String {
        let mut keys = match self.below(5) {
            0 => return String::new(),
            1 => {
                let ((over, columns), values) = (
                    self.one(&[(8, 8), (16, 16), (32, 4), (4, 32), (8, 16)]),
                    self.one(&[(1, 1), (2, 2), (4, 4), (4, 2), (1, 4)]),
                );
                let (bm, bn) = (over * values.0 * self.one(&[1, 2]), columns * values.1 * self.one(&[1, 2]));
                let (bm, bn) = (bm.max(16), bn.max(16));
                format!(
                    " tc=({over},{columns}) schedule=(values=({},{})) bm={bm} bn={bn} bk=16",
                    values.0, values.1
                )
            }
            2 => format!(" bm=64 bn=64 bk=16 tc=(8,8,{})", self.one(&[2, 4, 8])),
            _ => {
                let sides = [16, 32, 48, 64, 80, 96, 112, 128];
                format!(" bm={} bn={} bk={}", self.one(&sides), self.one(&sides), self.one(&[8, 16, 16, 32]))
            }
        };
        keys += self.one(&["", "", " stages=2", " stages=3"]);
        keys += self.one(&["", "", " schedule=(fragments=2)"]);
        keys += self.one(&["", "", " schedule=(order=serpentine)", " schedule=(order=rows)"]);
        keys
    }

    fn function(&mut self, of: &Types) -> Option<Function> {
        let whole = of.is_whole() && !of.keys.contains("out=f") && !of.keys.contains("out=b");
        // A number without a sign has no negative.
        let exact: Vec<Function> =
            EXACT.into_iter().filter(|one| of.has_signs() || one.0 != "|x| -x").collect();
        match self.below(5) {
            0 => Some(self.one(&exact)),
            1 if !whole => {
                let (name, steepest) = self.one(&SMOOTH);
                let row = FUNCTIONS.iter().find(|row| row.name == name).expect("a function of the table");
                Some((row.name, row.of, steepest))
            }
            _ => None,
        }
    }

    fn keys(&mut self, scale: Scale) -> (String, Option<Function>) {
        let of = &TYPES[self.below(TYPES.len())];
        let arch = self.arch(of, scale);
        let mut keys = of.keys.to_owned();
        if arch > 80 || self.once_in(2) {
            keys += &format!(" arch={arch}");
        }
        let by_wgmma = arch == 90 && of.has_wgmma() && self.once_in(3);
        if of.k == 0 {
            keys += &self.threads();
            if arch == 90 && keys.contains("bm=") && self.once_in(3) {
                keys += &format!(" schedule=(split_k={})", self.one(&[2, 4, 8]));
            }
        } else if by_wgmma {
            keys += &self.wgmma(of);
        } else {
            keys += self.one(&["", " mma=mma_sync", " mma=mma_sync"]);
            keys += &self.tile(of);
        }
        for (key, chance) in [
            ("a=k_major", 2),
            ("b=k_major", 2),
            ("c=n_major", 2),
            ("alpha_beta=true", 3),
            ("batched=true", 4),
            ("overlaps=true", 8),
            ("schedule=(swizzle=none)", 16),
            ("schedule=(swizzle=(2,4,3))", 16),
        ] {
            let of_mma_sync = of.k > 0 && !by_wgmma;
            let suits = match key.split('=').next() {
                Some("schedule") => of_mma_sync && !keys.contains("swizzle"),
                Some("c") => !by_wgmma,
                Some("batched") => !keys.contains("blocks("),
                _ => true,
            };
            if self.once_in(chance) && suits && !keys.contains(key) {
                keys += &format!(" {key}");
            }
        }
        keys += self.one(&["", "", "", " bias=rows", " bias=columns"]);
        if keys.contains("b_dtype") {
            keys += self.one(&["", "", " scales=rows"]);
            let group = self.one(&[16, 32, 64, 128, 256]);
            if self.once_in(2) {
                keys += &format!(" group_size={group}");
                keys += self.one(&["", " zeros=true"]);
            }
        } else if !keys.contains("scales") {
            keys += self.one(&["", "", "", "", " scales=rows", " scales=columns", " scales=both"]);
        }
        let function = self.function(of);
        if let Some((name, ..)) = function {
            keys += &format!(" epilogue={}", name.replace(' ', ""));
        }
        keys += &self.matrices(of, function.is_some());
        (keys, function)
    }

    /// A residual and a second result, of any type where C is of real numbers.
    fn matrices(&mut self, of: &Types, has_function: bool) -> String {
        let whole = of.is_whole();
        let mut keys = self.one(&["", "", "", " residual=before", " residual=after"]).to_owned();
        if !keys.is_empty() && !whole {
            keys += self.one(&["", "", "(f32)", "(bf16)"]);
        }
        if has_function && self.once_in(2) {
            let of = if whole { "true" } else { self.one(&["true", "true", "f32", "f16"]) };
            keys += &format!(" aux={of}");
        }
        keys
    }

    /// An extent: 1, a few, one or several tiles, rarely 0, and on a device rarely thousands.
    fn extent(&mut self, scale: Scale) -> usize {
        let most = if scale == Scale::Small { 150 } else { 700 };
        match self.below(24) {
            0 => 0,
            1 => 1,
            2 => 1 + self.below(16),
            3..6 => 32 * (1 + self.below(most / 32)),
            6 if scale != Scale::Small => 1 + self.below(4000),
            _ => 1 + self.below(most),
        }
    }

    fn sizes(&mut self, scale: Scale) -> [usize; 4] {
        let mut sizes = [self.extent(scale), self.extent(scale), self.extent(scale), 1 + self.below(3)];
        // Few elements and products, so that the reference takes no time.
        let most = if scale == Scale::Small { 2_000_000 } else { 200_000_000 };
        while sizes.iter().map(|size| (*size).max(1)).product::<usize>() > most {
            let largest = sizes.iter().max().copied().unwrap_or(0);
            sizes.iter_mut().filter(|size| **size == largest).for_each(|size| *size /= 2);
        }
        let unit = self.one(&[1, 1, 2, 4, 8, 16, 16]);
        [0, 1, 2].into_iter().for_each(|mode| sizes[mode] = sizes[mode].next_multiple_of(unit));
        // References tell rows from columns by their number.
        if sizes[0] == sizes[1] {
            sizes[1] += unit;
        }
        sizes
    }

    fn padding(&mut self) -> Padding {
        let unit = self.one(&[1, 8, 16, 16]);
        let mut up_to = |most: usize| if self.once_in(2) { 0 } else { unit * self.below(most) };
        Padding { gap: up_to(4), outer: up_to(3), offset: up_to(3) }
    }
}

impl Configuration {
    /// The configuration of a seed.
    pub fn draw(seed: u64, scale: Scale) -> Configuration {
        let mut draw = Draw(Random::new(seed));
        let (keys, function) = draw.keys(scale);
        let sizes = draw.sizes(scale);
        let paddings = [draw.padding(), draw.padding(), draw.padding(), Padding::default()];
        let (alpha, beta) = (draw.one(&[1.0, 2.0, -1.0]), draw.one(&[0.0, 1.0, -1.0, 2.0]));
        // Two scales of any size would pass 32 bits, and leave the range of f16.
        let integers = ["dtype=i", "dtype=u"].iter().any(|of| keys.starts_with(of))
            && ["out=f", "out=b"].iter().all(|out| !keys.contains(out));
        let narrow = integers || keys.contains("acc=f16");
        let small = draw.once_in(2) || (narrow && keys.contains("scales"));
        let values = if small { Values::Whole } else { Values::Any };
        Configuration { keys, sizes, paddings, values, function, scalars: [alpha, beta], seed }
    }

    /// The same kernel with other sizes, strides and numbers.
    pub fn resized(&self, seed: u64, scale: Scale) -> Configuration {
        let mut draw = Draw(Random::new(seed ^ 0x5172_65ed));
        let (sizes, paddings) =
            (draw.sizes(scale), [draw.padding(), draw.padding(), draw.padding(), Padding::default()]);
        Configuration { sizes, paddings, seed: seed.wrapping_mul(3), ..self.clone() }
    }

    /// The same kernel and numbers with this M, N and K.
    pub fn sized(&self, [m, n, k]: [usize; 3]) -> Configuration {
        Configuration { sizes: [m, n, k, self.sizes[3]], ..self.clone() }
    }

    /// The kernel, or why there is none.
    pub fn kernel(&self) -> Result<Generated, String> {
        let kernel = Words::read(&self.keys).and_then(|words| words.matmul());
        kernel.map_err(|why| why.to_string())
    }

    /// Does a refusal name a limit of the hardware, and point at a key?
    pub fn names_a_limit(why: &str) -> bool {
        LIMITS.iter().any(|limit| why.contains(limit)) && why.contains('^')
    }

    /// The architecture that it is made for.
    pub fn arch(&self) -> u32 {
        self.keys
            .split("arch=")
            .nth(1)
            .map_or(80, |rest| rest[..rest.find(' ').unwrap_or(rest.len())].parse().unwrap_or(80))
    }

    /// Whether a launch has no input, and reports that.
    pub fn is_empty(&self, message: &str) -> bool {
        let [m, n, k, _] = self.sizes;
        m * n > 0
            && k == 0
            && message.contains("it has no elements, and a tensor that the kernel writes has some")
    }

    /// Arguments for the kernel, and the expected results.
    pub fn problem(&self, kernel: &Generated) -> Problem {
        let [m, n, k, l] = self.sizes;
        let sizes = &[("M", m), ("N", n), ("K", k), ("L", l)];
        let ([alpha, beta], paddings, values) = (self.scalars, &self.paddings[..], self.values);
        let setting = Setting { sizes, paddings, values, seed: self.seed, alpha, beta };
        Problem::of(kernel, &setting).finished(values, &self.finish())
    }

    /// Errors of instructions and conversions, and the function.
    fn finish(&self) -> Finish {
        let has = |text: &str| self.keys.contains(text);
        let (mut rounding, mut whole) = (0.0, 2f64.powi(24));
        if has("acc=f16") {
            whole = 2f64.powi(11);
        } else if has("precision=tf32") {
            rounding = 2f64.powi(-10);
        } else if has("precision=f32x3") {
            rounding = 2f64.powi(-20);
        } else if has("dtype=e") {
            // Tensor cores keep some 13 bits of the greatest term of a step.
            (rounding, whole) = (2f64.powi(-9), 2f64.powi(13));
        }
        let function = self.function.map(|(_, of, steepest)| (of, steepest));
        Finish { function, rounding, whole, ..Finish::of(&self.keys) }
    }

    /// The configuration in words.
    pub fn text(&self) -> String {
        let Configuration { keys, sizes: [m, n, k, l], paddings, values, scalars, seed, .. } = self;
        format!(
            "seed {seed}: {keys}\n{m}x{n}x{k}, batches {l}, {values:?}, alpha and beta {scalars:?}, {paddings:?}"
        )
    }
}
