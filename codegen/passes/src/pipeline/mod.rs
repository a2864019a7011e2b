//! Software pipelining of loops with multistage shared memory. An iteration copies tiles from global to shared
//! memory and computes with them. In the expanded loop, copies of later iterations are in flight meanwhile:
//!
//! ```text
//! for k in pipelined(0..n, stages = 3) {      copies of iteration 0; commit
//!     copy(ga[(_, _, k)], sa);                copies of iteration 1; commit
//!     gemm(sa, …);                            for k in 0..n {
//! }                                               wait until at most 1 group is in flight; barrier
//!                                                 if k + 2 < n { copies of iteration k + 2 }; commit
//!                                                 gemm(sa[(_, _, k % 3)], …)
//!                                             }
//! ```
//!
//! Each shared tensor that the loop fills gets a mode for its slots: they are a ring, which the threads of the loop both
//! fill and empty. `schedule` writes the loop with the ring's statements, `fill` its copies by their mechanisms, and
//! [`crate::synchronise`] replaces the ring's statements by waits and barriers.
//!
//! If an iteration is one product, whose k-steps can come in any order, and tiles do not divide K, the partial K tile comes
//! first: then only the copies in the prologue depend on the end of K.
//!
//! The statements of a loop may have stages: stage 1 runs one step later than stage 0, beside statements of the next
//! iteration. See `stages`.
//!
//! Copies through registers are split: their loads are issued early, and their stores late. Many such copies and fragments
//! that are loaded ahead would not fit in registers together. So these copies are loaded and stored in batches, and the
//! fragments of a tile are loaded ahead within that tile only.
//!
//! A pipelined loop may also copy from shared memory to registers: fragments of the next k-step are loaded while the current
//! fragments are multiplied. Inside a loop that copies the tiles, both loops are one pipeline: see `steps`.

mod fetches;
mod fill;
mod fragments;
mod partial;
pub(crate) mod reads;
mod schedule;
mod stages;
mod steps;
mod stored;

use crate::allocate::allocate;
use crate::source::ast::Span;
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::Problem;
use crate::thread::Id;
use crate::tile::slots::with_slots;
use crate::tile::view::View;
use crate::tile::visit::{each_mut, preorder};
use crate::tile::{Op, Program, Space, Stmt};
use crate::values::target::Target;
use fetches::Level;
pub(crate) use fetches::{Fetches, is_in_flight};
use schedule::Schedule;
pub(crate) use stages::{accesses as uses, sets};

/// The program with its pipelined loops as loops over the slots of rings, which are its last rings.
pub fn schedule(program: Program) -> std::result::Result<Program, Diagnostic> {
    let Some(most) = most_stages(&program) else { return with_stages(program) };
    let room = Target::of(program.arch).shared_of_block(program.blocks_per_sm);
    let mut fewer = program.clone();
    for stages in (1..=most).rev() {
        each_mut(&mut fewer.body, &mut |stmt| {
            if let Op::For { ahead: Some(ahead), .. } = &mut stmt.op
                && ahead.fewer
            {
                ahead.stages = ahead.stages.min(stages).max(ahead.fragments);
            }
        });
        fewer.rename_stages(stages + 1, stages);
        let written = with_stages(fewer.clone())?;
        if allocate(&written).bytes <= room || stages == 1 {
            return Ok(written);
        }
    }
    with_stages(program)
}

/// The most stages of loops that may have fewer.
fn most_stages(program: &Program) -> Option<u32> {
    let stages = |stmt: &Stmt| match &stmt.op {
        Op::For { ahead: Some(ahead), .. } if ahead.fewer => Some(ahead.stages),
        _ => None,
    };
    preorder(&program.body).filter_map(stages).max()
}

/// The same for loops that have their numbers of stages.
fn with_stages(program: Program) -> std::result::Result<Program, Diagnostic> {
    let mut buffers = Vec::new();
    for stmt in &program.body {
        find(&program, stmt, &mut buffers)?;
    }
    let private = stages::private(&program);
    if buffers.is_empty() && private.is_empty() {
        return Ok(program);
    }
    for stmt in &program.body {
        alone(&program, stmt, &buffers, &[])?;
    }
    let mut slots: Vec<(Id, i64)> = Vec::new();
    for (id, stages) in &buffers {
        match slots.iter_mut().find(|(known, _)| known == id) {
            Some((_, most)) => *most = (*most).max(*stages),
            None => slots.push((*id, *stages)),
        }
    }
    slots.retain(|(_, stages)| *stages > 1);
    let mut written = program;
    for (id, stages) in &slots {
        let tensor = &mut written.tensors[*id as usize];
        let slots = match tensor.space {
            Space::Registers { .. } => steps::with_slots(&tensor.layout, *stages),
            _ => with_slots(&tensor.layout, *stages),
        };
        tensor.layout = slots.map_err(|problem| problem.at(tensor.span))?;
    }
    let body = without_annotations(std::mem::take(&mut written.body));
    let slots = slots.into_iter().map(|(id, _)| id).collect();
    let mut schedule = Schedule { program: written, private, slots };
    let mut body = schedule.body(body)?;
    each_mut(&mut body, &mut |stmt| stmt.stage = None);
    schedule.program.body = body;
    Ok(schedule.program)
}

/// Statements that make code. Coordinates are followed before loops are lowered.
fn without_annotations(mut body: Vec<Stmt>) -> Vec<Stmt> {
    body.retain(|stmt| !matches!(stmt.op, Op::Flow { .. } | Op::Contents { .. }));
    for stmt in &mut body {
        for inner in stmt.bodies_mut() {
            *inner = without_annotations(std::mem::take(inner));
        }
    }
    body
}

