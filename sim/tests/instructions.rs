//! Instructions of the table against reference sums and moves; clusters; atomic updates; counters.

mod common;

use common::*;
use tilewright_codegen::Elem::{self, *};
use tilewright_codegen::atom::{Effect, OperandKind, OperandName};
use tilewright_codegen::element::{Element, bf16, f16};
use tilewright_codegen::thread::*;
use tilewright_codegen::{fp8, isa, narrow};
use tilewright_layout::Value;
use tilewright_sim::{Arg, Options, run_program};

/// Small numbers that every type represents exactly.
fn small(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % 5) as f64
        })
        .collect()
}

fn arg(values: &[f64], elem: Elem) -> Arg {
    let n = [values.len()];
    match elem {
        F64 => Arg::tensor(values, n),
        F32 | Tf32 => Arg::tensor(&values.iter().map(|&x| x as f32).collect::<Vec<_>>(), n),
        F16 => {
            Arg::tensor(&values.iter().map(|&x| f16::from_bits(narrow::f16_bits(x))).collect::<Vec<_>>(), n)
        }
        Bf16 => {
            Arg::tensor(&values.iter().map(|&x| bf16::from_bits(narrow::bf16_bits(x))).collect::<Vec<_>>(), n)
        }
        I8 => Arg::tensor(&values.iter().map(|&x| x as i8).collect::<Vec<_>>(), n),
        U8 => Arg::tensor(&values.iter().map(|&x| x as u8).collect::<Vec<_>>(), n),
        E4m3 | E5m2 => Arg::tensor(&values.iter().map(|&x| fp8::bits(x, elem)).collect::<Vec<_>>(), n),
        I32 => Arg::tensor(&values.iter().map(|&x| x as i32).collect::<Vec<_>>(), n),
        other => panic!("{other}"),
    }
}

fn output(elem: Elem, n: usize) -> Arg {
    match elem {
        F64 => Arg::output::<f64>([n]),
        F32 => Arg::output::<f32>([n]),
        F16 => Arg::output::<f16>([n]),
        I32 => Arg::output::<i32>([n]),
        other => panic!("{other}"),
    }
}

/// A type of tensors with the same bits.
fn plain(elem: Elem) -> Elem {
    match elem {
        Tf32 => F32,
        E4m3 | E5m2 => U8,
        elem => elem,
    }
}

/// Every mma.sync: fragments are loaded in the order thread, value; results are stored the same way.
#[test]
fn products_of_a_warp() {
    for row in isa::all().filter(|row| row.family.issued_by == Scope::Warp && row.mma().is_some()) {
        let Effect::Mma { m, n, k, .. } = row.effect else { continue };
        let (m, n, k) = (i64::from(m), i64::from(n), i64::from(k));
        let mut b = Build::new(32);
        let (t, zero) = (b.thread(), b.int(0));
        let mut body = Vec::new();
        let (mut args, mut tensors) = (Vec::new(), Vec::new());
        let mut frags = Vec::new();
        for (operand, rows, columns) in
            [(OperandName::D, m, n), (OperandName::A, m, k), (OperandName::B, n, k)]
        {
            let of = row.operand(operand).unwrap().elem;
            let elem = plain(of);
            let tv = row.tv(operand).unwrap();
            let values = tv.mode(1).unwrap().size().unwrap();
            let from = b.tensor(&operand.to_string(), elem, false);
            let reg = b.reg(&operand.to_string(), elem, values as u32);
            for value in 0..values {
                let at = b.sum(&[(t, values)], value);
                let to = b.int(value);
                let op = load_op(frag(reg, to, 1), mem(from, at), None, 0.0);
                body.push(b.s(op));
            }
            // The matrix, and the fragment of each thread.
            let matrix = small((rows * columns) as usize, rows as u64 + columns as u64 * 31 + operand as u64);
            let offsets: Vec<i64> = tv.offsets().unwrap().collect();
            let fragment: Vec<f64> = (0..32 * values)
                .map(|at| matrix[offsets[(at / values + at % values * 32) as usize] as usize])
                .collect();
            args.push(arg(&fragment, of));
            frags.push(AtomArg::Frag(frag(reg, zero, values as u32)));
            tensors.push((matrix, reg, values, offsets, elem));
        }
        let (_, acc, values, offsets, elem) = tensors[0].clone();
        let to = b.tensor("to", elem, true);
        body.push(b.atom(row.name, frags));
        for value in 0..values {
            let at = b.sum(&[(t, values)], value);
            let from = b.int(value);
            body.push(b.s(Op::Store { to: mem(to, at), from: frag(acc, from, 1), guard: None }));
        }
        args.push(output(elem, (m * n) as usize));
        let done = fine(&b.done(body), &args);
        let got: Vec<f64> = match elem {
            F64 => done.get("to").unwrap(),
            I32 => done.get::<i32>("to").unwrap().into_iter().map(f64::from).collect(),
            F16 => done.get::<f16>("to").unwrap().into_iter().map(|x| x.to_f32().into()).collect(),
            _ => done.get::<f32>("to").unwrap().into_iter().map(f64::from).collect(),
        };
        let (d, a, bt) = (&tensors[0].0, &tensors[1].0, &tensors[2].0);
        for thread in 0..32 {
            for value in 0..values {
                let at = offsets[(thread + value * 32) as usize];
                let (i, j) = (at % m, at / m);
                let sum: f64 = (0..k).map(|l| a[(i + l * m) as usize] * bt[(j + l * n) as usize]).sum();
                let wanted = d[at as usize] + sum;
                assert_eq!(got[(thread * values + value) as usize], wanted, "{}: ({i}, {j})", row.name);
            }
        }
    }
}

