//! The execution order of a cluster. If loops and conditions depend on the block, on sizes and on scalar
//! arguments alone, the whole order is known in advance, and groups with different roles alternate as their
//! rings allow. If they depend on memory or diverge, each step is executed as soon as it is reached;
//! divergent threads are executed one after the other.

use tilewright_codegen::affine::Affine;
use tilewright_codegen::condition::Test;
use tilewright_codegen::thread::Id;
use tilewright_codegen::tile::{Expr, Op, Past, Program, Stmt};

use super::value::Operands;
use super::{Cluster, Result, Undefined};

/// The context of a statement.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// Loop variables.
    pub(super) vars: Vec<i128>,
    /// For each ring, how many of its slots the group has passed.
    pub(super) phases: Vec<i128>,
    /// The block.
    pub(super) block: [i64; 3],
    /// Its rank in the cluster.
    pub(super) rank: usize,
    /// For each integer that is read, the value of each thread.
    pub(super) reads: Vec<Vec<i128>>,
    /// The one active thread, in divergent code.
    pub(super) only: Option<i64>,
}

impl Setting {
    /// The initial state.
    pub(super) fn new(program: &Program, vars: Vec<i128>, block: [i64; 3]) -> Setting {
        let reads = vec![vec![0; program.threads() as usize]; program.reads.len()];
        Setting { vars, phases: vec![0; program.rings.len()], block, rank: 0, reads, only: None }
    }

    /// An active thread.
    fn someone(&self) -> i64 {
        self.only.unwrap_or(0)
    }
}

/// A leaf statement and its context.
#[derive(Clone)]
pub(super) struct Step<'p> {
    pub(super) stmt: &'p Stmt,
    pub(super) at: Setting,
}

