//! Which variant a launch takes, and the arguments that it copies first. It is written for any numbers: see [`super::number`].

use super::cost::{Device, SECTOR, clusters};
use super::message::{Checks, Message, Piece, Problem, message};
use super::number::Number;
use super::records::WEIGHT;
use super::rules::{Arguments, Rules, Size};
use super::why::{Objection, Why};
use crate::launch::definition::{Generated, Pack};
use crate::thread::Kernel;

/// Most bytes that a variant may need for itself in a workspace.
const MOST_WORKSPACE: u64 = 256 << 20;

/// The copies of a class of variants that cannot read the arguments, nor copies of them; the clocks of a variant without a cost model.
pub(super) const NONE: u64 = u64::MAX;

/// The copies that variants of a class read, or [`NONE`]: a sum of 2^pack. If they can read the arguments themselves, these are copies of
/// the arguments whose rows begin in the middle of a sector. Otherwise, an argument is copied if rows are read along another mode, or if
/// more facts are true then.
///
/// The class reads `packs` of `all`. A fact may be false that is true of no copy, so that it `is_hopeless`. `false_facts` counts facts
/// that are false with some copies, if that is needed; it is [`NONE`] if they cannot be made.
pub(super) fn copies<N: Number>(
    packs: &[usize],
    all: &[Pack],
    is_hopeless: N::Truth,
    mut false_facts: impl FnMut(N::Truth, N) -> N,
    cuts: impl Fn(usize) -> N::Truth,
) -> N {
    let (zero, none) = (N::from(0), N::from(NONE));
    let set = |pack: usize| N::from(1 << pack);
    let (along, others): (Vec<usize>, Vec<usize>) = packs.iter().partition(|pack| all[**pack].transposes);
    let is_unfit = match along[..] {
        [] => zero.less(false_facts(true.into(), zero)),
        _ => true.into(),
    };
    let is_needed = is_unfit & !is_hopeless;
    let mut chosen = along.into_iter().fold(zero, |all, pack| all + set(pack));
    let mut least = false_facts(is_needed, chosen);
    for pack in others {
        let with = chosen + set(pack);
        let count = false_facts(is_needed & least.less(none), with);
        let is_better = count.less(least);
        (chosen, least) = (N::select(is_better, with, chosen), N::select(is_better, count, least));
    }
    let cutting = packs.iter().fold(zero, |all, pack| all + N::select(cuts(*pack), set(*pack), zero));
    let of_cutting = false_facts(!is_unfit & zero.less(cutting), cutting);
    let [set, count] =
        [(chosen, cutting), (least, of_cutting)].map(|(unfit, fit)| N::select(is_unfit, unfit, fit));
    N::select(zero.less(set) & count.less(1.into()), set, none)
}

/// Do rows of an argument begin in the middle of a sector?
pub(super) fn cuts_sectors<A: Arguments>(
    arguments: &A,
    arg: usize,
    rank: usize,
    bytes: u32,
) -> <A::Number as Number>::Truth {
    let number = |number: u64| A::Number::from(number);
    let cuts = |mode: usize| {
        let stride = arguments.stride(arg, mode);
        let is_one = !stride.less(number(1)) & stride.less(number(2));
        !is_one & number(0).less(stride * number(bytes.into()) % number(SECTOR))
    };
    (0..rank).map(cuts).fold(false.into(), |any: <A::Number as Number>::Truth, cuts| any | cuts)
}

/// A variant, while a launch chooses among all.
pub(super) struct Candidate<N: Number> {
    pub(super) arch: N,
    /// Does a launch compare it with others by its cost?
    pub(super) competes: N::Truth,
    /// How much its clocks count: see [`weight`].
    pub(super) weight: N,
    /// Does it take longer where rows of an argument begin in the middle of a sector?
    pub(super) cuts: N::Truth,
    pub(super) is_supported: N::Truth,
    /// Can it read the arguments themselves?
    pub(super) is_fit: N::Truth,
}

/// A variant's launch: can it run, the copies that it reads, and its estimated clocks, copying included, or [`NONE`].
#[derive(Clone, Copy)]
pub(super) struct Choice<N: Number> {
    pub(super) runs: N::Truth,
    pub(super) copies: N,
    pub(super) clocks: N,
}

