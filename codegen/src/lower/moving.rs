//! Numbers that grow by the same step with every turn of a loop, such as where the next tile begins. What would be
//! multiplied anew in every turn is named before the loop and added to at the end of each turn.

use super::Lower;
use super::uses::drop_unread;
use crate::index::{Int, Ix};
use crate::thread::{Id, Op, Stmt};

/// A loop whose body is at hand.
struct Turn {
    /// Variables from here on are named inside.
    first: Id,
    /// Variables that follow a line: their first value and their step.
    lines: Vec<(Id, Line)>,
}

/// A number in the first turn, what is added with every turn, and whether it takes a multiplication to know it.
#[derive(Clone, Copy)]
struct Line {
    start: Ix,
    step: Ix,
    multiplies: bool,
}

impl Lower<'_> {
    /// Lets numbers move in the body of a loop, given its variable and where that begins; what names them, which is the
    /// result, stands before the loop.
    pub(super) fn moving(&mut self, (var, start): (Id, Ix), body: &mut Vec<Stmt>) -> Vec<Stmt> {
        let line = Line { start, step: self.int(1), multiplies: false };
        let (mut turn, mut before) = (Turn { first: var, lines: vec![(var, line)] }, Vec::new());
        self.move_names(&mut turn, body, &mut before);
        for stmt in body {
            if let Op::If { cond, then, other } = &mut stmt.op
                && other.is_empty()
                && self.holds_at_first(&turn, *cond)
            {
                self.move_names(&mut turn, then, &mut before);
            }
        }
        before
    }

    /// The names of one list of statements that runs in every turn, or in the first ones.
    fn move_names(&mut self, turn: &mut Turn, list: &mut Vec<Stmt>, before: &mut Vec<Stmt>) {
        let mut after = Vec::new();
        list.retain(|stmt| {
            let Op::Let(id, value) = stmt.op else { return true };
            let Some(line) = self.line(turn, value) else { return true };
            turn.lines.push((id, line));
            if !line.multiplies || self.kernel.vars[id as usize].wide {
                return true;
            }
            self.kernel.vars[id as usize].mutable = true;
            before.push(Stmt { site: stmt.site, op: Op::Let(id, line.start) });
            let known = self.kernel.exprs.get(value).clone();
            let now = self.exprs().leaf(Int::Var(id), known.lo, known.hi, known.multiple, known.same_for);
            let next = self.exprs().add(now, line.step);
            // One turn past the last is a tile past the edge, which facts about offsets include.
            for part in [line.start, line.step, next] {
                self.exprs().assume(part, i64::from(i32::MIN), i64::from(i32::MAX));
            }
            after.push(Stmt { site: stmt.site, op: Op::Set(id, next) });
            false
        });
        if !after.is_empty() {
            drop_unread(&self.kernel.exprs, list);
        }
        list.extend(after);
    }

    /// Does a condition, once it does not hold, hold in no later turn?
    fn holds_at_first(&mut self, turn: &Turn, cond: Ix) -> bool {
        let Int::Lt(left, right) = self.kernel.exprs.get(cond).int else { return false };
        match (self.line(turn, left), self.line(turn, right)) {
            (Some(left), Some(right)) => {
                self.kernel.exprs.get(left.step).lo >= 0 && self.kernel.exprs.constant(right.step) == Some(0)
            }
            _ => false,
        }
    }

    /// An expression as a line over the turns, if it is one.
    fn line(&mut self, turn: &Turn, at: Ix) -> Option<Line> {
        let zero = self.int(0);
        let still = Line { start: at, step: zero, multiplies: false };
        let int = self.kernel.exprs.get(at).int.clone();
        if let Int::Var(id) = int {
            let changes = self.kernel.vars[id as usize].mutable;
            let outside = !changes && (id < turn.first || self.named.iter().any(|(_, named)| *named == id));
            let known = turn.lines.iter().find(|(known, _)| *known == id).map(|(_, line)| *line);
            return known.or(outside.then_some(still));
        }
        let parts = int.parts().into_iter().map(|part| self.line(turn, part)).collect::<Option<Vec<_>>>()?;
        let rests = |line: &Line| self.kernel.exprs.constant(line.step) == Some(0);
        if parts.iter().all(rests) {
            return Some(still);
        }
        let (&[a, b], false) = (&parts[..], matches!(int, Int::Mul(..)) && !parts.iter().any(rests)) else {
            return None;
        };
        let (a_rests, multiplies) = (rests(&a), a.multiplies || b.multiplies);
        let e = self.exprs();
        Some(match int {
            Int::Add(..) => Line { start: e.add(a.start, b.start), step: e.add(a.step, b.step), multiplies },
            Int::Sub(..) => Line { start: e.sub(a.start, b.start), step: e.sub(a.step, b.step), multiplies },
            Int::Mul(..) => {
                let step = if a_rests { e.mul(a.start, b.step) } else { e.mul(a.step, b.start) };
                Line { start: e.mul(a.start, b.start), step, multiplies: true }
            }
            _ => return None,
        })
    }
}
