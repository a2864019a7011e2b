//! The builder: a kernel written as library calls. Both macros go through it.
//!
//! ```
//! use tilewright_codegen::build::Builder;
//! use tilewright_codegen::{Elem, affine::Coord, view::At};
//! use tilewright_layout::{Tuple, Value, layout};
//!
//! // y = x, tile by tile
//! let mut b = Builder::new("copy_all");
//! let n = Tuple::from((Value::symbol("N"),));
//! let x = b.tensor("x", Elem::F32, n.clone(), None, false)?;
//! let y = b.tensor("y", Elem::F32, n, None, true)?;
//! let block = At::Index(Coord::Block(0).into());
//! let (x, y) = (b.tile(&x, (1024,), &[block.clone()])?, b.tile(&y, (1024,), &[block])?);
//! let threads = layout!(256 : 1);
//! let (x, y) = (b.parallelize(&x, &threads)?, b.parallelize(&y, &threads)?);
//! b.copy(&x, &y)?;
//! let program = b.finish();
//! assert_eq!(program.threads(), 256);
//! assert_eq!(program.grid[0].unwrap().to_string(), "ceil(N/1024)");
//! # Ok::<(), tilewright_codegen::problem::Problem>(())
//! ```

use tilewright_layout::{Composed, Layout, Symbol, Tiler, Tuple, Value};

use crate::affine::{Affine, Coord};
use crate::ast::Span;
use crate::elem::Elem;
use crate::problem::{Problem, Result};
use crate::thread::{Bin, Id, Unroll};
use crate::tile::{
    Across, Arg, Expr, Group, How, Op, Order, Program, Ring, Scalar, Space, Stmt, Tensor, Var,
};
use crate::view::{At, Deal, View};

/// A program under construction.
#[derive(Clone, Debug)]
pub struct Builder {
    program: Program,
    /// Bodies that are open, innermost last.
    open: Vec<Vec<Stmt>>,
    span: Span,
    by: Id,
    /// What first used each axis of the grid, for messages.
    axes: [Option<String>; 3],
    /// The first partition of each group, for messages.
    partitions: Vec<Option<String>>,
}

impl Builder {
    /// An empty kernel of this name.
    pub fn new(name: &str) -> Builder {
        Builder {
            program: Program::new(name),
            open: vec![Vec::new()],
            span: Span::default(),
            by: 0,
            axes: [None, None, None],
            partitions: vec![None],
        }
    }

    /// Statements from here on stand at this place of the user's text.
    pub fn at(&mut self, span: Span) -> &mut Builder {
        self.span = span;
        self
    }

    /// The program so far.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The finished program.
    pub fn finish(mut self) -> Program {
        self.program.body = self.open.pop().unwrap_or_default();
        for axis in &mut self.program.grid {
            axis.get_or_insert(Value::Int(1));
        }
        self.program
    }

    /// Oldest compute capability that the kernel needs.
    pub fn arch(&mut self, arch: u32) -> &mut Builder {
        self.program.arch = self.program.arch.max(arch);
        self
    }

    /// How many blocks should fit on a multiprocessor at once.
    pub fn blocks_per_sm(&mut self, blocks: u32) -> &mut Builder {
        self.program.blocks_per_sm = blocks;
        self
    }

    fn push(&mut self, op: Op) {
        let stmt = Stmt { span: self.span, by: self.by, op };
        if let Some(block) = self.open.last_mut() {
            block.push(stmt);
        }
    }

    fn add(&mut self, name: &str, elem: Elem, space: Space, layout: Composed) -> Id {
        let (name, span) = (name.to_owned(), self.span);
        self.program.tensors.push(Tensor { name, elem, space, layout, span });
        self.program.tensors.len() as Id - 1
    }

