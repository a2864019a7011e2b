//! Statements that read other elements of the memory that they write: a tile that is copied to a shifted view of itself.
//! Their sources are loaded to registers first, so that a barrier separates the reads of all threads from their writes.

use tilewright_layout::{Layout, Tuple};

use super::{blamed, extents};
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::Result;
use crate::tile::view::View;
use crate::tile::whole::{self, Kind, is_cooperative};
use crate::tile::{Form, How, Op, Program, Space, Stmt, Tensor};

/// The statements, with the sources of some of them loaded to registers.
pub(super) fn apart(program: &mut Program, body: Vec<Stmt>) -> std::result::Result<Vec<Stmt>, Diagnostic> {
    let mut all = Vec::new();
    for mut stmt in body {
        for inner in stmt.bodies_mut() {
            *inner = apart(program, std::mem::take(inner))?;
        }
        if is_cooperative(program, stmt.by, &stmt.op) {
            let loaded = loaded(program, &mut stmt).map_err(|problem| blamed(program, &stmt, problem))?;
            all.extend(loaded);
        }
        all.push(stmt);
    }
    Ok(all)
}

/// The copies to registers ahead of a statement, which reads these instead.
fn loaded(program: &mut Program, stmt: &mut Stmt) -> Result<Vec<Stmt>> {
    let in_memory = |view: &&View| whole::kind(program, view) == Kind::Memory;
    let writes: Vec<View> = stmt.writes().into_iter().filter(in_memory).cloned().collect();
    let at = Stmt { op: Op::Sync, ..stmt.clone() };
    let (reads, mut fill): (Vec<&mut View>, _) = match &mut stmt.op {
        Op::Copy { from, fill, .. } => (vec![from], Some(fill)),
        Op::Atomic { from, .. } => (vec![from], None),
        Op::Map { ins, .. } => (ins.iter_mut().collect(), None),
        Op::Scatter { at, .. } => (at.iter_mut().map(|(_, view)| view).collect(), None),
        _ => (Vec::new(), None),
    };
    let mut copies = Vec::new();
    for view in reads {
        if writes.iter().all(|to| to.is_same(view) || to.is_apart(view)) {
            continue;
        }
        let tensor = program.tensor(view.tensor);
        let (name, shape) = (format!("{}_before", view.name), Tuple::flat(&extents(view)?));
        let (space, layout) = (Space::Registers { words: false }, Layout::compact(shape.clone())?.into());
        let made = Tensor { name: name.clone(), elem: tensor.elem, space, layout, span: at.span };
        let to = View::whole(program.tensors.len() as u32, &name, &shape)?;
        program.tensors.push(made);
        program.forms.insert(to.tensor, Form::Open);
        let from = std::mem::replace(view, to.clone());
        let fill = fill.take().map_or_else(|| 0.0.into(), |fill| *fill);
        copies.push(Stmt { op: Op::Copy { from, to, how: How::Derive, fill, token: None }, ..at.clone() });
    }
    Ok(copies)
}
