//! Kernels can call exactly the functions that the reference documents, and products have the keys that it lists; language
//! features in custom kernels.

use tilewright::prelude::*;
use tilewright_codegen::evaluate::FUNCTIONS;
use tilewright_fuzz::{written, written_with};
use tilewright_sim::{Arg, Options, run_every};

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
    let kernel = product().def().generate().unwrap();
    // Whole tiles, partial tiles, fewer k-tiles than stages, and K not divisible by four.
    for (m, n, k) in [(32, 32, 8), (64, 32, 40), (37, 45, 23), (33, 1, 5), (1, 70, 17), (32, 64, 1)] {
        let numbers = |count: usize, seed: usize| -> Vec<f32> {
            (0..count).map(|at| ((at * 7 + at / 5 + seed) % 9) as f32 - 4.0).collect()
        };
        let (a, b) = (numbers(m * k, 1), numbers(n * k, 2));
        let at = |i: usize, j: usize| (0..k).map(|l| a[i * k + l] * b[j + l * n]).sum::<f32>();
        let wanted: Vec<f32> = (0..m * n).map(|index| at(index % m, index / m)).collect();
        let args =
            [Arg::tensor(&a, [m, k]).strides([k, 1]), Arg::tensor(&b, [n, k]), Arg::output::<f32>([m, n])];
        let options = Options { schedules: 3, ..Options::default() };
        let outcomes =
            run_every(&kernel, &args, &options).unwrap_or_else(|error| panic!("{m} {n} {k}: {error}"));
        for outcome in outcomes {
            let got = outcome.get::<f32>("c").unwrap();
            assert!(got == wanted, "{m} {n} {k}, variant {}: {got:?}", outcome.variant() + 1);
        }
    }
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
    for (m, n, k) in [(32, 32, 8), (64, 32, 40), (37, 45, 23)] {
        let numbers = |count: usize, seed: usize| -> Vec<f32> {
            (0..count).map(|at| ((at * 7 + at / 5 + seed) % 9) as f32 - 4.0).collect()
        };
        let (a, b) = (numbers(m * k, 1), numbers(n * k, 2));
        let args = [Arg::tensor(&a, [m, k]), Arg::tensor(&b, [n, k]), Arg::output::<f32>([m, n])];
        let options = Options { schedules: 5, ..Options::default() };
        written_with(waits_before_it_copies().def(), &args, &options);
    }
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
    for (m, n) in [(16, 128), (37, 200), (1, 1), (50, 129)] {
        let x: Vec<i32> = (0..m * n).map(|at| (at * 7 % 23) as i32 - 11).collect();
        let column = |column: usize| (0..m).map(|row| x[row * n + column]).collect::<Vec<_>>();
        let args = [Arg::tensor(&x, [m, n]).strides([n, 1]), Arg::in_out(&vec![5i32; n], [n])];
        let options = Options { schedules: 3, ..Options::default() };
        let wanted: Vec<i32> = (0..n).map(|at| 5 + column(at).iter().sum::<i32>()).collect();
        let kernel = column_sums().def().generate().unwrap();
        for outcome in run_every(&kernel, &args, &options).unwrap_or_else(|error| panic!("{m} {n}: {error}"))
        {
            assert_eq!(outcome.get::<i32>("y").unwrap(), wanted, "{m} {n}");
        }
        let floats: Vec<f32> = x.iter().map(|&x| x as f32).collect();
        let args = [Arg::tensor(&floats, [m, n]).strides([n, 1]), Arg::in_out(&vec![-3.0f32; n], [n])];
        let wanted: Vec<f32> =
            (0..n).map(|at| column(at).into_iter().max().unwrap().max(-3) as f32).collect();
        let kernel = column_maxima().def().generate().unwrap();
        for outcome in run_every(&kernel, &args, &options).unwrap_or_else(|error| panic!("{m} {n}: {error}"))
        {
            assert_eq!(outcome.get::<f32>("y").unwrap(), wanted, "{m} {n}");
        }
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
    let kernel = differences().def().generate().unwrap();
    for (m, n) in [(8, 16), (13, 31), (1, 1)] {
        let numbers = |count: usize| -> Vec<f32> { (0..count).map(|at| (at * at % 23) as f32).collect() };
        let (x, y) = (numbers(m), numbers(n));
        let wanted: Vec<f32> = (0..m * n).map(|at| x[at % m] - y[at / m]).collect();
        let args = [Arg::tensor(&x, [m, 1]), Arg::tensor(&y, [1, n]), Arg::output::<f32>([m, n])];
        for outcome in
            run_every(&kernel, &args, &Options::default()).unwrap_or_else(|fault| panic!("{fault}"))
        {
            assert_eq!(
                outcome.get::<f32>("z").unwrap(),
                wanted,
                "{m} {n}, variant {}",
                outcome.variant() + 1
            );
        }
    }
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
    for n in [512, 1000, 7] {
        let x: Vec<bf16> = (0..n).map(|at| bf16::from_f32((at % 100) as f32)).collect();
        let args = [Arg::tensor(&x, [n]), Arg::output::<bf16>([n])];
        written(halves().def(), &args);
    }
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
    for n in [1, 3, 4] {
        let x: Vec<f32> = (0..40 * n).map(|at| at as f32).collect();
        let wanted: Vec<f32> = x.iter().map(|x| x + x).collect();
        let args = [Arg::tensor(&x, [40, n]), Arg::output::<f32>([40, n])];
        for outcome in
            run_every(&kernel, &args, &Options::default()).unwrap_or_else(|fault| panic!("{fault}"))
        {
            assert_eq!(outcome.get::<f32>("y").unwrap(), wanted, "{n}, variant {}", outcome.variant() + 1);
        }
    }
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
    let run = |n: usize| {
        let x: Vec<f32> = (0..2 * n).map(|at| at as f32).collect();
        let args = [Arg::tensor(&x, [2, n]).strides([n, 1]), Arg::output::<f32>([2, n]).strides([n, 1])];
        run_every(&kernel, &args, &Options::default())
    };
    for n in [100, 101, 127, 128] {
        for outcome in run(n).unwrap_or_else(|fault| panic!("{fault}")) {
            let y = outcome.get::<f32>("y").unwrap();
            assert!(y.iter().enumerate().all(|(at, y)| *y == 2.0 * at as f32), "{n}: {y:?}");
        }
    }
    assert_eq!(
        run(99).map(|_| ()).unwrap_err().to_string(),
        "`N` is 99, and the kernel is made for at least 100\nhelp: at_least or assert in the kernel bounds it: choose a smaller bound there, or larger tensors"
    );
}