/// ldmatrix and stmatrix, plain and transposed: a round trip of the same rows.
#[test]
fn matrices_move() {
    for count in [1i64, 2, 4] {
        for turned in ["", "_trans"] {
            let mut b = Build::new(32);
            let (from, to) = (b.tensor("from", F16, false), b.tensor("to", F16, true));
            let (fill, loaded, t) =
                (b.reg("fill", F16, 8), b.reg("loaded", F16, 2 * count as u32), b.thread());
            let (sa, sb) = (b.shared("sa", F16, 256, ""), b.shared("sb", F16, 256, ""));
            let (eight, zero) = (b.sum(&[(t, 8)], 0), b.int(0));
            let lanes = 8 * count;
            let row = b.e().rem(t, lanes);
            let row = b.sum(&[(row, 8)], 0);
            let fragment = || AtomArg::Frag(frag(loaded, zero, 2 * count as u32));
            let some = b.lt(t, lanes);
            let put = b.store(sa, eight, fill, 8);
            let mut body = vec![b.load(fill, from, eight, 8), b.if_(some, vec![put]), b.sync()];
            let load = format!("ldmatrix_x{count}{turned}");
            body.push(b.atom(&load, vec![fragment(), AtomArg::At(mem(sa, row))]));
            let store = format!("stmatrix_x{count}");
            body.push(b.atom(&store, vec![AtomArg::At(mem(sb, row)), fragment()]));
            body.push(b.sync());
            let (take, give) = (b.load(fill, sb, eight, 8), b.store(to, eight, fill, 8));
            body.push(b.if_(some, vec![take, give]));
            let n = 64 * count as usize;
            let numbers: Vec<f16> = (0..256u16).map(f16::from_bits).collect();
            let args = [Arg::tensor(&numbers, [256]), Arg::output::<f16>([n])];
            let got = fine(&b.done(body), &args).get::<f16>("to").unwrap();
            for (at, x) in got.iter().enumerate() {
                let (matrix, r, e) = (at / 64, at % 64 / 8, at % 8);
                let wanted = if turned.is_empty() { at } else { matrix * 64 + e * 8 + r };
                assert_eq!(usize::from(x.to_bits()), wanted, "{load}: {at}");
            }
        }
    }
}

