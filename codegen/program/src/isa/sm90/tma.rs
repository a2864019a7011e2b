//! Bulk copies (TMA): one elected thread starts the copy of a box of a tensor. A row for each rank and each
//! cache hint.

use crate::isa::atom::{Atom, Done, Effect, Operand, OperandKind, OperandName};
use crate::isa::cache::Hint;
use crate::isa::family::Family;
use crate::isa::scope::Queue;
use crate::isa::{int, other, written};
use crate::values::elem::Elem;
use crate::values::operation::Change;

/// Bulk copies to shared memory.
static LOADS: Family =
    Family { name: "bulk loads", completes: Done::Mbarrier, async_proxy: true, ..Family::IN_ORDER };

/// Prefetches to the L2 cache, without a wait.
static PREFETCHES: Family = Family { name: "bulk prefetches", async_proxy: true, ..Family::IN_ORDER };

/// Prefetches of tensor maps.
static MAPS: Family = Family { name: "tensor maps", ..Family::IN_ORDER };

/// Bulk copies and reductions from shared memory.
pub(in crate::isa) static STORES: Family = Family {
    name: "bulk stores",
    operations: "bulk stores",
    completes: Done::Queue(Queue::Bulk),
    async_proxy: true,
    commit: Some("bulk_commit"),
    waits: &[(Queue::Bulk, "bulk_wait"), (Queue::BulkRead, "bulk_wait_read")],
    ..Family::IN_ORDER
};

const ADDRESS: OperandKind = OperandKind::SharedAddress;

/// A reduction that a bulk store performs on its target: its name in PTX, and the types of elements that have it.
type Reduction = (&'static str, Change, &'static [Elem]);

const ORDERED: &[Elem] = &[Elem::F16, Elem::Bf16, Elem::I32, Elem::U32, Elem::I64, Elem::U64];
const WORDS: &[Elem] = &[Elem::I32, Elem::U32, Elem::I64, Elem::U64];

/// The reductions.
const REDUCTIONS: [Reduction; 6] = [
    ("add", Change::Add, &[Elem::F32, Elem::F16, Elem::Bf16, Elem::I32, Elem::U32, Elem::U64]),
    ("min", Change::Min, ORDERED),
    ("max", Change::Max, ORDERED),
    ("and", Change::And, WORDS),
    ("or", Change::Or, WORDS),
    ("xor", Change::Xor, WORDS),
];

/// Has a bulk store this reduction, for elements of this type?
pub(in crate::isa) fn reduces(with: Change, elem: Elem) -> bool {
    REDUCTIONS.iter().any(|(_, change, of)| *change == with && of.contains(&elem))
}

pub(in crate::isa) fn rows() -> impl Iterator<Item = Atom> {
    let hints = || [Hint::None].into_iter().chain(Hint::POLICIES);
    let by_rank = (1..=5).flat_map(move |rank| {
        let moved =
            hints().flat_map(move |hint| [load(rank, hint), multicast(rank, hint), store(rank, hint)]);
        moved.chain(REDUCTIONS.into_iter().map(move |reduction| reduce(rank, reduction))).chain([ahead(rank)])
    });
    let plain = hints().flat_map(|hint| [plain_load(hint), plain_store(hint)]);
    by_rank.chain(plain).chain([plain_ahead(), prefetch()])
}

fn operand(name: OperandName, kind: OperandKind) -> Operand {
    other(name, kind, Elem::U8, "")
}

fn row(name: String, ptx: String, operands: Vec<Operand>, family: &'static Family) -> Atom {
    Atom {
        name: name.leak(),
        arch: 90,
        arch_specific: false,
        family,
        ptx: ptx.leak(),
        operands: operands.leak(),
        effect: Effect::Copy,
    }
}

/// A box into shared memory; its bytes complete the mbarrier's transaction count. `shared::cta`, because
/// sm_120 takes a slow path if the target could be in another block.
fn load(rank: u8, hint: Hint) -> Atom {
    let map = operand(OperandName::Map, OperandKind::TensorMap { rank });
    let start = format!("cp.async.bulk.tensor.{rank}d.shared::cta.global.tile.mbarrier::complete_tx::bytes");
    row(
        format!("bulk_load_{rank}d{}", hint.suffix()),
        hint.around(&start, " [$d], [$m], [$b]"),
        vec![written(operand(OperandName::D, ADDRESS)), map, operand(OperandName::B, OperandKind::Barrier)],
        &LOADS,
    )
}

