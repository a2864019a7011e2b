//! Warps that share K: each multiplies a part of every k-tile, and their sums are added in shared memory.

use crate::thread::atom::OperandName;
use tilewright_layout::Layout;

use super::{Fill, TiledMma};
use crate::build::Builder;
use crate::source::problem::{Problem, Result};
use crate::tile::Expr;
use crate::tile::view::{At, View, position};
use crate::values::affine::{Affine, Coord};
use crate::values::condition::Test;
use crate::values::operation::Bin;
use crate::values::target::WARP;

/// Padding of rows of sums, in elements: the rows that half a warp stores are in different banks.
pub(crate) const PAD: i64 = 8;

/// The sums of warps that share K, in shared memory.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// The sums of parts of K: (M, N, parts at once).
    parts: View,
    /// How many parts it has room for.
    at_once: i64,
    /// How the sums of all are partitioned over threads.
    pub fill: Fill,
}

impl TiledMma {
    /// `parts` times the warps, which share K: each sums a part of K, and [`Builder::gathered`] adds the sums.
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

    /// Bytes of shared memory for the sums of one part of K.
    pub(crate) fn gathered_bytes(&self, [rows, columns]: [i64; 2]) -> i64 {
        let elem = self.row.operand(OperandName::D).map_or(0, |d| i64::from(d.elem.bytes()));
        rows * (columns + PAD) * elem
    }

    /// How many parts of K warps share.
    pub fn parts_of_k(&self) -> Result<i64> {
        Ok(self.groups.mode(2)?.size()?)
    }
}

impl Builder {
    /// Shared memory for the sums of warps that share K, of some parts at once. It overlays shared tensors that the kernel no
    /// longer uses.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, tiled::TiledMma};
    /// # let mut b = Builder::new("example");
    /// let mma = TiledMma::best(Elem::Bf16, Elem::F32, 80, [32, 16], 1)?.over_k(4)?;
    /// let acc = b.accumulators("acc", &mma, [32, 16])?;
    /// // … the product …
    /// let gathered = b.gathering("parts", &mma, [32, 16], 4, &[])?;
    /// let sums = b.gathered(&mma, &acc, &gathered)?;
    /// assert_eq!(sums.shape().to_string(), "(4,1)"); // of 512 elements, four for each thread
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn gathering(
        &mut self,
        name: &str,
        mma: &TiledMma,
        tile: [i64; 2],
        at_once: i64,
        over: &[&View],
    ) -> Result<Gathered> {
        let [rows, columns] = tile;
        let (wide, parts) = (columns + PAD, mma.parts_of_k()?);
        if at_once < 1 || parts % at_once != 0 {
            let problem = Problem::new(format!("{at_once} at once do not divide {parts} parts of K"));
            return Err(problem.help(format!("write {parts}, or a divisor of it")));
        }
        let layout = Layout::new((rows, columns, at_once), (wide, 1i64, rows * wide))?;
        let elem = mma
            .row
            .operand(OperandName::D)
            .map(|d| d.elem)
            .ok_or_else(|| Problem::new("a product has sums"))?;
        let parts = self.shared_after(name, elem, layout, over)?;
        let fill = Fill { of: mma.of, ..Fill::of(tile, 1, mma.threads()?, 1)? };
        Ok(Gathered { parts, at_once, fill })
    }

    /// The sums of all parts of K, partitioned over the threads of all warps. If only some parts fit in shared memory at once,
    /// they use it one after another.
    pub fn gathered(&mut self, mma: &TiledMma, acc: &View, to: &Gathered) -> Result<View> {
        let (parts, at_once) = (mma.parts_of_k()?, to.at_once);
        let warp = Affine::from(Coord::Thread(mma.of)).submode(i64::from(WARP), None);
        let part = position(&mma.groups.mode(2)?, &warp)?;
        let (of_round, order) = (part.submode(at_once, None), part.submode(1, Some(at_once)));
        let own = self.part_of_k(&to.parts, if at_once == parts { part } else { order })?;
        let own = self.partition_accumulators(mma, &own)?.with_name("own");
        let mut sums = None;
        for round in 0..parts / at_once {
            // The sums of the previous tile, or of the previous parts, must have been read.
            self.sync();
            match at_once == parts {
                true => self.copy(acc, &own)?,
                false => {
                    let test = Test::Equal(of_round.clone(), round.into());
                    self.branch(test, |b| b.copy(acc, &own), |_| Ok(()))?;
                }
            }
            self.sync();
            sums = Some(self.added(to, sums)?);
        }
        sums.ok_or_else(|| Problem::new("there are no sums"))
    }

    /// The sums of the parts in shared memory, added to others if there are any.
    fn added(&mut self, to: &Gathered, sums: Option<View>) -> Result<View> {
        let (sums, first) = match sums {
            Some(sums) => (sums, 0),
            None => {
                let first = self.part_of_k(&to.parts, 0.into())?;
                let first = self.gathered_part(to, &first)?;
                let sums = self.registers("sums", self.elem(&to.parts), first.shape())?;
                self.copy(&first, &sums)?;
                (sums, 1)
            }
        };
        for part in first..to.at_once {
            let part = self.part_of_k(&to.parts, part.into())?;
            let part = self.gathered_part(to, &part)?;
            let sum = Expr::Bin(Bin::Add, Box::new(Expr::In(0)), Box::new(Expr::In(1)));
            self.map(&[sums.clone(), part], &sums, sum)?;
        }
        Ok(sums)
    }

    /// The part of a thread of a tile of (M, N), in the order of [`Builder::gathered`].
    pub fn gathered_part(&mut self, to: &Gathered, view: &View) -> Result<View> {
        let part = self.parallelize_over(view, &to.fill.threads, to.fill.of, &to.fill.partition)?;
        Ok(part.with_name(&format!("t_{}", view.name)))
    }

    fn part_of_k(&mut self, parts: &View, at: Affine) -> Result<View> {
        self.slice(parts, &[At::All, At::All, At::Index(at)])
    }
}
