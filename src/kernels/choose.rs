//! Which of the shipped products is the fastest for a problem on a device: predicted from the generator's
//! instruction counts, without running anything.
//!
//! [`work`] counts the instructions of a block's warps; [`Model`] converts them to clocks; a launch takes as
//! many waves as the fullest multiprocessor has to run. The model's constants are the same for all kernels.
//!
//! ```
//! use tilewright::Elem;
//! use tilewright::kernels::choose::{DeviceLimits, Problem, choose};
//!
//! let large = choose(&Problem::new(Elem::F32, 4096, 4096, 4096), &DeviceLimits::H200)?;
//! let small = choose(&Problem::new(Elem::F32, 1024, 1024, 1024).layouts("tn")?, &DeviceLimits::H200)?;
//! assert_ne!(large.keys, small.keys);
//! assert!(large.predicted.seconds > 30.0 * small.predicted.seconds);
//! println!("{}", large.kernel.source());
//! # Ok::<(), tilewright::kernels::choose::Refused>(())
//! ```

use std::fmt;

use super::{FASTEST, PRODUCTS};
use crate::codegen::atom::Atom;
use crate::codegen::definition::Param;
use crate::codegen::kernel_def::Places;
use crate::codegen::launch::{Given, Limits, Tensor, plan};
use crate::codegen::target::{self, Target};
use crate::codegen::words::Words;
use crate::codegen::{Counts, Definition, Generated, Work, work};
use crate::{Elem, KernelDef};

/// A product C (M, N) = A (M, K) · B (K, N), or a batch of them. Tensors are dense, and start at addresses
/// with the alignment of an allocation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Problem {
    /// Element type of A and B.
    pub elem: Elem,
    /// M, N and K.
    pub sizes: [i64; 3],
    /// Number of products in the batch; `None` for a single product, whose tensors have two modes.
    pub batch: Option<i64>,
    /// Rows of A are contiguous instead of its columns: `a = k_major`.
    pub a_k_major: bool,
    /// Each column of B as a (K, N) matrix is contiguous: `b = k_major`.
    pub b_k_major: bool,
    /// Rows of C are contiguous instead of its columns: `c = n_major`.
    pub c_n_major: bool,
}

impl Problem {
    /// One product, with contiguous columns of A and C and contiguous rows of B.
    pub const fn new(elem: Elem, m: i64, n: i64, k: i64) -> Problem {
        let [a_k_major, b_k_major, c_n_major] = [false; 3];
        Problem { elem, sizes: [m, n, k], batch: None, a_k_major, b_k_major, c_n_major }
    }

    /// The operand layouts in BLAS letters, A first, for a C with contiguous columns: `n` is not transposed,
    /// `t` is.
    pub fn layouts(self, letters: &str) -> Result<Problem, Refused> {
        let (a_k_major, b_k_major) = match letters {
            "nn" => (false, true),
            "nt" => (false, false),
            "tn" => (true, true),
            "tt" => (true, false),
            _ => {
                return Err(Refused(format!(
                    "`{letters}` is no layout of a product; write one of nn, nt, tn, tt"
                )));
            }
        };
        Ok(Problem { a_k_major, b_k_major, c_n_major: false, ..self })
    }

    /// A batch of this many products.
    pub fn batched(self, batch: i64) -> Problem {
        Problem { batch: Some(batch), ..self }
    }

    /// The keys that describe the problem; keys that a kernel sets itself must agree with them.
    fn keys(&self) -> [(&'static str, &'static str); 5] {
        let major = |k: bool, other| if k { "k_major" } else { other };
        [
            ("dtype", self.elem.name()),
            ("a", major(self.a_k_major, "m_major")),
            ("b", major(self.b_k_major, "n_major")),
            ("c", if self.c_n_major { "n_major" } else { "m_major" }),
            ("batched", if self.batch.is_some() { "true" } else { "false" }),
        ]
    }

