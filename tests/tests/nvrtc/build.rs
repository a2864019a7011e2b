//! Thread programs by hand: what lowering would make, written down in tests.

use tilewright_codegen::Elem;
use tilewright_codegen::index::{Exprs, Int, Ix};
use tilewright_codegen::thread::*;
use tilewright_layout::{Symbol, Value};

/// Extents that a launch accepts.
const MOST: i64 = i32::MAX as i64 - (1 << 16);

/// A kernel that is being written.
pub(crate) struct Build {
    pub(crate) k: Kernel,
    bytes: u32,
}

/// A statement of a kernel written by hand comes from nowhere.
pub(crate) fn s(op: Op) -> Stmt {
    Stmt { site: 0, op }
}

pub(crate) fn comment(text: &str) -> Stmt {
    s(Op::Comment(text.into()))
}

pub(crate) fn sync() -> Stmt {
    s(Op::Sync(0))
}

pub(crate) fn assign(reg: Id, at: Ix, value: Val) -> Stmt {
    s(Op::Assign { reg, at, value })
}

pub(crate) fn load(to: Frag, space: Space, index: Ix, guard: Option<Ix>) -> Stmt {
    s(Op::Load { to, from: Mem { space, index, peer: None }, guard, fill: 0.0, stays: None })
}

pub(crate) fn store(space: Space, index: Ix, from: Frag, guard: Option<Ix>) -> Stmt {
    s(Op::Store { to: Mem { space, index, peer: None }, from, guard })
}

