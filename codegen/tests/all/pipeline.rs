//! Pipelined loops: results for every number of stages, the printed code, diagnostics.

use crate::common::{Args, assert_close, numbers, result};
use tilewright_codegen::affine::{Affine, Coord};
use tilewright_codegen::build::Builder;
use tilewright_codegen::condition::Test;
use tilewright_codegen::problem::Result;
use tilewright_codegen::tile::{Ahead, Expr, How, Op, Order, Program};
use tilewright_codegen::view::{At, Partition, View};
use tilewright_codegen::{Elem, generate};
use tilewright_layout::{Layout, Tuple, Value, layout};

const BM: i64 = 16;
const BK: i64 = 4;

fn symbols(names: [&str; 2]) -> Tuple {
    Tuple::of(names.map(|name| Tuple::from(Value::symbol(name))))
}

fn block(axis: u8) -> At {
    At::Index(Coord::Block(axis).into())
}

fn k_tile(b: &mut Builder, view: &View, at: &Affine) -> Result<View> {
    b.slice(view, &[At::All, At::All, At::Index(at.clone())])
}

/// The views of a product of 16 by 16 tiles by 32 threads.
struct Parts {
    ga: View,
    sa: View,
    gb: View,
    sb: View,
    left: View,
    right: View,
    out: View,
    acc: View,
    steps: Value,
}

fn parts(b: &mut Builder, shared: Elem, values: i64) -> Result<Parts> {
    let a = b.tensor("a", Elem::F32, symbols(["M", "K"]), None, false)?;
    let bt = b.tensor("b", Elem::F32, symbols(["N", "K"]), None, false)?;
    let c = b.tensor("c", Elem::F32, symbols(["M", "N"]), None, true)?;
    let ga = b.tile(&a, (BM, BK), &[block(0), At::All])?;
    let gb = b.tile(&bt, (BM, BK), &[block(1), At::All])?;
    let gc = b.tile(&c, (BM, BM), &[block(0), block(1)])?;
    let sa = b.shared("sa", shared, Layout::padded((BM, BK), values)?)?;
    let sb = b.shared("sb", shared, Layout::padded((BM, BK), values)?)?;
    let copies = match values {
        4 => layout!((4, 4)),
        _ => layout!((8, 4)),
    };
    let threads = if values == 4 { layout!((4, 4)) } else { layout!((8, 4)) };
    let partition = Partition { values: vec![values, 1], ..Partition::default() };
    let keep = |keep: [bool; 2]| Partition { keep: Some(keep.to_vec()), ..Partition::default() };
    let out = b.parallelize(&gc, &threads)?.with_name("out");
    let acc = b.registers_like("acc", &out, 0.0)?;
    Ok(Parts {
        ga: b.parallelize_over(&ga, &copies, 0, &partition)?.with_name("ga"),
        sa: b.parallelize_over(&sa, &copies, 0, &partition)?,
        gb: b.parallelize_over(&gb, &copies, 0, &partition)?.with_name("gb"),
        sb: b.parallelize_over(&sb, &copies, 0, &partition)?,
        left: b.parallelize_over(&sa, &threads, 0, &keep([true, false]))?,
        right: b.parallelize_over(&sb, &threads, 0, &keep([false, true]))?,
        out,
        acc,
        steps: Value::symbol("K").ceil_div(BK).unwrap_or_default(),
    })
}

fn product(ahead: impl Into<Ahead>, values: i64) -> Result<Program> {
    let mut b = Builder::new("product");
    let p = parts(&mut b, Elem::F32, values)?;
    b.pipelined("k", p.steps, ahead, |b, k| -> Result<()> {
        let (ga, gb) = (k_tile(b, &p.ga, &k)?, k_tile(b, &p.gb, &k)?);
        b.copy(&ga, &p.sa)?;
        b.copy(&gb, &p.sb)?;
        b.gemm(&p.left, &p.right, &p.acc, Order::Plain)
    })?;
    b.copy(&p.acc, &p.out)?;
    Ok(b.finish())
}

fn args(m: i64, n: i64, k: i64) -> Args {
    let sizes = [("M", m), ("N", n), ("K", k), ("lda", m), ("ldb", n), ("ldc", m)];
    let args = sizes.into_iter().fold(Args::default(), |args, (name, size)| args.size(name, size));
    args.array("a", numbers((m * k) as usize, 1))
        .array("b", numbers((n * k) as usize, 2))
        .array("c", vec![f64::NAN; (m * n) as usize])
}

