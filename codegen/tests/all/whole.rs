//! Whole tiles: for any extents, number of threads and tensor layouts, statements on tiles compute the same
//! as plain loops, in every variant, without a race.

use crate::common::{Args, numbers, result, rounded};
use tilewright_codegen::affine::Coord;
use tilewright_codegen::build::Builder;
use tilewright_codegen::problem::Result;
use tilewright_codegen::thread::{Bin, Un, Unroll};
use tilewright_codegen::tile::{Across, Expr, How, Order, Program};
use tilewright_codegen::tiled::TiledMma;
use tilewright_codegen::view::{At, View};
use tilewright_codegen::{Elem, generate};
use tilewright_layout::{Tuple, Value};

fn block(axis: u8) -> At {
    At::Index(Coord::Block(axis).into())
}

fn bin(f: Bin, x: Expr, y: Expr) -> Expr {
    Expr::Bin(f, Box::new(x), Box::new(y))
}

/// A matrix of these symbols with one of the modes contiguous.
fn matrix(b: &mut Builder, name: &str, elem: Elem, of: [&str; 2], rows: bool, mutable: bool) -> Result<View> {
    let shape = Tuple::from((Value::symbol(of[0]), Value::symbol(of[1])));
    let ld = Tuple::from(Value::symbol(&format!("ld{name}")));
    let stride = if rows { Tuple::of([ld, 1.into()]) } else { Tuple::of([1.into(), ld]) };
    b.tensor(name, elem, shape, Some(stride), mutable)
}

/// Elements of a matrix as stored, and its addressing.
struct Matrix {
    data: Vec<f64>,
    ld: usize,
    rows: bool,
}

impl Matrix {
    /// With `gap` unused elements between rows or columns.
    fn new([m, n]: [usize; 2], rows: bool, gap: usize, seed: u64, elem: Elem) -> Matrix {
        let (run, lines) = if rows { (n, m) } else { (m, n) };
        let ld = run + gap;
        // The cosize of a tensor of these extents.
        let count = (lines - 1) * ld + run;
        let data = numbers(count, seed).into_iter().map(|x| rounded((x * 8.0).round(), elem)).collect();
        Matrix { data, ld, rows }
    }

    fn offset(&self, i: usize, j: usize) -> usize {
        if self.rows { i * self.ld + j } else { i + j * self.ld }
    }

    fn at(&self, i: usize, j: usize) -> f64 {
        self.data[self.offset(i, j)]
    }
}

/// Extents, tiles and threads that do and do not divide one another.
const CASES: [([usize; 2], [i64; 2], i64); 10] = [
    ([64, 64], [32, 64], 128),
    ([1, 1], [16, 16], 64),
    ([3, 100], [4, 128], 256),
    ([31, 33], [31, 7], 96),
    ([100, 3], [32, 8], 32),
    ([65, 130], [64, 64], 1024),
    ([40, 24], [5, 12], 48),
    ([17, 1], [8, 1], 128),
    ([1, 1000], [1, 300], 256),
    ([128, 128], [128, 128], 512),
];

#[track_caller]
fn check(
    program: Program,
    args: &Args,
    out: &Matrix,
    wanted: &dyn Fn(usize, usize) -> f64,
    [m, n]: [usize; 2],
    what: &str,
) {
    let got = result(program, args, "y");
    for i in 0..m {
        for j in 0..n {
            let (got, wanted) = (got[out.offset(i, j)], wanted(i, j));
            assert!(
                (got - wanted).abs() <= 1e-4 * wanted.abs().max(1.0),
                "{what}: ({i}, {j}) is {got}, not {wanted}"
            );
        }
    }
}

fn sizes([m, n]: [usize; 2], matrices: &[(&str, &Matrix)]) -> Args {
    let args = Args::default().size("M", m as i64).size("N", n as i64);
    matrices.iter().fold(args, |args, (name, matrix)| {
        args.size(&format!("ld{name}"), matrix.ld as i64).array(name, matrix.data.clone())
    })
}

