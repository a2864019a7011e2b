//! Launch checks and parameters: the one interpreter of a kernel's launch plan, for the simulator and for
//! devices. It knows extents, strides, lengths and addresses, and touches no memory.

mod binding;
mod candidates;
mod choice;
mod cost;
pub mod definition;
pub mod estimate;
mod exact;
mod export;
pub mod fields;
mod message;
mod number;
mod pack;
mod ranking;
mod records;
mod refusal;
mod rules;
pub mod timeline;
mod why;
mod wire;

use tilewright_layout::{Symbol, Value};

use crate::launch::definition::Generated;
use crate::thread::{Kernel, Param};
use crate::values::elem::Elem;
use crate::values::target::{BLOCK_THREADS, GRID, Target};

use choice::{Best, Choice, NONE};
use message::PlanChecks;
use number::Natural;
use pack::Packing;
use rules::{Arguments, PlanArguments, Size, Sizes};
use why::Why;

pub use candidates::Candidates;
pub use cost::{Estimate, Limit};
pub use export::{Exported, Image, export, python, rust};
pub use pack::Packed;
pub use ranking::{Ranked, Ranking, Support, ranking, ranking_by};
pub use records::{Record, model, records};
pub use refusal::Refusal;
pub(crate) use refusal::error_with_text;
pub use rules::Rules;

/// A value for one argument of the user's function.
#[derive(Clone, Debug, PartialEq)]
pub enum Given {
    /// A tensor.
    Tensor(Tensor),
    /// A number of this type.
    Scalar(Elem),
}

impl Given {
    /// Is it a tensor without elements?
    fn is_empty(&self) -> bool {
        matches!(self, Given::Tensor(tensor) if tensor.extents.contains(&0))
    }
}

/// A tensor in some memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Type of its elements.
    pub elem: Elem,
    /// May it be written?
    pub mutable: bool,
    /// Extents, one for each mode.
    pub extents: Vec<i64>,
    /// Strides in elements, one for each mode.
    pub strides: Vec<i64>,
    /// How many elements there are from the first one on.
    pub len: u64,
    /// Where the first one is.
    pub address: u64,
}

impl Tensor {
    /// The offset of the last element.
    fn last_offset(&self) -> i128 {
        last_offset(self.extents.iter().copied().zip(self.strides.iter().copied()))
    }
}

/// The offset of the last element, for each mode's extent and stride.
pub fn last_offset(modes: impl Iterator<Item = (i64, i64)>) -> i128 {
    modes.map(|(n, d)| i128::from(n - 1) * i128::from(d)).sum()
}

/// The limits of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Compute capability, such as 90.
    pub arch: u32,
    /// Bytes of shared memory that a block may ask for.
    pub shared_bytes: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Multiprocessors, which bound how many blocks of a persistent kernel there are.
    pub multiprocessors: u32,
    /// A hash of its name: see [`model`].
    pub model: u64,
}

impl Limits {
    /// The limits of the H100 and H200, under the name of the latter.
    pub const HOPPER: Limits = Limits {
        arch: 90,
        shared_bytes: 227 << 10,
        threads: BLOCK_THREADS,
        grid: GRID,
        multiprocessors: 132,
        model: model("NVIDIA H200"),
    };

    /// The limits of an architecture, with the multiprocessors of an H100.
    ///
    /// ```
    /// use tilewright_program::launch::Limits;
    /// assert_eq!(Limits::of(90), Limits::HOPPER);
    /// ```
    pub fn of(arch: u32) -> Limits {
        Limits { arch, shared_bytes: Target::of(arch).block_shared, ..Limits::HOPPER }
    }

    /// How many clusters of `of` blocks are resident at once, with `resident` blocks on each multiprocessor; one at least.
    pub fn clusters(&self, of: u32, resident: u32) -> u32 {
        let blocks = Natural(u64::from(self.multiprocessors) * u64::from(resident.max(1)));
        u32::try_from(cost::clusters(blocks, of, Natural(of.max(1).into())).0).unwrap_or(u32::MAX)
    }
}