    /// A tensor argument. Without strides it is column-major, and every mode but the first has a stride of its own,
    /// known at launch: `a_1`, `a_2`, …
    pub fn tensor(
        &mut self,
        name: &str,
        elem: Elem,
        shape: impl Into<Tuple>,
        stride: Option<Tuple>,
        mutable: bool,
    ) -> Result<View> {
        if !elem.is_usable() {
            return Err(Problem::new(format!(
                "`{elem}` is a reserved name, not yet an element type of kernels"
            ))
            .help(format!("use one of {}", Elem::usable())));
        }
        let shape: Tuple = shape.into();
        let shape = if shape.is_leaf() { Tuple::of([shape]) } else { shape };
        if shape.depth() > 1 {
            return Err(Problem::new(format!("the tensor `{name}` has the nested shape {shape}"))
                .help("write a flat shape, such as (M, K); tiles may nest"));
        }
        let default = || {
            let steps = (0..shape.rank()).map(|mode| match mode {
                0 => Tuple::from(1),
                _ => Tuple::from(Value::symbol(&leading(name, mode, shape.rank()))),
            });
            Tuple::of(steps)
        };
        let stride = match stride {
            Some(stride) if stride.is_leaf() => Tuple::of([stride]),
            Some(stride) => stride,
            None => default(),
        };
        let layout = Layout::new(shape.clone(), stride)?;
        let id = self.add(name, elem, Space::Global { mutable }, layout.into());
        self.program.args.push(Arg::Tensor(id));
        View::whole(id, name, &shape)
    }

    /// A scalar argument.
    pub fn scalar(&mut self, name: &str, elem: Elem) -> Expr {
        self.program.scalars.push(Scalar { name: name.into(), elem });
        let id = self.program.scalars.len() as Id - 1;
        self.program.args.push(Arg::Scalar(id));
        Expr::Scalar(id)
    }

    /// A tensor in shared memory.
    pub fn shared(&mut self, name: &str, elem: Elem, layout: impl Into<Composed>) -> Result<View> {
        let layout: Composed = layout.into();
        layout.size()?;
        // A swizzle acts on offsets from the array's start, which must be as aligned as it reaches.
        let swizzle = layout.swizzle();
        let reach = match swizzle.bits() {
            0 => 16,
            bits => {
                (elem.bytes() << (swizzle.base() + bits + swizzle.shift().unsigned_abs())).clamp(16, 1024)
            }
        };
        let shape = layout.shape();
        let id = self.add(name, elem, Space::Shared { align: reach }, layout);
        View::whole(id, name, &shape)
    }

    /// Registers of each thread, of this shape.
    pub fn registers(&mut self, name: &str, elem: Elem, shape: impl Into<Tuple>) -> Result<View> {
        self.registers_in(name, elem, shape.into(), false)
    }

    pub(crate) fn registers_in(&mut self, name: &str, elem: Elem, shape: Tuple, words: bool) -> Result<View> {
        /// Threads have at most 255 registers of 32 bits.
        const MOST_BYTES: i64 = 255 * 4;
        // One number for each mode: registers have no order of their own worth keeping.
        let flat: Vec<i64> =
            shape.modes().map(|mode| mode.product()).collect::<Option<_>>().ok_or_else(|| {
                Problem::new(format!("registers need a shape of integers, and this is {shape}"))
            })?;
        let count: i64 = flat.iter().product();
        let bytes = count * i64::from(elem.bytes());
        if bytes > MOST_BYTES {
            return Err(Problem::new(format!(
                "a fragment of {count} elements of {elem} takes {} registers of each thread, and 255 is the limit",
                (bytes + 3) / 4
            ))
            .help("use smaller tiles, or more threads"));
        }
        let flat = Tuple::flat(&flat);
        let id = self.add(name, elem, Space::Registers { words }, Layout::compact(flat.clone())?.into());
        View::whole(id, name, &flat)
    }

    /// Registers of the shape of a view, each set to a number.
    pub fn registers_like(&mut self, name: &str, view: &View, value: f64) -> Result<View> {
        let elem = self.elem(view);
        let registers = self.registers(name, elem, view.shape())?;
        self.fill(&registers, Expr::Lit(value))?;
        Ok(registers)
    }

    /// The element type behind a view.
    pub fn elem(&self, view: &View) -> Elem {
        self.program.tensor(view.tensor).elem
    }

    /// Where a view's tensor is.
    pub fn space(&self, view: &View) -> Space {
        self.program.tensor(view.tensor).space
    }

