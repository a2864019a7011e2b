//! Operands that are functions of narrower elements in shared memory, such as weights of 8 or 4 bits and their scales, and that one
//! product by an instruction of warps reads. Fragments are converted between their load and the product, so that only the
//! elements of a k-step take registers:
//!
//! ```text
//! gemm(map((w, s), |w, s| w as bf16 * s), sb, &mut acc);    for kk { load w; w as bf16; load s; * s; load sb; mma }
//! ```

use std::collections::{BTreeMap, BTreeSet};

use tilewright_layout::{Layout, Value};

use super::extents;
use crate::build::tiled::{Scaling, TiledMma, converts};
use crate::isa::atom::{Effect, OperandName};
use crate::thread::{Bin, Id};
use crate::tile::view::View;
use crate::tile::visit::preorder;
use crate::tile::{Expr, Form, Op, Program, Space, Stmt, whole};
use crate::values::narrow::Int4;

/// Elements of a register, which are adjacent along K and have one scale.
const PAIR: i64 = 2;

/// An operand that is converted by its product.
#[derive(Clone)]
pub(super) struct Converted {
    /// The tile in shared memory.
    pub(super) source: View,
    /// The 4-bit type where each of its elements packs two numbers.
    pub(super) pairs: Option<Int4>,
    /// Factors of the converted elements, and zero points that are subtracted before, of the operand's shape.
    pub(super) scales: Option<View>,
    pub(super) zeros: Option<View>,
}

impl Converted {
    pub(super) fn scaling(&self) -> Option<Scaling<'_>> {
        self.scales.as_ref().map(|scales| Scaling { scales, zeros: self.zeros.as_ref() })
    }
}

/// All of them, by the tiles that products read.
#[derive(Default)]
pub(super) struct Operands {
    all: BTreeMap<Id, Converted>,
    /// The tiles, and tiles that their functions read.
    computed: BTreeSet<Id>,
}

impl Operands {
    /// The operands in a program, whose tiles in registers are no longer tiles of it.
    pub(super) fn of(program: &mut Program, body: &[Stmt]) -> Operands {
        let mut operands = Operands::default();
        let mut uses = BTreeMap::<Id, usize>::new();
        for stmt in preorder(body) {
            let touched: BTreeSet<Id> = stmt.accesses().map(|view| view.tensor).collect();
            touched.into_iter().for_each(|id| *uses.entry(id).or_default() += 1);
        }
        operands.in_body(program, &uses, body);
        for id in &operands.computed {
            program.forms.remove(id);
        }
        operands
    }

    /// The operand that a product reads through this view.
    pub(super) fn at(&self, view: &View) -> Option<&Converted> {
        self.all.get(&view.tensor)
    }

    /// Does a statement compute such an operand, which its product does?
    pub(super) fn compute(&self, stmt: &Stmt) -> bool {
        stmt.writes().iter().any(|to| self.computed.contains(&to.tensor))
    }

    fn in_body(&mut self, program: &Program, uses: &BTreeMap<Id, usize>, body: &[Stmt]) {
        // A tile in registers that one statement writes and another reads.
        let is_own = |to: &View| {
            matches!(program.forms.get(&to.tensor), Some(Form::Open)) && uses.get(&to.tensor) == Some(&2)
        };
        let mut before = BTreeMap::<Id, &Stmt>::new();
        for stmt in body {
            stmt.bodies().into_iter().for_each(|inner| self.in_body(program, uses, inner));
            match (&stmt.op, stmt.writes()[..].first()) {
                (Op::Gemm { a, b, acc, .. }, _) => {
                    if let Some(Form::Sums(mma)) = program.forms.get(&acc.tensor)
                        && !mma.is_asynchronous()
                    {
                        self.of_product(program, &before, mma, [a, b]);
                    }
                    before.clear();
                }
                (op, Some(to)) if op.filled().is_some() && program.forms.contains_key(&to.tensor) => {}
                (Op::Map { .. }, Some(to)) if is_own(to) => _ = before.insert(to.tensor, stmt),
                (op, Some(to)) if whole::unpacks(op).is_some() && is_own(to) => {
                    before.insert(to.tensor, stmt);
                }
                // What the function reads may change.
                _ => before.clear(),
            }
        }
    }

