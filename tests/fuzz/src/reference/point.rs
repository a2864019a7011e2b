//! The coordinates of a statement's views at one point, for comparisons other than a run.

use tilewright_codegen::tile::{Op, Program, Stmt};
use tilewright_codegen::view::View;
use tilewright_layout::Symbol;

use super::memory::Memory;
use super::order::Setting;
use super::{Cluster, Result};

/// A block, a thread, and an iteration of each loop.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The block.
    pub block: [i64; 3],
    /// The thread's number in it.
    pub thread: i64,
    /// Iterations, in the order of the text.
    pub iterations: Vec<i128>,
}

/// Coordinates in a view's tensor; is the element outside of a ragged tile, and out of bounds of the tensor?
type Where = (Vec<i128>, bool, bool);

/// The coordinates of a view.
pub struct Pointed {
    /// The view's name.
    pub name: String,
    /// Elements along each mode.
    pub sizes: Vec<i64>,
    /// The point of each element, the leftmost mode fastest.
    pub at: Vec<Where>,
}

/// The coordinates of a statement's views; `None` for one without views.
pub fn point(
    program: &Program,
    symbols: &[(Symbol, i64)],
    moment: &Moment,
    stmt: &Stmt,
) -> Option<Vec<Pointed>> {
    let views: Vec<&View> = match &stmt.op {
        Op::Copy { from, to, .. } | Op::Reduce { from, to, .. } => vec![from, to],
        Op::Fold { from, to, .. } => from.iter().chain(to).collect(),
        Op::Scan { from, to, .. } => from.iter().chain(to).collect(),
        Op::Fill { to, .. } => vec![to],
        Op::Take { from, .. } => vec![from],
        Op::Map { ins, to, .. } => ins.iter().chain([to]).collect(),
        Op::Gemm { a, b, acc, .. } => vec![a, b, acc],
        _ => return None,
    };
    let mut memory = Memory::new(program, Vec::new());
    let cluster = Cluster { program, symbols, scalars: &[], memory: &mut memory, steps: 0 };
    let mut vars = vec![0; program.vars.len()];
    vars.iter_mut().zip(&moment.iterations).for_each(|(var, iteration)| *var = *iteration);
    let at = Setting::new(program, vars, moment.block);
    let one = |view: &&View| -> Result<Pointed> {
        let shown = cluster.show(view)?;
        let begin = cluster.begin(&shown, &at, moment.thread)?;
        let at = (0..shown.count().min(MOST))
            .map(|element| shown.whereabouts(&begin, &shown.coordinates_of(element)))
            .collect();
        Ok(Pointed { name: view.name.clone(), sizes: shown.sizes.clone(), at })
    };
    views.iter().map(one).collect::<Result<Vec<_>>>().ok()
}

/// Limit of sampled elements of one view.
const MOST: i64 = 128;
