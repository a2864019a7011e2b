//! Kernels can call exactly the functions that the reference documents, and products have the keys that it lists; language
//! features in custom kernels.

use tilewright::prelude::*;
use tilewright_codegen::evaluate::FUNCTIONS;
use tilewright_sim::{Arg, Options, run_every};

use crate::inputs;

#[test]
fn every_function_is_documented() {
    let page = include_str!("../../../src/language/functions.rs");
    let documented =
        page.lines().filter_map(|line| line.trim().strip_prefix("fn ")?.split(['(', '<']).next());
    let mut documented: Vec<_> = documented.collect();
    let mut known: Vec<_> = FUNCTIONS.iter().map(|row| row.name).collect();
    documented.sort_unstable();
    known.sort_unstable();
    assert_eq!(documented, known, "src/language/functions.rs lists what codegen's FUNCTIONS lists");
}

#[test]
fn every_key_of_products_is_documented() {
    let (page, list) = (include_str!("../../../src/language/keys.md"), tilewright_codegen::matmul::page());
    assert!(page.ends_with(&list), "this is to be the end of src/language/keys.md:\n{list}");
}

/// A is K-major: it is transposed through registers on the way to shared memory. B is copied by cp.async.
#[kernel]
fn product(
    a: &Tensor<f32, layout!((M, K) : (lda, 1))>,
    b: &Tensor<f32, (N, K)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    let (sa, sb) = (shared::<f32>(padded((32, 8), 4)), shared::<f32>(padded((32, 8), 4)));
    let (ga, gb) = (tile(a, (32, 8), (block.x, _)), tile(b, (32, 8), (block.y, _)));
    let gc = tile(c, (32, 32), (block.x, block.y));
    let (ta, tb, tc) = (layout!((32, 2) : (2, 1)), layout!((8, 8)), layout!((8, 8)));
    let from_a = parallelize(ga, ta, thread.x, values = (1, 4));
    let to_a = parallelize(sa, ta, thread.x, values = (1, 4));
    let from_b = parallelize(gb, tb, thread.x, values = (4, 1));
    let to_b = parallelize(sb, tb, thread.x, values = (4, 1));
    let rows = parallelize(sa, tc, thread.x, (1, _));
    let columns = parallelize(sb, tc, thread.x, (_, 1));
    let out = parallelize(gc, tc, thread.x);
    let mut acc = registers_like(out, 0.0);
    for k in pipelined(0..from_a.size(2), stages = 3, fragments = 2) {
        copy(from_a[(_, _, k)], to_a, how = "staged");
        copy(from_b[(_, _, k)], to_b);
        gemm(rows, columns, &mut acc, order = "serpentine");
    }
    copy(acc, out);
}

#[test]
fn copies_through_registers_and_fragments_ahead_are_right() {
    // Whole tiles, partial tiles, fewer k-tiles than stages, and K not divisible by four.
    inputs(product().def()).with("a", f64::trunc).with("b", f64::trunc).written([
        "M = 32, N = 32, K = 8",
        "M = 64, N = 32, K = 40",
        "M = 37, N = 45, K = 23",
        "M = 33, N = 1, K = 5",
        "M = 1, N = 70, K = 17",
        "M = 32, N = 64, K = 1",
    ]);
}

#[test]
fn copies_through_registers_are_read_early_and_written_late() {
    let source = product().source().to_owned();
    let main_loop = source.find("for (int k = 0;").expect("the loop");
    let after = &source[main_loop..];
    let index = |what: &str| after.find(what).unwrap_or_else(|| panic!("{what}: {source}"));
    let (read, copied) = (index("to_a_in_flight = "), index("cp_async_16("));
    let (multiplied, written) = (index("fmaf("), index("] = to_a_in_flight["));
    assert!(read < multiplied && copied < multiplied && multiplied < written, "{source}");
}

