//! Fragments that run ahead: while threads multiply one column of a tile, the next is on its way from shared memory to
//! registers, across the barrier between two turns too.
//!
//! ```text
//! for k in pipelined(0..n, stages = 3, fragments = 2) { …; gemm(sa, sb, acc); }
//!
//!                                       wait; barrier; a[0] <- column 0 of turn 0
//!                                       for k in 0..n {
//!                                           a[1] <- column 1
//!                                           copies of turn k + 2; commit
//!                                           gemm(a[0])
//!                                           leave k unless column 1 is inside
//!                                           for kk in 0..depth - 3 {
//!                                               a[kk % 2] <- column kk + 2
//!                                               gemm(a[(kk + 1) % 2])
//!                                               leave k unless column kk + 2 is inside
//!                                           }
//!                                           a[1] <- the last column
//!                                           what was read early and is written late
//!                                           gemm(a[0])
//!                                           leave k unless the last column is inside
//!                                           wait; barrier
//!                                           a[0] <- column 0 of turn min(k + 1, n - 1)
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

/// A product whose operands come through registers.
pub(super) struct Product {
    /// The statement, of whose operands only these are replaced.
    stmt: Stmt,
    operands: [Operand; 2],
    /// Does the second operand run fastest?
    by_rows: bool,
    /// Is a turn left where the depth ends?
    exits: bool,
    /// Where a turn's tile begins, if that is not turn by turn.
    begin: Option<Coord>,
    depth: i64,
}

struct Operand {
    /// In shared memory, (rows, depth).
    from: View,
    /// In registers, (rows, 2).
    to: View,
}

impl Product {
    /// Makes room for two columns of each operand of the only statement of a turn.
    pub(super) fn of(
        program: &mut Program,
        work: &[Stmt],
        exits: bool,
        begin: Option<Coord>,
    ) -> Result<Product> {
        let help = "leave `fragments` out, or let one `gemm` of two shared tiles be all that a turn does";
        let [stmt] = work else {
            let message = format!(
                "`fragments = 2` is for a turn of one product, and this one does {} things",
                work.len()
            );
            return Err(Problem::new(message).help(help));
        };
        let Op::Gemm { a, b, order, how: How::Derive | How::Plain, token: None, .. } = &stmt.op else {
            return Err(
                Problem::new("`fragments = 2` is for a turn of one product, and this is none").help(help)
            );
        };
        let shared = |view: &View| matches!(program.tensor(view.tensor).space, Space::Shared { .. });
        if let Some(view) = [a, b].into_iter().find(|view| !shared(view)) {
            let message = format!(
                "`fragments = 2` reads operands from shared memory, and `{}` is not there",
                view.name
            );
            return Err(Problem::new(message).help(help));
        }
        let depth = a.layout.mode(1)?.size().unwrap_or(0);
        if depth < 2 || depth % 2 != 0 {
            let message = format!("`fragments = 2` takes columns in pairs, and the product is {depth} deep");
            return Err(Problem::new(message).help("use tiles of an even depth"));
        }
        let by_rows = order.is_by_rows();
        let operands = [Operand::new(program, a)?, Operand::new(program, b)?];
        Ok(Product { stmt: stmt.clone(), operands, by_rows, exits, begin, depth })
    }

    fn statement(&self, op: Op) -> Stmt {
        Stmt { id: 0, span: self.stmt.span, by: self.stmt.by, op }
    }

    /// Column `column` of both operands, into registers. All of what runs fastest is needed at once, so it comes first; of
    /// the other operand more than the first values can arrive while the first are at work.
    fn fetch(&self, column: &Affine) -> Result<Vec<Stmt>> {
        let copy = |operand: &Operand| {
            let from = operand.from.slice(&[At::All, At::Index(column.clone())])?;
            let to = operand.to.slice(&[At::All, At::Index(column.digit(1, Some(2)))])?;
            Ok(self.statement(Op::Copy { from, to, how: How::Here, fill: 0.0.into(), token: None }))
        };
        let [a, b] = &self.operands;
        (if self.by_rows { [b, a] } else { [a, b] }).into_iter().map(copy).collect()
    }