/// wgmma with matrices in every layout of descriptors, transposed or not, against reference sums.
#[test]
fn products_of_a_warpgroup() {
    for (mode, wide) in [(0u8, 1i64), (1, 8), (2, 4), (3, 2)] {
        for turned in [false, true] {
            let (m, n, k) = (64i64, 16i64, 16i64);
            let mut b = Build::new(128);
            let (from_a, from_b) = (b.tensor("a", Bf16, false), b.tensor("b", Bf16, false));
            let to = b.tensor("to", F32, true);
            let (sa, sb) = (b.shared("sa", Bf16, 8192, ""), b.shared("sb", Bf16, 8192, ""));
            let (t, zero) = (b.thread(), b.int(0));
            let (acc, x) = (b.reg("acc", F32, 8), b.reg("x", Bf16, 1));
            // Bytes between groups of eight rows, and between blocks of the swizzle pattern.
            let (leading, stride) = (2048i64, if turned && mode != 0 { 1024 } else { 128 * wide.max(1) });
            let mut body = b.fill(acc, 8, 0.0, F32);
            for (from, shared, extent) in [(from_a, sa, m), (from_b, sb, n)] {
                // Each thread takes elements `extent * k / 128` of the matrix, column-major.
                for iteration in 0..extent * k / 128 {
                    let at = b.sum(&[(t, 1)], iteration * 128);
                    let (mn, depth) = (b.e().rem(at, extent), b.e().div(at, extent));
                    let (along, across) = if turned { (mn, depth) } else { (depth, mn) };
                    let (unit, within) = (b.e().div(along, 8), b.e().rem(along, 8));
                    let (group, row) = (b.e().div(across, 8), b.e().rem(across, 8));
                    // Its address for the hardware, in bytes before the swizzle.
                    let byte = match (mode, turned) {
                        (0, false) => b.sum(&[(row, 16), (group, stride), (unit, leading)], 0),
                        (0, true) => b.sum(&[(row, 16), (group, leading), (unit, stride)], 0),
                        (_, false) => b.sum(&[(row, 16 * wide), (group, stride), (unit, 16)], 0),
                        (_, true) => {
                            let (low, high) = (b.e().rem(unit, wide), b.e().div(unit, wide));
                            b.sum(&[(low, 16), (high, leading), (row, 16 * wide), (group, stride)], 0)
                        }
                    };
                    let byte = b.sum(&[(byte, 1), (within, 2)], 0);
                    let swizzle_row = b.e().div(byte, 128);
                    let swizzle_row = b.e().rem(swizzle_row, wide);
                    let flip = b.sum(&[(swizzle_row, 16)], 0);
                    let byte = b.e().xor(byte, flip);
                    let location = b.e().div(byte, 2);
                    body.extend([b.load(x, from, at, 1), b.store(shared, location, x, 1)]);
                }
            }
            body.extend([b.s(Op::Fence(Fence::ProxyAsync)), b.sync()]);
            body.extend([b.s(Op::Pin(acc)), b.s(Op::Fence(Fence::Products))]);
            let matrix = |space| AtomArg::Descriptor {
                at: mem(space, zero),
                leading: leading as u32,
                stride: stride as u32,
                mode,
            };
            let (one, bit) = (b.int(1), b.int(i64::from(turned)));
            let args = vec![
                AtomArg::Frag(frag(acc, zero, 8)),
                matrix(sa),
                matrix(sb),
                AtomArg::Int(one),
                AtomArg::Int(bit),
                AtomArg::Int(bit),
            ];
            body.extend([b.atom("wgmma_m64n16k16_bf16", args), b.s(Op::Commit(Queue::Products))]);
            body.extend([b.s(Op::WaitQueue { queue: Queue::Products, pending: 0 }), b.s(Op::Pin(acc))]);
            let tv = isa::find("wgmma_m64n16k16_bf16").unwrap().tv(OperandName::D).unwrap();
            for value in 0..8 {
                let at = b.sum(&[(t, 8)], value);
                let from = b.int(value);
                body.push(b.s(Op::Store { to: mem(to, at), from: frag(acc, from, 1), guard: None }));
            }
            let (a, bt) = (small((m * k) as usize, 3), small((n * k) as usize, 5));
            let done = run_program(
                &b.done(body),
                &[arg(&a, Bf16), arg(&bt, Bf16), Arg::output::<f32>([1024])],
                &options(),
            );
            let got = done
                .unwrap_or_else(|error| panic!("mode {mode}, {turned}: {error}"))
                .get::<f32>("to")
                .unwrap();
            let offsets: Vec<i64> = tv.offsets().unwrap().collect();
            for thread in 0..128 {
                for value in 0..8 {
                    let at = offsets[thread + value * 128];
                    let (i, j) = (at % m, at / m);
                    let sum: f64 = (0..k).map(|l| a[(i + l * m) as usize] * bt[(j + l * n) as usize]).sum();
                    let result = f64::from(got[thread * 8 + value]);
                    assert_eq!(result, sum, "mode {mode}, transposed {turned}: ({i}, {j})");
                }
            }
        }
    }
}

/// Boxes of one to five modes in and out, out of bounds on every side, with every swizzle.
#[test]
fn boxes_of_tensors() {
    for rank in 1..=5usize {
        for swizzle in [0, 32, 64, 128] {
            check_boxes(rank, swizzle);
        }
    }
}

