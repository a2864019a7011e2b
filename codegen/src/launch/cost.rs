//! Which of several variants is the fastest for a launch, by their cost models.

use tilewright_layout::{Symbol, Value};

use super::{Limits, Tensor};
use crate::thread::{Cost, Kernel, Param};

/// Where rows of 128 bytes begin at multiples of fewer bytes than the first number: how many the L2 cache delivers to all
/// multiprocessors in a clock, and tenths of a clock in which a multiprocessor copies one, alone and beside the other one
/// of its pair, which share a port. Rows are two lines each, and a sector more where the 32 bytes of a sector are cut. The
/// last is for whole lines. These are between the clocks of an H100 and of an H200: see bench/NOTES.md.
const ROWS: [(u64, u128, [u128; 2]); 3] = [(32, 29, [20, 27]), (128, 47, [6, 26]), (u64::MAX, 137, [1, 14])];
/// The part of a copied row's clocks at a port that one takes which another block of the cluster copies.
const RECEIVED: (u128, u128) = (1, 10);
/// The part of the shorter of copies and products that the other does not hide.
const EXPOSED: (u128, u128) = (7, 25);
/// Bytes that memory delivers in a clock, while blocks are busy.
const MEMORY: u128 = 1773;
/// The part of the shorter of memory and blocks that the other does not hide.
const WAITING: (u128, u128) = (1, 2);

/// The estimated clocks of a launch; `None` where the kernel has no cost model.
pub(super) fn clocks(
    program: &Kernel,
    limits: &Limits,
    lookup: &dyn Fn(Symbol) -> Option<i64>,
) -> Option<u128> {
    match program.launch.cost? {
        cost if cost.resident > 0 => in_waves(program, cost, limits, lookup),
        cost => by_tiles(program, cost, limits, lookup),
    }
}

/// Those of the waves of blocks that the busiest multiprocessor has at once. The last wave has fewer of them.
fn in_waves(
    program: &Kernel,
    cost: Cost,
    limits: &Limits,
    lookup: &dyn Fn(Symbol) -> Option<i64>,
) -> Option<u128> {
    let count = |value: Value| Some(value.evaluate(lookup)?.max(0) as u128);
    let launch = &program.launch;
    let mut blocks = 1u128;
    for &factor in launch.grid.iter().flatten() {
        blocks = blocks.saturating_mul(count(factor)?);
    }
    let cluster = launch.cluster.iter().product::<u32>().max(1);
    let at_once = |resident: u32| u128::from(limits.clusters(cluster, resident) * cluster);
    let (waves, rest) = (blocks / at_once(cost.resident), blocks % at_once(cost.resident));
    let steps = count(cost.steps)?;
    let wave = |blocks: u128| match blocks {
        0 => 0,
        _ => {
            let step = blocks.saturating_mul(cost.step.into()).max(cost.alone.into());
            steps.saturating_mul(step).saturating_add(cost.tile.into())
        }
    };
    let of_waves =
        waves.saturating_mul(wave(cost.resident.into())).saturating_add(wave(rest.div_ceil(at_once(1))));
    let read = program.params.iter().filter_map(|param| match param {
        Param::Pointer { shape, stride, elem, write: false, .. } => {
            Some((&shape[..], &stride[..], &[][..], elem.bytes()))
        }
        _ => None,
    });
    let of_memory = bytes(read, lookup)? / MEMORY;
    Some(together(of_waves, of_memory, WAITING).saturating_add(cost.launch.into()))
}

