//! The builder: a kernel written as library calls. Both macros go through it.
//!
//! What follows is a whole kernel: C = A·Bᵀ, the tutorial of CuTe, step by step. Tensors are arguments; their
//! extents and strides may be known at launch only.
//!
//! ```
//! use tilewright_codegen::affine::Coord;
//! use tilewright_codegen::build::Builder;
//! use tilewright_codegen::tile::Order;
//! use tilewright_codegen::thread::Unroll;
//! use tilewright_codegen::view::{At, Deal, View};
//! use tilewright_codegen::{Elem, generate};
//! use tilewright_layout::{Value, layout};
//!
//! let mut b = Builder::new("matmul_nt");
//! let (m, n, k) = (Value::symbol("M"), Value::symbol("N"), Value::symbol("K"));
//! let a = b.tensor("a", Elem::F32, (m, k), None, false)?;
//! let bt = b.tensor("b", Elem::F32, (n, k), None, false)?;
//! let c = b.tensor("c", Elem::F32, (m, n), None, true)?;
//!
//! // A block computes a tile of C. `_` keeps all tiles along K, to loop over: (128, 8, ceil(K/8)).
//! // The use of the block index determines the grid.
//! let (bx, by) = (At::Index(Coord::Block(0).into()), At::Index(Coord::Block(1).into()));
//! let ga = b.tile(&a, (128, 8), &[bx.clone(), At::All])?.with_name("ga");
//! let gb = b.tile(&bt, (128, 8), &[by.clone(), At::All])?.with_name("gb");
//! let gc = b.tile(&c, (128, 128), &[bx, by])?.with_name("gc");
//!
//! // Tiles in shared memory, padded by one element: columns begin in different banks.
//! let sa = b.shared("sa", Elem::F32, layout!((128, 8) : (1, 129)))?;
//! let sb = b.shared("sb", Elem::F32, layout!((128, 8) : (1, 129)))?;
//!
//! // 32 by 8 threads copy. Both sides are partitioned by the same thread layout.
//! let ta = layout!((32, 8));
//! let (ta_ga, ta_sa) = (b.parallelize(&ga, &ta)?, b.parallelize(&sa, &ta)?);
//! let (tb_gb, tb_sb) = (b.parallelize(&gb, &ta)?, b.parallelize(&sb, &ta)?);
//!
//! // The same threads as 16 by 16 for the arithmetic: rows of A by the first mode, rows of B by the second.
//! let tc = layout!((16, 16));
//! let keep = |keep: [bool; 2]| Deal { keep: Some(keep.to_vec()), ..Deal::default() };
//! let tc_sa = b.parallelize_over(&sa, &tc, 0, &keep([true, false]))?; // (8, 8)
//! let tc_sb = b.parallelize_over(&sb, &tc, 0, &keep([false, true]))?; // (8, 8)
//! let tc_gc = b.parallelize(&gc, &tc)?; // (8, 8)
//! let acc = b.registers_like("acc", &tc_gc, 0.0)?;
//!
//! // The loop runs on the GPU; this closure runs once and records one iteration.
//! b.repeat("k", k.ceil_div(8).unwrap(), Unroll::No, |b, k| {
//!     let at = [At::All, At::All, At::Index(k)];
//!     let (from_a, from_b) = (b.slice(&ta_ga, &at)?, b.slice(&tb_gb, &at)?);
//!     b.copy(&from_a, &ta_sa)?;
//!     b.copy(&from_b, &tb_sb)?;
//!     b.wait_copies(0); // copies from global to shared memory are in flight until a wait
//!     b.sync();
//!     b.gemm(&tc_sa, &tc_sb, &acc, Order::Plain)?;
//!     b.sync();
//!     Ok::<(), tilewright_codegen::problem::Problem>(())
//! })?;
//! b.copy(&acc, &tc_gc)?;
//!
//! let program = b.finish();
//! assert_eq!(program.threads(), 256);
//! assert_eq!(program.grid[0].unwrap().to_string(), "ceil(M/128)");
//!
//! // Bounds checks are generated: the fastest variant needs none, the last runs for every size.
//! let kernel = generate(program).kernel.unwrap();
//! let (fastest, last) = (&kernel.variants[0].source, &kernel.variants.last().unwrap().source);
//! assert!(fastest.contains("128 divides M, N") && !fastest.contains("< M"));
//! assert!(last.contains("if (") && last.contains("< M"));
//! # Ok::<(), tilewright_codegen::problem::Problem>(())
//! ```
//!
//! From here: [`Builder::pipelined`] overlaps copies with arithmetic, [`Builder::map`] and
//! [`Builder::reduce`] are the elementwise functions and reductions, and groups with rings between them
//! ([`Builder::group`], [`Builder::ring`]) specialise warps as producers and consumers.

