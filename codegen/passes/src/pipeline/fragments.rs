//! Double-buffered fragments of a product: while threads multiply one k-step, the next k-step is loaded from shared memory to
//! registers, also across the barrier between two iterations. This module writes the product as a loop over k-steps, and
//! `steps` makes its schedule:
//!
//! ```text
//! for k in pipelined(0..n, stages = 3, fragments = 2) { …; gemm(sa, sb, acc); }
//!
//!                                       wait; barrier; a[0] <- k-step 0 of iteration 0
//!                                       for k in 0..n {
//!                                           a[1] <- k-step 1
//!                                           copies of iteration k + 2; commit
//!                                           gemm(a[0])
//!                                           leave k unless k-step 1 is in bounds
//!                                           for kk in 0..k_steps - 3 {
//!                                               a[kk % 2] <- k-step kk + 2
//!                                               gemm(a[(kk + 1) % 2])
//!                                               leave k unless k-step kk + 2 is in bounds
//!                                           }
//!                                           a[1] <- the last k-step
//!                                           shared stores of copies through registers
//!                                           gemm(a[0])
//!                                           leave k unless the last k-step is in bounds
//!                                           wait; barrier
//!                                           a[0] <- k-step 0 of iteration min(k + 1, n - 1)
//!                                           gemm(a[1])
//!                                       }
//! ```

use tilewright_layout::{Layout, Tuple, Value};

use super::schedule::Schedule;
use super::steps::{Exit, SLOTS, Steps};
use crate::source::problem::{Problem, Result};
use crate::thread::Id;
use crate::tile::view::{At, View};
use crate::tile::{How, Multiply, Op, Program, Space, Stmt, Tensor};
use crate::values::affine::{Affine, Coord};

/// An operand of a product.
struct Operand {
    /// The tile in shared memory, (rows, K).
    from: View,
    /// The fragments in registers, (rows, 2).
    to: View,
}

/// The k-steps of a product that is the only statement of a loop over tiles, with registers for two k-steps of each
/// operand. With `exits`, the loop ends at the end of K; `exits` also has the start of an iteration's tile, if that is
/// not a multiple of the iteration.
pub(super) fn steps(
    schedule: &mut Schedule,
    work: &[Stmt],
    tiles: Id,
    exits: Option<Option<Coord>>,
) -> Result<Steps> {
    let program = &mut schedule.program;
    let help = "leave `fragments` out, or make one `gemm` of two shared tiles the whole work of an iteration";
    let [stmt] = work else {
        let message = format!(
            "`fragments = 2` needs iterations that are one product, and each iteration here has {} statements",
            work.len()
        );
        return Err(Problem::new(message).help(help));
    };
    let Op::Gemm { a, b, order, how: Multiply::Scalar(_), token: None, .. } = &stmt.op else {
        let message =
            "`fragments = 2` needs iterations that are one product on CUDA cores, and this statement is none";
        return Err(Problem::new(message).help(help));
    };
    let shared = |view: &View| matches!(program.tensor(view.tensor).space, Space::Shared { .. });
    if let Some(view) = [a, b].into_iter().find(|view| !shared(view)) {
        let message =
            format!("`fragments = 2` reads operands from shared memory, and `{}` is not there", view.name);
        return Err(Problem::new(message).help(help));
    }
    let count = a.layout.mode(1)?.size().unwrap_or(0);
    if count < SLOTS || count % SLOTS != 0 {
        let message = format!("`fragments = 2` takes k-steps in pairs, and the tiles have {count}");
        return Err(Problem::new(message).help("use tiles whose extent along K is even"));
    }
    let operands = [Operand::new(program, a)?, Operand::new(program, b)?];
    let exit = exits.and_then(|begin| exit(program, &operands, tiles, count, begin));
    let var = schedule.var("kk", Value::Int(count));
    let step = Affine::from(Coord::Var(var));
    // The innermost mode needs all of its operand at once, so this operand is loaded first. Later values of the other
    // operand can arrive while the first are multiplied.
    let [left, right] = &operands;
    let sorted = if order.is_by_rows() { [right, left] } else { [left, right] };
    let like = |op| Stmt::new(stmt.span, stmt.by, op);
    let load = |operand: &Operand| {
        let from = operand.from.slice(&[At::All, At::Index(step.clone())])?;
        let to = operand.at(&step)?;
        Ok(like(Op::Copy { from, to, how: How::Here, fill: 0.0.into(), token: None }))
    };
    let loads = sorted.into_iter().map(load).collect::<Result<_>>()?;
    let mut product = stmt.clone();
    if let Op::Gemm { a, b, .. } = &mut product.op {
        for (view, operand) in [(a, left), (b, right)] {
            *view = operand.at(&step)?;
            view.layout = Layout::from_modes([view.layout.clone(), Layout::new(1i64, 0i64)?])?;
        }
    }
    Ok(Steps { var, count, loads, work: vec![product], like: like(Op::Sync), ahead: true, exit })
}

