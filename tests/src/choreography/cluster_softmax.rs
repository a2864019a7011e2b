//! Softmax of rows distributed over the blocks of a cluster: each block reduces its part to a maximum and a
//! sum, and reads the results of the other blocks through distributed shared memory.

use tilewright_codegen::Elem;
use tilewright_codegen::affine::{Affine, Coord};
use tilewright_codegen::build::Builder;
use tilewright_codegen::problem::Result;
use tilewright_codegen::thread::{Bin, Un, Unroll};
use tilewright_codegen::tile::{Across, Expr, Op, Program, Raster};
use tilewright_codegen::view::{At, Partition, View};
use tilewright_layout::{Value, layout};

use super::{Choreography, last, matrix, sum, tiles_of, times};
use crate::memory;
use crate::problem::Values;

const CLUSTER: i64 = 4;
/// Elements of a row that a block loads per iteration.
const PART: i64 = 512;

pub(super) fn choreography() -> Choreography {
    Choreography {
        name: "cluster_softmax",
        program,
        reference: memory::softmax,
        values: Values::Any,
        zeroed: &[],
        sizes: |random| {
            let mut below = |n: u32| (random.word() % n) as usize;
            vec![("M", 1 + below(5)), ("N", 1 + below(5000))]
        },
        large: &[&[("M", 300), ("N", 20000)], &[("M", 7), ("N", 4096)], &[("M", 3), ("N", 1)]],
        sass: &["MUFU.EX2", "LD.E", "UCGABAR_ARV"],
    }
}

fn program() -> Result<Program> {
    let mut b = Builder::new("cluster_softmax");
    b.arch(90).cluster([CLUSTER as u32, 1, 1]).persistent();
    let x = matrix(&mut b, "x", Elem::F32, ["M", "N"], false)?;
    let y = matrix(&mut b, "y", Elem::F32, ["M", "N"], true)?;
    let threads = layout!((1, 128));
    let four = Partition { values: vec![1, 4], ..Partition::default() };
    let rank = Affine::from(Coord::ClusterRank);
    let steps = tiles_of(Value::symbol("N"), CLUSTER * PART);
    // One copy of the value per thread: each thread writes its own element, and reads it from the other
    // blocks.
    let (most_of, total_of) = (
        b.shared("most_of", Elem::F32, layout!((1, 128)))?,
        b.shared("total_of", Elem::F32, layout!((1, 128)))?,
    );
    let (most_of, total_of) = (b.parallelize(&most_of, &threads)?, b.parallelize(&total_of, &threads)?);

    b.tiles(&[("row", Value::symbol("M"))], Raster::Plain, |b, at| -> Result<()> {
        let mut parts = |view: &View| -> Result<View> {
            let row = b.tile(view, (1, PART), &[At::Index(at[0].clone()), At::All])?;
            b.parallelize_over(&row, &threads, 0, &four)
        };
        let (from, to) = (parts(&x)?, parts(&y)?);
        let first = last(b, &from, &0.into())?;
        let own = b.registers("own", Elem::F32, first.shape())?;
        let index = |step: &Affine| sum(times(step, CLUSTER), &rank);
        let most = b.registers("most", Elem::F32, (1i64, 1i64))?;
        let total = b.registers("total", Elem::F32, (1i64, 1i64))?;
        let other = b.registers("other", Elem::F32, (1i64, 1i64))?;

        b.fill(&most, Expr::lit(f64::NEG_INFINITY))?;
        b.repeat("j", steps, Unroll::No, |b, step| -> Result<()> {
            let from = last(b, &from, &index(&step))?;
            b.copy_filled(&from, &own, f64::NEG_INFINITY)?;
            b.reduce(&own, &most, Bin::Max, Across::Thread)
        })?;
        let part = b.registers_like("part", &most, f64::NEG_INFINITY)?;
        b.reduce(&most, &part, Bin::Max, Across::Block)?;
        exchange(b, &part, &most_of, &other, Bin::Max)?;

        b.fill(&total, Expr::lit(0.0))?;
        let less = || Box::new(Expr::Bin(Bin::Sub, Box::new(Expr::In(0)), Box::new(Expr::In(1))));
        b.repeat("j", steps, Unroll::No, |b, step| -> Result<()> {
            let from = last(b, &from, &index(&step))?;
            b.copy_filled(&from, &own, f64::NEG_INFINITY)?;
            b.map(&[own.clone(), part.clone()], &own, Expr::Un(Un::Exp, less()))?;
            b.reduce(&own, &total, Bin::Add, Across::Thread)
        })?;
        let whole = b.registers_like("whole", &total, 0.0)?;
        b.reduce(&total, &whole, Bin::Add, Across::Block)?;
        exchange(b, &whole, &total_of, &other, Bin::Add)?;

        b.repeat("j", steps, Unroll::No, |b, step| -> Result<()> {
            let (from, to) = (last(b, &from, &index(&step))?, last(b, &to, &index(&step))?);
            b.copy(&from, &own)?;
            let quotient = Expr::Bin(Bin::Div, Box::new(Expr::Un(Un::Exp, less())), Box::new(Expr::In(2)));
            b.map(&[own.clone(), part.clone(), whole.clone()], &own, quotient)?;
            b.copy(&own, &to)
        })
    })?;
    Ok(b.finish())
}

/// Combines the values of all blocks of the cluster, in the order of their ranks, so that all get the same
/// bits.
fn exchange(b: &mut Builder, part: &View, shared: &View, other: &View, with: Bin) -> Result<()> {
    b.copy(part, shared)?;
    b.statement(Op::SyncCluster);
    for rank in 0..CLUSTER {
        let theirs = b.of_peer(shared, &rank.into())?;
        match rank {
            0 => b.copy(&theirs, part)?,
            _ => {
                b.copy(&theirs, other)?;
                let both = Expr::Bin(with, Box::new(Expr::In(0)), Box::new(Expr::In(1)));
                b.map(&[part.clone(), other.clone()], part, both)?;
            }
        }
    }
    Ok(())
}