/// Checks the pipelined loops of a statement and lists the tensors that they fill, with the number of stages.
fn find(program: &Program, stmt: &Stmt, to: &mut Vec<(Id, i64)>) -> std::result::Result<(), Diagnostic> {
    if let Op::For { var, ahead: Some(ahead), body, .. } = &stmt.op {
        if let Some(problem) = ahead.unfit() {
            return Err(problem.at(stmt.span));
        }
        let fetches = Fetches::of(program, *var, ahead, body);
        let buffers = fetches.tensors(body);
        if buffers.is_empty() {
            return Err(fetches.none(body).at(stmt.span));
        }
        check(&fetches, body, &buffers, ahead.stages).map_err(|(problem, span)| problem.at(span))?;
        if fetches.level == Level::Fragments {
            steps::unfit(program, stmt).map_or(Ok(()), |problem| Err(problem.at(stmt.span)))?;
        }
        to.extend(buffers.iter().map(|id| (*id, i64::from(ahead.stages))));
    }
    stmt.bodies().into_iter().flatten().try_for_each(|stmt| find(program, stmt, to))
}

/// Why a loop that writes a tensor does not fetch it ahead.
pub(crate) fn written_in_the_loop(name: &str) -> Problem {
    Problem::new(format!(
        "`{name}` is written in the loop that copies it to shared memory, and copies of later iterations run ahead"
    ))
    .help("write a plain loop")
}

/// Checks that the copies of this body can be issued ahead of its other statements.
fn check(
    fetches: &Fetches<'_>,
    body: &[Stmt],
    buffers: &[Id],
    stages: u32,
) -> std::result::Result<(), (Problem, Span)> {
    let (program, level) = (fetches.program, fetches.level);
    let name = |view: &View| &program.tensor(view.tensor).name;
    let waits = fetches.others_in_flight(body);
    let mut refusal: Option<(Problem, Span)> = None;
    let mut refuse = |problem: Problem, span: Span| {
        refusal.get_or_insert((problem, span));
    };
    for (position, stmt) in body.iter().enumerate() {
        let ahead = fetches.takes(stmt);
        for inner in stmt.preorder() {
            match &inner.op {
                Op::Copy { from, to, .. } if ahead => {
                    let (source, target) = (program.tensor(from.tensor), program.tensor(to.tensor));
                    if source.elem != target.elem && level == Level::Tiles {
                        let problem = Problem::new(format!(
                            "`{}` has elements of {} and `{}` of {}: an asynchronous copy cannot convert",
                            source.name, source.elem, target.name, target.elem
                        ));
                        let help = format!(
                            "make `{}` of {}, and convert where it is read",
                            target.name, source.elem
                        );
                        refuse(problem.help(help), inner.span);
                    }
                    let written = |body: &[Stmt]| body.iter().any(|other| other.writes_to(from.tensor));
                    if stages > 1 && written(body) {
                        refuse(written_in_the_loop(&source.name), inner.span);
                    } else if written(&body[..position]) {
                        let problem = Problem::new(format!(
                            "`{}` is written here before it is copied: an iteration of a pipelined loop begins with its copies",
                            source.name
                        ));
                        refuse(problem.help("copy first, then write, or write a plain loop"), inner.span);
                    }
                }
                // The loop counts groups of copies in flight; a wait for all of them needs no count.
                Op::Wait { token: None, but: 0 } if level == Level::Tiles && waits => {}
                Op::Wait { token: None, .. } | Op::CommitCopies if level == Level::Tiles => {
                    let problem = Problem::new("a pipelined loop already waits for its copies");
                    let help = match waits {
                        true => "wait for other copies with cp_async_wait_all(), which needs no groups",
                        false => "leave the wait out",
                    };
                    refuse(problem.help(help), inner.span);
                }
                _ => {
                    let written =
                        inner.writes().into_iter().find(|to| buffers.contains(&to.tensor) && !ahead);
                    if let Some(to) = written {
                        let problem = Problem::new(format!(
                            "`{}` is filled by the copies of a pipelined loop, and written here as well",
                            name(to)
                        ));
                        refuse(problem.help("use another tensor for it"), inner.span);
                    }
                    let later = fetches.tensors(&body[position..]);
                    if let Some(from) = inner.reads().into_iter().find(|from| later.contains(&from.tensor)) {
                        let problem = Problem::new(format!(
                            "`{}` is read here before the copy that fills it: an iteration sees only its own copies",
                            name(from)
                        ));
                        refuse(problem.help("copy first, then read"), inner.span);
                    }
                }
            }
        }
    }
    refusal.map_or_else(|| reads::check(fetches, body), Err)
}

/// Checks that tensors filled by a pipelined loop are used in such loops only.
fn alone(
    program: &Program,
    stmt: &Stmt,
    buffers: &[(Id, i64)],
    inside: &[Id],
) -> std::result::Result<(), Diagnostic> {
    let views = stmt.accesses();
    for view in views.filter(|view| buffers.iter().any(|(id, _)| *id == view.tensor)) {
        if !inside.contains(&view.tensor) {
            let name = &program.tensor(view.tensor).name;
            let problem =
                Problem::new(format!("`{name}` is filled by a pipelined loop, and used outside of it"));
            return Err(problem.help("use another shared tensor here").at(stmt.span));
        }
    }
    let inside = match &stmt.op {
        Op::For { var, ahead: Some(ahead), body, .. } => {
            [inside, &Fetches::of(program, *var, ahead, body).tensors(body)].concat()
        }
        _ => inside.to_vec(),
    };
    stmt.bodies().into_iter().flatten().try_for_each(|stmt| alone(program, stmt, buffers, &inside))
}
