//! Projection onto roles. A loop `pipelined(…, producer = warp)` is one program, and two groups of threads run
//! different parts of it: producer threads issue its bulk copies into the slots of a ring, and all other threads,
//! the consumers, do everything else. This pass writes the two programs:
//!
//! ```text
//! for k in pipelined(0..n, stages = 3, producer = warp) {
//!     copy(ga[(_, _, k)], sa);      producer: for k { acquire; publish(bytes); copy, copy; advance }
//!     copy(gb[(_, _, k)], sb);
//!     gemm(sa, sb, &mut acc);       consumers: for k { await; gemm; release; advance }
//! }
//! copy(acc, gc);                    consumers: copy(acc, gc)
//! ```
//!
//! Loops and conditions around such a loop are part of both programs, and so are integers read from memory that they or its
//! copies depend on.
//!
//! Products of warpgroups are asynchronous. If a loop only multiplies, the product of one iteration runs while the next is
//! started, and a slot is released one iteration later. Otherwise, or with a single slot, the loop waits for each product
//! at once.
//!
//! In a cluster, tiles that neighbouring blocks have in common are copied once and multicast.
//!
//! The body of a persistent kernel runs for each tile of its grid: block indices become the tile's indices.

mod alternate;
mod groups;
mod multicast;
mod parts;
mod ring;
mod split;
mod tiles;
mod transform;
mod written;

use std::collections::{BTreeMap, BTreeSet};

use crate::pipeline::{reads, uses};
use crate::source::ast::Span;
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, Result};
use crate::thread::{Id, Unroll};
use crate::tile::view::View;
use crate::tile::visit::{each_mut, preorder, rename};
use crate::tile::{Ahead, Form, LaunchRule, Op, Program, Space, Stmt};
use crate::values::affine::{Affine, Coord};
use crate::values::condition::Test;
use groups::Groups;
use ring::Buffer;
use tiles::over_tiles;
use transform::Computed;

pub use split::split_k;

/// The program as roles; as it is where it has no producer, and neither is persistent over its whole grid nor rasters it.
pub fn warp_specialize(program: Program) -> std::result::Result<Program, Diagnostic> {
    let loops: Vec<&Stmt> = preorder(&program.body).filter(|stmt| is_produced(stmt)).collect();
    let tiles = preorder(&program.body).any(|stmt| matches!(stmt.op, Op::Tiles { .. }));
    // Programs with groups contain their loops over tiles.
    let whole = program.groups.len() == 1 && !tiles;
    let rasters = (program.launch == LaunchRule::Persistent || program.bands > 0) && whole;
    if loops.is_empty() && !rasters {
        return Ok(program);
    }
    let first = loops.first().map(|stmt| stmt.span);
    if program.alternates {
        alternate::check(&program, first)?;
    }
    let mut written = program;
    if let Some(first) = first {
        written::check(&written)?;
        let body = roles(&mut written, first)?;
        written.body = body;
    }
    if rasters {
        over_tiles(&mut written)?;
    }
    Ok(written)
}

/// Is it a loop whose copies a producer issues?
fn is_produced(stmt: &Stmt) -> bool {
    matches!(&stmt.op, Op::For { ahead: Some(Ahead { producer: true, .. }), .. })
}

/// The loops around pipelined loops with a producer, which leaves them where other threads do.
fn around_produced(body: &[Stmt]) -> BTreeSet<Id> {
    let around = |stmt: &Stmt| match &stmt.op {
        Op::For { var, ahead: None, body, .. } => preorder(body).any(is_produced).then_some(*var),
        _ => None,
    };
    preorder(body).filter_map(around).collect()
}

/// Does a statement concern the producer: by a loop whose copies it issues, or by the end of a loop around one?
fn concerns_producer(stmt: &Stmt, around: &BTreeSet<Id>) -> bool {
    stmt.preorder()
        .any(|inner| is_produced(inner) || matches!(inner.op, Op::Leave { of, .. } if around.contains(&of)))
}

/// Is it a copy from global to shared memory?
fn is_fill(program: &Program, stmt: &Stmt) -> bool {
    let space = |view: &View| program.tensor(view.tensor).space;
    match &stmt.op {
        Op::Copy { from, to, .. } => {
            matches!((space(from), space(to)), (Space::Global { .. }, Space::Shared { .. }))
        }
        _ => false,
    }
}

