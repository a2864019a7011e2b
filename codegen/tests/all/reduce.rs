//! Reductions: across lanes, warps and blocks of any size, in every element type, at the edges of tensors.

use crate::common::{Args, assert_close, close, numbers, result, rounded, run};
use tilewright_codegen::affine::{Affine, Coord};
use tilewright_codegen::build::Builder;
use tilewright_codegen::problem::Result;
use tilewright_codegen::thread::{Bin, Un, Unroll};
use tilewright_codegen::tile::{Across, Expr, Program, Submodes};
use tilewright_codegen::view::{At, Partition, View};
use tilewright_codegen::{Elem, generate};
use tilewright_layout::{Layout, Tuple, Value};

fn block(axis: u8) -> At {
    At::Index(Coord::Block(axis).into())
}

fn lit(x: f64) -> Expr {
    Expr::lit(x)
}

fn identity(with: Bin, elem: Elem) -> f64 {
    match (with, elem) {
        (Bin::Max, Elem::I32) => f64::from(i32::MIN),
        (Bin::Max, _) => f64::NEG_INFINITY,
        (Bin::Min, Elem::I32) => f64::from(i32::MAX),
        (Bin::Min, _) => f64::INFINITY,
        _ => 0.0,
    }
}

/// A fragment loaded from a view.
fn load(b: &mut Builder, name: &str, view: &View) -> Result<View> {
    let elem = b.elem(view);
    let fragment = b.registers(name, elem, view.shape())?;
    b.copy(view, &fragment)?;
    Ok(fragment)
}

/// A full reduction of a fragment to one element.
fn all(b: &mut Builder, name: &str, from: &View, with: Bin, across: Across) -> Result<View> {
    let elem = b.elem(from);
    let to = b.registers(name, elem, Tuple::flat(&vec![1; from.rank()]))?;
    b.fill(&to, lit(identity(with, elem)))?;
    b.reduce(from, &to, with, across)?;
    Ok(to)
}

/// `y[i] = the total of x's tile`, for every element of a tile of `threads * each`.
fn totals(elem: Elem, threads: i64, each: i64, with: Bin, across: Across) -> Result<Program> {
    let mut b = Builder::new("totals");
    let n = Tuple::from((Value::symbol("N"),));
    let x = b.tensor("x", elem, n.clone(), None, false)?;
    let y = b.tensor("y", elem, n, None, true)?;
    let tile = (threads * each,);
    let (x, y) = (b.tile(&x, tile, &[block(0)])?, b.tile(&y, tile, &[block(0)])?);
    let threads = Layout::compact((threads,))?;
    let (x, y) = (b.parallelize(&x, &threads)?, b.parallelize(&y, &threads)?);
    let x = load(&mut b, "x_own", &x)?;
    let total = all(&mut b, "total", &x, with, across)?;
    let out = b.registers("out", elem, y.shape())?;
    b.map(&[total], &out, Expr::In(0))?;
    b.copy(&out, &y)?;
    Ok(b.finish())
}

#[test]
fn blocks_of_any_size_agree_on_one_total() {
    for threads in [1, 3, 31, 32, 33, 48, 64, 96, 100, 128, 255, 256, 1000, 1024] {
        for with in [Bin::Add, Bin::Max, Bin::Min] {
            let each = 2;
            let tile = (threads * each) as usize;
            // The last tile is partial.
            let count = 2 * tile + tile / 2 + 1;
            let x = numbers(count, threads as u64);
            let args = Args::default()
                .size("N", count as i64)
                .array("x", x.clone())
                .array("y", vec![f64::NAN; count]);
            let y = result(totals(Elem::F32, threads, each, with, Across::Block).unwrap(), &args, "y");
            let combine = |part: &[f64]| {
                part.iter().fold(identity(with, Elem::F32), |sum, &x| match with {
                    Bin::Max => sum.max(x),
                    Bin::Min => sum.min(x),
                    _ => sum + x,
                })
            };
            let wanted: Vec<f64> = x.chunks(tile).flat_map(|part| vec![combine(part); part.len()]).collect();
            assert_close(&y, &wanted, 1e-4);
        }
    }
}

