//! Statements of clusters: views of other blocks' shared memory, barriers, and combinations of all blocks' elements.

use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, Result, count};
use crate::tile::view::View;
use crate::tile::visit::preorder;
use crate::tile::{Across, How, Multiply, Op, Program, Stmt};

/// Checks statements of clusters. Groups with roles, their rings and orders are made by one pass, which keeps their preconditions.
pub(super) fn check(program: &Program) -> std::result::Result<(), Diagnostic> {
    preorder(&program.body)
        .try_for_each(|stmt| statement(program, stmt).map_err(|problem| problem.at(stmt.span)))
}

/// A view of another block's shared memory names a block of the cluster.
pub(crate) fn of_cluster(program: &Program, view: &View) -> Result<()> {
    let Some(rank) = &view.peer else { return Ok(()) };
    let (range, blocks) = (program.range(rank), program.cluster.iter().product::<u32>());
    if range.lo >= 0 && range.hi < i128::from(blocks) {
        return Ok(());
    }
    let outside = if range.lo < 0 { range.lo } else { range.hi };
    let reported = format!(
        "a cluster of {} has no block of rank {outside}, which this view of `{}` names",
        count(blocks, "block"),
        view.name
    );
    let help = match blocks {
        1 => "write cluster(4) for clusters of four blocks; without it, each block is a cluster".into(),
        _ => format!("take the rank modulo {blocks}"),
    };
    Err(Problem::new(reported).help(help))
}

fn statement(program: &Program, stmt: &Stmt) -> Result<()> {
    let peers = || stmt.accesses().filter(|view| view.peer.is_some());
    peers().try_for_each(|view| of_cluster(program, view))?;
    match &stmt.op {
        Op::Copy { how: How::Atom(row), .. } | Op::Gemm { how: Multiply::Atom(row), .. } => {
            match peers().next() {
                None => Ok(()),
                Some(view) => Err(Problem::new(format!(
                    "`{}` does not reach the shared memory of other blocks, and `{}` is of another block",
                    row.name, view.name
                ))
                .help("copy it by ordinary loads and stores")),
            }
        }
        Op::SyncCluster if stmt.by != 0 => Err(Problem::new(format!(
            "all threads of a cluster meet, and this is for `{}` alone",
            program.groups[stmt.by as usize].name
        ))
        .help("let the whole block meet, before or after its roles")),
        _ if stmt.is_over_cluster() => over_cluster(program, stmt),
        _ => Ok(()),
    }
}

/// All threads of a cluster combine their elements, and the cluster is the program's.
fn over_cluster(program: &Program, stmt: &Stmt) -> Result<()> {
    let size = program.cluster.iter().product();
    let blocks = match &stmt.op {
        Op::Fold { across: Across::Cluster(blocks) | Across::Blocks(blocks), .. } => *blocks,
        Op::Scan { how, .. } => how.blocks().unwrap_or(size),
        _ => size,
    };
    if stmt.by != 0 {
        let name = &program.groups[stmt.by as usize].name;
        return Err(Problem::new(format!(
            "all threads of a cluster combine their elements, and this is for `{name}` alone"
        ))
        .help("let the whole block combine them, before or after its roles"));
    }
    let combines = !matches!(stmt.op, Op::SyncCluster);
    let threads = program.combined(stmt.by);
    if combines && threads < i64::from(blocks) {
        return Err(Problem::new(format!(
            "a cluster of {blocks} blocks cannot combine their elements: each has {threads} threads"
        ))
        .help(format!("give each block {blocks} threads or more")));
    }
    if blocks != size {
        return Err(Problem::new(format!(
            "this combines the elements of {blocks} blocks, and a cluster has {size}"
        ))
        .help(format!("write cluster({blocks}) before it, and only once")));
    }
    Ok(())
}