    /// Tiles of a view; see [`View::tile`]. An axis of the block index that numbers tiles gives the grid its size.
    pub fn tile(&mut self, view: &View, tiler: impl Into<Tiler>, coord: &[At]) -> Result<View> {
        let tiler = tiler.into();
        if let Tiler::Modes(modes) = &tiler
            && modes.len() > view.rank()
        {
            return Err(Problem::new(format!(
                "the tile has {} modes, and `{}` has {}: {}",
                modes.len(),
                view.name,
                view.rank(),
                view.shape()
            ))
            .help("write one extent for each mode, with `_` for modes that stay whole")
            .arg(1));
        }
        let rest = view.layout.zipped_divide(&tiler)?.mode(1)?;
        self.axes_of(&rest, coord, view)?;
        view.tile(&tiler, coord)
    }

    /// A slice of a view; see [`View::slice`].
    pub fn slice(&mut self, view: &View, coord: &[At]) -> Result<View> {
        if coord.len() == view.rank() {
            self.axes_of(&view.layout, coord, view)?;
        }
        view.slice(coord)
    }

    fn axes_of(&mut self, rest: &Layout, coord: &[At], view: &View) -> Result<()> {
        for (mode, at) in rest.modes().zip(coord) {
            let At::Index(index) = at else { continue };
            let [(Coord::Block(axis), 1)] = index.terms[..] else {
                continue;
            };
            let extent = match (mode.size(), &mode.leaves().collect::<Vec<_>>()[..]) {
                (Ok(n), _) => Value::Int(n),
                (_, [(extent, _)]) => *extent,
                (Err(e), _) => return Err(e.into()),
            };
            let axis = usize::from(axis);
            let letter = ["x", "y", "z"][axis];
            match self.program.grid[axis] {
                None => {
                    self.program.grid[axis] = Some(extent);
                    self.axes[axis] = Some(view.name.clone());
                }
                Some(known) if known == extent => {}
                Some(known) => {
                    let first = self.axes[axis].clone().unwrap_or_default();
                    return Err(Problem::new(format!(
                        "`block.{letter}` numbers {extent} tiles of `{}`, and {known} of `{first}`",
                        view.name
                    ))
                    .help("use another axis of `block`, or tiles that come to the same number")
                    .arg(2));
                }
            }
        }
        Ok(())
    }

    /// The part of each thread; see [`View::parallelize`].
    pub fn parallelize(&mut self, view: &View, threads: &Layout) -> Result<View> {
        self.parallelize_over(view, threads, 0, &Deal::default())
    }

    /// The part of each thread of a group, with a projection.
    pub fn parallelize_over(
        &mut self,
        view: &View,
        threads: &Layout,
        group: Id,
        deal: &Deal,
    ) -> Result<View> {
        let size = threads.size()?;
        self.occupy(group, size, view).map_err(|problem| problem.arg(1))?;
        view.parallelize(threads, &Coord::Thread(group).into(), deal)
    }

    /// All partitions of a group must have the same number of threads.
    pub(crate) fn occupy(&mut self, group: Id, size: i64, view: &View) -> Result<()> {
        const MOST: i64 = 1024;
        if size > MOST {
            return Err(Problem::new(format!(
                "`{}` is shared by {size} threads, and a block has at most {MOST}",
                view.name
            ))
            .help("let each thread take more elements"));
        }
        let known = &mut self.program.groups[group as usize];
        let first = &mut self.partitions[group as usize];
        match first {
            Some(first) if i64::from(known.threads) != size => {
                return Err(Problem::new(format!(
                    "`{}` is shared by {size} threads, and {first}",
                    view.name
                ))
                .help("all partitions of a block need the same number of threads"));
            }
            Some(_) => {}
            None => {
                known.threads = size as u32;
                *first = Some(format!("`{}` by {size}", view.name));
            }
        }
        Ok(())
    }

    /// Moves elements between views of the same shape.
    pub fn copy(&mut self, from: &View, to: &View) -> Result<()> {
        self.copy_how(from, to, How::Derive, None)
    }

    /// A copy by a chosen mechanism, perhaps left in flight.
    pub fn copy_how(&mut self, from: &View, to: &View, how: How, token: Option<Id>) -> Result<()> {
        self.copy_with(from, to, how, 0.0, token)
    }

