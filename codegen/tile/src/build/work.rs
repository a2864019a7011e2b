//! Statements on elements: copies, atomic updates, elementwise functions.

use super::Builder;
use crate::source::problem::{Problem, Result, count};
use crate::thread::{Change, Id};
use crate::tile::verify::written_whole;
use crate::tile::view::View;
use crate::tile::whole::is_cooperative;
use crate::tile::{Expr, How, Op, Space, Update};
use crate::values::affine::Affine;
use crate::values::elem::Elem;
use crate::values::number::Number;
use crate::values::typing::Types;

pub use crate::tile::boxes::BOX_ALIGN;

impl Builder {
    /// Copies elements between views of the same shape.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, tile::*, thread::{Bin, Un, Unroll}, view::{At, Partition, View}};
    /// # use tilewright_layout::{Layout, Value, layout};
    /// # let mut b = Builder::new("example");
    /// # let n = Value::symbol("N");
    /// # let (x, y) = (b.tensor("x", Elem::F32, (n,), None, false)?, b.tensor("y", Elem::F32, (n,), None, true)?);
    /// # let block = [At::Index(Coord::Block(0).into())];
    /// # let (x, y) = (b.tile(&x, (1024,), &block)?, b.tile(&y, (1024,), &block)?);
    /// # let threads = layout!(256 : 1);
    /// # let (tx, ty) = (b.parallelize(&x, &threads)?, b.parallelize(&y, &threads)?);
    /// b.copy(&tx, &ty)?; // each thread copies its part
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn copy(&mut self, from: &View, to: &View) -> Result<()> {
        self.copy_how(from, to, How::Derive, None)
    }

    /// A copy by a chosen mechanism, optionally asynchronous.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, tile::*, thread::{Bin, Un, Unroll}, view::{At, Partition, View}};
    /// # use tilewright_layout::{Layout, Value, layout};
    /// # let mut b = Builder::new("example");
    /// # let n = Value::symbol("N");
    /// # let (x, y) = (b.tensor("x", Elem::F32, (n,), None, false)?, b.tensor("y", Elem::F32, (n,), None, true)?);
    /// # let block = [At::Index(Coord::Block(0).into())];
    /// # let (x, y) = (b.tile(&x, (1024,), &block)?, b.tile(&y, (1024,), &block)?);
    /// # let threads = layout!(256 : 1);
    /// # let (tx, ty) = (b.parallelize(&x, &threads)?, b.parallelize(&y, &threads)?);
    /// let s = b.shared("s", Elem::F32, layout!(1024 : 1))?;
    /// let ts = b.parallelize(&s, &threads)?;
    /// b.copy_how(&tx, &ts, How::Plain, None)?; // through registers, done at once
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn copy_how(&mut self, from: &View, to: &View, how: How, token: Option<Id>) -> Result<()> {
        self.copy_with(from, to, how, 0.0.into(), token)
    }

    /// A copy that fills elements whose source is out of bounds with a given number, instead of 0.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, tile::*, thread::{Bin, Un, Unroll}, view::{At, Partition, View}};
    /// # use tilewright_layout::{Layout, Value, layout};
    /// # let mut b = Builder::new("example");
    /// # let n = Value::symbol("N");
    /// # let (x, y) = (b.tensor("x", Elem::F32, (n,), None, false)?, b.tensor("y", Elem::F32, (n,), None, true)?);
    /// # let block = [At::Index(Coord::Block(0).into())];
    /// # let (x, y) = (b.tile(&x, (1024,), &block)?, b.tile(&y, (1024,), &block)?);
    /// # let threads = layout!(256 : 1);
    /// # let (tx, ty) = (b.parallelize(&x, &threads)?, b.parallelize(&y, &threads)?);
    /// let own = b.registers("own", Elem::F32, tx.shape())?;
    /// b.copy_filled(&tx, &own, f64::NEG_INFINITY)?; // out-of-bounds elements are never the largest
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn copy_filled(&mut self, from: &View, to: &View, fill: impl Into<Number>) -> Result<()> {
        let fill = fill.into();
        fill.check(self.elem(from)).map_err(|problem| problem.arg(2))?;
        self.copy_with(from, to, How::Derive, fill, None)
    }

    fn copy_with(&mut self, from: &View, to: &View, how: How, fill: Number, token: Option<Id>) -> Result<()> {
        self.writable(to, 1)?;
        if !matches!(how, How::Atom(_)) {
            crate::tile::pair::align(from, to)?;
        }
        if matches!(how, How::Atom(row) if row.has_map()) {
            for view in [from, to] {
                if let Space::Shared { align } = &mut self.program.tensors[view.tensor as usize].space {
                    *align = (*align).max(BOX_ALIGN);
                }
            }
        }
        self.write(Op::Copy { from: from.clone(), to: to.clone(), how, fill, token })
    }

