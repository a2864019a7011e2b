//! Launch checks and parameters: the one interpreter of a kernel's launch plan, for the simulator and for
//! devices. It knows extents, strides, lengths and addresses, and touches no memory.

mod bind;
mod cost;
mod pack;
mod refusal;

use tilewright_layout::Symbol;

use crate::definition::{Generated, Variant};
use crate::elem::Elem;
use crate::target::{BLOCK_THREADS, GRID, Target};
use crate::thread::{Fact, Id, Kernel, Param};

use pack::{Candidate, Packing};

pub use pack::Packed;
pub use refusal::Refusal;

/// What is given for one argument of the user's function.
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

/// What a device can hold.
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
}

impl Limits {
    /// Those of the H100 and H200.
    pub const HOPPER: Limits = Limits {
        arch: 90,
        shared_bytes: 227 << 10,
        threads: BLOCK_THREADS,
        grid: GRID,
        multiprocessors: 132,
    };

    /// Those of an architecture, with the multiprocessors of an H100.
    ///
    /// ```
    /// use tilewright_codegen::launch::Limits;
    /// assert_eq!(Limits::of(90), Limits::HOPPER);
    /// ```
    pub fn of(arch: u32) -> Limits {
        Limits { arch, shared_bytes: Target::of(arch).block_shared, ..Limits::HOPPER }
    }

    /// How many clusters of so many blocks are resident at once, with so many blocks on each multiprocessor; one at least.
    fn clusters(&self, of: u32, resident: u32) -> u32 {
        let blocks = self.multiprocessors.saturating_mul(resident.max(1));
        let blocks = if of > 2 { blocks - blocks.div_ceil(IDLE) } else { blocks };
        (blocks / of.max(1)).max(1)
    }
}

/// Clusters of more than two blocks leave this part of the multiprocessors idle: those that fill no cluster of their
/// part of the chip.
const IDLE: u32 = 11;

/// A checked launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Which of the kernel's variants: see [`Generated::variant`].
    pub variant: usize,
    /// Why the faster variants were skipped, one line for each.
    pub passed_over: Vec<String>,
    /// Blocks along x, y, z. A zero means that there is nothing to do.
    pub grid: [u32; 3],
    /// Sizes that the arguments determine.
    pub symbols: Vec<(Symbol, i64)>,
    /// The parameters of the variant's program.
    pub passed: Vec<Passed>,
    /// Arguments that are copied before, in this order. The kernel reads the copies: see [`Plan::arguments`].
    pub packed: Vec<Packed>,
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
    /// Is there nothing to do?
    pub fn is_empty(&self) -> bool {
        self.grid.contains(&0)
    }

    /// Is this the plan for other memory too: the argument at each place begins at an address, and its buffer has so many
    /// elements from there on? Everything else must be as it was when the plan was made, remainders of addresses by
    /// [`alignment`] included. Where it is not, [`plan`] says why.
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

/// Plans depend on the remainders of addresses by this number, and on nothing else of them as long as tensors do not
/// overlap. This is not so for launches without loops ([`Generated::hollow`]).
pub fn alignment(kernel: &Generated) -> u64 {
    let of_facts = |kernel: &Generated| {
        let facts = kernel.variants.iter().flat_map(|variant| &variant.program.needs);
        facts.fold(MAPPED, |all, fact| match fact {
            Fact::Aligned { bytes, .. } => common_multiple(all, u64::from(*bytes)),
            _ => all,
        })
    };
    let packs = kernel.packs.iter().map(|pack| of_facts(&pack.kernel));
    packs.fold(of_facts(kernel), common_multiple)
}

/// Bulk copies need tensors at multiples of so many bytes; elements have no more.
const MAPPED: u64 = 16;

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
        let elements = u64::try_from(last_offset(&tensor.extents, &tensor.strides) + 1).unwrap_or(u64::MAX);
        let bytes = elements.saturating_mul(u64::from(tensor.elem.bytes()));
        Span { arg, elements, bytes, written: tensor.mutable }
    };
    tensors.map(span).collect()
}

/// A parameter of a thread program. Arguments are named by their place.
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
    /// Bytes of the hardware's swizzle: 0, 32, 64 or 128.
    pub swizzle: u32,
}

