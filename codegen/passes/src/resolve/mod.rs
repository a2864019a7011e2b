//! Lowering of whole tiles. At the cooperative level a statement names whole tiles, and the threads of its
//! group share the work:
//!
//! ```text
//! copy(gx, sx);                   copy(part of gx, part of sx) by every thread; wait; barrier
//! let x = map(sx, |x| x * 2.0);   a fragment of each thread; map(part of sx, fragment)
//! copy(x, gy);                    copy(fragment, part of gy)
//! ```
//!
//! The result is an ordinary tile program: views are parts of threads, register tiles are fragments, and
//! barriers separate one thread's writes from other threads' reads. Statements over parts of threads remain
//! as they are.
//!
//! A [`Distribution`] says which thread owns which elements of a tile. Accumulators have the distribution
//! of their instruction; the others are derived from the tiles they are computed from (`forms`), or else
//! from memory, so that accesses are coalesced vectors.
//!
//! ```
//! use tilewright_codegen::affine::Coord;
//! use tilewright_codegen::build::Builder;
//! use tilewright_codegen::view::At;
//! use tilewright_codegen::{Elem, generate};
//! use tilewright_layout::Value;
//!
//! let mut b = Builder::new("copies");
//! let n = Value::symbol("N");
//! let (x, y) = (b.tensor("x", Elem::F32, (n,), None, false)?, b.tensor("y", Elem::F32, (n,), None, true)?);
//! let block = [At::Index(Coord::Block(0).into())];
//! let (x, y) = (b.tile(&x, (1024,), &block)?, b.tile(&y, (1024,), &block)?);
//! b.copy(&x, &y)?; // 256 threads by default; 16 bytes at once where tensors are aligned
//! let kernel = generate(b.finish()).kernel.unwrap();
//! assert_eq!(kernel.report.threads, 256);
//! assert!(kernel.source().contains("float4"));
//! # Ok::<(), tilewright_codegen::problem::Problem>(())
//! ```

mod barriers;
mod bulk;
mod converted;
mod epilogue;
mod exchange;
mod forms;
mod gather;
pub(crate) mod mixed;
mod over_k;
mod overlap;
mod part;
mod product;
mod scan;
mod shared;
mod stages;
mod statement;
mod tile_ends;
mod words;

use std::collections::BTreeMap;

use tilewright_layout::Distribution;

use crate::source::ast::Span;
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, Result};
use crate::thread::Id;
pub use crate::tile::alternative::Width;
use crate::tile::verify::collective;
use crate::tile::visit::preorder;
use crate::tile::whole::is_cooperative;
use crate::tile::{LaunchRule, Op, Program, Space, Stmt};
use tile_ends::Bounded;

pub(crate) use exchange::crowded;
pub(crate) use forms::contiguous;

/// Threads of a group by default.
pub const THREADS: u32 = 256;

/// The program without whole tiles.
///
/// ```
/// use tilewright_codegen::{Elem, build::Builder, resolve::{Width, distribute}};
/// use tilewright_layout::layout;
/// let mut b = Builder::new("fills");
/// let s = b.shared("s", Elem::F32, layout!((64, 64)))?;
/// b.fill(&s, tilewright_codegen::tile::Expr::lit(0.0))?;
/// let program = distribute(b.finish(), Width::WIDEST).unwrap();
/// assert_eq!(program.threads(), 256);
/// assert!(program.body[0].writes()[0].per_thread());
/// # Ok::<(), tilewright_codegen::problem::Problem>(())
/// ```
pub fn distribute(mut program: Program, width: Width) -> std::result::Result<Program, Diagnostic> {
    if !has_whole_tiles(&program) {
        return Ok(program);
    }
    let mut groups = vec![false; program.groups.len()];
    for stmt in preorder(&program.body) {
        groups[stmt.by as usize] |= is_cooperative(&program, stmt.by, &stmt.op);
    }
    for (group, cooperates) in program.groups.iter_mut().zip(groups) {
        if cooperates && group.threads == 0 {
            group.threads = group.warps.map_or(THREADS, |(first, end)| (end - first) * 32);
        }
    }
    mixed::check(&program)?;
    collective::check(&program)?;
    program.number();
    let body = std::mem::take(&mut program.body);
    let body = overlap::apart(&mut program, body)?;
    let (body, sums) = over_k::added(&mut program, body)?;
    let (body, in_flight) = barriers::placed(&program, body);
    let converted = converted::Operands::of(&mut program, &body);
    let forms = forms::choose(&program, &body, sums.forms(&program), width)?;
    shared::choose(&mut program, &body, &forms, &converted, width)?;
    for id in words::tiles(&program, &body) {
        program.tensors[id as usize].space = Space::Registers { words: true };
    }
    let uses = exchange::Uses::of(&program, &body);
    let bounded = Bounded::of(&program, &body, &forms);
    let mut resolve = Resolve {
        program,
        forms,
        bounded,
        uses,
        in_flight,
        sums,
        converted,
        width,
        loops: 0,
        repeats: 0,
        divergent: 0,
        stores: Vec::new(),
        staging: Vec::new(),
        fits: false,
        body: Vec::new(),
    };
    resolve.fragments()?;
    let mut body = resolve.statements(body)?;
    body.append(&mut resolve.stores);
    resolve.fitted(&mut body).map_err(|problem| problem.at(Span::default()))?;
    let mut program = resolve.program;
    program.body = body;
    program.forms.clear();
    for id in std::mem::take(&mut program.open) {
        program.derived.insert(program.tensors[id as usize].span);
    }
    Ok(program)
}

