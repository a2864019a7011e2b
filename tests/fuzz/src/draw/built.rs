//! Programs of the builder for features without syntax: groups of threads with rings between them, and
//! instructions of the table.

use tilewright_codegen::affine::{Affine, Coord};
use tilewright_codegen::atom::OperandName;
use tilewright_codegen::build::Builder;
use tilewright_codegen::isa;
use tilewright_codegen::problem::{Problem, Result};
use tilewright_codegen::thread::{Bin, Unroll};
use tilewright_codegen::tile::{Across, Expr, How, Op, Order, Program, Ring};
use tilewright_codegen::tiled::TiledMma;
use tilewright_codegen::view::{At, Partition, View};
use tilewright_codegen::{Elem, thread::Id};
use tilewright_layout::{Composed, Layout, Swizzle, Value};

use crate::random::Random;

fn flat(modes: &[i64]) -> Result<Layout> {
    Ok(Layout::compact(tilewright_layout::Tuple::flat(modes))?)
}

fn block(axis: u8) -> At {
    At::Index(Coord::Block(axis).into())
}

/// A producer group copies tiles into the slots of a ring, a consumer group adds them up.
pub(super) fn roles(random: &mut Random) -> Result<Program> {
    let elem = random.pick(&[Elem::F32, Elem::F32, Elem::I32, Elem::F64, Elem::F16]);
    let (fillers, readers) = (random.within(1, 2) as u32, random.within(1, 2) as u32);
    let first = random.chance(50);
    let slots = random.within(1, 3);
    let (warps_of_from, warps_of_to) = match first {
        true => ((0, fillers), (fillers, fillers + readers)),
        false => ((readers, readers + fillers), (0, readers)),
    };
    let mut b = Builder::new("drawn");
    let (m, k) = (Value::symbol("M"), Value::symbol("K"));
    let x = b.tensor("x", elem, (m, k), None, false)?;
    let y = b.tensor("y", elem, (m,), None, true)?;
    let from = b.group("from", warps_of_from, None);
    let to = b.group("to", warps_of_to, None);
    // The tile's rows are a multiple of the threads of both groups.
    let (tall, wide) = (64 * random.within(1, 2), random.within(1, 4));
    let tile = b.shared("tile", elem, flat(&[tall, wide, slots])?)?;
    let plain = random.chance(50);
    let ring = b.ring(Ring {
        name: "ring".into(),
        slots: slots as u32,
        buffers: vec![tile.tensor],
        from,
        to,
        arrivals: fillers * 32,
        over_cluster: false,
    });
    let tiles = b.tile(&x, (tall, wide), &[block(0), At::All])?.with_name("tiles");
    let out = b.tile(&y, (tall,), &[block(0)])?.with_name("out");
    let steps = k.ceil_div(wide).ok_or_else(|| Problem::new("no such loop"))?;
    let threads = |warps: u32| flat(&[i64::from(warps) * 32, 1]);
    let (of_from, of_to) = (threads(fillers)?, threads(readers)?);
    let columns = flat(&[i64::from(readers) * 32])?;
    let values = vec![if random.chance(50) { random.pick(&[1, 2]) } else { 1 }];
    let met = random.chance(30);
    let reduces = random.chance(30);
    let at = |b: &mut Builder, view: &View, index: &Affine| {
        b.slice(view, &[At::All, At::All, At::Index(index.clone())])
    };
    let fill = |b: &mut Builder| -> Result<()> {
        let partition = Partition { values: values.clone(), ..Partition::default() };
        let source = b.parallelize_over(&tiles, &of_from, from, &partition)?;
        let target = b.parallelize_over(&tile, &of_from, from, &partition)?;
        b.repeat("k", steps, Unroll::No, |b, phase| -> Result<()> {
            b.statement(Op::Acquire { ring, phase: phase.clone() });
            let slot = phase.submode(1, Some(slots));
            let (source, target) = (at(b, &source, &phase)?, at(b, &target, &slot)?);
            match plain {
                true => b.copy_how(&source, &target, How::Plain, None)?,
                false => {
                    b.copy(&source, &target)?;
                    b.wait_copies(0);
                }
            }
            if met {
                b.sync();
            }
            b.statement(Op::Publish { ring, phase, bytes: None });
            Ok(())
        })
    };
    let read = |b: &mut Builder| -> Result<()> {
        let own = b.parallelize_over(&tile, &of_to, to, &Partition::default())?;
        let out = b.parallelize_over(&out, &columns, to, &Partition::default())?;
        let each = tall / (i64::from(readers) * 32);
        let sum = b.registers("sum", elem, (each, 1i64))?;
        b.fill(&sum, Expr::lit(0))?;
        b.repeat("k", steps, Unroll::No, |b, phase| -> Result<()> {
            b.statement(Op::Await { ring, phase: phase.clone() });
            let slot = phase.submode(1, Some(slots));
            let part = at(b, &own, &slot)?;
            let fragment = b.registers("fragment", elem, (each, wide))?;
            b.copy(&part, &fragment)?;
            b.statement(Op::Release { ring, phase });
            b.reduce(&fragment, &sum, Bin::Add, Across::Thread)
        })?;
        if reduces {
            b.reduce(&sum, &sum, Bin::Max, Across::Block)?;
        }
        let sums = b.slice(&sum, &[At::All, At::Index(0.into())])?;
        b.copy(&sums, &out)
    };
    let mut all: Vec<(Id, tilewright_codegen::build::Role<'_>)> =
        vec![(from, Box::new(fill)), (to, Box::new(read))];
    if random.chance(50) {
        all.reverse();
    }
    b.roles(all)?;
    Ok(b.finish())
}

/// Matrices in the registers of warps: ldmatrix or plain copies, then the product of a row of the table.
pub(super) fn matrices(random: &mut Random) -> Result<Program> {
    let (name, elem, sums, k_step) = random.pick(&[
        ("mma_m16n8k16_f16", Elem::F16, Elem::F32, 16i64),
        ("mma_m16n8k16_f16", Elem::F16, Elem::F32, 16),
        ("mma_m16n8k16_bf16", Elem::Bf16, Elem::F32, 16),
        ("mma_m16n8k32_i8", Elem::I8, Elem::I32, 32),
        ("mma_m8n8k4_f64", Elem::F64, Elem::F64, 4),
    ]);
    let (tall, warps) =
        (if elem == Elem::F64 { 8 } else { 16 }, [random.pick(&[1i64, 2]), random.pick(&[1, 2])]);
    let m = tall * warps[0] * random.within(1, 2);
    let n = 8 * warps[1] * random.within(1, 2);
    let k = k_step * random.within(1, 2);
    let mut b = Builder::new("drawn");
    let size = Value::symbol;
    let rows = |name: &str| Some(tilewright_layout::Tuple::of([size(name).into(), 1i64.into()]));
    let a = b.tensor("a", elem, (size("M"), size("K")), rows("lda"), false)?;
    let bt = b.tensor("b", elem, (size("N"), size("K")), rows("ldb"), false)?;
    let c = b.tensor("c", sums, (size("M"), size("N")), None, true)?;
    let moved = elem.bytes() == 2 && random.chance(85);
    let pad = if moved { 8 } else { random.pick(&[0, 1, 8]) };
    let lay = |rows: i64, random: &mut Random| -> Result<Composed> {
        if moved && k == 32 && random.chance(50) {
            return Ok(Composed::new(Swizzle::new(2, 3, 3)?, 0, Layout::new((rows, k), (k, 1i64))?));
        }
        Ok(Layout::new((rows, k), (k + pad, 1i64))?.into())
    };
    let (sa, sb) = (lay(m, random)?, lay(n, random)?);
    let (sa, sb) = (b.shared("sa", elem, sa)?, b.shared("sb", elem, sb)?);
    let ga = b.tile(&a, (m, k), &[block(0), At::All])?.with_name("ga");
    let gb = b.tile(&bt, (n, k), &[block(1), At::All])?.with_name("gb");
    let gc = b.tile(&c, (m, n), &[block(0), block(1)])?.with_name("gc");
    let lanes = 32 * warps[0] * warps[1];
    let across = random.pick(&[2i64, 4]);
    let threads = Layout::new((lanes / across, across), (across, 1i64))?;
    let ragged = Partition { ragged: true, ..Partition::default() };
    let (of_a, to_a) =
        (b.parallelize_over(&ga, &threads, 0, &ragged)?, b.parallelize_over(&sa, &threads, 0, &ragged)?);
    let (of_b, to_b) =
        (b.parallelize_over(&gb, &threads, 0, &ragged)?, b.parallelize_over(&sb, &threads, 0, &ragged)?);
    let mma = TiledMma::new(name, &flat(&warps)?)?;
    let out = b.partition_operand(&mma, OperandName::D, &gc)?.with_name("out");
    let acc = b.fragment("acc", sums, &out)?;
    b.fill(&acc, Expr::lit(0))?;
    let steps = size("K").ceil_div(k).ok_or_else(|| Problem::new("no such loop"))?;
    b.repeat("k", steps, Unroll::No, |b, step| -> Result<()> {
        let at = [At::All, At::All, At::Index(step)];
        for (from, to) in [(&of_a, &to_a), (&of_b, &to_b)] {
            let from = b.slice(from, &at)?;
            b.copy_how(&from, to, How::Plain, None)?;
        }
        b.sync();
        let mut loaded = |of: &View, operand, name: &str, mover: &str| -> Result<View> {
            let part = b.partition_operand(&mma, operand, of)?.with_name(&format!("part_{name}"));
            let fragment = b.fragment(&format!("f{name}"), elem, &part)?;
            if moved {
                let rows =
                    b.partition_operand_rows(&mma, operand, of, mover)?.with_name(&format!("rows_{name}"));
                let to = b.retile(&fragment, &rows)?;
                b.copy_how(&rows, &to, How::Atom(isa::named(mover)?), None)?;
            } else {
                b.copy(&part, &fragment)?;
            }
            Ok(fragment)
        };
        let fa = loaded(&sa, OperandName::A, "a", "ldmatrix_x4")?;
        let fb = loaded(&sb, OperandName::B, "b", "ldmatrix_x2")?;
        b.gemm_how(&fa, &fb, &acc, How::Atom(mma.row), Order::Plain, None)?;
        b.sync();
        Ok(())
    })?;
    b.copy(&acc, &out)?;
    Ok(b.finish())
}