/// Checks the arguments of a launch, and chooses the first variant whose facts hold.
///
/// ```
/// use tilewright_codegen::launch::{Given, Limits, Tensor, plan};
/// # use tilewright_codegen::Definition;
/// let kernel = Definition::Matmul(vec![]).generate().kernel.unwrap();
/// let tensor = |m: i64, n: i64, mutable| {
///     let (extents, strides) = (vec![m, n], vec![1, m]);
///     let address = if mutable { 1 << 30 } else { 1 << 20 };
///     Given::Tensor(Tensor { elem: kernel.params[0].elem, mutable, extents, strides, len: (m * n) as u64, address })
/// };
/// let plan_for = |k| plan(&kernel, &[tensor(256, 8, false), tensor(128, k, false), tensor(256, 128, true)], &Limits::HOPPER);
/// assert_eq!(plan_for(8)?.grid, [2, 1, 1]);
/// let said = plan_for(9).unwrap_err().to_string();
/// assert!(said.starts_with("argument `b`: its extent 1 is 9, and `K` is 8"), "{said}");
/// # Ok::<(), tilewright_codegen::launch::Refusal>(())
/// ```
pub fn plan(kernel: &Generated, given: &[Given], limits: &Limits) -> Result<Plan, Refusal> {
    let (symbols, hollow) = bind::arguments(kernel, given)?;
    let Some(hollow) = hollow else {
        return among(kernel, 0..kernel.variants.len(), given, limits, symbols);
    };
    let lookup = |symbol: Symbol| value(&symbols, symbol);
    let variant = kernel.variants.len() + hollow;
    let program = &kernel.variant(variant).program;
    if let Some(why) = why_not(kernel.variant(variant), given, limits, &lookup) {
        return Err(Refusal::new(why));
    }
    let (grid, passed) = (grid(program, limits, &lookup)?, passed(program, given, &lookup));
    let spans = spans(given);
    Ok(Plan { variant, passed_over: Vec::new(), grid, symbols, passed, packed: Vec::new(), spans })
}

/// The same for one of [`Generated::variants`]: it is refused if its facts do not hold.
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
    match bind::arguments(kernel, given)? {
        (symbols, None) => among(kernel, variant..variant + 1, given, limits, symbols),
        _ => Err(Refusal::new("a size is 0, and this variant has loops of at least one iteration")),
    }
}

/// The fastest of some variants.
fn among(
    kernel: &Generated,
    variants: std::ops::Range<usize>,
    given: &[Given],
    limits: &Limits,
    symbols: Vec<(Symbol, i64)>,
) -> Result<Plan, Refusal> {
    let lookup = |symbol: Symbol| value(&symbols, symbol);
    let (before, variants) = (variants.start, &kernel.variants[variants]);
    // Facts that all variants need are reported once.
    if let Some(first) = variants.first() {
        let of_all = |fact: &&Fact| matches!(fact, Fact::AtMost { .. } | Fact::AtLeast { .. });
        let limits = first.program.needs.iter().filter(of_all);
        let broken = limits.filter_map(|fact| unmet(fact, &first.program, given, &lookup)).next();
        broken.map_or(Ok(()), |why| Err(Refusal::new(why)))?;
    }
    let mut packing = Packing::new(kernel, given, limits);
    let mut tried: Vec<Result<Candidate, String>> = Vec::new();
    for variant in variants {
        let program = &variant.program;
        let unfit = packing.reads_other_rows(variant).or_else(|| why_not(variant, given, limits, &lookup));
        let one = match unfit {
            None => {
                let clocks = |one: &Candidate, packing: &Packing| {
                    let symbols = one.symbols.as_ref().unwrap_or(&symbols);
                    let clocks = cost::clocks(program, limits, &|symbol| value(symbols, symbol))?;
                    Some(clocks.saturating_add(packing.clocks(one)))
                };
                let direct = Candidate::default();
                let cuts = program.launch.cost.is_some_and(|cost| cost.cut > 0);
                let packed = if cuts { packing.whole_sectors(variant) } else { None };
                let faster = |one: &Candidate| clocks(one, &packing) < clocks(&direct, &packing);
                Ok(packed.filter(faster).unwrap_or(direct))
            }
            Some(why) => packing.candidate(variant, &symbols, why),
        };
        // Only variants with a cost model compete.
        let settled = one.is_ok() && program.launch.cost.is_none();
        tried.push(one);
        if settled {
            break;
        }
    }
    let Some(first) = tried.iter().position(Result::is_ok) else {
        return Err(Refusal::none_fits(&tried.into_iter().filter_map(Result::err).collect::<Vec<_>>()));
    };
    let clocks = |(variant, one): (&Variant, &Result<Candidate, String>)| {
        let one = one.as_ref().ok()?;
        let symbols = one.symbols.as_ref().unwrap_or(&symbols);
        let clocks = cost::clocks(&variant.program, limits, &|symbol| value(symbols, symbol))?;
        Some(clocks.saturating_add(packing.clocks(one)))
    };
    let clocks: Vec<Option<u128>> = variants.iter().zip(&tried).map(clocks).collect();
    let place = cost::quickest(first, &clocks);
    let passed_over = tried[..place].iter().map(|one| match one {
        Err(why) => why.clone(),
        Ok(_) => "another variant takes less time for these sizes".into(),
    });
    let passed_over = passed_over.collect();
    let chosen = tried.swap_remove(place).unwrap_or_default();
    let packed = packing.packed(&chosen);
    let symbols = chosen.symbols.unwrap_or(symbols);
    let lookup = |symbol: Symbol| value(&symbols, symbol);
    let program = &variants[place].program;
    let grid = match given.iter().any(Given::is_empty) {
        true => [0; 3],
        false => grid(program, limits, &lookup)?,
    };
    let passed = passed(program, given, &lookup);
    Ok(Plan { variant: before + place, passed_over, grid, symbols, passed, packed, spans: spans(given) })
}

