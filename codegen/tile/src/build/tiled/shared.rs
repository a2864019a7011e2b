//! Synthesis of a shared tile's layout from its accesses: free of bank conflicts at full vector width.

use crate::isa::atom::OperandName;
use tilewright_layout::{Composed, Layout, SharedTile, Transfer};

use super::operand::{Matrices, run_first, within};
use super::{Fill, TiledMma};
use crate::source::problem::{Problem, Result};
use crate::values::elem::Elem;

/// A tile of two modes in shared memory, and everything that reads or writes it.
///
/// ```
/// # use tilewright_codegen::atom::OperandName;
/// use tilewright_codegen::{Elem, tiled::{Fill, SharedUses, TiledMma}};
/// // 128 rows of 64 halves, copied in 16 bytes and read by ldmatrix
/// let mma = TiledMma::best(Elem::F16, Elem::F32, 80, [128, 128], 4)?;
/// let uses = SharedUses::new(Elem::F16, [128, 64], 1)?.filled(&Fill::of([128, 64], 1, 128, 8)?)?;
/// assert_eq!(uses.multiplied(&mma, OperandName::A)?.layout()?.to_string(), "Sw<3,3,3> o 0 o (128,64):(64,1)");
/// # Ok::<(), tilewright_codegen::problem::Problem>(())
/// ```
#[derive(Clone, Debug)]
pub struct SharedUses {
    elem: Elem,
    pub(super) tile: [i64; 2],
    contiguous: usize,
    uses: SharedTile,
}

impl SharedUses {
    /// A tile that is contiguous along a mode.
    pub fn new(elem: Elem, tile: [i64; 2], contiguous: usize) -> Result<SharedUses> {
        let plain = match contiguous {
            0 => Layout::compact((tile[0], tile[1]))?,
            _ => Layout::row_major((tile[0], tile[1]))?,
        };
        Ok(SharedUses { elem, tile, contiguous, uses: SharedTile::new(&plain, elem.bytes().into())? })
    }

    /// Adds a copy that writes the whole tile.
    pub fn filled(self, fill: &Fill) -> Result<SharedUses> {
        self.copied(fill, Transfer::Store)
    }

    /// Adds a copy that reads the whole tile.
    pub fn read(self, fill: &Fill) -> Result<SharedUses> {
        self.copied(fill, Transfer::Load)
    }

    /// Adds a copy of the whole tile.
    fn copied(self, fill: &Fill, transfer: Transfer) -> Result<SharedUses> {
        let tv = fill.tv(self.tile[0])?;
        let vector = fill.partition.values[self.contiguous];
        // A partial iteration is left out.
        match inside(&tv, self.tile) {
            true => self.used(&tv, vector, transfer),
            false => Ok(self),
        }
    }

    /// Adds the fragment loads of an operand (`a` or `b`).
    pub fn multiplied(self, mma: &TiledMma, operand: OperandName) -> Result<SharedUses> {
        self.multiplied_as(mma, operand, [0, 1])
    }

    /// Fragments of an operand are read from it, whose modes are these of the tile: (1, 0) reads it transposed.
    pub fn multiplied_as(
        self,
        mma: &TiledMma,
        operand: OperandName,
        order: [usize; 2],
    ) -> Result<SharedUses> {
        let [rows, k] = order.map(|mode| self.tile[mode]);
        let along = usize::from(order[1] == self.contiguous);
        let (tile, modes) = mma.tile_of(operand);
        let groups = mma.groups.mode(modes[0])?.size()?;
        let count = rows / groups / tile[0];
        if count == 0 || k % tile[1] != 0 {
            return Err(Problem::new(format!(
                "a tile of {rows}x{k} holds no fragments of {}x{} for each of {groups} warps",
                tile[0], tile[1]
            )));
        }
        // Indices in the operand's tile are indices in this one.
        let steps = order.map(|mode| if mode == 0 { 1 } else { self.tile[0] });
        let own = Layout::new((rows, k), (steps[0], steps[1]))?;
        // All k-steps of the first fragments: in other fragments, rows move by whole fragments.
        let steps = Layout::new(k / tile[1], tile[1] * rows)?;
        let all = |tv: Layout| -> Result<Layout> {
            let values = Layout::from_modes([tv.mode(1)?, steps.clone()])?;
            Ok(own.composition(Layout::from_modes([tv.mode(0)?, values])?)?)
        };
        if let Some(matrices) = Matrices::of(mma, operand, self.elem, along, count)? {
            let tv = within(&matrices.rows, matrices.tile, rows)?;
            let vector = tv.mode(1)?.size()?;
            return self.used(&all(tv)?, vector, Transfer::Matrix);
        }
        let step = if along == 0 { 1 } else { rows };
        let (tv, vector) = run_first(&within(&mma.tv(operand)?, tile, rows)?, step)?;
        self.used(&all(tv)?, vector, Transfer::Load)
    }

    /// Adds an access by a thread-value layout over the tile, with `vector` elements at once.
    pub fn used(self, tv: &Layout, vector: i64, transfer: Transfer) -> Result<SharedUses> {
        let uses = self.uses.access(tv, vector, transfer)?;
        Ok(SharedUses { uses, ..self })
    }

    /// The layout without bank conflicts, or if there is none, the layout with the fewest.
    pub fn layout(&self) -> Result<Composed> {
        Ok(self.uses.best())
    }
}

/// Is every element of a thread-value layout in the tile?
fn inside(tv: &Layout, tile: [i64; 2]) -> bool {
    let most = tv.cosize().unwrap_or(i64::MAX);
    most <= tile[0] * tile[1]
}
