//! Split-K with fix-up in the kernel: each block of a tile writes its partial sum into a workspace and raises
//! the tile's flag; the last block adds the partial sums in order, so that results are deterministic.

use tilewright_codegen::Elem;
use tilewright_codegen::affine::Affine;
use tilewright_codegen::build::Builder;
use tilewright_codegen::problem::Result;
use tilewright_codegen::thread::{Bin, Change, Unroll};
use tilewright_codegen::tile::{Expr, Order, Program, Raster};
use tilewright_codegen::view::{At, Partition, View};
use tilewright_layout::{Tuple, Value, layout};

use super::{Choreography, last, matrix, sum, tiles_of, times};
use crate::problem::{self, Operand, Values, Wanted};

const TILE: i64 = 32;
const BK: i64 = 8;
const PARTS: i64 = 3;

pub(super) fn choreography() -> Choreography {
    Choreography {
        name: "fix_up",
        program,
        reference,
        values: Values::Whole,
        zeroed: &["flags"],
        sizes: |random| {
            let mut below = |n: u32| (random.word() % n) as usize;
            sizes(1 + below(90), 1 + below(70), 1 + below(100))
        },
        large: &[
            &[("M", 1000), ("N", 500), ("K", 900), ("TM", 32), ("TN", 16)],
            &[("M", 64), ("N", 64), ("K", 4096), ("TM", 2), ("TN", 2)],
        ],
        sass: &["LDG.E.STRONG.GPU", "MEMBAR"],
    }
}

fn sizes(m: usize, n: usize, k: usize) -> super::Sizes {
    let tiles = |extent: usize| extent.div_ceil(TILE as usize);
    vec![("M", m), ("N", n), ("K", k), ("TM", tiles(m)), ("TN", tiles(n))]
}

fn reference(operands: &[Operand], values: Values) -> Vec<Wanted> {
    problem::product(&operands[..3], values)
}

fn program() -> Result<Program> {
    let mut b = Builder::new("fix_up");
    b.persistent();
    let a = matrix(&mut b, "a", Elem::F32, ["M", "K"], false)?;
    let bt = matrix(&mut b, "b", Elem::F32, ["N", "K"], false)?;
    let c = matrix(&mut b, "c", Elem::F32, ["M", "N"], true)?;
    let extents = [Value::symbol("M"), Value::symbol("N"), Value::Int(PARTS - 1)];
    let work = b.tensor("work", Elem::F32, Tuple::of(extents.map(Tuple::from)), None, true)?;
    let flags = matrix(&mut b, "flags", Elem::I32, ["TM", "TN"], true)?;
    let (sa, sb) = (
        b.shared("sa", Elem::F32, layout!((32, 8) : (1, 33)))?,
        b.shared("sb", Elem::F32, layout!((32, 8) : (1, 33)))?,
    );
    let (copies, sums) = (layout!((8, 8)), layout!((8, 8)));
    let keep = |rows: bool| Partition { keep: Some(vec![rows, !rows]), ..Partition::default() };
    let (to_a, to_b) = (b.parallelize(&sa, &copies)?, b.parallelize(&sb, &copies)?);
    let (own_a, own_b) =
        (b.parallelize_over(&sa, &sums, 0, &keep(true))?, b.parallelize_over(&sb, &sums, 0, &keep(false))?);
    // The K parts of a tile are consecutive blocks, so that the last one waits only for blocks that started
    // earlier.
    let tiles = [
        ("part", Value::Int(PARTS)),
        ("row", tiles_of(Value::symbol("M"), TILE)),
        ("column", tiles_of(Value::symbol("N"), TILE)),
    ];
    b.tiles(&tiles, Raster::Plain, |b, at| -> Result<()> {
        let [part, row, column] = [0, 1, 2].map(|mode| at[mode].clone());
        let rows = b.tile(&a, (TILE, BK), &[At::Index(row.clone()), At::All])?;
        let columns = b.tile(&bt, (TILE, BK), &[At::Index(column.clone()), At::All])?;
        let (from_a, from_b) = (b.parallelize(&rows, &copies)?, b.parallelize(&columns, &copies)?);
        let index = [At::Index(row.clone()), At::Index(column.clone())];
        let out = b.tile(&c, (TILE, TILE), &index)?;
        let out = b.parallelize(&out, &sums)?;
        let acc = b.registers_like("acc", &out, 0.0)?;
        b.repeat("k", tiles_of(Value::symbol("K"), PARTS * BK), Unroll::No, |b, step| -> Result<()> {
            let step = sum(times(&step, PARTS), &part);
            for (from, to) in [(&from_a, &to_a), (&from_b, &to_b)] {
                let from = last(b, from, &step)?;
                b.copy(&from, to)?;
            }
            b.wait(None, 0);
            b.sync();
            b.gemm(&own_a, &own_b, &acc, Order::Plain)?;
            b.sync();
            Ok(())
        })?;
        let flag = b.tile(&flags, (1, 1), &index)?;
        let kept = |b: &mut Builder, part: &Affine| -> Result<View> {
            let tile = b.tile(
                &work,
                (TILE, TILE, 1),
                &[index[0].clone(), index[1].clone(), At::Index(part.clone())],
            )?;
            let tile = b.slice(&tile, &[At::All, At::All, At::Index(0.into())])?;
            b.parallelize(&tile, &sums)
        };
        b.condition(&part, Value::Int(PARTS - 1), |b| {
            let to = kept(b, &part)?;
            b.copy(&acc, &to)?;
            b.flag(&flag, Change::Add, &1.into())
        })?;
        let left = sum(times(&part, -1), &(PARTS - 1).into());
        b.condition(&left, Value::Int(1), |b| {
            b.flag(&flag, Change::Await, &(PARTS - 1).into())?;
            let other = b.registers_like("other", &out, 0.0)?;
            for part in 0..PARTS - 1 {
                let from = kept(b, &part.into())?;
                b.copy(&from, &other)?;
                let both = Expr::Bin(Bin::Add, Box::new(Expr::In(0)), Box::new(Expr::In(1)));
                b.map(&[acc.clone(), other.clone()], &acc, both)?;
            }
            b.copy(&acc, &out)
        })
    })?;
    Ok(b.finish())
}