/// The function and the bias of a shipped kernel are its user's.
#[test]
fn a_linear_layer_has_any_epilogue() {
    use tilewright::kernels::linear_hopper::linear_hopper;
    use tilewright::prelude::bf16;
    let (m, n, k) = (5, 72, 136);
    let numbers = |count: usize, by: usize| -> Vec<bf16> {
        (0..count).map(|at| bf16::from_f32(((at * by + at / 9) % 17) as f32 / 8.0 - 1.0)).collect()
    };
    let (a, w) = (numbers(m * k, 7), numbers(n * k, 11));
    let bias: Vec<f32> = (0..n).map(|at| at as f32 / 16.0 - 2.0).collect();
    let matrix = |of: &[bf16], rows: usize| Arg::tensor(of, [rows, k]).strides([k, 1]);
    let check = |kernel: &tilewright::KernelDef, bias: Option<&[f32]>, function: fn(f64) -> f64| {
        let mut args = vec![matrix(&a, m), matrix(&w, n)];
        args.extend(bias.map(|bias| Arg::tensor(bias, [n])));
        args.push(Arg::output::<bf16>([m, n]).strides([n, 1]));
        let done = kernel.simulate(&args).unwrap();
        let c = done.get::<bf16>("c").unwrap();
        for (at, c) in c.iter().enumerate() {
            let (c, row, column) = (f64::from(c.to_f32()), at / n, at % n);
            let products =
                (0..k).map(|k_at| f64::from(a[row * k + k_at].to_f32() * w[column * k + k_at].to_f32()));
            let wanted = function(products.sum::<f64>() + bias.map_or(0.0, |bias| bias[column].into()));
            assert!((c - wanted).abs() <= 0.01 * wanted.abs() + 1e-3, "{row}, {column}: {c}, {wanted}");
        }
    };
    check(linear_hopper!(F = |x| max(x, 0.0)).def(), Some(&bias), |x| x.max(0.0));
    check(linear_hopper!(F = |x| 0.5 * x, bias = None).def(), None, |x| 0.5 * x);
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
    let (m, n) = (11, 100);
    let x: Vec<i32> = (0..m * n).map(|at| at as i32 % 23 - 9).collect();
    let rows = |combine: &dyn Fn(i32, i32, i32) -> i32| -> Vec<i32> {
        let row = |row: usize| (0..n).fold(0, |total, at| combine(total, 2 * x[row * n + at], at as i32));
        (0..m).map(row).collect()
    };
    let floats: Vec<f32> = x.iter().map(|x| *x as f32).collect();
    let args = [Arg::tensor(&floats, [m, n]).strides([n, 1]), Arg::output::<f32>([m])];
    let done = combined().simulate(&args).unwrap();
    let wanted = rows(&|total, x, _| total + x);
    assert!(done.get::<f32>("y").unwrap().iter().zip(&wanted).all(|(y, x)| *y == *x as f32));
    let args = [Arg::tensor(&x, [m, n]).strides([n, 1]), Arg::output::<i32>([m])];
    let weighed = combined!(T = i32, EACH = |x, at| x * (at % 3) - PART as i32);
    let done = weighed.simulate(&args).unwrap();
    assert_eq!(done.get::<i32>("y").unwrap(), rows(&|total, x, at| total + x * (at % 3) - 128));
    let bits = combined!(T = i32, COMBINE = |x, y| x ^ y, PART = 256);
    assert_eq!(bits.simulate(&args).unwrap().get::<i32>("y").unwrap(), rows(&|total, x, _| total ^ x));
    let refused = combined().specialize(&[("EACH", 3)]).unwrap_err().to_string();
    assert!(
        refused.contains("`EACH` is a closure, and 3 is none") && refused.contains("write `EACH = |x| …`"),
        "{refused}"
    );
}
