//! Accumulators of warps that share K: each warp sums a part of K. After the last product the sums of all warps are added in
//! shared memory, and later statements read the result:
//!
//! ```text
//! for k in … { gemm(sa, sb, &mut acc); }    the same
//! copy(map(acc, f), gc);                    copy(acc, acc_sums); copy(map(acc_sums, f), gc);
//! ```

use std::collections::BTreeMap;

use tilewright_layout::{Distribution, Tuple};

use super::words::moved;
use super::{Resolve, part, shared};
use crate::build::tiled::TiledMma;
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, Result};
use crate::thread::{Bin, Id};
use crate::tile::slots::slots_apart;
use crate::tile::view::{At, View, position};
use crate::tile::{Expr, Form, Op, Program, Space, Stmt, Tensor};
use crate::values::affine::{Affine, Coord};
use crate::values::condition::Test;
use crate::values::target::WARP;

/// Accumulators of warps that share K, and the tiles of their sums.
#[derive(Default)]
pub(super) struct Sums(BTreeMap<Id, Id>);

impl Sums {
    /// Is it the copy that adds the sums?
    pub(super) fn adds(&self, from: &View, to: &View) -> bool {
        self.0.get(&from.tensor) == Some(&to.tensor)
    }

    /// How the sums are distributed: single elements of adjacent threads are adjacent.
    pub(super) fn forms(&self, program: &Program) -> BTreeMap<Id, Distribution> {
        let one = |(acc, sums): (&Id, &Id)| {
            let threads = of(program, *acc)?.threads().ok()?;
            Some((*sums, Distribution::spread(&super::forms::tile(program, *acc), &[1, 0], 1, threads)))
        };
        self.0.iter().filter_map(one).collect()
    }
}

/// The instruction of accumulators whose warps share K.
fn of(program: &Program, acc: Id) -> Option<&TiledMma> {
    match program.forms.get(&acc) {
        Some(Form::Sums(mma)) if mma.parts_of_k().is_ok_and(|parts| parts > 1) => Some(mma),
        _ => None,
    }
}

/// The statements, with the sums of such accumulators added after the last product.
pub(super) fn added(
    program: &mut Program,
    mut body: Vec<Stmt>,
) -> std::result::Result<(Vec<Stmt>, Sums), Diagnostic> {
    let mut sums = Sums::default();
    let all: Vec<Id> = program.forms.keys().copied().filter(|id| of(program, *id).is_some()).collect();
    for acc in all {
        body = after_products(program, body, acc, &mut sums)?;
    }
    Ok((body, sums))
}

/// Does a test hold for a statement, or one inside it?
fn any(stmt: &Stmt, test: impl Fn(&Stmt) -> bool) -> bool {
    stmt.preorder().any(|stmt| test(stmt))
}

fn after_products(
    program: &mut Program,
    mut body: Vec<Stmt>,
    acc: Id,
    sums: &mut Sums,
) -> std::result::Result<Vec<Stmt>, Diagnostic> {
    let multiplies = |stmt: &Stmt| matches!(&stmt.op, Op::Gemm { acc: to, .. } if to.tensor == acc);
    let writes = |stmt: &Stmt| stmt.writes().iter().any(|view| view.tensor == acc);
    let touches = |stmt: &Stmt| writes(stmt) || stmt.reads().iter().any(|view| view.tensor == acc);
    let zeroes = |op: &Op| matches!(op, Op::Map { value: Expr::Lit(value), .. } if value.is_zero());
    let Some(last) = body.iter().rposition(|stmt| any(stmt, multiplies)) else { return Ok(body) };
    let after = body.split_off(last + 1);
    let Tensor { name, elem, span, .. } = program.tensor(acc).clone();
    let refused = |stmt: &Stmt| {
        Problem::new(format!("`{name}` are sums of warps that share K, and products alone add to them"))
            .help(format!("read them after the last product: let sums = map({name}, |x| x)"))
            .at(stmt.span)
    };
    for stmt in &mut body {
        if any(stmt, multiplies) {
            for inner in stmt.bodies_mut() {
                *inner = after_products(program, std::mem::take(inner), acc, sums)?;
            }
        } else if any(stmt, touches) && !zeroes(&stmt.op) {
            return Err(refused(stmt));
        }
    }
    let Some(first) = after.iter().find(|stmt| any(stmt, touches)) else {
        body.extend(after);
        return Ok(body);
    };
    let (shape, sum) = (Tuple::flat(&super::forms::tile(program, acc)), format!("{name}_sums"));
    let view = |id: Id, name: &str| View::whole(id, name, &shape).map_err(|problem| problem.at(first.span));
    let id = *sums.0.entry(acc).or_insert_with(|| {
        let space = Space::Registers { words: false };
        let layout = program.tensor(acc).layout.clone();
        program.tensors.push(Tensor { name: sum.clone(), elem, space, layout, span });
        program.tensors.len() as Id - 1
    });
    program.forms.insert(id, Form::Open);
    let (from, to) = (view(acc, &name)?, view(id, &sum)?);
    let op = moved(from, to);
    body.push(Stmt { op, ..first.clone() });
    for mut stmt in after {
        if any(&stmt, writes) {
            return Err(refused(&stmt));
        }
        stmt.each_mut(&mut |stmt| {
            for view in stmt.views_mut().into_iter().filter(|view| view.tensor == acc) {
                view.tensor = id;
            }
        });
        body.push(stmt);
    }
    Ok(body)
}

