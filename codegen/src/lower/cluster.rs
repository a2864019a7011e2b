//! Results of the blocks of a cluster, exchanged through distributed shared memory.

use super::Lower;
use super::reduce::{Combined, Kept, Runs};
use crate::affine::Coord;
use crate::index::Int;
use crate::problem::Result;
use crate::thread::{Frag, Mem, Op, Scope, Unroll};
use crate::tile;

impl Lower<'_> {
    /// Combines what all threads of a block have with that of the other blocks of the cluster. Every thread
    /// combines in the order of ranks, so all blocks get the same number.
    pub(super) fn across_blocks(&mut self, all: &Combined<'_>, blocks: i64) -> Result<()> {
        let kept = self.results_of_blocks(all, blocks)?;
        let zero = self.int(0);
        self.combine_runs(all, &self.blocks_of_cluster(&[(blocks, 1)]), &kept, zero)
    }

    /// The blocks of a cluster as runs of threads, by their ranks.
    pub(super) fn blocks_of_cluster<'d>(&self, digits: &'d [(i64, i64)]) -> Runs<'d> {
        Runs { threads: self.combined(), digits, name: "blocks" }
    }

    /// The results of each block of the cluster, in the shared memory of this block. All threads of a block
    /// have the same ones: a thread for each rank stores them in the shared memory of that block, and a barrier of the
    /// cluster completes the exchange. Exchanges in a loop use two buffers in turn: all blocks have read the one of the
    /// exchange before the previous one when they arrive at the barrier of the previous one.
    pub(super) fn results_of_blocks(&mut self, all: &Combined<'_>, blocks: i64) -> Result<Kept> {
        let len = self.results(all);
        let begin = match self.scope.buffer {
            Some(buffer) if self.scope.loops > 0 => {
                let (one, size) = (self.int(1), self.int(blocks * len));
                let other = self.exprs().sub(one, buffer);
                if let Int::Var(id) = self.kernel.exprs.get(buffer).int {
                    self.emit(Op::Set(id, other));
                }
                Some(self.exprs().mul(buffer, size))
            }
            _ => None,
        };
        let buffers = if begin.is_some() { 2 } else { 1 };
        let array = |part: &super::reduce::Part| {
            let count = (buffers * blocks * len) as u32;
            self.scratch_array(&format!("{}_of_blocks", part.name), part.elem, count, "blocks")
        };
        let arrays = all.parts.iter().map(array).collect();
        self.start_exchanges();
        let (rank, zero) = (self.coord(&Coord::ClusterRank), self.int(0));
        let kept = Kept { arrays, begin: begin.unwrap_or(zero), count: blocks, run: rank };
        let (thread, most) = (self.coord(&Coord::Thread(self.scope.by)), self.int(blocks));
        let (sent, ()) = self.nested(|lower| {
            lower.loops(&[("i".to_owned(), len)], Unroll::Full, &mut |lower, at| {
                for (part, &array) in all.parts.iter().zip(&kept.arrays) {
                    let to = Mem { peer: Some(thread), ..lower.place_of_run(&kept, array, at[0], rank) };
                    let from = Frag { reg: part.reg, at: at[0], len: 1 };
                    lower.emit(Op::Store { to, from, guard: None });
                }
                Ok(())
            })
        })?;
        let cond = self.exprs().lt(thread, most);
        self.emit(Op::If { cond, then: sent, other: Vec::new() });
        self.meet_cluster();
        Ok(kept)
    }

    /// Waits until all blocks of the cluster run: before that they have no shared memory.
    fn start_exchanges(&mut self) {
        if !std::mem::replace(&mut self.scope.exchanges, true) {
            self.meet_cluster();
        }
    }

    /// What exchanges in a loop need before it: the index of the buffer that they used last.
    pub(super) fn before_exchanges(&mut self, body: &[tile::Stmt]) {
        let mut exchanges = false;
        body.iter().for_each(|stmt| stmt.each(&mut |stmt| exchanges |= stmt.is_over_cluster()));
        if exchanges && self.scope.loops == 0 {
            let id = self.var("buffer", false);
            self.kernel.vars[id as usize].mutable = true;
            let zero = self.int(0);
            self.emit(Op::Let(id, zero));
            self.scope.buffer = Some(self.exprs().leaf(Int::Var(id), 0, 1, 1, Scope::Cluster));
            self.start_exchanges();
        }
    }
}