/// `y = 2 x + 1`, through registers, shared memory or a loop.
fn moved(elems: [Elem; 2], rows: [bool; 2], tile: [i64; 2], threads: i64, through: &str) -> Result<Program> {
    let mut b = Builder::new("moved");
    b.threads(threads)?;
    let x = matrix(&mut b, "x", elems[0], ["M", "N"], rows[0], false)?;
    let y = matrix(&mut b, "y", elems[1], ["M", "N"], rows[1], true)?;
    let at = [block(0), block(1)];
    let (gx, gy) = (b.tile(&x, (tile[0], tile[1]), &at)?, b.tile(&y, (tile[0], tile[1]), &at)?);
    let value = |elem| Expr::Fma(Box::new([Expr::lit(2.0), Expr::In(0).cast(elem), Expr::lit(1.0)]));
    match through {
        "nothing" => b.map(&[gx], &gy, value(elems[1]))?,
        "registers" => {
            let t = b.distributed("t", elems[0], &tile)?;
            b.copy(&gx, &t)?;
            let u = b.distributed("u", elems[1], &tile)?;
            b.map(&[t], &u, value(elems[1]))?;
            b.copy(&u, &gy)?;
        }
        "shared" => {
            let s = b.shared_tile("s", elems[0], (tile[0], tile[1]))?;
            b.copy(&gx, &s)?;
            b.map(&[s], &gy, value(elems[1]))?;
        }
        _ => {
            // Twice, and back into the tile that is still being read.
            let s = b.shared_tile("s", elems[0], (tile[0], tile[1]))?;
            b.repeat("i", Value::Int(2), Unroll::No, |b, _| -> Result<()> {
                b.copy_how(&gx, &s, How::Plain, None)?;
                let t = b.distributed("t", elems[1], &tile)?;
                b.map(std::slice::from_ref(&s), &t, value(elems[1]))?;
                b.copy(&t, &gy)
            })?;
        }
    }
    Ok(b.finish())
}

#[test]
fn tiles_are_moved_between_all_memories() {
    for (n, (size, tile, threads)) in CASES.into_iter().enumerate() {
        for (k, through) in ["nothing", "registers", "shared", "loop"].into_iter().enumerate() {
            if through == "loop"
                && size[0] * size[1] > 0
                && !(size[0] as i64 <= tile[0] && size[1] as i64 <= tile[1])
            {
                continue;
            }
            for rows in [[true, true], [false, true], [true, false], [false, false]] {
                if (n + k + usize::from(rows[0]) + usize::from(rows[1])) % 2 == 0 {
                    continue;
                }
                let elems = [Elem::F32, Elem::Bf16, Elem::F64, Elem::F16];
                let elems = [elems[(n + k) % 4], elems[(n + 2 * k + usize::from(rows[0])) % 4]];
                let x = Matrix::new(size, rows[0], n % 3 * 4, 7, elems[0]);
                let y = Matrix::new(size, rows[1], k, 8, elems[1]);
                let what = format!("{size:?} in {tile:?} by {threads} through {through}, {rows:?} {elems:?}");
                let program =
                    moved(elems, rows, tile, threads, through).unwrap_or_else(|e| panic!("{what}: {e:?}"));
                if through == "loop" {
                    continue;
                }
                let args = sizes(size, &[("x", &x), ("y", &y)]);
                check(program, &args, &y, &|i, j| rounded(2.0 * x.at(i, j) + 1.0, elems[1]), size, &what);
            }
        }
    }
}