    fn check(&self) -> Result<(), Refused> {
        let [m, n, k] = self.sizes;
        let sizes = [("M", m), ("N", n), ("K", k), ("the batch", self.batch.unwrap_or(1))];
        if let Some((name, size)) = sizes.iter().find(|(_, size)| *size < 1) {
            return Err(Refused(format!(
                "{name} is {size}: a product has sizes from 1 on, and nothing is launched for empty ones"
            )));
        }
        let most = i128::from(u32::MAX) << 16;
        let all = |x: i64, y: i64| {
            i128::from(x).saturating_mul(i128::from(y)).saturating_mul(i128::from(sizes[3].1))
        };
        match [("A", all(m, k)), ("B", all(n, k)), ("C", all(m, n))].iter().find(|(_, len)| *len > most) {
            Some((name, len)) => Err(Refused(format!(
                "{name} has {len} elements, more than any device holds; write smaller sizes"
            ))),
            None => Ok(()),
        }
    }

    /// The arguments of a product's kernel.
    fn given(&self, kernel: &Generated) -> Vec<Given> {
        let [m, n, k] = self.sizes;
        let matrices = [([m, k], self.a_k_major), ([n, k], self.b_k_major), ([m, n], self.c_n_major)];
        let one = |(place, param): (usize, &Param)| {
            let (Some((mutable, _)), Some(&([rows, columns], rows_contiguous))) =
                (param.tensor, matrices.get(place))
            else {
                return Given::Scalar(param.elem);
            };
            let mut extents = vec![rows, columns];
            let mut strides = if rows_contiguous { vec![columns, 1] } else { vec![1, rows] };
            if let Some(batch) = self.batch {
                extents.push(batch);
                strides.push(rows * columns);
            }
            let len = extents.iter().product::<i64>() as u64;
            Given::Tensor(Tensor {
                elem: param.elem,
                mutable,
                extents,
                strides,
                len,
                address: (place as u64 + 1) << 50,
            })
        };
        kernel.params.iter().enumerate().map(one).collect()
    }
}

/// The limits and rates of a device. The clock scales all predictions alike, so it does not affect the
/// choice.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DeviceLimits {
    /// Limits of a launch.
    pub launch: Limits,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// 32-bit registers of a multiprocessor.
    pub registers: u32,
    /// Bytes of shared memory of a multiprocessor; each block takes a kilobyte more than it asks for.
    pub shared_bytes: u32,
    /// Resident threads of a multiprocessor.
    pub threads: u32,
    /// Resident blocks of a multiprocessor.
    pub blocks: u32,
    /// Clocks per second.
    pub clock: f64,
    /// Bytes per second of global memory.
    pub bandwidth: f64,
}

impl DeviceLimits {
    /// The H200.
    pub const H200: DeviceLimits = DeviceLimits {
        launch: Limits::HOPPER,
        multiprocessors: 132,
        registers: target::REGISTERS,
        shared_bytes: 228 << 10,
        threads: 2048,
        blocks: 32,
        clock: 1.98e9,
        bandwidth: 4.8e12,
    };

    /// The limits of a device on this machine; what the driver does not report is taken from the H200.
    #[cfg(feature = "cuda")]
    pub fn of(device: &crate::Device) -> DeviceLimits {
        let (all, usual) = (device.properties(), DeviceLimits::H200);
        let clock = if all.clock_khz > 0 { 1e3 * f64::from(all.clock_khz) } else { usual.clock };
        // Double data rate: two transfers of the bus width per clock.
        let bandwidth = 2e3 * f64::from(all.memory_clock_khz) * f64::from(all.memory_bus_bits / 8);
        DeviceLimits {
            launch: device.limits(),
            multiprocessors: all.multiprocessors,
            registers: all.registers_per_multiprocessor,
            shared_bytes: all.shared_bytes_per_multiprocessor,
            threads: all.threads_per_multiprocessor,
            blocks: Target::of(all.arch()).blocks,
            clock,
            bandwidth: if bandwidth > 0.0 { bandwidth } else { usual.bandwidth },
        }
    }
}