/// The shared tensors that producers fill.
fn filled(program: &Program, body: &[Stmt]) -> BTreeSet<Id> {
    let fills = |stmt: &Stmt| match &stmt.op {
        Op::For { body, .. } if is_produced(stmt) => {
            let fills = body.iter().filter(|stmt| is_fill(program, stmt)).flat_map(Stmt::writes);
            fills.map(|to| to.tensor).collect()
        }
        _ => Vec::new(),
    };
    preorder(body).flat_map(fills).collect()
}

/// The integers read from memory that a producer depends on, transitively: for its copies, and for the loops and conditions
/// around them.
fn needed(program: &Program, body: &[Stmt]) -> BTreeSet<Id> {
    let (mut all, mut takes) = (BTreeSet::new(), Vec::new());
    let each = |f: &mut dyn FnMut(&Stmt)| body.iter().for_each(|stmt| stmt.each(f));
    let left = around_produced(body);
    each(&mut |stmt| {
        if let Op::Take { number, .. } = stmt.op {
            takes.push((number, reads::used(program, stmt)));
        }
        if !concerns_producer(stmt, &left) {
            return;
        }
        all.extend(reads::decide(program, stmt));
        if let (true, Op::For { body, .. }) = (is_produced(stmt), &stmt.op) {
            let fills = body.iter().filter(|stmt| is_fill(program, stmt));
            all.extend(fills.flat_map(|fill| reads::used(program, fill)));
        }
    });
    // Later reads may depend on earlier ones.
    for (number, used) in takes.iter().rev() {
        if all.contains(number) {
            all.extend(used);
        }
    }
    all
}

/// The body as two roles.
fn roles(program: &mut Program, span: Span) -> std::result::Result<Vec<Stmt>, Diagnostic> {
    let mut project = Project::new(program).map_err(|problem| problem.at(span))?;
    let body = std::mem::take(&mut project.program.body);
    project.needed = needed(project.program, &body);
    project.filled = filled(project.program, &body);
    let mut produced = Vec::new();
    let mut consumed = project.body(body, &mut produced)?;
    let Project { program, producer, consumers, transform, transformed, .. } = project;
    let role = transform.map(|by| (by, transform::role(&produced, by, &transformed)));
    multicast::multicast(program, &mut produced);
    // All threads of the cluster meet in its barrier; after it no tiles are produced.
    let meet = consumed.iter().position(|stmt| stmt.op == Op::SyncCluster);
    let after = meet.map_or(Vec::new(), |meet| consumed.split_off(meet));
    let of = |op| Stmt::new(span, 0, op);
    let all_help = program.groups[producer as usize].threads == program.groups[consumers as usize].threads;
    let roles = [(producer, produced)].into_iter().chain(role).chain([(consumers, consumed)]);
    let mut body = vec![of(Op::Roles(roles.collect()))];
    for (met, stmts) in after.chunk_by(|_, next| next.op != Op::SyncCluster).map(|all| all.split_at(1)) {
        body.extend(met.iter().map(|_| of(Op::SyncCluster)));
        let mut stmts = stmts.to_vec();
        if !all_help {
            body.push(of(Op::Roles(vec![(consumers, stmts)])));
            continue;
        }
        let (own, all) = (Coord::Thread(consumers), Coord::Thread(0));
        each_mut(&mut stmts, &mut |stmt| stmt.by = 0);
        rename(&mut stmts, &own, &all);
        body.append(&mut stmts);
    }
    Ok(body)
}

/// Writes both roles.
struct Project<'p> {
    program: &'p mut Program,
    producer: Id,
    consumers: Id,
    /// The group that computes further tiles, and its loops by their variables.
    transform: Option<Id>,
    transformed: BTreeMap<Id, Stmt>,
    /// The tensors that producers fill.
    filled: BTreeSet<Id>,
    /// The buffers of the loops so far.
    buffers: BTreeMap<Id, Buffer>,
    /// The rings of the loop around.
    inside: Vec<Id>,
    /// The integers read from memory that the producer depends on.
    needed: BTreeSet<Id>,
    /// The loops around the loops whose copies it issues.
    around: BTreeSet<Id>,
    /// How many statements access each tensor.
    uses: BTreeMap<Id, usize>,
}