/// The barriers in a loop do not count after it, if it may run no iteration.
#[test]
fn tiles_are_read_behind_loops_without_iterations() -> Result<()> {
    let (tile, extents) = ([32, 32], [96, 32]);
    let mut b = Builder::new("behind");
    b.threads(64)?;
    let x = matrix(&mut b, "x", Elem::F32, ["M", "N"], true, false)?;
    let y = matrix(&mut b, "y", Elem::F32, ["M", "N"], false, true)?;
    let at = [block(0), block(1)];
    let (gx, gy) = (b.tile(&x, (tile[0], tile[1]), &at)?, b.tile(&y, (tile[0], tile[1]), &at)?);
    let [s, other] = ["s", "other"].map(|name| b.shared_tile(name, Elem::F32, (tile[0], tile[1])));
    let (s, other) = (s?, other?);
    let kept = b.distributed("kept", Elem::F32, &tile)?;
    b.copy(&gx, &s)?;
    // None in the first block.
    b.repeat("i", Coord::Block(0), Unroll::No, |b, _| -> Result<()> {
        b.copy(&gx, &other)?;
        b.copy(&other, &kept)
    })?;
    b.copy(&s, &gy)?;
    let mx = Matrix::new(extents, true, 0, 3, Elem::F32);
    let my = Matrix::new(extents, false, 0, 5, Elem::F32);
    let args = sizes(extents, &[("x", &mx), ("y", &my)]);
    check(b.finish(), &args, &my, &|i, j| mx.at(i, j), extents, "behind a loop");
    Ok(())
}

/// Row or column sums, or the overall maximum, broadcast over y.
fn reduced(rows: bool, tile: [i64; 2], threads: i64, with: Bin, modes: [bool; 2]) -> Result<Program> {
    let mut b = Builder::new("reduced");
    b.threads(threads)?;
    let x = matrix(&mut b, "x", Elem::F32, ["M", "N"], rows, false)?;
    let y = matrix(&mut b, "y", Elem::F32, ["M", "N"], true, true)?;
    let at = [block(0), block(1)];
    let (gx, gy) = (b.tile(&x, (tile[0], tile[1]), &at)?, b.tile(&y, (tile[0], tile[1]), &at)?);
    let t = b.distributed("t", Elem::F32, &tile)?;
    b.copy(&gx, &t)?;
    let kept = [if modes[0] { 1 } else { tile[0] }, if modes[1] { 1 } else { tile[1] }];
    let all = b.distributed("all", Elem::F32, &kept)?;
    let identity = if with == Bin::Add { 0.0 } else { f64::NEG_INFINITY };
    b.fill(&all, Expr::lit(identity))?;
    b.reduce(&t, &all, with, Across::Thread)?;
    b.map(&[t, all], &gy, bin(Bin::Sub, Expr::In(1), Expr::In(0)))?;
    Ok(b.finish())
}

#[test]
fn tiles_are_reduced_along_every_mode() {
    for (size, tile, threads) in CASES {
        for rows in [true, false] {
            for with in [if rows { Bin::Add } else { Bin::Max }] {
                for modes in [[true, false], [false, true], [true, true]] {
                    let x = Matrix::new(size, rows, 4, 7, Elem::F32);
                    let y = Matrix::new(size, true, 0, 8, Elem::F32);
                    let what =
                        format!("{with:?} of {size:?} over {modes:?} in {tile:?} by {threads}, rows {rows}");
                    let range = |mode: usize, at: usize| {
                        let first = at / tile[mode] as usize * tile[mode] as usize;
                        if modes[mode] {
                            first..(first + tile[mode] as usize).min(size[mode])
                        } else {
                            at..at + 1
                        }
                    };
                    let wanted = |i: usize, j: usize| {
                        let all = range(0, i).flat_map(|i| range(1, j).map(move |j| (i, j)));
                        let all = all.map(|(i, j)| x.at(i, j));
                        let one =
                            if with == Bin::Add { all.sum() } else { all.fold(f64::NEG_INFINITY, f64::max) };
                        one - x.at(i, j)
                    };
                    let program =
                        reduced(rows, tile, threads, with, modes).unwrap_or_else(|e| panic!("{what}: {e:?}"));
                    check(program, &sizes(size, &[("x", &x), ("y", &y)]), &y, &wanted, size, &what);
                }
            }
        }
    }
}