/// Why there is no choice, or why a kernel does not serve.
#[derive(Clone, PartialEq, Eq)]
pub struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The same text as `Display`: `unwrap` prints this.
impl fmt::Debug for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// Costs in clocks of a multiprocessor. Fitted to `bench/results/h200` by the test `choose`, whose
/// `--ignored fit` prints these lines for the measurements there.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Model {
    /// Issue slots of a counted instruction, where the kernel is issue-bound: some instructions are merged,
    /// and address and loop arithmetic are not counted.
    pub slots: f64,
    /// A wavefront of a shared load whose value is used at once. Loads that run a k-step ahead cost their
    /// issue slots alone.
    pub prompt: f64,
    /// A warp's load, store or copy of global memory: addresses and the load-store unit's time.
    pub global: f64,
    /// An iteration that copies its tiles through registers, whatever their size: it waits for the loads
    /// before it stores them.
    pub staged: f64,
    /// Exposed latency: an iteration that waits for global memory with nothing to compute. Other resident
    /// blocks hide it, if there are any.
    pub exposed: f64,
    /// How many times as long an iteration takes where no scheduler has a second warp.
    pub unpaired: f64,
    /// The prologue and epilogue of a wave of blocks: first loads, and the end of the last iteration.
    pub fill: f64,
    /// Launch overhead.
    pub launch: f64,
}

/// Multiply-adds of a multiprocessor in a clock where the target's table does not know the row's.
const RATE: u32 = 128;

/// Instructions of a guard: coordinates, comparisons, a predicate. Not fitted.
const GUARD: f64 = 3.0;

impl Model {
    /// Fitted to one H200.
    pub const FITTED: Model = Model {
        slots: 1.03,
        prompt: 0.34,
        global: 3.3,
        staged: 93.0,
        exposed: 1000.0,
        unpaired: 1.25,
        fill: 2070.0,
        launch: 5960.0,
    };

    /// Clocks of a part of a block's work when nothing waits.
    fn busy(&self, counts: &Counts, product: Option<&'static Atom>) -> f64 {
        let rate = product.and_then(|row| Target::of(90).multiply_adds(row)).unwrap_or(RATE);
        let pipe = f64::from(target::WARP) / f64::from(rate);
        let all =
            counts.multiply_adds + counts.arithmetic + counts.shared + counts.global + GUARD * counts.guarded;
        (counts.multiply_adds * pipe).max(all * self.slots / 4.0)
            + counts.prompt * self.prompt
            + counts.global * self.global
    }

    /// Clocks of this many resident blocks on a multiprocessor: before the main loop, for one iteration, and
    /// after the loop.
    fn wave(&self, facts: &Facts, blocks: f64, device: &DeviceLimits) -> [f64; 3] {
        let Work { before, iteration, after, product, exposed, staged, .. } = &facts.work;
        let busy = self.busy(iteration, *product) + if *staged && !exposed { self.staged } else { 0.0 };
        // A block with fewer warps than schedulers leaves some schedulers idle; with two for each, one runs while the other
        // waits for shared memory.
        let idle = if facts.warps * blocks < 8.0 { self.unpaired } else { 1.0 };
        let alone = busy * idle * (4.0 / facts.warps).max(1.0) + if *exposed { self.exposed } else { 0.0 };
        let active = (facts.tiles as f64).min(f64::from(device.multiprocessors.max(1)));
        let memory = after.sectors * 32.0 * active * device.clock / device.bandwidth;
        [
            self.fill + blocks * self.busy(before, *product),
            (blocks * busy).max(alone),
            blocks * self.busy(after, *product).max(memory),
        ]
    }

    /// The predicted time of a launch.
    pub fn predict(&self, facts: &Facts, device: &DeviceLimits) -> Predicted {
        let clocks = |blocks: u64| {
            let [before, iteration, after] = self.wave(facts, blocks as f64, device);
            before + facts.work.iterations * iteration + after
        };
        let most = facts.tiles.div_ceil(u64::from(device.multiprocessors.max(1)));
        let (blocks, last) = (u64::from(facts.blocks), most % u64::from(facts.blocks));
        let all =
            self.launch + (most / blocks) as f64 * clocks(blocks) + if last > 0 { clocks(last) } else { 0.0 };
        Predicted {
            seconds: all / device.clock,
            waves: most.div_ceil(blocks),
            clocks: self.wave(facts, blocks.min(most) as f64, device),
            facts: facts.clone(),
        }
    }
}