impl Project<'_> {
    fn new(program: &mut Program) -> Result<Project<'_>> {
        let groups = Groups::added(program)?;
        let around = around_produced(&program.body);
        let uses = uses(&program.body);
        Ok(Project {
            program,
            producer: groups.producer,
            consumers: groups.consumers,
            transform: groups.transform,
            transformed: BTreeMap::new(),
            filled: BTreeSet::new(),
            buffers: BTreeMap::new(),
            inside: Vec::new(),
            needed: BTreeSet::new(),
            around,
            uses,
        })
    }

    /// The consumers' part of statements; the producer's is appended to `produced`.
    fn body(
        &mut self,
        body: Vec<Stmt>,
        produced: &mut Vec<Stmt>,
    ) -> std::result::Result<Vec<Stmt>, Diagnostic> {
        let mut consumed = Vec::new();
        for mut stmt in body {
            if is_produced(&stmt) {
                consumed.extend(self.pipelined(stmt, produced)?);
                continue;
            }
            if let Some(name) = self.used(&stmt) {
                let problem = Problem::new(format!(
                    "`{name}` is filled by the producer of a pipelined loop, and used outside of it"
                ));
                return Err(problem.help("use another shared tensor here").at(stmt.span));
            }
            let fills = self.is_replicated(&stmt)? || concerns_producer(&stmt, &self.around);
            // Loops and conditions around it, and what they depend on.
            let mut twin = self.twin(&stmt);
            for (inner, own) in stmt.bodies_mut().into_iter().zip(twin.bodies_mut()) {
                own.clear();
                *inner = self.body(std::mem::take(inner), own)?;
            }
            produced.extend(fills.then_some(twin));
            consumed.extend(self.consumed(stmt, None));
        }
        Ok(consumed)
    }

    /// The producer's copy of a statement that both roles execute.
    fn twin(&self, stmt: &Stmt) -> Stmt {
        Stmt { by: self.producer, ..stmt.clone() }
    }

    /// Is it an integer that both roles read? Both must read the same number, so nobody may write it.
    fn is_replicated(&self, stmt: &Stmt) -> std::result::Result<bool, Diagnostic> {
        let Op::Take { number, from } = &stmt.op else { return Ok(false) };
        if !self.needed.contains(number) {
            return Ok(false);
        }
        if matches!(self.program.tensor(from.tensor).space, Space::Global { mutable: false }) {
            return Ok(true);
        }
        let problem = Problem::new(format!(
            "`{}` is read as an integer, and a producer cannot know when the other threads have written it",
            from.name
        ));
        Err(problem.help("read integers from arguments that the kernel does not write").at(stmt.span))
    }

    /// A buffer of a ring that does not belong to the loop around.
    fn used(&self, stmt: &Stmt) -> Option<String> {
        let mut views = stmt.accesses();
        let other = |view: &&View| {
            let inside = |buffer: &Buffer| self.inside.contains(&buffer.ring);
            self.filled.contains(&view.tensor) && !self.buffers.get(&view.tensor).is_some_and(inside)
        };
        views.find(other).map(|view| view.name.clone())
    }

    /// A loop whose copies the producer issues.
    fn pipelined(
        &mut self,
        stmt: Stmt,
        produced: &mut Vec<Stmt>,
    ) -> std::result::Result<Vec<Stmt>, Diagnostic> {
        let Op::For { var, ahead: Some(ahead), mut body, .. } = stmt.op else { return Ok(vec![stmt]) };
        let span = stmt.span;
        let transform = self.transform.and_then(|_| transform::of_loop(self.program, &self.uses, &body));
        let mut own = Vec::new();
        if let Some(transform) = &transform {
            (own, body) = self.share_memory(transform, body);
        }
        let (fills, rest): (Vec<Stmt>, Vec<Stmt>) =
            body.into_iter().partition(|stmt| is_fill(self.program, stmt));
        let (mut filled, mut rings, mut contents) = (Vec::new(), Vec::new(), Vec::new());
        // Integers of this iteration that its copies depend on are read by both roles, first.
        let mut others = Vec::new();
        for stmt in rest {
            match self.is_replicated(&stmt)? {
                true => {
                    filled.push(self.twin(&stmt));
                    contents.extend(self.consumed(stmt, None));
                }
                false => others.push(stmt),
            }
        }
        let rest = others;
        for fills in self.by_stages(fills, &[&own[..], &rest].concat()) {
            if fills.is_empty() {
                return Err(self.without_fills(&rest, span));
            }
            let ring = self.ring(var, &ahead, &fills, span)?;
            rings.push(ring);
            self.filled(ring, fills, &mut filled, &mut contents, span)?;
        }
        let by = self.producer;
        produced.push(Stmt::new(span, by, Op::For { var, unroll: Unroll::No, ahead: None, body: filled }));
        let computed = match &transform {
            Some(transform) => Some(self.computed(transform, own, &contents, var, ahead.stages, span)?),
            None => None,
        };
        self.emptied(&rings, var, contents, rest, computed, span)
    }

    /// The consumers' loop over the slots of a ring.
    fn emptied(
        &mut self,
        rings: &[Id],
        var: Id,
        contents: Vec<Stmt>,
        body: Vec<Stmt>,
        computed: Option<Computed>,
        span: Span,
    ) -> std::result::Result<Vec<Stmt>, Diagnostic> {
        let by = self.consumers;
        let of = |op| Stmt::new(span, by, op);
        let phase = |ring: Id| Affine::from(Coord::Phase(ring));
        let mut inner: Vec<Stmt> =
            rings.iter().map(|&ring| of(Op::Await { ring, phase: phase(ring) })).collect();
        inner.extend(contents);
        let products = body.iter().filter(|stmt| self.is_asynchronous(&stmt.op)).count();
        let is_staged = body.iter().any(|stmt| stmt.stage.is_some());
        let alone = products > 0 && products == body.len();
        // The slot of a product in flight is in use while the next one is filled.
        let has_next = |ring: Id| self.program.rings[ring as usize].slots > 1;
        let has_next = !is_staged && rings.iter().all(|&ring| has_next(ring));
        if let (true, None, &[ring]) = (has_next, &computed, rings) {
            let all = [&inner[..], &body].concat();
            if let Some(parts) = self.parts(ring, var, &all, span) {
                let loops = parts.written(self.program).map_err(|problem| problem.at(span))?;
                return Ok(self.in_order(loops));
            }
        }
        let (true, None, &[ring]) = (alone && has_next, &computed, rings) else {
            let around = std::mem::replace(&mut self.inside, rings.to_vec());
            let body = self.body(body, &mut Vec::new());
            self.inside = around;
            let body = if is_staged { body? } else { together(body?) };
            let rings: Vec<Id> = rings.iter().copied().chain(computed.iter().map(|of| of.ring)).collect();
            let uses = |of: &Computed| body.iter().position(|stmt| of.is_used(stmt)).unwrap_or(body.len());
            let first = computed.map(|of| (uses(&of), of.ring));
            for at in 0..=body.len() {
                let awaited = first.filter(|(first, _)| *first == at);
                inner.extend(awaited.map(|(_, ring)| of(Op::Await { ring, phase: phase(ring) })));
                inner.extend(body.get(at).map(|stmt| self.in_slot(stmt.clone())));
            }
            // The transform group waits for slots.
            let end = if first.is_some() { self.last_use(&rings, &inner) } else { inner.len() };
            let mut end = inner.split_off(end);
            inner.extend(rings.iter().map(|&ring| of(Op::Release { ring, phase: phase(ring) })));
            inner.append(&mut end);
            inner.extend(rings.iter().map(|&ring| of(Op::Advance { ring })));
            return Ok(self.in_order(vec![of(Op::For {
                var,
                unroll: Unroll::No,
                ahead: None,
                body: inner,
            })]));
        };
        let phase = phase(ring);
        // One product is in flight while the next is started.
        let token = self.program.tokens;
        self.program.tokens += 1;
        for stmt in body {
            let all = self.consumed(stmt, Some(token));
            inner.extend(all.into_iter().map(|stmt| self.in_slot(stmt)));
        }
        let previous =
            phase.plus(&1.into(), -1).ok_or_else(|| Problem::new("a phase passes 63 bits").at(span))?;
        let release = || of(Op::Release { ring, phase: previous.clone() });
        let (first, started) =
            (Test::less(0, Coord::Var(var)), Test::less(0, self.program.vars[var as usize].to.clone()));
        let if_so = |test, then| of(Op::If { test, then, other: Vec::new() });
        inner.extend([
            of(Op::Wait { token: Some(token), but: products as u32 }),
            if_so(first, vec![release()]),
            of(Op::Advance { ring }),
        ]);
        // Under the condition, ptxas would see a path without the wait, and serialize the products.
        let mut looped =
            self.in_order(vec![of(Op::For { var, unroll: Unroll::No, ahead: None, body: inner })]);
        looped.extend([of(Op::Wait { token: Some(token), but: 0 }), if_so(started, vec![release()])]);
        Ok(looped)
    }

    /// The end of the statements that use slots of rings.
    fn last_use(&self, rings: &[Id], body: &[Stmt]) -> usize {
        let is_slot = |view: &View| self.buffers.get(&view.tensor).is_some_and(|of| rings.contains(&of.ring));
        let uses = |stmt: &Stmt| stmt.preorder().any(|stmt| stmt.accesses().any(is_slot));
        let last = body.iter().rposition(|stmt| uses(stmt) || matches!(stmt.op, Op::Await { .. }));
        let end = last.map_or(0, |last| last + 1);
        end + body[end..].iter().take_while(|stmt| matches!(stmt.op, Op::Wait { token: Some(_), .. })).count()
    }

    /// A statement of the consumers. A product of warpgroups is started under the token, or waited for at once.
    fn consumed(&mut self, mut stmt: Stmt, under: Option<Id>) -> Vec<Stmt> {
        let by = self.consumers;
        stmt.by = by;
        let (block, thread) = (Coord::Thread(0), Coord::Thread(by));
        stmt.each_affine_mut(&mut |at| *at = at.replaced(&block, &thread));
        if !self.is_asynchronous(&stmt.op) {
            return vec![stmt];
        }
        let token = under.unwrap_or_else(|| {
            self.program.tokens += 1;
            self.program.tokens - 1
        });
        if let Op::Gemm { token: own, .. } = &mut stmt.op {
            *own = Some(token);
        }
        // In a scheduled loop its wait runs where it runs.
        let wait = Stmt { op: Op::Wait { token: Some(token), but: 0 }, ..stmt.clone() };
        if under.is_some() { vec![stmt] } else { vec![stmt, wait] }
    }

    /// Is it a product of warpgroups?
    fn is_asynchronous(&self, op: &Op) -> bool {
        let Op::Gemm { acc, .. } = op else { return false };
        matches!(self.program.forms.get(&acc.tensor), Some(Form::Sums(mma)) if mma.is_asynchronous())
    }
}

/// Statements whose products in a row are waited for together.
fn together(body: Vec<Stmt>) -> Vec<Stmt> {
    let mut all: Vec<Stmt> = Vec::new();
    for mut stmt in body {
        let before = match &all[..] {
            [
                ..,
                Stmt { op: Op::Gemm { token: Some(_), .. }, .. },
                Stmt { op: Op::Wait { token: Some(token), .. }, .. },
            ] => Some(*token),
            _ => None,
        };
        if let (Some(token), Op::Gemm { token: own @ Some(_), .. }) = (before, &mut stmt.op) {
            *own = Some(token);
            all.pop();
        } else if let (
            [.., Stmt { op: Op::Gemm { token: Some(of), .. }, .. }],
            Op::Wait { token: Some(token), .. },
        ) = (&all[..], &mut stmt.op)
        {
            *token = *of;
        }
        all.push(stmt);
    }
    all
}

/// Does the program multiply by instructions of warpgroups?
fn is_asynchronous(program: &Program) -> bool {
    program.forms.values().any(|form| matches!(form, Form::Sums(mma) if mma.is_asynchronous()))
}
