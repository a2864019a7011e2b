//! Shared tiles that a loop with a producer computes from the tiles that are copied, such as the terms of an operand. A further
//! group of threads, the transform group, computes them while the other consumers multiply:
//!
//! ```text
//! for k in pipelined(0..n, …, producer = warp) {
//!     copy(ga[(_, _, k)], sa);
//!     copy(gb[(_, _, k)], sb);
//!     copy(map(sb, f), high);           transform: for k { await sb; acquire; high = f(sb); publish; advance }
//!     copy(map(sb, g), low);
//!     gemm(sa, high, &mut acc);         consumers: for k { await sa; await high; gemm; …; release; advance }
//!     gemm(sa, low, &mut acc);
//! }
//! ```
//!
//! A tile takes the memory of the copied tile if only the group reads that, and has read it by then. Where the group cannot
//! compute a tile, consumers do, between barriers.

use std::collections::{BTreeMap, BTreeSet};

use tilewright_layout::{Composed, Layout, Tiler, Tuple, layout};

use super::ring::Buffer;
use super::{Project, is_asynchronous, is_fill, is_produced};
use crate::build::tiled::swizzled_tile;
use crate::build::{BOX_ALIGN, Builder, alignment};
use crate::isa::REGISTER_POOL;
use crate::pipeline::{reads, sets, uses};
use crate::resolve::contiguous;
use crate::source::ast::Span;
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, Result};
use crate::thread::{Id, Unroll};
use crate::tile::slots::slots_apart;
use crate::tile::view::{At, View};
use crate::tile::visit::{each_mut, preorder};
use crate::tile::{Expr, Form, How, Op, Program, Ring, Space, Stmt};
use crate::values::affine::{Affine, Coord};
use crate::values::elem::Elem;
use crate::values::target::WARP;
use crate::values::typing::Types;

/// Threads of the group, whose warps change their number of registers together.
pub(super) const THREADS: u32 = REGISTER_POOL.warps * WARP;
/// Their registers, where consumers take the others.
pub(super) const REGISTERS: u32 = REGISTER_POOL.transform;
/// Bytes that a thread reads and writes at once, at most.
const WIDEST: i64 = 16;
/// Rows after which the pattern of a swizzle repeats, twice: a part of a tile is a multiple of this.
const ROWS: i64 = 16;

/// What the group does in an iteration of a loop.
pub(super) struct Transform {
    /// Which statements it executes.
    own: Vec<bool>,
    /// The tiles that it computes.
    targets: BTreeSet<Id>,
    /// Tiles in the memory of tiles that are copied.
    memory_of: BTreeMap<Id, Id>,
    extents: [i64; 2],
    /// The mode along which the first copied tile is contiguous.
    along: usize,
    elem: Elem,
}