mod control;
mod group;
mod part;
mod scan;
mod work;

use tilewright_layout::{Composed, Distribution, Layout, Symbol, Tuple, Value};

use crate::affine::{Affine, Coord};
use crate::ast::Span;
use crate::check::threads::mentions;
use crate::elem::Elem;
use crate::limits;
use crate::number::Number;
use crate::problem::{Cause, Problem, Result};
use crate::semiring;
use crate::target::BLOCK_THREADS;
use crate::thread::{Cost, Id};
use crate::tile::{Arg, Expr, Form, LaunchRule, Op, Program, Scalar, Space, Stmt, Tensor};
use crate::tiled::TiledMma;
use crate::view::View;
pub use group::Role;

/// What an axis of the grid numbers.
#[derive(Clone, Debug)]
struct Numbered {
    /// What first used it.
    by: String,
    /// Is any of it written? The grid then covers all of it.
    written: bool,
}

/// A program under construction.
#[derive(Clone, Debug)]
pub struct Builder {
    program: Program,
    /// Open bodies, innermost last.
    open: Vec<Vec<Stmt>>,
    span: Span,
    by: Id,
    /// What the axes of the grid number.
    axes: [Option<Numbered>; 3],
    /// The first partition of each group, for messages.
    partitions: Vec<Option<String>>,
    /// Statements so far.
    statements: u64,
}

impl Builder {
    /// An empty kernel of this name.
    ///
    /// ```
    /// use tilewright_codegen::build::Builder;
    /// let b = Builder::new("nothing");
    /// assert_eq!(b.finish().name, "nothing");
    /// ```
    pub fn new(name: &str) -> Builder {
        Builder {
            program: Program::new(name),
            open: vec![Vec::new()],
            span: Span::default(),
            by: 0,
            axes: [None, None, None],
            partitions: vec![None],
            statements: 0,
        }
    }

    /// Continues a program: what this closure returns, and the program with what it has added.
    pub(crate) fn resumed(
        program: Program,
        span: Span,
        by: Id,
        make: impl FnOnce(&mut Builder) -> Result<()>,
    ) -> (Program, Result<Vec<Stmt>>) {
        let partitions = program.groups.iter().map(|group| (group.threads > 0).then(String::new)).collect();
        let mut builder = Builder { program, partitions, span, by, ..Builder::new("") };
        let made = builder.body(make);
        (builder.program, made)
    }

    /// The number of threads of the block, unless thread layouts determine it.
    ///
    /// ```
    /// use tilewright_codegen::build::Builder;
    /// let mut b = Builder::new("wide");
    /// b.threads(512)?;
    /// assert_eq!(b.finish().threads(), 512);
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn threads(&mut self, threads: i64) -> Result<()> {
        if !(1..=i64::from(BLOCK_THREADS)).contains(&threads) {
            return Err(Problem::new(format!("a block of {threads} threads"))
                .help(format!("a block has 1 to {BLOCK_THREADS} threads"))
                .arg(0));
        }
        let known = self.program.groups[0].threads;
        match &self.partitions[0] {
            Some(first) if i64::from(known) != threads => {
                let problem = format!("thread layouts disagree: {threads} threads here, and before, {first}");
                Err(Problem::new(problem).help(format!("write {known}, or leave it out")).arg(0))
            }
            _ => {
                self.program.groups[0].threads = threads as u32;
                self.partitions[0] = Some(format!("the block has {threads}"));
                Ok(())
            }
        }
    }

