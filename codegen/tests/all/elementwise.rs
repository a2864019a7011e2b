//! Elementwise functions and copies: every layout of both sides gives the same elements, with the widest
//! vectors that layouts allow.

use crate::common::{Args, assert_close, numbers, result, rounded};
use tilewright_codegen::affine::Coord;
use tilewright_codegen::build::Builder;
use tilewright_codegen::problem::Result;
use tilewright_codegen::thread::{Bin, Cmp};
use tilewright_codegen::tile::{Expr, Program};
use tilewright_codegen::view::{At, Partition, View};
use tilewright_codegen::{Elem, generate};
use tilewright_layout::{Layout, Tuple, Value, layout};

fn block(axis: u8) -> At {
    At::Index(Coord::Block(axis).into())
}

fn add(x: Expr, y: Expr) -> Expr {
    Expr::Bin(Bin::Add, Box::new(x), Box::new(y))
}

/// `(M, N)` with one of the modes contiguous.
fn matrix(b: &mut Builder, name: &str, elem: Elem, rows: bool, mutable: bool) -> Result<View> {
    let shape = Tuple::from((Value::symbol("M"), Value::symbol("N")));
    let ld = Tuple::from(Value::symbol(&format!("ld{name}")));
    let stride = if rows { Tuple::of([ld, 1.into()]) } else { Tuple::of([1.into(), ld]) };
    b.tensor(name, elem, shape, Some(stride), mutable)
}

struct Case {
    /// Are rows of x, y and z contiguous?
    rows: [bool; 3],
    elems: [Elem; 3],
    threads: Layout,
    values: Vec<i64>,
    /// Through a register fragment?
    registers: bool,
}

/// `z = x + y + z's row number`, 32 by 16 at a time.
fn sum(case: &Case) -> Result<Program> {
    let mut b = Builder::new("sum");
    let mut parts = Vec::new();
    for (name, (&elem, &rows)) in ["x", "y", "z"].into_iter().zip(case.elems.iter().zip(&case.rows)) {
        let whole = matrix(&mut b, name, elem, rows, name == "z")?;
        let tile = b.tile(&whole, (32, 16), &[block(0), block(1)])?;
        let partition = Partition { values: case.values.clone(), ..Partition::default() };
        parts.push(b.parallelize_over(&tile, &case.threads, 0, &partition)?);
    }
    let z = parts.remove(2);
    let own = |x: Expr| x.cast(case.elems[2]);
    let value = add(add(own(Expr::In(0)), own(Expr::In(1))), own(Expr::Coord(0, 0)));
    if case.registers {
        let own = b.registers("own", case.elems[2], z.shape())?;
        b.map(&parts, &own, value)?;
        b.copy(&own, &z)?;
    } else {
        b.map(&parts, &z, value)?;
    }
    Ok(b.finish())
}

fn check(case: &Case, width: &str) {
    for (m, n) in [(32, 16), (64, 48), (33, 17), (4, 40)] {
        let size = (m * n) as usize;
        let (x, y) = (numbers(size, 1), numbers(size, 2));
        let mut args = Args::default().size("M", m).size("N", n);
        for (name, rows) in ["ldx", "ldy", "ldz"].into_iter().zip(case.rows) {
            args = args.size(name, if rows { n } else { m });
        }
        let args = args.array("x", x.clone()).array("y", y.clone()).array("z", vec![f64::NAN; size]);
        let z = result(sum(case).unwrap(), &args, "z");
        let index =
            |which: usize, i: i64, j: i64| (if case.rows[which] { i * n + j } else { i + j * m }) as usize;
        for i in 0..m {
            for j in 0..n {
                let wanted = rounded(x[index(0, i, j)] + y[index(1, i, j)] + i as f64, case.elems[2]);
                let got = z[index(2, i, j)];
                // Narrow types are also rounded in between.
                assert!(
                    (got - wanted).abs() <= 0.02 * (1.0 + wanted.abs()),
                    "({i}, {j}): {got}, not {wanted}"
                );
            }
        }
    }
    let kernel = generate(sum(case).unwrap()).kernel.unwrap();
    assert!(kernel.source().contains(width), "{width} is not in\n{}", kernel.source());
}

