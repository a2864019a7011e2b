//! Thread programs by hand, each with one fault.
#![allow(dead_code, unreachable_pub)]

use std::ops::{Deref, DerefMut};

use tilewright_codegen::Elem;
use tilewright_codegen::ast::Span;
use tilewright_codegen::index::{Int, Ix};
use tilewright_codegen::kernel_def::Locations;
use tilewright_codegen::thread::*;
use tilewright_layout::{Symbol, Value};
use tilewright_sim::{Arg, Error, Fault, Options, Outcome, run_program};

// Tests of other crates write programs by hand as well.
#[path = "../../../tests/src/hand.rs"]
mod hand;
use hand::Hand;

/// A program that is being written.
pub struct Build {
    hand: Hand,
    line: u32,
}

impl Deref for Build {
    type Target = Hand;

    fn deref(&self) -> &Hand {
        &self.hand
    }
}

impl DerefMut for Build {
    fn deref_mut(&mut self) -> &mut Hand {
        &mut self.hand
    }
}

pub fn frag(reg: Id, at: Ix, len: u32) -> Frag {
    Frag { reg, at, len }
}

pub fn mem(space: Space, index: Ix) -> Mem {
    Mem { space, index, peer: None }
}

/// A load with default operands.
pub fn load_op(to: Frag, from: Mem, guard: Option<Ix>, fill: f64) -> Op {
    Op::Load { to, from, guard, fill: fill.into(), volatile_at: None }
}

impl Build {
    /// A program of one block with this number of threads.
    pub fn new(threads: u32) -> Build {
        Build { hand: Hand::new("probe", 90, threads), line: 0 }
    }

    pub fn blocks(mut self, count: i64) -> Build {
        self.k.launch.grid = [vec![Value::Int(count)], vec![], vec![]];
        self
    }

    pub fn cluster(mut self, count: u32) -> Build {
        self.k.launch.cluster = [count, 1, 1];
        self.blocks(i64::from(count))
    }

    pub fn block(&mut self) -> Ix {
        self.e().leaf(Int::Block(0), 0, 65535, 1, Scope::Block)
    }

    pub fn rank(&mut self) -> Ix {
        self.e().leaf(Int::ClusterRank, 0, 7, 1, Scope::Block)
    }

    pub fn lt(&mut self, a: Ix, n: i64) -> Ix {
        let n = self.int(n);
        self.e().lt(a, n)
    }

    /// A tensor of one mode, contiguous.
    pub fn tensor(&mut self, name: &str, elem: Elem, write: bool) -> Space {
        let symbol = Value::Sym { times: 1, of: Symbol::new(&format!("N{name}")), over: 1 };
        self.matrix(name, elem, write, vec![symbol], vec![Value::Int(1)])
    }

    pub fn matrix(
        &mut self,
        name: &str,
        elem: Elem,
        write: bool,
        shape: Vec<Value>,
        stride: Vec<Value>,
    ) -> Space {
        self.tensor_of(name, elem, write, shape, stride)
    }

    pub fn map(&mut self, tensor: Space, tile: &[u32], modes: &[u8], swizzle: u32) -> Id {
        self.map_of("map", tensor, tile, modes, swizzle)
    }

    pub fn shared(&mut self, name: &str, elem: Elem, len: u32, note: &str) -> Space {
        self.shared_at(name, elem, len, 1024, note)
    }

    /// A statement with its own line.
    pub fn s(&mut self, op: Op) -> Stmt {
        self.line += 1;
        let span = Span(self.line);
        self.k.sites.push(Site { tensor: String::new(), span, coord: vec![] });
        Stmt { site: self.k.sites.len() as Id - 1, op }
    }

    pub fn load(&mut self, reg: Id, from: Space, index: Ix, len: u32) -> Stmt {
        let zero = self.int(0);
        self.s(load_op(frag(reg, zero, len), mem(from, index), None, 0.0))
    }