#[test]
fn every_element_type_adds_up() {
    for elem in [Elem::F64, Elem::F32, Elem::F16, Elem::Bf16, Elem::I32] {
        for threads in [40, 64] {
            let x: Vec<f64> = (0..threads + 7).map(|n| (n % 3) as f64).collect();
            let count = x.len();
            let args =
                Args::default().size("N", count as i64).array("x", x.clone()).array("y", vec![0.0; count]);
            for with in [Bin::Add, Bin::Max] {
                let y = result(totals(elem, threads, 1, with, Across::Block).unwrap(), &args, "y");
                let first: f64 = match with {
                    Bin::Add => x[..threads as usize].iter().sum(),
                    _ => 2.0,
                };
                assert!(
                    close(y[0], rounded(first, elem), 1e-9),
                    "{elem} {threads} {with:?}: {} {first}",
                    y[0]
                );
            }
        }
    }
}

#[test]
fn lanes_of_a_warp_combine_in_groups() {
    for lanes in [2u32, 4, 8, 16, 32] {
        let x = numbers(128, 5);
        let args = Args::default().size("N", 100).array("x", x[..100].to_vec()).array("y", vec![0.0; 100]);
        let y = result(totals(Elem::F32, 128, 1, Bin::Add, Across::Warp(lanes)).unwrap(), &args, "y");
        let wanted: Vec<f64> =
            x[..100].chunks(lanes as usize).flat_map(|part| vec![part.iter().sum(); part.len()]).collect();
        assert_close(&y, &wanted, 1e-6);
    }
    for submodes in [
        &[(8i64, 4i64)][..],
        &[(2, 16)],
        &[(2, 1), (2, 8), (4, 32)],
        &[(3, 32)],
        &[(4, 8), (3, 32)],
        &[(96, 1)],
        &[(3, 1)],
        &[(2, 3), (4, 12)],
    ] {
        let x = numbers(192, 5);
        let args = Args::default().size("N", 150).array("x", x[..150].to_vec()).array("y", vec![0.0; 150]);
        let across = Across::Submodes(Submodes::new(submodes).unwrap());
        let (extent, step) = submodes[submodes.len() - 1];
        let threads = if 96 % (extent * step) == 0 { 96 } else { 128 };
        if threads % (extent * step) != 0 {
            continue;
        }
        let y = result(totals(Elem::F32, threads, 1, Bin::Add, across).unwrap(), &args, "y");
        let wanted: Vec<f64> = (0..150)
            .map(|at| {
                let (tile, thread) = (at / threads as usize, at as u32 % threads as u32);
                let others = (0..threads as u32).filter(|&t| across.first(t) == across.first(thread));
                others.filter_map(|t| x[..150].get(tile * threads as usize + t as usize)).sum()
            })
            .collect();
        assert_close(&y, &wanted, 1e-6);
    }
    for (threads, lanes) in [(48, 32), (6, 4), (64, 3), (64, 64)] {
        let program = totals(Elem::F32, threads, 1, Bin::Add, Across::Warp(lanes)).unwrap();
        let message: String = generate(program).diagnostics.iter().map(|d| d.text()).collect();
        assert!(message.contains("lanes cannot combine their elements"), "{threads} {lanes}: {message}");
    }
}