fn check_boxes(rank: usize, swizzle: u32) {
    let tile: Vec<u32> = [8, 4, 2, 2, 3][..rank].to_vec();
    let extents: Vec<usize> = [12, 6, 3, 3, 4][..rank].to_vec();
    let mut b = Build::new(32);
    let shape: Vec<Value> = extents.iter().map(|&n| Value::Int(n as i64)).collect();
    let mut next = 1i64;
    let strides: Vec<i64> = extents
        .iter()
        .map(|&n| {
            let stride = next;
            next *= n as i64;
            stride
        })
        .collect();
    let stride: Vec<Value> = strides.iter().map(|&d| Value::Int(d)).collect();
    let from = b.matrix("from", F32, false, shape.clone(), stride.clone());
    let to = b.matrix("to", F32, true, shape, stride);
    let seen = b.tensor("seen", F32, true);
    let modes: Vec<u8> = (0..rank as u8).collect();
    let (source, target) = (b.map(from, &tile, &modes, swizzle), b.map(to, &tile, &modes, swizzle));
    let len: u32 = tile.iter().product();
    let buffer = b.shared("buffer", F32, len.next_multiple_of(32), "");
    let (bar, zero, t) = (b.mbarriers("full", 1, 1), b.int(0), b.thread());
    let x = b.reg("x", F32, 1);
    let mut body = b.start(&[bar]);
    // The box begins inside and ends out of bounds of every mode.
    // Along the contiguous mode it begins with a group of 16 bytes.
    let first = i64::from(tile[0]) - 4;
    let at: Vec<_> = tile
        .iter()
        .enumerate()
        .map(|(mode, &n)| b.int(i64::from(n) - if mode == 0 { 4 } else { 3 }))
        .collect();
    let load = vec![
        AtomArg::At(mem(buffer, zero)),
        AtomArg::Map { param: source, at: at.clone() },
        AtomArg::Barrier { bar, slot: zero },
    ];
    let arrive = b.s(Op::Arrive { bar, slot: zero, peer: None, bytes: Some(len * 4) });
    let load = b.atom(&format!("bulk_load_{rank}d"), load);
    body.push(b.one(Scope::Block, vec![arrive, load]));
    body.push(b.s(Op::Await { bar, slot: zero, phase: zero }));
    for iteration in 0..len.div_ceil(32) {
        let at = b.sum(&[(t, 1)], i64::from(iteration) * 32);
        let some = b.lt(at, i64::from(len));
        let moves = vec![b.load(x, buffer, at, 1), b.store(seen, at, x, 1)];
        body.push(if (iteration + 1) * 32 <= len { moves } else { vec![b.if_(some, moves)] }.remove(0));
        if (iteration + 1) * 32 <= len {
            body.push(b.store(seen, at, x, 1));
        }
    }
    // Stores take groups of 16 bytes: the first begins where the box does.
    let mut aligned = at;
    aligned[0] = b.int(i64::from(tile[0]));
    let store = vec![AtomArg::Map { param: target, at: aligned }, AtomArg::At(mem(buffer, zero))];
    let mut one = vec![b.atom(&format!("bulk_store_{rank}d"), store), b.s(Op::Commit(Queue::Bulk))];
    one.push(b.s(Op::WaitQueue { queue: Queue::Bulk, pending: 0 }));
    body.push(b.one(Scope::Block, one));
    let total: usize = extents.iter().product();
    let numbers: Vec<f32> = (0..total).map(|x| x as f32 + 1.0).collect();
    let args = [
        Arg::tensor(&numbers, extents.clone()),
        Arg::in_out(&vec![0.0f32; total], extents.clone()),
        Arg::output::<f32>([len as usize]),
    ];
    let done = run_program(&b.done(body), &args, &options());
    let done = done.unwrap_or_else(|error| panic!("{rank} modes, swizzle {swizzle}: {error}"));
    let (seen, back) = (done.get::<f32>("seen").unwrap(), done.get::<f32>("to").unwrap());
    let mut wanted = vec![0.0f32; total];
    for n in 0..len as usize {
        let location = |first: i64| {
            let (mut rest, mut offset, mut there) = (n, 0i64, true);
            for mode in 0..rank {
                let begin = if mode == 0 { first } else { i64::from(tile[mode]) - 3 };
                let at = (rest % tile[mode] as usize) as i64 + begin;
                rest /= tile[mode] as usize;
                there &= (0..extents[mode] as i64).contains(&at);
                offset += at * strides[mode];
            }
            there.then_some(offset as usize)
        };
        let mask = (swizzle as usize / 16).saturating_sub(1);
        let byte = n * 4;
        let at = (byte ^ (byte >> 7 & mask) << 4) / 4;
        let value = location(first).map_or(0.0, |offset| numbers[offset]);
        assert_eq!(seen[at], value, "{rank} modes, swizzle {swizzle}: element {n} of the box");
        if let Some(offset) = location(i64::from(tile[0])) {
            wanted[offset] = value;
        }
    }
    assert_eq!(back, wanted, "{rank} modes, swizzle {swizzle}");
}

