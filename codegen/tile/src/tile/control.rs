//! Control flow of tile programs: the paths through statements, and where control differs between threads or between blocks.

use super::visit::{of_elements, of_order};
use super::{LaunchRule, Op, Past, Program, Stmt};
use crate::values::affine::{Affine, Coord};
use crate::values::flow::{Control, Structured};
use crate::values::id::Id;

impl Structured for Program {
    type Stmt = Stmt;

    fn control(&self, stmt: &Stmt) -> Control {
        match &stmt.op {
            Op::For { var, .. } => Control::Repeat { var: *var, runs: self.runs(*var) },
            Op::Tiles { vars, .. } => match self.launch {
                LaunchRule::Persistent => {
                    Control::Repeat { var: vars.first().copied().unwrap_or(Id::MAX), runs: false }
                }
                LaunchRule::PerTile => Control::One,
            },
            Op::Leave { of, .. } => Control::Leave(*of),
            Op::Step { past: Past::Skip, .. } => Control::OneOrNone,
            Op::Step { past: Past::Last | Past::Anyway | Past::Inside, .. } | Op::Ordered { .. } => {
                Control::One
            }
            Op::If { .. } => Control::One,
            Op::Roles(roles) => {
                let warps = |group: Id| self.groups[group as usize].warps.map(|(first, end)| end - first);
                let all: Option<u32> = roles.iter().map(|(group, _)| warps(*group)).sum();
                Control::Together { all: all.is_none_or(|all| all >= self.threads().div_ceil(32)) }
            }
            of_elements!() | of_order!() => Control::Straight,
        }
    }

    fn blocks(stmt: &mut Stmt) -> Vec<&mut Vec<Stmt>> {
        stmt.bodies_mut()
    }

    fn vars(&self, stmt: &Stmt) -> Vec<Id> {
        match &stmt.op {
            Op::For { var, .. } | Op::Step { var, .. } => vec![*var],
            Op::Tiles { vars, .. } => vars.clone(),
            _ => Vec::new(),
        }
    }
}

impl Program {
    /// Is it a condition or a loop that may differ from thread to thread?
    pub fn diverges(&self, op: &Op) -> bool {
        let is_left = || match op {
            Op::For { var, body, .. } => self.is_left(*var, body, false),
            _ => false,
        };
        self.decided_by(op).into_iter().any(Affine::per_thread) || is_left()
    }

    /// May some threads leave a loop before the others? Only the innermost loop is left.
    fn is_left(&self, var: Id, body: &[Stmt], apart: bool) -> bool {
        body.iter().any(|stmt| match &stmt.op {
            Op::Leave { of, test } => *of == var && (apart || test.per_thread()),
            Op::For { .. } => false,
            op => {
                let apart = apart || self.diverges(op);
                stmt.bodies().into_iter().any(|inner| self.is_left(var, inner, apart))
            }
        })
    }

    /// May the body of a statement be executed by some of the blocks of a cluster that are neighbours along x alone, or a different
    /// number of times?
    pub fn neighbours_diverge(&self, op: &Op) -> bool {
        let blocks = i64::from(self.cluster[0]);
        blocks > 1 && self.decided_by(op).into_iter().any(|at| at.per_block(blocks))
    }

    /// May the body of a statement be executed by some blocks of a cluster alone, or a different number of times?
    pub fn blocks_diverge(&self, op: &Op) -> bool {
        let blocks = i64::from(self.cluster.iter().product::<u32>());
        let along_x = self.cluster[1..] == [1; 2];
        let differs = |at: &Affine| {
            at.per_block(blocks) || (!along_x && at.any(&|coord| matches!(coord, Coord::Block(_))))
        };
        blocks > 1 && self.decided_by(op).into_iter().any(differs)
    }

    /// The integers that decide whether its bodies are executed, and how often.
    fn decided_by<'p>(&'p self, op: &'p Op) -> Vec<&'p Affine> {
        match op {
            Op::If { test, .. } => test.integers(),
            Op::For { var, .. } => {
                let var = &self.vars[*var as usize];
                vec![&var.from, &var.to]
            }
            // Groups, and tiles of all threads decide.
            Op::Roles(_) | Op::Tiles { .. } | Op::Ordered { .. } => Vec::new(),
            // Iterations of a loop whose bounds have been checked.
            Op::Step { .. } | Op::Leave { .. } => Vec::new(),
            of_elements!() | of_order!() => Vec::new(),
        }
    }
}