/// The exit test, where k-steps are at equal distances along an extent that launch knows.
fn exit(
    program: &Program,
    operands: &[Operand],
    tiles: Id,
    k_steps: i64,
    begin: Option<Coord>,
) -> Option<Exit> {
    let Some(Value::Sym { times: 1, of, over }) = program.vars[tiles as usize].extent() else {
        return None;
    };
    // With split K, groups have interleaved k-steps; the first group has the first. If the blocks of a cluster share a
    // tile of K, the first block's part is the last to end.
    let apart = operands[0].k_stride()?;
    if i64::from(over) % (apart * k_steps) != 0 || !operands.iter().all(|one| one.k_stride_is(apart)) {
        return None;
    }
    let begin = match begin {
        Some(begin) => begin.into(),
        None => Affine::from(Coord::Var(tiles)).times(i64::from(over))?,
    };
    Some(Exit { of: tiles, begin, apart, extent: Value::Sym { times: 1, of, over: 1 } })
}

impl Operand {
    /// The registers of a k-step.
    fn at(&self, k_step: &Affine) -> Result<View> {
        self.to.slice(&[At::All, At::Index(k_step.submode(1, Some(SLOTS)))])
    }

    /// The stride of its first k-steps.
    fn k_stride(&self) -> Option<i64> {
        let k_steps = self.from.layout.mode(1).ok()?;
        let mut steps = k_steps.leaves().filter(|(extent, _)| *extent != Value::Int(1));
        match steps.next()?.1 {
            Value::Basis { times, .. } => Some(times).filter(|&times| times > 0),
            _ => None,
        }
    }

    /// Do its k-steps have this stride?
    fn k_stride_is(&self, apart: i64) -> bool {
        let Ok(k_steps) = self.from.layout.mode(1) else { return false };
        let mut next = Some(apart);
        k_steps.leaves().filter(|(extent, _)| *extent != Value::Int(1)).all(|(extent, step)| {
            let here = matches!(step, Value::Basis { times, .. } if Some(times) == next);
            next = extent.int().zip(next).and_then(|(n, next)| next.checked_mul(n));
            here
        })
    }

    fn new(program: &mut Program, from: &View) -> Result<Operand> {
        let tensor = program.tensor(from.tensor);
        let rows = from.layout.mode(0)?.size()?;
        let (name, elem, span) = (format!("{}_r", from.name), tensor.elem, tensor.span);
        let shape = Tuple::flat(&[rows, SLOTS]);
        let layout = Layout::compact(shape.clone())?.into();
        let space = Space::Registers { words: false };
        let id = program.tensors.len() as Id;
        let to = View::whole(id, &name, &shape)?;
        program.tensors.push(Tensor { name, elem, space, layout, span });
        Ok(Operand { from: from.clone(), to })
    }
}