/// Two blocks with a multicast box, which read each other's shared memory and arrive at each other's
/// barriers.
fn cluster(waits: bool) -> Kernel {
    let mut b = Build::new(64).cluster(2);
    let (from, to) = (b.tensor("from", F32, false), b.tensor("to", F32, true));
    let map = b.map(from, &[64], &[0], 0);
    let (buffer, own) = (b.shared("buffer", F32, 128, ""), b.shared("own", F32, 64, ""));
    let (full, all) = (b.mbarriers("full", 1, 1), b.bar(Bar::Cluster));
    let (t, zero, rank, both) = (b.thread(), b.int(0), b.rank(), b.int(3));
    let other = b.sum(&[(rank, -1)], 1);
    let (x, y) = (b.reg("x", F32, 1), b.reg("y", F32, 1));
    let (location, origin) = (b.sum(&[(rank, 64)], 0), b.sum(&[(rank, 64)], 0));
    let init = vec![b.s(Op::InitBarriers(full)), b.s(Op::Fence(Fence::MbarrierInit))];
    let mut body = vec![b.one(Scope::Block, init), b.s(Op::sync(all))];
    let arrive = b.s(Op::Arrive { bar: full, slot: zero, peer: None, bytes: Some(512) });
    let load = vec![
        AtomArg::At(mem(buffer, location)),
        AtomArg::Map { param: map, at: vec![origin] },
        AtomArg::Barrier { bar: full, slot: zero },
        AtomArg::Int(both),
    ];
    let load = b.atom("bulk_load_1d_multicast", load);
    body.push(b.one(Scope::Block, vec![arrive, load]));
    body.push(b.s(Op::Await { bar: full, slot: zero, phase: zero }));
    // Each thread stores the other half of the box to the peer block, and loads what its peer thread stored.
    let far = b.sum(&[(other, 64), (t, 1)], 0);
    body.extend([b.load(x, buffer, far, 1), b.store(own, t, x, 1), b.s(Op::sync(all))]);
    let peer = Mem { space: own, index: t, peer: Some(other) };
    body.push(b.s(load_op(frag(y, zero, 1), peer, None, 0.0)));
    let out = b.sum(&[(rank, 64), (t, 1)], 0);
    body.push(b.store(to, out, y, 1));
    if waits {
        body.push(b.s(Op::sync(all)));
    }
    b.done(body)
}

#[test]
fn clusters() {
    let args = [Arg::tensor(&count(128), [128]), Arg::output::<f32>([128])];
    assert_eq!(fine(&cluster(true), &args).get::<f32>("to").unwrap(), count(128));
    let text = fault(&cluster(false), &args).to_string();
    assert!(
        text.contains("may end before another block of its cluster is done with its shared memory"),
        "{text}"
    );
    assert!(text.contains("help: put a barrier of the cluster at the end"), "{text}");
}

/// A matrix in registers, transposed.
#[test]
fn a_matrix_is_transposed() {
    let mut b = Build::new(32);
    let (from, to) = (b.tensor("from", F16, false), b.tensor("to", F16, true));
    let (x, y) = (b.reg("x", F16, 2), b.reg("y", F16, 2));
    let (t, zero) = (b.thread(), b.int(0));
    let mine = b.sum(&[(t, 2)], 0);
    let moved = b.atom("movmatrix", vec![AtomArg::Frag(frag(y, zero, 2)), AtomArg::Frag(frag(x, zero, 2))]);
    let body = vec![b.load(x, from, mine, 2), moved, b.store(to, mine, y, 2)];
    let numbers: Vec<f16> = (0..64u16).map(f16::from_bits).collect();
    let got = fine(&b.done(body), &[Arg::tensor(&numbers, [64]), Arg::output::<f16>([64])]);
    for (at, x) in got.get::<f16>("to").unwrap().iter().enumerate() {
        assert_eq!(usize::from(x.to_bits()), at / 8 + at % 8 * 8, "row {}, column {}", at / 8, at % 8);
    }
}