/// The group's part of a loop's body, if it has any.
pub(super) fn of_loop(program: &Program, total: &BTreeMap<Id, usize>, body: &[Stmt]) -> Option<Transform> {
    let is_staged = body.iter().any(|stmt| stmt.stage.is_some());
    if !is_asynchronous(program) || program.alternates || is_staged {
        return None;
    }
    let filled = copied(program, body);
    let inside = uses(body);
    let private = |id: Id| total.get(&id) == inside.get(&id);
    let is_shared = |id: Id| matches!(program.tensor(id).space, Space::Shared { .. });
    let is_open = |id: Id| matches!(program.forms.get(&id), Some(Form::Open));
    let fits = |stmt: &Stmt| {
        let simple = match &stmt.op {
            Op::Copy { how: How::Derive, token: None, .. } => true,
            Op::Map { ins, value, .. } => !ins.is_empty() && !value.any(&|part| matches!(part, Expr::At(_))),
            _ => false,
        };
        let [to] = stmt.writes()[..] else { return false };
        let is_own = is_open(to.tensor) || is_shared(to.tensor) && !filled.contains_key(&to.tensor);
        let reads = |from: &&View| filled.contains_key(&from.tensor) || is_open(from.tensor);
        simple
            && is_own
            && private(to.tensor)
            && sets(program, stmt, to.tensor)
            && stmt.reads().iter().all(reads)
            && reads::used(program, stmt).is_empty()
            && stmt.reads().into_iter().chain([to]).all(|view| is_whole(program, view))
    };
    let mut own: Vec<bool> = body.iter().map(|stmt| !is_fill(program, stmt) && fits(stmt)).collect();
    // A statement that is left to consumers may leave others to them.
    while let Some(at) =
        (0..body.len()).find(|at| own[*at] && !is_separate(program, body, &own, &filled, *at))
    {
        own[at] = false;
    }
    let stmts: Vec<&Stmt> = body.iter().zip(&own).filter(|(_, own)| **own).map(|(stmt, _)| stmt).collect();
    let written = stmts.iter().flat_map(|stmt| stmt.writes()).map(|to| to.tensor);
    let targets: BTreeSet<Id> = written.filter(|id| is_shared(*id)).collect();
    let views = || stmts.iter().flat_map(|stmt| stmt.accesses());
    let &[rows, columns] = &views().next()?.extents()?[..] else { return None };
    let extents = [rows, columns];
    if targets.is_empty() || views().any(|view| view.extents().is_none_or(|own| own != extents)) {
        return None;
    }
    let elem = program.tensor(*targets.first()?).elem;
    let mut modes = views().filter_map(|view| filled.get(&view.tensor).copied());
    let along = modes.next().unwrap_or(1);
    // Threads write the elements that they have read if all tiles are distributed alike.
    let alike = views().all(|view| program.tensor(view.tensor).elem.bits() == elem.bits());
    let alike = alike && modes.all(|mode| mode == along);
    let mut transform = Transform { own, targets, memory_of: BTreeMap::new(), extents, along, elem };
    if alike && keep_zero(program, &stmts) {
        transform.reuse(program, body, |id| filled.contains_key(&id) && private(id));
    }
    Some(transform)
}

/// Does a statement depend on the group's statements alone, and only on earlier ones? A tile in registers is the group's or the
/// consumers'; a shared one is set once, before consumers read it.
fn is_separate(
    program: &Program,
    body: &[Stmt],
    own: &[bool],
    filled: &BTreeMap<Id, usize>,
    at: usize,
) -> bool {
    let to = body[at].writes()[0].tensor;
    let (writers, readers) = (positions(body, to, true), positions(body, to, false));
    let first = writers.first().is_some_and(|first| readers.iter().all(|reader| reader > first));
    let alone = match program.tensor(to).space {
        Space::Shared { .. } => writers.len() == 1,
        _ => writers.iter().chain(&readers).all(|at| own[*at]),
    };
    let is_set = |from: &&View| {
        let set = positions(body, from.tensor, true).first().copied();
        filled.contains_key(&from.tensor) || set.is_some_and(|set| own[set] && set < at)
    };
    first && alone && body[at].reads().iter().all(is_set)
}

/// The shared tiles that copies of a loop fill, each with the mode along which it is contiguous.
fn copied(program: &Program, body: &[Stmt]) -> BTreeMap<Id, usize> {
    let one = |stmt: &Stmt| match &stmt.op {
        Op::Copy { from, to, .. } => {
            let mode = contiguous(program, from).filter(|mode| *mode < 2);
            Some((to.tensor, mode.unwrap_or(1)))
        }
        _ => None,
    };
    body.iter().filter(|stmt| is_fill(program, stmt)).filter_map(one).collect()
}

fn is_whole(program: &Program, view: &View) -> bool {
    let whole = View::whole(view.tensor, &view.name, &program.tensor(view.tensor).layout.shape());
    whole.is_ok_and(|whole| whole.is_same(view))
}

