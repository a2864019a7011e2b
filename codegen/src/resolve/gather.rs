//! Elements of whole tiles that are loaded from places of their own, or stored to them.

use tilewright_layout::Distribution;

use super::Resolve;
use crate::affine::{Affine, Coord};
use crate::condition::Test;
use crate::problem::{Problem, Result};
use crate::thread::Id;
use crate::tile::{Op, Stmt};
use crate::view::View;

impl Resolve {
    /// Lowers a gather or a scatter: each thread moves the elements of its part.
    pub(super) fn indexed(&mut self, stmt: &Stmt) -> Result<()> {
        match &stmt.op {
            Op::Gather { from, at, to } => {
                let d = self.elements(stmt, &places(at), to)?;
                let at = self.places(stmt, at, &d)?;
                let to = self.side(stmt, to, &d, true)?;
                self.push(stmt, Op::Gather { from: from.clone(), at, to });
            }
            Op::Scatter { from, at, to, update, beyond } => {
                let d = self.elements(stmt, &places(at), from)?;
                if d.tile().iter().enumerate().any(|(mode, extent)| d.reach(mode) > *extent) {
                    return Err(Problem::new(format!(
                        "threads do not divide `{}`, {}: some would store elements beyond the tile",
                        from.name,
                        from.shape()
                    ))
                    .help("use a tile whose extents are powers of two"));
                }
                let (at, from) = (self.places(stmt, at, &d)?, self.side(stmt, from, &d, false)?);
                let (to, update) = (to.clone(), update.clone());
                let op = Op::Scatter { from, at, to, update, beyond: *beyond };
                let op = match first(&d, stmt.by) {
                    Some(test) => {
                        let then = vec![Stmt { id: 0, span: stmt.span, by: stmt.by, op }];
                        Op::If { test, then, other: Vec::new() }
                    }
                    None => op,
                };
                self.push(stmt, op);
            }
            _ => {}
        }
        Ok(())
    }

    fn places(&mut self, stmt: &Stmt, at: &[(Id, View)], d: &Distribution) -> Result<Vec<(Id, View)>> {
        at.iter().map(|(number, view)| Ok((*number, self.side(stmt, view, d, false)?))).collect()
    }
}

fn places(at: &[(Id, View)]) -> Vec<&View> {
    at.iter().map(|(_, view)| view).collect()
}

/// The condition that a thread is the first of those that have the same elements.
fn first(d: &Distribution, by: Id) -> Option<Test> {
    let thread = Affine::from(Coord::Thread(by));
    let tests = d.replicated().into_iter().map(|(extent, step)| {
        let digit = thread.digit(step, Some(extent));
        Test::Equal(digit, 0.into())
    });
    tests.reduce(|all, test| Test::Both(Box::new([all, test])))
}