/// Softmax of the columns of a matrix, one block for each.
fn softmax(threads: i64, each: i64) -> Result<Program> {
    let mut b = Builder::new("softmax");
    let shape = Tuple::from((Value::symbol("N"), Value::symbol("R")));
    let x = b.tensor("x", Elem::F32, shape.clone(), None, false)?;
    let y = b.tensor("y", Elem::F32, shape, None, true)?;
    let tile = (threads * each, 1i64);
    let at = [At::Index(0.into()), block(0)];
    let (x, y) = (b.tile(&x, tile, &at)?, b.tile(&y, tile, &at)?);
    let threads = Layout::compact((threads, 1i64))?;
    let partition = Partition { values: vec![4, 1], ..Partition::default() };
    let x = b.parallelize_over(&x, &threads, 0, &partition)?.with_name("x_part");
    let y = b.parallelize_over(&y, &threads, 0, &partition)?.with_name("y_part");
    let own = load(&mut b, "own", &x)?;
    let most = all(&mut b, "most", &own, Bin::Max, Across::Block)?;
    // exp(x - m): out-of-bounds zeros of the load become nonzero and must be excluded from the sum.
    let less = Expr::Bin(Bin::Sub, Box::new(Expr::In(0)), Box::new(Expr::In(1)));
    b.map(&[own.clone(), most], &own, Expr::Un(Un::Exp, Box::new(less)))?;
    let sum = all(&mut b, "total", &own, Bin::Add, Across::Block)?;
    let share = Expr::Bin(Bin::Div, Box::new(Expr::In(0)), Box::new(Expr::In(1)));
    b.map(&[own.clone(), sum], &own, share)?;
    b.copy(&own, &y)?;
    Ok(b.finish())
}

#[test]
fn softmax_of_ragged_columns() {
    for (threads, n, columns) in [(32, 128, 2), (64, 100, 3), (96, 383, 2), (32, 1, 1), (40, 157, 1)] {
        // All negative, so that an out-of-bounds zero would be the maximum.
        let x: Vec<f64> = numbers((n * columns) as usize, 3).into_iter().map(|x| x - 5.0).collect();
        let args = Args::default()
            .size("N", n)
            .size("R", columns)
            .size("ldx", n)
            .size("ldy", n)
            .array("x", x.clone())
            .array("y", vec![f64::NAN; x.len()]);
        let y = result(softmax(threads, 4).unwrap(), &args, "y");
        let wanted: Vec<f64> = x
            .chunks(n as usize)
            .flat_map(|column| {
                let most = column.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = column.iter().map(|x| (x - most).exp()).sum();
                column.iter().map(move |x| (x - most).exp() / sum).collect::<Vec<_>>()
            })
            .collect();
        assert_close(&y, &wanted, 1e-4);
    }
}

