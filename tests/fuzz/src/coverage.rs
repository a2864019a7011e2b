//! Coverage of random kernels: the number of passing kernels with each kind of statement, mechanism,
//! coordinate, bound and variant. Matches are exhaustive, so that a new feature of the language needs a row
//! here.

use std::collections::BTreeMap;

use tilewright_codegen::affine::{Affine, Arith, Coord};
use tilewright_codegen::condition::Test;
use tilewright_codegen::lower::Policy;
use tilewright_codegen::semiring::Semiring;
use tilewright_codegen::thread::{self, Unroll};
use tilewright_codegen::tile::{Across, Expr, How, Multiply, Op, Order, Past, Program, Space, Stmt};
use tilewright_codegen::{Elem, pass};

use crate::judge::Right;
use crate::options::{self, Choice};
use crate::whole::CONSTRUCTS;

/// Counts by feature.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    counts: BTreeMap<&'static str, u32>,
    /// Kernels with both options.
    pairs: BTreeMap<[Choice; 2], u32>,
    kernels: u32,
    /// Kernels of whole tiles have separate rows.
    whole: bool,
}

/// Features that must be drawn. Features that lowering refuses are not among them.
const WANTED: &[&str] = &[
    "statement: copy",
    "statement: fill",
    "statement: map",
    "statement: gemm",
    "statement: reduce",
    "statement: fold",
    "statement: scan",
    "statement: wait for copies",
    "statement: commit copies",
    "statement: sync",
    "statement: for",
    "statement: leave",
    "statement: pipelined",
    "statement: step",
    "statement: if",
    "statement: roles",
    "statement: acquire",
    "statement: publish",
    "statement: await",
    "statement: release",
    "statement: advance",
    "statement: tiles",
    "statement: wait for a token",
    "statement: take",
    "condition: less",
    "condition: equal",
    "condition: scalar",
    "condition: not",
    "condition: and",
    "condition: or",
    "condition: divergent",
    "copy: derived",
    "copy: asynchronous",
    "copy: plain",
    "copy: realigned",
    "copy: staged",
    "copy: here",
    "copy: by an instruction",
    "copy: global to registers",
    "copy: global to shared",
    "copy: global to global",
    "copy: shared to registers",
    "copy: shared to shared",
    "copy: shared to global",
    "copy: registers to registers",
    "copy: registers to shared",
    "copy: registers to global",
    "copy: converts",
    "copy: custom fill",
    "gemm: plain",
    "gemm: serpentine",
    "gemm: rows",
    "gemm: row serpentine",
    "gemm: from memory",
    "gemm: by an instruction",
    "gemm: other operations",
    "reduce: thread",
    "reduce: warp",
    "reduce: part of a warp",
    "reduce: digits of threads",
    "reduce: block",
    "coordinate: block",
    "coordinate: loop",
    "coordinate: thread",
    "coordinate: swizzled thread",
    "coordinate: cluster rank",
    "coordinate: digit",
    "coordinate: begin",
    "coordinate: phase",
    "coordinate: size",
    "coordinate: scalar",
    "coordinate: loaded by the block",
    "coordinate: loaded by a thread",
    "coordinate: product",
    "coordinate: quotient",
    "coordinate: remainder",
    "coordinate: minimum",
    "coordinate: maximum",
    "past: skip",
    "past: last",
    "past: anyway",
    "past: inside",
    "loop: not unrolled",
    "loop: unrolled fully",
    "loop: unrolled by",
    "loop: ends computed",
    "function: input",
    "function: literal",
    "function: scalar",
    "function: coordinate",
    "function: size",
    "function: bits",
    "function: unary",
    "function: binary",
    "function: fma",
    "function: comparison",
    "function: select",
    "function: cast",
    "function: integer of the kernel",
    "bound: proven read",
    "bound: guarded read",
    "bound: proven write",
    "bound: guarded write",
    "bound: asynchronous or zero",
    "bound: clamped",
    "bound: partial first tile",
    "bound: ragged",
    "bound: mask",
    "width: 1",
    "width: 2",
    "width: 4",
    "width: 8",
    "width: 16",
    "variant: best",
    "variant: aligned",
    "variant: small",
    "variant: general",
    "element: f64",
    "element: f32",
    "element: f16",
    "element: bf16",
    "element: i32",
    "element: u32",
    "element: i8",
    "element: u8",
];

