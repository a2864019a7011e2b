//! Bulk copies: one thread has the copy engine move a whole box of a tensor. A row for each number of modes.

use super::{int, other, written};
use crate::atom::{Atom, Done, Effect, Operand, OperandKind};
use crate::elem::Elem;
use crate::thread::{Queue, Scope};

const ADDRESS: OperandKind = OperandKind::SharedAddress;

pub(super) fn rows() -> impl Iterator<Item = Atom> {
    let by_rank = (1..=5).flat_map(|rank| [load(rank), multicast(rank), store(rank)]);
    by_rank.chain([plain_load(), plain_store(), prefetch()])
}

fn operand(name: char, kind: OperandKind) -> Operand {
    other(name, kind, Elem::U8, "")
}

fn row(name: String, ptx: String, operands: Vec<Operand>, done: Done) -> Atom {
    Atom {
        name: name.leak(),
        arch: 90,
        arch_specific: false,
        group: Scope::Thread,
        ptx: ptx.leak(),
        operands: operands.leak(),
        done,
        async_proxy: true,
        effect: Effect::Copy,
    }
}

/// A box into shared memory; its bytes complete the mbarrier. `shared::cta`, because sm_120 goes a long way round where
/// the target could be another block's.
fn load(rank: u8) -> Atom {
    let map = operand('m', OperandKind::TensorMap { rank });
    row(
        format!("bulk_load_{rank}d"),
        format!(
            "cp.async.bulk.tensor.{rank}d.shared::cta.global.tile.mbarrier::complete_tx::bytes [$d], [$m], [$b];"
        ),
        vec![written(operand('d', ADDRESS)), map, operand('b', OperandKind::Barrier)],
        Done::Mbarrier,
    )
}

/// The same box into the same place of several blocks of the cluster, and their mbarriers.
fn multicast(rank: u8) -> Atom {
    let map = operand('m', OperandKind::TensorMap { rank });
    row(
        format!("bulk_load_{rank}d_multicast"),
        format!(
            "{{ .reg .b16 mask; cvt.u16.u32 mask, $k; \
             cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes\
             .multicast::cluster [$d], [$m], [$b], mask; }}"
        ),
        vec![written(operand('d', ADDRESS)), map, operand('b', OperandKind::Barrier), int('k')],
        Done::Mbarrier,
    )
}

/// A box from shared memory.
fn store(rank: u8) -> Atom {
    let map = written(operand('m', OperandKind::TensorMap { rank }));
    row(
        format!("bulk_store_{rank}d"),
        format!("cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group [$m], [$a];"),
        vec![map, operand('a', ADDRESS)],
        Done::Queue(Queue::Bulk),
    )
}

/// Consecutive bytes into shared memory, a multiple of 16.
fn plain_load() -> Atom {
    row(
        "bulk_load".into(),
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [$d], [$a], $n, [$b];".into(),
        vec![
            written(operand('d', ADDRESS)),
            operand('a', OperandKind::GlobalAddress),
            int('n'),
            operand('b', OperandKind::Barrier),
        ],
        Done::Mbarrier,
    )
}

/// Consecutive bytes from shared memory, a multiple of 16.
fn plain_store() -> Atom {
    row(
        "bulk_store".into(),
        "cp.async.bulk.global.shared::cta.bulk_group [$d], [$a], $n;".into(),
        vec![written(operand('d', OperandKind::GlobalAddress)), operand('a', ADDRESS), int('n')],
        Done::Queue(Queue::Bulk),
    )
}

/// The tensor map itself, ahead of its first use.
fn prefetch() -> Atom {
    Atom {
        async_proxy: false,
        effect: Effect::Hint,
        ..row(
            "prefetch_tensor_map".into(),
            "prefetch.tensormap [$m];".into(),
            vec![operand('m', OperandKind::TensorMap { rank: 0 })],
            Done::Now,
        )
    }
}