/// Online softmax: chunks of a long column, with a running maximum and sum that are rescaled from chunk to
/// chunk.
#[test]
fn online_softmax_sums_chunk_by_chunk() {
    let (threads, chunk) = (32i64, 64i64);
    let mut b = Builder::new("online");
    let x = b.tensor("x", Elem::F32, (Value::symbol("N"),), None, false).unwrap();
    let out = b.tensor("y", Elem::F32, (2 * threads,), None, true).unwrap();
    let tiles = b.tile(&x, (chunk,), &[At::All]).unwrap();
    let layout = Layout::compact((threads,)).unwrap();
    let part = b.parallelize(&tiles, &layout).unwrap().with_name("part");
    let most = b.registers("most", Elem::F32, (1i64,)).unwrap();
    let sum = b.registers("sum", Elem::F32, (1i64,)).unwrap();
    b.fill(&most, lit(-1e30)).unwrap();
    b.fill(&sum, lit(0.0)).unwrap();
    let boxed = |n| Box::new(Expr::In(n));
    let extent = Value::symbol("N").ceil_div(chunk).unwrap();
    b.repeat("k", extent, Unroll::No, |b, k| -> Result<()> {
        let part = b.slice(&part, &[At::All, At::Index(k)])?;
        let own = load(b, "own", &part)?;
        let here = all(b, "here", &own, Bin::Max, Across::Block)?;
        let before = b.registers("before", Elem::F32, (1i64,))?;
        b.copy(&most, &before)?;
        b.map(&[most.clone(), here], &most, Expr::Bin(Bin::Max, boxed(0), boxed(1)))?;
        let less = Expr::Bin(Bin::Sub, boxed(0), boxed(1));
        b.map(&[own.clone(), most.clone()], &own, Expr::Un(Un::Exp, Box::new(less)))?;
        let mine = all(b, "mine", &own, Bin::Add, Across::Block)?;
        let scale = Expr::Un(Un::Exp, Box::new(Expr::Bin(Bin::Sub, boxed(1), boxed(2))));
        let next = Expr::Fma(Box::new([Expr::In(0), scale, Expr::In(3)]));
        b.map(&[sum.clone(), before, most.clone(), mine], &sum, next)
    })
    .unwrap();
    // All threads have the same value: each writes both.
    let out = b.parallelize(&out, &layout).unwrap();
    let both = b.registers("both", Elem::F32, (2i64,)).unwrap();
    let (first, second) = (At::Index(0.into()), At::Index(1.into()));
    let (low, high) = (b.slice(&both, &[first]).unwrap(), b.slice(&both, &[second]).unwrap());
    b.map(&[most], &low, Expr::In(0)).unwrap();
    b.map(&[sum], &high, Expr::In(0)).unwrap();
    b.map(&[both], &out, Expr::In(0)).unwrap();
    let program = b.finish();
    for n in [64, 1, 63, 65, 250] {
        let x: Vec<f64> = numbers(n, 9).into_iter().map(|x| 4.0 * x - 7.0).collect();
        let args = Args::default()
            .size("N", n as i64)
            .array("x", x.clone())
            .array("y", vec![0.0; 2 * threads as usize]);
        for arrays in run(program.clone(), &args) {
            let most = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = x.iter().map(|x| (x - most).exp()).sum();
            let (mosts, sums) = arrays["y"].split_at(threads as usize);
            assert_close(mosts, &vec![most; mosts.len()], 1e-4);
            assert_close(sums, &vec![sum; sums.len()], 1e-4);
        }
    }
}

/// Sums of rows and of columns of one tile, each along its own mode, at both edges.
#[test]
fn one_mode_at_a_time() {
    let (rows, columns) = (8i64, 4i64);
    let mut b = Builder::new("rows");
    let shape = Tuple::from((Value::symbol("M"), Value::symbol("N")));
    let x = b.tensor("x", Elem::F32, shape, None, false).unwrap();
    let y = b.tensor("y", Elem::F32, (Value::symbol("M"),), None, true).unwrap();
    let x = b.tile(&x, (rows, columns), &[block(0), At::Index(0.into())]).unwrap();
    let y = b.tile(&y, (rows,), &[block(0)]).unwrap();
    let threads = Layout::compact((4i64, 1i64)).unwrap();
    let part = b.parallelize(&x, &threads).unwrap();
    let out = b.parallelize(&y, &Layout::compact((4i64,)).unwrap()).unwrap();
    let own = load(&mut b, "own", &part).unwrap();
    b.map(std::slice::from_ref(&own), &own, Expr::Bin(Bin::Add, Box::new(Expr::In(0)), Box::new(lit(1.0))))
        .unwrap();
    let sums = b.registers("sums", Elem::F32, (2i64, 1i64)).unwrap();
    b.fill(&sums, lit(0.0)).unwrap();
    b.reduce(&own, &sums, Bin::Add, Across::Thread).unwrap();
    let flat = b.slice(&sums, &[At::All, At::Index(0.into())]).unwrap();
    b.copy(&flat, &out).unwrap();
    let program = b.finish();
    for (m, n) in [(8, 4), (13, 3), (5, 1)] {
        let x = numbers((m * n) as usize, 4);
        let args = Args::default()
            .size("M", m)
            .size("N", n)
            .size("ldx", m)
            .array("x", x.clone())
            .array("y", vec![f64::NAN; m as usize]);
        let wanted: Vec<f64> = (0..m).map(|i| (0..n).map(|j| x[(i + j * m) as usize] + 1.0).sum()).collect();
        assert_close(&result(program.clone(), &args, "y"), &wanted, 1e-6);
    }
}

