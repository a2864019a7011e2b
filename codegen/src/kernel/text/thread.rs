//! The text of thread programs. It lists index expressions in a table, each with its analysis, so that the
//! parsed program is identical, ranges included.

use std::fmt;
use std::str::FromStr;

use super::{Reader, Result, Text, Writer, Wrong, read_field, records, variants, write_field};
use crate::thread::index::{Expr, Exprs, Int, Ix};
use crate::thread::{
    AtomArg, Bar, Change, Claim, Cost, Fact, Fence, Frag, Kernel, Launch, Mem, MemoryOrder, Op, Param, Queue,
    Reg, Role, Shared, Site, Space, Stmt, Val, Var,
};
use crate::values::number::Number;

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&super::print(self))
    }
}

impl FromStr for Kernel {
    type Err = Wrong;

    fn from_str(text: &str) -> std::result::Result<Kernel, Wrong> {
        super::parse(text)
    }
}

macro_rules! lines {
    ($($field:ident)*) => {
        impl Text for Kernel {
            fn write(&self, to: &mut Writer) {
                to.raw("thread_program {");
                to.indent += 1;
                $(
                    to.new_line();
                    write_field!(to, stringify!($field), &self.$field);
                )*
                to.indent -= 1;
                to.new_line();
                to.raw("}");
            }

            fn read(from: &mut Reader<'_>) -> Result<Kernel> {
                from.needs("thread_program")?;
                from.needs("{")?;
                let kernel = Kernel { $($field: read_field!(from, stringify!($field)),)* };
                from.needs("}")?;
                Ok(kernel)
            }
        }
    };
}

lines! { name arch arch_specific launch needs params shared regs bars vars sites exprs body }

records! {
    Launch {
        grid, persistent = false, cluster = [1; 3], threads, shared_bytes = 0, blocks_per_sm = 0, overlaps = false,
        cost = None, packs = Vec::new()
    }
    Cost { steps, times = [None; 2], over = 0, step, guarded_step = 0, resident = 0, alone = 0, cut = 0, beyond, rows, received = 0, tile, guarded_tile = 0, launch }
    Shared { name, elem, len, offset, align, note }
    Reg { name, elem, len, words = false }
    Var { name, mutable = false, wide = false }
    Site { tensor, coord = Vec::new(), - span }
    Mem { space, index, peer = None }
    Frag { reg, at, len }
    Claim { value, inside, number, at }
    Role { name, warps, registers = None, body }
    Expr { int, lo, hi, multiple, same_for }
}