    /// A copy that sets elements whose source lies outside of its tensor to a number of one's own, instead of 0.
    pub fn copy_filled(&mut self, from: &View, to: &View, fill: f64) -> Result<()> {
        self.copy_with(from, to, How::Derive, fill, None)
    }

    fn copy_with(&mut self, from: &View, to: &View, how: How, fill: f64, token: Option<Id>) -> Result<()> {
        self.writable(to, 1)?;
        let (source, target) = (self.space(from), self.space(to));
        let registers = |space| matches!(space, Space::Registers { .. });
        let alone = from.per_thread() || to.per_thread() || (registers(source) && registers(target));
        if !alone && self.program.groups[self.by as usize].threads > 1 && !matches!(how, How::Atom(_)) {
            return Err(Problem::new(format!(
                "every thread would copy the whole of `{}` to `{}`",
                from.name, to.name
            ))
            .help("deal both sides out to the threads with `parallelize` first"));
        }
        if !matches!(how, How::Atom(_)) {
            crate::lower::same_shape(from, to)?;
        }
        self.push(Op::Copy { from: from.clone(), to: to.clone(), how, fill, token });
        Ok(())
    }

    fn writable(&self, view: &View, arg: usize) -> Result<()> {
        match self.space(view) {
            Space::Global { mutable: false } => {
                let tensor = &self.program.tensor(view.tensor).name;
                Err(Problem::new(format!("`{tensor}` is an input, and this writes to it"))
                    .help(format!("declare it as `{tensor}: &mut Tensor<…>`"))
                    .arg(arg))
            }
            _ => Ok(()),
        }
    }

    /// Sets every element to one value.
    pub fn fill(&mut self, to: &View, value: Expr) -> Result<()> {
        self.writable(to, 0)?;
        self.push(Op::Fill { to: to.clone(), value });
        Ok(())
    }

    /// Sets every element of `to` to a function of the elements of `ins`. Where an input has extent 1, its element
    /// stands for all along that mode.
    pub fn map(&mut self, ins: &[View], to: &View, value: Expr) -> Result<()> {
        self.writable(to, 1)?;
        let ins: Vec<View> = ins.iter().map(|view| view.spread(to)).collect::<Result<_>>()?;
        for view in &ins {
            crate::lower::same_shape(view, to)?;
        }
        self.push(Op::Map { ins, to: to.clone(), value });
        Ok(())
    }

    /// `acc(m, n) += a(m, k) · b(n, k)`.
    pub fn gemm(&mut self, a: &View, b: &View, acc: &View, order: Order) -> Result<()> {
        self.gemm_how(a, b, acc, How::Derive, order, None)
    }