/// A custom fill replaces out-of-bounds elements, also through shared memory.
#[test]
fn fills_replace_out_of_bounds_elements() {
    let build = |fill: Option<f64>| -> Result<Program> {
        let mut b = Builder::new("fills");
        let x = b.tensor("x", Elem::F32, (Value::symbol("N"),), None, false)?;
        let y = b.tensor("y", Elem::F32, (Value::symbol("N"),), None, true)?;
        let (x, y) = (b.tile(&x, (64,), &[block(0)])?, b.tile(&y, (64,), &[block(0)])?);
        let s = b.shared("s", Elem::F32, Layout::compact((64,))?)?;
        let threads = Layout::compact((32,))?;
        let (x, y, s) =
            (b.parallelize(&x, &threads)?, b.parallelize(&y, &threads)?, b.parallelize(&s, &threads)?);
        match fill {
            Some(fill) => b.copy_filled(&x, &s, fill)?,
            None => b.copy(&x, &s)?,
        }
        b.wait(None, 0);
        b.sync();
        let own = load(&mut b, "own", &s)?;
        let most = all(&mut b, "most", &own, Bin::Max, Across::Block)?;
        b.map(&[most], &y, Expr::In(0))?;
        Ok(b.finish())
    };
    let x: Vec<f64> = numbers(70, 8).into_iter().map(|x| x - 3.0).collect();
    let args = Args::default().size("N", 70).array("x", x.clone()).array("y", vec![0.0; 70]);
    let y = result(build(Some(f64::NEG_INFINITY)).unwrap(), &args, "y");
    let most = |part: &[f64]| part.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    assert_close(&[y[0], y[69]], &[most(&x[..64]), most(&x[64..])], 0.0);
    // Zeros would be the maximum if the bounds were lost in shared memory.
    let y = result(build(None).unwrap(), &args, "y");
    assert_close(&[y[0], y[69]], &[most(&x[..64]), most(&x[64..])], 0.0);
}

/// Neighbours: coordinates below zero and past the end are guarded on both sides, in every variant.
#[test]
fn halos_have_two_sides() {
    let mut b = Builder::new("halo");
    let n = Tuple::from((Value::symbol("N"),));
    let x = b.tensor("x", Elem::F32, n.clone(), None, false).unwrap();
    let y = b.tensor("y", Elem::F32, n, None, true).unwrap();
    let (threads, each) = (Layout::compact((32,)).unwrap(), 64i64);
    let out = b.tile(&y, (each,), &[block(0)]).unwrap();
    let out = b.parallelize(&out, &threads).unwrap();
    let shifted = |b: &mut Builder, by: i64| -> View {
        let mut view = b.tile(&x, (each,), &[block(0)]).unwrap();
        view.base[0] = view.base[0].plus(&Affine::from(by), 1).unwrap();
        b.parallelize(&view, &threads).unwrap()
    };
    let views: Vec<View> = [-1, 0, 1, -1].into_iter().map(|by| shifted(&mut b, by)).collect();
    let add = |x, y| Expr::Bin(Bin::Add, Box::new(x), Box::new(y));
    let sum = add(add(add(Expr::In(0), Expr::In(1)), Expr::In(2)), Expr::In(3));
    b.map(&views, &out, sum).unwrap();
    let program = b.finish();
    for n in [1usize, 63, 64, 65, 200] {
        let x = numbers(n, 6);
        let args = Args::default().size("N", n as i64).array("x", x.clone()).array("y", vec![f64::NAN; n]);
        let at = |i: i64| x.get(i as usize).copied().filter(|_| i >= 0).unwrap_or(0.0);
        let wanted: Vec<f64> = (0..n as i64).map(|i| at(i - 1) + at(i) + at(i + 1) + at(i - 1)).collect();
        assert_close(&result(program.clone(), &args, "y"), &wanted, 1e-6);
    }
}