variants! {
    Change {
        "add" Add, "sub" Sub, "min" Min, "max" Max, "and" And, "or" Or, "xor" Xor, "exchange" Exchange,
        "compare_exchange" CompareExchange, "await" Await,
    }
    MemoryOrder { "relaxed" Relaxed, "acquire" Acquire, "release" Release, "both" Both }
    Fact { "divides" Divides(what), "at_most" AtMost { of, limit }, "at_least" AtLeast { of, limit }, "aligned" Aligned { param, bytes }, "small" Small { param, beyond } }
    Param {
        "pointer" Pointer { name, elem, write, shape, stride },
        "int" Int { name, symbol, wide = false },
        "scalar" Scalar { name, elem },
        "tensor_map" TensorMap { name, tensor, tile, steps, modes, swizzle },
    }
    Bar {
        "block" Block, "named" Named { id, threads }, "cluster" Cluster, "cluster_start" ClusterStart,
        "mbarriers" Mbarriers { name, offset, slots, count, scope },
    }
    Space { "global" Global(param), "shared" Shared(array) }
    Fence { "proxy_async" ProxyAsync, "mbarrier_init" MbarrierInit, "wgmma" Wgmma, "threads" Threads(scope) }
    Queue { "cp_async" CpAsync, "bulk" Bulk, "bulk_read" BulkRead, "wgmma" Wgmma }
    AtomArg {
        "frag" Frag(frag), "at" At(mem), "descriptor" Descriptor { at, leading, stride, mode },
        "map" Map { param, at }, "barrier" Barrier { bar, slot }, "int" Int(at),
    }
    Val {
        "reg" Reg(reg, at), "lit" Lit(number, elem), "int" Int(at, elem), "param" Param(param), "un" Un(f, x),
        "bin" Bin(f, x, y), "fma" Fma(parts), "product" Product(row, parts), "cast" Cast(elem, x), "bits" Bits(elem, x), "guarded" Guarded(guard, x, y),
        "cmp" Cmp(f, x, y), "pick" Pick(parts), "shuffle_xor" ShuffleXor(x, lanes),
        "shuffle" Shuffle(lanes, parts), "ballot" Ballot(x), "match" Match(x), "of_warp" OfWarp(f, x),
        "ptx" Ptx { text, elem, volatile, args, model },
    }
    Int {
        "const" Const(n), "var" Var(id), "param" Param(id), "thread" Thread, "block" Block(axis), "grid" Grid(axis),
        "rank" ClusterRank, "add" Add(a, b), "sub" Sub(a, b), "mul" Mul(a, b), "div" Div(a, b), "rem" Rem(a, b),
        "and" And(a, b), "or" Or(a, b), "xor" Xor(a, b), "shl" Shl(a, b), "shr" Shr(a, b), "min" Min(a, b),
        "max" Max(a, b), "lt" Lt(a, b), "within" Within(at, end), "eq" Eq(a, b), "all" All(a, b), "not" Not(a), "select" Select(a, b, c),
        "wrap" Wrap(at, end, last),
    }
    Op {
        "comment" Comment(line),
        "let" Let(var, value),
        "set" Set(var, value),
        "take" Take(var, value),
        "assign" Assign { reg, at, value },
        "load" Load { to, from, guard = None, fill = Number::Float(0.0), stays = None },
        "store" Store { to, from, guard = None },
        "atomic" Atomic { to, op, value, guard = None, order = MemoryOrder::Relaxed, scope = crate::thread::Scope::Grid, old = None, expected = None },
        "atom" Atom { row, args, guard = None },
        "commit" Commit(queue),
        "wait_queue" WaitQueue { queue, pending },
        "fence" Fence(fence),
        "pin" Pin(reg),
        "claim" Claim(claim),
        "sync" Sync(bar),
        "arrive" Arrive { bar, slot, peer = None, bytes = None },
        "await" Await { bar, slot, phase },
        "await_previous" AwaitPrevious,
        "start_next" StartNext,
        "init_barriers" InitBarriers(bar),
        "for" For { var, from, to, step, unroll, body },
        "leave" Leave { of, cond },
        "if" If { cond, then, other = Vec::new() },
        "when" When { cond, then, other = Vec::new() },
        "roles" Roles(roles),
        "elect" Elect(scope, body),
    }
}

impl Text for Stmt {
    const LINES: bool = true;

    fn write(&self, to: &mut Writer) {
        if self.site != 0 {
            to.raw(&format!("@{} ", self.site));
        }
        self.op.write(to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Stmt> {
        let site = if from.takes("@") { Text::read(from)? } else { 0 };
        Ok(Stmt { site, op: Op::read(from)? })
    }
}

impl Text for Ix {
    fn write(&self, to: &mut Writer) {
        to.raw(&format!("#{}", self.place()));
    }

    fn read(from: &mut Reader<'_>) -> Result<Ix> {
        from.needs("#")?;
        Text::read(from).map(Ix::at)
    }
}

impl Text for Exprs {
    fn write(&self, to: &mut Writer) {
        to.raw("{");
        to.indent += 1;
        for (at, expr) in self.iter().enumerate() {
            to.new_line();
            to.raw(&format!("#{at} "));
            expr.write(to);
        }
        to.indent -= 1;
        to.new_line();
        to.raw("}");
    }

    fn read(from: &mut Reader<'_>) -> Result<Exprs> {
        from.needs("{")?;
        let mut all = Vec::new();
        while !from.takes("}") {
            let at = Ix::read(from)?;
            if at.place() as usize != all.len() {
                return Err(from.wrong(format!("expression #{} before this", all.len())));
            }
            let expr = Expr::read(from)?;
            if expr.int.parts().iter().any(|part| *part >= at) {
                return Err(from.wrong("an expression of earlier ones before this"));
            }
            all.push(expr);
        }
        Ok(Exprs::from(all))
    }
}
