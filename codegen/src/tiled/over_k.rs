//! Warps that share K: each multiplies a part of every k-tile, and their sums are added in shared memory.

use tilewright_layout::Layout;

use super::{Fill, TiledMma};
use crate::affine::{Affine, Coord};
use crate::build::Builder;
use crate::operation::Bin;
use crate::problem::{Problem, Result};
use crate::target::WARP;
use crate::tile::Expr;
use crate::view::{At, View, position};

/// Padding of rows of sums, in elements: the rows that half a warp stores lie in different banks.
const PAD: i64 = 8;

/// The sums of warps that share K, in shared memory.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// The sums of each part of K: (M, N, parts).
    parts: View,
    /// How the sums of all are partitioned over threads.
    pub fill: Fill,
}

impl TiledMma {
    /// So many times the warps, which share K: each has sums of a part of it, which [`Builder::gathered`] adds.
    ///
    /// ```
    /// use tilewright_codegen::{Elem, tiled::TiledMma};
    /// let mma = TiledMma::best(Elem::Bf16, Elem::F32, 80, [32, 16], 1)?.over_k(8)?;
    /// assert_eq!((mma.groups.to_string(), mma.threads()?), ("(1,1,8):(1,1,1)".into(), 256));
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn over_k(self, parts: i64) -> Result<TiledMma> {
        let own = Layout::from_modes([self.groups.mode(0)?, self.groups.mode(1)?])?;
        let groups = Layout::from_modes(own.modes().chain([Layout::new(parts, own.size()?)?]))?;
        Ok(TiledMma { groups, ..self })
    }

    /// Bytes of shared memory for the sums of all parts of K.
    pub(crate) fn gathered_bytes(&self, [rows, columns]: [i64; 2]) -> Result<i64> {
        let elem = self.row.operand('d').map_or(0, |d| i64::from(d.elem.bytes()));
        Ok(rows * (columns + PAD) * self.parts_of_k()? * elem)
    }

    /// How many parts of K warps share.
    pub fn parts_of_k(&self) -> Result<i64> {
        Ok(self.groups.mode(2)?.size()?)
    }
}

impl Builder {
    /// Shared memory for the sums of warps that share K. It overlays shared tensors that the kernel no longer uses.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, tiled::TiledMma};
    /// # let mut b = Builder::new("example");
    /// let mma = TiledMma::best(Elem::Bf16, Elem::F32, 80, [32, 16], 1)?.over_k(4)?;
    /// let acc = b.accumulators("acc", &mma, [32, 16])?;
    /// // … the product …
    /// let gathered = b.gathering("parts", &mma, [32, 16], &[])?;
    /// let sums = b.gathered(&mma, &acc, &gathered)?;
    /// assert_eq!(sums.shape().to_string(), "(4,1)"); // of 512 elements, four for each thread
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn gathering(
        &mut self,
        name: &str,
        mma: &TiledMma,
        tile: [i64; 2],
        over: &[&View],
    ) -> Result<Gathered> {
        let [rows, columns] = tile;
        let wide = columns + PAD;
        let layout = Layout::new((rows, columns, mma.parts_of_k()?), (wide, 1i64, rows * wide))?;
        let elem = mma.row.operand('d').map(|d| d.elem).ok_or_else(|| Problem::new("a product has sums"))?;
        let parts = self.shared_after(name, elem, layout, over)?;
        let fill = Fill { of: mma.of, ..Fill::of(tile, 1, mma.threads()?, 1)? };
        Ok(Gathered { parts, fill })
    }

    /// The sums of all parts of K, partitioned over the threads of all warps.
    pub fn gathered(&mut self, mma: &TiledMma, acc: &View, to: &Gathered) -> Result<View> {
        let warp = Affine::from(Coord::Thread(mma.of)).digit(i64::from(WARP), None);
        let own = self.part_of_k(&to.parts, position(&mma.groups.mode(2)?, &warp)?)?;
        let own = self.partition_accumulators(mma, &own)?.with_name("own");
        // The sums of a tile before must have been read.
        self.sync();
        self.copy(acc, &own)?;
        self.sync();
        let first = self.part_of_k(&to.parts, 0.into())?;
        let first = self.gathered_part(to, &first)?;
        let sums = self.registers("sums", self.elem(acc), first.shape())?;
        self.copy(&first, &sums)?;
        for part in 1..mma.parts_of_k()? {
            let part = self.part_of_k(&to.parts, part.into())?;
            let part = self.gathered_part(to, &part)?;
            let sum = Expr::Bin(Bin::Add, Box::new(Expr::In(0)), Box::new(Expr::In(1)));
            self.map(&[sums.clone(), part], &sums, sum)?;
        }
        Ok(sums)
    }

    /// The part of a thread of a tile of (M, N), in the order of [`Builder::gathered`].
    pub fn gathered_part(&mut self, to: &Gathered, view: &View) -> Result<View> {
        let part = self.parallelize_over(view, &to.fill.threads, to.fill.of, &to.fill.deal)?;
        Ok(part.with_name(&format!("t_{}", view.name)))
    }

    fn part_of_k(&mut self, parts: &View, at: Affine) -> Result<View> {
        self.slice(parts, &[At::All, At::All, At::Index(at)])
    }
}