/// The statements that write a tensor, or read it.
fn positions(body: &[Stmt], id: Id, writes: bool) -> Vec<usize> {
    let accesses = |stmt: &Stmt| {
        let views = stmt.preorder().flat_map(if writes { Stmt::writes } else { Stmt::reads });
        views.into_iter().any(|view| view.tensor == id)
    };
    (0..body.len()).filter(|at| accesses(&body[*at])).collect()
}

/// Do the statements set elements to 0 where the elements that they read are 0, as those out of bounds are?
fn keep_zero(program: &Program, stmts: &[&Stmt]) -> bool {
    stmts.iter().all(|stmt| {
        let Op::Map { ins, value, .. } = &stmt.op else { return true };
        let elems: Vec<Elem> = ins.iter().map(|view| program.tensor(view.tensor).elem).collect();
        let types = Types { ins: &elems, scalars: &program.scalars };
        let leaf = |leaf: &Expr| matches!(leaf, Expr::In(_)).then_some(0.0);
        types.evaluated(value, &leaf) == Some(0.0)
    })
}

impl Transform {
    /// The mode along which a computed tile is contiguous: tensor cores read elements along K, unless they have 16 bits.
    fn along_of(&self, elem: Elem) -> usize {
        if elem.bits() == 16 { self.along } else { 1 }
    }

    /// Tiles take the memory of copied tiles that pass a test.
    fn reuse(&mut self, program: &Program, body: &[Stmt], is_copied: impl Fn(Id) -> bool) {
        for (at, stmt) in body.iter().enumerate().filter(|(at, _)| self.own[*at]) {
            let to = stmt.writes()[0].tensor;
            if !self.targets.contains(&to) {
                continue;
            }
            let of = |id: Id| program.tensor(id);
            let by_products = || {
                positions(body, to, false).iter().all(|reader| matches!(body[*reader].op, Op::Gemm { .. }))
            };
            let is_like = |id: Id| {
                let open = [to, id].map(|id| program.open.contains(&id));
                let layouts = open == [true; 2] || open == [false; 2] && of(to).layout == of(id).layout;
                let elems = [of(id).elem, of(to).elem];
                let layouts = layouts && self.along_of(of(to).elem) == self.along;
                layouts && (elems[0] == elems[1] || elems == [Elem::F32, Elem::Tf32] && by_products())
            };
            let is_free = |id: Id| {
                let is_read = |reader: &usize| *reader <= at && self.own[*reader];
                is_copied(id)
                    && self.memory_of.values().all(|known| *known != id)
                    && positions(body, id, false).iter().all(is_read)
            };
            let own = (0..body.len()).filter(|at| self.own[*at]).flat_map(|at| body[at].reads());
            let source = own.map(|from| from.tensor).find(|id| is_like(*id) && is_free(*id));
            self.memory_of.extend(source.map(|source| (to, source)));
        }
    }

    /// How many parts the group computes one after the other: a vector of each thread in each, if the threads divide
    /// the tile.
    fn parts(&self) -> i64 {
        let (along, across) = (self.along, 1 - self.along);
        let vectors = (0..5).map(|bit| self.elem.elements_in(WIDEST) >> bit).take_while(|n| *n > 0);
        let [count, length] = [across, along].map(|mode| self.extents[mode]);
        for vector in vectors {
            let share = vector * i64::from(THREADS);
            let even = |rows: &i64| rows * length % share == 0 && count % rows == 0;
            if let Some(rows) = (1..=count / ROWS).map(|n| n * ROWS).find(even) {
                return count / rows;
            }
        }
        1
    }
}

/// What consumers wait for before they use the tiles that the group has computed.
pub(super) struct Computed {
    pub(super) ring: Id,
    tiles: BTreeSet<Id>,
}

impl Computed {
    /// Does a statement read one of the tiles?
    pub(super) fn is_used(&self, stmt: &Stmt) -> bool {
        stmt.preorder().any(|stmt| stmt.reads().iter().any(|from| self.tiles.contains(&from.tensor)))
    }
}

