//! Rings of a loop with a producer: slots for the shared tensors that its copies fill, the producer's statements that fill a
//! slot, and views of the current slot.

use std::collections::BTreeSet;

use tilewright_layout::Value;

use super::{Project, is_fill};
use crate::build::tiled::{rows_of, swizzled_tile};
use crate::build::{BOX_ALIGN, alignment};
use crate::isa;
use crate::resolve::contiguous;
use crate::source::ast::Span;
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, Result};
use crate::thread::Id;
use crate::tile::boxes::{Boxes, MOST_BOX};
use crate::tile::slots::slots_apart;
use crate::tile::view::View;
use crate::tile::visit::preorder;
use crate::tile::{Ahead, How, Op, Program, Ring, Space, Stmt};
use crate::values::affine::{Affine, Coord};

/// Rows after which the pattern of a swizzle repeats.
const PATTERN: i64 = 8;

/// A tensor of a ring.
pub(super) struct Buffer {
    pub(super) ring: Id,
    pub(super) slots: i64,
}

impl Project<'_> {
    /// The copies of a loop by the stages of the statements that use the filled tiles. Each has its own ring, so that
    /// a slot is released as soon as the last of its stages has run.
    pub(super) fn by_stages(&self, fills: Vec<Stmt>, rest: &[Stmt]) -> Vec<Vec<Stmt>> {
        let stages = |fill: &Stmt| -> BTreeSet<u32> {
            let filled: Vec<Id> = fill.writes().iter().map(|to| to.tensor).collect();
            let is_user = |stmt: &&Stmt| {
                stmt.preorder().any(|stmt| stmt.reads().iter().any(|from| filled.contains(&from.tensor)))
            };
            let orders = rest.iter().filter(is_user).map(|stmt| stmt.stage);
            orders.map(|order| order.map_or(0, |order| order.stage)).collect()
        };
        let mut all: Vec<(BTreeSet<u32>, Vec<Stmt>)> = Vec::new();
        for fill in fills {
            let stages = stages(&fill);
            match all.iter_mut().find(|(of, _)| *of == stages) {
                Some((_, together)) => together.push(fill),
                None => all.push((stages, vec![fill])),
            }
        }
        if all.is_empty() { vec![Vec::new()] } else { all.into_iter().map(|(_, fills)| fills).collect() }
    }

    /// The producer's statements for a slot, and the slot's contents then.
    pub(super) fn filled(
        &mut self,
        ring: Id,
        fills: Vec<Stmt>,
        filled: &mut Vec<Stmt>,
        contents: &mut Vec<Stmt>,
        span: Span,
    ) -> std::result::Result<(), Diagnostic> {
        let by = self.producer;
        let of = |op| Stmt::new(span, by, op);
        let phase = Affine::from(Coord::Phase(ring));
        let mut bytes = 0;
        let mut copies = Vec::new();
        for fill in fills {
            if let Op::Copy { from, to, .. } = &fill.op {
                let (from, mut to) = (from.clone(), to.clone());
                self.at_slot(&mut to);
                contents.push(Stmt::new(fill.span, self.consumers, Op::Contents { from, to }));
            }
            let copied = self.bulk(fill.op, &mut bytes).map_err(|problem| problem.at(fill.span))?;
            copies.push(Stmt::new(fill.span, by, copied));
        }
        filled.push(of(Op::Acquire { ring, phase: phase.clone() }));
        filled.push(of(Op::Publish { ring, phase, bytes: Some(bytes) }));
        filled.append(&mut copies);
        filled.push(of(Op::Advance { ring }));
        Ok(())
    }

    /// The error where a producer has no copy in each iteration of a loop.
    pub(super) fn without_fills(&self, body: &[Stmt], span: Span) -> Diagnostic {
        let mut inner = None;
        for stmt in preorder(body) {
            if is_fill(self.program, stmt) {
                inner = inner.or(stmt.writes().first().map(|to| &to.name));
            }
        }
        let problem = match inner {
            Some(name) => Problem::new(format!(
                "this pipelined loop copies `{name}` under a condition or in an inner loop, and a producer copies in each iteration"
            ))
            .help("copy it in each iteration, and put the condition around what reads it; or leave the producer out"),
            None => Problem::new("this pipelined loop copies nothing from global to shared memory")
                .help("copy tiles in its body, or leave the producer out"),
        };
        problem.at(span)
    }

    /// The ring of a loop, and slots for its buffers.
    pub(super) fn ring(
        &mut self,
        var: Id,
        ahead: &Ahead,
        fills: &[Stmt],
        span: Span,
    ) -> std::result::Result<Id, Diagnostic> {
        let program = &mut *self.program;
        let refuse = |message: String, help: &str, span: Span| Err(Problem::new(message).help(help).at(span));
        if ahead.fragments > 1 {
            let message = "fragments of a loop with a producer are not prefetched".to_owned();
            return refuse(message, "leave `fragments` out", span);
        }
        let (id, slots) = (program.rings.len() as Id, i64::from(ahead.stages));
        let mut buffers = Vec::new();
        for (at, fill) in fills.iter().enumerate() {
            let Op::Copy { from, to, .. } = &fill.op else { continue };
            let name = &to.name;
            if let Some(buffer) = self.buffers.insert(to.tensor, Buffer { ring: id, slots }) {
                let mut others = fills[..at].iter().flat_map(Stmt::writes);
                if buffer.ring == id && others.all(|other| other.tensor != to.tensor || other.is_apart(to)) {
                    // Another part of the same tile.
                    continue;
                }
                let message = format!("`{name}` is filled twice by producers");
                return refuse(
                    message,
                    "use a shared tensor for each copy, or parts that do not overlap",
                    fill.span,
                );
            }
            let open = program.open.remove(&to.tensor);
            let along = contiguous(program, from).or_else(|| of_rows(program, from));
            let along = along.map(|mode| mode_of(to, mode));
            let tensor = program.tensor(to.tensor);
            let tile: Option<Vec<i64>> = tensor.extents();
            // Fewer rows than a swizzle exchanges have no bank conflicts.
            let is_flat =
                |tile: &[i64; 2], along: usize| tile[1 - along] < PATTERN && tile[along] <= MOST_BOX;
            let one = match (open, along, tile.as_deref()) {
                (true, Some(along), Some(&[rows, columns])) if !is_flat(&[rows, columns], along) => {
                    swizzled_tile(tensor.elem, [rows, columns], along)
                }
                (true, Some(along), Some(tile)) if along < tile.len() => rows_of(tensor.elem, tile, along),
                _ => Ok(tensor.layout.clone()),
            };
            // Bulk copies write whole boxes, which must be aligned in every slot.
            let apart = tensor.elem.elements_in(i64::from(BOX_ALIGN));
            let layout = one
                .and_then(|one| slots_apart(&one, slots, apart))
                .map_err(|problem| problem.at(fill.span))?;
            let tensor = &mut program.tensors[to.tensor as usize];
            tensor.space = Space::Shared { align: alignment(&layout, tensor.elem).max(BOX_ALIGN) };
            tensor.layout = layout;
            buffers.push(to.tensor);
            if !program.packs.contains(&from.tensor) {
                program.packs.push(from.tensor);
            }
        }
        let name = match id {
            0 => "ring".to_owned(),
            _ => format!("{}_ring", program.vars[var as usize].name),
        };
        let (from, to) = (self.producer, self.consumers);
        program.fitted.extend(ahead.fewer.then_some((id, ahead.stages)));
        program.rings.push(Ring {
            name,
            slots: ahead.stages,
            buffers,
            from,
            to,
            arrivals: 1,
            over_cluster: false,
        });
        Ok(id)
    }

    /// A copy into a slot of the ring as a bulk copy; adds its bytes to the slot's.
    fn bulk(&self, op: Op, bytes: &mut u32) -> Result<Op> {
        let Op::Copy { from, mut to, how, fill, token } = op else { return Ok(op) };
        let (source, target) = (self.program.tensor(from.tensor), self.program.tensor(to.tensor));
        let refuse =
            |message: String| Problem::new(message).help("leave the producer out: threads copy such tiles");
        if source.elem != target.elem {
            return Err(refuse(format!(
                "`{}` has elements of {} and `{}` of {}: a bulk copy does not convert",
                source.name, source.elem, target.name, target.elem
            )));
        }
        if from.per_thread() || to.per_thread() {
            return Err(Problem::new(format!(
                "a producer copies whole tiles, and `{}`, {}, is the part of one thread",
                from.name,
                from.shape()
            ))
            .help("copy the tile without `parallelize`"));
        }
        if how != How::Derive || token.is_some() || !fill.is_zero() {
            return Err(refuse(
                "a producer copies in bulk, which fills out-of-bounds elements with zeros only".into(),
            ));
        }
        if let Some(view) =
            [&from, &to].into_iter().find(|view| !view.nearest.is_empty() || !view.clamped.is_empty())
        {
            return Err(refuse(format!(
                "a producer copies in bulk, which cannot clamp the coordinates of `{}`",
                view.name
            )));
        }
        let Some(row) = isa::bulk_load(source.rank(), false) else {
            return Err(refuse(format!(
                "`{}` has {} modes, and bulk copies take up to 5",
                source.name,
                source.rank()
            )));
        };
        *bytes += Boxes::of(self.program, row, &from, &to)?.bytes(target.elem) as u32;
        self.at_slot(&mut to);
        Ok(Op::Copy { from, to, how: How::Atom(row), fill, token })
    }

    /// A view of a buffer at the ring's current slot.
    pub(super) fn at_slot(&self, view: &mut View) {
        let Some(Buffer { ring, slots }) = self.buffers.get(&view.tensor) else { return };
        view.at_slot(&Coord::Phase(*ring).into(), *slots);
    }

    /// The same statement with its views of buffers at the ring's current slot.
    pub(super) fn in_slot(&self, mut stmt: Stmt) -> Stmt {
        stmt.each_mut(&mut |stmt| {
            for view in stmt.views_mut() {
                self.at_slot(view);
            }
        });
        stmt
    }
}

/// The mode of the tensor along which a mode of a view runs.
fn mode_of(view: &View, mode: usize) -> usize {
    match view.layout.mode(mode).ok().and_then(|own| own.leaves().next()) {
        Some((_, Value::Basis { path, .. })) => path.steps()[0].into(),
        _ => mode,
    }
}

/// The mode of a tile along its tensor's rows, if it has only one element along them.
fn of_rows(program: &Program, view: &View) -> Option<usize> {
    let strides: Vec<Value> = program.tensor(view.tensor).plain().leaves().map(|leaf| leaf.1).collect();
    let is_row = |mode: usize| strides.get(mode) == Some(&Value::Int(1));
    view.layout.modes().position(|mode| match mode.leaves().next() {
        Some((_, Value::Basis { path, .. })) => is_row(path.steps()[0].into()),
        _ => false,
    })
}