/// A checked launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The index of the kernel's variant: see [`Generated::variant`].
    pub variant: usize,
    /// Blocks along x, y, z. A zero means an empty launch.
    pub grid: [u32; 3],
    /// Sizes that the arguments determine.
    pub symbols: Vec<(Symbol, i64)>,
    /// The parameters of the variant's program.
    pub passed: Vec<Passed>,
    /// Arguments that are copied before, in this order. The kernel reads the copies: see [`Plan::arguments`].
    pub packed: Vec<Packed>,
    /// Why the faster variants were skipped.
    passed_over: Vec<Why>,
    /// Bytes of the workspace, packed arguments included, and of memory that is 0 before and after each launch.
    bytes: [u64; 2],
    /// The memory of the arguments that have elements.
    spans: Vec<Span>,
}

/// The memory of an argument.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Span {
    arg: usize,
    /// From its first element to its last.
    elements: u64,
    bytes: u64,
    written: bool,
}

impl Plan {
    /// Why the faster variants were skipped, one line for each. `kernel` is the plan's.
    ///
    /// ```
    /// use tilewright_program::launch::{Given, Limits, Tensor, plan};
    /// use tilewright_codegen::words::{Kernels as _, Words};
    /// let kernel = Words::read("bm=128 bn=128 bk=8 tc=(16,16)").unwrap().matmul().unwrap();
    /// let tensor = |m: i64, n: i64, mutable| {
    ///     let (extents, strides) = (vec![m, n], vec![1, m]);
    ///     let address = if mutable { 1 << 30 } else { 1 << 20 };
    ///     Given::Tensor(Tensor { elem: kernel.params[0].elem, mutable, extents, strides, len: (m * n) as u64, address })
    /// };
    /// let given = [tensor(255, 8, false), tensor(128, 8, false), tensor(255, 128, true)];
    /// let plan = plan(&kernel, &given, &Limits::HOPPER)?;
    /// assert_eq!(plan.passed_over(&kernel), ["128 does not divide M, which is 255"]);
    /// # Ok::<(), tilewright_program::launch::Refusal>(())
    /// ```
    pub fn passed_over(&self, kernel: &Generated) -> Vec<String> {
        self.passed_over.iter().enumerate().map(|(variant, why)| why.text(kernel, variant)).collect()
    }

    /// Is the launch empty?
    pub fn is_empty(&self) -> bool {
        self.grid.contains(&0)
    }

    /// Is this the plan for other memory too? `memory` has, for each argument by its index, the address and the number of
    /// elements from there on. All other facts must be as they were when the plan was made, remainders of addresses by
    /// [`Rules::alignment`] included. If a fact has changed, [`plan`] returns the reason.
    pub fn admits(&self, memory: impl Fn(usize) -> (u64, u64)) -> bool {
        let end = |span: &Span| memory(span.arg).0.saturating_add(span.bytes);
        let apart = |one: &Span, other: &Span| {
            let begins = [memory(one.arg).0, memory(other.arg).0];
            !(one.written || other.written) || begins[1] >= end(one) || begins[0] >= end(other)
        };
        self.spans.iter().enumerate().all(|(at, one)| {
            memory(one.arg).1 >= one.elements && self.spans[at + 1..].iter().all(|other| apart(one, other))
        })
    }
}

fn common_multiple(a: u64, b: u64) -> u64 {
    let (mut divisor, mut rest) = (a, b);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    a / divisor.max(1) * b
}

/// The memory of arguments that have been checked.
fn spans(given: &[Given]) -> Vec<Span> {
    let tensors = given.iter().enumerate().filter_map(|(arg, given)| match given {
        Given::Tensor(tensor) if !given.is_empty() => Some((arg, tensor)),
        _ => None,
    });
    let span = |(arg, tensor): (usize, &Tensor)| {
        let elements = u64::try_from(tensor.last_offset() + 1).unwrap_or(u64::MAX);
        let bytes = elements.saturating_mul(u64::from(tensor.elem.bytes()));
        Span { arg, elements, bytes, written: tensor.mutable }
    };
    tensors.map(span).collect()
}

