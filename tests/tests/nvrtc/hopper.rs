//! Hopper features: bulk copies with mbarriers, and clusters.

use tilewright_codegen::Elem::*;
use tilewright_codegen::index::Int;
use tilewright_codegen::thread::*;
use tilewright_layout::Value;

use super::build::*;

/// Keys of products by wgmma that use the most registers of each type: tiles of the default variants, and
/// those with two buffers of sums or conversions.
pub(crate) const PRODUCTS: &[&str] = &[
    "dtype=tf32 a=k_major b=k_major",
    "dtype=e4m3 a=k_major b=k_major out=bf16",
    "dtype=e4m3 a=k_major b=k_major out=bf16 fast_accum=true batched=true",
    "dtype=e4m3 a=k_major b=k_major out=bf16 scales=blocks",
    "dtype=e5m2 a=k_major b=k_major c=n_major scales=blocks batched=true",
    "dtype=bf16 batched=true c=n_major",
    "dtype=e5m2 a=k_major b=k_major c=n_major",
    "dtype=i8 a=k_major b=k_major",
    "dtype=u8 a=k_major b=k_major out=f32 c=n_major",
    "dtype=bf16 out=f32 alpha_beta=true",
    "dtype=f16 out=bf16 a=k_major c=n_major",
    "dtype=bf16 a=k_major b=k_major bm=192 bn=192 schedule=(cluster=2) bias=rows epilogue=gelu alpha_beta=true",
    "dtype=bf16 bn=64 bm=128 schedule=(split_k=4) bias=columns epilogue=gelu alpha_beta=true",
    "precision=f32x3 a=k_major b=k_major",
    "precision=f32x3 a=k_major b=k_major c=n_major bias=columns epilogue=gelu",
    "dtype=bf16 bias=columns epilogue=gelu a=k_major b=k_major c=n_major",
    "dtype=bf16 bias=rows epilogue=gelu alpha_beta=true",
    "dtype=bf16 out=f32 bias=rows epilogue=silu",
    "dtype=tf32 a=k_major b=k_major bias=columns epilogue=relu c=n_major",
    "dtype=e4m3 a=k_major b=k_major out=bf16 bias=rows epilogue=gelu",
    "dtype=bf16 b_dtype=i8 a=k_major b=k_major",
    "dtype=bf16 b_dtype=i8 a=k_major b=k_major c=n_major bm=256 bn=128",
    "dtype=f16 b_dtype=i4 b=k_major bm=256 bn=128 out=f32",
    "dtype=bf16 b_dtype=u4 group_size=128 zeros=true a=k_major b=k_major",
];

fn hopper(name: &str, threads: u32) -> Build {
    let mut b = Build::new(name, 90, threads);
    b.k.arch_specific = true;
    b
}

/// Loads and stores of boxes with one to five modes.
pub(crate) fn boxes(rank: usize) -> Kernel {
    let mut b = Build::new(&format!("boxes_{rank}d"), 90, 32);
    let (from, to) = (b.pointer("from", F32, false), b.pointer("to", F32, true));
    let extents: Vec<u32> = [16, 4, 2, 2, 2][..rank].to_vec();
    let len: u32 = extents.iter().product();
    let (source, target) = (b.map("source", from, &extents, 0), b.map("target", to, &extents, 0));
    let tile = b.shared("held", F32, len, 128, "");
    let (bar, zero, bx) = (b.mbarriers("arrived", 1, 1), b.int(0), b.block(0));
    let at_of = |b: &mut Build| {
        let first = b.sum(&[(bx, 16)], 0);
        [vec![first], vec![zero; rank - 1]].concat()
    };
    let coordinates = at_of(&mut b);
    let load = atom(
        &format!("bulk_load_{rank}d"),
        vec![
            at(tile, zero),
            AtomArg::Map { param: source, at: coordinates.clone() },
            AtomArg::Barrier { bar, slot: zero },
        ],
    );
    let store = atom(
        &format!("bulk_store_{rank}d"),
        vec![AtomArg::Map { param: target, at: coordinates }, at(tile, zero)],
    );
    let arrive = s(Op::Arrive { bar, slot: zero, peer: None, bytes: Some(len * 4) });
    let body = vec![
        s(Op::Elect(Scope::Block, vec![s(Op::InitBarriers(bar)), s(Op::Fence(Fence::MbarrierInit))])),
        sync(),
        s(Op::Elect(Scope::Warp, vec![arrive, load])),
        s(Op::Await { bar, slot: zero, phase: zero }),
        s(Op::Elect(
            Scope::Warp,
            vec![
                store,
                s(Op::Commit(Queue::Bulk)),
                s(Op::WaitQueue { queue: Queue::BulkRead, pending: 0 }),
                s(Op::WaitQueue { queue: Queue::Bulk, pending: 0 }),
            ],
        )),
    ];
    b.done(body)
}

