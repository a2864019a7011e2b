//! Results of the blocks of a cluster, exchanged through distributed shared memory.

use super::Lower;
use super::reduce::{Combined, Kept, Runs, load};
use crate::affine::Coord;
use crate::problem::{Problem, Result};
use crate::thread::{Frag, Mem, Op, Space, Unroll};

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
    /// have the same ones. A thread for each rank fetches those of one block, after a barrier of the cluster;
    /// the barrier at the end of the kernel keeps a block from exiting before.
    pub(super) fn results_of_blocks(&mut self, all: &Combined<'_>, blocks: i64) -> Result<Kept> {
        let (len, threads) = (self.results(all), self.combined());
        if threads < blocks {
            return Err(Problem::new(format!(
                "a cluster of {blocks} blocks cannot combine their elements: each has {threads} threads"
            ))
            .help(format!("give each block {blocks} threads or more")));
        }
        let mut array = |of: &str, count: i64| -> Vec<u32> {
            let one = |part: &super::reduce::Part| {
                self.scratch_array(
                    &format!("{}_of_{of}", part.name),
                    part.elem,
                    (count * len) as u32,
                    "blocks",
                )
            };
            all.parts.iter().map(one).collect()
        };
        let (own, arrays) = (array("block", 1), array("blocks", blocks));
        // In a loop, other blocks may still be reading the results of the previous iteration.
        if self.scope.loops > 0 {
            self.meet_cluster();
        }
        let stores = all
            .parts
            .iter()
            .zip(&own)
            .flat_map(|(part, &array)| (0..len).map(move |at| (part.reg, array, at)));
        let mut store = Vec::new();
        for (reg, array, at) in stores {
            let index = self.int(at);
            let to = Mem { space: Space::Shared(array), index, peer: None };
            store.push(Op::Store { to, from: Frag { reg, at: index, len: 1 }, guard: None });
        }
        self.elect(store);
        self.meet_cluster();
        let rank = self.coord(&Coord::ClusterRank);
        let kept = Kept { arrays, begin: self.int(0), count: blocks, run: rank };
        let (thread, zero) = (self.coord(&Coord::Thread(self.scope.by)), self.int(0));
        let most = self.int(blocks);
        let fetched: Vec<u32> =
            all.parts.iter().map(|part| self.register("fetched".into(), part.elem, 1, false)).collect();
        let (fetch, ()) = self.nested(|lower| {
            lower.loops(&[("i".to_owned(), len)], Unroll::Full, &mut |lower, at| {
                for ((&reg, &own), &array) in fetched.iter().zip(&own).zip(&kept.arrays) {
                    let value = Frag { reg, at: zero, len: 1 };
                    lower.emit(load(
                        value,
                        Mem { space: Space::Shared(own), index: at[0], peer: Some(thread) },
                    ));
                    let to = lower.place_of_run(&kept, array, at[0], thread);
                    lower.emit(Op::Store { to, from: value, guard: None });
                }
                Ok(())
            })
        })?;
        let cond = self.exprs().lt(thread, most);
        self.emit(Op::If { cond, then: fetch, other: Vec::new() });
        self.meet(self.scope.by);
        Ok(kept)
    }
}