#[test]
fn functions_are_as_wide_as_layouts_allow() {
    let f32s = [Elem::F32; 3];
    let columns = || layout!((8, 16));
    let case = |rows, elems, values: &[i64], registers, threads: Layout| Case {
        rows,
        elems,
        threads,
        values: values.to_vec(),
        registers,
    };
    for registers in [false, true] {
        // Vectors of four rows of a column, on all sides.
        check(&case([false; 3], f32s, &[4, 1], registers, columns()), "float4");
        // The thread layout has one element at a time.
        check(&case([false; 3], f32s, &[1, 1], registers, layout!((32, 4))), "x[");
        // Vectors along rows.
        check(&case([true; 3], f32s, &[1, 4], registers, layout!((32, 4) : (4, 1))), "float4");
        // y has the other order and is read element by element.
        check(&case([false, true, false], f32s, &[4, 1], registers, columns()), "float4");
        // Narrow elements: eight of bf16 are as wide as four of f32.
        check(&case([false; 3], [Elem::Bf16; 3], &[8, 1], registers, layout!((4, 16))), "uint4");
        check(&case([false; 3], [Elem::Bf16, Elem::F32, Elem::F32], &[4, 1], registers, columns()), "uint2");
        // Blocks of two by two in nested modes.
        check(&case([false; 3], f32s, &[2, 2], registers, layout!((8, 4))), "float2");
    }
}

/// Broadcast along a mode, from registers and from memory.
#[test]
fn broadcast_along_a_mode() {
    for from_memory in [false, true] {
        let mut b = Builder::new("spread");
        let x = matrix(&mut b, "x", Elem::F32, false, false).unwrap();
        let z = matrix(&mut b, "z", Elem::F32, false, true).unwrap();
        let bias = b.tensor("bias", Elem::F32, (1i64, Value::symbol("N")), None, false).unwrap();
        let threads = layout!((8, 16));
        let partition = Partition { values: vec![4, 1], ..Partition::default() };
        let x = b.tile(&x, (32, 16), &[block(0), block(1)]).unwrap();
        let z = b.tile(&z, (32, 16), &[block(0), block(1)]).unwrap();
        let bias = b.tile(&bias, (1, 16), &[At::Index(0.into()), block(1)]).unwrap();
        let (x, z) = (
            b.parallelize_over(&x, &threads, 0, &partition).unwrap(),
            b.parallelize_over(&z, &threads, 0, &partition).unwrap(),
        );
        // Threads of a column of the tile share its bias.
        let column = Coord::Thread(0);
        let at = tilewright_codegen::affine::Affine::from(column).submode(8, None);
        let mut bias = b.slice(&bias, &[At::All, At::Index(at)]).unwrap();
        bias.layout = Layout::from_modes([bias.layout.clone(), Layout::new(1i64, 0i64).unwrap()]).unwrap();
        let bias = if from_memory {
            bias
        } else {
            let own = b.registers("own", Elem::F32, (1i64, 1i64)).unwrap();
            b.copy(&bias, &own).unwrap();
            own
        };
        b.map(&[x, bias], &z, add(Expr::In(0), Expr::In(1))).unwrap();
        let program = b.finish();
        for (m, n) in [(32, 16), (37, 20)] {
            let (x, bias) = (numbers((m * n) as usize, 1), numbers(n as usize, 2));
            let args = Args::default()
                .size("M", m)
                .size("N", n)
                .size("ldx", m)
                .size("ldz", m)
                .size("ldbias", 1)
                .array("x", x.clone())
                .array("bias", bias.clone())
                .array("z", vec![f64::NAN; x.len()]);
            let wanted: Vec<f64> = x.iter().enumerate().map(|(at, x)| x + bias[at / m as usize]).collect();
            assert_close(&result(program.clone(), &args, "z"), &wanted, 1e-6);
        }
    }
}

/// Elements that are permuted within one fragment are not overwritten before they are read.
#[test]
fn fragments_are_permuted_in_place() {
    for (with_map, permuted) in [(true, [0, 2, 4, 1, 3, 5]), (false, [0, 2, 4, 1, 3, 5])] {
        let mut b = Builder::new("permute");
        let x = b.tensor("x", Elem::F32, (6i64,), None, false).unwrap();
        let y = b.tensor("y", Elem::F32, (6i64,), None, true).unwrap();
        let thread = layout!(1 : 1);
        let (x, y) = (b.parallelize(&x, &thread).unwrap(), b.parallelize(&y, &thread).unwrap());
        let own = b.registers("own", Elem::F32, (6i64,)).unwrap();
        b.copy(&x, &own).unwrap();
        let (two_by_three, three_by_two) =
            (b.regroup(&own, (2i64, 3i64)).unwrap(), b.regroup(&own, (3i64, 2i64)).unwrap());
        let other = b.permute(&two_by_three, &[1, 0]).unwrap();
        if with_map {
            b.map(&[other], &three_by_two, Expr::In(0)).unwrap();
        } else {
            b.copy(&other, &three_by_two).unwrap();
        }
        b.copy(&own, &y).unwrap();
        let args = Args::default().array("x", (0..6).map(f64::from)).array("y", [0.0; 6]);
        let wanted: Vec<f64> = permuted.iter().map(|&n| f64::from(n)).collect();
        assert_close(&result(b.finish(), &args, "y"), &wanted, 0.0);
    }
}

