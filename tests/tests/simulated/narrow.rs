//! 8-bit floats and TF32 in the simulator: conversions, and kernels in the language.

use tilewright::Element;
use tilewright::prelude::*;
use tilewright_codegen::with_element;
use tilewright_sim::{Arg, Options, run_program};
use tilewright_tests::casts;

use crate::inputs;

#[test]
fn conversions_round_once() {
    for from in casts::all() {
        let given = casts::given(from);
        let mut args = vec![with_element!(from, T => {
            Arg::tensor(&given.iter().map(|&bits| T::from_raw(bits)).collect::<Vec<T>>(), [given.len()])
        })];
        args.extend(casts::targets(from).map(|to| with_element!(to, T => Arg::output::<T>([given.len()]))));
        let options = Options { races: false, ..Options::default() };
        let done =
            run_program(&casts::kernel(from), &args, &options).unwrap_or_else(|error| panic!("{error}"));
        for to in casts::targets(from) {
            let got: Vec<u64> = with_element!(to, T => {
                let all = done.get::<T>(&format!("to_{to}")).expect("a tensor");
                all.into_iter().map(Element::to_raw).collect()
            });
            assert_eq!(casts::wrong(&given, &got, from, to), None);
        }
    }
}

#[test]
fn conversions_of_words_are_exact() {
    for row in casts::rows() {
        let [from, to] = casts::types(row);
        let given = casts::given(from);
        let (numbers, all) = casts::numbers(row, &given);
        let args = [
            with_element!(from, T => {
                let given: Vec<T> = given.iter().map(|&bits| T::from_raw(bits)).collect();
                Arg::tensor(&given, [given.len()])
            }),
            with_element!(to, T => Arg::output::<T>([all.len()])),
        ];
        let done = run_program(&casts::by_row(row), &args, &Options::default())
            .unwrap_or_else(|error| panic!("{error}"));
        let got: Vec<u64> = with_element!(to, T => {
            done.get::<T>("to").expect("a tensor").into_iter().map(Element::to_raw).collect()
        });
        assert_eq!(casts::wrong(&all, &got, numbers, to), None, "{}", row.name);
    }
}

/// Rounds to eight bits after scaling.
#[kernel(T = e4m3 | e5m2)]
fn quantised<T>(x: &Tensor<f32, N>, y: &mut Tensor<T, N>, scale: f32) {
    let t = layout!(64);
    let x = parallelize(tile(x, 256, block.x), t, thread.x);
    let y = parallelize(tile(y, 256, block.x), t, thread.x);
    copy(map(x, |x| (x * scale) as T), y);
}

#[test]
fn tensors_of_eight_bits_are_written() {
    for def in [quantised!(T = e4m3).def(), quantised!(T = e5m2).def()] {
        inputs(def).set("scale = 0.75").with("x", |x| 50.0 * x).near(1e-6, ["N = 600"]);
    }
}

/// A product of 8-bit elements through shared memory; the accumulator is `f32`.
#[kernel(T = e4m3 | e5m2 | tf32, allow(uncoalesced, bank_conflicts))]
fn product<T>(a: &Tensor<T, (M, K)>, b: &Tensor<T, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    let (sa, sb) = (shared::<T>((32, 8)), shared::<T>((32, 8)));
    let (ga, gb) = (tile(a, (32, 8), (block.x, _)), tile(b, (32, 8), (block.y, _)));
    let gc = tile(c, (32, 32), (block.x, block.y));
    let t = layout!((8, 8));
    let (from_a, to_a) = (parallelize(ga, t, thread.x), parallelize(sa, t, thread.x));
    let (from_b, to_b) = (parallelize(gb, t, thread.x), parallelize(sb, t, thread.x));
    let (rows, columns) = (parallelize(sa, t, thread.x, (1, _)), parallelize(sb, t, thread.x, (_, 1)));
    let out = parallelize(gc, t, thread.x);
    let mut acc = registers_like(out, 0.0);
    for k in 0..from_a.size(2) {
        copy(from_a[(_, _, k)], to_a);
        copy(from_b[(_, _, k)], to_b);
        cp_async_wait_all();
        sync_threads();
        gemm(rows, columns, &mut acc);
        sync_threads();
    }
    copy(acc, out);
}

#[test]
fn products_of_narrow_elements_sum_in_f32() {
    for def in [product!(T = e4m3).def(), product!(T = e5m2).def(), product!(T = tf32).def()] {
        inputs(def).with("a", f64::trunc).with("b", f64::trunc).written(["M = 45, N = 33, K = 19"]);
    }
}

/// Y = W·Xᵀ: weights of 8 bits become the operand that wgmma reads from registers.
#[kernel(arch = 90, T = i8 | u8 | e4m3 | e5m2)]
fn weights<T>(
    w: &Tensor<T, (N, K), (ldw, _1)>,
    x: &Tensor<bf16, (M, K), (ldx, _1)>,
    y: &mut Tensor<f32, (N, M)>,
) {
    let (gw, gx) = (tile(w, (128, 64), (block.x, _)), tile(x, (32, 64), (block.y, _)));
    let (sw, sx) = (shared::<T>((128, 64)), shared::<bf16>((32, 64)));
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = 2).accumulators((128, 32), 0.0);
    for k in pipelined(0..gw.size(2), stages = 3, producer = warp) {
        copy(gw[(_, _, k)], sw);
        copy(gx[(_, _, k)], sx);
        gemm(map(sw, |w| w as bf16), sx, &mut acc);
    }
    copy(acc, tile(y, (128, 32), (block.x, block.y)));
}