/// A parameter of a thread program. Arguments are named by their index.
#[derive(Clone, Debug, PartialEq)]
pub enum Passed {
    /// The address of a tensor.
    Tensor(usize),
    /// A scalar.
    Scalar(usize),
    /// A size, with 32 or 64 bits.
    Int {
        /// Its value.
        value: i64,
        /// 64 bits?
        wide: bool,
    },
    /// Memory of the launch, at this offset in bytes of the workspace, or of the memory that is 0.
    Workspace {
        /// See above.
        offset: u64,
        /// Is it 0?
        zeroed: bool,
    },
    /// A tensor map.
    Map(Map),
}

/// A tensor map for bulk copies, innermost mode first.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// The tensor.
    pub arg: usize,
    /// Its extents.
    pub extents: Vec<u64>,
    /// Its strides in bytes, from the second mode on.
    pub strides: Vec<u64>,
    /// Extents of the box.
    pub tile: Vec<u32>,
    /// How far apart its elements are along each mode.
    pub steps: Vec<u32>,
    /// Bytes of the hardware's swizzle: 0, 32, 64 or 128.
    pub swizzle: u32,
}

/// Checks the arguments of a launch, and chooses the first variant whose facts are true.
///
/// ```
/// use tilewright_program::launch::{Given, Limits, Tensor, plan};
/// use tilewright_codegen::words::{Kernels as _, Words};
/// let kernel = Words::read("bm=128 bn=128 bk=8 tc=(16,16)").unwrap().matmul().unwrap();
/// let tensor = |m: i64, n: i64, mutable| {
///     let (extents, strides) = (vec![m, n], vec![1, m]);
///     let address = if mutable { 1 << 30 } else { 1 << 20 };
///     Given::Tensor(Tensor { elem: kernel.params[0].elem, mutable, extents, strides, len: (m * n) as u64, address })
/// };
/// let plan_for = |k| plan(&kernel, &[tensor(256, 8, false), tensor(128, k, false), tensor(256, 128, true)], &Limits::HOPPER);
/// assert_eq!(plan_for(8)?.grid, [2, 1, 1]);
/// let message = plan_for(9).unwrap_err().to_string();
/// assert!(message.starts_with("argument `b`: its extent 1 is 9, and `K` is 8"), "{message}");
/// # Ok::<(), tilewright_program::launch::Refusal>(())
/// ```
pub fn plan(kernel: &Generated, given: &[Given], limits: &Limits) -> Result<Plan, Refusal> {
    Rules::of(kernel).plan(kernel, given, limits)
}

/// The extents and strides of a launch by name, as its arguments have them. A plan has the strides of copies, where it makes some.
///
/// ```
/// use tilewright_program::launch::{Given, Tensor, sizes};
/// use tilewright_codegen::words::{Kernels as _, Words};
/// let kernel = Words::read("dtype=bf16 arch=90 a=k_major b=k_major").unwrap().matmul().unwrap();
/// let tensor = |rows: i64, columns: i64, strides: [i64; 2], mutable| {
///     let (elem, len) = (kernel.params[0].elem, (rows * columns) as u64);
///     let address = if mutable { 1 << 40 } else { 1 << 32 };
///     Given::Tensor(Tensor { elem, mutable, extents: vec![rows, columns], strides: strides.into(), len, address })
/// };
/// let given = [tensor(64, 1023, [1023, 1], false), tensor(32, 1023, [1023, 1], false), tensor(64, 32, [1, 64], true)];
/// let all: Vec<String> = sizes(&kernel, &given)?.iter().map(|(name, size)| format!("{}={size}", name.name())).collect();
/// assert!(all.contains(&"lda=1023".to_owned()), "{all:?}");
/// # Ok::<(), tilewright_program::launch::Refusal>(())
/// ```
pub fn sizes(kernel: &Generated, given: &[Given]) -> Result<Vec<(Symbol, i64)>, Refusal> {
    let (rules, tensors) = (Rules::of(kernel), tensors(given));
    let (sizes, _) = binding::arguments(&rules, kernel, given, &tensors)?;
    Ok(rules.symbols(&sizes))
}