/// Are there statements on whole tiles?
pub fn has_whole_tiles(program: &Program) -> bool {
    let is_whole =
        |stmt: &Stmt| is_cooperative(program, stmt.by, &stmt.op) || overlap::is_moved(program, stmt);
    !program.forms.is_empty() || preorder(&program.body).any(is_whole)
}

/// Lowers statements over whole tiles.
struct Resolve {
    program: Program,
    /// How each tile in registers is distributed.
    forms: BTreeMap<Id, Distribution>,
    bounded: Bounded,
    uses: exchange::Uses,
    in_flight: barriers::InFlight,
    sums: over_k::Sums,
    converted: converted::Operands,
    width: Width,
    /// Loops around the current statement, and how many of them are not over the tiles of a persistent kernel.
    loops: u32,
    repeats: u32,
    /// Conditions and loops around it that may differ from thread to thread.
    divergent: u32,
    /// Waits for bulk stores, which a group owes at its end: a block must not exit before they have read shared memory.
    stores: Vec<Stmt>,
    /// The buffers of results that leave in parts.
    staging: Vec<bulk::Staging>,
    /// Are slots of open rings chosen?
    fits: bool,
    /// The statements of the current block so far.
    body: Vec<Stmt>,
}

impl Resolve {
    fn statements(&mut self, body: Vec<Stmt>) -> std::result::Result<Vec<Stmt>, Diagnostic> {
        let outer = std::mem::take(&mut self.body);
        for mut stmt in body {
            if self.converted.compute(&stmt) {
                continue;
            }
            if is_cooperative(&self.program, stmt.by, &stmt.op) {
                self.program.derived.insert(stmt.span);
                let first = self.body.len();
                self.statement(&stmt).map_err(|problem| blamed(&self.program, &stmt, problem))?;
                if stmt.stage.is_some() {
                    self.body[first..].iter_mut().for_each(|made| made.stage = stmt.stage);
                }
                continue;
            }
            let stmt_at = Stmt::new(stmt.span, stmt.by, Op::Sync);
            // A block of a kernel that is not persistent has one tile.
            let persistent = self.program.launch == LaunchRule::Persistent;
            let loops = match stmt.op {
                Op::For { .. } => true,
                Op::Tiles { .. } => persistent,
                _ => false,
            };
            let divergent = self.program.diverges(&stmt.op);
            let repeats = loops && !matches!(stmt.op, Op::Tiles { .. });
            self.loops += u32::from(loops);
            self.repeats += u32::from(repeats);
            self.divergent += u32::from(divergent);
            let roles = matches!(stmt.op, Op::Roles(_));
            for inner in stmt.bodies_mut() {
                *inner = self.statements(std::mem::take(inner))?;
                if roles {
                    inner.append(&mut self.stores);
                }
            }
            self.loops -= u32::from(loops);
            self.repeats -= u32::from(repeats);
            self.divergent -= u32::from(divergent);
            for view in stmt.views_mut() {
                if let Some(own) = self.forms.get(&view.tensor) {
                    *view = part::one(view, own.tile())
                        .map_err(|problem| blamed(&self.program, &stmt_at, problem))?;
                }
            }
            self.body.push(stmt);
        }
        Ok(std::mem::replace(&mut self.body, outer))
    }
}

/// Puts a problem at the argument that caused it, or else at the statement.
fn blamed(program: &Program, stmt: &Stmt, problem: Problem) -> Diagnostic {
    let arguments = program.arguments.get(&stmt.span);
    let at = problem.arg.and_then(|arg| arguments?.get(arg)).copied().unwrap_or(stmt.span);
    problem.at(at)
}

/// The extents of a tile, which are known while compiling.
fn extents(view: &crate::tile::view::View) -> Result<Vec<i64>> {
    view.extents().ok_or_else(|| {
        Problem::new(format!(
            "`{}` has the shape {}, which is known at launch only, and is no tile that threads could share",
            view.name,
            view.shape()
        ))
        .help("take a tile of it, such as tile(t, (64, 64), (block.x, block.y))")
    })
}
