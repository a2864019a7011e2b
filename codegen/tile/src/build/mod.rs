//! The builder: a kernel written as library calls. Both macros go through it.
//!
//! This is a whole kernel: C = A·Bᵀ, the tutorial of CuTe, step by step. Tensors are arguments; their extents
//! and strides may be known at launch only.
//!
//! ```
//! use tilewright_codegen::affine::Coord;
//! use tilewright_codegen::build::Builder;
//! use tilewright_codegen::tile::Order;
//! use tilewright_codegen::thread::Unroll;
//! use tilewright_codegen::view::{At, Partition, View};
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
//! let keep = |keep: [bool; 2]| Partition { keep: Some(keep.to_vec()), ..Partition::default() };
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
//!     b.wait(None, 0); // copies from global to shared memory are in flight until a wait
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
//! From here: [`Builder::pipelined`] overlaps copies with arithmetic, [`Builder::map`] and [`Builder::reduce`] are the elementwise
//! functions and reductions.

mod control;
mod gather;
mod lanes;
mod launch;
mod part;
mod probe;
mod product;
pub mod reduce;
mod scan;
mod sizes;
mod sync;
mod tensors;
pub mod tiled;
mod unpack;
mod work;

use tilewright_layout::Value;

use crate::source::ast::Span;
use crate::source::problem::Result;
use crate::thread::Id;
use crate::tile::fills;
use crate::tile::visit::preorder;
use crate::tile::{Op, Program, StageOrder, Stmt};
use crate::values::affine::{Affine, Coord};
pub use tensors::{alignment, fits};
pub use work::BOX_ALIGN;

/// The tiles that an axis of the grid numbers.
#[derive(Clone, Debug)]
struct Numbered {
    /// The name of the first view that used it.
    by: String,
    /// Is any of it written? The grid then covers all of it.
    written: bool,
    /// Is the number of blocks computed, as a sum of several counts? Then the tiles of one tensor may be fewer.
    computed: bool,
}

/// A program under construction.
#[derive(Clone, Debug)]
pub struct Builder {
    program: Program,
    /// Open bodies, innermost last.
    open: Vec<Vec<Stmt>>,
    span: Span,
    by: Id,
    /// The tiles that the axes of the grid number.
    axes: [Option<Numbered>; 3],
    /// The first partition of each group, for messages.
    partitions: Vec<Option<String>>,
    /// Statements so far.
    statements: u64,
    /// For each open body of a loop its depth, and the position of the next statements in its schedule, if it has one.
    loops: Vec<(usize, Option<StageOrder>)>,
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
            loops: Vec::new(),
        }
    }

    /// Continues a program: returns the program with the closure's additions, and the closure's result.
    pub fn resumed(
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
    pub fn at_call(&mut self, span: Span, arguments: Vec<Span>) -> &mut Builder {
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

    /// The program so far, for properties of its launch: `overlaps`, `blocks_per_sm`, `bands`, `alternates`.
    ///
    /// ```
    /// use tilewright_codegen::build::Builder;
    /// let mut b = Builder::new("two_at_once");
    /// b.program_mut().blocks_per_sm = 2;
    /// assert_eq!(b.finish().blocks_per_sm, 2);
    /// ```
    pub fn program_mut(&mut self) -> &mut Program {
        &mut self.program
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
            let used = preorder(&self.program.body).any(|stmt| stmt.mentions(&self.program, &block));
            // An axis that is used but numbers no tiles: the grid's size is not known.
            if !used {
                self.program.grid[usize::from(axis)].get_or_insert(Value::Int(1));
            }
        }
        fills::fill(&mut self.program);
        self.program
    }

    /// How many statements there are so far.
    pub fn statements(&self) -> u64 {
        self.statements
    }

    fn push(&mut self, op: Op) {
        self.statements += 1;
        let mut stmt = Stmt::new(self.span, self.by, op);
        if let Some((depth, Some(order))) = self.loops.last()
            && *depth == self.open.len()
        {
            stmt.stage = Some(*order);
        }
        if let Some(block) = self.open.last_mut() {
            block.push(stmt);
        }
    }
}