/// The value of a symbol.
fn value(symbols: &[(Symbol, i64)], symbol: Symbol) -> Option<i64> {
    symbols.iter().find(|known| known.0 == symbol).map(|known| known.1)
}

/// Why a variant cannot run, if it cannot.
fn why_not(
    variant: &Variant,
    given: &[Given],
    limits: &Limits,
    lookup: &dyn Fn(Symbol) -> Option<i64>,
) -> Option<String> {
    let program = &variant.program;
    if program.arch > limits.arch || (program.arch_specific && program.arch != limits.arch) {
        let exact = if program.arch_specific { " and no other" } else { " or newer" };
        return Some(format!(
            "it is made for compute capability {}{exact}, and the device has {}",
            capability(program.arch),
            capability(limits.arch)
        ));
    }
    if program.launch.shared_bytes > limits.shared_bytes {
        return Some(format!(
            "a block takes {} bytes of shared memory, and the device gives it {} at most",
            program.launch.shared_bytes, limits.shared_bytes
        ));
    }
    if program.launch.threads > limits.threads {
        return Some(format!(
            "a block has {} threads, and {} is the device's most",
            program.launch.threads, limits.threads
        ));
    }
    program.needs.iter().find_map(|fact| unmet(fact, program, given, lookup))
}

/// The violated condition of a fact, if it does not hold.
fn unmet(
    fact: &Fact,
    program: &Kernel,
    given: &[Given],
    lookup: &dyn Fn(Symbol) -> Option<i64>,
) -> Option<String> {
    match fact {
        Fact::Divides(need) => match need.of.evaluate(lookup) {
            Some(value) if value % need.divisor == 0 => None,
            Some(value) => Some(format!("{} does not divide {}, which is {value}", need.divisor, need.of)),
            None => Some(format!("{} is not known", need.of)),
        },
        Fact::AtMost { of, limit } => match of.evaluate(lookup) {
            Some(value) if value <= *limit => None,
            Some(value) => Some(format!(
                "`{of}` is {value}, and the kernel is made for at most {limit}\nhelp: choose larger tiles, so that they hold all of it"
            )),
            None => Some(format!("`{of}` is not known")),
        },
        Fact::AtLeast { of, limit } => match of.evaluate(lookup) {
            Some(value) if value >= *limit => None,
            Some(value) => Some(format!(
                "`{of}` is {value}, and the kernel is made for at least {limit}\nhelp: choose a smaller bound: more accesses are checked then"
            )),
            None => Some(format!("`{of}` is not known")),
        },
        Fact::Aligned { param, bytes } => {
            let (place, tensor) = tensor_of(program, given, *param)?;
            let over = tensor.address % u64::from(*bytes);
            (over != 0).then(|| {
                let name = name(program, place);
                format!("`{name}` does not begin at a multiple of {bytes} bytes, but {over} bytes past one")
            })
        }
        Fact::Small { param, beyond } => {
            let (place, tensor) = tensor_of(program, given, *param)?;
            let Some(Param::Pointer { stride, .. }) = program.params.get(place) else { return None };
            let extents = tensor.extents.iter().zip(beyond).map(|(n, &more)| n + i64::from(more));
            // Of a mode with one element the stride that the kernel computes with may be another tensor's.
            let own = stride.iter().zip(&tensor.strides);
            let strides = own.map(|(stride, given)| stride.evaluate(lookup).unwrap_or(*given));
            let last = last_offset(&extents.collect::<Vec<_>>(), &strides.collect::<Vec<_>>());
            (last > i128::from(i32::MAX)).then(|| {
                format!("offsets into `{}`, rounded up to whole tiles, need 64 bits", name(program, place))
            })
        }
    }
}