fn expected(args: &Args, m: i64, n: i64, k: i64) -> Vec<f64> {
    let (a, b) = (&args.arrays["a"], &args.arrays["b"]);
    let at = |i: i64| i as usize;
    (0..m * n).map(|mn| (0..k).map(|l| a[at(mn % m + l * m)] * b[at(mn / m + l * n)]).sum()).collect()
}

#[test]
fn products_are_right_for_every_number_of_stages() {
    for stages in 1..=5 {
        for (m, n, k) in [(16, 16, 4), (32, 16, 8), (16, 32, 28), (20, 36, 40), (17, 19, 13)] {
            for values in [1, 4] {
                let args = args(m, n, k);
                let c = result(product(stages, values).unwrap(), &args, "c");
                assert_close(&c, &expected(&args, m, n, k), 1e-6);
            }
        }
    }
}

#[test]
fn fragments_run_ahead() {
    for stages in 2..=4 {
        // Every remainder of K.
        for (m, n, k) in
            [(16, 16, 4), (32, 16, 8), (20, 36, 40), (17, 19, 13), (17, 19, 14), (16, 16, 7), (1, 1, 2)]
        {
            for (values, exits) in [(1, true), (4, true), (4, false)] {
                let args = args(m, n, k);
                let c = result(
                    product(Ahead { fragments: 2, exits, ..stages.into() }, values).unwrap(),
                    &args,
                    "c",
                );
                assert_close(&c, &expected(&args, m, n, k), 1e-6);
            }
        }
    }
    let program = product(Ahead { fragments: 2, ..3.into() }, 4).unwrap();
    let source = generate(program).kernel.unwrap().source().to_owned();
    // The first fragment of the next iteration is loaded before this iteration's last product.
    let fetched = source.find("const int k_next = min(k + 1,").expect("the next iteration");
    assert!(source[fetched..].contains("fmaf("), "{source}");
}

/// Copies that do not ascend with the iteration have no exits: the partial tile is not the last one.
#[test]
fn loops_that_run_backwards_are_whole() {
    for k in [4, 6, 8, 13, 15] {
        let mut b = Builder::new("backwards");
        let p = parts(&mut b, Elem::F32, 1).unwrap();
        let last = Affine::from(p.steps).plus(&1.into(), -1).unwrap();
        let ahead = Ahead { fragments: 2, ..2.into() };
        b.pipelined("k", p.steps, ahead, |b, k| -> Result<()> {
            let at = last.plus(&k, -1).unwrap();
            let (ga, gb) = (k_tile(b, &p.ga, &at)?, k_tile(b, &p.gb, &at)?);
            b.copy(&ga, &p.sa)?;
            b.copy(&gb, &p.sb)?;
            b.gemm(&p.left, &p.right, &p.acc, Order::Plain)
        })
        .unwrap();
        b.copy(&p.acc, &p.out).unwrap();
        let args = args(17, 19, k);
        assert_close(&result(b.finish(), &args, "c"), &expected(&args, 17, 19, k), 1e-6);
    }
}

/// Only a part of the k-steps of each tile is multiplied: which ones does not depend on K.
#[test]
fn parts_of_tiles_are_in_place() {
    for first in [0, 1] {
        for k in [4, 6, 7, 8, 13] {
            let mut b = Builder::new("parts");
            let p = parts(&mut b, Elem::F32, 1).unwrap();
            let [a, bt] = ["a", "b"].map(|name| {
                let tensor = b.program().tensors.iter().position(|tensor| tensor.name == name).unwrap();
                let extents = symbols(if name == "a" { ["M", "K"] } else { ["N", "K"] });
                View::whole(tensor as u32, name, &extents).unwrap()
            });
            let tiles = [(&a, 0), (&bt, 1)]
                .map(|(matrix, axis)| b.tile(matrix, (BM, BK), &[block(axis), At::All]).unwrap());
            let threads = layout!((16, 2));
            let shared = ["half_a", "half_b"]
                .map(|name| b.shared(name, Elem::F32, Layout::padded((BM, 2), 1).unwrap()).unwrap());
            let keep = |keep: [bool; 2]| Partition { keep: Some(keep.to_vec()), ..Partition::default() };
            let left = b.parallelize_over(&shared[0], &layout!((8, 4)), 0, &keep([true, false])).unwrap();
            let right = b.parallelize_over(&shared[1], &layout!((8, 4)), 0, &keep([false, true])).unwrap();
            let ahead = Ahead { fragments: 2, ..2.into() };
            b.pipelined("k", p.steps, ahead, |b, k| -> Result<()> {
                for (tiles, shared) in tiles.iter().zip(&shared) {
                    let tile = k_tile(b, tiles, &k)?;
                    let half = b.tile(&tile, (BM, 2), &[At::Index(0.into()), At::Index(first.into())])?;
                    let (from, to) = (b.parallelize(&half, &threads)?, b.parallelize(shared, &threads)?);
                    b.copy(&from, &to)?;
                }
                b.gemm(&left, &right, &p.acc, Order::Plain)
            })
            .unwrap();
            b.copy(&p.acc, &p.out).unwrap();
            let (m, n) = (17, 19);
            let mut args = args(m, n, k);
            let c = result(b.finish(), &args, "c");
            for (index, x) in args.arrays.get_mut("a").unwrap().iter_mut().enumerate() {
                let column = index as i64 / m;
                *x *= f64::from(u8::from(column % BK / 2 == first));
            }
            assert_close(&c, &expected(&args, m, n, k), 1e-6);
        }
    }
}

