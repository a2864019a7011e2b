//! In which order a block does things. Loops and conditions depend on the block, on sizes and on scalar arguments alone, so
//! the whole order is known before anything is computed. Groups that do different things take turns where rings let them.

use tilewright_codegen::thread::Id;
use tilewright_codegen::tile::{Op, Past, Stmt};

use super::value::Operands;
use super::{Block, Result, Undefined};

/// A statement without others inside it, and the values of loop variables.
#[derive(Clone)]
pub(super) struct Step<'p> {
    pub(super) stmt: &'p Stmt,
    pub(super) vars: Vec<i128>,
}

/// More steps than this are a mistake of whoever drew the program.
const MOST: usize = 200_000;

/// What a list of statements ended with.
type Left = Option<Id>;

impl<'l> Block<'l> {
    /// All that the block does.
    pub(super) fn order(&self) -> Result<Vec<Step<'l>>> {
        let mut vars = vec![0; self.program.vars.len()];
        let mut steps = Vec::new();
        self.list(&self.program.body, &mut vars, &mut steps)?;
        Ok(steps)
    }

    /// Appends what a list does; the loop that is left, if one is.
    fn list(&self, body: &'l [Stmt], vars: &mut Vec<i128>, to: &mut Vec<Step<'l>>) -> Result<Left> {
        for stmt in body {
            let left = self.one(stmt, vars, to)?;
            if left.is_some() {
                return Ok(left);
            }
            if to.len() > MOST {
                return Err(Undefined("it takes too long".into()));
            }
        }
        Ok(None)
    }

    fn one(&self, stmt: &'l Stmt, vars: &mut Vec<i128>, to: &mut Vec<Step<'l>>) -> Result<Left> {
        let at = |vars: &[i128]| Step { stmt, vars: vars.to_vec() };
        match &stmt.op {
            Op::For { var, body, .. } | Op::Pipelined { var, body, .. } => {
                let extent = self.value(self.program.vars[*var as usize].extent)?;
                for turn in 0..extent {
                    vars[*var as usize] = i128::from(turn);
                    match self.list(body, vars, to)? {
                        Some(left) if left == *var => break,
                        Some(left) => return Ok(Some(left)),
                        None => {}
                    }
                }
            }
            Op::Step { var, at: place, past, body } => {
                let extent = i128::from(self.value(self.program.vars[*var as usize].extent)?);
                let mut turn = self.affine(place, &at(vars), 0)?;
                match past {
                    Past::Skip if turn >= extent => return Ok(None),
                    Past::Last => turn = turn.min(extent - 1),
                    _ => {}
                }
                vars[*var as usize] = turn;
                return self.list(body, vars, to);
            }
            Op::Leave { of, left, right } => {
                if self.affine(left, &at(vars), 0)? >= i128::from(self.value(*right)?) {
                    return Ok(Some(*of));
                }
            }
            Op::If { left, right, then, other } => {
                let holds = self.affine(left, &at(vars), 0)? < i128::from(self.value(*right)?);
                return self.list(if holds { then } else { other }, vars, to);
            }
            Op::When { cond, then, other } => {
                let cond = self.condition(cond, &Operands::none())?;
                if cond.is_unknown() {
                    return Err(Undefined("a condition is not known".into()));
                }
                return self.list(if cond.value != 0.0 { then } else { other }, vars, to);
            }
            Op::Roles(roles) => {
                let mut all = Vec::new();
                for (_, body) in roles {
                    let mut steps = Vec::new();
                    self.list(body, &mut vars.clone(), &mut steps)?;
                    all.push(steps);
                }
                self.interleave(all, to)?;
            }
            _ => to.push(at(vars)),
        }
        Ok(None)
    }

    /// What groups do at the same time, one after the other as far as rings let them.
    fn interleave(&self, roles: Vec<Vec<Step<'l>>>, to: &mut Vec<Step<'l>>) -> Result<()> {
        // For each ring: slots that have been filled, and that have been emptied.
        let mut rings = vec![(0i128, 0i128); self.program.rings.len()];
        let mut next = vec![0; roles.len()];
        loop {
            let mut moved = false;
            for (role, next) in roles.iter().zip(&mut next) {
                while let Some(step) = role.get(*next) {
                    let slots = |ring: &Id| i128::from(self.program.rings[*ring as usize].slots);
                    let goes = match &step.stmt.op {
                        // A slot is free once what filled it before has been released.
                        Op::Acquire { ring, turn } => {
                            self.affine(turn, step, 0)? - rings[*ring as usize].1 < slots(ring)
                        }
                        Op::Await { ring, turn } => self.affine(turn, step, 0)? < rings[*ring as usize].0,
                        _ => true,
                    };
                    if !goes {
                        break;
                    }
                    match &step.stmt.op {
                        Op::Publish { ring, .. } => rings[*ring as usize].0 += 1,
                        Op::Release { ring, .. } => rings[*ring as usize].1 += 1,
                        _ => to.push(step.clone()),
                    }
                    *next += 1;
                    moved = true;
                }
            }
            if roles.iter().zip(&next).all(|(role, next)| *next == role.len()) {
                return Ok(());
            }
            if !moved {
                return Err(Undefined("all groups wait for one another".into()));
            }
        }
    }
}
