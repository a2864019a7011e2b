//! Programmatic dependent launch: where a kernel waits for the previous one in the stream, and lets the next one start.

use crate::thread::{Kernel, Op, Stmt};

/// Kernels with less shared memory let the next kernel start at once.
const MOST_BYTES_BESIDE: u32 = 4096;

/// Inserts the wait before every access to memory that other threads see, so that threads of all roles wait. Names of integers
/// and the initialisation of mbarriers come before it. Compilers move no read before it, as pointers are not `__restrict__`.
pub(super) fn insert(kernel: &mut Kernel) {
    if !kernel.launch.overlaps {
        return;
    }
    let inits = |stmt: &Stmt| match &stmt.op {
        Op::Elect(_, body) => body.iter().all(|stmt| matches!(stmt.op, Op::InitBarriers(_))),
        _ => false,
    };
    let silent = |op: &Op| matches!(op, Op::Let(..) | Op::Comment(_) | Op::Fence(_) | Op::Sync { .. });
    let own = kernel.body.iter().take_while(|stmt| inits(stmt) || silent(&stmt.op)).count();
    let at = if kernel.body[..own].iter().any(inits) { own } else { 0 };
    // The next kernel starts when this kernel's blocks have ended. Blocks that start earlier get any free multiprocessor,
    // so that neighbours, which share operands, are far apart. The blocks of a cluster are near each other in any case,
    // and a cluster takes longer to launch. Small kernels leave room on every multiprocessor, such as for a GEMM's block. Measured: see
    // bench/LOG.md, "GEMM by wgmma" and "The decoder: launches that overlap in graphs".
    let launch = &kernel.launch;
    let at_once = launch.cluster.iter().any(|&blocks| blocks > 1) || launch.shared_bytes < MOST_BYTES_BESIDE;
    let all = at_once.then_some(Op::StartNext).into_iter().chain([Op::AwaitPrevious]);
    kernel.body.splice(at..at, all.map(|op| Stmt { site: 0, op }));
}