#[test]
fn shared_tensors_get_slots() {
    let program = product(3, 4).unwrap();
    let source = generate(program).kernel.unwrap().source().to_owned();
    for part in [
        "(16,4,3):(1,20,76)",
        "cp_async_wait<1>();",
        "if (k + 2 < CEIL_DIV(K, 4)) {",
        "(k_ahead % 3) * sa_stride_2",
    ] {
        assert!(source.contains(part), "{part} is not in\n{source}");
    }
    // The fastest variant has no bounds checks.
    assert!(!source.contains("_or_zero"), "{source}");
    assert_eq!(source.matches("__syncthreads").count(), 1, "{source}");
}

/// Another loop over the same shared tensors may reuse them.
#[test]
fn loops_reuse_shared_tensors() {
    let mut b = Builder::new("twice");
    let p = parts(&mut b, Elem::F32, 4).unwrap();
    for stages in [3, 2] {
        b.pipelined("k", p.steps, stages, |b, k| -> Result<()> {
            let (ga, gb) = (k_tile(b, &p.ga, &k)?, k_tile(b, &p.gb, &k)?);
            b.copy(&ga, &p.sa)?;
            b.copy(&gb, &p.sb)?;
            b.gemm(&p.left, &p.right, &p.acc, Order::Plain)
        })
        .unwrap();
    }
    b.copy(&p.acc, &p.out).unwrap();
    let args = args(20, 36, 40);
    let twice: Vec<f64> = expected(&args, 20, 36, 40).into_iter().map(|x| 2.0 * x).collect();
    assert_close(&result(b.finish(), &args, "c"), &twice, 1e-6);
}

/// Copies under a condition and in a loop run ahead as a whole; an outer loop is allowed.
#[test]
fn copies_in_loops_and_conditions() {
    let mut b = Builder::new("nested");
    let p = parts(&mut b, Elem::F32, 4).unwrap();
    let twice = b.scalar("twice", Elem::I32);
    b.repeat("again", Value::Int(2), tilewright_codegen::thread::Unroll::No, |b, _| {
        b.pipelined("k", p.steps, 3, |b, k| -> Result<()> {
            let (ga, gb) = (k_tile(b, &p.ga, &k)?, k_tile(b, &p.gb, &k)?);
            b.branch(Test::IsTrue(twice.clone()), |b| b.copy(&ga, &p.sa), |b| b.copy(&ga, &p.sa))?;
            b.copy(&gb, &p.sb)?;
            b.gemm(&p.left, &p.right, &p.acc, Order::Plain)
        })
    })
    .unwrap();
    b.copy(&p.acc, &p.out).unwrap();
    let args = args(16, 32, 24).array("twice", [1.0]);
    let wanted: Vec<f64> = expected(&args, 16, 32, 24).into_iter().map(|x| 2.0 * x).collect();
    assert_close(&result(b.finish(), &args, "c"), &wanted, 1e-6);
}

/// The body of a loop, or the statements after it.
type Body = fn(&mut Builder, &Parts, &Affine) -> Result<()>;

fn no_statements(_: &mut Builder, _: &Parts, _: &Affine) -> Result<()> {
    Ok(())
}

fn fetch(b: &mut Builder, p: &Parts, k: &Affine) -> Result<()> {
    let (ga, gb) = (k_tile(b, &p.ga, k)?, k_tile(b, &p.gb, k)?);
    b.copy(&ga, &p.sa)?;
    b.copy(&gb, &p.sb)
}