    pub fn store(&mut self, to: Space, index: Ix, reg: Id, len: u32) -> Stmt {
        let zero = self.int(0);
        self.s(Op::Store { to: mem(to, index), from: frag(reg, zero, len), guard: None })
    }

    pub fn set(&mut self, reg: Id, at: i64, value: Val) -> Stmt {
        let at = self.int(at);
        self.s(Op::Assign { reg, at, value })
    }

    pub fn fill(&mut self, reg: Id, len: i64, value: f64, elem: Elem) -> Vec<Stmt> {
        (0..len).map(|at| self.set(reg, at, Val::lit(value, elem))).collect()
    }

    pub fn sync(&mut self) -> Stmt {
        self.s(Op::sync(0))
    }

    pub fn one(&mut self, scope: Scope, body: Vec<Stmt>) -> Stmt {
        self.s(Op::Elect(scope, body))
    }

    pub fn atom(&mut self, name: &str, args: Vec<AtomArg>) -> Stmt {
        let row = tilewright_codegen::isa::find(name).unwrap_or_else(|| panic!("no row {name}"));
        self.s(Op::Atom { row, args, guard: None })
    }

    pub fn if_(&mut self, cond: Ix, then: Vec<Stmt>) -> Stmt {
        self.s(Op::If { cond: cond.into(), then, other: vec![] })
    }

    pub fn repeat(
        &mut self,
        count: i64,
        unroll: Unroll,
        body: impl FnOnce(&mut Build, Ix) -> Vec<Stmt>,
    ) -> Stmt {
        let (var, at) = self.var_of("i", [0, count - 1], 1, Scope::Block);
        let body = body(self, at);
        let (from, to) = (self.int(0), self.int(count));
        self.s(Op::For { var, from, to, step: 1, unroll, body })
    }

    /// Initialises mbarriers, fences that, and synchronises the block.
    pub fn start(&mut self, bars: &[Id]) -> Vec<Stmt> {
        let mut init: Vec<Stmt> = bars.iter().map(|&bar| self.s(Op::InitBarriers(bar))).collect();
        init.push(self.s(Op::Fence(Fence::MbarrierInit)));
        vec![self.one(Scope::Block, init), self.sync()]
    }

    pub fn done(self, body: Vec<Stmt>) -> Kernel {
        self.hand.done(body)
    }
}

/// Numbers equal to their index.
pub fn count(n: usize) -> Vec<f32> {
    (0..n).map(|x| x as f32).collect()
}

pub fn options() -> Options {
    let locations = Locations { file: "probe.rs".into(), lines: (0..1000).collect() };
    Options { locations: Some(locations), threads: 1, ..Options::default() }
}

/// Runs it in some schedules and returns the fault, which every one of them must show.
#[track_caller]
pub fn fault(kernel: &Kernel, args: &[Arg]) -> Fault {
    let mut first = None;
    for seed in 0..8 {
        match run_program(kernel, args, &Options { seed, ..options() }) {
            Ok(_) => panic!("no fault with seed {seed}"),
            Err(Error::Fault(fault)) => {
                assert_eq!(fault.seed(), seed);
                first.get_or_insert(*fault);
            }
            Err(error) => panic!("{error}"),
        }
    }
    first.expect("a fault")
}

/// The fault's text without the first line, which names the kernel, and the last, which names the seed.
#[track_caller]
pub fn check(kernel: &Kernel, args: &[Arg], expected: &str) {
    let text = fault(kernel, args).to_string();
    assert_eq!(text, expected.trim(), "\n{text}\n");
}

/// Runs without a fault in any of some schedules.
#[track_caller]
pub fn fine(kernel: &Kernel, args: &[Arg]) -> Outcome {
    match run_program(kernel, args, &Options { schedules: 20, ..options() }) {
        Ok(outcome) => outcome,
        Err(error) => panic!("{error}"),
    }
}