pub(crate) fn atom(name: &str, args: Vec<AtomArg>) -> Stmt {
    let row = tilewright_codegen::atoms::find(name).unwrap_or_else(|| panic!("no row {name}"));
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
        let launch =
            Launch { grid: Default::default(), cluster: [1; 3], threads, shared_bytes: 0, blocks_per_sm: 0 };
        let k = Kernel {
            name: name.into(),
            arch,
            arch_specific: false,
            launch,
            needs: vec![],
            params: vec![],
            shared: vec![],
            regs: vec![],
            bars: vec![Bar::Block],
            exprs: Exprs::default(),
            vars: vec![],
            sites: vec![Site::default()],
            body: vec![],
        };
        Build { k, bytes: 0 }
    }

    pub(crate) fn done(mut self, body: Vec<Stmt>) -> Kernel {
        self.k.launch.shared_bytes = self.bytes;
        self.k.body = body;
        self.k
    }

    pub(crate) fn e(&mut self) -> &mut Exprs {
        &mut self.k.exprs
    }

    pub(crate) fn int(&mut self, n: i64) -> Ix {
        self.e().int(n)
    }

    pub(crate) fn thread(&mut self) -> Ix {
        let last = i64::from(self.k.launch.threads) - 1;
        self.e().leaf(Int::Thread, 0, last, 1, Scope::Thread)
    }

    pub(crate) fn block(&mut self, axis: u8) -> Ix {
        let last = [(1 << 23) - 1, 65535, 65535][usize::from(axis)];
        self.e().leaf(Int::Block(axis), 0, last, 1, Scope::Block)
    }

    /// The number of this thread in the grid.
    pub(crate) fn global_thread(&mut self) -> Ix {
        let (tid, bx, threads) = (self.thread(), self.block(0), i64::from(self.k.launch.threads));
        let at = self.sum(&[(bx, threads), (tid, 1)], 0);
        self.e().assume(at, 0, MOST);
        at
    }

    /// `x*4 + y*128 + … + c`
    pub(crate) fn sum(&mut self, terms: &[(Ix, i64)], c: i64) -> Ix {
        let mut total = self.int(0);
        for &(x, n) in terms {
            let n = self.int(n);
            let term = self.e().mul(x, n);
            total = self.e().add(total, term);
        }
        let c = self.int(c);
        self.e().add(total, c)
    }

    /// An integer parameter of 32 bits.
    pub(crate) fn extent(&mut self, name: &str) -> Ix {
        self.int_param(name, MOST, false)
    }

    pub(crate) fn int_param(&mut self, name: &str, hi: i64, wide: bool) -> Ix {
        let id = self.k.params.len() as Id;
        self.k.params.push(Param::Int { name: name.into(), symbol: Symbol::new(name), wide });
        self.e().leaf(Int::Param(id), 1, hi, 1, Scope::Grid)
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
        self.k.params.push(Param::Pointer { name: name.into(), elem, write, shape, stride });
        Space::Global(self.k.params.len() as Id - 1)
    }

    pub(crate) fn scalar(&mut self, name: &str, elem: Elem) -> Val {
        self.k.params.push(Param::Scalar { name: name.into(), elem });
        Val::Param(self.k.params.len() as Id - 1)
    }

    pub(crate) fn map(&mut self, name: &str, tensor: Space, tile: &[u32], swizzle: u32) -> Id {
        let Space::Global(tensor) = tensor else { panic!("a map of shared memory") };
        let modes = (0..tile.len() as u8).collect();
        self.k.params.push(Param::TensorMap { name: name.into(), tensor, tile: tile.into(), modes, swizzle });
        self.k.params.len() as Id - 1
    }

    pub(crate) fn shared(&mut self, name: &str, elem: Elem, len: u32, align: u32, note: &str) -> Space {
        let offset = self.bytes.next_multiple_of(align);
        let array = Shared { name: name.into(), elem, len, offset, align, note: note.into() };
        self.bytes = offset + array.bytes();
        self.k.shared.push(array);
        Space::Shared(self.k.shared.len() as Id - 1)
    }

    pub(crate) fn mbarriers(&mut self, name: &str, slots: u32, count: u32) -> Id {
        let offset = self.bytes.next_multiple_of(8);
        self.bytes = offset + 8 * slots;
        self.bar(Bar::Mbarriers { name: name.into(), offset, slots, count })
    }

    pub(crate) fn bar(&mut self, bar: Bar) -> Id {
        self.k.bars.push(bar);
        self.k.bars.len() as Id - 1
    }

    pub(crate) fn reg(&mut self, name: &str, elem: Elem, len: u32) -> Id {
        self.k.regs.push(Reg { name: name.into(), elem, len, words: false });
        self.k.regs.len() as Id - 1
    }

    pub(crate) fn words(&mut self, name: &str, elem: Elem, len: u32) -> Id {
        self.k.regs.push(Reg { name: name.into(), elem, len, words: true });
        self.k.regs.len() as Id - 1
    }

    pub(crate) fn frag(&mut self, reg: Id, at: i64, len: u32) -> Frag {
        let at = self.int(at);
        Frag { reg, at, len }
    }

    /// All of a register array as an operand.
    pub(crate) fn whole(&mut self, reg: Id) -> AtomArg {
        let len = self.k.regs[reg as usize].len;
        AtomArg::Frag(self.frag(reg, 0, len))
    }

    pub(crate) fn number(&mut self, n: i64) -> AtomArg {
        AtomArg::Int(self.int(n))
    }

    /// A variable with its range.
    pub(crate) fn var(&mut self, name: &str, lo: i64, hi: i64) -> (Id, Ix) {
        let id = self.k.vars.len() as Id;
        let wide = hi > i64::from(i32::MAX);
        self.k.vars.push(Var { name: name.into(), mutable: false, wide });
        let same = if name == "k" { Scope::Grid } else { Scope::Thread };
        (id, self.e().leaf(Int::Var(id), lo, hi, 1, same))
    }

    /// Names an expression.
    pub(crate) fn name(&mut self, name: &str, value: Ix) -> (Stmt, Ix) {
        let known = self.e().get(value).clone();
        let id = self.k.vars.len() as Id;
        let wide = known.hi > i64::from(i32::MAX);
        self.k.vars.push(Var { name: name.into(), mutable: false, wide });
        let leaf = self.e().leaf(Int::Var(id), known.lo, known.hi, known.multiple, known.same_for);
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
