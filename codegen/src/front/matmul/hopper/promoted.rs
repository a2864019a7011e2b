//! Sums that are promoted to f32: the sums of each step begin at zero in separate registers, and are added to the
//! accumulators while the next step's product runs. A step is a block along K, whose scales may multiply its sums.

use crate::thread::atom::OperandName;
use tilewright_layout::layout;

use super::{Part, Scales, add, shifted, times};
use crate::build::Builder;
use crate::build::fragment::Arrangement;
use crate::front::matmul::block_scales::{BlockScales, add_scaled, over_columns};
use crate::front::matmul::bulk::{batch_of, last};
use crate::source::problem::Result;
use crate::thread::{Id, Unroll};
use crate::tile::Op;
use crate::tile::view::{At, View};
use crate::values::affine::Affine;

/// Pairs of steps in an iteration: at its end no product is in flight.
const PAIRS: i64 = 4;

/// The sums of a step, and registers for its scales of A and of B.
struct Step<'s> {
    sums: &'s View,
    scales: Option<[View; 2]>,
}

/// State that the steps of a tile share.
struct Tile<'s> {
    acc: &'s View,
    at: &'s [Affine],
    from: [&'s View; 2],
    product: Id,
    scales: Option<BlockScales>,
}

impl Part<'_> {
    /// The consumers' main loop of a tile. No product is in flight between iterations: its registers would pass from one
    /// iteration to the next, and the compiler would therefore wait for it at once. So an iteration has many steps, and
    /// the remaining iterations have two steps each.
    pub(super) fn multiply_and_add(
        &self,
        b: &mut Builder,
        at: &[Affine],
        (acc, [even, odd]): (&View, &[View; 2]),
        from: [&View; 2],
        product: Id,
    ) -> Result<()> {
        let of_batch = |scales: &BlockScales| scales.of_batch(b, self.c, &batch_of(at));
        let scales = self.block_scales.as_ref().map(of_batch).transpose()?;
        let tile = Tile { acc, at, from, product, scales };
        let even = Step { sums: even, scales: self.registers_for_scales(b, &tile)? };
        let odd = Step { sums: odd, scales: self.registers_for_scales(b, &tile)? };
        self.load_scale_of_b(b, &tile, &even, &0.into())?;
        self.load_scale_of_b(b, &tile, &odd, &1.into())?;
        let pairs = Affine::from(self.pairs);
        let (groups, rest) = (pairs.submode(PAIRS, None), pairs.submode(1, Some(PAIRS)));
        b.repeat("group", groups.clone(), Unroll::No, |b, group| {
            self.multiply_and_add_pairs(b, PAIRS, &tile, [&even, &odd], &times(&group, 2 * PAIRS)?)
        })?;
        b.repeat("pair", rest, Unroll::No, |b, pair| {
            let first = shifted(&times(&groups, 2 * PAIRS)?, &times(&pair, 2)?)?;
            self.multiply_and_add_pairs(b, 1, &tile, [&even, &odd], &first)
        })
    }

    /// An iteration of `pairs` pairs of steps.
    fn multiply_and_add_pairs(
        &self,
        b: &mut Builder,
        pairs: i64,
        tile: &Tile,
        [even, odd]: [&Step; 2],
        first: &Affine,
    ) -> Result<()> {
        let start = |b: &mut Builder, step: &Step| -> Result<()> {
            self.start(b, step.sums, tile.from, tile.product)?;
            self.load_scales_of_a(b, tile, step)
        };
        let add = |b: &mut Builder, step: &Step, k: &Affine| -> Result<()> {
            let Some(scales) = &step.scales else { return add(b, step.sums, tile.acc) };
            add_scaled(b, step.sums, scales, tile.acc)?;
            // Two steps ahead: a load takes longer than a step.
            self.load_scale_of_b(b, tile, step, &shifted(k, &2.into())?)
        };
        let next = |b: &mut Builder, started: &Step, done: &Step, k: &Affine| -> Result<()> {
            b.advance(self.ring);
            start(b, started)?;
            b.wait_all_but(tile.product, 1);
            let phase = self.previous_phase(b)?;
            b.statement(Op::Release { ring: self.ring, phase });
            add(b, done, k)
        };
        let step = |pair: &Affine, more: i64| shifted(first, &shifted(&times(pair, 2)?, &more.into())?);
        if self.has_one_slot() {
            let alone = |b: &mut Builder, current: &Step, k: &Affine| -> Result<()> {
                start(b, current)?;
                b.wait(tile.product);
                b.release(self.ring);
                add(b, current, k)?;
                b.advance(self.ring);
                Ok(())
            };
            return b.repeat("pair", pairs, Unroll::Full, |b, pair| {
                alone(b, even, &step(&pair, 0)?)?;
                alone(b, odd, &step(&pair, 1)?)
            });
        }
        let last: Affine = (pairs - 1).into();
        start(b, even)?;
        b.repeat("pair", pairs - 1, Unroll::Full, |b, pair| -> Result<()> {
            next(b, odd, even, &step(&pair, 0)?)?;
            next(b, even, odd, &step(&pair, 1)?)
        })?;
        next(b, odd, even, &step(&last, 0)?)?;
        b.wait(tile.product);
        b.release(self.ring);
        add(b, odd, &step(&last, 1)?)?;
        b.advance(self.ring);
        Ok(())
    }

    /// Loads a thread's scales of A from the current slot, if there are any.
    fn load_scales_of_a(&self, b: &mut Builder, tile: &Tile, step: &Step) -> Result<()> {
        let Some([registers, _]) = &step.scales else { return Ok(()) };
        let Some(part) = self.scales_of_a(b, tile)? else { return Ok(()) };
        b.load_into(&part, registers)
    }

    /// Loads the scale of B of a step, if there is one.
    fn load_scale_of_b(&self, b: &mut Builder, tile: &Tile, step: &Step, k: &Affine) -> Result<()> {
        let Some([_, registers]) = &step.scales else { return Ok(()) };
        let Some(part) = self.scale_of_b(b, tile, k)? else { return Ok(()) };
        b.load_into(&part, registers)
    }

    /// The scales of A in the current slot, for a thread's accumulators.
    fn scales_of_a(&self, b: &mut Builder, tile: &Tile) -> Result<Option<View>> {
        let Some(Scales { to, of, .. }) = self.scales.first() else { return Ok(None) };
        let slot = b.slot(self.ring);
        let rows = last(b, to, &slot)?;
        let rows = of.boxed(b, &rows)?;
        let rows = b.tile(&rows, (self.sizes.rows(),), &[At::Index(self.share(b))])?;
        let all = over_columns(b, &rows, self.sizes.tile[1])?;
        self.of_sums(b, &all, tile).map(Some)
    }

    /// The scale of B of a step, for all of a thread's accumulators.
    fn scale_of_b(&self, b: &mut Builder, tile: &Tile, k: &Affine) -> Result<Option<View>> {
        let Some(scales) = &tile.scales else { return Ok(None) };
        let sizes = [self.sizes.rows(), self.sizes.tile[1]];
        let all = scales.of_columns(b, sizes, &tile.at[1], &self.step_of(k)?)?;
        self.of_sums(b, &all, tile).map(Some)
    }

    /// What belongs to a thread's accumulators, of the rows of its warpgroup.
    fn of_sums(&self, b: &mut Builder, rows: &View, tile: &Tile) -> Result<View> {
        let alone = Arrangement { groups: layout!((1, 1, 1)), of: self.warpgroups };
        b.within(self.warpgroups, |b| {
            let part = b.partition_mma(rows, self.multiply, OperandName::D, &alone)?.with_name(&rows.name);
            b.regroup(&part, tile.acc.shape())
        })
    }

    /// Registers for the scales of a step.
    fn registers_for_scales(&self, b: &mut Builder, tile: &Tile) -> Result<Option<[View; 2]>> {
        let Some((of_a, of_b)) = self.scales_of_a(b, tile)?.zip(self.scale_of_b(b, tile, &0.into())?) else {
            return Ok(None);
        };
        Ok(Some([b.registers_for(&of_a)?, b.registers_for(&of_b)?]))
    }
}
