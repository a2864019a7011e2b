//! Arithmetic intensity: operations for each byte that threads read from or write to global memory.

use crate::isa::atom::OperandKind;
use crate::thread::index::Ix;
use crate::thread::{AtomArg, Kernel, Op, Param, Space, Stmt, Unroll, Val};

/// Operations and bytes of a block.
#[derive(Clone, Copy, Default)]
struct Work {
    operations: f64,
    bytes: f64,
}

impl Work {
    fn plus(self, other: Work, times: f64) -> Work {
        Work {
            operations: self.operations + other.operations * times,
            bytes: self.bytes + other.bytes * times,
        }
    }

    fn times(self, times: f64) -> Work {
        Work::default().plus(self, times)
    }

    fn ratio(self) -> Option<f64> {
        (self.operations > 0.0 && self.bytes > 0.0).then(|| self.operations / self.bytes)
    }
}

/// The intensity of the loop with the most operations; of the whole kernel if no loop accesses global memory.
///
/// Loops of different roles with the same number of iterations count as one loop.
pub(super) fn main_loop(kernel: &Kernel) -> Option<f64> {
    let mut steps = Steps { kernel, loops: Vec::new() };
    let all = steps.of(&kernel.body, f64::from(kernel.launch.threads));
    let loops = steps.loops.iter().filter(|(_, work)| work.ratio().is_some());
    let main = loops.max_by(|x, y| x.1.operations.total_cmp(&y.1.operations));
    main.map_or(all, |(_, work)| *work).ratio()
}

struct Steps<'k> {
    kernel: &'k Kernel,
    /// Loops by their iteration count, with the work of one iteration.
    loops: Vec<(Ix, Work)>,
}

impl Steps<'_> {
    /// The work of `threads` threads in these statements. A loop of unknown length counts once.
    fn of(&mut self, body: &[Stmt], threads: f64) -> Work {
        let mut sum = Work::default();
        for stmt in body {
            sum = sum.plus(self.statement(&stmt.op, threads), 1.0);
        }
        sum
    }

    fn statement(&mut self, op: &Op, threads: f64) -> Work {
        let global = |space: Space, elements: u32| match space {
            Space::Global(id) => self.element(id) * f64::from(elements) * threads,
            Space::Shared(_) => 0.0,
        };
        let moved = |bytes: f64| Work { operations: 0.0, bytes };
        match op {
            Op::Assign { value, .. } => Work { operations: operations(value) * threads, bytes: 0.0 },
            Op::Load { to, from, .. } => moved(global(from.space, to.len)),
            Op::Store { to, from, .. } => moved(global(to.space, from.len)),
            Op::Atomic { to, value, .. } => {
                Work { operations: (operations(value) + 1.0) * threads, bytes: 2.0 * global(to.space, 1) }
            }
            Op::Atom { row, args, .. } => {
                let together = f64::from(row.family.issued_by.threads().unwrap_or(1));
                let operations = 2.0 * row.multiply_adds() * together;
                let bytes = row.operands.iter().zip(args).map(|(operand, arg)| match (operand.kind, arg) {
                    (OperandKind::GlobalAddress, _) => operand.address_bytes() as f64,
                    (_, AtomArg::Map { param, .. }) => self.tile(*param),
                    _ => 0.0,
                });
                Work { operations, bytes: bytes.sum() }.times(threads / together)
            }
            Op::For { from, to, step, unroll, body, .. } => {
                let inner = self.of(body, threads);
                let exprs = &self.kernel.exprs;
                let iterations = match (exprs.constant(*from), exprs.constant(*to)) {
                    (Some(from), Some(to)) => ((to - from).max(0) as f64 / (*step).max(1) as f64).ceil(),
                    _ => 1.0,
                };
                if *unroll != Unroll::Full {
                    match self.loops.iter_mut().find(|(known, _)| known == to) {
                        Some((_, known)) => *known = known.plus(inner, 1.0),
                        None => self.loops.push((*to, inner)),
                    }
                }
                inner.times(iterations)
            }
            Op::If { then, other, .. } => {
                let (then, other) = (self.of(then, threads), self.of(other, threads));
                if then.operations + then.bytes >= other.operations + other.bytes { then } else { other }
            }
            Op::Roles(roles) => roles.iter().fold(Work::default(), |sum, role| {
                let threads = f64::from((role.warps.1 - role.warps.0) * 32);
                sum.plus(self.of(&role.body, threads), 1.0)
            }),
            Op::Elect(scope, body) => {
                let elected = scope.threads().map_or(1.0, |group| threads / f64::from(group));
                self.of(body, elected)
            }
            _ => Work::default(),
        }
    }

    fn element(&self, param: u32) -> f64 {
        match &self.kernel.params[param as usize] {
            Param::Pointer { elem, .. } => f64::from(elem.bytes()),
            _ => 0.0,
        }
    }

    /// Bytes that a bulk copy moves.
    fn tile(&self, param: u32) -> f64 {
        match &self.kernel.params[param as usize] {
            Param::TensorMap { tensor, tile, .. } => {
                tile.iter().map(|&n| f64::from(n)).product::<f64>() * self.element(*tensor)
            }
            _ => 0.0,
        }
    }
}

/// Arithmetic operations of a value.
fn operations(value: &Val) -> f64 {
    let own = match value {
        Val::Ptx { args, .. } => return 1.0 + args.iter().map(operations).sum::<f64>(),
        Val::Un(..) | Val::Bin(..) => 1.0,
        Val::Fma(_) => 2.0,
        Val::Product(row, _) => 2.0 * row.multiply_adds(),
        _ => 0.0,
    };
    own + value.parts().into_iter().map(operations).sum::<f64>()
}
