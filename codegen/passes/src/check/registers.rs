//! Registers of asynchronous products against their threads' registers. An instruction that is in flight uses its accumulators and its
//! fragments, so the compiler cannot keep them in memory.

use std::collections::BTreeSet;

use crate::source::ast::Span;
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::Problem;
use crate::thread::Id;
use crate::tile::visit::preorder;
use crate::tile::{Multiply, Op, Program, Space, Stmt};
use crate::values::target::registers_at_entry;

/// Refuses products whose tiles need more registers at once than the threads of their group have.
pub fn of_products(program: &Program) -> Result<(), Diagnostic> {
    let entry = registers_at_entry(program.threads(), program.blocks_per_sm);
    let mut checked = Ok(());
    let mut check = |group: Id, body: &[Stmt]| {
        let of = &program.groups[group as usize];
        let there = of.registers.unwrap_or(entry);
        let most = Live::most(program, body);
        if most.registers > there && checked.is_ok() {
            checked = Err(refused(program, &of.name, there, &most));
        }
    };
    let mut has_roles = false;
    for stmt in preorder(&program.body) {
        if let Op::Roles(roles) = &stmt.op {
            has_roles = true;
            roles.iter().for_each(|(group, body)| check(*group, body));
        }
    }
    if !has_roles {
        check(0, &program.body);
    }
    checked
}

fn refused(program: &Program, group: &str, there: u32, most: &Most) -> Diagnostic {
    let tile = |id: &Id| format!("`{}` takes {}", program.tensor(*id).name, registers(program, *id));
    let tiles: Vec<String> = most.tiles.iter().map(tile).collect();
    let problem = Problem::new(format!(
        "tiles of products of warpgroups need {} registers of each thread here, and threads of `{group}` have {there}: {}",
        most.registers,
        tiles.join(", ")
    ));
    let blocks = if program.blocks_per_sm > 1 { ", or a smaller number in `blocks_per_sm`" } else { "" };
    problem.help(format!("use smaller tiles of accumulators{blocks}")).at(most.span)
}

/// Registers of a thread's fragment.
fn registers(program: &Program, id: Id) -> u32 {
    let tensor = program.tensor(id);
    let each = match tensor.space {
        Space::Registers { words: true } => tensor.elem.bytes(),
        _ => tensor.elem.bytes().next_multiple_of(4),
    };
    let count = tensor.plain().size().unwrap_or(0);
    (count * i64::from(each)).div_euclid(4).try_into().unwrap_or(u32::MAX)
}

/// The greatest number of registers that are in use at once, where that is, and the tiles.
#[derive(Default)]
struct Most {
    registers: u32,
    span: Span,
    tiles: BTreeSet<Id>,
}

/// The tiles of asynchronous products that later statements read, computed backwards. A statement that writes a part of a tile ends
/// its use, so that the number is never too great.
struct Live<'p> {
    program: &'p Program,
    /// The tiles of asynchronous products.
    tiles: BTreeSet<Id>,
    now: BTreeSet<Id>,
    most: Most,
}

impl Live<'_> {
    fn most(program: &Program, body: &[Stmt]) -> Most {
        let mut tiles = BTreeSet::new();
        for stmt in preorder(body) {
            if let Op::Gemm { a, acc, how: Multiply::Atom(row), .. } = &stmt.op
                && row.family.is_asynchronous()
            {
                tiles.extend([a.tensor, acc.tensor]);
            }
        }
        tiles.retain(|id| matches!(program.tensor(*id).space, Space::Registers { .. }));
        let mut live = Live { program, tiles, now: BTreeSet::new(), most: Most::default() };
        live.before(body);
        live.most
    }

    /// From the tiles that are in use after statements to those before.
    fn before(&mut self, body: &[Stmt]) {
        for stmt in body.iter().rev() {
            let bodies = stmt.bodies();
            if bodies.is_empty() {
                stmt.writes().iter().for_each(|to| _ = self.now.remove(&to.tensor));
                let read = stmt.reads().into_iter().map(|from| from.tensor);
                self.now.extend(read.filter(|id| self.tiles.contains(id)));
                if matches!(stmt.op, Op::Gemm { .. }) {
                    self.count(stmt.span);
                }
                continue;
            }
            // The statements after it, or another iteration.
            let mut after = self.now.clone();
            let chooses = matches!(stmt.op, Op::If { .. });
            loop {
                let mut all = if chooses { BTreeSet::new() } else { after.clone() };
                for body in &bodies {
                    self.now.clone_from(&after);
                    self.before(body);
                    all.extend(&self.now);
                }
                if chooses || all == after {
                    self.now = all;
                    break;
                }
                after = all;
            }
        }
    }

    fn count(&mut self, span: Span) {
        let all = self.now.iter().map(|id| registers(self.program, *id)).sum();
        if all > self.most.registers {
            self.most = Most { registers: all, span, tiles: self.now.clone() };
        }
    }
}
