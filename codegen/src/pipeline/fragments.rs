//! Double-buffered fragments: while threads multiply one k-step, the next one is loaded from shared memory to
//! registers, also across the barrier between two iterations.
//!
//! ```text
//! for k in pipelined(0..n, stages = 3, fragments = 2) { …; gemm(sa, sb, acc); }
//!
//!                                       wait; barrier; a[0] <- k-step 0 of iteration 0
//!                                       for k in 0..n {
//!                                           a[1] <- k-step 1
//!                                           copies of iteration k + 2; commit
//!                                           gemm(a[0])
//!                                           leave k unless k-step 1 is in bounds
//!                                           for kk in 0..k_steps - 3 {
//!                                               a[kk % 2] <- k-step kk + 2
//!                                               gemm(a[(kk + 1) % 2])
//!                                               leave k unless k-step kk + 2 is in bounds
//!                                           }
//!                                           a[1] <- the last k-step
//!                                           shared stores of copies through registers
//!                                           gemm(a[0])
//!                                           leave k unless the last k-step is in bounds
//!                                           wait; barrier
//!                                           a[0] <- k-step 0 of iteration min(k + 1, n - 1)
//!                                           gemm(a[1])
//!                                       }
//! ```

use tilewright_layout::{Layout, Tuple, Value};

use super::Write;
use crate::affine::{Affine, Coord};
use crate::problem::{Problem, Result};
use crate::thread::{Id, Unroll};
use crate::tile::{How, Op, Past, Program, Space, Stmt, Tensor, Var};
use crate::view::{At, View};

/// A product whose operands are loaded into double-buffered registers.
pub(super) struct Product {
    /// The statement. Only its operands are replaced.
    stmt: Stmt,
    operands: [Operand; 2],
    /// Is the second operand's mode the innermost?
    by_rows: bool,
    /// Is the loop left at the end of K, by an exit test after each k-step?
    exits: bool,
    /// Where an iteration's tile begins, if that is not a multiple of the iteration.
    begin: Option<Coord>,
    k_steps: i64,
}

struct Operand {
    /// In shared memory, (rows, K).
    from: View,
    /// In registers, (rows, 2).
    to: View,
}

impl Product {
    /// Allocates registers for two k-steps of each operand of the loop body's only statement.
    pub(super) fn of(
        program: &mut Program,
        work: &[Stmt],
        exits: bool,
        begin: Option<Coord>,
    ) -> Result<Product> {
        let help =
            "leave `fragments` out, or make one `gemm` of two shared tiles the whole work of an iteration";
        let [stmt] = work else {
            let message = format!(
                "`fragments = 2` is for iterations of one product, and these have {} statements",
                work.len()
            );
            return Err(Problem::new(message).help(help));
        };
        let Op::Gemm { a, b, order, how: How::Derive | How::Plain, token: None, .. } = &stmt.op else {
            let message = "`fragments = 2` is for iterations of one product, and this is none";
            return Err(Problem::new(message).help(help));
        };
        let shared = |view: &View| matches!(program.tensor(view.tensor).space, Space::Shared { .. });
        if let Some(view) = [a, b].into_iter().find(|view| !shared(view)) {
            let message = format!(
                "`fragments = 2` reads operands from shared memory, and `{}` is not there",
                view.name
            );
            return Err(Problem::new(message).help(help));
        }
        let k_steps = a.layout.mode(1)?.size().unwrap_or(0);
        if k_steps < 2 || k_steps % 2 != 0 {
            let message = format!("`fragments = 2` takes k-steps in pairs, and the tiles have {k_steps}");
            return Err(Problem::new(message).help("use tiles whose extent along K is even"));
        }
        let by_rows = order.is_by_rows();
        let operands = [Operand::new(program, a)?, Operand::new(program, b)?];
        Ok(Product { stmt: stmt.clone(), operands, by_rows, exits, begin, k_steps })
    }

    fn statement(&self, op: Op) -> Stmt {
        Stmt { id: 0, span: self.stmt.span, by: self.stmt.by, op }
    }

    /// Loads a k-step of both operands into registers. The innermost mode needs all of its operand at once,
    /// so that comes first; of the other operand more than the first values can arrive while those are
    /// multiplied.
    fn fetch(&self, k_step: &Affine) -> Result<Vec<Stmt>> {
        let copy = |operand: &Operand| {
            let from = operand.from.slice(&[At::All, At::Index(k_step.clone())])?;
            let to = operand.to.slice(&[At::All, At::Index(k_step.digit(1, Some(2)))])?;
            Ok(self.statement(Op::Copy { from, to, how: How::Here, fill: 0.0.into(), token: None }))
        };
        let [a, b] = &self.operands;
        (if self.by_rows { [b, a] } else { [a, b] }).into_iter().map(copy).collect()
    }

    /// The product of one k-step.
    fn multiply(&self, k_step: &Affine) -> Result<Stmt> {
        let [left, right] = &self.operands;
        let fragment = |operand: &Operand| -> Result<View> {
            let mut view = operand.to.slice(&[At::All, At::Index(k_step.digit(1, Some(2)))])?;
            view.layout = Layout::from_modes([view.layout.clone(), Layout::new(1i64, 0i64)?])?;
            Ok(view)
        };
        let mut stmt = self.stmt.clone();
        if let Op::Gemm { a, b, .. } = &mut stmt.op {
            (*a, *b) = (fragment(left)?, fragment(right)?);
        }
        Ok(stmt)
    }

