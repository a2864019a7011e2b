//! Products with narrow weights. The weights are the left operand: consumers convert them in registers, and wgmma
//! reads them there. While one warpgroup loads and converts, the other multiplies.

use crate::thread::atom::OperandName;
use tilewright_layout::layout;

use super::{Part, Scales};
use crate::build::Builder;
use crate::build::fragment::Arrangement;
use crate::build::tiled::Scaling;
use crate::front::matmul::bulk::last;
use crate::source::problem::Result;
use crate::thread::atoms;
use crate::thread::{Id, Unroll};
use crate::tile::view::{At, View};
use crate::tile::{Expr, How, Order};

impl Part<'_> {
    /// The consumers' main loop of a tile.
    pub(super) fn multiply_converted(
        &self,
        b: &mut Builder,
        acc: &View,
        [left, right]: [&View; 2],
        product: Id,
    ) -> Result<()> {
        let (rows, share) = (self.sizes.rows(), self.share(b));
        b.repeat("k", self.steps, Unroll::No, |b, _| -> Result<()> {
            b.await_slot(self.ring);
            let slot = b.slot(self.ring);
            let (left, right) = (last(b, left, &slot)?, last(b, right, &slot)?);
            let left = b.within(self.warpgroups, |b| -> Result<View> {
                let place = [At::Index(share.clone()), At::Index(0.into())];
                let left = b.tile(&left, (rows, self.sizes.k_of_left(self.c)), &place)?.with_name("rows");
                let wide = self.converted(b, &left)?;
                let mut of_elements = Vec::new();
                for Scales { from, to, of } in &self.scales {
                    let tile = last(b, to, &slot)?;
                    let tile = b.tile(&tile, (rows, of.count()), &place)?;
                    let tile = of.of_elements(b, &tile)?;
                    let part = b.partition_mma(&tile, self.multiply, OperandName::A, &self.alone())?;
                    of_elements.push(part.with_name(from.names[1]));
                }
                if let [scales, zeros @ ..] = &of_elements[..] {
                    b.scale(&wide, Scaling { scales, zeros: zeros.first() })?;
                }
                Ok(wide)
            })?;
            b.gemm_how(&left, &right, acc, How::Atom(self.multiply), Order::Plain, Some(product))?;
            b.wait(product);
            b.release(self.ring);
            b.advance(self.ring);
            Ok(())
        })
    }

    /// A warpgroup by itself.
    fn alone(&self) -> Arrangement {
        Arrangement { groups: layout!((1, 1, 1)), of: self.warpgroups }
    }

    /// The fragments of a tile of weights as wgmma takes them.
    fn converted(&self, b: &mut Builder, left: &View) -> Result<View> {
        let (elem, [_, _, bk]) = (self.c.dtype, self.sizes.tile);
        let alone = self.alone();
        let tile = [self.sizes.rows(), bk];
        let wide = b.operand("wide", self.multiply, OperandName::A, tile, &alone)?;
        let part = match self.c.packed {
            None => b.partition_mma(left, self.multiply, OperandName::A, &alone)?,
            Some(_) => b.partition_pairs(left, self.multiply, OperandName::A, &alone)?,
        };
        let narrow = b.fragment("narrow", self.c.b_dtype, &part)?;
        b.copy(&part, &narrow)?;
        match self.c.packed.and_then(|of| atoms::unpack(of, elem)) {
            Some(row) => b.copy_how(&narrow, &wide, How::Atom(row), None)?,
            None => b.map(&[narrow], &wide, Expr::In(0).cast(elem))?,
        }
        Ok(wide)
    }
}