    fn of_product(
        &mut self,
        program: &Program,
        before: &BTreeMap<Id, &Stmt>,
        mma: &TiledMma,
        views: [&View; 2],
    ) {
        let mut paired = false;
        for (view, operand) in views.into_iter().zip([OperandName::A, OperandName::B]) {
            let Some((converted, computed)) = converted(program, before, mma, operand, view) else {
                continue;
            };
            if converted.pairs.is_some() && std::mem::replace(&mut paired, true) {
                continue;
            }
            self.all.insert(view.tensor, converted);
            self.computed.extend(computed);
        }
    }
}

/// A product's operand as a function of a tile in shared memory, and the tiles that are computed on the way.
fn converted(
    program: &Program,
    before: &BTreeMap<Id, &Stmt>,
    mma: &TiledMma,
    operand: OperandName,
    view: &View,
) -> Option<(Converted, Vec<Id>)> {
    let multiplied = mma.row.operand(operand)?.elem;
    let elem = |view: &View| program.tensor(view.tensor).elem;
    let is_shared = |view: &View| matches!(program.tensor(view.tensor).space, Space::Shared { .. });
    let shape = extents(view).ok()?;
    let &[rows, k] = &shape[..] else { return None };
    let of_pairs = |stmt: &Stmt| match &stmt.op {
        Op::Copy { from, .. } if whole::unpacks(&stmt.op).is_some() && is_shared(from) => {
            let Effect::Unpack(of) = whole::unpacks(&stmt.op)?.effect else { return None };
            // Two fragments of the right operand are converted at once.
            let [_, n, _] = mma.shape();
            let parts = mma.groups.mode(1).and_then(|mode| mode.size()).ok()?;
            let fits = operand == OperandName::A || rows % (2 * n * parts) == 0;
            fits.then(|| Converted { source: from.clone(), pairs: Some(of), scales: None, zeros: None })
        }
        _ => None,
    };
    let stmt = before.get(&view.tensor)?;
    if elem(view) != multiplied || !is_all(program, view) {
        return None;
    }
    let Op::Map { ins, to, value } = &stmt.op else {
        return Some((of_pairs(stmt)?, vec![view.tensor]));
    };
    let input = |value: &Expr| match value {
        Expr::In(n) => ins.get(usize::from(*n)),
        _ => None,
    };
    let (value, scales) = match value {
        Expr::Bin(Bin::Mul, of, by) => (&**of, Some(input(by)?)),
        value => (value, None),
    };
    let (value, zeros) = match value {
        Expr::Bin(Bin::Sub, of, less) if scales.is_some() => (&**of, Some(input(less)?)),
        value => (value, None),
    };
    let from = match value {
        Expr::Cast(_, of) => input(of)?,
        of => input(of)?,
    };
    let (of, mut computed) = match before.get(&from.tensor) {
        Some(stmt) if elem(from) == multiplied && is_all(program, from) => {
            (of_pairs(stmt)?, vec![from.tensor])
        }
        Some(_) => return None,
        None if is_shared(from) && extents(from).ok()? == shape && converts(elem(from), multiplied) => {
            (Converted { source: from.clone(), pairs: None, scales: None, zeros: None }, Vec::new())
        }
        None => return None,
    };
    computed.push(to.tensor);
    let of_elements = |view: &View| {
        let fits = is_shared(view) && elem(view) == multiplied;
        if fits { repeated(view, [rows, k]) } else { None }
    };
    let scales = scales.map(of_elements);
    let zeros = zeros.map(of_elements);
    if scales == Some(None) || zeros == Some(None) {
        return None;
    }
    let is_narrow = of.pairs.is_some() || elem(from) != multiplied;
    is_narrow.then(|| (Converted { scales: scales.flatten(), zeros: zeros.flatten(), ..of }, computed))
}

/// Is it all of a tile, as it is?
fn is_all(program: &Program, view: &View) -> bool {
    View::whole(view.tensor, &view.name, &program.tensor(view.tensor).layout.shape())
        .is_ok_and(|whole| whole.is_same(view))
}

/// A scale for each element of a tile of (rows, K), if both elements of a register have the same.
fn repeated(view: &View, [rows, k]: [i64; 2]) -> Option<View> {
    let [own, along] = [view.layout.mode(0).ok()?, view.layout.mode(1).ok()?];
    let along = match along.size().ok()? {
        1 => Layout::new(k, 0i64).ok()?,
        _ => along,
    };
    let (Value::Int(first), Value::Int(0)) = along.leaves().next()? else { return None };
    let fits = own.size().ok()? == rows && along.size().ok()? == k && first % PAIR == 0 && view.rank() == 2;
    fits.then(|| Layout::from_modes([own, along]).ok().map(|layout| view.rearranged(layout)))?
}