/// Multicast: the same box to the same offset in several blocks of the cluster, and their mbarriers.
fn multicast(rank: u8, hint: Hint) -> Atom {
    let map = operand(OperandName::Map, OperandKind::TensorMap { rank });
    let start = format!(
        "cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
    );
    row(
        format!("bulk_load_{rank}d_multicast{}", hint.suffix()),
        format!(
            "{{ .reg .b16 mask; cvt.u16.u32 mask, $k; {} }}",
            hint.around(&start, " [$d], [$m], [$b], mask")
        ),
        vec![
            written(operand(OperandName::D, ADDRESS)),
            map,
            operand(OperandName::B, OperandKind::Barrier),
            int(OperandName::Mask),
        ],
        &LOADS,
    )
}

/// A box from shared memory.
fn store(rank: u8, hint: Hint) -> Atom {
    let map = written(operand(OperandName::Map, OperandKind::TensorMap { rank }));
    let start = format!("cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group");
    row(
        format!("bulk_store_{rank}d{}", hint.suffix()),
        hint.around(&start, " [$m], [$a]"),
        vec![map, operand(OperandName::A, ADDRESS)],
        &STORES,
    )
}

/// A reducing store: each element of a box in shared memory is combined atomically with the tensor's. The map
/// specifies their type.
fn reduce(rank: u8, (name, op, _): Reduction) -> Atom {
    let map = written(operand(OperandName::Map, OperandKind::TensorMap { rank }));
    Atom {
        effect: Effect::Reduce(op),
        ..row(
            format!("bulk_{name}_{rank}d"),
            format!(
                "cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{name}.tile.bulk_group [$m], [$a];"
            ),
            vec![map, operand(OperandName::A, ADDRESS)],
            &STORES,
        )
    }
}

/// Prefetch of a box into L2.
fn ahead(rank: u8) -> Atom {
    unseen(row(
        format!("bulk_prefetch_{rank}d"),
        format!("cp.async.bulk.prefetch.tensor.{rank}d.L2.global.tile [$m];"),
        vec![operand(OperandName::Map, OperandKind::TensorMap { rank })],
        &PREFETCHES,
    ))
}

/// Consecutive bytes into shared memory, a multiple of 16.
fn plain_load(hint: Hint) -> Atom {
    row(
        format!("bulk_load{}", hint.suffix()),
        hint.around("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes", " [$d], [$a], $n, [$b]"),
        vec![
            written(operand(OperandName::D, ADDRESS)),
            operand(OperandName::A, OperandKind::GlobalAddress),
            int(OperandName::Bytes),
            operand(OperandName::B, OperandKind::Barrier),
        ],
        &LOADS,
    )
}

/// Consecutive bytes from shared memory, a multiple of 16.
fn plain_store(hint: Hint) -> Atom {
    row(
        format!("bulk_store{}", hint.suffix()),
        hint.around("cp.async.bulk.global.shared::cta.bulk_group", " [$d], [$a], $n"),
        vec![
            written(operand(OperandName::D, OperandKind::GlobalAddress)),
            operand(OperandName::A, ADDRESS),
            int(OperandName::Bytes),
        ],
        &STORES,
    )
}

/// Prefetch of consecutive bytes into L2, a multiple of 16.
fn plain_ahead() -> Atom {
    unseen(row(
        "bulk_prefetch".into(),
        "cp.async.bulk.prefetch.L2.global [$a], $n;".into(),
        vec![operand(OperandName::A, OperandKind::GlobalAddress), int(OperandName::Bytes)],
        &PREFETCHES,
    ))
}

/// Prefetch of the tensor map itself.
fn prefetch() -> Atom {
    unseen(row(
        "prefetch_tensor_map".into(),
        "prefetch.tensormap [$m];".into(),
        vec![operand(OperandName::Map, OperandKind::TensorMap { rank: 0 })],
        &PREFETCHES,
    ))
}

/// The row of a prefetch, which has no visible effect.
fn unseen(row: Atom) -> Atom {
    Atom { family: &MAPS, effect: Effect::Hint, ..row }
}