/// The counts and limits that a prediction is made from, for a kernel on a problem and a device.
#[derive(Clone, PartialEq, Debug)]
pub struct Facts {
    /// The variant that runs; variant 0 assumes the most.
    pub variant: usize,
    /// Blocks of the grid.
    pub tiles: u64,
    /// Warps of a block.
    pub warps: f64,
    /// Resident blocks of a multiprocessor.
    pub blocks: u32,
    /// Registers of a thread: the compiler's figure where the report has it, otherwise an estimate.
    pub registers: u32,
    /// Bytes of shared memory of a block.
    pub shared_bytes: u32,
    /// Instruction counts of a block.
    pub work: Work,
}

/// A predicted time and its reasons. It prints the reasons in one line.
#[derive(Clone, PartialEq, Debug)]
pub struct Predicted {
    /// Its time.
    pub seconds: f64,
    /// Waves on the fullest multiprocessor; the last one may be partial.
    pub waves: u64,
    /// Clocks of a wave before the main loop, for one iteration of it, and after it.
    pub clocks: [f64; 3],
    /// The facts that the prediction follows from.
    pub facts: Facts,
}

impl fmt::Display for Predicted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let Facts { tiles, blocks, registers, shared_bytes, variant, work, .. } = &self.facts;
        let [before, iteration, after] = self.clocks;
        write!(
            f,
            "{} in {} of {} on a multiprocessor ({registers} registers, {shared_bytes} bytes); {before:.0} + {} x {iteration:.0} + {after:.0} clocks; variant {}",
            plural(*tiles, "tile"),
            plural(self.waves, "wave"),
            plural(u64::from(*blocks), "block"),
            plural(work.iterations as u64, "iteration"),
            variant + 1,
        )
    }
}

/// A kernel for a problem.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Its keys, as written in the list of candidates.
    pub keys: String,
    /// The kernel, with the problem's type and layouts; its parameters tell whether it takes alpha and beta.
    pub kernel: KernelDef,
    /// Its predicted time.
    pub predicted: Predicted,
}

/// Kernels for a problem, fastest first, and the refused ones, each with the reason.
#[derive(Clone, Debug)]
pub struct Ranking {
    /// At least one.
    pub choices: Vec<Choice>,
    /// Keys that were refused, and why.
    pub refused: Vec<(String, Refused)>,
}

/// The fastest of the shipped products for a problem.
pub fn choose(problem: &Problem, device: &DeviceLimits) -> Result<Choice, Refused> {
    rank(&candidates(problem), problem, device).map(|mut all| all.choices.remove(0))
}

/// The shipped products for a problem's type and batch: [`FASTEST`], and those made for
/// another type than f32 or for batches.
pub fn candidates(problem: &Problem) -> Vec<&'static str> {
    let keys = |of: &str| -> Vec<(String, String)> {
        let pair = |word: &str| word.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        of.split_whitespace().filter_map(pair).collect()
    };
    let agrees = |of: &&&str| {
        let (said, wanted) = (keys(of), problem.keys());
        let typed = problem.elem == Elem::F32 || said.iter().any(|(key, _)| key == "dtype");
        typed
            && said.iter().all(|(key, value)| !wanted.iter().any(|(name, want)| name == key && want != value))
    };
    let special = |of: &&&str| keys(of).iter().any(|(key, _)| key == "dtype" || key == "batched");
    let mut all: Vec<&str> =
        FASTEST.iter().chain(PRODUCTS.iter().filter(special)).filter(agrees).copied().collect();
    let mut seen = Vec::new();
    all.retain(|keys| {
        !seen.contains(keys) && {
            seen.push(*keys);
            true
        }
    });
    all
}

