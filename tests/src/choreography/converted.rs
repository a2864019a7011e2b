//! A product with 4-bit weights, two per byte: a producer converts them on the way into a slot of the ring,
//! and multiplies them by the scale of their row.

use tilewright_codegen::Elem;
use tilewright_codegen::affine::{Affine, Coord};
use tilewright_codegen::build::Builder;
use tilewright_codegen::problem::Result;
use tilewright_codegen::thread::{Bin, Unroll};
use tilewright_codegen::tile::{Expr, Op, Order, Program, Ring};
use tilewright_codegen::view::{At, Partition, View};
use tilewright_layout::{Layout, Value, layout};

use super::{Choreography, last, matrix, tiles_of};
use crate::problem::{Operand, Values, Wanted};

const TILE: i64 = 32;
/// Bytes per k-step, each with two weights.
const BYTES: i64 = 8;
const STAGES: i64 = 2;

pub(super) fn choreography() -> Choreography {
    Choreography {
        name: "converted",
        program,
        reference,
        values: Values::Any,
        zeroed: &[],
        sizes: |random| {
            let mut below = |n: u32| (random.word() % n) as usize;
            let half = 1 + below(40);
            vec![("M", 1 + below(70)), ("N", 1 + below(70)), ("H", half), ("K", 2 * half)]
        },
        large: &[&[("M", 200), ("N", 300), ("H", 256), ("K", 512)]],
        sass: &["I2F", "SYNCS"],
    }
}

fn reference(operands: &[Operand], _: Values) -> Vec<Wanted> {
    let tensors: Vec<_> = operands
        .iter()
        .filter_map(|operand| if let Operand::Tensor(tensor) = operand { Some(tensor) } else { None })
        .collect();
    let [x, w, scale, y] = tensors[..] else { panic!("four tensors") };
    let [rows, columns] = y.extents[..] else { panic!("a matrix") };
    let half = w.extents[1];
    let mut wanted = Vec::new();
    for column in 0..columns {
        for row in 0..rows {
            let (mut value, mut size) = (0.0, 0.0);
            for byte in 0..half {
                let pair = w.values[column + byte * columns] as i32;
                for (odd, weight) in [(pair << 28) >> 28, pair >> 4].into_iter().enumerate() {
                    let x = x.values[row + (2 * byte + odd) * rows];
                    value += x * f64::from(weight) * scale.values[column];
                    size += (x * f64::from(weight) * scale.values[column]).abs();
                }
            }
            wanted.push(Wanted { value, within: 1e-6 * size + 1e-9 });
        }
    }
    wanted
}

