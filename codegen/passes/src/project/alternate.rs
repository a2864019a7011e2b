//! Alternating groups of consumers, `persistent(alternate = true)`: each of two groups has tiles of its own, and one multiplies
//! while the other stores its results. Their main loops run one after the other, in the order of the tiles.

use super::{Project, is_fill};
use crate::resolve::crowded;
use crate::source::ast::Span;
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::Problem;
use crate::tile::view::View;
use crate::tile::visit::preorder;
use crate::tile::{Op, Program, Space, Stmt};

/// How many groups alternate.
pub(super) const GROUPS: u32 = 2;

/// Groups of consumers alternate where a producer fills the tiles that they multiply, and they share no other memory.
pub(super) fn check(program: &Program, looped: Option<Span>) -> std::result::Result<(), Diagnostic> {
    let first = program.body.first().map_or(Span::default(), |stmt| stmt.span);
    if looped.is_none() {
        let problem =
            Problem::new("`alternate` needs a producer, for whose tiles two groups of consumers alternate");
        let help = "write for k in pipelined(0..n, stages = 4, producer = warp), or leave `alternate` out";
        return Err(problem.help(help).at(first));
    }
    let is_shared = |view: &View| matches!(program.tensor(view.tensor).space, Space::Shared { .. });
    let is_wrong = |stmt: &&Stmt| {
        let alone = matches!(
            stmt.op,
            Op::Copy { .. } | Op::Map { .. } | Op::Gemm { .. } | Op::For { .. } | Op::If { .. }
        );
        !alone || !is_fill(program, stmt) && stmt.writes().into_iter().any(is_shared)
    };
    let wrong = preorder(&program.body).find(is_wrong);
    wrong.map_or(Ok(()), |stmt| Err(crowded().at(stmt.span)))
}

impl Project<'_> {
    /// A main loop of consumers: alternating groups run theirs one after the other.
    pub(super) fn in_order(&mut self, looped: Vec<Stmt>) -> Vec<Stmt> {
        let (true, Some(like)) = (self.program.alternates, looped.first().cloned()) else { return looped };
        let order = self.program.orders;
        self.program.orders += 1;
        let groups = vec![self.consumers];
        vec![Stmt { op: Op::Ordered { order, groups, body: looped }, ..like }]
    }
}
