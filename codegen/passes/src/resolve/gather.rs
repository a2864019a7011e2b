//! Gathers and scatters of whole tiles: accesses to elements whose coordinates are elements.

use tilewright_layout::Distribution;

use super::{Resolve, part};
use crate::source::problem::Result;
use crate::thread::probe::Kind;
use crate::thread::{Cmp, Id};
use crate::tile::view::View;
use crate::tile::{Expr, Op, Stmt};
use crate::values::affine::{Affine, Coord};
use crate::values::condition::Test;
use crate::values::number::Number;

impl Resolve {
    /// Lowers a gather or a scatter: each thread moves the elements of its part.
    pub(super) fn indexed(&mut self, stmt: &Stmt) -> Result<()> {
        match &stmt.op {
            Op::Gather { from, at, to } => {
                let d = self.elements(stmt, &indices(at), to)?;
                let at = self.indices(stmt, at, &d)?;
                let to = self.side(stmt, to, &d, true)?;
                self.push(stmt, Op::Gather { from: from.clone(), at, to });
            }
            Op::Scatter { from, at, to, update, claimed } => {
                let d = self.elements(stmt, &indices(at), from)?;
                let (mut at, from) = (self.indices(stmt, at, &d)?, self.side(stmt, from, &d, false)?);
                self.skip_outside_tile(stmt, &mut at, &d)?;
                let own = update.as_ref().map(|update| self.update(stmt, update, &d)).transpose()?;
                let op = Op::Scatter { from, at, to: to.clone(), update: own, claimed: *claimed };
                self.push_first(stmt, op, &d);
                update.as_ref().map_or(Ok(()), |update| self.updated(stmt, update))?;
            }
            Op::Probe { of, probe } => {
                let d = self.elements(stmt, &of.iter().skip(1).collect::<Vec<_>>(), &of[0])?;
                let part = |view| self.side(stmt, view, &d, false);
                let mut of: Vec<View> = of.iter().map(part).collect::<Result<_>>()?;
                // Elements outside of the tile hold, or have no coordinate.
                let (at, otherwise) = if probe.kind == Kind::Assert { (0, 1) } else { (1, -1) };
                if let Some(view) = of.get_mut(at) {
                    *view = self.in_tile(stmt, view.clone(), &d, otherwise.into())?;
                }
                let op = Op::Probe { of, probe: probe.clone() };
                if probe.shape.is_empty() { self.push(stmt, op) } else { self.push_first(stmt, op, &d) }
            }
            _ => {}
        }
        Ok(())
    }

    /// A statement of the first thread that has its elements.
    fn push_first(&mut self, stmt: &Stmt, op: Op, d: &Distribution) {
        let op = match first(d, stmt.by) {
            Some(test) => {
                let then = vec![Stmt::new(stmt.span, stmt.by, op)];
                Op::If { test, then, other: Vec::new() }
            }
            None => op,
        };
        self.push(stmt, op);
    }

    /// Where threads do not divide the tile, their elements outside of it are not stored.
    fn skip_outside_tile(&mut self, stmt: &Stmt, at: &mut [(Id, View)], d: &Distribution) -> Result<()> {
        if let Some((_, index)) = at.first_mut() {
            *index = self.in_tile(stmt, index.clone(), d, (-1).into())?;
        }
        Ok(())
    }

    /// A thread's part of a tile. Where threads do not divide the tile, elements outside of it become `otherwise`.
    pub(super) fn in_tile(
        &mut self,
        stmt: &Stmt,
        part: View,
        d: &Distribution,
        otherwise: Number,
    ) -> Result<View> {
        let outside: Vec<u8> = (0..d.tile().len())
            .filter(|mode| d.reach(*mode) > d.tile()[*mode])
            .map(|mode| mode as u8)
            .collect();
        if outside.is_empty() {
            return Ok(part);
        }
        let tensor = self.program.tensor(part.tensor);
        let (name, elem, layout) = (format!("{}_in_tile", tensor.name), tensor.elem, tensor.layout.clone());
        let own = self.tensor(&name, elem, tensor.space, layout.layout().clone());
        let to = View { tensor: own, name, ..part.clone() };
        let coordinates = self.program.coordinates_of(d.tile())?;
        let coordinates = part::of_memory(&coordinates, d, stmt.by, false)?;
        let value = outside.into_iter().fold(Expr::In(0), |element, mode| {
            let end = Expr::lit(d.tile()[usize::from(mode)]);
            let inside = Expr::Cmp(Cmp::Lt, Box::new(Expr::Coord(1, mode)), Box::new(end));
            Expr::Pick(Box::new([inside, element, Expr::Lit(otherwise)]))
        });
        self.push(stmt, Op::Map { ins: vec![part, coordinates], to: to.clone(), value });
        Ok(to)
    }

    fn indices(&mut self, stmt: &Stmt, at: &[(Id, View)], d: &Distribution) -> Result<Vec<(Id, View)>> {
        at.iter().map(|(number, view)| Ok((*number, self.side(stmt, view, d, false)?))).collect()
    }
}

fn indices(at: &[(Id, View)]) -> Vec<&View> {
    at.iter().map(|(_, view)| view).collect()
}

/// The condition that a thread is the first one that has its elements.
fn first(d: &Distribution, by: Id) -> Option<Test> {
    let thread = Affine::from(Coord::Thread(by));
    let tests = d.replicated().into_iter().map(|(extent, step)| {
        let submode = thread.submode(step, Some(extent));
        Test::Equal(submode, 0.into())
    });
    tests.reduce(|all, test| Test::Both(Box::new([all, test])))
}
