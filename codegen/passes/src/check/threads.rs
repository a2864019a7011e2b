//! Preconditions on threads and blocks: that there are threads, that the grid's size is known, and that no
//! view is written by threads that it has not been partitioned over.

use crate::source::ast::Span;
use crate::source::diagnostic::Diagnostic;
use crate::tile::verify::written_whole;
use crate::tile::visit::preorder;
use crate::tile::{Program, Stmt};
use crate::values::affine::Coord;

/// All findings.
pub(super) fn find(program: &Program) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    if program.threads() == 0 {
        const WRITE: &str = "copy(2.0 * tile(x, 256, block.x), tile(y, 256, block.x))";
        let mentions = |stmt: &&Stmt| stmt.mentions(program, &|at| at.per_thread());
        let first = preorder(&program.body).find(mentions).map(|stmt| stmt.span);
        diagnostics.push(match (first, &program.body[..]) {
            (_, []) => Diagnostic::error(Span::default(), "this kernel does nothing")
                .help(format!("write a result to a tensor: {WRITE}")),
            (Some(span), _) => Diagnostic::error(span, "the number of threads is unknown: this kernel uses `thread.x` without a thread layout")
                .help(format!("use whole tiles, which are distributed over threads: {WRITE}; or write #[kernel(threads = 256)]")),
            (None, _) => Diagnostic::error(
                Span::default(),
                "the number of threads is unknown: this kernel has no thread layout",
            )
            .help("partition its tiles, such as `parallelize(t, layout!((32, 8)), thread.x)`"),
        });
        return diagnostics;
    }
    let mut uncounted: Vec<u8> = (0..3).filter(|axis| program.grid[usize::from(*axis)].is_none()).collect();
    for stmt in preorder(&program.body) {
        diagnostics.extend(written_whole(program, stmt.by, &stmt.op).map(|problem| problem.at(stmt.span)));
        uncounted.retain(|axis| {
            let uses = stmt.mentions(program, &|at| at.any(&|coord| *coord == Coord::Block(*axis)));
            if uses {
                diagnostics.push(uncounted_blocks(*axis, stmt.span));
            }
            !uses
        });
    }
    diagnostics
}

fn uncounted_blocks(axis: u8, span: Span) -> Diagnostic {
    let name = ["block.x", "block.y", "block.z"][usize::from(axis).min(2)];
    let message = format!("the number of blocks is unknown: no tile has exactly `{name}` as a coordinate");
    Diagnostic::error(span, message)
        .help(format!("coordinates count tiles, not elements: use `{name}` by itself, such as `tile(x, (256), ({name}))`, or give the number of blocks: `walk(132, {name})`"))
}
