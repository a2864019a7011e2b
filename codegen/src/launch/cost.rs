//! Which of several variants is the fastest for a launch, by their cost models.

use tilewright_layout::{Symbol, Value};

use super::Limits;
use crate::thread::{Kernel, Param};

/// Rows of 128 bytes that the L2 cache of an H100 delivers in 100 clocks, if they begin at multiples of so many
/// bytes and no more: two lines for each, and a sector more where the 32 bytes of a sector are cut. Rows of
/// whole lines are no limit.
const ROWS: [(u64, u128); 2] = [(32, 2400), (128, 3500)];

/// The estimated clocks of a launch: those of the busiest block's tiles, one of which is an edge tile. `None`
/// where the kernel has no cost model.
pub(super) fn clocks(
    program: &Kernel,
    limits: &Limits,
    lookup: &dyn Fn(Symbol) -> Option<i64>,
) -> Option<u128> {
    let launch = &program.launch;
    let cost = launch.cost?;
    let count = |value: Value| Some(value.evaluate(lookup)?.max(0) as u128);
    let (mut tiles, mut beyond) = (1u128, 0u128);
    for &factor in launch.grid.iter().flatten() {
        let along = count(factor)?;
        tiles = tiles.saturating_mul(along);
        if let Value::Sym { times, of, over } = factor {
            let extent = count(Value::Sym { times, of, over: 1 })?;
            beyond += along.saturating_mul(over.into()).saturating_sub(extent);
        }
    }
    let cluster = launch.cluster.iter().product::<u32>().max(1);
    if !launch.persistent {
        // The axes of the grid count blocks.
        tiles = tiles.div_ceil(cluster.into());
    }
    // The clocks of other kernels are those of a multiprocessor, which its blocks share.
    let resident = if launch.persistent { launch.blocks_per_sm.max(1) } else { 1 };
    let blocks = limits.multiprocessors.saturating_mul(resident);
    let clusters = u128::from((blocks / cluster).max(1));
    let rounds = tiles.div_ceil(clusters);
    let steps = count(cost.steps)?;
    let rows = tiles.min(clusters).saturating_mul((cluster * cost.rows).into());
    let step = u128::from(cost.step).max(copies(rows, alignment(program, lookup)?));
    let of_tile = steps.saturating_mul(step).saturating_add(cost.tile.into());
    let of_edges = steps.saturating_mul(beyond).saturating_mul(cost.beyond.into());
    Some(rounds.saturating_mul(of_tile).saturating_add(of_edges).saturating_add(cost.launch.into()))
}

/// Clocks in which the L2 cache delivers so many rows that begin at multiples of so many bytes.
fn copies(rows: u128, alignment: u64) -> u128 {
    let limit = ROWS.iter().find(|(aligned, _)| alignment < *aligned);
    limit.map_or(0, |(_, per_100)| rows.saturating_mul(100) / per_100)
}

/// The largest power of two, of bytes, that divides the strides of all tensors from which bulk copies load.
fn alignment(program: &Kernel, lookup: &dyn Fn(Symbol) -> Option<i64>) -> Option<u64> {
    let mut all = 1 << 16;
    for param in &program.params {
        let Param::TensorMap { tensor, modes, .. } = param else { continue };
        let Some(Param::Pointer { stride, elem, write: false, .. }) = program.params.get(*tensor as usize)
        else {
            continue;
        };
        for &mode in &modes[1..] {
            all |= stride[usize::from(mode)].evaluate(lookup)?.unsigned_abs() * u64::from(elem.bytes());
        }
    }
    Some(1 << all.trailing_zeros())
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
        assert_eq!(copies(132 * 256, 128), 0);
        assert!(copies(132 * 256, 64) > 900);
        assert!(copies(132 * 256, 16) > copies(132 * 256, 32));
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