/// Softmax of rows, in one tile each.
fn softmax(tile: [i64; 2], threads: i64) -> Result<Program> {
    let mut b = Builder::new("softmax");
    b.threads(threads)?;
    let x = matrix(&mut b, "x", Elem::F32, ["M", "N"], true, false)?;
    let y = matrix(&mut b, "y", Elem::F32, ["M", "N"], true, true)?;
    let at = [block(0), At::Index(0.into())];
    let (gx, gy) = (b.tile(&x, (tile[0], tile[1]), &at)?, b.tile(&y, (tile[0], tile[1]), &at)?);
    let t = b.distributed("t", Elem::F32, &tile)?;
    b.copy(&gx, &t)?;
    let most = b.distributed("most", Elem::F32, &[tile[0], 1])?;
    b.fill(&most, Expr::lit(f64::NEG_INFINITY))?;
    b.reduce(&t, &most, Bin::Max, Across::Thread)?;
    let grown = b.distributed("grown", Elem::F32, &tile)?;
    b.map(&[t, most], &grown, Expr::Un(Un::Exp, Box::new(bin(Bin::Sub, Expr::In(0), Expr::In(1)))))?;
    let total = b.distributed("total", Elem::F32, &[tile[0], 1])?;
    b.fill(&total, Expr::lit(0.0))?;
    b.reduce(&grown, &total, Bin::Add, Across::Thread)?;
    b.map(&[grown, total], &gy, bin(Bin::Div, Expr::In(0), Expr::In(1)))?;
    Ok(b.finish())
}

#[test]
fn softmax_needs_no_thread_layout() {
    for (tile, threads) in
        [([4, 1024], 256), ([1, 1000], 256), ([3, 100], 96), ([16, 64], 128), ([64, 16], 64), ([2, 31], 32)]
    {
        for size in [[1, 1], [5, 3], [4, tile[1] as usize], [33, tile[1] as usize - 1]] {
            let (x, y) = (Matrix::new(size, true, 0, 7, Elem::F32), Matrix::new(size, true, 1, 8, Elem::F32));
            let wanted = |i: usize, j: usize| {
                let most = (0..size[1]).map(|j| x.at(i, j)).fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = (0..size[1]).map(|j| (x.at(i, j) - most).exp()).sum();
                (x.at(i, j) - most).exp() / total
            };
            let what = format!("{size:?} in {tile:?} by {threads}");
            check(
                softmax(tile, threads).unwrap(),
                &sizes(size, &[("x", &x), ("y", &y)]),
                &y,
                &wanted,
                size,
                &what,
            );
        }
    }
}

/// y = x·wᵀ + a row, on CUDA cores.
fn product(tile: [i64; 3], threads: i64, pipelined: bool) -> Result<Program> {
    let mut b = Builder::new("product");
    b.threads(threads)?;
    let a = matrix(&mut b, "a", Elem::F32, ["M", "K"], true, false)?;
    let w = matrix(&mut b, "w", Elem::F32, ["N", "K"], false, false)?;
    let bias = b.tensor("bias", Elem::F32, (Value::symbol("N"),), None, false)?;
    let y = matrix(&mut b, "y", Elem::F32, ["M", "N"], true, true)?;
    let ga = b.tile(&a, (tile[0], tile[2]), &[block(0), At::All])?;
    let gw = b.tile(&w, (tile[1], tile[2]), &[block(1), At::All])?;
    let gy = b.tile(&y, (tile[0], tile[1]), &[block(0), block(1)])?;
    let row = b.tile(&bias, (tile[1],), &[block(1)])?.along(1)?;
    let sa = b.shared_tile("sa", Elem::F32, (tile[0], tile[2]))?;
    let sw = b.shared_tile("sw", Elem::F32, (tile[1], tile[2]))?;
    let acc = b.distributed("acc", Elem::F32, &tile[..2])?;
    b.fill(&acc, Expr::lit(0.0))?;
    let steps = Value::symbol("K").ceil_div(tile[2]).unwrap();
    let body = |b: &mut Builder, k: tilewright_codegen::affine::Affine| -> Result<()> {
        let at = [At::All, At::All, At::Index(k)];
        let (from_a, from_w) = (b.slice(&ga, &at)?, b.slice(&gw, &at)?);
        b.copy(&from_a, &sa)?;
        b.copy(&from_w, &sw)?;
        b.gemm(&sa, &sw, &acc, Order::Plain)
    };
    match pipelined {
        true => b.pipelined("k", steps, 3, body)?,
        false => b.repeat("k", steps, Unroll::No, body)?,
    }
    let out = b.distributed("out", Elem::F32, &tile[..2])?;
    b.map(&[acc, row], &out, bin(Bin::Add, Expr::In(0), Expr::In(1)))?;
    b.copy(&out, &gy)?;
    Ok(b.finish())
}

