//! Random products: a kernel, sizes, layouts of the matrices, numbers. One description for the simulator and
//! for GPUs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use tilewright::kernels::{FASTEST, PRODUCTS};
use tilewright_codegen::Generated;

use crate::gallery;
use crate::problem::{Problem, Setting, Values};
use crate::tensor::Padding;

/// The seed of every run, unless `TILEWRIGHT_DRAWS` sets another.
const SEED: u64 = 1;

/// The size of the matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// One or two tiles: for the simulator.
    Small,
    /// Hundreds of rows and columns: for a GPU.
    Large,
}

/// The restrictions on sizes, gaps and offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Whole tiles at aligned addresses: every variant must run.
    Whole,
    /// Any sizes, but aligned addresses, rows and columns.
    Aligned,
    /// No restriction.
    Any,
}

/// A product.
#[derive(Clone, Debug)]
pub struct Draw {
    /// Keys of `matmul_kernel!`.
    pub keys: String,
    /// How the sizes were restricted.
    pub fit: Fit,
    /// M, N, K.
    pub size: [usize; 3],
    /// The batch size, if the kernel has batches.
    pub batches: usize,
    /// The gaps and offsets of A, B and C.
    pub paddings: [Padding; 3],
    /// If the kernel takes it.
    pub alpha: f64,
    /// If the kernel takes it. Where it is 0, C is poisoned.
    pub beta: f64,
    /// The seed of the elements.
    pub seed: u64,
}

/// The keys of the kernels to test: all products under review, and the fastest.
pub fn kernels() -> Vec<&'static str> {
    let more = FASTEST.iter().filter(|keys| !PRODUCTS.contains(keys));
    PRODUCTS.iter().chain(more).copied().collect()
}

impl Draw {
    /// The kernel.
    pub fn kernel(&self) -> Result<Generated, String> {
        let outcome = gallery::matmul(&self.keys);
        let complaints: Vec<String> =
            outcome.diagnostics.iter().map(|diagnostic| diagnostic.text()).collect();
        outcome.kernel.ok_or_else(|| complaints.join("\n"))
    }

    /// Arguments for the kernel, and the expected results.
    pub fn problem(&self, kernel: &Generated) -> Problem {
        let [m, n, k] = self.size;
        let sizes = [("M", m), ("N", n), ("K", k), ("L", self.batches)];
        let Draw { paddings, seed, alpha, beta, .. } = self;
        let (sizes, values) = (&sizes[..], Values::Any);
        let setting = Setting { sizes, paddings, values, seed: *seed, alpha: *alpha, beta: *beta };
        Problem::of(kernel, &setting)
    }
}

/// Random products of one kernel.
fn draws(keys: &'static str, scale: Scale, fit: Fit) -> impl Strategy<Value = Draw> {
    let step = if fit == Fit::Any { 1 } else { 16 };
    let key = |name: &str, default: usize| {
        let value = keys.split_whitespace().find_map(|key| key.strip_prefix(name));
        value.map_or(default, |value| value.parse().expect("a size"))
    };
    // Products on tensor cores have longer k-steps; all of them divide this.
    let threads = !keys.contains("dtype=") || ["tc=", "vec=", "i32"].iter().any(|key| keys.contains(key));
    // Sizes of 256 are whole tiles of every product whose keys do not set them.
    let tile = [key("bm=", 256), key("bn=", 256), if threads { key("bk=", 8) } else { 128 }];
    // Tiles along M, N, K.
    let (tiles, most_k): ([usize; 3], usize) = match scale {
        Scale::Small => ([1, 1, 4], 40),
        Scale::Large => ([3, 3, 20], 600),
    };
    let along = move |mode: usize| {
        let most = if mode == 2 { most_k } else { tile[mode] * tiles[mode] * 3 / 2 };
        match fit {
            Fit::Whole => (1..=tiles[mode]).prop_map(move |tiles| tiles * tile[mode]).boxed(),
            // The alignment is along the contiguous mode, which depends on the kernel.
            Fit::Aligned => (1..=most.div_ceil(step)).prop_map(move |steps| steps * step).boxed(),
            Fit::Any => (1..=most).boxed(),
        }
    };
    let padding = (0..=9usize, 0..=70usize, 0..=7usize);
    let padding = padding.prop_map(move |(gap, outer, offset)| Padding {
        gap: gap * step,
        outer: outer * step,
        offset: offset * step,
    });
    let number =
        || prop_oneof![Just(1.0), Just(0.0), Just(-1.0), (-16..=16).prop_map(|x| f64::from(x) / 8.0)];
    // A, B and C along K or rows; alpha and beta; batches.
    let more = (any::<[bool; 3]>(), any::<bool>(), proptest::bool::weighted(0.25));
    let size = (along(0), along(1), along(2));
    let beta = prop_oneof![Just(0.0), number()];
    (more, size, 1..=3usize, [padding.clone(), padding.clone(), padding], number(), beta, any::<u64>())
        .prop_map(move |((majors, scaled, batched), (m, n, k), batches, paddings, alpha, beta, seed)| {
            let keys = with(keys, majors, scaled, batched);
            Draw { keys, fit, size: [m, n, k], batches, paddings, alpha, beta, seed }
        })
}