/// The launch of a variant. [`copies`] and the clocks with some copies are computed where they are needed, and are else [`NONE`].
pub(super) fn choice<N: Number, P>(
    variant: &Candidate<N>,
    packing: &mut P,
    copies: impl Fn(&mut P, N::Truth) -> N,
    clocks: impl Fn(&mut P, N::Truth, N) -> N,
) -> Choice<N> {
    let is_fit = variant.is_supported & variant.is_fit;
    let copies = copies(packing, (variant.is_supported & !is_fit) | (is_fit & variant.cuts));
    let has_copies = copies.less(N::from(NONE));
    let direct = clocks(packing, is_fit, 0.into());
    let packed = clocks(packing, has_copies, copies);
    let is_packed = has_copies & (!is_fit | packed.less(direct));
    Choice {
        runs: is_fit | has_copies,
        copies: N::select(is_packed, copies, 0.into()),
        clocks: N::select(is_packed, packed, direct),
    }
}

/// The best of the variants that were considered so far.
#[derive(Clone, Copy)]
pub(super) struct Best<N: Number> {
    /// Its index, or [`NONE`].
    pub(super) index: N,
    pub(super) copies: N,
    pub(super) clocks: N,
    /// Its clocks times its weight, which are compared.
    pub(super) weighted: N,
    /// The architecture of the first that can run. Variants for an older architecture are for devices that cannot run newer variants.
    pub(super) arch: N,
    /// Variants that follow are not considered: only variants with a cost model compete.
    pub(super) is_settled: N::Truth,
}

impl<N: Number> Best<N> {
    pub(super) fn none() -> Best<N> {
        let (zero, none) = (N::from(0), N::from(NONE));
        Best { index: none, copies: zero, clocks: none, weighted: none, arch: zero, is_settled: false.into() }
    }

    /// Is a variant for this architecture to be considered?
    pub(super) fn admits(&self, arch: N) -> N::Truth {
        !self.is_settled & !arch.less(self.arch)
    }

    /// The better one of this and another variant, which is admitted: the first that can run, or, if that has a cost model, the fastest
    /// with a cost model, by its estimate and its weight.
    pub(super) fn or(self, index: N, variant: &Candidate<N>, choice: Choice<N>) -> Best<N> {
        let is_first = choice.runs & !self.index.less(N::from(NONE));
        let weighted = choice.clocks * variant.weight;
        let is_better = choice.runs & (is_first | (variant.competes & weighted.less(self.weighted)));
        let select = |this: N, other: N| N::select(is_better, this, other);
        Best {
            index: select(index, self.index),
            copies: select(choice.copies, self.copies),
            clocks: select(choice.clocks, self.clocks),
            weighted: select(weighted, self.weighted),
            arch: N::select(is_first, variant.arch, self.arch),
            is_settled: self.is_settled | (choice.runs & !variant.competes),
        }
    }
}

/// Alignment of strides matters up to this number of elements.
const MAX_STRIDE_ALIGNMENT: u64 = 16;
/// A record shortens the clocks of its alternative for sizes within this factor.
const NEAR_FACTOR: u64 = 2;
/// The number of weights.
const WEIGHTS: u64 = 2 * WEIGHT;

/// The record of the device whose sizes are nearest, the last of equally near ones, and the number and weight of its alternative as one
/// number, for [`weight`]; else both are [`NONE`]. A record of the same sizes decides: it has the weight 1. Near sizes are within a
/// factor, and strides have the same alignment.
pub(super) fn nearest<N: Number>(rules: &Rules, model: N, size: &impl Fn(usize) -> Option<N>) -> [N; 2] {
    let number = |number: u64| N::from(number);
    let (mut best, mut least) = ([number(NONE); 2], number(NONE));
    for (at, record) in rules.records.iter().enumerate() {
        let mut is_same = model.equals(number(record.model));
        let (mut is_near, mut distance) = (is_same, number(0));
        for (symbol, recorded, is_stride) in &record.sizes {
            let (recorded, size) = (number(*recorded), size(*symbol).unwrap_or(number(0)));
            let apart = recorded.greatest(size) - recorded.least(size);
            is_same = is_same & recorded.equals(size);
            is_near = is_near & !(recorded.least(size) * number(NEAR_FACTOR)).less(recorded.greatest(size));
            distance = distance + apart * number(1 << 20) / recorded.greatest(number(1));
            if *is_stride {
                let [one, other] = [size, recorded]
                    .map(|stride| stride.bits_of_both(number(MAX_STRIDE_ALIGNMENT)).lowest_bit());
                is_near = is_near & one.equals(other);
            }
        }
        let distance = distance + N::select(is_same, number(0), number(1 << 40));
        let is_nearer = (is_same | is_near) & !least.less(distance);
        let select = |this: N, other: N| N::select(is_nearer, this, other);
        let weight = N::select(is_same, number(1), number(record.near_weight));
        let alternative = number(record.alternative) * number(WEIGHTS) + weight;
        best = [select(number(at as u64), best[0]), select(alternative, best[1])];
        least = select(distance, least);
    }
    best
}