impl Coverage {
    /// Counts a kernel.
    pub fn add(&mut self, right: &Right) {
        let ran = right.ran.iter().any(|count| *count > 0);
        let pairs = options::PAIRS.iter().filter(|_| ran);
        for pair in pairs.filter(|pair| pair.iter().all(|of| right.options.contains(of))) {
            *self.pairs.entry(*pair).or_default() += 1;
        }
        if right.is_whole {
            self.whole = true;
            self.kernels += 1;
            for &what in &right.constructs {
                debug_assert!(CONSTRUCTS.contains(&what), "{what}");
                *self.counts.entry(what).or_default() += 1;
            }
            return;
        }
        let mut seen = Seen::default();
        seen.program(&right.program);
        if let Ok(expanded) = pass::expand(right.program.clone()) {
            seen.program(&expanded);
        }
        seen.variants(right);
        self.kernels += 1;
        for what in seen.0.into_keys() {
            *self.counts.entry(what).or_default() += 1;
        }
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Coverage) {
        self.kernels += other.kernels;
        self.whole |= other.whole;
        for (what, count) in &other.counts {
            *self.counts.entry(what).or_default() += count;
        }
        for (pair, count) in &other.pairs {
            *self.pairs.entry(*pair).or_default() += count;
        }
    }

    /// The pairs of options that no passing kernel has.
    pub fn missing_pairs(&self) -> Vec<String> {
        let missing = options::PAIRS.iter().filter(|pair| !self.pairs.contains_key(*pair));
        missing.map(|[x, y]| if x == y { x.to_string() } else { format!("{x} with {y}") }).collect()
    }

    /// A table of all options: how many kernels have one, and how many digits the number of kernels has that have both: a dot stands
    /// for a pair that is not drawn.
    pub fn table_of_options(&self) -> String {
        let all = &options::ALL;
        let count = |pair: [Choice; 2]| self.pairs.get(&pair).copied().unwrap_or(0);
        let mut table = String::new();
        for (at, option) in all.iter().enumerate() {
            let digits =
                |other: &Choice| match (options::reason(&[*other, *option]), count([*other, *option])) {
                    (Some(_), _) => '.',
                    (None, 0) => '0',
                    (None, count) => char::from_digit(count.ilog10() + 1, 10).unwrap_or('9'),
                };
            let row: String = all[..at].iter().map(digits).collect();
            table += &format!("{:<27}{:>6}  {row}\n", option.to_string(), count([*option; 2]));
        }
        table
    }

    /// Features in fewer kernels than this.
    pub fn below(&self, least: u32) -> Vec<&'static str> {
        self.rows().iter().copied().filter(|what| self.count(what) < least).collect()
    }

    fn rows(&self) -> &'static [&'static str] {
        if self.whole { CONSTRUCTS } else { WANTED }
    }

    fn count(&self, what: &str) -> u32 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    /// A table.
    pub fn text(&self) -> String {
        let cell = |what: &&str| format!("{:<31}{:>6}", what, self.count(what));
        let rows: Vec<String> = self.rows().iter().map(cell).collect();
        let height = rows.len().div_ceil(2);
        let row = |at: usize| format!("{}   {}", rows[at], rows.get(at + height).map_or("", |row| row));
        (0..height).map(row).collect::<Vec<_>>().join("\n")
    }
}