/// Kernels of these keys for a problem, fastest first.
///
/// ```
/// # use tilewright::Elem;
/// # use tilewright::kernels::choose::{DeviceLimits, Problem, rank};
/// let few_tiles = Problem::new(Elem::F32, 512, 512, 4096);
/// let ranking = rank(&["bm=128 bn=128", "bm=64 bn=64"], &few_tiles, &DeviceLimits::H200)?;
/// assert_eq!(ranking.choices[0].keys, "bm=64 bn=64");
/// println!("{}", ranking.choices[0].predicted); // 64 tiles in 1 wave of …
/// # Ok::<(), tilewright::kernels::choose::Refused>(())
/// ```
pub fn rank(keys: &[&str], problem: &Problem, device: &DeviceLimits) -> Result<Ranking, Refused> {
    problem.check()?;
    let (mut choices, mut refused) = (Vec::new(), Vec::new());
    for &keys in keys {
        let one = kernel(keys, problem).and_then(|(kernel, generated)| {
            let facts = facts(&generated, problem, device)?;
            let predicted = Model::FITTED.predict(&facts, device);
            Ok(Choice { keys: keys.to_owned(), kernel, predicted })
        });
        match one {
            Ok(choice) => choices.push(choice),
            Err(why) => refused.push((keys.to_owned(), why)),
        }
    }
    choices.sort_by(|a: &Choice, b: &Choice| a.predicted.seconds.total_cmp(&b.predicted.seconds));
    if choices.is_empty() {
        let what = format!(
            "{} {}",
            if problem.batch.is_some() { "batches of" } else { "products of" },
            problem.elem
        );
        let mut said = format!("no kernel for {what}");
        refused.iter().for_each(|(keys, why)| said += &format!("\n  `{keys}`: {why}"));
        if refused.is_empty() {
            said += ": none is shipped; rank keys of your own";
        }
        return Err(Refused(said));
    }
    Ok(Ranking { choices, refused })
}

/// The kernel of these keys for a problem; the problem sets the keys that they leave open.
pub fn kernel(keys: &str, problem: &Problem) -> Result<(KernelDef, Generated), Refused> {
    let read = |text: &str| Words::read(text).map_err(|why| Refused(why.to_string()));
    let said = read(keys)?;
    let is_said =
        |key: &str| said.args().iter().any(|arg| arg.name.as_ref().is_some_and(|name| name.text == key));
    let open = problem.keys().into_iter().filter(|(key, _)| !is_said(key));
    let words = read(&open.fold(keys.to_owned(), |all, (key, value)| format!("{all} {key}={value}")))?;
    let definition = Definition::Matmul(words.args().to_vec());
    let generated = words.matmul().map_err(|why| Refused(why.to_string()))?;
    Ok((KernelDef::of(&generated, &definition, &Places::default()), generated))
}

/// Counts and limits of a kernel on a problem and a device.
pub fn facts(kernel: &Generated, problem: &Problem, device: &DeviceLimits) -> Result<Facts, Refused> {
    problem.check()?;
    let plan =
        plan(kernel, &problem.given(kernel), &device.launch).map_err(|why| Refused(why.to_string()))?;
    let program = &kernel.variant(plan.variant).program;
    let work = work(program, &plan);
    let (threads, shared_bytes) = (program.launch.threads, program.launch.shared_bytes);
    // The register file is allocated in units of eight registers for each lane; `__launch_bounds__` minimum
    // blocks bound the registers of a thread.
    let warps = threads.div_ceil(32);
    let promised = program.launch.blocks_per_sm.max(1);
    let most = (device.registers / (32 * warps * promised) / 8 * 8).min(256);
    if work.registers >= most {
        return Err(Refused(format!(
            "a thread keeps {} words in arrays, and {threads} threads have at most {} registers each; give it a smaller tile or more threads",
            work.registers,
            most.min(255)
        )));
    }
    let arch = device.launch.arch.to_string();
    let compiled = kernel.report.compiled.iter().find(|one| plan.variant == 0 && one.arch.contains(&arch));
    // Arrays, a seventh more for the compiler's temporaries, and addresses.
    let registers = compiled.map_or((f64::from(work.registers) * 1.15) as u32 + 10, |one| one.registers);
    let registers = (registers.div_ceil(8) * 8).min(most);
    let blocks = [
        device.registers / (registers * 32 * warps),
        device.shared_bytes / (shared_bytes + target::RESERVED_SHARED),
        device.threads / threads,
        device.blocks,
    ];
    let blocks = blocks.into_iter().min().unwrap_or(1).max(1);
    let tiles = plan.grid.iter().map(|&n| u64::from(n)).product();
    Ok(Facts { variant: plan.variant, tiles, warps: f64::from(warps), blocks, registers, shared_bytes, work })
}