    /// A product by a chosen instruction.
    pub fn gemm_how(
        &mut self,
        a: &View,
        b: &View,
        acc: &View,
        how: How,
        order: Order,
        token: Option<Id>,
    ) -> Result<()> {
        // A row of the table says itself which shapes and types it takes.
        if !matches!(how, How::Atom(_)) {
            self.check_gemm(a, b, acc)?;
        }
        let (a, b, acc) = (a.clone(), b.clone(), acc.clone());
        self.push(Op::Gemm { a, b, acc, how, order, token });
        Ok(())
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
                .help("slice it to (rows, depth), (columns, depth) and (rows, columns)")
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
        let pairs = [(a, 0, acc, 0, "rows", 0), (b, 0, acc, 1, "columns", 1), (a, 1, b, 1, "depths", 1)];
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
                .help("operands are (rows, depth), (columns, depth) and (rows, columns)")
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
            .arg(2));
        }
        Ok(())
    }

    /// Combines the elements of `from` into those of `to`, which has extent 1 in the modes that are combined.
    pub fn reduce(&mut self, from: &View, to: &View, with: Bin, across: Across) -> Result<()> {
        if from.rank() != to.rank() {
            return Err(Problem::new(format!(
                "a reduction keeps the rank: {} against {}",
                from.shape(),
                to.shape()
            )));
        }
        self.push(Op::Reduce { from: from.clone(), to: to.clone(), with, across });
        Ok(())
    }

    /// All threads of the group meet.
    pub fn sync(&mut self) {
        self.push(Op::Sync);
    }

    /// Closes a group of asynchronous copies.
    pub fn commit_copies(&mut self) {
        self.push(Op::CommitCopies);
    }

    /// Waits until at most `pending` groups of copies are in flight.
    pub fn wait_copies(&mut self, pending: u32) {
        self.push(Op::WaitCopies { pending });
    }

    /// A loop over `0..extent`. The body gets the variable.
    pub fn repeat<T>(
        &mut self,
        name: &str,
        extent: Value,
        unroll: Unroll,
        body: impl FnOnce(&mut Builder, Affine) -> T,
    ) -> T {
        let (span, var) = (self.span, self.program.vars.len() as Id);
        self.program.vars.push(Var { name: name.into(), extent });
        self.open.push(Vec::new());
        let done = body(self, Coord::Var(var).into());
        let body = self.open.pop().unwrap_or_default();
        self.span = span;
        self.push(Op::For { var, unroll, body });
        done
    }

    /// A loop over `0..extent` whose copies from global to shared memory run `stages - 1` turns ahead. The body copies,
    /// then uses what it copied, without waits or barriers for it; see [`crate::pipeline`].
    pub fn pipelined<T>(
        &mut self,
        name: &str,
        extent: Value,
        stages: u32,
        body: impl FnOnce(&mut Builder, Affine) -> T,
    ) -> T {
        let (span, var) = (self.span, self.program.vars.len() as Id);
        self.program.vars.push(Var { name: name.into(), extent });
        self.open.push(Vec::new());
        let done = body(self, Coord::Var(var).into());
        let body = self.open.pop().unwrap_or_default();
        self.span = span;
        self.push(Op::Pipelined { var, stages, body });
        done
    }

    /// Statements for where a condition on scalar arguments holds, and for where it does not.
    pub fn when(
        &mut self,
        cond: Expr,
        then: impl FnOnce(&mut Builder) -> Result<()>,
        other: impl FnOnce(&mut Builder) -> Result<()>,
    ) -> Result<()> {
        self.open.push(Vec::new());
        let done = then(self);
        let then = self.open.pop().unwrap_or_default();
        done?;
        self.open.push(Vec::new());
        let done = other(self);
        let other = self.open.pop().unwrap_or_default();
        done?;
        self.push(Op::When { cond, then, other });
        Ok(())
    }

    /// Some warps of the block, as a group of their own.
    pub fn group(&mut self, name: &str, warps: (u32, u32), registers: Option<u32>) -> Id {
        let threads = (warps.1 - warps.0) * 32;
        self.program.groups.push(Group { name: name.into(), warps: Some(warps), threads, registers });
        self.partitions.push(Some(format!("the group has {threads} threads")));
        self.program.groups.len() as Id - 1
    }

    /// A ring of slots between two groups.
    pub fn ring(&mut self, ring: Ring) -> Id {
        self.program.rings.push(ring);
        self.program.rings.len() as Id - 1
    }

    /// Groups that do different things at the same time.
    pub fn roles(&mut self, roles: Vec<(Id, Role<'_>)>) -> Result<()> {
        let (span, by) = (self.span, self.by);
        let mut all = Vec::new();
        for (group, body) in roles {
            self.by = group;
            self.open.push(Vec::new());
            let done = body(self);
            all.push((group, self.open.pop().unwrap_or_default()));
            done?;
        }
        (self.span, self.by) = (span, by);
        self.push(Op::Roles(all));
        Ok(())
    }

    /// A statement that has no method of its own.
    pub fn statement(&mut self, op: Op) {
        self.push(op);
    }

    /// A token for an operation that is left in flight.
    pub fn token(&mut self) -> Id {
        self.program.tokens += 1;
        self.program.tokens - 1
    }

    /// The symbol of an extent or stride must be one that an argument brings.
    pub fn knows(&self, symbol: Symbol) -> bool {
        self.program.symbols().contains(&symbol)
    }
}

/// What a group does, as calls on the builder.
pub type Role<'r> = Box<dyn FnOnce(&mut Builder) -> Result<()> + 'r>;

/// The name of a stride that is known at launch: `lda` for a matrix `a`, `a_2` for further modes.
fn leading(tensor: &str, mode: usize, rank: usize) -> String {
    if rank == 2 { format!("ld{tensor}") } else { format!("{tensor}_{mode}") }
}