fn fetch_a(b: &mut Builder, p: &Parts, k: &Affine) -> Result<()> {
    let ga = k_tile(b, &p.ga, k)?;
    b.copy(&ga, &p.sa)
}

fn multiply(b: &mut Builder, p: &Parts, k: &Affine) -> Result<()> {
    fetch(b, p, k)?;
    b.gemm(&p.left, &p.right, &p.acc, Order::Plain)
}

fn multiply_twice(b: &mut Builder, p: &Parts, k: &Affine) -> Result<()> {
    multiply(b, p, k)?;
    b.gemm(&p.left, &p.right, &p.acc, Order::Plain)
}

fn read_first(b: &mut Builder, p: &Parts, k: &Affine) -> Result<()> {
    b.gemm(&p.left, &p.right, &p.acc, Order::Plain)?;
    fetch(b, p, k)
}

fn wait(b: &mut Builder, p: &Parts, k: &Affine) -> Result<()> {
    fetch_a(b, p, k)?;
    b.wait(None, 0);
    Ok(())
}

fn fill_what_is_copied(b: &mut Builder, p: &Parts, k: &Affine) -> Result<()> {
    fetch_a(b, p, k)?;
    b.fill(&p.sa, Expr::lit(0.0))
}

fn fill_sums(b: &mut Builder, p: &Parts, k: &Affine) -> Result<()> {
    fetch_a(b, p, k)?;
    b.fill(&p.acc, Expr::lit(1.0))
}

fn read_later(b: &mut Builder, p: &Parts, _: &Affine) -> Result<()> {
    b.copy(&p.sa, &p.sa)
}

fn multiply_registers(b: &mut Builder, p: &Parts, k: &Affine) -> Result<()> {
    let gb = k_tile(b, &p.gb, k)?;
    b.copy(&gb, &p.sb)?;
    let own = b.registers("own", Elem::F32, p.left.shape())?;
    b.gemm(&own, &p.right, &p.acc, Order::Plain)
}

fn multiply_one_step(b: &mut Builder, p: &Parts, k: &Affine) -> Result<()> {
    fetch(b, p, k)?;
    let first = [At::Index(0.into()), At::Index(0.into())];
    let (left, right) = (b.tile(&p.left, (4, 1), &first)?, b.tile(&p.right, (4, 1), &first)?);
    b.gemm(&left, &right, &p.acc, Order::Plain)
}

/// The builder knows no such tiles.
fn fill_unknown_rows(b: &mut Builder, p: &Parts, k: &Affine) -> Result<()> {
    let from = k_tile(b, &p.ga, k)?;
    let mut to = p.sa.clone();
    to.layout = Layout::from_modes([Layout::new(Value::symbol("M"), 1i64)?, Layout::new(4i64, 20i64)?])?;
    b.statement(Op::Copy { from, to, how: How::Staged, fill: 0.0.into(), token: None });
    Ok(())
}