/// Three blocks reduce the same box into a tensor, also out of bounds.
#[test]
fn boxes_are_combined() {
    for (name, op) in [("add", Bin::Add), ("min", Bin::Min), ("max", Bin::Max), ("xor", Bin::Xor)] {
        let mut b = Build::new(32).blocks(3);
        let (from, to) = (b.tensor("from", I32, false), b.tensor("to", I32, true));
        let map = b.map(to, &[32], &[0], 0);
        let (buffer, x) = (b.shared("buffer", I32, 32, ""), b.reg("x", I32, 1));
        let (t, block, zero, origin) = (b.thread(), b.block(), b.int(0), b.int(4));
        let mine = b.sum(&[(block, 32), (t, 1)], 0);
        let mut body = vec![b.load(x, from, mine, 1), b.store(buffer, t, x, 1)];
        body.extend([b.s(Op::Fence(Fence::ProxyAsync)), b.sync()]);
        let args = vec![AtomArg::Map { param: map, at: vec![origin] }, AtomArg::At(mem(buffer, zero))];
        let mut one = vec![b.atom(&format!("bulk_{name}_1d"), args), b.s(Op::Commit(Queue::Bulk))];
        one.push(b.s(Op::WaitQueue { queue: Queue::Bulk, pending: 0 }));
        body.push(b.one(Scope::Block, one));
        let given: Vec<i32> = (0..96).map(|n| n * 37 % 101 - 50).collect();
        let before: Vec<i32> = (0..32).map(|n| n * 11 % 23).collect();
        let done = fine(&b.done(body), &[Arg::tensor(&given, [96]), Arg::in_out(&before, [32])]);
        let mut wanted = before;
        for (at, &x) in given.iter().enumerate().filter(|(at, _)| at % 32 + 4 < 32) {
            let y = &mut wanted[at % 32 + 4];
            *y = match op {
                Bin::Add => *y + x,
                Bin::Min => x.min(*y),
                Bin::Max => x.max(*y),
                _ => x ^ *y,
            };
        }
        assert_eq!(done.get::<i32>("to").unwrap(), wanted, "{name}");
    }
}

#[test]
fn atomic_updates_add_up() {
    let mut b = Build::new(64).blocks(5);
    let (to, s) = (b.tensor("to", F32, true), b.shared("s", I32, 4, ""));
    let sums = b.tensor("sums", I32, true);
    let (t, block, zero) = (b.thread(), b.block(), b.int(0));
    let (x, y) = (b.reg("x", F32, 1), b.reg("y", I32, 1));
    let quarter = b.e().rem(t, 4);
    let mut body = [b.fill(x, 1, 1.5, F32), b.fill(y, 1, 0.0, I32)].concat();
    let first = b.lt(t, 4);
    let clear = b.store(s, t, y, 1);
    body.extend([b.if_(first, vec![clear]), b.sync()]);
    body.push(b.s(Op::Atomic {
        to: mem(to, quarter),
        op: Change::Add,
        value: Val::Reg(x, zero),
        guard: None,
        order: MemoryOrder::Relaxed,
        scope: Scope::Grid,
        old: None,
        expected: None,
    }));
    let value = Val::Int(t, I32);
    body.push(b.s(Op::Atomic {
        to: mem(s, quarter),
        op: Change::Max,
        value,
        guard: None,
        order: MemoryOrder::Relaxed,
        scope: Scope::Grid,
        old: None,
        expected: None,
    }));
    body.push(b.sync());
    let location = b.sum(&[(block, 4), (t, 1)], 0);
    let give = vec![b.load(y, s, t, 1), b.store(sums, location, y, 1)];
    body.push(b.if_(first, give));
    let args = [Arg::in_out(&[1.0f32; 4], [4]), Arg::output::<i32>([20])];
    let done = fine(&b.done(body), &args);
    assert_eq!(done.get::<f32>("to").unwrap(), [1.0 + 5.0 * 16.0 * 1.5; 4]);
    assert_eq!(done.get::<i32>("sums").unwrap(), [60, 61, 62, 63].repeat(5));
}

#[test]
fn what_a_warp_costs() {
    // Columns of a padded and of an unpadded tile of 32x32; a row and a column of a tensor.
    let mut b = Build::new(32);
    let (from, to) = (b.tensor("from", F32, false), b.tensor("to", F32, true));
    let (bad, good) = (b.shared("bad", F32, 1024, ""), b.shared("good", F32, 1056, ""));
    let (x, t) = (b.reg("x", F32, 1), b.thread());
    let (wide, padded) = (b.sum(&[(t, 32)], 0), b.sum(&[(t, 33)], 0));
    let some = b.lt(t, 10);
    let mut body = vec![b.load(x, from, wide, 1), b.store(bad, wide, x, 1), b.store(good, padded, x, 1)];
    let zero = b.int(0);
    body.push(b.s(load_op(frag(x, zero, 1), mem(bad, wide), Some(some), 2.0)));
    body.push(b.store(to, t, x, 1));
    let done = fine(&b.done(body), &[Arg::tensor(&count(1024), [1024]), Arg::output::<f32>([32])]);
    let cost: Vec<_> = done
        .accesses()
        .iter()
        .map(|a| (a.what, &*a.tensor, a.executed, a.wavefronts, a.bank_conflicts(), a.sectors, a.lines))
        .collect();
    assert_eq!(
        cost,
        [
            ("load", "from", 1, 0, 0, 32, 32),
            ("store", "bad", 1, 32, 31, 0, 0),
            ("store", "good", 1, 1, 0, 0, 0),
            ("load", "bad", 1, 10, 9, 0, 0),
            ("store", "to", 1, 0, 0, 4, 1),
        ]
    );
    assert_eq!(done.operations().collect::<Vec<_>>(), [("loads", 42), ("stores", 96)]);
    assert_eq!(done.accesses()[1].line.as_deref(), Some("probe.rs:2"));
    let text = done.to_string();
    let line = text.lines().find(|line| line.starts_with("store   bad")).unwrap_or_default();
    assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["store", "bad", "shared", "4", "1", "32", "1"]);
}