    /// The products of one column.
    fn multiply(&self, column: &Affine) -> Result<Stmt> {
        let [left, right] = &self.operands;
        let held = |operand: &Operand| -> Result<View> {
            let mut view = operand.to.slice(&[At::All, At::Index(column.digit(1, Some(2)))])?;
            view.layout = Layout::from_modes([view.layout.clone(), Layout::new(1i64, 0i64)?])?;
            Ok(view)
        };
        let mut stmt = self.stmt.clone();
        if let Op::Gemm { a, b, .. } = &mut stmt.op {
            (*a, *b) = (held(left)?, held(right)?);
        }
        Ok(stmt)
    }

    /// A turn: the product with the next column always ahead. `early` are the copies of a later turn, `late` what they
    /// leave to be written while the last column but one is at work, `wait` makes the next turn's tile visible.
    pub(super) fn iteration(
        &self,
        write: &mut Write,
        var: Id,
        [early, late, wait]: [Vec<Stmt>; 3],
    ) -> Result<Vec<Stmt>> {
        let last = self.depth - 1;
        // The next column, something else to do, and a column's product: if that is the turn's last but one, without a
        // loop around it where there is something else.
        let column = |at: &Affine, others: Vec<Stmt>, write: &Write| -> Result<Vec<Stmt>> {
            let next = at.plus(&1.into(), 1).unwrap_or_default();
            let mut all = self.fetch(&next)?;
            all.extend(others);
            all.push(self.multiply(at)?);
            all.extend(self.leave(write, var, &next));
            Ok(all)
        };
        let alone = i64::from(!late.is_empty());
        let mut body =
            column(&0.into(), if last == 1 { [early, late.clone()].concat() } else { early }, write)?;
        if last - 1 - alone > 0 {
            let kk = write.var("kk", Value::Int(last - 1 - alone));
            let at = Affine::from(Coord::Var(kk)).plus(&1.into(), 1).unwrap_or_default();
            let middle = column(&at, Vec::new(), write)?;
            body.push(self.statement(Op::For { var: kk, unroll: Unroll::Full, body: middle }));
        }
        if last > 1 && alone == 1 {
            body.extend(column(&(last - 1).into(), late, write)?);
        }
        body.extend(wait);
        let next = Affine::from(Coord::Var(var)).plus(&1.into(), 1).unwrap_or_default();
        body.push(self.first(write, var, next)?);
        body.push(self.multiply(&last.into())?);
        Ok(body)
    }

    /// Leaves the loop where a column of a turn lies past the end of the whole depth: there is nothing more to add up.
    /// That also keeps the work of one column together, where a compiler would mix all of a turn's.
    fn leave(&self, write: &Write, var: Id, column: &Affine) -> Option<Stmt> {
        let Some(Value::Sym { times: 1, of, over }) = write.program.vars[var as usize].extent() else {
            return None;
        };
        if !self.exits {
            return None;
        }
        // Groups that share the depth have every so many columns; the first has the first.
        let apart = i64::from(over) / self.depth;
        if apart * self.depth != i64::from(over) || !self.operands.iter().all(|one| one.columns_are(apart)) {
            return None;
        }
        let iteration = match &self.begin {
            Some(begin) => begin.clone().into(),
            None => Affine::from(Coord::Var(var)).times(i64::from(over))?,
        };
        let (left, right) = (iteration.plus(column, apart)?, Value::Sym { times: 1, of, over: 1 });
        Some(self.statement(Op::Leave { of: var, left, right }))
    }

    /// The first column of the turn `at`, or of the last.
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
    /// Are its columns so far apart, one like the next?
    fn columns_are(&self, apart: i64) -> bool {
        let Ok(columns) = self.from.layout.mode(1) else { return false };
        let mut next = Some(apart);
        columns.leaves().filter(|(extent, _)| *extent != Value::Int(1)).all(|(extent, step)| {
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