/// How much the clocks of an alternative count, by the record of [`nearest`].
pub(super) fn weight<N: Number>(alternative: N, recorded: N) -> N {
    let weights = N::from(WEIGHTS);
    N::select(alternative.equals(recorded / weights), recorded % weights, N::from(WEIGHT))
}

/// The clocks of a launch with one more copy before it. Copies after the first run beside it, on devices whose launches overlap.
pub(super) fn with_copy<N: Number>(clocks: N, copy: N, index: N, beside: N, launch: N, arch: N) -> N {
    let is_beside = N::from(0).less(index) & N::from(0).less(beside) & !arch.less(90.into());
    clocks + (copy - N::select(is_beside, launch, 0.into()))
}

/// The copy of an argument: compact, but for rows of a multiple of 128 bytes; and the arguments of its launch.
pub(super) struct Copied<N: Number> {
    /// Can it be made?
    pub(super) fits: N::Truth,
    pub(super) strides: Vec<N>,
    pub(super) len: N,
    /// The extents and strides of the argument, and of all of the copy's memory, its padding included, in the pack's order.
    pub(super) launch: [[Vec<N>; 2]; 2],
}

impl<N: Number> Copied<N> {
    pub(super) fn new(pack: &Pack, bytes: u32, row_multiple: u64, extents: &[N], strides: &[N]) -> Copied<N> {
        let one = N::from(1);
        let (mut copied, mut len, mut is_empty) = (vec![one; extents.len()], one, false.into());
        for (index, &mode) in pack.modes.iter().enumerate() {
            is_empty = is_empty | extents[mode].less(one);
            copied[mode] = len;
            // Strides are at least 1, also of a tensor without elements.
            let extent = extents[mode].greatest(one);
            let row = N::from(row_multiple);
            len = len * if index == 0 { extent.divided_up(row) * row } else { extent };
        }
        let len = N::select(is_empty, 0.into(), len);
        let in_order = |all: &[N]| -> Vec<N> { pack.modes.iter().map(|&mode| all[mode]).collect() };
        let (from, strides_of_copy) = (in_order(extents), in_order(&copied));
        let mut padded = from.clone();
        // Rows are as long as their stride.
        padded[0] = N::select(padded[0].less(one), padded[0], strides_of_copy[1]);
        Copied {
            fits: (len * N::from(bytes.into())).less(super::pack::ELSEWHERE.into()),
            strides: copied,
            len,
            launch: [[from, in_order(strides)], [padded, strides_of_copy]],
        }
    }
}

/// Checks that a device can run a program, which needs these bytes for itself in a workspace.
pub(super) fn supported<'k, C: Checks>(
    checks: &C,
    kernel: &'k Generated,
    program: &'k Kernel,
    device: &Device<C::Number>,
    workspace: C::Number,
) -> Result<(), C::Failed<Objection<'k, C::Number>>> {
    let number = |number: u64| C::Number::from(number);
    let objection = |why| move || Objection { why, kernel, program };
    let arch = number(program.arch.into());
    let is_newer = if program.arch_specific { arch.less(device.arch) } else { false.into() };
    checks.check(!device.arch.less(arch) & !is_newer, objection(Why::Capability(device.arch)))?;
    let shared = number(program.launch.shared_bytes.into());
    checks.check(!device.shared_bytes.less(shared), objection(Why::Shared(device.shared_bytes)))?;
    let threads = number(program.launch.threads.into());
    checks.check(!device.threads.less(threads), objection(Why::Threads(device.threads)))?;
    checks.check(!number(MOST_WORKSPACE).less(workspace), objection(Why::Workspace))
}

/// The product of some sizes, if all are known.
fn product<N: Number>(factors: &[Size], size: &impl Fn(usize) -> Option<N>) -> Option<N> {
    factors.iter().try_fold(N::from(1), |all, factor| Some(all * factor.number(size)?))
}

/// Has a grid no blocks?
pub(super) fn has_no_blocks<N: Number>(
    grid: &[Vec<Size>; 3],
    size: &impl Fn(usize) -> Option<N>,
) -> N::Truth {
    let counts = grid.iter().flatten().filter_map(|count| count.number(size));
    counts.fold(false.into(), |any: N::Truth, count| any | count.less(N::from(1)))
}

/// Is a grid too long along y or z?
pub(super) fn is_long<N: Number>(
    grid: &[Vec<Size>; 3],
    size: &impl Fn(usize) -> Option<N>,
    device: &Device<N>,
) -> N::Truth {
    let is_long = |axis: usize| Some(device.grid[axis].less(product(&grid[axis], size)?));
    [1, 2].into_iter().filter_map(is_long).fold(false.into(), |any: N::Truth, long| any | long)
}

