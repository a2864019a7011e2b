//! Which variant a launch takes, and of which arguments it makes copies first. It is written for any numbers: see [`super::number`].

use super::cost::{Device, SECTOR, clusters};
use super::message::{Checks, Message, Piece, Problem, message};
use super::number::Number;
use super::rules::{Arguments, Size};
use super::why::{Objection, Why};
use crate::launch::definition::{Generated, Pack};
use crate::thread::Kernel;

/// Most bytes that a variant may need for itself in a workspace.
const MOST_WORKSPACE: u64 = 256 << 20;

/// A condition in some numbers.
type TruthOf<T> = <<T as Facts>::Number as Number>::Truth;

/// The copies of a class of variants that cannot read the arguments, nor copies of them; the clocks of a variant without a cost model.
pub(super) const NONE: u64 = u64::MAX;

/// The set that has the copy of one pack.
pub(super) fn copy_of<N: Number>(pack: usize) -> N {
    N::from(1 << pack)
}

/// The facts of a class of variants, for arguments some of which are replaced by copies. Sets of copies are numbers: the sum of 2^pack.
pub(super) trait Facts {
    type Number: Number;

    /// How many facts are false with these copies; [`NONE`] if the copies cannot be made, or where they are not needed.
    fn false_facts(&mut self, is_needed: TruthOf<Self>, copies: Self::Number) -> Self::Number;
    /// Is a fact false that is true of no copy?
    fn is_hopeless(&mut self) -> TruthOf<Self>;
    /// Do rows of the pack's argument begin in the middle of sectors?
    fn cuts(&mut self, pack: usize) -> TruthOf<Self>;
}