/// The copies at the end of an iteration are waited for at the beginning of the next, and the source has no
/// commit for them.
#[kernel]
fn waits_before_it_copies(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    let (sa, sb) = (shared::<f32>(padded((32, 8), 8)), shared::<f32>(padded((32, 8), 8)));
    let (ga, gb) = (tile(a, (32, 8), (block.x, _)), tile(b, (32, 8), (block.y, _)));
    let gc = tile(c, (32, 32), (block.x, block.y));
    let t = layout!((8, 8));
    let (from_a, to_a) = (parallelize(ga, t, thread.x), parallelize(sa, t, thread.x));
    let (from_b, to_b) = (parallelize(gb, t, thread.x), parallelize(sb, t, thread.x));
    let rows = parallelize(sa, t, thread.x, (1, _));
    let columns = parallelize(sb, t, thread.x, (_, 1));
    let out = parallelize(gc, t, thread.x);
    let mut acc = registers_like(out, 0.0);
    copy(from_a[(_, _, 0)], to_a);
    copy(from_b[(_, _, 0)], to_b);
    cp_async_commit();
    for k in 0..from_a.size(2) {
        cp_async_wait_all();
        sync_threads();
        gemm(rows, columns, &mut acc);
        sync_threads();
        copy(from_a[(_, _, k + 1)], to_a);
        copy(from_b[(_, _, k + 1)], to_b);
    }
    cp_async_wait_all();
    copy(acc, out);
}

#[test]
fn copies_are_committed_along_control_flow() {
    inputs(waits_before_it_copies().def()).schedules(5).written([
        "M = 32, N = 32, K = 8",
        "M = 64, N = 32, K = 40",
        "M = 37, N = 45, K = 23",
    ]);
}

/// Sums of columns: blocks of the same columns add to the same elements.
#[kernel]
fn column_sums(x: &Tensor<i32, layout!((M, N) : (ldx, 1))>, y: &mut Tensor<i32, (N,)>) {
    let gx = tile(x, (16, 128), (block.y, block.x));
    let gy = tile(y, (128,), (block.x));
    let from = parallelize(gx, layout!((1, 128)), thread.x);
    let to = parallelize(gy, layout!((128,)), thread.x);
    for row in unroll(0..16) {
        let own = registers_like(to, 0);
        copy(from[(row, _)], own);
        copy(own, to, how = "atomic_add");
    }
}

/// The maximum of each column.
#[kernel]
fn column_maxima(x: &Tensor<f32, layout!((M, N) : (ldx, 1))>, y: &mut Tensor<f32, (N,)>) {
    let from = parallelize(tile(x, (1, 128), (block.y, block.x)), layout!((1, 128)), thread.x);
    let to = parallelize(tile(y, (128,), (block.x)), layout!((128,)), thread.x);
    let own = registers_like(to, 0.0);
    copy(from[(0, _)], own);
    copy(own, to, how = "atomic_max");
}

#[test]
fn atomic_copies_update_the_target() {
    for (def, before) in [(column_sums().def(), 5.0), (column_maxima().def(), -3.0)] {
        inputs(def).with("y", move |_| before).written([
            "M = 16, N = 128",
            "M = 37, N = 200",
            "M = 1, N = 1",
            "M = 50, N = 129",
        ]);
    }
}

/// Modes of extent 1 are broadcast to the largest extent of the mapped operands, in any order.
#[test]
fn mapped_operands_are_broadcast_both_ways() {
    #[kernel(allow(uncoalesced))]
    fn differences(x: &Tensor<f32, (M, _1)>, y: &Tensor<f32, (_1, N)>, z: &mut Tensor<f32, (M, N)>) {
        let (rows, columns) = (layout!((4, 8, 1) : (1, 4, 0)), layout!((4, 1, 8) : (1, 0, 4)));
        let down = parallelize(tile(x, (8, 1), (block.x, 0)), columns, thread.x, (1, 1, _));
        let across = parallelize(tile(y, (1, 16), (0, block.y)), columns, thread.x, (_, 1, 1));
        let out = parallelize(tile(z, (8, 16), (block.x, block.y)), rows, thread.x, (1, 1, _));
        copy(map((across, down), |y, x| x - y), out);
    }
    inputs(differences().def()).written(["M = 8, N = 16", "M = 13, N = 31", "M = 1, N = 1"]);
}

/// A load that converts its elements keeps the vector width of the source.
#[test]
fn registers_of_another_type_do_not_narrow_accesses() {
    #[kernel]
    fn halves(x: &Tensor<bf16, N>, y: &mut Tensor<bf16, N>) {
        let t = layout!(32);
        let from = parallelize(tile(x, 512, block.x), t, thread.x, values = 8);
        let to = parallelize(tile(y, 512, block.x), t, thread.x, values = 8);
        let own = registers_like::<f32>(from, 0.0);
        copy(from, own);
        copy(map(own, |x| 0.5 * x), to);
    }
    let kernel = halves().def().generate().unwrap();
    let source = kernel.source();
    assert_eq!(source.matches("uint4*)&x[").count(), 1, "{source}");
    assert_eq!(source.matches("uint4*)&y[").count(), 1, "{source}");
    inputs(halves().def()).written(["N = 512", "N = 1000", "N = 7"]);
}

