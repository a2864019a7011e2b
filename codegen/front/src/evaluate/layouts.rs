//! Functions of layouts: the algebra.

use tilewright_layout::{Composed, Layout, Swizzle};

use super::Evaluator;
use super::args::Args;
use super::value::Value;
use crate::source::problem::Problem;

impl Evaluator {
    /// `padded((BM, BK), 1)`
    pub(super) fn padded_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let shape = args.shape(0)?;
        Ok(self.relayout(args.call, Layout::padded(shape, args.integer(1)?)))
    }

    /// `row_major((BM, BK))`
    pub(super) fn row_major_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let shape = args.shape(0)?;
        Ok(self.relayout(args.call, Layout::row_major(shape)))
    }

    /// `swizzled(3, 2, 3, layout!((32, 8)))`
    pub(super) fn swizzled_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let small = |n: usize| u32::try_from(args.integer(n)?).map_err(|_| args.needs(n, "a small integer"));
        let shift = i32::try_from(args.integer(2)?).map_err(|_| args.needs(2, "a small integer"))?;
        let (bits, base) = (small(0)?, small(1)?);
        let swizzle = Swizzle::new(bits, base, shift).map_err(|error| {
            Problem::from(error).help(
                "write swizzled(3, 2, 3, layout): 2^3 groups of 2^2 elements change places, by bits that are 3 above theirs; or leave the layout out, and one without bank conflicts is derived: shared::<f32>((32, 32))",
            )
        })?;
        Ok(Value::Layout(Composed::new(swizzle, 0, args.layout(3)?)))
    }

    /// `composition(layout, tiler)`
    pub(super) fn composition_call(&mut self, args: &Args) -> Result<Value, Problem> {
        Ok(self.relayout(args.call, args.layout(0)?.composition(args.tiler(1)?)))
    }

    /// `logical_divide(layout, tiler)`
    pub(super) fn logical_divide_call(&mut self, args: &Args) -> Result<Value, Problem> {
        Ok(self.relayout(args.call, args.layout(0)?.logical_divide(args.tiler(1)?)))
    }

    /// `zipped_divide(layout, tiler)`
    pub(super) fn zipped_divide_call(&mut self, args: &Args) -> Result<Value, Problem> {
        Ok(self.relayout(args.call, args.layout(0)?.zipped_divide(args.tiler(1)?)))
    }

    /// `blocked_product(block, copies)`
    pub(super) fn blocked_product_call(&mut self, args: &Args) -> Result<Value, Problem> {
        Ok(self.relayout(args.call, args.layout(0)?.blocked_product(&args.layout(1)?)))
    }

    /// `raked_product(block, copies)`
    pub(super) fn raked_product_call(&mut self, args: &Args) -> Result<Value, Problem> {
        Ok(self.relayout(args.call, args.layout(0)?.raked_product(&args.layout(1)?)))
    }

    /// `coalesce(layout)`
    pub(super) fn coalesce_call(&mut self, args: &Args) -> Result<Value, Problem> {
        Ok(self.relayout(args.call, Ok(args.layout(0)?.coalesce())))
    }
}