/// A copy between any two orders of the same tile, directly and through shared memory, with and without a
/// conversion.
#[test]
fn copies_between_all_orders() {
    let orders = [false, true];
    for (from_rows, to_rows) in orders.into_iter().flat_map(|x| orders.map(|y| (x, y))) {
        for elem in [Elem::F32, Elem::F16] {
            for through in [None, Some(layout!((32, 16) : (1, 33))), Some(layout!((32, 16) : (20, 1)))] {
                for (threads, values) in [
                    (layout!((8, 16)), vec![4, 1]),
                    (layout!((32, 4)), vec![1, 4]),
                    (layout!((16, 4) : (4, 1)), vec![1, 1]),
                    (layout!((16, 4)), vec![2, 2]),
                ] {
                    let mut b = Builder::new("turned");
                    let x = matrix(&mut b, "x", Elem::F32, from_rows, false).unwrap();
                    let z = matrix(&mut b, "z", elem, to_rows, true).unwrap();
                    let partition = Partition { values, ..Partition::default() };
                    let part = |b: &mut Builder, view: &View| {
                        let tile = b.tile(view, (32, 16), &[block(0), block(1)]).unwrap();
                        b.parallelize_over(&tile, &threads, 0, &partition).unwrap()
                    };
                    let (x, z) = (part(&mut b, &x), part(&mut b, &z));
                    if let Some(shared) = &through {
                        let s = b.shared("s", Elem::F32, shared.clone()).unwrap();
                        let s = b.parallelize_over(&s, &threads, 0, &partition).unwrap();
                        b.copy(&x, &s).unwrap();
                        b.wait(None, 0);
                        b.sync();
                        b.copy(&s, &z).unwrap();
                    } else {
                        b.copy(&x, &z).unwrap();
                    }
                    let program = b.finish();
                    for (m, n) in [(32i64, 16i64), (40, 36), (35, 13)] {
                        let x = numbers((m * n) as usize, 7);
                        let args = Args::default()
                            .size("M", m)
                            .size("N", n)
                            .size("ldx", if from_rows { n } else { m })
                            .size("ldz", if to_rows { n } else { m })
                            .array("x", x.clone())
                            .array("z", vec![f64::NAN; x.len()]);
                        let index =
                            |rows: bool, i: i64, j: i64| (if rows { i * n + j } else { i + j * m }) as usize;
                        let mut wanted = vec![0.0; x.len()];
                        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                            wanted[index(to_rows, i, j)] = rounded(x[index(from_rows, i, j)], elem);
                        }
                        assert_close(&result(program.clone(), &args, "z"), &wanted, 1e-6);
                    }
                }
            }
        }
    }
}

/// A choice by a scalar is a branch, where one side alone reads an input from memory.
#[test]
fn what_one_side_of_a_choice_reads_is_read_there() -> Result<()> {
    let mut b = Builder::new("chosen");
    let scalar = b.scalar("s", Elem::F32);
    let mut part = |name: &str, mutable: bool| -> Result<View> {
        let whole = b.tensor(name, Elem::F32, (Value::symbol("N"),), None, mutable)?;
        let tile = b.tile(&whole, (256,), &[block(0)])?;
        b.parallelize(&tile, &layout!(256))
    };
    let (x, y, z) = (part("x", false)?, part("y", false)?, part("z", true)?);
    let test = Expr::Cmp(Cmp::Ne, Box::new(scalar), Box::new(Expr::lit(0.0)));
    b.map(&[x, y], &z, Expr::Pick(Box::new([test, add(Expr::In(0), Expr::In(1)), Expr::In(0)])))?;
    let kernel = generate(b.finish()).kernel.expect("a kernel");
    let (before, branch) = kernel.source().split_once("if (s != 0.0f) {").expect("a branch");
    let (then, other) = branch.split_once("} else {").expect("another branch");
    assert!(
        !before.contains("= y[") && then.contains("= y[") && !other.contains("= y["),
        "{}",
        kernel.source()
    );
    Ok(())
}