#[test]
fn weights_of_eight_bits_are_converted_by_words() {
    for (def, name) in [
        (weights!(T = i8).def(), "i8"),
        (weights!(T = u8).def(), "u8"),
        (weights!(T = e4m3).def(), "e4m3"),
        (weights!(T = e5m2).def(), "e5m2"),
    ] {
        let kernel = def.generate().unwrap();
        let source = kernel.source();
        assert!(
            source.contains(&format!("convert_{name}_bf16(&")) && !source.contains("to_bf16("),
            "{source}"
        );
        let small = |at: usize, _| (at * 7 % 15) as f64;
        inputs(def).indexed("w", small).indexed("x", small).written(["N = 130, M = 33, K = 144"]);
    }
}

/// Numbers of four bits in memory.
#[kernel]
fn unpacked(w: &Tensor<u8, { (N, ceil_div(K, 2)) }, (ldw, _1)>, y: &mut Tensor<bf16, (N, K), (ldy, _1)>) {
    let w = unpack_int4::<i4, bf16>(tile(w, (32, 32), (block.x, block.y)));
    copy(w * -0.5, tile(y, (32, 64), (block.x, block.y)));
}

#[test]
fn numbers_of_four_bits_are_unpacked() {
    inputs(unpacked().def()).written(["N = 40, K = 72"]);
}

/// Y = W·Xᵀ by warps: groups of sixteen weights of four bits have a scale, which threads copy.
#[kernel(allow(bank_conflicts))]
fn grouped(
    w: &Tensor<u8, { (N, ceil_div(K, 2)) }, (ldw, _1)>,
    scale: &Tensor<f16, { (N, ceil_div(K, 16)) }>,
    x: &Tensor<f16, (M, K), (ldx, _1)>,
    y: &mut Tensor<f32, (N, M)>,
) {
    let (gw, gx) = (tile(w, (64, 32), (block.x, _)), tile(x, (32, 64), (block.y, _)));
    let gs = tile(scale, (64, 4), (block.x, _));
    let (sw, sx, ss) = (shared::<u8>((64, 32)), shared::<f16>((32, 64)), shared::<f16>((64, 4)));
    let mut acc = tiled_mma::<f16, f32>(warps = 4).accumulators((64, 32), 0.0);
    for k in pipelined(0..gx.size(2), stages = 3) {
        copy(gw[(_, _, k)], sw);
        copy(gx[(_, _, k)], sx);
        copy(gs[(_, _, k)], ss);
        let s = regroup(broadcast(ss, (_, 16, _)), (64, 64));
        gemm(map((unpack_int4::<i4, f16>(sw), s), |w, s| w * s), sx, &mut acc);
    }
    copy(acc, tile(y, (64, 32), (block.x, block.y)));
}

#[test]
fn groups_of_weights_have_scales() {
    inputs(grouped().def())
        .indexed("scale", |at, _| [0.5, 1.0, 2.0][at % 3])
        .with("x", f64::trunc)
        .written(["N = 72, M = 40, K = 144"]);
}

/// Operands that are functions of several tiles, in registers and in memory, and of a scale for each k.
#[kernel(arch = 90)]
fn functions(
    w: &Tensor<i8, (N, K), (ldw, _1)>,
    v: &Tensor<bf16, (N, K), (ldv, _1)>,
    rows: &Tensor<bf16, N>,
    steps: &Tensor<bf16, K>,
    x: &Tensor<bf16, (M, K), (ldx, _1)>,
    y: &mut Tensor<f32, (N, M)>,
) {
    let (gw, gv, gx) =
        (tile(w, (64, 64), (block.x, _)), tile(v, (64, 64), (block.x, _)), tile(x, (32, 64), (block.y, _)));
    let (sw, sv, sx) = (shared::<i8>((64, 64)), shared::<bf16>((64, 64)), shared::<bf16>((32, 64)));
    let (gk, sk) = (tile(steps, 64, _), shared::<bf16>(64));
    let of_rows = map(tile(rows, 64, block.x), |r| r + 1.0);
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = 1).accumulators((64, 32), 0.0);
    for k in pipelined(0..gw.size(2), stages = 2, producer = warp) {
        copy(gw[(_, _, k)], sw);
        copy(gv[(_, _, k)], sv);
        copy(gk[(_, k)], sk);
        copy(gx[(_, _, k)], sx);
        let own = map((sw, sv, of_rows.along(0), sk.along(1)), |w, v, r, k| (w as bf16 - v) * (r - k));
        gemm(own, sx, &mut acc);
    }
    copy(acc, tile(y, (64, 32), (block.x, block.y)));
}

#[test]
fn operands_are_functions_of_tiles() {
    let kernel = functions();
    assert!(kernel.source().contains("convert_i8_bf16(&"), "{}", kernel.source());
    let small = |at: usize, _| (at * 7 % 6) as f64 - 3.0;
    let given = ["w", "v", "rows", "steps", "x"];
    let inputs = given.into_iter().fold(inputs(kernel.def()), |all, name| all.indexed(name, small));
    inputs.written(["N = 72, M = 40, K = 144"]);
}
