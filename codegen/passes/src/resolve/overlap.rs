//! Statements that read other elements of the memory that they write: a tile that is copied to a shifted view of itself, or a part
//! whose first element is subtracted from all. Their sources are loaded to registers first. For whole tiles, a barrier separates
//! the reads of all threads from their writes.

use tilewright_layout::{Layout, Tuple};

use super::{blamed, extents};
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::Result;
use crate::tile::view::View;
use crate::tile::whole::is_cooperative;
use crate::tile::{Form, How, Op, Program, Space, Stmt, Tensor};

/// The statements, with the sources of some of them loaded to registers.
pub(super) fn apart(program: &mut Program, body: Vec<Stmt>) -> std::result::Result<Vec<Stmt>, Diagnostic> {
    let mut all = Vec::new();
    for mut stmt in body {
        for inner in stmt.bodies_mut() {
            *inner = apart(program, std::mem::take(inner))?;
        }
        let loaded = loaded(program, &mut stmt).map_err(|problem| blamed(program, &stmt, problem))?;
        all.extend(loaded);
        all.push(stmt);
    }
    Ok(all)
}

/// Does a statement read other elements of the memory that it writes?
pub(super) fn is_moved(program: &Program, stmt: &Stmt) -> bool {
    let one_by_one =
        matches!(stmt.op, Op::Copy { .. } | Op::Atomic { .. } | Op::Map { .. } | Op::Scatter { .. });
    one_by_one && {
        let writes = written(program, stmt);
        stmt.reads().iter().any(|view| overlaps(&writes, view))
    }
}

/// The views of memory that a statement writes.
fn written(program: &Program, stmt: &Stmt) -> Vec<View> {
    let in_memory = |view: &&View| !matches!(program.tensor(view.tensor).space, Space::Registers { .. });
    stmt.writes().into_iter().filter(in_memory).cloned().collect()
}

/// Has a view elements that are written at other coordinates?
fn overlaps(writes: &[View], view: &View) -> bool {
    writes.iter().any(|to| !to.is_same(view) && !to.is_apart(view))
}

/// The copies to registers ahead of a statement, which reads these instead.
fn loaded(program: &mut Program, stmt: &mut Stmt) -> Result<Vec<Stmt>> {
    if !is_moved(program, stmt) {
        return Ok(Vec::new());
    }
    let is_whole = is_cooperative(program, stmt.by, &stmt.op);
    let writes = written(program, stmt);
    let at = Stmt { op: Op::Sync, ..stmt.clone() };
    let (reads, mut fill): (Vec<&mut View>, _) = match &mut stmt.op {
        Op::Copy { from, fill, .. } => (vec![from], Some(fill)),
        Op::Atomic { from, .. } => (vec![from], None),
        Op::Map { ins, value, .. } => {
            let read = (0u8..).zip(ins).filter(|(n, _)| value.reads(*n));
            (read.map(|(_, view)| view).collect(), None)
        }
        Op::Scatter { at, .. } => (at.iter_mut().map(|(_, view)| view).collect(), None),
        _ => (Vec::new(), None),
    };
    let mut copies = Vec::new();
    for view in reads {
        if !overlaps(&writes, view) {
            continue;
        }
        let tensor = program.tensor(view.tensor);
        let (name, shape) = (format!("{}_before", view.name), Tuple::flat(&extents(view)?));
        let (space, layout) = (Space::Registers { words: false }, Layout::compact(shape.clone())?.into());
        let made = Tensor { name: name.clone(), elem: tensor.elem, space, layout, span: at.span };
        let to = View::whole(program.tensors.len() as u32, &name, &shape)?;
        program.tensors.push(made);
        if is_whole {
            program.forms.insert(to.tensor, Form::Open);
        }
        let from = std::mem::replace(view, to.clone());
        let fill = fill.take().map_or_else(|| 0.0.into(), |fill| *fill);
        copies.push(Stmt { op: Op::Copy { from, to, how: How::Derive, fill, token: None }, ..at.clone() });
    }
    Ok(copies)
}