/// Those of the busiest block's tiles, one of which is an edge tile.
fn by_tiles(
    program: &Kernel,
    cost: Cost,
    limits: &Limits,
    lookup: &dyn Fn(Symbol) -> Option<i64>,
) -> Option<u128> {
    let launch = &program.launch;
    let count = |value: Value| Some(value.evaluate(lookup)?.max(0) as u128);
    let (mut tiles, mut beyond) = (1u128, 0u128);
    let cluster = launch.cluster.iter().product::<u32>().max(1);
    for &factor in launch.grid.iter().flatten() {
        let along = count(factor)?;
        tiles = tiles.saturating_mul(along);
        if let Value::Sym { times, of, over } = factor {
            let extent = count(Value::Sym { times, of, over: 1 })?;
            // Each block of a persistent kernel's cluster copies a part.
            let blocks = if launch.persistent { cluster } else { 1 };
            let of_block = u128::from(over) / u128::from(blocks);
            beyond += along.saturating_mul(over.into()).saturating_sub(extent).min(of_block);
        }
    }
    if !launch.persistent {
        // The axes of the grid count blocks.
        tiles = tiles.div_ceil(cluster.into());
    }
    // The clocks of other kernels are those of a multiprocessor, which its blocks share.
    let clusters =
        u128::from(limits.clusters(cluster, if launch.persistent { launch.blocks_per_sm } else { 1 }));
    let rounds = tiles.div_ceil(clusters);
    let steps = count(cost.steps)?;
    // One block of each pair of multiprocessors starts first. Where the last round is not full, the others copy faster.
    let blocks = tiles.min(clusters).saturating_mul(cluster.into());
    let paired = blocks > u128::from(limits.multiprocessors / 2);
    let busy = tiles.saturating_mul(cluster.into()) / rounds.max(1);
    let rows = [cost.rows, cost.received].map(u128::from);
    let copied = copies(busy, paired, rows, alignment(program, lookup)?);
    let two = limits.shared_bytes / 2 >= launch.shared_bytes;
    let own = cost.step.saturating_sub(if two { cost.shared } else { 0 });
    let own = own + if cuts_sectors(program, lookup)? { cost.cut } else { 0 };
    let step = together(own.into(), copied, EXPOSED);
    let of_tile = steps.saturating_mul(step).saturating_add(cost.tile.into());
    let of_tiles = rounds.saturating_mul(of_tile);
    let of_memory = if cost.rows > 0 { bytes(sources(program), lookup)? / MEMORY } else { 0 };
    let of_edges = steps.saturating_mul(beyond).saturating_mul(cost.beyond.into()) / 10;
    Some(together(of_tiles, of_memory, WAITING).saturating_add(of_edges).saturating_add(cost.launch.into()))
}

/// Clocks of two things that overlap, but for a part of the shorter one.
fn together(a: u128, b: u128, (part, of): (u128, u128)) -> u128 {
    a.max(b).saturating_add(a.min(b).saturating_mul(part) / of)
}

/// Clocks in which so many blocks, which share ports if they are paired, each copy so many rows that begin at multiples of
/// so many bytes, and receive so many that others of their cluster copy.
fn copies(blocks: u128, paired: bool, [rows, received]: [u128; 2], alignment: u64) -> u128 {
    ROWS.iter().find(|(aligned, ..)| alignment < *aligned).map_or(0, |(_, in_a_clock, [alone, beside])| {
        let at_port = if paired { (rows + received * RECEIVED.0 / RECEIVED.1) * beside } else { 0 };
        (blocks.saturating_mul(rows) / in_a_clock).max((rows * alone).max(at_port) / 10)
    })
}

/// The tensors from which bulk copies load: their strides and the size of their elements.
fn sources(program: &Kernel) -> impl Iterator<Item = (&[Value], &[Value], &[u8], u32)> {
    program.params.iter().filter_map(|param| {
        let Param::TensorMap { tensor, modes, .. } = param else { return None };
        match program.params.get(*tensor as usize) {
            Some(Param::Pointer { shape, stride, elem, write: false, .. }) => {
                Some((&shape[..], &stride[..], &modes[..], elem.bytes()))
            }
            _ => None,
        }
    })
}