#[test]
fn products_of_whole_tiles_are_right() {
    for (tile, threads) in [([64, 64, 8], 64), ([32, 64, 16], 128), ([16, 16, 8], 256)] {
        for pipelined in [false, true] {
            for [m, n, k] in [[64, 64, 32], [65, 33, 17], [1, 100, 5]] {
                let size = [m, n];
                let a = Matrix::new([m, k], true, 0, 1, Elem::F32);
                let w = Matrix::new([n, k], false, 0, 2, Elem::F32);
                let y = Matrix::new(size, true, 0, 3, Elem::F32);
                let bias = numbers(n, 4);
                let wanted =
                    |i: usize, j: usize| (0..k).map(|l| a.at(i, l) * w.at(j, l)).sum::<f64>() + bias[j];
                let args = sizes(size, &[("a", &a), ("w", &w), ("y", &y)])
                    .size("K", k as i64)
                    .array("bias", bias.clone());
                let what = format!("{m}x{n}x{k} in {tile:?} by {threads}, pipelined {pipelined}");
                let program = product(tile, threads, pipelined).unwrap_or_else(|e| panic!("{what}: {e:?}"));
                check(program, &args, &y, &wanted, size, &what);
            }
        }
    }
}

#[test]
fn accesses_are_wide_and_free_of_conflicts() {
    // Rows on both sides, and transposed: with vectors of 16 bytes, two rows share banks.
    for (rows, most) in [([true, true], 1), ([false, false], 1), ([true, false], 2)] {
        let program = moved([Elem::F32, Elem::F32], rows, [64, 64], 256, "shared").unwrap();
        let made = generate(program).kernel.expect("a kernel");
        for access in made.report.accesses.iter().filter(|access| access.space == "shared") {
            let (taken, needed) = access.wavefronts.unwrap();
            assert!(taken <= most * needed, "{rows:?}: {access:?}");
        }
        assert!(made.source().contains("cp_async_16("), "{}", made.source());
    }
}

