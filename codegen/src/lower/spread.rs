//! Copies of a later turn, dealt over the columns of a turn: in one lump they keep multiply-adds waiting, a few between
//! the products of two columns do not.

use super::Lower;
use super::uses::put;
use crate::atoms;
use crate::diagnostic::Diagnostic;
use crate::index::Ix;
use crate::thread::{AtomArg, Id, Op, Stmt, Unroll};
use crate::tile;

/// Moves that stand together at least: before each share the assembler puts a few instructions that do nothing.
const FEWEST: usize = 2;

impl Lower<'_> {
    /// A loop whose first turns take a share of copies each: these are written out, the others remain a loop.
    pub(super) fn spread(
        &mut self,
        copies: &[tile::Stmt],
        var: Id,
        body: &[tile::Stmt],
    ) -> std::result::Result<(), Diagnostic> {
        let extent = self.program.vars[var as usize].extent.int().unwrap_or(0);
        let outer = std::mem::take(&mut self.block);
        self.spreads = true;
        self.statements(copies)?;
        self.spreads = false;
        let lump = std::mem::replace(&mut self.block, outer);
        let shares = self.shares(lump, extent.max(1) as usize);
        let mut alone = shares.len() as i64;
        if extent - alone == 1 {
            alone = extent;
        }
        let mut shares = shares.into_iter();
        for turn in 0..alone {
            self.share = shares.next().unwrap_or_default();
            self.vars[var as usize] = Some(self.int(turn));
            self.statements(body)?;
        }
        match alone < extent {
            true => self.repeat(var, alone, Unroll::Full, body),
            false => Ok(()),
        }
    }

    /// Deals copies out, at most to so many turns: all of them take the same number, but for the last. What they name
    /// stands here, before all of them.
    fn shares(&mut self, mut lump: Vec<Stmt>, turns: usize) -> Vec<Vec<Stmt>> {
        let (condition, then) = match &mut lump[..] {
            [Stmt { site, op: Op::If { cond, then, other } }] if other.is_empty() => {
                (Some((*site, *cond)), std::mem::take(then))
            }
            _ => (None, lump),
        };
        let mut copies: Vec<Copy> = Vec::new();
        for stmt in then {
            match stmt.op {
                Op::Let(..) => self.block.push(stmt),
                Op::Comment(text) => copies.push(Copy { site: stmt.site, text, moves: Vec::new() }),
                _ => {
                    let moves = self.written_out(stmt);
                    match copies.last_mut() {
                        Some(copy) => copy.moves.extend(moves),
                        None => copies.push(Copy { site: self.site, text: String::new(), moves }),
                    }
                }
            }
        }
        let all: usize = copies.iter().map(|copy| copy.moves.len()).sum();
        let each = all.div_ceil(turns).max(FEWEST);
        let mut shares = vec![Vec::new(); all.div_ceil(each)];
        let mut done = 0;
        for copy in copies.into_iter().filter(|copy| !copy.moves.is_empty()) {
            let (first, last) = (done / each, (done + copy.moves.len() - 1) / each);
            done += copy.moves.len();
            let mut moves = copy.moves.into_iter();
            for (place, share) in shares.iter_mut().enumerate().take(last + 1).skip(first) {
                let text = match last - first {
                    0 => copy.text.clone(),
                    more => format!("part {} of {}: {}", place - first + 1, more + 1, copy.text),
                };
                let room = (place + 1) * each - (done - moves.len());
                if !copy.text.is_empty() {
                    share.push(Stmt { site: copy.site, op: Op::Comment(text) });
                }
                share.extend(moves.by_ref().take(room).flatten());
            }
        }
        let Some((site, cond)) = condition else { return shares };
        shares.into_iter().map(|share| self.only_if(cond, site, share)).collect()
    }

    /// A share of copies in turns in which a condition holds. Where all of them can write zeros instead of what they read,
    /// they do so in the others: a branch would keep the multiply-adds around it apart, and nobody reads those zeros.
    fn only_if(&mut self, cond: Ix, site: Id, mut share: Vec<Stmt>) -> Vec<Stmt> {
        let or_zero = |stmt: &Stmt| {
            let Op::Atom { row, .. } = &stmt.op else { return None };
            let bytes = [4, 8, 16].into_iter().find(|bytes| row.name == format!("cp_async_{bytes}"))?;
            Some((atoms::find(&format!("cp_async_{bytes}_or_zero"))?, bytes))
        };
        let is_comment = |stmt: &Stmt| matches!(stmt.op, Op::Comment(_));
        if !share.iter().all(|stmt| is_comment(stmt) || or_zero(stmt).is_some()) {
            return vec![Stmt { site, op: Op::If { cond, then: share, other: Vec::new() } }];
        }
        for stmt in &mut share {
            if let Some((filling, bytes)) = or_zero(stmt)
                && let Op::Atom { row, args, .. } = &mut stmt.op
            {
                let (all, none) = (self.int(bytes), self.int(0));
                args.push(AtomArg::Int(self.exprs().select(cond, all, none)));
                *row = filling;
            }
        }
        share
    }

    /// What the turns of unrolled loops around one thing do, one after the other.
    fn written_out(&mut self, stmt: Stmt) -> Vec<Vec<Stmt>> {
        let Op::For { var, from, to, step, unroll: Unroll::Full, body } = &stmt.op else {
            return vec![vec![stmt]];
        };
        let ends = self.kernel.exprs.constant(*from).zip(self.kernel.exprs.constant(*to));
        let (Some((from, to)), false) = (ends, body.iter().any(|stmt| matches!(stmt.op, Op::Let(..)))) else {
            return vec![vec![stmt]];
        };
        let mut all = Vec::new();
        for at in (from..to).step_by((*step).max(1) as usize) {
            let mut turn = body.clone();
            put(&mut self.kernel.exprs, &mut turn, *var, at);
            match <[Stmt; 1]>::try_from(turn) {
                Ok([only]) => all.extend(self.written_out(only)),
                Err(several) => all.push(several),
            }
        }
        all
    }
}

/// A copy: what it is called, and what it moves at once.
struct Copy {
    site: Id,
    text: String,
    moves: Vec<Vec<Stmt>>,
}