/// The bytes of tensors.
fn bytes<'k>(
    mut of: impl Iterator<Item = (&'k [Value], &'k [Value], &'k [u8], u32)>,
    lookup: &dyn Fn(Symbol) -> Option<i64>,
) -> Option<u128> {
    of.try_fold(0u128, |sum, (shape, _, _, bytes)| {
        let elements = shape.iter().try_fold(1u128, |all, extent| {
            Some(all.saturating_mul(extent.evaluate(lookup)?.max(0) as u128))
        })?;
        Some(sum.saturating_add(elements.saturating_mul(bytes.into())))
    })
}

/// The largest power of two, of bytes, that divides the strides of all tensors from which bulk copies load.
fn alignment(program: &Kernel, lookup: &dyn Fn(Symbol) -> Option<i64>) -> Option<u64> {
    let mut all = 1 << 16;
    for (_, stride, modes, bytes) in sources(program) {
        for &mode in &modes[1..] {
            all |= stride[usize::from(mode)].evaluate(lookup)?.unsigned_abs() * u64::from(bytes);
        }
    }
    Some(1 << all.trailing_zeros())
}

/// Bytes of a sector.
const SECTOR: i64 = 32;

/// Do rows of a matrix begin in the middle of a sector?
pub(super) fn cuts_sectors_of(tensor: &Tensor) -> bool {
    let bytes = i64::from(tensor.elem.bytes());
    tensor.strides.iter().any(|stride| *stride != 1 && stride.wrapping_mul(bytes) % SECTOR != 0)
}

/// Do rows of a matrix that a kernel reads begin in the middle of a sector?
fn cuts_sectors(program: &Kernel, lookup: &dyn Fn(Symbol) -> Option<i64>) -> Option<bool> {
    let mut cuts = false;
    for param in &program.params {
        let Param::Pointer { elem, write: false, stride, .. } = param else { continue };
        for stride in stride.iter().filter(|stride| stride.int().is_none()) {
            cuts |= stride.evaluate(lookup)? * i64::from(elem.bytes()) % SECTOR != 0;
        }
    }
    Some(cuts)
}

/// The first variant that fits, or, where it has a cost model, the fastest of those with one. Variants that
/// do not fit have no clocks.
pub(super) fn quickest(first: usize, clocks: &[Option<u128>]) -> usize {
    let Some(least) = clocks[first] else { return first };
    let others = (first + 1..clocks.len()).filter_map(|place| Some((clocks[place]?, place)));
    others.fold((least, first), |best, other| if other.0 < best.0 { other } else { best }).1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The chosen variant, of those that fit with so many clocks; 0 is one without a cost model.
    #[track_caller]
    fn check(all: &[Option<u128>], expected: usize) {
        let first = all.iter().position(Option::is_some).expect("one that serves");
        let clocks: Vec<_> = all.iter().map(|of| of.filter(|&clocks| clocks > 0)).collect();
        assert_eq!(quickest(first, &clocks), expected);
    }

    #[test]
    fn rows_that_cut_lines_take_longer() {
        let copies = |blocks: u128, alignment| copies(blocks, blocks > 66, [256, 0], alignment);
        assert!(copies(132, 128) < 500 && copies(132, 64) > 550);
        assert!(copies(132, 16) > copies(132, 32));
        // Few blocks have a port each.
        assert!(copies(1, 16) > 500 && copies(1, 128) < 200);
        assert!(copies(66, 128) < copies(67, 128));
        // Rows that a cluster shares are copied once, and pass the ports of all of its blocks.
        let [shared, alone] = [[192, 64], [256, 0]].map(|rows| super::copies(132, true, rows, 64));
        assert!(alone * 3 / 4 <= shared && shared < alone);
    }

    #[test]
    fn the_fastest_variant_with_a_cost_model_is_chosen() {
        check(&[Some(0), Some(5)], 0);
        check(&[Some(9), Some(5), Some(7)], 1);
        check(&[None, Some(9), None, Some(3), Some(0)], 3);
        // Of equal ones the first.
        check(&[Some(5), Some(5)], 0);
    }
}
