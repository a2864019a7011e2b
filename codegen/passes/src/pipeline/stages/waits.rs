//! Waits for products in flight. In a loop with stages, a product of warpgroups runs until its registers are needed: its
//! wait moves to the next statement that uses its accumulator or overwrites its operands, in this step or in the next.

use std::collections::{BTreeMap, BTreeSet};

use super::dependences::{Thing, accesses};
use super::{Item, Kind};
use crate::thread::Id;
use crate::tile::{Op, Program, StageOrder, Stmt};

/// Removes waits that follow their product at once: the tokens of these products, and the other statements.
pub(super) fn apart(placed: Vec<(StageOrder, Stmt)>) -> (BTreeSet<Id>, Vec<(StageOrder, Stmt)>) {
    // Tokens, with how many statements of the body name each, and how many may be moved.
    let mut named: BTreeMap<Id, usize> = BTreeMap::new();
    for token in placed.iter().flat_map(|(_, stmt)| stmt.preorder()).filter_map(Stmt::token) {
        *named.entry(token).or_default() += 1;
    }
    let at_once = |pair: &[(StageOrder, Stmt)]| match (&pair[0].1.op, &pair[1].1.op) {
        (Op::Gemm { token: Some(of), .. }, Op::Wait { token: Some(token), but: 0 }) => {
            (of == token && named.get(token) == Some(&2)).then_some(*token)
        }
        _ => None,
    };
    let tokens: BTreeSet<Id> = placed.windows(2).filter_map(at_once).collect();
    let moves =
        |stmt: &Stmt| matches!(&stmt.op, Op::Wait { token: Some(token), .. } if tokens.contains(token));
    let rest = placed.into_iter().filter(|(_, stmt)| !moves(stmt)).collect();
    (tokens, rest)
}

/// Inserts the waits for products under these tokens. A wait in the next step belongs to the stage after the product's. Operands
/// in slots that the loop itself fills must have been read when it fills them, so those products are waited for at once.
pub(super) fn placed(program: &Program, items: &mut Vec<Item>, tokens: &BTreeSet<Id>, filled: &[Id]) {
    for &token in tokens {
        let is_product =
            |item: &Item| matches!(item.stmt.op, Op::Gemm { token: Some(of), .. } if of == token);
        let Some(at) = items.iter().position(is_product) else { continue };
        let Op::Gemm { a, b, acc, .. } = &items[at].stmt.op else { continue };
        let (acc, operands) = (Thing::Tensor(acc.tensor), [a, b].map(|view| Thing::Tensor(view.tensor)));
        let own = filled.iter().any(|id| operands.contains(&Thing::Tensor(*id)));
        let needs = |item: &Item| {
            let all = accesses(program, &item.stmt);
            let overwrites = |operand: Thing| all.contains(&(operand, true));
            item.kind == Kind::Always
                || all.iter().any(|(thing, _)| *thing == acc)
                || operands.into_iter().any(overwrites)
        };
        let behind = items[at + 1..].iter().position(needs).map(|after| at + 1 + after);
        let (to, next) = match behind {
            _ if own => (at + 1, 0),
            Some(to) => (to, 0),
            None => (items.iter().position(needs).unwrap_or(at), 1),
        };
        let op = Op::Wait { token: Some(token), but: 0 };
        let wait = Item::bare(Stmt { op, ..items[at].stmt.clone() }, items[at].stage + next);
        items.insert(to, wait);
    }
}

/// The wait for a product, if it is in flight after its statement: its position, and how many steps later.
pub(super) fn of(items: &[Item], at: usize) -> Option<(usize, i64)> {
    let Op::Gemm { token: Some(token), .. } = items[at].stmt.op else { return None };
    let is_wait = |item: &Item| {
        item.kind == Kind::Bare && matches!(item.stmt.op, Op::Wait { token: of, .. } if of == Some(token))
    };
    let wait = items.iter().position(is_wait)?;
    Some((wait, items[wait].stage - items[at].stage))
}