/// The keys of a kernel with other majors, and with more arguments where drawn.
fn with(keys: &str, [a, b, c]: [bool; 3], scaled: bool, batched: bool) -> String {
    let kept =
        keys.split_whitespace().filter(|key| !["a=", "b=", "c="].iter().any(|major| key.starts_with(major)));
    let mut all: Vec<&str> = kept.collect();
    all.extend(a.then_some("a=k_major"));
    all.extend(b.then_some("b=k_major"));
    all.extend(c.then_some("c=n_major"));
    for (key, drawn) in [("alpha_beta=true", scaled), ("batched=true", batched)] {
        all.extend((drawn && !all.contains(&key)).then_some(key));
    }
    all.join(" ")
}

/// Runs random products on several threads, the kernels round-robin. Panics with the first failure, the
/// smallest of the same kind, and how to repeat it.
pub fn each(count: usize, scale: Scale, threads: usize, test: impl Fn(&Draw) -> Result<(), String> + Sync) {
    let (seed, chosen) = match std::env::var("TILEWRIGHT_DRAWS") {
        Ok(text) => {
            asked(&text).unwrap_or_else(|| panic!("TILEWRIGHT_DRAWS is `{text}`; write a seed, or seed:draw"))
        }
        Err(_) => (SEED, None),
    };
    let all: Vec<usize> = chosen.map_or((0..count).collect(), |draw| vec![draw]);
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(&draw) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(why) = one(seed, draw, scale, &test) {
                wrong.lock().unwrap_or_else(PoisonError::into_inner).push(why);
            }
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(wrong.is_empty(), "{} of {} draws are wrong\n\n{}", wrong.len(), all.len(), wrong.join("\n\n"));
}

/// `7` or `7:31`
fn asked(text: &str) -> Option<(u64, Option<usize>)> {
    match text.split_once(':') {
        Some((seed, draw)) => Some((seed.parse().ok()?, Some(draw.parse().ok()?))),
        None => Some((text.parse().ok()?, None)),
    }
}

fn one(
    seed: u64,
    draw: usize,
    scale: Scale,
    test: &(impl Fn(&Draw) -> Result<(), String> + Sync),
) -> Result<(), String> {
    let kernels = kernels();
    let fit = [Fit::Whole, Fit::Any, Fit::Aligned][draw / kernels.len() % 3];
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&(draw as u64).to_le_bytes());
    let config = Config { cases: 1, max_shrink_iters: 100, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let first = Mutex::new(None);
    let run = |drawn: Draw| {
        test(&drawn).map_err(|why| {
            let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert_with(|| format!("{drawn:?}: {why}"));
            TestCaseError::fail(why)
        })
    };
    let message = runner.run(&draws(kernels[draw % kernels.len()], scale, fit), run);
    let first = first.into_inner().unwrap_or_else(PoisonError::into_inner).unwrap_or_default();
    match message {
        Ok(()) => Ok(()),
        Err(TestError::Fail(why, smallest)) => Err(format!(
            "draw {draw} of seed {seed} (TILEWRIGHT_DRAWS={seed}:{draw} repeats it): {first}\nthe smallest: {smallest:?}: {why}"
        )),
        Err(why) => Err(format!("draw {draw} of seed {seed}: {why}")),
    }
}