/// The features of one kernel.
#[derive(Default)]
struct Seen(BTreeMap<&'static str, ()>);

impl Seen {
    fn has(&mut self, what: &'static str) {
        debug_assert!(WANTED.contains(&what), "{what}");
        self.0.insert(what, ());
    }

    fn program(&mut self, program: &Program) {
        for tensor in &program.tensors {
            self.has(match tensor.elem {
                Elem::F64 => "element: f64",
                Elem::F16 => "element: f16",
                Elem::Bf16 => "element: bf16",
                Elem::I32 => "element: i32",
                Elem::U32 => "element: u32",
                Elem::I8 => "element: i8",
                Elem::U8 => "element: u8",
                // The others are not drawn.
                _ => "element: f32",
            });
        }
        for stmt in &program.body {
            stmt.each(&mut |stmt| self.statement(program, stmt));
        }
    }

    fn statement(&mut self, program: &Program, stmt: &Stmt) {
        for view in stmt.reads().into_iter().chain(stmt.writes()) {
            view.base.iter().for_each(|base| self.coordinates(base));
            if !view.clamped.is_empty() {
                self.has("bound: clamped");
            }
            if view.limits.iter().any(Option::is_some) {
                self.has("bound: ragged");
            }
        }
        let what = match &stmt.op {
            Op::Copy { from, to, how, fill, .. } => {
                self.copy(program, (from.tensor, to.tensor), *how, fill.to_f64());
                "statement: copy"
            }
            Op::Fill { value, .. } => {
                self.function(value);
                "statement: fill"
            }
            Op::Map { value, .. } => {
                self.function(value);
                "statement: map"
            }
            Op::Gemm { .. } => {
                self.product(program, &stmt.op);
                "statement: gemm"
            }
            Op::Reduce { across, .. } => {
                self.has(match across {
                    Across::Thread => "reduce: thread",
                    Across::Warp(32) => "reduce: warp",
                    Across::Warp(_) => "reduce: part of a warp",
                    Across::Block => "reduce: block",
                    Across::Submodes(_) => "reduce: digits of threads",
                    // No kernel is drawn with it: the reference executes the blocks of a cluster one after another.
                    Across::Cluster(_) | Across::Blocks(_) => "reduce: cluster",
                });
                "statement: reduce"
            }
            Op::Fold { with, .. } => {
                with.iter().for_each(|value| self.function(value));
                "statement: fold"
            }
            Op::Scan { how, .. } => {
                how.with.iter().for_each(|value| self.function(value));
                "statement: scan"
            }
            Op::WaitCopies { .. } => "statement: wait for copies",
            Op::CommitCopies => "statement: commit copies",
            Op::Sync => "statement: sync",
            Op::For { var, unroll, .. } => {
                self.repeat(program, *var, *unroll);
                "statement: for"
            }
            Op::Leave { test, .. } => {
                test.integers().into_iter().for_each(|at| self.coordinates(at));
                "statement: leave"
            }
            Op::Pipelined { .. } => "statement: pipelined",
            Op::Step { at, past, .. } => {
                self.coordinates(at);
                self.has(match past {
                    Past::Skip => "past: skip",
                    Past::Last => "past: last",
                    Past::Anyway => "past: anyway",
                    Past::Inside => "past: inside",
                });
                "statement: step"
            }
            Op::Take { .. } => "statement: take",
            Op::If { test, .. } => {
                test.integers().into_iter().for_each(|at| self.coordinates(at));
                self.test(test);
                "statement: if"
            }
            Op::Roles(_) => "statement: roles",
            Op::Acquire { phase, .. } => {
                self.coordinates(phase);
                "statement: acquire"
            }
            Op::Publish { phase, .. } => {
                self.coordinates(phase);
                "statement: publish"
            }
            Op::Await { phase, .. } => {
                self.coordinates(phase);
                "statement: await"
            }
            Op::Release { phase, .. } => {
                self.coordinates(phase);
                "statement: release"
            }
            Op::Wait { .. } => "statement: wait for a token",
            Op::Advance { .. } => "statement: advance",
            Op::Tiles { .. } => "statement: tiles",
            // Not drawn: tested by programs of the builder in `codegen/tests/all/choreography.rs`.
            Op::Ordered { .. } => return,
            // Cooperating blocks are not drawn either, nor exchanges between lanes, which `simulated lanes` tests.
            Op::Lanes { .. }
            | Op::Atomic { .. }
            | Op::Gather { .. }
            | Op::Scatter { .. }
            | Op::Signal { .. }
            | Op::AwaitFlag { .. }
            | Op::SyncCluster
            | Op::Flow { .. }
            | Op::Contents { .. } => return,
        };
        self.has(what);
    }

    fn test(&mut self, test: &Test) {
        self.has(match test {
            Test::Less(..) => "condition: less",
            Test::Equal(..) => "condition: equal",
            Test::IsTrue(_) => "condition: scalar",
            Test::Not(_) => "condition: not",
            Test::Both(_) => "condition: and",
            Test::Either(_) => "condition: or",
        });
        if test.per_thread() {
            self.has("condition: divergent");
        }
        test.inside().iter().for_each(|inner| self.test(inner));
    }

    fn product(&mut self, program: &Program, op: &Op) {
        let Op::Gemm { a, how, order, .. } = op else { return };
        if how.semiring() != Semiring::SUMS {
            self.has("gemm: other operations");
        }
        self.has(match order {
            Order::Plain => "gemm: plain",
            Order::Serpentine => "gemm: serpentine",
            Order::Rows => "gemm: rows",
            Order::RowSerpentine => "gemm: row serpentine",
        });
        if let Multiply::Atom(_) = how {
            self.has("gemm: by an instruction");
        } else if !matches!(program.tensor(a.tensor).space, Space::Registers { .. }) {
            self.has("gemm: from memory");
        }
    }

    fn repeat(&mut self, program: &Program, var: u32, unroll: Unroll) {
        let var = &program.vars[var as usize];
        if var.extent().is_none() {
            [&var.from, &var.to].into_iter().for_each(|end| self.coordinates(end));
            self.has("loop: ends computed");
        }
        self.has(match unroll {
            Unroll::No => "loop: not unrolled",
            Unroll::Full => "loop: unrolled fully",
            Unroll::By(_) => "loop: unrolled by",
        });
    }

    fn copy(&mut self, program: &Program, (from, to): (u32, u32), how: How, fill: f64) {
        self.has(match how {
            How::Derive => "copy: derived",
            How::Async => "copy: asynchronous",
            How::Plain => "copy: plain",
            How::Realigned => "copy: realigned",
            How::Staged => "copy: staged",
            How::Here => "copy: here",
            How::Atom(_) => "copy: by an instruction",
        });
        let (from, to) = (program.tensor(from), program.tensor(to));
        use Space::{Global, Registers, Shared};
        self.has(match (from.space, to.space) {
            (Global { .. }, Registers { .. }) => "copy: global to registers",
            (Global { .. }, Shared { .. }) => "copy: global to shared",
            (Global { .. }, Global { .. }) => "copy: global to global",
            (Shared { .. }, Registers { .. }) => "copy: shared to registers",
            (Shared { .. }, Shared { .. }) => "copy: shared to shared",
            (Shared { .. }, Global { .. }) => "copy: shared to global",
            (Registers { .. }, Registers { .. }) => "copy: registers to registers",
            (Registers { .. }, Shared { .. }) => "copy: registers to shared",
            (Registers { .. }, Global { .. }) => "copy: registers to global",
        });
        if from.elem != to.elem {
            self.has("copy: converts");
        }
        if fill != 0.0 {
            self.has("copy: custom fill");
        }
    }

    fn coordinates(&mut self, of: &Affine) {
        for (coord, _) in &of.terms {
            let what = match coord {
                Coord::Block(_) => "coordinate: block",
                Coord::Var(_) => "coordinate: loop",
                Coord::Thread(_) => "coordinate: thread",
                Coord::Swizzled(..) => "coordinate: swizzled thread",
                Coord::ClusterRank => "coordinate: cluster rank",
                // Families are not drawn either.
                Coord::Member(_) => return,
                Coord::Begin { iteration, .. } => {
                    self.coordinates(iteration);
                    "coordinate: begin"
                }
                Coord::Submode { of, .. } => {
                    self.coordinates(of);
                    "coordinate: digit"
                }
                Coord::Phase(_) => "coordinate: phase",
                Coord::Size { .. } => "coordinate: size",
                Coord::Scalar(_) => "coordinate: scalar",
                Coord::Loaded { per_thread: false, .. } => "coordinate: loaded by the block",
                Coord::Loaded { per_thread: true, .. } => "coordinate: loaded by a thread",
                Coord::Two(with, of) => {
                    of.iter().for_each(|of| self.coordinates(of));
                    match with {
                        Arith::Mul => "coordinate: product",
                        Arith::Div => "coordinate: quotient",
                        Arith::Rem => "coordinate: remainder",
                        Arith::Min => "coordinate: minimum",
                        Arith::Max => "coordinate: maximum",
                    }
                }
            };
            self.has(what);
        }
    }

    fn function(&mut self, of: &Expr) {
        let (what, parts): (_, Vec<&Expr>) = match of {
            Expr::In(_) => ("function: input", vec![]),
            Expr::Lit(_) => ("function: literal", vec![]),
            Expr::Scalar(_) => ("function: scalar", vec![]),
            Expr::Coord(..) | Expr::At(_) => ("function: coordinate", vec![]),
            Expr::Index(at) => {
                self.coordinates(at);
                ("function: integer of the kernel", vec![])
            }
            Expr::Size(_) => ("function: size", vec![]),
            Expr::Bits(_, x) => ("function: bits", vec![x]),
            // Programs are compared in the simulator, which computes the model.
            Expr::Ptx { args, .. } => return args.iter().for_each(|part| self.function(part)),
            Expr::Un(_, x) => ("function: unary", vec![x]),
            Expr::Bin(_, x, y) => ("function: binary", vec![x, y]),
            Expr::Fma(x) => ("function: fma", x.iter().collect()),
            Expr::Cmp(_, x, y) => ("function: comparison", vec![x, y]),
            Expr::Pick(x) => ("function: select", x.iter().collect()),
            Expr::Cast(_, x) => ("function: cast", vec![x]),
        };
        self.has(what);
        parts.into_iter().for_each(|part| self.function(part));
    }

    /// The features of the thread programs that ran.
    fn variants(&mut self, right: &Right) {
        let ran = |at: usize| right.ran[at] > 0;
        for (_, variant) in right.kernel.variants.iter().enumerate().filter(|(at, _)| ran(*at)) {
            self.thread_list(&variant.program.body);
            if variant.program.vars.iter().any(|var| var.name.ends_with("_short")) {
                self.has("bound: partial first tile");
            }
        }
        let policies = [
            (Policy::Best, "variant: best"),
            (Policy::Aligned, "variant: aligned"),
            (Policy::Small, "variant: small"),
            (Policy::General, "variant: general"),
        ];
        let all = right.kernel.variants.len();
        for (index, (policy, what)) in policies.into_iter().enumerate() {
            // Variants with the same needs are generated once.
            let at = match all {
                4 => Some(index),
                _ => pass::lower(right.program.clone(), policy).ok().and_then(|program| {
                    right.kernel.variants.iter().position(|variant| variant.program.needs == program.needs)
                }),
            };
            if at.is_some_and(ran) {
                self.has(what);
            }
        }
    }

    fn thread_list(&mut self, body: &[thread::Stmt]) {
        for stmt in body {
            match &stmt.op {
                thread::Op::Load { to, guard, .. } => {
                    self.has(if guard.is_some() { "bound: guarded read" } else { "bound: proven read" });
                    self.width(to);
                }
                thread::Op::Store { from, guard, .. } => {
                    self.has(if guard.is_some() { "bound: guarded write" } else { "bound: proven write" });
                    self.width(from);
                }
                thread::Op::Atom { row, .. } if row.name.ends_with("_or_zero") => {
                    self.has("bound: asynchronous or zero");
                }
                thread::Op::Assign { value: thread::Val::Bin(_, _, value), .. } => {
                    if matches!(**value, thread::Val::Guarded(..)) {
                        self.has("bound: mask");
                    }
                }
                thread::Op::For { body, .. } | thread::Op::Elect(_, body) => self.thread_list(body),
                thread::Op::If { then, other, .. } | thread::Op::When { then, other, .. } => {
                    self.thread_list(then);
                    self.thread_list(other);
                }
                thread::Op::Roles(roles) => {
                    roles.iter().for_each(|role| self.thread_list(&role.body));
                }
                _ => {}
            }
        }
    }

    fn width(&mut self, of: &thread::Frag) {
        match of.len {
            1 => self.has("width: 1"),
            2 => self.has("width: 2"),
            4 => self.has("width: 4"),
            8 => self.has("width: 8"),
            16 => self.has("width: 16"),
            _ => {}
        }
    }
}