fn program() -> Result<Program> {
    let mut b = Builder::new("converted");
    b.arch(90);
    let x = matrix(&mut b, "x", Elem::F32, ["M", "K"], false)?;
    let w = matrix(&mut b, "w", Elem::I8, ["N", "H"], false)?;
    let scale = b.tensor("scale", Elem::F32, (Value::symbol("N"),), None, false)?;
    let y = matrix(&mut b, "y", Elem::F32, ["M", "N"], true)?;
    let consumers = b.group("consumers", (0, 2), None);
    let producer = b.group("producer", (2, 4), None);
    // (rows, low or high half of a byte, bytes, slots): the middle two are K.
    let slots = |b: &mut Builder, name: &str| {
        let shape = (TILE, 2i64, BYTES, STAGES);
        b.shared(
            name,
            Elem::F32,
            Layout::new(shape, (1i64, TILE + 1, 2 * (TILE + 1), 2 * BYTES * (TILE + 1)))?,
        )
    };
    let (sx, sw) = (slots(&mut b, "sx")?, slots(&mut b, "sw")?);
    let ring = b.ring(Ring {
        name: "ring".into(),
        slots: STAGES as u32,
        buffers: vec![sx.tensor, sw.tensor],
        from: producer,
        to: consumers,
        arrivals: 64,
        over_cluster: false,
    });
    let (bx, by) = (At::Index(Coord::Block(0).into()), At::Index(Coord::Block(1).into()));
    let rows = b.tile(&x, (TILE, 2 * BYTES), &[bx.clone(), At::All])?;
    let weights = b.tile(&w, (TILE, BYTES), &[by.clone(), At::All])?;
    let scales = b.tile(&scale, (TILE,), std::slice::from_ref(&by))?;
    let out = b.tile(&y, (TILE, TILE), &[bx, by])?;
    let steps = tiles_of(Value::symbol("H"), BYTES);

    b.roles(vec![
        (
            consumers,
            Box::new(|b: &mut Builder| {
                let sums = layout!((8, 8));
                let out = b.parallelize_over(&out, &sums, consumers, &Partition::default())?;
                let acc = b.registers_like("acc", &out, 0.0)?;
                b.repeat("k", steps, Unroll::No, |b, _| -> Result<()> {
                    b.statement(Op::Await { ring, phase: Coord::Phase(ring).into() });
                    let slot = b.slot(ring);
                    let mut part = |view: &View, rows: bool| -> Result<View> {
                        let tile = last(b, view, &slot)?;
                        let tile = b.regroup(&tile, (TILE, 2 * BYTES))?;
                        b.parallelize_over(&tile, &sums, consumers, &keep(rows))
                    };
                    let (left, right) = (part(&sx, true)?, part(&sw, false)?);
                    b.gemm(&left, &right, &acc, Order::Plain)?;
                    b.statement(Op::Release { ring, phase: Coord::Phase(ring).into() });
                    b.statement(Op::Advance { ring });
                    Ok(())
                })?;
                b.copy(&acc, &out)
            }),
        ),
        (
            producer,
            Box::new(|b: &mut Builder| {
                let threads = layout!((32, 2));
                let scales = b.parallelize_over(&scales, &threads, producer, &keep(true))?;
                let factor = b.registers("factor", Elem::F32, (1i64,))?;
                b.copy(&scales, &factor)?;
                let factor = b.regroup(&factor, (1i64, 1i64))?;
                b.repeat("k", steps, Unroll::No, |b, step| -> Result<()> {
                    b.statement(Op::Acquire { ring, phase: Coord::Phase(ring).into() });
                    let slot = b.slot(ring);
                    let (from, to) = (last(b, &rows, &step)?, last(b, &sx, &slot)?);
                    let to = b.regroup(&to, (TILE, 2 * BYTES))?;
                    let mut part =
                        |view: &View| b.parallelize_over(view, &threads, producer, &Partition::default());
                    let (from, to) = (part(&from)?, part(&to)?);
                    let own = b.registers("own", Elem::F32, from.shape())?;
                    b.copy(&from, &own)?;
                    b.copy(&own, &to)?;
                    let from = last(b, &weights, &step)?;
                    let from = b.parallelize_over(&from, &threads, producer, &Partition::default())?;
                    let packed = b.registers("packed", Elem::I8, from.shape())?;
                    b.copy(&from, &packed)?;
                    for (odd, weight) in [low(), high()].into_iter().enumerate() {
                        let index =
                            [At::All, At::Index(Affine::from(odd as i64)), At::All, At::Index(slot.clone())];
                        let to = b.slice(&sw, &index)?;
                        let to = b.parallelize_over(&to, &threads, producer, &Partition::default())?;
                        b.map(&[packed.clone(), factor.clone()], &to, scaled(weight))?;
                    }
                    b.statement(Op::Publish { ring, phase: Coord::Phase(ring).into(), bytes: None });
                    b.statement(Op::Advance { ring });
                    Ok(())
                })
            }),
        ),
    ])?;
    Ok(b.finish())
}

/// A partition over threads along the rows or along the columns alone.
fn keep(rows: bool) -> Partition {
    Partition { keep: Some(vec![rows, !rows]), ..Partition::default() }
}

fn scaled(weight: Expr) -> Expr {
    Expr::Bin(Bin::Mul, Box::new(weight.cast(Elem::F32)), Box::new(Expr::In(1)))
}

fn byte() -> Box<Expr> {
    Box::new(Expr::In(0).cast(Elem::I32))
}

/// The lower four bits, sign-extended.
fn low() -> Expr {
    let (up, down) = (Box::new(Expr::lit(28)), Box::new(Expr::lit(28)));
    Expr::Bin(Bin::Shr, Box::new(Expr::Bin(Bin::Shl, byte(), up)), down)
}

/// The upper four bits, sign-extended.
fn high() -> Expr {
    Expr::Bin(Bin::Shr, byte(), Box::new(Expr::lit(4)))
}
