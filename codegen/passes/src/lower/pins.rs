//! Inserts compiler fences for registers of asynchronous products: before each `wgmma.fence`, after which a product may use
//! them, and after each wait, which makes them accessible again.

use crate::thread::mention::in_flight;
use crate::thread::{Fence, Id, Kernel, Op, Queue, Stmt};

pub(super) fn insert(kernel: &mut Kernel) {
    let regs = in_flight(&kernel.body);
    if !regs.is_empty() {
        pinned(&mut kernel.body, &regs);
    }
}

fn pinned(body: &mut Vec<Stmt>, regs: &[Id]) {
    for mut stmt in std::mem::take(body) {
        stmt.op.blocks_mut().into_iter().for_each(|block| pinned(block, regs));
        let pins = regs.iter().map(|&reg| Stmt { site: stmt.site, op: Op::Pin(reg) });
        match stmt.op {
            Op::Fence(Fence::Products) => {
                body.extend(pins);
                body.push(stmt);
            }
            Op::WaitQueue { queue: Queue::Products, .. } => {
                let pins: Vec<Stmt> = pins.collect();
                body.push(stmt);
                body.extend(pins);
            }
            _ => body.push(stmt),
        }
    }
}