    /// An iteration: the product, with the next k-step always loaded ahead. `early` are the copies of a later
    /// iteration, `late` their shared stores, which come during the last k-step but one. `wait` makes the
    /// next iteration's tile visible.
    pub(super) fn iteration(
        &self,
        write: &mut Write,
        var: Id,
        [early, late, wait]: [Vec<Stmt>; 3],
    ) -> Result<Vec<Stmt>> {
        let last = self.k_steps - 1;
        // Loads the next k-step, does something else, and multiplies a k-step. The last but one is peeled off
        // the loop if it has something else to do.
        let k_step = |at: &Affine, others: Vec<Stmt>, write: &Write| -> Result<Vec<Stmt>> {
            let next = at.plus(&1.into(), 1).unwrap_or_default();
            let mut all = self.fetch(&next)?;
            all.extend(others);
            all.push(self.multiply(at)?);
            all.extend(self.leave(write, var, &next));
            Ok(all)
        };
        let alone = i64::from(!late.is_empty());
        let mut body =
            k_step(&0.into(), if last == 1 { [early, late.clone()].concat() } else { early }, write)?;
        if last - 1 - alone > 0 {
            let kk = write.var("kk", Value::Int(last - 1 - alone));
            let at = Affine::from(Coord::Var(kk)).plus(&1.into(), 1).unwrap_or_default();
            let middle = k_step(&at, Vec::new(), write)?;
            body.push(self.statement(Op::For { var: kk, unroll: Unroll::Full, body: middle }));
        }
        if last > 1 && alone == 1 {
            body.extend(k_step(&(last - 1).into(), late, write)?);
        }
        body.extend(wait);
        let next = Affine::from(Coord::Var(var)).plus(&1.into(), 1).unwrap_or_default();
        body.push(self.first(write, var, next)?);
        body.push(self.multiply(&last.into())?);
        Ok(body)
    }

    /// Exit test: leaves the loop if a k-step is beyond the end of K. The test also keeps the compiler from
    /// interleaving k-steps.
    fn leave(&self, write: &Write, var: Id, k_step: &Affine) -> Option<Stmt> {
        let Some(Value::Sym { times: 1, of, over }) = write.program.vars[var as usize].extent() else {
            return None;
        };
        if !self.exits {
            return None;
        }
        // With split K, groups have interleaved k-steps; the first group has the first.
        let apart = i64::from(over) / self.k_steps;
        if apart * self.k_steps != i64::from(over) || !self.operands.iter().all(|one| one.k_stride_is(apart))
        {
            return None;
        }
        let iteration = match &self.begin {
            Some(begin) => begin.clone().into(),
            None => Affine::from(Coord::Var(var)).times(i64::from(over))?,
        };
        let (left, right) = (iteration.plus(k_step, apart)?, Value::Sym { times: 1, of, over: 1 });
        Some(self.statement(Op::Leave { of: var, left, right }))
    }

    /// Loads the first k-step of iteration `at`, clamped to the last one.
    pub(super) fn first(&self, write: &mut Write, var: Id, at: Affine) -> Result<Stmt> {
        let Var { name, to, .. } = &write.program.vars[var as usize];
        let (name, to) = (format!("{name}_next"), to.clone());
        let next = write.var(&name, to);
        let mut body = self.fetch(&0.into())?;
        for view in body.iter_mut().flat_map(Stmt::views_mut) {
            for base in &mut view.base {
                *base = base.replaced(&Coord::Var(var), &Coord::Var(next));
            }
        }
        Ok(self.statement(Op::Step { var: next, at, past: Past::Last, body }))
    }
}

impl Operand {
    /// Do its k-steps have this stride?
    fn k_stride_is(&self, apart: i64) -> bool {
        let Ok(k_steps) = self.from.layout.mode(1) else { return false };
        let mut next = Some(apart);
        k_steps.leaves().filter(|(extent, _)| *extent != Value::Int(1)).all(|(extent, step)| {
            let here = matches!(step, Value::Basis { times, .. } if Some(times) == next);
            next = extent.int().zip(next).and_then(|(n, next)| next.checked_mul(n));
            here
        })
    }

    fn new(program: &mut Program, from: &View) -> Result<Operand> {
        let tensor = program.tensor(from.tensor);
        let rows = from.layout.mode(0)?.size()?;
        let (name, elem, span) = (format!("{}_r", from.name), tensor.elem, tensor.span);
        let shape = Tuple::flat(&[rows, 2]);
        let layout = Layout::compact(shape.clone())?.into();
        let space = Space::Registers { words: false };
        let id = program.tensors.len() as Id;
        let to = View::whole(id, &name, &shape)?;
        program.tensors.push(Tensor { name, elem, space, layout, span });
        Ok(Operand { from: from.clone(), to })
    }
}

impl Write {
    /// A new variable.
    pub(super) fn var(&mut self, name: &str, to: impl Into<Affine>) -> Id {
        self.program.vars.push(Var { name: name.into(), from: 0.into(), to: to.into() });
        self.program.vars.len() as Id - 1
    }
}