/// A step of all threads, or the steps of groups with different roles.
pub(super) enum Part<'p> {
    One(Step<'p>),
    Roles(Vec<Vec<Step<'p>>>),
}

/// A program with more steps is a bug in the draw, or the bounds of its loops are data that no loop should have.
const MOST: usize = 200_000;

/// The loop that a list of statements exits, if any.
type Left = Option<Id>;

impl<'l> Cluster<'l> {
    /// All steps of a block.
    pub(super) fn order(&mut self, block: [i64; 3], rank: usize) -> Result<Vec<Part<'l>>> {
        let program = self.program;
        let vars = vec![0; program.vars.len()];
        let mut at = Setting { rank, ..Setting::new(program, vars, block) };
        let mut parts = Vec::new();
        self.list(&program.body, &mut at, &mut parts)?;
        Ok(parts)
    }

    /// Appends the steps of a list.
    fn list(&mut self, body: &'l [Stmt], at: &mut Setting, to: &mut Vec<Part<'l>>) -> Result<Left> {
        for stmt in body {
            self.steps += 1;
            if self.steps > MOST {
                return Err(Undefined("it takes too long".into()));
            }
            let left = self.one(stmt, at, to)?;
            if left.is_some() {
                return Ok(left);
            }
        }
        Ok(None)
    }

    fn one(&mut self, stmt: &'l Stmt, at: &mut Setting, to: &mut Vec<Part<'l>>) -> Result<Left> {
        match &stmt.op {
            Op::For { var, body, .. } | Op::Pipelined { var, body, .. } => {
                let of = &self.program.vars[*var as usize];
                if at.only.is_none() && (of.from.per_thread() || of.to.per_thread()) {
                    return self.apart(stmt, at, to);
                }
                let (first, end) =
                    (self.affine(&of.from, at, at.someone())?, self.affine(&of.to, at, at.someone())?);
                for iteration in first..end {
                    at.vars[*var as usize] = iteration;
                    match self.list(body, at, to)? {
                        Some(left) if left == *var => break,
                        Some(left) => return Ok(Some(left)),
                        None => {}
                    }
                }
            }
            Op::Tiles { vars, divided, body, .. } => {
                // One cluster processes all tiles, and divides none: their distribution makes no difference.
                let (vars, parts) = vars.split_at(vars.len() - usize::from(*divided > 0));
                parts.iter().for_each(|&part| at.vars[part as usize] = i128::from(*divided));
                let extents = vars.iter().map(|&var| self.affine(&self.program.vars[var as usize].to, at, 0));
                let extents = extents.collect::<Result<Vec<_>>>()?;
                for mut tile in 0..extents.iter().product::<i128>() {
                    for (&var, extent) in vars.iter().zip(&extents) {
                        at.vars[var as usize] = tile % extent;
                        tile /= extent;
                    }
                    self.list(body, at, to)?;
                }
            }
            Op::Step { var, at: location, past, body } => {
                let extent = self.affine(&self.program.vars[*var as usize].to, at, at.someone())?;
                let mut iteration = self.affine(location, at, 0)?;
                match past {
                    Past::Skip if iteration >= extent => return Ok(None),
                    Past::Last => iteration = iteration.min(extent - 1),
                    _ => {}
                }
                at.vars[*var as usize] = iteration;
                return self.list(body, at, to);
            }
            Op::Leave { of, test } => {
                if self.test(test, at)? {
                    return Ok(Some(*of));
                }
            }
            Op::If { test, then, other } => {
                if at.only.is_none() && test.per_thread() {
                    return self.apart(stmt, at, to);
                }
                let truth = self.test(test, at)?;
                return self.list(if truth { then } else { other }, at, to);
            }
            Op::Take { number, from } => {
                let step = Step { stmt, at: at.clone() };
                let purpose = self.program.reads[*number as usize].purpose;
                for (thread, value) in self.taken(&step, from, purpose)? {
                    at.reads[*number as usize][thread as usize] = value;
                }
            }
            Op::Roles(roles) => {
                let mut all = Vec::new();
                for (_, body) in roles {
                    let mut parts = Vec::new();
                    self.list(body, &mut at.clone(), &mut parts)?;
                    all.push(steps(parts)?);
                }
                to.push(Part::Roles(all));
            }
            Op::Advance { ring } => {
                at.phases[*ring as usize] += 1;
                to.push(Part::One(Step { stmt, at: at.clone() }));
            }
            _ if self.is_direct() => self.perform(&Step { stmt, at: at.clone() })?,
            _ => to.push(Part::One(Step { stmt, at: at.clone() })),
        }
        Ok(None)
    }

    /// Divergent code, one thread after the other.
    fn apart(&mut self, stmt: &'l Stmt, at: &mut Setting, to: &mut Vec<Part<'l>>) -> Result<Left> {
        for thread in 0..i64::from(self.program.threads()) {
            at.only = Some(thread);
            self.one(stmt, at, to)?;
        }
        at.only = None;
        Ok(None)
    }

    /// Does control flow depend on memory or on the thread?
    fn is_direct(&self) -> bool {
        let mut apart = !self.program.reads.is_empty();
        let mut ask = |stmt: &Stmt| match &stmt.op {
            Op::If { test, .. } => apart |= test.per_thread(),
            Op::For { var, .. } => {
                let var = &self.program.vars[*var as usize];
                apart |= var.from.per_thread() || var.to.per_thread();
            }
            _ => {}
        };
        self.program.body.iter().for_each(|stmt| stmt.each(&mut ask));
        apart
    }

    fn test(&self, test: &Test, at: &Setting) -> Result<bool> {
        let number = |of: &Affine| self.affine(of, at, at.someone());
        Ok(match test {
            Test::Less(a, b) => number(a)? < number(b)?,
            Test::Equal(a, b) => number(a)? == number(b)?,
            Test::IsTrue(expr) => self.truth(expr, at)?,
            Test::Not(inner) => !self.test(inner, at)?,
            Test::Both(both) => self.test(&both[0], at)? && self.test(&both[1], at)?,
            Test::Either(both) => self.test(&both[0], at)? || self.test(&both[1], at)?,
        })
    }

    fn truth(&self, cond: &Expr, at: &Setting) -> Result<bool> {
        let cond = self.condition(cond, &Operands::none(at, at.someone()))?;
        match cond.is_unknown() {
            true => Err(Undefined("a condition is not known".into())),
            false => Ok(cond.value != 0.0),
        }
    }

    /// The steps of a cluster's blocks, in an order that their rings allow.
    pub(super) fn together(&self, blocks: Vec<Vec<Part<'l>>>) -> Result<Vec<Step<'l>>> {
        let across = self.program.rings.iter().any(|ring| ring.over_cluster);
        let mut all = Vec::new();
        if !across {
            for part in blocks.into_iter().flatten() {
                match part {
                    Part::One(step) => all.push(step),
                    Part::Roles(roles) => self.interleave(roles, &mut all)?,
                }
            }
            return Ok(all);
        }
        // Blocks that share a ring reach their roles at the same time.
        let mut roles = Vec::new();
        for part in blocks.into_iter().flatten() {
            match part {
                Part::One(step) if roles.is_empty() => all.push(step),
                Part::One(_) => {
                    return Err(Undefined("blocks that share a ring go on after their roles".into()));
                }
                Part::Roles(more) => roles.extend(more),
            }
        }
        self.interleave(roles, &mut all)?;
        Ok(all)
    }

    /// The steps of concurrent groups, serialised as their rings allow.
    fn interleave(&self, roles: Vec<Vec<Step<'l>>>, to: &mut Vec<Step<'l>>) -> Result<()> {
        let ranks = self.program.cluster.iter().product::<u32>() as usize;
        let mut rings = vec![Slots::new(ranks); self.program.rings.len()];
        let mut next = vec![0; roles.len()];
        loop {
            let mut moved = false;
            for (role, next) in roles.iter().zip(&mut next) {
                while let Some(step) = role.get(*next) {
                    if !self.goes(step, &mut rings)? {
                        break;
                    }
                    to.push(step.clone());
                    *next += 1;
                    moved = true;
                }
                if *next == role.len()
                    && let Some(last) = role.last()
                {
                    rings.iter_mut().for_each(|ring| moved |= ring.arrive(last.at.rank));
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

    /// Can a step be executed now? If so, it updates the rings.
    fn goes(&self, step: &Step<'_>, rings: &mut [Slots]) -> Result<bool> {
        let rank = step.at.rank;
        let over = |ring: &Id| self.program.rings[*ring as usize].over_cluster;
        Ok(match &step.stmt.op {
            // A slot is free once its previous contents have been released.
            Op::Acquire { ring, phase } => {
                let known = &mut rings[*ring as usize];
                known.arrive(rank);
                let slots = i128::from(self.program.rings[*ring as usize].slots);
                self.affine(phase, &step.at, 0)? - known.of(&known.empty, rank, over(ring)) < slots
            }
            Op::Publish { ring, bytes, .. } => {
                let known = &mut rings[*ring as usize];
                match bytes {
                    // Full once the next copy has arrived.
                    Some(_) => known.coming[rank] += 1,
                    None => known.full[rank] += 1,
                }
                true
            }
            Op::Advance { ring } => {
                rings[*ring as usize].arrive(rank);
                true
            }
            Op::Await { ring, phase } => {
                let known = &rings[*ring as usize];
                self.affine(phase, &step.at, 0)? < known.of(&known.full, rank, over(ring))
            }
            Op::Release { ring, .. } => {
                rings[*ring as usize].empty[rank] += 1;
                true
            }
            _ => true,
        })
    }
}

/// How many slots of a ring have been filled and emptied, for each block of the cluster.
#[derive(Clone)]
struct Slots {
    full: Vec<i128>,
    coming: Vec<i128>,
    empty: Vec<i128>,
}

impl Slots {
    fn new(ranks: usize) -> Slots {
        Slots { full: vec![0; ranks], coming: vec![0; ranks], empty: vec![0; ranks] }
    }

    /// Completes the copies in flight to a block; were there any?
    fn arrive(&mut self, rank: usize) -> bool {
        let coming = std::mem::take(&mut self.coming[rank]);
        self.full[rank] += coming;
        coming > 0
    }

    /// The count of one block, or the least of all blocks.
    fn of(&self, counts: &[i128], rank: usize, over: bool) -> i128 {
        if over { counts.iter().copied().min().unwrap_or(0) } else { counts[rank] }
    }
}

/// Steps without nested roles.
fn steps(parts: Vec<Part<'_>>) -> Result<Vec<Step<'_>>> {
    let one = |part| match part {
        Part::One(step) => Ok(step),
        Part::Roles(_) => Err(Undefined("roles in roles".into())),
    };
    parts.into_iter().map(one).collect()
}