#[test]
fn the_hosts_threads_make_no_difference() {
    let mut b = Build::new(64).blocks(37);
    let (from, to) = (b.tensor("from", F32, false), b.tensor("to", F32, true));
    let (x, t, block) = (b.reg("x", F32, 1), b.thread(), b.block());
    let at = b.sum(&[(block, 64), (t, 1)], 0);
    let twice = b.set(
        x,
        0,
        Val::Bin(Bin::Mul, Box::new(Val::Reg(x, Default::default())), Box::new(Val::lit(2.0, F32))),
    );
    let zero = b.int(0);
    let mut body = vec![b.load(x, from, at, 1), twice, b.store(to, at, x, 1)];
    if let Op::Assign { value, .. } = &mut body[1].op {
        *value = Val::Bin(Bin::Mul, Box::new(Val::Reg(x, zero)), Box::new(Val::lit(2.0, F32)));
    }
    let kernel = b.done(body);
    let args = [Arg::tensor(&count(37 * 64), [37 * 64]), Arg::output::<f32>([37 * 64])];
    let of = |threads, seed| run_program(&kernel, &args, &Options { threads, seed, ..options() }).unwrap();
    let one = of(1, 3);
    assert_eq!(one, of(3, 3));
    assert_eq!(one.bytes("to"), of(2, 99).bytes("to"));
    // The same for faults: the first block's is reported, whichever was seen first.
    let short = [Arg::tensor(&count(36 * 64), [36 * 64]), Arg::output::<f32>([37 * 64])];
    let message = |threads| {
        let options = Options { threads, ..options() };
        run_program(&kernel, &short, &options).unwrap_err().to_string()
    };
    assert_eq!(message(1), message(3));
    assert!(message(2).contains("block (36, 0, 0)"), "{}", message(2));
}

#[test]
fn progress_is_reported() {
    use std::sync::{Arc, Mutex};
    let reported = Arc::new(Mutex::new(Vec::new()));
    let mut b = Build::new(32).blocks(3);
    let body = vec![b.sync()];
    let listener = reported.clone();
    let options = Options {
        schedules: 2,
        progress: Some(Arc::new(move |progress| {
            listener.lock().unwrap().push((progress.done, progress.total))
        })),
        ..options()
    };
    run_program(&b.done(body), &[], &options).unwrap();
    assert_eq!(*reported.lock().unwrap(), [(1, 6), (2, 6), (3, 6), (4, 6), (5, 6), (6, 6)]);
}

#[test]
fn every_row_of_the_table_is_known() {
    // Its group, effect and completion determine a row; each kind is tested above.
    for row in isa::all() {
        let known = match (row.effect, row.family.issued_by) {
            (Effect::Hint, _) => true,
            (Effect::Mma { .. }, group) => row.is_scalar() || matches!(group, Scope::Warp | Scope::Warpgroup),
            (Effect::Copy, Scope::Warp) => {
                row.operands.iter().any(|operand| matches!(operand.kind, OperandKind::Frag { .. }))
            }
            (
                Effect::Convert
                | Effect::Unpack(_)
                | Effect::FunnelShift
                | Effect::Multiply
                | Effect::Subtract
                | Effect::Copy
                | Effect::Reduce(_),
                group,
            ) => group == Scope::Thread,
        };
        assert!(known, "{}", row.name);
    }
    assert_eq!(f16::ELEM, F16);
}