#[test]
fn limits_of_sizes_are_kept() {
    #[kernel(allow(unbounded))]
    fn doubled(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
        at_most(N, 4);
        let t = layout!((32, 1));
        let from = parallelize(tile(x, (32, 4), (block.x, 0)), t, thread.x);
        map(from, parallelize(tile(y, (32, 4), (block.x, 0)), t, thread.x), |x| x + x);
    }
    let kernel = doubled().def().generate().unwrap();
    assert!(kernel.source().contains("//         N at most 4\n"), "{}", kernel.source());
    inputs(doubled().def()).written(["M = 40, N = 1", "M = 40, N = 3", "M = 40, N = 4"]);
    let args = [Arg::tensor(&[0.0f32; 200], [40, 5]), Arg::output::<f32>([40, 5])];
    let refused = run_every(&kernel, &args, &Options::default()).map(|_| ()).unwrap_err().to_string();
    assert!(refused.starts_with("`N` is 5, and the kernel is made for at most 4\n"), "{refused}");
}

/// Facts that are true for all sizes are not checked.
#[test]
fn sizes_have_a_least() {
    #[kernel(allow(unbounded))]
    fn doubled(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {
        at_least(N, 100);
        let t = layout!((1, 32));
        let from = parallelize(tile(x, (1, 128), (block.x, 0)), t, thread.x);
        map(from, parallelize(tile(y, (1, 128), (block.x, 0)), t, thread.x), |x| x + x);
    }
    let kernel = doubled().def().generate().unwrap();
    let source = &kernel.source();
    assert!(source.contains("//         N at least 100\n"), "{source}");
    // Of a thread's four elements three are below 96.
    assert!(source.contains("if (j < 3 || ") && source.contains(" + j * 32 < N)"), "{source}");
    inputs(doubled().def()).written(["M = 2, N = 100", "M = 2, N = 101", "M = 2, N = 127", "M = 2, N = 128"]);
    let args = inputs(doubled().def()).args("M = 2, N = 99");
    assert_eq!(
        run_every(&kernel, &args, &Options::default()).map(|_| ()).unwrap_err().to_string(),
        "`N` is 99, and the kernel is made for at least 100\nhelp: at_least or assert in the kernel bounds it: choose a smaller bound there, or larger tensors"
    );
}

/// The function and the bias of a shipped kernel are its user's.
#[test]
fn a_linear_layer_has_any_epilogue() {
    use tilewright::kernels::linear_hopper::linear_hopper;
    for kernel in [linear_hopper!(F = |x| max(x, 0.0)), linear_hopper!(F = |x| 0.5 * x, bias = None)] {
        inputs(kernel.def()).near(1e-3, ["M = 5, N = 72, K = 136"]);
    }
}

/// Each use sets the functions of a kernel: in maps, in other closures, and to combine elements.
#[test]
fn closures_are_constants() {
    #[kernel(T = f32 | i32)]
    fn combined<
        T,
        const PART: usize = 128,
        const EACH: fn(f32, i32) -> f32 = { |x, at| x },
        const COMBINE: fn(f32, f32) -> f32 = { |x, y| x + y },
    >(
        x: &Tensor<T, (M, N), (ldx, _1)>,
        y: &mut Tensor<T, M>,
    ) {
        assert(N <= PART);
        let elements =
            map(tile(x, (8, PART), (block.x, 0)), |x, at| if at.1 < N { EACH(2 * x, at.1) } else { 0 });
        let total = reduce(elements, 0, COMBINE, mode = 1);
        copy(total, tile(y, 8, block.x).along(0));
    }
    for def in [
        combined().def(),
        combined!(T = i32, EACH = |x, at| x * (at % 3) - PART as i32).def(),
        combined!(T = i32, COMBINE = |x, y| x ^ y, PART = 256).def(),
    ] {
        inputs(def).with("x", f64::trunc).written(["M = 11, N = 100"]);
    }
    let refused = combined().specialize(&[("EACH", 3)]).unwrap_err().to_string();
    assert!(
        refused.contains("`EACH` is a closure, and 3 is none") && refused.contains("write `EACH = |x| …`"),
        "{refused}"
    );
}
