//! Checks the claims of every index expression in one launch: its range decides in which type it is printed,
//! and divisibility decides how wide accesses are. The simulator checks addresses alone; here each thread is
//! interpreted by itself, without memory, and every subexpression that it computes is checked.

use std::ops::ControlFlow;

use tilewright_codegen::index::{Int, Ix};
use tilewright_codegen::thread::{AtomArg, Id, Kernel, Lane, Op, Param, Stmt, Val};

use crate::compute::compute;

/// Checks all threads of a launch. `size` gives extents and strides by name.
pub(crate) fn check(kernel: &Kernel, grid: [i64; 3], size: &dyn Fn(&str) -> i64) {
    let param = |param: &Param| if let Param::Int { symbol, .. } = param { size(symbol.name()) } else { 0 };
    let params: Vec<i64> = kernel.params.iter().map(param).collect();
    let blocks: i64 = grid.iter().product();
    for block in 0..blocks {
        let at = [block % grid[0], block / grid[0] % grid[1], block / grid[0] / grid[1]];
        for thread in 0..i64::from(kernel.launch.threads) {
            let vars = vec![0; kernel.vars.len()];
            let end = Thread { kernel, params: &params, grid, at, thread, vars }.body(&kernel.body);
            assert!(end.is_continue(), "a loop exit without its loop: {end:?}");
        }
    }
}

/// A loop exit, by the loop's variable.
type Flow = ControlFlow<Id>;

struct Thread<'k> {
    kernel: &'k Kernel,
    params: &'k [i64],
    grid: [i64; 3],
    at: [i64; 3],
    thread: i64,
    vars: Vec<i64>,
}

impl Thread<'_> {
    fn body(&mut self, body: &[Stmt]) -> Flow {
        body.iter().try_for_each(|stmt| self.statement(&stmt.op))
    }

    fn statement(&mut self, op: &Op) -> Flow {
        match op {
            Op::Comment(_) | Op::Fence(_) | Op::Sync { .. } | Op::Commit(_) | Op::WaitQueue { .. } => {}
            Op::Let(id, at) | Op::Set(id, at) => self.vars[*id as usize] = self.int(*at),
            // Contents of memory are not interpreted.
            Op::Take(_, value) => self.value(value),
            Op::Assign { at, value, .. } => {
                self.int(*at);
                self.value(value);
            }
            Op::Load { to: frag, from: mem, guard, .. } | Op::Store { to: mem, from: frag, guard } => {
                self.int(frag.at);
                if self.guard_is_true(*guard) {
                    self.int(mem.index);
                }
            }
            Op::Atom { args, guard, .. } => {
                if self.guard_is_true(*guard) {
                    args.iter().for_each(|arg| match arg {
                        AtomArg::At(mem) => drop(self.int(mem.index)),
                        AtomArg::Int(at) => drop(self.int(*at)),
                        AtomArg::Frag(frag) => drop(self.int(frag.at)),
                        other => panic!("{other:?} is not interpreted here"),
                    });
                }
            }
            Op::For { var, from, to, step, body, .. } => {
                let (mut at, to) = (self.int(*from), self.int(*to));
                while at < to {
                    self.vars[*var as usize] = at;
                    match self.body(body) {
                        ControlFlow::Continue(()) => at += step,
                        ControlFlow::Break(left) if left == *var => break,
                        further => return further,
                    }
                }
            }
            Op::Leave { of, cond } => {
                if self.int(*cond) != 0 {
                    return ControlFlow::Break(*of);
                }
            }
            Op::If { cond: Val::Int(cond, _), then, other } => {
                return self.body(if self.int(*cond) != 0 { then } else { other });
            }
            // Both branches are checked, whatever the indices are.
            Op::If { cond, then, other } => {
                self.value(cond);
                self.body(then)?;
                return self.body(other);
            }
            other => panic!("{other:?} is not interpreted here"),
        }
        ControlFlow::Continue(())
    }

    fn guard_is_true(&self, guard: Option<Ix>) -> bool {
        guard.is_none_or(|guard| self.int(guard) != 0)
    }

    fn value(&self, of: &Val) {
        match of {
            Val::Lit(..) | Val::Param(_) => {}
            Val::Reg(_, at) | Val::Int(at, _) => drop(self.int(*at)),
            Val::Un(_, x) | Val::Cast(_, x) | Val::Bits(_, x) | Val::Vote(_, x) => self.value(x),
            Val::Ptx { args, .. } => args.iter().for_each(|x| self.value(x)),
            Val::Bin(_, x, y) | Val::Cmp(_, x, y) | Val::Shuffle(x, Lane::InGroup(_, y)) => {
                [x, y].into_iter().for_each(|x| self.value(x));
            }
            Val::Pick(all) if matches!(all[0], Val::Int(..)) => {
                let Val::Int(guard, _) = all[0] else { return };
                self.value(&all[if self.int(guard) != 0 { 1 } else { 2 }]);
            }
            Val::Fma(all) | Val::Product(_, all) | Val::Pick(all) => all.iter().for_each(|x| self.value(x)),
            Val::Shuffle(x, Lane::Xor(by)) => {
                self.int(*by);
                self.value(x);
            }
        }
    }

    fn int(&self, of: Ix) -> i64 {
        let known = self.kernel.exprs.get(of);
        let number = match &known.int {
            Int::Var(id) => self.vars[*id as usize],
            Int::Param(id) => self.params[*id as usize],
            Int::Thread => self.thread,
            Int::Block(axis) => self.at[usize::from(*axis)],
            Int::Grid(axis) => self.grid[usize::from(*axis)],
            Int::ClusterRank => 0,
            int => compute(int, &|of| self.int(of)),
        };
        assert!(known.lo <= number && number <= known.hi, "{known:?} is {number}");
        let multiple = known.multiple;
        let divides = if multiple == 0 { number == 0 } else { number % multiple == 0 };
        assert!(divides, "{known:?} is {number}");
        number
    }
}
