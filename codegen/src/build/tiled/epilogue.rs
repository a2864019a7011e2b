//! The epilogue through shared memory: fragments have few contiguous elements, so accumulators are reordered
//! in a shared tile, and global memory is written in full vectors.

use crate::thread::atom::OperandName;
use tilewright_layout::{Layout, Transfer};

use super::operand::{run_first, within};
use super::{Fill, SharedUses, TiledMma};
use crate::build::Builder;
use crate::source::problem::Result;
use crate::tile::view::View;
use crate::values::elem::Elem;

/// A tile of the result in shared memory.
#[derive(Clone, Debug)]
pub struct EpilogueTile {
    /// The whole tile.
    pub tile: View,
    /// The elements whose accumulators a thread has.
    pub mine: View,
    /// How copies between it and global memory are partitioned.
    pub fill: Fill,
}

impl Builder {
    /// A shared tile for the accumulators of a product, contiguous along N. It overlays shared tensors that
    /// the kernel no longer uses. Copies to global memory move `vector` elements at once.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, tiled::TiledMma, view::At};
    /// # use tilewright_layout::{Tuple, Value, layout};
    /// # let mut b = Builder::new("example");
    /// # let (m, n) = (Value::symbol("M"), Value::symbol("N"));
    /// # let rows = Tuple::of([Value::symbol("ldc").into(), Tuple::from(1)]);
    /// # let c = b.tensor("c", Elem::Bf16, (m, n), Some(rows), true)?;
    /// # let gc = b.tile(&c, (64, 64), &[At::Index(Coord::Block(0).into()), At::Index(Coord::Block(1).into())])?;
    /// let mma = TiledMma::best(Elem::Bf16, Elem::F32, 80, [64, 64], 4)?;
    /// let acc = b.accumulators("acc", &mma, [64, 64])?;
    /// let sa = b.shared("sa", Elem::Bf16, layout!((64, 64)))?;
    /// // … the product, which reads `sa` …
    /// let epilogue = b.epilogue_tile("sc", &mma, Elem::Bf16, [64, 64], 8, &[&sa])?;
    /// b.copy(&acc, &epilogue.mine)?;
    /// b.sync();
    /// b.fill_tile(&epilogue.fill, &epilogue.tile, &gc)?; // 16 bytes for each thread
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn epilogue_tile(
        &mut self,
        name: &str,
        mma: &TiledMma,
        elem: Elem,
        tile: [i64; 2],
        vector: i64,
        over: &[&View],
    ) -> Result<EpilogueTile> {
        let fill = Fill { of: mma.of, ..Fill::of(tile, 1, mma.threads()?, vector)? };
        let layout = SharedUses::new(elem, tile, 1)?.summed(mma)?.read(&fill)?.layout()?;
        let tile = self.shared_after(name, elem, layout, over)?;
        let mine = self.partition_accumulators(mma, &tile)?;
        Ok(EpilogueTile { tile, mine, fill })
    }
}

impl SharedUses {
    /// Adds the stores of accumulator fragments.
    fn summed(self, mma: &TiledMma) -> Result<SharedUses> {
        let ([rows, columns], tile) = (self.tile, mma.tile_of(OperandName::D).0);
        let along = columns / mma.groups.mode(1)?.size()? / tile[1];
        let (tv, vector) = run_first(&within(&mma.tv(OperandName::D)?, tile, rows)?, rows)?;
        let values = Layout::from_modes([tv.mode(1)?, Layout::new(along.max(1), tile[1] * rows)?])?;
        self.used(&Layout::from_modes([tv.mode(0)?, values])?, vector, Transfer::Store)
    }
}