/// The same for one of [`Generated::variants`]: it is refused if its facts are false.
pub fn plan_of(
    kernel: &Generated,
    variant: usize,
    given: &[Given],
    limits: &Limits,
) -> Result<Plan, Refusal> {
    if variant >= kernel.variants.len() {
        let count = kernel.variants.len();
        return Err(Refusal::new(format!("there is no variant {}: the kernel has {count}", variant + 1)));
    }
    let (rules, tensors) = (Rules::of(kernel), tensors(given));
    match binding::arguments(&rules, kernel, given, &tensors)? {
        (sizes, None) => {
            let launch = Launch { rules: &rules, kernel, given, tensors: &tensors, limits };
            launch.among(variant..variant + 1, sizes).map(|(plan, _)| plan)
        }
        _ => Err(Refusal::new("a size is 0, and this variant has loops of at least one iteration")),
    }
}

impl Rules {
    /// As [`plan`]: for a kernel that is planned more than once. `kernel` is the one that the rules are of.
    pub fn plan(&self, kernel: &Generated, given: &[Given], limits: &Limits) -> Result<Plan, Refusal> {
        self.timed(kernel, given, limits).map(|(plan, _)| plan)
    }

    /// The same, and the estimated clocks; `None` if they are unknown.
    fn timed(
        &self,
        kernel: &Generated,
        given: &[Given],
        limits: &Limits,
    ) -> Result<(Plan, Option<u64>), Refusal> {
        let tensors = tensors(given);
        let (sizes, empty_loops) = binding::arguments(self, kernel, given, &tensors)?;
        let launch = Launch { rules: self, kernel, given, tensors: &tensors, limits };
        match empty_loops {
            None => launch.among(0..kernel.variants.len(), sizes),
            Some(empty_loops) => Ok((launch.without_loops(empty_loops, &sizes)?, None)),
        }
    }

    /// The values of the sizes, with their names.
    fn symbols(&self, sizes: &Sizes) -> Vec<(Symbol, i64)> {
        let all = self.symbols.iter().zip(sizes);
        all.filter_map(|(symbol, bound)| Some((*symbol, bound.as_ref()?.value.0.cast_signed()))).collect()
    }
}

fn tensors(given: &[Given]) -> Vec<Option<&Tensor>> {
    fn tensor(given: &Given) -> Option<&Tensor> {
        match given {
            Given::Tensor(tensor) => Some(tensor),
            Given::Scalar(_) => None,
        }
    }
    given.iter().map(tensor).collect()
}

/// The launch of each variant, or why it cannot run.
type Tried = Vec<Result<Choice<Natural>, Why>>;

/// A launch, while it is planned.
struct Launch<'l> {
    rules: &'l Rules,
    kernel: &'l Generated,
    given: &'l [Given],
    tensors: &'l [Option<&'l Tensor>],
    limits: &'l Limits,
}

