//! Products with narrow weights: those are the left operand, and consumers convert them in registers, from which wgmma
//! reads. While one warpgroup loads and converts, the other multiplies.

use tilewright_layout::layout;

use super::Part;
use crate::build::Builder;
use crate::fragment::Arrangement;
use crate::matmul::bulk::last;
use crate::problem::Result;
use crate::thread::{Id, Unroll};
use crate::tile::{Expr, How, Order};
use crate::view::{At, View};

impl Part<'_> {
    /// The consumers' main loop of a tile.
    pub(super) fn multiply_converted(
        &self,
        b: &mut Builder,
        acc: &View,
        [left, right]: [&View; 2],
        product: Id,
    ) -> Result<()> {
        let (bk, rows, share) = (self.sizes.tile[2], self.sizes.rows(), self.share(b));
        b.repeat("k", self.steps, Unroll::No, |b, _| -> Result<()> {
            b.await_slot(self.ring);
            let slot = b.slot(self.ring);
            let (left, right) = (last(b, left, &slot)?, last(b, right, &slot)?);
            let left = b.within(self.warpgroups, |b| -> Result<View> {
                let place = [At::Index(share.clone()), At::Index(0.into())];
                let left = b.tile(&left, (rows, bk), &place)?.with_name("rows");
                let alone = Arrangement { groups: layout!((1, 1, 1)), of: self.warpgroups };
                let part = b.partition_mma(&left, self.multiply, 'a', &alone)?;
                let narrow = b.registers_in("narrow", self.c.b_dtype, part.shape(), true)?;
                let wide = b.registers_in("wide", self.c.dtype, part.shape(), true)?;
                b.copy(&part, &narrow)?;
                b.map(&[narrow], &wide, Expr::In(0).cast(self.c.dtype))?;
                Ok(wide)
            })?;
            b.gemm_how(&left, &right, acc, How::Atom(self.multiply.name), Order::Plain, Some(product))?;
            b.wait(product);
            b.release(self.ring);
            b.advance(self.ring);
            Ok(())
        })
    }
}