/// Blocks along x, y and z.
type Blocks<C> = [<C as Checks>::Number; 3];

/// The blocks of a program's grid.
pub(super) fn grid<C: Checks>(
    checks: &C,
    program: &Kernel,
    grid: &[Vec<Size>; 3],
    size: &impl Fn(usize) -> Option<C::Number>,
    device: &Device<C::Number>,
) -> Result<Blocks<C>, C::Failed<Problem<C::Number>>> {
    let number = |number: u64| C::Number::from(number);
    let launch = &program.launch;
    let too_many = |axis: usize, blocks, most| {
        let axis = ["x", "y", "z"][axis];
        let along = format!(" blocks along {axis}, and ");
        Problem::new(message![
            "the grid would have ",
            Piece::Count(blocks),
            along,
            Piece::Count(most),
            " is the most"
        ])
        .help(message!["use larger tiles, or launch over parts of the tensors"])
    };
    let mut blocks = [number(1); 3];
    for (axis, factors) in grid.iter().enumerate() {
        let unknown = || {
            let texts: Vec<String> = launch.grid[axis].iter().map(ToString::to_string).collect();
            let size = texts.join("*");
            Problem::new(message![format!("the grid's size `{size}` does not follow from the arguments")])
        };
        let along = product(factors, size);
        checks.check(along.is_some().into(), unknown)?;
        blocks[axis] = along.unwrap_or(number(0));
    }
    if launch.persistent {
        // Clusters that are resident on the device at once, no more than there are tiles. The tile scheduler's counter of a cluster
        // has 32 bits, its blocks included.
        let [x, y, z] = blocks;
        let tiles = x * y * z;
        let most = number(i32::MAX as u64) - device.multiprocessors * number(64);
        checks.check(!most.less(tiles), || too_many(0, tiles, most))?;
        let cluster = launch.cluster.iter().product::<u32>().max(1);
        let size = number(cluster.into());
        let resident = device.multiprocessors * number(launch.blocks_per_sm.max(1).into());
        return Ok([clusters(resident, cluster, size).least(tiles) * size, number(1), number(1)]);
    }
    for (axis, (&along, &most)) in blocks.iter().zip(&device.grid).enumerate() {
        checks.check(!most.less(along), || too_many(axis, along, most))?;
        let cluster = launch.cluster[axis].max(1);
        if cluster > 1 {
            let rest = along % number(cluster.into());
            checks.check(rest.less(number(1)), || uneven(axis, along, cluster))?;
        }
    }
    Ok(blocks)
}

/// A number of blocks that clusters do not divide.
fn uneven<N: Number>(axis: usize, blocks: N, cluster: u32) -> Problem<N> {
    let axis = ["x", "y", "z"][axis];
    let message: Message<N> = message![
        format!("the number of blocks along {axis} is "),
        Piece::Count(blocks),
        format!(", and clusters take {cluster} at a time")
    ];
    Problem::new(message).help(message![format!(
        "launch more blocks, as in `walk(max({cluster} * ceil_div(N, {cluster} * W), ceil_div(N, W)), block.x)` before tiles of W elements"
    )])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::number::Natural;

    /// The chosen variant, where these variants fit with these clocks; 0 is one without a cost model.
    #[track_caller]
    fn check(all: &[Option<u64>], expected: u64) {
        let mut best = Best::none();
        for (index, clocks) in all.iter().enumerate() {
            let (arch, is_supported) = (Natural(90), best.admits(Natural(90)) && clocks.is_some());
            let variant = Candidate {
                arch,
                competes: *clocks != Some(0),
                weight: Natural(WEIGHT),
                cuts: false,
                is_supported,
                is_fit: true,
            };
            let none = |_: &mut (), _| Natural(NONE);
            let clocks = Natural(clocks.filter(|clocks| *clocks > 0).unwrap_or(NONE));
            let choice = choice(&variant, &mut (), none, |(), _, _| clocks);
            best = best.or(Natural(index as u64), &variant, choice);
        }
        assert_eq!(best.index, Natural(expected));
    }

    #[test]
    fn the_fastest_variant_with_a_cost_model_is_chosen() {
        check(&[Some(0), Some(5)], 0);
        check(&[Some(9), Some(5), Some(7)], 1);
        check(&[None, Some(9), None, Some(3), Some(0)], 3);
        // Of equal variants the first.
        check(&[Some(5), Some(5)], 0);
    }
}
