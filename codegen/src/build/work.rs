//! Statements on elements: copies, elementwise functions, products, reductions.

use tilewright_layout::Tuple;

use super::Builder;
use crate::affine::Affine;
use crate::atom::Atom;
use crate::atoms;
use crate::check::threads::written_whole;
use crate::elem::Elem;
use crate::number::Number;
use crate::problem::{Cause, Problem, Result};
use crate::semiring::Semiring;
use crate::thread::{Bin, Change, Id};
use crate::tile::{Across, Expr, How, Op, Order, Space, Update};
use crate::typing::Types;
use crate::view::View;

/// Alignment in bytes of the boxes of bulk tensor copies in shared memory.
const BOX_ALIGN: u32 = 128;

impl Builder {
    /// Copies elements between views of the same shape.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, tile::*, thread::{Bin, Un, Unroll}, view::{At, Deal, View}};
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
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, tile::*, thread::{Bin, Un, Unroll}, view::{At, Deal, View}};
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
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, tile::*, thread::{Bin, Un, Unroll}, view::{At, Deal, View}};
    /// # use tilewright_layout::{Layout, Value, layout};
    /// # let mut b = Builder::new("example");
    /// # let n = Value::symbol("N");
    /// # let (x, y) = (b.tensor("x", Elem::F32, (n,), None, false)?, b.tensor("y", Elem::F32, (n,), None, true)?);
    /// # let block = [At::Index(Coord::Block(0).into())];
    /// # let (x, y) = (b.tile(&x, (1024,), &block)?, b.tile(&y, (1024,), &block)?);
    /// # let threads = layout!(256 : 1);
    /// # let (tx, ty) = (b.parallelize(&x, &threads)?, b.parallelize(&y, &threads)?);
    /// let own = b.registers("own", Elem::F32, tx.shape())?;
    /// b.copy_filled(&tx, &own, f64::NEG_INFINITY)?; // what lies beyond N is never the largest
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn copy_filled(&mut self, from: &View, to: &View, fill: impl Into<Number>) -> Result<()> {
        let fill = fill.into();
        fill.check(self.elem(from)).map_err(|problem| problem.arg(2))?;
        self.copy_with(from, to, How::Derive, fill, None)
    }

    /// A copy that is in flight until its token has been waited for.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, tile::*, thread::{Bin, Un, Unroll}, view::{At, Deal, View}};
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
    /// let arriving = b.start_copy(&tx, &ts, How::Derive)?;
    /// b.wait(arriving);
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn start_copy(&mut self, from: &View, to: &View, how: How) -> Result<Id> {
        let token = self.token();
        self.copy_how(from, to, how, Some(token))?;
        Ok(token)
    }

    fn copy_with(&mut self, from: &View, to: &View, how: How, fill: Number, token: Option<Id>) -> Result<()> {
        self.writable(to, 1)?;
        if !matches!(how, How::Atom(_)) {
            crate::pair::align(from, to)?;
        }
        if matches!(how, How::Atom(name) if atoms::find(name).is_some_and(Atom::has_map)) {
            for view in [from, to] {
                if let Space::Shared { align } = &mut self.program.tensors[view.tensor as usize].space {
                    *align = (*align).max(BOX_ALIGN);
                }
            }
        }
        self.write(Op::Copy { from: from.clone(), to: to.clone(), how, fill, token })
    }

    /// Updates each element of `to` by that of `from`, atomically. Out-of-bounds elements are skipped.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, tile::*, thread::{Change, MemoryOrder}, view::{At, Deal, View}};
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
        crate::pair::align(from, to)?;
        let elem = self.elem(to);
        if matches!(self.space(to), Space::Registers { .. }) {
            let said = format!("`{}` is in registers, which no other thread changes", to.name);
            return Err(Problem::new(said).help("write a map instead").arg(1));
        }
        let name = Change::ALL.iter().find(|row| row.1 == update.with).map_or("", |row| row.0);
        if !update.with.changes(elem) {
            let all = Change::ALL.iter().filter(|row| row.1.changes(elem)).map(|row| row.0);
            let all = all.collect::<Vec<_>>().join(", ");
            let said =
                format!("elements of `{}` are {elem}, and hardware has no atomic {name} of them", to.name);
            return Err(Problem::new(said)
                .help(match all.is_empty() {
                    true => "update elements of f32 or i32".to_owned(),
                    false => format!("of {elem} it has {all}"),
                })
                .arg(1));
        }
        if let Some(old) = &update.old {
            crate::pair::align(old, to)?;
            let registers = matches!(self.space(old), Space::Registers { .. });
            let kept =
                !matches!(update.with, Change::Min | Change::Max) && !matches!(elem, Elem::F16 | Elem::Bf16);
            if !registers || self.elem(old) != elem || !kept && elem.is_float() {
                let said =
                    format!("the elements before an atomic {name} of {elem} cannot go to `{}`", old.name);
                return Err(Problem::new(said).help(
                    "they go to registers of the same type: of i32 and u32 always, of f32 and f64 where they are added or exchanged",
                ));
            }
        }
        self.write(Op::Atomic { from: from.clone(), to: to.clone(), update })
    }

    /// Releases a flag: all that the group did before is visible to a block that waits for it by
    /// [`Builder::await_flag`]. The flag is one `i32` in global memory, which is raised by so much, and 0 at
    /// launch. Blocks that wait for one another must all be resident, as those of a persistent kernel are.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, view::At};
    /// # use tilewright_layout::Value;
    /// # let mut b = Builder::new("example");
    /// let flags = b.tensor("flags", Elem::I32, (Value::symbol("T"),), None, true)?;
    /// let flag = b.tile(&flags, (1,), &[At::Index(Coord::Block(0).into())])?;
    /// b.signal(&flag, 1)?;
    /// b.await_flag(&flag, &2.into())?; // two groups have come so far
    /// assert_eq!(b.finish().body.len(), 2);
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn signal(&mut self, flag: &View, add: i64) -> Result<()> {
        self.is_flag(flag)?;
        self.push(Op::Signal { flag: flag.clone(), add });
        Ok(())
    }

    /// Acquires a flag: the group waits until it has been raised so far, and then sees what was done before.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, view::At};
    /// # use tilewright_layout::Value;
    /// # let mut b = Builder::new("example");
    /// # let flags = b.tensor("flags", Elem::I32, (Value::symbol("T"),), None, true)?;
    /// let flag = b.tile(&flags, (1,), &[At::Index(Coord::Block(0).into())])?;
    /// b.await_flag(&flag, &1.into())?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn await_flag(&mut self, flag: &View, least: &Affine) -> Result<()> {
        self.is_flag(flag)?;
        if least.per_thread() {
            return Err(Problem::new(
                "a group waits for one value of a flag, not for another in each thread",
            ));
        }
        self.push(Op::AwaitFlag { flag: flag.clone(), least: least.clone() });
        Ok(())
    }

    fn is_flag(&self, flag: &View) -> Result<()> {
        let one = flag.layout.size() == Ok(1) && !flag.per_thread();
        if !one
            || self.elem(flag) != Elem::I32
            || !matches!(self.space(flag), Space::Global { mutable: true })
        {
            return Err(Problem::new(format!(
                "`{}` is no flag: a flag is one i32 in global memory, which the kernel may write",
                flag.name
            ))
            .help("take one element of a tensor of i32, such as tile(flags, (1), (block.x))")
            .arg(0));
        }
        Ok(())
    }

    /// Sets every element to one value.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, tile::*, thread::{Bin, Un, Unroll}, view::{At, Deal, View}};
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
        self.write(Op::Fill { to: to.clone(), value })
    }

    /// An elementwise function: sets every element of `to` to a function of the elements of `ins`. An input
    /// of extent 1 along a mode is broadcast along it.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, tile::*, thread::{Bin, Un, Unroll}, view::{At, Deal, View}};
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
            crate::pair::align(view, to)?;
        }
        let elems: Vec<Elem> = ins.iter().map(|view| self.elem(view)).collect();
        if value.any(&|part| matches!(part, Expr::At(mode) if usize::from(*mode) >= to.rank())) {
            return Err(Problem::new(format!(
                "`{}` has {} modes, and this reads a coordinate of another",
                to.name,
                to.rank()
            )));
        }
        let types = Types { ins: &elems, scalars: &self.program.scalars };
        types.typed(&value, self.elem(to)).map_err(|problem| Problem { arg: None, ..problem })?;
        self.write(Op::Map { ins, to: to.clone(), value })
    }

    /// A statement that writes. Where it is already known that several threads would write the same elements,
    /// it is refused here; otherwise once the program is complete.
    fn write(&mut self, op: Op) -> Result<()> {
        if self.program.groups[self.by as usize].threads > 1
            && let Some(problem) = written_whole(&self.program, self.by, &op)
        {
            return Err(problem);
        }
        self.push(op);
        Ok(())
    }

    /// `acc(m, n) += a(m, k) · b(n, k)`.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, tile::Order, view::Deal};
    /// # use tilewright_layout::layout;
    /// # let mut b = Builder::new("example");
    /// let (sa, sb) = (b.shared("sa", Elem::F32, layout!((64, 8)))?, b.shared("sb", Elem::F32, layout!((32, 8)))?);
    /// let threads = layout!((16, 8));
    /// let keep = |keep: [bool; 2]| Deal { keep: Some(keep.to_vec()), ..Deal::default() };
    /// let rows = b.parallelize_over(&sa, &threads, 0, &keep([true, false]))?; // (4, 8)
    /// let columns = b.parallelize_over(&sb, &threads, 0, &keep([false, true]))?; // (4, 8)
    /// let acc = b.registers("acc", Elem::F32, (4i64, 4i64))?;
    /// b.gemm(&rows, &columns, &acc, Order::Serpentine)?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn gemm(&mut self, a: &View, b: &View, acc: &View, order: Order) -> Result<()> {
        self.gemm_how(a, b, acc, How::Derive, order, None)
    }

    /// The same with other operations in place of + and ·. Copies of operands from global memory get fills that leave
    /// sums unchanged.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, semiring::Semiring, thread::Bin, tile::Order};
    /// # let mut b = Builder::new("example");
    /// # let (x, y) = (b.registers("x", Elem::F32, (4i64, 8i64))?, b.registers("y", Elem::F32, (4i64, 8i64))?);
    /// # let acc = b.registers("acc", Elem::F32, (4i64, 4i64))?;
    /// b.gemm_with(&x, &y, &acc, Semiring { add: Bin::Min, mul: Bin::Add }, Order::Plain)?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn gemm_with(&mut self, a: &View, b: &View, acc: &View, with: Semiring, order: Order) -> Result<()> {
        self.check_gemm(a, b, acc)?;
        with.check(self.elem(acc))?;
        let (a, b, acc) = (a.clone(), b.clone(), acc.clone());
        self.push(Op::Gemm { a, b, acc, with, how: How::Derive, order, token: None, from_zero: false });
        Ok(())
    }

    /// A product by a chosen instruction.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, atoms, build::Builder, fragment::Arrangement, tile::{How, Order}};
    /// # use tilewright_layout::layout;
    /// # let mut b = Builder::new("example");
    /// let mma = "mma_m16n8k16_f16";
    /// let row = atoms::find(mma).unwrap();
    /// let by_warp = Arrangement { groups: layout!((1, 1, 1)), of: 0 };
    /// # let (sa, sb) = (b.shared("sa", Elem::F16, layout!((16, 16)))?, b.shared("sb", Elem::F16, layout!((8, 16)))?);
    /// # let sc = b.shared("sc", Elem::F32, layout!((16, 8)))?;
    /// let (pa, pb) = (b.partition_mma(&sa, row, 'a', &by_warp)?, b.partition_mma(&sb, row, 'b', &by_warp)?);
    /// let pc = b.partition_mma(&sc, row, 'd', &by_warp)?;
    /// let (fa, fb) = (b.fragment("fa", Elem::F16, &pa)?, b.fragment("fb", Elem::F16, &pb)?);
    /// let acc = b.fragment("acc", Elem::F32, &pc)?;
    /// b.gemm_how(&fa, &fb, &acc, How::Atom(mma), Order::Plain, None)?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn gemm_how(
        &mut self,
        a: &View,
        b: &View,
        acc: &View,
        how: How,
        order: Order,
        token: Option<Id>,
    ) -> Result<()> {
        // A row of the table itself says which shapes and types it takes.
        if !matches!(how, How::Atom(_)) {
            self.check_gemm(a, b, acc)?;
        }
        let (a, b, acc) = (a.clone(), b.clone(), acc.clone());
        self.push(Op::Gemm { a, b, acc, with: Semiring::SUMS, how, order, token, from_zero: false });
        Ok(())
    }

    /// An asynchronous product that replaces its accumulator, by an instruction that can start from zero (wgmma). The
    /// compiler leaves such products in flight where it would wait for others, as it does before it clears registers.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, atoms, build::Builder, fragment::Arrangement};
    /// # use tilewright_layout::{Composed, Layout, Swizzle, layout};
    /// # let mut b = Builder::new("example");
    /// let row = atoms::find("wgmma_m64n64k16_bf16").unwrap();
    /// # let rows = Composed::new(Swizzle::new(3, 3, 3)?, 0, Layout::row_major((64, 64))?);
    /// # let (sa, sb) = (b.shared("sa", Elem::Bf16, rows.clone())?, b.shared("sb", Elem::Bf16, rows)?);
    /// # let sc = b.shared("sc", Elem::F32, layout!((64, 64)))?;
    /// # let by_warpgroup = Arrangement { groups: layout!((1, 1, 1)), of: 0 };
    /// # let out = b.partition_mma(&sc, row, 'd', &by_warpgroup)?;
    /// let acc = b.fragment("acc", Elem::F32, &out)?; // not cleared
    /// let product = b.token();
    /// b.gemm_from_zero(&sa, &sb, &acc, row, product)?;
    /// b.wait(product);
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn gemm_from_zero(
        &mut self,
        a: &View,
        b: &View,
        acc: &View,
        row: &'static Atom,
        token: Id,
    ) -> Result<()> {
        if row.operand('s').is_none() {
            return Err(Problem::new(format!("`{}` adds to its accumulator", row.name))
                .help("fill the accumulator with zeros, and write gemm_how"));
        }
        let (a, b, acc) = (a.clone(), b.clone(), acc.clone());
        let (with, how, order) = (Semiring::SUMS, How::Atom(row.name), Order::Plain);
        self.push(Op::Gemm { a, b, acc, with, how, order, token: Some(token), from_zero: true });
        Ok(())
    }

    /// An asynchronous product. Its accumulator, and its operands where they are registers, must not be
    /// touched until its token has been waited for.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, atoms, build::Builder, fragment::Arrangement, tile::{How, Order}};
    /// # use tilewright_layout::{Composed, Layout, Swizzle, layout};
    /// # let mut b = Builder::new("example");
    /// let wgmma = "wgmma_m64n64k16_bf16";
    /// let row = atoms::find(wgmma).unwrap();
    /// # let rows = Composed::new(Swizzle::new(3, 3, 3)?, 0, Layout::row_major((64, 64))?);
    /// # let (sa, sb) = (b.shared("sa", Elem::Bf16, rows.clone())?, b.shared("sb", Elem::Bf16, rows)?);
    /// # let sc = b.shared("sc", Elem::F32, layout!((64, 64)))?;
    /// let by_warpgroup = Arrangement { groups: layout!((1, 1, 1)), of: 0 };
    /// let out = b.partition_mma(&sc, row, 'd', &by_warpgroup)?;
    /// let acc = b.fragment("acc", Elem::F32, &out)?;
    /// let product = b.start_gemm(&sa, &sb, &acc, How::Atom(wgmma))?;
    /// b.wait(product); // until then `acc` belongs to the product
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn start_gemm(&mut self, a: &View, b: &View, acc: &View, how: How) -> Result<Id> {
        let token = self.token();
        self.gemm_how(a, b, acc, how, Order::Plain, Some(token))?;
        Ok(token)
    }

    fn check_gemm(&self, a: &View, b: &View, acc: &View) -> Result<()> {
        for (arg, view) in [a, b, acc].into_iter().enumerate() {
            if view.rank() != 2 {
                return Err(Problem::new(format!(
                    "gemm needs two modes of each operand, and `{}` has {}: {}",
                    view.name,
                    view.rank(),
                    view.shape()
                ))
                .help("slice them to (m, k), (n, k) and (m, n)")
                .arg(arg));
            }
        }
        if !matches!(self.space(acc), Space::Registers { .. }) {
            return Err(Problem::new(format!("gemm sums in registers, and `{}` is not there", acc.name))
                .help("make the accumulator with `registers_like` and copy it when the sum is done")
                .arg(2));
        }
        let size = |view: &View, mode: usize| {
            view.layout.mode(mode).ok().map(|mode| (mode.size().ok(), mode.shape()))
        };
        let pairs =
            [(a, 0, acc, 0, "rows", 0), (b, 0, acc, 1, "columns", 1), (a, 1, b, 1, "extents along k", 1)];
        for (left, l, right, r, what, arg) in pairs {
            let (x, y) = (size(left, l), size(right, r));
            let same = match (&x, &y) {
                (Some((Some(x), _)), Some((Some(y), _))) => x == y,
                _ => x == y,
            };
            if !same {
                let text = |of: Option<(Option<i64>, Tuple)>| {
                    of.map_or_else(String::new, |(n, shape)| {
                        n.map_or_else(|| shape.to_string(), |n| n.to_string())
                    })
                };
                return Err(Problem::new(format!(
                    "the {what} differ: {} in mode {l} of `{}`, {} in mode {r} of `{}`",
                    text(x),
                    left.name,
                    text(y),
                    right.name
                ))
                .help("operands are (m, k), (n, k) and (m, n)")
                .arg(arg));
            }
        }
        let (x, y, z) = (self.elem(a), self.elem(b), self.elem(acc));
        if x.is_float() != y.is_float()
            || x.is_float() != z.is_float()
            || z.bytes() < x.bytes().max(y.bytes())
        {
            return Err(Problem::new(format!(
                "`{}` of {x} times `{}` of {y} cannot be summed in `{}` of {z}",
                a.name, b.name, acc.name
            ))
            .help(match x.is_float() == y.is_float() {
                true => format!("sum in {}", x.accumulator()),
                false => "multiply integers with integers, or floating-point numbers with their like".into(),
            })
            .because(Cause::Sum)
            .arg(2));
        }
        Ok(())
    }

    /// Reduces the elements of `from` into those of `to`, which has extent 1 in the reduced modes.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, tile::*, thread::{Bin, Un, Unroll}, view::{At, Deal, View}};
    /// # use tilewright_layout::{Layout, Value, layout};
    /// # let mut b = Builder::new("example");
    /// # let n = Value::symbol("N");
    /// # let (x, y) = (b.tensor("x", Elem::F32, (n,), None, false)?, b.tensor("y", Elem::F32, (n,), None, true)?);
    /// # let block = [At::Index(Coord::Block(0).into())];
    /// # let (x, y) = (b.tile(&x, (1024,), &block)?, b.tile(&y, (1024,), &block)?);
    /// # let threads = layout!(256 : 1);
    /// # let (tx, ty) = (b.parallelize(&x, &threads)?, b.parallelize(&y, &threads)?);
    /// let own = b.registers("own", Elem::F32, tx.shape())?;
    /// b.copy(&tx, &own)?;
    /// // the largest of the block's 1024 elements, in every thread
    /// let most = b.registers("most", Elem::F32, (1i64,))?;
    /// b.fill(&most, Expr::lit(f64::NEG_INFINITY))?;
    /// b.reduce(&own, &most, Bin::Max, Across::Block)?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn reduce(&mut self, from: &View, to: &View, with: Bin, across: Across) -> Result<()> {
        self.reduce_beyond(from, to, with, across, None)
    }

    /// A reduction whose author says what out-of-bounds elements contain: the identity of the operation. All
    /// elements are combined as they are.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, thread::Bin, tile::{Across, Expr}};
    /// # let mut b = Builder::new("example");
    /// let (own, total) = (b.registers("own", Elem::F32, (4i64,))?, b.registers("total", Elem::F32, (1i64,))?);
    /// b.fill(&own, Expr::lit(2.0))?;
    /// b.fill(&total, Expr::lit(0.0))?;
    /// b.reduce_beyond(&own, &total, Bin::Add, Across::Thread, Some(0.into()))?;
    /// assert!(b.reduce_beyond(&own, &total, Bin::Add, Across::Thread, Some(1.into())).is_err());
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn reduce_beyond(
        &mut self,
        from: &View,
        to: &View,
        with: Bin,
        across: Across,
        beyond: Option<Number>,
    ) -> Result<()> {
        let nothing = with.identity(self.elem(to)).unwrap_or_default();
        if let Some(beyond) = beyond.filter(|beyond| beyond.to_f64() != nothing) {
            return Err(would_count(beyond, nothing));
        }
        self.reducible(from, to)?;
        self.push(Op::Reduce { from: from.clone(), to: to.clone(), with, across, beyond });
        Ok(())
    }

    /// Reduces tuples of elements by an associative and commutative function. `with` has one expression for
    /// each entry: inputs 0 and on are the accumulated tuple, the inputs after those the next one; `nothing`
    /// is the identity.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, thread::Cmp, tile::{Across, Expr}};
    /// # let mut b = Builder::new("example");
    /// # let (x, at) = (b.registers("x", Elem::F32, (4i64,))?, b.registers("at", Elem::I32, (4i64,))?);
    /// # b.fill(&x, Expr::lit(2.0))?;
    /// # b.fill(&at, Expr::lit(0))?;
    /// let (most, place) = (b.registers("most", Elem::F32, (1i64,))?, b.registers("place", Elem::I32, (1i64,))?);
    /// b.fill(&most, Expr::lit(f64::NEG_INFINITY))?;
    /// b.fill(&place, Expr::lit(-1))?;
    /// // of two pairs the one whose first entry is larger
    /// let larger = Expr::Cmp(Cmp::Lt, Box::new(Expr::In(0)), Box::new(Expr::In(2)));
    /// let pick = |n| Expr::Pick(Box::new([larger.clone(), Expr::In(n + 2), Expr::In(n)]));
    /// let nothing = vec![f64::NEG_INFINITY.into(), (-1).into()];
    /// b.fold(&[x, at], &[most, place], vec![pick(0), pick(1)], nothing, Across::Warp(32))?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn fold(
        &mut self,
        from: &[View],
        to: &[View],
        with: Vec<Expr>,
        nothing: Vec<Number>,
        across: Across,
    ) -> Result<()> {
        self.fold_beyond((from, to), with, nothing, across, None)
    }

    /// The same, of elements that hold these values where they are out of bounds: the identity.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, thread::Bin, tile::{Across, Expr}};
    /// # let mut b = Builder::new("example");
    /// # let (x, sum) = (b.registers("x", Elem::F32, (4i64,))?, b.registers("sum", Elem::F32, (1i64,))?);
    /// # let add = Expr::Bin(Bin::Add, Box::new(Expr::In(0)), Box::new(Expr::In(1)));
    /// # b.fill(&sum, Expr::lit(0.0))?;
    /// b.fold_beyond((&[x], &[sum]), vec![add], vec![0.into()], Across::Thread, Some(&[0.into()]))?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn fold_beyond(
        &mut self,
        (from, to): (&[View], &[View]),
        with: Vec<Expr>,
        nothing: Vec<Number>,
        across: Across,
        beyond: Option<&[Number]>,
    ) -> Result<()> {
        let count = from.len();
        if to.len() != count {
            return Err(Problem::new(
                "a reduction of tuples needs as many results, functions and identities as tensors",
            ));
        }
        let elems: Vec<Elem> = to.iter().map(|view| self.elem(view)).collect();
        for n in 0..count {
            self.reducible(&from[n], &to[n])?;
            crate::pair::align(&to[n], &to[0])?;
        }
        self.combinable(from, &elems, &with, &nothing)?;
        for (held, nothing) in beyond.unwrap_or_default().iter().zip(&nothing) {
            if held.to_f64() != nothing.to_f64() {
                return Err(would_count(*held, nothing.to_f64()));
            }
        }
        let (from, to, beyond) = (from.to_vec(), to.to_vec(), beyond.is_some());
        self.push(Op::Fold { from, to, with, nothing, across, beyond });
        Ok(())
    }

    /// Refuses tuples of tensors that functions cannot combine into elements of these types.
    pub(super) fn combinable(
        &self,
        from: &[View],
        elems: &[Elem],
        with: &[Expr],
        nothing: &[Number],
    ) -> Result<()> {
        let count = from.len();
        if count == 0 || [elems.len(), with.len(), nothing.len()] != [count; 3] {
            return Err(Problem::new(
                "a reduction of tuples needs as many results, functions and identities as tensors",
            ));
        }
        let both: Vec<Elem> = elems.iter().chain(elems).copied().collect();
        for n in 0..count {
            crate::pair::align(&from[n], &from[0])?;
            if self.elem(&from[n]) != elems[n] {
                return Err(Problem::new(format!(
                    "elements of `{}`, {}, are combined in {}",
                    from[n].name,
                    self.elem(&from[n]),
                    elems[n]
                ))
                .help("convert the elements first, with `map`"));
            }
            nothing[n].check(elems[n])?;
            let types = Types { ins: &both, scalars: &self.program.scalars };
            types.typed(&with[n], elems[n]).map_err(|problem| Problem { arg: None, ..problem })?;
        }
        Ok(())
    }

    /// Refuses operands of a reduction whose shapes do not match.
    fn reducible(&self, from: &View, to: &View) -> Result<()> {
        if from.rank() != to.rank() {
            return Err(Problem::new(format!(
                "a reduction keeps the rank: {} against {}",
                from.shape(),
                to.shape()
            )));
        }
        for (mode, (source, target)) in from.layout.modes().zip(to.layout.modes()).enumerate() {
            let (source, target) = (source.size()?, target.size()?);
            if target != source && target != 1 {
                return Err(Problem::new(format!(
                    "mode {mode} has {source} elements in `{}` and {target} in `{}`: it is kept, or combined into one",
                    from.name, to.name
                ))
                .arg(1));
            }
        }
        Ok(())
    }
}

/// Elements beyond the edge that are no identity.
fn would_count(beyond: Number, nothing: f64) -> Problem {
    Problem::new(format!(
        "elements beyond the edge hold {beyond}, which would count: {} changes nothing here",
        Number::from(nothing)
    ))
    .help(format!(
        "set them before, such as `map(x, |x, at| select(at.0 < N, x, {nothing:?}))`, and say so: beyond = {nothing:?}"
    ))
}
