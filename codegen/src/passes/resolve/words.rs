//! Functions of narrow elements that become operands of an instruction, such as weights of 8 bits: in registers, by
//! instructions that take several elements at once.

use std::collections::BTreeSet;

use tilewright_layout::Tuple;

use super::{Resolve, each, part};
use crate::source::problem::Result;
use crate::thread::Id;
use crate::thread::atoms;
use crate::tile::view::View;
use crate::tile::{Expr, Form, How, Op, Program, Space, Stmt};

/// The register tiles that such functions set, and that products alone read.
pub(super) fn tiles(program: &Program, body: &[Stmt]) -> BTreeSet<Id> {
    let (mut all, mut others) = (BTreeSet::new(), BTreeSet::new());
    each(body, &mut |stmt| {
        let operand = match &stmt.op {
            Op::Map { ins, to, value } if widens(program, ins, to, value) => {
                all.insert(to.tensor);
                Some(to.tensor)
            }
            Op::Gemm { a, acc, .. } if matches!(program.forms.get(&acc.tensor), Some(Form::Sums(_))) => {
                Some(a.tensor)
            }
            _ => None,
        };
        let used = stmt.reads().into_iter().chain(stmt.writes()).map(|view| view.tensor);
        others.extend(used.filter(|id| Some(*id) != operand));
    });
    all.retain(|id| program.forms.contains_key(id) && !others.contains(id));
    all
}

/// Does a function convert shared elements by an instruction that takes several at once?
fn widens(program: &Program, ins: &[View], to: &View, value: &Expr) -> bool {
    let ([from], Expr::Cast(elem, of)) = (ins, value) else { return false };
    let source = program.tensor(from.tensor);
    let converts = atoms::convert(source.elem, *elem, program.arch).is_some();
    **of == Expr::In(0)
        && *elem == program.tensor(to.tensor).elem
        && converts
        && matches!(source.space, Space::Shared { .. })
}

impl Resolve {
    /// Does a function set a tile of [`tiles`]?
    pub(super) fn is_in_words(&self, to: &View) -> bool {
        self.forms.contains_key(&to.tensor)
            && self.program.tensor(to.tensor).space == Space::Registers { words: true }
    }

    /// Such a function: its input is loaded first.
    pub(super) fn in_words(&mut self, stmt: &Stmt, from: &View, to: &View, value: &Expr) -> Result<()> {
        let d = self.elements(stmt, &[from], to)?;
        let (elem, name) = (self.program.tensor(from.tensor).elem, format!("{}_loaded", from.name));
        let part = self.side(stmt, from, &d, false)?;
        let loaded = self.packed(&name, elem, &d)?;
        let whole = View::whole(loaded, &name, &Tuple::flat(d.tile()))?;
        let loaded = part::of_tile(&whole, &d, &d, loaded)?;
        let into = loaded.clone();
        self.push(stmt, Op::Copy { from: part, to: into, how: How::Derive, fill: 0.0.into(), token: None });
        let to = self.side(stmt, to, &d, true)?;
        self.push(stmt, Op::Map { ins: vec![loaded], to, value: value.clone() });
        Ok(())
    }
}