/// Divergent loop exits, mutable variables, selects.
#[test]
fn divergent_lanes() {
    let mut b = Build::new(64);
    let to = b.tensor("to", I32, true);
    let (x, t, zero) = (b.reg("x", I32, 1), b.thread(), b.int(0));
    b.k.vars.push(Var { name: "last".into(), mutable: true, wide: false, array: None });
    b.k.vars.push(Var { name: "i".into(), mutable: false, wide: false, array: None });
    let last = b.e().leaf(tilewright_codegen::index::Int::Var(0), 0, 1000, 1, Scope::Thread);
    let i = b.e().leaf(tilewright_codegen::index::Int::Var(1), 0, 1000, 1, Scope::Thread);
    let count = b.e().rem(t, 7);
    let mut body = b.fill(x, 1, 0.0, I32);
    body.push(b.s(Op::Let(0, zero)));
    let add = |b: &mut Build, n| {
        let sum = Val::Bin(Bin::Add, Box::new(Val::Reg(x, zero)), Box::new(n));
        b.set(x, 0, sum)
    };
    let twice = b.sum(&[(i, 2)], 1);
    b.k.vars.push(Var { name: "before".into(), mutable: false, wide: false, array: None });
    let before = b.e().leaf(tilewright_codegen::index::Int::Var(2), 0, 1000, 1, Scope::Thread);
    let inner = vec![
        add(&mut b, Val::Int(twice, I32)),
        b.s(Op::Let(2, last)),
        b.s(Op::Set(0, twice)),
        add(&mut b, Val::Int(before, I32)),
    ];
    let op = Op::For { var: 1, from: zero, to: count, step: 1, unroll: Unroll::No, body: inner };
    body.push(b.s(op));
    // All lanes are active again after it.
    body.push(b.sync());
    let odd = b.e().rem(t, 2);
    let (cond, seven) = (Val::Int(odd, I32), Val::lit(700.0, I32));
    let hundred = Val::Bin(Bin::Mul, Box::new(Val::lit(10.0, I32)), Box::new(Val::lit(10.0, I32)));
    body.push(add(&mut b, Val::Pick(Box::new([cond, seven, hundred]))));
    body.push(add(&mut b, Val::Int(last, I32)));
    body.push(b.store(to, t, x, 1));
    let got = fine(&b.done(body), &[Arg::output::<i32>([64])]).get::<i32>("to").unwrap();
    for (thread, &x) in got.iter().enumerate() {
        let n = thread as i32 % 7;
        let (last, befores) = if n == 0 { (0, 0) } else { (2 * n - 1, (n - 1) * (n - 1)) };
        let chosen = if thread % 2 == 1 { 700 } else { 100 };
        assert_eq!(x, n * n + befores + chosen + last, "thread {thread}");
    }
}

/// Eight-bit floats: every thread converts two numbers to them, through registers and shared memory, and
/// back.
#[test]
fn narrow_floats_of_eight_bits() {
    for (elem, most, rounded) in [
        (E4m3, 448.0f32, [(0.3f32, 0.3125f32), (17.0, 16.0), (19.0, 20.0)]),
        (E5m2, 57344.0, [(0.3, 0.3125), (9.0, 8.0), (11.0, 12.0)]),
    ] {
        let mut b = Build::new(32);
        let (from, to) = (b.tensor("from", F32, false), b.tensor("to", F32, true));
        let s = b.shared("s", elem, 32, "");
        let (x, n) = (b.reg("x", F32, 1), b.reg("n", elem, 1));
        let (t, zero) = (b.thread(), b.int(0));
        let other = b.sum(&[(t, -1)], 31);
        let body = vec![
            b.load(x, from, t, 1),
            b.set(n, 0, Val::Cast(elem, Box::new(Val::Reg(x, zero)))),
            b.store(s, t, n, 1),
            b.sync(),
            b.load(n, s, other, 1),
            b.set(x, 0, Val::Cast(F32, Box::new(Val::Reg(n, zero)))),
            b.store(to, other, x, 1),
        ];
        let special = [0.0, -0.0, most, 2.0 * most, -f32::MAX, f32::INFINITY, f32::NEG_INFINITY];
        let mut given = special.to_vec();
        given.extend(rounded.map(|(x, _)| -x));
        given.resize(32, 1.0);
        let mut wanted = vec![0.0, -0.0, most, most, -most, most, -most];
        wanted.extend(rounded.map(|(_, x)| -x));
        wanted.resize(32, 1.0);
        let done = fine(&b.done(body), &[Arg::tensor(&given, [32]), Arg::output::<f32>([32])]);
        let got = done.get::<f32>("to").unwrap();
        assert_eq!(
            got.iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
            wanted.iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
            "{elem}: {got:?}"
        );
    }
}