    /// Updates each element of `to` by the element of `from`, atomically. Out-of-bounds elements are skipped.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, tile::*, thread::{Change, MemoryOrder}, view::{At, Partition, View}};
    /// # use tilewright_layout::{Layout, Value, layout};
    /// # let mut b = Builder::new("example");
    /// # let n = Value::symbol("N");
    /// # let (x, y) = (b.tensor("x", Elem::I32, (n,), None, false)?, b.tensor("y", Elem::I32, (n,), None, true)?);
    /// # let block = [At::Index(Coord::Block(0).into())];
    /// # let (x, y) = (b.tile(&x, (1024,), &block)?, b.tile(&y, (1024,), &block)?);
    /// # let threads = layout!(256 : 1);
    /// # let (tx, ty) = (b.parallelize(&x, &threads)?, b.parallelize(&y, &threads)?);
    /// let own = b.registers("own", Elem::I32, tx.shape())?;
    /// b.copy(&tx, &own)?;
    /// b.atomic(&own, &ty, Change::Add)?;
    /// // the largest so far, and the old value
    /// let before = b.registers("before", Elem::I32, tx.shape())?;
    /// b.atomic(&own, &ty, Update { old: Some(before), order: MemoryOrder::Both, ..Change::Max.into() })?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn atomic(&mut self, from: &View, to: &View, update: impl Into<Update>) -> Result<()> {
        self.writable(to, 1)?;
        let update = update.into();
        crate::tile::pair::align(from, to)?;
        if matches!(self.space(to), Space::Registers { .. }) {
            let message = format!("`{}` is in registers, which no other thread changes", to.name);
            return Err(Problem::new(message).help("write a map instead").arg(1));
        }
        for view in update.tiles() {
            crate::tile::pair::align(view, to)?;
        }
        self.can_update(to, &update)?;
        self.write(Op::Atomic { from: from.clone(), to: to.clone(), update })
    }

    /// Releases or acquires a flag, one `i32` in global memory, which is 0 at launch. [`Change::Add`] raises it by the
    /// value: all earlier writes of the group are visible to a block that waits for it. [`Change::Await`] waits until it
    /// has reached the value. Blocks that wait for one another must all be resident, as in a persistent kernel.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, thread::Change, view::At};
    /// # use tilewright_layout::Value;
    /// # let mut b = Builder::new("example");
    /// let flags = b.tensor("flags", Elem::I32, (Value::symbol("T"),), None, true)?;
    /// let flag = b.tile(&flags, (1,), &[At::Index(Coord::Block(0).into())])?;
    /// b.flag(&flag, Change::Add, &1.into())?;
    /// b.flag(&flag, Change::Await, &2.into())?; // two groups have come so far
    /// assert_eq!(b.finish().body.len(), 2);
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn flag(&mut self, flag: &View, with: Change, value: &Affine) -> Result<()> {
        self.is_flag(flag)?;
        if value.per_thread() {
            return Err(Problem::new(
                "a group waits for one value of a flag, not for another in each thread",
            ));
        }
        self.push(Op::Flag { flag: flag.clone(), with, value: value.clone() });
        Ok(())
    }

    fn is_flag(&self, flag: &View) -> Result<()> {
        let one = flag.layout.size() == Ok(1) && !flag.per_thread();
        if !one
            || self.elem(flag) != Elem::I32
            || !matches!(self.space(flag), Space::Global { mutable: true })
        {
            return Err(Problem::new(format!(
                "`{}` is not a flag: a flag is one i32 in global memory, which the kernel may write",
                flag.name
            ))
            .help("take one element of a tensor of i32, such as tile(flags, (1), (block.x))")
            .arg(0));
        }
        Ok(())
    }

    /// Integers in global memory, for which threads can wait.
    pub fn is_awaitable(&self, flags: &View) -> Result<()> {
        if Change::Await.changes(self.elem(flags))
            && matches!(self.space(flags), Space::Global { mutable: true })
        {
            return Ok(());
        }
        Err(Problem::new(format!(
            "`{}` cannot be waited for: flags are integers of 4 or 8 bytes in global memory, which the kernel may write",
            flags.name
        ))
        .help("take a tile of a tensor of i32, u32, i64 or u64, which is a &mut argument of the kernel")
        .arg(0))
    }

    /// Sets every element to one value.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, tile::*, thread::{Bin, Un, Unroll}, view::{At, Partition, View}};
    /// # use tilewright_layout::{Layout, Value, layout};
    /// # let mut b = Builder::new("example");
    /// # let n = Value::symbol("N");
    /// # let (x, y) = (b.tensor("x", Elem::F32, (n,), None, false)?, b.tensor("y", Elem::F32, (n,), None, true)?);
    /// # let block = [At::Index(Coord::Block(0).into())];
    /// # let (x, y) = (b.tile(&x, (1024,), &block)?, b.tile(&y, (1024,), &block)?);
    /// # let threads = layout!(256 : 1);
    /// # let (tx, ty) = (b.parallelize(&x, &threads)?, b.parallelize(&y, &threads)?);
    /// let own = b.registers("own", Elem::F32, tx.shape())?;
    /// b.fill(&own, Expr::lit(1.0))?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn fill(&mut self, to: &View, value: Expr) -> Result<()> {
        self.writable(to, 0)?;
        let types = Types { ins: &[], scalars: &self.program.scalars };
        types.typed(&value, self.elem(to)).map_err(|problem| problem.arg(1))?;
        self.write(Op::fill(to.clone(), value))
    }

    /// An elementwise function: sets every element of `to` to a function of the elements of `ins`. An input
    /// of extent 1 along a mode is broadcast along it.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, tile::*, thread::{Bin, Un, Unroll}, view::{At, Partition, View}};
    /// # use tilewright_layout::{Layout, Value, layout};
    /// # let mut b = Builder::new("example");
    /// # let n = Value::symbol("N");
    /// # let (x, y) = (b.tensor("x", Elem::F32, (n,), None, false)?, b.tensor("y", Elem::F32, (n,), None, true)?);
    /// # let block = [At::Index(Coord::Block(0).into())];
    /// # let (x, y) = (b.tile(&x, (1024,), &block)?, b.tile(&y, (1024,), &block)?);
    /// # let threads = layout!(256 : 1);
    /// # let (tx, ty) = (b.parallelize(&x, &threads)?, b.parallelize(&y, &threads)?);
    /// // y = 2 x + y
    /// let twice = Expr::Fma(Box::new([Expr::lit(2.0), Expr::In(0), Expr::In(1)]));
    /// b.map(&[tx, ty.clone()], &ty, twice)?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn map(&mut self, ins: &[View], to: &View, value: Expr) -> Result<()> {
        self.writable(to, 1)?;
        let ins: Vec<View> = ins.iter().map(|view| view.spread(to)).collect::<Result<_>>()?;
        for view in &ins {
            crate::tile::pair::align(view, to)?;
        }
        let elems: Vec<Elem> = ins.iter().map(|view| self.elem(view)).collect();
        if value.any(&|part| matches!(part, Expr::At(mode) if usize::from(*mode) >= to.rank())) {
            return Err(Problem::new(format!(
                "`{}` has {}, and this reads a coordinate along another",
                to.name,
                count(to.rank(), "mode")
            )));
        }
        let types = Types { ins: &elems, scalars: &self.program.scalars };
        types.typed(&value, self.elem(to)).map_err(|problem| Problem { arg: None, ..problem })?;
        let mut op = Op::Map { ins, to: to.clone(), value };
        self.coordinates_in_tile(&mut op)?;
        self.write(op)
    }

    /// A function that reads coordinates of whole tiles which are in no tensor of the user, such as a tile that was
    /// filled, gets another input, [`Program::is_coordinates`]: its coordinates are the coordinates within the tile.
    fn coordinates_in_tile(&mut self, op: &mut Op) -> Result<()> {
        let whole = is_cooperative(&self.program, self.by, op);
        let Op::Map { ins, to, value } = op else { return Ok(()) };
        let global = |view: &View| matches!(self.space(view), Space::Global { .. });
        let of_users = |view: &View| global(view) && !view.is_one_element();
        let reads_at = value.any(&|part| matches!(part, Expr::At(_)));
        let Some(extents) = to.extents().filter(|_| whole && reads_at) else { return Ok(()) };
        if global(to) || ins.iter().any(of_users) {
            return Ok(());
        }
        ins.push(self.program.coordinates_of(&extents)?);
        Ok(())
    }

    /// A statement that writes. If several threads are known to write the same elements, it is refused here,
    /// otherwise once the program is complete.
    pub(super) fn write(&mut self, op: Op) -> Result<()> {
        if self.program.groups[self.by as usize].threads > 1
            && let Some(problem) = written_whole(&self.program, self.by, &op)
        {
            return Err(problem);
        }
        self.push(op);
        Ok(())
    }
}