/// Diagnostics of wrong loops: stages, fragments, the body.
const WRONG: [([u32; 2], Body, &str); 15] = [
    (
        [3, 1],
        read_first,
        "`sa` is read here before the copy that fills it: an iteration sees only its own copies\n\
         help: copy first, then read",
    ),
    (
        [0, 1],
        fetch,
        "a pipelined loop has 1 to 16 stages, and this one 0\nhelp: write stages = 3: more only take shared memory",
    ),
    (
        [99, 1],
        fetch,
        "a pipelined loop has 1 to 16 stages, and this one 99\nhelp: write stages = 3: more only take shared memory",
    ),
    (
        [3, 1],
        no_statements,
        "this pipelined loop copies nothing from global to shared memory\n\
         help: write a plain loop, or copy its tiles in its body",
    ),
    ([3, 1], wait, "a pipelined loop already waits for its copies\nhelp: leave the wait out"),
    (
        [3, 1],
        fill_what_is_copied,
        "`sa` is filled by the copies of a pipelined loop, and written here as well\n\
         help: use another tensor for it",
    ),
    (
        [3, 1],
        fill_unknown_rows,
        "`sa` is filled through registers, and its shape (M,4) is known at launch only\n\
         help: use a tile whose extents are integers",
    ),
    (
        [3, 0],
        multiply,
        "a pipelined loop has 1 or 2 fragments, and this one 0\nhelp: write stages = 3, fragments = 2",
    ),
    (
        [3, 3],
        multiply,
        "a pipelined loop has 1 or 2 fragments, and this one 3\nhelp: write stages = 3, fragments = 2",
    ),
    (
        [1, 2],
        multiply,
        "`fragments = 2` loads across the barrier between two iterations, and needs two stages\n\
         help: write stages = 3, fragments = 2",
    ),
    (
        [3, 2],
        multiply_twice,
        "`fragments = 2` needs iterations that are one product, and each iteration here has 2 statements\n\
         help: leave `fragments` out, or make one `gemm` of two shared tiles the whole work of an iteration",
    ),
    (
        [3, 2],
        fetch,
        "`fragments = 2` needs iterations that are one product, and each iteration here has 0 statements\n\
         help: leave `fragments` out, or make one `gemm` of two shared tiles the whole work of an iteration",
    ),
    (
        [3, 2],
        fill_sums,
        "`fragments = 2` needs iterations that are one product on CUDA cores, and this statement is none\n\
         help: leave `fragments` out, or make one `gemm` of two shared tiles the whole work of an iteration",
    ),
    (
        [3, 2],
        multiply_registers,
        "`fragments = 2` reads operands from shared memory, and `own` is not there\n\
         help: leave `fragments` out, or make one `gemm` of two shared tiles the whole work of an iteration",
    ),
    (
        [3, 2],
        multiply_one_step,
        "`fragments = 2` takes k-steps in pairs, and the tiles have 1\n\
         help: use tiles whose extent along K is even",
    ),
];

#[test]
fn refusals() {
    for ([stages, fragments], body, message) in WRONG {
        check(Ahead { fragments, ..stages.into() }, Elem::F32, body, no_statements, message);
    }
    check(
        3.into(),
        Elem::F16,
        fetch,
        no_statements,
        "`a` has elements of f32 and `sa` of f16: an asynchronous copy cannot convert\n\
         help: make `sa` of f32, and convert where it is read",
    );
    check(
        3.into(),
        Elem::F32,
        fetch,
        read_later,
        "`sa` is filled by a pipelined loop, and used outside of it\nhelp: use another shared tensor here",
    );
}

/// A loop over K with this body, and these statements after it, is refused.
#[track_caller]
fn check(ahead: Ahead, elem: Elem, body: Body, after: Body, message: &str) {
    let mut b = Builder::new("wrong");
    let p = parts(&mut b, elem, 4).unwrap();
    b.pipelined("k", p.steps, ahead, |b, k| body(b, &p, &k)).unwrap();
    after(&mut b, &p, &0.into()).unwrap();
    refused(b.finish(), message);
}

/// The program is refused with these diagnostics.
#[track_caller]
fn refused(program: Program, message: &str) {
    let outcome = generate(program);
    let text: Vec<String> = outcome.diagnostics.iter().map(|d| d.text()).collect();
    assert!(outcome.kernel.is_none());
    assert_eq!(text.join("\n"), message);
}

/// Copies of two bytes cannot be asynchronous.
#[test]
fn narrow_elements_need_vectors() {
    let mut b = Builder::new("narrow");
    let x = b.tensor("x", Elem::F16, (Value::symbol("N"),), None, false).unwrap();
    let y = b.tensor("y", Elem::F16, (Value::symbol("N"),), None, true).unwrap();
    let threads = layout!(32 : 1);
    let tiles = b.tile(&x, (64,), &[At::All]).unwrap();
    let out = b.tile(&y, (64,), &[At::All]).unwrap();
    let s = b.shared("s", Elem::F16, layout!(64 : 1)).unwrap();
    let (from, to) = (b.parallelize(&tiles, &threads).unwrap(), b.parallelize(&s, &threads).unwrap());
    let out = b.parallelize(&out, &threads).unwrap();
    let extent = Value::symbol("N").ceil_div(64).unwrap();
    b.pipelined("k", extent, 2, |b, k| -> Result<()> {
        let at = [At::All, At::Index(k)];
        let (from, out) = (b.slice(&from, &at)?, b.slice(&out, &at)?);
        b.copy(&from, &to)?;
        b.copy(&to, &out)
    })
    .unwrap();
    refused(
        b.finish(),
        "`s` cannot be prefetched: asynchronous copies move 4, 8 or 16 bytes at once, and here 2 are contiguous\n\
         help: let each thread take consecutive elements, such as values = (4, 1), along the mode that is contiguous in both memories",
    );
}