/// Two blocks that load a box by multicast, read each other's shared memory and arrive at each other's
/// mbarriers.
pub(crate) fn cluster() -> Kernel {
    // Multicast is slow on some later architectures, and the compiler warns about it.
    let mut b = hopper("cluster", 128);
    b.k.launch.cluster = [2, 1, 1];
    b.k.launch.grid = [vec![Value::Int(2)], vec![], vec![]];
    let (from, to) = (b.pointer("from", F32, false), b.pointer("to", F32, true));
    let map = b.map("map", from, &[32, 4], 0);
    let tile = b.shared("held", F32, 256, 128, "two boxes of 32x4");
    let own = b.shared("own", F32, 128, 16, "");
    let (full, empty) = (b.mbarriers("full", 1, 1), b.mbarriers("empty", 1, 2));
    let all = b.bar(Bar::Cluster);
    let (thread, zero) = (b.thread(), b.int(0));
    let rank = b.e().leaf(Int::ClusterRank, 0, 1, 1, Scope::Block);
    let other = b.sum(&[(rank, -1)], 1);
    let row = b.sum(&[(rank, 4)], 0);
    let to_box = b.sum(&[(rank, 128)], 0);
    let arrive = |bytes, peer| s(Op::Arrive { bar: full, slot: zero, peer, bytes });
    let multicast = atom(
        "bulk_load_2d_multicast",
        vec![
            at(tile, to_box),
            AtomArg::Map { param: map, at: vec![zero, row] },
            AtomArg::Barrier { bar: full, slot: zero },
            b.number(3),
        ],
    );
    let mut body = vec![
        s(Op::Elect(
            Scope::Block,
            vec![s(Op::InitBarriers(full)), s(Op::InitBarriers(empty)), s(Op::Fence(Fence::MbarrierInit))],
        )),
        s(Op::sync(all)),
        s(Op::Elect(Scope::Block, vec![arrive(Some(1024), None), multicast])),
        s(Op::Await { bar: full, slot: zero, phase: zero }),
    ];
    let x = b.reg("x", F32, 2);
    let y = b.reg("y", F32, 1);
    let (pair, single) = (b.frag(x, 0, 2), b.frag(y, 0, 1));
    let two = b.sum(&[(thread, 2)], 0);
    let index = b.sum(&[(thread, 2)], 256);
    body.push(load(pair, tile, two, None));
    let swap = b.int(1);
    body.push(assign(x, swap, Val::Reg(x, zero)));
    body.push(store(to, index, pair, None));
    let frag = b.frag(y, 0, 1);
    body.extend([load(frag, from, thread, None), store(own, thread, frag, None), s(Op::sync(all))]);
    let peer = Mem { space: own, index: thread, peer: Some(other) };
    let far = b.sum(&[(rank, 128), (thread, 1)], 0);
    body.push(s(Op::Load { to: single, from: peer, guard: None, fill: 0.0.into(), volatile_at: None }));
    body.push(assign(y, zero, un(Un::Neg, Val::Reg(y, zero))));
    body.push(store(to, far, single, None));
    for peer in [zero, swap] {
        body.push(s(Op::Elect(
            Scope::Block,
            vec![s(Op::Arrive { bar: empty, slot: zero, peer: Some(peer), bytes: None })],
        )));
    }
    body.extend([
        s(Op::Await { bar: empty, slot: zero, phase: zero }),
        s(Op::Fence(Fence::Threads(Scope::Cluster))),
        s(Op::sync(all)),
    ]);
    b.done(body)
}

/// Bulk loads and stores of contiguous bytes, without a tensor map.
pub(crate) fn plain_bulk() -> Kernel {
    let mut b = Build::new("plain_bulk", 90, 32);
    let (from, to) = (b.pointer("from", F32, false), b.pointer("to", F32, true));
    let tile = b.shared("held", F32, 256, 128, "");
    let (bar, zero, bx) = (b.mbarriers("arrived", 1, 1), b.int(0), b.block(0));
    let position = b.sum(&[(bx, 256)], 0);
    b.e().assume(position, 0, i64::from(i32::MAX));
    let load = atom(
        "bulk_load",
        vec![at(tile, zero), at(from, position), b.number(1024), AtomArg::Barrier { bar, slot: zero }],
    );
    let store = atom("bulk_store", vec![at(to, position), at(tile, zero), b.number(1024)]);
    let arrive = s(Op::Arrive { bar, slot: zero, peer: None, bytes: Some(1024) });
    let body = vec![
        s(Op::Elect(Scope::Block, vec![s(Op::InitBarriers(bar)), s(Op::Fence(Fence::MbarrierInit))])),
        sync(),
        s(Op::Elect(Scope::Warp, vec![arrive, load])),
        s(Op::Await { bar, slot: zero, phase: zero }),
        s(Op::Elect(
            Scope::Warp,
            vec![store, s(Op::Commit(Queue::Bulk)), s(Op::WaitQueue { queue: Queue::BulkRead, pending: 0 })],
        )),
    ];
    b.done(body)
}
