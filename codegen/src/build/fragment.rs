//! Partitions by atoms: the elements of a tile that a thread has for a row of the atom table, and fragments
//! for them.

use tilewright_layout::{Layout, Tuple};

use crate::build::Builder;
use crate::source::problem::{Problem, Result};
use crate::thread::atom::{Atom, Effect, OperandName};
use crate::tile::view::View;
use crate::values::affine::{Affine, Coord};
use crate::values::elem::Elem;
use crate::values::id::Id;

/// Groups of threads that execute one instruction each, arranged over (M, N, K): the atom layout of a tiled
/// MMA.
#[derive(Clone, Debug)]
pub struct Arrangement {
    /// From a coordinate in (M, N, K) to the index of the group: three modes.
    pub groups: Layout,
    /// The group of threads.
    pub of: Id,
}

/// Extents of an operand's tile, and the modes of (M, N, K) along which they are.
fn tile_of(row: &Atom, operand: OperandName) -> Result<([i64; 2], [usize; 2])> {
    let Effect::Mma { m, n, k, .. } = row.effect else {
        return Err(Problem::new(format!("`{}` is not a matrix product", row.name)));
    };
    let (m, n, k) = (i64::from(m), i64::from(n), i64::from(k));
    match operand {
        OperandName::A => Ok(([m, k], [0, 2])),
        OperandName::B => Ok(([n, k], [1, 2])),
        OperandName::D => Ok(([m, n], [0, 1])),
        _ => Err(Problem::new(format!("`{}` has no matrix operand `{operand}`", row.name))),
    }
}

impl Builder {
    /// The part of a thread of a tile for an operand (`a`, `b` or `d`) of a matrix product: `((values), rest,
    /// rest)`.
    ///
    /// ```
    /// # use tilewright_codegen::atom::OperandName;
    /// # use tilewright_codegen::{Elem, atoms, build::Builder, fragment::Arrangement, tile::How};
    /// # use tilewright_layout::layout;
    /// # let mut b = Builder::new("example");
    /// # let (sa, sc) = (b.shared("sa", Elem::F16, layout!((64, 32) : (32, 1)))?, b.shared("sc", Elem::F32, layout!((64, 16)))?);
    /// let row = atoms::find("mma_m16n8k16_f16").unwrap();
    /// // the tile is partitioned over two by two warps
    /// let by_warp = Arrangement { groups: layout!((2, 2, 1)), of: 0 };
    /// let out = b.partition_mma(&sc, row, OperandName::D, &by_warp)?;
    /// assert_eq!(out.shape().to_string(), "((2,2),2,1)"); // four elements of each of two products
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn partition_mma(
        &mut self,
        view: &View,
        row: &'static Atom,
        operand: OperandName,
        by: &Arrangement,
    ) -> Result<View> {
        let tv = row.tv(operand).ok_or_else(|| no_fragment(row, operand))?;
        let (tile, modes) = tile_of(row, operand)?;
        let lanes =
            row.tv(OperandName::D).ok_or_else(|| no_fragment(row, OperandName::D))?.mode(0)?.size()?;
        let thread: Affine = Coord::Thread(by.of).into();
        let groups = by.groups.size()?;
        self.occupy(by.of, lanes * groups, view)?;
        let lane = thread.submode(1, Some(lanes));
        let group = thread.submode(lanes, None);
        let groups: Vec<(Layout, Affine)> =
            modes.iter().map(|&mode| Ok((by.groups.mode(mode)?, group.clone()))).collect::<Result<_>>()?;
        view.partition(&tile, &tv, &lane, &groups)
    }

    /// Registers of the shape of a partition, packed in words where the elements are narrow.
    ///
    /// ```
    /// # use tilewright_codegen::atom::OperandName;
    /// # use tilewright_codegen::{Elem, atoms, build::Builder, fragment::Arrangement, tile::How};
    /// # use tilewright_layout::layout;
    /// # let mut b = Builder::new("example");
    /// # let (sa, sc) = (b.shared("sa", Elem::F16, layout!((64, 32) : (32, 1)))?, b.shared("sc", Elem::F32, layout!((64, 16)))?);
    /// let row = atoms::find("mma_m16n8k16_f16").unwrap();
    /// let by_warp = Arrangement { groups: layout!((2, 2, 1)), of: 0 };
    /// let part = b.partition_mma(&sa, row, OperandName::A, &by_warp)?;
    /// assert_eq!(b.fragment("fa", Elem::F16, &part)?.shape().to_string(), "(8,2,2)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn fragment(&mut self, name: &str, elem: Elem, partition: &View) -> Result<View> {
        let flat: Option<Vec<i64>> = partition.extents();
        let flat = flat.ok_or_else(|| Problem::new("a fragment needs a partition of known size"))?;
        self.registers_in(name, elem, Tuple::flat(&flat), elem.bytes() < 4)
    }

    /// Registers for an operand (`a`, `b` or `d`) of a matrix product over a tile that is not in memory:
    /// accumulators, or values computed from them.
    ///
    /// ```
    /// # use tilewright_codegen::atom::OperandName;
    /// # use tilewright_codegen::{Elem, atoms, build::Builder, fragment::Arrangement};
    /// # use tilewright_layout::layout;
    /// # let mut b = Builder::new("example");
    /// let row = atoms::find("wgmma_m64n128k16_ra_bf16").unwrap();
    /// let by_warpgroup = Arrangement { groups: layout!((2, 1, 1)), of: 0 };
    /// let scores = b.operand("scores", row, OperandName::D, [128, 128], &by_warpgroup)?;
    /// let weights = b.operand("weights", row, OperandName::A, [128, 128], &by_warpgroup)?;
    /// assert_eq!(scores.shape().to_string(), "(64,1,1)");
    /// assert_eq!(weights.shape().to_string(), "(8,1,8)"); // eight values for each 16 along K
    /// assert_eq!(b.elem(&weights), Elem::Bf16);
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn operand(
        &mut self,
        name: &str,
        row: &'static Atom,
        operand: OperandName,
        tile: [i64; 2],
        by: &Arrangement,
    ) -> Result<View> {
        let elem = row.operand(operand).ok_or_else(|| no_fragment(row, operand))?.elem;
        let tile = View::whole(Id::MAX, name, &Tuple::flat(&tile))?;
        let part = self.partition_mma(&tile, row, operand, by)?;
        self.fragment(name, elem, &part)
    }

    /// Bytes of a view's elements: the size of a bulk copy.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, atoms, build::Builder, fragment::Arrangement, tile::How};
    /// # use tilewright_layout::layout;
    /// # let mut b = Builder::new("example");
    /// # let (sa, sc) = (b.shared("sa", Elem::F16, layout!((64, 32) : (32, 1)))?, b.shared("sc", Elem::F32, layout!((64, 16)))?);
    /// let row = atoms::find("mma_m16n8k16_f16").unwrap();
    /// assert_eq!(b.bytes(&sa)?, 64 * 32 * 2);
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn bytes(&self, view: &View) -> Result<u32> {
        let bytes = view.layout.size()? * i64::from(self.elem(view).bytes());
        u32::try_from(bytes).map_err(|_| Problem::new(format!("`{}` is too large for one copy", view.name)))
    }
}

fn no_fragment(row: &Atom, operand: OperandName) -> Problem {
    Problem::new(format!("operand `{operand}` of `{}` is not spread over threads", row.name))
}
