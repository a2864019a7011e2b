//! The groups of threads of a kernel with a producer, and the registers of each.

use super::{alternate, is_asynchronous, transform};
use crate::isa::REGISTER_POOL;
use crate::resolve::THREADS;
use crate::source::problem::{Problem, Result};
use crate::thread::Id;
use crate::tile::{Form, Group, Op, Program, Stmt};
use crate::values::affine::Coord;
use crate::values::target::{BLOCK_THREADS, WARP, registers_at_entry};

/// The groups.
pub(super) struct Groups {
    pub(super) producer: Id,
    pub(super) consumers: Id,
    /// The group that computes further tiles.
    pub(super) transform: Option<Id>,
}

/// Are these the accumulators of an instruction of warps, each with a part of the tile?
fn is_of_warps(form: &Form) -> bool {
    matches!(form, Form::Sums(mma) if !mma.is_asynchronous() && mma.parts_of_k() == Ok(1))
}

impl Groups {
    /// Adds the groups: consumers are the first warps, so that their thread indices equal the block's.
    pub(super) fn added(program: &mut Program) -> Result<Groups> {
        let threads = match program.groups[0].threads {
            0 => THREADS,
            threads => threads,
        };
        // Alternating groups have a tile each.
        let members = if program.alternates { alternate::GROUPS } else { 1 };
        let threads = threads * members;
        let warps = threads / WARP;
        let multiply = is_asynchronous(program);
        if threads % WARP != 0 || (multiply && !warps.is_multiple_of(REGISTER_POOL.warps)) {
            let problem = Problem::new(format!("{threads} threads beside a producer are no whole warps"));
            return Err(problem.help("use a multiple of 32 threads, or of 128 for products of warpgroups"));
        }
        if threads >= BLOCK_THREADS {
            let problem = Problem::new(format!(
                "a producer is another warp, and the block has {threads} threads of at most {BLOCK_THREADS}"
            ));
            return Err(problem.help("multiply by fewer warps or warpgroups, or leave `producer = warp` out"));
        }
        // Registers move between whole warpgroups; a single one has all that it needs. Behind a
        // barrier of the cluster all threads are alike.
        let meet = program.body.iter().position(|stmt| stmt.op == Op::SyncCluster);
        let transforms =
            warps + 2 * REGISTER_POOL.warps <= BLOCK_THREADS / WARP && transform::is_used(program);
        // Warps that share K have small tiles.
        let of_warps = program.forms.values().any(is_of_warps) && members == 1;
        let shares = match multiply {
            true => (warps > REGISTER_POOL.warps || transforms) && meet.is_none(),
            false => of_warps && warps == 2 * REGISTER_POOL.warps,
        };
        // There a producer of as many threads helps one warpgroup, if each thread has an element.
        let after = program.body[meet.unwrap_or(program.body.len())..].iter().flat_map(Stmt::writes);
        let elements = after.filter_map(|view| view.layout.size().ok()).max().unwrap_or(0);
        let helps =
            multiply && warps == REGISTER_POOL.warps && !transforms && elements >= 2 * i64::from(threads);
        // Consumers take the registers that producers give back; all threads start with the same number.
        let producers = REGISTER_POOL.warps * WARP;
        let transformers = if transforms { transform::THREADS } else { 0 };
        let all = threads + producers + transformers;
        let pool = registers_at_entry(all, program.blocks_per_sm) * all - transform::REGISTERS * transformers;
        let left =
            |own: u32| (pool.saturating_sub(own * producers) / threads / 8 * 8).min(REGISTER_POOL.most);
        let [usual, fewer] =
            if multiply { REGISTER_POOL.producer } else { [REGISTER_POOL.producer_beside_fragments; 2] };
        let own = if left(fewer) > left(usual) { fewer } else { usual };
        let registers = shares.then_some(left(own));
        let (more, own) = match shares {
            true => (REGISTER_POOL.warps, Some(own)),
            false if helps => (REGISTER_POOL.warps, None),
            false => (1, None),
        };
        let (block, thread) = (Coord::Thread(0), Coord::Thread(program.groups.len() as Id));
        for var in &mut program.vars {
            (var.from, var.to) = (var.from.replaced(&block, &thread), var.to.replaced(&block, &thread));
        }
        if helps {
            program.groups[0].threads = 2 * threads;
        }
        let mut add = |name: &str, warps: (u32, u32), members: u32, registers: Option<u32>| {
            let threads = (warps.1 - warps.0) / members * WARP;
            program.groups.push(Group { name: name.into(), warps: Some(warps), members, threads, registers });
            program.groups.len() as Id - 1
        };
        let consumers = add("consumers", (0, warps), members, registers);
        let producer = add("producer", (warps, warps + more), 1, own);

        if multiply {
            add("warpgroups", (0, warps), warps / REGISTER_POOL.warps, None);
        }
        if of_warps && !multiply && warps > 1 {
            add("warps", (0, warps), warps, None);
        }
        let first = warps + more;
        let registers = shares.then_some(transform::REGISTERS);
        let transform =
            transforms.then(|| add("transform", (first, first + REGISTER_POOL.warps), 1, registers));
        program.arch = program.arch.max(90);
        for form in program.forms.values_mut() {
            if let Form::Sums(mma) = form {
                mma.of = consumers;
            }
        }
        Ok(Groups { producer, consumers, transform })
    }
}
