//! Hand-written thread programs, in the form that lowering generates.

use std::ops::{Deref, DerefMut};

use tilewright_codegen::Elem;
use tilewright_codegen::index::{Int, Ix};
use tilewright_codegen::thread::*;
use tilewright_layout::Value;
use tilewright_tests::hand::Hand;

/// The largest extent that a launch accepts.
const MOST: i64 = i32::MAX as i64 - (1 << 16);

/// A kernel under construction.
pub(crate) struct Build {
    hand: Hand,
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

/// A statement without a source site.
pub(crate) fn s(op: Op) -> Stmt {
    Stmt { site: 0, op }
}

pub(crate) fn sync() -> Stmt {
    s(Op::sync(0))
}

pub(crate) fn assign(reg: Id, at: Ix, value: Val) -> Stmt {
    s(Op::Assign { reg, at, value })
}

pub(crate) fn load(to: Frag, space: Space, index: Ix, guard: Option<Ix>) -> Stmt {
    s(Op::Load { to, from: Mem { space, index, peer: None }, guard, fill: 0.0.into(), volatile_at: None })
}

pub(crate) fn store(space: Space, index: Ix, from: Frag, guard: Option<Ix>) -> Stmt {
    s(Op::Store { to: Mem { space, index, peer: None }, from, guard })
}

pub(crate) fn atom(name: &str, args: Vec<AtomArg>) -> Stmt {
    let row = tilewright_codegen::isa::find(name).unwrap_or_else(|| panic!("no row {name}"));
    assert_eq!(row.operands.len(), args.len(), "{name}");
    s(Op::Atom { row, args, guard: None })
}

pub(crate) fn at(space: Space, index: Ix) -> AtomArg {
    AtomArg::At(Mem { space, index, peer: None })
}

pub(crate) fn un(f: Un, x: Val) -> Val {
    Val::Un(f, Box::new(x))
}

pub(crate) fn bin(f: Bin, x: Val, y: Val) -> Val {
    Val::Bin(f, Box::new(x), Box::new(y))
}

pub(crate) fn fma(x: Val, y: Val, z: Val) -> Val {
    Val::Fma(Box::new([x, y, z]))
}

impl Build {
    pub(crate) fn new(name: &str, arch: u32, threads: u32) -> Build {
        Build { hand: Hand::new(name, arch, threads) }
    }

    pub(crate) fn done(self, body: Vec<Stmt>) -> Kernel {
        self.hand.done(body)
    }

    pub(crate) fn block(&mut self, axis: u8) -> Ix {
        let last = [(1 << 23) - 1, 65535, 65535][usize::from(axis)];
        self.e().leaf(Int::Block(axis), 0, last, 1, Scope::Block)
    }

    /// The global thread index.
    pub(crate) fn global_thread(&mut self) -> Ix {
        let (tid, bx, threads) = (self.thread(), self.block(0), i64::from(self.k.launch.threads));
        let at = self.sum(&[(bx, threads), (tid, 1)], 0);
        self.e().assume(at, 0, MOST);
        at
    }

    /// A 32-bit integer parameter.
    pub(crate) fn extent(&mut self, name: &str) -> Ix {
        self.int_param(name, MOST, false)
    }

    pub(crate) fn pointer(&mut self, name: &str, elem: Elem, write: bool) -> Space {
        self.tensor(name, elem, write, &[], &[])
    }

    pub(crate) fn tensor(
        &mut self,
        name: &str,
        elem: Elem,
        write: bool,
        shape: &[&str],
        stride: &[&str],
    ) -> Space {
        let values = |names: &[&str]| {
            names.iter().map(|n| n.parse().map(Value::Int).unwrap_or_else(|_| Value::symbol(n))).collect()
        };
        let (shape, stride) = (values(shape), values(stride));
        self.tensor_of(name, elem, write, shape, stride)
    }

    pub(crate) fn scalar(&mut self, name: &str, elem: Elem) -> Val {
        Val::Param(self.param(Param::Scalar { name: name.into(), elem }))
    }

    pub(crate) fn map(&mut self, name: &str, tensor: Space, tile: &[u32], swizzle: u32) -> Id {
        let modes: Vec<u8> = (0..tile.len() as u8).collect();
        self.map_of(name, tensor, tile, &modes, swizzle)
    }

    pub(crate) fn shared(&mut self, name: &str, elem: Elem, len: u32, align: u32, note: &str) -> Space {
        self.shared_at(name, elem, len, align, note)
    }

    pub(crate) fn words(&mut self, name: &str, elem: Elem, len: u32) -> Id {
        self.k.regs.push(Reg { name: name.into(), elem, len, words: true });
        self.k.regs.len() as Id - 1
    }

    pub(crate) fn frag(&mut self, reg: Id, at: i64, len: u32) -> Frag {
        let at = self.int(at);
        Frag { reg, at, len }
    }

    /// A whole register array as an operand.
    pub(crate) fn whole(&mut self, reg: Id) -> AtomArg {
        let len = self.k.regs[reg as usize].len;
        AtomArg::Frag(self.frag(reg, 0, len))
    }

    pub(crate) fn number(&mut self, n: i64) -> AtomArg {
        AtomArg::Int(self.int(n))
    }

    /// A variable with its range.
    pub(crate) fn var(&mut self, name: &str, lo: i64, hi: i64) -> (Id, Ix) {
        let same = if name == "k" { Scope::Grid } else { Scope::Thread };
        self.var_of(name, [lo, hi], 1, same)
    }

    /// Names an expression.
    pub(crate) fn name(&mut self, name: &str, value: Ix) -> (Stmt, Ix) {
        let known = self.e().get(value).clone();
        let (id, leaf) = self.var_of(name, [known.lo, known.hi], known.multiple, known.same_for);
        (s(Op::Let(id, value)), leaf)
    }

    /// An unrolled loop from 0.
    pub(crate) fn repeat(
        &mut self,
        name: &str,
        n: i64,
        body: impl FnOnce(&mut Build, Ix) -> Vec<Stmt>,
    ) -> Stmt {
        let to = self.int(n);
        self.until(name, to, Unroll::Full, body)
    }

    pub(crate) fn until(
        &mut self,
        name: &str,
        to: Ix,
        unroll: Unroll,
        body: impl FnOnce(&mut Build, Ix) -> Vec<Stmt>,
    ) -> Stmt {
        let last = self.e().get(to).hi - 1;
        let (var, ix) = self.var(name, 0, last);
        let (from, body) = (self.int(0), body(self, ix));
        s(Op::For { var, from, to, step: 1, unroll, body })
    }
}