impl Resolve {
    /// Adds the sums of all parts of K. If only some parts fit in shared memory at once, they use it one after another.
    pub(super) fn sums_added(&mut self, stmt: &Stmt, acc: &View, to: &View) -> Result<()> {
        let mma = of(&self.program, acc.tensor).cloned().ok_or_else(Problem::reported)?;
        let [own, d] = [acc, to].map(|view| self.forms[&view.tensor].clone());
        let Tensor { name, elem, .. } = self.program.tensor(acc.tensor).clone();
        let (parts, one) = (mma.parts_of_k()?, shared::exchanged(elem, &own, &d, 1)?);
        let bytes = elem.bytes_of(one.cosize()?);
        let ways: Vec<_> = (1..=parts).rev().filter(|at_once| parts % at_once == 0).collect();
        self.fit(&ways.iter().map(|at_once| (*at_once, at_once * bytes)).collect::<Vec<_>>())?;
        let at_once = ways.into_iter().find(|at_once| self.has_room(stmt, at_once * bytes)).unwrap_or(1);
        let layout = slots_apart(&one, at_once, elem.elements_in(16i64))?;
        let all = self.scratch(stmt, &format!("{name}_parts"), elem, layout)?;
        let slot = |at: Affine| all.slice(&[At::All, At::All, At::Index(at)]);
        let warp = Affine::from(Coord::Thread(mma.of)).submode(i64::from(WARP), None);
        let part = position(&mma.groups.mode(2)?, &warp)?;
        let (of_step, order) = (part.submode(at_once, None), part.submode(1, Some(at_once)));
        let from = part::of_tile(acc, &own, &own, acc.tensor)?;
        let into = slot(if at_once == parts { part } else { order })?;
        let into = part::of_memory(&into, &own, mma.of, true)?;
        let mine = part::of_tile(to, &d, &d, to.tensor)?;
        let sum = Expr::Bin(Bin::Add, Box::new(Expr::In(0)), Box::new(Expr::In(1)));
        for step in 0..parts / at_once {
            // The sums of the previous tile, or of the previous parts, must have been read.
            if self.body.last().is_none_or(|last| last.op != Op::Sync) {
                self.push(stmt, Op::Sync);
            }
            self.built(stmt, |b| match at_once == parts {
                true => b.copy(&from, &into),
                false => {
                    let test = Test::Equal(of_step.clone(), step.into());
                    b.branch(test, |b| b.copy(&from, &into), |_| Ok(()))
                }
            })?;
            self.push(stmt, Op::Sync);
            for at in 0..at_once {
                let more = part::of_memory(&slot(at.into())?, &d, mma.of, false)?;
                self.built(stmt, |b| match (step, at) {
                    (0, 0) => b.copy(&more, &mine),
                    _ => b.map(&[mine.clone(), more], &mine, sum.clone()),
                })?;
            }
        }
        Ok(())
    }
}