    /// A register tile distributed over the threads: its uses determine the distribution. Statements name the
    /// whole tile, and each thread has a part. See [`crate::resolve`].
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, tile::Expr};
    /// let mut b = Builder::new("shared_tile");
    /// let t = b.distributed("t", Elem::F32, &[128, 64])?;
    /// b.fill(&t, Expr::lit(1.0))?;
    /// assert_eq!(t.shape().to_string(), "(128,64)"); // 32 of each of 256 threads
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn distributed(&mut self, name: &str, elem: Elem, tile: &[i64]) -> Result<View> {
        limits::name("a tile", name)?;
        let shape = Tuple::flat(tile);
        let layout = Layout::compact(shape.clone())?;
        limits::bytes(name, layout.size()?, elem)?;
        let id = self.add(name, elem, Space::Registers { words: false }, layout.into());
        self.program.forms.insert(id, Form::Open);
        View::whole(id, name, &shape)
    }

    /// The same with this distribution.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder};
    /// # use tilewright_layout::Distribution;
    /// let mut b = Builder::new("by_rows");
    /// let rows = Distribution::spread(&[128, 64], &[1, 0], 4, 256);
    /// let t = b.distributed_by("t", Elem::F32, rows)?;
    /// assert_eq!(t.shape().to_string(), "(128,64)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn distributed_by(&mut self, name: &str, elem: Elem, by: Distribution) -> Result<View> {
        let view = self.distributed(name, elem, by.tile())?;
        self.program.forms.insert(view.tensor, Form::By(by));
        Ok(view)
    }

    /// An accumulator tile of a tiled MMA, for statements that name the whole tile: [`Builder::gemm`],
    /// functions, copies. It starts at 0.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, tile::Order, tiled::TiledMma};
    /// let mut b = Builder::new("products");
    /// let mma = TiledMma::best(Elem::F16, Elem::F32, 80, [128, 128], 4)?;
    /// let (sa, sb) = (b.shared_tile("sa", Elem::F16, (128, 32))?, b.shared_tile("sb", Elem::F16, (128, 32))?);
    /// let acc = b.sums("acc", &mma, [128, 128])?;
    /// b.gemm(&sa, &sb, &acc, Order::Plain)?;
    /// assert_eq!(acc.shape().to_string(), "(128,128)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn sums(&mut self, name: &str, mma: &TiledMma, tile: [i64; 2]) -> Result<View> {
        mma.distribution(tile)?;
        let elem = mma.row.operand('d').map_or(Elem::F32, |d| d.elem);
        let view = self.distributed(name, elem, &tile)?;
        self.occupy(mma.of, mma.threads()?, &view)?;
        self.program.forms.insert(view.tensor, Form::Sums(mma.clone()));
        self.arch(mma.row.arch);
        self.fill(&view, Expr::lit(0.0))?;
        Ok(view)
    }

    /// A tile in shared memory whose layout is chosen from its uses, if whole tiles are copied to or from it;
    /// compact otherwise.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder};
    /// let mut b = Builder::new("open");
    /// let t = b.shared_tile("t", Elem::F16, (128, 64))?;
    /// assert_eq!(t.shape().to_string(), "(128,64)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn shared_tile(&mut self, name: &str, elem: Elem, shape: impl Into<Tuple>) -> Result<View> {
        let view = self.shared(name, elem, Layout::compact(shape)?)?;
        self.program.open.insert(view.tensor);
        Ok(view)
    }

    /// Sets the span of the statements that follow.
    ///
    /// ```
    /// use tilewright_codegen::{ast::Span, build::Builder};
    /// let mut b = Builder::new("spans");
    /// b.at(Span(7)).sync();
    /// assert_eq!(b.finish().body[0].span, Span(7));
    /// ```
    pub fn at(&mut self, span: Span) -> &mut Builder {
        self.span = span;
        self
    }

    /// The same for a call, with the spans of its arguments: a message about one of them points there.
    pub(crate) fn at_call(&mut self, span: Span, arguments: Vec<Span>) -> &mut Builder {
        self.program.arguments.insert(span, arguments);
        self.at(span)
    }

    /// The program so far.
    ///
    /// ```
    /// use tilewright_codegen::build::Builder;
    /// let mut b = Builder::new("open");
    /// b.arch(90);
    /// assert_eq!(b.program().arch, 90);
    /// ```
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The finished program.
    ///
    /// ```
    /// use tilewright_codegen::build::Builder;
    /// let mut b = Builder::new("one_barrier");
    /// b.sync();
    /// assert_eq!(b.finish().body.len(), 1);
    /// ```
    pub fn finish(mut self) -> Program {
        self.program.body = self.open.pop().unwrap_or_default();
        for axis in 0..3u8 {
            let block = |at: &Affine| at.any(&|coord| *coord == Coord::Block(axis));
            let mut used = false;
            for stmt in &self.program.body {
                stmt.each(&mut |stmt| used |= mentions(&self.program, stmt, &block));
            }
            // An axis that is used but numbers no tiles: the grid's size is not known.
            if !used {
                self.program.grid[usize::from(axis)].get_or_insert(Value::Int(1));
            }
        }
        semiring::fill(&mut self.program);
        self.program
    }

    /// Oldest compute capability that the kernel needs.
    ///
    /// ```
    /// use tilewright_codegen::build::Builder;
    /// let mut b = Builder::new("hopper");
    /// b.arch(90).arch(80); // the most that anything needs
    /// assert_eq!(b.finish().arch, 90);
    /// ```
    pub fn arch(&mut self, arch: u32) -> &mut Builder {
        self.program.arch = self.program.arch.max(arch);
        self
    }

    /// How many blocks should be resident on a multiprocessor at once.
    ///
    /// ```
    /// use tilewright_codegen::build::Builder;
    /// let mut b = Builder::new("two_at_once");
    /// b.blocks_per_sm(2);
    /// assert_eq!(b.finish().blocks_per_sm, 2);
    /// ```
    pub fn blocks_per_sm(&mut self, blocks: u32) -> &mut Builder {
        self.program.blocks_per_sm = blocks;
        self
    }

    /// A launch is refused where this size is larger: for kernels that keep whole rows in registers.
    ///
    /// ```
    /// use tilewright_codegen::build::Builder;
    /// use tilewright_layout::Value;
    /// let mut b = Builder::new("rows");
    /// b.at_most(Value::symbol("N"), 8192);
    /// assert_eq!(b.finish().at_most, [(Value::symbol("N"), 8192)]);
    /// ```
    pub fn at_most(&mut self, size: Value, limit: i64) -> &mut Builder {
        self.program.at_most.push((size, limit));
        self
    }

    /// Programmatic dependent launch: the kernel may start before the previous kernel in the stream has
    /// ended, and waits for it before it touches memory. Launches then cost less, from compute capability
    /// 9.0; on others nothing changes. For kernels whose blocks fill a multiprocessor: waiting blocks of
    /// small kernels would take the places of running ones.
    ///
    /// ```
    /// use tilewright_codegen::build::Builder;
    /// let mut b = Builder::new("early");
    /// b.overlaps();
    /// assert!(b.finish().overlaps);
    /// ```
    pub fn overlaps(&mut self) -> &mut Builder {
        self.program.overlaps = true;
        self
    }

    /// The shape of a cluster: blocks along x, y, z.
    ///
    /// ```
    /// use tilewright_codegen::build::Builder;
    /// let mut b = Builder::new("pairs");
    /// b.cluster([2, 1, 1]);
    /// assert_eq!(b.finish().cluster, [2, 1, 1]);
    /// ```
    pub fn cluster(&mut self, blocks: [u32; 3]) -> &mut Builder {
        self.program.cluster = blocks;
        self
    }

    /// A persistent kernel: as many blocks as fit the device at once. [`Builder::tiles`] is its tile
    /// scheduler.
    ///
    /// ```
    /// use tilewright_codegen::{build::Builder, tile::LaunchRule};
    /// let mut b = Builder::new("persistent");
    /// b.persistent();
    /// assert_eq!(b.finish().launch, LaunchRule::Persistent);
    /// ```
    pub fn persistent(&mut self) -> &mut Builder {
        self.program.launch = LaunchRule::Persistent;
        self
    }

    /// The cost model's clocks of a tile, where several programs serve the same launch and the fastest is to
    /// be chosen.
    ///
    /// ```
    /// # use tilewright_codegen::{build::Builder, thread::Cost};
    /// # use tilewright_layout::Value;
    /// let mut b = Builder::new("product");
    /// b.cost(Cost { steps: Value::symbol("K").ceil_div(64).unwrap(), step: 1024, beyond: 0, rows: 0, tile: 3000, launch: 2000 });
    /// assert!(b.finish().cost.is_some());
    /// ```
    pub fn cost(&mut self, cost: Cost) -> &mut Builder {
        self.program.cost = Some(cost);
        self
    }

    /// A launch may pass a copy of this argument, which it makes before: where a variant's facts about strides
    /// and addresses do not hold of the argument, and the copy costs less than a variant without these facts.
    /// Rows of the copy begin at multiples of 128 bytes.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder};
    /// # use tilewright_layout::Value;
    /// let mut b = Builder::new("product");
    /// let a = b.tensor("a", Elem::Bf16, (Value::symbol("M"), Value::symbol("K")), None, false)?;
    /// b.packs(&a);
    /// assert_eq!(b.finish().packs, [a.tensor]);
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn packs(&mut self, argument: &View) -> &mut Builder {
        if !self.program.packs.contains(&argument.tensor) {
            self.program.packs.push(argument.tensor);
        }
        self
    }

    pub(crate) fn statements(&self) -> u64 {
        self.statements
    }

    fn push(&mut self, op: Op) {
        self.statements += 1;
        let stmt = Stmt { id: 0, span: self.span, by: self.by, op };
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
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder};
    /// # use tilewright_layout::{Tuple, Value};
    /// let mut b = Builder::new("arguments");
    /// let (m, k) = (Value::symbol("M"), Value::symbol("K"));
    /// let a = b.tensor("a", Elem::F32, (m, k), None, false)?;
    /// assert_eq!(a.shape().to_string(), "(M,K)");
    /// assert_eq!(b.program().tensor(a.tensor).layout.to_string(), "(M,K):(1,lda)");
    /// // rows contiguous
    /// let rows = Tuple::of([Value::symbol("ldc").into(), Tuple::from(1)]);
    /// let c = b.tensor("c", Elem::F32, (m, k), Some(rows), true)?;
    /// assert_eq!(b.program().tensor(c.tensor).layout.to_string(), "(M,K):(ldc,1)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn tensor(
        &mut self,
        name: &str,
        elem: Elem,
        shape: impl Into<Tuple>,
        stride: Option<Tuple>,
        mutable: bool,
    ) -> Result<View> {
        limits::name("a tensor", name)?;
        let shape: Tuple = shape.into();
        let shape = if shape.is_leaf() { Tuple::of([shape]) } else { shape };
        if shape.depth() > 1 {
            return Err(Problem::new(format!("the tensor `{name}` has the nested shape {shape}"))
                .help("write a flat shape, such as (M, K); tiles may nest"));
        }
        if !(1..=limits::MOST_MODES).contains(&shape.rank()) {
            let (most, modes) = (limits::MOST_MODES, shape.rank());
            return Err(Problem::new(format!(
                "the tensor `{name}` has {modes} modes, and 1 to {most} are possible"
            ))
            .help("join modes that are contiguous, or pass them as several tensors"));
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
        limits::symbols(layout.leaves().flat_map(|(extent, stride)| [extent, stride]))?;
        let id = self.add(name, elem, Space::Global { mutable }, layout.into());
        self.program.args.push(Arg::Tensor(id));
        View::whole(id, name, &shape)
    }

    /// A scalar argument.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, tile::Expr};
    /// let mut b = Builder::new("scaled");
    /// assert_eq!(b.scalar("alpha", Elem::F32), Expr::Scalar(0));
    /// ```
    pub fn scalar(&mut self, name: &str, elem: Elem) -> Expr {
        self.program.scalars.push(Scalar { name: name.into(), elem });
        let id = self.program.scalars.len() as Id - 1;
        self.program.args.push(Arg::Scalar(id));
        Expr::Scalar(id)
    }

    /// A tensor in shared memory.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder};
    /// # use tilewright_layout::layout;
    /// let mut b = Builder::new("tiles");
    /// let tile = b.shared("tile", Elem::F32, layout!((32, 32) : (1, 33)))?;
    /// assert_eq!(tile.shape().to_string(), "(32,32)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn shared(&mut self, name: &str, elem: Elem, layout: impl Into<Composed>) -> Result<View> {
        let layout: Composed = layout.into();
        limits::name("a tensor", name)?;
        layout.size()?;
        limits::bytes(name, layout.cosize()?, elem)?;
        let (shape, align) = (layout.shape(), alignment(&layout, elem));
        let id = self.add(name, elem, Space::Shared { align }, layout);
        View::whole(id, name, &shape)
    }

    /// A tensor in shared memory that reuses the memory of others which are no longer needed. All threads
    /// meet at a barrier first, so that no one still reads those.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder};
    /// # use tilewright_layout::layout;
    /// let mut b = Builder::new("places");
    /// let first = b.shared("first", Elem::F32, layout!(64 : 1))?;
    /// let second = b.shared_after("second", Elem::F16, layout!(128 : 1), &[&first])?;
    /// assert_eq!(second.shape().to_string(), "(128)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn shared_after(
        &mut self,
        name: &str,
        elem: Elem,
        layout: impl Into<Composed>,
        done: &[&View],
    ) -> Result<View> {
        let view = self.shared(name, elem, layout)?;
        if !done.is_empty() {
            let done = done.iter().map(|view| view.tensor).collect();
            self.program.overlays.push((view.tensor, done));
            self.sync();
        }
        Ok(view)
    }

    /// Registers of each thread, of this shape.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder};
    /// let mut b = Builder::new("sums");
    /// let acc = b.registers("acc", Elem::F32, (8i64, 8i64))?;
    /// assert_eq!(acc.shape().to_string(), "(8,8)");
    /// assert!(b.registers("too_many", Elem::F32, (32i64, 32i64)).is_err()); // 1,024 of 255
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn registers(&mut self, name: &str, elem: Elem, shape: impl Into<Tuple>) -> Result<View> {
        self.registers_in(name, elem, shape.into(), false)
    }

    pub(crate) fn registers_in(&mut self, name: &str, elem: Elem, shape: Tuple, words: bool) -> Result<View> {
        /// Threads have at most 255 registers of 32 bits.
        const MOST: i64 = 255;
        limits::name("a fragment", name)?;
        // One number for each mode: registers have no strides worth keeping.
        let flat: Vec<i64> =
            shape.modes().map(|mode| mode.product()).collect::<Option<_>>().ok_or_else(|| {
                Problem::new(format!("registers need a shape of integers, and this is {shape}"))
            })?;
        // Wide enough for the count of every refused shape.
        let count = flat.iter().fold(1i128, |all, &n| all.saturating_mul(i128::from(n)));
        let registers = count.saturating_mul(i128::from(elem.bytes())).saturating_add(3) / 4;
        if registers > MOST.into() {
            return Err(Problem::new(format!(
                "a fragment of {count} elements of {elem} takes {registers} registers of each thread, and {MOST} is the limit",
            ))
            .help("use smaller tiles, or more threads")
            .because(Cause::Registers));
        }
        let flat = Tuple::flat(&flat);
        let id = self.add(name, elem, Space::Registers { words }, Layout::compact(flat.clone())?.into());
        View::whole(id, name, &flat)
    }

    /// Registers of the shape of a view, each set to a number.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder};
    /// # use tilewright_layout::layout;
    /// let mut b = Builder::new("like");
    /// let tile = b.shared("tile", Elem::F64, layout!((32, 8)))?;
    /// let part = b.parallelize(&tile, &layout!((16, 4)))?;
    /// let own = b.registers_like("own", &part, 0.0)?;
    /// assert_eq!((own.shape().to_string(), b.elem(&own)), ("(2,2)".to_string(), Elem::F64));
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn registers_like(&mut self, name: &str, view: &View, value: impl Into<Number>) -> Result<View> {
        let elem = self.elem(view);
        let registers = self.registers(name, elem, view.shape())?;
        self.fill(&registers, Expr::lit(value))?;
        Ok(registers)
    }

    /// The element type behind a view.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder};
    /// let mut b = Builder::new("types");
    /// let x = b.registers("x", Elem::Bf16, (4i64,))?;
    /// assert_eq!(b.elem(&x), Elem::Bf16);
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn elem(&self, view: &View) -> Elem {
        self.program.tensor(view.tensor).elem
    }

    /// Where a view's tensor is.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, tile::Space};
    /// let mut b = Builder::new("spaces");
    /// let x = b.registers("x", Elem::F32, (4i64,))?;
    /// assert!(matches!(b.space(&x), Space::Registers { .. }));
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn space(&self, view: &View) -> Space {
        self.program.tensor(view.tensor).space
    }

    /// Does an argument bring the symbol of an extent or stride?
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder};
    /// # use tilewright_layout::{Symbol, Value};
    /// let mut b = Builder::new("symbols");
    /// b.tensor("x", Elem::F32, (Value::symbol("N"),), None, false)?;
    /// assert!(b.knows(Symbol::new("N")) && !b.knows(Symbol::new("M")));
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn knows(&self, symbol: Symbol) -> bool {
        self.program.symbols().contains(&symbol)
    }

    fn writable(&self, view: &View, arg: usize) -> Result<()> {
        match self.space(view) {
            _ if view.repeats() => Err(Problem::new(format!(
                "`{}` is broadcast, {}: several of its elements are one element of its tensor, and this writes to them",
                view.name,
                view.shape()
            ))
            .help("write to the tensor itself")
            .arg(arg)),
            Space::Global { mutable: false } => {
                let tensor = &self.program.tensor(view.tensor).name;
                Err(Problem::new(format!("`{tensor}` is an input, and this writes to it"))
                    .help(format!("declare it as `{tensor}: &mut Tensor<…>`"))
                    .arg(arg))
            }
            _ => Ok(()),
        }
    }
}

/// The alignment of a shared tensor: a swizzle acts on offsets from its start, which must be aligned to the
/// swizzle's period.
pub(crate) fn alignment(layout: &Composed, elem: Elem) -> u32 {
    let swizzle = layout.swizzle();
    match swizzle.bits() {
        0 => 16,
        bits => {
            let far = swizzle.base() + bits + swizzle.shift().unsigned_abs();
            1024.min(elem.bytes() << far.min(10)).max(16)
        }
    }
}

/// The name of a stride that is known at launch: `lda` for a matrix `a`, `a_2` for further modes.
fn leading(tensor: &str, mode: usize, rank: usize) -> String {
    if rank == 2 { format!("ld{tensor}") } else { format!("{tensor}_{mode}") }
}