/// The copies that variants of a class read, or [`NONE`]. If they can read the arguments themselves, these are copies of the arguments
/// whose rows begin in the middle of a sector. Otherwise, an argument is copied if rows are read along another mode, or if more facts are
/// true then. The class reads `packs`; `all` are the kernel's.
pub(super) fn copies<F: Facts>(facts: &mut F, packs: &[usize], all: &[Pack]) -> F::Number {
    let (zero, none) = (F::Number::from(0), F::Number::from(NONE));
    let transposes = |pack: &usize| all[*pack].transposes;
    let mut chosen =
        packs.iter().filter(|pack| transposes(pack)).fold(zero, |set, pack| set + copy_of(*pack));
    let is_unfit = match packs.iter().any(|pack| transposes(pack)) {
        true => true.into(),
        false => zero.less(facts.false_facts(true.into(), zero)),
    };
    let is_needed = is_unfit & !facts.is_hopeless();
    let mut least = facts.false_facts(is_needed, chosen);
    for pack in packs.iter().filter(|pack| !transposes(pack)) {
        let with = chosen + copy_of(*pack);
        let count = facts.false_facts(is_needed & least.less(none), with);
        let is_better = count.less(least);
        chosen = F::Number::select(is_better, with, chosen);
        least = F::Number::select(is_better, count, least);
    }
    let mut cutting = zero;
    for pack in packs {
        cutting = cutting + F::Number::select(facts.cuts(*pack), copy_of(*pack), zero);
    }
    let set = F::Number::select(is_unfit, chosen, cutting);
    let of_cutting = facts.false_facts(!is_unfit & zero.less(cutting), cutting);
    let count = F::Number::select(is_unfit, least, of_cutting);
    F::Number::select(zero.less(set) & count.less(1.into()), set, none)
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
pub(super) trait Candidate {
    type Number: Number;

    fn arch(&self) -> Self::Number;
    /// Does a launch compare it with others by its cost?
    fn competes(&self) -> <Self::Number as Number>::Truth;
    /// Does it take longer where rows of an argument begin in the middle of a sector?
    fn cuts(&self) -> <Self::Number as Number>::Truth;
    fn is_supported(&self) -> <Self::Number as Number>::Truth;
    /// Can it read the arguments themselves?
    fn is_fit(&self) -> <Self::Number as Number>::Truth;
    /// See [`copies`]; [`NONE`] where they are not needed.
    fn copies(&mut self, is_needed: <Self::Number as Number>::Truth) -> Self::Number;
    /// The estimate with these copies; [`NONE`] where it is not needed, or unknown.
    fn clocks(&mut self, is_needed: <Self::Number as Number>::Truth, copies: Self::Number) -> Self::Number;
}

/// A variant's launch: can it run, the copies that it reads, and its estimated clocks, copying included, or [`NONE`].
#[derive(Clone, Copy)]
pub(super) struct Choice<N: Number> {
    pub(super) runs: N::Truth,
    pub(super) copies: N,
    pub(super) clocks: N,
}

/// The launch of a variant, if it is needed.
pub(super) fn choice<C: Candidate>(
    variant: &mut C,
    is_needed: <C::Number as Number>::Truth,
) -> Choice<C::Number> {
    let (zero, none) = (C::Number::from(0), C::Number::from(NONE));
    let is_supported = is_needed & variant.is_supported();
    let is_fit = is_supported & variant.is_fit();
    let copies = variant.copies((is_supported & !is_fit) | (is_fit & variant.cuts()));
    let has_copies = copies.less(none);
    let direct = variant.clocks(is_fit, zero);
    let packed = variant.clocks(has_copies, copies);
    let is_packed = has_copies & (!is_fit | packed.less(direct));
    Choice {
        runs: is_fit | has_copies,
        copies: C::Number::select(is_packed, copies, zero),
        clocks: C::Number::select(is_packed, packed, direct),
    }
}

/// The best of the variants that were considered so far.
#[derive(Clone, Copy)]
pub(super) struct Best<N: Number> {
    /// Its index, or [`NONE`].
    pub(super) index: N,
    pub(super) copies: N,
    pub(super) clocks: N,
    /// The architecture of the first that can run. Variants for an older architecture are for devices that cannot run newer variants.
    pub(super) arch: N,
    /// Variants that follow are not considered: only variants with a cost model compete.
    pub(super) is_settled: N::Truth,
}

impl<N: Number> Best<N> {
    pub(super) fn none() -> Best<N> {
        let (zero, none) = (N::from(0), N::from(NONE));
        Best { index: none, copies: zero, clocks: none, arch: zero, is_settled: false.into() }
    }

    /// Is a variant for this architecture to be considered?
    pub(super) fn admits(&self, arch: N) -> N::Truth {
        !self.is_settled & !arch.less(self.arch)
    }

    /// The better one of this and another variant, which is admitted: the first that can run, or, if that has a cost model, the fastest
    /// with a cost model.
    pub(super) fn or<C: Candidate<Number = N>>(self, index: N, variant: &C, choice: Choice<N>) -> Best<N> {
        let is_first = choice.runs & !self.index.less(N::from(NONE));
        let is_better = choice.runs & (is_first | (variant.competes() & choice.clocks.less(self.clocks)));
        let select = |this: N, other: N| N::select(is_better, this, other);
        Best {
            index: select(index, self.index),
            copies: select(choice.copies, self.copies),
            clocks: select(choice.clocks, self.clocks),
            arch: N::select(is_first, variant.arch(), self.arch),
            is_settled: self.is_settled | (choice.runs & !variant.competes()),
        }
    }
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

/// Checks that a device can run a program, which needs so many bytes for itself in a workspace.
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

/// The blocks of a program's grid along x, y and z.
pub(super) fn grid<C: Checks>(
    checks: &C,
    program: &Kernel,
    grid: &[Vec<Size>; 3],
    size: &impl Fn(usize) -> Option<C::Number>,
    device: &Device<C::Number>,
) -> Result<[C::Number; 3], C::Failed<Problem<C::Number>>> {
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
    for axis in 0..3 {
        let (along, most) = (blocks[axis], device.grid[axis]);
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
fn uneven<N>(axis: usize, blocks: N, cluster: u32) -> Problem<N> {
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

    /// A variant that reads the arguments themselves in so many clocks; 0 without a cost model, `None` if it cannot run.
    struct Fixed(Option<u64>);

    impl Candidate for Fixed {
        type Number = Natural;

        fn arch(&self) -> Natural {
            Natural(90)
        }

        fn competes(&self) -> bool {
            self.0 != Some(0)
        }

        fn cuts(&self) -> bool {
            false
        }

        fn is_supported(&self) -> bool {
            self.0.is_some()
        }

        fn is_fit(&self) -> bool {
            true
        }

        fn copies(&mut self, _: bool) -> Natural {
            Natural(NONE)
        }

        fn clocks(&mut self, _: bool, _: Natural) -> Natural {
            Natural(self.0.filter(|clocks| *clocks > 0).unwrap_or(NONE))
        }
    }

    /// The chosen variant, where these variants fit with these clocks; 0 is one without a cost model.
    #[track_caller]
    fn check(all: &[Option<u64>], expected: u64) {
        let mut best = Best::none();
        for (index, clocks) in all.iter().enumerate() {
            let mut variant = Fixed(*clocks);
            let is_admitted = best.admits(variant.arch());
            let choice = choice(&mut variant, is_admitted);
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