/// The offset of the last element.
fn last_offset(extents: &[i64], strides: &[i64]) -> i128 {
    extents.iter().zip(strides).map(|(n, d)| i128::from(n - 1) * i128::from(*d)).sum()
}

fn name(program: &Kernel, place: usize) -> &str {
    match program.params.get(place) {
        Some(Param::Pointer { name, .. } | Param::Scalar { name, .. }) => name,
        _ => "",
    }
}

/// The argument of a pointer parameter: parameters begin with the arguments, in their order.
fn tensor_of<'g>(program: &Kernel, given: &'g [Given], param: Id) -> Option<(usize, &'g Tensor)> {
    let place = param as usize;
    debug_assert!(matches!(program.params.get(place), Some(Param::Pointer { .. })));
    match given.get(place) {
        Some(Given::Tensor(tensor)) => Some((place, tensor)),
        _ => None,
    }
}

/// `9.0`
fn capability(arch: u32) -> String {
    format!("{}.{}", arch / 10, arch % 10)
}

fn grid(
    program: &Kernel,
    limits: &Limits,
    lookup: &dyn Fn(Symbol) -> Option<i64>,
) -> Result<[u32; 3], Refusal> {
    if program.launch.persistent {
        return resident(program, limits, lookup);
    }
    let mut grid = [0; 3];
    for (axis, factors) in program.launch.grid.iter().enumerate() {
        let values: Option<Vec<i64>> = factors.iter().map(|factor| factor.evaluate(lookup)).collect();
        let blocks = values.map(|values| values.iter().map(|&n| i128::from(n)).product::<i128>());
        let most = limits.grid[axis];
        grid[axis] = match blocks {
            Some(blocks) if (0..=i128::from(most)).contains(&blocks) => blocks as u32,
            Some(blocks) => return Err(Refusal::grid(axis, blocks, most)),
            None => return Err(Refusal::unknown(factors)),
        };
        let cluster = program.launch.cluster[axis].max(1);
        if grid[axis] % cluster != 0 {
            return Err(Refusal::cluster(axis, grid[axis], cluster));
        }
    }
    Ok(grid)
}

/// The grid of a persistent kernel: clusters that are resident on the device at once, no more than there are
/// tiles.
fn resident(
    program: &Kernel,
    limits: &Limits,
    lookup: &dyn Fn(Symbol) -> Option<i64>,
) -> Result<[u32; 3], Refusal> {
    let mut tiles = 1i128;
    for factor in program.launch.grid.iter().flatten() {
        match factor.evaluate(lookup) {
            Some(count) => tiles = tiles.saturating_mul(count.into()),
            None => return Err(Refusal::unknown(std::slice::from_ref(factor))),
        }
    }
    // The tile scheduler's counter of a cluster has 32 bits, its blocks included.
    let most = i32::MAX as u32 - limits.multiprocessors.saturating_mul(64);
    if tiles > i128::from(most) {
        return Err(Refusal::grid(0, tiles, most));
    }
    let cluster = program.launch.cluster.iter().product::<u32>().max(1);
    let clusters = limits.clusters(cluster, program.launch.blocks_per_sm);
    let clusters = tiles.clamp(0, i128::from(clusters)) as u32;
    Ok([clusters * cluster, 1, 1])
}

fn passed(program: &Kernel, given: &[Given], lookup: &dyn Fn(Symbol) -> Option<i64>) -> Vec<Passed> {
    let value = |value: tilewright_layout::Value| value.evaluate(lookup).unwrap_or_default();
    let one = |(place, param): (usize, &Param)| match param {
        Param::Pointer { .. } => Passed::Tensor(place),
        Param::Scalar { .. } => Passed::Scalar(place),
        Param::Int { symbol, wide, .. } => {
            Passed::Int { value: lookup(*symbol).unwrap_or_default(), wide: *wide }
        }
        Param::TensorMap { tensor, tile, modes, swizzle, .. } => {
            let Some(Param::Pointer { shape, stride, elem, .. }) = program.params.get(*tensor as usize)
            else {
                unreachable!("a tensor map describes a pointer");
            };
            debug_assert!(matches!(given[*tensor as usize], Given::Tensor(_)));
            let modes = || modes.iter().map(|&mode| usize::from(mode));
            let bytes = u64::from(elem.bytes());
            Passed::Map(Map {
                arg: *tensor as usize,
                extents: modes().map(|mode| value(shape[mode]) as u64).collect(),
                strides: modes().skip(1).map(|mode| value(stride[mode]) as u64 * bytes).collect(),
                tile: tile.clone(),
                swizzle: *swizzle,
            })
        }
    };
    program.params.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests;