/// `y = max(a·wᵀ + bias, 0)` by instructions, rounded to bf16.
fn linear(tile: [i64; 3], warps: i64, stages: u32, rows: [bool; 3]) -> Result<Program> {
    let mut b = Builder::new("linear");
    let a = matrix(&mut b, "a", Elem::Bf16, ["M", "K"], rows[0], false)?;
    let w = matrix(&mut b, "w", Elem::Bf16, ["N", "K"], rows[1], false)?;
    let bias = b.tensor("bias", Elem::F32, (Value::symbol("N"),), None, false)?;
    let y = matrix(&mut b, "y", Elem::Bf16, ["M", "N"], rows[2], true)?;
    let ga = b.tile(&a, (tile[0], tile[2]), &[block(0), At::All])?;
    let gw = b.tile(&w, (tile[1], tile[2]), &[block(1), At::All])?;
    let gy = b.tile(&y, (tile[0], tile[1]), &[block(0), block(1)])?;
    let row = b.tile(&bias, (tile[1],), &[block(1)])?.along(1)?;
    let sa = b.shared_tile("sa", Elem::Bf16, (tile[0], tile[2]))?;
    let sw = b.shared_tile("sw", Elem::Bf16, (tile[1], tile[2]))?;
    let mma = TiledMma::best(Elem::Bf16, Elem::F32, 80, [tile[0], tile[1]], warps)?;
    let acc = b.sums("acc", &mma, [tile[0], tile[1]])?;
    let steps = Value::symbol("K").ceil_div(tile[2]).unwrap();
    b.pipelined("k", steps, stages, |b, k| -> Result<()> {
        let at = [At::All, At::All, At::Index(k)];
        let (from_a, from_w) = (b.slice(&ga, &at)?, b.slice(&gw, &at)?);
        b.copy(&from_a, &sa)?;
        b.copy(&from_w, &sw)?;
        b.gemm(&sa, &sw, &acc, Order::Plain)
    })?;
    let out = b.distributed("out", Elem::F32, &tile[..2])?;
    let value = bin(Bin::Max, bin(Bin::Add, Expr::In(0), Expr::In(1)), Expr::lit(0.0).cast(Elem::F32));
    b.map(&[acc, row], &out, value)?;
    b.copy(&out, &gy)?;
    Ok(b.finish())
}

#[test]
fn products_by_instructions_are_right() {
    for (tile, warps, stages, rows) in [
        ([64, 64, 32], 4, 3, [true, true, true]),
        ([32, 64, 16], 2, 2, [false, true, false]),
        ([64, 32, 64], 8, 1, [true, false, true]),
    ] {
        for [m, n, k] in [[64, 64, 64], [65, 33, 17], [1, 100, 5]] {
            let size = [m, n];
            let a = Matrix::new([m, k], rows[0], 8, 1, Elem::Bf16);
            let w = Matrix::new([n, k], rows[1], 0, 2, Elem::Bf16);
            let y = Matrix::new(size, rows[2], 0, 3, Elem::Bf16);
            let bias: Vec<f64> = numbers(n, 4).iter().map(|x| x.round()).collect();
            let wanted = |i: usize, j: usize| {
                let sum = (0..k).map(|l| a.at(i, l) * w.at(j, l)).sum::<f64>() + bias[j];
                rounded(sum.max(0.0), Elem::Bf16)
            };
            let args = sizes(size, &[("a", &a), ("w", &w), ("y", &y)])
                .size("K", k as i64)
                .array("bias", bias.clone());
            let what = format!("{m}x{n}x{k} in {tile:?} by {warps} warps, {stages} stages, {rows:?}");
            let program = linear(tile, warps, stages, rows).unwrap_or_else(|e| panic!("{what}: {e:?}"));
            check(program, &args, &y, &wanted, size, &what);
        }
    }
}

#[test]
fn operands_of_instructions_have_no_bank_conflicts() {
    let made = generate(linear([128, 128, 64], 4, 3, [true, true, true]).unwrap()).kernel.expect("a kernel");
    for access in made.report.accesses.iter().filter(|access| access.space == "shared") {
        let (taken, needed) = access.wavefronts.unwrap();
        assert_eq!(taken, needed, "{access:?}");
    }
    assert!(made.source().contains("ldmatrix_x4("), "{}", made.source());
}

#[test]
fn whole_tiles_have_a_text() {
    let programs = [
        linear([64, 64, 32], 4, 3, [true; 3]).unwrap(),
        softmax([4, 1024], 256).unwrap(),
        moved([Elem::F32, Elem::F32], [true, false], [64, 64], 256, "shared").unwrap(),
    ];
    for program in programs {
        let text = tilewright_codegen::text::print(&program);
        let read: Program =
            tilewright_codegen::text::parse(&text).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"));
        assert_eq!(tilewright_codegen::text::print(&read), text);
        let source = |program| generate(program).kernel.map(|kernel| kernel.source().to_owned());
        assert!(source(program).is_some_and(|made| source(read) == Some(made)), "{text}");
    }
}