impl Project<'_> {
    /// The group's statements of an iteration, and the others. Tiles in the memory of copied tiles are these from now on.
    pub(super) fn share_memory(
        &mut self,
        transform: &Transform,
        mut body: Vec<Stmt>,
    ) -> (Vec<Stmt>, Vec<Stmt>) {
        each_mut(&mut body, &mut |stmt| {
            for view in stmt.views_mut() {
                view.tensor = *transform.memory_of.get(&view.tensor).unwrap_or(&view.tensor);
            }
        });
        for (tile, copied) in &transform.memory_of {
            let [elem, own] = [tile, copied].map(|id| self.program.tensor(*id).elem);
            if elem != own {
                self.program.replaced.insert(*copied, elem);
            }
            // It needs no memory.
            let tensor = &mut self.program.tensors[*tile as usize];
            (tensor.space, tensor.layout) = (Space::Registers { words: false }, layout!(1 : 0).into());
            self.program.open.remove(tile);
        }
        let (own, others): (Vec<_>, Vec<_>) =
            body.into_iter().zip(&transform.own).partition(|(_, own)| **own);
        let stmts = |all: Vec<(Stmt, &bool)>| all.into_iter().map(|(stmt, _)| stmt).collect();
        (stmts(own), stmts(others))
    }

    /// The group's loop over the slots of the rings, given its statements of an iteration and the contents of the copied tiles.
    pub(super) fn computed(
        &mut self,
        transform: &Transform,
        own: Vec<Stmt>,
        contents: &[Stmt],
        var: Id,
        stages: u32,
        span: Span,
    ) -> std::result::Result<Computed, Diagnostic> {
        let Some(by) = self.transform else { return Err(Problem::reported().at(span)) };
        let of = |op| Stmt::new(span, by, op);
        let read: BTreeSet<Id> = own.iter().flat_map(Stmt::reads).map(|from| from.tensor).collect();
        let rings: BTreeSet<Id> = read.iter().filter_map(|id| Some(self.buffers.get(id)?.ring)).collect();
        let ring = self.ring_of_computed(transform, stages).map_err(|problem| problem.at(span))?;
        let fewer = rings.iter().any(|ring| self.program.fitted.contains_key(ring));
        self.program.fitted.extend(fewer.then_some((ring, stages)));
        let phase = |ring: Id| Affine::from(Coord::Phase(ring));
        let mut body: Vec<Stmt> =
            rings.iter().map(|&ring| of(Op::Await { ring, phase: phase(ring) })).collect();
        let of_copied = |stmt: &&Stmt| stmt.writes().iter().any(|to| read.contains(&to.tensor));
        body.extend(contents.iter().filter(of_copied).map(|stmt| Stmt { by, ..stmt.clone() }));
        body.push(of(Op::Acquire { ring, phase: phase(ring) }));
        body.extend(self.in_parts(transform, own, span)?);
        body.push(of(Op::Publish { ring, phase: phase(ring), bytes: None }));
        body.extend([ring].into_iter().chain(rings).map(|ring| of(Op::Advance { ring })));
        self.transformed.insert(var, of(Op::For { var, unroll: Unroll::No, ahead: None, body }));
        let tensor = |id: &Id| *transform.memory_of.get(id).unwrap_or(id);
        Ok(Computed { ring, tiles: transform.targets.iter().map(tensor).collect() })
    }

    /// The ring of computed tiles, and slots for those that have memory of their own.
    fn ring_of_computed(&mut self, transform: &Transform, stages: u32) -> Result<Id> {
        let (Some(from), to) = (self.transform, self.consumers) else { return Err(Problem::reported()) };
        let (program, slots) = (&mut *self.program, i64::from(stages));
        let ring = program.rings.len() as Id;
        let mut buffers = Vec::new();
        for &id in transform.targets.iter().filter(|id| !transform.memory_of.contains_key(id)) {
            let open = program.open.remove(&id);
            let tensor = &mut program.tensors[id as usize];
            let tile: Composed = match open {
                true => swizzled_tile(tensor.elem, transform.extents, transform.along_of(tensor.elem))?,
                false => tensor.layout.clone(),
            };
            tensor.layout = slots_apart(&tile, slots, tensor.elem.elements_in(i64::from(BOX_ALIGN)))?;
            tensor.space = Space::Shared { align: alignment(&tensor.layout, tensor.elem) };
            self.buffers.insert(id, Buffer { ring, slots });
            buffers.push(id);
        }
        let names = program.rings.iter().map(|ring| &ring.name).collect::<BTreeSet<_>>();
        let name = ["computed".to_owned(), format!("computed_{ring}")];
        let name = name.into_iter().find(|name| !names.contains(name)).unwrap_or_default();
        let of = Ring { name, slots: stages, buffers, from, to, arrivals: THREADS, over_cluster: false };
        program.rings.push(of);
        Ok(ring)
    }

    /// The statements of an iteration, in parts: tiles in registers have the size of a part.
    fn in_parts(
        &mut self,
        transform: &Transform,
        own: Vec<Stmt>,
        span: Span,
    ) -> std::result::Result<Vec<Stmt>, Diagnostic> {
        let Some(by) = self.transform else { return Err(Problem::reported().at(span)) };
        let (parts, along) = (transform.parts(), transform.along);
        let mut tile = transform.extents;
        tile[1 - along] /= parts;
        let mut own: Vec<Stmt> = own.into_iter().map(|stmt| self.in_slot(Stmt { by, ..stmt })).collect();
        let tuple = Tuple::flat(&tile);
        let in_registers = |program: &Program, id: Id| program.forms.contains_key(&id);
        for id in own.iter().flat_map(Stmt::writes).map(|to| to.tensor).collect::<BTreeSet<_>>() {
            if in_registers(self.program, id) {
                let layout = Layout::compact(tuple.clone()).map_err(|e| Problem::from(e).at(span))?;
                self.program.tensors[id as usize].layout = layout.into();
            }
        }
        let made = |b: &mut Builder| -> Result<()> {
            b.repeat("part", parts, Unroll::Full, |b, at| {
                for stmt in &mut own {
                    for view in stmt.views_mut() {
                        *view = match in_registers(b.program(), view.tensor) {
                            true => View::whole(view.tensor, &view.name, &tuple)?,
                            false => {
                                let mut index = [At::Index(0.into()), At::Index(0.into())];
                                index[1 - along] = At::Index(at.clone());
                                view.tile(&Tiler::from(tuple.clone()), &index)?.with_name(&view.name)
                            }
                        };
                    }
                    b.at(stmt.span).statement(stmt.op.clone());
                }
                b.at(span);
                Ok(())
            })
        };
        let (program, stmts) = Builder::resumed(std::mem::take(self.program), span, by, made);
        *self.program = program;
        stmts.map_err(|problem| problem.at(span))
    }
}

/// The group's program: loops and conditions around its loops, as the producer has them.
pub(super) fn role(produced: &[Stmt], by: Id, loops: &BTreeMap<Id, Stmt>) -> Vec<Stmt> {
    let mut all = Vec::new();
    for stmt in produced {
        let fills = |stmt: &Stmt| matches!(stmt.op, Op::Acquire { .. });
        match &stmt.op {
            Op::For { var, .. } if loops.contains_key(var) => all.extend(loops.get(var).cloned()),
            Op::For { body, .. } if body.iter().any(fills) => {}
            _ => {
                let mut own = Stmt { by, ..stmt.clone() };
                for body in own.bodies_mut() {
                    *body = role(body, by, loops);
                }
                all.push(own);
            }
        }
    }
    all
}

/// Does the group compute tiles in any loop of a program?
pub(super) fn is_used(program: &Program) -> bool {
    let total = uses(&program.body);
    let computes = |stmt: &Stmt| match &stmt.op {
        Op::For { body, .. } if is_produced(stmt) => of_loop(program, &total, body).is_some(),
        _ => false,
    };
    preorder(&program.body).any(computes)
}
