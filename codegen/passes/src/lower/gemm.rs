//! Matrix products: the row of the instruction table decides which threads multiply which elements.

mod matrix;
mod scalar;

use super::Lower;
use crate::source::problem::Result;
use crate::tile::{Multiply, Order, ProductViews};
use crate::values::id::Id;

impl Lower<'_> {
    /// A product by a row of the table: elements of one thread in this order, or tiles of a warp or warpgroup, whose
    /// products may remain in flight.
    pub(super) fn gemm(
        &mut self,
        how: Multiply,
        views: ProductViews<'_>,
        order: Order,
        token: Option<Id>,
    ) -> Result<()> {
        let row = how.row(self.program.tensor(views.acc.tensor).elem)?;
        match row.is_scalar() {
            true => self.by_elements(row, views, order),
            false => self.by_instruction(row, views, token),
        }
    }
}
