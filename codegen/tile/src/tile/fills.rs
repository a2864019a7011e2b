//! Fills of operands: the values that copies write past the end of K, for products whose operations are not + and ·.

use std::collections::{BTreeMap, BTreeSet};

use crate::tile::visit::{each_mut, preorder};
use crate::tile::{How, Op, Program, Space, Stmt};
use crate::values::elem::Elem;
use crate::values::id::Id;
use crate::values::number::Number;
use crate::values::semiring::Semiring;

/// Fills out-of-bounds elements of operands in copies from global memory, for semirings other than sums of products,
/// with values that leave the sums unchanged. A fill that the author chose is kept; lowering checks the values.
pub(crate) fn fill(program: &mut Program) {
    let mut wanted = BTreeMap::new();
    for stmt in preorder(&program.body) {
        if let Op::Gemm { a, b, acc, how, .. } = &stmt.op
            && how.semiring() != Semiring::SUMS
            && let Some(fills) = how.semiring().fills(program.tensor(acc.tensor).elem)
        {
            for (view, fill) in [a, b].into_iter().zip(fills) {
                wanted.entry(view.tensor).or_insert(fill);
            }
        }
    }
    if wanted.is_empty() {
        return;
    }
    // Operands that are copied through other tiles.
    loop {
        let before = wanted.len();
        for stmt in preorder(&program.body) {
            if let Op::Copy { from, to, .. } = &stmt.op
                && !is_global(program, from.tensor)
                && let Some(fill) = wanted.get(&to.tensor).copied()
            {
                wanted.entry(from.tensor).or_insert(fill);
            }
        }
        if wanted.len() == before {
            break;
        }
    }
    let elems: Vec<(Elem, bool)> = (0..program.tensors.len() as Id)
        .map(|id| (program.tensor(id).elem, is_global(program, id)))
        .collect();
    each_mut(&mut program.body, &mut |stmt| {
        if let Op::Copy { from, to, how, fill, .. } = &mut stmt.op
            && let (elem, true) = elems[from.tensor as usize]
            && let Some(&wanted) = wanted.get(&to.tensor)
            && fill.is_zero()
            && !matches!(how, How::Atom(_))
            && Number::from(wanted).value(elem) == wanted
        {
            *fill = wanted.into();
        }
    });
}

/// Tensors that products of other semirings than sums of products read.
pub fn operands(body: &[Stmt]) -> BTreeSet<Id> {
    let operands = |stmt: &Stmt| match &stmt.op {
        Op::Gemm { a, b, how, .. } if how.semiring() != Semiring::SUMS => vec![a.tensor, b.tensor],
        _ => Vec::new(),
    };
    preorder(body).flat_map(operands).collect()
}

fn is_global(program: &Program, id: Id) -> bool {
    matches!(program.tensor(id).space, Space::Global { .. })
}
