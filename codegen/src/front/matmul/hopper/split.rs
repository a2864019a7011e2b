//! Products of f32 whose operands are sums of two terms of tf32. The left operand passes through registers, where
//! consumers split it. The right operand is read from shared memory: a separate warpgroup replaces each tile by its
//! higher terms, and writes the lower terms beside it.

use crate::thread::atom::OperandName;
use tilewright_layout::{Value as Size, layout};

use super::{Part, Sizes, THREADS};
use crate::build::Builder;
use crate::build::fragment::Arrangement;
use crate::build::tiled::Fill;
use crate::front::matmul::bulk::{last, slots};
use crate::front::matmul::cluster::add;
use crate::source::problem::{Problem, Result};
use crate::thread::{Id, Unroll};
use crate::tile::view::{At, View};
use crate::tile::{Expr, How, Order, Ring};
use crate::values::elem::Elem;

/// Registers of consumer and of producer threads: one or two warpgroups consume, or three, and one splits.
pub(super) const REGISTERS: [(u32, u32); 2] = [(208, 40), (128, 40)];
/// Registers of the threads that split.
const OF_SPLITTER: u32 = 56;
/// Elements that a thread splits at once, at most.
const WIDE: i64 = 4;
/// The rows of every tile are a multiple of this.
const ROWS: i64 = 16;

/// The warpgroup that splits tiles of the right operand.
pub(super) struct Split {
    pub(super) by: Id,
    /// A slot is full when the tile of the other ring's slot is split.
    pub(super) ring: Id,
    /// Lower terms.
    pub(super) low: View,
}

impl Split {
    pub(super) fn new(b: &mut Builder, sizes: &Sizes, consumers: Id) -> Result<Split> {
        let first = (sizes.warpgroups() * 4 + 4) as u32;
        let by = b.group("splitter", (first, first + 4), Some(OF_SPLITTER));
        let low = slots(b, "low", Elem::Tf32, ([sizes.tile[1], sizes.tile[2]], true), sizes.stages)?;
        let ring = b.ring(Ring {
            name: "terms".into(),
            slots: sizes.stages as u32,
            buffers: vec![low.tensor],
            from: by,
            to: consumers,
            arrivals: THREADS as u32,
            over_cluster: None,
        });
        Ok(Split { by, ring, low })
    }
}

/// The rows of a tile that all threads of a warpgroup split at once, with the widest vectors that divide it.
fn rows_at_once(bn: i64, bk: i64) -> Result<(i64, Fill)> {
    for wide in [WIDE, WIDE / 2, 1] {
        let even = |rows: &i64| rows * bk % (THREADS * wide) == 0 && bn % rows == 0;
        let Some(rows) = (1..=bn / ROWS).map(|count| count * ROWS).find(even) else { continue };
        let fill = Fill::of([rows, bk], 1, THREADS, wide)?;
        if !fill.partition.ragged {
            return Ok((rows, fill));
        }
    }
    Err(Problem::new(format!("no number of rows of {bk} elements is split by all threads and divides {bn}")))
}

impl Part<'_> {
    /// The splitter's main loop of a tile. The slot of the producer's ring is released by the consumers, after both
    /// have used it.
    pub(super) fn split(&self, b: &mut Builder, split: &Split, right: &View) -> Result<()> {
        let [_, bn, bk] = self.sizes.tile;
        let (rows, fill) = rows_at_once(bn, bk)?;
        let fill = Fill { of: split.by, ..fill };
        b.repeat("k", self.steps, Unroll::No, |b, _| -> Result<()> {
            b.await_slot(self.ring);
            b.acquire(split.ring);
            let (slot, of_low) = (b.slot(self.ring), b.slot(split.ring));
            let (tile, low) = (last(b, right, &slot)?, last(b, &split.low, &of_low)?);
            b.repeat("part", Size::Int(bn / rows), Unroll::Full, |b, at| -> Result<()> {
                let mut part = |view: &View, name: &str| -> Result<View> {
                    let rows = b.tile(view, (rows, bk), &[At::Index(at.clone()), At::Index(0.into())])?;
                    Ok(b.parallelize_over(&rows, &fill.threads, fill.of, &fill.partition)?.with_name(name))
                };
                let (tile, low) = (part(&tile, "tile")?, part(&low, "lower")?);
                let x = b.registers("x", Elem::F32, tile.shape())?;
                b.copy(&tile, &x)?;
                let terms = b.two_terms("right", &x, Elem::Tf32, true)?;
                b.map(&terms[..1], &tile, Expr::In(0).cast(Elem::F32))?;
                b.copy(&terms[1], &low)
            })?;
            b.publish(split.ring, None);
            b.advance(split.ring);
            b.advance(self.ring);
            Ok(())
        })
    }

    /// The consumers' main loop of a tile. Sums of a step start at zero and are added to the others in f32; meanwhile
    /// the other warpgroup multiplies.
    pub(super) fn multiply_terms(
        &self,
        b: &mut Builder,
        split: &Split,
        acc: &View,
        from: [&View; 2],
        product: Id,
    ) -> Result<()> {
        let partial = b.registers("partial", b.elem(acc), acc.shape())?;
        b.repeat("k", self.steps, Unroll::No, |b, _| -> Result<()> {
            self.start_terms(b, split, &partial, from, product)?;
            b.wait(product);
            [self.ring, split.ring].into_iter().for_each(|ring| b.release(ring));
            add(b, &partial, acc)?;
            [self.ring, split.ring].into_iter().for_each(|ring| b.advance(ring));
            Ok(())
        })
    }

    /// Starts the three products of the current slot once it is full and split. Lower terms are multiplied by higher
    /// terms first: tensor cores cut off bits below the last bits of the largest term, and sums of small terms are small.
    fn start_terms(
        &self,
        b: &mut Builder,
        split: &Split,
        sums: &View,
        [left, right]: [&View; 2],
        product: Id,
    ) -> Result<()> {
        let (bk, rows, share) = (self.sizes.tile[2], self.sizes.rows(), self.share(b));
        b.await_slot(self.ring);
        let (slot, of_low) = (b.slot(self.ring), b.slot(split.ring));
        let left = last(b, left, &slot)?;
        let [high_a, low_a] = b.within(self.warpgroups, |b| -> Result<[View; 2]> {
            let left = b.tile(&left, (rows, bk), &[At::Index(share), At::Index(0.into())])?.with_name("rows");
            let alone = Arrangement { groups: layout!((1, 1, 1)), of: self.warpgroups };
            let part = b.partition_mma(&left, self.multiply, OperandName::A, &alone)?;
            let x = b.fragment("a", Elem::F32, &part)?;
            b.copy(&part, &x)?;
            b.two_terms("left", &x, Elem::Tf32, true)
        })?;
        b.await_slot(split.ring);
        let (high_b, low_b) = (last(b, right, &slot)?, last(b, &split.low, &of_low)?);
        b.fill(sums, Expr::lit(0.0))?;
        for (left, right) in [(&low_a, &high_b), (&high_a, &low_b), (&high_a, &high_b)] {
            b.gemm_how(left, right, sums, How::Atom(self.multiply), Order::Plain, Some(product))?;
        }
        Ok(())
    }
}