impl Launch<'_> {
    /// The kernel without loops that has this index.
    fn without_loops(&self, empty_loops: usize, sizes: &Sizes) -> Result<Plan, Refusal> {
        let Launch { kernel, tensors, limits, .. } = *self;
        let number = kernel.variants.len() + empty_loops;
        let variant = kernel.variant(number);
        let rules = Rules::new(std::slice::from_ref(variant), &[], &|_| None);
        let value = |symbol: &Symbol| {
            let known = self.rules.symbols.iter().position(|known| known == symbol);
            known.and_then(|number| sizes[number].clone())
        };
        let own: Sizes = rules.symbols.iter().map(value).collect();
        let packing = Packing::new(&rules, kernel, tensors, limits, own);
        let supported = choice::supported(&PlanChecks, kernel, &variant.program, &limits.into(), Natural(0));
        if let Some(why) = supported.err().map(|objection| objection.why).or_else(|| packing.unmet(0, 0)) {
            return Err(Refusal::new(why.text(kernel, number)));
        }
        let launch = Launch { rules: &rules, ..*self };
        let (packed, own) = packing.packed(0, 0);
        let grid = launch.grid(&variant.program, &rules.variants[0].grid, &own)?;
        let symbols = self.rules.symbols(sizes);
        let (passed, bytes) = launch.passed(&variant.program, &own, &packed);
        let (passed_over, spans) = (Vec::new(), spans(self.given));
        Ok(Plan { variant: number, grid, symbols, passed, packed, passed_over, bytes, spans })
    }

    /// The fastest of some variants, and its clocks.
    fn among(&self, variants: std::ops::Range<usize>, sizes: Sizes) -> Result<(Plan, Option<u64>), Refusal> {
        let Launch { rules, kernel, tensors, limits, .. } = *self;
        let before = variants.start;
        let mut packing = Packing::new(rules, kernel, tensors, limits, sizes);
        let (best, mut tried) = self.weighed(variants, &mut packing, false)?;
        let (index, copies) = (best.index.0 as usize, best.copies.0);
        let variant = before + index;
        let clocks = Some(best.clocks.0).filter(|clocks| *clocks < NONE);
        tried.truncate(index);
        let passed_over = tried.into_iter().map(|one| one.err().unwrap_or(Why::Slower)).collect();
        let (packed, sizes) = packing.packed(rules.variants[variant].class, copies);
        let (variant, grid) = match self.has_empty() {
            true => (variant, [0; 3]),
            false => self.grid_of_variant(variant, &sizes)?,
        };
        let program = &kernel.variant(variant).program;
        let symbols = rules.symbols(&sizes);
        let (passed, bytes) = self.passed(program, &sizes, &packed);
        let spans = spans(self.given);
        Ok((Plan { variant, grid, symbols, passed, packed, passed_over, bytes, spans }, clocks))
    }

    /// The best of some variants, and the launch of each, or why it cannot run. Variants after the first that is taken without
    /// comparison matter only if `all` are requested.
    fn weighed(
        &self,
        variants: std::ops::Range<usize>,
        packing: &mut Packing<'_>,
        all: bool,
    ) -> Result<(Best<Natural>, Tried), Refusal> {
        let Launch { rules, kernel, .. } = *self;
        let before = variants.start;
        // Facts that all variants need are reported once.
        if let Some(why) = packing.limit(rules.variants[before].class) {
            return Err(Refusal::new(why.text(kernel, before)));
        }
        let mut tried = Vec::with_capacity(variants.len());
        let mut best = Best::none();
        for variant in variants {
            let arch = Natural(kernel.variants[variant].program.arch.into());
            let is_admitted = best.admits(arch);
            if !all && !is_admitted {
                break;
            }
            if arch < best.arch {
                tried.push(Err(Why::Older));
                continue;
            }
            let candidate = packing.candidate(variant);
            let choice = packing.choice(variant, &candidate);
            if is_admitted {
                best = best.or(Natural((variant - before) as u64), &candidate, choice);
            }
            let why = || packing.why_not(variant).unwrap_or(Why::Slower);
            tried.push(if choice.runs { Ok(choice) } else { Err(why()) });
        }
        if best.index == Natural(NONE) {
            let why = tried.into_iter().filter_map(Result::err).zip(before..);
            let why: Vec<String> = why.map(|(why, variant)| why.text(kernel, variant)).collect();
            return Err(Refusal::none_fits(&why));
        }
        Ok((best, tried))
    }

    /// Is there a tensor without elements that a variant uses, and whose extents are at least 1?
    fn has_empty(&self) -> bool {
        let lacks = |(arg, given): (usize, &Given)| match given {
            Given::Tensor(tensor) => {
                let is_zero =
                    |(mode, extent): (usize, &i64)| *extent == 0 && self.rules.needs_elements(arg, mode);
                tensor.extents.iter().enumerate().any(is_zero)
            }
            _ => false,
        };
        self.given.iter().enumerate().any(lacks)
    }

    /// The grid of a variant, or the variant with all blocks along x if the grid is too long along y or z.
    fn grid_of_variant(&self, variant: usize, sizes: &Sizes) -> Result<(usize, [u32; 3]), Refusal> {
        let Launch { rules, kernel, limits, tensors, .. } = *self;
        let (grid, read) = (&rules.variants[variant].grid, PlanArguments { tensors, sizes });
        let is_long = choice::is_long(grid, &|size| read.size(size), &limits.into());
        let program = &kernel.variants[variant].program;
        let folded = if is_long && !program.launch.persistent { kernel.folded(variant) } else { None };
        let Some(folded) = folded else {
            return self.grid(program, grid, sizes).map(|grid| (variant, grid));
        };
        let all = rules.variants[kernel.unfolded(folded)].grid.concat();
        let grid = self.grid(&kernel.variant(folded).program, &[all, Vec::new(), Vec::new()], sizes)?;
        Ok((folded, grid))
    }

    /// The blocks along each axis.
    fn grid(&self, program: &Kernel, grid: &[Vec<Size>; 3], sizes: &Sizes) -> Result<[u32; 3], Refusal> {
        let read = PlanArguments { tensors: self.tensors, sizes };
        let blocks = choice::grid(&PlanChecks, program, grid, &|size| read.size(size), &self.limits.into())?;
        Ok(blocks.map(|blocks| u32::try_from(blocks.0).unwrap_or(u32::MAX)))
    }

    /// The parameters of a program that runs after these copies, and [`Plan::bytes`].
    fn passed(&self, program: &Kernel, sizes: &Sizes, packed: &[Packed]) -> (Vec<Passed>, [u64; 2]) {
        let lookup = |symbol: Symbol| self.rules.value(sizes, symbol);
        let value = |value: Value| value.evaluate(&lookup).unwrap_or_default();
        let mut bytes = [pack::end(packed), 0];
        let one = |(index, param): (usize, &Param)| match param {
            Param::Workspace { elem, shape, zeroed, .. } => {
                let elements = shape.iter().fold(1, |all: u64, extent| all * value(*extent).max(0) as u64);
                let next = &mut bytes[usize::from(*zeroed)];
                let offset = next.next_multiple_of(pack::ALIGNED);
                *next = offset + elements * u64::from(elem.bytes());
                Passed::Workspace { offset, zeroed: *zeroed }
            }
            Param::Pointer { .. } => Passed::Tensor(index),
            Param::Scalar { .. } => Passed::Scalar(index),
            Param::Int { symbol, wide, .. } => {
                Passed::Int { value: lookup(*symbol).unwrap_or_default(), wide: *wide }
            }
            Param::TensorMap { tensor, tile, steps, modes, swizzle, .. } => {
                let Some(Param::Pointer { shape, stride, elem, .. }) = program.params.get(*tensor as usize)
                else {
                    unreachable!("a tensor map describes a pointer");
                };
                debug_assert!(self.tensors[*tensor as usize].is_some());
                let modes = || modes.iter().map(|&mode| usize::from(mode));
                let bytes = u64::from(elem.bytes());
                Passed::Map(Map {
                    arg: *tensor as usize,
                    extents: modes().map(|mode| value(shape[mode]) as u64).collect(),
                    strides: modes().skip(1).map(|mode| value(stride[mode]) as u64 * bytes).collect(),
                    tile: tile.clone(),
                    steps: steps.clone(),
                    swizzle: *swizzle,
                })
            }
        };
        let passed = program.params.iter().enumerate().map(one).collect();
        (passed, bytes)
    }
}
