//! The structure of a tile program, which every pass keeps: what statements name exists, and a loop's variable has its value
//! inside of the loop alone.

use std::cell::RefCell;

use crate::thread::Id;
use crate::tile::{Op, Program, Stmt};
use crate::values::affine::{Affine, Coord};

/// Checks it; the error says what a pass has done wrong.
pub fn check(program: &Program) -> Result<(), String> {
    body(program, &program.body, &mut Vec::new())
}

fn body(program: &Program, stmts: &[Stmt], loops: &mut Vec<Id>) -> Result<(), String> {
    for stmt in stmts {
        let views = stmt.accesses();
        let missing = views.map(|view| view.tensor).find(|id| *id as usize >= program.tensors.len());
        if let Some(id) = missing {
            return Err(format!("tensor {id} of {:?} does not exist", stmt.op));
        }
        if stmt.by as usize >= program.groups.len() {
            return Err(format!("group {} of {:?} does not exist", stmt.by, stmt.op));
        }
        let known = loops.len();
        loops.extend(match &stmt.op {
            Op::For { var, .. } | Op::Step { var, .. } => vec![*var],
            Op::Tiles { vars, .. } => vars.clone(),
            _ => Vec::new(),
        });
        let wrong = RefCell::new(None);
        stmt.mentions(program, &|number: &Affine| {
            number.any(&|coord| {
                !is_known(program, coord, loops) && wrong.replace(Some(coord.clone())).is_none()
            })
        });
        if let Some(coord) = wrong.into_inner() {
            return Err(format!("{coord:?} has no value in {:?}", stmt.op));
        }
        stmt.bodies().into_iter().try_for_each(|inner| body(program, inner, loops))?;
        loops.truncate(known);
    }
    Ok(())
}

fn is_known(program: &Program, coord: &Coord, loops: &[Id]) -> bool {
    let exists = |id: Id, count: usize| (id as usize) < count;
    match coord {
        Coord::Var(var) => loops.contains(var),
        Coord::Thread(group) | Coord::Member(group) => exists(*group, program.groups.len()),
        Coord::Phase(ring) => exists(*ring, program.rings.len()),
        Coord::Scalar(id) => exists(*id, program.scalars.len()),
        Coord::Loaded { number, .. } => exists(*number, program.reads.len()),
        _ => true,
    }
}
